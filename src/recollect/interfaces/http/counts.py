"""What the limits count: requests, uses of keys, connections. In this process alone, or in all workers together.

A service of one process keeps its counts here, in memory. Workers keep theirs in memory that they share
(workers/board.py), so that a limit holds for the service, however many processes it has.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Protocol

MOST_REMEMBERED = 10_000
Pair = tuple[float, float]


class Cell(Protocol):
    """One number that many look at."""

    def __getitem__(self, place: int, /) -> int: ...

    def __setitem__(self, place: int, number: int, /) -> None: ...


class Counts(Protocol):
    inside: tuple[Cell, Cell]
    """Requests at work or waiting: for memories, for files and tables. Each is changed under its limit's lock."""

    def change(self, name: str, changed: Callable[[Pair | None], Pair]) -> None:
        """Two numbers under a name become others; nobody else changes them meanwhile. What was long not changed may be
        forgotten."""

    def requests_inside(self) -> int:
        """Of the whole service."""

    def connections(self) -> int:
        """Open now, in the whole service."""

    def connections_of(self, client: str) -> int: ...

    def enter(self, client: str | None) -> None: ...

    def leave(self, client: str | None) -> None: ...


class OwnCounts:
    """The counts of a service that is one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pairs: OrderedDict[str, Pair] = OrderedDict()
        self.inside: tuple[Cell, Cell] = ([0], [0])
        self._connections = 0
        self._by_client: Counter[str] = Counter()

    def change(self, name: str, changed: Callable[[Pair | None], Pair]) -> None:
        with self._lock:
            self._pairs[name] = changed(self._pairs.pop(name, None))
            while len(self._pairs) > MOST_REMEMBERED:
                self._pairs.popitem(last=False)

    def forget(self) -> None:
        with self._lock:
            self._pairs.clear()

    def requests_inside(self) -> int:
        return sum(cell[0] for cell in self.inside)

    def connections(self) -> int:
        return self._connections

    def connections_of(self, client: str) -> int:
        return self._by_client[client]

    def enter(self, client: str | None) -> None:
        self._connections += 1
        if client is not None:
            self._by_client[client] += 1

    def leave(self, client: str | None) -> None:
        self._connections -= 1
        if client is not None:
            self._by_client -= Counter([client])  # which drops who has none left
