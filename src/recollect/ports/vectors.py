"""The ports for vector search.

The records are the truth and every index is derived. A vector is stored as one row of the record store in the
same transaction as its memory; the row carries `seq`, a number that only grows and is given anew whenever the
row is written. So a `(seq)` seen by an index is either still the row it was, or gone: asking the truth for the
rows at some seqs both fetches their vectors and proves that they are still alive. An index needs no tombstones.

A *space* is one namespace by one model (vectors of different spaces are never compared); a long memory has several rows
in it, one for each passage. *Facets* are the few columns of a memory that filter search (user, agent, session, project,
kind, scope, status).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from recollect.ports.objects import ObjectStore

FACETS = ("user_id", "agent_id", "session_id", "project_id", "kind", "scope", "status")


class VectorRow(NamedTuple):
    """One stored vector: unit length, float16 little endian, `facets` in the order of FACETS."""

    seq: int
    organization_id: str
    memory_id: str
    space: str
    facets: tuple[str | None, ...]
    vector: bytes


@dataclass(frozen=True, slots=True)
class VectorHit:
    memory_id: str
    similarity: float


class VectorSnapshot(Protocol):
    """One consistent view of the stored vectors (a read transaction of the record store)."""

    @property
    def incarnation(self) -> str:
        """Changes when the store is another one than before: created anew or restored from a backup."""

    def last_seq(self) -> int:
        """The highest seq of any stored vector ever seen, 0 for none. Cheap: called on every query."""

    def rows_after(self, seq: int, limit: int) -> Sequence[VectorRow]:
        """Living rows with a greater seq, in order of seq, all tenants and spaces."""

    def rows_at(self, seqs: Sequence[int]) -> Sequence[VectorRow]:
        """The living rows among these seqs, in any order; the dead are simply not in the answer."""

    def living_seqs(self, after: int, upto: int) -> Iterable[int]:
        """The seqs of living rows in (after, upto], ascending: what a merge of segments keeps."""


@runtime_checkable
class NamesRows(Protocol):
    """A snapshot that tells whose rows are without reading their vectors."""

    def memories_at(self, seqs: Sequence[int]) -> list[tuple[int, str]]:
        """The seqs of those that live, each with its memory, in any order."""


@runtime_checkable
class CountsLiving(Protocol):
    """A snapshot that tells how many rows live without naming them: whether a segment has dead rows is seen by it."""

    def living_sum(self, after: int, upto: int) -> tuple[int, int]:
        """How many seqs `living_seqs` would give, and their sum."""


@runtime_checkable
class VectorTruth(Protocol):
    """Where a derived index reads the vectors from: most record stores."""

    def vector_snapshot(self) -> AbstractContextManager[VectorSnapshot]: ...


@runtime_checkable
class TenantVectors(Protocol):
    """A record store that counts seqs per tenant: each tenant has an index of its own."""

    def tenants(self) -> list[str]: ...

    def vectors_of(self, organization_id: str) -> VectorTruth: ...


@runtime_checkable
class KeepsSegments(Protocol):
    """A record store whose processes share what they made for searching, where there is storage for it."""

    def keep_segments(self, objects: ObjectStore) -> None: ...


StoredVector = tuple[str, bytes, bytes | None, int | None, int | None]
"""Memory id, vector, token codes, and where the passage stands that it is of; a memory may have several."""


Passing = Callable[[Sequence[str]], Collection[str]]
"""Which of these memories pass what an index does not know, such as a stretch of time."""


@runtime_checkable
class SearchesPassing(Protocol):
    """An index that asks which memories pass before it compares them, and looks on until enough do."""

    def search_passing(
        self,
        organization_id: str,
        space: str,
        query: NDArray[np.float32],
        limit: int,
        where: Mapping[str, Collection[str | None]] | None,
        passing: Passing,
    ) -> list[VectorHit]:
        """The `limit` nearest of those that pass; fewer where these are so rare that looking on is not worth it."""


@runtime_checkable
class HasKernel(Protocol):
    """An index that compares vectors itself, with compiled code or without."""

    def kernel(self) -> str:
        """Which one runs, and why if it is the slow one; empty where none was needed yet."""


class VectorStore(Protocol):
    """Finds the nearest vectors of one tenant in one space.

    An index in another system may be away. Then every verb but `hint` and `close` raises IndexFailed; nothing stored is
    lost by it, since the records are the truth, and the index catches up when it is back.
    """

    @property
    def label(self) -> str:
        """What it is and where, for people; no secret in it."""

    def search(
        self,
        organization_id: str,
        space: str,
        query: NDArray[np.float32],
        limit: int,
        where: Mapping[str, Collection[str | None]] | None = None,
    ) -> list[VectorHit]:
        """The `limit` nearest memories, best first, among those whose facets are all in `where`.

        A memory may have several rows, one per passage; its nearest one counts, and it is in the answer once.

        `where` maps a facet to the values it may have; a facet that is not named may have any value. Every
        row committed before the call is considered, whichever process wrote it.
        """

    def hint(self, seq: int) -> None:
        """Rows up to `seq` were committed: a process that only writes can do its upkeep too. Must be instant."""

    def purge(self) -> None:
        """Leave nothing of deleted rows in any file of the index."""

    def refresh(self) -> None:
        """Do the pending upkeep now (for example to merge files); also done in the background."""

    def rebuild(self) -> int:
        """Throw the index away, make it again from the truth; says how many vectors it holds."""

    def behind(self) -> int:
        """How many living rows the index has not taken in yet; the next search takes them in first."""

    def verify(self) -> list[str]:
        """Compare the index with the truth: one sentence per disagreement, empty when they agree."""

    def close(self) -> None: ...
