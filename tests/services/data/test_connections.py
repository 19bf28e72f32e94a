"""Connections: outside databases are added, asked, joined with uploads, refreshed and removed."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

import recollect
from mariadb_server import mariadb, needs_mariadb
from postgres_server import server
from recollect.errors import Denied, InvalidInput, NotFound, TooLarge, Unavailable
from recollect.interfaces.client import Recollect

SECRET = "geheim: 100% sicher"
ENGINES = ["postgresql", pytest.param("mysql", marks=needs_mariadb), "sqlite"]
SHOP = (
    "CREATE TABLE customers (id INTEGER PRIMARY KEY, name VARCHAR(80), country VARCHAR(80))",
    "INSERT INTO customers VALUES (1, 'Ann', 'Germany'), (2, 'Bea', 'France'), (3, 'Li 上海', 'China')",
    "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER, amount DECIMAL(10,2), day DATE,"
    " FOREIGN KEY (customer_id) REFERENCES customers (id))",
)


def _orders() -> str:
    rows = (f"({i}, {1 + i % 3}, {i}.50, '2025-{1 + i % 12:02}-15')" for i in range(1, 121))
    return "INSERT INTO orders VALUES " + ", ".join(rows)


@dataclass
class Shop:
    engine: str
    address: str

    @property
    def secret(self) -> dict[str, str]:
        return {} if self.engine == "sqlite" else {"secret_env": "SHOP_PASSWORD"}

    def execute(self, *statements: str) -> None:
        """As the owner of the database."""
        if self.engine == "sqlite":
            with sqlite3.connect(self.address.removeprefix("sqlite:///")) as connection:
                for statement in statements:
                    connection.execute(statement)
            connection.close()
        elif self.engine == "mysql":
            mariadb().admin(*statements, database=self.address.rpartition("/")[2])
        else:
            with psycopg.connect(self.address.replace("shop_user@", "postgres@"), autocommit=True) as owner:
                for statement in statements:
                    owner.execute(statement)


def _postgres() -> str:
    address = server().new_database()
    with psycopg.connect(address, autocommit=True) as connection:
        for statement in (*SHOP, _orders(), "ANALYZE"):
            connection.execute(statement)
        if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = 'shop_user'").fetchall():
            connection.execute("CREATE ROLE shop_user LOGIN")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO shop_user")
        connection.execute("ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO shop_user")
    return address.replace("postgres@", "shop_user@")


def _mysql() -> str:
    address = mariadb().new_database("shop_user", SECRET)
    mariadb().admin(*SHOP, _orders(), database=address.rpartition("/")[2])
    return address


@pytest.fixture(params=ENGINES)
def shop(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.setenv("SHOP_PASSWORD", SECRET)
    if request.param == "postgresql":
        return Shop("postgresql", _postgres())
    if request.param == "mysql":
        return Shop("mysql", _mysql())
    made = Shop("sqlite", f"sqlite:///{tmp_path}/shop.db")
    made.execute(*SHOP, _orders())
    return made


@pytest.fixture
def sqlite_shop(tmp_path: Path) -> Shop:
    made = Shop("sqlite", f"sqlite:///{tmp_path}/shop.db")
    made.execute(*SHOP, _orders())
    return made


def targets_file(folder: Path) -> Path:
    path = folder / "targets.csv"
    path.write_text("country,target\nGermany,100\nFrance,5000\nChina,10\n", encoding="utf-8")
    return path


def test_a_connection_is_added_with_its_tables_and_profiles(mem: Any, shop: Shop) -> None:
    added = mem.connection.add("shop", shop.address, **shop.secret)
    assert (added.engine, added.problem, added.secret) == (shop.engine, "", shop.secret.get("secret_env"))
    assert {table.name: (table.rows, table.columns) for table in added.tables} == {
        "customers": (3, 3),
        "orders": (120, 4),
    }
    assert added.facts["version"]
    source = mem.source.show("shop")
    orders = next(table for table in source.tables if table.name == "orders")
    assert (source.connection, source.format) == (added.id, shop.engine)
    assert orders.keys[0] == "id"
    amount = next(field for field in orders.fields if field.name == "amount")
    assert amount.statistics["max"] in (120.5, "120.50", "120.5")
    assert [one.name for one in mem.connection.list()] == ["shop"]
    assert mem.connection.show("shop").tables == added.tables
    assert mem.verify().problems == []


def test_a_query_over_one_connection_runs_there(mem: Any, shop: Shop) -> None:
    mem.connection.add("shop", shop.address, **shop.secret)
    reply = mem.query.run(
        "SELECT c.country, count(*) AS n, sum(o.amount) AS total FROM orders o JOIN customers c "
        "ON c.id = o.customer_id GROUP BY 1 ORDER BY total DESC"
    )
    assert [[row[0], row[1], float(row[2])] for row in reply.rows] == [
        ["France", 40, 2400.0], ["China", 40, 2440.0], ["Germany", 40, 2480.0],
    ][::-1]  # fmt: skip
    assert any("asked of the connection 'shop'" in note for note in reply.notes)
    assert (reply.row_count, reply.is_cut) == (3, False)
    assert reply.sql.startswith("SELECT c.country")
    run = mem.query.show(reply.run)
    assert run.hash == reply.hash is not None
    again = mem.query.run("SELECT id FROM orders ORDER BY id", limit=10)
    assert ([row[0] for row in again.rows], again.is_cut) == (list(range(1, 11)), True)


def test_the_data_are_those_of_the_moment(mem: Any, shop: Shop) -> None:
    mem.connection.add("shop", shop.address, **shop.secret)
    assert mem.query.run("SELECT count(*) FROM orders").rows == [[120]]
    shop.execute("INSERT INTO orders VALUES (500, 1, 1.00, '2025-01-01')")
    assert mem.query.run("SELECT count(*) FROM orders").rows == [[121]]


def test_an_upload_is_joined_with_an_outside_table(mem: Any, shop: Shop, tmp_path: Path) -> None:
    mem.connection.add("shop", shop.address, **shop.secret)
    mem.source.add(targets_file(tmp_path))
    reply = mem.query.run(
        "SELECT t.country, t.target, sum(o.amount) AS total FROM targets t JOIN customers c ON c.country = t.country "
        "JOIN orders o ON o.customer_id = c.id WHERE o.day >= DATE '2025-07-01' AND t.target > 50 "
        "GROUP BY 1, 2 ORDER BY 1"
    )
    assert [(row[0], row[1], float(row[2])) for row in reply.rows] == [
        ("France", 5000, 1260.0),
        ("Germany", 100, 1240.0),
    ]
    assert any("60 rows of orders were fetched from 'shop'" in note for note in reply.notes)
    assert any("3 rows of customers" in note for note in reply.notes)
    assert {state.name for state in reply.sources} == {"shop", "targets"}


def test_two_connections_are_joined(mem: Any, sqlite_shop: Shop, tmp_path: Path) -> None:
    other = replace(sqlite_shop, address=f"sqlite:///{tmp_path}/other.db")
    other.execute(
        "CREATE TABLE rates (country TEXT, rate REAL)", "INSERT INTO rates VALUES ('France', 0.2), ('China', 0.1)"
    )
    mem.connection.add("shop", sqlite_shop.address)
    mem.connection.add("tax", other.address)
    reply = mem.query.run("SELECT name, rate FROM customers JOIN rates USING (country) ORDER BY name")
    assert reply.rows == [["Bea", 0.2], ["Li 上海", 0.1]]


def test_what_the_database_cannot_say_is_computed_here(mem: Any, shop: Shop) -> None:
    mem.connection.add("shop", shop.address, **shop.secret)
    reply = mem.query.run("SELECT median(amount) AS m, arg_max(id, amount) AS best FROM orders")
    assert [float(cell) for cell in reply.rows[0]] == [61.0, 120.0]
    assert any("120 rows of orders were fetched" in note for note in reply.notes)


def test_a_question_in_plain_words_is_answered_from_the_database(mem: Any, shop: Shop) -> None:
    mem.connection.add("shop", shop.address, **shop.secret)
    shop.execute("INSERT INTO orders VALUES (500, 2, 1000.00, '2025-03-01')")
    reply = mem.ask("How many orders are there?")
    assert reply.rows == [[121]]
    assert any("asked of the connection" in note for note in reply.notes)


def test_a_question_may_join_an_upload_with_the_database(mem: Any, sqlite_shop: Shop, tmp_path: Path) -> None:
    mem.connection.add("shop", sqlite_shop.address)
    mem.source.add(targets_file(tmp_path))
    joins = {
        (table.name, join["column"], join["to_name"], join["to_column"])
        for name in ("shop", "targets")
        for table in mem.source.show(name).tables
        for join in table.joins
    }
    assert joins & {("customers", "country", "targets", "country"), ("targets", "country", "customers", "country")}
    reply = mem.ask("What is the target of the customer named Ann?")
    assert reply.rows == [[100]]


def test_too_many_rows_for_a_join_are_refused(
    mem: Any, sqlite_shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With some of them the answer would be wrong."""
    mem.connection.add("shop", sqlite_shop.address)
    mem.source.add(targets_file(tmp_path))
    monkeypatch.setattr("recollect.services.data.outside_tables.FETCHED_ROWS", 50)
    sql = "SELECT count(*) FROM orders, targets WHERE {}"
    assert mem.query.run(sql.format("orders.id < 20")).rows == [[57]]
    with pytest.raises(TooLarge, match="more than 50 rows of 'orders'"):
        mem.query.run(sql.format("orders.id > 20"))


