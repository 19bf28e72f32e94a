"""The record store for teams: a PostgreSQL database.

Promise: what `transact` acknowledged is committed; tenants are kept apart twice, by our own conditions and by the
database's row-level security. Shape: one table per record type with `_seq` (store-wide, ever growing, given anew on
each write), a `_text` of terms where the type is searched, `recollect_gone` for what was deleted for good; see
postgres_schema. Writers of one tenant take turns, so `_seq` grows in order of commit and no reader of `changes` can
miss one that commits late; writers of different tenants do not wait. Proof: tests/adapters/records, tests/property.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from recollect.adapters.postgres.connection import (
    APP,
    Connection,
    Database,
    NearStatement,
    ReadStatement,
    opened_read_only,
)
from recollect.adapters.postgres.flight import set_off
from recollect.adapters.postgres.halfvec import half, offered
from recollect.adapters.postgres.pooler import POOLED
from recollect.adapters.records.common import ddl, migrations
from recollect.adapters.records.common.bulk_transaction import (
    BulkTransaction,
    Counted,
    CountStatement,
    DistantTables,
    StepFailed,
    is_by_key,
)
from recollect.adapters.records.common.checks import check_text as check_text_query
from recollect.adapters.records.common.checks import checked_touch
from recollect.adapters.records.common.codec import Codec
from recollect.adapters.records.common.data_keys import DataKeys
from recollect.adapters.records.common.dialect import Values
from recollect.adapters.records.common.field_cipher import FieldCipher
from recollect.adapters.records.common.sql_compiler import Compiler, quoted
from recollect.adapters.records.common.sql_reads import Derived, SqlReads, SqlSnapshot, reading
from recollect.adapters.records.common.sql_tables import insert_statement, rename_deleted
from recollect.adapters.records.common.transaction import Transaction, unique_values
from recollect.adapters.records.postgres import cluster, distribution, dump, member_indexes, preflight
from recollect.adapters.records.postgres import partitions as postgres_layout
from recollect.adapters.records.postgres import schema as tables_of
from recollect.adapters.records.postgres.copying import COPIED_STEPS, copy_rows, is_copied, may_copy
from recollect.adapters.records.postgres.dialect import DIALECT, inserts_at_once, placeholders, several_rows
from recollect.adapters.records.postgres.fulltext import TextSearch
from recollect.adapters.records.postgres.fulltext_index import (
    RecordReading,
    check_text,
    erase_words,
    rebuild_text,
    running,
    text_value,
)
from recollect.adapters.records.postgres.logins import check_logins
from recollect.adapters.records.postgres.maintenance import check_records
from recollect.adapters.records.postgres.member_indexes import MemberSearch
from recollect.adapters.records.postgres.read_ahead import Chain, read_ahead
from recollect.adapters.records.postgres.scan import scan_tables
from recollect.adapters.records.postgres.vacuuming import vacuum
from recollect.adapters.records.postgres.vectors import (
    FACET_COLUMNS,
    PostgresVectors,
    no_vectors,
    prepare,
    stored_vectors,
)
from recollect.domain.audit import AccessLog
from recollect.domain.memory import Embedding
from recollect.domain.record import RECORDS, Record, now
from recollect.errors import (
    Closed,
    Conflict,
    DamagedData,
    DuplicateKey,
    InvalidInput,
    NotFound,
    StoreReadOnly,
    WrongKey,
)
from recollect.ports.keys import KeyService
from recollect.ports.member_indexes import MemberIndex
from recollect.ports.partitions import Machine, Partition
from recollect.ports.query import Page, Query, Reading, Row, TextHit, TextQuery
from recollect.ports.read_ahead import PoolReading, ReadAhead
from recollect.ports.records import Capabilities, Problem, Remark, Scope
from recollect.ports.steps import Committed, Insert, Step, Touch
from recollect.ports.traces import ScannedPlace
from recollect.ports.vectors import StoredVector

R = TypeVar("R", bound=Record)
SEQS_AT_ONCE = 16
ROWS_AT_ONCE = 64
_ADDED = {"integer": "bigint", "real": "double precision"}
_NUMBERS: dict[str, Callable[[int | float], int | float]] = {"integer": int, "real": float}
_NEXT_SEQS = "SELECT nextval('recollect_seq') FROM generate_series(1, %s)"


class PostgresStore(SqlReads):
    scans_files = False
    dialect = DIALECT
    facet_columns: Mapping[str, str] = FACET_COLUMNS
    embedding_tables: Sequence[str] = ()

    def __init__(
        self,
        address: str,
        *,
        upkeep: str | None = None,
        key_service: KeyService | None = None,
        readonly: bool = False,
    ) -> None:
        """`upkeep` is the address for the login that owns the tables, if `address` is for one that only serves."""
        self.data_keys = DataKeys(self, key_service, self._write)
        super().__init__(FieldCipher(self.data_keys))
        self._reading = RecordReading(self.codec, self.data_keys, self._cipher)
        self.database = Database(address, upkeep=upkeep, readonly=readonly)
        self._ahead = (0, 0)
        self._text = TextSearch(self.database, self.compiler, self._cipher)
        self._members = MemberSearch(self.database)
        self.months_ahead = tables_of.MONTHS_AHEAD
        self.shard_count: int | None = None
        self.tools: Path | None = None
        self.has_vectors = self.vectors_are_new = self._may_copy = False
        try:
            self.migrate()
            self.capabilities = Capabilities(
                "postgres",
                durable=True,
                many_processes=True,
                partitions=True,
                pgvector=self.has_vectors,
                remarks=self._remarks(),
            )
        except BaseException:
            self.database.close()
            raise

    def __repr__(self) -> str:
        return f"PostgresStore({self.database.label})"

    def tenants(self) -> list[str]:
        with self.database.translated_errors(), self.database.snapshot() as connection:
            return [id for (id,) in connection.execute('SELECT id FROM "organization" ORDER BY id')]

    def transact(self, scope: Scope, steps: Sequence[Step]) -> Committed:
        if self.database.readonly:
            raise opened_read_only()
        self._look_ahead()
        return self.data_keys.transact(scope, list(steps))

    def _write(self, scope: Scope, steps: Sequence[Step]) -> Committed:
        try:
            return self._attempt(scope, steps, together=True)
        except (StepFailed, DuplicateKey):
            # Together, the steps cannot say which of them failed first: one by one they do.
            return self._attempt(scope, steps, together=False)

    def _attempt(self, scope: Scope, steps: Sequence[Step], *, together: bool) -> Committed:
        is_bulk = together and len(steps) >= COPIED_STEPS and self._may_copy and not self.database.is_distributed
        return self.database.write(
            scope.organization_id,
            lambda connection: self._apply(connection, scope, steps, together=together, is_bulk=is_bulk),
            by_key=together and is_by_key(steps),
            is_bulk=is_bulk,
        )

    def search_text(self, scope: Scope, query: TextQuery[Record]) -> list[TextHit]:
        check_text_query(query)
        return self._text.search(scope, query)

    def find(self, scope: Scope, query: Query[R]) -> Page[R]:
        return super().find(scope, self._members.narrowed(scope, query))

    def select_each(self, scope: Scope, readings: Sequence[Reading]) -> list[list[Row]]:
        return super().select_each(
            scope, [(self._members.narrowed(scope, query), fields) for query, fields in readings]
        )

    def count(self, scope: Scope, query: Query[Record], most: int | None = None) -> int:
        return super().count(scope, self._members.narrowed(scope, query), most)

    def index_members(self, wanted: Sequence[MemberIndex]) -> None:
        with self.as_owner() as connection, tables_of.alone(connection):
            member_indexes.update(connection, wanted)
        self._members.indexed = frozenset((one.record, one.field) for one in wanted)

    def migrate(self) -> list[str]:
        if self.database.readonly:
            self._look()
            return []
        connection = self.database.upkeep.connect()
        try:
            with self.database.translated_errors(), tables_of.alone(connection):
                self.database.is_distributed = cluster.go_in_sequence(connection)
                applied = tables_of.migrate(connection, self.database.label, self._reading)
                self.has_vectors, self.vectors_are_new = prepare(connection)
                if self.database.is_distributed:
                    distribution.spread(connection)  # the tables that are new
                self.embedding_tables = tables_of.pieces(connection, "embedding")
                # On a cluster many rows go to a worker in one statement instead.
                self._may_copy = not self.database.is_distributed and may_copy(connection)
        finally:
            connection.close()
        self._ahead = _this_month(), tables_of.MONTHS_AHEAD
        return applied

    def _look(self) -> None:
        """What `migrate` finds out, without changing anything: a store that is not up to date is refused."""
        with self.as_owner() as connection:
            self.database.is_distributed = cluster.is_distributed(connection)
            made = connection.execute("SELECT to_regclass('recollect_migrations')").fetchall() != [(None,)]
            done = ddl.recorded(running(connection)) if made else {}
            if done != {one.number: one.checksum for one in migrations.migrations()}:
                raise StoreReadOnly(
                    f"{self.database.label} is of another version of Recollect, and must be written to be brought up",
                    remedy="open it once without readonly=True: `recollect migrate --store …`",
                )
            columns = "SELECT 1 FROM pg_attribute WHERE attrelid = 'embedding'::regclass AND attname = '_halfvec'"
            self.has_vectors = offered(connection) and bool(connection.execute(columns).fetchall())
            self.embedding_tables = tables_of.pieces(connection, "embedding")

    def _remarks(self) -> tuple[Remark, ...]:
        remarks = [check_logins(self.database)]
        if self.database.is_pooled or self.database.upkeep.is_pooled:
            remarks.append(POOLED)
        if not self.has_vectors:
            with self.as_owner() as connection:
                remarks.append(no_vectors(connection))
        return tuple(remarks)

    def backup(self, target: Path) -> None:
        dump.dump(self.database.upkeep, target, self.tools)

    def verify(self) -> list[Problem]:
        with self.database.translated_errors(), self.database.snapshot() as connection:
            return [*check_records(connection, self.codec), *check_text(connection, self._reading)]

    def mend(self) -> list[str]:
        """Write the terms of every record again, and their indexes."""
        with self.as_owner() as connection:
            return rebuild_text(connection, self._reading)

    def erase_traces(self) -> list[str]:
        """Vacuum gives the space of deleted rows free; the files hold their bytes until that space is used again."""
        with self.as_owner() as connection:
            return vacuum(connection, (*sorted(RECORDS), "recollect_gone"))

    def erase_words(self) -> None:
        with self.as_owner() as connection:
            erase_words(connection)

    def scan(self, scope: Scope, needles: Sequence[bytes]) -> Iterator[ScannedPlace]:
        return scan_tables(self.database, scope, needles)

    def rename_deleted(self, scope: Scope, names: Mapping[tuple[str, str], str]) -> None:
        def rename(connection: Connection) -> None:
            tables = _Tables(self.database, connection, self.codec, self.compiler)
            rename_deleted(tables, scope, names)

        self.database.write(scope.organization_id, rename)

    def close(self) -> None:
        self.database.close()

    @contextmanager
    def snapshot(self, scope: Scope) -> Iterator[SqlSnapshot]:
        """One transaction on one line, so a pooler between us keeps it together. A cluster's shards have no moment in
        common: there it is one moment for each of them, and a tenant lies in one."""

        def run(connection: Connection, statement: str, values: Values) -> list[Row]:
            with self.database.translated_errors():
                return connection.execute(placeholders(statement), values).fetchall()

        with reading(self, scope, self.database.moment(scope.organization_id), run) as moment:
            yield moment

    @contextmanager
    def vector_snapshot(self) -> Iterator[PostgresVectors]:
        with self.database.translated_errors(), self.database.snapshot() as connection:
            yield PostgresVectors(connection)

    def stored_vectors(self, scope: Scope, space: str, ids: Sequence[str]) -> list[StoredVector]:
        return stored_vectors(self.database, scope, space, ids)

    def read_ahead(self, scope: Scope, reading: PoolReading, near: Sequence[NearStatement]) -> ReadAhead | None:
        """A cluster hands no settings on to its workers, and another login searches by words elsewhere. What cannot be
        read is looked for by whoever asks, one by one.
        """
        if self.database.is_distributed or self.database.upkeep is not self.database:
            return None
        chain = Chain(self.database, self.codec, self._cipher.seals_texts, scope, reading)
        try:
            return read_ahead(chain, self._text, scope, reading, near)
        except (DamagedData, WrongKey):
            return None

    def _read_all(self, scope: Scope, readings: Sequence[tuple[str, Values]]) -> list[list[Row]]:
        questions = [ReadStatement(placeholders(statement), values) for statement, values in readings]
        return self.database.ask(scope.organization_id, *questions)

    def _apply(
        self,
        connection: Connection,
        scope: Scope,
        steps: Sequence[Step],
        *,
        together: bool = False,
        is_bulk: bool = False,
    ) -> Committed:
        tables = _Tables(self.database, connection, self.codec, self.compiler, is_bulk=is_bulk)
        tables.serve(scope)
        try:
            return (BulkTransaction(tables, scope) if together else Transaction(tables, scope)).apply(steps)
        except (Conflict, InvalidInput, NotFound):
            # What the server has to say of the steps before this one is still under way, and comes first.
            connection.execute("SELECT 1").fetchall()
            raise

    def _derived(self, record: type[Record]) -> Derived:
        if record is Embedding and self.has_vectors:
            return (("_halfvec", lambda embedding: half(embedding.vector)),)
        return (("_text", partial(text_value, cipher=self._cipher)),) if record.shape.text else ()

    @contextmanager
    def as_owner(self) -> Iterator[Connection]:
        """A connection of its own, for upkeep: only the owner of tables may index and vacuum them."""
        if self.database.is_closed:
            raise Closed("this store is closed", remedy="open it again")
        connection = self.database.upkeep.connect()
        try:
            with self.database.translated_errors():
                yield connection
        finally:
            connection.close()

    def _look_ahead(self) -> None:
        """A program that runs for months makes the partitions of the next ones itself."""
        wanted = _this_month(), self.months_ahead
        if self._ahead != wanted:
            self._ahead = wanted
            self.make_ahead(self.months_ahead)

    def partitions(self) -> list[Partition]:
        listed = postgres_layout.listed_on_a_cluster if self.database.is_distributed else postgres_layout.listed
        with self.database.translated_errors(), self.database.snapshot() as connection:
            return listed(connection)

    def make_ahead(self, months: int) -> list[str]:
        with self.as_owner() as connection:
            return tables_of.make_partitions(connection, months_ahead=months)

    def rows_by_tenant(self, partition: Partition) -> dict[str, int]:
        with self.database.translated_errors(), self.database.snapshot() as connection:
            return postgres_layout.rows_by_tenant(connection, partition)

    def hanging(self, partition: Partition) -> dict[str, int]:
        with self.database.translated_errors(), self.database.snapshot() as connection:
            return postgres_layout.hanging(connection, partition)

    def drop(self, partition: Partition, notes: Sequence[AccessLog]) -> bool:
        def write(connection: Connection) -> None:
            connection.execute(f"SET LOCAL ROLE {APP}")
            for note in notes:
                connection.execute(self.database.bound(note.organization_id))
                self._apply(connection, Scope(note.organization_id), [Insert(note)])

        if self.database.is_distributed:
            # Another role has other connections to the workers: within one transaction it would wait for the drop, and
            # the drop for it. A note that comes too early is better than one that never comes.
            for note in notes:
                self.transact(Scope(note.organization_id), [Insert(note)])
        with self.as_owner() as connection:
            return postgres_layout.drop(connection, partition, None if self.database.is_distributed else write)

    def distribute(self) -> list[str]:
        with self.as_owner() as connection:
            distribution.prepare(connection, self.database.label)
            with tables_of.alone(connection):
                spread = distribution.spread(connection, self.shard_count)
            distribution.clear(connection)
            self.database.is_distributed = cluster.is_distributed(connection)
            self.embedding_tables = tables_of.pieces(connection, "embedding")
        return spread

    def machines(self) -> list[Machine]:
        if not self.database.is_distributed:
            return []
        with self.as_owner() as connection:
            return preflight.machines(connection, self.database.label)


class _Tables(DistantTables):
    """What the steps need of one transaction. The text index is a column, written with the row."""

    dialect = DIALECT
    unguarded = frozenset(tables_of.BY_MONTH)

    def __init__(
        self,
        database: Database,
        connection: Connection,
        codec: Callable[[type[Record]], Codec],
        compiler: Callable[[], Compiler],
        *,
        is_bulk: bool = False,
    ) -> None:
        super().__init__(codec, compiler)
        self._connection = connection
        self._cursor = database.cursors.working(connection)
        self._is_distributed = database.is_distributed
        self._is_bulk, self._copies = is_bulk, 0
        self._seqs: list[int] = []
        self._seqs_at_once = SEQS_AT_ONCE

    def run(self, statement: str, values: Values = ()) -> list[Row]:
        """Waits only where there is an answer; what a change has to complain of comes with the next answer."""
        done = self._cursor.execute(placeholders(statement), values)
        return done.fetchall() if statement.startswith("SELECT") else []

    def count_all(self, counts: Sequence[CountStatement], seqs: int) -> Counted:
        """In one statement; a cluster is asked one by one, since each is sent to where its rows are."""
        if self._is_distributed:
            return self._count_each(counts, seqs)
        parts = [f"({placeholders(one.statement)})" for one in counts]
        parts.append(f"ARRAY({_NEXT_SEQS})")
        values = [value for one in counts for value in one.values]
        asked = self._cursor.execute(f"SELECT {', '.join(parts)}", [*values, seqs])
        set_off(self._connection)

        def counted() -> tuple[list[int], list[int]]:
            *answers, new_seqs = asked.fetchall()[0]
            return answers, sorted(new_seqs)

        return counted

    def _count_each(self, counts: Sequence[CountStatement], seqs: int) -> Counted:
        asked = [self._connection.execute(placeholders(one.statement), one.values) for one in counts]
        new = self._connection.execute(_NEXT_SEQS, (seqs,)) if seqs else None

        def counted() -> tuple[list[int], list[int]]:
            answers = [one.fetchall()[0][0] for one in asked]
            return answers, sorted(seq for (seq,) in new.fetchall()) if new else []

        return counted

    def write_many(self, statement: str, rows: Sequence[Values]) -> None:
        """One server is quickest with a statement that is prepared once and sent for each row. On a cluster each of
        them goes to a worker and back, so many rows go at once: not prepared, as so many seldom come the same again.
        """
        if len(rows) == 1:
            self._cursor.execute(placeholders(statement), rows[0])
        elif not self._is_distributed:
            self._connection.cursor().executemany(placeholders(statement), rows)
        else:
            for start in range(0, len(rows), ROWS_AT_ONCE):
                some = rows[start : start + ROWS_AT_ONCE]
                values = [value for row in some for value in row]
                self._connection.execute(placeholders(several_rows(statement, len(some))), values, prepare=False)

    def write_each(self, inserts: Sequence[tuple[str, Values]]) -> None:
        """As one statement: they need not be in order, since nothing that is stored is referred to by the database."""
        if self._is_distributed or len(inserts) < 2:
            super().write_each(inserts)
        else:
            statement = inserts_at_once(tuple(statement for statement, _ in inserts))
            self._cursor.execute(statement, [value for _, row in inserts for value in row])

    def touch_many(self, run: Sequence[Touch]) -> bool:
        """In one statement; a cluster is told one by one, each where its row is."""
        first = run[0]
        put, codec = checked_touch(first), self.codec(first.record)
        is_once = len({step.id for step in run}) == len(run)  # of those with one id, one statement would count one
        if self._is_distributed or not is_once or any(codec.is_sealed(name) for name in put):
            return False
        for step in run[1:]:
            checked_touch(step)
        added = [f"{quoted(name)} = coalesce(t.{quoted(name)}, 0) + v.{quoted(name)}" for name in first.add]
        sets = ", ".join([*added, *(f"{quoted(name)} = %s" for name in put)])
        types = ", ".join(["%s::text[]", *(f"%s::{_ADDED[codec.types[name]]}[]" for name in first.add)])
        columns = ", ".join(["id", *map(quoted, first.add)])
        statement = (
            f"UPDATE {quoted(first.record.shape.table)} t SET {sets} FROM unnest({types}) v({columns}) "
            "WHERE t.organization_id = %s AND t.id = v.id"
        )
        values = [codec.bound(name, value) for name, value in put.items()]
        amounts = [[_NUMBERS[codec.types[name]](step.add[name]) for step in run] for name in first.add]
        self._connection.execute(statement, [*values, [step.id for step in run], *amounts, self.tenant])
        return True

    def copy_many(self, table: str, names: tuple[str, ...], rows: Sequence[Values]) -> bool:
        if not self._is_bulk or not is_copied(rows):
            return False
        self._copies += 1
        copy_rows(self._connection, table, names, rows, self._copies)
        return True

    def insert_row(self, table: str, names: tuple[str, ...], values: Values) -> str:
        self.run(insert_statement(table, names), values)
        return ""  # the text index is a column: nobody asks for the row

    def check_unique(self, record: Record) -> None:
        """Safe without an index that refuses: the tenant has no other writer now."""
        for key in record.shape.unique:
            values = unique_values(record, key)
            if values is None:
                continue
            same = " AND ".join(f"{quoted(name)} IS NOT DISTINCT FROM ?" for name in key.fields)
            statement = (
                f"SELECT 1 FROM {quoted(record.shape.table)} WHERE organization_id = ? AND id <> ? AND {same} LIMIT 1"
            )
            if self.run(statement, [record.organization_id, record.id, *values]):
                raise DuplicateKey.of(record.shape.table, key.fields)

    def next_seq(self) -> int:
        """A few at a time: asking for each would be a third of all the talk with the server."""
        if not self._seqs:
            rows = self._connection.execute(_NEXT_SEQS, (self._seqs_at_once,)).fetchall()
            self._seqs = sorted((seq for (seq,) in rows), reverse=True)
            self._seqs_at_once = min(4 * self._seqs_at_once, 4096)
        self.seq = self._seqs.pop()
        return self.seq


def _this_month() -> int:
    today = now()
    return today.year * 12 + today.month
