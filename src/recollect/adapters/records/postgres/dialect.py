"""How PostgreSQL keeps values, and the phrases it spells its own way.

JSON is kept as `json`, not `jsonb`: jsonb sorts the keys of objects, forgets -0.0 and gives 1e300 back as a whole
number, and what goes in must come out. Members are compared as numeric or as text of the "C" collation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache, partial

from recollect.adapters.records.common.checks import in_utc
from recollect.adapters.records.common.dialect import Bind, Columns, Convert, Values, json_text, same
from recollect.domain.record import ColumnType
from recollect.ports.query import Compare, Holds, Scalar


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
    sorts_whole_rows = False

    def places(self, columns: Columns, bind: Bind) -> str:
        arrays = ", ".join(f"{bind(values)}::{_ARRAYS[type]}" for type, values in columns)
        return f"unnest({arrays}) WITH ORDINALITY p(a, b, c, n)"

    def listed(self, column: str, rows: str) -> str:
        return f"ARRAY({rows})"

    unlisted = staticmethod(same)

    def many(self, column: str, values: Values, bind: Bind) -> str:
        return f"{column} = ANY({bind(values)})"

    def member(self, column: str, given: Compare, bind: Bind) -> str:
        operator = "=" if given.operator == "!=" else given.operator
        place = partial(_place, column, given.path, bind)
        return f"coalesce({_test(place, given.value, operator, bind)}, FALSE)"

    def has(self, column: str, path: Sequence[str], bind: Bind) -> str:
        return f"({_place(column, path, bind)} IS NOT NULL)"

    def holds(self, column: str, given: Holds, bind: Bind) -> str:
        # Most lists have one member: to compare the whole is a tenth of the work of taking it apart.
        is_text = not given.path and isinstance(given.value, str)
        alone = f"{column}::text = {bind(json_text([given.value]))} OR " if is_text else ""
        place = partial(_place, column, given.path, bind)
        members = f"json_array_elements(CASE WHEN json_typeof({place()}) = 'array' THEN {place()} ELSE '[]' END)"
        same = _test(lambda: "e", given.value, "=", bind)
        return f"({alone}EXISTS (SELECT 1 FROM {members} e WHERE {same}))"


def _place(column: str, path: Sequence[str], bind: Bind) -> str:
    """Names are given as text: a number would be a place in a list, and lists have no members."""
    return f"({column}{''.join(f' -> {bind(key)}::text' for key in path)})"


def _test(place: Callable[[], str], value: Scalar, operator: str, bind: Bind) -> str:
    """What is at a place, written out anew where it stands, has the value's type and compares so."""
    if value is None:
        return f"json_typeof({place()}) = 'null'"
    if isinstance(value, bool):
        return f"{place()}::text = '{json_text(value)}'"
    kind, compared = ("string", 'COLLATE "C"') if isinstance(value, str) else ("number", "::numeric")
    # CASE, because nothing else keeps PostgreSQL from casting a text to a number before it asks for the type.
    typed = f"CASE WHEN json_typeof({place()}) = '{kind}' THEN "
    return f"{typed}({place()} #>> '{{}}') {compared} {operator} {bind(_exact(value))} END"


def _exact(value: object) -> object:
    """A number as its shortest decimal, which is also how JSON keeps it: 0.1 is 0.1, not its nearest binary."""
    return Decimal(repr(value)) if isinstance(value, float) else value


@lru_cache(maxsize=4096)
def placeholders(statement: str) -> str:
    """The driver's place-holders for ours. No text of a statement holds a value, so no `?` is anything else."""
    return statement.replace("%", "%%").replace("?", "%s")


@lru_cache(maxsize=256)
def inserts_at_once(statements: tuple[str, ...]) -> str:
    """Inserts into different tables as one statement, whose values are those of all of them."""
    *others, last = map(placeholders, statements)
    return f"WITH {', '.join(f'w{place} AS ({one})' for place, one in enumerate(others))} {last}"


def several_rows(statement: str, count: int) -> str:
    """An insert of one row, as one of many."""
    row = statement[statement.index(" VALUES ") + len(" VALUES ") :]
    return statement + f", {row}" * (count - 1)


DIALECT = PostgresDialect()
