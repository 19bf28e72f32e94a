"""A SQLite file that is only read: also where nothing may be written, and beside others who write.

Promise: no byte is written, of the file, its log or what belongs to it. What is read is of one moment, and never
mixes two states of the file.
Shape: while a log lies beside the file, SQLite reads both, with the index of the log as those keep it who write
(`readonly_shm`). Without a log the file holds everything, and is read as one that nobody changes (`immutable`): SQLite
would have to make a log otherwise. That holds until somebody writes, so the file is looked at before and after each
reading; one that changed meanwhile counts for nothing, and is begun anew.
Proof: `tests/adapters/records/sqlite/test_read_only.py`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import apsw

from recollect.adapters.encryption.master_key import MasterKey
from recollect.adapters.records.common import ddl
from recollect.adapters.records.common.data_keys import DataKeys
from recollect.adapters.records.common.field_cipher import FieldCipher
from recollect.adapters.records.common.integrity import check_count
from recollect.adapters.records.common.migrations import migrations
from recollect.adapters.records.common.sql_reads import SqlReads, SqlSnapshot, reading
from recollect.adapters.records.sqlite import fulltext
from recollect.adapters.records.sqlite.connection import (
    Readers,
    checksummed,
    connect,
    refuse_foreign,
    translated_errors,
)
from recollect.adapters.records.sqlite.file_identity import WatchedFile
from recollect.adapters.records.sqlite.fulltext_check import check_text
from recollect.adapters.records.sqlite.known_rows import KnownRows
from recollect.adapters.records.sqlite.maintenance import check_records, running
from recollect.adapters.records.sqlite.page_encryption import page_key
from recollect.adapters.records.sqlite.row_marks import in_state
from recollect.adapters.records.sqlite.store import SqliteStore
from recollect.adapters.records.sqlite.stored_vectors import SqliteVectors
from recollect.adapters.records.sqlite.term_holders import TermHolders
from recollect.adapters.records.sqlite.wal import log_of
from recollect.domain.memory import Memory
from recollect.errors import NewerStore, StoreBusy, StoreError, StoreReadOnly
from recollect.ports.member_indexes import MemberIndex
from recollect.ports.records import Capabilities, Problem, Scope
from recollect.ports.steps import Committed, Step

T = TypeVar("T")
_TRIES = 5


class _Moment(NamedTuple):
    """What lies there: whether a log does, and the state of the file while none does."""

    has_log: bool
    stamp: tuple[int, ...] = ()


def _moment(path: Path) -> _Moment:
    log, index = log_of(path), path.with_name(path.name + "-shm")
    there = os.stat(path)
    if log.exists():
        if index.exists():
            return _Moment(True, (there.st_ino,))
        if log.stat().st_size:
            raise StoreError(
                f"the log '{log.name}' lies beside '{path.name}', and cannot be read without writing beside it",
                remedy=f"copy '{path.name}' and '{log.name}' into a folder that you may write to, or let a program "
                "open it once that may write",
            )
    return _Moment(False, (there.st_ino, there.st_size, there.st_mtime_ns, there.st_ctime_ns))


class _State(NamedTuple):
    """A state of the file, and its number among those that were seen."""

    moment: _Moment
    number: int


class ReadOnlyReaders(Readers):
    """Connections that write nothing; those made for another state of the file are not used again.

    Who reads while another program writes may be given pages of two states, and must begin again. What is kept in
    memory is kept for each state by itself, so that nothing of such a reading is left: `counters` tells them apart.
    """

    def __init__(self, path: Path, key: Any, check: Callable[[], None]) -> None:
        super().__init__(path, None, key, check)
        self._now = _State(_moment(path), 0)
        self._states: dict[int, _State] = {}

    def _made(self) -> apsw.Connection:
        now = self._now
        how = {"readonly_shm": 1} if now.moment.has_log else {"immutable": 1}
        connection = connect(self._path, writable=False, key=self._key, untouched=how)
        self._states[id(connection)] = now
        return connection

    def counters(self, connection: apsw.Connection) -> Mapping[str, Any]:
        found, number = dict(super().counters(connection)), self._states[id(connection)].number
        if found.get("row_marks") is not None:
            found["row_marks"] = in_state(found["row_marks"], number)
        if found.get("text_epoch") is not None:
            found["text_epoch"] += number << 40
        return found

    def _take(self, fresh: bool) -> apsw.Connection:
        now = _moment(self._path)
        with self._lock:
            if now != self._now.moment:
                self._now = _State(now, self._now.number + 1)
                idle, self._idle = self._idle, []
                for connection in idle:
                    self._end(connection)
        return super()._take(fresh)

    def _give_back(self, connection: apsw.Connection) -> None:
        if self._states.get(id(connection)) == self._now:
            super()._give_back(connection)
        else:
            self._end(connection)

    def _end(self, connection: apsw.Connection) -> None:
        self._states.pop(id(connection), None)
        connection.close()

    @contextmanager
    def one(self, *, fresh: bool = False) -> Iterator[apsw.Connection]:
        if self._held.connection is not None and not fresh:
            with super().one() as held:
                yield held
            return
        with super().one(fresh=fresh) as connection:
            begun = self._states[id(connection)]
            try:
                yield connection
            finally:
                if begun.moment != _moment(self._path):  # also what looks damaged then
                    raise StoreBusy(f"'{self._path.name}' was written while it was read", remedy="try again")


def _refused() -> StoreReadOnly:
    return StoreReadOnly(
        "this memory was opened read-only, and nothing can be written to it",
        remedy="open it without readonly=True (on the command line: without --readonly), where it may be written",
    )


class _NoWriter:
    """In the place of the connection that writes."""

    def run(self, work: Callable[[], object]) -> Any:
        raise _refused()


class ReadOnlySqliteStore(SqliteStore):
    """The same store without whatever writes."""

    def __init__(self, path: Path, *, master: MasterKey | None = None) -> None:
        self.path, self._master = path, master
        self.data_keys = DataKeys(self, None, self._write, file_is_encrypted=master is not None)
        SqlReads.__init__(self, FieldCipher(self.data_keys, texts=False))
        with translated_errors(path):
            self._key = page_key(path, master)
        self._readers = ReadOnlyReaders(path, self._key, lambda: None)
        self._holders = TermHolders()
        self._known = KnownRows(self.codec(Memory))
        self._writer = _NoWriter()  # type: ignore[assignment]
        try:
            incarnation = self._healing(self._opened_by)
        except BaseException:
            self._readers.close()
            raise
        self._readers._check = WatchedFile(path, incarnation, self._key).check
        encrypted = self._key is not None
        self.capabilities = Capabilities(
            "sqlite", durable=True, many_processes=True, row_by_row=True, keeps_rows=True, encrypted=encrypted
        )

    def _opened_by(self) -> str:
        """The incarnation of the store, if this program can read it as it is."""
        with self._readers.one() as connection:
            refuse_foreign(connection, self.path)
            checksummed(connection, self.path, self._key)
            if not ddl.is_current(running(connection), fulltext.TOKENIZER):
                raise self._other_version(connection)
            return str(connection.execute("SELECT value FROM recollect_store WHERE key = 'incarnation'").get)

    def _other_version(self, connection: apsw.Connection) -> NewerStore | StoreReadOnly:
        newest = max(migration.number for migration in migrations())
        if max(ddl.recorded(running(connection)), default=0) > newest:
            return NewerStore(
                f"'{self.path.name}' was made by a newer version of Recollect",
                remedy="upgrade: pip install -U recollect",
            )
        return StoreReadOnly(
            f"'{self.path.name}' is of an earlier version of Recollect, and must be written to be brought to this",
            remedy="open it once without readonly=True, or use the version that wrote it",
        )

    def index_key(self) -> bytes | None:
        if self._key is None:
            return None
        kept = self._read_rows("SELECT value FROM recollect_store WHERE key = 'index_key'")
        return bytes.fromhex(str(kept[0][0])) if kept else None

    def _healing(self, read: Callable[[], T]) -> T:
        """Again, if somebody wrote meanwhile; but not within what is held, which is of one moment."""
        for _ in range(_TRIES):
            try:
                return read()
            except StoreBusy:
                if self._readers._held.connection is not None:
                    raise
        return read()

    def _write(self, scope: Scope, steps: Sequence[Step]) -> Committed:
        raise _refused()

    def transact(self, scope: Scope, steps: Sequence[Step]) -> Committed:
        raise _refused()

    def index_members(self, wanted: Sequence[MemberIndex]) -> None:
        raise _refused()

    def migrate(self) -> list[str]:
        return []

    def backup(self, target: Path) -> None:
        raise _refused()

    def mend(self) -> list[str]:
        raise _refused()

    def erase_traces(self) -> list[str]:
        raise _refused()

    def verify(self) -> list[Problem]:
        with self._readers.snapshot(fresh=True) as connection:
            problems = list(check_records(connection, self.codec)) or list(
                check_count(lambda text: connection.execute(text).fetchall(), apsw.Error)
            )
            return [*problems, *check_text(connection, self.codec)]

    def close(self) -> None:
        self._readers.close()

    @contextmanager
    def snapshot(self, scope: Scope) -> Iterator[SqlSnapshot]:
        def run(connection: apsw.Connection, statement: str, values: Any) -> list[Any]:
            with translated_errors(self.path):
                return connection.execute(statement, values).fetchall()

        with reading(self, scope, self._readers.snapshot(), run) as moment:
            yield moment

    @contextmanager
    def vector_snapshot(self) -> Iterator[SqliteVectors]:
        with self._readers.snapshot() as connection:
            self._readers.renew()
            yield SqliteVectors(connection, self._readers.counters(connection), self._known)
