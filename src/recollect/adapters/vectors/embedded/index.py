"""The embedded vector index: a `VectorStore` beside the record store's own file, for millions of vectors.

The promise: a search sees every row committed before it began, whichever process wrote it, and never shows a dead
row or one of another tenant, because all it returns was read from the truth in its own snapshot. The files are
derived: deleted, damaged, cut short, left by a killed process or by another store, they are noticed and made again.
Searches of few rows (16 million numbers: 43,000 rows of 384) are answered exactly; for larger ones see search.py.

The shape: immutable segments in `folder` (segment.py, segment_folder.py) and the rows after them in memory
(unsealed_rows.py), brought up to date at the start of each search (state.py), searched in stages (search.py). A daemon
thread seals `seal_rows` rows at a time and merges segments; it starts when there is something to do. Processes share
the folder: one at a time writes, all read.

Locks: `_lock` guards the state and is held while files are noticed, the snapshot opened and rows read from it, never
during a scan or a write. `_writer` and the folder's lock are only ever tried, never waited for under `_lock`.

What proves it: tests/property/test_index_equals_truth.py, tests/crash/test_index_crash.py.
"""

from __future__ import annotations

import contextlib
import errno
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recollect.adapters.vectors.embedded import kernels
from recollect.adapters.vectors.embedded.quantization import Key, Query, Section, Source
from recollect.adapters.vectors.embedded.search import CANDIDATES, EXACT_VALUES, Disagreement, Search
from recollect.adapters.vectors.embedded.segment import DamagedSegment, SealedSection, Segment, write_segment
from recollect.adapters.vectors.embedded.segment_folder import SegmentFolder
from recollect.adapters.vectors.embedded.state import IndexState, MergeJob, differing, extend, merge_job
from recollect.adapters.vectors.embedded.unsealed_rows import UnsealedRows, UnsealedSection
from recollect.adapters.vectors.exact import VectorFilter
from recollect.background_thread import BackgroundThread
from recollect.errors import Closed, DamagedData, StoreBusy, StoreError, StoreFull, StoreReadOnly
from recollect.ports.keys import Writable
from recollect.ports.vectors import CountsLiving, Passing, VectorHit, VectorRow, VectorSnapshot, VectorTruth

SEAL_ROWS = 20_000
_DEAD_SHARE = 0.25  # a segment with more dead rows is written again without them
_PATIENCE_SECONDS = 60.0


class _Stopped(Exception):
    """The index is being closed while a segment is written."""


