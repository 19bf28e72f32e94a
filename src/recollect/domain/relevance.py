"""Turns a question and a pool of candidate memories into ranked, explained hits.

The promise: the same pool comes out in the same order, whichever store it came from. The store only chooses the
pool (full text, nearest vectors, the neighbours of the best); here every candidate gets a few parts, each
standardised over the pool, weighted and added, so that a hit can say what it was found by.

Everything is pure: no store, no model, no clock of its own. A memory without a session, an author or a date has
those parts at zero, and what remains is plain hybrid search.

Measured end to end on LoCoMo (1,536 questions over 5,882 turns, SQLite FTS5, MiniLM int8): R@5 74.8, R@10 82.6;
with late interaction 76.5 and 83.4. `tests/unit/test_relevance.py` holds the behaviour down.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.uint8]

# --- What the store is asked for -------------------------------------------------------------------------
# With the neighbours, 100 + 100 hold 96.9% of LoCoMo's evidence and rank it as well as 300 + 300 do (R@10 82.6
# both); with ten conversations in one scope they hold 93.2% (R@10 80.6).
LEXICAL_POOL = 100
DENSE_POOL = 100
# The neighbours of the 25 best of either search join the pool: +0.6 R@10, +0.7 R@20; of 50, no more.
NEIGHBOURS_OF = 25
NEIGHBOUR_REACH = 2
# Late interaction on the 50 best of a first ranking is as good as on the whole pool, at a third of the time (1 ms).
LATE_POOL = 50


@dataclass(frozen=True, slots=True)
class Weights:
    """What each part counts: the same for everybody, in standard deviations of the pool.

    Round numbers on a wide plateau: of 192 settings (words 0.4 to 1, author 2 to 5, date 3 to 8, session 0.3 to
    0.7) the worst scores R@10 81.2 and the best 82.8; settings chosen on other conversations score 74.6 / 82.5
    on the unseen ones, these numbers 74.8 / 82.6. What R@5 / R@10 lose without the part:

        words       -4.2 / -3.3    BM25 over the pool; without what neighbours lend -4.4 / -2.3
        similarity  -4.1 / -3.6    the cosine; without the rephrased question -2.0 / -2.1
        author      -6.4 / -4.4    the question names the author, or says "I" and the author is the user
        date        -2.4 / -1.9    the question names the time
        session     -1.1 / -1.3    the best of the same session
        late        +1.7 / +0.8 where token codes are kept: it takes 0.7 of the similarity's place

    More weight on words (1.0) costs a little here and gains 1 where neither session nor author is known.
    Recency is not here on purpose: it only ever cost recall. Add it outside, as the caller's choice.
    """

    words: float = 0.8
    similarity: float = 1.0
    author: float = 4.0
    date: float = 6.0
    session: float = 0.5
    late: float = 0.7


WEIGHTS = Weights()
# "I" means the user less surely than a name means its bearer: the assistant, too, is asked about what I need.
ROLE_CLAIM = 0.5
# BM25's usual constants. A lower length norm suits LoCoMo (b = 0.4: R@5 +1.2) and cost another set 10 points.
SATURATION = 0.9
LENGTH_NORM = 0.75
LENT_BY_A_NEIGHBOUR = 0.5
# Below these a pool's spread is taken for chance, so that two memories with cosines 0.50 and 0.51 are not told
# apart as if they were night and day. LoCoMo's pools are above them in 95% (cosine 0.06 to 0.2) and 90% of cases.
LEAST_COSINE_SPREAD = 0.08
LEAST_WORD_SPREAD = 0.03

# --- Reading the question --------------------------------------------------------------------------------

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

_WORD = re.compile(r"[^\W_]+")
_IDENTIFIER = re.compile(r"[^\W_]+(?:[-_./:@#]+[^\W_]+)+")
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

    `terms` is what to ask the full-text index for, any of them: each is a word, or an identifier such as
    `err-4012` that must be quoted so that it is matched as a phrase.
    """

    text: str
    terms: tuple[str, ...]
    names: frozenset[str]
    times: tuple[NamedTime, ...]
    first_person: bool
    second_person: bool

    def named_authors(self, authors: Collection[str]) -> list[str]:
        """Those of the authors whom the question names."""
        return [author for author in sorted(set(authors)) if self._names(author)]

    def _names(self, author: str) -> bool:
        """By name in any case; of a name of several words one is enough, if written as a name."""
        parts = _WORD.findall(author)
        if not parts or author.casefold() in USER_ROLES | ASSISTANT_ROLES:
            return False
        if any(part.capitalize() in self.names or part in self.names for part in parts):
            return True
        return all(part.casefold() in self.terms for part in parts)

    def rephrased(self, authors: Collection[str]) -> str | None:
        """The question as a named author would put it, None if it names none of them.

        People speak of themselves as I, not by name, so a vector of their words is nearer to this one.
        """
        named = self.named_authors(authors)
        if not named:
            return None
        text = self.text
        for author in named:
            parts = "|".join(re.escape(part) for part in _WORD.findall(author))
            name = rf"(?<!\w)(?:{parts})(?:\W(?:{parts}))*"
            text = re.sub(rf"{name}['’]s?(?!\w)", "my", text, flags=re.IGNORECASE)
            text = re.sub(rf"{name}(?!\w)", "I", text, flags=re.IGNORECASE)
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
    )


