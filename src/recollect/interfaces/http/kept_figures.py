"""Figures of large stores, kept for whoever looks next.

Counting a whole organization takes longer the more it remembers. What was counted lately is shown again; what is older
is shown too, while one thread counts anew. Small stores are counted every time, so that who changes something sees it.
A key names everything that the figures depend on, above all whose they are: nothing is shown to another scope.
Proven by tests/interfaces/http/console/test_large_stores.py.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Executor
from dataclasses import dataclass
from threading import Lock
from typing import Any, Generic, TypeVar

T = TypeVar("T")
FRESH_SECONDS, SHOWN_SECONDS = 15.0, 600.0
MOST_KEPT = 256


@dataclass(frozen=True, slots=True)
class Counted(Generic[T]):
    figures: T
    seconds_ago: float


class KeptFigures:
    def __init__(self, threads: Executor, clock: Callable[[], float] = time.monotonic) -> None:
        self._threads = threads
        self._clock = clock
        self._kept: OrderedDict[Hashable, tuple[Any, float]] = OrderedDict()
        self._counting: set[Hashable] = set()
        self._lock = Lock()

    def of(self, key: Hashable, count: Callable[[], T], is_large: Callable[[T], bool]) -> Counted[T]:
        """The figures: as kept where the store is large, else counted now."""
        with self._lock:
            figures, at = self._kept.get(key, (None, float("-inf")))
        age = self._clock() - at
        if age > SHOWN_SECONDS:
            return Counted(self._counted(key, count, is_large), 0)
        if age > FRESH_SECONDS:
            self._count_later(key, count, is_large)
        return Counted(figures, age)

    def _counted(self, key: Hashable, count: Callable[[], T], is_large: Callable[[T], bool]) -> T:
        made = count()
        with self._lock:
            self._kept.pop(key, None)
            if is_large(made):
                self._kept[key] = (made, self._clock())
                if len(self._kept) > MOST_KEPT:
                    self._kept.popitem(last=False)
        return made

    def _count_later(self, key: Hashable, count: Callable[[], T], is_large: Callable[[T], bool]) -> None:
        with self._lock:
            if key in self._counting:
                return
            self._counting.add(key)

        def counted() -> None:
            try:
                self._counted(key, count, is_large)
            finally:
                with self._lock:
                    self._counting.discard(key)

        self._threads.submit(counted)
