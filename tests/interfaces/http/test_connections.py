"""Connections over real sockets: those that keep the service waiting are ended, and everybody reads their answer."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from serving import served

MOST_BODY = 100_000


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A service that waits half a second, for forty connections of a client."""
    folder: Path = tmp_path_factory.mktemp("hasty")
    with served(
        folder, header_seconds="0.5", connections_per_client="40", connections="60", most_body_bytes=str(MOST_BODY)
    ) as running:
        yield running


def dial(url: str) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname, parts.port), timeout=60)


def heard(connection: socket.socket) -> bytes:
    """All that comes until the other end closes."""
    with connection, connection.makefile("rb") as file:
        return file.read()


def is_well(url: str) -> bool:
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    with contextlib.closing(connection):
        connection.request("GET", "/health")
        return connection.getresponse().status == 200


@pytest.mark.parametrize("sent", [b"", b"GET /health HT", b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "])
def test_a_head_that_does_not_come_is_not_waited_for(hasty: tuple[str, str], sent: bytes) -> None:
    connection = dial(hasty[0])
    connection.sendall(sent)
    answer = heard(connection)
    assert answer.startswith(b"HTTP/1.1 408") if sent else answer == b""


def test_a_head_that_trickles_is_not_waited_for(hasty: tuple[str, str]) -> None:
    connection = dial(hasty[0])
    connection.sendall(b"GET /health HTTP/1.1\r\n")
    connection.settimeout(0.05)
    answer = b""
    for number in range(1200):
        try:
            answer = connection.recv(1000)
            break
        except TimeoutError:
            connection.sendall(b"X-%d: y\r\n" % number)
    connection.close()
    assert answer.startswith(b"HTTP/1.1 408")


def test_the_second_head_on_a_connection_is_timed_like_the_first(hasty: tuple[str, str]) -> None:
    connection = dial(hasty[0])
    connection.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    answer = b""
    while b'"ok"' not in answer:  # head and body may come one after the other
        part = connection.recv(10_000)
        assert part, answer
        answer += part
    connection.sendall(b"GET /heal")
    assert heard(connection).startswith(b"HTTP/1.1 408")


def test_a_head_without_end_is_refused(hasty: tuple[str, str]) -> None:
    connection = dial(hasty[0])
    with contextlib.suppress(ConnectionError):
        for number in range(50):
            connection.sendall(b"X-%d: %s\r\n" % (number, b"y" * 5000) if number else b"GET /health HTTP/1.1\r\n")
    assert heard(connection).startswith(b"HTTP/1.1 431")


def test_one_client_holds_a_bounded_number_of_connections_and_lets_go_of_them(hasty: tuple[str, str]) -> None:
    held = [dial(hasty[0]) for _ in range(100)]
    for connection in held:
        with contextlib.suppress(ConnectionError):
            connection.sendall(b"GET /health HTTP/1.1\r\n")
    answers = [heard(connection) for connection in held]
    assert sum(answer.startswith(b"HTTP/1.1 408") for answer in answers) <= 40
    refused = [answer for answer in answers if answer.startswith(b"HTTP/1.1 503")]
    assert len(refused) >= 60
    assert b"retry-after: 1" in refused[0]
    assert json.loads(refused[0].partition(b"\r\n\r\n")[2])["error"]["code"] == "overloaded"
    assert is_well(hasty[0])


def test_an_answer_that_is_not_read_is_given_up(hasty: tuple[str, str]) -> None:
    """The sockets hold some of it; the rest stays with the service until it lets go of both."""
    connection = dial(hasty[0])
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    request = b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    connection.settimeout(60)
    with contextlib.suppress(ConnectionError):
        for _ in range(100_000):  # ends when the service has closed: nobody reads what is sent back
            connection.sendall(request)
    connection.close()
    assert is_well(hasty[0])


def _bytes_of(number: int) -> Iterator[bytes]:
    for _ in range(number // 10_000):
        yield b"x" * 10_000


@pytest.mark.parametrize("way", ["declared", "in pieces", "no key"])
@pytest.mark.parametrize("path", ["/v1/memories", "/v1/recall", "/mcp"])
def test_who_sends_too_much_reads_why(hasty: tuple[str, str], way: str, path: str) -> None:
    url, key = hasty
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    headers |= {} if way == "no key" else {"authorization": f"Bearer {key}"}
    size = 300 * MOST_BODY
    with contextlib.closing(connection):
        body = b"x" * size if way != "in pieces" else _bytes_of(size)
        connection.request("POST", path, body, headers, encode_chunked=True)
        answer = connection.getresponse()
        told = json.loads(answer.read())
        assert answer.status == (401 if way == "no key" else 413)
        assert told["error"]["code"] == ("unauthenticated" if way == "no key" else "too_large")
        connection.request("GET", "/health")  # and the connection is as good as before
        assert connection.getresponse().status == 200


def test_who_asks_before_sending_is_told_not_to(hasty: tuple[str, str]) -> None:
    connection = dial(hasty[0])
    head = f"POST /v1/memories HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {hasty[1]}\r\n"
    connection.sendall(f"{head}Expect: 100-continue\r\nContent-Length: {10 * MOST_BODY}\r\n\r\n".encode())
    answer = heard(connection)
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"100 Continue" not in answer


def test_who_asks_before_sending_little_is_told_to(hasty: tuple[str, str]) -> None:
    connection = dial(hasty[0])
    body = b'{"content": "asked first"}'
    head = f"POST /v1/memories HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {hasty[1]}\r\nConnection: close\r\n"
    connection.sendall(f"{head}Expect: 100-continue\r\nContent-Length: {len(body)}\r\n\r\n".encode())
    assert connection.recv(1000).startswith(b"HTTP/1.1 100")
    connection.sendall(body)
    assert heard(connection).startswith(b"HTTP/1.1 200")
