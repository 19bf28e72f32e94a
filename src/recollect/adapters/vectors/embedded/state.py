"""What one process holds of the index, segments and unsealed rows, and how it catches up with the truth.

The promise: after `catch_up(snapshot)`, every row that is alive in the snapshot is in exactly one segment or among
the unsealed. It rests on the order of things: files are noticed first, the snapshot is opened next, and both under the
index's lock, so whatever was left out as dead was dead in an older snapshot, and no seq ever
comes back to life. (The other way round, a merge could drop a row that an older snapshot still needs.)

A segment is admitted when it belongs to this incarnation, ends within the truth, and some of its rows, the last one
among them, are what the truth says. Otherwise it is deleted, and the gap is read from the truth again, in pieces.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recollect.adapters.vectors.embedded import quantization
from recollect.adapters.vectors.embedded.quantization import Key, Section, Source
from recollect.adapters.vectors.embedded.segment import (
    DamagedSegment,
    Heading,
    SealedSection,
    Segment,
    write_segment,
)
from recollect.adapters.vectors.embedded.segment_folder import SegmentFolder, in_force, in_memory
from recollect.adapters.vectors.embedded.unsealed_rows import UnsealedRows, UnsealedSection, columns_of
from recollect.adapters.vectors.exact import decode
from recollect.ports.keys import Writable
from recollect.ports.vectors import FACETS, VectorRow, VectorSnapshot

log = logging.getLogger("recollect.vectors")

_READ_ROWS = 2048
_WITNESSES = 8
_FAN_IN = 4


@dataclass(frozen=True)
class MergeJob:
    """Segments and unsealed rows to become one segment."""

    after: int
    upto: int
    sources: Sequence[Source]


class IndexState:
    """Not safe for threads by itself: every call is made under the index's lock."""

    def __init__(self, folder: SegmentFolder, seal_rows: int) -> None:
        self.folder = folder
        self.seal_rows = seal_rows
        self.segments: list[Segment] = []
        self.unsealed = UnsealedRows(0)
        self.incarnation: str | None = None
        self._seen = 0
        self._stamp = -1
        self._noticed: list[Segment] | None = None

    # -- catching up -------------------------------------------------------------------------------------------------

    def notice(self) -> None:
        """See which files came and went; before the snapshot is opened."""
        stamp = self.folder.stamp()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        opened, damaged = self.folder.open_all(self.segments)
        for name, reason in damaged.items():
            log.warning("index segment %s is set aside and rebuilt: %s", name, reason)
            if self.folder.path is not None:
                self.folder.discard(self.folder.path / name)
        self._noticed = opened

    def catch_up(self, snapshot: VectorSnapshot) -> None:
        last = snapshot.last_seq()
        if self.incarnation is None:
            self.incarnation = snapshot.incarnation
        elif snapshot.incarnation != self.incarnation or last < self._seen:
            log.warning("the store was replaced: its vector index is rebuilt")
            self.forget(snapshot.incarnation)
        self._admit(snapshot, last)
        for after, upto in list(self._gaps()):
            self._fill(snapshot, after, upto)
        self._extend_unsealed(snapshot, last)
        self._seen = last

    def forget(self, incarnation: str | None = None) -> None:
        """Start afresh; the files are looked at again, as if just opened."""
        self.segments, self.unsealed = [], UnsealedRows(0)
        self.incarnation = incarnation or self.incarnation
        self._seen, self._stamp = 0, -1
        self.notice()

    def _admit(self, snapshot: VectorSnapshot, last: int) -> None:
        if self._noticed is None:
            return
        trusted = {id(segment) for segment in self.segments}
        admitted = []
        for segment in self._noticed:
            reason = "" if id(segment) in trusted else self._objection(segment, snapshot, last)
            if not reason:
                admitted.append(segment)
                continue
            log.warning("index segment %s is set aside and rebuilt: %s", segment.path, reason)
            if segment.path is not None:
                self.folder.discard(segment.path, segment.inode)
        self._noticed = None
        self._use(admitted)

    def _use(self, segments: Iterable[Segment]) -> None:
        self.segments = in_force(segments)
        end = self.segments[-1].upto if self.segments else 0
        if end > self.unsealed.after:
            self.unsealed = self.unsealed.later_than(end)

    def _objection(self, segment: Segment, snapshot: VectorSnapshot, last: int) -> str:
        if segment.incarnation != self.incarnation:
            return "it belongs to another store"
        if not segment.after <= segment.upto <= segment.seen <= last:
            return "it is newer than the store"
        try:
            return "" if witnesses_agree(segment, snapshot) else "it describes other vectors than the store holds"
        except DamagedSegment as error:
            return error.message

    def _gaps(self) -> Iterator[tuple[int, int]]:
        reached = 0
        for segment in self.segments:
            if segment.after > reached:
                yield reached, segment.after
            reached = segment.upto
        if self.unsealed.after > reached:
            yield reached, self.unsealed.after

    def _fill(self, snapshot: VectorSnapshot, after: int, upto: int) -> None:
        """Read a gap from the truth again; in pieces, so that memory stays bounded whatever its size."""
        while after < upto:
            piece = UnsealedRows(after)
            while piece.upto < upto and len(piece) < 3 * self.seal_rows:
                extend(piece, snapshot, upto)
            self._use([*self.segments, self.freeze(piece, snapshot.last_seq())])
            after = piece.upto

    def _extend_unsealed(self, snapshot: VectorSnapshot, last: int) -> None:
        while self.unsealed.upto < last:
            extend(self.unsealed, snapshot, last)
            if len(self.unsealed) >= 3 * self.seal_rows:  # a bulk load: seal right here, memory stays bounded
                self._use([*self.segments, self.freeze(self.unsealed, last)])

    def freeze(self, unsealed: UnsealedRows, seen: int) -> Segment:
        """Unsealed rows as a segment: a file if we may write one now, else in memory until upkeep writes it."""
        heading = self.heading(unsealed.after, unsealed.upto, seen)
        sources = unsealed.sections()

        def write(file: Writable) -> None:
            write_segment(file, heading, sources)

        try:
            with self.folder.lock() as mine:
                if mine:
                    return self.folder.put(unsealed.after, unsealed.upto, write)
        except (OSError, DamagedSegment) as error:  # full, read-only: the answers stay right, the memory grows
            log.warning("a part of the vector index stays in memory for now: %s", error)
        return in_memory(write)

    def heading(self, after: int, upto: int, seen: int) -> Heading:
        return Heading(self.incarnation or "", after, upto, seen)

    # -- reading and changing ----------------------------------------------------------------------------------------

    def sections(self, key: Key) -> list[Section]:
        found: list[Section] = [segment.sections[key] for segment in self.segments if key in segment.sections]
        unsealed = self.unsealed.section(key)
        return [*found, unsealed] if unsealed else found

    def rows(self) -> int:
        return sum(segment.rows for segment in self.segments) + len(self.unsealed)

    def take(self, segment: Segment) -> None:
        """Use a segment made by upkeep instead of what it covers, unless the store became another one meanwhile."""
        if segment.incarnation == self.incarnation and segment.seen <= self._seen:
            outside = [other for other in self.segments if other.upto <= segment.after or other.after >= segment.upto]
            self._use([segment, *outside])

    def set_aside(self, segment: Segment, reason: str) -> None:
        """Never use it again; the next `catch_up` reads its range from the truth."""
        if segment in self.segments:
            log.warning("index segment %s is set aside and rebuilt: %s", segment.path or "in memory", reason)
        self.segments = [other for other in self.segments if other is not segment]
        if segment.path is not None:
            self.folder.discard(segment.path, segment.inode)

    def _first_in_memory(self) -> int:
        """From which segment on none is in a file."""
        first = len(self.segments)
        while self.folder.path is not None and first and self.segments[first - 1].path is None:
            first -= 1
        return first

    def waiting(self) -> int:
        """Rows that are in memory alone."""
        return sum(segment.rows for segment in self.segments[self._first_in_memory() :]) + len(self.unsealed)

    def plan(self, *, force: bool) -> MergeJob | None:
        """The next piece of upkeep: write what is only in memory, else merge segments of about one size."""
        first = self._first_in_memory()
        unsealed, waiting = self.segments[first:], self.waiting()
        if waiting >= self.seal_rows or (waiting and force):
            after = unsealed[0].after if unsealed else self.unsealed.after
            return MergeJob(after, self.unsealed.upto, [*sources_of(unsealed), *self.unsealed.sections()])
        homeless = [segment for segment in self.segments[:first] if segment.path is None]
        if self.folder.path is not None and homeless:
            return merge_job(homeless[:1])
        run = merge_run([segment.rows for segment in self.segments])
        return merge_job(self.segments[run]) if run else None


