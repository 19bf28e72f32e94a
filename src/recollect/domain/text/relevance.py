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
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from recollect.domain.text.named_times import NamedTime
from recollect.domain.text.questions import ASSISTANT_ROLES, USER_ROLES, WORD, Question
from recollect.domain.text.tokenizer import folded, terms_asked
from recollect.domain.text.word_counts import occurrences

Floats = NDArray[np.float64]
Around = list[tuple[Floats, NDArray[np.intp]]]

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
_AFTER_A_CALL = frozenset(["", ",", "!", "?", "."])
_CALLING = re.compile(r"(?:,|\b(?:hey|hi|hello|thanks|thank you|wow|bye|dear))\s*$", re.IGNORECASE)

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
        self._pool = sorted(candidates, key=_ID)
        if not self._pool:
            return
        self._weights = weights = _suiting(weights, question)
        named = set(question.named_authors({c.author for c in self._pool if c.author}))
        self._sessions = _Sessions.of(self._pool)
        self._words = _Words.found(_asked_terms(question, named), self._pool, self._sessions)
        own, lent = self._words.parts()
        trust = self._words.trust(question)
        whole = weights.whole * (self._words.share > WHOLE_SHARE)
        self._by_words = {
            "words": trust * (weights.words * own + whole),
            "neighbours": trust * weights.neighbours * lent,
        }
        asks, self._follows = _asking(self._pool, self._words.around)
        self._by_facts = {
            "author": weights.author * _author(question, self._pool, named),
            "date": weights.date * _date(question, self._pool),
            "length": weights.length * _brevity(self._pool),
        }
        self._asking = weights.asks * asks + weights.answers * self._follows
        best_words = self._sessions.best(self._words.in_context)
        self._session_words = trust * weights.session * _standardised(best_words, self._words.least_spread)

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
        similarity, late = _meaning(self._pool, self._weights)
        meaning = _standardised(similarity + late)
        session = _standardised(self._sessions.best(meaning))
        return {
            **self._by_words,
            "similarity": similarity,
            "late": late,
            **self._by_facts,
            "asking": self._asking + self._weights.answers_it * self._follows * self._before(meaning),
            "session": self._session_words + self._weights.session_meaning * session,
        }

    def _before(self, values: Floats) -> Floats:
        """For each candidate the value of the one before it in its session; 0 where that is not known."""
        around = self._words.around
        return np.append(values, 0.0)[around[0][1]] if around else np.zeros(len(values))

    def _match(self) -> Floats:
        """How well a memory answers by itself: half its cosine, half the share of the question's words it has."""
        cosine = np.maximum(_known([c.similarity for c in self._pool]), _cosine(self._pool))
        return 0.5 * np.minimum(np.maximum(cosine, 0.0), 1.0) + 0.5 * self._words.share


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
    known = np.array(values, dtype=float)  # None becomes nan
    unknown = np.isnan(known)
    known[unknown] = 0.0 if unknown.all() else known[~unknown].min()
    return known


# --- Meaning ---------------------------------------------------------------------------------------------


def _cosine(pool: Sequence[Candidate]) -> Floats:
    if any(c.similarity_rephrased is not None for c in pool):
        return _known([c.similarity_rephrased for c in pool])
    return _known([c.similarity for c in pool])


def _meaning(pool: Sequence[Candidate], weights: Weights) -> tuple[Floats, Floats]:
    """Nearness in meaning: what the cosine counts, and what late interaction does where that was measured."""
    similarity = _standardised(_cosine(pool), LEAST_COSINE_SPREAD, TYPICAL_COSINE_SPREAD)
    measured = [c.late for c in pool]
    late = (
        _standardised(_known(measured), LEAST_LATE_SPREAD, TYPICAL_LATE_SPREAD)
        if any(measured)
        else np.zeros(len(pool))
    )
    if not late.any():
        return weights.similarity_alone * similarity, late
    return weights.similarity * similarity, weights.late * late


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
    around: Around
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
    def found(cls, terms: Sequence[str], pool: Sequence[Candidate], sessions: _Sessions) -> _Words:
        counts = occurrences(terms, [c.text for c in pool])
        if not counts.any():
            # What only the author or the date of a memory says, the index knows.
            lexical = np.array([c.lexical for c in pool], dtype=float)
            return cls(lexical, lexical, lexical / max(float(lexical.max()), 1e-9), _neighbours(pool, sessions))
        length = np.array([len(c.text) for c in pool], dtype=float)
        frequency = counts / (1 - LENGTH_NORM + LENGTH_NORM * length / length.mean())
        with_a_column_for_nobody = np.zeros((len(counts), len(pool) + 1))
        with_a_column_for_nobody[:, :-1] = frequency
        lent = np.zeros_like(frequency)
        around = _neighbours(pool, sessions)
        for share, index in around:
            lent += share * with_a_column_for_nobody[:, index]
        present = (counts > 0).sum(axis=1)
        rarity = np.log(1 + (len(pool) - present + 0.5) / (present + 0.5))
        return cls(
            own=rarity @ (frequency / (frequency + SATURATION)),
            in_context=rarity @ ((frequency + lent) / (frequency + lent + SATURATION)),
            share=rarity @ (counts > 0) / rarity.sum(),
            around=around,
            least_spread=LEAST_WORD_SPREAD * float(rarity.sum()),
        )


