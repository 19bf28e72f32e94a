"""Making, migrating, checking and mending the tables of a SQLite store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import cast

import apsw

from recollect.adapters.encryption.master_key import MasterKey
from recollect.adapters.records.common import migrations
from recollect.adapters.records.common.codec import Codec
from recollect.adapters.records.common.ddl import Ddl, Table, is_current, mark_text, recorded, text_marks, update_text
from recollect.adapters.records.common.dialect import Run, moment_text
from recollect.adapters.records.common.integrity import check_count, check_references
from recollect.adapters.records.common.sql_compiler import quoted
from recollect.adapters.records.sqlite.connection import connect, refuse_foreign, translated_errors
from recollect.adapters.records.sqlite.fulltext import TOKENIZER, make_text, merge_in_steps
from recollect.adapters.records.sqlite.page_encryption import page_key
from recollect.domain.memory import Memory, content_hash
from recollect.domain.record import RECORDS, Record, new_id
from recollect.errors import DamagedData, WrongKey
from recollect.ports.records import Problem

CodecOf = Callable[[type[Record]], Codec]


class SqliteDdl(Ddl):
    types = {
        "text": "TEXT",
        "integer": "INTEGER",
        "real": "REAL",
        "boolean": "INTEGER",
        "moment": "TEXT",
        "bytes": "BLOB",
        "json": "TEXT",
    }
    empty = {
        "text": "''",
        "integer": "0",
        "real": "0.0",
        "boolean": "0",
        "json": "'null'",
        "bytes": "x''",
        "moment": "'1970-01-01T00:00:00.000000Z'",
    }
    true = "1"

    def create_table(self, step: Table) -> Iterator[str]:
        name, columns = step["table"], ", ".join(self.column(column) for column in step["columns"])
        yield f"CREATE TABLE {quoted(name)}(_row INTEGER PRIMARY KEY, _seq INTEGER NOT NULL, {columns}) STRICT"
        yield f"CREATE UNIQUE INDEX {quoted(name + '_key')} ON {quoted(name)}(organization_id, id)"
        yield f"CREATE UNIQUE INDEX {quoted(name + '_seq')} ON {quoted(name)}(_seq)"
        yield from self.keys_and_indexes(step)

    def kept(self, moment: datetime) -> str:
        return moment_text(moment)


DDL = SqliteDdl()


def running(connection: apsw.Connection) -> Run:
    return lambda statement, values: connection.execute(statement, values).fetchall()


def migrate(connection: apsw.Connection, path: Path, codec_of: CodecOf) -> list[str]:
    """Bring the file up to date: each migration in a transaction of its own, recorded in the same one.

    In a new file all tables are made at once.
    """
    with _alone(connection):
        create(connection)  # also says so at once if the file cannot be written
        if is_current(running(connection), TOKENIZER):
            for record in (one for one in RECORDS.values() if one.shape.text):
                merge_in_steps(connection, record)  # of a store that was made before this was done
            return []
        applied = DDL.make(running(connection))
    for migration in [] if applied else migrations.migrations():
        with _alone(connection):
            if DDL.migrate(migration, running(connection), apsw.ConstraintError, f"'{path.name}'"):
                # Rows may be others now.
                connection.execute("UPDATE recollect_store SET value = '' WHERE key = 'row_marks'")
                applied.append(migration.name)
    if applied:
        _write_statistics(connection)
    with _alone(connection):
        update_text(
            running(connection),
            TOKENIZER,
            drop=lambda table: connection.execute(f"DROP TABLE IF EXISTS {quoted(table + '_text')}"),
            make=lambda record: make_text(connection, record, codec_of(record)),
        )
    return applied


@contextmanager
def _alone(connection: apsw.Connection) -> Iterator[None]:
    """A transaction that others wait for: whole, or not at all."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if not connection.get_autocommit():
            connection.execute("ROLLBACK")
        raise


def _write_statistics(connection: apsw.Connection) -> None:
    """Tell the planner what the indexes will hold, once, before there is anything to count.

    Without statistics SQLite takes a tenant for ten rows and walks all of it in order of id rather than sort the
    two rows that an index would find: at 12,000 memories that cost 3.8 ms for each one added.
    """
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("CREATE TABLE recollect_none(x); ANALYZE recollect_none; DROP TABLE recollect_none")
    connection.execute("DELETE FROM sqlite_stat1")
    named = "SELECT name, tbl_name, sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL"
    for index, table, sql in connection.execute(named).fetchall():
        columns = [row[2] for row in connection.execute(f"PRAGMA index_info({quoted(str(index))})")]
        connection.execute("INSERT INTO sqlite_stat1 VALUES (?, ?, ?)", (table, index, _expected(columns, str(sql))))
    connection.execute("COMMIT")
    connection.execute("ANALYZE sqlite_schema")


EXPECTED_ROWS = {
    "organization_id": 500_000,
    **dict.fromkeys(("kind", "status", "priority", "operation", "success", "state", "type", "is_active"), 5_000),
    **dict.fromkeys(("id", "_seq", "seq", "identity", "idempotency_key"), 1),
}


