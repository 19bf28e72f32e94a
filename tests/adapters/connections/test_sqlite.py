"""A SQLite file outside: loose types, files of strangers, our own stores, others that write meanwhile."""

from __future__ import annotations

import sqlite3
from datetime import date, datetime
from pathlib import Path

import pytest

import recollect
from adapters.connections.conftest import opened
from adapters.connections.test_databases import rows_of
from recollect.adapters.connections.jobs import Jobs
from recollect.adapters.connections.sqlite import STORE_ID, SqliteFile
from recollect.adapters.records.sqlite.connection import APPLICATION_ID
from recollect.domain.database_address import DatabaseAddress
from recollect.errors import DamagedData, Denied, InvalidInput, NotFound, RecollectError
from recollect.ports.connections import FetchLimits, OutsideTable
from recollect.ports.data import Column


def made(path: Path, *statements: str) -> str:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return f"sqlite:///{path}"


def test_columns_hold_what_was_put_into_them(tmp_path: Path) -> None:
    address = made(
        tmp_path / "a.db",
        "CREATE TABLE t (id INTEGER PRIMARY KEY, mixed, whole INT, part NUMERIC, bytes BLOB, empty TEXT, bad TEXT)",
        "INSERT INTO t VALUES (1, 1, 9223372036854775807, 3, x'00ff', NULL, CAST(x'ff61' AS TEXT))",
        "INSERT INTO t VALUES (2, 'zwei', NULL, 4.5, NULL, NULL, 'ok'), (3, x'ff', 3, NULL, NULL, NULL, NULL)",
    )
    database = opened(address)
    (table,) = database.schema().tables
    assert table.rows == 3
    found = database.sample(table, tmp_path / "r")
    assert {column.name: column.type for column in found.columns} == {
        "id": "int64", "mixed": "string", "whole": "int64", "part": "double", "bytes": "binary", "empty": "string",
        "bad": "string",
    }  # fmt: skip
    assert rows_of(found.path)[0] == (1, "1", 9223372036854775807, 3.0, b"\x00\xff", None, "\ufffda")


def test_texts_in_columns_of_dates_are_dates_if_all_are(tmp_path: Path) -> None:
    address = made(
        tmp_path / "a.db",
        "CREATE TABLE t (day DATE, at DATETIME, mixed DATE, said TEXT)",
        "INSERT INTO t VALUES ('2025-01-15', '2025-01-15 10:00:00', '2025-01-15', '2025-01-15')",
        "INSERT INTO t VALUES ('2025-02-31', '2025-01-15T10:00:00+02:00', 'soon', '2025-01-16')",
        "INSERT INTO t DEFAULT VALUES",
    )
    database = opened(address)
    (table,) = database.schema().tables
    found = database.sample(table, tmp_path / "r")
    assert [column.type for column in found.columns] == ["date32[day]", "timestamp[us]", "string", "string"]
    assert rows_of(found.path)[0][0] == date(2025, 1, 15)
    assert rows_of(found.path)[1][:2] == (None, datetime(2025, 1, 15, 8))


def test_virtual_tables_and_what_is_behind_them_are_left_out(tmp_path: Path) -> None:
    address = made(
        tmp_path / "a.db",
        "CREATE TABLE t (id)",
        "CREATE TABLE w (k TEXT PRIMARY KEY) WITHOUT ROWID",
        "CREATE VIRTUAL TABLE texts USING fts5(body)",
        "CREATE VIEW v AS SELECT count(*) AS n FROM t",
        "CREATE VIEW vv AS SELECT n + 1 AS n FROM v",
    )
    database = opened(address)
    tables = database.schema().tables
    assert [table.name for table in tables] == ["t", "v", "vv", "w"]
    assert rows_of(database.select("SELECT n FROM vv", tables, tmp_path / "r").path) == [(1,)]


def test_the_connection_cannot_write_or_look_around_even_past_the_parser(tmp_path: Path) -> None:
    address = made(tmp_path / "a.db", "CREATE TABLE t (id)", "CREATE TABLE hidden (id)")
    database = SqliteFile(DatabaseAddress.parse(address), Jobs())
    listed = [OutsideTable("t", "", "t", [Column("id", "")])]
    for attack in (
        "SELECT * FROM hidden",
        "SELECT * FROM sqlite_master",
        "SELECT load_extension('x')",
        "SELECT zeroblob(10)",
        "SELECT * FROM pragma_database_list",
    ):
        with pytest.raises(InvalidInput):
            database._fetch(attack, listed, tmp_path / "r", FetchLimits(seconds=5))
    for attack in ("DELETE FROM t", f"ATTACH '{tmp_path}/made.db' AS x", "CREATE TEMP TABLE x (a)", "VACUUM"):
        with pytest.raises(RecollectError), database._session(5) as connection:
            connection.execute(attack)
    assert {path.name for path in tmp_path.iterdir()} == {"a.db"}


def test_our_own_stores_are_refused(tmp_path: Path) -> None:
    assert STORE_ID == APPLICATION_ID
    recollect.open(tmp_path / "store.db", embedder="none").close()
    with pytest.raises(Denied, match="store of Recollect"):
        opened(f"sqlite:///{tmp_path}/store.db").check()


def test_what_is_not_a_database_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="does not exist"):
        opened(f"sqlite:///{tmp_path}/nosuch.db").check()
    (tmp_path / "text.db").write_text("hello " * 1000)
    with pytest.raises(DamagedData, match="not a sound SQLite file"):
        opened(f"sqlite:///{tmp_path}/text.db").check()
    assert not (tmp_path / "nosuch.db").exists()


def test_others_may_write_meanwhile(tmp_path: Path) -> None:
    address = made(tmp_path / "a.db", "PRAGMA journal_mode=WAL", "CREATE TABLE t (id)", "INSERT INTO t VALUES (1)")
    writer = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    try:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("INSERT INTO t VALUES (2)")
        database = opened(address)
        tables = database.schema().tables
        assert rows_of(database.select("SELECT count(*) FROM t", tables, tmp_path / "r").path) == [(1,)]
        writer.execute("COMMIT")
        assert rows_of(database.select("SELECT count(*) FROM t", tables, tmp_path / "r").path) == [(2,)]
    finally:
        writer.close()


def test_an_empty_database_has_no_tables(tmp_path: Path) -> None:
    address = made(tmp_path / "a.db")
    assert opened(address).schema().tables == []
    assert opened(address).check().tables == 0
