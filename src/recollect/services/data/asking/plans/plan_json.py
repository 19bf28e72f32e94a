"""Plans as JSON, for storing: a follow-up in another process, a pattern that is bound to other values.

Fields and tables stand by name, not by number, so that a stored plan survives a schema that grew. What comes in is
checked like any other input: a plan may have been stored by an older program, or sent by a stranger.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr, ValidationError

from recollect.domain.record import JsonObject
from recollect.errors import InvalidInput
from recollect.services.data.asking.plans.plan import (
    ANY,
    Aggregate,
    Combination,
    Condition,
    DatePart,
    Item,
    Operator,
    Order,
    Plan,
)
from recollect.services.data.asking.plans.schema import Schema

_DEEPEST = 8  # plans inside plans
_MOST = 100  # items of one list
Value = StrictBool | StrictInt | StrictFloat | Annotated[StrictStr, Field(max_length=10_000)] | None


class _Json(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Item(_Json):
    field: tuple[str, str] | None = None  # table and column; none for "*"
    aggregate: Aggregate = ""
    distinct: bool = False
    part: DatePart = ""


class _Condition(_Json):
    item: _Item
    operator: Operator
    value: Value = None
    upper: Value = None
    nested: _Plan | None = None


class _Order(_Json):
    item: _Item
    descending: bool = False


class _Plan(_Json):
    format: Literal[1] = 1
    select: list[_Item] = Field(min_length=1, max_length=_MOST)
    where: list[_Condition] = Field(default=[], max_length=_MOST)
    either: bool = False
    group: list[_Item] = Field(default=[], max_length=_MOST)
    having: list[_Condition] = Field(default=[], max_length=_MOST)
    order: list[_Order] = Field(default=[], max_length=_MOST)
    limit: int | None = Field(default=None, ge=0)
    distinct: bool = False
    combination: Combination | None = None
    second: _Plan | None = None
    tables: list[str] = Field(default=[], max_length=_MOST)
    via: list[tuple[str, str]] = Field(default=[], max_length=_MOST)
    zone: str = Field(default="", max_length=64)


def plan_to_json(plan: Plan, schema: Schema) -> JsonObject:
    return _written(plan, schema).model_dump(mode="json", exclude_defaults=True)


def plan_from_json(content: object, schema: Schema) -> Plan:
    """Raises InvalidInput where it is not a plan, NotFound where the schema no longer has a table or column of it."""
    if _depth(content) > 4 * _DEEPEST:
        raise InvalidInput("The stored plan is nested too deeply.", remedy="Ask the question again.")
    try:
        stored = _Plan.model_validate(content)
    except ValidationError as error:
        place = ".".join(str(each) for each in error.errors()[0]["loc"])
        raise InvalidInput(f"This is not a plan of a query: {place or 'the whole'} is wrong.",
                           remedy="Pass the plan as it was returned, or ask the question again.") from None  # fmt: skip
    return _Reader(schema).plan(stored)


def _depth(content: object) -> int:
    """How deep lists and objects lie inside each other; counted without recursion, as nobody knows how deep."""
    layer, depth = [content], 0
    while layer and depth <= 4 * _DEEPEST:
        parts = [list(each.values()) if isinstance(each, dict) else each for each in layer]
        layer = [inner for part in parts if isinstance(part, list) for inner in part if isinstance(inner, dict | list)]
        depth += 1
    return depth


def _written(plan: Plan, schema: Schema) -> _Plan:
    def item(each: Item) -> _Item:
        field = None if each.field == ANY else schema.name_of(each.field)
        return _Item(field=field, aggregate=each.aggregate, distinct=each.distinct, part=each.part)

    def condition(each: Condition) -> _Condition:
        inner = _written(each.nested, schema) if each.nested else None
        value = None if isinstance(each.value, Plan) else each.value
        return _Condition(
            item=item(each.item), operator=each.operator, value=value, upper=each.upper, nested=inner
        )  # fmt: skip

    return _Plan(
        select=[item(each) for each in plan.select],
        where=[condition(each) for each in plan.where],
        either=plan.either,
        group=[item(each) for each in plan.group],
        having=[condition(each) for each in plan.having],
        order=[_Order(item=item(each.item), descending=each.descending) for each in plan.order],
        limit=plan.limit,
        distinct=plan.distinct,
        combination=plan.combination,
        second=_written(plan.second, schema) if plan.second else None,
        tables=[schema.tables[each].name for each in plan.tables],
        via=[schema.name_of(each) for each in sorted(plan.via)],
        zone=plan.zone,
    )


class _Reader:
    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def plan(self, stored: _Plan) -> Plan:
        return Plan(
            select=tuple(self._item(each) for each in stored.select),
            where=tuple(self._condition(each) for each in stored.where),
            either=stored.either,
            group=tuple(self._item(each) for each in stored.group),
            having=tuple(self._condition(each) for each in stored.having),
            order=tuple(Order(self._item(each.item), each.descending) for each in stored.order),
            limit=stored.limit,
            distinct=stored.distinct,
            combination=stored.combination,
            second=self.plan(stored.second) if stored.second else None,
            tables=tuple(self.schema.table_named(each) for each in stored.tables),
            via=frozenset(self.schema.field_named(*each) for each in stored.via),
            zone=stored.zone,
        )

    def _item(self, stored: _Item) -> Item:
        field = ANY if stored.field is None else self.schema.field_named(*stored.field)
        if field == ANY and stored.aggregate not in ("", "count"):
            raise InvalidInput(f"'{stored.aggregate}' needs a column.", remedy="Name the column it is computed from.")
        return Item(field, stored.aggregate, stored.distinct, stored.part)

    def _condition(self, stored: _Condition) -> Condition:
        value = self.plan(stored.nested) if stored.nested else stored.value
        return Condition(self._item(stored.item), stored.operator, value, stored.upper)
