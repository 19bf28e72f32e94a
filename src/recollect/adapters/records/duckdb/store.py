"""The record store for looking at one's memories with SQL: one DuckDB file, one process.

Promise: what `transact` acknowledged survives kill -9; a damaged block is an error, never an answer; a second process
is told at once to stay away. Shape: one table per record type with `_row` (the seq of its first write) and `_seq`
(store-wide, ever growing, given anew on each write), a table of words per searched type, `recollect_store` for the
counters and the incarnation, `recollect_gone` for what was deleted for good. DuckDB is slow at single statements (about
half a millisecond each) and fast at many rows, so new rows wait and go in together.
Proof: tests/adapters/records, tests/crash.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple, TypeVar, cast

import duckdb

from recollect.adapters.encryption.master_key import MasterKey, new_data_key
from recollect.adapters.file_scan import pieces_by_child, scan_files
from recollect.adapters.records.common.checks import check_text as check_text_query
from recollect.adapters.records.common.checks import columns_of
from recollect.adapters.records.common.codec import Codec
from recollect.adapters.records.common.data_keys import DataKeys
from recollect.adapters.records.common.dialect import Values
from recollect.adapters.records.common.field_cipher import FieldCipher
from recollect.adapters.records.common.group_commit import GroupCommit
from recollect.adapters.records.common.sql_compiler import Compiler, quoted
from recollect.adapters.records.common.sql_reads import SqlReads, SqlSnapshot, reading
from recollect.adapters.records.common.sql_tables import (
    RETURNED,
    SqlTables,
    rename_deleted,
    stored_statement,
    update_statement,
)
from recollect.adapters.records.common.transaction import Transaction, references_of
from recollect.adapters.records.common.vector_rows import VECTOR_COLUMNS, vector_rows
from recollect.adapters.records.duckdb import fulltext, user_sql
from recollect.adapters.records.duckdb.dialect import DIALECT, TYPES
from recollect.adapters.records.duckdb.file import DuckdbFile, end, moved, translated_errors
from recollect.adapters.records.duckdb.maintenance import check, migrate, rebuild_text
from recollect.domain.record import RECORDS, Record, new_id
from recollect.errors import Conflict, DuplicateKey, InvalidInput, NotFound, StoreError
from recollect.ports.keys import KeyService
from recollect.ports.query import AllOf, AnyOf, Compare, Filter, Linked, Query, Row, TextHit, TextQuery
from recollect.ports.records import Capabilities, Problem, Scope, SqlAnswer, SqlLimits
from recollect.ports.steps import Absent, Committed, Insert, Require, Step, Update
from recollect.ports.traces import ScannedPlace
from recollect.ports.vectors import StoredVector, VectorRow

T = TypeVar("T")
FEW = 8  # rows that are given one by one; taking columns apart costs a millisecond, whatever their length
_COUNTERS = "SELECT key, value::BIGINT FROM recollect_store WHERE key IN ('seq', 'records')"


class DuckdbStore(SqlReads):
    scans_files = True
    dialect = DIALECT

    def __init__(self, path: Path, *, key_service: KeyService | None = None, master: MasterKey | None = None) -> None:
        """`master` encrypts the file, `key_service` fields in a file that is not encrypted."""
        self.path = path
        self.data_keys = DataKeys(self, key_service, self._write, file_is_encrypted=master is not None)
        super().__init__(FieldCipher(self.data_keys, texts=False))
        self._file = DuckdbFile(path, master)
        try:
            with self._file.cursor() as cursor:
                migrate(cursor, path, self.codec)
        except BaseException:
            self._file.close()
            raise
        self._tables = _Tables(self._file, self.codec, self.compiler)
        self._writer = GroupCommit(self._tables, name=f"recollect writer {path.name}")
        self._known: user_sql.Catalog | None = None
        self.capabilities = Capabilities(
            "duckdb", durable=True, many_processes=False, sql=True, encrypted=master is not None
        )

    def index_key(self) -> bytes | None:
        """What the index beside an encrypted file is encrypted with: a key of its own, so that another master key
        leaves the index as it is."""
        if not self.capabilities.encrypted:
            return None
        with self._file.cursor() as cursor:
            kept = cursor.execute("SELECT value FROM recollect_store WHERE key = 'index_key'").fetchall()
            if not kept:
                kept = [(new_data_key().hex(),)]
                cursor.execute("INSERT INTO recollect_store VALUES ('index_key', ?)", kept[0])
        return bytes.fromhex(kept[0][0])

    def tenants(self) -> list[str]:
        with self._file.cursor() as cursor:
            return [id for (id,) in cursor.execute('SELECT id FROM "organization" ORDER BY id').fetchall()]

    def transact(self, scope: Scope, steps: Sequence[Step]) -> Committed:
        return self.data_keys.transact(scope, steps)

    def _write(self, scope: Scope, steps: Sequence[Step]) -> Committed:
        return self._writer.run(lambda: self._tables.apply(scope, steps))

    def search_text(self, scope: Scope, query: TextQuery[Record]) -> list[TextHit]:
        check_text_query(query)
        with self._file.cursor() as cursor:
            return fulltext.search(cursor, self.compiler(), scope, query)

    def query_sql(self, scope: Scope, statement: str, limits: SqlLimits) -> SqlAnswer:
        with self._file.cursor(once=True) as cursor:
            if self._known is None:
                self._known = user_sql.Catalog.by(cursor)
            return user_sql.answer(cursor, self._known, scope, statement, limits)

    def migrate(self) -> list[str]:
        return self._writer.run(lambda: [])  # opening already brought the file up to date

    def backup(self, target: Path) -> None:
        """A copy of all tables as of one moment, made in the store's own folder: no connection may write elsewhere."""
        if target.exists():
            raise InvalidInput(f"'{target}' already exists", remedy="give a path that is not taken")
        aside = self._file.work / f"backup-{new_id()}"
        with translated_errors(target):
            try:
                self._file.copy(aside, incarnation=new_id())
                moved(aside, target, self._file.path)
            finally:
                aside.unlink(missing_ok=True)

    def verify(self) -> list[Problem]:
        with self._file.snapshot() as cursor:
            return list(check(cursor, self.codec))

    def mend(self) -> list[str]:
        return self._writer.run(lambda: rebuild_text(self._tables.run, self.codec))

    def erase_words(self) -> None:
        """Texts are never encrypted one by one here, so no words are left when they are."""

    def erase_traces(self) -> list[str]:
        """Leave no byte of what was deleted: the whole file is written anew, which takes as long as that takes."""
        self._file.rewrite()
        return []

    def scan(self, scope: Scope, needles: Sequence[bytes]) -> Iterator[ScannedPlace]:
        """Every file of the store. DuckDB compresses much of what it writes: reading the records shows that."""
        return scan_files(self.path, needles, pieces_by_child)

    def rename_deleted(self, scope: Scope, names: Mapping[tuple[str, str], str]) -> None:
        self._writer.run(lambda: rename_deleted(self._tables, scope, names))

    def close(self) -> None:
        self._writer.close()
        self._file.close()

    @contextmanager
    def snapshot(self, scope: Scope) -> Iterator[SqlSnapshot]:
        """One read transaction. Who writes the file anew (`erase_traces`) waits until it ends."""

        def run(cursor: duckdb.DuckDBPyConnection, statement: str, values: Values) -> list[Row]:
            with translated_errors(self.path):
                return cursor.execute(statement, values).fetchall()

        with reading(self, scope, self._file.snapshot(), run) as moment:
            yield moment

    @contextmanager
    def vector_snapshot(self) -> Iterator[DuckdbVectors]:
        with self._file.snapshot() as cursor:
            yield DuckdbVectors(cursor)

    def stored_vectors(self, scope: Scope, space: str, ids: Sequence[str]) -> list[StoredVector]:
        namespace, _, model = space.partition("/")
        text = (
            'SELECT memory_id, vector, tokens, start, "end" FROM embedding WHERE organization_id = ? '
            "AND memory_id IN (SELECT unnest(?)) AND namespace = ? AND model = ?"
        )
        return cast(list[StoredVector], self._read(scope, text, (scope.organization_id, list(ids), namespace, model)))

    def _read(self, scope: Scope, statement: str, values: Values) -> list[Row]:
        with self._file.cursor() as cursor:
            return cursor.execute(statement, values).fetchall()


