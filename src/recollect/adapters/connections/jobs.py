"""Calls that are under way in an outside database, and how they end before they are done: late, cancelled, closed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from recollect.errors import Cancelled, Conflict, RecollectError, TooLarge


@dataclass
class Job:
    seconds: float
    stop: Callable[[], None]
    is_late: bool = False
    is_cancelled: bool = False

    def end_late(self) -> None:
        self.is_late = True
        self.stop()

    def cancel(self) -> None:
        self.is_cancelled = True
        self.stop()

    def ended(self) -> RecollectError | None:
        """Why it was ended, if it was."""
        if self.is_cancelled:
            return Cancelled("the query was cancelled")
        return too_slow(self.seconds) if self.is_late else None


@dataclass
class Jobs:
    """Those of all databases that one program has open."""

    _running: dict[str, Job] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def run(self, name: str | None, seconds: float, stop: Callable[[], None], grace: float = 2.0) -> Iterator[Job]:
        """Servers end a late statement themselves; so many seconds later it is ended from here."""
        job = Job(seconds, stop)
        key = name if name is not None else f"#{id(job)}"
        with self._lock:
            if key in self._running:
                raise Conflict(f"a query named '{key[:80]}' is already running", remedy="choose another name")
            self._running[key] = job
        timer = threading.Timer(seconds + grace, job.end_late)
        timer.daemon = True
        timer.start()
        try:
            yield job
        finally:
            timer.cancel()
            with self._lock:
                del self._running[key]

    def cancel(self, name: str) -> bool:
        with self._lock:
            job = self._running.get(name)
        if job is not None:
            job.cancel()
        return job is not None

    def close(self) -> None:
        with self._lock:
            running = list(self._running.values())
        for job in running:
            job.cancel()


def too_slow(seconds: float) -> TooLarge:
    return TooLarge(
        f"the database did not answer within {seconds:g} seconds", remedy="filter or aggregate more, or ask for less"
    )
