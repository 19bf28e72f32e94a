"""How a question was read, in plain words: parts that a person can check, and the reason in one sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from recollect.services.data.asking.analysis import Analysis
from recollect.services.data.asking.plans.plan import ANY, Aggregate, Condition, DatePart, Item, Operator, Plan
from recollect.services.data.asking.plans.schema import Scalar, Schema

_AGGREGATES = {"count": "number of", "sum": "total", "avg": "average", "min": "lowest", "max": "highest"}
_OPERATORS = {
    "=": "is", "!=": "is not", ">": "is more than", "<": "is less than", ">=": "is at least", "<=": "is at most",
    "like": "matches", "not like": "does not match", "between": "is between", "in": "is among",
    "not in": "is not among",
    "null": "is missing", "not null": "is present", "within": "is within",
}  # fmt: skip


@dataclass(frozen=True)
class Part:
    """One piece of a reading, as a chip that a person can check and change (`editing.edited`).

    `kind`: show, distinct, from, where, any (conditions of which one is enough), each, having, order, limit, and
    intersect, union or except. `key` stays the same while other parts are changed: its kind and field, and before it
    the key of the part that it lies in. The rest is what can be changed; `inner` are the parts of a query inside it.
    """

    key: str
    kind: str
    text: str
    field: tuple[str, str] | None = None  # table and column
    aggregate: Aggregate = ""
    date_part: DatePart = ""
    operator: Operator | None = None
    value: Scalar = None
    upper: Scalar = None
    descending: bool | None = None
    inner: tuple[Part, ...] = ()


def keys_of(kind: str, items: Iterable[Item], schema: Schema, within: str = "") -> list[str]:
    """A key for each item: `where:orders.status`, and `where:orders.status#2` for the second on the same field."""
    seen: Counter[str] = Counter()
    keys = []
    for item in items:
        name = "*" if item.field == ANY else ".".join(schema.name_of(item.field))
        name = f"{item.part} of {name}" if item.part else name
        key = f"{within}{kind}:{item.aggregate}({name})" if item.aggregate else f"{within}{kind}:{name}"
        seen[key] += 1
        keys.append(key if seen[key] == 1 else f"{key}#{seen[key]}")
    return keys


def parts_of(plan: Plan, schema: Schema, within: str = "") -> tuple[Part, ...]:
    def of_items(kind: str, items: Sequence[Item], text: str) -> list[Part]:
        return [
            _item_part(key, kind, text.format(item_text(item, schema)), item, schema)
            for key, item in zip(keys_of(kind, items, schema, within), items, strict=True)
        ]

    def of_conditions(kind: str, conditions: Sequence[Condition]) -> list[Part]:
        keys = keys_of("where" if kind == "any" else kind, [c.item for c in conditions], schema, within)
        return [_condition_part(key, kind, each, schema) for key, each in zip(keys, conditions, strict=True)]

    parts = of_items("show", plan.select, "{}")
    if plan.distinct:
        parts.append(Part(f"{within}distinct", "distinct", "each value once"))
    tables = {schema.table_of[i.field] for i in plan.items() if i.field != ANY} | set(plan.tables)
    parts.append(Part(f"{within}from", "from", ", ".join(schema.tables[t].name for t in sorted(tables))))
    parts += of_conditions("any" if plan.either and len(plan.where) > 1 else "where", plan.where)
    parts += of_items("each", plan.group, "for each {}")
    parts += of_conditions("having", plan.having)
    for part, order in zip(of_items("order", [each.item for each in plan.order], "by {}"), plan.order, strict=True):
        way = "highest first" if order.descending else "lowest first"
        parts.append(replace(part, text=f"{part.text}, {way}", descending=order.descending))
    if plan.limit is not None:
        text = f"the first {plan.limit}" if plan.limit > 1 else "the first one"
        parts.append(Part(f"{within}limit", "limit", text, value=plan.limit))
    if plan.combination and plan.second:
        word = {"intersect": "and also", "union": "or else", "except": "but not"}[plan.combination]
        inner = parts_of(plan.second, schema, f"{within}{plan.combination}/")
        said = [part.text for part in inner if part.kind in ("where", "any", "having", "from")]
        parts.append(
            Part(f"{within}{plan.combination}", plan.combination, f"{word}: {'; '.join(said)}", inner=inner)
        )  # fmt: skip
    return tuple(parts)


def _item_part(key: str, kind: str, text: str, item: Item, schema: Schema) -> Part:
    field = None if item.field == ANY else schema.name_of(item.field)
    return Part(key, kind, text, field, item.aggregate, item.part)


def _condition_part(key: str, kind: str, condition: Condition, schema: Schema) -> Part:
    part = _item_part(key, kind, condition_text(condition, schema), condition.item, schema)
    inner = parts_of(condition.nested, schema, f"{key}/") if condition.nested else ()
    value = None if isinstance(condition.value, Plan) else condition.value
    return replace(part, operator=condition.operator, value=value, upper=condition.upper, inner=inner)


def item_text(item: Item, schema: Schema) -> str:
    if item.field == ANY:
        return "number of rows" if item.aggregate else "all columns"
    field = schema.fields[item.field]
    text = f"{field.name} of {field.table}" if len(schema.tables) > 1 else field.name
    if item.part:
        text = f"{item.part} of {text}"
    if item.distinct:
        text = f"different {text}"
    return f"{_AGGREGATES[item.aggregate]} {text}" if item.aggregate else text


def condition_text(condition: Condition, schema: Schema) -> str:
    left, word = item_text(condition.item, schema), _OPERATORS[condition.operator]
    if condition.nested:
        inner = condition.nested
        shown = ", ".join(item_text(item, schema) for item in inner.select)
        rest = [condition_text(c, schema) for c in inner.where]
        return f"{left} {word} {shown}" + (f" where {' and '.join(rest)}" if rest else "")
    if condition.operator in ("null", "not null"):
        return f"{left} {word}"
    if condition.operator in ("between", "within"):
        return f"{left} {word} {condition.value} and {condition.upper}"
    return f"{left} {word} {condition.value}"


def reason_of(plan: Plan, analysis: Analysis, schema: Schema) -> str:
    """Which words of the question were read as which field."""
    links = analysis.evidence.links
    said = []
    for field in sorted(plan.all_fields()):
        mentions = [m for m in links.fields[field] if m.score >= 0.4]
        if mentions:
            words = " ".join(links.tokens[at].text for at in sorted(mentions[0].places))
            said.append(f"“{words}” is {schema.fields[field].table}.{schema.fields[field].name}")
    return "; ".join(said) if said else "No word of the question names a column; the tables it names were taken."