def _terms(text: str) -> tuple[str, ...]:
    """The words that carry meaning (all, if none does): stop words cost full-text search 6 points of R@10."""
    words = [word.casefold() for word in _WORD.findall(text)]
    kept = [word for word in words if word not in STOP_WORDS] or words
    return tuple(dict.fromkeys([*kept, *(found.casefold() for found in _IDENTIFIER.findall(text))]))


def _names(text: str) -> frozenset[str]:
    """Words written as names. At the start any word is, so there a stop word ("Will he ...") is none."""
    words = _WORD.findall(text)
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
    if now is not None:
        found.extend(_relative_times(text, now.date()))
    return [time for time in found if time is not None]


def _is_a_month(match: re.Match[str], text: str) -> bool:
    """May and march are verbs, too: without a day or a year they need "in", "last" or the like before them."""
    if match[1] or match[3] or match[4]:
        return True
    if not match[2][0].isupper():
        return False
    return match[2] not in {"May", "Mar", "March"} or bool(_BEFORE_A_MONTH.search(text[: match.start()]))


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
    before = text[: match.start()]
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


# --- What is written with a memory -----------------------------------------------------------------------


def moment_words(at: datetime) -> str:
    """The date as questions write it, for a full-text column of its own: +1.6 R@10 in full-text search."""
    return f"{at.day} {MONTHS[at.month - 1]} {at.year}"


def embedded_text(author: str | None, text: str) -> str:
    """The text alone. With "author: " before it R@10 was 0.1 to 0.4 lower, and a renaming would embed anew."""
    return text


# --- Candidates and hits ---------------------------------------------------------------------------------


@dataclass(slots=True)
class Candidate:
    """A memory of the pool with what the store knows of it; unknown is None, and no full-text hit is 0."""

    id: str
    text: str
    author: str | None = None
    session_id: str | None = None
    position: int | None = None
    at: datetime | None = None
    lexical: float = 0.0
    similarity: float | None = None
    similarity_rephrased: float | None = None
    late: float | None = None


@dataclass(frozen=True, slots=True)
class Ranked:
    """A hit. `score` is the sum of its `parts`, each already weighted, so the parts say why it stands there.

    The score compares the candidates of one question only: it is relative to their pool. `match`, from 0 to 1,
    compares across questions, and is what a caller's `min_score` should cut: of the ten best for each question
    of LoCoMo, 0.15 keeps 94% of the evidence and drops a quarter of the rest, 0.3 keeps 74% and drops 57%.
    """

    id: str
    score: float
    match: float
    parts: dict[str, float]


