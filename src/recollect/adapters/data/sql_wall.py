"""The last word on a statement, said over the tree that DuckDB itself parses, just before it runs.

`sql_rules` reads statements with another parser, which may understand a text differently. So what DuckDB will execute
is looked at as DuckDB understands it: one SELECT, every table listed, every function known to depend on nothing but
its arguments. What is not known is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import duckdb

from recollect.errors import InvalidInput

Node = dict[str, object]
"""A part of the statement as DuckDB parses it."""

TABLE_FUNCTIONS = frozenset({"range", "generate_series", "unnest", "json_each", "json_tree"})
_TABLE_NODES = frozenset(
    {"BASE_TABLE", "SUBQUERY", "JOIN", "TABLE_FUNCTION", "EXPRESSION_LIST", "EMPTY", "PIVOT", "CTE"}
)
# They differ from call to call, but tell nothing about the machine but the time.
_HARMLESS = frozenset(
    "now today current_date current_localtime current_localtimestamp get_current_time get_current_timestamp "
    "transaction_timestamp random uuid gen_random_uuid".split()
)
_WINDOWS = (
    "row_number rank dense_rank percent_rank cume_dist ntile lag lead first_value last_value nth_value fill".split()
)
# Functions that DuckDB lets one write like columns.
_BARE = frozenset("current_user current_role session_user current_catalog current_schema user".split())
# Pure by DuckDB's own word, yet they look at the catalog, run text as SQL, or reach outside.
_LOOKS_AROUND = re.compile(
    "pg_|has_|inet_|current_|session_|__internal|duckdb|(col|obj|shobj)_description|format_pg|map_to_pg|get_block|user$"
    "|getvariable|getenv|query|which_|create_sort_key|json_serialize|json_deserialize|json_execute|read_|write_|sleep|error$"
)
_REMEDY = "write one SELECT over the listed tables with functions that compute from their arguments"


def known_functions(connection: duckdb.DuckDBPyConnection) -> frozenset[str]:
    """The functions whose answer depends on nothing but what they are given."""
    asked = (
        "SELECT DISTINCT lower(function_name) FROM duckdb_functions() WHERE function_type IN ('scalar', 'aggregate', "
        "'macro') AND (stability = 'CONSISTENT' OR function_type = 'macro') AND internal"
    )
    names = (name for (name,) in connection.execute(asked).fetchall())
    return frozenset([*_WINDOWS, *_HARMLESS, *(name for name in names if not _LOOKS_AROUND.match(name))])


def system_views(connection: duckdb.DuckDBPyConnection) -> frozenset[str]:
    asked = "SELECT lower(view_name) FROM duckdb_views() UNION SELECT lower(table_name) FROM duckdb_tables()"
    return frozenset(name for (name,) in connection.execute(asked).fetchall())


@dataclass
class Wall:
    """Walks the whole tree, whatever its nodes are called, and refuses what is not known to be safe."""

    functions: frozenset[str]
    system_views: frozenset[str]
    tables: Collection[str]
    """In lower case."""
    names: set[str] = field(default_factory=set)
    """What WITH calls the results of parts of the query."""

    def check(self, connection: duckdb.DuckDBPyConnection, sql: str) -> None:
        """Raises InvalidInput; a text that DuckDB cannot parse raises duckdb.Error."""
        parsed = connection.extract_statements(sql)
        if len(parsed) != 1 or parsed[0].type != duckdb.StatementType.SELECT:
            raise InvalidInput("this is not one SELECT", remedy="only reading is possible, one query at a time")
        ((raw,),) = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchall()
        tree = json.loads(raw)
        if tree.get("error"):
            raise InvalidInput(f"the query cannot be checked: {tree.get('error_message')}", remedy=_REMEDY)
        for node in _nodes(tree):
            with_names = node.get("cte_map")
            for entry in with_names.get("map", ()) if isinstance(with_names, dict) else ():
                self._with_name(str(entry["key"]))
        for node in _nodes(tree):
            self._node(node)

    def _with_name(self, name: str) -> None:
        """A name given by WITH holds in a part of the query only: elsewhere it must not mean a view or a file."""
        if not re.fullmatch(r"[\w \-]+", name) or name.lower() in self.system_views:
            raise refused(f"the name {name} of WITH")
        self.names.add(name.lower())

    def _node(self, node: Node) -> None:
        kind, role = node.get("type"), node.get("class")
        if "sample" in node and "alias" in node and kind not in _TABLE_NODES:
            raise refused(f"{kind} as a table")
        if kind == "BASE_TABLE":
            self._table(node)
        elif kind == "TABLE_FUNCTION":
            function = node.get("function")
            name = function.get("function_name") if isinstance(function, dict) else None
            if str(name).lower() not in TABLE_FUNCTIONS:
                raise refused(f"the table function {name}")
        if role in ("FUNCTION", "WINDOW"):
            self._function(node)
        elif role == "COLUMN_REF":
            names = node.get("column_names")
            if isinstance(names, list) and len(names) == 1 and str(names[0]).lower() in _BARE:
                raise refused(f"the function {names[0]}")

    def _table(self, node: Node) -> None:
        name = str(node["table_name"]).lower()
        if node.get("schema_name") or node.get("catalog_name") or node.get("at_clause"):
            raise refused(f"the table {node.get('schema_name') or node.get('catalog_name') or ''}.{name}")
        qualified = node.get("qualified_name")
        path = qualified.get("path") if isinstance(qualified, dict) else None
        if isinstance(path, list) and len(path) != 1:
            raise refused(f"the table {'.'.join(map(str, path))}")
        if name not in self.tables and name not in self.names:
            raise refused(f"the table {name}")

    def _function(self, node: Node) -> None:
        name = str(node["function_name"]).lower()
        if node.get("schema") or node.get("catalog"):
            raise refused(f"the function {node.get('schema') or node.get('catalog')}.{name}")
        if name not in self.functions and name not in TABLE_FUNCTIONS:
            raise refused(f"the function {name}", function=name)


def refused(what: str, **details: str) -> InvalidInput:
    return InvalidInput(f"{what[:160]} cannot be used here", remedy=_REMEDY, **details)


def _nodes(tree: object) -> Iterator[Node]:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)