class _Tables(SqlTables[int]):
    """The writer's transaction: what group commit and the steps need of it.

    There are no savepoints, so a piece of work that fails is undone by undoing all, and doing the pieces before it
    again: they see what they saw, and do the same.
    """

    dialect = DIALECT

    def __init__(
        self, file: DuckdbFile, codec: Callable[[type[Record]], Codec], compiler: Callable[[], Compiler]
    ) -> None:
        super().__init__(codec, compiler)
        self._file = file
        self._holding = ExitStack()
        self._cursor: duckdb.DuckDBPyConnection | None = None
        with file.cursor() as cursor:
            ((gone,),) = cursor.execute("SELECT count(*) FROM recollect_gone").fetchall()
        # Nobody else writes this file, so what was committed last is known without asking, unless a commit failed.
        self._committed: tuple[int, int] | None = None
        self._records = 0
        self._any_gone = gone > 0
        self._done: list[Callable[[], object]] = []
        self._waiting = _PendingWrites()
        self._wrote = False
        self._foreseen: dict[tuple[type[Record], str], _Prefetched] = {}
        self._stored: dict[tuple[str, str], Row] = {}
        self._lost: BaseException | None = None  # why the transaction cannot be committed any more

    def begin(self) -> None:
        self.rollback()
        self._cursor = self._holding.enter_context(self._file.cursor())
        self._done = []
        with translated_errors(self._file.path):
            self._start()

    def _start(self) -> None:
        assert self._cursor is not None
        self._waiting = _PendingWrites()
        self._lost = None
        self._cursor.execute("BEGIN TRANSACTION")
        if self._committed is None:
            counters: dict[str, int] = dict(self._cursor.execute(_COUNTERS).fetchall())
            self._committed = counters["seq"], counters["records"]
        self.seq, self._records = self._committed

    def attempt(self, work: Callable[[], T]) -> T:
        with translated_errors(self._file.path):
            self._still_open()
            self._wrote = False
            before = self.seq, self._records
            try:
                result = self._whole(work)
            except BaseException as error:
                self._undo(before, touched=self._wrote or isinstance(error, duckdb.Error))
                raise
            self._done.append(work)
            return result

    def _whole(self, work: Callable[[], T]) -> T:
        result = work()
        self._flush()
        return result

    def _undo(self, before: tuple[int, int], touched: bool) -> None:
        if not touched:
            self._waiting = _PendingWrites()
            self.seq, self._records = before
            return
        try:
            assert self._cursor is not None
            end(self._cursor)
            self._start()
            for work in self._done:
                self._whole(work)
        except BaseException as error:
            self._lost = error
            raise

    def _still_open(self) -> None:
        if self._lost is not None:
            raise self._lost

    def commit(self) -> None:
        with translated_errors(self._file.path):
            self._still_open()
            if not self._done:
                self.rollback()
                return
            assert self._cursor is not None
            self._committed = None
            self._cursor.execute(
                "UPDATE recollect_store SET value = CASE key WHEN 'seq' THEN ?::VARCHAR ELSE ?::VARCHAR END "
                "WHERE key IN ('seq', 'records')",
                [self.seq, self._records],
            )
            self._file.same_file()
            self._cursor.execute("COMMIT")
            self._file.guard_log()
            self._file.same_file()
        self._committed, self._cursor = (self.seq, self._records), None
        self._holding.close()

    def tidy(self) -> None:
        """DuckDB moves its log by itself."""

    def rollback(self) -> None:
        cursor, self._cursor = self._cursor, None
        with self._holding:
            if cursor is not None:
                end(cursor)

    def close(self) -> None:
        self.rollback()

    def apply(self, scope: Scope, steps: Sequence[Step]) -> Committed:
        self.serve(scope)
        work = Transaction(self, scope)
        self._foresee(scope, steps)
        self._foresee_references(work, scope, steps)
        self._foresee_stored(scope, steps)
        try:
            done = work.apply(steps)
        except (Conflict, InvalidInput, NotFound):
            self._flush()  # a row that waits may break a key: then an earlier step is to blame
            raise
        self._records += work.growth
        return done

    def run(self, statement: str, values: Values = ()) -> list[Row]:
        if statement == RETURNED:
            self._waiting.returned.append(tuple(values))
            return []
        if self._stored and values and isinstance(values[-1], str):
            found = self._stored.pop((statement, values[-1]), None)
            if found is not None:
                return [found]
        self._flush()
        return self._execute(statement, values)

    def look(self, query: Query[Record], statement: str, values: Values) -> list[Row]:
        """Of many memories each is looked for before it is added: rows with other values need not be written yet."""
        wanted = _wanted(query.where)
        if wanted is None or self._waiting.updates or self._waiting.has(query.record.shape.table, *wanted):
            return self.run(statement, values)
        foreseen = self._foreseen.get((query.record, wanted[0]))
        if foreseen is not None and wanted[1] in foreseen.asked and wanted[1] not in foreseen.found:
            return []
        return self._execute(statement, values)

    def _foresee(self, scope: Scope, steps: Sequence[Step]) -> None:
        """What thousands of steps will look for, asked at once; known until something is written."""
        self._foreseen = {}
        asked: dict[tuple[type[Record], str], list[str]] = {}
        for step in steps:
            wanted = _wanted(step.where) if isinstance(step, Absent) else None
            if isinstance(step, Absent) and wanted is not None:
                asked.setdefault((step.record, wanted[0]), []).append(wanted[1])
        for (record, field), values in asked.items():
            if len(values) > FEW and field in columns_of(record):
                text = (
                    f"SELECT DISTINCT {quoted(field)} FROM {quoted(record.shape.table)} "
                    f"WHERE organization_id = ? AND {quoted(field)} IN (SELECT unnest(?))"
                )
                found = self._execute(text, [scope.organization_id, values])
                self._foreseen[record, field] = _Prefetched(frozenset(values), {value for (value,) in found})

    def _foresee_references(self, work: Transaction[int], scope: Scope, steps: Sequence[Step]) -> None:
        """What thousands of records refer to, asked at once: a question in between would write them one by one."""
        if sum(isinstance(step, Insert) for step in steps) <= FEW:
            return
        for table, ids in references_of(steps).items():
            text = f"SELECT id, is_deleted FROM {quoted(table)} WHERE organization_id = ? AND id IN (SELECT unnest(?))"
            for id, is_deleted in self._execute(text, [scope.organization_id, sorted(ids)]):
                work.expect(table, id, is_deleted)

    def _foresee_stored(self, scope: Scope, steps: Sequence[Step]) -> None:
        """The stored versions of what many updates replace, asked at once; not of what comes after something that may
        change them otherwise."""
        self._stored = {}
        asked: dict[type[Record], list[str]] = {}
        for step in takewhile(lambda one: isinstance(one, Insert | Update | Require | Absent), steps):
            if isinstance(step, Update):
                asked.setdefault(type(step.record), []).append(step.record.id)
        for record, ids in asked.items():
            if len(ids) > FEW:
                statement = stored_statement(record, DIALECT.row)
                named = statement.replace(" FROM ", ", id FROM ", 1).replace('"id" = ?', '"id" IN (SELECT unnest(?))')
                for *row, id in self._execute(named, [scope.organization_id, ids]):
                    self._stored[statement, id] = tuple(row)

    def _execute(self, statement: str, values: Values = ()) -> list[Row]:
        assert self._cursor is not None
        if not statement.startswith("SELECT"):
            self._wrote, self._foreseen = True, {}
        try:
            return self._cursor.execute(statement, values).fetchall()
        except duckdb.ConstraintException as error:
            raise _duplicate(error, statement) from None

    def insert_row(self, table: str, names: tuple[str, ...], values: Values) -> int:
        """The row waits for its neighbours: in one statement 1,500 rows take 18 ms, one by one 700."""
        if names[0] == "_seq":
            names, values = ("_row", *names), (values[0], *values)
        else:
            self._any_gone = True
        self._waiting.add(table, names, values)
        return int(values[0])

    def update_row(self, table: str, names: tuple[str, ...], values: Values, where: Row) -> None:
        """Waits for its neighbours, too: of two hundred, each took as long as all of them together."""
        rows = self._waiting.updates.get((table, names), {})
        if self._waiting.rows or self._waiting.returned or where[0] in rows:
            self._flush()  # in the order in which they came
        self._waiting.updates.setdefault((table, names), {})[where[0]] = values

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, _PendingWrites()
        for (table, names), updated in waiting.updates.items():
            if len(updated) <= FEW:
                for row, values in updated.items():
                    self._execute(update_statement(table, names, DIALECT.at_row), [*values, row])
            else:
                numbered = [(row, *values) for row, values in updated.items()]
                self._execute(_update_many(table, names), [list(column) for column in zip(*numbered, strict=True)])
        for table, unindexed in waiting.unindexed.items():
            self._execute(f"DELETE FROM {quoted(table)} WHERE row IN (SELECT unnest(?))", [unindexed])
        for (table, names), rows in waiting.rows.items():
            if len(rows) <= FEW:
                self._execute(_few_statement(table, names, len(rows)), [value for row in rows for value in row])
            else:
                self._execute(_many_statement(table, names), [list(column) for column in zip(*rows, strict=True)])
        if waiting.returned and self._any_gone:
            gone = "SELECT unnest(?), unnest(?), unnest(?)"
            self._execute(
                f"DELETE FROM recollect_gone WHERE (organization_id, table_name, id) IN ({gone})",
                [list(column) for column in zip(*waiting.returned, strict=True)],
            )

    def next_seq(self) -> int:
        self.seq += 1
        return self.seq

    def index_text(self, row: int, record: Record, *, fresh: bool) -> None:
        if not fresh:
            self.unindex_text(type(record), [row])
        terms = sorted(fulltext.terms_of(record))
        if terms:
            table = fulltext.text_table(type(record))
            words = self._waiting.rows.setdefault((table, fulltext.NAMES), [])
            words.extend((term, row) for term in terms)
            self._waiting.worded.setdefault(table, set()).add(row)

    def unindex_text(self, record: type[Record], rows: Sequence[int]) -> None:
        table = fulltext.text_table(record)
        if any(row in self._waiting.worded.get(table, ()) for row in rows):
            self._flush()  # words that wait to be written must not outlive it
        self._waiting.unindexed.setdefault(table, []).extend(rows)


