"""Opening a DuckDB file safely: one process, a lock of our own, cursors for readers, and errors in our own words.

DuckDB guards its file with a POSIX lock, which is lost as soon as anything in the process opens and closes the file,
and which must be let go of while the file is rewritten. So a second lock is held on a file beside it for as long as the
store is open. Nothing outside the store's own files can be read or written through its connections, no extension is
fetched or loaded, and the configuration is locked, so that even a statement that escaped our checks reaches nothing.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import duckdb

from recollect.adapters.atomic_file import (
    atomic_path,
    clear_unfinished,
    identity,
    is_named,
    refuse_replaced,
    sync_file,
)
from recollect.adapters.encryption.master_key import MasterKey
from recollect.adapters.records.common.file_errors import FileErrors, damaged, disk_error
from recollect.adapters.records.common.file_keys import no_key, not_encrypted, wrong_key
from recollect.adapters.records.common.replaced_file import replace_wiping, wipe_replaced
from recollect.adapters.records.common.sql_compiler import quoted
from recollect.domain.record import new_id
from recollect.errors import (
    Closed,
    InvalidInput,
    MissingExtra,
    NotARecollectStore,
    RecollectError,
    StoreBusy,
    StoreError,
)

try:
    import fcntl
except ImportError:  # no POSIX: DuckDB's own lock must do
    fcntl = None  # type: ignore[assignment]

MOST_IDLE_CURSORS = 16
ONE_PROCESS = (
    "a DuckDB store is for one process: close the other one, or use a SQLite file or PostgreSQL where several share a"
    " store; `recollect export` and `import` move memories there"
)
_CONFIGURATION: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
    "allow_persistent_secrets": "false",
    # A query by a user may limit itself; nothing else can be changed once the file is open.
    "allowed_configs": ["max_execution_time", "operator_memory_limit"],
}
_CATALOG = "encrypted_store"
CRYPTOGRAPHY = "LOAD httpfs"
"""DuckDB decrypts by itself, but what makes its encryption secure (OpenSSL) is in an extension. It is never fetched."""
LOGS = (".wal", ".wal.checkpoint", ".wal.recovery")
_DAMAGE = re.compile(
    "corrupt|checksum|AES tag|deserializ|serialization|not a valid|truncated|could not read enough", re.I
)


class DuckdbFile:
    """The open file: hands out cursors, and can be rewritten while nobody holds one."""

    def __init__(self, path: Path, master: MasterKey | None = None, *, to_encrypt: bool = False) -> None:
        self.path = path
        self._to_encrypt = to_encrypt  # copies, though the file is plain
        self._key = _key_of(master)
        self.work = path.with_name(path.name + ".work")
        self._process = os.getpid()
        self._gate = threading.Condition()
        self._mine = threading.local()
        self._using = 0  # cursors in use
        self._waiting = 0  # who wants to be alone
        self._owner: int | None = None  # the thread that is
        self._idle: list[duckdb.DuckDBPyConnection] = []
        self._main: duckdb.DuckDBPyConnection | None = None  # none while it must be opened anew
        self._closed = False
        self._place: tuple[int, int] | None = None  # which file was opened
        with translated_errors(path):
            self._lock = _locked(path)
            try:
                clear_unfinished(path)
                wipe_replaced(path)
                self._main = self._opened()
            except BaseException:
                self._unlock()
                raise
        # A thread that is still inside DuckDB when Python ends takes the whole process down with it.
        atexit.register(self.close)

    @contextmanager
    def cursor(self, *, once: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection of one's own for as long as it is needed; with `once`, nobody uses it before or after."""
        self._enter()
        try:
            with translated_errors(self.path):
                cursor = self._take(once)
                try:
                    yield cursor
                except BaseException as error:
                    self._throw_away(cursor, error)
                    raise
                self._give_back(cursor, once)
        finally:
            self._leave()

    @contextmanager
    def snapshot(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor inside one read transaction: everything read is of one moment."""
        with self.cursor() as cursor:
            cursor.execute("BEGIN TRANSACTION READ ONLY")
            try:
                yield cursor
            finally:
                end(cursor)

    def copy(self, target: Path, *, incarnation: str | None = None) -> None:
        """All the tables as of one moment, in a new file; others go on reading and writing meanwhile."""
        self._copy(target, self._key, incarnation)

    def _copy(self, target: Path, key: str | None, incarnation: str | None = None) -> None:
        discard(target)
        copy = quoted(f"copy-{new_id()}")  # all connections see it, and two copies may be made at once
        with self.cursor() as cursor:
            ((name,),) = cursor.execute("SELECT current_database()").fetchall()
            cursor.execute(_attaching(target, copy, key))
            try:
                cursor.execute(f"COPY FROM DATABASE {quoted(name)} TO {copy}")
                if key is None:
                    cursor.execute(f"DELETE FROM {copy}.recollect_store WHERE key = 'index_key'")
                if incarnation is not None:
                    anew = f"UPDATE {copy}.recollect_store SET value = ? WHERE key = 'incarnation'"
                    cursor.execute(anew, [incarnation])
            finally:
                cursor.execute(f"DETACH {copy}")

    def rewrite(self) -> None:
        """Put a copy in the place of the file: DuckDB leaves what was deleted in the free blocks of the old one.

        Nobody reads or writes meanwhile. Killed at any moment, the old file or the new one is there, whole: the log of
        the old one is moved into it first, and the new one takes its name in one step.
        """
        if self._held():  # it would wait for itself
            raise StoreBusy(
                f"what was deleted is gone, but '{self.path.name}' cannot be rewritten while this thread reads it",
                remedy="end the snapshot, then erase again",
            )
        self._rewrite(self._key)

    def change_key(self, master: MasterKey | None) -> None:
        """Write the file anew with another key, or none; of the old one no byte is left."""
        self._rewrite(_key_of(master))

    def _rewrite(self, key: str | None) -> None:
        aside = self.work / "rewritten"
        with self._alone(), translated_errors(self.path):
            self._open_anew()
            self._copy(aside, key)
            try:
                self._let_go()
                # A log that is left belongs to the old file alone: with it, the new one could not be opened.
                if any(self.path.with_name(self.path.name + ending).exists() for ending in LOGS):
                    raise StoreBusy(f"the log of '{self.path.name}' could not be emptied", remedy="try again")
                sync_file(aside)
                shutil.copymode(self.path, aside)
                replace_wiping(self.path, aside)
                self._key = key
            finally:
                self._open_anew()

    def guard_log(self) -> None:
        """The log is as private as the file: DuckDB makes it anew, for everybody to read, whenever it has none."""
        log = self.path.with_name(self.path.name + LOGS[0])
        with suppress(FileNotFoundError):  # there is none while all is in the file
            wanted = self.path.stat().st_mode & 0o777
            if log.stat().st_mode & 0o777 != wanted:
                log.chmod(wanted)

    def same_file(self) -> None:
        refuse_replaced(self.path, self._place)

    def close(self) -> None:
        if self._process != os.getpid():  # those whom a child of a fork would wait for are not in it
            return
        with self._alone():
            if self._closed:
                return
            self._closed = True
            try:
                with translated_errors(self.path):
                    self._let_go()
                    shutil.rmtree(self.work, ignore_errors=True)
            finally:
                atexit.unregister(self.close)
                self._unlock()

    def _unlock(self) -> None:
        lock_file(self.path).unlink(missing_ok=True)
        os.close(self._lock)

    def _open_anew(self) -> None:
        """Be open, unless closed on purpose. For who is alone."""
        if self._closed:
            raise Closed("this store is closed", remedy="open it again")
        if self._main is None:
            self._main = self._opened()

    def _opened(self) -> duckdb.DuckDBPyConnection:
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(mode=0o700)
        is_new = not self.path.exists()
        try:
            opened = _connected(self.path, self.work, self._key, to_encrypt=self._to_encrypt)
            if is_new:
                self.path.chmod(0o600)
            self._place = identity(self.path)
            return opened
        except BaseException:
            shutil.rmtree(self.work, ignore_errors=True)
            raise

    def _let_go(self) -> None:
        """Move the log into the file (closing alone does not always do that), and close the last connection."""
        while self._idle:
            self._idle.pop().close()
        main, self._main = self._main, None
        if main is not None:
            try:
                main.execute("CHECKPOINT")
            finally:
                main.close()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Wait until nobody has a cursor, and let nobody else have one."""
        me = threading.get_ident()
        with self._gate:
            self._waiting += 1
            try:
                while self._using or self._owner is not None:
                    self._gate.wait()
                self._owner = me
            finally:  # also when Ctrl-C ends the waiting: else nobody would be let in any more
                self._waiting -= 1
                self._gate.notify_all()
        try:
            yield
        finally:
            with self._gate:
                self._owner = None
                self._gate.notify_all()

    def _enter(self) -> None:
        if self._process != os.getpid():
            raise Closed("this store was opened before a fork", remedy="open it again in the child process")
        while not self._came_in():
            with self._alone(), translated_errors(self.path):
                self._open_anew()

    def _came_in(self) -> bool:
        """Whether the file is open, and so one user more."""
        with self._gate:
            if self._owner == threading.get_ident():
                return True
            # Who has a cursor already may have another, or both this one and who waits to be alone would wait for ever.
            while self._owner is not None or (self._waiting and not self._held()):
                self._gate.wait()
            if self._main is None and not self._held():
                return False
            self._using += 1
            self._mine.held = self._held() + 1
            return True

    def _leave(self) -> None:
        with self._gate:
            if self._owner != threading.get_ident():
                self._using -= 1
                self._mine.held = self._held() - 1
                self._gate.notify_all()

    def _held(self) -> int:
        return int(getattr(self._mine, "held", 0))

    def _take(self, once: bool) -> duckdb.DuckDBPyConnection:
        with self._gate:
            if self._main is None:
                raise StoreBusy(f"'{self.path.name}' has to be reopened", remedy="try again")
            if self._idle and not once:
                return self._idle.pop()
            cursor = self._main.cursor()
            if self._key is not None:
                cursor.execute(f"USE {_CATALOG}")
            return cursor

    def _give_back(self, cursor: duckdb.DuckDBPyConnection, once: bool) -> None:
        with self._gate:
            if self._main is not None and len(self._idle) < MOST_IDLE_CURSORS and not once:
                self._idle.append(cursor)
                return
        cursor.close()

    def _throw_away(self, cursor: duckdb.DuckDBPyConnection, error: BaseException) -> None:
        """Nobody else may come into a transaction that could not be ended: closing ends it.

        When DuckDB cannot move its log into the file (no room, say), it refuses everything until the file is opened
        anew, reads as well; what was committed is in the log.
        """
        cursor.close()
        if isinstance(error, duckdb.FatalException):
            with self._gate:
                main, self._main = self._main, None
                idle, self._idle = self._idle, []
            for one in (*idle, *([main] if main is not None else [])):
                one.close()


def end(cursor: duckdb.DuckDBPyConnection) -> None:
    """Undo whatever transaction is open, if one is."""
    try:
        cursor.execute("ROLLBACK")
    except duckdb.TransactionException as error:
        if "no transaction is active" not in str(error):
            raise


def literal(value: object) -> str:
    return "'" + str(value).replace("'", "''") + "'"


def lock_file(path: Path) -> Path:
    return path.with_name(path.name + ".lock")


def discard(path: Path) -> None:
    """Delete a DuckDB file with what belongs to it, if it is there."""
    for ending in ("", *LOGS):
        path.with_name(path.name + ending).unlink(missing_ok=True)


def moved(aside: Path, target: Path, store: Path) -> None:
    """Give a finished copy of a store its name in a folder that may be on another disk."""
    with atomic_path(target, store) as near:
        shutil.copyfile(aside, near) if aside.stat().st_dev != target.parent.stat().st_dev else aside.replace(near)
        near.chmod(0o600)


def _key_of(master: MasterKey | None) -> str | None:
    """DuckDB salts it with bytes of the file; what makes guessing expensive is done here."""
    return master.derive(b"recollect duckdb").hex() if master is not None else None


def _attaching(path: Path, name: str, key: str | None) -> str:
    options = f" (ENCRYPTION_KEY {literal(key)}, ENCRYPTION_CIPHER 'GCM')" if key is not None else ""
    return f"ATTACH {literal(path)} AS {name}{options}"


def _connected(path: Path, work: Path, key: str | None, *, to_encrypt: bool) -> duckdb.DuckDBPyConnection:
    """An encrypted file can only be attached, to a database in memory that stays empty."""
    opened = str(path) if key is None else ":memory:"
    connection = duckdb.connect(opened, config={**_CONFIGURATION, "temp_directory": str(work)})
    try:
        if key is not None or to_encrypt:
            connection.execute(CRYPTOGRAPHY)
        if key is not None:
            connection.execute("SET temp_file_encryption = true")
            connection.execute(_attaching(path, _CATALOG, key))
            connection.execute(f"USE {_CATALOG}")
        own = ", ".join(literal(f"{path}{ending}") for ending in ("", *LOGS))
        connection.execute(f"SET allowed_paths = [{own}]")
        connection.execute(f"SET allowed_directories = [{literal(work)}]")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
    except BaseException:
        connection.close()
        raise
    return connection


def _locked(path: Path) -> int:
    """Hold the lock file, which is deleted with the lock: so the one that was locked must still be the one there."""
    while True:
        descriptor = os.open(lock_file(path), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if fcntl is not None:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if is_named(descriptor, lock_file(path)):
                os.ftruncate(descriptor, 0)
                os.write(descriptor, str(os.getpid()).encode())
                return descriptor
        except BlockingIOError:
            holder = os.read(descriptor, 20).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise _in_use(path, holder) from None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _in_use(path: Path, holder: str) -> StoreBusy:
    if holder == str(os.getpid()):
        return StoreBusy(
            f"'{path.name}' is already open in this process",
            remedy="use the one that is open (`within` shows it to another organization), or close it first",
        )
    by = f" (process {holder})" if holder.isdigit() else ""
    return StoreBusy(f"'{path.name}' is open in another process{by}", remedy=ONE_PROCESS)


def translated_errors(path: Path) -> AbstractContextManager[None]:
    return FileErrors(path, duckdb.Error, recollect_error)


def recollect_error(error: duckdb.Error, path: Path) -> RecollectError:
    where, said = f"'{path.name}'", str(error)
    if isinstance(error, duckdb.IOException) and "lock on file" in said:
        holder = re.search(r"PID (\d+)", said)
        return _in_use(path, holder[1] if holder else "")
    if "httpfs" in said:
        return MissingExtra(
            "DuckDB encrypts with its extension httpfs, which is not installed",
            remedy="python -c \"import duckdb; duckdb.execute('INSTALL httpfs')\"",
        )
    if "Wrong encryption key" in said:
        return wrong_key(path)
    if "encrypted database" in said and "without a key" in said:
        return no_key(path)
    if "is not encrypted" in said:
        return not_encrypted(path)
    if "not a valid DuckDB database file" in said:
        return NotARecollectStore(f"{where} is not a Recollect store", remedy="give another path")
    if _DAMAGE.search(said) or isinstance(error, duckdb.SerializationException | duckdb.InternalException):
        return damaged(path)
    of_the_disk = isinstance(error, duckdb.IOException | duckdb.PermissionException | duckdb.FatalException)
    if of_the_disk or (isinstance(error, duckdb.TransactionException) and "ould not write file" in said):
        return disk_error(path, said, error)
    if isinstance(error, duckdb.ConversionException | duckdb.OutOfRangeException | duckdb.InvalidInputException):
        return InvalidInput(f"a value does not fit into {where}", remedy="check what was given")
    if isinstance(error, duckdb.TransactionException):
        return StoreBusy(f"two writers of {where} met", remedy="try again")
    if isinstance(error, duckdb.OutOfMemoryException):
        return StoreError(f"out of memory while using {where}", remedy="free some memory, then try again")
    return StoreError(f"{where}: {said.splitlines()[0][:300]}")