def sources_of(segments: Iterable[Segment]) -> list[Source]:
    return [section for segment in segments for section in segment.sections.values()]


def merge_job(segments: Sequence[Segment]) -> MergeJob:
    return MergeJob(segments[0].after, segments[-1].upto, sources_of(segments))


def merge_run(rows: Sequence[int]) -> slice | None:
    """Neighbours to merge: four or more, together at least twice their largest, the smallest sizes first.

    Sizes then grow by fours: a row is copied about log4(rows / seal_rows) times, three times on the way to a
    million, and a query meets some ten segments. Without "twice" three small seals would rewrite a big neighbour.
    """
    tiers = [(count + 1).bit_length() // 2 for count in rows]
    for tier in sorted(set(tiers)):
        start = 0
        for stop in range(len(tiers) + 1):
            if stop == len(tiers) or tiers[stop] > tier:
                run = rows[start:stop]
                if len(run) >= _FAN_IN and sum(run) >= 2 * max(run):
                    return slice(start, stop)
                start = stop + 1
    return None


def extend(unsealed: UnsealedRows, snapshot: VectorSnapshot, upto: int) -> None:
    """Read the next rows, none beyond `upto`."""
    rows = snapshot.rows_after(unsealed.upto, _READ_ROWS)
    within = [row for row in rows if row.seq <= upto]
    unsealed.add(within, upto if len(rows) < _READ_ROWS or len(within) < len(rows) else rows[-1].seq)


# -- comparing with the truth ----------------------------------------------------------------------------------------


def witnesses_agree(segment: Segment, snapshot: VectorSnapshot) -> bool:
    """Whether some rows of a segment, the youngest among them, are what the truth says. The dead say nothing."""
    sections = list(segment.sections.values())[:: max(1, len(segment.sections) // _WITNESSES)]
    for section in sections:
        each = max(1, _WITNESSES // len(sections))
        numbers = np.unique([section.last, *np.linspace(0, len(section) - 1, each, dtype=np.int64).tolist()])
        seqs = section.at("seq", numbers)
        place = dict(zip(seqs.tolist(), numbers.tolist(), strict=True))
        rows = snapshot.rows_at(seqs.tolist())
        if differing(section, np.array([place[row.seq] for row in rows], np.int64), rows):
            return False
    return True


def differing(
    section: SealedSection | UnsealedSection, numbers: NDArray[np.int64], rows: Sequence[VectorRow]
) -> list[VectorRow]:
    """The rows of the truth that the section describes otherwise, at the given row numbers."""
    space, dimensions = section.key
    alien = [row for row in rows if (row.space, len(row.vector)) != (space, 2 * dimensions)]
    if alien or not rows:
        return alien
    truth = columns_of(rows, quantization.encode(decode(rows, dimensions)))
    wrong = section.tenants_at(numbers) != truth["tenant"]
    wrong |= (section.at("coarse", numbers) != truth["coarse"]).any(axis=1)
    for name in ("scale", *FACETS):
        wrong |= section.at(name, numbers) != truth[name]
    return [row for row, is_wrong in zip(rows, wrong.tolist(), strict=True) if is_wrong]
