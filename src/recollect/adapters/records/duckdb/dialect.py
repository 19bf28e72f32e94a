"""How DuckDB keeps values, and the phrases it spells its own way.

Moments are TIMESTAMP in UTC rather than TIMESTAMPTZ: reading those needs another package, and what a user groups by day
should not depend on the zone of a session. JSON is kept as the text it came as, checked by DuckDB.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from pydantic_core import from_json

from recollect.adapters.records.common.checks import in_utc
from recollect.adapters.records.common.dialect import Bind, Columns, Convert, Values, json_text, same
from recollect.domain.record import ColumnType
from recollect.ports.query import Compare

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
        key = str(given.key).replace("~", "~0").replace("/", "~1")
        # As a list of one, so that the place is bound once and the test may look at the value several times.
        value = f"[json_extract({column}, {bind(f'/{key}')})]"
        test = f"list_transform({value}, lambda j: {_test(given, bind)})[1]"
        # A number stands for a place in a list, too: only objects have members.
        return f"coalesce(json_type({column}) = 'OBJECT' AND {test}, FALSE)"

    def holds(self, column: str, value: str, bind: Bind) -> str:
        return f"coalesce(list_contains(json_extract({column}, '$[*]'), to_json({bind(value)}::VARCHAR)), FALSE)"


def _test(given: Compare, bind: Bind) -> str:
    operator, value = "=" if given.operator == "!=" else given.operator, given.value
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
