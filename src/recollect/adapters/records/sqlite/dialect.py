"""How SQLite keeps values, and the phrases it spells its own way."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import apsw
from pydantic_core import from_json

from recollect.adapters.records.common.dialect import Bind, Columns, Convert, Values, json_text, moment_text, same
from recollect.domain.record import ColumnType
from recollect.ports.query import Compare

MOST_MARKS = 50


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
        "json": from_json,
    }
    row = "_row"
    at_row = "_row = ?"

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
        key = bind(given.key)
        if given.value is None or isinstance(given.value, bool):
            wanted = {None: "null", True: "true", False: "false"}[given.value]
            test = f"type = '{wanted}'"
        else:
            kinds = ("text",) if isinstance(given.value, str) else ("integer", "real")
            listed = ", ".join(f"'{kind}'" for kind in kinds)
            operator = "=" if given.operator == "!=" else given.operator
            test = f"type IN ({listed}) AND atom {operator} {bind(given.value)}"
        return f"EXISTS (SELECT 1 FROM json_each({column}) WHERE key = {key} AND {test})"

    def holds(self, column: str, value: str, bind: Bind) -> str:
        # Most lists have this one member, as we write them: that is seen without taking the JSON apart.
        alone = f"{column} = {bind(json_text([value]))}"
        # Only members of a list have numbers for keys; `atom`, because `value` shows a nested list as text.
        member = f"typeof(key) = 'integer' AND type = 'text' AND atom = {bind(value)}"
        return f"({alone} OR EXISTS (SELECT 1 FROM json_each({column}) WHERE {member}))"


DIALECT = SqliteDialect()
