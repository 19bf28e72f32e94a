"""Fetch one public page, and nothing that is not public.

The promise: no request reaches a private, loopback, link-local, metadata or otherwise special address, whatever the
name resolves to, whenever it is asked, and wherever a redirect points. The host is looked up once, every answer is
judged, and the socket connects to the very address that was judged, so a name that answers differently the second
time gains nothing. Proxies of the environment are not used: behind one, nobody could tell where a request ends.

One deadline covers lookup, connection, handshake, headers, body and redirects. Bytes are counted as they leave the
socket, before anything parses them, so a lying length, an endless header or an odd chunk cannot fill the memory.
"""

from __future__ import annotations

import http.client
import io
import ipaddress
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast
from urllib.parse import SplitResult, quote, urljoin, urlsplit

from recollect.errors import InvalidInput, NotFound, TooLarge, Unavailable

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IsAllowed = Callable[[IpAddress], bool]

MAX_REDIRECTS = 5
_MAX_URL = 8000
_FRAMING = 1_000_000  # raw bytes allowed beyond twice the body's limit: headers, chunk sizes
_PORTS = {"http": 80, "https": 443}
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_HOST = re.compile(r"[a-z0-9._-]{1,253}|[0-9a-f:.]{2,45}", re.IGNORECASE)

# What `ipaddress` calls global and is not for us. Which ranges it knows also depends on the patch version of Python.
_SPECIAL = tuple(
    map(
        ipaddress.ip_network,
        (
            "168.63.129.16/32",  # the machine's own agent on Azure, on an address that looks public
            "192.0.0.0/24",  # protocol assignments; 192.0.0.192 is metadata on Oracle
            "192.88.99.0/24",  # 6to4 relays
            "2001::/23",  # protocol assignments, Teredo: IPv4 inside
            "2002::/16",  # 6to4: IPv4 inside
            "3fff::/20",  # documentation
        ),
    )
)
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")  # leaves out mapped, compatible and translated IPv4 too


def is_public(ip: IpAddress) -> bool:
    """Whether an address is globally routable unicast, with no IPv4 address hidden in an IPv6 one."""
    if not ip.is_global or ip.is_multicast or ip.is_reserved:
        return False
    if isinstance(ip, ipaddress.IPv6Address) and ip not in _GLOBAL_UNICAST:
        return False
    return not any(ip in network for network in _SPECIAL)


def fetch(
    url: str, *, limit_bytes: int = 5_000_000, timeout_seconds: float = 10, is_allowed: IsAllowed = is_public
) -> bytes:
    """The body that the address serves.

    Raises InvalidInput for an address that is not fetched, TooLarge for a body over the limit, NotFound when the
    server says the page is gone, and Unavailable when it cannot be had now.
    """
    deadline = _Deadline(timeout_seconds)
    for _ in range(MAX_REDIRECTS + 1):
        target = _Target.of(url)
        addresses = _judged(target, deadline, is_allowed)
        answer = _asked(target, addresses, deadline, limit_bytes)
        if isinstance(answer, bytes):
            return answer
        url = _joined(url, answer.location)
    raise Unavailable(f"{target.host} redirects more than {MAX_REDIRECTS} times", remedy="cite the address it leads to")


def _joined(url: str, location: str) -> str:
    try:
        return urljoin(url, location)
    except ValueError:
        raise _refused("it redirects to something that is not a web address") from None


class _Deadline:
    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError("it took too long")
        return left


@dataclass(frozen=True, slots=True)
class _Redirect:
    location: str


@dataclass(frozen=True, slots=True)
class _Target:
    scheme: str
    host: str
    port: int
    path: str

    @staticmethod
    def of(url: str) -> _Target:
        if len(url) > _MAX_URL or any(character <= " " or character == "\x7f" for character in url):
            raise _refused("the address is too long or holds white space or control characters")
        try:
            parts = urlsplit(url)
            if parts.scheme not in _PORTS:
                raise _refused("only http and https addresses are fetched")
            if "@" in parts.netloc:
                raise _refused("the address holds credentials")
            port = parts.port or _PORTS[parts.scheme]
            return _Target(parts.scheme, _ascii_host(parts), port, _quoted(parts))
        except ValueError:
            raise _refused("that is not a web address") from None

    @property
    def host_header(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def request(self) -> bytes:
        lines = (
            f"GET {self.path} HTTP/1.1",
            f"Host: {self.host_header}",
            "User-Agent: recollect",
            "Accept: */*",
            "Accept-Encoding: identity",
            "Connection: close",
        )
        return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")


def _ascii_host(parts: SplitResult) -> str:
    host = parts.hostname or ""
    if not host.isascii():
        host = host.encode("idna").decode("ascii")  # a UnicodeError is a ValueError
    if not _HOST.fullmatch(host):
        raise ValueError(host)
    return host


def _quoted(parts: SplitResult) -> str:
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~")
    query = quote(parts.query, safe="/%:@!$&'()*+,;=~?")
    return f"{path}?{query}" if query else path


def _refused(why: str) -> InvalidInput:
    return InvalidInput(why, remedy="give the http or https address of a public page")


Address = tuple[socket.AddressFamily, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]]


