"""Limits on connections: how many there may be, and how long each may wait.

The web server waits without end for the head of a request and for a client that reads no answer. Here a head must be
whole in time and of a bounded size, an answer must be read, and one client holds a bounded number of connections. What
a client still sends when it has its answer is read and thrown away for a while: closing at once would reset the
connection, and the answer would be lost. Bodies are timed in body_timeouts.py.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from recollect.domain.record import new_id
from recollect.errors import InvalidInput, Overloaded, RecollectError
from recollect.interfaces.http.client_address import client_network, parsed, trusts
from recollect.interfaces.http.counts import Counts, OwnCounts
from recollect.settings import ServerSettings

MOST_HEAD_BYTES = 1 << 16
MOST_REJECTED = 64  # that still get an answer; further ones are cut off
LOOK_SECONDS = 1.0


class Connections:
    """All connections of one service: whose they are, and which have waited too long."""

    def __init__(self, settings: ServerSettings, most: int | None = None, counts: Counts | None = None) -> None:
        """`most` is how many this process has room for; those of the settings are for all workers together."""
        self._settings = settings
        self._most = min(most or settings.connections, settings.connections)
        self._counts = counts or OwnCounts()
        self._open: set[Connection] = set()
        self._rejected: set[Connection] = set()
        self._timer: asyncio.TimerHandle | None = None

    def protocol(self, **given: Any) -> Connection:
        """What the web server makes for each connection."""
        return Connection(self, **given)

    def admit(self, one: Connection) -> RecollectError | None:
        """Count a connection in, or say why not."""
        self._watch(one.loop)
        client = one.client_name
        most = self._settings.connections_per_client
        if len(self._open) >= self._most or self._counts.connections() >= self._settings.connections:
            self._rejected.add(one)
            return Overloaded("too many connections", remedy="wait 1 s, then try again", retry_after=1)
        if client is not None and self._counts.connections_of(client) >= most:
            self._rejected.add(one)
            why = f"too many connections from one client (limit: {most})"
            return Overloaded(why, remedy="close some, or wait 1 s and try again", retry_after=1)
        self._open.add(one)
        self._counts.enter(client)
        return None

    def leave(self, one: Connection) -> None:
        self._rejected.discard(one)
        if one in self._open:
            self._open.remove(one)
            self._counts.leave(one.client_name)

    def name_of(self, peer: str) -> str | None:
        """Whom a connection counts for; nobody for a proxy, which stands for many."""
        address = parsed(peer.partition("%")[0])
        is_proxy = address is not None and trusts(self._settings.proxies, address)
        return None if is_proxy else client_network(str(address) if address else None)

    @property
    def can_answer_rejected(self) -> bool:
        return len(self._rejected) <= MOST_REJECTED

    @property
    def seconds(self) -> float:
        return self._settings.header_seconds

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is None:
            self._timer = loop.call_later(min(LOOK_SECONDS, self.seconds / 4), self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        for one in [*self._open, *self._rejected]:
            one.look(loop.time())
        if self._open or self._rejected:
            self._watch(loop)


class Connection(HttpToolsProtocol):
    """A connection that knows since when it waits, and for what."""

    def __init__(self, connections: Connections, **given: Any) -> None:
        super().__init__(**given)
        self._all = connections
        self._head_since: float | None = None
        self._head_bytes = 0
        self._rest_since: float | None = None  # of a body whose request is answered already
        self._is_whole = True
        self._is_rejected = False
        self._unread, self._unread_since = 0, 0.0
        self.client_name: str | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head_since = self.loop.time()
        self.client_name = self._all.name_of(self.client[0] if self.client else "")
        refusal = self._all.admit(self)
        if refusal is not None:
            self._is_rejected = True
            self._end_with(refusal)

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_rejected:
            return
        if self._head_since is None and self._is_whole and not self._is_answering:
            self._head_since, self._head_bytes = self.loop.time(), 0
        ends_a_body = not self._is_whole
        super().data_received(data)
        if self._is_answering or not self._is_whole:
            self._head_since = None
        elif self._head_since is not None:
            self._head_bytes += 0 if ends_a_body else len(data)  # the rest of a body is no head
            if self._head_bytes > MOST_HEAD_BYTES and not self.transport.is_closing():
                self._end_with(
                    InvalidInput("the request header is too long", remedy="send fewer or shorter headers"), 431
                )

    @property
    def awaits_request(self) -> bool:
        """Whether the first request is still to come, or the rest of a head."""
        is_begun = self._head_since is not None and self._head_bytes > 0
        return (self.cycle is None or is_begun) and not self._is_rejected

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def on_headers_complete(self) -> None:
        self._is_whole = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_whole, self._rest_since = True, None
        if self.cycle.response_complete:  # the web server's own clock for the next request has stopped
            self._head_since, self._head_bytes = self.loop.time(), 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if not self._is_whole:
            self._rest_since = self.loop.time()
        super().on_response_complete()

    def look(self, at: float) -> None:
        """End what has waited too long."""
        unread = self.transport.get_write_buffer_size()
        if unread != self._unread:
            self._unread, self._unread_since = unread, at
        if unread:
            if at - self._unread_since > 3 * self._all.seconds:
                self.transport.abort()
        elif self._rest_since is not None:
            if at - self._rest_since > 3 * self._all.seconds:
                self.transport.abort()
        elif self._head_since is not None and at - self._head_since > self._all.seconds:
            self._time_out()

    def _time_out(self) -> None:
        if self._is_rejected or not self._head_bytes:
            self.transport.abort()
        elif not self.transport.is_closing():
            self._end_with(InvalidInput("the request header timed out", remedy="send it without pauses"), 408)

    def _end_with(self, error: RecollectError, status: int | None = None) -> None:
        """Say why and let the client read it: nothing more is sent, and what still comes is thrown away."""
        self._is_rejected, self._head_since = True, self.loop.time()
        status = status or error.http_status
        body = json.dumps({"error": error.as_dict() | {"request_id": new_id()}}).encode()
        wait = b"retry-after: 1\r\n" if status == 503 else b""
        self.transport.write(
            STATUS_LINE[status]
            + b"content-type: application/json\r\nconnection: close\r\n"
            + wait
            + b"content-length: %d\r\n\r\n" % len(body)
            + body
        )
        if self._all.can_answer_rejected and self.transport.can_write_eof():
            self.transport.write_eof()
        else:
            self.transport.close()
