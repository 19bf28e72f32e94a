"""Reading ahead: what a search is going to ask of its store one after the other, told beforehand and read in one wait.

A store that is a round trip away may follow the chain by itself: what has the words, what is nearest, the records of
both, what stands beside the best of them, their vectors. Whoever searches goes on asking for one thing after the other;
what was read ahead is answered from memory, and all else by the store (`services/read_ahead.py`). So it is never wrong
to read too little ahead, or nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from recollect.domain.record import Record
from recollect.ports.query import Filter, Reading, Row, TextHit, TextQuery
from recollect.ports.records import Scope
from recollect.ports.vectors import StoredVector, VectorHit


@dataclass(frozen=True, slots=True)
class NearSearch:
    """A search of a vector store, as it is going to be asked."""

    space: str
    vector: NDArray[np.float32]
    limit: int
    where: Mapping[str, Collection[str | None]]


@dataclass(frozen=True, slots=True)
class Neighbours:
    """What stands beside the best few of each search: fields that they are `within`, each with its order."""

    within: Mapping[str, str]
    of: int
    reach: int
    where: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class PoolReading:
    """What is going to be read: by words, by meaning, then the records of what was found, and what hangs on them."""

    record: type[Record]
    fields: tuple[str, ...]
    filters: tuple[Filter, ...]
    words: TextQuery[Any] | None = None
    known: tuple[str, ...] = ()
    """What was found by words before, best first: its neighbours and vectors are read, not its records."""
    near: tuple[NearSearch, ...] = ()
    neighbours: Neighbours | None = None
    spaces: tuple[str, ...] = ()
    """Where the vectors of everything found are read from."""
    hanging: tuple[tuple[type[Record], tuple[str, ...]], ...] = ()
    """Records that name what is near in their `memory_id`, which is the first of the fields that are read."""
    besides: tuple[Reading, ...] = ()
    """What is read along with it and depends on nothing."""


@dataclass(slots=True)
class ReadAhead:
    """What was read. None is what could not be: it is asked for again."""

    reading: PoolReading
    hits: list[TextHit] | None = None
    near: list[list[VectorHit] | None] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)
    """The ids whose records were looked for."""
    rows: dict[str, Row] = field(default_factory=dict)
    stretches: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    """By the field that they are within and the id that they are around."""
    vectors: dict[str, dict[str, list[StoredVector]]] = field(default_factory=dict)
    """By space and id; those that have none have an empty list."""
    hung_on: set[str] = field(default_factory=set)
    hanging: list[list[Row]] = field(default_factory=list)
    besides: list[list[Row]] = field(default_factory=list)


@runtime_checkable
class ReadsAhead(Protocol):
    """A vector store that lies in the record store's own database."""

    def read_ahead(self, scope: Scope, reading: PoolReading) -> ReadAhead | None:
        """In as few waits as can be; None where nothing is gained by it."""


Answers = Sequence[list[Row]]
