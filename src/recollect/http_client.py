"""The HTTP client: for the endpoints of models and for a Recollect service.

Promise: a reply, whatever its status, or NoReply. A redirect is a reply like any other: following it would hand the key
and the texts to a host that nobody configured. No error repeats a header, a body or the address.
Shape: httpx2, with the proxies that the environment names, the certificates of the system, and connections that are
kept open for the next request. One client serves all threads; a process that was forked makes connections of its own.
Proof: `tests/adapters/test_http_client.py`.
"""

from __future__ import annotations

import os
import ssl
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import BinaryIO, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2

from recollect.errors import InvalidInput, InvalidSettings, TooLarge


class NoReply(Exception):
    """No whole reply came; `reason` says why. Unless it `was_sent`, the server cannot have acted on the request."""

    def __init__(self, reason: str, *, was_sent: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.was_sent = was_sent


class Reply(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def retry_after_seconds(self) -> float:
        """How long the server asks to wait, 0 if it does not; the header holds seconds or a date."""
        value = self.headers.get("retry-after", "").strip()
        if value.isascii() and value.isdigit():
            return float(value)
        try:
            return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
        except ValueError:
            return 0.0


class HttpClient:
    """Requests to one server, each sent once. `headers` go with every request."""

    def __init__(
        self,
        base_url: str,
        headers: Mapping[str, str],
        *,
        timeout_seconds: float,
        connect_seconds: float | None = None,
    ) -> None:
        """`timeout_seconds` bounds each wait for the network, `connect_seconds` that for a connection, if it is
        another. The address was checked: see `checked_url`.
        """
        self._base_url = base_url.rstrip("/")
        self._connect_seconds = connect_seconds
        self._headers = {"User-Agent": "recollect", "Accept-Encoding": "identity", **headers}
        self._timeout_seconds = timeout_seconds
        self._lock = threading.Lock()
        self._process = 0
        self._opened: httpx2.Client | None = None

    def send(
        self,
        method: str,
        path: str,
        content: bytes | BinaryIO | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        most_bytes: int | None = None,
        within_seconds: float | None = None,
        timeout_seconds: float | None = None,
        write: Callable[[bytes], object] | None = None,
    ) -> Reply:
        """One request, sent once.

        `within_seconds` bounds the whole exchange and each wait of it; a server that sends byte by byte would else drag
        it out.
        `timeout_seconds` bounds each wait of this request instead of the client's own. `write` gets the body of a reply
        that is no error piece by piece; what it raises is passed on. Raises TooLarge for a body of more than
        `most_bytes`.
        """
        deadline = time.monotonic() + within_seconds if within_seconds is not None else None
        try:
            url, timeout = self._base_url + path, self._timeout(timeout_seconds, within_seconds)
            with self._client().stream(method, url, content=content, headers=headers, timeout=timeout) as response:
                body = bytearray()
                take = write if write is not None and response.status_code < 400 else body.extend
                received = 0
                for part in response.iter_raw():
                    received += len(part)
                    if deadline is not None and time.monotonic() > deadline:
                        raise httpx2.ReadTimeout("")
                    if most_bytes is not None and received > most_bytes:
                        raise TooLarge("the reply is too large", limit_bytes=most_bytes)
                    take(part)
            return Reply(response.status_code, response.headers, bytes(body))
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError):
            broken = NoReply("no connection", was_sent=False)
        except httpx2.TimeoutException:
            broken = NoReply("no answer in time", was_sent=True)
        except httpx2.HTTPError:
            broken = NoReply("the connection broke", was_sent=True)
        raise broken  # out here, so that it does not carry the library's own error, which knows the request

    def close(self) -> None:
        with self._lock:
            client, self._opened = self._opened, None
        if client is not None:
            client.close()

    def _timeout(self, wait_seconds: float | None, within_seconds: float | None) -> httpx2.Timeout:
        longest = float("inf") if within_seconds is None else within_seconds
        wait = wait_seconds or self._timeout_seconds
        return httpx2.Timeout(min(wait, longest), connect=min(self._connect_seconds or wait, longest))

    def _client(self) -> httpx2.Client:
        with self._lock:
            if self._opened is None or self._process != os.getpid():
                self._opened, self._process = _opened(self._base_url, self._headers, self._timeout_seconds), os.getpid()
                weakref.finalize(self, self._opened.close)
            return self._opened


def _opened(base_url: str, headers: Mapping[str, str], timeout_seconds: float) -> httpx2.Client:
    try:
        return httpx2.Client(
            headers=headers,
            timeout=timeout_seconds,
            verify=ssl.create_default_context() if base_url.startswith("https:") else False,
            proxy=_proxy(base_url),
            follow_redirects=False,
            trust_env=False,
        )
    except (ImportError, ValueError):
        raise InvalidSettings(
            "the proxy that the environment names cannot be used",
            remedy="set HTTP_PROXY and HTTPS_PROXY to http:// or https:// addresses, or name the host in NO_PROXY",
        ) from None


def _proxy(url: str) -> str | None:
    """By the standard library's rules, which other programs of the machine follow too."""
    parts = urlsplit(url)
    if proxy_bypass(parts.netloc):
        return None
    proxy = getproxies().get(parts.scheme) or None
    return proxy if proxy is None or "://" in proxy else f"http://{proxy}"


def checked_url(url: str, what: str, example: str) -> str:
    """The address of a server, if it is one. It stays out of the message: people paste keys into it."""
    try:
        parts = urlsplit(url)
        complete = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        complete = False
    if not complete or parts.username is not None or parts.query or parts.fragment:
        raise InvalidInput(
            f"The address of the {what} must be an http or https URL without user, query or fragment.",
            remedy=f"for example {example}",
        )
    return url


def bearer(key: str) -> dict[str, str]:
    """The header that carries a key; one that does not fit into a header is refused without being shown."""
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise InvalidInput(
            "the key is empty, or has white space or characters that do not fit into a header",
            remedy="copy it again as it was shown when it was made",
        )
    return {"Authorization": f"Bearer {key}"}
