"""Scores candidates by features of the whole query; the weights are learned from examples by a small network."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from recollect.services.data.asking.analysis import Analysis, Prepared
from recollect.services.data.asking.candidates.generation import Candidate
from recollect.services.data.asking.candidates.rebinding import memory_features
from recollect.services.data.asking.candidates.verified import Recollection
from recollect.services.data.asking.plans.plan import ANY, Plan, tables_of
from recollect.services.data.asking.plans.sketch import ASPECTS, ROLES, roles_of

Features = NDArray[np.float32]
_STRONG = 0.75
_ROLE = {name: at for at, name in enumerate(ROLES)}


class Featurizer:
    """Features of the candidates of one question. What they share is computed once."""

    def __init__(self, analysis: Analysis, prepared: Prepared) -> None:
        self.analysis = analysis
        self.prepared = prepared
        self.schema = prepared.schema
        links = analysis.evidence.links
        self.mentions = [each[:2] for each in links.fields]
        self.table_mentions = [each[:2] for each in links.tables]
        self.strong_fields = {at for each in self.mentions for m in each if m.score >= _STRONG for at in m.places}
        self.strong_tables = {at for each in self.table_mentions for m in each if m.score >= _STRONG for at in m.places}
        self.content = {at for at, t in enumerate(links.tokens) if t.kind != "mark"}
        self.gain = (analysis.roles - analysis.not_roles).tolist()
        self.no_role = analysis.not_roles.sum()
        self.table_logs = -np.logaddexp(0, -analysis.tables), -np.logaddexp(0, analysis.tables)
        self.words = {token.word for token in links.tokens}

    def vector(self, candidate: Candidate) -> list[float]:
        plan, sketch = candidate.plan, candidate.sketch
        levels = list(plan.levels())
        used = roles_of(plan)
        roles = float(self.no_role) + sum(self.gain[field][_ROLE[role]] for field, role in used)
        tables, nested, edges, connectors = self._tables(levels)
        fields = {field for field, _ in used}
        covered, conflicts, unmentioned = self._coverage(fields, tables | nested)
        aspects = [self.analysis.aspects[name].get(sketch.label(name), -6.0) for name in ASPECTS]
        inside, outside = self.table_logs
        table_log = sum(float(inside[t, 0] if t in tables else outside[t, 0]) for t in range(len(self.schema.tables)))
        nest_log = sum(float(inside[t, 1] if t in nested else outside[t, 1]) for t in range(len(self.schema.tables)))
        silent = [t for t in plan.tables if not self._is_named(t)]
        select = [item.field for item in plan.select if not item.aggregate and item.field != ANY]
        spread = len({self.schema.table_of[f] for f in select})
        conditions = [c for level in levels for c in level.where if not c.nested]
        return [
            candidate.form,
            candidate.fill,
            candidate.literal,
            *aspects,
            roles,
            table_log,
            nest_log,
            len(tables),
            edges,
            connectors,
            len(plan.tables),
            len(silent),
            len(self.strong_fields - covered),
            len(self.strong_tables - covered),
            len((self.strong_fields | self.strong_tables) - covered)
            / (1 + len(self.strong_fields | self.strong_tables)),
            conflicts,
            unmentioned,
            len(candidate.assignment.unused),
            len(conditions),
            spread,
            len(select),
            sum(self._named(f) for f in select) / (1 + len(select)),
            sum(self.schema.fields[f].is_key for f in select),
            sum(f in self.schema.joined_fields for f in select),
            float(bool(plan.group)),
            float(bool(plan.group) and any(self.schema.fields[i.field].is_unique for i in plan.group)),
            float(bool(plan.group) and bool(plan.select and not any(not i.aggregate for i in plan.select))),
            float(bool(plan.having)),
            float(bool(plan.order)),
            float(plan.distinct),
            float(plan.combination is not None),
            float(len(levels) > 1 and plan.combination is None),
            float(any(c.operator == "like" for c in conditions)),
            float(len(conditions) - len({c.item.field for c in conditions})),
            self._hits(conditions),
            self._order_is_selected(plan),
            self._count_is_direct(plan, tables),
            *(float(sketch.nest == each) for each in ("or", "intersect", "union", "except", "not in", "avg")),
            *(float(sketch.order.startswith(each)) for each in ("col", "count")),
            float(plan.limit is not None),
            float(sum(bool(item.aggregate) for item in plan.select)),
            float(any(item.is_count for item in plan.select)),
            float(plan.select[0].field == ANY and not plan.select[0].aggregate),
        ]

    def _tables(self, levels: Sequence[Plan]) -> tuple[set[int], set[int], int, int]:
        first: set[int] = set()
        nested: set[int] = set()
        edges = connectors = 0
        for at, level in enumerate(levels):
            named = tables_of(level, self.schema)
            tree = self.prepared.graph.tree(named) or ()
            joined = {table for table, _ in tree}
            (nested if at else first).update(joined)
            if not at:
                edges, connectors = len(joined) - 1, len(joined - named)
        return first, nested, edges, connectors

    def _coverage(self, fields: set[int], tables: set[int]) -> tuple[set[int], int, int]:
        covered: set[int] = set()
        owners: dict[frozenset[int], int] = {}
        unmentioned = 0
        for field in fields:
            own = [m for m in self.mentions[field] if m.score >= 0.4]
            if not own:
                unmentioned += 1
                continue
            covered.update(at for m in own for at in m.places)
            owners[own[0].places] = owners.get(own[0].places, 0) + 1
        for table in tables:
            covered.update(at for m in self.table_mentions[table] if m.score >= 0.4 for at in m.places)
        for literal in self.analysis.evidence.literals:
            covered.update(range(literal.start, literal.end))
        return covered, sum(count - 1 for count in owners.values()), unmentioned

    def _named(self, field: int) -> float:
        return max((m.score for m in self.mentions[field]), default=0.0)

    def _is_named(self, table: int) -> bool:
        return any(m.score >= 0.5 for m in self.table_mentions[table])

    def _hits(self, conditions: Sequence[object]) -> float:
        """Conditions on text whose value the data do not have."""
        known = {(h.field, h.value) for each in self.analysis.evidence.literals for h in each.hits}
        return float(sum(
            isinstance(c.value, str) and c.operator in ("=", "!=") and (c.item.field, c.value) not in known  # type: ignore[attr-defined]
            for c in conditions
        ))  # fmt: skip

    def _order_is_selected(self, plan: Plan) -> float:
        return float(any(order.item in plan.select for order in plan.order))

    def _count_is_direct(self, plan: Plan, tables: set[int]) -> float:
        counts = any(i.is_count for i in (*plan.select, *(c.item for c in plan.having), *(o.item for o in plan.order)))
        return float(counts) * len(tables)


def features_of(found: Sequence[Candidate], analysis: Analysis, prepared: Prepared) -> Features:
    featurizer = Featurizer(analysis, prepared)
    return np.array([featurizer.vector(each) for each in found], np.float32)


def features_of_memory(found: Sequence[Candidate], recollection: Recollection) -> Features:
    return np.array([memory_features(recollection, each.plan, each.sketch) for each in found], np.float32)


def scores(features: Features, weights: dict[str, Features]) -> Features:
    """One score per candidate: a linear part and one hidden layer."""
    scaled = (features - weights["mean"]) / weights["deviation"]
    hidden = np.tanh(scaled @ weights["hidden"] + weights["hidden_bias"])
    return np.asarray(scaled @ weights["linear"] + hidden @ weights["output"], dtype=np.float32)
