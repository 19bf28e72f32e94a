"""Turns a question and a pool of candidate memories into ranked, explained hits.

The promise: the same pool comes out in the same order, whichever store it came from. The store only chooses the
pool (full text, nearest vectors, the neighbours of the best); here every candidate gets a few parts, each
standardised over the pool, weighted and added, so that a hit can say what it was found by.

Everything is pure: no store, no model, no clock of its own. A memory without a session, an author or a date has
those parts at zero, and what remains is plain hybrid search.

Measured end to end on LoCoMo (1,536 questions over 5,882 turns, SQLite FTS5, MiniLM int8): R@5 74.8, R@10 82.6;
with late interaction 76.6 and 83.6. `tests/domain/test_relevance.py` holds the behaviour down.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from recollect.domain.text.questions import ASSISTANT_ROLES, USER_ROLES, WORD, NamedTime, Question
from recollect.domain.text.tokenizer import HALF, JOINT, LETTERS, folded, is_bare, spellings, stem, terms_asked

Floats = NDArray[np.float64]
Codes = NDArray[np.uint8]

# --- What the store is asked for -------------------------------------------------------------------------
# With the neighbours, 100 + 100 hold 96.9% of LoCoMo's evidence and rank it as well as 300 + 300 do (R@10 82.6
# both); with ten conversations in one scope they hold 93.2% (R@10 80.6).
LEXICAL_POOL = 100
DENSE_POOL = 100
# The neighbours of the 25 best of either search join the pool: +0.6 R@10, +0.7 R@20; of 50, no more. Only these are
# looked up: with the places of all candidates known R@10 is 83.4, with these alone 83.6.
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
# What is used at once, to act or in a prompt, must answer a little; and where even the best match is low, nobody knows
# and the rest would mislead, so the less the best one answers, the more is asked of all. By bench/floor.py on LoCoMo:
# of the evidence that is found without a floor 97.1% is kept; of fifty considered memories 10 are left for questions
# about another conversation, and none for 59% of these (a fixed floor of 0.1 keeps 96.8% and leaves 22). Questions made
# to sound as if they were answered find what they allude to: 42 are left, of 43 for those that are answered.
LEAST_MATCH, KNOWN_MATCH, DOUBT = 0.06, 0.3, 2.0
# Characters of all texts of a pool together. A pool of 200 has some 20,000; if it has more than this, each memory is
# looked at from its beginning as far as its share goes, so that whoever stores long texts slows nobody down.
MOST_SCANNED = 2_000_000
_LONGEST_SESSION = 1 << 40  # apart enough that the last of one session is no neighbour of the first of the next
_ID = attrgetter("id")

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
    compares across questions, and is what a caller's `min_match` should cut: of the ten best for each question
    of LoCoMo, 0.15 keeps 94% of the evidence and drops a quarter of the rest, 0.3 keeps 74% and drops 57%.
    """

    id: str
    score: float
    match: float
    parts: dict[str, float]


def least_match(best: float) -> float:
    """The match below which a hit hardly answers, given the best match that the question has: see LEAST_MATCH."""
    return LEAST_MATCH + DOUBT * max(0.0, KNOWN_MATCH - best)


def rank(
    question: Question, candidates: Sequence[Candidate], weights: Weights = WEIGHTS, limit: int | None = None
) -> list[Ranked]:
    """The candidates, best first; ties by id, so the same pool always comes out in the same order."""
    return Ranking(question, candidates, weights).best(limit)


