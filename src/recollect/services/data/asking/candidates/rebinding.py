"""Questions that were verified on the same schema: their plans, with this question's literals, are candidates too.

How near the nearest verified question is that has the same plan, form or fields is also a feature of every candidate's
rank, so that verified answers steer new ones.
"""

from __future__ import annotations

from dataclasses import replace

from recollect.services.data.asking.analysis import Analysis, Prepared
from recollect.services.data.asking.candidates.conditions import Assignment, condition_of
from recollect.services.data.asking.candidates.verified import Recollection, Remembered, template_of
from recollect.services.data.asking.language.literals import Literal
from recollect.services.data.asking.plans.plan import ANY, Condition, Plan
from recollect.services.data.asking.plans.schema import Field
from recollect.services.data.asking.plans.sketch import Sketch, roles_of


def rebound(recollection: Recollection, analysis: Analysis, prepared: Prepared) -> list[tuple[Plan, Assignment]]:
    """The plans of the nearest verified questions, with the literals of this question."""
    made = []
    for _, item in recollection.nearest:
        binder = _Binder(item, list(analysis.evidence.literals), prepared)
        plan = binder.bind(item.plan)
        if plan is not None:
            unused = tuple(range(len(binder.left)))
            made.append((plan, Assignment(unused=unused, score=-1.0 * len(unused))))
    return made


class _Binder:
    def __init__(self, item: Remembered, literals: list[Literal], prepared: Prepared) -> None:
        self.item = item
        self.left = literals
        self.prepared = prepared

    def bind(self, plan: Plan) -> Plan | None:
        where = [self._bound(condition) for condition in plan.where]
        having = [self._counted(condition) for condition in plan.having]
        if any(each is None for each in (*where, *having)):
            return None
        limit = plan.limit
        if limit is not None and limit > 1:
            number = self._take_number()
            limit = int(number) if number is not None else limit
        second = self.bind(plan.second) if plan.second else None
        if plan.second and second is None:
            return None
        return plan.changed(
            where=tuple(c for c in where if c), having=tuple(c for c in having if c), limit=limit, second=second
        )

    def _bound(self, condition: Condition) -> Condition | None:
        if condition.nested:
            inner = self.bind(condition.nested)
            return replace(condition, value=inner) if inner else None
        if condition.operator in ("null", "not null"):
            return condition
        was_said = str(condition.value).strip("%").lower() in self.item.words
        for literal in self.left:
            if any(hit.field == condition.item.field for hit in literal.hits):
                return self._taken(literal, condition)
        field = self.prepared.schema.fields[condition.item.field] if condition.item.field != ANY else None
        if field is not None and field.kind == "date":
            return self._timed(condition, field)
        for literal in self.left:
            fits = (
                literal.kind == "text" and not literal.hits
                if isinstance(condition.value, str)
                else literal.kind == "number"
            )
            if fits and field is not None:
                return self._taken(literal, condition)
        return None if was_said else condition

    def _timed(self, condition: Condition, field: Field) -> Condition | None:
        """With the time that this question says. One that only the verified question said is never kept: "last month"
        was another month then."""
        if condition.item.part in ("", "year"):
            for literal in self.left:
                if literal.kind != "text" and condition_of(literal, condition.item.field, field) is not None:
                    return self._taken(literal, condition)
        return None if self.item.says_time else condition

    def _taken(self, literal: Literal, condition: Condition) -> Condition | None:
        field = self.prepared.schema.fields[condition.item.field]
        made = condition_of(literal, condition.item.field, field)
        if made is None:
            return None
        self.left.remove(literal)
        if condition.operator in ("like", "not like") and made.operator == "=" and "%" in str(condition.value):
            was = str(condition.value)
            pattern = f"{'%' if was.startswith('%') else ''}{made.value}{'%' if was.endswith('%') else ''}"
            return replace(condition, value=pattern)
        return made if made.operator != "=" else replace(condition, value=made.value, upper=made.upper)

    def _counted(self, condition: Condition) -> Condition | None:
        if condition.nested:
            return condition
        literal = next((each for each in self.left if each.kind == "number"), None)
        if literal is None:
            return condition
        self.left.remove(literal)
        operator = literal.operator if literal.operator != "=" else condition.operator
        return replace(condition, value=literal.value, operator=operator)

    def _take_number(self) -> int | float | None:
        literal = next((each for each in self.left if each.kind == "number"), None)
        if literal is None or not isinstance(literal.value, int | float):
            return None
        self.left.remove(literal)
        return literal.value


MEMORY_FEATURES = 11


def memory_features(recollection: Recollection, plan: Plan, sketch: Sketch) -> list[float]:
    """How near the nearest verified question is that has the same plan, form, fields or selection; and what all of
    them say of each field: in its role, weighed by nearness; at all; and beside the words of this question."""
    if not len(recollection.likeness):
        return [0.0] * MEMORY_FEATURES
    template, fields = template_of(plan), frozenset(plan.all_fields())
    shown = frozenset((item.field, item.aggregate) for item in plan.select)
    best = [0.0] * 5
    jaccard = 0.0
    for likeness, item in recollection.nearest:
        same = (
            item.template == template,
            item.sketch == sketch,
            item.fields == fields,
            item.sketch == sketch and item.fields == fields,
            item.shown == shown,
        )
        best = [max(was, likeness) if hit else was for was, hit in zip(best, same, strict=True)]
        jaccard = max(jaccard, likeness * len(fields & item.fields) / max(1, len(fields | item.fields)))
    used = [recollection.votes.get(each, 0.0) for each in roles_of(plan)]
    popular = [recollection.popularity.get(field, 0.0) for field in fields]
    likeness_of_nearest = float(recollection.likeness.max())
    return [
        *best,
        jaccard,
        sum(used) / max(1, len(used)),
        min(used, default=0.0),
        sum(popular) / max(1, len(popular)),
        recollection.coverage(fields),
        likeness_of_nearest,
    ]
