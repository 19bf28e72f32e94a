"""The folder of segments that several processes share.

Names carry their range and a generation: `<after>-<upto>-<generation>.seg`. There is no manifest to disagree with:
the segments in force are worked out from the names (the wider range wins, then the younger generation; what they cover
is left over and deleted by the next writer). A file is written under another name, synced, renamed, and the folder
synced, so a name that is there is whole. Only the holder of the lock writes or deletes what is left over; anybody may
delete a segment that is damaged or belongs to another store. Readers keep their mapping of a deleted file.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from recollect.adapters.atomic_file import write_whole
from recollect.adapters.encryption.sealed import SealedWriter
from recollect.adapters.folder_lock import FolderLock
from recollect.adapters.vectors.embedded.segment import DamagedSegment, Segment, open_segment, parse
from recollect.ports.keys import Writable

_NAME = re.compile(r"([0-9a-f]{16})-([0-9a-f]{16})-([0-9a-f]{8})\.seg")

Write = Callable[[Writable], None]


class SegmentName(NamedTuple):
    after: int
    upto: int
    generation: int

    def __str__(self) -> str:
        return f"{self.after:016x}-{self.upto:016x}-{self.generation:08x}.seg"


def parse_name(text: str) -> SegmentName | None:
    match = _NAME.fullmatch(text)
    return SegmentName(*(int(part, 16) for part in match.groups())) if match else None


def in_force(segments: Iterable[Segment]) -> list[Segment]:
    """The segments to use: in order, without overlap, the wider first; gaps are possible and are the caller's."""
    chosen: list[Segment] = []
    reached = 0
    for segment in sorted(segments, key=_preference):
        if segment.after >= reached and segment.upto > reached:
            chosen.append(segment)
            reached = segment.upto
    return chosen


def _preference(segment: Segment) -> tuple[int, int, bool, int]:
    name = parse_name(segment.path.name) if segment.path else None
    return segment.after, -segment.upto, name is None, -name.generation if name else 0


class SegmentFolder:
    """One folder. Without a path nothing is shared or kept: segments live in memory."""

    def __init__(self, path: Path | None, key: bytes | None = None, *, readonly: bool = False) -> None:
        self.path = path
        self._key = key
        self._readonly = readonly
        self._lock = FolderLock(path) if path is not None else None

    def stamp(self) -> int:
        """Changes when a file came or went; costs one stat. A missed change costs no answer, only speed."""
        if self.path is None:
            return 0
        try:
            return self.path.stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def names(self) -> list[str]:
        if self.path is None:
            return []
        try:
            return sorted(name for name in os.listdir(self.path) if parse_name(name))
        except FileNotFoundError:
            return []

    def open_all(self, known: Iterable[Segment]) -> tuple[list[Segment], dict[str, str]]:
        """Every readable segment (the known ones as they are, if still there), and why the others are not."""
        if self.path is None:
            return [segment for segment in known if segment.path is None], {}
        mapped = {(segment.path, segment.inode): segment for segment in known}
        opened = [segment for segment in known if segment.path is None]
        damaged: dict[str, str] = {}
        for name in self.names():
            path = self.path / name
            try:
                old = mapped.get((path, path.stat().st_ino))
                opened.append(old or self._open(path))
            except FileNotFoundError:
                continue  # merged away by another process since we listed
            except DamagedSegment as error:
                damaged[name] = error.message
        return opened, damaged

    def _open(self, path: Path) -> Segment:
        segment, name = open_segment(path, key=self._key), parse_name(path.name)
        if name is None or (segment.after, segment.upto) != (name.after, name.upto):
            raise DamagedSegment(segment, "the name tells another range than the file")
        return segment

    def discard(self, path: Path, inode: int | None = None) -> None:
        """Delete a segment that must not be used; with `inode`, only if it is still that very file."""
        if self._readonly:
            return
        with contextlib.suppress(OSError):  # read-only or on Windows still mapped: it stays unused
            if inode is None or path.stat().st_ino == inode:
                path.unlink()

    @contextlib.contextmanager
    def lock(self) -> Iterator[bool]:
        """Whether we may write; never waits."""
        if self._readonly:
            yield False
            return
        if self._lock is None:
            yield True
            return
        with self._lock.hold() as mine:
            yield mine

    def put(self, after: int, upto: int, write: Write) -> Segment:
        """Make a segment: whole and synced under its name, or not there at all. Needs the lock."""
        if self.path is None:
            return in_memory(write)
        generation = 1 + max((name.generation for name in map(parse_name, self.names()) if name), default=0)
        path = self.path / str(SegmentName(after, upto, generation))
        write_whole(self.path / f"{path.name}.tmp", path, partial(_written, write, self._key))
        return self._open(path)

    def tidy(self, keep: Iterable[Segment]) -> None:
        """Delete what is left over from merges and from writers that died. Needs the lock."""
        if self.path is None:
            return
        kept = {segment.path.name for segment in keep if segment.path}
        for name in os.listdir(self.path):
            if name.endswith(".seg.tmp") or (parse_name(name) and name not in kept):
                self.discard(self.path / name)


def _written(write: Write, key: bytes | None, file: Writable) -> None:
    if key is None:
        write(file)
        return
    sealed = SealedWriter(file, key)
    write(sealed)
    sealed.end()


def in_memory(write: Write) -> Segment:
    buffer = io.BytesIO()
    write(buffer)
    return parse(memoryview(buffer.getvalue()), checked=True)
