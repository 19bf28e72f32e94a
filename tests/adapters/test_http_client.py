"""The HTTP client against real servers on the loopback, and the way in which work is tried again."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from recollect.errors import InvalidInput, InvalidSettings, TooLarge
from recollect.http_client import HttpClient, NoReply, Reply, bearer, checked_url
from recollect.retry import Retry


class Server(ThreadingHTTPServer):
    """Answers each path in its own way, and keeps what it was asked, and on how many connections."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, str, str | None, bytes]] = []
        self.connections = 0
        self.url = f"http://127.0.0.1:{self.server_port}"

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections += 1
        super().process_request(request, client_address)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except ConnectionError:
            self.close_connection = True  # a client that was closed, or has had enough

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        self.server.asked.append((self.command, self.path, self.headers["Authorization"], body))
        if self.path == "/break":
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.send_response(302 if self.path == "/moved" else 404 if self.path == "/missing" else 200)
        self.send_header("Location", f"{self.server.url}/elsewhere")
        self.send_header("Retry-After", "3")
        self.send_header("Content-Length", "10")
        self.end_headers()
        self.wfile.write(b"0123456789")

    do_POST = do_GET

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def serving() -> Iterator[Server]:
    server = Server()
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[HttpClient]:
    with closing(HttpClient(server.url, bearer("k"), timeout_seconds=5)) as client:
        yield client


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "")


def test_a_reply_has_status_headers_and_body(client: HttpClient, server: Server) -> None:
    reply = client.send("POST", "/here", b"hello")
    assert (reply.status, reply.body, reply.retry_after_seconds) == (200, b"0123456789", 3.0)
    assert server.asked == [("POST", "/here", "Bearer k", b"hello")]


def test_a_redirect_is_not_followed(client: HttpClient, server: Server) -> None:
    assert client.send("GET", "/moved").status == 302
    assert [path for _, path, _, _ in server.asked] == ["/moved"]


def test_connections_are_used_again(client: HttpClient, server: Server) -> None:
    for _ in range(5):
        client.send("GET", "/here")
    assert server.connections == 1


def test_a_client_that_nobody_needs_any_more_closes_its_connections(server: Server) -> None:
    client = HttpClient(server.url, {}, timeout_seconds=5)
    client.send("GET", "/here")
    opened = client._client()
    del client
    assert opened.is_closed


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_makes_connections_of_its_own(client: HttpClient, server: Server) -> None:
    client.send("GET", "/here")
    process = os.fork()
    if process == 0:
        try:
            os._exit(0 if client.send("GET", "/child").status == 200 else 1)
        finally:
            os._exit(2)
    assert os.waitpid(process, 0)[1] == 0
    assert client.send("GET", "/here").status == 200
    assert server.connections == 2


def test_a_body_may_be_a_file_and_a_reply_may_go_into_one(client: HttpClient, server: Server, tmp_path: Path) -> None:
    given, taken = tmp_path / "given", tmp_path / "taken"
    given.write_bytes(b"x" * 200_000)
    with given.open("rb") as source, taken.open("wb") as target:
        assert client.send("POST", "/here", source, write=target.write).body == b""
    assert taken.read_bytes() == b"0123456789"
    assert server.asked[0][3] == given.read_bytes()


def test_the_body_of_an_error_is_not_written(client: HttpClient) -> None:
    written: list[bytes] = []
    assert client.send("GET", "/missing", write=written.append).body == b"0123456789"
    assert written == []


def test_what_the_writer_raises_is_passed_on(client: HttpClient) -> None:
    def full(part: bytes) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        client.send("GET", "/here", write=full)
    assert client.send("GET", "/here").status == 200


def test_a_reply_over_the_limit_is_refused(client: HttpClient) -> None:
    assert client.send("GET", "/here", most_bytes=10).body == b"0123456789"
    with pytest.raises(TooLarge):
        client.send("GET", "/here", most_bytes=9)


def test_it_is_known_whether_the_request_can_have_arrived(client: HttpClient, server: Server) -> None:
    with pytest.raises(NoReply, match="the connection broke") as broken:
        client.send("POST", "/break", b"{}")
    assert broken.value.was_sent
    with serving() as gone:
        pass
    with pytest.raises(NoReply, match="no connection") as absent:
        HttpClient(gone.url, bearer("k"), timeout_seconds=5).send("POST", "/here", b"{}")
    assert not absent.value.was_sent
    assert absent.value.__context__ is None


def test_the_proxy_of_the_environment_is_used_unless_the_host_is_excepted(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", server.url.removeprefix("http://"))  # without a scheme, as some write it
    with closing(HttpClient("http://model.test/v1", {}, timeout_seconds=5)) as client:
        assert client.send("GET", "/here").status == 200
    assert server.asked[0][1] == "http://model.test/v1/here"
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with closing(HttpClient(server.url, {}, timeout_seconds=5)) as client:
        client.send("GET", "/here")
    assert server.asked[1][1] == "/here"


def test_a_proxy_that_cannot_be_used_is_a_mistake_in_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "gopher://127.0.0.1:1")
    with pytest.raises(InvalidSettings, match="proxy"):
        HttpClient("http://model.test", {}, timeout_seconds=5).send("GET", "/")
    monkeypatch.setenv("no_proxy", "model.test")
    with pytest.raises(NoReply):
        HttpClient("http://model.test:1", {}, timeout_seconds=5).send("GET", "/")


@pytest.mark.parametrize(("value", "seconds"), [("7", 7), ("", 0), ("soon", 0), ("Mon, 01 Jan 2001 00:00:00 GMT", 0)])
def test_retry_after_is_seconds_or_a_date(value: str, seconds: float) -> None:
    assert Reply(429, {"retry-after": value}, b"").retry_after_seconds == seconds


@pytest.mark.parametrize(
    "url", ["ftp://h", "http://:80", "http://u:p@h", "http://h?key=1", "http://h#x", "http://[::1"]
)
def test_an_address_that_is_none_is_refused_without_being_repeated(url: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        checked_url(url, "service", "http://127.0.0.1:7070")
    assert url not in str(caught.value)


def test_what_passes_is_tried_again_after_growing_pauses() -> None:
    pauses: list[float] = []

    def attempt(number: int) -> int:
        if number < 4:
            raise KeyError(number)
        return number

    assert Retry(4, sleep=pauses.append).run(attempt, KeyError, lambda error: 0.0) == 4
    assert [0.25 <= pauses[0] <= 0.5, 0.5 <= pauses[1] <= 1.0, 1.0 <= pauses[2] <= 2.0] == [True] * 3


@pytest.mark.parametrize(("asked", "attempts"), [(None, 1), (0.0, 3)], ids=["what cannot pass", "what might"])
def test_the_last_error_is_raised_as_it_is(asked: float | None, attempts: int) -> None:
    tried: list[int] = []

    def attempt(number: int) -> None:
        tried.append(number)
        raise KeyError(number)

    with pytest.raises(KeyError, match=str(attempts)):
        Retry(3, sleep=lambda seconds: None).run(attempt, KeyError, lambda error: asked)
    assert tried == list(range(1, attempts + 1))


def test_other_errors_are_not_tried_again() -> None:
    with pytest.raises(ValueError):
        Retry(3).run(lambda number: int("x"), KeyError, lambda error: 0.0)
