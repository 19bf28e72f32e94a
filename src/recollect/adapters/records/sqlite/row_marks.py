"""What every commit notes for those who keep rows in memory: enough to tell which of them are still as they were.

A program of an earlier version that writes beside us notes none. Its next new seq gives that away. What it writes
without one, where a passage of a text begins and ends, is seen when something else of that memory changes.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import NamedTuple

from recollect.adapters.records.sqlite.known_queries import KNOWN
from recollect.domain.memory import Embedding, Memory
from recollect.domain.record import Record

MOST_ENDED = 100


class RowMarks(NamedTuple):
    """Up to which `seq` they were noted, an `epoch` that is another one when rows changed in a way that no seq tells,
    and the seqs of the last vectors that ended, of so many in all."""

    seq: int
    epoch: str
    ended: int
    last_ended: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.seq} {self.epoch} {self.ended} {','.join(map(str, self.last_ended))}"


def read_marks(kept: object, seq: int) -> RowMarks | None:
    """None where the last commit was not by a program that notes marks."""
    try:
        noted, epoch, ended, last = str(kept).split(" ")
        if int(noted) != seq:
            return None
        return RowMarks(seq, epoch, int(ended), tuple(map(int, last.split(","))) if last else ())
    except ValueError:
        return None


def in_state(kept: object, number: int) -> str:
    """Marks of a file that is read in one of several states: what was read in another counts for nothing."""
    seq, _, others = str(kept).partition(" ")
    return f"{seq} {number}.{others}"


class MarksToCome:
    """The marks of a transaction that is being written."""

    def __init__(self, kept: object, seq: int) -> None:
        self._before = read_marks(kept, seq)
        self.is_changed = self._before is None
        """Whether rows changed in a way that no seq tells."""
        self.ended: list[int] = []

    @property
    def state(self) -> tuple[bool, tuple[int, ...]]:
        """What they are put back to where a part of the transaction is undone."""
        return self.is_changed, tuple(self.ended)

    @state.setter
    def state(self, before: tuple[bool, tuple[int, ...]]) -> None:
        self.is_changed, self.ended = before[0], list(before[1])

    def touched(self, record: type[Record], names: Iterable[str]) -> None:
        """Fields were written under the seq that the record has. What only counts is not kept by anybody."""
        self.is_changed |= record is Embedding or (record is Memory and not KNOWN.isdisjoint(names))

    def at(self, seq: int) -> str:
        before = self._before or RowMarks(seq, "", 0, ())
        epoch = secrets.token_hex(8) if self.is_changed else before.epoch
        last = (*before.last_ended, *self.ended)[-MOST_ENDED:]
        return str(RowMarks(seq, epoch, before.ended + len(self.ended), last))
