"""The default record store: one SQLite file.

Promise: what `transact` acknowledged survives kill -9 and a power cut; a damaged page is an error, never an answer;
several processes may use one file. Shape: one table per record type with `_row` (stable row number) and `_seq`
(store-wide, ever growing, given anew on each write), a full-text table per searched type, `recollect_store` for the
counters and the incarnation, `recollect_gone` for what was deleted for good.
Proof: tests/adapters/records, tests/crash.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import apsw

from recollect.adapters.atomic_file import atomic_path, clear_unfinished, identity
from recollect.adapters.encryption.master_key import MasterKey
from recollect.adapters.file_scan import scan_files
from recollect.adapters.records.common import ddl
from recollect.adapters.records.common.checks import check_beside
from recollect.adapters.records.common.checks import check_text as check_text_query
from recollect.adapters.records.common.data_keys import DataKeys
from recollect.adapters.records.common.dialect import Values
from recollect.adapters.records.common.field_cipher import FieldCipher
from recollect.adapters.records.common.file_errors import damaged
from recollect.adapters.records.common.group_commit import GroupCommit
from recollect.adapters.records.common.integrity import check_count
from recollect.adapters.records.common.sql_reads import SqlReads, SqlSnapshot, reading
from recollect.adapters.records.sqlite import fulltext, member_indexes
from recollect.adapters.records.sqlite.connection import (
    BUSY_SECONDS,
    Readers,
    begin,
    connect,
    discard,
    emptied_log,
    prepare,
    seals_pages,
    translated_errors,
)
from recollect.adapters.records.sqlite.dialect import DIALECT
from recollect.adapters.records.sqlite.foreign_pages import file_pieces, seal_by_content, seal_proven
from recollect.adapters.records.sqlite.key_change import wait_for_change
from recollect.adapters.records.sqlite.known_queries import is_known_place, known_query
from recollect.adapters.records.sqlite.known_rows import KnownRows
from recollect.adapters.records.sqlite.maintenance import (
    check_content,
    check_records,
    migrate,
    running,
)
from recollect.adapters.records.sqlite.narrowing import narrowed
from recollect.adapters.records.sqlite.page_encryption import PageKey, new_page_key, page_key
from recollect.adapters.records.sqlite.row_marks import RowMarks
from recollect.adapters.records.sqlite.stored_vectors import SqliteVectors
from recollect.adapters.records.sqlite.term_holders import TermHolders
from recollect.adapters.records.sqlite.wal import log_of
from recollect.adapters.records.sqlite.wal_guard import (
    LogGuard,
    is_current,
    log_damage,
    log_problems,
    loss,
    move_lost_header,
    note_loss,
    refuse_other_log,
)
from recollect.adapters.records.sqlite.wal_notes import LogNote, LogNotes
from recollect.adapters.records.sqlite.writer_tables import WriterTables
from recollect.domain.memory import Memory
from recollect.domain.record import RECORDS, Record, new_id
from recollect.errors import DamagedData, InvalidInput, StoreBusy
from recollect.ports.keys import KeyService
from recollect.ports.member_indexes import MemberIndex
from recollect.ports.query import Beside, Query, Reading, Row, TextHit, TextQuery
from recollect.ports.records import Capabilities, Problem, Scope
from recollect.ports.steps import Committed, Step
from recollect.ports.traces import ScannedPlace
from recollect.ports.vectors import StoredVector

R = TypeVar("R", bound=Record)
T = TypeVar("T")
LARGE_LOG_BYTES = 64_000_000
_log = logging.getLogger("recollect.sqlite")


class SqliteStore(SqlReads):
    scans_files = True
    dialect = DIALECT
    pages_at_once = 500  # of a text index, merged in one transaction: some 30 ms

    def __init__(
        self,
        path: Path,
        *,
        key_service: KeyService | None = None,
        vfs: str | None = None,
        master: MasterKey | None = None,
    ) -> None:
        """`master` encrypts the file, `key_service` fields in a file that is not encrypted."""
        self.path = path
        self.data_keys = DataKeys(self, key_service, self._write, file_is_encrypted=master is not None)
        super().__init__(FieldCipher(self.data_keys, texts=False))
        self._master = master
        self._key: PageKey | None = None
        self._notes = LogNotes(path)
        connection, keeping = self._opened(vfs)
        self._place = keeping.place
        self._readers = Readers(path, vfs, self._key, self._place.check)
        self._holders = TermHolders()
        self._known = KnownRows(self.codec(Memory))
        self._tables = WriterTables(connection, path, self.codec, self.compiler, keeping)
        self._writer = GroupCommit(self._tables, name=f"recollect writer {path.name}")
        self.capabilities = Capabilities(
            "sqlite",
            durable=True,
            many_processes=True,
            row_by_row=True,
            keeps_rows=True,
            encrypted=self._key is not None,
        )

    def write_in_turn(self, turn: AbstractContextManager[object]) -> None:
        self._writer.turn = turn

    def _opened(self, vfs: str | None) -> tuple[apsw.Connection, LogGuard]:
        """The connection that writes, to the file that has the name: another may just take its place (`key_change`)."""
        while True:
            place = identity(self.path)  # before: who changes the key from here on is noticed by it
            with translated_errors(self.path):
                wait_for_change(self.path)
            connection, keeping = self._settled(vfs)
            if not wait_for_change(self.path) and place in (None, identity(self.path)):
                return connection, keeping
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)  # the log may be another's by now
            keeping.close()
            connection.close()
            self._notes.close()

    def _settled(self, vfs: str | None) -> tuple[apsw.Connection, LogGuard]:
        """What another program did to the file meanwhile is settled first."""
        with translated_errors(self.path):
            clear_unfinished(self.path)
            self._key = page_key(self.path, self._master)
            noted = self._notes.read()
            refuse_other_log(self.path, noted, self._key)
            if noted is not None and not is_current(self.path, noted):
                seal_proven(self.path, self._notes, noted)
        try:
            return self._connected(vfs, noted)
        except DamagedData:
            with translated_errors(self.path):
                tried, self._key = self._key, page_key(self.path, self._master)
                # Another key: another process made the file a moment ago.
                if tried == self._key and not (
                    seal_proven(self.path, self._notes) or seal_by_content(self.path, self._content_problems)
                ):
                    raise
        return self._connected(vfs, noted)

    def _connected(self, vfs: str | None, noted: LogNote | None) -> tuple[apsw.Connection, LogGuard]:
        with translated_errors(self.path):
            connection = self._prepared(vfs, noted)
            try:
                damage = log_damage(connection, self.path, self._notes, noted)
                if damage is None:
                    migrate(connection, self.path, self.codec)
                    note_loss(connection, self.path, self._notes, noted)
                elif not ddl.is_current(running(connection), fulltext.TOKENIZER):
                    raise damage
                keeping = LogGuard(self.path, connection, self._notes, damage, self._key)
                keeping.note()
            except BaseException:
                connection.close()
                raise
        return connection, keeping

    def _prepared(self, vfs: str | None, noted: LogNote | None) -> apsw.Connection:
        """A connection that gives checksums to what it moves into the file (`seals_pages`)."""
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            connection = connect(self.path, writable=True, vfs=vfs, key=self._key)
            try:
                prepare(connection, self.path, self._key)
                if seals_pages(connection):
                    return connection
                if time.monotonic() > deadline:
                    raise damaged(self.path)
                connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                move_lost_header(connection, self.path, self._notes, noted)
            except apsw.BusyError:
                # Of several who make the file at the same moment SQLite refuses all but one, whatever they would wait.
                if time.monotonic() > deadline:
                    connection.close()
                    raise
                time.sleep(random.uniform(0.001, 0.01))
            except BaseException:
                connection.close()
                raise
            connection.close()

    def index_key(self) -> bytes | None:
        """What the index beside an encrypted file is encrypted with: a key of its own, so that another master key
        leaves the index as it is."""
        if self._key is None:
            return None
        self._writer.run(self._tables.ensure_index_key)
        ((kept,),) = self._read_rows("SELECT value FROM recollect_store WHERE key = 'index_key'")
        return bytes.fromhex(str(kept))

    def _content_problems(self, connection: apsw.Connection) -> Iterator[Problem]:
        return check_content(connection, self.codec)

    def _healing(self, read: Callable[[], T]) -> T:
        """Once more, in case that the pages which were called damaged were only moved into the file by another program.

        Also when there was none left to seal: another process may have found and sealed them a moment before.
        """
        try:
            return read()
        except DamagedData:
            self._place.check()
            seal_proven(self.path, self._notes)
            with translated_errors(self.path):
                self._readers.renew()
        return read()

    def tenants(self) -> list[str]:
        return [id for (id,) in self._read_rows('SELECT id FROM "organization" ORDER BY id')]

    def transact(self, scope: Scope, steps: Sequence[Step]) -> Committed:
        return self.data_keys.transact(scope, steps)

    def _write(self, scope: Scope, steps: Sequence[Step]) -> Committed:
        return self._healing(lambda: self._writer.run(lambda: self._tables.apply(scope, steps)))

    def search_text(self, scope: Scope, query: TextQuery[Record]) -> list[TextHit]:
        check_text_query(query)

        def searched() -> list[TextHit]:
            with self._readers.snapshot() as connection:
                counters = self._readers.counters(connection)
                return fulltext.search(connection, self.compiler(), self._holders, self._known, counters, scope, query)

        return self._healing(searched)

    def index_members(self, wanted: Sequence[MemberIndex]) -> None:
        self._writer.run(lambda: member_indexes.update(self._tables.run, wanted))

    def migrate(self) -> list[str]:
        return self._writer.run(lambda: [])  # opening already brought the file up to date

    def backup(self, target: Path) -> None:
        """All pages in one step, of one moment: taken a few at a time the copy begins anew whenever others write.

        VACUUM INTO would leave out the free pages, but knows no way to begin with a checksummed file (see `begin`).
        """
        if target.exists():
            raise InvalidInput(f"'{target}' already exists", remedy="give a path that is not taken")
        if log_of(target).exists():  # SQLite would write it into the copy
            raise InvalidInput(
                f"'{target.name}-wal' is the log of a store that was there before", remedy="move it away first"
            )
        with translated_errors(self.path):
            self._tables.keeping.look_first()
        # Under another name until it is complete: SQLite would take a half of it for an empty store.
        with translated_errors(target), atomic_path(target, self.path, discard) as temporary:
            self._copy(temporary)

    def _copy(self, target: Path) -> None:
        key = new_page_key(self._master) if self._master is not None else None
        copy = connect(target, writable=True, key=key)
        try:
            begin(copy, key)
            with self._readers.one() as connection, copy.backup("main", connection, "main") as pages:
                pages.step(-1)
            prepare(copy, target, key)
            copy.execute("UPDATE recollect_store SET value = ? WHERE key = 'incarnation'", (new_id(),))
        finally:
            copy.close()

    def verify(self) -> list[Problem]:
        from recollect.adapters.records.sqlite.fulltext_check import check_text

        with translated_errors(self.path):
            self._place.check()
            seal_proven(self.path, self._notes)
            in_log = log_problems(self.path, self._notes)
        with self._readers.snapshot(fresh=True) as connection:
            problems = list(check_records(connection, self.codec)) or list(
                check_count(lambda text: connection.execute(text).fetchall(), apsw.Error)
            )
            return [*in_log, *problems, *check_text(connection, self.codec)]

    def mend(self) -> list[str]:
        with translated_errors(self.path):
            self._tables.keeping.look_first()
            sealed = seal_proven(self.path, self._notes) + seal_by_content(self.path, self._content_problems)
            mended = [f"{sealed} pages that another program wrote are in order, and sealed"] if sealed else []
            noted = self._notes.read()
            if noted is not None and noted.has_loss:
                self._notes.accept_loss()
                mended.append(f"from now on without what is lost: {loss(noted)}")
        mended += self._writer.run(self._tables.rebuild_text)
        return mended

    def erase_words(self) -> None:
        """Texts are never encrypted one by one here, so no words are left when they are."""

    def erase_traces(self) -> list[str]:
        """Leave no byte of what was deleted: merge the text indexes and empty the write-ahead log."""
        with translated_errors(self.path):
            self._merge_text()
            self._tables.keeping.look_first()
            self._known.clear()
            with self._readers.one() as connection:
                is_empty = emptied_log(connection)
        if not is_empty:
            raise StoreBusy(
                f"what was deleted is gone, but its bytes are still in the log: somebody reads '{self.path.name}'",
                remedy="they go with the next erase, or when the store is closed",
            )
        return []

    def _merge_text(self) -> None:
        """Write the text indexes anew without what was deleted, in transactions of a few megabytes.

        In one ('optimize') it took seconds at a million memories, during which nobody else could write, and the log
        grew as large as the index. Twice: a merge that had begun before may have copied what was deleted since, and
        ends with it; the second time there is nothing to do unless that was so.
        """
        tables = sorted(table for table, record in RECORDS.items() if record.shape.text)
        for _ in range(2):
            tables = self._writer.run(partial(self._tables.begin_merging, tables, self.pages_at_once))
            for table in tables:
                while self._writer.run(partial(self._tables.merge_text, table, self.pages_at_once)):
                    pass

    def scan(self, scope: Scope, needles: Sequence[bytes]) -> Iterator[ScannedPlace]:
        """Every file of the store; but what locks it has only numbers in it, and closing it would undo the locks."""
        return scan_files(self.path, needles, file_pieces, left_out=(self.path.name + "-shm",))

    def rename_deleted(self, scope: Scope, names: Mapping[tuple[str, str], str]) -> None:
        with translated_errors(self.path):
            self._writer.run(lambda: self._tables.rename_deleted(scope, names))

    def close(self) -> None:
        self._readers.close()  # first: whoever writes is the last, and looks at the log before it is moved
        self._writer.close()
        self._notes.close()

    @contextmanager
    def snapshot(self, scope: Scope) -> Iterator[SqlSnapshot]:
        """One read transaction. SQLite cannot empty its log behind it, so a log that grows large is told of."""
        log = self.path.with_name(self.path.name + "-wal")
        told = False

        def run(connection: apsw.Connection, statement: str, values: Values) -> list[Row]:
            nonlocal told
            if not told and log.exists() and log.stat().st_size > LARGE_LOG_BYTES:
                told = True
                _log.warning("the log of '%s' grows while a snapshot of it is read; then it is emptied", self.path.name)
            with translated_errors(self.path):
                return connection.execute(statement, values).fetchall()

        with self._unless_moved(), reading(self, scope, self._readers.snapshot(), run) as moment:
            yield moment
        if told and self._tables.keeping.is_sound():
            with self._readers.one() as connection:
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def reading(self) -> AbstractContextManager[None]:
        """What one thread reads in the block comes from one connection and is of one moment: a question reads ten
        times, and to begin each time anew took a tenth of it."""
        return self._readers.held()

    @contextmanager
    def vector_snapshot(self) -> Iterator[SqliteVectors]:
        with self._unless_moved(), self._readers.snapshot() as connection:
            self._readers.renew()  # the index must see no moment before one that it has seen
            yield SqliteVectors(connection, self._readers.counters(connection), self._known)

    @contextmanager
    def _unless_moved(self) -> Iterator[None]:
        """Who reads in one transaction what another program moves into the file meanwhile must begin again."""
        try:
            yield
        except DamagedData as damage:
            self._place.check()
            if not seal_proven(self.path, self._notes):
                raise
            raise StoreBusy(f"another program moved the log of '{self.path.name}'", remedy="try again") from damage

    def stored_vectors(self, scope: Scope, space: str, ids: Sequence[str]) -> list[StoredVector]:
        if not ids:  # an array must not be empty
            return []
        namespace, _, model = space.partition("/")
        of_tenant = (scope.organization_id, namespace, model)

        def read() -> list[StoredVector]:
            with self._readers.moment() as connection:
                return self._known.vectors_of(self._view(connection), connection, of_tenant, ids)

        return self._healing(read)

    def keep_rows(self, most_bytes: int) -> None:
        self._known.limit(most_bytes)

    def select_each(self, scope: Scope, readings: Sequence[Reading]) -> list[list[Row]]:
        if len(readings) == 1:
            known = self._select_known(scope, *readings[0])
            if known is not None:
                return [known]
        return super().select_each(scope, readings)

    def _view(self, connection: apsw.Connection) -> RowMarks | None:
        return self._known.view(connection, self._readers.counters(connection))

    def _select_known(self, scope: Scope, query: Query[Record], fields: Sequence[str]) -> list[Row] | None:
        """From what was read before, as far as it was; None where that cannot tell."""
        asked = known_query(query, fields) if self._known.keeps_memories else None
        if asked is None:
            return None

        def select() -> list[Row] | None:
            # In one transaction: what is read now is of the same moment as what is kept.
            with self._readers.moment() as connection:
                view = self._view(connection)
                if view is None:
                    return None
                return self._known.select(view, connection, asked, scope.organization_id)

        try:
            return self._healing(select)
        except (DamagedData, TypeError):  # of one that does not pass, perhaps; or a value that no filter takes
            return None

    def beside(self, scope: Scope, query: Beside[Record]) -> list[list[str]]:
        if not is_known_place(query):
            return super().beside(scope, query)
        check_beside(query)

        def read(places: tuple[tuple[Any, Any, str], ...]) -> list[list[str]]:
            return super(SqliteStore, self).beside(scope, replace(query, places=places))

        def looked_up() -> list[list[str]]:
            with self._readers.moment() as connection:
                view = self._view(connection)
                if view is None:
                    return read(query.places)
                return self._known.beside(view, scope.organization_id, query, read)

        return self._healing(looked_up)

    def count(self, scope: Scope, query: Query[Record], most: int | None = None) -> int:
        return super().count(scope, self._narrowed(scope, query), most)

    def _statement(self, scope: Scope, query: Query[Record], fields: Sequence[str]) -> tuple[str, Values]:
        return super()._statement(scope, self._narrowed(scope, query), fields)

    def _narrowed(self, scope: Scope, query: Query[Record]) -> Query[Record]:
        def ids(asked: Query[Record], field: str) -> list[str]:
            compiler = self.compiler()
            return [id for (id,) in self._read(scope, compiler.select(scope, asked, (field,)), compiler.values)]

        return narrowed(query, ids)

    def _read(self, scope: Scope, statement: str, values: Values) -> list[Row]:
        return self._read_rows(statement, values)

    def _read_rows(self, statement: str, values: Values = ()) -> list[Row]:
        def rows() -> list[Row]:
            with self._readers.one() as connection:
                return connection.execute(statement, values).fetchall()

        return self._healing(rows)
