"""Pages that another program wrote into the file: told from damaged ones, and given the checksums they lack.

Any SQLite may read, back up or vacuum a store at any time. Whoever moves the log into the file without the checksum VFS
leaves new pages with an empty checksum and changed ones with that of an earlier state. What proves that such a page is
whole: the notes beside the log (`sqlite_notes`), the page as it stands in the log, or, where pages of the file bear the
mark of another program, the hashes and rules of the records. A page that nothing speaks for is damaged.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import apsw

from recollect.adapters.records.sqlite.connection import (
    BUSY_SECONDS,
    CHECKSUM_BYTES,
    address,
    checksum_vfs,
    translated_errors,
)
from recollect.adapters.records.sqlite.page_encryption import PLAIN_VFS
from recollect.adapters.records.sqlite.wal import open_log, page_sums, read_frames, read_header
from recollect.adapters.records.sqlite.wal_notes import LogNote, LogNotes
from recollect.ports.records import Problem
from recollect.ports.traces import PIECE_BYTES

_EMPTY = bytes(CHECKSUM_BYTES)
_AT_ONCE = 256
Sum = tuple[int, int]
log = logging.getLogger("recollect.records")


def seal_proven(path: Path, notes: LogNotes, noted: LogNote | None = None) -> int:
    """Give their checksums to the pages that the notes or the log prove; says how many lacked them."""
    if checksum_vfs() is None or not path.is_file():
        return 0
    noted = noted or notes.read()
    known = last_sums(notes.entries(noted.frames)) if noted and noted.frames else {}
    with _pages(path) as pages:
        if pages is None or not (wanting := pages.wanting(known.keys() | _in_log(path).keys())):
            return 0
        with write_locked(path):
            changed = changed_frames(path, notes, noted) if known and noted else []
            # Where notes and log disagree, the log proves nothing.
            sealed = pages.seal(wanting, known | _in_log(path) | {page: known[page] for page in changed})
    if sealed:
        log.warning(
            "%d pages of '%s' had no checksum, as when another program moves them there; they are whole, and sealed",
            sealed,
            path.name,
        )
    return sealed


def seal_by_content(path: Path, problems_of: Callable[[apsw.Connection], Iterable[Problem]]) -> int:
    """Give their checksums to pages that another program wrote, if all that is stored is in order; says how many.

    That a page with content has an empty checksum is the mark of another program (VACUUM, a backup by other means, new
    pages): damage does not leave such a thing. Without the mark, or when a rule or a hash of the records does not hold,
    nothing is sealed.
    """
    if checksum_vfs() is None or not path.is_file():
        return 0
    with _pages(path) as pages:
        if pages is None or not pages.has_foreign():
            return 0
        with write_locked(path) as connection:
            found = list(islice(problems_of(connection), 1))
            if found:
                log.error("'%s' was written by another program, and is not in order: %s", path.name, found[0].what)
                return 0
            moved = _in_log(path)
            everywhere = (number for number in range(1, pages.count() + 1) if number not in moved)
            sealed = pages.seal(pages.wanting(everywhere), None)
    log.warning("another program wrote %d pages of '%s'; all is in order, and sealed again", sealed, path.name)
    return sealed


@contextmanager
def write_locked(path: Path) -> Iterator[apsw.Connection]:
    """Nobody writes meanwhile. Reads without looking at checksums, and never moves the log."""
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(address(path), flags=flags, vfs=PLAIN_VFS)
    try:
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.set_busy_timeout(int(BUSY_SECONDS * 1000))
        connection.execute("BEGIN IMMEDIATE")
        yield connection
    finally:
        connection.close()


def last_sums(entries: Any) -> dict[int, Sum]:
    """The checksum of each page as it was written last."""
    return {number: (first, second) for number, first, second in entries.tolist()}


def changed_frames(
    path: Path, notes: LogNotes, noted: LogNote, first: int = 0, buffer: bytearray | None = None
) -> list[int]:
    """The pages of the log's frames that are not what was noted when they were written."""
    handle = open_log(path)
    if handle is None:
        return []
    try:
        header = read_header(handle)
        if header is None or header.salts != noted.salts:
            return []
        known = notes.entries(noted.frames)[first:]
        found = read_frames(handle, header, first, noted.frames, buffer)
        if not len(known) or (len(found) == len(known) and (known == found).all()):
            return []
        if read_header(handle) != header:  # begun anew while we looked: what it held before is in the file
            return []
    finally:
        os.close(handle)
    if len(found) < len(known):
        return [int(known[len(found)][0])]
    return [int(page) for page in known[(known != found).any(axis=1), 0]]


