"""What the embedded index computes with instead of vectors: int8 vectors and 1-bit codes; and how rows are selected.

The promise: an estimate from the int8 vector is never further from the true similarity than its `slack`, so the rows
that may be among the nearest are known for certain, and a truth outside the bounds shows that an index lies.
`tests/adapters/vectors/test_segments.py` tries it with random and with hostile vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from recollect.adapters.vectors.embedded import kernels
from recollect.adapters.vectors.exact import unit_query

Hashes = NDArray[np.uint64]
Column = NDArray[Any]  # of whichever type its name stands for: see `layout` in segment.py
Key = tuple[str, int]  # a space and the number of dimensions of its vectors
_QUERY_STEP = 32767


class Encoded(NamedTuple):
    coarse: NDArray[np.int8]
    scale: NDArray[np.float32]
    slack: NDArray[np.float32]


def encode(vectors: NDArray[np.float32]) -> Encoded:
    """Each vector as int8 times a scale; |estimate - true product| with any unit query is at most `slack`.

    slack = length of the rounding error of the vector + worst rounding error of the query + a hair for float32.
    """
    finite = np.nan_to_num(vectors, nan=0.0, posinf=0.0, neginf=0.0)
    scale = np.abs(finite).max(axis=1, initial=0.0) / np.float32(127)
    safe = np.where(scale > 0, scale, np.float32(1))
    coarse = np.rint(finite / safe[:, None]).astype(np.int8)
    shown = coarse * safe[:, None]
    error = np.linalg.norm(finite - shown, axis=1)
    query_error = np.linalg.norm(shown, axis=1) * (np.sqrt(vectors.shape[1]) / (2 * _QUERY_STEP))
    slack = (error + query_error) * 1.0001 + 2e-6
    return Encoded(coarse, scale.astype(np.float32), slack.astype(np.float32))


def code_width(dimensions: int) -> int:
    return -(-dimensions // 64) * 8


def sign_codes(vectors: NDArray[np.float32], centre: NDArray[np.float32]) -> NDArray[np.uint8]:
    """One bit a dimension: on which side of the centre; padded to whole 64-bit words."""
    codes = np.zeros((len(vectors), code_width(vectors.shape[1])), np.uint8)
    bits = np.packbits(vectors > centre, axis=1)
    codes[:, : bits.shape[1]] = bits
    return codes


@dataclass(frozen=True, slots=True)
class Query:
    """A query in every form the stages need; of unit length, so that products are cosines."""

    exact: NDArray[np.float64]
    rounded: NDArray[np.int16]

    @staticmethod
    def of(vector: NDArray[np.float32]) -> Query:
        exact = unit_query(vector)
        return Query(exact, np.rint(exact * _QUERY_STEP).astype(np.int16))

    def code(self, centre: NDArray[np.float32]) -> NDArray[np.uint8]:
        code: NDArray[np.uint8] = sign_codes(self.exact.astype(np.float32)[None, :], centre)[0]
        return code


# -- selecting rows --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Selection:
    """Rows of a section: all from `low` to `high`, or those of them in `rows`, or those that `mask` lets pass."""

    low: int
    high: int
    count: int
    rows: kernels.Rows | None = None
    mask: NDArray[np.bool_] | None = None

    @staticmethod
    def passing(low: int, high: int, mask: NDArray[np.bool_] | None) -> Selection:
        """Few rows as numbers, many as a mask: row by row costs four times a straight scan (10 against 2.3 ns)."""
        count = high - low if mask is None else int(np.count_nonzero(mask))
        if mask is None or count == high - low:
            return Selection(low, high, count)
        if 4 * count < high - low:
            return Selection(low, high, count, rows=low + np.flatnonzero(mask))
        return Selection(low, high, count, mask=mask)

    def numbers(self) -> kernels.Rows | None:
        """The row numbers; None for all from `low` to `high`."""
        return self.rows if self.mask is None else self.low + np.flatnonzero(self.mask)


class Estimates(NamedTuple):
    seq: NDArray[np.int64]
    similarity: NDArray[np.float64]
    slack: NDArray[np.float64]


def estimates(
    products: NDArray[np.int32], seq: NDArray[np.int64], scale: NDArray[np.float32], slack: NDArray[np.float32]
) -> Estimates:
    return Estimates(seq, products * (scale.astype(np.float64) / _QUERY_STEP), slack.astype(np.float64))


FacetHashes = Mapping[int, Hashes]  # facet number to the hashes it may have


class Section(Protocol):
    """Rows of one space, in a segment or unsealed."""

    def select(self, tenant: int, wanted: FacetHashes) -> Selection: ...

    def estimate(self, selection: Selection, query: Query) -> Estimates: ...


class Source(Section, Protocol):
    """A section whose columns can be copied into a new segment."""

    @property
    def key(self) -> Key: ...
    @property
    def centre(self) -> NDArray[np.float32]: ...
    def tenants_of_rows(self) -> Hashes: ...
    def column(self, name: str) -> Column: ...
    def coarse_at(self, rows: kernels.Rows) -> NDArray[np.int8]: ...
    def __len__(self) -> int: ...


def facet_mask(column: Callable[[int], Hashes], wanted: FacetHashes) -> NDArray[np.bool_] | None:
    mask: NDArray[np.bool_] | None = None
    for facet, hashes in wanted.items():
        values = column(facet)
        passes = _is_one_of(values, hashes)
        mask = passes if mask is None else mask & passes
    return mask


def _is_one_of(values: Hashes, hashes: Hashes) -> NDArray[np.bool_]:
    """Like np.isin, which sorts a million values for that (100 ms against 0.5 ms a hash)."""
    if len(hashes) > 16:
        found: NDArray[np.bool_] = np.take(hashes, np.searchsorted(hashes, values), mode="clip") == values
        return found
    passes: NDArray[np.bool_] = values == hashes[0]
    for each in hashes[1:]:
        passes |= values == each
    return passes
