"""A plan in words that an encoder can compare with the question: names split into words, everything in one line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

from recollect.services.data.asking.language.words import name_words, stem
from recollect.services.data.asking.plans.joins import JoinGraph
from recollect.services.data.asking.plans.plan import ANY, Condition, Item, Plan
from recollect.services.data.asking.plans.schema import Schema

_AGGREGATES = {"count": "number of", "sum": "total", "avg": "average", "min": "minimum", "max": "maximum"}
_OPERATORS = {
    "=": "is", "!=": "is not", ">": "more than", "<": "less than", ">=": "at least", "<=": "at most",
    "like": "contains", "not like": "does not contain", "between": "between", "in": "in", "not in": "not in",
    "null": "is missing", "not null": "is present", "within": "within",
}  # fmt: skip
_COMBINATIONS = {"intersect": "and also", "union": "or", "except": "but not"}
_LONGEST_VALUE = 40


class Describer:
    """Describes plans over one schema."""

    def __init__(self, schema: Schema, graph: JoinGraph) -> None:
        self.schema = schema
        self.graph = graph
        self._tables = [" ".join(name_words(table.name)) for table in schema.tables]
        self._fields = [self._field_text(number) for number in range(len(schema.fields))]
        self.text: Callable[[Plan], str] = lru_cache(maxsize=4096)(self._text)

    def _field_text(self, number: int) -> str:
        """The words of the column, after those of its table that it does not have itself."""
        words = name_words(self.schema.fields[number].name)
        own = {stem(word) for word in words}
        table = [word for word in name_words(self.schema.fields[number].table) if stem(word) not in own]
        return " ".join((*table, *words))

    def _text(self, plan: Plan) -> str:
        parts = ["show" + (" different" if plan.distinct else ""), ", ".join(self._item(each) for each in plan.select)]
        tables = {self.schema.table_of[item.field] for item in plan.items() if item.field != ANY} | set(plan.tables)
        tree = self.graph.tree(frozenset(tables), plan.via) or ()
        parts.append("from " + ", ".join(self._tables[table] for table, _ in tree))
        if plan.where:
            parts.append("where " + (" or " if plan.either else " and ").join(map(self._condition, plan.where)))
        if plan.group:
            parts.append("for each " + ", ".join(map(self._item, plan.group)))
        if plan.having:
            parts.append("having " + " and ".join(map(self._condition, plan.having)))
        if plan.order:
            parts.append("ordered by " + ", ".join(self._orders(plan)))
        if plan.limit is not None:
            parts.append(f"first {plan.limit}")
        if plan.combination and plan.second:
            parts.append(f"{_COMBINATIONS[plan.combination]} {self._text(plan.second)}")
        return " ".join(parts)

    def _orders(self, plan: Plan) -> Iterable[str]:
        for order in plan.order:
            yield f"{self._item(order.item)} {'descending' if order.descending else 'ascending'}"

    def _item(self, item: Item) -> str:
        if item.field == ANY:
            return "number of rows" if item.aggregate else "everything"
        text = f"{item.part} of {self._fields[item.field]}" if item.part else self._fields[item.field]
        text = f"different {text}" if item.distinct else text
        return f"{_AGGREGATES[item.aggregate]} {text}" if item.aggregate else text

    def _condition(self, condition: Condition) -> str:
        left = f"{self._item(condition.item)} {_OPERATORS[condition.operator]}"
        if condition.nested:
            return f"{left} ( {self._text(condition.nested)} )"
        values = [each for each in (condition.value, condition.upper) if each is not None]
        return " ".join((left, " and ".join(str(each)[:_LONGEST_VALUE].strip("%") for each in values)))
