"""What differs between the databases that speak SQL: how values are kept, and the few phrases they spell otherwise.

Everything else (queries, steps, rows) is written once. All of them understand `?` as the place-holder, TRUE and FALSE,
IS NOT DISTINCT FROM and NULLS FIRST, or are given a translation of it by their store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

from recollect.adapters.records.common.checks import in_utc
from recollect.domain.record import ColumnType
from recollect.domain.text.json_writer import json_writer
from recollect.ports.query import Compare, Holds, Row

T = TypeVar("T")
Convert = Callable[[Any], Any]
"""A value between the record's type and the driver's."""
Values = Sequence[Any]
"""What is bound to the place-holders of a statement."""
Columns = Sequence[tuple[ColumnType, Values]]
"""Columns of values, each with its type."""
Run = Callable[[str, Values], list[Row]]
"""Runs a statement with `?` for place-holders, and gives its rows."""
Bind = Callable[[object], str]
"""Adds a value to the statement's bound values and gives its place-holder."""


class Encoding(Protocol):
    @property
    def encode(self) -> Mapping[ColumnType, Convert]:
        """How a value of each type is handed to the driver."""

    @property
    def decode(self) -> Mapping[ColumnType, Convert]:
        """How what the driver gives back is made a value again; `same` where nothing is to be done."""


class Dialect(Encoding, Protocol):
    @property
    def row(self) -> str:
        """The column by which the steps find a row again: its row number, or its id."""

    @property
    def at_row(self) -> str:
        """The condition that finds it; bound are the tenant where it asks for two values, and the row."""

    @property
    def sorts_whole_rows(self) -> bool:
        """Whether putting rows in order carries along all that is asked of them. Then the few of a page are chosen by
        their row numbers first: a list of 100,000 memories in 88 ms in place of 320, counting included."""

    def places(self, columns: Columns, bind: Bind) -> str:
        """Rows to select from, named p: their number n, and a, b, c of the columns, given as the driver takes them."""

    def listed(self, column: str, rows: str) -> str:
        """One value that holds a column of rows, in their order."""

    @property
    def unlisted(self) -> Convert:
        """What `listed` made, as the driver gives it back."""

    def many(self, column: str, values: Values, bind: Bind) -> str:
        """The column is one of a list of values, none of them empty."""

    def member(self, column: str, given: Compare, bind: Bind) -> str:
        """The JSON object has this member, of the value's own type, and it compares so (`!=` stands for `=`). Never
        empty: true or false."""

    def has(self, column: str, path: Sequence[str], bind: Bind) -> str:
        """The JSON object has this member, even if it is null. Never empty: true or false."""

    def holds(self, column: str, given: Holds, bind: Bind) -> str:
        """The JSON list, or the one that the path leads to, has this value among its members."""


def same(value: T) -> T:
    return value


def moment_text(moment: datetime) -> str:
    """UTC with microseconds and fixed width, so that text order is time order."""
    at = moment if moment.tzinfo is UTC else in_utc(moment)
    return _MOMENT((at.year, at.month, at.day, at.hour, at.minute, at.second, at.microsecond))


# In half of the time of `isoformat`, which asks for the zone.
_MOMENT = "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ".__mod__


# What records hold was checked for its depth: it holds no circle.
json_text = json_writer()
