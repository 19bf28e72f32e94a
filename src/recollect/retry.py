"""Trying again: the one way in which work that failed for now is repeated."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

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

    def run(self, attempt: Callable[[int], T], on: type[E], asked_pause: Callable[[E], float | None]) -> T:
        """What `attempt` returns; it is called with its number, from 1.

        After an error `on`, `asked_pause` says how many seconds to wait at least (0 for no wish), or None where trying
        again cannot help. The last error is raised as it is.
        """
        for number in range(1, self.tries):
            try:
                return attempt(number)
            except on as error:
                asked = asked_pause(error)
                if asked is None:
                    raise
            usual = self.first_pause_seconds * 2 ** (number - 1) * random.uniform(0.5, 1.0)
            (self.sleep or time.sleep)(min(max(usual, asked), self.longest_pause_seconds))
        return attempt(self.tries)
