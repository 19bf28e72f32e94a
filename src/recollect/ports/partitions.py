"""The port for how a large store is laid out: pieces by month, and tables spread over several machines.

Only some stores have it (`isinstance(store, Partitioned)`). It is the whole store's, not a tenant's: a piece holds the
records of every tenant, so whoever drops one must have been told whose they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol, runtime_checkable

from recollect.domain.audit import AccessLog


@dataclass(frozen=True, slots=True)
class Partition:
    """One piece of a table. A month has bounds in time and in ids; the piece for everything else has none."""

    name: str
    table: str
    holds: str
    rows: int
    bytes: int
    begins: datetime | None = None
    ends: datetime | None = None
    first_id: str = ""
    end_id: str = ""


@runtime_checkable
class Partitioned(Protocol):
    months_ahead: int
    tools: Path | None

    def partitions(self) -> list[Partition]:
        """Every piece, by table and name; `rows` is the database's estimate."""

    def make_ahead(self, months: int) -> list[str]:
        """Make the pieces of this month and so many after it, where they are missing; gives their names."""

    def rows_by_tenant(self, partition: Partition) -> dict[str, int]:
        """Counted, not estimated."""

    def hanging(self, partition: Partition) -> dict[str, int]:
        """How many records of which table are deleted with those of the piece."""

    def drop(self, partition: Partition, notes: Sequence[AccessLog]) -> bool:
        """Drop a piece together with the notes about it, or nothing; a piece of memories only when it is empty.

        Says whether it was dropped. `changes` does not tell of access log entries that went with their month.
        """


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine of a cluster as it is now; with a remedy if it cannot serve."""

    name: str
    says: str
    remedy: str = ""


@runtime_checkable
class Distributable(Protocol):
    shard_count: int | None
    """Into how many pieces the tables are spread; None for as many as fit the machines."""

    def distribute(self) -> list[str]:
        """Spread the tables over the machines of a cluster, by tenant; gives the tables that were not spread before."""

    def machines(self) -> list[Machine]:
        """Every machine besides the one that was connected to, asked now; none where there is no cluster."""
