"""Turns a question and a pool of candidate memories into ranked, explained hits.

The promise: the same pool comes out in the same order, whichever store it came from. The store only chooses the
pool (full text, nearest vectors, the neighbours of the best); here every candidate gets a few parts, each
standardised over the pool, weighted and added, so that a hit can say what it was found by.

Everything is pure: no store, no model, no clock of its own. A memory without a session, an author or a date has
those parts at zero, and what remains is plain hybrid search.

Measured end to end by `make bench-recall` (bench/results/recall_sets.json): LoCoMo R@5 79.3, R@10 85.4, with bare texts
72.0 and 79.5. `tests/domain/text/test_relevance.py` and `test_ranking_parts.py` hold the behaviour down.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from recollect.domain.text.named_times import NamedTime
from recollect.domain.text.pool_words.mentions import telling
from recollect.domain.text.pool_words.pool_texts import PoolTexts, bytes_of, questions_in
from recollect.domain.text.pool_words.word_counts import occurrences
from recollect.domain.text.questions import ASSISTANT_ROLES, USER_ROLES, WORD, Question
from recollect.domain.text.tokenizer import folded, terms_asked

Floats = NDArray[np.float64]

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

    Found by coordinate ascent on half of LoCoMo's conversations and half of the held-out sets of bench/recall_sets.py,
    and judged on the other halves (R@10 there: LoCoMo +1.0, bare texts +1.7, other sets +1.1 over the weights before,
    words and neighbours 0.8, meaning 1, author 4, session 0.5). Then rounded, with more on words than the fit had.

        words         BM25 over the pool. With 0.4 there is 0.4 to 1.3 more, with 0.8 a little, but then what stands
                      beside a memory with the word comes before the memory itself at times: nobody understands that
        whole         it has every word of the question itself: nothing that only stands beside one comes before it
        neighbours    the question's words in the turns beside it
        similarity    the cosine
        late          late interaction, where token codes are kept; else `similarity_alone` counts
        author        the question names the author, or says "I" and the author is the user
        date          the question names the time
        session       the best of the same session, by words; and by meaning
        asks          a turn that asks seldom answers
        answers       a turn that follows a question often does; the more so the nearer that question is to this one
        length        "Yes, please!" answers little; longer than others, a memory is no better for it

    Recency is not here on purpose: it only ever cost recall. Add it outside, as the caller's choice.
    """

    words: float = 1.0
    whole: float = 1.0
    neighbours: float = 1.0
    similarity: float = 0.85
    late: float = 1.1
    similarity_alone: float = 1.0
    author: float = 6.0
    date: float = 6.0
    session: float = 0.4
    session_meaning: float = 0.2
    asks: float = -0.3
    answers: float = 0.25
    answers_it: float = 0.3
    length: float = 0.2


