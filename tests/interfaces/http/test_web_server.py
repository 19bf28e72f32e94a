"""A server that stops: who has connected gets an answer, and who never asks is not waited for."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
import uvicorn

from recollect.interfaces.http import web_server
from recollect.interfaces.http.connection_limits import Connections
from recollect.interfaces.http.web_server import WebServer
from recollect.interfaces.serve import listening
from recollect.interfaces.workers.board import Board
from recollect.interfaces.workers.connections import WorkerServer
from recollect.settings import ServerSettings

HEAD = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
Make = Callable[[uvicorn.Config, socket.socket], tuple[WebServer, list[socket.socket]]]


async def application(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


def one_server(config: uvicorn.Config, listener: socket.socket) -> tuple[WebServer, list[socket.socket]]:
    return WebServer(config), [listener]


def one_worker(config: uvicorn.Config, listener: socket.socket) -> tuple[WebServer, list[socket.socket]]:
    board = Board.made(1)
    return WorkerServer(config, listener, Board(board.file, 1, 0), lambda: None), []


@pytest.fixture(params=[one_server, one_worker], ids=["alone", "a worker"])
def make(request: pytest.FixtureRequest) -> Make:
    made: Make = request.param
    return made


class Stopping:
    """A server in a thread, and connections to it that it has taken."""

    def __init__(self, make: Make, listener: socket.socket) -> None:
        protocol: Any = Connections(ServerSettings()).protocol
        config = uvicorn.Config(application, http=protocol, ws="none", log_config=None, lifespan="off")
        self.port = int(listener.getsockname()[1])
        self.server, given = make(config, listener)
        self._thread = threading.Thread(target=lambda: asyncio.run(self.server._serve(given)))
        self._thread.start()

    def connected(self, count: int) -> list[socket.socket]:
        made = [socket.create_connection(("127.0.0.1", self.port), timeout=60) for _ in range(count)]
        while len(self.server.server_state.connections) < count:
            pass
        return made

    def stop(self) -> None:
        """Until it takes nobody any more."""
        self.server.should_exit = True
        while web_server.CLOSE not in self.server.server_state.default_headers:
            pass

    def wait(self) -> None:
        self._thread.join()


@contextmanager
def running(make: Make) -> Iterator[Stopping]:
    with listening(ServerSettings(port=0)) as (listener, _):
        its = socket.socket(fileno=listener.detach())
        one = Stopping(make, its)
        try:
            yield one
        finally:
            one.server.should_exit = one.server.force_exit = True
            one.wait()
            its.close()


def heard(connection: socket.socket) -> bytes:
    """All that comes until the other end closes."""
    with closing(connection), connection.makefile("rb") as file:
        return file.read()


def test_who_has_connected_is_answered_although_it_stops(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_server, "LATE_SECONDS", 60)
    with running(make) as one:
        silent, begun = one.connected(2)
        begun.sendall(HEAD)
        one.stop()
        begun.sendall(b"\r\n")
        silent.sendall(HEAD + b"\r\n")
        for connection in (begun, silent):
            answer = heard(connection)
            assert answer.startswith(b"HTTP/1.1 200")
            assert b"connection: close" in answer
        one.wait()


def test_who_asks_again_is_told_that_it_was_the_last_time(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_server, "LAST_SECONDS", 60)
    with running(make) as one:
        (connection,) = one.connected(1)
        connection.sendall(HEAD + b"\r\n")
        first = connection.recv(1 << 16)
        assert first.startswith(b"HTTP/1.1 200")
        assert b"connection: close" not in first
        one.stop()
        connection.sendall(HEAD + b"\r\n")
        assert b"connection: close" in heard(connection)
        one.wait()


def test_who_never_asks_is_not_waited_for(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_server, "LATE_SECONDS", 0.1)
    with running(make) as one:
        (silent,) = one.connected(1)
        one.stop()
        assert heard(silent) == b""
        one.wait()
