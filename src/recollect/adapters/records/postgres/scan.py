"""Looking through the tables of a PostgreSQL store: every column of every row that a tenant has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from recollect.adapters.postgres.connection import Connection, Database
from recollect.adapters.records.common.sql_compiler import quoted
from recollect.ports.records import Scope
from recollect.ports.traces import ByteSearch, ScannedPlace

ROWS_AT_ONCE = 200
_TABLES = (
    "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')"
    " AND NOT relispartition AND has_table_privilege(oid, 'SELECT') ORDER BY relname"
)


def scan_tables(database: Database, scope: Scope, needles: Sequence[bytes]) -> Iterator[ScannedPlace]:
    """Rows as text, in which the server writes bytes in hexadecimal: so each needle is looked for in both forms."""
    search, count = ByteSearch([*needles, *(needle.hex().encode() for needle in needles)]), len(needles)
    with database.moment(scope.organization_id) as connection:
        for (table,) in connection.execute(_TABLES).fetchall():
            size, found = search.found_in(_rows(connection, str(table)))
            yield ScannedPlace(f"table {table}", size, frozenset(number % count for number in found))


def _rows(connection: Connection, table: str) -> Iterator[bytes]:
    cursor = f"recollect_scan_{table}"
    connection.execute(f"DECLARE {quoted(cursor)} NO SCROLL CURSOR FOR SELECT t::text FROM {quoted(table)} t")
    while rows := connection.execute(f"FETCH {ROWS_AT_ONCE} FROM {quoted(cursor)}").fetchall():
        yield "\n".join(str(row) for (row,) in rows).encode()
    connection.execute(f"CLOSE {quoted(cursor)}")
