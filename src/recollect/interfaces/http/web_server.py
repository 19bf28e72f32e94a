"""The web server, which stops without cutting off anyone who has connected.

Uvicorn closes every connection that has no request at work. One that was taken a moment ago, whose request is still on
its way, would end without an answer, although another worker would have answered it. Here those are waited for, and
who keeps a connection for later is told with the next answer that this was the last one.
"""

from __future__ import annotations

import asyncio
import socket
import time

from uvicorn import Server

from recollect.interfaces.http.connection_limits import Connection

LATE_SECONDS = 2.0  # for the first request of a connection, or for the rest of a head
LAST_SECONDS = 0.1  # for the next request on a connection that had some
LOOK_SECONDS = 0.02
CLOSE = (b"connection", b"close")


class WebServer(Server):
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        self.server_state.default_headers = [*self.server_state.default_headers, CLOSE]
        began = time.monotonic()
        while not self.force_exit and time.monotonic() - began < self._patience():
            await asyncio.sleep(LOOK_SECONDS)
        await super().shutdown(sockets)

    def _patience(self) -> float:
        """How long those who are connected may take to ask."""
        connections = list(self.server_state.connections)
        if any(isinstance(one, Connection) and one.awaits_request for one in connections):
            return LATE_SECONDS
        return LAST_SECONDS if connections else 0.0
