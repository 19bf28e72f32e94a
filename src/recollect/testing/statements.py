"""Counting the statements that SQLite runs: what an operation costs, for tests and for the reference."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread

import apsw

BRACKETS = ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE")


@contextmanager
def sqlite_statements(*, upkeep: bool = True) -> Iterator[list[str]]:
    """Every statement that SQLite runs on connections opened in the block, but what begins and ends transactions.

    The look at a file whose log was moved, on a connection that only reads, comes at its own time and is left out, and
    so does the merging of text indexes. Without `upkeep` so is the thread that keeps the vector index up to date.
    """
    seen: list[str] = []

    def note(cursor: object, statement: str, values: object) -> bool:
        is_left_out = statement.startswith(BRACKETS) or "VALUES ('merge'" in statement
        if not is_left_out and (upkeep or current_thread().name != "recollect-index"):
            seen.append(statement)
        return True

    def watch(connection: apsw.Connection) -> None:
        if not connection.open_flags & apsw.SQLITE_OPEN_READONLY:
            connection.exec_trace = note

    apsw.connection_hooks.append(watch)
    try:
        yield seen
    finally:
        apsw.connection_hooks.remove(watch)
