"""Turns a question and a pool of candidate memories into ranked, explained hits.

The promise: the same pool gives the same order, whichever store it came from. The store only chooses the pool
(full text, nearest vectors, and the neighbours of the best); here every candidate gets a few parts, each
standardised over the pool, weighted and added, so that a hit can say what it was found by.

Everything is pure: no store, no model, no clock of its own. A memory without a session, an author or a date
has those parts at zero, and what remains is plain hybrid search.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


# --- What the store is asked for -------------------------------------------------------------------------

LEXICAL_POOL = 200
DENSE_POOL = 200
NEIGHBOURS_OF = 50
NEIGHBOUR_REACH = 2


@dataclass(frozen=True, slots=True)
class Weights:
    """What a part counts. Words and similarity are in standard deviations of the pool; the rest are claims."""

    words: float = 0.8
    lexical: float = 0.2
    similarity: float = 1.0
    author: float = 3.0
    date: float = 4.0
    session: float = 0.5
    late: float = 1.0


WEIGHTS = Weights()


# --- Reading the question --------------------------------------------------------------------------------

STOP_WORDS = frozenset(
    """a about above after again against all also am an and any are as at be because been before being below
    between both but by can could did do does doing done down during each else ever few for from further get
    gets getting got had has have having he her here hers herself him himself his how i if in into is it its
    itself just let like made make many may me might more most much must my myself no nor not now of off on
    once one only or other our ours ourselves out over own per please same shall she should so some such than
    that the their theirs them themselves then there these they this those through to too under until up upon
    us very was we were what when where whether which while who whom whose why will with within without would
    yet you your yours yourself yourselves ain aren couldn didn doesn don hadn hasn haven isn ll m re s shan
    shouldn t ve wasn weren won wouldn d""".split()
)
MONTHS = "january february march april may june july august september october november december".split()
USER_ROLES = frozenset({"user", "human", "me"})
ASSISTANT_ROLES = frozenset({"assistant", "ai", "agent", "bot", "model"})

_WORD = re.compile(r"[^\W_]+")
_IDENTIFIER = re.compile(r"[^\W_]+(?:[-_./:@#][^\W_]+)+")
_FIRST_PERSON = re.compile(r"\b(?:i|me|my|mine|myself|i['’](?:m|ve|d|ll))\b", re.IGNORECASE)
_SECOND_PERSON = re.compile(r"\b(?:you|your|yours|yourself)\b", re.IGNORECASE)
# "Can you remind me ..." addresses whoever answers; it does not ask about what that one said.
_ADDRESS = re.compile(
    r"\b(?:(?:can|could|would|will) you(?: please)?|do you (?:remember|recall|know)|"
    r"(?:please )?(?:remind|tell|show|give) me)\b",
    re.IGNORECASE,
)
_MONTH = "|".join(month[:3] + f"(?:{month[3:]})?" if month != "may" else "may" for month in MONTHS)
_DAY_MONTH = re.compile(
    rf"(?:\b(\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?)?\b({_MONTH})\b\.?"
    r"(?:\s+(\d{1,2})(?:st|nd|rd|th)?\b(?!\d))?(?:,?\s+((?:19|20)\d\d)\b)?",
    re.IGNORECASE,
)
_ISO_DATE = re.compile(r"\b((?:19|20)\d\d)-(\d\d)(?:-(\d\d))?\b")
_YEAR = re.compile(r"\b((?:19|20)\d\d)\b")
_BEFORE_A_MONTH = re.compile(
    r"\b(?:in|of|on|since|during|until|by|last|this|early|late|mid)[\s-]+$", re.IGNORECASE
)
_AGO = re.compile(
    r"\b(\d+|a|an|one|two|three|four|five|six)\s+(day|week|month|year)s?\s+ago\b", re.IGNORECASE
)
_RELATIVE = re.compile(r"\b(today|yesterday|(?:last|this|past)\s+(?:week|month|year))\b", re.IGNORECASE)
_COUNTS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
_UNIT_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}
_THIRD_PERSON = {
    "he": "I",
    "she": "I",
    "his": "my",
    "her": "my",
    "him": "me",
    "himself": "myself",
    "herself": "myself",
}
_AGREEMENT = {"does": "do", "has": "have", "is": "am"}


@dataclass(frozen=True, slots=True)
class Named:
    """A time the question names: from `first` to `last`, both included; `month` alone means any year's."""

    first: date | None = None
    last: date | None = None
    month: int | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """What a question says about the memory it looks for."""

    text: str
    terms: tuple[str, ...]
    names: frozenset[str]
    times: tuple[Named, ...]
    first_person: bool
    second_person: bool

    def named_authors(self, authors: Collection[str]) -> list[str]:
        """Those of the authors whom the question names, by whole name or by first name."""
        words = {word.casefold() for word in _WORD.findall(self.text)}
        return [author for author in sorted(set(authors)) if self._names(author, words)]

    def _names(self, author: str, words: set[str]) -> bool:
        parts = [part.casefold() for part in _WORD.findall(author)]
        if not parts or author.casefold() in USER_ROLES | ASSISTANT_ROLES:
            return False
        return parts[0] in words and parts[0] not in STOP_WORDS

    def rephrased(self, authors: Collection[str]) -> str | None:
        """The question as the named author would put it: people speak of themselves as I, not by name."""
        named = self.named_authors(authors)
        if not named:
            return None
        text = self.text
        for author in named:
            first, *others = _WORD.findall(author)
            name = re.escape(first) + "".join(rf"(?:\s+{re.escape(other)})?" for other in others)
            text = re.sub(rf"(?<!\w){name}['’]s?(?!\w)", "my", text, flags=re.IGNORECASE)
            text = re.sub(rf"(?<!\w){name}(?!\w)", "I", text, flags=re.IGNORECASE)
        text = re.sub(r"\b(?:he|she|his|her|him|himself|herself)\b", _own_pronoun, text, flags=re.IGNORECASE)
        return re.sub(
            r"\b(does|has|is) I\b", lambda m: f"{_AGREEMENT[m[1].lower()]} I", text, flags=re.IGNORECASE
        )

    def search_terms(self) -> tuple[str, ...]:
        """What to ask the full-text index for, any of them: each is a word or an identifier (a phrase)."""
        return self.terms


