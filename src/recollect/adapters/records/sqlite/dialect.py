"""How SQLite keeps values, and the phrases it spells its own way."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime

import apsw
from pydantic_core import from_json

from recollect.adapters.records.common.dialect import Bind, Columns, Convert, Values, json_text, moment_text, same
from recollect.domain.record import ColumnType
from recollect.ports.query import Compare, Holds, Scalar

MOST_MARKS = 50


def _json(text: str) -> object:
    return {} if text == "{}" else from_json(text)


class SqliteDialect:
    encode: Mapping[ColumnType, Convert] = {
        "text": same,
        "integer": same,
        "real": float,
        "boolean": int,
        "moment": moment_text,
        "bytes": same,
        "json": json_text,
    }
    decode: Mapping[ColumnType, Convert] = {
        "text": same,
        "integer": same,
        "real": same,
        "boolean": bool,
        "moment": datetime.fromisoformat,
        "bytes": same,
        "json": _json,
    }
    row = "_row"
    at_row = "_row = ?"
    sorts_whole_rows = True

    def places(self, columns: Columns, bind: Bind) -> str:
        rows = json_text(list(zip(*(values for _, values in columns), strict=True)))
        members = "value ->> 0 AS a, value ->> 1 AS b, value ->> 2 AS c"
        return f"(SELECT key AS n, {members} FROM json_each({bind(rows)})) p"

    def listed(self, column: str, rows: str) -> str:
        return f"(SELECT json_group_array({column}) FROM ({rows}))"

    unlisted = staticmethod(from_json)

    def many(self, column: str, values: Values, bind: Bind) -> str:
        if len(values) > MOST_MARKS and all(isinstance(value, str) for value in values):
            # One bound array instead of thousands of place-holders: no limit, one cached statement.
            return f"{column} IN (SELECT value FROM carray({bind(apsw.carray(tuple(values)))}))"
        # The last one again until they are 1, 2, 4, 8…: a few statements, which stay prepared, not one for each length.
        repeated = [values[-1]] * ((1 << (len(values) - 1).bit_length()) - len(values))
        return f"{column} IN ({', '.join(bind(value) for value in (*values, *repeated))})"

    def member(self, column: str, given: Compare, bind: Bind) -> str:
        if given.value is None:
            return f"(json_type({column}, {json_path(given.path, bind)}) IS 'null')"
        found = f"json_extract({column}, {json_path(given.path, bind)})"
        # First what an index of declared paths knows, then the type.
        compared = f"{found} {'=' if given.operator == '!=' else given.operator} {bind(_plain(given.value))}"
        return f"({compared} AND {_is_kind(f'json_type({column}, {json_path(given.path, bind)})', given.value)})"

    def has(self, column: str, path: Sequence[str], bind: Bind) -> str:
        return f"(json_type({column}, {json_path(path, bind)}) IS NOT NULL)"

    def holds(self, column: str, given: Holds, bind: Bind) -> str:
        value = given.value
        # Most lists have this one member, as we write them: that is seen without taking the JSON apart.
        alone = f"{column} = {bind(json_text([value]))} OR " if not given.path and isinstance(value, str) else ""
        members = f"json_each({column}, {json_path(given.path, bind)})" if given.path else f"json_each({column})"
        # Only members of a list have numbers for keys; `atom`, because `value` shows a nested list as text.
        same = "" if value is None else f" AND atom = {bind(_plain(value))}"
        one = f"typeof(key) = 'integer' AND {_is_kind('type', value)}{same}"
        return f"({alone}EXISTS (SELECT 1 FROM {members} WHERE {one}))"


_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")


def json_path(path: Sequence[str], bind: Bind | None = None) -> str:
    """The way to a member. Of plain names it is written out, since only that can be found in an index; any other is
    bound.
    """
    text = "$" + "".join(f".{json_text(key)}" for key in path)
    return f"'{text}'" if bind is None or all(map(_NAME.fullmatch, path)) else bind(text)


def is_plain_path(path: Sequence[str]) -> bool:
    return all(map(_NAME.fullmatch, path))


def _plain(value: Scalar) -> Scalar:
    """As `json_extract` shows it."""
    return int(value) if isinstance(value, bool) else value


def _is_kind(type: str, value: Scalar) -> str:
    if value is None or isinstance(value, bool):
        return f"{type} IS '{json_text(value)}'"
    return f"{type} IS 'text'" if isinstance(value, str) else f"coalesce({type} IN ('integer', 'real'), FALSE)"


DIALECT = SqliteDialect()
