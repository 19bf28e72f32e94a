"""Refuse requests that other sites' web pages send from a user's browser.

A browser on this machine can reach the service, whatever page it shows. Such a page has no key, but it must not get an
answer at all: neither by a cross-site request (checked by Origin) nor by DNS rebinding (checked by Host).
"""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.requests import Request

from recollect.errors import Denied, InvalidInput
from recollect.settings import ServerSettings

LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "::1"})


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def check_host(request: Request, settings: ServerSettings) -> None:
    """Refuse a name that this service does not go by, where it is known by which names it goes."""
    known = {*LOOPBACK_NAMES, settings.host, *settings.hosts}
    if (settings.hosts or is_loopback(settings.host)) and _host(f"//{request.headers.get('host', '')}") not in known:
        raise InvalidInput("unknown host name", remedy="add it to server.hosts in the settings")


def check_origin(request: Request) -> None:
    """Refuse a page that asks across sites."""
    origin = request.headers.get("origin")
    if origin is None or _origin_netloc(origin) == request.headers.get("host", ""):
        return
    if _host(origin) not in LOOPBACK_NAMES:
        raise Denied(
            "web pages of other sites may not send requests", remedy="send it from a program, not from a web page"
        )


def _origin_netloc(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _host(address: str) -> str:
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""
