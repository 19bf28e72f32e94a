"""Reading a question: its words, whom and when it names, and who is speaking.

Pure, and the same for every store: `terms` is what full text is asked for, the rest is what a memory's author and
date are compared with. Also here: how a date and a text are written down with a memory, so that questions meet them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo

from recollect.domain.text.tokenizer import folded, is_paired, parts, tokens

_STOP_WORDS = """a about above after again against all also am an and any are as at be because been before being
below between both but by can could did do does doing done down during each else ever few for from further get gets
getting got had has have having he her here hers herself him himself his how i if in into is it its itself just let
like made make many may me might more most much must my myself no nor not now of off on once one only or other our
ours ourselves out over own per please same shall she should so some such than that the their theirs them themselves
then there these they this those through to too under until up upon us very was we were what when where whether which
while who whom whose why will with within without would yet you your yours yourself yourselves ain aren couldn didn
doesn don hadn hasn haven isn ll m re s shan shouldn t ve wasn weren won wouldn d"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
_MONTHS = "January February March April May June July August September October November December"
MONTHS = tuple(_MONTHS.split())
USER_ROLES = frozenset({"user", "human", "me"})
ASSISTANT_ROLES = frozenset({"assistant", "ai", "agent", "bot", "model"})

# Each is looked for in the index and in every text of the pool; a pasted page must not take a thousand looks.
MOST_TERMS = 256
LONGEST_NAME = 200  # characters of an identifier

WORD = re.compile(r"[^\W_]+")
# Every pattern here meets text from outside, so none may take longer than its length: what is repeated is possessive,
# what stands at the end of something is looked for in the few characters before it.
_FIRST_PERSON = re.compile(r"\b(?:i|me|my|mine|myself)\b", re.IGNORECASE)
# "Our last conversation" holds what both said, so it speaks of the assistant as much as of the user.
_SECOND_PERSON = re.compile(
    r"\b(?:you|your|yours|yourself|our (?:\w+ )?(?:conversation|chat|discussion|session)s?)\b", re.IGNORECASE
)
# "Can you remind me ..." addresses whoever answers; it does not ask about what that one said.
_ADDRESS = re.compile(
    r"\b(?:(?:can|could|would|will) you(?: please)?|you (?:can|could|would)|do you (?:remember|recall|know)|"
    r"(?:remind|tell|show|give) me)\b",
    re.IGNORECASE,
)
_MONTH = "|".join(rf"{month[:3]}(?:{month[3:]})?" if month[3:] else month for month in MONTHS)
_DAY_OF = r"(?:\b(\d{1,2})(?:st|nd|rd|th)?\s+(?:of\s+)?)?"
_DAY_AFTER = r"(?:\s+(\d{1,2})(?:st|nd|rd|th)?\b)?"
_DATE = re.compile(rf"{_DAY_OF}\b({_MONTH})\b\.?{_DAY_AFTER}(?:,?\s+((?:19|20)\d\d)\b)?", re.IGNORECASE)
_ISO_DATE = re.compile(r"\b((?:19|20)\d\d)-(\d\d)(?:-(\d\d))?\b")
_YEAR = re.compile(r"\b((?:19|20)\d\d)\b")
_BEFORE_A_MONTH = re.compile(
    r"\b(?:in|of|on|since|during|until|before|after|by|last|this|early|late|mid)[\s-]+$", re.IGNORECASE
)
_FROM_THEN_ON = re.compile(r"\b(?:since|after)\s+$", re.IGNORECASE)
_UP_TO_THEN = re.compile(r"\b(?:before|until|till|prior to)\s+$", re.IGNORECASE)
_AGO = re.compile(r"\b(\d{1,3}|a|an|one|two|three|four|five|six)\s+(day|week|month|year)s?\s+ago\b", re.IGNORECASE)
_RELATIVE = re.compile(r"\b(today|yesterday|(?:last|this|past)\s+(?:week|month|year))\b", re.IGNORECASE)
_COUNTS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
_UNIT_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}
_REACH_BACK = 24  # characters: "prior to" and some space
_HE_OR_SHE = re.compile(r"\b(?:he|she|his|her|him|himself|herself)\b", re.IGNORECASE)
_OWN_PRONOUN = {"he": "I", "she": "I", "his": "my", "her": "my", "him": "me"}
_VERB_BEFORE_I = re.compile(r"\b(does|has|is) I\b", re.IGNORECASE)
_AGREEING = {"does": "do", "has": "have", "is": "am"}