class _Prefetched(NamedTuple):
    """The values that were looked for, and those that are there."""

    asked: Collection[str]
    found: Collection[str]


class _PendingWrites:
    """What is to be written with the next statement, in this order."""

    def __init__(self) -> None:
        self.updates: dict[tuple[str, tuple[str, ...]], dict[int, Values]] = {}
        self.unindexed: dict[str, list[int]] = {}
        self.worded: dict[str, set[int]] = {}
        self.rows: dict[tuple[str, tuple[str, ...]], list[Values]] = {}
        self.returned: list[Row] = []
        self._values: dict[tuple[str, str], set[object]] = {}

    def add(self, table: str, names: tuple[str, ...], values: Values) -> None:
        self.rows.setdefault((table, names), []).append(values)
        for (of_table, name), known in self._values.items():
            if of_table == table:
                known.add(values[names.index(name)])

    def has(self, table: str, field: str, value: str) -> bool:
        """Whether a waiting row of the table has this value."""
        known = self._values.get((table, field))
        if known is None:
            known = self._values[table, field] = {
                row[names.index(field)] for (of, names), rows in self.rows.items() if of == table for row in rows
            }
        return value in known


def _wanted(where: Sequence[Filter]) -> tuple[str, str] | None:
    """A field that must have a certain text, whatever else is asked; None if rows of other tables matter."""
    if any(_asks_elsewhere(one) for one in where):
        return None
    for one in where:
        if isinstance(one, Compare) and one.operator == "=" and one.key is None and isinstance(one.value, str):
            return one.field, one.value
    return None


