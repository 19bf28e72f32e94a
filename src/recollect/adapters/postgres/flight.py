"""Statements that go to a PostgreSQL server together: one flight, sent when an answer is waited for.

The driver's pipeline sends each statement as it is given: two looks at the socket and a packet each, and a server that
is woken for every one of them. Measured, seven statements that are prepared took 0.73 ms so and 0.32 ms in one packet.
So here they are kept back until somebody waits; a long flight sets off before, lest it pile up in memory.
Proof: tests/adapters/records/postgres/test_flight.py.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager
from itertools import count
from typing import Any

import psycopg
from psycopg.generators import send

MOST_KEPT_BACK = 64  # statements
# Whose pipeline this was written for: it is not of the driver's interface. With another the driver's own is used.
_KNOWN = ("3.2.", "3.3.")
_Talk = Generator[Any, Any, None]
"""What the driver drives: it says what it waits for, and is told when that is so."""


class Flight(psycopg.Pipeline):
    """The driver's pipeline, but that it sends later. The order of statements, answers and failures is the same."""

    _is_asked_for = False
    """Whether the answers to all that was sent were asked for."""

    def set_off(self) -> None:
        """Send what there is and ask for the answers, without waiting for them."""
        self._send_on()
        self.pgconn.send_flush_request()
        self.pgconn.flush()
        self._is_asked_for = True

    def _communicate_gen(self) -> _Talk:
        if len(self.command_queue) >= MOST_KEPT_BACK:
            self._send_on()
            yield from super()._communicate_gen()

    def _fetch_gen(self, *, flush: bool) -> _Talk:
        if not self.result_queue:
            return
        self._send_on()
        if flush and not self._is_asked_for:
            self.pgconn.send_flush_request()
        yield from send(self.pgconn)
        yield from super()._fetch_gen(flush=False)

    def _exit_gen(self) -> _Talk:
        """The sync at the end has every answer sent: nobody need ask for them once more."""
        self._enqueue_sync()
        yield from self._fetch_gen(flush=False)

    def _send_on(self) -> None:
        while self.command_queue:
            self._is_asked_for = False
            self.command_queue.popleft()()


class Cursors:
    """The cursors of each line, used again by one flight after the other.

    A new one learns anew how every type of value is written and read: for seven statements that is a sixth of what the
    client does. What an answer said must have been fetched before the next flight.
    """

    def __init__(self) -> None:
        self._of: dict[psycopg.Connection[Any], dict[int, psycopg.Cursor[Any]]] = {}
        self._lock = threading.Lock()

    def of(self, connection: psycopg.Connection[Any]) -> Iterator[psycopg.Cursor[Any]]:
        """As many as are taken."""
        return (self._at(connection, place) for place in count(1))

    def working(self, connection: psycopg.Connection[Any]) -> psycopg.Cursor[Any]:
        """One more, for what is answered at once or not at all."""
        return self._at(connection, 0)

    def _at(self, connection: psycopg.Connection[Any], place: int) -> psycopg.Cursor[Any]:
        known = self._of.get(connection)
        if known is None:
            with self._lock:
                self._of = {line: cursors for line, cursors in self._of.items() if not line.closed}
                known = self._of[connection] = {}
        if place not in known:
            known[place] = connection.cursor()
        return known[place]


def set_off(connection: psycopg.Connection[Any]) -> None:
    """Where the line is in a flight, what is kept back is sent now: the server works while the client does."""
    if isinstance(connection._pipeline, Flight):
        connection._pipeline.set_off()


def together(connection: psycopg.Connection[Any]) -> AbstractContextManager[psycopg.Pipeline]:
    """Within the block, what is executed on the connection is a flight; at its end all answers are there."""
    if psycopg.__version__.startswith(_KNOWN):
        connection._pipeline = Flight(connection)
    return connection.pipeline()