def test_refreshing_says_what_changed(mem: Any, shop: Shop) -> None:
    mem.connection.add("shop", shop.address, **shop.secret)
    mem.source.revise("shop", tables={"orders": "what was bought"}, columns={"orders.amount": "in euros"})
    shop.execute(
        "ALTER TABLE customers ADD COLUMN email VARCHAR(80)", "CREATE TABLE refunds (id INTEGER, amount INTEGER)"
    )
    with pytest.raises(NotFound, match="no table"):
        mem.query.run("SELECT id FROM refunds")
    refreshed = mem.connection.refresh("shop")
    assert {(one["change"], one.get("table"), one.get("column")) for one in refreshed.changes} == {
        ("column added", "customers", "email"), ("table added", "refunds", None),
    }  # fmt: skip
    assert mem.query.run("SELECT count(email) FROM customers").rows == [[0]]
    source = mem.source.show("shop")
    orders = next(table for table in source.tables if table.name == "orders")
    assert (source.version, orders.description) == (2, "what was bought")
    assert next(field for field in orders.fields if field.name == "amount").description == "in euros"
    assert mem.connection.refresh("shop").changes == []
    assert mem.verify().problems == []


def test_a_removed_connection_leaves_nothing(mem: Any, sqlite_shop: Shop) -> None:
    added = mem.connection.add("shop", sqlite_shop.address)
    mem.query.run("SELECT count(*) FROM orders")
    with pytest.raises(InvalidInput, match="remove the connection"):
        mem.source.remove("shop")
    assert mem.connection.remove("shop").id == added.id
    assert list(mem.connection.list()) == list(mem.source.list()) == []
    with pytest.raises(NotFound):
        mem.connection.show(added.id)
    assert mem.verify().problems == []
    assert mem.connection.add("shop", sqlite_shop.address).id == added.id


