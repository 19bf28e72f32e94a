"""Tables of a SQLite file that another program wrote: opened read-only, its schema not trusted, only plain tables."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from recollect.domain.record import JsonObject
from recollect.errors import InvalidInput

LARGEST_VALUE = 64 << 20
ROWS_AT_ONCE = 200
Lookup = Callable[..., list[JsonObject]]


class SqliteTables:
    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        self._connection, self._name = connection, name
        self.columns: dict[str, list[str]] = {}
        """The columns of each table; views and virtual tables are not listed, since reading them can run code."""
        listed = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
        for table, sql in listed:
            if not table.startswith("sqlite_") and not str(sql).upper().startswith("CREATE VIRTUAL"):
                found = connection.execute("SELECT name FROM pragma_table_info(?)", (table,)).fetchall()
                self.columns[table] = [column for (column,) in found]

    def with_columns(self, *names: str) -> str | None:
        """The first table that has all these columns."""
        return next((table for table, columns in self.columns.items() if set(names) <= set(columns)), None)

    def rows(self, table: str, order: Sequence[str] = ()) -> Iterator[JsonObject]:
        columns = self.columns[table]
        by = f" ORDER BY {', '.join(map(quoted, order))}" if order else ""
        chosen = ", ".join(map(quoted, columns))
        cursor = self._connection.execute(f"SELECT {chosen} FROM {quoted(table)}{by}")
        while some := cursor.fetchmany(ROWS_AT_ONCE):
            yield from (dict(zip(columns, row, strict=True)) for row in some)

    def lookup(self, table: str, *keys: str) -> Lookup:
        """The rows of a table by some of its columns, which may have no index there; one table at a time."""
        columns = self.columns[table]
        chosen, by = ", ".join(map(quoted, columns)), ", ".join(map(quoted, keys))
        self._connection.execute(f"CREATE TEMP TABLE looked_up AS SELECT {chosen} FROM {quoted(table)}")
        self._connection.execute(f"CREATE INDEX temp.looked_up_by ON looked_up ({by})")
        where = " AND ".join(f"{quoted(key)} = ?" for key in keys)

        def found(*values: object) -> list[JsonObject]:
            wanted = [str(value) for value in values]
            rows = self._connection.execute(f"SELECT * FROM temp.looked_up WHERE {where} ORDER BY rowid", wanted)
            return [dict(zip(columns, row, strict=True)) for row in rows.fetchall()]

        return found


@contextmanager
def tables_of(path: Path) -> Iterator[SqliteTables]:
    name = path.name
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True)) as connection:
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_VALUE)
            connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
            connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("BEGIN")
            yield SqliteTables(connection, name)
    except sqlite3.Error as error:
        raise InvalidInput(
            f"'{name}' cannot be read as a SQLite database: {error}",
            remedy="close the program that uses it, and copy it again together with its -wal file",
        ) from None


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
