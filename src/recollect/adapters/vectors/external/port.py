"""The port to another system that keeps vectors for us.

What goes there are entries: an opaque number (the row's seq), the vector, and the facets as hashes; no id of ours and
no text. Entries lie in *places*, one per tenant, space and length of vectors, named by a hash. All places of one
building of the index are a *generation*. Generations are never changed into one another: the index is made again as a
new one, which takes over when it is whole, and the older ones are then deleted. So who still looks into an old one is
told that it is gone, instead of getting half an answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from recollect.adapters.vectors.exact import digest
from recollect.ports.vectors import FACETS, VectorRow

FacetHashes = Mapping[str, Sequence[str]]  # facet to the hashes it may have


class GenerationDeleted(Exception):
    """The generation was replaced or deleted, by another process or by hand: find the one in use, or begin anew."""


@dataclass(frozen=True, slots=True)
class Generation:
    """One building of the index of one store; `fed` is durable and may lag behind, but never runs ahead."""

    store: str
    name: str
    fed: int


@dataclass(frozen=True, slots=True)
class Entry:
    seq: int
    facets: tuple[str, ...]
    vector: NDArray[np.float32]


class ExternalSystem(Protocol):
    """Every verb may raise IndexFailed; those that name a generation may raise Gone."""

    label: str
    most_dimensions: int
    exact_rows: int  # a scope of up to so many entries is scored one by one from the truth

    def examine(self) -> str:
        """Whether it answers and would take entries: what is there, in a sentence. Makes nothing."""

    def current(self, store: str) -> Generation | None:
        """The generation in use: of those that are whole, the youngest."""

    def begin(self, store: str) -> Generation:
        """A new, empty generation, younger than every other and not in use."""

    def use(self, generation: Generation) -> None:
        """It is whole: put it in use, and delete all older ones of this store."""

    def note(self, generation: Generation, fed: int) -> None:
        """Remember durably that every row up to `fed` is there."""

    def add(self, generation: Generation, place: str, entries: Sequence[Entry]) -> None:
        """Put entries there; the same ones again change nothing."""

    def remove(self, generation: Generation, place: str, seqs: Sequence[int]) -> None: ...

    def within(self, generation: Generation, place: str, wanted: FacetHashes, most: int) -> list[int] | None:
        """The seqs of all entries that have the wanted facets; None if there are more than `most`."""

    def nearest(
        self, generation: Generation, place: str, wanted: FacetHashes, query: NDArray[np.float32], limit: int
    ) -> list[int]:
        """The seqs of the nearest, best first, as good as this system can."""

    def places(self, generation: Generation) -> Iterable[str]: ...

    def seqs(self, generation: Generation, place: str) -> Iterator[Sequence[int]]:
        """All seqs of a place, in portions."""

    def entries(self, generation: Generation, place: str) -> Iterator[Sequence[Entry]]:
        """All entries of a place, in portions."""

    def tend(self, generation: Generation) -> None:
        """Whatever upkeep this system needs."""

    def close(self) -> None: ...


def store_key(incarnation: str) -> str:
    return _hash(incarnation, 8)


def place_of(organization_id: str, space: str, dimensions: int) -> str:
    """Lengths in between, so that no two scopes run together into one text."""
    return _hash(f"{len(organization_id)}:{organization_id}{len(space)}:{space}{dimensions}", 16)


def facet_hash(value: str | None) -> str:
    return f"{digest(value):016x}"


def entry_of(row: VectorRow) -> Entry:
    vector = np.frombuffer(row.vector, "<f2").astype(np.float32)
    return Entry(row.seq, tuple(facet_hash(value) for value in row.facets), vector)


def can_hold(row: VectorRow, most_dimensions: int) -> bool:
    """Anything else is not a vector, and is never found."""
    dimensions, odd = divmod(len(row.vector), 2)
    return not odd and 0 < dimensions <= most_dimensions and bool(np.isfinite(np.frombuffer(row.vector, "<f2")).all())


def wanted_hashes(allowed: Mapping[int, frozenset[str | None]]) -> dict[str, list[str]]:
    return {FACETS[facet]: sorted({facet_hash(value) for value in values}) for facet, values in allowed.items()}


def next_name(moment_ns: int, before: str | None) -> str:
    """Names sort by age, whatever the clocks of different machines say."""
    return f"{max(moment_ns, int(before, 16) + 1 if before else 0):016x}"


def _hash(text: str, size: int) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).hexdigest()
