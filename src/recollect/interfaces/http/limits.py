"""What protects the service from too much: rates and quotas by key, and a bounded number of requests at work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import datetime

from recollect.domain.record import now
from recollect.domain.tenancy import ApiKey
from recollect.errors import Overloaded, RateLimited
from recollect.interfaces.http.counts import Cell, Counts, OwnCounts, Pair

TRIES_BY_ADDRESS, TRIES_BY_ACCOUNT = 20, 6  # a minute, wherever a password is asked for


class Rates:
    """A bucket of tokens for each name, filled evenly over a minute. Kept in memory, for all workers of a service."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, counts: Counts | None = None) -> None:
        self._clock = clock
        self._counts = counts or OwnCounts()

    def take(self, name: str, per_minute: int) -> None:
        """One request; RateLimited with the seconds to wait if the bucket is empty."""
        tokens = 0.0

        def taken(known: Pair | None) -> Pair:
            nonlocal tokens
            at = self._clock()
            tokens, since = known or (float(per_minute), at)
            tokens = min(float(per_minute), tokens + max(at - since, 0.0) * per_minute / 60)
            return (tokens - 1 if tokens >= 1 else tokens), at

        self._counts.change(f"rate of {name}", taken)
        if tokens < 1:
            raise limited(f"rate limit exceeded: {per_minute} requests per minute", (1 - tokens) * 60 / per_minute)


def limited(why: str, seconds: float) -> RateLimited:
    wait = max(1, round(seconds + 0.5))
    return RateLimited(why, remedy=f"wait {wait} s, then try again", retry_after=wait)


class Usage:
    """How often each key was used, counted here and written to its record together every second or so."""

    def __init__(self, write: Callable[[ApiKey, int], None], counts: Counts | None = None) -> None:
        self._write = write
        self._counts = counts or OwnCounts()
        self._lock = threading.Lock()
        self._unwritten: dict[str, tuple[ApiKey, int]] = {}

    def count(self, key: ApiKey) -> None:
        """One use; RateLimited if the key's day is used up."""
        moment = now()
        used = 0.0

        def counted(known: Pair | None) -> Pair:
            nonlocal used
            used = self._used(key, moment, known)
            is_over = key.requests_per_day and used >= key.requests_per_day
            return float(moment.toordinal()), used if is_over else used + 1

        with self._lock:
            self._counts.change(f"day of {key.id}", counted)
            if key.requests_per_day and used >= key.requests_per_day:
                left = 86_400 - (moment.hour * 3600 + moment.minute * 60 + moment.second)
                raise limited(f"daily limit exceeded: {key.requests_per_day} requests with this key", left)
            self._unwritten[key.id] = (key, self._unwritten.get(key.id, (key, 0))[1] + 1)

    def _used(self, key: ApiKey, moment: datetime, known: Pair | None) -> float:
        """What we counted, or the record's number where others used the key too. The record as it was read may be
        behind: what it lacks was counted here before."""
        stored = key.counted if key.counted_on == moment.date().isoformat() else 0
        day, counted = known or (0.0, 0.0)
        return max(counted if day == moment.toordinal() else 0.0, stored + self._unwritten.get(key.id, (key, 0))[1])

    def flush(self) -> None:
        """Write all; what cannot be written now is kept for the next time."""
        with self._lock:
            keys, self._unwritten = self._unwritten, {}
        try:
            for id in list(keys):
                self._write(*keys[id])
                del keys[id]
        finally:
            with self._lock:
                for id, (key, uses) in keys.items():
                    self._unwritten[id] = (key, uses + self._unwritten.get(id, (key, 0))[1])


class RequestLimit:
    """At most so many requests at work or waiting for a thread; the next is turned away, not queued without end."""

    def __init__(self, most: int, cell: Cell | None = None) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._cell: Cell = [0] if cell is None else cell

    @property
    def inside(self) -> int:
        return self._cell[0]

    def __enter__(self) -> RequestLimit:
        with self._lock:
            if self._cell[0] >= self._most:
                raise Overloaded("too many requests are waiting", remedy="wait 1 s, then try again", retry_after=1)
            self._cell[0] += 1
        return self

    def __exit__(self, *problem: object) -> None:
        with self._lock:
            self._cell[0] -= 1