def _expected(columns: Sequence[object], sql: str) -> str:
    """How many rows an index leads to, column by column: a tenant has many, a kind fewer, an id one, all else some.

    Without the difference those of a session were looked for among all of a kind.
    """
    rows = [1000 if sql.endswith("IS NULL") else 1_000_000]
    for column in columns:
        rows.append(min(rows[-1], EXPECTED_ROWS.get(str(column), 1000)))
    return " ".join(map(str, rows))


def create(connection: apsw.Connection) -> None:
    connection.execute(
        "CREATE TABLE IF NOT EXISTS recollect_migrations"
        "(number INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL, applied_at TEXT NOT NULL) STRICT;"
        "CREATE TABLE IF NOT EXISTS recollect_store(key TEXT PRIMARY KEY, value ANY) STRICT, WITHOUT ROWID;"
        "CREATE TABLE IF NOT EXISTS recollect_gone(seq INTEGER PRIMARY KEY, organization_id TEXT NOT NULL,"
        " table_name TEXT NOT NULL, id TEXT NOT NULL) STRICT;"
        "CREATE UNIQUE INDEX IF NOT EXISTS recollect_gone_key ON recollect_gone(organization_id, table_name, id);"
    )
    connection.execute(
        "INSERT OR IGNORE INTO recollect_store VALUES ('seq', 0), ('records', 0), ('incarnation', ?),"
        " ('text_seq', 0), ('text_epoch', 0), ('row_marks', '')",
        (new_id(),),
    )


def examine(path: Path, master: MasterKey | None = None) -> str:
    """What is there, in a sentence; the error that opening it would end with, if it would. Changes nothing."""
    key = page_key(path, master)
    with translated_errors(path), closing(connect(path, writable=False, key=key)) as connection:
        if connection.execute("PRAGMA schema_version").get == 0:
            return "an empty file, which will be made a store when it is first used"
        refuse_foreign(connection, path)
        said = migrations.outstanding(recorded(running(connection)), f"'{path.name}'")
        return f"{said}; {'encrypted' if key is not None else 'not encrypted'}"


def check_records(connection: apsw.Connection, codec_of: CodecOf) -> Iterator[Problem]:
    """Re-read every row, validate it again, and follow every reference."""
    try:
        for (verdict,) in connection.execute("PRAGMA integrity_check(20)"):
            if verdict != "ok":
                yield Problem(what=str(verdict))
    except apsw.Error as error:
        yield Problem(what=f"the file is damaged: {error}")
    for record in RECORDS.values():
        yield from _check_table(connection, record, codec_of(record))
        yield from check_references(lambda text: connection.execute(text).fetchall(), record, apsw.Error)


def check_content(connection: apsw.Connection, codec_of: Callable[[type[Record]], Codec]) -> Iterator[Problem]:
    """Everything that can be told without page checksums: rows, references, their number, and every content hash."""
    done = recorded(running(connection))
    if any(migrations.pending(migration, done, "the store") for migration in migrations.migrations()):
        for (verdict,) in connection.execute("PRAGMA integrity_check(20)"):
            if verdict != "ok":
                yield Problem(what=str(verdict))
        return
    problems = list(check_records(connection, codec_of))
    yield from problems
    yield from check_count(lambda text: connection.execute(text).fetchall(), apsw.Error)
    if problems:
        return  # what cannot be read has been named
    codec = codec_of(Memory)
    columns = ", ".join(quoted(name) for name in codec.names)
    for row in connection.execute(f"SELECT {columns} FROM {quoted(Memory.shape.table)}"):
        memory: Memory = codec.record(row)
        if content_hash(memory.kind, memory.content) != memory.content_hash:
            yield Problem("its content does not match its hash", "memory", memory.id, memory.organization_id)


def _check_table(connection: apsw.Connection, record: type[Record], codec: Codec) -> Iterator[Problem]:
    table = record.shape.table
    columns = ", ".join(quoted(name) for name in codec.names)
    try:
        keys = connection.execute(
            f"SELECT organization_id, id, _row FROM {quoted(table)} INDEXED BY {quoted(table + '_key')} "
            "ORDER BY organization_id, id"
        ).fetchall()
    except (apsw.Error, UnicodeDecodeError) as error:
        yield Problem(what=f"the keys cannot be read: {error}", table=table)
        return
    for organization_id, id, row in cast(list[tuple[str, str, int]], keys):
        try:
            found = connection.execute(f"SELECT {columns} FROM {quoted(table)} WHERE _row = ?", (row,)).fetchone()
            if found is None:
                yield Problem("its row is missing", table, id, organization_id)
                continue
            record.model_validate(codec.record(found).__dict__)
        except (apsw.Error, DamagedData, WrongKey, ValueError) as error:
            yield Problem(f"cannot be read: {type(error).__name__}", table, id, organization_id)


def rebuild_text(connection: apsw.Connection, codec_of: CodecOf) -> list[str]:
    """Throw the text indexes away and make them again from the records."""
    made = {record.shape.table: make_text(connection, record, codec_of(record)) for record in _searched()}
    for table, mark in text_marks(TOKENIZER).items():
        mark_text(running(connection), table, mark)
    return [f"{table}: {count} in the text index" for table, count in made.items() if count]


def _searched() -> list[type[Record]]:
    return [record for record in RECORDS.values() if record.shape.text]
