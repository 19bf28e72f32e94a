"""Likely joins between tables: what is called alike, or holds the same values, and is a key on one side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb

from recollect.adapters.data.database import add_tables, columns_of, quoted_name
from recollect.adapters.data.meanings import words_of
from recollect.adapters.data.profiles import family, row_count, slices
from recollect.ports.data import Join

_SAMPLE = 20_000
_VALUES = 2000
_MOST_PAIRS = 400
_COUNTED_AT_ONCE = 16
"""Each count of distinct values has a table of its own in memory; of 200 columns they passed every limit."""
_CONTAINED = 0.9
_GENERIC = frozenset({"id", "key", "code", "no", "nr", "number", "name"})


@dataclass(frozen=True)
class _Side:
    table: str
    column: str
    family: str
    distinct: int
    is_key: bool

    @property
    def words(self) -> list[str]:
        return words_of(self.column)

    @property
    def table_words(self) -> list[str]:
        return [_singular(word) for word in words_of(self.table)]


def joins(connection: duckdb.DuckDBPyConnection, tables: dict[str, Path]) -> list[Join]:
    add_tables(connection, tables)
    sides = [side for name, path in tables.items() for side in _sides(connection, name, path)]
    found = []
    for one, other, reason in list(_pairs(sides))[:_MOST_PAIRS]:
        share = _containment(connection, one, other)
        if share >= _CONTAINED or (reason and share >= 0.5):
            said = f"{reason}; " if reason else ""
            found.append(
                Join(
                    one.table,
                    one.column,
                    other.table,
                    other.column,
                    share,
                    f"{said}{share:.0%} of the values are there",
                )
            )
    return _best(found)


def _sides(connection: duckdb.DuckDBPyConnection, name: str, path: Path) -> Iterator[_Side]:
    """The columns of a table that could join, with a sample of it kept as a table."""
    own = quoted_name(f"sample of {name}")
    connection.execute(f"CREATE TEMP TABLE {own} AS {slices(path, row_count(connection, path), _SAMPLE)}")
    columns = [
        column for column in columns_of(connection, f"SELECT * FROM {own}") if family(column.type) in ("number", "text")
    ]
    columns = [column for column in columns if not column.type.startswith(("DOUBLE", "FLOAT", "DECIMAL"))][:200]
    for at in range(0, len(columns), _COUNTED_AT_ONCE):
        some = columns[at : at + _COUNTED_AT_ONCE]
        asked = ", ".join(f"count(DISTINCT {quoted_name(c.name)}), count({quoted_name(c.name)})" for c in some)
        (counted,) = connection.execute(f"SELECT {asked}, count(*) FROM {own}").fetchall()
        for index, column in enumerate(some):
            distinct, filled = counted[2 * index], counted[2 * index + 1]
            if distinct:
                # Not all rows must have one: a key with a few repeats in a sample of two tables is none.
                is_key = distinct == filled and filled >= 0.9 * counted[-1]
                yield _Side(name, column.name, family(column.type), distinct, is_key)


def _pairs(sides: list[_Side]) -> Iterator[tuple[_Side, _Side, str]]:
    """What might refer to what: by name first, then texts that a key of another table may hold."""
    by_value = []
    for one in sides:
        for other in sides:
            if one.table == other.table or one.family != other.family or not other.is_key:
                continue
            if reason := _named_alike(one, other):
                yield one, other, reason
            elif one.family == "text" and not one.is_key and one.distinct >= 3:
                by_value.append((one, other, ""))
    yield from by_value


def _named_alike(one: _Side, other: _Side) -> str:
    mine, yours = [_singular(word) for word in one.words], [_singular(word) for word in other.words]
    if mine == yours and not set(mine) <= _GENERIC:
        return f"both are called {other.column}"
    # customer_id and id of customers; first_customer_id too, and customer_id and customer_code of customers
    words = other.table_words
    is_about = bool(words) and mine[-1:] and mine[-1] in _GENERIC and mine[:-1][-len(words) :] == words
    if is_about and set(yours) <= {*mine, *_GENERIC}:
        return f"{one.column} names {other.table}"
    if mine == other.table_words and set(yours) & {*_GENERIC}:
        return f"{one.column} names {other.table}"
    if len(mine) > len(yours) > 1 and mine[-len(yours) :] == yours:
        return f"{one.column} ends like {other.column}"
    return ""


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > 3 else word


def _containment(connection: duckdb.DuckDBPyConnection, one: _Side, other: _Side) -> float:
    """The share of the one's values that the other has, among some values of the one and all of the other's."""
    mine = f"SELECT DISTINCT {quoted_name(one.column)} AS x FROM {quoted_name(f'sample of {one.table}')}"
    theirs = quoted_name(other.column)
    asked = (
        f"WITH mine AS ({mine} WHERE x IS NOT NULL LIMIT {_VALUES}) SELECT count(*), count(*) FILTER (x IN "
        f"(SELECT {theirs} FROM {quoted_name(other.table)} WHERE {theirs} IN (SELECT x FROM mine))) "
        "FROM mine"
    )
    ((count, there),) = connection.execute(asked).fetchall()
    return there / count if count else 0.0


def _best(found: list[Join]) -> list[Join]:
    """The likeliest first; one way only where two tables refer to each other by the same columns."""
    ordered = sorted(found, key=lambda join: (join.reason.startswith(("0", "1", "9")), -join.containment))
    kept: dict[frozenset[tuple[str, str]], Join] = {}
    for join in ordered:
        kept.setdefault(frozenset({(join.table, join.column), (join.to_table, join.to_column)}), join)
    return list(kept.values())
