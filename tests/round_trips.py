"""Round trips to a PostgreSQL server, counted by what libpq says that it sent: what a network would be waited for.

A client waits after a simple query, and after a Sync or Flush that follows something it has not waited for yet.
Statements that are sent together are one round trip, however many they are.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from recollect.adapters.postgres.connection import Connection, Database

_SENT_AHEAD = ("Parse", "Bind", "Describe", "Execute", "Close")
_WAITED_FOR = ("Sync", "Flush")
_AT_ONCE = ("Query", "CopyDone", "CopyFail")


class Talk:
    """What was sent to the server since the last `clear`, over every connection that was opened meanwhile."""

    def __init__(self) -> None:
        self._traces: list[IO[str]] = []

    def watch(self, connection: Connection) -> None:
        trace = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - closed by `close`
        self._traces.append(trace)
        connection.pgconn.trace(os.dup(trace.fileno()))

    def clear(self) -> None:
        for trace in self._traces:
            trace.truncate(0)
            os.lseek(trace.fileno(), 0, os.SEEK_SET)

    def lines(self) -> list[list[str]]:
        """What was sent, each connection's by itself: [kind, what it says …]."""
        found = []
        for trace in self._traces:
            trace.seek(0)
            fields = [line.rstrip("\n").split("\t") for line in trace]
            found.append([" ".join(one[3:]) for one in fields if len(one) > 3 and one[1] == "F"])
        return found

    @property
    def round_trips(self) -> int:
        return sum(_waits(sent) for sent in self.lines())

    @property
    def statements(self) -> list[str]:
        """Statements whose text was sent: not those that had been prepared before."""
        kinds = ("Parse", "Query")
        return [one for sent in self.lines() for one in sent if one.startswith(kinds)]

    def close(self) -> None:
        for trace in self._traces:
            trace.close()


def _waits(sent: list[str]) -> int:
    count, is_waited_for = 0, True
    for one in sent:
        kind = one.split(" ", 1)[0]
        if kind in _SENT_AHEAD:
            is_waited_for = False
        elif kind in _AT_ONCE or (kind in _WAITED_FOR and not is_waited_for):
            count, is_waited_for = count + 1, True
    return count


@contextmanager
def watched(monkeypatch: Any) -> Iterator[Talk]:
    """The talk over connections of pools that are opened in the block."""
    talk, configure = Talk(), Database._configure

    def configure_watched(self: Database, connection: Connection) -> None:
        configure(self, connection)
        talk.watch(connection)

    monkeypatch.setattr(Database, "_configure", configure_watched)
    try:
        yield talk
    finally:
        talk.close()
