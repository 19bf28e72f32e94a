"""Many rows at once, by COPY.

A table behind row-level security takes no COPY. So rows are copied to a table that lasts as long as the transaction and
inserted from there, behind the wall like any others. It leaves nothing behind for others on the same connection, so a
pooler may stand between.
"""

from __future__ import annotations

from collections.abc import Sequence

from recollect.adapters.postgres.connection import APP, Connection
from recollect.adapters.records.common.dialect import Values
from recollect.adapters.records.common.sql_compiler import quoted

COPIED_STEPS = 1000  # of a transaction; with fewer, what goes out in one flight is there sooner
COPIED_ROWS = 200  # of one table; a table to copy to takes a millisecond to make


def may_copy(connection: Connection) -> bool:
    """Whether the role that writes may make such tables here: everybody may, unless it was taken away."""
    text = "SELECT has_database_privilege(%s, current_database(), 'TEMPORARY')"
    return bool(connection.execute(text, (APP,)).fetchall()[0][0])


def is_copied(rows: Sequence[Values]) -> bool:
    """Vectors are not: COPY would write them out as text, four times as long."""
    return len(rows) >= COPIED_ROWS and not any(isinstance(value, bytes) for value in rows[0])


def copy_rows(
    connection: Connection, table: str, names: tuple[str, ...], rows: Sequence[Values], number: int = 1
) -> None:
    """`number` counts what one transaction copies."""
    columns, beside = ", ".join(map(quoted, names)), quoted(f"recollect_copied_{number}")
    making = f"CREATE TEMPORARY TABLE {beside} ON COMMIT DROP AS SELECT {columns} FROM {quoted(table)} WITH NO DATA"
    connection.execute(making, prepare=False)
    with connection.cursor() as cursor, cursor.copy(f"COPY pg_temp.{beside} ({columns}) FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)
    moving = f"INSERT INTO {quoted(table)}({columns}) SELECT {columns} FROM pg_temp.{beside}"
    connection.execute(moving, prepare=False)
