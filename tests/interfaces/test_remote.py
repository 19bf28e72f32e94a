"""The client over the wire when the wire breaks: nothing is done twice that may not be, and nothing waits for ever."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

import recollect
from recollect.errors import Overloaded, RateLimited, Unavailable

RECEIPT = {"id": "m", "version": 1, "status": "hypothesis", "content_hash": "h"}


class Scripted:
    """A service that answers as told, one step a request: a status with a body, or None to hang up without a word."""

    def __init__(self, *script: tuple[int, Any] | None, requests_per_connection: int = 100) -> None:
        self._script = list(script)
        self._requests_per_connection = requests_per_connection
        self.has_hung_up = threading.Event()
        self.asked = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while self._script:
            connection, _ = self._listener.accept()
            with connection, connection.makefile("rb") as incoming:
                for _ in range(self._requests_per_connection):
                    if not self._script or not self._read(incoming):
                        break
                    self.asked += 1
                    step = self._script.pop(0)
                    if step is None:
                        break
                    status, told = step
                    body = json.dumps(told).encode()
                    connection.sendall(f"HTTP/1.1 {status} x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            self.has_hung_up.set()
        self._listener.close()

    def _read(self, incoming: Any) -> bool:
        length = 0
        while (line := incoming.readline()) not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        incoming.read(length)
        return line != b""


def problem(error: type[recollect.RecollectError], **details: Any) -> tuple[int, Any]:
    return error.http_status, {"error": error("no", remedy="wait", **details).as_dict()}


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    slept: list[float] = []
    monkeypatch.setattr("recollect.retry.time.sleep", slept.append)
    return slept


@pytest.mark.parametrize(
    ("fields", "times"), [({}, 2), ({"idempotency_key": "k"}, 3)], ids=["without a key", "with an idempotency key"]
)
def test_a_write_is_sent_again_only_if_it_may_be(fields: dict[str, Any], times: int) -> None:
    """The second request breaks off: it may have been carried out, even on a connection that was in use before."""
    service = Scripted((200, RECEIPT), None, (200, RECEIPT))
    with recollect.connect(service.url, "rk") as mem:
        mem.remember("one", **fields)
        attempt: Callable[[], Any] = lambda: mem.remember("two", **fields)  # noqa: E731
        if fields:
            assert attempt().id == "m"
        else:
            with pytest.raises(Unavailable, match="check whether it was done"):
                attempt()
    assert service.asked == times


def test_an_idle_connection_that_was_closed_meanwhile_is_opened_anew() -> None:
    service = Scripted((200, RECEIPT), (200, RECEIPT), requests_per_connection=1)
    with recollect.connect(service.url, "rk") as mem:
        mem.remember("one")
        assert service.has_hung_up.wait(20)
        mem.remember("two")
    assert service.asked == 2


def test_what_was_turned_away_is_asked_again_after_the_time_named(pauses: list[float]) -> None:
    away = problem(Overloaded, retry_after=1), problem(RateLimited, retry_after=2)
    service = Scripted(*away, (200, RECEIPT))
    with recollect.connect(service.url, "rk") as mem:
        assert mem.remember("one").id == "m"
    assert [1 <= pauses[0] <= 1.25, 2 <= pauses[1] <= 2.5] == [True, True]


def test_nobody_waits_until_tomorrow_for_a_quota(pauses: list[float]) -> None:
    service = Scripted(problem(RateLimited, retry_after=40_000))
    with recollect.connect(service.url, "rk") as mem, pytest.raises(RateLimited):
        mem.stats()
    assert pauses == []