def rank(question: Question, candidates: Sequence[Candidate], weights: Weights = WEIGHTS) -> list[Ranked]:
    """All candidates, best first; ties by id, so the same pool always comes out in the same order."""
    if not candidates:
        return []
    pool = sorted(candidates, key=lambda candidate: candidate.id)
    named = set(question.named_authors({c.author for c in pool if c.author}))
    words = _Words.found(_asked_terms(question, named), pool)
    parts = _parts(question, pool, named, words, weights)
    table = np.stack(list(parts.values()), axis=1)
    scores = table.sum(axis=1)
    match = _match(words, pool)
    names = list(parts)
    return [
        Ranked(pool[i].id, float(scores[i]), float(match[i]), dict(zip(names, table[i].tolist(), strict=True)))
        for i in np.argsort(-scores, kind="stable").tolist()
    ]


def _parts(
    question: Question, pool: Sequence[Candidate], named: set[str], words: _Words, weights: Weights
) -> dict[str, Floats]:
    meaning = _Meaning.of(pool, weights)
    sessions = _Sessions.of(pool)
    session = _standardised(sessions.best(words.in_context), words.least_spread) + _standardised(
        sessions.best(meaning.total)
    )
    return {
        "words": weights.words * words.own_part,
        "neighbours": weights.words * words.lent_part,
        "similarity": weights.similarity * meaning.similarity_part,
        "late": weights.similarity * meaning.late_part,
        "author": weights.author * _author(question, pool, named),
        "date": weights.date * _date(question, pool),
        "session": weights.session * session,
    }


def _asked_terms(question: Question, named: set[str]) -> list[str]:
    """Without the named authors: their name stands in what others say to them, not in what they say."""
    names = {part.casefold() for author in named for part in _WORD.findall(author)}
    return [term for term in question.terms if term not in names] or list(question.terms)


def _standardised(values: Floats, least_spread: float = 1e-9) -> Floats:
    """In standard deviations from the pool's mean; what tells nothing apart is zero for all."""
    return np.asarray((values - values.mean()) / max(float(values.std()), least_spread))


def _known(values: Sequence[float | None]) -> Floats:
    """Unknown values stand at the lowest known one: not measured is no reason to rise, nor to sink further."""
    lowest = min((value for value in values if value is not None), default=0.0)
    return np.array([lowest if value is None else value for value in values], dtype=float)


def _match(words: _Words, pool: Sequence[Candidate]) -> Floats:
    """How well a memory answers by itself: half its cosine, half the share of the question's words it has."""
    cosine = np.maximum(_known([c.similarity for c in pool]), _cosine(pool))
    return np.asarray(0.5 * np.clip(cosine, 0.0, 1.0) + 0.5 * words.share)


# --- Meaning ---------------------------------------------------------------------------------------------


def _cosine(pool: Sequence[Candidate]) -> Floats:
    if any(c.similarity_rephrased is not None for c in pool):
        return _known([c.similarity_rephrased for c in pool])
    return _known([c.similarity for c in pool])


@dataclass(slots=True)
class _Meaning:
    """Nearness in meaning: the cosine, or a mixture with late interaction where that was measured."""

    similarity_part: Floats
    late_part: Floats

    @property
    def total(self) -> Floats:
        return self.similarity_part + self.late_part

    @classmethod
    def of(cls, pool: Sequence[Candidate], weights: Weights) -> _Meaning:
        similarity = _standardised(_cosine(pool), LEAST_COSINE_SPREAD)
        late = _standardised(_known([c.late for c in pool]))
        if not late.any():
            return cls(similarity, late)
        similarity, late = (1 - weights.late) * similarity, weights.late * late
        spread = max(float((similarity + late).std()), 1e-9)
        return cls(similarity / spread, late / spread)


def token_codes(states: NDArray[np.float32]) -> Codes:
    """The signs of a text's token vectors, one bit each, shape (tokens, dimensions / 8): what is stored.

    `states` are the rows of the model's last layer for the text's own tokens, before pooling, without the
    marks for start, end and padding. 48 bytes a token for MiniLM, 1.6 kB for the mean LoCoMo turn.
    """
    return np.packbits(states > 0, axis=1)


