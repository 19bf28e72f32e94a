"""Whether the file under an open store is still the one that was opened: not deleted, exchanged, or written over.

Promise: what was copied over a file in use (`cp backup.db team.db` keeps the file and changes all of it) is noticed by
the next read or write, and neither is answered any more. Costs one look at the file's size and times; only when these
changed, at most once for each time that somebody moves the log, the file itself is read, without its log. There stands
the store's incarnation, and a seq that can only grow. Proof: tests/adapters/records/sqlite/test_sqlite_log.py.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import apsw

from recollect.adapters.atomic_file import identity, refuse_replaced
from recollect.adapters.records.sqlite.connection import APPLICATION_ID, address
from recollect.adapters.records.sqlite.page_encryption import ENCRYPTED_VFS, PLAIN_VFS, PageKey
from recollect.errors import FileReplaced

_LOOKS = 3
_PAUSE_SECONDS = 0.01
Stamp = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """What stands in the file itself, without its log; None where it cannot be told."""

    is_ours: bool | None = None
    incarnation: str | None = None
    seq: int = 0


class WatchedFile:
    """Of one open store; any thread may ask."""

    def __init__(self, path: Path, incarnation: str, key: PageKey | None = None) -> None:
        self._path, self._incarnation, self._key = path, incarnation, key
        self._opened = identity(path)
        self._lock = threading.Lock()
        self._name = str(path)  # each write looks four times, and to spell a path takes longer than to look
        self._seen: Stamp | None = _stamp(self._name)
        self._stood = standing(path, key) if self._opened else FileIdentity()
        self.is_written_over = False

    def check(self) -> None:
        """FileReplaced, once and for all, if the file is another than it was."""
        stamp = _stamp(self._name)
        if self.is_written_over:
            raise self._written_over()
        if stamp != self._seen:
            refuse_replaced(self._path, self._opened)
            self._look()

    def _look(self) -> None:
        """Somebody moved the log, or wrote over the file. Looked at more than once before the worse is believed."""
        with self._lock:
            for _ in range(_LOOKS):
                stamp = _stamp(self._name)
                if stamp == self._seen:
                    return
                found = standing(self._path, self._key)
                if not self._is_another(found):
                    self._remember(found, stamp)
                    return
                time.sleep(_PAUSE_SECONDS)
            self.is_written_over = True
        raise self._written_over()

    def _is_another(self, found: FileIdentity) -> bool:
        if found.incarnation is None:  # somebody may be moving the log this very moment
            return self._stood.is_ours is True and found.is_ours is False
        return found.incarnation != self._incarnation or found.seq < self._stood.seq

    def _remember(self, found: FileIdentity, stamp: Stamp | None) -> None:
        """What could not be read, or changed while it was, is looked at again the next time."""
        if found.incarnation is not None and stamp == _stamp(self._name):
            self._stood, self._seen = found, stamp

    def _written_over(self) -> FileReplaced:
        name = self._path.name
        return FileReplaced(
            f"'{name}' was written over while it was in use; nothing more is read from it or written to it",
            remedy=f"stop whoever has it open, move '{name}-wal', '-shm' and '-notes' away; then open what is there",
        )


def standing(path: Path, key: PageKey | None = None) -> FileIdentity:
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    is_ours: bool | None = None
    try:
        connection = apsw.Connection(address(path, immutable=1), flags=flags, vfs=ENCRYPTED_VFS if key else PLAIN_VFS)
    except apsw.CantOpenError:
        return FileIdentity()
    try:
        if key is not None:
            key.unlock(connection)
        is_ours = connection.execute("PRAGMA application_id").get == APPLICATION_ID
        kept = dict(connection.execute("SELECT key, value FROM recollect_store WHERE key IN ('incarnation', 'seq')"))
        return FileIdentity(is_ours, str(kept["incarnation"]), int(kept["seq"]))
    except apsw.NotADBError:
        return FileIdentity(is_ours=False)
    except (apsw.Error, KeyError, ValueError):  # it is being written; or new, and its tables are in the log
        return FileIdentity(is_ours)
    finally:
        connection.close()


def _stamp(path: str) -> Stamp | None:
    try:
        there = os.stat(path)
    except OSError:
        return None
    return there.st_dev, there.st_ino, there.st_size, there.st_mtime_ns, there.st_ctime_ns
