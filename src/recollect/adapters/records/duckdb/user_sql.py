"""SQL by a user over their own memories: one SELECT, read-only, of one tenant.

The statement is parsed by DuckDB itself and every part of the tree is looked at: tables must be ours and unqualified,
table functions and functions must be listed or known to be pure. What was looked at is what runs: the text is written
anew from the tree. It runs on a connection of its own, where the tables' names mean views of the tenant's living
records, in a read-only transaction, on an instance that can reach no file, load nothing and change no setting. Time
and rows are bounded; DuckDB's bounds on memory and time are honest but soft (see docs/duckdb.md).
"""

from __future__ import annotations

import base64
import json
import math
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, time
from typing import Any

import duckdb

from recollect.adapters.records.common.sql_compiler import quoted
from recollect.adapters.records.duckdb.file import literal
from recollect.domain.record import RECORDS, Record
from recollect.errors import InvalidInput, TooLarge
from recollect.ports.records import Scope, SqlAnswer, SqlLimits

LONGEST_STATEMENT = 100_000
# Hashes of passwords and keys, and addresses with credentials in them, are nobody's to look at.
SECRET = frozenset(
    {
        ("user", "password_hash"),
        ("api_key", "key_hash"),
        ("connection", "address"),
        ("organization", "secret"),
        ("organization", "data_key"),
        ("organization_secret", "value"),
        ("access_log", "salt"),
        ("erasure_certificate", "work"),
    }
)
TABLE_FUNCTIONS = frozenset({"range", "generate_series", "unnest", "json_each", "json_tree"})
TABLES = frozenset(
    {"BASE_TABLE", "SUBQUERY", "JOIN", "TABLE_FUNCTION", "EXPRESSION_LIST", "EMPTY", "PIVOT", "SHOW_REF", "CTE"}
)
# They differ from call to call, but tell nothing about the store.
HARMLESS = frozenset(
    "now today current_date current_localtime current_localtimestamp get_current_time get_current_timestamp "
    "transaction_timestamp random uuid gen_random_uuid".split()
)
# Functions that DuckDB lets one write like columns.
BARE = [[name] for name in "current_user current_role session_user current_catalog current_schema".split()]
WINDOWS = "row_number rank dense_rank percent_rank cume_dist ntile lag lead first_value last_value nth_value".split()
_LOOKS_AROUND = re.compile(
    "pg_|has_|inet_|current_|session_|__internal|duckdb|(col|obj|shobj)_description|format_pg|map_to_pg|get_block|user$"
    "|getvariable|getenv|query|which_|create_sort_key|json_serialize|json_deserialize|json_execute|read_|write_"
)
_NAME = re.compile(r"[A-Za-z_]\w*")


Node = dict[str, Any]
"""A part of the statement as DuckDB parses it."""


@dataclass(frozen=True)
class Catalog:
    """What is there, asked once: the database's name, the functions that are pure, and every name that is taken."""

    database: str
    pure: frozenset[str]
    taken: frozenset[str]

    @classmethod
    def by(cls, cursor: duckdb.DuckDBPyConnection) -> Catalog:
        ((database,),) = cursor.execute("SELECT current_database()").fetchall()
        return cls(database, _pure(cursor), _taken(cursor))


def answer(
    cursor: duckdb.DuckDBPyConnection, known: Catalog, scope: Scope, statement: str, limits: SqlLimits
) -> SqlAnswer:
    """The cursor is used for this alone and closed after it: the views stay with it."""
    text, tables = _checked(cursor, known, statement)
    for table in sorted(tables):
        cursor.execute(_view(RECORDS[table], known.database, scope))
    cursor.execute(f"SET SESSION max_execution_time = {math.ceil(limits.seconds * 1000)}")
    cursor.execute(f"SET SESSION operator_memory_limit = '{limits.megabytes}MB'")
    cursor.execute("BEGIN TRANSACTION READ ONLY")
    stopper = threading.Timer(limits.seconds, cursor.interrupt)
    stopper.start()
    try:
        done = cursor.execute(text)
        rows = done.fetchmany(limits.rows + 1)
        columns = [(name, str(type)) for name, type, *_ in done.description or ()]
    except duckdb.InterruptException:
        raise TooLarge(
            f"the query took longer than {limits.seconds:g} seconds", remedy="ask for less, or give it more seconds"
        ) from None
    except duckdb.OutOfMemoryException:
        raise TooLarge(
            f"the query needs more than {limits.megabytes} MB", remedy="ask for less at a time, or group the rows"
        ) from None
    except duckdb.Error as error:
        said = re.sub("'.*'", "'…'", _said(error)) if isinstance(error, duckdb.ConversionException) else _said(error)
        raise InvalidInput(f"the query failed: {said}", remedy="see docs/duckdb.md for the tables") from None
    finally:
        stopper.cancel()
    types = [type for _, type in columns]
    plain = [[_plain(value, type) for value, type in zip(row, types, strict=True)] for row in rows[: limits.rows]]
    return SqlAnswer([name for name, _ in columns], types, plain, is_cut=len(rows) > limits.rows)


