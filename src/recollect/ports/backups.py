"""The port for backups: a place that holds many, each of one moment, and stores what they share once.

A backup is listed when it is complete and not before. Deleting one leaves the others whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol

ContentKind = Literal["sqlite", "duckdb", "records"]
"""What a backup holds: a file of its store, or its records one by one, which any store can take."""
BytesDone = Callable[[int], None]
"""Told how many bytes more were read or written; may raise to stop the work."""


@dataclass(frozen=True, slots=True)
class BackedUpObject:
    """Large content of one tenant (ports/objects.py). `read` gives its bytes; only asked where they are new."""

    place: str
    digest: str
    size: int
    read: Callable[[], Iterable[bytes]]


@dataclass(frozen=True, slots=True)
class BackupInfo:
    """`bytes` is how much it holds, `new_bytes` how much of that was not in the place before, as it is stored."""

    id: str
    made_at: datetime
    kind: ContentKind
    bytes: int
    new_bytes: int
    objects: int
    digest: str
    encrypted: bool
    version: str


class BackupRepository(Protocol):
    """Every verb may raise Unavailable or one of its kinds where the place cannot be reached, is full or read-only."""

    @property
    def label(self) -> str:
        """Where it is, for people: without secrets."""

    def ids(self) -> list[str]:
        """Of the complete backups, newest first; none of them is read."""

    def info(self, id: str) -> BackupInfo:
        """One of them. Raises NotFound, and WrongKey where it is encrypted with another key."""

    def backups(self) -> list[BackupInfo]:
        """The complete backups, newest first. Raises WrongKey where one is encrypted with another key."""

    def write(
        self,
        kind: ContentKind,
        content: Path | Iterable[bytes],
        objects: Iterable[BackedUpObject],
        done: BytesDone,
    ) -> BackupInfo:
        """Store a backup. It is on disk and listed when this returns; killed before, it is not listed, and the next
        backup deletes what was left of it. Raises StoreBusy while another process writes to the place."""

    def content(self, id: str) -> Iterator[bytes]:
        """What a backup holds. Raises NotFound, and DamagedData before anything that is not as it was written."""

    def objects(self, id: str) -> Iterator[BackedUpObject]:
        """The large content of a backup."""

    def check(self, id: str, done: BytesDone) -> None:
        """Read everything of a backup. Raises DamagedData where it is not as it was written."""

    def delete(self, ids: Iterable[str]) -> None:
        """Delete backups, and what no other needs. Deleting one that is not there is no error."""


@dataclass(frozen=True, slots=True)
class BackupPolicy:
    """What the settings say about backups: where to, how often, and how many of each are kept."""

    to: str | None = None
    every_hours: float | None = None
    daily: int = 7
    weekly: int = 4
    monthly: int = 12
    verify: bool = True
