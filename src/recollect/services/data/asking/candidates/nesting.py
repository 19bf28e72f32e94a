"""Plans inside plans: without, never, both, either, above the average, of the maximum."""

from __future__ import annotations

from collections.abc import Iterator

from recollect.services.data.asking.analysis import Analysis, Prepared
from recollect.services.data.asking.candidates.conditions import Assignment
from recollect.services.data.asking.plans.plan import (
    ANY,
    Aggregate,
    Combination,
    Condition,
    Item,
    Operator,
    Plan,
    tables_of,
)
from recollect.services.data.asking.plans.sketch import ROLES

_POSITIVE: dict[Operator, Operator] = {"!=": "=", "not like": "like"}
_COMBINATIONS: dict[str, Combination] = {"intersect": "intersect", "union": "union"}
_COMPARED: dict[str, Aggregate] = {"avg": "avg", "min": "min", "max": "max"}
_LESS = frozenset("less lower below under smaller fewer shorter younger lighter cheaper before".split())


def nested(
    kind: str, plan: Plan, use: Assignment, analysis: Analysis, prepared: Prepared
) -> Iterator[tuple[Plan, float]]:
    """The plan with what its kind of nesting asks for, in the likely ways, each with its score."""
    if kind == "none":
        yield plan, -2.0 * _clashes(plan)
    elif kind == "or":
        yield plan.changed(either=True), 0.0
    elif kind in _COMBINATIONS:
        yield from _combined(_COMBINATIONS[kind], plan)
    elif kind == "except":
        yield from _except(plan, analysis, prepared)
    elif kind == "not in":
        yield from _not_in(plan, analysis, prepared)
    elif kind in _COMPARED:
        yield from _compared(_COMPARED[kind], plan, analysis, prepared)


def _clashes(plan: Plan) -> int:
    """Conditions that ask one field to equal two values."""
    equal = [condition.item for condition in plan.where if condition.operator == "="]
    return len(equal) - len(set(equal))


def _combined(combination: Combination, plan: Plan) -> Iterator[tuple[Plan, float]]:
    if len(plan.where) < 2 or plan.order or plan.having:
        return
    first, second, *shared = plan.where
    for one, other, both in _splits(first, second, tuple(shared)):
        whole = plan.changed(where=(one, *both), combination=combination, second=plan.changed(where=(other, *both)))
        yield whole, 0.0 if not shared else -0.5


def _splits(
    first: Condition, second: Condition, shared: tuple[Condition, ...]
) -> Iterator[tuple[Condition, Condition, tuple[Condition, ...]]]:
    yield first, second, shared
    if shared:
        yield second, shared[0], (first, *shared[1:])


def _except(plan: Plan, analysis: Analysis, prepared: Prepared) -> Iterator[tuple[Plan, float]]:
    if plan.order or plan.having or plan.group:
        return
    base = plan.changed(where=(), second=None)
    own = tables_of(base, prepared.schema)
    if plan.where:
        last = plan.where[-1]
        inner = plan.changed(where=(_positive(last),))
        yield plan.changed(where=plan.where[:-1], combination="except", second=inner), 0.0
        return
    for score, table in _inner_tables(analysis, own)[:3]:
        if own and prepared.graph.tree(own | {table}) is not None:
            yield base.changed(combination="except", second=base.changed(tables=(table,))), score


def _positive(condition: Condition) -> Condition:
    return Condition(
        condition.item, _POSITIVE.get(condition.operator, condition.operator), condition.value, condition.upper
    )


def _inner_tables(analysis: Analysis, own: frozenset[int]) -> list[tuple[float, int]]:
    scores = analysis.tables[:, 1]
    return sorted(((float(score), number) for number, score in enumerate(scores) if number not in own), reverse=True)


def _not_in(plan: Plan, analysis: Analysis, prepared: Prepared) -> Iterator[tuple[Plan, float]]:
    """Rows whose key does not occur in another table, or not in its rows that meet the conditions."""
    schema = prepared.schema
    bare = plan.changed(where=())
    own = tables_of(bare, schema)
    if not own:
        own = frozenset(n for _, n in _outer_tables(analysis)[:1])
        plan = plan.changed(tables=tuple(own))
    for outer in sorted(own):
        for score, inner in _inner_tables(analysis, own)[:4]:
            for join in prepared.graph.joins_between(outer, inner):
                left, right = (
                    (join.left, join.right) if schema.table_of[join.left] == outer else (join.right, join.left)
                )
                beyond = tuple(c for c in plan.where if c.item.field == ANY or schema.table_of[c.item.field] not in own)
                kept = tuple(c for c in plan.where if c not in beyond)
                query = Plan((Item(right),), where=tuple(_positive(c) for c in beyond))
                condition = Condition(Item(left), "not in", query)
                yield plan.changed(where=(*kept, condition)), score


def _outer_tables(analysis: Analysis) -> list[tuple[float, int]]:
    return sorted(((float(score), number) for number, score in enumerate(analysis.tables[:, 0])), reverse=True)


def _compared(aggregate: Aggregate, plan: Plan, analysis: Analysis, prepared: Prepared) -> Iterator[tuple[Plan, float]]:
    words = {token.word for token in analysis.evidence.links.tokens}
    operator: Operator = "="
    if aggregate == "avg" or words & {"than"}:
        operator = "<" if words & _LESS else ">"
    schema = prepared.schema
    roles = [ROLES.index("where"), ROLES.index("aggregate")]
    scores = (analysis.roles[:, roles] - analysis.not_roles[:, roles]).sum(axis=1)
    used = {condition.item.field for condition in plan.where}
    ranked = sorted(
        ((float(s), n) for n, s in enumerate(scores) if schema.fields[n].kind != "text" and n not in used), reverse=True
    )
    for score, number in ranked[:3]:
        query = Plan((Item(number, aggregate),))
        yield plan.changed(where=(*plan.where, Condition(Item(number), operator, query))), score
