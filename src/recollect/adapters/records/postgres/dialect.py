"""How PostgreSQL keeps values, and the phrases it spells its own way.

JSON is kept as `json`, not `jsonb`: jsonb sorts the keys of objects, forgets -0.0 and gives 1e300 back as a whole
number, and what goes in must come out. Members are compared as numeric or as text of the "C" collation.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache

from recollect.adapters.records.common.checks import in_utc
from recollect.adapters.records.common.dialect import Bind, Columns, Convert, Values, json_text, same
from recollect.domain.record import ColumnType
from recollect.ports.query import Compare


def _our_utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC)


_ARRAYS: Mapping[ColumnType, str] = {"text": "text[]", "moment": "timestamptz[]", "integer": "bigint[]"}


class PostgresDialect:
    encode: Mapping[ColumnType, Convert] = {
        "text": same,
        "integer": same,
        "real": float,
        "boolean": bool,
        "moment": in_utc,
        "bytes": same,
        "json": json_text,
    }
    decode: Mapping[ColumnType, Convert] = {
        "text": same,
        "integer": same,
        "real": same,
        "boolean": same,
        "moment": _our_utc,
        "bytes": same,
        "json": same,  # the driver reads it
    }
    row = '"id"'
    at_row = '"organization_id" = ? AND "id" = ?'

    def places(self, columns: Columns, bind: Bind) -> str:
        arrays = ", ".join(f"{bind(values)}::{_ARRAYS[type]}" for type, values in columns)
        return f"unnest({arrays}) WITH ORDINALITY p(a, b, c, n)"

    def listed(self, column: str, rows: str) -> str:
        return f"ARRAY({rows})"

    unlisted = staticmethod(same)

    def many(self, column: str, values: Values, bind: Bind) -> str:
        return f"{column} = ANY({bind(values)})"

    def member(self, column: str, given: Compare, bind: Bind) -> str:
        place = f"{column} -> {bind(given.key)}::text"
        if given.value is None:
            return f"coalesce(json_typeof({place}) = 'null', FALSE)"
        operator = "=" if given.operator == "!=" else given.operator
        if isinstance(given.value, bool):
            wanted = "true" if given.value else "false"
            return f"coalesce(({place})::text = '{wanted}', FALSE)"
        kind, compared = ("string", 'COLLATE "C"') if isinstance(given.value, str) else ("number", "::numeric")
        # CASE, because nothing else keeps PostgreSQL from casting a text to a number before it asks for the type.
        inner = f"{column} ->> {bind(given.key)}::text"
        test = f"({inner}) {compared} {operator} {bind(_exact(given.value))}"
        return f"coalesce(CASE WHEN json_typeof({place}) = '{kind}' THEN {test} END, FALSE)"

    def holds(self, column: str, value: str, bind: Bind) -> str:
        # Most lists have one member: to compare the whole is a tenth of the work of taking it apart.
        alone = f"{column}::text = {bind(json_text([value]))}"
        members = f"json_array_elements(CASE WHEN json_typeof({column}) = 'array' THEN {column} ELSE '[]' END)"
        one_of = f"SELECT 1 FROM {members} e WHERE json_typeof(e) = 'string' AND e #>> '{{}}' = {bind(value)}"
        return f"({alone} OR EXISTS ({one_of}))"


def _exact(value: object) -> object:
    """A number as its shortest decimal, which is also how JSON keeps it: 0.1 is 0.1, not its nearest binary."""
    return Decimal(repr(value)) if isinstance(value, float) else value


@lru_cache(maxsize=4096)
def placeholders(statement: str) -> str:
    """The driver's place-holders for ours. No text of a statement holds a value, so no `?` is anything else."""
    return statement.replace("%", "%%").replace("?", "%s")


DIALECT = PostgresDialect()
