"""MySQL and MariaDB outside: zero dates, unsigned numbers, bits, times beyond a day, rights, TLS, a killed query."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from adapters.connections.conftest import SECRET, opened
from adapters.connections.test_databases import rows_of
from mariadb_server import mariadb, needs_mariadb
from recollect.adapters.connections.jobs import Jobs
from recollect.adapters.connections.mysql import MySqlServer
from recollect.domain.database_address import DatabaseAddress
from recollect.errors import Denied, RecollectError, Unavailable
from recollect.ports.connections import OutsideTable
from recollect.ports.data import Column

pytestmark = needs_mariadb


@pytest.fixture
def address() -> str:
    return mariadb().new_database("reader", SECRET)


def database_of(address: str) -> str:
    return address.rpartition("/")[2]


def test_every_type_arrives(address: str, tmp_path: Path) -> None:
    mariadb().admin(
        "CREATE TABLE t (id int PRIMARY KEY, u bigint unsigned, d decimal(20,4), wide decimal(65,0), dd date,"
        " dt datetime(6), ts timestamp NULL, flag tinyint(1), y year, b bit(9), j json, e enum('b','ä'),"
        " s set('x','y'), bl blob, g point, tx text, f float, tm time, uid uuid) CHARACTER SET utf8mb4",
        "SET sql_mode = 'ALLOW_INVALID_DATES'",
        "SET time_zone = '+02:00'",
        "INSERT INTO t VALUES (1, 18446744073709551615, -12345.6789, 1e64, '0000-00-00', '2024-01-01 10:00:00.123456',"
        " '2024-01-01 10:00:00', 1, 2024, b'101', '{\"a\": 1}', 'ä', 'x,y', x'00ff', point(1, 2), '中文😀', 1.5,"
        " '-838:59:59', '00000000-0000-0000-0000-000000000001')",
        "INSERT INTO t (id, dd, dt) VALUES (2, '2023-02-31', '2023-00-10 00:00:00'), (3, '2024-02-29', NULL)",
        database=database_of(address),
    )
    database = opened(address, secret="SHOP")
    (table,) = database.schema().tables
    found = database.sample(table, tmp_path / "t.parquet")
    with duckdb.connect() as connection:
        cursor = connection.execute(f"SELECT * FROM '{found.path}' ORDER BY id")
        names = [column[0] for column in cursor.description]
        first, second, third = (dict(zip(names, row, strict=True)) for row in cursor.fetchall())
    assert (first["u"], first["d"], first["wide"]) == (18446744073709551615, Decimal("-12345.6789"), 1e64)
    assert (first["dd"], second["dd"], second["dt"], third["dd"]) == (None, None, None, date(2024, 2, 29))
    assert first["dt"].isoformat() == "2024-01-01T10:00:00.123456"
    assert first["ts"].isoformat() == "2024-01-01T08:00:00+00:00"
    assert (first["flag"], first["y"], first["b"], first["bl"]) == (1, 2024, 5, b"\x00\xff")
    assert (first["j"], first["e"], first["s"], first["g"]) == ('{"a": 1}', "ä", "x,y", "POINT(1 2)")
    assert (first["tx"], first["f"], first["tm"]) == ("中文😀", 1.5, "-838:59:59")
    assert [note for note in found.notes if "0000-00-00" in note]


def test_comments_and_keys_are_read(address: str) -> None:
    mariadb().admin(
        "CREATE TABLE a (x int COMMENT 'die Nummer', y int, PRIMARY KEY (x, y)) COMMENT 'Wer kauft'",
        "CREATE TABLE b (x int, y int, z int UNIQUE, FOREIGN KEY (x, y) REFERENCES a (x, y))",
        database=database_of(address),
    )
    first, second = opened(address, secret="SHOP").schema().tables
    assert (first.description, first.descriptions, first.primary_key) == ("Wer kauft", {"x": "die Nummer"}, ["x", "y"])
    assert second.foreign_keys == []  # of two columns: no single one says what belongs together


def test_the_session_cannot_write_even_past_the_parser(address: str) -> None:
    name = database_of(address)
    mariadb().admin("CREATE TABLE t (id int)", f"GRANT ALL ON {name}.* TO reader@'127.0.0.1'", database=name)
    database = MySqlServer(DatabaseAddress.parse(address), SECRET, Jobs())
    assert not database.check().is_read_only
    for attack in ("INSERT INTO t VALUES (1)", "DELETE FROM t", "CREATE TABLE x (a int)"):
        with pytest.raises(RecollectError, match="only ever read"), database._session(5) as connection:
            connection.cursor().execute(attack)
    with database._session(5, rows=7) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@max_statement_time, @@sql_mode, @@time_zone, @@sql_select_limit")
        assert cursor.fetchall() == (("5.000000", "", "+00:00", "7"),)


def test_to_cancel_what_has_just_ended_is_no_error(address: str) -> None:
    MySqlServer(DatabaseAddress.parse(address), SECRET, Jobs())._kill(2**31)


def test_a_table_without_rights_is_refused(address: str, tmp_path: Path) -> None:
    other = OutsideTable("user", "mysql", "user", [Column("User", "text")])
    with pytest.raises(Denied, match="SELECT command denied"):
        opened(address, secret="SHOP").select("SELECT * FROM user", [other], tmp_path / "r")


def test_a_wrong_secret_unknown_servers_and_tls_are_told_at_once(address: str) -> None:
    for wrong, secret, words in [
        (address, "WRONG", "refused the login"),
        (address.replace("127.0.0.1", "nosuch.invalid"), "SHOP", "unknown host"),
        (address.replace(str(mariadb().port), "1"), "SHOP", "has no server"),
        (address + "?sslmode=require", "SHOP", "does not agree about TLS"),
    ]:
        with pytest.raises(Unavailable, match=words) as caught:
            opened(wrong, secret=secret).check()
        assert "geheim" not in str(caught.value.as_dict())


def test_many_rows_are_streamed_and_cut(address: str, tmp_path: Path) -> None:
    database = opened(address, secret="SHOP")
    mariadb().admin("CREATE TABLE t AS SELECT seq AS id FROM seq_1_to_50000", database=database_of(address))
    tables = database.schema().tables
    found = database.select("SELECT id FROM t ORDER BY id DESC LIMIT 45000", tables, tmp_path / "r")
    assert (found.rows, found.is_cut) == (45_000, False)
    assert rows_of(found.path)[:2] == [(50_000,), (49_999,)]
