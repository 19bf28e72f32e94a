"""The address of the client: that of the connection, or the one that a trusted proxy reports.

Anybody can send headers with an address. So `X-Forwarded-For` counts only on a connection from a proxy in
`server.proxies`. It is read from the right, where each proxy adds the address it saw: the first one that is not such a
proxy is the client. `Forwarded`, `X-Forwarded-Host` and `X-Forwarded-Prefix` are never read: a proxy that does not set
them passes on what a client invented. Text that is not an address is dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from starlette.types import ASGIApp, Receive, Scope, Send

Address = IPv4Address | IPv6Address
FORWARDED = (b"x-forwarded-for", b"forwarded", b"x-real-ip")
MOST_PROXIES = 50  # addresses looked at in one header; nobody stands behind more proxies
log = logging.getLogger("recollect.service")


def parsed(text: str) -> Address | None:
    """An address as a proxy writes it, without its port; None if it is not one."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    if len(text) > 45 or "%" in text:  # after the % of an IPv6 address stands any text
        return None
    try:
        found = ip_address(text)
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, IPv6Address) else found


def trusts(networks: Iterable[str], address: Address) -> bool:
    return any(address in _network(one) for one in networks)


_network = cache(ip_network)


class Proxies:
    """Middleware that sets the client's address."""

    def __init__(self, app: ASGIApp, trusted: Iterable[str]) -> None:
        self._app = app
        self._trusted = tuple(trusted)
        self._has_warned = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope["client"] = self._client(scope)
            scope.setdefault("state", {})["is_direct"] = not any(name in FORWARDED for name, _ in scope["headers"])
        await self._app(scope, receive, send)

    def _client(self, scope: Scope) -> tuple[str, int] | None:
        """The client's address as text, made from the address itself; sets the scheme the client used, too."""
        host, port = scope.get("client") or ("", 0)
        peer = parsed(host.partition("%")[0])
        if peer is None:
            return None
        if not trusts(self._trusted, peer):
            self._warn(scope)
            return str(peer), port
        scheme = _values(scope, b"x-forwarded-proto")[-1:]
        if scheme and scheme[0] in ("http", "https"):
            scope["scheme"] = scheme[0]
        return str(self._served(scope, peer)), 0

    def _served(self, scope: Scope, peer: Address) -> Address:
        """The nearest address that is not a trusted proxy; if a text is not an address, the proxy that passed it on."""
        for text in reversed(_values(scope, b"x-forwarded-for")[-MOST_PROXIES:]):
            found = parsed(text)
            if found is None:
                return peer
            peer = found
            if not trusts(self._trusted, peer):
                return peer
        return peer

    def _warn(self, scope: Scope) -> None:
        """Once: behind a proxy that is not named, all clients look like one, and share its limits."""
        if not self._has_warned and any(name == b"x-forwarded-for" for name, _ in scope["headers"]):
            self._has_warned = True
            log.warning("a request came through a proxy that server.proxies does not name: its header is not believed")


def _values(scope: Scope, name: bytes) -> list[str]:
    """What a header lists, all its lines together, in order."""
    lines = [value.decode("latin-1") for known, value in scope["headers"] if known == name]
    return [one.strip() for one in ",".join(lines).split(",")] if lines else []


def client_network(address: str | None) -> str:
    """The addresses one client can choose from: in IPv6 that is a whole network, so limits apply to it as one."""
    found = parsed(address) if address else None
    if isinstance(found, IPv6Address):
        return str(ip_network((found, 64), strict=False))
    return str(found)
