"""A SQLite file outside, read where it lies while others write to it.

The file may be a stranger's: it is opened read-only, its schema is not trusted, nothing can be attached, and an
authorizer inside SQLite itself allows nothing but reading listed tables and calling harmless functions. Columns hold
whatever was put into them, so the types of their values are looked at first.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import closing, contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa

from recollect.adapters.connections.harmless_functions import HARMLESS
from recollect.adapters.connections.jobs import Job, Jobs
from recollect.adapters.connections.parquet_file import all_rows, write
from recollect.adapters.connections.pushdown import needed_select
from recollect.adapters.connections.select_rules import native_select, whole_table
from recollect.domain.database_address import DatabaseAddress, DatabaseEngine
from recollect.errors import DamagedData, Denied, InvalidInput, NotFound, RecollectError, TooLarge, Unavailable
from recollect.ports.connections import (
    DEFAULT_FETCH_LIMITS,
    DatabaseFacts,
    Fetched,
    FetchLimits,
    OutsideSchema,
    OutsideTable,
    SqlDialect,
)
from recollect.ports.data import Column, ForeignKey

STORE_ID = 0x52434C54
"""The application id of our own stores: they hold the memories of every tenant."""
_LONGEST_VALUE = 32 << 20
_BATCH_ROWS = 10_000
_RESULT = "the result of a statement\x01"  # a name that no table has
_TABLES = """
SELECT m.name, m.type, coalesce(m.sql, '') FROM sqlite_master AS m
WHERE m.type IN ('table', 'view') AND substr(m.name, 1, 7) <> 'sqlite_' ORDER BY m.name
"""
_COLUMNS = """
SELECT m.name, c.name, c.type, c.pk FROM sqlite_master AS m, pragma_table_xinfo(m.name) AS c
WHERE m.type IN ('table', 'view') AND substr(m.name, 1, 7) <> 'sqlite_' AND c.hidden <> 1 ORDER BY m.name, c.cid
"""
_KEYS = """
SELECT m.name, k."from", k."table", k."to", k.id FROM sqlite_master AS m, pragma_foreign_key_list(m.name) AS k
WHERE m.type = 'table' ORDER BY m.name, k.id, k.seq
"""
_SHADOWS = ("data", "idx", "content", "docsize", "config", "node", "rowid", "parent", "stat", "segments", "segdir")
_READING = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE})


class SqliteFile:
    """Fills `OutsideDatabase`."""

    engine: DatabaseEngine = "sqlite"

    def __init__(self, address: DatabaseAddress, jobs: Jobs) -> None:
        self.address = address
        self._jobs = jobs

    def __repr__(self) -> str:
        return f"SqliteFile({self.address})"

    def check(self) -> DatabaseFacts:
        with self._session(30) as connection:
            count = len(_plain_tables(connection.execute(_TABLES).fetchall()))
        is_read_only = not os.access(self.address.path, os.W_OK)
        return DatabaseFacts("sqlite", "SQLite", sqlite3.sqlite_version, is_read_only, count)

    def schema(self, *, most_tables: int = 2000) -> OutsideSchema:
        with self._session(60) as connection:
            tables = _plain_tables(connection.execute(_TABLES).fetchall())
            columns, primary = defaultdict(list), defaultdict(list)
            for table, column, type, place in connection.execute(_COLUMNS):
                columns[table].append(Column(column, type or ""))
                if place:
                    primary[table].append((place, column))
            foreign = _foreign_keys(connection.execute(_KEYS).fetchall(), primary)
            listed = [row for row in tables if columns[row[0]]][:most_tables]
            rows = _row_counts(connection, [name for name, kind, _ in listed if kind == "table"])
        found = [
            OutsideTable(
                name, "", name, columns[name], "view" if kind == "view" else "table",
                primary_key=[column for _, column in sorted(primary[name])], foreign_keys=foreign[name],
                rows=rows.get(name),
            )
            for name, kind, _ in listed
        ]  # fmt: skip
        return OutsideSchema(found, left_out=max(0, len(tables) - len(found)))

    def sample(
        self, table: OutsideTable, target: Path, *, rows: int = 10_000, limits: FetchLimits = DEFAULT_FETCH_LIMITS
    ) -> Fetched:
        """The first rows."""
        limits = FetchLimits(limits.seconds, rows, limits.megabytes, limits.columns)
        select = whole_table(table, self.engine).sql("sqlite")
        return self._fetch(select, [table], target, limits, dates=_dates(table))

    def select(
        self, sql: str, tables: Sequence[OutsideTable], target: Path, *, dialect: SqlDialect = "duckdb",
        limits: FetchLimits = DEFAULT_FETCH_LIMITS, job: str | None = None,
    ) -> Fetched:  # fmt: skip
        allowed = native_select(sql, tables, self.engine, dialect)
        used = [table for table in tables if table.name in allowed.tables]
        return self._fetch(allowed.sql, used, target, limits, job)

    def fetch(
        self, table: OutsideTable, sql: str, beside: Mapping[str, Sequence[str]], target: Path, *,
        limits: FetchLimits = DEFAULT_FETCH_LIMITS, job: str | None = None,
    ) -> Fetched:  # fmt: skip
        needed = needed_select(sql, table, beside, self.engine)
        return all_rows(self._fetch(needed.sql, [table], target, limits, job, _dates(table)), table, limits)

    def _fetch(
        self, sql: str, tables: Sequence[OutsideTable], target: Path, limits: FetchLimits, job: str | None = None,
        dates: Set[str] = frozenset(),
    ) -> Fetched:  # fmt: skip
        """`dates` are columns that are declared as dates or times: where all their texts are, they become such."""
        with self._session(limits.seconds, job) as connection:
            connection.execute("BEGIN")  # both passes see the same rows
            connection.set_authorizer(_authorizer({table.table.lower() for table in tables}))
            described = connection.execute(f"SELECT * FROM ({sql}) LIMIT 0").description
            types = _types(connection, sql, [str(column[0]) in dates for column in described], limits)
            cursor = connection.execute(sql)
            names = [str(column[0]) for column in cursor.description]
            schema = pa.schema([pa.field(name, type) for name, type in zip(names, types, strict=True)])
            return write(schema, _batches(cursor, schema), target, limits, sql, [table.name for table in tables])

    @contextmanager
    def _session(self, seconds: float, job: str | None = None) -> Iterator[sqlite3.Connection]:
        running: Job | None = None
        try:
            with (
                closing(self._opened()) as connection,
                self._jobs.run(job, seconds, connection.interrupt, 0) as running,
            ):
                yield connection
        except (sqlite3.Error, OverflowError) as error:
            if running is not None and (ended := running.ended()):
                raise ended from None
            raise _recollect_error(error, self.address) from None

    def _opened(self) -> sqlite3.Connection:
        path = Path(os.path.realpath(self.address.path))
        if not path.is_file():
            raise NotFound("the file of the connection does not exist", remedy="correct the path in the address")
        connection = sqlite3.connect(
            f"file:{quote(str(path))}?mode=ro", uri=True, timeout=5, isolation_level=None, check_same_thread=False
        )
        try:
            connection.text_factory = lambda data: data.decode("utf-8", "replace")
            for limit, most in _LIMITS.items():
                connection.setlimit(limit, most)
            for pragma in ("trusted_schema=OFF", "query_only=ON", "cell_size_check=ON", "mmap_size=0"):
                connection.execute(f"PRAGMA {pragma}")
            if connection.execute("PRAGMA application_id").fetchone()[0] == STORE_ID:
                raise Denied("this file is a store of Recollect", remedy="connect to a database of your own")
        except BaseException:
            connection.close()
            raise
        return connection


_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: _LONGEST_VALUE,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 1_000_000,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}


def _authorizer(tables: set[str]) -> Callable[[int, str | None, str | None, str | None, str | None], int]:
    """SQLite asks it about each thing a statement would do. Views read their tables by way of themselves."""

    def may(action: int, first: str | None, second: str | None, database: str | None, view: str | None) -> int:
        if action in _READING:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_READ:
            name = (first or "").lower()
            is_listed = name in tables or (view is not None and not name.startswith(("sqlite_", "pragma_")))
            return sqlite3.SQLITE_OK if is_listed else sqlite3.SQLITE_DENY
        if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in HARMLESS["sqlite"] | _COMPUTING:
            return sqlite3.SQLITE_OK
        return sqlite3.SQLITE_DENY

    return may


_COMPUTING = frozenset({"typeof", "group_concat", "glob", "->", "->>"})


def _dates(table: OutsideTable) -> frozenset[str]:
    return frozenset(one.name for one in table.columns if re.search("date|timestamp", one.type, re.IGNORECASE))


def _types(connection: sqlite3.Connection, sql: str, dates: list[bool], limits: FetchLimits) -> list[pa.DataType]:
    """The types of columns, from all their values; asked once, with what tells whether texts are dates."""
    if len(dates) > min(limits.columns, 900):
        raise TooLarge("the result has too many columns", remedy="select fewer columns")
    names = [f"c{index}" for index in range(len(dates))]
    asked = [f"group_concat(DISTINCT typeof({name}))" for name in names]
    asked += [
        f"CASE WHEN min({name} GLOB '{_ISO}') THEN max(length({name})) END" if is_date else "NULL"
        for name, is_date in zip(names, dates, strict=True)
    ]
    (found,) = connection.execute(
        f'WITH "{_RESULT}" ({", ".join(names)}) AS (SELECT * FROM ({sql}) LIMIT {limits.rows}) '
        f'SELECT {", ".join(asked)} FROM "{_RESULT}"'
    ).fetchall()
    kinds, lengths = found[: len(dates)], found[len(dates) :]
    return [
        _type(set((one or "").split(",")) - {"null", ""}, length) for one, length in zip(kinds, lengths, strict=True)
    ]


_ISO = "[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9]*"


def _type(kinds: set[str], date_length: int | None) -> pa.DataType:
    if kinds == {"integer"}:
        return pa.int64()
    if kinds and kinds <= {"integer", "real"}:
        return pa.float64()
    if kinds == {"text"} and date_length is not None and date_length <= 32:
        return pa.date32() if date_length == 10 else pa.timestamp("us")
    return pa.binary() if kinds == {"blob"} else pa.string()


def _batches(cursor: sqlite3.Cursor, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    while True:
        rows = cursor.fetchmany(_BATCH_ROWS)
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
        arrays = [
            pa.array([_value(value, one.type) for value in column], one.type)
            for column, one in zip(columns, schema, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        if len(rows) < _BATCH_ROWS:
            return


def _value(value: object, type: pa.DataType) -> object:
    """A value as its column needs it. Bytes among texts are written in hexadecimal."""
    if value is None:
        return None
    if pa.types.is_string(type):
        return value if isinstance(value, str) else value.hex() if isinstance(value, bytes) else str(value)
    if pa.types.is_binary(type):
        return value if isinstance(value, bytes) else str(value).encode()
    if pa.types.is_temporal(type):
        return _moment(str(value), is_date=pa.types.is_date(type))
    if not isinstance(value, int | float):
        return None
    return float(value) if pa.types.is_floating(type) else int(value)


def _moment(text: str, *, is_date: bool) -> date | datetime | None:
    """None for a day that does not exist. A time with a zone is told in UTC."""
    try:
        if is_date:
            return date.fromisoformat(text)
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is None else found.astimezone(UTC).replace(tzinfo=None)


def _plain_tables(rows: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Virtual tables run code of an extension, and the tables behind them are not for people."""
    virtual = {name for name, _, sql in rows if sql.lstrip().upper().startswith("CREATE VIRTUAL")}
    hidden = virtual | {f"{name}_{end}" for name in virtual for end in _SHADOWS}
    return [row for row in rows if row[0] not in hidden]


