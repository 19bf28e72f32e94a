"""The same small shop in a real PostgreSQL, a real MariaDB and a SQLite file, each with a login that may only read."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psycopg
import pytest

from mariadb_server import mariadb, needs_mariadb
from postgres_server import server
from recollect.adapters.connections.access import ConnectionAccess
from recollect.adapters.connections.opening import Databases
from recollect.domain.database_address import DatabaseEngine
from recollect.ports.connections import OutsideDatabase, OutsideTable

SECRET = "p@ss/w:rd %27 geheim"
SECRET_TEXT = "TOP-SECRET-42"

ODD_TABLE = '顧客 "Kartei" 1'


def _statements(quote: str, backslash: str = "\\") -> list[str]:
    """In the SQL of each: names in capitals, in Chinese, with quotes, and one that is a keyword."""

    def name(text: str) -> str:
        return quote + text.replace(quote, 2 * quote) + quote

    return [
        f"CREATE TABLE customers (id INTEGER PRIMARY KEY, {name('Name')} VARCHAR(80), city VARCHAR(80))",
        f"INSERT INTO customers VALUES (1, 'Ann', 'Köln'), (2, 'Béa', '上海'), (3, 'O''Hara {backslash}', NULL)",
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER, amount DECIMAL(10,2), day DATE,"
        " note VARCHAR(200), FOREIGN KEY (customer_id) REFERENCES customers (id))",
        "INSERT INTO orders VALUES (1, 1, 10.50, '2025-01-02', 'a'), (2, 1, 20.00, '2025-02-03', 'b'),"
        " (3, 2, 5.25, '2024-12-31', NULL), (4, 3, NULL, NULL, 'c')",
        f"CREATE TABLE {name(ODD_TABLE)} ({name('Größe')} INTEGER, {name('select')} VARCHAR(20))",
        f"INSERT INTO {name(ODD_TABLE)} VALUES (7, 'x')",
        "CREATE VIEW big_orders AS SELECT id, amount FROM orders WHERE amount > 6",
    ]


@dataclass
class Shop:
    database: OutsideDatabase
    tables: list[OutsideTable]
    address: str
    databases: Databases

    def table(self, name: str) -> OutsideTable:
        return next(table for table in self.tables if table.name == name)


DATABASES = Databases(ConnectionAccess(), {"SHOP": SECRET, "WRONG": "not it"}.get)


def opened(address: str, *, secret: str | None = None) -> OutsideDatabase:
    return DATABASES.open(address, secret, {}, confined=False)


@cache
def postgres_address() -> str:
    address = server().kept(server().new_database())
    with psycopg.connect(address, autocommit=True) as connection:
        for statement in _statements('"'):
            connection.execute(statement)
        connection.execute("CREATE TABLE hidden (secret text)")
        connection.execute(f"INSERT INTO hidden VALUES ('{SECRET_TEXT}')")
        connection.execute("DROP ROLE IF EXISTS shop_reader")
        connection.execute(f"CREATE ROLE shop_reader LOGIN PASSWORD '{SECRET}'")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO shop_reader")
        connection.execute("REVOKE ALL ON hidden FROM shop_reader")
    return address.replace("postgres@", "shop_reader@")


@cache
def mysql_address() -> str:
    address = mariadb().new_database("shop_reader", SECRET.replace("'", "''"))
    database = address.rpartition("/")[2]
    mariadb().admin(*_statements("`", "\\\\"), database=database)
    return address


@cache
def _sqlite_address(folder: Path) -> str:
    path = folder / "shop.db"
    connection = sqlite3.connect(path)
    for statement in _statements('"'):
        connection.execute(statement)
    connection.execute("CREATE TABLE hidden (secret text)")
    connection.execute(f"INSERT INTO hidden VALUES ('{SECRET_TEXT}')")
    connection.commit()
    connection.close()
    return f"sqlite:///{path}"


@pytest.fixture(scope="session")
def sqlite_address(tmp_path_factory: pytest.TempPathFactory) -> str:
    return _sqlite_address(tmp_path_factory.mktemp("sqlite"))


def shop_at(address: str) -> Shop:
    database = opened(address, secret=None if address.startswith("sqlite") else "SHOP")
    return Shop(database, [table for table in database.schema().tables if table.name != "hidden"], address, DATABASES)


ENGINES = ["postgresql", pytest.param("mysql", marks=needs_mariadb), "sqlite"]


@pytest.fixture(params=ENGINES)
def shop(request: pytest.FixtureRequest, sqlite_address: str) -> Shop:
    engine: DatabaseEngine = request.param
    return shop_at({"postgresql": postgres_address, "mysql": mysql_address, "sqlite": lambda: sqlite_address}[engine]())
