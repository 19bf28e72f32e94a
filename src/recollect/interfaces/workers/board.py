"""What the workers of a service count together, in memory that they share: rates, uses of keys, connections.

The memory is a file without a name that each worker inherits. Each has a place of its own for its connections and
requests, which nobody else writes, so no lock is needed; who watches over the workers clears the place of one that
died. Connections are counted by a hash of the client, twice and differently, and the smaller sum counts: that two
clients are taken for one needs both to meet. Pairs of numbers (rates, days of keys) lie in a table of sets of eight:
where a set is full, what was changed longest ago is forgotten. Those are changed under a lock of the file, which the
system takes away from a process that dies.

Names are hashed with a secret of this run, so nobody can choose names that meet.
(tests/interfaces/workers/test_board.py)
"""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import os
import secrets
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from recollect.interfaces.http.counts import Cell, Pair

SECRET_BYTES, DIGEST_BYTES = 16, 16
SETS, WAYS = 4096, 8
ENTRY = struct.Struct("=16sddd")  # digest, the two numbers, a counter of changes
BUCKETS = 1 << 14
NUMBERS = 8  # of each worker, below
IS_TAKING, OPEN, INSIDE, DATA_INSIDE = range(4)
QUEUE, TURN = SETS, SETS + 1  # locked bytes, beyond those of the sets
MOST_TURN_SECONDS = 5.0
TRY_SECONDS = 0.0003
HEAD = 64
RESTARTS = 2  # where it stands in the head, in numbers of 8 bytes: after the secret


class WritingTurn:
    """One worker at a time writes, in the order in which they came: who waits holds the queue, so whoever has just
    written and wants to write again comes after. It is a courtesy: the store itself lets only one write. A worker that
    is stopped by somebody holds the others up for a while, not for ever.
    """

    def __init__(self, file: int) -> None:
        self._file = file

    def __enter__(self) -> None:
        deadline = time.monotonic() + MOST_TURN_SECONDS
        if self._taken(QUEUE, deadline):
            self._taken(TURN, deadline)
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, QUEUE)

    def __exit__(self, *problem: object) -> None:
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, TURN)

    def _taken(self, place: int, deadline: float) -> bool:
        while True:
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
                return True
            except (BlockingIOError, PermissionError):
                if time.monotonic() > deadline:
                    return False
                time.sleep(TRY_SECONDS)


class Board:
    """The shared memory, as the worker in `place` sees it; who watches over all has no place."""

    def __init__(self, file: int, places: int, place: int | None = None) -> None:
        self.file, self.places = file, places
        self._memory = mmap.mmap(file, _size(places))
        view = memoryview(self._memory)
        self._secret = bytes(view[:SECRET_BYTES])
        self._head = view[:HEAD].cast("q")
        ends = [HEAD, HEAD + places * NUMBERS * 8]
        ends.append(ends[-1] + places * 2 * BUCKETS * 4)
        self._numbers = view[ends[0] : ends[1]].cast("q")
        self._clients = view[ends[1] : ends[2]].cast("I")
        self._table = view[ends[2] :]
        self._lock = threading.Lock()
        own = (place or 0) * NUMBERS
        self._own = self._numbers[own : own + NUMBERS]
        self._own_clients = self._clients[(place or 0) * 2 * BUCKETS :][: 2 * BUCKETS]
        self._place = place
        self.inside: tuple[Cell, Cell] = (self._own[INSIDE:], self._own[DATA_INSIDE:])

    @classmethod
    def made(cls, places: int) -> Board:
        """New and empty, for those who get the file."""
        file = os.memfd_create("recollect", os.MFD_CLOEXEC) if sys.platform == "linux" else _unnamed_file()
        os.ftruncate(file, _size(places))
        os.pwrite(file, secrets.token_bytes(SECRET_BYTES), 0)
        return cls(file, places)

    # -- pairs of numbers --------------------------------------------------------------------------------------------

    def change(self, name: str, changed: Callable[[Pair | None], Pair]) -> None:
        digest = self._digest(name)
        row = int.from_bytes(digest[:4], "little") % SETS
        start = row * WAYS * ENTRY.size
        with self._alone_with(row):
            entries = [ENTRY.unpack_from(self._table, start + way * ENTRY.size) for way in range(WAYS)]
            ways = [way for way, entry in enumerate(entries) if entry[0] == digest]
            way = ways[0] if ways else min(range(WAYS), key=lambda one: entries[one][3])
            first, second = changed(entries[way][1:3] if ways else None)
            last = max(entry[3] for entry in entries) + 1  # empty ones have 0, and are taken first
            ENTRY.pack_into(self._table, start + way * ENTRY.size, digest, first, second, last)

    @contextmanager
    def _alone_with(self, row: int) -> Iterator[None]:
        """The file's lock tells processes apart, not threads."""
        with self._lock:
            fcntl.lockf(self.file, fcntl.LOCK_EX, 1, row)
            try:
                yield
            finally:
                fcntl.lockf(self.file, fcntl.LOCK_UN, 1, row)

    def _digest(self, name: str) -> bytes:
        return hashlib.blake2b(name.encode(), digest_size=DIGEST_BYTES, key=self._secret).digest()

    # -- requests and connections ------------------------------------------------------------------------------------

    def requests_inside(self) -> int:
        return self._sum(INSIDE) + self._sum(DATA_INSIDE)

    def connections(self) -> int:
        return self._sum(OPEN)

    def connections_of(self, client: str) -> int:
        return min(
            sum(self._clients[place * 2 * BUCKETS + bucket] for place in range(self.places))
            for bucket in self._buckets(client)
        )

    def enter(self, client: str | None) -> None:
        self._count(client, 1)

    def leave(self, client: str | None) -> None:
        self._count(client, -1)

    def _count(self, client: str | None, step: int) -> None:
        self._own[OPEN] += step
        for bucket in self._buckets(client) if client is not None else ():
            self._own_clients[bucket] += step

    def _buckets(self, client: str) -> tuple[int, int]:
        digest = self._digest(client)
        first, second = (int.from_bytes(digest[at : at + 4], "little") % BUCKETS for at in (0, 4))
        return first, BUCKETS + second

    def _sum(self, number: int) -> int:
        return sum(self._numbers[place * NUMBERS + number] for place in range(self.places))

    # -- who is there ------------------------------------------------------------------------------------------------

    def take_connections(self, is_taking: bool) -> None:
        """Say whether this worker takes new connections."""
        self._own[IS_TAKING] = int(is_taking)

    def surplus(self) -> int:
        """How many more connections this worker has than the one with the fewest, of those that take some."""
        others = [one * NUMBERS for one in range(self.places) if one != self._place]
        fewest = [self._numbers[other + OPEN] for other in others if self._numbers[other + IS_TAKING]]
        return max(self._own[OPEN] - min(fewest, default=self._own[OPEN]), 0)

    def workers(self) -> int:
        return self._sum(IS_TAKING)

    @property
    def restarts(self) -> int:
        return self._head[RESTARTS]

    def note_restart(self) -> None:
        self._head[RESTARTS] += 1

    def clear(self, place: int) -> None:
        """What a worker left that is gone."""
        for number in range(NUMBERS):
            self._numbers[place * NUMBERS + number] = 0
        start = place * 2 * BUCKETS
        self._clients[start : start + 2 * BUCKETS] = memoryview(bytes(2 * BUCKETS * 4)).cast("I")


def _size(places: int) -> int:
    return HEAD + places * (NUMBERS * 8 + 2 * BUCKETS * 4) + SETS * WAYS * ENTRY.size


def _unnamed_file() -> int:
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
