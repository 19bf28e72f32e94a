"""What keeps a SQLite file's log honest: noted after each commit, looked at before it is moved, never lost in silence.

Promises: a byte that changed in the log is not sealed into the file; acknowledged writes that a cut or damaged log lost
are named; a file that was deleted or replaced takes no more writes.
Proof: tests/adapters/records/sqlite/test_sqlite_log.py.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

import apsw

from recollect.adapters.records.sqlite.file_identity import WatchedFile, standing
from recollect.adapters.records.sqlite.foreign_pages import changed_frames, seal_proven
from recollect.adapters.records.sqlite.log_writes import Appended
from recollect.adapters.records.sqlite.page_encryption import PageKey
from recollect.adapters.records.sqlite.wal import open_log, read_header
from recollect.adapters.records.sqlite.wal_notes import LogNote, LogNotes, store_mark
from recollect.errors import DamagedData, FileReplaced
from recollect.ports.records import Problem

MOVE_PAGES = 1800
"""So long may the log get before it is moved into the file: as long as it may stay when it was moved
(`LARGEST_IDLE_LOG`). With half of that, SQLite's own default, the same pages were moved more often."""
log = logging.getLogger("recollect.records")


class LogGuard:
    """Of the connection that writes."""

    def __init__(
        self,
        path: Path,
        connection: apsw.Connection,
        notes: LogNotes,
        damage: DamagedData | None,
        key: PageKey | None = None,
    ) -> None:
        self._path, self._connection, self._notes = path, connection, notes
        incarnation = _incarnation(connection)
        self.place = WatchedFile(path, incarnation, key)
        self._store = store_mark(incarnation)
        self._frames = 0
        self._looked_at = (b"", 0)  # of which generation of the log, how many frames were found in order
        self._settled = b""  # the generation that this process moved into the file, whole
        self.damage = damage
        # Also ends SQLite's own moving of the log, which would not look at it first.
        connection.set_wal_hook(self._wrote)

    def begin(self) -> None:
        """Before a transaction: whether it makes sense to write."""
        self._frames = 0
        self.same_file()
        if self.damage is not None:
            raise self.damage

    def same_file(self) -> None:
        """For the thread that writes; others ask the place itself."""
        try:
            self.place.check()
        except FileReplaced:
            if self.place.is_written_over:
                self._notes.disown()
            raise

    def committed(self, seq: int, appended: Appended | None = None) -> None:
        """After a commit, before it is acknowledged. It is on disk already: trouble here is told, and fails nobody."""
        if not self._frames:
            return
        try:
            self._notes.add(self._frames, seq, self._store, self._settle, appended)
        except (OSError, apsw.Error) as error:
            log.warning("the log of '%s' could not be noted: %s", self._path.name, error)

    def move_if_long(self) -> bool:
        """After the commit was acknowledged; whether it was tried. The next to write would see that the file has
        changed, and look whether it is still the same: that is done here, too.
        """
        if self._frames < MOVE_PAGES:
            return False
        self._frames = 0
        try:
            self.move()
            self.same_file()
        except (OSError, apsw.Error) as error:
            log.warning("the log of '%s' could not be moved: %s", self._path.name, error)
        except FileReplaced:
            pass  # whoever comes next is told
        return True

    def note(self) -> None:
        """Note what the log holds already: what was migrated, or written by those before us."""
        if self.damage is not None:
            return
        seq = int(self._connection.execute("SELECT value FROM recollect_store WHERE key = 'seq'").get)
        frames, _ = self._connection.wal_checkpoint("main", mode=apsw.SQLITE_CHECKPOINT_NOOP)
        self._frames = max(frames, 0)
        self.committed(seq)
        self.move_if_long()

    def move(self, mode: int = apsw.SQLITE_CHECKPOINT_PASSIVE) -> bool:
        """Move the log into the file, if it is as it was written; whether all of it was moved.

        For the thread that writes: what it notes commits with serves to look at them again.
        """
        self.look(buffer=self._notes.buffer)
        if self.damage is not None:
            return False
        noted = self._notes.read()
        try:
            frames, moved = self._connection.wal_checkpoint("main", mode=mode)
        except apsw.BusyError:
            return False
        if frames == moved and noted is not None:
            self._settled = noted.salts
        return frames == moved

    def look(self, *, everything: bool = False, buffer: bytearray | None = None) -> None:
        """Compare the log with the notes, those frames at least that were not looked at before."""
        noted = self._notes.read()
        if noted is None or self.damage is not None:
            return
        salts, first = self._looked_at
        first = first if salts == noted.salts and not everything else 0
        changed = changed_frames(self._path, self._notes, noted, first, buffer)
        if changed:
            self.damage = _damage(self._path, changed)
            log.error("%s", self.damage)
        else:
            self._looked_at = (noted.salts, noted.frames)

    def look_first(self) -> None:
        """Before somebody else moves or copies the log: DamagedData if it must stay where it is."""
        if not self.is_sound() and self.damage is not None:
            raise self.damage

    def is_sound(self) -> bool:
        self.place.check()
        self.look(everything=True)
        return self.damage is None

    def close(self) -> None:
        """The last connection moves the log and deletes it by name: neither must happen to a log that is damaged, or to
        one that belongs to another file by now."""
        self._notes.let_go()
        try:
            self.same_file()
            self.look(everything=True)
        except FileReplaced:
            self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        if self.damage is not None:
            self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)

    def _wrote(self, connection: apsw.Connection, name: str, pages: int) -> int:
        self._frames = pages
        return apsw.SQLITE_OK

    def _settle(self, noted: LogNote) -> None:
        if noted.frames and noted.salts != self._settled:
            seal_proven(self._path, self._notes, noted)


