"""What is known about the tables that can be asked: names, types, statistics, and how they join.

A schema is plain data that a profile fills; nothing here reads a file or a store. Fields are numbered through all
tables, so that queries and scores refer to one by its number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from typing import Literal

from recollect.errors import NotFound

Kind = Literal["text", "number", "date", "boolean"]
Scalar = str | int | float | bool | None


@dataclass(frozen=True)
class Field:
    """One column. `meaning` is the profile's guess (id, category, money, date, year, email, name, text), or empty."""

    table: str
    name: str
    kind: Kind = "text"
    meaning: str = ""
    description: str = ""
    rows: int = 0
    nulls: int = 0
    distinct: int = 0
    low: Scalar = None
    high: Scalar = None
    top: tuple[Scalar, ...] = ()
    samples: tuple[Scalar, ...] = ()
    is_key: bool = False
    sql_type: str = ""

    @property
    def is_unique(self) -> bool:
        return self.is_key or (self.rows > 1 and self.distinct == self.rows - self.nulls and self.nulls == 0)

    @property
    def is_stored_as_text(self) -> bool:
        """Whether SQL compares it as text, whatever its values look like."""
        return self.kind == "text" if not self.sql_type else self.sql_type.upper() in ("VARCHAR", "TEXT", "CHAR")

    @property
    def has_zone(self) -> bool:
        """Whether its values are moments, whose day depends on where one is."""
        return self.sql_type.upper() in ("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ")


@dataclass(frozen=True)
class Table:
    name: str
    fields: tuple[Field, ...]
    rows: int = 0
    description: str = ""


@dataclass(frozen=True)
class Join:
    """Two fields, by number, whose values mean the same. `weight` is the cost of using it: declared keys cost 1."""

    left: int
    right: int
    weight: float = 1.0


@dataclass(frozen=True)
class Schema:
    tables: tuple[Table, ...]
    joins: tuple[Join, ...] = ()
    name: str = ""
    _numbers: dict[tuple[str, str], int] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        for number, each in enumerate(self.fields):
            self._numbers[each.table.lower(), each.name.lower()] = number

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return tuple(each for table in self.tables for each in table.fields)

    @cached_property
    def table_of(self) -> tuple[int, ...]:
        """The number of each field's table."""
        return tuple(number for number, table in enumerate(self.tables) for _ in table.fields)

    @cached_property
    def fields_of(self) -> tuple[tuple[int, ...], ...]:
        """The numbers of each table's fields."""
        found: list[list[int]] = [[] for _ in self.tables]
        for number, table in enumerate(self.table_of):
            found[table].append(number)
        return tuple(tuple(each) for each in found)

    @cached_property
    def key_of(self) -> tuple[int | None, ...]:
        """The field that tells the rows of each table apart, where there is one."""
        return tuple(self._key(numbers) for numbers in self.fields_of)

    @cached_property
    def joined_fields(self) -> frozenset[int]:
        return frozenset(side for join in self.joins for side in (join.left, join.right))

    def number(self, table: str, name: str) -> int | None:
        return self._numbers.get((table.lower(), name.lower()))

    def table_number(self, name: str) -> int | None:
        return next((n for n, table in enumerate(self.tables) if table.name.lower() == name.lower()), None)

    def name_of(self, number: int) -> tuple[str, str]:
        """The table and the column of a field."""
        return self.fields[number].table, self.fields[number].name

    def field_named(self, table: str, name: str) -> int:
        """The number of a field; raises NotFound, which names the nearest ones."""
        number = self.number(table, name)
        if number is None:
            columns = [each.name for each in self.tables[self.table_named(table)].fields]
            raise NotFound(f"The table '{table}' has no column '{name}'.", remedy=_nearest(name, columns))
        return number

    def table_named(self, name: str) -> int:
        """The number of a table; raises NotFound, which names the nearest ones."""
        number = self.table_number(name)
        if number is None:
            raise NotFound(f"There is no table '{name}'.", remedy=_nearest(name, [each.name for each in self.tables]))
        return number

    def _key(self, numbers: Sequence[int]) -> int | None:
        declared = [n for n in numbers if self.fields[n].is_key]
        if len(declared) == 1:
            return declared[0]
        if declared:
            return None
        named = [n for n in numbers if self.fields[n].is_unique and self.fields[n].name.lower().endswith("id")]
        return named[0] if named else None


def _nearest(name: str, known: Sequence[str]) -> str:
    lower = {each.lower(): each for each in known}
    near = [lower[each] for each in get_close_matches(name.lower(), list(lower), 3, 0.5)] or list(known[:5])
    return f"Did you mean {' or '.join(repr(each) for each in near)}?" if near else "Add a source first."
