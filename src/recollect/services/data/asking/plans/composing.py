"""A plan to SQL in DuckDB's dialect, by way of sqlglot's tree: names quoted, values as literals, joins along keys."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from recollect.services.data.asking.plans.joins import JoinGraph
from recollect.services.data.asking.plans.plan import ANY, Condition, Item, Order, Plan, tables_of
from recollect.services.data.asking.plans.schema import Field, Join, Scalar, Schema

_COMPARISONS: dict[str, type[exp.Binary]] = {
    "=": exp.EQ,
    "!=": exp.NEQ,
    ">": exp.GT,
    "<": exp.LT,
    ">=": exp.GTE,
    "<=": exp.LTE,
}
_AGGREGATES: dict[str, type[exp.AggFunc]] = {
    "count": exp.Count,
    "sum": exp.Sum,
    "avg": exp.Avg,
    "min": exp.Min,
    "max": exp.Max,
}


class Composer:
    """Writes plans over one schema as SQL."""

    def __init__(self, schema: Schema, graph: JoinGraph) -> None:
        self.schema = schema
        self.graph = graph

    def sql(self, plan: Plan, dialect: str = "duckdb") -> str | None:
        """The statement, or None where its tables cannot be joined."""
        tree = self._tree(plan)
        return tree.sql(dialect=dialect) if tree is not None else None

    def _tree(self, plan: Plan) -> exp.Expr | None:
        first = self._select(plan)
        if first is None or plan.combination is None or plan.second is None:
            return first
        second = self._tree(plan.second)
        if second is None:
            return None
        combined = {"intersect": exp.Intersect, "union": exp.Union, "except": exp.Except}[plan.combination]
        return combined(this=first, expression=second, distinct=True)

    def _select(self, plan: Plan) -> exp.Select | None:
        tables = tables_of(plan, self.schema)
        tree = self.graph.tree(tables, plan.via) if tables else None
        if tree is None:
            return None
        qualified = len(tree) > 1
        select = exp.Select(expressions=[self._item(item, qualified, zone=plan.zone) for item in plan.select])
        for table, join in tree:
            source = exp.Table(this=_identifier(self.schema.tables[table].name))
            select = select.from_(source, copy=False) if join is None else self._joined(select, source, join)
        if plan.where:
            where = self._conditions(plan.where, plan.either, qualified, plan.zone)
            if where is None:
                return None
            select = select.where(where, copy=False)
        keys = self._group(plan)
        if keys:
            select = select.group_by(*(self._item(item, qualified, zone=plan.zone) for item in keys), copy=False)
        if plan.having:
            having = self._conditions(plan.having, False, qualified, plan.zone)
            if having is None:
                return None
            select = select.having(having, copy=False)
        if plan.order and plan.combination is None:
            select = select.order_by(*(self._order(order, qualified, plan.zone) for order in plan.order), copy=False)
        if plan.limit is not None and plan.combination is None:
            select = select.limit(plan.limit, copy=False)
        return select.distinct(copy=False) if plan.distinct else select

    def _joined(self, select: exp.Select, source: exp.Table, join: Join) -> exp.Select:
        left, right = self._alike(join.left, join.right, True)
        return select.join(source, on=exp.EQ(this=left, expression=right), copy=False)

    def _alike(self, one: int, other: int, qualified: bool) -> tuple[exp.Expr, exp.Expr]:
        """Two fields that are compared: as text where only one of them is stored as text."""
        left: exp.Expr = self._column(one, qualified)
        right: exp.Expr = self._column(other, qualified)
        fields = self.schema.fields
        if fields[one].is_stored_as_text != fields[other].is_stored_as_text:
            text = exp.DataType.build("text")
            if fields[one].is_stored_as_text:
                right = exp.Cast(this=right, to=text)
            else:
                left = exp.Cast(this=left, to=text)
        return left, right

    def _unqualified_cast(self, item: Item, qualified: bool) -> exp.Expr:
        return exp.Cast(this=self._column(item.field, qualified), to=exp.DataType.build("text"))

    def _group(self, plan: Plan) -> list[Item]:
        """DuckDB wants every plain field of SELECT and ORDER BY in GROUP BY."""
        is_mixed = len({bool(item.aggregate) for item in plan.select}) > 1
        if not plan.group and not is_mixed:
            return []
        plain = [item for item in (*plan.select, *(o.item for o in plan.order)) if not item.aggregate]
        return list(dict.fromkeys([*plan.group, *(item for item in plain if item.field != ANY)]))

    def _column(self, number: int, qualified: bool) -> exp.Column:
        field = self.schema.fields[number]
        table = _identifier(field.table) if qualified else None
        return exp.Column(this=_identifier(field.name), table=table)

    def _local(self, number: int, qualified: bool, zone: str) -> exp.Expr:
        """A moment as the clock of the zone shows it; anything else as it is."""
        column = self._column(number, qualified)
        if not zone or not self.schema.fields[number].has_zone:
            return column
        return exp.Anonymous(this="timezone", expressions=[exp.Literal.string(zone), column])

    def _item(self, item: Item, qualified: bool, numeric: bool = False, zone: str = "") -> exp.Expr:
        if item.field == ANY:
            return exp.Count(this=exp.Star()) if item.aggregate == "count" else exp.Star()
        field = self.schema.fields[item.field]
        column = self._local(item.field, qualified, zone)
        if item.part:
            dated = exp.TryCast(this=column, to=exp.DataType.build("date")) if field.is_stored_as_text else column
            column = exp.Anonymous(this="date_trunc", expressions=[exp.Literal.string(item.part), dated])
            if item.part == "year":
                column = exp.Anonymous(this="year", expressions=[dated])
        if (numeric or item.aggregate in ("sum", "avg")) and field.is_stored_as_text and not item.part:
            column = exp.TryCast(this=column, to=exp.DataType.build("double"))
        if not item.aggregate:
            return column
        inner = exp.Distinct(expressions=[column]) if item.distinct else column
        return _AGGREGATES[item.aggregate](this=inner)

    def _order(self, order: Order, qualified: bool, zone: str) -> exp.Ordered:
        # SQLite and most people put missing values first when ascending; in DuckDB they come last.
        return exp.Ordered(this=self._item(order.item, qualified, zone=zone), desc=order.descending, nulls_first=False)

    def _conditions(self, conditions: Iterable[Condition], either: bool, qualified: bool, zone: str) -> exp.Expr | None:
        made = [self._condition(condition, qualified, zone) for condition in conditions]
        found = [each for each in made if each is not None]
        if len(found) < len(made):
            return None
        return exp.or_(*found) if either else exp.and_(*found)

    def _condition(self, condition: Condition, qualified: bool, zone: str) -> exp.Expr | None:
        item, value = condition.item, condition.value
        field = self.schema.fields[item.field] if item.field != ANY else None
        if condition.operator in ("null", "not null"):
            null = exp.Is(this=self._item(item, qualified), expression=exp.Null())
            return exp.not_(null) if condition.operator == "not null" else null
        if isinstance(value, Plan):
            return self._nested(condition, value, qualified)
        numeric = isinstance(value, int | float) and not isinstance(value, bool) and item.aggregate != "count"
        if item.aggregate == "count":
            field = None
        left = self._item(item, qualified, numeric and condition.operator not in ("=", "!="), zone)
        if condition.operator == "between":
            return exp.Between(this=left, low=_literal(value, None), high=_literal(condition.upper, None))
        if condition.operator == "within":
            start = exp.GTE(this=left, expression=_literal(value, None))
            return exp.and_(start, exp.LT(this=left.copy(), expression=_literal(condition.upper, None)))
        if condition.operator in ("like", "not like"):
            text = left
            if field is not None and not field.is_stored_as_text:
                text = exp.Cast(this=left, to=exp.DataType.build("text"))
            like = exp.ILike(this=text, expression=exp.Literal.string(str(value)))
            return exp.not_(like) if condition.operator == "not like" else like
        equal = condition.operator in ("=", "!=")
        return _COMPARISONS[condition.operator](this=left, expression=_literal(value, field if equal else None))

    def _nested(self, condition: Condition, plan: Plan, qualified: bool) -> exp.Expr | None:
        query = self._tree(plan)
        if query is None:
            return None
        left = self._item(condition.item, qualified)
        if condition.operator in ("in", "not in"):
            inner = plan.select[0]
            if inner.field != ANY and condition.item.field != ANY and not inner.aggregate:
                left, shown = self._alike(condition.item.field, inner.field, qualified)
                if isinstance(query, exp.Select) and isinstance(shown, exp.Cast):
                    query.set("expressions", [self._unqualified_cast(inner, len(tables_of(plan, self.schema)) > 1)])
            inside = exp.In(this=left, query=exp.Subquery(this=query))
            return exp.not_(inside) if condition.operator == "not in" else inside
        return _COMPARISONS[condition.operator](this=left, expression=exp.Subquery(this=query))


def _identifier(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=not (name.isidentifier() and name.isascii()) or name.lower() in _RESERVED)


def _literal(value: Scalar | Plan, field: Field | None) -> exp.Expr:
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, int | float):
        if field is not None and field.is_stored_as_text:
            return exp.Literal.string(str(value))
        return exp.Literal.number(value) if value >= 0 else exp.Neg(this=exp.Literal.number(-value))
    text = str(value)
    if field is not None and not field.is_stored_as_text and _is_number(text):
        return exp.Literal.number(text)
    return exp.Literal.string(text)


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdigit()


_RESERVED = set(
    """all analyse analyze and any array as asc asof asymmetric at authorization between both by case cast check collate
    column columns constraint create cross current_date current_time current_timestamp date day default deferrable desc
    describe distinct do else end except false fetch for foreign from full function glob grant group having hour if
    ilike
    in index initially inner intersect interval into is isnull join key lateral leading left like limit localtime map
    minute month natural not notnull null of offset on only or order outer over overlaps partition pivot placing
    position positional primary qualify range references returning right row rows second select semi show similar some
    struct summarize symmetric table tablesample then time timestamp to trailing true type union unique unpivot user
    using values variadic verbose view when where window with year""".split()
)
