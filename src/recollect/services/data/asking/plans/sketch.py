"""The form of a query without its fields and values: what is selected, ordered, grouped, nested, in a few labels.

The labels are what the learned part predicts from the wording, one choice per aspect; candidates are built by filling
them with fields and values.
"""

from __future__ import annotations

from dataclasses import dataclass

from recollect.services.data.asking.plans.plan import ANY, Item, Plan

ASPECTS = ("select", "order", "having", "nest", "group", "distinct")
ROLES = ("select", "aggregate", "where", "group", "order")
USES = ("where", "having", "limit", "none")
MOST_PLAIN = 5


@dataclass(frozen=True)
class Sketch:
    select: str
    order: str = "none"
    having: str = "none"
    nest: str = "none"
    group: str = "no"
    distinct: str = "no"

    def label(self, aspect: str) -> str:
        return str(getattr(self, aspect))


def sketch_of(plan: Plan) -> Sketch:
    return Sketch(
        _select(plan), _order(plan), _having(plan), _nest(plan), "yes" if plan.group else "no",
        "yes" if plan.distinct else "no",
    )  # fmt: skip


def aggregate_label(item: Item) -> str:
    if item.aggregate != "count":
        return item.aggregate
    return "countd" if item.distinct else "count*"


def roles_of(plan: Plan) -> frozenset[tuple[int, str]]:
    """Every field of a plan with what it is for."""
    used: set[tuple[int, str]] = set()
    for level in plan.levels():
        for item in level.select:
            if item.aggregate or level is plan:
                used.add((item.field, "aggregate" if item.aggregate else "select"))
        for condition in level.where:
            if condition.operator not in ("in", "not in"):
                used.add((condition.item.field, "where"))
        used.update((condition.item.field, "aggregate") for condition in level.having)
        used.update((item.field, "group") for item in level.group)
        used.update((order.item.field, "aggregate" if order.item.aggregate else "order") for order in level.order)
    return frozenset((field, role) for field, role in used if field != ANY)


def _select(plan: Plan) -> str:
    if any(item.field == ANY and not item.aggregate for item in plan.select):
        return "all"
    simple = sum(not item.aggregate for item in plan.select)
    return "+".join([str(min(simple, MOST_PLAIN)), *sorted(aggregate_label(i) for i in plan.select if i.aggregate)])


def _order(plan: Plan) -> str:
    if not plan.order:
        return "none"
    first = plan.order[0]
    limit = "no" if plan.limit is None else "1" if plan.limit == 1 else "n"
    kind = {"": "col", "count": "count"}.get(first.item.aggregate, first.item.aggregate)
    return f"{kind}:{'desc' if first.descending else 'asc'}:{limit}"


def _having(plan: Plan) -> str:
    if not plan.having:
        return "none"
    first = plan.having[0]
    if first.nested:
        return "other"
    return f"{first.item.aggregate}{first.operator}"


def _nest(plan: Plan) -> str:
    if plan.combination:
        return plan.combination
    for condition in plan.where:
        inner = condition.nested
        if inner is None:
            continue
        if condition.operator in ("in", "not in"):
            return condition.operator
        aggregates = {item.aggregate for item in inner.select}
        for aggregate in ("avg", "max", "min"):
            if aggregates == {aggregate} and not inner.where:
                return aggregate
        return "other"
    return "or" if plan.either else "none"