def _own_pronoun(match: re.Match[str]) -> str:
    return _THIRD_PERSON[match[0].lower()]


def read_question(text: str, now: datetime | None = None) -> Question:
    """Reads the question; relative dates such as "last week" count from `now` and are ignored without it."""
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
    words = [word.casefold() for word in _WORD.findall(text)]
    kept = [word for word in words if word not in STOP_WORDS] or words
    return tuple(dict.fromkeys([*kept, *(found.casefold() for found in _IDENTIFIER.findall(text))]))


def _names(text: str) -> frozenset[str]:
    return frozenset(w for w in _WORD.findall(text) if w[:1].isupper() and w.casefold() not in STOP_WORDS)


def _times(text: str, now: datetime | None) -> list[Named]:
    found = [_span(int(m[1]), int(m[2]), int(m[3]) if m[3] else None) for m in _ISO_DATE.finditer(text)]
    for match in _DAY_MONTH.finditer(text):
        if _is_a_month(match, text):
            month = next(i for i, name in enumerate(MONTHS, 1) if name.startswith(match[2].lower()[:3]))
            day = match[1] or match[3]
            year = int(match[4]) if match[4] else None
            found.append(_span(year, month, int(day) if day else None))
    if not found:
        found = [Named(date(int(m[1]), 1, 1), date(int(m[1]), 12, 31)) for m in _YEAR.finditer(text)]
    if now is not None:
        found.extend(_relative_times(text, now.date()))
    return [named for named in found if named is not None]


def _is_a_month(match: re.Match[str], text: str) -> bool:
    """May and march are verbs too: without a day or a year they need a capital and "in", "last" and such."""
    if match[1] or match[3] or match[4]:
        return True
    name = match[2]
    if not name[0].isupper():
        return False
    return name.lower() not in {"may", "mar", "march"} or bool(_BEFORE_A_MONTH.search(text[: match.start()]))


