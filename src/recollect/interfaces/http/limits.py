"""What protects the service from too much: rates and quotas by key, and a bounded number of requests at work."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from recollect.domain.record import now
from recollect.domain.tenancy import ApiKey
from recollect.errors import Overloaded, RateLimited

MOST_REMEMBERED = 10_000
TRIES_BY_ADDRESS, TRIES_BY_ACCOUNT = 20, 6  # a minute, wherever a password is asked for


class Rates:
    """A bucket of tokens for each name, filled evenly over a minute. Kept in memory, per process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str, per_minute: int) -> None:
        """One request; RateLimited with the seconds to wait if the bucket is empty."""
        with self._lock:
            at = self._clock()
            tokens, since = self._buckets.pop(name, (float(per_minute), at))
            tokens = min(float(per_minute), tokens + (at - since) * per_minute / 60)
            self._buckets[name] = (max(tokens - 1, 0.0) if tokens >= 1 else tokens, at)
            while len(self._buckets) > MOST_REMEMBERED:
                self._buckets.popitem(last=False)
        if tokens < 1:
            raise limited(f"rate limit exceeded: {per_minute} requests per minute", (1 - tokens) * 60 / per_minute)


def limited(why: str, seconds: float) -> RateLimited:
    wait = max(1, round(seconds + 0.5))
    return RateLimited(why, remedy=f"wait {wait} s, then try again", retry_after=wait)


class Usage:
    """How often each key was used, counted here and written to its record together every second or so."""

    def __init__(self, write: Callable[[ApiKey, int], None]) -> None:
        self._write = write
        self._lock = threading.Lock()
        self._unwritten: dict[str, tuple[ApiKey, int]] = {}
        self._today: OrderedDict[str, tuple[str, int]] = OrderedDict()

    def count(self, key: ApiKey) -> None:
        """One use; RateLimited if the key's day is used up."""
        moment = now()
        day = moment.date().isoformat()
        with self._lock:
            used = self._used(key, day)
            if key.requests_per_day and used >= key.requests_per_day:
                left = 86_400 - (moment.hour * 3600 + moment.minute * 60 + moment.second)
                raise limited(f"daily limit exceeded: {key.requests_per_day} requests with this key", left)
            self._today[key.id] = (day, used + 1)
            self._unwritten[key.id] = (key, self._unwritten.get(key.id, (key, 0))[1] + 1)
            while len(self._today) > MOST_REMEMBERED:
                self._today.popitem(last=False)

    def _used(self, key: ApiKey, day: str) -> int:
        """Our own count, or the record's where others used the key too. The record as it was read may be behind: what
        it lacks was counted here before."""
        stored = key.counted if key.counted_on == day else 0
        known_day, known = self._today.pop(key.id, (day, 0))
        return max(known if known_day == day else 0, stored + self._unwritten.get(key.id, (key, 0))[1])

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

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self.inside = 0

    def __enter__(self) -> RequestLimit:
        with self._lock:
            if self.inside >= self._most:
                raise Overloaded("too many requests are waiting", remedy="wait 1 s, then try again", retry_after=1)
            self.inside += 1
        return self

    def __exit__(self, *problem: object) -> None:
        with self._lock:
            self.inside -= 1