def _checked(cursor: duckdb.DuckDBPyConnection, known: Catalog, statement: str) -> tuple[str, set[str]]:
    """The statement, written anew from what was looked at, and the tables it reads."""
    if len(statement) > LONGEST_STATEMENT:
        raise TooLarge("the statement is too long", remedy=f"give {LONGEST_STATEMENT} characters at most")
    try:
        statement.encode("utf-8")
        parsed = duckdb.extract_statements(statement, connection=cursor)
        if len(parsed) != 1 or parsed[0].type != duckdb.StatementType.SELECT:
            raise InvalidInput("that is not one SELECT", remedy="only reading is possible here, one query at a time")
        ((raw,),) = cursor.execute("SELECT json_serialize_sql(?::VARCHAR)", [statement]).fetchall()
        tree = json.loads(raw)
        if tree.get("error"):
            raise InvalidInput(
                f"the query cannot be checked: {tree.get('error_message')}", remedy="write a plain SELECT"
            )
        looked = _StatementCheck(known)
        looked.at(tree)
        ((text,),) = cursor.execute("SELECT json_deserialize_sql(?::JSON)", [raw]).fetchall()
    except (duckdb.Error, UnicodeError, RecursionError) as error:
        raise InvalidInput(f"the query cannot be read: {_said(error)}", remedy="write one SELECT") from None
    return text, looked.tables


@dataclass
class _StatementCheck:
    """Walks the whole tree, whatever its nodes are called, and refuses what is not known to be safe."""

    known: Catalog
    tables: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)

    def at(self, tree: Node) -> None:
        for node in _nodes(tree):
            for entry in node.get("cte_map", {}).get("map", ()) if isinstance(node.get("cte_map"), dict) else ():
                self._name(entry["key"])
        for node in _nodes(tree):
            if "sample" in node and "alias" in node and node.get("type") not in TABLES:
                raise _refused(f"a {node.get('type')} as a table")
            if node.get("type") == "BASE_TABLE":
                self._table(node)
            elif node.get("type") == "TABLE_FUNCTION":
                self._table_function(node["function"])
            elif node.get("type") == "SHOW_REF" and node.get("query") is None:
                raise _refused("SHOW")
            if node.get("class") in ("FUNCTION", "WINDOW"):
                self._function(node)
            elif node.get("class") == "COLUMN_REF" and [str(name).lower() for name in node["column_names"]] in BARE:
                raise _refused(str(node["column_names"][0])[:80])

    def _name(self, name: str) -> None:
        """A name given by WITH must be no one else's, for it holds in a part of the query only."""
        if not _NAME.fullmatch(name) or (name.lower() in self.known.taken and name.lower() not in RECORDS):
            raise _refused(f"WITH {name[:80]}")
        self.names.add(name.lower())

    def _table(self, node: Node) -> None:
        name = str(node["table_name"]).lower()
        path = node.get("qualified_name", {}).get("path", [name])
        if node["schema_name"] or node["catalog_name"] or len(path) != 1 or node.get("at_clause"):
            raise _refused(f"the table {'.'.join(map(str, path))[:120]}")
        if name in RECORDS:
            self.tables.add(name)
        elif name not in self.names:
            raise _refused(f"the table {name[:80]}")

    def _table_function(self, function: Node) -> None:
        if function.get("class") != "FUNCTION" or function["function_name"].lower() not in TABLE_FUNCTIONS:
            raise _refused(f"the table function {str(function.get('function_name'))[:80]}")

    def _function(self, node: Node) -> None:
        name = str(node["function_name"]).lower()
        if node.get("schema") or node.get("catalog"):
            raise _refused(f"the function {name[:80]}")
        if name not in self.known.pure and name not in TABLE_FUNCTIONS and name not in HARMLESS:
            raise _refused(f"the function {name[:80]}")


def _refused(what: str) -> InvalidInput:
    return InvalidInput(
        f"{what} cannot be used here",
        remedy="read from memory, tag, citation and the other record types; see docs/duckdb.md",
    )


def _nodes(tree: object) -> Iterator[Node]:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)


def _pure(cursor: duckdb.DuckDBPyConnection) -> frozenset[str]:
    """The functions whose answer depends on nothing but what they are given."""
    known = (
        "SELECT DISTINCT lower(function_name) FROM duckdb_functions() WHERE function_type IN ('scalar', 'aggregate', "
        "'macro') AND (stability = 'CONSISTENT' OR function_type = 'macro') AND internal"
    )
    names = (name for (name,) in cursor.execute(known).fetchall())
    return frozenset([*WINDOWS, *(name for name in names if not _LOOKS_AROUND.match(name))])


def _taken(cursor: duckdb.DuckDBPyConnection) -> frozenset[str]:
    known = "SELECT lower(table_name) FROM duckdb_tables() UNION SELECT lower(view_name) FROM duckdb_views()"
    return frozenset(name for (name,) in cursor.execute(known).fetchall())


def _view(record: type[Record], database: str, scope: Scope) -> str:
    """A comparison with a constant is part of the scan itself, so no expression of the user's meets others' rows.

    DuckDB takes a LIMIT that was meant to fence it off out of the plan again; a test tries to fail on others' rows.
    """
    table = record.shape.table
    columns = [column.name for column in record.columns() if (table, column.name) not in SECRET]
    # Strangers get no plain hash of what was cited: they could try out what it is of.
    hidden = {"evidence": 'json_merge_patch(evidence, \'{"line_hash": null, "content_hash": null}\')'}
    shown = hidden if table == "citation" and scope.granted is not None else {}
    named = [name for name in columns if name != "is_deleted"]
    wanted = ", ".join(f"{shown[name]} AS {quoted(name)}" if name in shown else quoted(name) for name in named)
    return (
        f"CREATE TEMP VIEW {quoted(table)} AS SELECT {wanted} FROM {quoted(database)}.main.{quoted(table)} "
        f"WHERE organization_id = {literal(scope.organization_id)} AND is_deleted = FALSE"
    )


def _said(error: Exception) -> str:
    """What DuckDB says, without its place in a text that is not quite the user's."""
    return str(error).partition("\n\nLINE")[0].strip()[:500]


def _plain(value: Any, type: str = "") -> Any:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return json.loads(value) if type == "JSON" else value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(bytes(value)).decode()
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(inner) for inner in value]
    return str(value)  # Decimal, timedelta, UUID
