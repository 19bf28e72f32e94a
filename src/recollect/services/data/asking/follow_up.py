"""Follow-up questions: "and by month?", "only in Berlin", "what about 2024?", "the average instead", "top 5".

A follow-up changes the plan of the reading before it. It is one when it begins like one, or says too little to stand
alone; then every change that its words ask for is made.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from recollect.services.data.asking.analysis import Analysis, Prepared
from recollect.services.data.asking.candidates.conditions import condition_of
from recollect.services.data.asking.language.words import STOPWORDS
from recollect.services.data.asking.plans.plan import ANY, Aggregate, Condition, DatePart, Item, Order, Plan, tables_of

_BEGINNINGS = frozenset("and or but only just now then instead also same by per sort sorted order without plus".split())
_PHRASES = (("what", "about"), ("how", "about"), ("was", "ist"), ("the", "same"), ("for", "each"), ("in", "total"))
_GROUPING = frozenset({"by", "per", "each", "every"})
_PARTS: dict[str, DatePart] = {"year": "year", "month": "month", "quarter": "quarter", "week": "week", "day": "day"}
_AGGREGATES: dict[str, Aggregate] = {
    "average": "avg", "mean": "avg", "total": "sum", "sum": "sum", "maximum": "max", "highest": "max", "largest": "max",
    "minimum": "min", "lowest": "min", "smallest": "min",
}  # fmt: skip
_SHORT = 3  # words that say something: fewer do not stand alone


def is_follow_up(analysis: Analysis) -> bool:
    words = [token.word for token in analysis.evidence.links.tokens if token.kind != "mark"]
    if not words:
        return False
    if words[0] in _BEGINNINGS or any(tuple(words[:2]) == phrase for phrase in _PHRASES):
        return True
    content = [word for word in words if word not in STOPWORDS]
    asks = {"how", "what", "which", "who", "show", "list", "find", "give", "count"} & set(words[:2])
    return len(content) < _SHORT and not asks


def followed(previous: Plan, analysis: Analysis, prepared: Prepared) -> Plan | None:
    """The plan before, changed as the question says; None where it asks for no change that is understood."""
    plan = _filtered(previous, analysis, prepared)
    plan = _aggregated(plan, analysis, prepared)
    plan = _grouped(plan, analysis, prepared)
    plan = _ordered(plan, analysis)
    if plan == previous:
        plan = _shown(plan, analysis)
    return plan if plan != previous else None


def _words(analysis: Analysis) -> list[str]:
    return [token.word for token in analysis.evidence.links.tokens]


def _filtered(plan: Plan, analysis: Analysis, prepared: Prepared) -> Plan:
    for at, literal in enumerate(analysis.evidence.literals):
        uses = analysis.uses[at]
        before = _words(analysis)[max(0, literal.start - 2) : literal.start]
        if literal.kind == "number" and ("top" in before or "first" in before):
            continue
        if uses["none"] > max(uses["where"], -0.4) and not literal.hits:
            continue
        condition = _condition(plan, at, analysis, prepared)
        if condition is None:
            continue
        kept = tuple(c for c in plan.where if c.item.field != condition.item.field)
        plan = plan.changed(where=(*kept, condition))
    return plan


def _condition(plan: Plan, at: int, analysis: Analysis, prepared: Prepared) -> Condition | None:
    """On a field that the plan already compares where the literal fits there, else on the likeliest one."""
    literal, schema = analysis.evidence.literals[at], prepared.schema
    compared = [c.item.field for c in plan.where if c.item.field != ANY and not c.nested]
    for field in compared:
        was = next(c for c in plan.where if c.item.field == field)
        fits = any(hit.field == field for hit in literal.hits) or (
            literal.kind != "text" and not isinstance(was.value, str)
        )
        fits = fits or (literal.kind == "number" and schema.fields[field].kind == "date")
        if fits and (made := condition_of(literal, field, schema.fields[field])) is not None:
            return made
    for field in np.argsort(-analysis.bindings[at]).tolist()[:5]:
        tables = tables_of(plan, schema) | {schema.table_of[field]}
        made = condition_of(literal, field, schema.fields[field])
        if made is not None and prepared.graph.tree(frozenset(tables)) is not None:
            return made
    return None


def _aggregated(plan: Plan, analysis: Analysis, prepared: Prepared) -> Plan:
    words = _words(analysis)
    wanted = next((_AGGREGATES[word] for word in words if word in _AGGREGATES), None)
    counts = "many" in words or "count" in words or ("number" in words and "of" in words)
    if wanted is None and not counts:
        return plan
    plain = tuple(item for item in plan.select if not item.aggregate)
    if counts and wanted is None:
        return plan.changed(select=(*(plain if plan.group else ()), Item(ANY, "count")), order=())
    named = _best_named(analysis, prepared, numeric=True)
    old = next((item for item in plan.select if item.aggregate and item.field != ANY), None)
    field = named if named is not None else old.field if old else next((i.field for i in plain if i.field != ANY), None)
    if field is None or wanted is None:
        return plan
    return plan.changed(select=(*(plain if plan.group else ()), Item(field, wanted)), order=())


def _best_named(analysis: Analysis, prepared: Prepared, numeric: bool = False, after: int = -1) -> int | None:
    best: tuple[float, int] | None = None
    for number, mentions in enumerate(analysis.evidence.links.fields):
        if numeric and prepared.schema.fields[number].kind != "number":
            continue
        for mention in mentions:
            if mention.score >= 0.6 and mention.start >= after and (best is None or mention.score > best[0]):
                best = (mention.score, number)
    return best[1] if best else None


def _grouped(plan: Plan, analysis: Analysis, prepared: Prepared) -> Plan:
    words = _words(analysis)
    at = next((n for n, word in enumerate(words) if word in _GROUPING), None)
    if at is None or words[max(0, at - 1)] in ("order", "ordered", "sort", "sorted"):
        return plan
    named_parts = (_PARTS.get(word.removesuffix("s")) for word in words[at + 1 : at + 4])
    part = next((each for each in named_parts if each), None)
    named = _best_named(analysis, prepared, after=at)
    aggregates = tuple(item for item in plan.select if item.aggregate) or (Item(ANY, "count"),)
    if part is not None and (named is None or prepared.schema.fields[named].kind != "number"):
        dated = date_field(plan, prepared, named)
        if dated is not None:
            key = Item(dated, part=part)
            return plan.changed(
                select=(key, *aggregates), group=(key,), order=(Order(key),), limit=None, distinct=False
            )
    if named is None:
        return plan
    key = Item(named)
    return plan.changed(select=(key, *aggregates), group=(key,), order=(), limit=None, distinct=False)


def date_field(plan: Plan, prepared: Prepared, named: int | None) -> int | None:
    """The date to group by: the one that is named, else the first of the same table, else of one that joins."""
    schema = prepared.schema
    dates = [n for n, field in enumerate(schema.fields) if field.kind == "date"]
    if named in dates:
        return named
    own = tables_of(plan, schema)
    reachable = [n for n in dates if prepared.graph.tree(own | {schema.table_of[n]}) is not None]
    return min(reachable, key=lambda n: (schema.table_of[n] not in own, n), default=None)


def _ordered(plan: Plan, analysis: Analysis) -> Plan:
    words = _words(analysis)
    number = next((lit.value for lit in analysis.evidence.literals if isinstance(lit.value, int)), None)
    if "top" in words and number is not None:
        item = next((i for i in plan.select if i.aggregate), plan.order[0].item if plan.order else plan.select[-1])
        return plan.changed(order=(Order(item, True),), limit=number)
    if {"sort", "sorted", "order", "ordered"} & set(words):
        descending = bool({"descending", "decreasing", "highest", "largest"} & set(words))
        item = _named_item(plan.select, analysis) or plan.select[-1]
        return plan.changed(order=(Order(item, descending),))
    return plan


def _named_item(items: Sequence[Item], analysis: Analysis) -> Item | None:
    for item in items:
        if item.field != ANY and any(m.score >= 0.6 for m in analysis.evidence.links.fields[item.field]):
            return item
    return None


def _shown(plan: Plan, analysis: Analysis) -> Plan:
    """Fields named and not yet shown are shown too."""
    shown = {item.field for item in plan.select}
    named = [
        number
        for number, mentions in enumerate(analysis.evidence.links.fields)
        if number not in shown and any(m.score >= 0.8 for m in mentions)
    ]
    return plan.changed(select=(*plan.select, *(Item(n) for n in named[:3]))) if named else plan