class EmbeddedIndex:
    """Nearest vectors of one tenant in one space; `folder=None` keeps everything in memory; with a `key` the files are
    encrypted."""

    label = "the embedded index"

    def __init__(
        self,
        truth: VectorTruth,
        folder: Path | None,
        *,
        key: bytes | None = None,
        readonly: bool = False,
        background: bool = True,
        seal_rows: int = SEAL_ROWS,
        exact_values: int = EXACT_VALUES,
        candidates: int = CANDIDATES,
    ) -> None:
        self._truth = truth
        self._exact_values = exact_values
        self._candidates = candidates
        self._folder = SegmentFolder(folder, key, readonly=readonly)
        self._state = IndexState(self._folder, seal_rows)
        self._lock = threading.Lock()
        self._writer = threading.Lock()
        self._upkeep = BackgroundThread(
            "recollect.index", self._keep_up, complaint="maintenance of the vector index failed"
        )
        self._stopping = self._upkeep.stopping
        self._background = background and not readonly
        self._many_dead = False
        self._enough_at = 0  # before this seq there cannot be enough rows to seal

    def kernel(self) -> str:
        return kernels.described()

    # -- searching ---------------------------------------------------------------------------------------------------

    def search(
        self,
        organization_id: str,
        space: str,
        query: NDArray[np.float32],
        limit: int,
        where: Mapping[str, Collection[str | None]] | None = None,
    ) -> list[VectorHit]:
        return self._searched(VectorFilter.of(organization_id, space, where), query, limit)

    def search_passing(
        self,
        organization_id: str,
        space: str,
        query: NDArray[np.float32],
        limit: int,
        where: Mapping[str, Collection[str | None]] | None,
        passing: Passing,
    ) -> list[VectorHit]:
        return self._searched(VectorFilter.of(organization_id, space, where), query, limit, passing)

    def _searched(
        self, row_filter: VectorFilter, query: NDArray[np.float32], limit: int, passing: Passing | None = None
    ) -> list[VectorHit]:
        asked = Query.of(query)
        doubts = 0
        for _ in range(100):  # each failed attempt has set one segment aside; there are some ten
            with ExitStack() as stack:
                with self._lock:
                    snapshot = self._open(stack)
                    sections = self._state.sections((row_filter.space, len(asked.exact)))
                search = Search(
                    sections, row_filter, asked, limit, self._exact_values, self._candidates, doubts > 8, passing
                )
                try:
                    hits = search.run(snapshot)
                except DamagedSegment as error:
                    self._set_aside(error.segment, error.message)
                except Disagreement as error:
                    doubts += 1
                    self._distrust(error.section)
                else:
                    self._learn(search)
                    return hits
        raise DamagedData("the vector index is damaged faster than it can be rebuilt", remedy="check the disk")

    def _open(self, stack: ExitStack) -> VectorSnapshot:
        """A snapshot, with the state caught up to it. In this order and under the lock: see state.py."""
        if self._stopping.is_set():
            raise Closed("the vector index is closed")
        self._state.notice()
        snapshot = stack.enter_context(self._truth.vector_snapshot())
        self._state.catch_up(snapshot)
        if len(self._state.unsealed) >= self._state.seal_rows:
            self._call_upkeep()
        return snapshot

    def _set_aside(self, segment: Segment | None, reason: str) -> None:
        if segment is not None:
            with self._lock:
                self._state.set_aside(segment, reason)

    def _distrust(self, section: Section) -> None:
        if isinstance(section, SealedSection):
            self._set_aside(section.guard.owner(), "it describes other vectors than the store holds")
        else:
            with self._lock:
                self._state.forget()

    def _learn(self, search: Search) -> None:
        if search.asked >= 64 and 2 * search.dead > search.asked:
            self._many_dead = True
            self._call_upkeep()

    # -- upkeep ------------------------------------------------------------------------------------------------------

    def hint(self, seq: int) -> None:
        """Tell that rows up to `seq` were committed: lets a process that only writes seal, too. Reads nothing."""
        if seq >= self._enough_at and seq - self._state.unsealed.after >= self._state.seal_rows:
            self._call_upkeep()

    def refresh(self) -> None:
        self._many_dead = True
        self._insist(force=True)

    def purge(self) -> None:
        """Leave no code of a dead row in any file: after an erasure."""
        self._insist(force=True, dead_share=0.0)

    def _insist(self, *, force: bool, dead_share: float = _DEAD_SHARE) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        fresh: list[Segment] = []
        while True:
            with _typed_errors():
                done = self._work(force=force, dead_share=dead_share, fresh=fresh)
            if done is False:
                return
            if done is None:  # somebody else writes
                if time.monotonic() > deadline:
                    raise StoreBusy("another process is writing the vector index", remedy="try again later")
                time.sleep(0.02)

    def _work(
        self, *, force: bool = False, dead_share: float = _DEAD_SHARE, fresh: list[Segment] | None = None
    ) -> bool | None:
        """Do one piece of upkeep. True: done, look again. False: nothing to do. None: somebody else writes.

        What was made goes into `fresh` and is not compacted again: rows may go on dying faster than we write.
        """
        fresh = [] if fresh is None else fresh
        with ExitStack() as stack:
            with self._lock:
                if not stack.enter_context(self._may_write()):
                    return None
                snapshot = self._open(stack)
                self._folder.tidy(self._state.segments)
                job = self._state.plan(force=force)
                segments = list(self._state.segments)
                if job is None:  # most seqs are not of vectors: without this each commit would have us look again
                    self._enough_at = snapshot.last_seq() + self._state.seal_rows - self._state.waiting()
            try:
                if job is None and (self._many_dead or dead_share == 0.0):
                    job = _compaction([one for one in segments if one not in fresh], snapshot, dead_share)
                if job is None:
                    self._many_dead = False
                    return False
                segment = self._make(job, snapshot)
            except DamagedSegment as error:
                self._set_aside(error.segment, error.message)
                return True
        # Only now, without the folder's lock: who holds `_lock` may be sealing a bulk load and need the folder.
        with self._lock:
            self._state.take(segment)
        fresh.append(segment)
        return True

    @contextlib.contextmanager
    def _may_write(self) -> Iterator[bool]:
        if not self._writer.acquire(blocking=False):
            yield False
            return
        try:
            with self._folder.lock() as mine:
                yield mine
        finally:
            self._writer.release()

    def _make(self, job: MergeJob, snapshot: VectorSnapshot) -> Segment:
        heading = self._state.heading(job.after, job.upto, snapshot.last_seq())
        living = np.fromiter(snapshot.living_seqs(job.after, job.upto), np.int64)

        def write(file: Writable) -> None:
            write_segment(_StoppableFile(file, self._stopping), heading, job.sources, living)

        return self._folder.put(job.after, job.upto, write)

    def _call_upkeep(self) -> None:
        if self._background:
            self._upkeep.wake()

    def _keep_up(self) -> None:
        try:
            while not self._stopping.is_set() and self._work():
                pass
        except _Stopped:
            return

    def rebuild(self) -> int:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            with _typed_errors(), ExitStack() as stack:
                if stack.enter_context(self._may_write()):
                    return self._rebuild(stack)
            if time.monotonic() > deadline:
                raise StoreBusy("another process is writing the vector index", remedy="try again later")
            time.sleep(0.02)

    def _rebuild(self, stack: ExitStack) -> int:
        """Old segments serve until the new one is there, which covers them all and so replaces them."""
        with self._lock:
            snapshot = self._open(stack)
        last, pieces = snapshot.last_seq(), []
        after = 0
        while after < last:
            piece = UnsealedRows(after)
            while piece.upto < last and len(piece) < 3 * self._state.seal_rows:
                extend(piece, snapshot, last)
            pieces.append(self._put(piece.after, piece.upto, piece.sections(), last))
            after = piece.upto
        if pieces:
            whole = merge_job(pieces)
            made = self._put(0, last, whole.sources, last) if len(pieces) > 1 else pieces[0]
            with self._lock:
                self._state.take(made)
                self._folder.tidy(self._state.segments)
        with self._lock:
            return self._state.rows()

    def _put(self, after: int, upto: int, sources: Sequence[Source], seen: int) -> Segment:
        heading = self._state.heading(after, upto, seen)
        return self._folder.put(after, upto, lambda file: write_segment(file, heading, sources))

    # -- checking ----------------------------------------------------------------------------------------------------

    def behind(self) -> int:
        """Every search begins with what no segment covers yet: it is never behind."""
        return 0

    def verify(self) -> list[str]:
        opened, unreadable = self._folder.open_all([])
        found = [f"index segment {name}: {reason}" for name, reason in unreadable.items()]
        for segment in opened:
            try:
                segment.check_all()
            except DamagedSegment as error:
                found.append(f"index segment {segment.path}: {error.message}")
        differing: list[str] = []
        with ExitStack() as stack:
            with self._lock:
                snapshot = self._open(stack)
                segments, unsealed = list(self._state.segments), self._state.unsealed.sections()
                start = self._state.unsealed.after
            for segment in segments:
                try:
                    differing += _compare(segment.sections.values(), snapshot, segment.after, segment.upto)
                except DamagedSegment as error:
                    found.append(f"index segment {segment.path}: {error.message}")
            differing += _compare(unsealed, snapshot, start, snapshot.last_seq())
        return [*dict.fromkeys(found), *differing]

    def close(self) -> None:
        self._upkeep.stop(_PATIENCE_SECONDS)
        with self._lock:
            self._state.segments, self._state.unsealed = [], UnsealedRows(0)


