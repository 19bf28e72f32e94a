"""From what the data engine knows of tables (profiles, values, joins) to what can be asked: a schema and its values.

    schema = schema_of({"orders": profile, ...}, engine.joins(tables), {"orders": new_table.foreign_keys, ...})
    prepared = Prepared(schema, value_lists(schema, {"orders": engine.values(path), ...}), embedder.embed)

The names of the tables are those that SQL will use. `Prepared` is made once per version of the sources and kept: it
embeds the names of tables and columns. Profiles of a sample are good enough; values should be of the whole table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from recollect.ports.data import ColumnProfile, ForeignKey, Plain, TableProfile, ValueCount
from recollect.ports.data import Join as LikelyJoin
from recollect.services.data.asking.plans.schema import Field, Join, Kind, Scalar, Schema, Table

_NUMBER = re.compile(r"^(U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|INT|DECIMAL|NUMERIC|DOUBLE|FLOAT|REAL)", re.IGNORECASE)
_TIME = re.compile(r"^(DATE|TIMESTAMP)", re.IGNORECASE)
_ISO_DATE = re.compile(r"^\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2})?)?")


def schema_of(
    profiles: Mapping[str, TableProfile],
    joins: Iterable[LikelyJoin] = (),
    foreign_keys: Mapping[str, Sequence[ForeignKey]] | None = None,
    descriptions: Mapping[tuple[str, str], str] | None = None,
) -> Schema:
    """`descriptions` of columns by table and column, and of a table by its name and an empty one."""
    said = descriptions or {}
    tables = tuple(
        Table(
            name,
            tuple(_field(name, each, profile.keys[:1], said.get((name, each.name), "")) for each in profile.columns),
            profile.rows,
            said.get((name, ""), ""),
        )
        for name, profile in profiles.items()
    )
    bare = Schema(tables)
    return Schema(tables, tuple(_joins(bare, joins, foreign_keys or {})))


def value_lists(schema: Schema, values: Mapping[str, Mapping[str, Sequence[ValueCount]]]) -> dict[int, Sequence[str]]:
    """The values of each text column, by the number of its field; `values` by table and column."""
    found: dict[int, Sequence[str]] = {}
    for table, columns in values.items():
        for name, counts in columns.items():
            number = schema.number(table, name)
            if number is not None:
                found[number] = [str(each.value) for each in counts if each.value is not None]
    return found


def _field(table: str, column: ColumnProfile, key: Sequence[str], description: str) -> Field:
    return Field(
        table,
        column.name,
        _kind(column),
        column.meaning,
        description,
        column.rows,
        column.nulls,
        column.distinct,
        _scalar(column.min),
        _scalar(column.max),
        tuple(_scalar(each.value) for each in column.top),
        tuple(_scalar(each) for each in column.samples),
        column.meaning == "id" and column.name in key,
        column.type,
    )


def _kind(column: ColumnProfile) -> Kind:
    if _NUMBER.match(column.type) and "[" not in column.type:
        return "number"
    if column.type.upper() == "BOOLEAN":
        return "boolean"
    samples = [str(each) for each in column.samples if each is not None]
    is_date = column.meaning == "date" and samples and all(_ISO_DATE.match(each) for each in samples)
    return "date" if _TIME.match(column.type) or is_date else "text"


def _scalar(value: Plain) -> Scalar:
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def _joins(
    schema: Schema, likely: Iterable[LikelyJoin], declared: Mapping[str, Sequence[ForeignKey]]
) -> Iterable[Join]:
    """Declared keys cost 1; likely ones more, the less of their values are found on the other side."""
    known: set[frozenset[int]] = set()
    for table, keys in declared.items():
        for key in keys:
            left, right = schema.number(table, key.column), schema.number(key.to_table, key.to_column)
            if left is not None and right is not None:
                known.add(frozenset((left, right)))
                yield Join(left, right)
    for join in likely:
        left, right = schema.number(join.table, join.column), schema.number(join.to_table, join.to_column)
        if left is not None and right is not None and frozenset((left, right)) not in known:
            known.add(frozenset((left, right)))
            yield Join(left, right, 1.2 + 0.6 * (1 - join.containment))