def _in_log(path: Path) -> dict[int, Sum]:
    """The pages that the log holds now: whoever moves it next writes these."""
    handle = open_log(path)
    if handle is None:
        return {}
    try:
        header = read_header(handle)
        if header is None:
            return {}
        return last_sums(read_frames(handle, header, 0, os.fstat(handle).st_size // header.frame_size))
    finally:
        os.close(handle)


@contextmanager
def _pages(path: Path) -> Iterator[_Pages | None]:
    """The file's pages, if they have room for checksums. Opened by SQLite's own means: closing a file that was opened
    in another way would let go of all locks that this process has on it.
    """
    with translated_errors(path):
        file = apsw.VFSFile(PLAIN_VFS, str(path.absolute()), [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE, 0])
        try:
            header = file.xRead(100, 0) if file.xFileSize() >= 512 else bytes(100)
            size = int.from_bytes(header[16:18], "big")
            size = 65536 if size == 1 else size
            known = header.startswith(b"SQLite format 3\x00") and header[20] == CHECKSUM_BYTES and size >= 512
            yield _Pages(file, size) if known else None
        finally:
            file.xClose()


def file_pieces(path: Path) -> Iterator[bytes]:
    """The bytes of a file as they are on disk, read by SQLite's own means, as above."""
    flags = [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0]
    file = apsw.VFSFile(PLAIN_VFS, str(path.absolute()), flags)
    try:
        size = file.xFileSize()
        for start in range(0, size, PIECE_BYTES):
            yield file.xRead(min(PIECE_BYTES, size - start), start)
    finally:
        file.xClose()


class _Pages:
    def __init__(self, file: apsw.VFSFile, size: int) -> None:
        self._file, self._size = file, size

    def count(self) -> int:
        return self._file.xFileSize() // self._size

    def has_foreign(self) -> bool:
        """Whether a page with content has an empty checksum. (Only the checksum of an empty page is empty.)"""
        for number in range(1, self.count() + 1):
            checksum = self._file.xRead(CHECKSUM_BYTES, number * self._size - CHECKSUM_BYTES)
            if checksum == _EMPTY and any(self._read(number)):
                return True
        return False

    def wanting(self, numbers: Iterable[int]) -> list[int]:
        """Those of these pages whose checksum is missing or wrong."""
        import numpy as np

        there = sorted(number for number in numbers if number <= self.count())
        found: list[int] = []
        for start in range(0, len(there), _AT_ONCE):
            some = there[start : start + _AT_ONCE]
            raw = b"".join(self._read(number) for number in some)
            pages = np.frombuffer(raw, "<u4").reshape(len(some), self._size // 4)
            wrong = (page_sums(pages) != pages[:, -CHECKSUM_BYTES // 4 :]).any(axis=1)
            found += [number for number, is_wrong in zip(some, wrong.tolist(), strict=True) if is_wrong]
        return found

    def seal(self, numbers: Iterable[int], known: dict[int, Sum] | None) -> int:
        """Write their checksums; with `known`, only of the pages that are as known."""
        import numpy as np

        sealed = 0
        for number in numbers:
            page = np.frombuffer(self._read(number), "<u4").reshape(1, self._size // 4)
            first, second = page_sums(page)[0].tolist()
            if known is None or known.get(number) == (first, second):
                checksum = first.to_bytes(4, "little") + second.to_bytes(4, "little")
                self._file.xWrite(checksum, number * self._size - CHECKSUM_BYTES)
                sealed += 1
        if sealed:
            self._file.xSync(apsw.SQLITE_SYNC_FULL)
        return sealed

    def _read(self, number: int) -> bytes:
        return self._file.xRead(self._size, (number - 1) * self._size)