class _StoppableFile:
    """A file that stops a long write when the index is closed."""

    def __init__(self, file: Writable, stopping: threading.Event) -> None:
        self._file = file
        self._stopping = stopping

    def write(self, data: bytes | memoryview, /) -> object:
        if self._stopping.is_set():
            raise _Stopped
        return self._file.write(data)


@contextlib.contextmanager
def _typed_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreFull(
                "no space left for the vector index", remedy="free some disk space; searches keep working"
            ) from error
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise StoreReadOnly(
                "the folder of the vector index cannot be written", remedy="make it writable; searches keep working"
            ) from error
        raise StoreError(f"the vector index cannot be written: {error.strerror}") from error


def _compaction(segments: Sequence[Segment], snapshot: VectorSnapshot, dead_share: float) -> MergeJob | None:
    for segment in segments:
        columns = [section.column("seq") for section in segment.sections.values()]
        if isinstance(snapshot, CountsLiving):
            # Reading the seqs of a million rows takes half a second, counting them some hundredths.
            held = segment.rows, sum(int(column.sum()) for column in columns)
            if snapshot.living_sum(segment.after, segment.upto) == held:
                continue
        living = np.fromiter(snapshot.living_seqs(segment.after, segment.upto), np.int64)
        dead = sum(int(np.isin(column, living, invert=True).sum()) for column in columns)
        if dead > dead_share * segment.rows:
            return merge_job([segment])
    return None


