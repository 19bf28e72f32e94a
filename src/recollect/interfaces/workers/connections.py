"""How a worker takes new connections from the port that all share.

The event loop's own way takes all that wait at once, so the first worker to wake would get every client of a burst and
keep it. Here a worker takes one at a time, and lets those go first that have fewer. A moment later it takes the
connection all the same: the others may be busy.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable

from uvicorn import Config

from recollect.interfaces.http.web_server import WebServer
from recollect.interfaces.workers.board import Board

AFTER_OTHERS_SECONDS = 0.003  # for each connection that another has less
MOST_WAITS = 10
AFTER_ERROR_SECONDS = 1.0  # when the system has no more files
log = logging.getLogger("recollect.workers")


class WorkerServer(WebServer):
    """The web server, which says when it is ready and takes connections in turn with others."""

    def __init__(self, config: Config, listener: socket.socket, board: Board, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._listener, self._board, self._ready = listener, board, ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=[])
        taking = Taking(self._listener, self._board, self._connection)
        self.servers.append(taking)  # type: ignore[arg-type]
        taking.start()
        self._ready()

    def _connection(self) -> asyncio.Protocol:
        made: asyncio.Protocol = self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return made


class Taking:
    """Like an asyncio server: it can be closed, and waited for."""

    def __init__(self, listener: socket.socket, board: Board, connection: Callable[[], asyncio.Protocol]) -> None:
        self._listener, self._board, self._connection = listener, board, connection
        self._loop = asyncio.get_running_loop()
        self._later: asyncio.TimerHandle | None = None
        self._opening: set[asyncio.Task[object]] = set()
        self._is_closed = False

    def start(self) -> None:
        self._listener.setblocking(False)
        self._board.take_connections(True)
        self._listen()

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._board.take_connections(False)
            if self._later is not None:
                self._later.cancel()
            self._loop.remove_reader(self._listener.fileno())
            self._listener.close()

    async def wait_closed(self) -> None:
        await asyncio.gather(*self._opening, return_exceptions=True)

    def _listen(self) -> None:
        self._later = None
        self._loop.add_reader(self._listener.fileno(), self._someone_waits)

    def _someone_waits(self) -> None:
        surplus = min(self._board.surplus(), MOST_WAITS)
        if surplus:
            self._pause(surplus * AFTER_OTHERS_SECONDS, self._take_and_listen)
        else:
            self._take()

    def _take_and_listen(self) -> None:
        self._listen()
        self._take()

    def _take(self) -> None:
        try:
            taken, _ = self._listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return  # another worker was quicker, or the client went away
        except OSError as error:
            log.warning("no connection can be taken: %s", error.strerror)
            self._pause(AFTER_ERROR_SECONDS, self._listen)
            return
        taken.setblocking(False)
        taken.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else an answer may wait 40 ms for its rest
        opening = self._loop.create_task(self._open(taken))
        self._opening.add(opening)
        opening.add_done_callback(self._opening.discard)

    async def _open(self, taken: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._connection, taken)
        except OSError:
            taken.close()  # the client went away

    def _pause(self, seconds: float, then: Callable[[], None]) -> None:
        self._loop.remove_reader(self._listener.fileno())
        self._later = self._loop.call_later(seconds, then)
