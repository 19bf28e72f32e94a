"""Requests to a service and their repetition: what `remote.py` and `remote_files.py` send, and what comes back.

Promise: what the service turned away undone, or never got, is tried again after the time it names; what may have been
carried out only if repeating it does no harm. A call ends when its whole time is over, whatever it waits for.
Proof: `tests/interfaces/test_remote.py`.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO
from urllib.parse import quote, urlencode

from recollect import errors
from recollect.catalogue import Operation
from recollect.errors import InvalidInput, Overloaded, RateLimited, RecollectError, Unavailable
from recollect.http_client import HttpClient, NoReply, Reply, bearer, checked_url
from recollect.retry import Retry

PREFIX = "/v1"
BYTES = "application/octet-stream"
LONGEST_PAUSE_SECONDS = 10.0  # a longer wait is the caller's to decide on
LONGEST_WORK_SECONDS = 3600.0  # what an operation may take that reads a file or goes over everything
MOST_RETRIES = 20


@dataclass(frozen=True)
class Patience:
    """How long a client waits for a service, in seconds, and how often it asks again."""

    connect: float = 10.0
    """For a connection."""
    read: float = 60.0
    """For each next piece of an answer; an operation over many records may take an hour."""
    total: float | None = None
    """For a whole call, with all that is tried again and the pauses between; without end by default."""
    retries: int = 3
    """How often more than once what failed for now is tried."""

    def __post_init__(self) -> None:
        for name in ("connect", "read", "total"):
            seconds = getattr(self, name)
            is_number = (
                isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 < seconds < float("inf")
            )
            if not is_number and not (name == "total" and seconds is None):
                raise InvalidInput(f"the time to {name} must be a number of seconds above 0", remedy="for example 30")
        if isinstance(self.retries, bool) or not isinstance(self.retries, int) or not 0 <= self.retries <= MOST_RETRIES:
            raise InvalidInput(f"retries must be 0 to {MOST_RETRIES}", remedy="0 sends everything once")

    def deadline(self) -> Callable[[], float]:
        """From now on: how many seconds are left."""
        if self.total is None:
            return lambda: float("inf")
        end = time.monotonic() + self.total
        return lambda: end - time.monotonic()


class Exchange:
    """What is sent to one service, with one key."""

    def __init__(self, url: str, key: str, patience: Patience) -> None:
        self.url = checked_url(url, "service", "http://127.0.0.1:7070")
        self._patience = patience
        self._retry = Retry(
            tries=patience.retries + 1, first_pause_seconds=0.1, longest_pause_seconds=LONGEST_PAUSE_SECONDS
        )
        times = {"timeout_seconds": patience.read, "connect_seconds": patience.connect}
        self._client = HttpClient(url, bearer(key), **times)

    def close(self) -> None:
        self._client.close()

    def repeated(
        self,
        method: str,
        path: str,
        body: bytes | BinaryIO | None,
        safe: bool,
        headers: Mapping[str, str] | None = None,
        *,
        wait: float | None = None,
    ) -> Reply:
        """One request, sent again where that can do no harm: it is `safe`, or was not carried out."""
        left = self._patience.deadline()

        def asked_pause(error: RecollectError) -> float | None:
            seconds = float(error.details.get("retry_after", 0))
            is_undone = isinstance(error, Overloaded | RateLimited | _NotReached)
            is_passing = error.http_status in (429, 502, 503) and seconds <= LONGEST_PAUSE_SECONDS
            return seconds if is_passing and (safe or is_undone) else None

        def send(number: int) -> Reply:
            if body is not None and not isinstance(body, bytes):
                body.seek(0)
            return self._sent(left(), method, path, body, headers, wait=wait)

        return self._retry.run(send, (Unavailable, RateLimited), asked_pause, left)

    def send(
        self,
        method: str,
        path: str,
        body: bytes | BinaryIO | None = None,
        headers: Mapping[str, str] | None = None,
        write: Callable[[bytes], object] | None = None,
        wait: float | None = None,
    ) -> Reply:
        """One request, sent once: after a broken connection nobody knows whether it was carried out."""
        return self._sent(self._patience.deadline()(), method, path, body, headers, write, wait)

    def _sent(
        self,
        left_seconds: float,
        method: str,
        path: str,
        body: bytes | BinaryIO | None = None,
        headers: Mapping[str, str] | None = None,
        write: Callable[[bytes], object] | None = None,
        wait: float | None = None,
    ) -> Reply:
        headers = {"content-type": "application/json", **(headers or {})}
        within = None if left_seconds == float("inf") else max(left_seconds, 0.001)
        try:
            reply = self._client.send(
                method, path, body, headers=headers, write=write, timeout_seconds=wait, within_seconds=within
            )
        except NoReply as error:
            raise self._unanswered(error) from None
        if reply.status >= 400:
            raise _error(reply)
        return reply

    def _unanswered(self, error: NoReply) -> Unavailable:
        if not error.was_sent:
            return _NotReached(f"there is no service at {self.url}: {error.reason}", remedy="check that it is running")
        look = "check whether it was done before you repeat it; with an idempotency_key, repeating is safe"
        return Unavailable(f"the service did not answer: {error.reason}", remedy=look)


class _NotReached(Unavailable):
    """The request was never sent: nothing was done."""


def wired(operation: Operation, given: dict[str, object]) -> tuple[str, str, bytes | None]:
    """The method, path and body that carry the fields of an operation."""
    method = operation.route.partition(" ")[0]
    path = path_of(operation, given)
    if method in ("GET", "DELETE"):
        return method, asked(path, given), None
    return method, path, json.dumps(given).encode()


def path_of(operation: Operation, given: dict[str, object]) -> str:
    """The path of an operation, with the fields that stand in it taken out of the others."""
    route = operation.route.partition(" ")[2]
    return PREFIX + re.sub(r"{(\w+)}", lambda found: _segment(str(given.pop(found[1]))), route)


def _segment(value: str) -> str:
    """One piece of a path; left as they are, dots alone would be taken for the folder and the one above it."""
    return value.replace(".", "%2E") if value in (".", "..") else quote(value, safe="")


def asked(path: str, given: dict[str, object]) -> str:
    """The path with the other fields behind it."""
    named = {name: json.dumps(value) if isinstance(value, dict) else _plain(value) for name, value in given.items()}
    query = urlencode({name: value for name, value in named.items() if value is not None}, doseq=True)
    return f"{path}?{query}" if query else path


def _plain(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value


def _error(reply: Reply) -> RecollectError:
    """What the service said; a proxy before it says nothing of ours, but may name the time to wait."""
    try:
        told = json.loads(reply.body)["error"]
        kind = _KINDS.get(told["code"], RecollectError)
        return kind(told["message"], remedy=told["remedy"], **told.get("details", {}))
    except (ValueError, KeyError, TypeError):
        wait = {"retry_after": reply.retry_after_seconds} if reply.retry_after_seconds else {}
        return Unavailable(
            f"the service answered {reply.status}",
            remedy="check that this is the address of a Recollect service",
            **wait,
        )


def _kinds(error: type[RecollectError]) -> Iterator[tuple[str, type[RecollectError]]]:
    """Those with a code of their own: who refines one within the program is not what a service means by it."""
    if "code" in vars(error):
        yield error.code, error
    for inner in error.__subclasses__():
        yield from _kinds(inner)


_KINDS = dict(_kinds(errors.RecollectError))
