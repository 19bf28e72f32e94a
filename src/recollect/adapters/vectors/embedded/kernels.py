"""The inner loops of the embedded index: distances of 1-bit codes, products of int8 rows.

The promise: the compiled kernel (`_scan.c`, optional) and numpy give the same integers, so which one is there
changes speed and nothing else. Measured, 1 million codes on one core with 31 GB/s of read bandwidth: 384 bits 2.3 ms
compiled, 26 ms in numpy; 1536 bits 6.1 and 49 ms.
`tests/adapters/vectors/test_segments.py` runs both against each other.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np
from numpy.typing import NDArray

_absence = "it is not in this installation: the wheel was the one for any platform, or there was no C compiler"
try:
    from recollect.adapters.vectors.embedded import _scan as _compiled  # type: ignore[attr-defined,unused-ignore]
except ImportError as _failure:
    _compiled = None
    if (_failure.name or "").endswith("_scan"):  # it is there; a missing one is a name that its package lacks
        _absence = f"it cannot be loaded: {_failure}"

_INTERFACE = 1
# One that was left from an older build does not count.
compiled: ModuleType | None = _compiled if getattr(_compiled, "interface", 0) == _INTERFACE else None
if _compiled is not None and compiled is None:
    _absence = "the one that is installed is from an older version"

Codes = NDArray[np.uint8]
Rows = NDArray[np.int64]

NOWHERE = 65535  # a distance no code has: they have at most 65,528 bits
_CHUNK = 16384  # rows at a time in numpy, so that the intermediate arrays stay in the cache


def described() -> str:
    """Which kernel runs, and if it is the slow one, why: for `recollect doctor`."""
    if compiled is not None:
        return "compiled"
    return f"numpy, with the same results but about ten times slower than the compiled one: {_absence}"


def hamming(
    codes: Codes, query: Codes, rows: Rows | None = None, mask: NDArray[np.bool_] | None = None
) -> tuple[NDArray[np.uint16], NDArray[np.uint32]]:
    """How many bits of each code differ from the query's, and how many codes there are at each distance.

    `rows` selections codes; those whose `mask` is false get NOWHERE as distance and are not counted.
    """
    count = len(codes) if rows is None else len(rows)
    if compiled is None:
        return _hamming_numpy(codes, query, rows, mask, count)
    distances = np.empty(count, np.uint16)
    histogram = np.zeros(8 * len(query) + 1, np.uint32)
    compiled.hamming(codes, query, distances, histogram, rows, mask)
    return distances, histogram


def dots(coarse: NDArray[np.int8], query: NDArray[np.int16], rows: Rows | None = None) -> NDArray[np.int32]:
    """The exact integer product of each int8 row with the query.

    It fits: the query is a unit vector times 32767, so by Cauchy-Schwarz no partial sum exceeds
    32767 * 127 * sqrt(dimensions), which is below 2**31 up to 266,000 dimensions.
    """
    count = len(coarse) if rows is None else len(rows)
    products = np.empty(count, np.int32)
    if compiled is not None:
        compiled.dots(coarse, query, products, rows)
        return products
    wide = query.astype(np.float64)  # every product and sum is an integer below 2**53: exact
    for start in range(0, count, _CHUNK):
        stop = min(start + _CHUNK, count)
        chunk = coarse[start:stop] if rows is None else coarse[rows[start:stop]]
        products[start:stop] = (chunk.astype(np.float64) @ wide).astype(np.int32)
    return products


def _hamming_numpy(
    codes: Codes, query: Codes, rows: Rows | None, mask: NDArray[np.bool_] | None, count: int
) -> tuple[NDArray[np.uint16], NDArray[np.uint32]]:
    words, wanted = codes.view(np.uint64), query.view(np.uint64)
    distances = np.empty(count, np.uint16)
    for start in range(0, count, _CHUNK):
        stop = min(start + _CHUNK, count)
        chunk = words[start:stop] if rows is None else words[rows[start:stop]]
        distances[start:stop] = np.bitwise_count(chunk ^ wanted).sum(axis=1, dtype=np.uint16)
    counted = distances
    if mask is not None:
        distances[~mask] = NOWHERE
        counted = distances[mask]
    return distances, np.bincount(counted, minlength=8 * len(query) + 1).astype(np.uint32)


def nearest_within(histograms: list[NDArray[np.uint32]], wanted: int) -> int:
    """The smallest distance within which there are at least `wanted` codes, over all histograms of one width."""
    reached = np.cumsum(np.sum(histograms, axis=0, dtype=np.int64))
    return min(int(np.searchsorted(reached, wanted)), len(reached) - 1)
