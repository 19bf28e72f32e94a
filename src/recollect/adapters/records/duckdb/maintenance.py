"""Making, migrating, checking and mending the tables of a DuckDB store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import duckdb

from recollect.adapters.encryption.master_key import MasterKey
from recollect.adapters.records.common import migrations
from recollect.adapters.records.common.codec import Codec
from recollect.adapters.records.common.ddl import (
    Ddl,
    Table,
    index_name,
    is_current,
    mark_text,
    marks,
    recorded,
    text_marks,
    update_text,
)
from recollect.adapters.records.common.dialect import Run, Values
from recollect.adapters.records.common.integrity import check_count, check_references
from recollect.adapters.records.common.sql_compiler import quoted
from recollect.adapters.records.common.text_terms import READ_OTHERWISE
from recollect.adapters.records.duckdb.dialect import TYPES
from recollect.adapters.records.duckdb.file import DuckdbFile, end
from recollect.adapters.records.duckdb.fulltext import MAKER, make_text, terms_of, text_table
from recollect.domain.record import RECORDS, Record, new_id
from recollect.errors import DamagedData, NotARecollectStore, WrongKey
from recollect.ports.query import Row
from recollect.ports.records import Part, Problem

CodecOf = Callable[[type[Record]], Codec]
BATCH = 2000
# Fields that many records share: a scan finds those sooner than an index, and DuckDB would not use one.
OWNERS = frozenset({"user_id", "agent_id", "session_id", "project_id", "owner_id"})


class DuckdbDdl(Ddl):
    """Columns are never declared as not empty, and only indexes of one column are of use: DuckDB reads no others."""

    types = TYPES
    empty = {
        "text": "''",
        "integer": "0",
        "real": "0.0",
        "boolean": "false",
        "json": "'null'",
        "bytes": "''::BLOB",
        "moment": "'1970-01-01'",
    }

    def create_table(self, step: Table) -> Iterator[str]:
        name, columns = step["table"], ", ".join(self.column(column) for column in step["columns"])
        yield f"CREATE TABLE {quoted(name)}(_row BIGINT, _seq BIGINT, {columns})"
        yield f"CREATE UNIQUE INDEX {quoted(name + '_key')} ON {quoted(name)}(organization_id, id)"
        # This one is for reading, the one above for refusing.
        yield f"CREATE INDEX {quoted(index_name(name, ['id']))} ON {quoted(name)}(id)"
        yield from self.keys_and_indexes(step)

    def column(self, column: Values, filler: str | None = None) -> str:
        name, type, nullable = column
        default = "" if nullable or filler is None else f" DEFAULT {filler}"
        return f"{quoted(name)} {self.types[type]}{default}"

    def add_unique(self, table: Table, key: Table) -> Iterator[str]:
        yield from super().add_unique(table, key)
        yield from self.add_index(table, key["fields"])

    def add_index(self, table: Table, fields: Sequence[str]) -> Iterator[str]:
        name, field = table["table"], fields[0]
        if field not in OWNERS and field.endswith(("_id", "identity", "_key")):
            yield f"CREATE INDEX IF NOT EXISTS {quoted(index_name(name, [field]))} ON {quoted(name)}({quoted(field)})"

    def add_unset_index(self, table: Table, field: str) -> Iterator[str]:
        return iter(())  # it has no partial indexes, and reads one column of all rows about as fast

    def drop_index(self, table: Table, fields: Sequence[str]) -> Iterator[str]:
        leading = [one[0] for one in table["indexes"]] + [key["fields"][0] for key in table["unique"]]
        if leading.count(fields[0]) == 1 and fields[0] != "id":
            yield from super().drop_index(table, fields[:1])

    def kept(self, moment: datetime) -> datetime:
        return moment.replace(tzinfo=None)


DDL = DuckdbDdl()


def running(cursor: duckdb.DuckDBPyConnection) -> Run:
    return lambda statement, values: cursor.execute(statement, values).fetchall()


def migrate(cursor: duckdb.DuckDBPyConnection, path: Path, codec_of: CodecOf) -> list[str]:
    """Bring the file up to date: each migration in a transaction of its own, recorded in the same one.

    In a new file all tables are made at once.
    """
    is_new = _refuse_foreign(cursor, path)
    run = running(cursor)
    if not is_new and is_current(run, MAKER):
        return []
    with _whole(cursor):
        _create(cursor)
        applied = DDL.make(run)
    for migration in [] if applied else migrations.migrations():
        with _whole(cursor):
            if DDL.migrate(migration, run, duckdb.ConstraintException, f"'{path.name}'"):
                applied.append(migration.name)
    with _whole(cursor):
        update_text(
            run,
            MAKER,
            drop=lambda table: run(f"DROP TABLE IF EXISTS {quoted(table + '_text')}", ()),
            make=lambda record: make_text(run, record, codec_of(record)),
        )
    return applied


@contextmanager
def _whole(cursor: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """A transaction."""
    cursor.execute("BEGIN TRANSACTION")
    try:
        yield
        cursor.execute("COMMIT")
    except BaseException:
        end(cursor)
        raise


def examine(path: Path, master: MasterKey | None = None) -> str:
    """What is there, in a sentence; the error that opening it would end with, if it would. Changes nothing."""
    file = DuckdbFile(path, master)
    try:
        with file.cursor() as cursor:
            done = {} if _refuse_foreign(cursor, path) else recorded(running(cursor))
        said = migrations.outstanding(done, f"'{path.name}'")
        return f"{said}; {'encrypted' if master is not None else 'not encrypted'}"
    finally:
        file.close()


def _refuse_foreign(cursor: duckdb.DuckDBPyConnection, path: Path) -> bool:
    """Whether there is nothing yet; a file of another program is refused."""
    tables = {name for (name,) in cursor.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    if tables and "recollect_store" not in tables:
        raise NotARecollectStore(
            f"'{path}' is a DuckDB file of another program", remedy="give another path; this file was not changed"
        )
    return not tables


def _create(cursor: duckdb.DuckDBPyConnection) -> None:
    cursor.execute(
        "CREATE TABLE IF NOT EXISTS recollect_migrations"
        "(number INTEGER, name VARCHAR, checksum VARCHAR, applied_at TIMESTAMP);"
        "CREATE TABLE IF NOT EXISTS recollect_store(key VARCHAR, value VARCHAR);"
        "CREATE TABLE IF NOT EXISTS recollect_gone"
        "(seq BIGINT, organization_id VARCHAR, table_name VARCHAR, id VARCHAR)"
    )
    if not cursor.execute("SELECT 1 FROM recollect_store").fetchall():
        cursor.execute(
            "INSERT INTO recollect_store VALUES ('seq', '0'), ('records', '0'), ('incarnation', ?)", [new_id()]
        )


def check(cursor: duckdb.DuckDBPyConnection, codec_of: CodecOf) -> Iterator[Problem]:
    """Re-read every row, validate it again, follow every reference, and compare the words with the texts."""
    if marks(running(cursor)) != text_marks(MAKER):
        yield Problem(what=READ_OTHERWISE, part="index")
    checks = _Checks(cursor)
    for record in list(RECORDS.values()):
        yield from checks.table(record, codec_of(record))
        yield from check_references(checks.ask, record, duckdb.Error)
    if not checks.found:
        yield from check_count(checks.ask, duckdb.Error)


class _Checks:
    """Reads in pieces; a piece that cannot be read is read again row by row, so that the damaged ones have a name."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection) -> None:
        self._cursor = cursor
        self.found = 0

    def ask(self, statement: str, values: Values = ()) -> list[Row]:
        try:
            return self._cursor.execute(statement, values).fetchall()
        except duckdb.Error:
            end(self._cursor)  # a failed statement ends the transaction; what follows sees another moment
            self._cursor.execute("BEGIN TRANSACTION READ ONLY")
            raise

    def table(self, record: type[Record], codec: Codec) -> Iterator[Problem]:
        table = record.shape.table
        try:
            keys = self.ask(f"SELECT _row, organization_id, id FROM {quoted(table)} ORDER BY _row")
        except duckdb.Error as error:
            self.found += 1
            yield Problem(what=f"the keys cannot be read: {_said(error)}", table=table)
            return
        for start in range(0, len(keys), BATCH):
            for problem in self._piece(record, codec, keys[start : start + BATCH]):
                self.found += 1
                yield problem
        if record.shape.text:
            yield from self._strays(record)

    def _piece(self, record: type[Record], codec: Codec, keys: list[Row]) -> Iterator[Problem]:
        columns = ", ".join(quoted(name) for name in codec.names)
        statement = f"SELECT {columns} FROM {quoted(record.shape.table)} WHERE _row BETWEEN ? AND ? ORDER BY _row"
        try:
            rows = self.ask(statement, (keys[0][0], keys[-1][0]))
            words = self._words(record, keys) if record.shape.text else {}
        except duckdb.Error as error:
            if len(keys) > 1:
                for key in keys:
                    yield from self._piece(record, codec, [key])
            else:
                yield Problem(f"cannot be read: {type(error).__name__}", record.shape.table, keys[0][2], keys[0][1])
            return
        for (row, organization_id, id), stored in zip(keys, rows, strict=True):
            wrong = _wrong(record, codec, stored, words.get(row, set()))
            if wrong:
                yield Problem(wrong[0], record.shape.table, id, organization_id, wrong[1])

    def _words(self, record: type[Record], keys: list[Row]) -> dict[int, set[int]]:
        text = f"SELECT row, list(term) FROM {quoted(text_table(record))} WHERE row BETWEEN ? AND ? GROUP BY row"
        return {row: set(terms) for row, terms in self.ask(text, (keys[0][0], keys[-1][0]))}

    def _strays(self, record: type[Record]) -> Iterator[Problem]:
        table, index = quoted(record.shape.table), quoted(text_table(record))
        known = f"SELECT 1 FROM {table} t WHERE t._row = x.row"
        try:
            strays = self.ask(f"SELECT DISTINCT row FROM {index} x WHERE NOT EXISTS ({known}) LIMIT 100")
        except duckdb.Error as error:
            yield Problem(what=f"the text index cannot be read: {_said(error)}", table=record.shape.table, part="index")
            return
        for (row,) in strays:
            yield Problem(f"the text index holds row {row}, which is not a record", record.shape.table, part="index")


def _wrong(record: type[Record], codec: Codec, stored: Row, words: set[int]) -> tuple[str, Part] | None:
    try:
        found = codec.record(stored)
        record.model_validate(found.__dict__)
    except (DamagedData, WrongKey, ValueError, TypeError) as error:
        return f"cannot be read: {type(error).__name__}", "records"
    if record.shape.text and words != (set() if found.is_deleted else terms_of(found)):
        return "is not in the text index as it reads", "index"
    return None


def _said(error: duckdb.Error) -> str:
    return str(error).splitlines()[0][:200]


def rebuild_text(run: Run, codec_of: CodecOf) -> list[str]:
    """Throw the text indexes away and make them again from the records."""
    searched = [record for record in RECORDS.values() if record.shape.text]
    made = {record.shape.table: make_text(run, record, codec_of(record)) for record in searched}
    for table, mark in text_marks(MAKER).items():
        mark_text(run, table, mark)
    return [f"{table}: {count} in the text index" for table, count in made.items() if count]