def _neighbours(pool: Sequence[Candidate], sessions: _Sessions) -> Around:
    """For each step along the session: what it lends, and where in the pool that neighbour is (-1 = nowhere)."""
    placed = np.array([i for i, c in enumerate(pool) if c.position is not None])
    if len(placed) < 2:
        return []
    place = (sessions.member[placed] + 1) * _LONGEST_SESSION + np.array([pool[i].position for i in placed.tolist()])
    without_session = LENT_WITHOUT_SESSION * min(1.0, len(pool) / HANDFUL)
    lent = np.where(sessions.member < 0, without_session, LENT_BY_A_NEIGHBOUR)
    order = np.argsort(place, kind="stable")
    known = place[order]
    around = []
    for distance in range(1, NEIGHBOUR_REACH + 1):
        for step in (-distance, distance):
            beside = place + step
            at = np.searchsorted(known, beside, "right") - 1
            index = np.full(len(pool), -1, dtype=np.intp)
            index[placed] = np.where(known[at] == beside, placed[order[at]], -1)
            around.append((lent / distance, index))
    return around


def _asking(pool: Sequence[Candidate], around: Around) -> tuple[Floats, Floats]:
    """Which memories end with a question, and which follow one that has a question in it."""
    asks = np.array([c.text.rstrip().endswith("?") for c in pool], dtype=float)
    if not around:
        return asks, np.zeros(len(pool))
    has_question = np.array([*("?" in c.text for c in pool), False], dtype=float)
    _, before = around[0]
    return asks, has_question[before]


def _brevity(pool: Sequence[Candidate]) -> Floats:
    """In bytes, since a character of Chinese says more than a letter does."""
    size = np.array([len(c.text.encode()) + 10 for c in pool], dtype=float)
    return np.minimum(np.maximum(_standardised(np.log(size), LEAST_LENGTH_SPREAD), -3.0), 1.0)


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
    """1 for a memory by an author whom the question names; a half for the user's own when it says I or my; most of it
    for what somebody else tells about a named one.

    "What did you tell me" is about both sides, and so tells no role apart.
    """
    roles: frozenset[str] = frozenset()
    if question.first_person != question.second_person:
        roles = USER_ROLES if question.first_person else ASSISTANT_ROLES
    elif question.speaker:
        roles = USER_ROLES
    claims = dict.fromkeys(named, 1.0)
    for author in {c.author for c in pool if c.author} - named:
        claims[author] = ROLE_CLAIM if author.casefold() in roles else 0.0
    own = np.array([claims[c.author] if c.author else 0.0 for c in pool])
    if not named:
        return own
    told = _told_of({part for author in named for part in WORD.findall(author)})
    of_others = [c.author not in named and told(c.text) for c in pool]
    return np.asarray(np.maximum(own, MENTION_CLAIM * np.array(of_others, dtype=float)))


def _told_of(names: Collection[str]) -> Callable[[str], bool]:
    """Whether a text tells of one of these, not only calls them: "Thanks, Ann!" calls her."""
    spelt = "|".join(re.escape(name) for name in sorted(names))
    named = re.compile(rf"(?<!\w)(?:{spelt})(?!\w)", re.IGNORECASE)
    plain = [name.lower() for name in names] if all(map(str.isascii, names)) else None

    def tells(text: str) -> bool:
        if plain is not None and text.isascii():  # most have none of the names, and to see that is quick
            lowered = text.lower()
            if not any(map(lowered.__contains__, plain)):
                return False
        return any(
            text[found.end() : found.end() + 1] not in _AFTER_A_CALL and not _CALLING.search(_before(found, text))
            for found in named.finditer(text)
        )

    return tells


def _before(found: re.Match[str], text: str) -> str:
    return text[max(0, found.start() - 12) : found.start()]


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
