"""The ports for cold storage: the files that records are moved to, and the places where such files may lie.

A file holds the records of one session, one row each, in the order in which they can be written again. The whole record
is one JSON text, so nothing is lost by types; the other columns are what a search goes by.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from recollect.ports.objects import ObjectStore
from recollect.ports.records import Scope


@dataclass(frozen=True, slots=True)
class ColdRow:
    """`terms` are the words that `text` is found by (domain/text/tokenizer.py)."""

    table: str
    id: str
    record: str
    kind: str | None = None
    moment: datetime | None = None
    text: str | None = None
    terms: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ColdQuery:
    """What to look for: rows with any of the terms, or all rows without terms; from `since` on and before `until`."""

    terms: Sequence[str]
    tables: Sequence[str]
    limit: int
    kinds: Sequence[str] = ()
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class ColdHit:
    """A row that was found: in which file, and how many of the terms it has."""

    file: str
    table: str
    id: str
    kind: str | None
    moment: datetime | None
    text: str
    matched: int


class ColdFiles(Protocol):
    def write(self, rows: Iterable[ColdRow], target: Path) -> int:
        """Write a compressed file; how many rows. Raises StoreFull."""

    def read(self, path: Path) -> Iterator[ColdRow]:
        """The rows in the order in which they were written. Raises DamagedData if the file is not such a file."""

    def search(self, files: Mapping[str, Path], query: ColdQuery) -> list[ColdHit]:
        """The rows of all these files that pass, those with most of the terms first, then the newest."""


class ColdPlaces(Protocol):
    def __call__(self, address: str | None, scope: Scope) -> ObjectStore:
        """Where an address leads; None is the store's own large content. Raises Denied for callers over the network
        where the operator has not opened that address, and InvalidInput for what is not an address.
        """

    @property
    def default(self) -> str | None:
        """The address to use where none is given."""

    def spelt(self, address: str) -> str:
        """The one spelling of an address, by which it is stored."""

    def close(self) -> None: ...