def _foreign_keys(
    rows: list[tuple[str, str, str, str | None, int]], primary: dict[str, list[tuple[int, str]]]
) -> dict[str, list[ForeignKey]]:
    parts: dict[tuple[str, int], list[ForeignKey]] = defaultdict(list)
    for table, column, other, to, number in rows:
        own_key = primary.get(other, [])
        parts[table, number].append(ForeignKey(column, other, to or (own_key[0][1] if own_key else column)))
    found: dict[str, list[ForeignKey]] = defaultdict(list)
    for (table, _), keys in parts.items():
        found[table] += keys if len(keys) == 1 else []
    return found


def _row_counts(connection: sqlite3.Connection, tables: list[str]) -> dict[str, int]:
    """The highest row number, which SQLite finds at once; a table without row numbers has no estimate."""
    found: dict[str, int] = {}
    for name in tables:
        quoted = '"' + name.replace('"', '""') + '"'
        try:
            ((most,),) = connection.execute(f"SELECT max(_rowid_) FROM {quoted}").fetchall()
        except sqlite3.OperationalError:
            continue
        found[name] = int(most or 0)
    return found


def _recollect_error(error: Exception, address: DatabaseAddress) -> RecollectError:
    said = str(error)[:200]
    if isinstance(error, OverflowError) or "too big" in said:
        return TooLarge("a value of the result is too large", remedy="select shorter values")
    if "not authorized" in said or "prohibited" in said:
        return InvalidInput("the statement reads or calls something that cannot be used here", remedy=_REMEDY)
    if "no such" in said or "ambiguous" in said or "syntax" in said:
        return InvalidInput(f"the database says: {said}", remedy="correct the statement, or refresh the connection")
    if "locked" in said or "busy" in said:
        return Unavailable("the file is locked by another program", remedy="try again in a moment")
    if "unable to open" in said or "readonly" in said:
        return Unavailable(
            "the file cannot be opened", remedy="check its permissions; a file in WAL mode needs a writable folder"
        )
    if isinstance(error, sqlite3.DatabaseError) and ("malformed" in said or "not a database" in said):
        return DamagedData(f"this is not a sound SQLite file: {said}", remedy="check it with sqlite3")
    return InvalidInput(f"the database says: {said}", remedy="correct the statement")


_REMEDY = "write one SELECT over the listed tables with functions that compute from their arguments"
