"""A reading changed by hand: parts removed, added, or given another field, value, operator or order.

A part is named by its key (`wording.Part.key`); all changes of one call are meant against the parts as they were shown.
What is grouped by is usually shown and ordered by, too: another field in one of these places goes into the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from recollect.errors import InvalidInput
from recollect.services.data.asking.analysis import Prepared
from recollect.services.data.asking.plans.plan import ANY, Aggregate, Condition, DatePart, Item, Operator, Order, Plan
from recollect.services.data.asking.plans.schema import Scalar, Schema
from recollect.services.data.asking.readings import Execute, Reading, reading_of
from recollect.services.data.asking.wording import keys_of

_KINDS = ("show", "where", "each", "having", "order", "limit", "distinct")
_WITHOUT_VALUE = frozenset({"null", "not null"})


@dataclass(frozen=True)
class Change:
    """`key` is that of the part; to add one, its kind (show, where, each, having, order, limit or distinct).

    What is None stays as it is. The value of a limit is `value`; a column is `field`, as table and column.
    """

    key: str
    action: Literal["replace", "remove", "add"] = "replace"
    field: tuple[str, str] | None = None
    aggregate: Aggregate | None = None
    date_part: DatePart | None = None
    operator: Operator | None = None
    value: Scalar = None
    upper: Scalar = None
    descending: bool | None = None


def edited(plan: Plan, changes: Sequence[Change], prepared: Prepared, execute: Execute | None = None) -> Reading:
    """The changed plan as a reading, of full confidence: somebody chose it.

    Raises InvalidInput or NotFound, with a remedy, where a change does not fit.
    """
    editor = _Editor(prepared.schema, changes)
    changed = editor.level(plan)
    editor.finish()
    reading = reading_of(changed, prepared, 1.0, execute, "Changed by hand.")
    if reading is None:
        tables = sorted({prepared.schema.fields[f].table for f in changed.all_fields()})
        raise InvalidInput(
            f"No query can be made of this: {', '.join(tables)} cannot be joined, or the values do not fit.",
            remedy="Choose columns of one table, or of tables that are joined by a key.",
        )
    return reading


class _Editor:
    def __init__(self, schema: Schema, changes: Sequence[Change]) -> None:
        self.schema = schema
        self.added = [each for each in changes if each.action == "add"]
        self.changes = {each.key: each for each in changes if each.action != "add"}
        self.open = set(self.changes)
        self.known: list[str] = []

    def finish(self) -> None:
        """Every change must have found its part."""
        missing = [*sorted(self.open), *(each.key for each in self.added)]
        if missing:
            raise InvalidInput(
                f"The reading has no part '{missing[0]}'.",
                remedy=f"Use one of these keys: {', '.join(self.known)}; to add a part: {', '.join(_KINDS)}.",
            )

    def level(self, plan: Plan, within: str = "") -> Plan:
        """One level of the plan, then what is nested in it."""
        self.followed: dict[Item, Item | None] = {}
        grouped = self._items("each", plan.group, within)
        shown = self._items("show", plan.select, within)
        orders = self._orders(plan, within)
        select = self._follow(shown, "show", plan.select, within)
        group = self._follow(grouped, "each", plan.group, within)
        where = self._conditions("where", plan.where, within)
        having = self._conditions("having", plan.having, within)
        if not select:
            raise InvalidInput("The query shows nothing any more.", remedy="Leave one 'show' part, or add another.")
        changed = plan.changed(
            select=tuple(dict.fromkeys(select)), where=where, group=tuple(dict.fromkeys(group)), having=having,
            order=orders, limit=self._limit(plan, within), distinct=self._distinct(plan, within),
        )  # fmt: skip
        return self._combined(changed, plan, within)

    def _take(self, key: str) -> Change | None:
        self.known.append(key)
        self.open.discard(key)
        return self.changes.get(key)

    def _additions(self, kind: str, within: str) -> list[Change]:
        found = [each for each in self.added if each.key == f"{within}{kind}"]
        self.added = [each for each in self.added if each not in found]
        return found

    def _items(self, kind: str, items: Sequence[Item], within: str) -> list[Item | None]:
        """The items after the changes, None where one was removed; what is added stands at the end."""
        found: list[Item | None] = []
        for key, item in zip(keys_of(kind, items, self.schema, within), items, strict=True):
            change = self._take(key)
            made = item if change is None else None if change.action == "remove" else self._item(item, change)
            if made != item and (made is not None or kind == "each"):
                self.followed[item] = made
            found.append(made)
        return [*found, *(self._item(Item(ANY), each) for each in self._additions(kind, within))]

    def _follow(self, items: list[Item | None], kind: str, was: Sequence[Item], within: str) -> list[Item]:
        """The same item in another place goes along, unless it was changed itself."""
        keys = keys_of(kind, was, self.schema, within)
        own = {at for at, key in enumerate(keys) if key in self.changes}
        moved = [
            self.followed.get(item, item) if item is not None and at not in own else item
            for at, item in enumerate(items)
        ]
        return [item for item in moved if item is not None]

    def _item(self, item: Item, change: Change) -> Item:
        field = self.schema.field_named(*change.field) if change.field is not None else item.field
        aggregate = change.aggregate if change.aggregate is not None else item.aggregate
        part = change.date_part if change.date_part is not None else item.part
        if field == ANY and aggregate not in ("", "count"):
            raise InvalidInput(f"'{aggregate}' needs a column.", remedy="Name the column it is computed from.")
        if part and (field == ANY or self.schema.fields[field].kind != "date"):
            if change.date_part:
                raise InvalidInput(f"Only a date has a {part}.", remedy="Choose a column with dates.")
            part = ""
        return Item(field, aggregate, item.distinct and field == item.field, part)

    def _orders(self, plan: Plan, within: str) -> tuple[Order, ...]:
        orders = []
        for key, order in zip(keys_of("order", [o.item for o in plan.order], self.schema, within), plan.order,
                              strict=True):  # fmt: skip
            change = self._take(key)
            if change is None:
                orders.append(replace(order, item=self.followed.get(order.item) or order.item))
            elif change.action == "replace":
                descending = order.descending if change.descending is None else change.descending
                orders.append(Order(self._item(order.item, change), descending))
        for each in self._additions("order", within):
            orders.append(Order(self._item(Item(ANY), each), bool(each.descending)))
        if any(order.item == Item(ANY) for order in orders):
            raise InvalidInput("An order needs a column or a count.", remedy="Name the column to order by.")
        return tuple(orders)

    def _conditions(self, kind: str, conditions: Sequence[Condition], within: str) -> tuple[Condition, ...]:
        found = []
        followed = self.followed
        for key, condition in zip(
            keys_of(kind, [c.item for c in conditions], self.schema, within), conditions, strict=True
        ):
            change = self._take(key)
            if change is not None and change.action == "remove":
                self.open = {each for each in self.open if not each.startswith(f"{key}/")}
                continue
            made = condition if change is None else self._condition(condition, change)
            if made.nested:
                made = replace(made, value=self.level(made.nested, f"{key}/"))
            found.append(made)
        self.followed = followed
        empty = Condition(Item(ANY), "=")
        return (*found, *(self._condition(empty, each) for each in self._additions(kind, within)))

    def _condition(self, condition: Condition, change: Change) -> Condition:
        item = self._item(condition.item, change)
        if item == Item(ANY):
            raise InvalidInput("A condition needs a column or a count.", remedy="Name the column to compare.")
        operator = change.operator or condition.operator
        if operator in _WITHOUT_VALUE:
            return Condition(item, operator)
        if condition.nested and change.value is None:
            return Condition(item, operator, condition.value)
        if operator in ("in", "not in"):
            raise InvalidInput(f"'{operator}' compares with another query, not with a value.",
                               remedy="Use '=' or '!=', one condition for each value.")  # fmt: skip
        value = change.value if change.value is not None else condition.value
        upper = change.upper if change.upper is not None else condition.upper
        if value is None or isinstance(value, Plan):
            raise InvalidInput("The condition has no value.", remedy="Pass the value to compare with.")
        if operator not in ("between", "within"):
            return Condition(item, operator, self._value(item, operator, value))
        if upper is None:
            raise InvalidInput(f"'{operator}' needs two values.", remedy="Pass the end of the range as `upper`.")
        return Condition(item, operator, self._value(item, operator, value), self._value(item, operator, upper))

    def _value(self, item: Item, operator: Operator, value: Scalar) -> Scalar:
        """As a number where the column has numbers."""
        if operator in ("like", "not like"):
            return str(value)
        is_number = item.aggregate == "count" or (item.field != ANY and self.schema.fields[item.field].kind == "number")
        if not is_number or isinstance(value, int | float):
            return value
        try:
            number = float(str(value))
        except ValueError:
            raise InvalidInput(
                f"'{value}' is not a number, and the column has numbers.", remedy="Pass a number."
            ) from None
        return int(number) if number.is_integer() else number

    def _limit(self, plan: Plan, within: str) -> int | None:
        change = self._take(f"{within}limit") if plan.limit is not None else None
        for each in self._additions("limit", within):
            change = each
        if change is None:
            return plan.limit
        if change.action == "remove":
            return None
        if not isinstance(change.value, int) or isinstance(change.value, bool) or change.value < 1:
            raise InvalidInput("A limit is a whole number from 1 on.", remedy="Pass it as the value of the change.")
        return change.value

    def _distinct(self, plan: Plan, within: str) -> bool:
        change = self._take(f"{within}distinct") if plan.distinct else None
        return bool(self._additions("distinct", within)) or (plan.distinct and change is None)

    def _combined(self, changed: Plan, was: Plan, within: str) -> Plan:
        """Both sides of a combination show the same: what one of them shows, the other shows, too."""
        if was.combination is None or was.second is None:
            return changed
        key = f"{within}{was.combination}"
        change = self._take(key)
        if change is not None and change.action == "remove":
            self.open = {each for each in self.open if not each.startswith(f"{key}/")}
            return changed.changed(combination=None, second=None)
        second = self.level(was.second, f"{key}/")
        if was.select == was.second.select == second.select:
            second = second.changed(select=changed.select)
        return changed.changed(second=second)