def late_similarities(question: Codes, memories: Sequence[Codes | bytes]) -> list[float | None]:
    """For each memory the mean, over the question's tokens, of the agreement with its most alike token (-1 to 1).

    Signs against signs lost 0.3 R@10 to floats against floats. A memory without tokens gets None.
    """
    width = question.shape[1]
    rows = [np.frombuffer(codes, dtype=np.uint8).reshape(-1, width) for codes in memories]
    filled = [i for i, codes in enumerate(rows) if len(codes)]
    answer: list[float | None] = [None] * len(rows)
    if not filled or not len(question):
        return answer
    # Transposed, so that the sum over a token's bytes runs along whole rows: twice as fast as token by token.
    tokens = _as_longest_integers(np.concatenate([rows[i] for i in filled])).T.copy()
    starts = np.cumsum([0, *(len(rows[i]) for i in filled[:-1])])
    apart = np.zeros(len(filled))
    for token in _as_longest_integers(question):
        bits = np.bitwise_count(tokens ^ token[:, None]).sum(axis=0, dtype=np.uint16)
        apart += np.minimum.reduceat(bits, starts)
    for i, total in zip(filled, apart.tolist(), strict=True):
        answer[i] = 1 - 2 * total / (len(question) * width * 8)
    return answer


def _as_longest_integers(codes: Codes) -> NDArray[np.unsignedinteger]:
    whole = np.ascontiguousarray(codes)
    return whole.view(np.uint64) if whole.shape[1] % 8 == 0 else whole


