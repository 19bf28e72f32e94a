"""A query as data: what is selected, from which conditions, grouped, ordered and combined. SQL is written from it.

Fields are numbers of the schema; `ANY` stands for `*`. Plans are immutable and hashable, so that candidates can be
compared and counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from recollect.services.data.asking.plans.schema import Scalar, Schema

ANY = -1
Aggregate = Literal["", "count", "sum", "avg", "min", "max"]
# "within" is from the value until before the upper one: spans of time.
Operator = Literal[
    "=", "!=", ">", "<", ">=", "<=", "like", "not like", "between", "within", "in", "not in", "null", "not null"
]
Combination = Literal["intersect", "union", "except"]
DatePart = Literal["", "year", "quarter", "month", "week", "day"]


@dataclass(frozen=True)
class Item:
    """A field, or an aggregate over it."""

    field: int
    aggregate: Aggregate = ""
    distinct: bool = False
    part: DatePart = ""  # of a date

    @property
    def is_count(self) -> bool:
        return self.aggregate == "count" and self.field == ANY


@dataclass(frozen=True)
class Condition:
    """A comparison with a value, with two (between), or with the result of another plan."""

    item: Item
    operator: Operator
    value: Scalar | Plan = None
    upper: Scalar = None

    @property
    def nested(self) -> Plan | None:
        return self.value if isinstance(self.value, Plan) else None


@dataclass(frozen=True)
class Order:
    item: Item
    descending: bool = False


@dataclass(frozen=True)
class Plan:
    select: tuple[Item, ...]
    where: tuple[Condition, ...] = ()
    either: bool = False  # conditions joined by OR
    group: tuple[Item, ...] = ()
    having: tuple[Condition, ...] = ()
    order: tuple[Order, ...] = ()
    limit: int | None = None
    distinct: bool = False
    combination: Combination | None = None
    second: Plan | None = None
    tables: tuple[int, ...] = ()  # those that no field above brings in
    via: frozenset[int] = frozenset()  # fields to join by, where two tables can be joined in several ways
    zone: str = ""  # whose days are meant, by its IANA name; only of times that know their zone

    def items(self) -> Iterator[Item]:
        """Every item of this level, not of nested plans."""
        yield from self.select
        yield from (condition.item for condition in self.where)
        yield from self.group
        yield from (condition.item for condition in self.having)
        yield from (order.item for order in self.order)

    def levels(self) -> Iterator[Plan]:
        """This plan, what it is combined with, and what is nested in it."""
        yield self
        if self.second:
            yield from self.second.levels()
        for condition in (*self.where, *self.having):
            if condition.nested:
                yield from condition.nested.levels()

    def in_zone(self, zone: str) -> Plan:
        """The plan with this zone on every level."""
        return self.changed(
            zone=zone,
            where=tuple(_condition_in_zone(each, zone) for each in self.where),
            having=tuple(_condition_in_zone(each, zone) for each in self.having),
            second=self.second.in_zone(zone) if self.second else None,
        )

    def all_fields(self) -> set[int]:
        return {item.field for level in self.levels() for item in level.items() if item.field != ANY}

    def changed(self, **changes: object) -> Plan:
        return replace(self, **changes)  # type: ignore[arg-type]


def tables_of(plan: Plan, schema: Schema) -> frozenset[int]:
    """The tables that one level of a plan speaks of."""
    named = {schema.table_of[item.field] for item in plan.items() if item.field != ANY}
    return frozenset(named | set(plan.tables))


def _condition_in_zone(condition: Condition, zone: str) -> Condition:
    return replace(condition, value=condition.nested.in_zone(zone)) if condition.nested else condition