WEIGHTS = Weights()
# Somebody else's note about a person ("Ann told me that she is allergic") beside fifteen by the person: R@10 on the set
# third_person is 58 without it, 90 with 0.6 and 98 with 0.9; LoCoMo is the same from 0 to 1. A name that is only called
# ("Thanks, Ann!") says nothing about its bearer.
MENTION_CLAIM = 0.9
# A remark or a task is no question: where no memory has many of its words, those that some have are chance, and so are
# single tokens. On our set of remarks R@10 is 82.3 with the words at 0.3 and the weights of questions, 82.7 with these,
# 79.8 by the cosine alone; where remarks share hardly a word with what they call for, the cosine alone is the best.
REMARK_SHARE, REMARK_LEAST = 0.7, 0.1
REMARK_SIMILARITY, REMARK_LATE = 1.65, 0.5
# Of a script that the model does not read the cosine says next to nothing, and single tokens nothing: words decide.
UNREAD_SIMILARITY = 0.25
# "I" means the user less surely than a name means its bearer: the assistant, too, is asked about what I need.
ROLE_CLAIM = 0.5
# BM25's usual constants. A lower length norm suits LoCoMo (b = 0.4: R@5 +1.2) and cost another set 10 points.
SATURATION = 0.9
LENGTH_NORM = 0.75
LENT_BY_A_NEIGHBOUR = 0.5
# What was only written one after another lends less: with 0.5 the neighbour of a memory with a rare word came first at
# times. It costs LoCoMo's bare turns 0.4 of R@10. Among a handful of memories all are neighbours, which says nothing.
LENT_WITHOUT_SESSION, HANDFUL = 0.35, 20
# Below these a pool's spread is taken for chance, so that two memories with cosines 0.50 and 0.51 are not told
# apart as if they were night and day. LoCoMo's pools are above them in 95% (cosine 0.06 to 0.2) and 90% of cases.
LEAST_COSINE_SPREAD = 0.08
LEAST_WORD_SPREAD = 0.03
WHOLE_SHARE = 0.999
LEAST_LATE_SPREAD = 0.03
TYPICAL_COSINE_SPREAD, TYPICAL_LATE_SPREAD, FEW = 0.106, 0.046, 10  # the medians of LoCoMo's pools
LEAST_LENGTH_SPREAD = 0.5
# What is used at once, to act or in a prompt, must answer a little; and where it is not likely that anything answers,
# the rest would mislead, so the less likely it is, the more is asked of all. As bench/floor.py measures it, on four of
# LoCoMo's conversations: of the evidence that is found without a floor 99.6% is kept; of fifty considered memories 9
# are left for questions about another conversation, and none for 53% of these. With bare texts, on three others, 96.8%
# is kept, and 20 are left. (By the best match in place of the confidence 98.7% was kept and 22 were left.) Chosen on
# these same conversations. Questions made to sound as if they were answered find what they allude to.
LEAST_MATCH, DOUBT = 0.06, 0.6
# Logistic regression on questions that are answered and questions about something else, over 18 sets (LoCoMo, held-out
# talk, stories and documents, ours), each weighed alike. Told apart: AUC 0.95 on average, LoCoMo 0.99, with bare texts
# 0.95, our set of abstention 0.88. Of questions below 0.1 4% are answered, above 0.9 94%; at 0.5, 86% of those that are
# answered are said to be, and 9% of the others. The right topic of the wrong person stays hard: LoCoMo's adversarial
# questions 0.65, with bare texts 0.52.
CONFIDENCE = (-4.5, 11.1, 2.5)
LOOKED_AT = 10
ANSWERED = 0.5
_LONGEST_SESSION = 1 << 40  # apart enough that the last of one session is no neighbour of the first of the next
_ID = attrgetter("id")
_STEPS = np.array([sign * distance for distance in range(1, NEIGHBOUR_REACH + 1) for sign in (-1, 1)])
# What a score is the sum of, in this order.
PARTS = ("words", "neighbours", "similarity", "late", "author", "date", "length", "asking", "session")
_WORDS, _NEIGHBOURS, _SIMILARITY, _LATE, _AUTHOR, _DATE, _LENGTH, _ASKING, _SESSION = range(len(PARTS))


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


def least_match(sure: float) -> float:
    """The match below which a hit hardly answers, given how likely anything does: see LEAST_MATCH."""
    return LEAST_MATCH + DOUBT * max(0.0, ANSWERED - sure)