def test_a_failed_check_says_why_and_keeps_what_was_known(mem: Any, sqlite_shop: Shop, tmp_path: Path) -> None:
    mem.connection.add("shop", sqlite_shop.address)
    assert mem.connection.check("shop").problem == ""
    (tmp_path / "shop.db").rename(tmp_path / "gone.db")
    checked = mem.connection.check("shop")
    assert "does not exist" in checked.problem
    assert len(checked.tables) == 2
    with pytest.raises(NotFound, match="does not exist"):
        mem.query.run("SELECT * FROM orders")
    (tmp_path / "gone.db").rename(tmp_path / "shop.db")
    assert mem.connection.check("shop").problem == ""


def test_no_secret_is_kept_or_shown(mem: Any, shop: Shop, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(InvalidInput, match="must not contain a password"):
        mem.connection.add("shop", "postgresql://reader:geheim@db/shop")
    mem.connection.add("shop", shop.address, **shop.secret)
    mem.query.run("SELECT count(*) FROM orders")
    mem.export(str(tmp_path / "export.jsonl"))
    log = [entry.model_dump_json() for entry in mem.log(limit=100)]
    shown = [mem.connection.show("shop").model_dump_json(), *log, caplog.text, (tmp_path / "export.jsonl").read_text()]
    assert "geheim" not in "".join(shown)
    assert b"geheim" not in (tmp_path / "data.db").read_bytes()


def test_a_secret_that_is_missing_is_named(mem: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOT_SET", raising=False)
    with pytest.raises(NotFound, match="NOT_SET"):
        mem.connection.add("shop", "mysql://reader@127.0.0.1:1/shop", secret_env="NOT_SET")
    with pytest.raises(Unavailable, match="has no server"):
        mem.connection.add("shop", "mysql://reader@127.0.0.1:1/shop")
    assert list(mem.connection.list()) == []


def test_a_name_is_taken_once(mem: Any, sqlite_shop: Shop, tmp_path: Path) -> None:
    mem.connection.add("shop", sqlite_shop.address)
    with pytest.raises(InvalidInput, match="already"):
        mem.connection.add("shop", sqlite_shop.address)
    mem.source.add(targets_file(tmp_path))
    with pytest.raises(InvalidInput, match="already"):
        mem.connection.add("targets", sqlite_shop.address)


def test_every_record_store_keeps_connections(stored: Any, sqlite_shop: Shop, tmp_path: Path) -> None:
    stored.connection.add("shop", sqlite_shop.address)
    stored.source.add(targets_file(tmp_path))
    joined = "SELECT target FROM targets JOIN customers USING (country) WHERE name = 'Ann'"
    assert stored.query.run(joined).rows == [[100]]
    stored.connection.refresh("shop")
    assert stored.query.run("SELECT count(*) FROM orders").rows == [[120]]
    stored.connection.remove("shop")
    assert list(stored.connection.list()) == []


def opened(path: Path, **settings: Any) -> Any:
    return recollect.open(path, background=False, **settings)


def over_the_network(mem: Any) -> Any:
    """The same memory as a caller over HTTP has it: with a key that may do everything."""
    granted = frozenset({"read", "write", "delete", "govern", "admin"})
    return Recollect(mem._core, replace(mem._scope, granted=granted), mem._prepare)


def test_over_the_network_only_what_the_settings_list_is_reached(sqlite_shop: Shop, tmp_path: Path) -> None:
    with opened(tmp_path / "a.db") as mem:
        mem.connection.add("shop", sqlite_shop.address)
        caller = over_the_network(mem)
        with pytest.raises(Denied, match="not open"):
            caller.connection.add("other", sqlite_shop.address)
        with pytest.raises(Denied, match="not open"):
            caller.query.run("SELECT count(*) FROM orders")
        for address in ("postgresql://a@169.254.169.254/x", "mysql://a@localhost/x", "postgresql://a@10.0.0.1/x"):
            with pytest.raises(Denied):
                caller.connection.add("other", address)
    with opened(tmp_path / "a.db", connections={"folders": [str(tmp_path)]}) as mem:
        assert over_the_network(mem).query.run("SELECT count(*) FROM orders").rows == [[120]]
        assert over_the_network(mem).connection.add("other", sqlite_shop.address).problem == ""
        with pytest.raises(Denied, match="store of Recollect"):
            over_the_network(mem).connection.add("own", f"sqlite:///{tmp_path}/a.db")


def test_two_tenants_do_not_see_each_others_connections(mem: Any, sqlite_shop: Shop) -> None:
    added = mem.connection.add("shop", sqlite_shop.address)
    other = mem.within("other")
    assert list(other.connection.list()) == []
    for id in (added.id, "shop"):
        for verb in ("show", "check", "refresh", "remove"):
            with pytest.raises(NotFound):
                other.call(f"connection.{verb}", id=id)
    with pytest.raises(InvalidInput, match="no sources"):
        other.query.run("SELECT * FROM orders")
    assert other.connection.add("shop", sqlite_shop.address).id == added.id
    other.connection.remove("shop")
    assert mem.query.run("SELECT count(*) FROM orders").rows == [[120]]
