"""Content cut into chunks where the content itself says so, so that a change moves no later cut.

A cut is made after 64 bytes whose hash (a gear hash) ends in zeros: the same bytes are cut in the same places wherever
they stand in a file. The second backup of a large store therefore shares all chunks but those that changed.
(tests/adapters/backups/test_chunks.py)
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

SMALLEST, LARGEST = 64 << 10, 1 << 20
_USUAL_BITS = 18  # a cut every 256 KiB on average
_BLOCK = 2 << 20  # hashed at once
_GEAR = np.array([int.from_bytes(hashlib.sha256(bytes([n])).digest()[:8], "big") for n in range(256)], np.uint64)


def chunks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes, in chunks that do not depend on the pieces they came in."""
    waiting = bytearray()
    for piece in pieces:
        waiting += piece
        if len(waiting) >= _BLOCK:
            yield from _cut(waiting, is_end=False)
    yield from _cut(waiting, is_end=True)


def _cut(waiting: bytearray, *, is_end: bool) -> Iterator[bytes]:
    """The chunks at the start of what is waiting, which are taken away from it."""
    cuts = _cuts(np.frombuffer(bytes(waiting), np.uint8))
    start, size = 0, len(waiting)
    while size - start >= LARGEST or (is_end and start < size):
        following = cuts[np.searchsorted(cuts, start + SMALLEST) :][:1]
        end = min(int(following[0]) if len(following) else size, start + LARGEST, size)
        yield bytes(waiting[start:end])
        start = end
    del waiting[:start]


def _cuts(data: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Where chunks may end. The hash of 64 bytes is the sum of a number for each, shifted by how long ago it was."""
    hashes = _GEAR[data]
    for distance in (1, 2, 4, 8, 16, 32):
        hashes[distance:] += hashes[:-distance] << np.uint64(distance)
    return np.flatnonzero(hashes >> np.uint64(64 - _USUAL_BITS) == 0).astype(np.int64) + 1
