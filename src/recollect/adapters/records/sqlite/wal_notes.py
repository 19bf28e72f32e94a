"""Notes beside a SQLite file (`team.db-notes`): what its log holds, and how far writes were acknowledged.

Pages in the log carry no checksum; the checksum VFS adds it when it moves them into the file. Another program that
moves them (whoever opens the file first after a crash) knows nothing of that, and its pages could not be told from
damaged ones. So after each commit the page numbers and checksums of its frames are noted here, with the store's seq:
proof later that a page is as it was written, and that nothing acknowledged is missing.

Notes are written after the commit is on disk and before it is acknowledged, without a sync of their own: they survive
the end of a process, and a power cut may take the last of them; what they say has always happened. The file goes away
with the log when the last process closes the store. Shape: a header with a checksum, then 12 bytes for each frame.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from recollect.adapters.atomic_file import is_named, locked
from recollect.adapters.records.sqlite.log_writes import Appended
from recollect.adapters.records.sqlite.wal import (
    FRAMES_AT_ONCE,
    LogHeader,
    log_of,
    open_log,
    read_at,
    read_frames,
    read_header,
)

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_HEADER = struct.Struct("<8s8sIIQQQ16sI")
_MAGIC = b"RCLNOTE1"
ENTRY_BYTES = 12
_NOBODY = b"\xff" * 16


@dataclass(frozen=True, slots=True)
class LogNote:
    """What the notes say: of which generation of the log, how many of its frames, and up to which seq.

    `lost_after` and `lost_upto` are seqs that were acknowledged and found missing; both 0 where none are.
    """

    salts: bytes = bytes(8)
    page_size: int = 0
    frames: int = 0
    seq: int = 0
    lost_after: int = 0
    lost_upto: int = 0
    store: bytes = bytes(16)

    @property
    def has_loss(self) -> bool:
        return self.lost_upto > self.lost_after


def notes_of(path: Path) -> Path:
    return path.with_name(path.name + "-notes")


def store_mark(incarnation: str) -> bytes:
    """Which store the notes are about: a file that was put in its place is another."""
    return sha256(incarnation.encode()).digest()[:16]


class LogNotes:
    """The notes of one store's file. Several processes write them, each under the file's lock."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = notes_of(path)
        self._handle: int | None = None
        self._log: int | None = None  # kept open: SQLite keeps the file itself for as long as somebody uses it
        self.buffer = bytearray()  # of the thread that writes

    def read(self) -> LogNote | None:
        """What is noted; None where nothing is, or it cannot be believed."""
        try:
            with self._file.open("rb", buffering=0) as file:
                return _parsed(file.read(_HEADER.size))
        except OSError:
            return None

    def entries(self, upto: int) -> Any:
        """The noted frames: rows of page number and checksum.

        No rows if the last process to close the store has just taken the notes along, with the log they were about.
        """
        import numpy as np

        try:
            with self._file.open("rb") as file:
                file.seek(_HEADER.size)
                raw = file.read(upto * ENTRY_BYTES)
        except FileNotFoundError:
            raw = b""
        return np.frombuffer(raw, "<u4", len(raw) // ENTRY_BYTES * 3).reshape(-1, 3)

    def add(
        self,
        frames: int,
        seq: int,
        store: bytes,
        settle: Callable[[LogNote], object],
        appended: Appended | None = None,
    ) -> None:
        """Note the log's frames up to here: those that were `appended`, if these are all that are not noted yet; else
        they are read. `settle` is called before the notes of an older log are given up.
        """
        self._log = open_log(self._path) if self._log is None else self._log
        header = read_header(self._log) if self._log is not None else None
        if self._log is None or header is None:
            return
        self.buffer = self.buffer or bytearray(FRAMES_AT_ONCE * header.frame_size)
        with self._held() as handle:
            noted = _parsed(_read(handle, _HEADER.size)) or LogNote()
            if noted.salts != header.salts:
                settle(noted)
                noted = replace(noted, salts=header.salts, page_size=header.page_size, frames=0)
            if frames > noted.frames:
                found = self._frames(header, noted.frames, frames, appended)
                if len(found) < frames - noted.frames:
                    return  # another process has begun the log anew since: it notes what it wrote
                _write(handle, found.astype("<u4", copy=False).tobytes(), _HEADER.size + noted.frames * ENTRY_BYTES)
            # Not by `replace`, which looks at each field by its name: this is done for each commit.
            now = LogNote(
                noted.salts,
                noted.page_size,
                max(frames, noted.frames),
                max(seq, noted.seq),
                noted.lost_after,
                noted.lost_upto,
                store,
            )
            _write(handle, _packed(now), 0)

    def _frames(self, header: LogHeader, first: int, upto: int, appended: Appended | None) -> Any:
        """Those of the log, as far as they are there."""
        if appended is not None:
            starts, salts, frames = appended
            if salts == header.salts and starts == header.place(first) and len(frames) == upto - first:
                return frames
        assert self._log is not None, "its header was read"
        return read_frames(self._log, header, first, upto, self.buffer)

    def note_loss(self, after: int, upto: int, store: bytes) -> None:
        """Keep in mind that these seqs are missing, and that they are taken."""
        with self._held() as handle:
            noted = _parsed(_read(handle, _HEADER.size)) or LogNote()
            after = min(after, noted.lost_after) if noted.has_loss else after
            upto = max(upto, noted.lost_upto)
            _write(handle, _packed(LogNote(seq=upto, lost_after=after, lost_upto=upto, store=store)), 0)
            os.fsync(handle)

    def accept_loss(self) -> None:
        """Somebody was told, and goes on with what is left."""
        with self._held() as handle:
            noted = _parsed(_read(handle, _HEADER.size)) or LogNote()
            _write(handle, _packed(replace(noted, lost_after=0, lost_upto=0)), 0)

    def disown(self) -> None:
        """Somebody wrote over the file: its log must never be moved into what is there now."""
        if self._handle is not None:
            with self._held() as handle:
                noted = _parsed(_read(handle, _HEADER.size)) or LogNote()
                _write(handle, _packed(replace(noted, store=_NOBODY)), 0)

    def let_go(self) -> None:
        """Of the log, before SQLite closes: some systems delete no file that is open."""
        if self._log is not None:
            os.close(self._log)
            self._log = None

    def close(self) -> None:
        """Let go; the last one takes the notes along, once the log is gone and there is nothing left to tell."""
        with suppress(OSError):  # there are none, or they are not ours to take along
            self._handle = self._handle or os.open(self._file, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
        if self._handle is None:
            return
        handle, self._handle = self._handle, None
        try:
            noted = _parsed(_read(handle, _HEADER.size))
            if not log_of(self._path).exists() and not (noted and noted.has_loss) and locked(handle, wait=False):
                with suppress(OSError):  # Windows: still open elsewhere; it stays, and is found to be outdated
                    self._file.unlink()
        finally:
            os.close(handle)

    @contextmanager
    def _held(self) -> Iterator[int]:
        """The file under its lock, which the kernel gives back if the process dies."""
        while self._handle is None:
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
            self._handle = os.open(self._file, flags, 0o600)
            locked(self._handle, wait=True)
            if not is_named(self._handle, self._file):  # who closed the store a moment ago took it along
                os.close(self._handle)
                self._handle = None
        locked(self._handle, wait=True)
        try:
            yield self._handle
        finally:
            if fcntl is not None:
                fcntl.flock(self._handle, fcntl.LOCK_UN)


def _parsed(raw: bytes) -> LogNote | None:
    if len(raw) < _HEADER.size:
        return None
    magic, salts, page_size, frames, seq, lost_after, lost_upto, store, checksum = _HEADER.unpack(raw)
    if magic != _MAGIC or checksum != zlib.crc32(raw[: _HEADER.size - 4]):
        return None
    return LogNote(salts, page_size, frames, seq, lost_after, lost_upto, store)


def _packed(noted: LogNote) -> bytes:
    fields = (noted.salts, noted.page_size, noted.frames, noted.seq, noted.lost_after, noted.lost_upto, noted.store)
    body = _HEADER.pack(_MAGIC, *fields, 0)[:-4]
    return body + struct.pack("<I", zlib.crc32(body))


def _read(handle: int, size: int) -> bytes:
    return read_at(handle, size, 0)


def _write(handle: int, data: bytes, offset: int) -> None:
    while data:
        written = _write_at(handle, data, offset)
        data, offset = data[written:], offset + written


def _write_at(handle: int, data: bytes, offset: int) -> int:
    if hasattr(os, "pwrite"):
        return os.pwrite(handle, data, offset)
    os.lseek(handle, offset, os.SEEK_SET)  # Windows; under the file's lock
    return os.write(handle, data)
