"""Trying again: the one way in which work that failed for now is repeated."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from recollect.errors import RecollectError, VersionConflict

T = TypeVar("T")
E = TypeVar("E", bound=Exception)


@dataclass(frozen=True, slots=True)
class Retry:
    """Up to `tries` attempts, with a pause after each that failed: twice as long each time, and never quite the same.

    The randomness keeps callers that a server turned away together from coming back together.
    """

    tries: int = 4
    first_pause_seconds: float = 0.5
    longest_pause_seconds: float = 60.0
    sleep: Callable[[float], None] | None = None

    def run(
        self,
        attempt: Callable[[int], T],
        on: type[E] | tuple[type[E], ...],
        asked_pause: Callable[[E], float | None],
        left_seconds: Callable[[], float] | None = None,
    ) -> T:
        """What `attempt` returns; it is called with its number, from 1.

        After an error `on`, `asked_pause` says how many seconds to wait at least (0 for no wish), or None where trying
        again cannot help. The last error is raised as it is, also when less than the pause is left.
        """
        for number in range(1, self.tries):
            try:
                return attempt(number)
            except on as error:
                asked = asked_pause(error)
                if asked is None:
                    raise
                seconds = self._seconds(number, asked)
                if left_seconds is not None and seconds >= left_seconds():
                    raise
            self._sleep(seconds)
        return attempt(self.tries)

    def chances(self) -> Iterator[Callable[[], None]]:
        """For loops that look whether it worked: so many chances, each with what pauses before the next."""
        return (partial(self._pause, number) for number in range(1, self.tries + 1))

    def _pause(self, number: int) -> None:
        self._sleep(self._seconds(number))

    def _seconds(self, number: int, asked: float = 0.0) -> float:
        longest = min(self.first_pause_seconds * 2.0 ** (number - 1), self.longest_pause_seconds)
        return min(max(longest * random.uniform(0.5, 1.0), asked), self.longest_pause_seconds)

    def _sleep(self, seconds: float) -> None:
        (self.sleep or time.sleep)(seconds)


CONTENTION = Retry(first_pause_seconds=0.001, longest_pause_seconds=0.064)
"""For those who were in each other's way: looking afresh mends it, and soon."""


def retry(attempt: Callable[[], T], *failures: type[RecollectError], tries: int = 100) -> T:
    """Again when it fails in a way that looking afresh may mend; what still fails then is raised."""
    return replace(CONTENTION, tries=tries + 1).run(lambda number: attempt(), failures, lambda error: 0.0)


def retry_unless_pinned(version: int | None, attempt: Callable[[], T]) -> T:
    """Read, change and write again for as long as others are quicker, unless the caller insists on a version."""
    return attempt() if version is not None else retry(attempt, VersionConflict)
