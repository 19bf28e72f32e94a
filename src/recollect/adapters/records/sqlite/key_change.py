"""Another key for a SQLite file, or a first one, or none: it is written anew and takes the place of the old one.

Promises: killed at any moment, the store opens with the old key or with the new one, and nothing acknowledged is lost;
of the old file no byte is left. Others may have the store open: they wait to write until it is done, and are then told
that the file was replaced (`file_identity`); who opens it meanwhile waits. SQLite3 Multiple Ciphers could change pages
in place, but not under a write-ahead log, and not from plain pages to encrypted ones, which are larger.
Proof: tests/adapters/records/sqlite/test_key_change.py, tests/crash/test_key_change.py.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw

from recollect.adapters.atomic_file import identity, is_named, locked, sync_file, sync_folder, unfinished
from recollect.adapters.encryption.master_key import MasterKey
from recollect.adapters.records.common.replaced_file import replace_wiping, take_logs_away, wipe_replaced
from recollect.adapters.records.common.sql_compiler import quoted
from recollect.adapters.records.sqlite.connection import (
    BUSY_SECONDS,
    address,
    begin,
    checksum_vfs,
    connect,
    discard,
    translated_errors,
)
from recollect.adapters.records.sqlite.page_encryption import (
    CIPHER,
    ENCRYPTED_VFS,
    PLAIN_VFS,
    PageKey,
    new_page_key,
    page_key,
)
from recollect.errors import StoreBusy

Progress = Callable[[int, int], object]
_PAUSE_SECONDS = 0.02


def change_key(path: Path, old: MasterKey | None, new: MasterKey | None, progress: Progress) -> None:
    """Of a store that was opened and closed before, so that its tables and its log are in order."""
    with translated_errors(path), _changing(path):
        key, copy = page_key(path, old), path.with_name(path.name + ".rekeyed.part")
        with closing(_connected(path, key)) as writer, closing(_connected(path, key)) as mover:
            writer.execute("BEGIN IMMEDIATE")  # nobody writes from here on
            discard(copy)
            with unfinished(path, copy):
                try:
                    _write_copy(copy, new_page_key(new) if new is not None else None, path, key, progress)
                    shutil.copymode(path, copy)
                    sync_file(copy)
                    _move_log(mover, path)
                    replace_wiping(path, copy)
                finally:
                    discard(copy)


def _connected(path: Path, key: PageKey | None) -> apsw.Connection:
    connection = connect(path, writable=True, key=key)
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    return connection


def _write_copy(copy: Path, key: PageKey | None, source: Path, source_key: PageKey | None, progress: Progress) -> None:
    """All that the source holds, as VACUUM INTO would write it; that cannot leave less room on each page for its
    checksum than there was for its authentication, and writes the page first that says so last."""
    vfs = checksum_vfs() or PLAIN_VFS
    options = (
        {"vfs": ENCRYPTED_VFS, "cipher": CIPHER, "key": source_key.text} if source_key else {"vfs": vfs, "key": ""}
    )
    with closing(connect(copy, writable=True, key=key)) as target:
        begin(target, key)
        target.execute("PRAGMA journal_mode = off")
        target.execute("PRAGMA synchronous = off")  # synced when it is whole
        target.execute("ATTACH ? AS source", (address(source, **options),))
        target.execute("PRAGMA writable_schema = on")  # else nobody may make the tables of the planner and of searches
        target.execute("BEGIN")
        stored = "FROM source.sqlite_schema WHERE rootpage > 0 AND type = ? AND sql IS NOT NULL"
        tables = target.execute(f"SELECT name, sql {stored}", ("table",)).fetchall()
        for number, (name, made) in enumerate(tables):
            progress(number, len(tables))
            target.execute(str(made))
            target.execute(f"INSERT INTO main.{quoted(str(name))} SELECT * FROM source.{quoted(str(name))}")
        for (made,) in target.execute(f"SELECT sql {stored}", ("index",)).fetchall():
            target.execute(str(made))
        target.execute("INSERT INTO main.sqlite_schema SELECT * FROM source.sqlite_schema WHERE rootpage = 0")
        if key is None:
            target.execute("DELETE FROM main.recollect_store WHERE key = 'index_key'")
        target.execute("COMMIT")
        progress(len(tables), len(tables))


def _move_log(mover: apsw.Connection, path: Path) -> None:
    """All of it into the file, which can then be without: a process that is killed leaves the old file whole."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        frames, moved = mover.wal_checkpoint("main", mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        if frames <= moved:
            return
        if time.monotonic() > deadline:
            raise StoreBusy(
                f"the key was not changed: somebody reads '{path.name}'", remedy="try again when they are done"
            )
        time.sleep(_PAUSE_SECONDS)


def wait_for_change(path: Path) -> bool:
    """Whether somebody changes the key: then waits for the end of it. What a killed process began is finished."""
    deadline = time.monotonic() + BUSY_SECONDS
    waited = False
    while (handle := _open_mark(path)) is not None:
        try:
            if locked(handle, wait=False):
                _finish(path, handle)
                return waited
        finally:
            os.close(handle)
        waited = True
        if time.monotonic() > deadline:
            raise StoreBusy(f"the key of '{path.name}' is being changed", remedy="try again in a moment")
        time.sleep(_PAUSE_SECONDS)
    return waited


@contextmanager
def _changing(path: Path) -> Iterator[None]:
    """Whoever opens the store meanwhile waits: the locks of SQLite are in files that are exchanged.

    The mark says which file is replaced, so it can be told whether it was; the log beside it belongs to that one.
    """
    handle = os.open(_mark(path), os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        # Who found the mark of a killed process deletes it: then nobody would see ours.
        if not locked(handle, wait=False) or not is_named(handle, _mark(path)):
            raise StoreBusy(f"the key of '{path.name}' is being changed by another process", remedy="try again")
        if not os.fstat(handle).st_size:
            os.write(handle, str(identity(path)).encode())
            os.fsync(handle)
            sync_folder(path.parent)
        try:
            yield
        finally:
            _finish(path, handle)
    finally:
        os.close(handle)


def _finish(path: Path, mark: int) -> None:
    """For who has the lock of the mark."""
    os.lseek(mark, 0, os.SEEK_SET)
    old = os.read(mark, 100).decode()
    if old and old != str(identity(path)):
        take_logs_away(path)
    wipe_replaced(path)
    _mark(path).unlink(missing_ok=True)


def _mark(path: Path) -> Path:
    return path.with_name(path.name + ".key-change")


def _open_mark(path: Path) -> int | None:
    try:
        return os.open(_mark(path), os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
    except FileNotFoundError:
        return None