def log_problems(path: Path, notes: LogNotes) -> list[Problem]:
    """What `verify` says about the log: changed bytes, and acknowledged writes that are missing."""
    noted = notes.read()
    if noted is None:
        return []
    problems = []
    if noted.has_loss:
        problems.append(Problem(what=loss(noted)))
    changed = changed_frames(path, notes, noted)
    if changed:
        problems.append(Problem(what=_damage(path, changed).message))
    return problems


def loss(noted: LogNote) -> str:
    return (
        f"acknowledged changes {noted.lost_after + 1} to {noted.lost_upto} are missing: "
        "the log was cut, damaged or deleted after the process had ended"
    )


def log_damage(connection: apsw.Connection, path: Path, notes: LogNotes, noted: LogNote | None) -> DamagedData | None:
    """What is wrong with a log that others use as well: SQLite checks it only for the first who opens it.

    After a crash it does: what is behind a damaged frame is cut off then, and `note_loss` says what is missing.
    """
    if noted is None or not noted.frames:
        return None
    frames, _ = connection.wal_checkpoint("main", mode=apsw.SQLITE_CHECKPOINT_NOOP)
    changed = changed_frames(path, notes, noted) if frames >= noted.frames else []
    if not changed:
        return None
    damage = _damage(path, changed)
    log.error("%s", damage)
    return damage


def move_lost_header(connection: apsw.Connection, path: Path, notes: LogNotes, noted: LogNote | None) -> None:
    """Move the log into a file whose first page a power cut made unreadable while it was moved there.

    The log still has that page, or this connection could not read: pages are moved in their order, so it comes first,
    and from it the checksum VFS learns that the others have checksums. A file that another process is just making has
    no pages yet, and is left alone.
    """
    if not path.stat().st_size:
        return
    damage = log_damage(connection, path, notes, noted)
    if damage is not None:
        raise damage
    connection.wal_checkpoint("main", mode=apsw.SQLITE_CHECKPOINT_FULL)


def note_loss(connection: apsw.Connection, path: Path, notes: LogNotes, noted: LogNote | None) -> None:
    """Whether all that was noted before this connection was made is there.

    What is missing keeps its numbers: none is given out twice. Upkeep gives out none: of that, only frames are missing.
    """
    if noted is None or noted.store != store_mark(_incarnation(connection)):
        return
    seq = int(connection.execute("SELECT value FROM recollect_store WHERE key = 'seq'").get)
    frames, _ = connection.wal_checkpoint("main", mode=apsw.SQLITE_CHECKPOINT_NOOP)
    if seq >= noted.seq and (frames >= noted.frames or not is_current(path, noted)):
        return
    seal_proven(path, notes, noted)
    notes.note_loss(min(seq, noted.seq), noted.seq, noted.store)
    if seq >= noted.seq:
        return
    connection.execute("UPDATE recollect_store SET value = max(value, ?) WHERE key = 'seq'", (noted.seq,))
    log.error("'%s': %s", path.name, loss(LogNote(lost_after=seq, lost_upto=noted.seq)))


def is_current(path: Path, noted: LogNote) -> bool:
    """Whether the notes are about the log that is there."""
    handle = open_log(path)
    if handle is None:
        return False
    try:
        header = read_header(handle)
        return header is not None and header.salts == noted.salts
    finally:
        os.close(handle)


def refuse_other_log(path: Path, noted: LogNote | None, key: PageKey | None = None) -> None:
    """SQLite would write the log that it finds into whatever file has the name, a restored backup, say."""
    if noted is None or not noted.frames or not path.is_file() or not is_current(path, noted):
        return
    if not path.stat().st_size:  # SQLite would delete the log
        raise DamagedData(
            f"'{path.name}' is empty, but '{path.name}-wal' holds what was written to it: something has cut it off",
            remedy="restore a backup; to begin a new store here, move the file and its '-wal' and '-notes' away",
        )
    alone = standing(path, key).incarnation
    if alone is not None and store_mark(alone) != noted.store:
        raise FileReplaced(
            f"the log '{path.name}-wal' belongs to another file than '{path.name}': one was put in the other's place",
            remedy=f"stop whoever has it open, then move '{path.name}-wal', '-shm' and '-notes' away",
        )


def _damage(path: Path, pages: list[int]) -> DamagedData:
    return DamagedData(
        f"the log of '{path.name}' is not what was written to it: {len(pages)} pages, the first is {pages[0]}",
        remedy="nothing more is written to it; restore a backup, or save what can be read with `recollect export FILE "
        "--damaged skip` and import that into a new store",
    )


def _incarnation(connection: apsw.Connection) -> str:
    return str(connection.execute("SELECT value FROM recollect_store WHERE key = 'incarnation'").get)
