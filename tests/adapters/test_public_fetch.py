"""Fetching pages from a loopback server that misbehaves, and refusing every address that is not public."""

from __future__ import annotations

import ipaddress
import re
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from recollect.adapters.public_fetch import fetch, is_public
from recollect.domain.provenance import page_hash
from recollect.errors import InvalidInput, NotFound, TooLarge, Unavailable

Serve = Callable[[socket.socket, bytes], None]

OUT_OF_TIME = re.compile("too long|timed out")


def anything(ip: object) -> bool:
    return True


def saying(answer: bytes) -> Serve:
    return lambda wire, request: wire.sendall(answer)


def page(body: bytes, *headers: bytes, status: bytes = b"200 OK") -> bytes:
    length = b"Content-Length: %d" % len(body)
    return b"\r\n".join([b"HTTP/1.1 " + status, length, *headers, b"", body])


def redirect(location: str, status: bytes = b"302 Found") -> bytes:
    return page(b"", b"Location: " + location.encode("latin-1"), status=status)


class Server:
    """One socket on loopback; every connection reads one request and gets what `serve` sends."""

    def __init__(self, serve: Serve, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[bytes] = []
        self._serve = serve
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                wire, _ = self._listener.accept()
            except OSError:
                return
            with wire, suppress(OSError):
                wire.settimeout(5)
                wire = self._tls.wrap_socket(wire, server_side=True) if self._tls else wire
                request = wire.recv(65536)
                self.requests.append(request)
                self._serve(wire, request)
                wire.close()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"


@contextmanager
def served(serve: Serve, tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    server = Server(serve, tls)
    try:
        yield server
    finally:
        server.close()


class TestAddresses:
    @pytest.mark.parametrize("ip", ["1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "2a00:1450:4001:81b::200e"])
    def test_public_addresses_are_allowed(self, ip: str) -> None:
        assert is_public(ipaddress.ip_address(ip))

    @pytest.mark.parametrize(
        "ip",
        [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.100.100.200",
            "127.0.0.1",
            "127.255.255.254",
            "168.63.129.16",
            "169.254.169.254",
            "172.16.0.1",
            "192.0.0.192",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "233.252.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::7f00:1",
            "::ffff:127.0.0.1",
            "::ffff:1.1.1.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:a9fe:a9fe::",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fe80::1%eth0",
            "fec0::1",
            "ff02::1",
        ],
    )
    def test_special_addresses_are_refused(self, ip: str) -> None:
        assert not is_public(ipaddress.ip_address(ip))

    @pytest.mark.parametrize(
        "host",
        ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "127.1", "0177.0.0.1", "0", "[::1]", "[::ffff:7f00:1]"],
    )
    def test_loopback_is_refused_however_it_is_spelt(self, host: str) -> None:
        with served(saying(page(b"secret"))) as server:
            with pytest.raises((InvalidInput, Unavailable)):
                fetch(server.url(host=host))
            assert server.requests == []

    @pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "169.254.169.254", "[::1]"])
    def test_the_refusal_says_why_and_what_to_do(self, host: str) -> None:
        with pytest.raises(InvalidInput, match="not at a public address") as refused:
            fetch(f"http://{host}/")
        assert refused.value.remedy

    @pytest.mark.parametrize(
        "url",
        [
            "file:///etc/passwd",
            "ftp://example.org/",
            "gopher://example.org/",
            "//example.org/",
            "example.org",
            "",
            "http://",
            "http:///path",
            "http://user:word@example.org/",
            "http://@example.org/",
            "http://example.org:99999/",
            "http://example.org:x/",
            "http://[::1/",
            "http://exa mple.org/",
            "http://example.org/\r\nX: y",
            "http://example.org/\x00",
            "http://evil\\.example.org/",
            "http://fe80::1%25eth0/",
            "http://" + "a" * 9000,
            "http://" + "ü" * 300 + ".org/",
            "http://example.org/\udc80",
        ],
    )
    def test_what_is_no_address_of_a_page_is_refused(self, url: str) -> None:
        with pytest.raises(InvalidInput) as refused:
            fetch(url, is_allowed=anything)
        assert refused.value.remedy


class TestLookups:
    def test_the_address_that_was_judged_is_the_one_connected_to(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A name that is public when judged and private when used (DNS rebinding) is looked up only once."""
        answers: Iterator[str] = iter(["127.0.0.1", "127.0.0.2"])
        judged = []

        def lookup(host: str, port: int, **options: Any) -> list[Any]:
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), port))]

        def judge(ip: object) -> bool:
            judged.append(str(ip))
            return True

        with served(saying(page(b"hello"))) as server:
            monkeypatch.setattr(socket, "getaddrinfo", lookup)
            assert fetch(server.url(host="rebinding.example"), is_allowed=judge) == b"hello"
        assert judged == ["127.0.0.1"]
        assert next(answers) == "127.0.0.2"

    def test_of_several_addresses_only_allowed_ones_are_used(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def lookup(host: str, port: int, **options: Any) -> list[Any]:
            kind = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
            return [(*kind, ("127.0.0.9", port)), (*kind, ("127.0.0.1", port))]

        with served(saying(page(b"hello"))) as server:
            monkeypatch.setattr(socket, "getaddrinfo", lookup)
            url = server.url(host="several.example")
            assert fetch(url, is_allowed=lambda ip: str(ip) == "127.0.0.1") == b"hello"

    def test_the_next_address_is_tried_when_one_does_not_answer(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def lookup(host: str, port: int, **options: Any) -> list[Any]:
            kind = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
            return [(*kind, ("127.0.0.9", port)), (*kind, ("127.0.0.1", port))]

        with served(saying(page(b"hello"))) as server:
            monkeypatch.setattr(socket, "getaddrinfo", lookup)
            assert fetch(server.url(host="several.example"), is_allowed=anything) == b"hello"

    def test_a_lookup_that_hangs_is_given_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        release = threading.Event()

        def hang(*arguments: Any, **options: Any) -> list[Any]:
            release.wait(60)
            return []

        monkeypatch.setattr(socket, "getaddrinfo", hang)
        try:
            with pytest.raises(Unavailable, match="cannot be looked up"):
                fetch("http://slow.example/", timeout_seconds=0.1)
        finally:
            release.set()

    def test_an_unknown_name_is_unavailable(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def unknown(*arguments: Any, **options: Any) -> list[Any]:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        monkeypatch.setattr(socket, "getaddrinfo", unknown)
        with pytest.raises(Unavailable, match="cannot be looked up"):
            fetch("http://absent.example/")


class TestRequests:
    def test_a_page_is_fetched(self) -> None:
        with served(saying(page(b"hello"))) as server:
            assert fetch(server.url(), is_allowed=anything) == b"hello"

    def test_the_request_names_the_host_and_the_path(self) -> None:
        with served(saying(page(b"hello"))) as server:
            fetch(server.url("/a b/ü?q=1&r=ü#part".replace(" ", "%20"), host="localhost"), is_allowed=anything)
        lines = server.requests[0].decode("ascii").split("\r\n")
        assert lines[0] == "GET /a%20b/%C3%BC?q=1&r=%C3%BC HTTP/1.1"
        assert f"Host: localhost:{server.port}" in lines

    def test_the_name_is_told_in_the_tls_handshake(self) -> None:
        with served(lambda wire, request: None) as server, pytest.raises(Unavailable):
            fetch(f"https://localhost:{server.port}/", is_allowed=anything)
        assert server.requests[0][0] == 0x16
        assert b"localhost" in server.requests[0]

    @pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
    def test_a_page_is_fetched_over_tls_from_the_named_host_only(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
        making = "req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -addext subjectAltName=DNS:localhost".split()
        command = ["openssl", *making, "-keyout", str(key), "-out", str(certificate)]
        subprocess.run(command, check=True, capture_output=True)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate, key)
        with served(saying(page(b"hello")), tls) as server:
            with pytest.raises(Unavailable, match="CERTIFICATE_VERIFY_FAILED"):
                fetch(f"https://localhost:{server.port}/", is_allowed=anything)
            monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
            assert fetch(f"https://localhost:{server.port}/", is_allowed=anything) == b"hello"
            with pytest.raises(Unavailable, match="CERTIFICATE_VERIFY_FAILED"):
                fetch(f"https://127.0.0.1:{server.port}/", is_allowed=anything)

    def test_a_server_without_a_good_certificate_is_unavailable(self) -> None:
        with served(saying(b"HTTP/1.1 200 OK\r\n\r\nplain")) as server, pytest.raises(Unavailable):
            fetch(f"https://127.0.0.1:{server.port}/", is_allowed=anything)

    @pytest.mark.parametrize("status", [b"404 Not Found", b"410 Gone"])
    def test_a_page_that_is_gone_is_not_found(self, status: bytes) -> None:
        with served(saying(page(b"", status=status))) as server, pytest.raises(NotFound):
            fetch(server.url(), is_allowed=anything)

    @pytest.mark.parametrize("status", [b"204 No", b"304 Same", b"401 Who", b"429 Slow", b"500 Oh", b"302 Where"])
    def test_other_statuses_are_unavailable(self, status: bytes) -> None:
        with served(saying(page(b"", status=status))) as server, pytest.raises(Unavailable, match="status"):
            fetch(server.url(), is_allowed=anything)

    def test_a_closed_port_is_unavailable(self) -> None:
        with served(saying(b"")) as server:
            url = server.url()
        with pytest.raises(Unavailable):
            fetch(url, is_allowed=anything)

    @pytest.mark.parametrize(
        "answer",
        [
            b"",
            b"\x00\x01garbage\r\n\r\n",
            b"HTTP/1.1 abc OK\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\ntoo short",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nhello",
            b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 500 + b"\r\n",
            b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70000 + b"\r\n\r\n",
        ],
    )
    def test_nonsense_is_unavailable(self, answer: bytes) -> None:
        with served(saying(answer)) as server, pytest.raises(Unavailable):
            fetch(server.url(), is_allowed=anything)

    def test_the_hash_is_of_the_bytes(self) -> None:
        assert page_hash(b"hello") == "p1:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"


class TestBounds:
    CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

    def test_a_body_of_just_the_limit_is_taken(self) -> None:
        with served(saying(page(b"x" * 100))) as server:
            assert len(fetch(server.url(), limit_bytes=100, is_allowed=anything)) == 100

    @pytest.mark.parametrize(
        "answer",
        [
            page(b"x" * 101),
            b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 101,
            CHUNKED + b"65\r\n" + b"x" * 101 + b"\r\n0\r\n\r\n",
            CHUNKED + b"1\r\nx\r\n" * 101 + b"0\r\n\r\n",
        ],
    )
    def test_a_larger_body_is_refused(self, answer: bytes) -> None:
        with served(saying(answer)) as server, pytest.raises(TooLarge):
            fetch(server.url(), limit_bytes=100, is_allowed=anything)

    def test_a_chunked_body_is_put_together(self) -> None:
        with served(saying(self.CHUNKED + b"3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nT: z\r\n\r\n")) as server:
            assert fetch(server.url(), is_allowed=anything) == b"hello"

    def test_more_than_the_promised_length_is_not_read(self) -> None:
        with served(saying(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello" + b"x" * 1000)) as server:
            assert fetch(server.url(), is_allowed=anything) == b"hello"

    @pytest.mark.parametrize("start", [b"", CHUNKED, CHUNKED + b"-1\r\n", CHUNKED + b"0\r\n", b"HTTP/1.1 100 Go\r\n"])
    def test_an_endless_answer_is_cut_off(self, start: bytes) -> None:
        def flood(wire: socket.socket, request: bytes) -> None:
            wire.sendall(start)
            while True:
                wire.sendall(b"X: y\r\n" * 10_000)

        with served(flood) as server:
            with pytest.raises((TooLarge, Unavailable)) as caught:
                fetch(server.url(), limit_bytes=1000, timeout_seconds=60, is_allowed=anything)
            assert not OUT_OF_TIME.search(str(caught.value))  # it is the size that ends it

    @pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\n", CHUNKED + b"fff\r\n"])
    def test_a_dripping_answer_ends_at_the_deadline(self, start: bytes) -> None:
        def drip(wire: socket.socket, request: bytes) -> None:
            wire.sendall(start)
            for _ in range(3000):  # longer than anybody waits: the other side hangs up
                wire.sendall(b"x")
                time.sleep(0.02)

        with served(drip) as server, pytest.raises(Unavailable, match=OUT_OF_TIME):
            fetch(server.url(), timeout_seconds=0.3, is_allowed=anything)

    def test_a_silent_server_ends_at_the_deadline(self) -> None:
        with served(lambda wire, request: time.sleep(1)) as server, pytest.raises(Unavailable, match=OUT_OF_TIME):
            fetch(server.url(), timeout_seconds=0.2, is_allowed=anything)


class TestRedirects:
    @staticmethod
    def pages(**answers: bytes) -> Serve:
        def serve(wire: socket.socket, request: bytes) -> None:
            wire.sendall(answers[request.split(b" ")[1].decode().strip("/") or "start"])

        return serve

    @pytest.mark.parametrize("status", [b"301 M", b"302 M", b"303 M", b"307 M", b"308 M"])
    def test_redirects_are_followed(self, status: bytes) -> None:
        with served(self.pages(start=redirect("/end", status), end=page(b"hello"))) as server:
            assert fetch(server.url(), is_allowed=anything) == b"hello"

    def test_five_are_followed_and_no_more(self) -> None:
        steps = {str(number): redirect(f"/{number + 1}") for number in range(6)}
        with served(self.pages(**steps, **{"6": page(b"hello")})) as server:
            assert fetch(server.url("/1"), is_allowed=anything) == b"hello"
            with pytest.raises(Unavailable, match="more than 5 times"):
                fetch(server.url("/0"), is_allowed=anything)

    def test_every_address_on_the_way_is_judged(self) -> None:
        with served(self.pages(start=page(b"secret"))) as private:
            hop = redirect(private.url(host="127.0.0.2"))
            with served(self.pages(start=hop)) as server, pytest.raises(InvalidInput, match="public"):
                fetch(server.url(), is_allowed=lambda ip: str(ip) == "127.0.0.1")
            assert private.requests == []

    @pytest.mark.parametrize("location", ["file:///etc/passwd", "http://u:p@example.org/", "http://[", "gopher://x/"])
    def test_a_redirect_to_something_else_is_refused(self, location: str) -> None:
        with served(self.pages(start=redirect(location))) as server, pytest.raises(InvalidInput):
            fetch(server.url(), is_allowed=anything)

    def test_the_deadline_is_for_all_of_them_together(self) -> None:
        def slowly(wire: socket.socket, request: bytes) -> None:
            time.sleep(0.15)
            wire.sendall(redirect("/again"))

        # Each for itself would be in time, and six of them one too many.
        with served(slowly) as server, pytest.raises(Unavailable, match=OUT_OF_TIME):
            fetch(server.url(), timeout_seconds=0.4, is_allowed=anything)