def confidence(best: Sequence[Ranked], weights: Weights = WEIGHTS) -> float:
    """From 0 to 1, how likely the best of these answer the question at all: see CONFIDENCE."""
    if not best:
        return 0.0
    start, by_match, by_author = CONFIDENCE
    match = max(hit.match for hit in best[:LOOKED_AT])
    author = best[0].parts.get("author", 0.0) / weights.author
    return 1 / (1 + math.exp(-(start + by_match * match + by_author * min(max(author, 0.0), 1.0))))


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
        self._pool = pool = sorted(candidates, key=_ID)
        if not pool:
            return
        self._weights = weights = _suiting(weights, question)
        told = [c.text for c in pool]
        texts = PoolTexts.of(told)
        asks, has_question = questions_in(told)
        authors = [c.author for c in pool]
        named = set(question.named_authors({author for author in authors if author}))
        self._sessions = _Sessions.of(pool)
        self._around = _Neighbours.of(pool, self._sessions)
        self._words = words = _Words.found(_asked_terms(question, named), texts, pool, self._around)
        own, lent = words.parts()
        trust = words.trust(question)
        self._follows = self._around.before(has_question)
        self._asking = weights.asks * asks + weights.answers * self._follows
        best_words = self._sessions.best(words.in_context)
        self._session_words = trust * weights.session * _standardised(best_words, words.least_spread)
        self._table = table = np.empty((len(pool), len(PARTS)))
        table[:, _WORDS] = trust * (weights.words * own + weights.whole * (words.share > WHOLE_SHARE))
        table[:, _NEIGHBOURS] = trust * weights.neighbours * lent
        table[:, _AUTHOR] = weights.author * _author(question, authors, named, pool, texts)
        table[:, _DATE] = weights.date * _date(question, pool)
        table[:, _LENGTH] = weights.length * _brevity(bytes_of(told))

    def best(self, limit: int | None = None) -> list[Ranked]:
        """The best of the pool with what they were found by."""
        if not self._pool:
            return []
        scores, cosine = self._scores()
        first = _order(scores, limit)
        matches = _match(cosine[first], self._words.share[first]).tolist()
        chosen = zip(first.tolist(), scores[first].tolist(), matches, self._table[first].tolist(), strict=True)
        return [
            Ranked(self._pool[i].id, score, match, dict(zip(PARTS, row, strict=True)))
            for i, score, match, row in chosen
        ]

    def leading(self, limit: int | None = None) -> list[str]:
        """The ids of the best alone, where nobody looks at what they were found by."""
        if not self._pool:
            return []
        pool = self._pool
        return [pool[i].id for i in _order(self._scores()[0], limit).tolist()]

    def _scores(self) -> tuple[Floats, Floats]:
        """The scores, and the cosines as they are matched; what each part says is then in the table."""
        weights, table = self._weights, self._table
        higher, cosine = _cosines(self._pool)
        similarity, late = _meaning(cosine, [c.late for c in self._pool], weights)
        meaning = _standardised(similarity + late)
        session = _standardised(self._sessions.best(meaning))
        table[:, _SIMILARITY] = similarity
        table[:, _LATE] = late
        table[:, _ASKING] = self._asking + weights.answers_it * self._follows * self._around.before(meaning)
        table[:, _SESSION] = self._session_words + weights.session_meaning * session
        return np.add.reduce(table, axis=1), higher


def _suiting(weights: Weights, question: Question) -> Weights:
    if not question.is_understood:
        unread = {"late": 0.0, "session_meaning": 0.0, "answers_it": 0.0}
        return replace(
            weights,
            similarity=weights.similarity * UNREAD_SIMILARITY,
            similarity_alone=weights.similarity_alone * UNREAD_SIMILARITY,
            **unread,
        )
    if not question.is_asked:
        similarity, late = weights.similarity * REMARK_SIMILARITY, weights.late * REMARK_LATE
        return replace(weights, similarity=similarity, late=late)
    return weights


def _asked_terms(question: Question, named: set[str]) -> list[str]:
    """Without the named authors: their name stands in what others say to them, not in what they say."""
    known = [*named, question.speaker] if question.speaker else named
    names = {folded(part) for author in known for part in WORD.findall(author)}
    return list(terms_asked([term for term in question.terms if term not in names] or question.terms))


def _standardised(values: Floats, least_spread: float = 1e-9, typical: float | None = None) -> Floats:
    """In standard deviations from the pool's mean; what tells nothing apart is zero for all.

    Of a few memories the spread is hardly known: then it is taken for more like the `typical` one.
    """
    from_mean = _from_mean(values)
    spread = _spread(from_mean)
    if typical is not None:
        spread = math.sqrt((len(values) * spread**2 + FEW * typical**2) / (len(values) + FEW))
    return np.asarray(from_mean / max(spread, least_spread))


# A recall does this a dozen times over some 200 numbers, where numpy's own mean and std take longer to get going.
def _from_mean(values: Floats) -> Floats:
    return np.asarray(values - np.add.reduce(values) / len(values))


def _spread(from_mean: Floats) -> float:
    return math.sqrt(np.add.reduce(from_mean * from_mean) / len(from_mean))


def _known(values: Sequence[float | None]) -> Floats:
    """Unknown values stand at the lowest known one: not measured is no reason to rise, nor to sink further."""
    if values.count(None) == len(values):
        return np.zeros(len(values))
    known = np.array(values, dtype=float)  # None becomes nan
    unknown = np.isnan(known)
    if unknown.any():
        known[unknown] = 0.0 if unknown.all() else known[~unknown].min()
    return known


def _order(scores: Floats, limit: int | None) -> NDArray[np.intp]:
    return np.argsort(-scores, kind="stable")[:limit]


def _match(cosine: Floats, share: Floats) -> Floats:
    """How well a memory answers by itself: half its cosine, half the share of the question's words it has."""
    return 0.5 * np.minimum(np.maximum(cosine, 0.0), 1.0) + 0.5 * share


