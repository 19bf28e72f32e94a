"""Counting the statements that SQLite runs: what an operation costs, for tests and for the reference."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import apsw

BRACKETS = ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE")


@contextmanager
def sqlite_statements() -> Iterator[list[str]]:
    """Every statement that SQLite runs on connections opened in the block, but what begins and ends transactions."""
    seen: list[str] = []

    def note(cursor: object, statement: str, values: object) -> bool:
        if not statement.startswith(BRACKETS):
            seen.append(statement)
        return True

    def watch(connection: apsw.Connection) -> None:
        connection.exec_trace = note

    apsw.connection_hooks.append(watch)
    try:
        yield seen
    finally:
        apsw.connection_hooks.remove(watch)
