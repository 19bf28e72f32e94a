"""Making, migrating, checking and mending the tables of a SQLite store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol, cast

import apsw

from recollect.adapters.records import schema
from recollect.adapters.records.dialect import moment_text
from recollect.adapters.records.rows import Codec
from recollect.adapters.records.soundness import check_references
from recollect.adapters.records.sql import column_clause, index_name, index_statement, quoted
from recollect.adapters.records.sqlite_file import connect, our_errors, refuse_foreign
from recollect.domain.record import RECORDS, Record, new_id, now
from recollect.errors import StoreError
from recollect.ports.records import Problem

# Stemmed, because questions and memories rarely use the same form of a word; diacritics folded for the same reason.
TOKENIZER = "porter unicode61 remove_diacritics 2"
_TYPES = {
    "text": "TEXT",
    "integer": "INTEGER",
    "real": "REAL",
    "boolean": "INTEGER",
    "moment": "TEXT",
    "bytes": "BLOB",
    "json": "TEXT",
}
_EMPTY = {"text": "''", "integer": "0", "real": "0.0", "boolean": "0", "json": "'null'", "bytes": "x''", "moment": "''"}


class TextTables(Protocol):
    def run(self, statement: str, values: Any = ()) -> list[tuple[Any, ...]]: ...

    def index_text(self, row: int, record: Record, *, fresh: bool) -> None: ...


def migrate(connection: apsw.Connection, path: Path) -> list[str]:
    """Bring the file up to date: each migration in a transaction of its own, recorded in the same one."""
    applied = []
    for migration in schema.migrations():
        connection.execute("BEGIN IMMEDIATE")
        try:
            create(connection)
            if schema.pending(migration, _recorded(connection), f"'{path.name}'"):
                _apply(connection, migration)
                applied.append(migration.name)
            connection.execute("COMMIT")
        except BaseException:
            if not connection.get_autocommit():
                connection.execute("ROLLBACK")
            raise
    if applied:
        _write_statistics(connection)
    return applied


def _write_statistics(connection: apsw.Connection) -> None:
    """Tell the planner what the indexes will hold, once, before there is anything to count.

    Without statistics SQLite takes a tenant for ten rows and walks all of it in order of id rather than sort the
    two rows that an index would find: at 12,000 memories that cost 3.8 ms for each one added.
    """
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("CREATE TABLE recollect_none(x); ANALYZE recollect_none; DROP TABLE recollect_none")
    connection.execute("DELETE FROM sqlite_stat1")
    named = "SELECT name, tbl_name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL"
    for index, table in connection.execute(named).fetchall():
        columns = [row[2] for row in connection.execute(f"PRAGMA index_info({quoted(str(index))})")]
        connection.execute("INSERT INTO sqlite_stat1 VALUES (?, ?, ?)", (table, index, _expected(columns)))
    connection.execute("COMMIT")
    connection.execute("ANALYZE sqlite_schema")


def _expected(columns: list[Any]) -> str:
    """How many rows an index leads to, column by column: a tenant has many, an id one, anything else some."""
    rows = [1_000_000]
    for column in columns:
        single = column in ("id", "_seq", "seq", "identity", "idempotency_key")
        rows.append(min(rows[-1], 500_000 if column == "organization_id" else 1 if single else 1000))
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
        "INSERT OR IGNORE INTO recollect_store VALUES ('seq', 0), ('records', 0), ('incarnation', ?)", (new_id(),)
    )


def examine(path: Path) -> str:
    """What is there, in a sentence; the error that opening it would end with, if it would. Changes nothing."""
    with our_errors(path), closing(connect(path, writable=False)) as connection:
        if connection.execute("PRAGMA schema_version").get == 0:
            return "an empty file, which will be made a store when it is first used"
        refuse_foreign(connection, path)
        return schema.outstanding(_recorded(connection), f"'{path.name}'")


def _recorded(connection: apsw.Connection) -> dict[int, str]:
    return dict(connection.execute("SELECT number, checksum FROM recollect_migrations"))


def _apply(connection: apsw.Connection, migration: schema.Migration) -> None:
    for step in migration.steps:
        for statement in _statements(step):
            connection.execute(statement)
    for step in migration.steps:
        if step["do"] == "index_text":
            raise StoreError("text indexes of existing tables are rebuilt with `recollect doctor --fix`")
    connection.execute(
        "INSERT INTO recollect_migrations VALUES (?, ?, ?, ?)",
        (migration.number, migration.name, migration.checksum, moment_text(now())),
    )


def _statements(step: schema.Step) -> Iterator[str]:
    table, kind = step["table"], step["do"]
    if kind == "create_table":
        columns = ", ".join(_column(column) for column in step["columns"])
        yield f"CREATE TABLE {quoted(table)}(_row INTEGER PRIMARY KEY, _seq INTEGER NOT NULL, {columns}) STRICT"
        yield f"CREATE UNIQUE INDEX {quoted(table + '_key')} ON {quoted(table)}(organization_id, id)"
        yield f"CREATE UNIQUE INDEX {quoted(table + '_seq')} ON {quoted(table)}(_seq)"
        nullable = {name for name, _, may_be_null in step["columns"] if may_be_null}
        for key in step["unique"]:
            yield _unique(table, key, nullable)
        for fields in step["indexes"]:
            yield index_statement(table, fields, nullable)
        if step["text"]:
            yield from _text_table(table, step["text"])
    elif kind == "add_column":
        yield f"ALTER TABLE {quoted(table)} ADD COLUMN {_column(step['column'], filled=True)}"
    elif kind == "add_unique":
        yield _unique(table, step["unique"], set())
    elif kind == "add_index":
        yield index_statement(table, step["fields"], set())
    elif kind == "drop_index":
        yield f"DROP INDEX IF EXISTS {quoted(index_name(table, step['fields']))}"


def _column(column: list[Any], filled: bool = False) -> str:
    return column_clause(column, _TYPES, _EMPTY if filled else {})


def _unique(table: str, key: dict[str, Any], nullable: set[str]) -> str:
    fields = [
        f"coalesce({quoted(n)}, '')" if key["nulls_equal"] and n in nullable else quoted(n) for n in key["fields"]
    ]
    name = quoted(f"{table}_unique_{'_'.join(key['fields'])}")
    return f"CREATE UNIQUE INDEX {name} ON {quoted(table)}(organization_id, {', '.join(fields)})"


def _text_table(table: str, text: dict[str, Any]) -> Iterator[str]:
    name = quoted(table + "_text")
    fields = ", ".join(quoted(field) for field in text["fields"])
    yield (
        f"CREATE VIRTUAL TABLE {name} USING fts5(facets, {fields}, content='', contentless_delete=1, "
        f"tokenize='{TOKENIZER}')"
    )
    yield f"INSERT INTO {name}({name}, rank) VALUES ('secure-delete', 1)"


def check_records(connection: apsw.Connection, codec_of: Callable[[type[Record]], Codec]) -> Iterator[Problem]:
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


def _check_table(connection: apsw.Connection, record: type[Record], codec: Codec) -> Iterator[Problem]:
    table = record.shape.table
    columns = ", ".join(quoted(name) for name in codec.names)
    try:
        keys = connection.execute(
            f"SELECT organization_id, id, _row FROM {quoted(table)} INDEXED BY {quoted(table + '_key')} "
            "ORDER BY organization_id, id"
        ).fetchall()
    except apsw.Error as error:
        yield Problem(what=f"the keys cannot be read: {error}", table=table)
        return
    for organization_id, id, row in cast(list[tuple[str, str, int]], keys):
        try:
            found = connection.execute(f"SELECT {columns} FROM {quoted(table)} WHERE _row = ?", (row,)).fetchone()
            if found is None:
                yield Problem("its row is missing", table, id, organization_id)
                continue
            record.model_validate(codec.record(found).__dict__)
        except (apsw.Error, ValueError) as error:
            yield Problem(f"cannot be read: {type(error).__name__}", table, id, organization_id)


def check_text(connection: apsw.Connection) -> Iterator[Problem]:
    """The text index holds exactly the living records."""
    for record in RECORDS.values():
        if not record.shape.text:
            continue
        table, sizes = record.shape.table, quoted(record.shape.table + "_text_docsize")
        living = f"SELECT _row FROM {quoted(table)} WHERE is_deleted = 0"
        try:
            missing = f"{living} EXCEPT SELECT id FROM {sizes} LIMIT 100"
            keys = f"SELECT organization_id, id FROM {quoted(table)} WHERE _row IN ({missing})"
            for organization_id, id in connection.execute(keys):
                yield Problem("is missing from the text index", table, id, organization_id)
            for (row,) in connection.execute(f"SELECT id FROM {sizes} EXCEPT {living} LIMIT 100"):
                yield Problem(f"the text index holds row {row}, which is not a living record", table)
        except apsw.Error as error:
            yield Problem(what=f"the text index cannot be read: {error}", table=table)


def rebuild_text(tables: TextTables, codec_of: Callable[[type[Record]], Codec]) -> list[str]:
    """Throw the text indexes away and make them again from the records."""
    done = []
    for record in RECORDS.values():
        if not record.shape.text:
            continue
        table, codec = record.shape.table, codec_of(record)
        name = quoted(table + "_text")
        tables.run(f"INSERT INTO {name}({name}) VALUES ('delete-all')")
        columns = ", ".join(quoted(column) for column in codec.names)
        count = 0
        for row, *stored in tables.run(f"SELECT _row, {columns} FROM {quoted(table)} WHERE is_deleted = 0"):
            tables.index_text(row, codec.record(stored), fresh=True)
            count += 1
        done.append(f"{table}: {count} in the text index")
    return done
