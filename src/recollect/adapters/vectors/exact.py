"""What every vector index shares: the filter of a search, its query, and the exact similarity of stored vectors.

An index only suggests rows. What it suggests is read from the records again, must pass the filter, and is scored here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from recollect.errors import InvalidInput
from recollect.ports.vectors import FACETS, VectorRow

_MEMORY: Callable[[VectorRow], str] = attrgetter("memory_id")
_DIGITS = 6  # similarities are rounded, so that equal vectors are equal whatever order they were summed in


@lru_cache(maxsize=65536)
def digest(value: str | None) -> int:
    """The 64-bit hash that stands for a tenant or a facet value; 0 stands for None and for nothing else.

    A collision costs a comparison, never a wrong answer: the truth's own columns are compared again.
    """
    if value is None:
        return 0
    return int.from_bytes(blake2b(value.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little") or 1


def decode(rows: Sequence[VectorRow], dimensions: int) -> NDArray[np.float32]:
    """The stored float16 vectors as a float32 matrix (a float16 product would lose the last digits)."""
    halves = np.frombuffer(b"".join([row.vector for row in rows]), "<f2")
    return halves.reshape(len(rows), dimensions).astype(np.float32)


def unit_query(vector: NDArray[np.float32]) -> NDArray[np.float64]:
    """A query of unit length, so that products are cosines; the zero vector stays what it is."""
    given = np.asarray(vector, np.float32)
    if given.ndim != 1 or not len(given) or not np.isfinite(given).all():
        raise InvalidInput("the query must be one vector of finite numbers", shape=str(given.shape))
    exact = given.astype(np.float64)
    length = float(np.linalg.norm(exact))
    return exact / length if length > 0 else exact


@dataclass(frozen=True)
class VectorFilter:
    """Whose rows, in which space, with which facets; what an index finds is held against it."""

    organization_id: str
    space: str
    allowed: Mapping[int, frozenset[str | None]]

    @staticmethod
    def of(organization_id: str, space: str, where: Mapping[str, Collection[str | None]] | None) -> VectorFilter:
        allowed = {}
        for facet, values in (where or {}).items():
            if facet not in FACETS:
                raise InvalidInput(f"unknown facet {facet!r}", remedy=f"use one of {', '.join(FACETS)}")
            if isinstance(values, str):
                raise InvalidInput(f"{facet!r} needs a collection of values", remedy=f"write {facet}=[…]")
            allowed[FACETS.index(facet)] = frozenset(values)
        return VectorFilter(organization_id, space, allowed)

    def admitted(self, rows: Iterable[VectorRow], dimensions: int) -> list[VectorRow]:
        """Those of the rows that pass."""
        # By place and not by name: of a search's hundreds of rows each is looked at.
        owner, space, size = self.organization_id, self.space, 2 * dimensions
        kept = [row for row in rows if row[1] == owner and row[3] == space and len(row[5]) == size]
        for facet, values in self.allowed.items():
            kept = [row for row in kept if row[4][facet] in values]
        return kept


def products(rows: Sequence[VectorRow], query: NDArray[np.float64]) -> NDArray[np.float64]:
    """The exact similarity of rows that pass the filter."""
    similarity: NDArray[np.float64] = decode(rows, len(query)).astype(np.float64) @ query
    return similarity


def scored(rows: Sequence[VectorRow], similarity: NDArray[np.float64]) -> list[tuple[float, str]]:
    """(-similarity, memory_id), which sorts best first; what is not a number is not a hit."""
    numbers = np.isfinite(similarity)
    if not numbers.all():
        rows, similarity = [row for row, one in zip(rows, numbers, strict=True) if one], similarity[numbers]
    # A stored vector is of unit length to float16 only, so a product may be 1.0001.
    worse = -np.minimum(np.maximum(np.round(similarity, _DIGITS), -1.0), 1.0)
    return list(zip(worse.tolist(), map(_MEMORY, rows), strict=True))


def best_of_each(found: Iterable[tuple[float, str]]) -> list[tuple[float, str]]:
    """(-similarity, memory_id), best first, each memory once: by the nearest of its rows."""
    best: dict[str, float] = {}
    for worse, memory_id in found:
        if worse < best.get(memory_id, math.inf):
            best[memory_id] = worse
    return sorted((worse, memory_id) for memory_id, worse in best.items())