def _compare(
    sections: Collection[SealedSection | UnsealedSection], snapshot: VectorSnapshot, after: int, upto: int
) -> Iterator[str]:
    """One sentence for each living row in (after, upto] that is missing in the sections or described otherwise."""
    known = {section.key: _BySeq.of(section) for section in sections}
    while after < upto:
        rows = [row for row in snapshot.rows_after(after, 2048) if row.seq <= upto]
        if not rows:
            return
        after = rows[-1].seq
        groups: dict[Key, list[VectorRow]] = {}
        for row in rows:
            if row.vector and len(row.vector) % 2 == 0:
                groups.setdefault((row.space, len(row.vector) // 2), []).append(row)
        for key, group in groups.items():
            yield from _compare_group(known.get(key), group)


class _BySeq(NamedTuple):
    """A section, its seqs in order, and the row number of each."""

    section: SealedSection | UnsealedSection
    seqs: NDArray[np.int64]
    rows: NDArray[np.int64]

    @staticmethod
    def of(section: SealedSection | UnsealedSection) -> _BySeq:
        seqs = np.asarray(section.column("seq"))
        order = np.argsort(seqs)
        return _BySeq(section, seqs[order], order)

    def row_of(self, seq: int) -> int | None:
        place = int(np.searchsorted(self.seqs, seq))
        return int(self.rows[place]) if place < len(self.seqs) and self.seqs[place] == seq else None


def _compare_group(known: _BySeq | None, rows: Sequence[VectorRow]) -> Iterator[str]:
    found = [(row, known.row_of(row.seq) if known else None) for row in rows]
    yield from ("a vector is missing in the vector index" for _, number in found if number is None)
    present = [(row, number) for row, number in found if number is not None]
    if known and present:
        numbers = np.array([number for _, number in present], np.int64)
        for _row in differing(known.section, numbers, [row for row, _ in present]):
            yield "a vector or its facets are others in the vector index"
