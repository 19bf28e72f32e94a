"""What a statement over several places needs of one outside table: its columns, and the conditions on it alone.

The statement runs afterwards over what was fetched, so a condition that is not pushed down costs time and nothing else.
One that is pushed down must hold for every row the statement could use: top-level conditions of a WHERE, on a table
that is read once and that no outer join may fill with NULL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp

from recollect.adapters.connections.select_rules import NativeSelect, native_select, parsed
from recollect.domain.database_address import DatabaseEngine
from recollect.errors import InvalidInput, NotFound
from recollect.ports.connections import OutsideTable

_DIALECTS = ("duckdb", "sqlite", "postgres", "mysql")
# What means the same in every database; LIKE does not: it looks at case in some.
_SIMPLE = (
    exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.In, exp.Between, exp.Is, exp.Not, exp.Or, exp.And, exp.Paren,
    exp.Column, exp.Identifier, exp.Literal, exp.Null, exp.Boolean, exp.Cast, exp.DataType, exp.Neg, exp.Tuple,
)  # fmt: skip

_ORDERING = (exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between)
_ORDERED = re.compile("int|num|dec|real|double|float|serial|date|time|bool|year|money", re.IGNORECASE)
"""The types of columns, in whichever database, whose order is the same everywhere."""


def needed_select(
    sql: str, table: OutsideTable, beside: Mapping[str, Sequence[str]], engine: DatabaseEngine
) -> NativeSelect:
    """The SELECT over one table that gets what the statement needs of it."""
    tree = _parsed(sql)
    columns = _columns(tree, table)
    select = exp.Select(expressions=[exp.column(exp.to_identifier(name, quoted=True)) for name in columns])
    select = select.from_(exp.Table(this=exp.to_identifier(table.name, quoted=True)))
    conditions = list(_conditions(tree, table, beside)) if tree is not None else []
    try:
        filtered = select.where(*conditions).sql("duckdb") if conditions else select.sql("duckdb")
        return native_select(filtered, [table], engine)
    except (InvalidInput, NotFound):
        return native_select(select.sql("duckdb"), [table], engine)


def _parsed(sql: str) -> exp.Query | None:
    """As the sandbox reads it: in the first dialect that it can be read in."""
    for dialect in _DIALECTS:
        try:
            return parsed(sql, dialect)
        except InvalidInput:
            continue
    return None


def _columns(tree: exp.Query | None, table: OutsideTable) -> list[str]:
    everything = [column.name for column in table.columns]
    if tree is None or any(not isinstance(star.parent, exp.Count) for star in tree.find_all(exp.Star)):
        return everything
    names = {name.name.lower() for name in tree.find_all(exp.Identifier)}
    return [name for name in everything if name.lower() in names] or everything[:1]


def _conditions(tree: exp.Query, table: OutsideTable, beside: Mapping[str, Sequence[str]]) -> Iterator[exp.Expr]:
    reads = [node for node in tree.find_all(exp.Table) if node.name.lower() == table.name.lower() and not node.db]
    if len(reads) != 1 or any(cte.alias.lower() == table.name.lower() for cte in tree.find_all(exp.CTE)):
        return
    read = reads[0]
    select = read.find_ancestor(exp.Select)
    where = select.args.get("where") if select is not None else None
    if select is None or where is None or _may_be_filled(read, select):
        return
    own = {column.name.lower(): column.type for column in table.columns}
    others = {name.lower() for columns in beside.values() for name in columns}
    for condition in where.this.flatten() if isinstance(where.this, exp.And) else [where.this]:
        if _concerns(condition, read.alias_or_name.lower(), own, others):
            bare = condition.copy()
            for column in [bare, *bare.find_all(exp.Column)]:
                if isinstance(column, exp.Column):
                    column.set("table", None)
            yield bare


def _may_be_filled(read: exp.Table, select: exp.Select) -> bool:
    """Whether an outer join makes rows of it that it does not have, or the table stands deeper than in FROM."""
    joins = select.args.get("joins") or []
    source = select.args.get("from_") or select.args.get("from")
    is_first = source is not None and source.this is read
    sides = {str(join.args.get("side") or "").upper() for join in joins}
    if not is_first and not any(join.this is read for join in joins):
        return True
    return bool(sides - {"", "LEFT"}) or ("LEFT" in sides and not is_first)


def _concerns(condition: exp.Expr, alias: str, own: Mapping[str, str], others: set[str]) -> bool:
    """Whether a condition is simple, speaks of columns of this table alone, and means the same in every database.

    Texts are ordered and told apart in other ways elsewhere: whether they are equal is asked there, and here again.
    """
    for node in condition.walk():
        if not isinstance(node, _SIMPLE) or node.args.get("query") is not None:
            return False
        is_ordering = isinstance(node, _ORDERING) or (isinstance(node, exp.Not) and not isinstance(node.this, exp.Is))
        if is_ordering and not all(_ORDERED.search(own.get(one.name.lower(), "")) for one in node.find_all(exp.Column)):
            return False
        if isinstance(node, exp.Column):
            name = node.name.lower()
            is_own = node.table.lower() == alias if node.table else name not in others
            if not is_own or name not in own:
                return False
    return condition.find(exp.Column) is not None
