"""The Python client against a service: the same surface as in process, over HTTP.

    mem = recollect.connect("http://127.0.0.1:7070", key="rk.…")
    mem.remember("Alice prefers pytest")

A problem comes back as the same error that it would be in process. Reads, and writes that carry an idempotency key,
are tried again when the service is busy or the connection breaks.
"""

from __future__ import annotations

import http.client
import json
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from recollect import errors
from recollect.catalogue import OPERATIONS, ROOMS, Operation, validated
from recollect.errors import InvalidInput, RecollectError, Unavailable
from recollect.interfaces.client import Recollect, attach

PREFIX = "/v1"
TRIES = 4


class RemoteRecollect(Recollect):
    """A memory behind a service."""

    def __init__(self, url: str, key: str, *, timeout: float = 60.0, timezone: str = "UTC") -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidInput(f"'{url}' is no address of a service", remedy="give http://host:port")
        self._parts, self._key, self._timeout, self._zone = parts, key, timeout, timezone
        self._local = threading.local()

    @property
    def organization(self) -> str:
        raise InvalidInput("the key decides the organization", remedy="use a key of the organization")

    @property
    def timezone(self) -> str:
        return self._zone

    def within(self, organization: str | None = None, actor: str | None = None) -> Recollect:
        raise InvalidInput("a key sees one organization", remedy="connect with another key")

    def call(self, operation: str, /, *, progress: Callable[[int, int], None] | None = None, **fields: Any) -> Any:
        """Any operation by name, on the service."""
        chosen = OPERATIONS.get(operation)
        if chosen is None or chosen.local:
            raise InvalidInput(f"the service has no operation '{operation}'", remedy="see /openapi.json")
        request = validated(chosen, fields)
        given = request.model_dump(mode="json", include=set(fields), by_alias=True)
        method, path, body = _wired(chosen, given)
        safe = chosen.permission == "read" or bool(fields.get("idempotency_key"))
        return chosen.reply.model_validate_json(self._exchange(method, path, body, safe))

    def close(self) -> None:
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None

    def __enter__(self) -> RemoteRecollect:
        return self

    def __repr__(self) -> str:
        return f"<Recollect at {self._parts.scheme}://{self._parts.netloc.rpartition('@')[2]}>"

    def _exchange(self, method: str, path: str, body: bytes | None, safe: bool) -> bytes:
        for wait in _waits():
            try:
                return self._once(method, path, body)
            except Unavailable as error:
                if not safe or wait is None:
                    raise
                time.sleep(max(wait, float(error.details.get("retry_after", 0))))
        raise AssertionError("unreachable")

    def _once(self, method: str, path: str, body: bytes | None) -> bytes:
        headers = {"authorization": f"Bearer {self._key}", "content-type": "application/json"}
        for fresh in (False, True):
            connection = self._connection(fresh)
            try:
                connection.request(method, self._parts.path.rstrip("/") + path, body, headers)
                answer = connection.getresponse()
                content = answer.read()
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                self.close()  # an idle connection may have been closed meanwhile: one more try on a new one
                if fresh or getattr(self._local, "used", 0) == 0:
                    break
                continue
            except (OSError, http.client.HTTPException) as error:
                self.close()
                raise Unavailable(
                    f"the service did not answer: {type(error).__name__}", remedy="is it running?"
                ) from None
            self._local.used = 1
            if answer.status >= 400:
                raise _error(answer.status, content)
            return content
        raise Unavailable("the service closed the connection", remedy="is it running?")

    def _connection(self, fresh: bool) -> http.client.HTTPConnection:
        connection = getattr(self._local, "connection", None)
        if connection is None or fresh:
            host, port = self._parts.hostname or "", self._parts.port
            if self._parts.scheme == "https":
                context = ssl.create_default_context()
                connection = http.client.HTTPSConnection(host, port, timeout=self._timeout, context=context)
            else:
                connection = http.client.HTTPConnection(host, port, timeout=self._timeout)
            self._local.connection, self._local.used = connection, 0
        return connection


def _waits() -> Iterator[float | None]:
    """How long to wait after each try; None after the last."""
    yield from (0.1 * 2**attempt for attempt in range(TRIES - 1))
    yield None


def _wired(operation: Operation, given: dict[str, Any]) -> tuple[str, str, bytes | None]:
    method, _, route = operation.route.partition(" ")
    path = PREFIX + re.sub(r"{(\w+)}", lambda found: quote(str(given.pop(found[1])), safe=""), route)
    if method in ("GET", "DELETE"):
        named = {name: json.dumps(value) if isinstance(value, dict) else _plain(value) for name, value in given.items()}
        asked = urlencode({name: value for name, value in named.items() if value is not None}, doseq=True)
        return method, f"{path}?{asked}" if asked else path, None
    return method, path, json.dumps(given).encode()


def _plain(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _error(status: int, content: bytes) -> RecollectError:
    try:
        told = json.loads(content)["error"]
        kind = _KINDS.get(told["code"], RecollectError)
        return kind(told["message"], remedy=told["remedy"], **told.get("details", {}))
    except (ValueError, KeyError, TypeError):
        return Unavailable(f"the service answered {status}", remedy="is there something else at that address?")


def _kinds(error: type[RecollectError]) -> Iterator[tuple[str, type[RecollectError]]]:
    yield error.code, error
    for inner in error.__subclasses__():
        yield from _kinds(inner)


_KINDS = dict(_kinds(errors.RecollectError))
attach(RemoteRecollect, OPERATIONS.values(), ROOMS)


def connect(url: str, key: str, *, timeout: float = 60.0, timezone: str = "UTC") -> Recollect:
    """A memory behind a service, with the same methods as one that `recollect.open` gives."""
    return RemoteRecollect(url, key, timeout=timeout, timezone=timezone)