class Ranking:
    """A pool made ready to be ranked: by what is known at first, and again when more of it was measured.

    What its words, authors, dates and sessions say is worked out once; its nearness in meaning each time.
    """

    def __init__(self, question: Question, candidates: Sequence[Candidate], weights: Weights = WEIGHTS) -> None:
        self._pool = sorted(candidates, key=_ID)
        if not self._pool:
            return
        self._weights = weights
        named = set(question.named_authors({c.author for c in self._pool if c.author}))
        self._sessions = _Sessions.of(self._pool)
        self._words = _Words.found(_asked_terms(question, named), self._pool, self._sessions)
        own, lent = self._words.parts()
        self._by_words = {"words": weights.words * own, "neighbours": weights.words * lent}
        self._by_facts = {
            "author": weights.author * _author(question, self._pool, named),
            "date": weights.date * _date(question, self._pool),
        }
        best_words = self._sessions.best(self._words.in_context)
        self._session_words = _standardised(best_words, self._words.least_spread)

    def best(self, limit: int | None = None) -> list[Ranked]:
        if not self._pool:
            return []
        parts = self._parts()
        names = list(parts)
        table = np.stack(list(parts.values()), axis=1)
        scores = table.sum(axis=1)
        first = np.argsort(-scores, kind="stable")[:limit]
        chosen = zip(
            first.tolist(), scores[first].tolist(), self._match()[first].tolist(), table[first].tolist(), strict=True
        )
        return [
            Ranked(self._pool[i].id, score, match, dict(zip(names, row, strict=True)))
            for i, score, match, row in chosen
        ]

    def _parts(self) -> dict[str, Floats]:
        weights = self._weights
        meaning = _Meaning.of(self._pool, weights)
        session = self._session_words + _standardised(self._sessions.best(meaning.total))
        return {
            **self._by_words,
            "similarity": weights.similarity * meaning.similarity_part,
            "late": weights.similarity * meaning.late_part,
            **self._by_facts,
            "session": weights.session * session,
        }

    def _match(self) -> Floats:
        """How well a memory answers by itself: half its cosine, half the share of the question's words it has."""
        cosine = np.maximum(_known([c.similarity for c in self._pool]), _cosine(self._pool))
        return np.asarray(0.5 * np.clip(cosine, 0.0, 1.0) + 0.5 * self._words.share)


def _asked_terms(question: Question, named: set[str]) -> list[str]:
    """Without the named authors: their name stands in what others say to them, not in what they say."""
    names = {folded(part) for author in named for part in WORD.findall(author)}
    return list(terms_asked([term for term in question.terms if term not in names] or question.terms))


def _standardised(values: Floats, least_spread: float = 1e-9) -> Floats:
    """In standard deviations from the pool's mean; what tells nothing apart is zero for all."""
    from_mean = _from_mean(values)
    return np.asarray(from_mean / max(_spread(from_mean), least_spread))


# A recall does this a dozen times over some 200 numbers, where numpy's own mean and std take longer to get going.
def _from_mean(values: Floats) -> Floats:
    return np.asarray(values - np.add.reduce(values) / len(values))


def _spread(from_mean: Floats) -> float:
    return math.sqrt(np.add.reduce(from_mean * from_mean) / len(from_mean))


def _known(values: Sequence[float | None]) -> Floats:
    """Unknown values stand at the lowest known one: not measured is no reason to rise, nor to sink further."""
    known = np.array(values, dtype=float)  # None becomes nan
    unknown = np.isnan(known)
    known[unknown] = 0.0 if unknown.all() else known[~unknown].min()
    return known


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
        measured = [c.late for c in pool]
        late = _standardised(_known(measured)) if any(measured) else np.zeros(len(pool))
        if not late.any():
            return cls(similarity, late)
        similarity, late = (1 - weights.late) * similarity, weights.late * late
        spread = max(_spread(_from_mean(similarity + late)), 1e-9)
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