# --- Words -----------------------------------------------------------------------------------------------


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """A word without its commonest English endings, so that "camped" meets "camping"; always a prefix of it."""
    for ending in ("ings", "ies", "ing", "ied", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            word = word[: -len(ending)]
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz":
        word = word[:-1]
    return word[:-1] if len(word) > 3 and word[-1] in "eiy" else word


def _plain(text: str) -> str:
    text = text.casefold()
    if text.isascii():
        return text
    return "".join(ch for ch in unicodedata.normalize("NFKD", text) if not unicodedata.combining(ch))


def _occurrences(terms: Sequence[str], texts: Sequence[str]) -> Floats:
    """How often each term stands in each text: one scan per term over all texts joined, not text by text."""
    plain = [_plain(text) for text in texts]
    joined = "\n".join(plain)
    starts = np.cumsum([0, *(len(text) + 1 for text in plain[:-1])])
    counts = np.zeros((len(terms), len(texts)))
    for row, term in enumerate(terms):
        found = _places(_plain(term), joined)
        if found:
            counts[row] = np.bincount(np.searchsorted(starts, found, "right") - 1, minlength=len(texts))
    return counts


def _places(term: str, text: str) -> list[int]:
    """Where words with the term's stem start; an identifier is looked for as it stands."""
    is_word = term.isalnum()
    probe = stem(term) if is_word else term
    places = []
    at = text.find(probe)
    while at >= 0:
        end = at + len(probe)
        if not (at and text[at - 1].isalnum()):
            word = _WORD.match(text, at) if is_word else None
            if stem(word[0]) == probe if word else not text[end : end + 1].isalnum():
                places.append(at)
        at = text.find(probe, end)
    return places


@dataclass(slots=True)
class _Words:
    """BM25 over the pool, where a term in a neighbouring turn counts as a part of one in the turn itself.

    Term by term, not score by score: a turn that has one word of the question between turns that have the
    others beats a turn whose neighbours merely repeat its own word (R@10 71.1 against 68.6 for words alone).
    """

    own: Floats
    in_context: Floats
    share: Floats
    least_spread: float = 1e-9

    @classmethod
    def found(cls, terms: Sequence[str], pool: Sequence[Candidate]) -> _Words:
        counts = _occurrences(terms, [c.text for c in pool])
        if not counts.any():
            # Words that our scan does not see (scripts without spaces) are the full-text index's to judge.
            lexical = np.array([c.lexical for c in pool], dtype=float)
            return cls(lexical, lexical, lexical / max(float(lexical.max()), 1e-9))
        length = np.array([len(c.text) for c in pool], dtype=float)
        frequency = counts / (1 - LENGTH_NORM + LENGTH_NORM * length / length.mean())
        with_a_column_for_nobody = np.pad(frequency, ((0, 0), (0, 1)))
        lent = np.zeros_like(frequency)
        for share, index in _neighbours(pool):
            lent += share * with_a_column_for_nobody[:, index]
        present = (counts > 0).sum(axis=1)
        rarity = np.log(1 + (len(pool) - present + 0.5) / (present + 0.5))
        return cls(
            own=rarity @ (frequency / (frequency + SATURATION)),
            in_context=rarity @ ((frequency + lent) / (frequency + lent + SATURATION)),
            share=rarity @ (counts > 0) / rarity.sum(),
            least_spread=LEAST_WORD_SPREAD * float(rarity.sum()),
        )

    @property
    def own_part(self) -> Floats:
        """With `lent_part` it adds up to the standardised score in context."""
        return np.asarray((self.own - self.own.mean()) / self._spread)

    @property
    def lent_part(self) -> Floats:
        lent = self.in_context - self.own
        return np.asarray((lent - lent.mean()) / self._spread)

    @property
    def _spread(self) -> float:
        return max(float(self.in_context.std()), self.least_spread)


def _neighbours(pool: Sequence[Candidate]) -> list[tuple[float, NDArray[np.intp]]]:
    """For each step along the session: what it lends, and where in the pool that neighbour is (-1 = nowhere)."""
    where: dict[tuple[str | None, int], int] = {}
    for i, c in enumerate(pool):
        if c.session_id is not None and c.position is not None:
            where[c.session_id, c.position] = i
    if len(where) < 2:
        return []
    around = []
    for distance in range(1, NEIGHBOUR_REACH + 1):
        for step in (-distance, distance):
            index = [-1 if c.position is None else where.get((c.session_id, c.position + step), -1) for c in pool]
            around.append((LENT_BY_A_NEIGHBOUR / distance, np.array(index, dtype=np.intp)))
    return around


# --- Sessions, authors, dates ----------------------------------------------------------------------------


@dataclass(slots=True)
class _Sessions:
    """Which candidates were said together: a session that spoke of the matter at all lifts all of its turns."""

    member: NDArray[np.intp]
    count: int

    @classmethod
    def of(cls, pool: Sequence[Candidate]) -> _Sessions:
        codes: dict[str, int] = {}
        member = [-1 if c.session_id is None else codes.setdefault(c.session_id, len(codes)) for c in pool]
        return cls(np.array(member, dtype=np.intp), len(codes))

    def best(self, values: Floats) -> Floats:
        """For each candidate the highest value in its session; its own is the mean if it has no session."""
        if self.count < 2:
            return np.zeros(len(values))
        highest = np.full(self.count, -np.inf)
        inside = self.member >= 0
        np.maximum.at(highest, self.member[inside], values[inside])
        return np.where(inside, highest[self.member], highest.mean())


def _author(question: Question, pool: Sequence[Candidate], named: set[str]) -> Floats:
    """1 for a memory by an author whom the question names; a half for the user's own when it says I or my.

    "What did you tell me" is about both sides, and so tells no role apart.
    """
    roles: frozenset[str] = frozenset()
    if question.first_person != question.second_person:
        roles = USER_ROLES if question.first_person else ASSISTANT_ROLES
    claims = dict.fromkeys(named, 1.0)
    for author in {c.author for c in pool if c.author} - named:
        claims[author] = ROLE_CLAIM if author.casefold() in roles else 0.0
    return np.array([claims[c.author] if c.author else 0.0 for c in pool])


def _date(question: Question, pool: Sequence[Candidate]) -> Floats:
    if not question.times:
        return np.zeros(len(pool))
    days = {c.at.date() for c in pool if c.at is not None}
    closeness = {day: max(_closeness(time, day) for time in question.times) for day in days}
    return np.array([0.0 if c.at is None else closeness[c.at.date()] for c in pool])


def _closeness(time: NamedTime, day: date) -> float:
    """1 within the named time, falling to 0 over a week around it: people speak of a day before and after it."""
    if time.month is not None:
        return float(day.month == time.month)
    early = (time.first - day).days if time.first else 0
    late = (day - time.last).days if time.last else 0
    return max(0.0, 1 - max(early, late, 0) / 7)