@dataclass(frozen=True, slots=True)
class NamedTime:
    """A time the question names: from `first` to `last`, both included, None for open; or a month of any year."""

    first: date | None = None
    last: date | None = None
    month: int | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """What a question says about the memory it looks for.

    `terms` is what to ask the full-text index for, any of them, folded as in `domain/text/tokenizer.py`: each a word,
    an identifier such as `err-4012` besides its words, or a run of characters of a script without spaces.
    """

    text: str
    terms: tuple[str, ...]
    names: frozenset[str]
    times: tuple[NamedTime, ...]
    first_person: bool
    second_person: bool
    zone: tzinfo | None = None
    """Where the days it names are meant; UTC where that is not known."""

    def day_of(self, moment: datetime) -> date:
        """The day a moment lies on for whoever asks."""
        try:
            return (moment.astimezone(self.zone) if self.zone is not None else moment).date()
        except OverflowError:  # the first and last days of the calendar have no local time everywhere
            return moment.date()

    def named_authors(self, authors: Collection[str]) -> list[str]:
        """Those of the authors whom the question names."""
        return [author for author in sorted(set(authors)) if self._names(author)]

    def _names(self, author: str) -> bool:
        """By name in any case; of a name of several words one is enough, if written as a name."""
        parts = WORD.findall(author)
        if not parts or author.casefold() in USER_ROLES | ASSISTANT_ROLES:
            return False
        if any(part.capitalize() in self.names or part in self.names for part in parts):
            return True
        return all(folded(part) in self.terms for part in parts)

    def rephrased(self, authors: Collection[str]) -> str | None:
        """The question as a named author would put it, None if it names none of them.

        People speak of themselves as I, not by name, so a vector of their words is nearer to this one.
        """
        named = self.named_authors(authors)
        if not named:
            return None
        text = self.text
        for author in named:
            parts = "|".join(re.escape(part) for part in WORD.findall(author))
            name = rf"(?<!\w)(?:{parts})(?!\w)(?:\W(?:{parts})(?!\w))*+(['’]s?(?!\w))?"
            text = re.sub(name, lambda found: "my" if found[1] else "I", text, flags=re.IGNORECASE)
        text = _HE_OR_SHE.sub(lambda found: _OWN_PRONOUN.get(found[0].lower(), "myself"), text)
        return _VERB_BEFORE_I.sub(lambda found: f"{_AGREEING[found[1].lower()]} I", text)


def read_question(text: str, now: datetime | None = None) -> Question:
    """Reads the question; "last week" and its like count from `now` and say nothing without it."""
    spoken = _ADDRESS.sub(" ", text)
    return Question(
        text=text,
        terms=_terms(text),
        names=_names(text),
        times=tuple(_times(text, now)),
        first_person=bool(_FIRST_PERSON.search(spoken)),
        second_person=bool(_SECOND_PERSON.search(spoken)),
        zone=now.tzinfo if now is not None else None,
    )


def _terms(text: str) -> tuple[str, ...]:
    """The words that carry meaning (all, if none does): stop words cost full-text search 6 points of R@10."""
    words: dict[str, None] = {}
    for token in tokens(text):
        words |= dict.fromkeys([token[:MOST_TERMS]] if is_paired(token) else parts(token))
        if len(words) > 2 * MOST_TERMS:
            break
    kept = [word for word in words if word not in STOP_WORDS] or list(words)
    identifiers = dict.fromkeys(token for token in tokens(text) if not token.isalnum() and len(token) <= LONGEST_NAME)
    return _within_bounds([*kept, *identifiers])


