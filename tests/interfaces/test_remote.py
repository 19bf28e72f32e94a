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

    def __init__(self, *script: tuple[Any, ...] | None, requests_per_connection: int = 100) -> None:
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
                    status, told, *headers = step
                    body = json.dumps(told).encode()
                    said = "\r\n".join([f"HTTP/1.1 {status} x", *headers, f"Content-Length: {len(body)}"])
                    connection.sendall(f"{said}\r\n\r\n".encode() + body)
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
        assert service.has_hung_up.wait(60)
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


def test_a_write_that_never_left_is_sent_again(pauses: list[float]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        nobody = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with recollect.connect(nobody, "rk", retries=2) as mem, pytest.raises(Unavailable, match="no service at"):
        mem.remember("one")
    assert len(pauses) == 2


@pytest.mark.parametrize("retries", [0, 1])
def test_it_is_tried_as_often_as_was_said(retries: int) -> None:
    service = Scripted(*[problem(Overloaded)] * 5)
    with recollect.connect(service.url, "rk", retries=retries) as mem, pytest.raises(Overloaded):
        mem.stats()
    assert service.asked == retries + 1


def test_a_proxy_that_names_the_time_to_wait_is_heard(pauses: list[float]) -> None:
    service = Scripted((503, "<h1>back soon</h1>", "Retry-After: 3"), (200, {"kinds": []}))
    with recollect.connect(service.url, "rk") as mem:
        mem.kind.list()
    assert pauses == [3.0]


def test_no_pause_is_begun_that_the_whole_time_does_not_leave(pauses: list[float]) -> None:
    service = Scripted(problem(RateLimited, retry_after=5), (200, RECEIPT))
    with recollect.connect(service.url, "rk", total_timeout=4) as mem, pytest.raises(RateLimited):
        mem.remember("one")
    assert (pauses, service.asked) == ([], 1)


def test_an_answer_that_never_ends_is_given_up_when_the_time_is_over() -> None:
    """The service sends a byte at a time: each wait is short, and all of them together are not."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 x\r\nContent-Length: 100000\r\n\r\n")
                over = threading.Event()
                while not over.wait(0.02):
                    try:
                        connection.sendall(b" ")
                    except OSError:
                        return

        threading.Thread(target=drip, daemon=True).start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        mem = recollect.connect(url, "rk", total_timeout=0.3, retries=0)
        with mem, pytest.raises(Unavailable, match="no answer in time"):
            mem.stats()


@pytest.mark.parametrize("given", [{"timeout": 0}, {"retries": -1}, {"retries": 99}, {"total_timeout": "soon"}])
def test_times_that_make_no_sense_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(recollect.errors.InvalidInput):
        recollect.connect("http://127.0.0.1:1", "rk", **given)
