"""The port for traces of what was deleted: looking for them in all that a store keeps, and taking names out of them.

Reading records shows what the store means to keep. What it keeps besides, in free pages, logs and indexes, shows only
where its files or tables are read themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from recollect.ports.records import Scope

SHORTEST_NEEDLE = 8
"""Bytes: anything shorter stands by chance in any large file."""
PIECE_BYTES = 1 << 20
_TAIL = 4


@dataclass(frozen=True, slots=True)
class ScannedPlace:
    """A file, table or object that was looked through, and which of the needles are in it."""

    name: str
    bytes: int
    found: frozenset[int] = frozenset()


@runtime_checkable
class Scannable(Protocol):
    """A record store whose files or tables can be looked through."""

    scans_files: bool
    """Whether it looks through files, which are those of all its tenants; else through the rows of one tenant."""

    def scan(self, scope: Scope, needles: Sequence[bytes]) -> Iterator[ScannedPlace]:
        """Look for these bytes in all that is kept for a tenant; in files, for all tenants together."""


@runtime_checkable
class RenamesDeleted(Protocol):
    """A record store that can tell of a deletion without saying what the record was called."""

    def rename_deleted(self, scope: Scope, names: Mapping[tuple[str, str], str]) -> None:
        """Where `changes` tells that these (table, id) are gone, it shall call them by these names from now on."""


class ByteSearch:
    """Finds any of many byte strings in a stream, in one pass however many they are.

    The last four bytes of each are looked up in a bitmap for all positions at once; the few positions that remain are
    compared. Ids that were made on one day begin alike, so the ends are what tells them apart.
    """

    def __init__(self, needles: Sequence[bytes]) -> None:
        self._needles = list(needles)
        assert all(len(needle) >= SHORTEST_NEEDLE for needle in needles), "too short to mean anything"
        self._longest = max(map(len, needles), default=0)
        self._by_tail: dict[bytes, list[int]] = {}
        for number, needle in enumerate(needles):
            self._by_tail.setdefault(needle[-_TAIL:], []).append(number)
        self._is_tail = np.zeros(1 << 16, bool)
        if needles:
            self._is_tail[_folded(np.frombuffer(b"".join(self._by_tail), np.uint8))[::_TAIL]] = True

    def found_in(self, pieces: Iterable[bytes]) -> tuple[int, frozenset[int]]:
        """How many bytes there were, and the numbers of those that are in them."""
        size, found, before = 0, set[int](), b""
        for piece in pieces:
            size += len(piece)
            chunk = before + piece
            found |= self._found(chunk)
            before = chunk[-(self._longest - 1) :] if self._longest > 1 else b""
        return size, frozenset(found)

    def _found(self, chunk: bytes) -> set[int]:
        if len(chunk) < _TAIL or not self._needles:
            return set()
        found = set()
        for at in np.flatnonzero(self._is_tail[_folded(np.frombuffer(chunk, np.uint8))]):
            end = int(at) + _TAIL
            for number in self._by_tail.get(chunk[end - _TAIL : end], ()):
                if chunk.endswith(self._needles[number], 0, end):
                    found.add(number)
        return found


def _folded(data: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """For each four neighbouring bytes a number below 65,536."""
    wide = data.astype(np.uint32)
    four = wide[:-3] | wide[1:-2] << 8 | wide[2:-1] << 16 | wide[3:] << 24
    folded: NDArray[np.uint32] = np.right_shift(four * np.uint32(2654435761), np.uint32(16), dtype=np.uint32)
    return folded