def _occurrences(terms: Sequence[str], texts: Sequence[str]) -> Floats:
    """How often each term stands in each text: one scan per term over all texts joined, not text by text."""
    if sum(map(len, texts)) > MOST_SCANNED:
        texts = [text[: MOST_SCANNED // len(texts)] for text in texts]
    joined = "\n".join(texts)
    if joined.isascii():
        joined = joined.lower()
    else:
        texts = [folded(text) for text in texts]
        joined = "\n".join(texts)
    starts = np.cumsum([0, *(len(text) + 1 for text in texts[:-1])])
    counts = np.zeros((len(terms), len(texts)))
    for row, term in enumerate(terms):
        found = _places(term, joined)
        if found:
            counts[row] = np.bincount(np.searchsorted(starts, found, "right") - 1, minlength=len(texts))
    return counts


def _places(term: str, text: str) -> list[int]:
    """Where the term stands in a folded text: the words that have it for a stem, two such words in an identifier."""
    if is_bare(term):
        return list(_found(term, text))
    one, joint, other = term.partition("-")
    places = []
    for spelling in spellings(one):
        for at in _found(spelling, text):
            if at and (text[at - 1].isalnum() if text[at - 1].isascii() else LETTERS.match(text[at - 1])):
                continue
            word = LETTERS.match(text, at)
            if word is None:
                continue
            held = stem(word[0])
            if held == one if not joint else held[:HALF] == one and _goes_on(text, word.end(), other):
                places.append(at)
    return places


def _found(wanted: str, text: str) -> Iterator[int]:
    at = text.find(wanted)
    while at >= 0:
        yield at
        at = text.find(wanted, at + len(wanted))


def _goes_on(text: str, end: int, other: str) -> bool:
    joint = JOINT.match(text, end)
    word = LETTERS.match(text, joint.end()) if joint else None
    return word is not None and stem(word[0])[:HALF] == other


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

    def parts(self) -> tuple[Floats, Floats]:
        """What its own words and those of its neighbours say; together the standardised score in context."""
        spread = max(_spread(_from_mean(self.in_context)), self.least_spread)
        return _from_mean(self.own) / spread, _from_mean(self.in_context - self.own) / spread

    @classmethod
    def found(cls, terms: Sequence[str], pool: Sequence[Candidate], sessions: _Sessions) -> _Words:
        counts = _occurrences(terms, [c.text for c in pool])
        if not counts.any():
            # What only the author or the date of a memory says, the index knows.
            lexical = np.array([c.lexical for c in pool], dtype=float)
            return cls(lexical, lexical, lexical / max(float(lexical.max()), 1e-9))
        length = np.array([len(c.text) for c in pool], dtype=float)
        frequency = counts / (1 - LENGTH_NORM + LENGTH_NORM * length / length.mean())
        with_a_column_for_nobody = np.pad(frequency, ((0, 0), (0, 1)))
        lent = np.zeros_like(frequency)
        for share, index in _neighbours(pool, sessions):
            lent += share * with_a_column_for_nobody[:, index]
        present = (counts > 0).sum(axis=1)
        rarity = np.log(1 + (len(pool) - present + 0.5) / (present + 0.5))
        return cls(
            own=rarity @ (frequency / (frequency + SATURATION)),
            in_context=rarity @ ((frequency + lent) / (frequency + lent + SATURATION)),
            share=rarity @ (counts > 0) / rarity.sum(),
            least_spread=LEAST_WORD_SPREAD * float(rarity.sum()),
        )


def _neighbours(pool: Sequence[Candidate], sessions: _Sessions) -> list[tuple[float, NDArray[np.intp]]]:
    """For each step along the session: what it lends, and where in the pool that neighbour is (-1 = nowhere)."""
    placed = np.array([i for i, c in enumerate(pool) if c.session_id is not None and c.position is not None])
    if len(placed) < 2:
        return []
    place = sessions.member[placed] * _LONGEST_SESSION + np.array([pool[i].position for i in placed.tolist()])
    order = np.argsort(place, kind="stable")
    known = place[order]
    around = []
    for distance in range(1, NEIGHBOUR_REACH + 1):
        for step in (-distance, distance):
            beside = place + step
            at = np.searchsorted(known, beside, "right") - 1
            index = np.full(len(pool), -1, dtype=np.intp)
            index[placed] = np.where(known[at] == beside, placed[order[at]], -1)
            around.append((LENT_BY_A_NEIGHBOUR / distance, index))
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
    days = [None if c.at is None else question.day_of(c.at) for c in pool]
    closeness = {day: max(_closeness(time, day) for time in question.times) for day in set(days) if day is not None}
    return np.array([0.0 if day is None else closeness[day] for day in days])


def _closeness(time: NamedTime, day: date) -> float:
    """1 within the named time, falling to 0 over a week around it: people speak of a day before and after it."""
    if time.month is not None:
        return float(day.month == time.month)
    early = (time.first - day).days if time.first else 0
    late = (day - time.last).days if time.last else 0
    return max(0.0, 1 - max(early, late, 0) / 7)
