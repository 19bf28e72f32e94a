"""How DuckDB keeps values, and the phrases it spells its own way.

Moments are TIMESTAMP in UTC rather than TIMESTAMPTZ: reading those needs another package, and what a user groups by day
should not depend on the zone of a session. JSON is kept as the text it came as, checked by DuckDB.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from pydantic_core import from_json

from recollect.adapters.records.common.checks import in_utc
from recollect.adapters.records.common.dialect import Bind, Columns, Convert, Values, json_text, same
from recollect.domain.record import ColumnType
from recollect.ports.query import Compare, Holds, Scalar

TYPES: Mapping[ColumnType, str] = {
    "text": "VARCHAR",
    "integer": "BIGINT",
    "real": "DOUBLE",
    "boolean": "BOOLEAN",
    "moment": "TIMESTAMP",
    "bytes": "BLOB",
    "json": "JSON",
}


def _without_zone(moment: datetime) -> datetime:
    return in_utc(moment).replace(tzinfo=None)


def _in_utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC)


class DuckdbDialect:
    encode: Mapping[ColumnType, Convert] = {
        "text": same,
        "integer": same,
        "real": float,
        "boolean": bool,
        "moment": _without_zone,
        "bytes": same,
        "json": json_text,
    }
    decode: Mapping[ColumnType, Convert] = {
        "text": same,
        "integer": same,
        "real": same,
        "boolean": same,
        "moment": _in_utc,
        "bytes": same,
        "json": from_json,
    }
    row = "_row"
    at_row = "_row = ?"
    sorts_whole_rows = False

    def places(self, columns: Columns, bind: Bind) -> str:
        lists = [("BIGINT", list(range(len(columns[0][1])))), *((TYPES[type], values) for type, values in columns)]
        members = (
            f"unnest({bind(values)}::{type}[]) AS {name}" for name, (type, values) in zip("nabc", lists, strict=True)
        )
        return f"(SELECT {', '.join(members)}) p"

    def listed(self, column: str, rows: str) -> str:
        return f"ARRAY({rows})"

    unlisted = staticmethod(same)

    def many(self, column: str, values: Values, bind: Bind) -> str:
        if len(values) == 1:
            return f"{column} = {bind(values[0])}"  # only this reads an index
        return f"{column} IN (SELECT unnest({bind(values)}))"

    def member(self, column: str, given: Compare, bind: Bind) -> str:
        objects = _objects(column, given.path, bind)
        # As a list of one, so that the place is bound once and the test may look at the value several times.
        value = f"[json_extract({column}, {bind(_pointer(given.path))})]"
        operator = "=" if given.operator == "!=" else given.operator
        return (
            f"coalesce({objects} AND list_transform({value}, lambda j: {_test(given.value, operator, bind)})[1], FALSE)"
        )

    def has(self, column: str, path: Sequence[str], bind: Bind) -> str:
        objects = _objects(column, path, bind)
        return f"coalesce({objects} AND json_type({column}, {bind(_pointer(path))}) IS NOT NULL, FALSE)"

    def holds(self, column: str, given: Holds, bind: Bind) -> str:
        if not given.path and isinstance(given.value, str):
            text = f"to_json({bind(given.value)}::VARCHAR)"
            return f"coalesce(list_contains(json_extract({column}, '$[*]'), {text}), FALSE)"
        objects = _objects(column, given.path, bind)
        place = f"json_extract({column}, {bind(_pointer(given.path))})" if given.path else column
        same = f"list_filter(json_extract({place}, '$[*]'), lambda j: {_test(given.value, '=', bind)})"
        return f"coalesce({objects} AND len({same}) > 0, FALSE)"


def _pointer(path: Sequence[str]) -> str:
    return "".join("/" + key.replace("~", "~0").replace("/", "~1") for key in path)


def _objects(column: str, path: Sequence[str], bind: Bind) -> str:
    """All on the way to a member are objects: a number stands for a place in a list, too."""
    inner = [f"json_type({column}, {bind(_pointer(path[:end]))}) = 'OBJECT'" for end in range(1, len(path))]
    return " AND ".join([f"json_type({column}) = 'OBJECT'", *inner] if path else ["TRUE"])


def _test(value: Scalar, operator: str, bind: Bind) -> str:
    found = "json_extract_string(j, '$')"
    if value is None:
        return "json_type(j) = 'NULL'"
    if isinstance(value, bool):
        return f"json_type(j) = 'BOOLEAN' AND {found} = '{'true' if value else 'false'}'"
    if isinstance(value, str):
        return f"json_type(j) = 'VARCHAR' AND {found} {operator} {bind(value)}"
    if isinstance(value, float):
        numbers = "('BIGINT', 'UBIGINT', 'DOUBLE')"
        return f"CASE WHEN json_type(j) IN {numbers} THEN TRY_CAST({found} AS DOUBLE) {operator} {bind(value)} END"
    # Whole numbers are compared whole: as doubles, 2**62 and the next one would be the same.
    fraction = f"TRY_CAST({found} AS DOUBLE) {operator} {bind(float(value))}"
    whole = f"TRY_CAST({found} AS HUGEINT) {operator} {bind(value)}::HUGEINT"
    return (
        f"CASE WHEN json_type(j) = 'DOUBLE' THEN {fraction} WHEN json_type(j) IN ('BIGINT', 'UBIGINT') THEN {whole} END"
    )


DIALECT = DuckdbDialect()
