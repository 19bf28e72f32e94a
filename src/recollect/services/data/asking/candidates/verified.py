"""Verified questions of a source, read and embedded once, and how like each is to a question that is asked."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from itertools import pairwise
from math import log

import numpy as np

from recollect.services.data.asking.language.dates import time_spans
from recollect.services.data.asking.language.linking import Encode, Matrix
from recollect.services.data.asking.language.words import STOPWORDS, tokens
from recollect.services.data.asking.plans.plan import Condition, Plan
from recollect.services.data.asking.plans.schema import Scalar, Schema
from recollect.services.data.asking.plans.sketch import ROLES, Sketch, roles_of, sketch_of

_NEAREST = 8
_TEMPERATURE = 0.08
_MOST = 500  # verified questions that are looked at: the likest
_LITERAL = "#"
_HALF = 40  # verified questions that are trusted half
ROLE_FEATURES = 7


@dataclass(frozen=True)
class Verified:
    """A question whose SQL somebody called right."""

    question: str
    sql: str


@dataclass(frozen=True)
class Remembered:
    """A verified question with what was learned from it."""

    question: str
    stems: frozenset[str]
    plan: Plan
    template: Plan
    sketch: Sketch
    fields: frozenset[int]
    shown: frozenset[tuple[int, str]]  # what is selected
    roles: frozenset[tuple[int, str]]  # fields in their roles
    words: str  # lower case, to see which literals it names
    says_time: bool  # such as "in 2025" or "last month"


@dataclass(frozen=True)
class Recollection:
    """The verified questions with their likeness to the one asked."""

    items: Sequence[Remembered]
    likeness: Matrix
    stems: frozenset[str] = frozenset()

    @property
    def trust(self) -> float:
        """From 0 to 1: a few verified questions say little about a source."""
        return len(self.items) / (len(self.items) + _HALF)

    @cached_property
    def nearest(self) -> list[tuple[float, Remembered]]:
        order = np.argsort(-self.likeness)[:_NEAREST].tolist()
        return [(float(self.likeness[at]), self.items[at]) for at in order]

    @cached_property
    def votes(self) -> dict[tuple[int, str], float]:
        """What the verified questions say of fields in roles, the nearer the louder."""
        roles: dict[tuple[int, str], float] = defaultdict(float)
        for weight, item in zip(self._loudness.tolist(), self.items, strict=True):
            for role in item.roles:
                roles[role] += weight
        return roles

    @cached_property
    def popularity(self) -> dict[int, float]:
        """The share of the verified queries that use a field."""
        counts = Counter(field for item in self.items for field in item.fields)
        return {field: count / len(self.items) for field, count in counts.items()}

    def role_features(self, schema: Schema, table_odds: Matrix) -> Matrix:
        """What the verified queries say of each field in each role: fields x roles x ROLE_FEATURES.

        Said by the nearest, the louder the nearer; by all; by those that share a word with the question; and by those
        that read the same table, where this question seems to read it (`table_odds`).
        """
        found = np.zeros((len(schema.fields), len(ROLES), ROLE_FEATURES), np.float32)
        if not self.items:
            return found
        used = np.zeros((len(self.items), len(schema.fields), len(ROLES)), np.float32)
        read = np.zeros((len(self.items), len(schema.tables)), np.float32)
        for at, item in enumerate(self.items):
            for field, role in item.roles:
                used[at, field, ROLES.index(role)] = 1
            read[at, [schema.table_of[field] for field in item.fields]] = 1
        table_of = list(schema.table_of)
        reads, likely = read.sum(axis=0)[table_of], (1 / (1 + np.exp(-table_odds)))[table_of]
        total = used.sum(axis=0)
        nearest = np.tensordot(self._loudness, used, 1)
        found[..., 0] = nearest
        found[..., 1] = nearest * float(self.likeness.max())
        found[..., 2] = total / (len(self.items) + 3)
        found[..., 3], found[..., 4] = self._by_words(used)
        found[..., 5] = total / (reads[:, None] + 1.5) * likely[:, None]
        found[..., 6] = (-np.log1p(reads) * (total.sum(axis=1) == 0) * likely)[:, None]
        return found

    def _by_words(self, used: Matrix) -> tuple[Matrix, Matrix]:
        """How much more often fields come with a word of the question than without: the most, and on average."""
        usual = used.mean(axis=0)
        most, summed, weight = np.zeros_like(usual), np.zeros_like(usual), 1e-6
        for word in self.stems:
            having = np.array([word in item.stems for item in self.items])
            count = int(having.sum())
            if not count or count > 0.6 * len(self.items) or word in STOPWORDS or word == _LITERAL:
                continue
            more = (used[having].sum(axis=0) + 2 * usual) / (count + 2) - usual
            rarity = log(1 + len(self.items) / count)
            most = np.maximum(most, more * min(1.0, count / 2))
            summed, weight = summed + rarity * more, weight + rarity
        return most, np.asarray(summed / weight, np.float32)

    @cached_property
    def _loudness(self) -> Matrix:
        weights = np.exp((self.likeness - self.likeness.max()) / _TEMPERATURE)
        return np.asarray(weights / weights.sum(), np.float32)

    @cached_property
    def _beside(self) -> list[tuple[float, dict[int, float]]]:
        """Of each word of the question that verified ones had: its weight, and the fields that came with it."""
        found = []
        for stem in self.stems:
            having = [item for item in self.items if stem in item.stems]
            if having and len(having) <= len(self.items) / 2 and stem not in STOPWORDS:
                counts = Counter(field for item in having for field in item.fields)
                rarity = log(1 + len(self.items) / len(having))
                found.append((rarity, {field: count / len(having) for field, count in counts.items()}))
        return found

    def coverage(self, fields: frozenset[int]) -> float:
        """How well the fields agree with those that came with the same words before."""
        total = sum(weight for weight, _ in self._beside)
        if not total:
            return 0.0
        return sum(w * max((known.get(f, 0.0) for f in fields), default=0.0) for w, known in self._beside) / total


class Memory:
    """Verified questions of one source, read and embedded once."""

    def __init__(self, schema: Schema, encode: Encode | None) -> None:
        self.schema = schema
        self.encode = encode
        self._known: dict[Verified, Remembered | None] = {}
        self._vectors: dict[str, Matrix] = {}

    def recall(self, question: str, verified: Sequence[Verified], said: Iterable[str] = ()) -> Recollection:
        """`said` are the literals of the question: they may differ without making it less like another."""
        items = [found for each in verified if (found := self._read(each)) is not None]
        stems = _content(question, said)
        shared = np.array([_overlap(stems, item.stems) for item in items], np.float32)
        if self.encode is None or not items:
            return Recollection(items[:_MOST], shared[:_MOST], stems)
        missing = [item.question for item in items if item.question not in self._vectors]
        if missing:
            self._vectors.update(zip(missing, self.encode(missing), strict=True))
        vector = self.encode([question])[0]
        meaning = np.stack([self._vectors[item.question] for item in items]) @ vector
        likeness = np.asarray(np.maximum(0.5 * meaning + 0.5 * shared, shared), np.float32)
        kept = np.argsort(-likeness, kind="stable")[:_MOST]
        return Recollection([items[at] for at in kept], likeness[kept], stems)

    def _read(self, verified: Verified) -> Remembered | None:
        from recollect.services.data.asking.plans.parsing import parse  # here, for it needs sqlglot

        if verified not in self._known:
            plan = parse(verified.sql, self.schema)
            self._known[verified] = _remembered(verified, plan) if plan is not None else None
        return self._known[verified]


def _remembered(verified: Verified, plan: Plan) -> Remembered:
    return Remembered(
        verified.question,
        _content(verified.question, _literals(plan)),
        plan,
        template_of(plan),
        sketch_of(plan),
        frozenset(plan.all_fields()),
        frozenset((item.field, item.aggregate) for item in plan.select),
        roles_of(plan),
        verified.question.lower(),
        bool(time_spans(tokens(verified.question), date.today(), bare_years=True)),
    )


def _content(question: str, said: Iterable[str]) -> frozenset[str]:
    """Stems, with pairs, so that word order counts a little; literals are all the same."""
    masked = {token.stem for literal in said for token in tokens(literal)}
    found = [token for token in tokens(question) if token.kind != "mark"]
    stems = [_LITERAL if token.kind != "word" or token.stem in masked else token.stem for token in found]
    return frozenset(stems) | frozenset(f"{a} {b}" for a, b in pairwise(stems))


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    return _weight(one & other) / max(1e-6, _weight(one | other))


def _weight(stems: frozenset[str]) -> float:
    return sum(0.3 if each in STOPWORDS else 1.0 for each in stems)


def _literals(plan: Plan) -> Iterator[str]:
    for level in plan.levels():
        for condition in level.where:
            if isinstance(condition.value, str):
                yield condition.value.strip("%")


def template_of(plan: Plan) -> Plan:
    """The plan without its values."""

    def blank(condition: Condition) -> Condition:
        value: Scalar | Plan = template_of(condition.nested) if condition.nested else None
        return replace(condition, value=value, upper=None)

    return plan.changed(
        where=tuple(sorted((blank(c) for c in plan.where), key=repr)),
        having=tuple(blank(c) for c in plan.having),
        limit=None if plan.limit is None else min(plan.limit, 2),
        second=template_of(plan.second) if plan.second else None,
        select=tuple(sorted(plan.select, key=lambda i: (i.field, i.aggregate))),
        tables=(),
        group=(),
        via=frozenset(),
        zone="",
    )