def _within_bounds(words: Sequence[str]) -> tuple[str, ...]:
    """As many of the words as make MOST_TERMS terms: a run of characters makes one for each of them."""
    room, kept = MOST_TERMS, []
    for word in dict.fromkeys(words):
        room -= len(word) if is_paired(word) else 1
        if room < 0:
            break
        kept.append(word)
    return tuple(kept)


def _names(text: str) -> frozenset[str]:
    """Words written as names. At the start any word is, so there a stop word ("Will he ...") is none."""
    words = WORD.findall(text)
    inner = [word for word in words[1:] if word[0].isupper() and word != "I"]
    return frozenset([*inner, *(word for word in words[:1] if word[0].isupper() and word.casefold() not in STOP_WORDS)])


def _times(text: str, now: datetime | None) -> list[NamedTime]:
    found = [
        _open_ended(_calendar_time(int(match[1]), int(match[2]), int(match[3] or 0)), text, match)
        for match in _ISO_DATE.finditer(text)
    ]
    for match in _DATE.finditer(text):
        if _is_a_month(match, text):
            month = next(i for i, name in enumerate(MONTHS, 1) if name[:3].lower() == match[2][:3].lower())
            time = _calendar_time(int(match[4] or 0), month, int(match[1] or match[3] or 0))
            found.append(_open_ended(time, text, match))
    if not found:
        for match in _YEAR.finditer(text):
            year = int(match[1])
            found.append(_open_ended(NamedTime(date(year, 1, 1), date(year, 12, 31)), text, match))
    if now is not None and now.year > 150:  # "a hundred years ago" must still have a date
        found.extend(_relative_times(text, now.date()))
    return [time for time in found if time is not None]


def _is_a_month(match: re.Match[str], text: str) -> bool:
    """May and march are verbs, too: without a day or a year they need "in", "last" or the like before them."""
    if match[1] or match[3] or match[4]:
        return True
    if not match[2][0].isupper():
        return False
    return match[2] not in {"May", "Mar", "March"} or bool(_BEFORE_A_MONTH.search(_before(match, text)))


def _before(match: re.Match[str], text: str) -> str:
    return text[max(0, match.start() - _REACH_BACK) : match.start()]


def _calendar_time(year: int, month: int, day: int) -> NamedTime | None:
    """0 stands for a part that was not named; a date that no calendar has is None."""
    if not 1 <= month <= 12:
        return None
    if not year:
        return NamedTime(month=month)
    try:
        first = date(year, month, day or 1)
    except ValueError:
        return None
    next_month = date(year + month // 12, month % 12 + 1, 1)
    return NamedTime(first, first if day else next_month - timedelta(days=1))


def _open_ended(time: NamedTime | None, text: str, match: re.Match[str]) -> NamedTime | None:
    if time is None or time.month:
        return time
    before = _before(match, text)
    if _FROM_THEN_ON.search(before):
        return NamedTime(first=time.first)
    return NamedTime(last=time.last) if _UP_TO_THEN.search(before) else time


def _relative_times(text: str, today: date) -> list[NamedTime]:
    found = []
    for match in _AGO.finditer(text):
        unit = _UNIT_DAYS[match[2].lower()]
        middle = today - timedelta(days=unit * (_COUNTS.get(match[1].lower()) or int(match[1])))
        found.append(NamedTime(middle - timedelta(days=unit // 2), middle + timedelta(days=unit // 2)))
    for match in _RELATIVE.finditer(text):
        which, *unit_name = match[1].lower().split()
        if unit_name:
            # "Last month" is used for the past 30 days as well as for the calendar's, so it reaches over both.
            reach = _UNIT_DAYS[unit_name[0]] * (2 if which == "last" else 1)
            found.append(NamedTime(today - timedelta(days=reach), today))
        else:
            day = today - timedelta(days=int(which == "yesterday"))
            found.append(NamedTime(day, day))
    return found


def moment_words(at: datetime) -> str:
    """The date as questions write it, for a full-text column of its own: +1.6 R@10 in full-text search."""
    return f"{at.day} {MONTHS[at.month - 1]} {at.year}"


def embedded_text(author: str | None, text: str) -> str:
    """The text alone. With "author: " before it R@10 was 0.1 to 0.4 lower, and a renaming would embed anew."""
    return text