def _asks_elsewhere(given: Filter) -> bool:
    """Whether a filter depends on rows of other tables, some of which may be waiting."""
    if isinstance(given, AnyOf | AllOf):
        return any(_asks_elsewhere(one) for one in given.filters)
    return isinstance(given, Linked)


class DuckdbVectors:
    """The stored vectors as one read transaction sees them."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection) -> None:
        self._cursor = cursor

    def _ask(self, statement: str, *values: object) -> list[Row]:
        return self._cursor.execute(statement, values).fetchall()

    @property
    def incarnation(self) -> str:
        return str(self._ask("SELECT value FROM recollect_store WHERE key = 'incarnation'")[0][0])

    def last_seq(self) -> int:
        return int(self._ask("SELECT value FROM recollect_store WHERE key = 'seq'")[0][0])

    def rows_after(self, seq: int, limit: int) -> list[VectorRow]:
        text = f"SELECT {VECTOR_COLUMNS} FROM embedding WHERE _seq > ? ORDER BY _seq LIMIT ?"
        return vector_rows(self._ask(text, seq, limit))

    def rows_at(self, seqs: Sequence[int]) -> list[VectorRow]:
        if not len(seqs):
            return []
        text = f"SELECT {VECTOR_COLUMNS} FROM embedding WHERE _seq IN (SELECT unnest(?::BIGINT[]))"
        return vector_rows(self._ask(text, [int(seq) for seq in seqs]))

    def living_seqs(self, after: int, upto: int) -> list[int]:
        text = "SELECT _seq FROM embedding WHERE _seq > ? AND _seq <= ? ORDER BY _seq"
        return [seq for (seq,) in self._ask(text, after, upto)]


@cache
def _few_statement(table: str, names: tuple[str, ...], count: int) -> str:
    columns, marks = ", ".join(quoted(name) for name in names), ", ".join("?" * len(names))
    return f"INSERT INTO {quoted(table)}({columns}) VALUES {', '.join([f'({marks})'] * count)}"


@cache
def _many_statement(table: str, names: tuple[str, ...]) -> str:
    """Many rows at once, given column by column."""
    columns = ", ".join(quoted(name) for name in names)
    return f"INSERT INTO {quoted(table)}({columns}) SELECT {', '.join(_listed(table, names))}"


@cache
def _update_many(table: str, names: tuple[str, ...]) -> str:
    """The same for rows that are there, by their number, which comes first."""
    columns = [f"{cast} AS {quoted(name)}" for name, cast in zip(names, _listed(table, names), strict=True)]
    given = ", ".join(["unnest(?::BIGINT[]) AS _row", *columns])
    sets = ", ".join(f"{quoted(name)} = u.{quoted(name)}" for name in names)
    return f"UPDATE {quoted(table)} SET {sets} FROM (SELECT {given}) u WHERE {quoted(table)}._row = u._row"


def _listed(table: str, names: tuple[str, ...]) -> list[str]:
    types = columns_of(RECORDS[table]) if table in RECORDS else {}
    casts = []
    for name in names:
        kind = TYPES[types[name].type] if name in types else "VARCHAR" if name in _GONE_TEXT else "BIGINT"
        casts.append(f"unnest(?::{'VARCHAR' if kind == 'JSON' else kind}[])")
    return casts


_GONE_TEXT = frozenset({"organization_id", "table_name", "id"})


def _duplicate(error: duckdb.ConstraintException, statement: str) -> DuplicateKey | StoreError:
    """DuckDB names the fields of the key, with their values, or the values alone."""
    said, table = str(error), statement.split('"')[1]
    if "uplicate key" not in said or table not in RECORDS:
        return StoreError(f"the store refused a value: {said.splitlines()[0][:200]}")
    keys = [key.fields for key in RECORDS[table].shape.unique]
    named = [fields for fields in keys if all(f"{name}: " in said or f"{name}," in said for name in fields)]
    return DuplicateKey.of(table, named[0] if named else ("id",))