def _span(year: int | None, month: int, day: int | None) -> Named | None:
    if not 1 <= month <= 12:
        return None
    if year is None:
        return Named(month=month)
    try:
        first = date(year, month, day or 1)
    except ValueError:
        return None
    following = date(year + month // 12, month % 12 + 1, 1)
    return Named(first, first if day else following - timedelta(days=1))


def _relative_times(text: str, today: date) -> list[Named]:
    found = []
    for match in _AGO.finditer(text):
        unit = _UNIT_DAYS[match[2].lower()]
        count = _COUNTS.get(match[1].lower()) or int(match[1])
        middle = today - timedelta(days=min(count * unit, 36500))
        found.append(Named(middle - timedelta(days=unit // 2), middle + timedelta(days=unit // 2)))
    for match in _RELATIVE.finditer(text):
        found.append(_relative_span(match[1].lower().split(), today))
    return found


def _relative_span(words: list[str], today: date) -> Named:
    if words[0] in {"today", "yesterday"}:
        day = today - timedelta(days=words[0] == "yesterday")
        return Named(day, day)
    length = _UNIT_DAYS[words[1]]
    if words[0] == "last" and words[1] != "week":
        return Named(today - timedelta(days=2 * length), today)
    return Named(today - timedelta(days=length), today)


# --- What is written with a memory -----------------------------------------------------------------------


def moment_words(at: datetime) -> str:
    """The date as people write it in questions, for the full-text column `moment`."""
    return f"{at.day} {MONTHS[at.month - 1].capitalize()} {at.year}"


def embedded_text(author: str | None, text: str) -> str:
    """What is embedded: the text alone."""
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
    """A hit: `score` is the sum of its `parts`, each already weighted, so the parts say why it stands here."""

    id: str
    score: float
    parts: dict[str, float] = field(default_factory=dict)


def rank(question: Question, candidates: Sequence[Candidate], weights: Weights = WEIGHTS) -> list[Ranked]:
    """All candidates, best first; ties by id, so the same pool always comes out in the same order."""
    if not candidates:
        return []
    parts = _parts(question, candidates, weights)
    table = np.stack(list(parts.values()), axis=1)
    scores = table.sum(axis=1)
    order = sorted(range(len(candidates)), key=lambda i: (-scores[i], candidates[i].id))
    names = list(parts)
    return [
        Ranked(candidates[i].id, float(scores[i]), dict(zip(names, table[i].tolist(), strict=True)))
        for i in order
    ]


def _parts(question: Question, pool: Sequence[Candidate], weights: Weights) -> dict[str, Floats]:
    around = _neighbours(pool)
    named = set(question.named_authors({c.author for c in pool if c.author}))
    ignored = {part.casefold() for name in named for part in _WORD.findall(name)}
    terms = [term for term in question.terms if term not in ignored] or list(question.terms)
    own = _occurrences(terms, [c.text for c in pool])
    words = _words_in_context(own, [len(c.text) for c in pool], around)
    similarity = _similarity(pool)
    return {
        "words": weights.words * _standardised(words),
        "lexical": weights.lexical * _standardised(np.array([c.lexical for c in pool], dtype=float)),
        "similarity": weights.similarity * _standardised(similarity),
        "author": weights.author * _author(question, pool, named),
        "date": weights.date * _date(question, pool),
        "session": weights.session * _session(pool, words, similarity),
        "late": weights.late * _standardised(_known([c.late for c in pool])),
    }


def _standardised(values: Floats) -> Floats:
    """In standard deviations from the pool's mean; a part that tells nothing apart is zero for all."""
    spread = float(values.std())
    if spread < 1e-9:
        return np.zeros(len(values))
    return np.asarray((values - values.mean()) / spread)


def _known(values: Sequence[float | None]) -> Floats:
    """Unknown values stand at the lowest known one: not measured is no reason to rise, nor to sink further."""
    known = [value for value in values if value is not None]
    lowest = min(known) if known else 0.0
    return np.array([lowest if value is None else value for value in values], dtype=float)


def _similarity(pool: Sequence[Candidate]) -> Floats:
    if any(c.similarity_rephrased is not None for c in pool):
        return _known([c.similarity_rephrased for c in pool])
    return _known([c.similarity for c in pool])


# --- Words -----------------------------------------------------------------------------------------------


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """A word without its commonest English endings, so that "camped" meets "camping"."""
    for ending in ("ingly", "edly", "ings", "ies", "ing", "ied", "ed", "es", "s", "ly"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and word[-2:] != "ss":
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
    starts = np.cumsum([0, *(len(text) + 1 for text in plain)])[:-1]
    counts = np.zeros((len(terms), len(texts)))
    for row, term in enumerate(terms):
        found = _places(_plain(term), joined)
        if found:
            owners = np.searchsorted(starts, found, side="right") - 1
            counts[row] = np.bincount(owners, minlength=len(texts))
    return counts


def _places(term: str, text: str) -> list[int]:
    """Where words with the term's stem start; a term of several words (an identifier) is found as it stands."""
    is_word = term.isalnum()
    probe = stem(term) if is_word else term
    places = []
    at = text.find(probe)
    while at >= 0:
        if at == 0 or not text[at - 1].isalnum():
            if not is_word:
                places.append(at)
            else:
                word = _WORD.match(text, at)
                if word and stem(word[0]) == probe:
                    places.append(at)
        at = text.find(probe, at + len(probe))
    return places


def _words_in_context(
    counts: Floats, lengths: Sequence[int], around: list[tuple[float, NDArray[np.intp]]]
) -> Floats:
    """BM25 over the pool, where a term in a neighbouring turn counts as a part of a term in the turn itself.

    Term by term, not score by score: a turn that has one word of the question between neighbours that have
    the others beats a turn whose neighbours merely repeat its own word.
    """
    if not counts.size:
        return np.zeros(counts.shape[1])
    size = np.asarray(lengths, dtype=float)
    frequency = counts / (0.5 + 0.5 * size / max(size.mean(), 1.0))
    padded = np.concatenate([frequency, np.zeros((len(frequency), 1))], axis=1)
    for weight, index in around:
        frequency = frequency + weight * padded[:, index]
    present = (counts > 0).sum(axis=1)
    rarity = np.log(1 + (counts.shape[1] - present + 0.5) / (present + 0.5))
    return np.asarray(rarity @ (frequency / (frequency + 0.9)))


# --- Neighbours, authors, dates, sessions ----------------------------------------------------------------


def _neighbours(pool: Sequence[Candidate]) -> list[tuple[float, NDArray[np.intp]]]:
    """For each step along the session: what it lends, and where in the pool that neighbour is (-1 = nowhere)."""
    where = {
        (c.session_id, c.position): i
        for i, c in enumerate(pool)
        if c.session_id is not None and c.position is not None
    }
    if len(where) < 2:
        return []
    steps = [step for distance in range(1, NEIGHBOUR_REACH + 1) for step in (-distance, distance)]
    around = []
    for step in steps:
        index = [
            where.get((c.session_id, c.position + step), -1) if c.position is not None else -1 for c in pool
        ]
        around.append((0.5 / abs(step), np.array(index, dtype=np.intp)))
    return around


def _author(question: Question, pool: Sequence[Candidate], named: set[str]) -> Floats:
    """1 for a memory said by whom the question asks about: a named author, or the user when it says I or my."""
    roles: frozenset[str] = frozenset()
    if question.first_person != question.second_person:
        roles = USER_ROLES if question.first_person else ASSISTANT_ROLES
    return np.array([float(c.author in named or (c.author or "").casefold() in roles) for c in pool])


def _date(question: Question, pool: Sequence[Candidate]) -> Floats:
    if not question.times:
        return np.zeros(len(pool))
    return np.array([max(_closeness(named, c.at) for named in question.times) for c in pool])


def _closeness(named: Named, at: datetime | None) -> float:
    """1 within the named time, falling to 0 over the week around it: people talk about a day after it."""
    if at is None:
        return 0.0
    if named.first is None or named.last is None:
        return float(at.month == named.month)
    day = at.date()
    away = max((named.first - day).days, (day - named.last).days, 0)
    return max(0.0, 1 - away / 7)


def _session(pool: Sequence[Candidate], words: Floats, similarity: Floats) -> Floats:
    """How good the best memory of the same session is: what was talked about there at all."""
    codes = {
        session: i for i, session in enumerate({c.session_id: None for c in pool if c.session_id is not None})
    }
    if len(codes) < 2:
        return np.zeros(len(pool))
    member = np.array([codes.get(c.session_id, -1) if c.session_id is not None else -1 for c in pool])
    best = np.full((2, len(codes)), -np.inf)
    inside = member >= 0
    for row, values in enumerate((words, similarity)):
        np.maximum.at(best[row], member[inside], values[inside])
    total = np.zeros(len(pool))
    for row in best:
        lent = np.where(inside, row[member], row.min())
        total += _standardised(lent)
    return total