# --- Meaning ---------------------------------------------------------------------------------------------


def _cosines(pool: Sequence[Candidate]) -> tuple[Floats, Floats]:
    """The cosines: the higher of both for each, of the question as it was put and rephrased; and those that count."""
    similarity = _known([c.similarity for c in pool])
    rephrased = [c.similarity_rephrased for c in pool]
    if rephrased.count(None) == len(pool):
        return similarity, similarity
    counted = _known(rephrased)
    return np.maximum(similarity, counted), counted


def _meaning(cosine: Floats, measured: Sequence[float | None], weights: Weights) -> tuple[Floats, Floats]:
    """Nearness in meaning: what the cosine counts, and what late interaction does where that was measured."""
    similarity = _standardised(cosine, LEAST_COSINE_SPREAD, TYPICAL_COSINE_SPREAD)
    if any(measured):
        late = _standardised(_known(measured), LEAST_LATE_SPREAD, TYPICAL_LATE_SPREAD)
        if late.any():
            return weights.similarity * similarity, weights.late * late
    return weights.similarity_alone * similarity, np.zeros(len(cosine))


# --- Words -----------------------------------------------------------------------------------------------


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

    def trust(self, question: Question) -> float:
        """How far the words can be trusted: wholly for a question, less for a remark that shares few with any."""
        if question.is_asked:
            return 1.0
        return max(REMARK_LEAST, min(1.0, float(self.share.max()) / REMARK_SHARE))

    def parts(self) -> tuple[Floats, Floats]:
        """What its own words and those of its neighbours say; together the standardised score in context."""
        spread = max(_spread(_from_mean(self.in_context)), self.least_spread)
        return _from_mean(self.own) / spread, _from_mean(self.in_context - self.own) / spread

    @classmethod
    def found(cls, terms: Sequence[str], texts: PoolTexts, pool: Sequence[Candidate], around: _Neighbours) -> _Words:
        counts = occurrences(terms, texts)
        has = counts > 0
        if not has.any():
            # What only the author or the date of a memory says, the index knows.
            lexical = np.array([c.lexical for c in pool], dtype=float)
            return cls(lexical, lexical, lexical / max(float(lexical.max()), 1e-9))
        length = texts.lengths.astype(float)
        mean_length = np.add.reduce(length) / len(length)
        frequency = counts / (1 - LENGTH_NORM + LENGTH_NORM * length / mean_length)
        present = np.add.reduce(has, axis=1, dtype=np.intp)
        rarity = np.log(1 + (len(pool) - present + 0.5) / (present + 0.5))
        in_context = frequency + around.lent(frequency)
        every = np.add.reduce(rarity)
        return cls(
            own=rarity @ (frequency / (frequency + SATURATION)),
            in_context=rarity @ (in_context / (in_context + SATURATION)),
            share=rarity @ has / every,
            least_spread=LEAST_WORD_SPREAD * float(every),
        )


