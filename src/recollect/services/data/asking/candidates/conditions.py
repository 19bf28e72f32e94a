"""Literals become conditions, limits or counts: the likely ways to use all literals of a question at once."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from recollect.services.data.asking.analysis import Analysis, Prepared
from recollect.services.data.asking.language.literals import Literal
from recollect.services.data.asking.plans.plan import Condition, Item, Operator
from recollect.services.data.asking.plans.schema import Field, Scalar

_FIELDS = 4  # of each literal
_MOST = 16


@dataclass(frozen=True)
class Assignment:
    """One way to use the literals. `unused` counts those that nothing was made of."""

    conditions: tuple[Condition, ...] = ()
    places: tuple[int, ...] = ()  # of each condition: the token where its literal starts
    limit: int | None = None
    having: int | float | None = None
    having_operator: Operator | None = None
    unused: tuple[int, ...] = ()
    score: float = 0.0


def assignments(analysis: Analysis, prepared: Prepared) -> list[Assignment]:
    beam = [Assignment()]
    for at, literal in enumerate(analysis.evidence.literals):
        uses, bindings = analysis.uses[at], analysis.bindings[at]
        grown = [replace(each, unused=(*each.unused, at), score=each.score + uses["none"]) for each in beam]
        fields: list[int] = np.argsort(-bindings).tolist()
        if literal.kind == "span":  # among many columns a date may be far behind, and is the only one that fits
            fields = [number for number in fields if prepared.schema.fields[number].kind == "date"]
        for number in fields[:_FIELDS]:
            condition = condition_of(literal, number, prepared.schema.fields[number])
            if condition is None:
                continue
            more = uses["where"] + float(bindings[number])
            grown.extend(
                replace(
                    each,
                    conditions=(*each.conditions, condition),
                    places=(*each.places, literal.start),
                    score=each.score + more,
                )
                for each in beam
            )
        if literal.kind == "number" and isinstance(literal.value, int | float):
            grown.extend(_as_count(each, literal, uses["having"]) for each in beam if each.having is None)
            if isinstance(literal.value, int) and literal.value > 0:
                grown.extend(
                    replace(each, limit=literal.value, score=each.score + uses["limit"])
                    for each in beam
                    if each.limit is None
                )
        if literal.kind == "span" and len(grown) > len(beam):
            grown = grown[len(beam) :]  # a time that was said is never left out where a date can be compared with it
        beam = sorted(grown, key=lambda each: -each.score)[: _MOST * 2]
    return beam[:_MOST]


def _as_count(before: Assignment, literal: Literal, more: float) -> Assignment:
    value = literal.value if isinstance(literal.value, int | float) else None
    return replace(before, having=value, having_operator=literal.operator, score=before.score + more)


def condition_of(literal: Literal, number: int, field: Field) -> Condition | None:
    """The condition that a literal makes on a field; None where it cannot be one."""
    item = Item(number)
    hit = next((each for each in literal.hits if each.field == number), None)
    if literal.kind == "flag":
        return Condition(item, "=", hit.value) if hit is not None else None
    if literal.kind == "text":
        if field.kind == "number" and hit is None:
            return None
        if literal.operator == "like":
            if hit is not None and hit.score >= 0.95 and literal.pattern.count("%") == 2 and not literal.is_quoted:
                return Condition(item, "=", hit.value)
            return Condition(item, "like", literal.pattern)
        value: Scalar = hit.value if hit is not None else str(literal.value)
        return Condition(item, literal.operator, value)
    if literal.kind == "span":
        return Condition(item, literal.operator, literal.value, literal.upper) if field.kind == "date" else None
    if literal.kind == "date":
        if field.kind == "number":
            return None
        return Condition(item, literal.operator, literal.value, literal.upper)
    if hit is not None and field.is_stored_as_text and literal.operator in ("=", "!="):
        return Condition(item, literal.operator, hit.value)
    if field.kind == "date" and isinstance(literal.value, int) and 1000 <= literal.value <= 2999:
        return _year(item, literal)
    if field.kind == "date":
        return None
    return Condition(item, literal.operator, literal.value, literal.upper)


def _year(item: Item, literal: Literal) -> Condition:
    year = literal.value
    if literal.operator == "between":
        return Condition(item, "between", f"{year}-01-01", f"{literal.upper}-12-31")
    if literal.operator == "=":
        return Condition(item, "within", f"{year}-01-01", f"{int(str(year)) + 1}-01-01")
    if literal.operator == "!=":
        return Condition(item, "not like", f"{year}-%")
    return Condition(item, literal.operator, f"{year}-12-31" if literal.operator in (">", "<=") else f"{year}-01-01")
