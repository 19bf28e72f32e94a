"""Reading a question: its words, whom and when it names, and who is speaking.

Pure, and the same for every store: `terms` is what full text is asked for, the rest is what a memory's author and
date are compared with; times are read in `named_times.py`. Also here: how a date and a text are written down with a
memory, so that questions meet them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, tzinfo
from functools import lru_cache

from recollect.domain.text.named_times import NamedTime, named_times
from recollect.domain.text.spelling import meant
from recollect.domain.text.time_words import MONTHS
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
USER_ROLES = frozenset({"user", "human", "me"})
ASSISTANT_ROLES = frozenset({"assistant", "ai", "agent", "bot", "model"})
_ROLES = USER_ROLES | ASSISTANT_ROLES

# Each is looked for in the index and in every text of the pool; a pasted page must not take a thousand looks.
MOST_TERMS = 256
LONGEST_NAME = 200  # characters of an identifier

WORD = re.compile(r"[^\W_]+")
# Every pattern here meets text from outside, so none may take longer than its length: what is repeated is possessive.
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
_ASKING = re.compile(
    r"\W*+(?:who|whom|whose|what|when|where|why|which|how|is|are|was|were|do|does|did|has|have|had|can|could|should|would|"
    r"will|tell me|remind me|list|summari[sz]e|describe|find|show)\b",
    re.IGNORECASE,
)
FEW_WORDS = 4  # what is typed into a search box
# As in what people tell of themselves; "i" alone is also a letter of a list.
_SELF = re.compile(r"\b(?:I|I'[a-z]{1,2}|[Mm]y|[Mm]e|[Mm]yself|we|We|[Oo]ur|us)\b")
_AFTER_PREPOSITION = re.compile(r"\b(?:in|at|from|to|of|on|for|with|about|by|near|the)\s+$", re.IGNORECASE)
MOSTLY, LOOKED_AT = 0.5, 2000  # of the texts; characters of each
_HE_OR_SHE = re.compile(r"\b(?:he|she|his|her|him|himself|herself)\b", re.IGNORECASE)
_OWN_PRONOUN = {"he": "I", "she": "I", "his": "my", "her": "my", "him": "me"}
_VERB_BEFORE_I = re.compile(r"\b(does|has|is) I\b", re.IGNORECASE)
_AGREEING = {"does": "do", "has": "have", "is": "am"}


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
    is_asked: bool = True
    """Whether it is put as a question: not a remark, a task or a search of a few words."""
    is_understood: bool = True
    """Whether the model that compares meanings reads its script."""
    zone: tzinfo | None = None
    """Where the days it names are meant; UTC where that is not known."""
    speaker: str | None = None
    """Whom it asks about by name, where what was found is told in the first person and says of nobody who tells it."""

    def day_of(self, moment: datetime) -> date:
        """The day a moment lies on for whoever asks."""
        try:
            return (moment.astimezone(self.zone) if self.zone is not None else moment).date()
        except OverflowError:  # the first and last days of the calendar have no local time everywhere
            return moment.date()

    def named_authors(self, authors: Collection[str]) -> list[str]:
        """Those of the authors whom the question names; if none, those whose names it misspells."""
        return list(self._called(authors))

    def _called(self, authors: Collection[str]) -> dict[str, list[str]]:
        """Those whom it names, and by which words."""
        known = sorted(set(authors))
        return {author: WORD.findall(author) for author in known if self._names(author)} or self._misspelt(known)

    def _misspelt(self, authors: Sequence[str]) -> dict[str, list[str]]:
        of_part = {
            folded(part): author
            for author in authors
            if author.casefold() not in _ROLES
            for part in WORD.findall(author)
        }
        called: dict[str, list[str]] = {}
        for name in sorted(name for name in self.names if not name.isupper()):
            for part in meant(folded(name), of_part):
                called.setdefault(of_part[part], []).append(name)
        return called

    def _names(self, author: str) -> bool:
        """By name in any case; of a name of several words one is enough, if written as a name."""
        parts, capital, plain = _spellings_of_name(author)
        if not parts:
            return False
        if not (self.names.isdisjoint(parts) and self.names.isdisjoint(capital)):
            return True
        return all(part in self.terms for part in plain)

    def in_own_voice(self, texts: Sequence[str], authors: Collection[str]) -> Question:
        """The question with its speaker, if the texts that share its words are mostly told in the first person.

        Notes and talk that were stored without an author: "Where does Tom work?" is answered by "I work at a mill".
        """
        if self.first_person or not texts or any(one.casefold() not in _ROLES for one in authors):
            return self
        return replace(self, speaker=self._asked_about()) if _mostly_own(texts) else self

    def _asked_about(self) -> str | None:
        """The first name in it that is not where, with whom or about what something was, unless it has something."""
        for found in WORD.finditer(self.text):
            if found[0] in self.names and found[0] not in MONTHS:
                is_owner = self.text[found.end() : found.end() + 2] in ("'s", "’s")
                if is_owner or not _AFTER_PREPOSITION.search(self.text[max(0, found.start() - 10) : found.start()]):
                    return found[0]
        return None

    def rephrased(self, authors: Collection[str]) -> str | None:
        """The question as a named author would put it, None if it names none of them.

        People speak of themselves as I, not by name, so a vector of their words is nearer to this one.
        """
        called = self._called(authors) or ({self.speaker: [self.speaker]} if self.speaker else {})
        if not called:
            return None
        text = self.text
        for words in called.values():
            parts = "|".join(map(re.escape, words))
            name = rf"(?<!\w)(?:{parts})(?!\w)(?:\W(?:{parts})(?!\w))*+(['’]s?(?!\w))?"
            text = re.sub(name, lambda found: "my" if found[1] else "I", text, flags=re.IGNORECASE)
        text = _HE_OR_SHE.sub(lambda found: _OWN_PRONOUN.get(found[0].lower(), "myself"), text)
        return _VERB_BEFORE_I.sub(lambda found: f"{_AGREEING[found[1].lower()]} I", text)


def _mostly_own(texts: Sequence[str]) -> bool:
    """Whether most of these are told in the first person; the rest is not looked at when that is clear."""
    wanted, own = len(texts) * MOSTLY, 0
    for left, text in zip(range(len(texts), 0, -1), texts, strict=True):
        if own >= wanted or own + left < wanted:
            break
        own += _SELF.search(text, 0, LOOKED_AT) is not None
    return own >= wanted


@lru_cache(maxsize=10_000)
def _spellings_of_name(author: str) -> tuple[list[str], list[str], list[str]]:
    """The words of a name: as they are, as names are written, and folded; none of what is only a role."""
    parts = [] if author.casefold() in _ROLES else WORD.findall(author)
    return parts, [part.capitalize() for part in parts], [folded(part) for part in parts]


def forget_names() -> None:
    """They were erased, perhaps."""
    _spellings_of_name.cache_clear()


def read_question(text: str, now: datetime | None = None) -> Question:
    """Reads the question; "last week" and its like count from `now` and say nothing without it."""
    spoken = _ADDRESS.sub(" ", text)
    return Question(
        text=text,
        terms=_terms(text),
        names=_names(text),
        times=tuple(named_times(text, now)),
        first_person=bool(_FIRST_PERSON.search(spoken)),
        second_person=bool(_SECOND_PERSON.search(spoken)),
        is_asked=_is_asked(text),
        zone=now.tzinfo if now is not None else None,
    )


def is_latin(text: str) -> bool:
    """Whether most letters of a text are Latin ones."""
    letters = [letter for letter in text if letter.isalpha()]
    return text.isascii() or sum(letter < "\u0250" for letter in letters) * 2 >= len(letters)


def _is_asked(text: str) -> bool:
    """Of other languages than English we do not know."""
    if "?" in text or not text.isascii() or len(text.split()) <= FEW_WORDS:
        return True
    return _ASKING.match(text) is not None


def _terms(text: str) -> tuple[str, ...]:
    """The words that carry meaning (all, if none does): stop words cost full-text search 6 points of R@10."""
    words: dict[str, None] = {}
    cut = tokens(text)
    for token in cut:
        words |= dict.fromkeys([token[:MOST_TERMS]] if is_paired(token) else parts(token))
        if len(words) > 2 * MOST_TERMS:
            break
    kept = [word for word in words if word not in STOP_WORDS] or list(words)
    identifiers = dict.fromkeys(token for token in cut if not token.isalnum() and len(token) <= LONGEST_NAME)
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


def moment_words(at: datetime) -> str:
    """The date as questions write it, for a full-text column of its own: +1.6 R@10 in full-text search."""
    return f"{at.day} {MONTHS[at.month - 1]} {at.year}"


def embedded_text(author: str | None, text: str) -> str:
    """The text alone. With "author: " before it R@10 was 0.1 to 0.4 lower, and a renaming would embed anew."""
    return text
