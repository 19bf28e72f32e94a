"""What a reader of files hands over: a table as a piece of SQL, and what it noticed on the way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from recollect.errors import TooLarge
from recollect.ports.data import ForeignKey, Limits, RejectedRow

SHOWN_REJECTS = 100


@dataclass
class RawTable:
    """`sql` returns the rows with columns c0, c1, …; `names` are their own. Text columns may become other types."""

    name: str
    sql: str
    names: list[str]
    notes: list[str] = field(default_factory=list)
    rejected: list[RejectedRow] = field(default_factory=list)
    rejected_count: int = 0
    is_typed: bool = False
    """Its types are known: only texts that are dates as ISO 8601 writes them become something else."""
    has_reject_table: bool = False
    foreign_keys: list[ForeignKey] = field(default_factory=list)


@dataclass(frozen=True)
class InputFile:
    """A file to read: where it is now (unpacked, in UTF-8), and what it was called."""

    path: Path
    name: str
    suffix: str
    folder: Path
    limits: Limits
    notes: list[str]

    @property
    def stem(self) -> str:
        stem = self.name
        for ending in (".gz", ".zst", ".zstd"):
            stem = stem.removesuffix(ending)
        return Path(stem).stem or "table"


def unique_names(names: Iterable[object], limits: Limits) -> list[str]:
    """Names as they are; where one is empty or there already (whatever its case), a number makes it one of its own."""
    found: list[str] = []
    taken: set[str] = set()
    for position, given in enumerate(names, 1):
        name = " ".join(str(given or "").replace("\0", "").split())[:200] or f"column_{position}"
        own, again = name, 2
        while own.lower() in taken:
            own, again = f"{name}_{again}", again + 1
        taken.add(own.lower())
        found.append(own)
    check_columns(len(found), limits)
    return found


def check_columns(count: int, limits: Limits) -> None:
    if count > limits.columns:
        raise TooLarge(
            f"the table has more than {limits.columns:,} columns", remedy="split it, or turn columns into rows"
        )