def _judged(target: _Target, deadline: _Deadline, is_allowed: IsAllowed) -> list[Address]:
    """The addresses of the host that may be connected to, from one lookup."""
    try:
        found = _looked_up(target, deadline.left())
    except (OSError, UnicodeError) as error:
        raise Unavailable(f"{target.host} cannot be looked up: {error}", remedy="try again later") from None
    allowed = [(family, address) for family, address in found if is_allowed(ipaddress.ip_address(address[0]))]
    if not allowed:
        raise _refused(f"{target.host} is not at a public address")
    return allowed


def _looked_up(target: _Target, seconds: float) -> list[Address]:
    """In a thread, since the system's lookup takes no time limit; one that is late is left to end by itself."""
    answer: list[list[Address] | Exception] = []

    def look() -> None:
        try:
            found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
            answer.append([(family, address) for family, _, _, _, address in found])
        except (OSError, UnicodeError) as error:
            answer.append(error)

    thread = threading.Thread(target=look, name="recollect-lookup", daemon=True)
    thread.start()
    thread.join(seconds)
    if not answer:
        raise TimeoutError("it took too long")
    if isinstance(answer[0], Exception):
        raise answer[0]
    return answer[0]


def _asked(target: _Target, addresses: Sequence[Address], deadline: _Deadline, limit_bytes: int) -> bytes | _Redirect:
    try:
        with _connected(target, addresses, deadline) as wire:
            wire.settimeout(deadline.left())
            wire.sendall(target.request())
            counted = _LimitedReader(wire, deadline, 2 * limit_bytes + _FRAMING)
            # All that http.client does with a socket is to call its makefile.
            with http.client.HTTPResponse(cast(socket.socket, counted)) as response:
                response.begin()
                return _answer(target, response, limit_bytes)
    except (OSError, http.client.HTTPException, ValueError) as error:  # http.client lets odd chunk sizes be ValueErrors
        reason = str(error) or type(error).__name__
        raise Unavailable(f"{target.host} did not answer properly: {reason}", remedy="try again later") from None


def _answer(target: _Target, response: http.client.HTTPResponse, limit_bytes: int) -> bytes | _Redirect:
    location = response.getheader("Location")
    if response.status in _REDIRECTS and location:
        return _Redirect(location)
    if response.status in (404, 410):
        raise NotFound(f"{target.host} no longer has this page", remedy="cite its new address")
    if response.status not in (200, 203):
        raise Unavailable(f"{target.host} answered with status {response.status}", remedy="try again later")
    return _body(response, limit_bytes)


def _body(response: http.client.HTTPResponse, limit_bytes: int) -> bytes:
    body = bytearray()
    if response.length is not None and response.length > limit_bytes:
        raise _too_large(limit_bytes)
    while chunk := response.read(min(65536, limit_bytes + 1 - len(body))):
        body += chunk
        if len(body) > limit_bytes:
            raise _too_large(limit_bytes)
    if response.length:  # http.client is silent about a body that ends before its Content-Length
        raise http.client.IncompleteRead(b"", response.length)
    return bytes(body)


def _too_large(limit_bytes: int) -> TooLarge:
    return TooLarge(f"the page has more than {limit_bytes} bytes", remedy="cite a smaller page")


def _connected(target: _Target, addresses: Sequence[Address], deadline: _Deadline) -> socket.socket:
    trouble: Exception = OSError("no address")
    for tried, (family, address) in enumerate(addresses):
        wire = socket.socket(family, socket.SOCK_STREAM)
        try:
            wire.settimeout(deadline.left() / (len(addresses) - tried))
            wire.connect(address)
            return _secured(wire, target, deadline) if target.scheme == "https" else wire
        except (OSError, ValueError) as error:  # a name that cannot be in a certificate is a ValueError
            wire.close()
            trouble = error
    raise trouble


def _secured(wire: socket.socket, target: _Target, deadline: _Deadline) -> socket.socket:
    wire.settimeout(deadline.left())
    return ssl.create_default_context().wrap_socket(wire, server_hostname=target.host)


class _LimitedReader(io.RawIOBase):
    """What comes over the wire, within the deadline and up to so many bytes; all that http.client ever sees of it."""

    def __init__(self, wire: socket.socket, deadline: _Deadline, limit_bytes: int) -> None:
        self._wire = wire
        self._deadline = deadline
        self._limit_bytes = limit_bytes
        self._left = limit_bytes

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        self._wire.settimeout(self._deadline.left())
        count = self._wire.recv_into(buffer)
        self._left -= count
        if self._left < 0:
            raise _too_large(self._limit_bytes)
        return count
