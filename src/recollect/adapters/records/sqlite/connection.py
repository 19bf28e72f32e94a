"""Opening a SQLite file safely: pragmas, page checksums, a pool of readers, and errors in our own words.

Every page carries a checksum (SQLite's checksum VFS, shipped with apsw): a flipped byte is an error, never an answer.
Measured: 6% on bulk writes, nothing on reads. Such a file can be read with any SQLite, but should be written only
through Recollect, since another program would leave the checksums stale (see sqlite_sealing for what then).
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw
import apsw.sqlite_extra

from recollect.adapters.records.common.file_errors import FileErrors, damaged
from recollect.adapters.records.sqlite import log_writes
from recollect.adapters.records.sqlite.page_encryption import ENCRYPTED_VFS, PageKey, is_encrypted
from recollect.errors import (
    Closed,
    DamagedData,
    DuplicateKey,
    NotARecollectStore,
    RecollectError,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreReadOnly,
)
from recollect.ports.folders import make_private

APPLICATION_ID = 0x52434C54  # "RCLT"
BUSY_SECONDS = 30.0
CHECKSUM_BYTES = 8
LARGEST_IDLE_LOG = 8_000_000
MOST_IDLE_READERS = 16
CACHE_KIB = 32_768
# Every commit empties it, so what is read again and again is kept beside it (known_rows.py): with 128 MB no recall was
# quicker, warm or cold. Only the few readers that are in use again and again keep theirs.
READ_CACHE_KIB = 32_768
MOST_WARM_READERS = 2
SMALLEST_PAGE = 512
_CHECKSUM_FAILED = 8202  # SQLITE_IOERR_DATA


@cache
def checksum_vfs() -> str | None:
    """The name of the VFS that checks every page, registered on first use; None where apsw lacks it."""
    if not apsw.sqlite_extra.has("cksumvfs"):
        return None
    apart = _ExtensionVfs() if hasattr(os, "RTLD_LOCAL") else None
    loader = apsw.Connection(":memory:", vfs=apart.name if apart else None)
    log_writes.lay_under(loader)
    apsw.sqlite_extra.load(loader, "cksumvfs")
    loader.close()
    return "cksmvfs"


class _ExtensionVfs(apsw.VFS):
    """Loads an extension so that its symbols stay its own.

    Extensions all export the same symbol, and SQLite loads them where every library sees it: with sqlite-vec in the
    same process, each called into the other's SQLite and the process died of a floating point exception.
    """

    name = "recollect-apart"

    def __init__(self) -> None:
        super().__init__(self.name, "")

    def xDlOpen(self, filename: str) -> int:
        mode = os.RTLD_NOW | os.RTLD_LOCAL | getattr(os, "RTLD_DEEPBIND", 0)
        return int(ctypes.CDLL(filename, mode=mode)._handle)


def connect(
    path: Path,
    *,
    writable: bool,
    vfs: str | None = None,
    key: PageKey | None = None,
    untouched: Mapping[str, int] | None = None,
) -> apsw.Connection:
    """A connection with what every one of ours has. With a key its pages are authenticated, and need no checksums.

    `untouched` are the options of an address under which SQLite writes nothing, nor what belongs to the file.
    """
    _refuse_scrap(path)
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI | (apsw.SQLITE_OPEN_CREATE if writable else 0)
    if untouched is not None:
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    try:
        if writable and vfs is None and path.parent.is_dir() and not path.exists():
            make_private(path)  # the log and its index get the mode of the file
        connection = apsw.Connection(
            address(path, **(untouched or {})),
            flags=flags,
            vfs=vfs or (checksum_vfs() if key is None else ENCRYPTED_VFS),
        )
    except apsw.CantOpenError as error:
        raise StoreError(
            f"cannot open '{path}'", remedy="check that its folder exists and that you may read and write there"
        ) from error
    if key is not None:
        key.unlock(connection)
    connection.set_busy_timeout(int(BUSY_SECONDS * 1000))
    # Otherwise SQLite looks at the values bound to a statement when it plans, and so plans (and parses) nearly every
    # statement again each time it is run with others: a tenth of a recall.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.execute("PRAGMA temp_store = memory")
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB if writable else READ_CACHE_KIB}")
    if writable:
        # A page with the right checksum is as it was written, so readers, who read many, are spared a look at each
        # cell: it was half of the time of a page that is not in the cache, and every commit empties the caches.
        connection.execute("PRAGMA cell_size_check = on")
    else:
        connection.execute("PRAGMA query_only = on")
    return connection


def _refuse_scrap(path: Path) -> None:
    """SQLite takes a file too short for a header for an empty one, and would write over it."""
    if path.is_file() and 0 < path.stat().st_size < SMALLEST_PAGE:
        raise NotARecollectStore(f"'{path.name}' is not a Recollect store", remedy="give another path")


def address(path: Path, **options: str | int) -> str:
    """The path as a URI, so that no path can be mistaken for options."""
    query = "&".join(f"{name}={value}" for name, value in options.items())
    return f"file:{quote(str(path.absolute()))}" + (f"?{query}" if query else "")


def refuse_foreign(connection: apsw.Connection, path: Path) -> None:
    if connection.execute("PRAGMA application_id").get != APPLICATION_ID:
        raise NotARecollectStore(
            f"'{path}' is a SQLite file of another program", remedy="give another path; this file was not changed"
        )


def begin(connection: apsw.Connection, key: PageKey | None = None) -> None:
    """Write the first page of a new file: it tells the checksum VFS to give every page a checksum.

    What is written before it has none; a copy writes it last, so one that is larger than the cache could not be opened.
    """
    if key is None and checksum_vfs():
        connection.reserve_bytes("main", CHECKSUM_BYTES)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def prepare(connection: apsw.Connection, path: Path, key: PageKey | None = None) -> None:
    """Make a new file ours, or make sure that an old one is."""
    is_new = connection.execute("PRAGMA schema_version").get == 0
    if not is_new:
        refuse_foreign(connection, path)
        checksummed(connection, path, key)
    elif key is None and checksum_vfs():
        connection.reserve_bytes("main", CHECKSUM_BYTES)
    connection.execute("PRAGMA journal_mode = wal")
    # NORMAL loses acknowledged writes in a power cut: 193 of 200 cuts, against none for FULL.
    connection.execute("PRAGMA synchronous = full")
    connection.execute("PRAGMA secure_delete = on")
    # The log is used over and over while a process lives: after a large import it would stay as large.
    connection.execute(f"PRAGMA journal_size_limit = {LARGEST_IDLE_LOG}")
    if is_new:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def seals_pages(connection: apsw.Connection) -> bool:
    """Whether the checksum VFS gives checksums to what this connection moves into the file.

    It looks at the header when the file is opened and when the first page is read from the file or written there. Who
    opens a file that is still empty, and then finds the first page in the log of the process that makes the store, is
    never told: its pages would look damaged to everybody else.
    """
    return bool(connection.execute("PRAGMA checksum_verification").get != "0")


def discard(path: Path) -> None:
    """Delete a SQLite file with what belongs to it, if it is there."""
    for ending in ("", "-journal", "-wal", "-shm", "-notes"):
        path.with_name(path.name + ending).unlink(missing_ok=True)


def emptied_log(connection: apsw.Connection) -> bool:
    """Move the log into the file and cut it off; False, and no error to SQLite, while somebody reads for too long.

    SQLite waits for readers by itself, but gives up at once when another connection is moving the log.
    """
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        is_busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").get
        if not is_busy or time.monotonic() > deadline:
            return not is_busy
        time.sleep(0.005)


def checksummed(connection: apsw.Connection, path: Path, key: PageKey | None = None) -> None:
    """A header that claims to have no room for checksums switches them off: it was damaged, or is not ours."""
    connection.execute("PRAGMA schema_version").get  # noqa: B018 - reads the header
    if key is None and checksum_vfs() and connection.reserve_bytes("main") != CHECKSUM_BYTES:
        raise DamagedData(f"the pages of '{path.name}' carry no checksums", remedy="restore a backup")


def translated_errors(path: Path) -> AbstractContextManager[None]:
    return FileErrors(path, apsw.Error, recollect_error)


def recollect_error(error: apsw.Error, path: Path) -> RecollectError:
    where = f"'{path.name}'"
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return StoreBusy(f"{where} is in use by another process", remedy="try again in a moment")
    if isinstance(error, apsw.FullError):
        return StoreFull(f"no space left for {where}", remedy="free some disk space; nothing was half written")
    if isinstance(error, apsw.ReadOnlyError | apsw.PermissionsError):
        return StoreReadOnly(f"{where} cannot be written", remedy="check the permissions of the file and its folder")
    if isinstance(error, apsw.NotADBError):
        if is_encrypted(path):  # the key was found right before
            return damaged(path)
        return NotARecollectStore(f"{where} is not a Recollect store", remedy="give another path")
    if isinstance(error, apsw.CorruptError) or getattr(error, "extendedresult", 0) == _CHECKSUM_FAILED:
        return damaged(path)
    if isinstance(error, apsw.CantOpenError):
        remedy = "check that you may write in its folder, and that not too many files are open (`ulimit -n`)"
        return StoreError(f"cannot open the files of {where}", remedy=remedy)
    if isinstance(error, apsw.IOError):
        return StoreError(f"the disk failed under {where}: {error}", remedy="check the disk, then try again")
    if isinstance(error, apsw.NoMemError):
        return StoreError(f"out of memory while using {where}", remedy="free some memory, then try again")
    return StoreError(f"{where}: {error}")


def duplicate_key(error: apsw.ConstraintError) -> DuplicateKey | StoreError:
    """What a refused row means: a key that is taken, or a value that the table does not take."""
    message = str(error)
    if "UNIQUE" not in message and "PRIMARY KEY" not in message:
        return StoreError(f"the store refused a value: {message}")
    what = message.partition("failed: ")[2]
    table = what.partition(".")[0] if "." in what else what.strip("index '").partition("_unique")[0]
    fields = [part.partition(".")[2] for part in what.split(", ") if "." in part and "organization_id" not in part]
    return DuplicateKey.of(table, fields)


def _counters(connection: apsw.Connection) -> Mapping[str, Any]:
    text = "SELECT key, value FROM recollect_store WHERE key IN"
    found = connection.execute(f"{text} ('incarnation', 'row_marks', 'seq', 'text_epoch', 'text_seq')").fetchall()
    return {str(key): value for key, value in found}


class _Held(threading.local):
    connection: apsw.Connection | None = None
    counters: Mapping[str, Any] | None = None


class Readers:
    """Connections for reading: one per thread that reads at the moment, kept for the next."""

    def __init__(self, path: Path, vfs: str | None, key: PageKey | None, check: Callable[[], None]) -> None:
        self._path = path
        self._vfs = vfs
        self._key = key
        self._check = check
        self._idle: list[apsw.Connection] = []
        self._lock = threading.Lock()
        self._closed = False
        self._process = os.getpid()
        self._held = _Held()

    @contextmanager
    def held(self) -> Iterator[None]:
        """All that this thread reads inside of the block comes from one connection and, until `renew`, one moment."""
        if self._held.connection is not None:
            yield
            return
        with self.snapshot() as connection:
            self._held.connection = connection
            try:
                yield
            finally:
                self._held.connection = self._held.counters = None

    @contextmanager
    def moment(self) -> Iterator[apsw.Connection]:
        """A connection for several readings of one moment: what is held, or else a transaction of its own."""
        if self._held.connection is None:
            with self.held(), self.one() as connection:
                yield connection
        else:
            with translated_errors(self._path):
                yield self._held.connection

    def counters(self, connection: apsw.Connection) -> Mapping[str, Any]:
        """Those of the store, as the transaction of a connection sees them: of what is held, they are read once."""
        if connection is not self._held.connection:
            return _counters(connection)
        if self._held.counters is None:
            self._held.counters = _counters(connection)
        return self._held.counters

    def renew(self) -> None:
        """What this thread holds, if anything, is of this moment from now on."""
        held = self._held.connection
        if held is not None:
            if not held.get_autocommit():
                held.execute("ROLLBACK")
            held.execute("BEGIN")
            self._held.counters = None

    @contextmanager
    def one(self, *, fresh: bool = False) -> Iterator[apsw.Connection]:
        """`check` is asked before and after: what was read while the file was written over is no answer."""
        held = self._held.connection
        if held is not None and not fresh:  # checked before and after all that is held
            with translated_errors(self._path):
                yield held
            return
        connection = self._take(fresh)
        try:
            with translated_errors(self._path):
                self._check()
                try:
                    yield connection
                finally:
                    self._check()
        finally:
            self._give_back(connection)

    @contextmanager
    def snapshot(self, *, fresh: bool = False) -> Iterator[apsw.Connection]:
        """A connection inside one read transaction: everything read is of one moment.

        Checks need a fresh one: the integrity check of a full-text table trusts what its connection cached before.
        """
        with self.one(fresh=fresh) as connection:
            if connection is self._held.connection:
                yield connection
                return
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                if not connection.get_autocommit():
                    connection.execute("ROLLBACK")

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _take(self, fresh: bool) -> apsw.Connection:
        if self._process != os.getpid():
            raise Closed("this store was opened before a fork", remedy="open it again in the child process")
        with self._lock:
            if self._closed:
                raise Closed("this store is closed", remedy="open it again")
            if self._idle and not fresh:
                return self._idle.pop()
        with translated_errors(self._path):
            try:
                connection = self._made()
                # The one who writes moves the log, after looking at it (see sqlite_keeping).
                connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                checksummed(connection, self._path, self._key)
            except apsw.Error:
                self._check()  # it may have another key by now
                raise
            return connection

    def _made(self) -> apsw.Connection:
        return connect(self._path, writable=False, vfs=self._vfs, key=self._key)

    def _give_back(self, connection: apsw.Connection) -> None:
        """Nobody else may come into a transaction that was not ended (by an error, or Ctrl-C): closing ends it."""
        with self._lock:
            if not self._closed and len(self._idle) < MOST_IDLE_READERS and connection.get_autocommit():
                if len(self._idle) >= MOST_WARM_READERS:
                    connection.release_memory()
                self._idle.append(connection)
                return
        connection.close()
