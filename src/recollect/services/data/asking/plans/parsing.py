"""SQL to a plan, where the SQL is of the kinds that a plan can say; otherwise nothing.

Verified queries and training examples come in as SQL. Both DuckDB's and SQLite's spelling is understood ("text" in
double quotes, columns missing from GROUP BY).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from recollect.services.data.asking.plans.joins import JoinGraph
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
from recollect.services.data.asking.plans.schema import Scalar, Schema

_AGGREGATES: dict[type[exp.Expr], Aggregate] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
}
_COMPARISONS: dict[type[exp.Expr], Operator] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.GT: ">",
    exp.LT: "<",
    exp.GTE: ">=",
    exp.LTE: "<=",
    exp.Like: "like",
    exp.ILike: "like",
}
_MIRRORED: dict[Operator, Operator] = {">": "<", "<": ">", ">=": "<=", "<=": ">="}
_NEGATED: dict[Operator, Operator] = {"like": "not like", "in": "not in", "null": "not null", "=": "!="}
_COMBINATIONS: dict[type[exp.Expr], Combination] = {
    exp.Intersect: "intersect",
    exp.Union: "union",
    exp.Except: "except",
}
_PARTS: dict[type[exp.Expr], DatePart] = {
    exp.Year: "year",
    exp.Month: "month",
    exp.Quarter: "quarter",
    exp.Week: "week",
    exp.Day: "day",
}


_TRUNCATED: dict[str, DatePart] = {part: part for part in _PARTS.values()}


class Inexpressible(Exception):
    """The statement has a part that a plan has no place for."""


def parse(sql: str, schema: Schema, dialect: str = "duckdb") -> Plan | None:
    try:
        return _Reader(schema).plan(sqlglot.parse_one(sql, read=dialect))
    except (SqlglotError, Inexpressible):
        return None


@dataclass
class _Reader:
    schema: Schema

    def plan(self, tree: exp.Expr) -> Plan:
        tree = tree.unnest() if isinstance(tree, exp.Subquery) else tree
        for kind, combination in _COMBINATIONS.items():
            if isinstance(tree, kind):
                first, second = self.plan(tree.this), self.plan(tree.args["expression"])
                order, limit = self._order(tree, {}), self._limit(tree)
                return first.changed(combination=combination, second=second, order=order, limit=limit)
        if not isinstance(tree, exp.Select):
            raise Inexpressible(type(tree).__name__)
        return self._select(tree)

    def _select(self, tree: exp.Select) -> Plan:
        names = self._names(tree)
        select, distinct = [], tree.args.get("distinct") is not None
        for each in tree.expressions:
            inner = each.unalias()
            if isinstance(inner, exp.Paren):
                inner = inner.this
            if isinstance(inner, exp.Star) or (isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star)):
                select.append(Item(ANY))
            else:
                select.append(self._item(inner, names))
        aliases = {e.alias.lower(): item for e, item in zip(tree.expressions, select, strict=True) if e.alias}
        where, either = self._conditions(tree.args.get("where"), names)
        having, _ = self._conditions(tree.args.get("having"), names, aliases)
        group = tree.args.get("group")
        grouped = [self._grouped(each, names, select, aliases) for each in group.expressions] if group else []
        plan = Plan(
            select=tuple(select),
            where=where,
            either=either,
            group=tuple(grouped),
            having=having,
            order=self._order(tree, names, aliases),
            limit=self._limit(tree),
            distinct=distinct,
        )
        used = {self.schema.table_of[item.field] for item in plan.items() if item.field != ANY}
        return plan.changed(tables=tuple(sorted(set(names.values()) - used)), via=self._via(tree, names))

    def _via(self, tree: exp.Select, names: dict[str, int]) -> frozenset[int]:
        """The fields joined by, where there was a choice."""
        found = set()
        for join in tree.args.get("joins") or []:
            for column in join.args["on"].find_all(exp.Column) if join.args.get("on") else ():
                found.add(self._field(column, names))
        choices = [join for joins in JoinGraph(self.schema).parallel for join in joins] if found else []
        return frozenset(j.left for j in choices if j.left in found and j.right in found)

    def _names(self, tree: exp.Select) -> dict[str, int]:
        source = tree.args.get("from_") or tree.args.get("from")
        if source is None:
            raise Inexpressible("no table")
        found: dict[str, int] = {}
        for each in [source.this, *(join.this for join in tree.args.get("joins") or [])]:
            number = self.schema.table_number(each.name) if isinstance(each, exp.Table) else None
            if number is None:
                raise Inexpressible("a table that is not in the schema")
            found[each.alias_or_name.lower()] = number
        if len(set(found.values())) < len(found):
            raise Inexpressible("a table joined with itself")
        return found

    def _item(self, tree: exp.Expr, names: dict[str, int]) -> Item:
        tree = tree.unnest() if isinstance(tree, exp.Paren) else tree
        if isinstance(tree, (exp.TryCast, exp.Cast)):
            return self._item(tree.this, names)
        for kind, aggregate in _AGGREGATES.items():
            if isinstance(tree, kind):
                inner = tree.this
                distinct = isinstance(inner, exp.Distinct)
                if isinstance(inner, exp.Distinct):
                    inner = inner.expressions[0]
                if isinstance(inner, exp.Star):
                    return Item(ANY, aggregate)
                return Item(self._item(inner, names).field, aggregate, distinct)
        for part_kind, part in _PARTS.items():
            if isinstance(tree, part_kind):
                return Item(self._item(tree.this, names).field, part=part)
        if isinstance(tree, exp.TimestampTrunc | exp.DateTrunc):
            truncated = _TRUNCATED.get(tree.text("unit").lower())
            if truncated is not None:
                return Item(self._item(tree.this, names).field, part=truncated)
        if isinstance(tree, exp.AtTimeZone) or (isinstance(tree, exp.Anonymous) and tree.name.lower() == "timezone"):
            return self._item(tree.this if isinstance(tree, exp.AtTimeZone) else tree.expressions[1], names)
        if isinstance(tree, exp.Column):
            return Item(self._field(tree, names))
        raise Inexpressible(type(tree).__name__)

    def _field(self, column: exp.Column, names: dict[str, int]) -> int:
        tables = [names[column.table.lower()]] if column.table.lower() in names else list(names.values())
        for table in tables:
            number = self.schema.number(self.schema.tables[table].name, column.name)
            if number is not None:
                return number
        raise Inexpressible(f"no field {column.name}")

    def _grouped(self, tree: exp.Expr, names: dict[str, int], select: list[Item], aliases: dict[str, Item]) -> Item:
        if isinstance(tree, exp.Literal) and not tree.is_string:
            return select[int(tree.this) - 1]
        if isinstance(tree, exp.Column) and not tree.table and tree.name.lower() in aliases:
            return aliases[tree.name.lower()]
        return self._item(tree, names)

    def _conditions(
        self, tree: exp.Expr | None, names: dict[str, int], aliases: dict[str, Item] | None = None
    ) -> tuple[tuple[Condition, ...], bool]:
        if tree is None:
            return (), False
        inner: exp.Expr = tree.this
        kinds = {type(node) for node in inner.walk(prune=lambda n: isinstance(n, exp.Subquery | exp.Select))}
        if exp.And in kinds and exp.Or in kinds:
            raise Inexpressible("and beside or")
        found = [self._condition(part, names, aliases or {}) for part in _flat(inner)]
        return tuple(found if exp.Or in kinds else self._spans(found)), exp.Or in kinds

    def _spans(self, conditions: Iterable[Condition]) -> list[Condition]:
        """Two ends of a time as the one span that they were written from."""
        found: list[Condition] = []
        for one in conditions:
            start = found[-1] if found and self._is_start(found[-1]) else None
            if start and start.item == one.item and one.operator == "<" and isinstance(one.value, str):
                found[-1] = replace(start, operator="within", upper=one.value)
            else:
                found.append(one)
        return found

    def _is_start(self, condition: Condition) -> bool:
        is_date = condition.item.field != ANY and self.schema.fields[condition.item.field].kind == "date"
        return is_date and condition.operator == ">=" and isinstance(condition.value, str)

    def _condition(self, tree: exp.Expr, names: dict[str, int], aliases: dict[str, Item]) -> Condition:
        if isinstance(tree, exp.Paren):
            return self._condition(tree.this, names, aliases)
        if isinstance(tree, exp.Not):
            inner = self._condition(tree.this, names, aliases)
            if inner.operator not in _NEGATED:
                raise Inexpressible("not")
            return Condition(inner.item, _NEGATED[inner.operator], inner.value, inner.upper)
        if isinstance(tree, exp.Between):
            low, high = self._value(tree.args["low"], names), self._value(tree.args["high"], names)
            if isinstance(high, Plan):
                raise Inexpressible("between plans")
            return Condition(self._item(tree.this, names), "between", low, high)
        if isinstance(tree, exp.Is) and isinstance(tree.expression, exp.Null):
            return Condition(self._item(tree.this, names), "null")
        if isinstance(tree, exp.In):
            query = tree.args.get("query")
            if query is None:
                raise Inexpressible("a list")
            return Condition(self._item(tree.this, names), "in", self.plan(query.unnest()))
        operator = _COMPARISONS.get(type(tree))
        if operator is None:
            raise Inexpressible(type(tree).__name__)
        left, right = tree.this, tree.expression
        if isinstance(left, exp.Literal):
            left, right, operator = right, left, _MIRRORED.get(operator, operator)
        if isinstance(left, exp.Column) and not left.table and left.name.lower() in aliases:
            return Condition(aliases[left.name.lower()], operator, self._value(right, names))
        return Condition(self._item(left, names), operator, self._value(right, names))

    def _value(self, tree: exp.Expr, names: dict[str, int]) -> Scalar | Plan:
        if isinstance(tree, exp.Subquery | exp.Select):
            return self.plan(tree)
        if isinstance(tree, exp.Neg):
            inner = self._value(tree.this, names)
            return -inner if isinstance(inner, int | float) else inner
        if isinstance(tree, exp.Cast):
            return self._value(tree.this, names)
        if isinstance(tree, exp.Literal):
            if tree.is_string:
                return str(tree.this)
            return float(tree.this) if "." in tree.this or "e" in tree.this.lower() else int(tree.this)
        if isinstance(tree, exp.Boolean):
            return bool(tree.this)
        if isinstance(tree, exp.Column) and not tree.table and tree.this.args.get("quoted"):
            return tree.name  # SQLite takes "text" in double quotes for a value
        raise Inexpressible(type(tree).__name__)

    def _order(
        self, tree: exp.Expr, names: dict[str, int], aliases: dict[str, Item] | None = None
    ) -> tuple[Order, ...]:
        order = tree.args.get("order")
        found = []
        for each in order.expressions if order else []:
            inner = each.this
            if isinstance(inner, exp.Column) and not inner.table and inner.name.lower() in (aliases or {}):
                item = (aliases or {})[inner.name.lower()]
            else:
                item = self._item(inner, names)
            found.append(Order(item, bool(each.args.get("desc"))))
        return tuple(found)

    def _limit(self, tree: exp.Expr) -> int | None:
        limit = tree.args.get("limit")
        return int(limit.expression.this) if limit is not None and isinstance(limit.expression, exp.Literal) else None


def _flat(tree: exp.Expr) -> Iterator[exp.Expr]:
    """The parts of a chain of AND or OR, whatever brackets are in it."""
    inner = tree.unnest()
    if not isinstance(inner, exp.And | exp.Or):
        yield tree
        return
    for part in inner.flatten():
        yield from _flat(part)
