"""PostgreSQL outside: its types, other schemas, rights, partitions, a pooler between, a server that goes away."""

from __future__ import annotations

import signal
import threading
from decimal import Decimal
from pathlib import Path

import duckdb
import psycopg
import pytest

from adapters.connections.conftest import SECRET, opened
from adapters.connections.test_databases import SLOW, rows_of
from pgbouncer import PgBouncer, needs_pgbouncer
from postgres_server import Server, server
from recollect.adapters.connections.jobs import Jobs
from recollect.adapters.connections.postgres import PostgresServer
from recollect.domain.database_address import DatabaseAddress
from recollect.errors import Denied, NotFound, RecollectError, Unavailable
from recollect.ports.connections import FetchLimits, OutsideTable
from recollect.ports.data import Column


@pytest.fixture
def address() -> str:
    return server().new_database()


def execute(address: str, *statements: str) -> None:
    with psycopg.connect(address, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def test_every_type_arrives(address: str, tmp_path: Path) -> None:
    execute(
        address,
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        "CREATE DOMAIN small AS int CHECK (VALUE < 10)",
        "CREATE TABLE t (i bigint, n numeric(10,2), wide numeric, odd numeric, tz timestamptz, ts timestamp, far date,"
        " j json, jb jsonb, numbers int[], words text[], money_list numeric[], u uuid, m mood, b bytea, iv interval,"
        " p point, r int4range, tm time, c char(3), mo money, bit bit(3), yes bool, s small, huge numeric)",
        "INSERT INTO t VALUES (9223372036854775807, 12345678.90, 0.000000000000001, 'NaN', '2024-01-01 00:00+02',"
        " 'infinity', '12000-01-01', '{\"a\": 1}', '[1]', '{1,NULL}', '{ä,b}', '{1.5,2}',"
        " '00000000-0000-0000-0000-000000000001', 'ok', '\\x00ff', '1 mon 2 days', '(1,2)', '[1,5)', '10:00', 'ab',"
        " '12.34', B'101', true, 3, 1e60)",
    )
    database = opened(address)
    (table,) = database.schema().tables
    found = database.sample(table, tmp_path / "t.parquet")
    with duckdb.connect() as connection:
        cursor = connection.execute(f"SELECT * FROM '{found.path}'")
        names = [column[0] for column in cursor.description]
        row = dict(zip(names, cursor.fetchall()[0], strict=True))
    assert row["i"] == 9223372036854775807
    assert row["n"] == Decimal("12345678.90")
    assert row["wide"] == Decimal("0.000000000000001")
    assert row["odd"] is None
    assert row["tz"].isoformat() == "2023-12-31T22:00:00+00:00"
    assert row["ts"] is None
    assert row["far"] is None
    assert (row["j"], row["jb"]) == ('{"a": 1}', "[1]")
    assert (row["numbers"], row["words"], row["money_list"]) == ([1, None], ["ä", "b"], [1.5, 2.0])
    assert (row["u"], row["m"], row["b"]) == ("00000000-0000-0000-0000-000000000001", "ok", b"\x00\xff")
    assert (row["iv"], row["p"], row["r"], row["bit"]) == ("1 mon 2 days", "(1,2)", "[1,5)", "101")
    assert (row["mo"], row["yes"], row["s"], row["huge"]) == (Decimal("12.34"), True, 3, 1e60)
    assert [note for note in found.notes if "years 1 to 9999" in note]


def test_other_schemas_are_told_apart(address: str, tmp_path: Path) -> None:
    execute(
        address,
        'CREATE SCHEMA "Vertrieb"',
        "CREATE TABLE kunden (id int)",
        'CREATE TABLE "Vertrieb".kunden (id int, x text)',
        "INSERT INTO kunden VALUES (1)",
        "INSERT INTO \"Vertrieb\".kunden VALUES (2, 'a')",
        "COMMENT ON TABLE kunden IS 'Wer kauft'",
        "COMMENT ON COLUMN kunden.id IS 'die Nummer'",
    )
    database = opened(address)
    tables = database.schema().tables
    assert [table.name for table in tables] == ["kunden", "Vertrieb.kunden"]
    assert (tables[0].description, tables[0].descriptions) == ("Wer kauft", {"id": "die Nummer"})
    for sql, expected in [
        ("SELECT id FROM kunden", [(1,)]),
        ("SELECT id FROM vertrieb.Kunden", [(2,)]),
        ('SELECT v.id, k.id FROM "Vertrieb".kunden v CROSS JOIN kunden k', [(2, 1)]),
    ]:
        assert rows_of(database.select(sql, tables, tmp_path / "r").path) == expected


def test_tables_without_rights_are_not_listed_and_not_read(address: str, tmp_path: Path) -> None:
    execute(
        address,
        "CREATE TABLE mine (id int, hidden text)",
        "CREATE TABLE theirs (id int)",
        "DROP ROLE IF EXISTS narrow",
        "CREATE ROLE narrow LOGIN",
        "GRANT SELECT (id) ON mine TO narrow",
    )
    database = opened(address.replace("postgres@", "narrow@"))
    (table,) = database.schema().tables
    assert (table.name, [column.name for column in table.columns]) == ("mine", ["id"])
    assert database.sample(table, tmp_path / "r").rows == 0
    theirs = OutsideTable("theirs", "public", "theirs", [Column("id", "integer")])
    with pytest.raises(Denied, match="does not let this login read"):
        database.select("SELECT * FROM theirs", [theirs], tmp_path / "r")
    execute(address, "DROP OWNED BY narrow")


def test_partitions_are_one_table_and_extensions_are_left_out(address: str, tmp_path: Path) -> None:
    execute(
        address,
        "CREATE TABLE events (day date, n int) PARTITION BY RANGE (day)",
        "CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM ('2024-01-01') TO ('2025-01-01')",
        "CREATE TABLE events_2 PARTITION OF events FOR VALUES FROM ('2025-01-01') TO ('2026-01-01')",
        "INSERT INTO events SELECT date '2024-12-01' + g, g FROM generate_series(1, 60) g",
        "ANALYZE",
    )
    database = opened(address)
    (table,) = database.schema().tables
    assert (table.name, table.rows) == ("events", 60)
    assert rows_of(database.select("SELECT count(*) FROM events", [table], tmp_path / "r").path) == [(60,)]


def test_thousands_of_tables_take_the_same_few_statements(address: str) -> None:
    execute(
        address,
        "DO $$ BEGIN FOR i IN 1..1200 LOOP EXECUTE format('CREATE TABLE t_%s (id int, a text)', i); END LOOP; END $$",
    )
    found = opened(address).schema(most_tables=1000)
    assert (len(found.tables), found.left_out) == (1000, 200)


def test_a_large_table_is_sampled_all_over(address: str, tmp_path: Path) -> None:
    execute(address, "CREATE TABLE big AS SELECT g AS id FROM generate_series(1, 200000) g", "ANALYZE")
    database = opened(address)
    (table,) = database.schema().tables
    found = database.sample(table, tmp_path / "r", rows=1000)
    ids = [int(str(row[0])) for row in rows_of(found.path)]
    assert len(ids) == 1000
    assert max(ids) > 20_000
    assert database.sample(table, tmp_path / "r", rows=1000).rows == 1000


def test_the_session_cannot_write_even_past_the_parser(address: str) -> None:
    """The second wall: what reaches the server is in a transaction that is read-only."""
    execute(address, "CREATE TABLE t (id int)", "CREATE SEQUENCE s")
    database = PostgresServer(DatabaseAddress.parse(address), None, Jobs())
    for attack in ("DELETE FROM public.t", "SELECT nextval('public.s')", "CREATE TABLE public.x (a int)"):
        with pytest.raises(RecollectError, match="only ever read"):
            _run(database, attack)
    for name, value in [("statement_timeout", "5s"), ("transaction_read_only", "on"), ("lock_timeout", "5s")]:
        assert _run(database, f"SELECT current_setting('{name}')") == [(value,)]


def _run(database: PostgresServer, sql: str) -> list[tuple[object, ...]]:
    with database._transaction(5) as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


@needs_pgbouncer
def test_a_pooler_in_transaction_mode_may_stand_between(address: str, tmp_path: Path) -> None:
    execute(address, "CREATE TABLE t AS SELECT g AS id FROM generate_series(1, 10) g")
    pooler = PgBouncer(server(), size=1)
    try:
        database = opened(pooler.before(address))
        tables = database.schema().tables
        for _ in range(3):
            assert rows_of(database.select("SELECT count(*) FROM t", tables, tmp_path / "r").path) == [(10,)]
        with psycopg.connect(pooler.before(address), autocommit=True, prepare_threshold=None) as other:
            other.execute("INSERT INTO t VALUES (11)")  # nothing of ours has stuck to the connection
            assert other.execute("SHOW statement_timeout").fetchone() == ("0",)
    finally:
        pooler.stop()


def test_a_server_that_goes_away_is_told_and_the_next_call_works(tmp_path: Path) -> None:
    own = Server(durable=True)
    try:
        address = own.new_database()
        execute(address, "CREATE TABLE orders AS SELECT g AS id FROM generate_series(1, 20) g")
        database = opened(address)
        tables = database.schema().tables
        ended: list[RecollectError] = []

        def ask() -> None:
            try:
                database.select(SLOW, tables, tmp_path / "r", limits=FetchLimits(seconds=60))
            except RecollectError as error:
                ended.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        running = "SELECT 1 FROM pg_stat_activity WHERE query LIKE '%\"p\"%' AND pid <> pg_backend_pid()"
        while not own.admin(running):
            pass
        own.restart(signal.SIGQUIT)
        thread.join(60)
        assert [type(error) for error in ended] == [Unavailable]
        assert rows_of(database.select("SELECT count(*) FROM orders", tables, tmp_path / "r").path) == [(20,)]
    finally:
        own.stop()
    with pytest.raises(Unavailable, match="has no server"):
        database.check()


def test_a_schema_that_changed_says_to_refresh(address: str, tmp_path: Path) -> None:
    execute(address, "CREATE TABLE t (id int, gone int)")
    database = opened(address)
    tables = database.schema().tables
    execute(address, "ALTER TABLE t DROP COLUMN gone")
    with pytest.raises(NotFound, match="refresh the connection"):
        database.select("SELECT gone FROM t", tables, tmp_path / "r")


def test_unknown_hosts_and_databases_are_told(address: str) -> None:
    for wrong, words in [
        (address.rpartition("/")[0] + "/nosuch", "does not exist"),
        ("postgresql://a@nosuch.invalid/shop", "unknown host"),
        (address + "?sslmode=require", "does not agree about TLS"),
    ]:
        with pytest.raises(Unavailable, match=words):
            opened(wrong).check()


def test_the_password_reaches_the_server_and_nothing_else(address: str) -> None:
    parsed = DatabaseAddress.parse(address)
    database = PostgresServer(parsed, SECRET, Jobs(), at="127.0.0.1")
    uri = database._uri()
    assert "hostaddr=127.0.0.1" in uri
    assert SECRET not in uri  # quoted: it has characters that would end the part
    assert psycopg.conninfo.conninfo_to_dict(uri)["password"] == SECRET
    assert "geheim" not in repr(database)