@dataclass(slots=True)
class _Neighbours:
    """Where in the pool the one before each is, the one after it, those beyond, and what they lend; the pool's length
    is nowhere.
    """

    lends: list[Floats]
    """By the distance."""
    places: list[NDArray[np.intp]]

    @classmethod
    def of(cls, pool: Sequence[Candidate], sessions: _Sessions) -> _Neighbours:
        position = np.array([c.position for c in pool], dtype=float)  # None becomes nan
        placed = np.flatnonzero(~np.isnan(position))
        if len(placed) < 2:
            return cls([], [])
        member = sessions.member
        place = (member[placed] + 1) * _LONGEST_SESSION + position[placed].astype(np.intp)
        without_session = LENT_WITHOUT_SESSION * min(1.0, len(pool) / HANDFUL)
        lends = np.where(member < 0, without_session, LENT_BY_A_NEIGHBOUR)
        order = np.argsort(place, kind="stable")
        known = place[order]
        beside = place + _STEPS[:, None]
        at = known.searchsorted(beside, "right") - 1
        places = np.full((len(_STEPS), len(pool)), len(pool), dtype=np.intp)
        places[:, placed] = np.where(known[at] == beside, placed[order][at], len(pool))
        return cls([lends / distance for distance in range(1, NEIGHBOUR_REACH + 1)], list(places))

    def lent(self, frequency: Floats) -> Floats:
        """What is lent to each by those beside it."""
        lent = np.zeros_like(frequency)
        with_a_column_for_nobody = np.zeros((len(frequency), frequency.shape[1] + 1))
        with_a_column_for_nobody[:, :-1] = frequency
        for step, place in enumerate(self.places):
            lent += self.lends[step // 2] * with_a_column_for_nobody.take(place, axis=1, mode="clip")
        return lent

    def before(self, values: Floats) -> Floats:
        """For each the value of the one before it in its session; 0 where that is not known."""
        if not self.places:
            return np.zeros(len(values))
        with_one_for_nobody = np.zeros(len(values) + 1)
        with_one_for_nobody[:-1] = values
        return with_one_for_nobody.take(self.places[0], mode="clip")


def _brevity(size: Floats) -> Floats:
    """In bytes, since a character of Chinese says more than a letter does."""
    return np.minimum(np.maximum(_standardised(np.log(size + 10), LEAST_LENGTH_SPREAD), -3.0), 1.0)


# --- Sessions, authors, dates ----------------------------------------------------------------------------


@dataclass(slots=True)
class _Sessions:
    """Which candidates were said together: a session that spoke of the matter at all lifts all of its turns."""

    member: NDArray[np.intp]
    count: int
    has_others: bool
    """Whether some were said in none."""

    @classmethod
    def of(cls, pool: Sequence[Candidate]) -> _Sessions:
        told_in = [c.session_id for c in pool]
        codes = dict.fromkeys(told_in)
        codes.pop(None, None)
        of_session: dict[str | None, int] = dict(zip(codes, range(len(codes)), strict=True))
        of_session[None] = -1
        member = np.fromiter(map(of_session.__getitem__, told_in), np.intp, len(told_in))
        return cls(member, len(codes), bool((member < 0).any()))

    def best(self, values: Floats) -> Floats:
        """For each candidate the highest value in its session; its own is the mean if it has no session."""
        if self.count < 2:
            return np.zeros(len(values))
        highest = np.full(self.count, -np.inf)
        if not self.has_others:
            np.maximum.at(highest, self.member, values)
            return highest[self.member]
        inside = self.member >= 0
        np.maximum.at(highest, self.member[inside], values[inside])
        return np.where(inside, highest[self.member], np.add.reduce(highest) / self.count)


def _author(
    question: Question, authors: Sequence[str | None], named: set[str], pool: Sequence[Candidate], texts: PoolTexts
) -> Floats:
    """1 for a memory by an author whom the question names; a half for the user's own when it says I or my; most of it
    for what somebody else tells about a named one.

    "What did you tell me" is about both sides, and so tells no role apart.
    """
    roles: frozenset[str] = frozenset()
    if question.first_person != question.second_person:
        roles = USER_ROLES if question.first_person else ASSISTANT_ROLES
    elif question.speaker:
        roles = USER_ROLES
    claims: dict[str | None, float] = {
        author: ROLE_CLAIM if author and author.casefold() in roles else 0.0 for author in set(authors)
    }
    claims |= dict.fromkeys(named, 1.0)
    claim = np.array([claims[author] for author in authors])
    if named:
        names = {part for author in named for part in WORD.findall(author)}
        told = telling(names, [c.text for c in pool], texts)
        claim[[row for row in told if authors[row] not in named]] = MENTION_CLAIM
    return claim


def _date(question: Question, pool: Sequence[Candidate]) -> Floats:
    if not question.times:
        return np.zeros(len(pool))
    days = [None if c.at is None else question.day_of(c.at) for c in pool]
    closeness = {day: max(_closeness(time, day) for time in question.times) for day in set(days) if day is not None}
    return np.array([0.0 if day is None else closeness[day] for day in days])


def _closeness(time: NamedTime, day: date) -> float:
    """1 within the named time, falling to 0 over a week around it: people speak of a day before and after it."""
    if time.month is not None and time.day is None:
        return float(day.month == time.month)
    if time.month is not None and time.day is not None:
        # In a year that has every day; what is left of it is the way around the turn of the year.
        apart = abs((day.replace(year=2000) - date(2000, time.month, time.day)).days)
        return max(0.0, 1 - min(apart, 366 - apart) / 7)
    early = (time.first - day).days if time.first else 0
    late = (day - time.last).days if time.last else 0
    return max(0.0, 1 - max(early, late, 0) / 7)
