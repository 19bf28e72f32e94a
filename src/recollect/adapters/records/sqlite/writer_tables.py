"""The connection that writes: what group commit and the steps of a transaction need of it, and upkeep after a commit.

Every commit counts in `recollect_store`: the seq, the records, changes of texts (`term_holders.py`) and the marks of
rows (`row_marks.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

import apsw

from recollect.adapters.encryption.master_key import new_data_key
from recollect.adapters.records.common.codec import Codec
from recollect.adapters.records.common.dialect import Values
from recollect.adapters.records.common.sql_compiler import Compiler, quoted
from recollect.adapters.records.common.sql_tables import KEY, RETURNED, insert_statement, rename_deleted
from recollect.adapters.records.common.transaction import Transaction, references_of
from recollect.adapters.records.sqlite import absences, fulltext
from recollect.adapters.records.sqlite.connection import duplicate_key, translated_errors
from recollect.adapters.records.sqlite.dialect import DIALECT
from recollect.adapters.records.sqlite.log_writes import CommitWrites
from recollect.adapters.records.sqlite.maintenance import rebuild_text
from recollect.adapters.records.sqlite.row_marks import MarksToCome
from recollect.adapters.records.sqlite.step_runs import RunTables, RunTransaction, has_run
from recollect.adapters.records.sqlite.wal_guard import LogGuard
from recollect.domain.memory import Embedding, Memory
from recollect.domain.record import Record
from recollect.domain.tenancy import Organization
from recollect.errors import Conflict, InvalidInput, NotFound, StoreError
from recollect.ports.query import Query, Row
from recollect.ports.records import Scope
from recollect.ports.steps import Committed, Step, Touch

T = TypeVar("T")
MERGE_SEQS = 128  # some forty memories, each with its log entry and vector, and a small piece of text index
MERGE_PAGES, SEQS_OF_A_PAGE = 192, 8  # to be merged then; each page is merged some five times, until all is one piece
MOST_MERGED = 1000  # in one transaction: some 60 ms
_REFUSALS = (Conflict, InvalidInput, NotFound)
"""How a step says that it cannot be done."""


class WriterTables(RunTables):
    """The writer's connection: what group commit and the steps need of it."""

    dialect = DIALECT

    def __init__(
        self,
        connection: apsw.Connection,
        path: Path,
        codec: Callable[[type[Record]], Codec],
        compiler: Callable[[], Compiler],
        keeping: LogGuard,
    ) -> None:
        super().__init__(connection, codec, compiler)
        self.keeping = keeping
        self._path = path
        self._writes = CommitWrites()
        self._records = 0
        self._any_gone = True
        self._lost: BaseException | None = None  # why the transaction cannot be committed any more
        self._remakes_tables = False
        self._epoch = 0
        self._is_text_changed = False
        self._marks = MarksToCome(None, 0)
        self._begun_at = 0  # the seq before the transaction
        self._pages_owed = 0  # of text indexes, to be merged

    def begin(self) -> None:
        with translated_errors(self._path):
            self.rollback()
            self._writes.give_up()
            self.keeping.begin()
            self._connection.execute("BEGIN IMMEDIATE")
            self.keeping.same_file()  # else who waited for a new key to be set would write into the file of the old
            self._lost, self._remakes_tables = None, False
            self.seq, self._records, counted, self._epoch, marks, self._any_gone = self._connection.execute(
                "SELECT (SELECT value FROM recollect_store WHERE key = 'seq'),"
                " (SELECT value FROM recollect_store WHERE key = 'records'),"
                " (SELECT value FROM recollect_store WHERE key = 'text_seq'),"
                " (SELECT value FROM recollect_store WHERE key = 'text_epoch'),"
                " (SELECT value FROM recollect_store WHERE key = 'row_marks'),"
                " EXISTS (SELECT 1 FROM recollect_gone)"
            ).get
            self._begun_at = self.seq
            self._is_text_changed = counted != self.seq  # by a program that does not count: see term_holders.py
            self._marks = MarksToCome(marks, self.seq)

    def attempt(self, work: Callable[[], T]) -> T:
        with translated_errors(self._path):
            self._still_open()
            self._cursor.execute("SAVEPOINT work")
            before = self.seq, self._records, self._is_text_changed, self._marks.state
            try:
                result = work()
                self._cursor.execute("RELEASE work")
                return result
            except BaseException as error:
                self._lost = error
                # A text index made anew is not undone by a savepoint: the commit would stumble over it ("constraint
                # failed"). So what was to be committed with it is given up, too.
                if not self._connection.get_autocommit() and not self._remakes_tables:
                    self._undo_piece()
                    self.seq, self._records, self._is_text_changed, self._marks.state = before
                raise

    def _undo_piece(self) -> None:
        try:
            self._cursor.execute("ROLLBACK TO work; RELEASE work")
        except BaseException as error:
            self._lost = error
            raise
        self._lost = None

    def commit(self) -> None:
        with translated_errors(self._path):
            self._still_open()
            self._cursor.execute(
                "UPDATE recollect_store SET value = CASE key WHEN 'records' THEN ? WHEN 'text_epoch' THEN ?"
                " WHEN 'row_marks' THEN ? ELSE ? END"
                " WHERE key IN ('records', 'seq', 'text_epoch', 'text_seq', 'row_marks')",
                (self._records, self._epoch + self._is_text_changed, self._marks.at(self.seq), self.seq),
            )
            self.keeping.same_file()
            with self._writes:
                self._cursor.execute("COMMIT")
            self.keeping.same_file()
            self.keeping.committed(self.seq, self._writes.appended)

    def tidy(self) -> None:
        """Moves a long log, and merges what was added to text indexes; of what little there is, the one or the other.

        The seqs say when it is time to merge, so that it comes as often where each process adds one and ends.
        """
        if self.indexed and self.seq // MERGE_SEQS != self._begun_at // MERGE_SEQS:
            self._pages_owed += MERGE_PAGES + (self.seq - self._begun_at) // SEQS_OF_A_PAGE
        is_moved = self.keeping.move_if_long()
        if self._pages_owed > (MERGE_PAGES * 2 if is_moved else 0):
            self._merge(min(self._pages_owed, MOST_MERGED))

    def _merge(self, pages: int) -> None:
        with translated_errors(self._path):
            self._writes.give_up()
            self.keeping.begin()
            self._cursor.execute("BEGIN IMMEDIATE")
            self.keeping.same_file()
            done = [self.merge_text(record.shape.table, pages) for record in self.indexed]
            with self._writes:
                self._cursor.execute("COMMIT")
            self.keeping.committed(self.seq, self._writes.appended)
        self._pages_owed = self._pages_owed - pages if any(done) else 0
        if not self._pages_owed:
            self.indexed = set()

    def _still_open(self) -> None:
        # A full disk may undo the whole batch, not just a piece; a savepoint would then begin and commit by itself.
        # And when undoing a piece fails, the half of it that was done must not be committed.
        if isinstance(self._lost, apsw.Error):
            raise self._lost
        if self._lost is not None or self._connection.get_autocommit():
            raise StoreError(f"the transaction on '{self._path.name}' was lost", remedy="try again")

    def rollback(self) -> None:
        if not self._connection.get_autocommit():
            self._connection.execute("ROLLBACK")

    def close(self) -> None:
        self.keeping.close()
        self._connection.close()

    def apply(self, scope: Scope, steps: Sequence[Step]) -> Committed:
        self.serve(scope)
        needed = [step for run in absences.unproven(steps, self.ids) for step in run]
        if has_run(needed):
            try:
                return self._undoing(lambda: self._apply(RunTransaction(self, scope), needed))
            except _REFUSALS:
                pass  # one by one, they say which
        return self._apply(Transaction(self, scope), needed)

    def _apply(self, work: Transaction[int], steps: Sequence[Step]) -> Committed:
        self._returned = []
        self._foresee_references(work, references_of(steps))
        done = work.apply(steps)
        self._settle_returned()
        self._records += work.growth
        return done

    def _undoing(self, work: Callable[[], T]) -> T:
        """Runs a part of a piece of work; what it did is undone if a step of it is refused."""
        before = self.seq, self._is_text_changed, self._any_gone, self._marks.state
        self._cursor.execute("SAVEPOINT part")
        try:
            result = work()
        except _REFUSALS:
            self._cursor.execute("ROLLBACK TO part; RELEASE part")
            self.seq, self._is_text_changed, self._any_gone, self._marks.state = before
            raise
        self._cursor.execute("RELEASE part")
        return result

    def _foresee_references(self, work: Transaction[int], wanted: Mapping[str, Collection[str]]) -> None:
        """What the inserted records refer to, asked for in one statement."""
        parts, values = [], list[object]()
        for table, ids in wanted.items():
            found = f"SELECT '{table}', t.id, t.is_deleted FROM carray(?) c CROSS JOIN {quoted(table)} t"
            parts.append(f"{found} ON t.organization_id = ? AND t.id = c.value")
            values += [apsw.carray(tuple(ids)), self.tenant]
        for table, id, is_deleted in self.run(" UNION ALL ".join(parts), values) if parts else ():
            work.expect(table, id, bool(is_deleted))

    def ids(self, query: Query[Record]) -> list[str]:
        """Where one is looked for and nothing has the value that it must have, no more is asked (`absences`)."""
        key = absences.key_asked(query) if query.limit == 1 else None
        if key is not None and not self.run(absences.any_statement(query.record, key.field), (self.tenant, key.value)):
            return []
        return super().ids(query)

    def _settle_returned(self) -> None:
        """What was inserted is no longer gone: asked once for all, and not at all where nothing was ever deleted."""
        returned, self._returned = self._returned, []
        for start in range(0, len(returned) if self._any_gone else 0, self.deleted_at_once):
            some = returned[start : start + self.deleted_at_once]
            keys = ", ".join(["(?, ?, ?)"] * len(some))
            where = f"(organization_id, table_name, id) IN (VALUES {keys})"
            self._cursor.execute(f"DELETE FROM recollect_gone WHERE {where}", [part for key in some for part in key])
            # Nobody sees any more that they were gone, and perhaps elsewhere before.
            self._marks.is_changed |= self._connection.changes() > 0

    def run(self, statement: str, values: Values = ()) -> list[Row]:
        if statement is RETURNED:
            self._returned.append(tuple(values))
            return []
        try:
            return self._cursor.execute(statement, values).fetchall()
        except apsw.ConstraintError as error:
            raise duplicate_key(error) from None

    def insert_row(self, table: str, names: tuple[str, ...], values: Values) -> int:
        if table == "recollect_gone":  # what was inserted before may go again
            self._settle_returned()
            self._any_gone = True
        try:
            self._cursor.execute(insert_statement(table, names), values)
        except apsw.ConstraintError as error:
            raise duplicate_key(error) from None
        return self._connection.last_insert_rowid()

    def next_seq(self) -> int:
        self.seq += 1
        return self.seq

    def replace(self, row: int, record: Record) -> None:
        if isinstance(record, Embedding):
            self._end_vectors([row])
        elif isinstance(record, Memory) and record.version == 1:  # or it would be taken for a new one
            self._marks.is_changed = True
        super().replace(row, record)

    def touch(self, step: Touch, put: Mapping[str, object]) -> None:
        self._marks.touched(step.record, (*step.add, *put))
        super().touch(step, put)

    def touch_many(self, run: Sequence[Touch], put: Mapping[str, object]) -> None:
        self._marks.touched(run[0].record, (*run[0].add, *put))
        super().touch_many(run, put)

    def remove(self, record: type[Record], found: Sequence[tuple[int, str]]) -> None:
        if record is Embedding:
            self._end_vectors([row for row, _ in found])
        elif record is Organization:  # no trace is left of what it had
            self._marks.is_changed = True
        super().remove(record, found)

    def rename_deleted(self, scope: Scope, names: Mapping[tuple[str, str], str]) -> None:
        self._marks.is_changed = True
        rename_deleted(self, scope, names)

    def _end_vectors(self, rows: Sequence[int]) -> None:
        wanted = ", ".join("?" * len(rows))
        self._marks.ended += [seq for (seq,) in self.run(f"SELECT _seq FROM embedding WHERE _row IN ({wanted})", rows)]

    def is_indexed(self, row: int, record: type[Record], values: Values) -> bool:
        """To index a memory again takes ten times as long, and whoever searches next reads all words out anew."""
        known = dict(zip(self.codec(record).written[KEY:], values, strict=True))
        names = _indexed_fields(record)
        return bool(self.run(_same_statement(record.shape.table, names), (row, *map(known.__getitem__, names))))

    def index_text(self, row: int, record: Record, *, fresh: bool) -> None:
        self.indexed.add(type(record))
        self._is_text_changed |= not fresh
        self._cursor.execute(fulltext.index_statement(type(record), fresh), fulltext.indexed(row, record))

    def unindex_text(self, record: type[Record], rows: Sequence[int]) -> None:
        self._is_text_changed = True
        table = quoted(record.shape.table + "_text")
        self._cursor.executemany(f"DELETE FROM {table} WHERE rowid = ?", ((row,) for row in rows))

    def ensure_index_key(self) -> None:
        self.run("INSERT OR IGNORE INTO recollect_store VALUES ('index_key', ?)", (new_data_key().hex(),))

    def rebuild_text(self) -> list[str]:
        self._remakes_tables = self._is_text_changed = True
        return rebuild_text(self._connection, self.codec)

    def begin_merging(self, tables: Sequence[str], pages: int) -> list[str]:
        """Those of the tables whose text index is not in one piece, or has something deleted in it."""
        return [table for table in tables if self.merge_text(table, -pages)]

    def merge_text(self, table: str, pages: int) -> bool:
        """A step of merging; False if there was nothing to do. With a negative number it is the first of all."""
        before, name = self._connection.total_changes(), quoted(table + "_text")
        self.run(f"INSERT INTO {name}({name}, rank) VALUES ('merge', ?)", (pages,))
        return self._connection.total_changes() - before > 1  # as the documentation of FTS5 says to ask


@cache
def _indexed_fields(record: type[Record]) -> tuple[str, ...]:
    """What the text index is made of, and whether the record is in it."""
    shape = fulltext.shape_of(record)
    return *shape.fields, *shape.facets, "is_deleted"


@cache
def _same_statement(table: str, names: tuple[str, ...]) -> str:
    """Compared by SQLite: what stands there may be damaged, and what replaces it mends it."""
    same = " AND ".join(f"{quoted(name)} IS ?" for name in names)
    return f"SELECT 1 FROM {quoted(table)} WHERE _row = ? AND {same}"
