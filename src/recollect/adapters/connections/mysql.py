"""A MySQL or MariaDB database outside, by PyMySQL: rows arrive as text, streamed, and Arrow turns them into values.

Every call has a connection of its own. Its session is set before anything else runs: read-only transactions, a time
limit that the server keeps, UTC, and the one way of writing strings that select_rules writes them in.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pyarrow as pa
import pymysql
from pymysql.connections import Connection
from pymysql.converters import encoders
from pymysql.cursors import Cursor, SSCursor

from recollect.adapters.connections import mysql_catalog as catalog
from recollect.adapters.connections.jobs import Job, Jobs, too_slow
from recollect.adapters.connections.mysql_values import MySqlColumn, columns_of
from recollect.adapters.connections.parquet_file import all_rows, write
from recollect.adapters.connections.pushdown import needed_select
from recollect.adapters.connections.select_rules import native_select, whole_table
from recollect.domain.database_address import DatabaseAddress, DatabaseEngine
from recollect.errors import (
    Denied,
    InvalidInput,
    NotFound,
    Overloaded,
    RecollectError,
    StoreError,
    TooLarge,
    Unavailable,
)
from recollect.ports.connections import (
    DEFAULT_FETCH_LIMITS,
    DatabaseFacts,
    Fetched,
    FetchLimits,
    OutsideSchema,
    OutsideTable,
    SqlDialect,
)

_NO_SUCH_THREAD = 1094
_CONNECT_SECONDS = 10
_BATCH_ROWS, _BATCH_BYTES = 20_000, 4 << 20


class MySqlServer:
    """Fills `OutsideDatabase`. `at` is the address that was judged for the host, where callers are confined."""

    engine: DatabaseEngine = "mysql"

    def __init__(self, address: DatabaseAddress, password: str | None, jobs: Jobs, *, at: str = "") -> None:
        self.address = address
        self._password = password
        self._at = at
        self._jobs = jobs

    def __repr__(self) -> str:
        return f"MySqlServer({self.address})"

    def check(self) -> DatabaseFacts:
        with self._session(30) as connection, connection.cursor() as cursor:
            grants = [str(row[0]) for row in _all(cursor, "SHOW GRANTS")]
            ((name, version, is_read_only, tables),) = _all(cursor, catalog.FACTS)
            encrypted = _all(cursor, "SHOW SESSION STATUS LIKE 'Ssl_cipher'")
        is_encrypted = bool(encrypted and encrypted[0][1])
        return catalog.facts(str(name), str(version), str(is_read_only) == "1", int(str(tables)), grants, is_encrypted)

    def schema(self, *, most_tables: int = 2000) -> OutsideSchema:
        with self._session(60) as connection, connection.cursor() as cursor:
            tables = _all(cursor, catalog.TABLES, (int(most_tables) + 1,))
            last = str(tables[-1][0]) if tables else ""
            columns = _all(cursor, catalog.COLUMNS, (last,))
            keys = _all(cursor, catalog.KEYS, (last,))
            ((count,),) = _all(cursor, catalog.COUNT)
        return catalog.schema_of(tables[:most_tables], columns, keys, int(str(count)), self.address.database)

    def sample(
        self, table: OutsideTable, target: Path, *, rows: int = 10_000, limits: FetchLimits = DEFAULT_FETCH_LIMITS
    ) -> Fetched:
        """The first rows: MySQL has no cheap way to others. Geometries are written as text."""
        shapes = {
            column.name: f"ST_AsText(`{column.name.replace('`', '``')}`)"
            for column in table.columns
            if column.type.split("(")[0] in catalog.GEOMETRIES
        }
        select = whole_table(table, self.engine, shapes).limit(rows + 1).sql("mysql")
        limits = FetchLimits(limits.seconds, rows, limits.megabytes, limits.columns)
        return self._fetch(select, [table.name], target, limits)

    def select(
        self, sql: str, tables: Sequence[OutsideTable], target: Path, *, dialect: SqlDialect = "duckdb",
        limits: FetchLimits = DEFAULT_FETCH_LIMITS, job: str | None = None,
    ) -> Fetched:  # fmt: skip
        allowed = native_select(sql, tables, self.engine, dialect)
        return self._fetch(allowed.sql, allowed.tables, target, limits, job)

    def fetch(
        self, table: OutsideTable, sql: str, beside: Mapping[str, Sequence[str]], target: Path, *,
        limits: FetchLimits = DEFAULT_FETCH_LIMITS, job: str | None = None,
    ) -> Fetched:  # fmt: skip
        needed = needed_select(sql, table, beside, self.engine)
        return all_rows(self._fetch(needed.sql, [table.name], target, limits, job), table, limits)

    def _fetch(self, sql: str, tables: list[str], target: Path, limits: FetchLimits, job: str | None = None) -> Fetched:
        with self._session(limits.seconds, job, rows=limits.rows + 1) as connection:
            cursor = connection.cursor(SSCursor)
            cursor.execute(sql)
            columns = columns_of(cursor)
            schema = pa.schema([column.field for column in columns])
            found = write(schema, _batches(cursor, columns, limits.seconds), target, limits, sql, tables)
            emptied = [
                f"{column.name}: {column.emptied:,} dates that do not exist, such as 0000-00-00, were read as empty"
                for column in columns
                if column.emptied
            ]
            found.notes.extend(emptied)
            return found

    @contextmanager
    def _session(self, seconds: float, job: str | None = None, rows: int | None = None) -> Iterator[Connection]:
        running: Job | None = None
        connection = self._connected(seconds)
        try:
            with self._jobs.run(job, seconds, lambda: self._kill(connection.thread_id())) as running:
                _prepare(connection, seconds, rows)
                yield connection
        except (pymysql.MySQLError, OSError) as error:
            if ended := running.ended() if running else None:
                raise ended from None
            raise recollect_error(error, str(self.address), seconds) from None
        finally:
            # Not close(): with rows still under way that would wait for all of them.
            connection._force_close()

    def _connected(self, seconds: float) -> Connection:
        address = self.address
        try:
            connection = Connection(
                host=address.host,
                port=address.port,
                user=address.user,
                password=self._password or "",
                database=address.database,
                charset="utf8mb4",
                conv=dict(encoders),  # values arrive as text: Arrow converts them
                connect_timeout=_CONNECT_SECONDS,
                read_timeout=max(1, int(seconds) + 5),
                write_timeout=30,
                sql_mode="",
                local_infile=False,
                defer_connect=True,
                **self._tls(),
            )
            connection.connect(self._wire())
        except (pymysql.MySQLError, OSError, RuntimeError) as error:
            raise recollect_error(error, str(self.address), seconds) from None
        return connection

    def _wire(self) -> socket.socket:
        """To the very address that was judged; TLS still checks the name of the host."""
        if not self.address.host.startswith("/"):
            return socket.create_connection((self._at or self.address.host, self.address.port), _CONNECT_SECONDS)
        wire = socket.socket(socket.AF_UNIX)
        try:
            wire.settimeout(_CONNECT_SECONDS)
            wire.connect(self.address.host)
        except OSError:
            wire.close()
            raise
        return wire

    def _tls(self) -> dict[str, object]:
        """As libpq reads sslmode: `prefer`, the default, takes TLS where the server has it."""
        options = self.address.options
        mode = options.get("sslmode", "prefer")
        if mode == "disable":
            return {"ssl_disabled": True}
        if mode == "prefer":
            return {}
        authority = options.get("sslrootcert")
        context = ssl.create_default_context(cafile=None if authority in (None, "system") else authority)
        context.check_hostname = mode == "verify-full"
        context.verify_mode = ssl.CERT_NONE if mode == "require" and not authority else ssl.CERT_REQUIRED
        if "sslcert" in options:
            context.load_cert_chain(options["sslcert"], options.get("sslkey"))
        return {"ssl": context}

    def _kill(self, thread: int) -> None:
        with closing(self._connected(10)) as other, other.cursor() as cursor:
            try:
                cursor.execute(f"KILL QUERY {int(thread)}")
            except pymysql.err.OperationalError as error:
                if error.args[0] != _NO_SUCH_THREAD:  # it ended by itself meanwhile
                    raise


def _prepare(connection: Connection, seconds: float, rows: int | None) -> None:
    is_mariadb = "mariadb" in connection.get_server_info().lower()
    limit = (
        f"SET SESSION max_statement_time = {seconds:.3f}"
        if is_mariadb
        else f"SET SESSION max_execution_time = {max(1, int(seconds * 1000))}"
    )
    settings = [
        "SET SESSION TRANSACTION READ ONLY",
        limit,
        "SET SESSION lock_wait_timeout = 5",
        "SET SESSION time_zone = '+00:00'",
        *([f"SET SESSION sql_select_limit = {rows}"] if rows is not None else []),
        "START TRANSACTION READ ONLY",
    ]
    with connection.cursor() as cursor:
        for setting in settings:
            cursor.execute(setting)


def _all(cursor: Cursor, sql: str, values: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    cursor.execute(sql, values or None)
    return [tuple(row) for row in cursor.fetchall()]


def _batches(cursor: SSCursor, columns: list[MySqlColumn], seconds: float) -> Iterator[pa.RecordBatch]:
    schema, end = pa.schema([column.field for column in columns]), time.monotonic() + seconds
    rows: list[tuple[object, ...]] = []
    size = 0
    for row in cursor:
        rows.append(row)
        size += sum(len(value) for value in row if isinstance(value, str | bytes))
        if len(rows) >= _BATCH_ROWS or size >= _BATCH_BYTES:
            yield _batch(rows, columns, schema)
            rows, size = [], 0
            if time.monotonic() > end:
                raise too_slow(seconds)
    yield _batch(rows, columns, schema)


def _batch(rows: list[tuple[object, ...]], columns: list[MySqlColumn], schema: pa.Schema) -> pa.RecordBatch:
    values = list(zip(*rows, strict=True)) if rows else [()] * len(columns)
    arrays = [column.array(list(given)) for column, given in zip(columns, values, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def recollect_error(error: Exception, label: str, seconds: float) -> RecollectError:
    """Never the driver's own words where they may hold stored text or the address."""
    code = error.args[0] if error.args and isinstance(error.args[0], int) else None
    if isinstance(error, pymysql.MySQLError) and code in _LATE:
        return too_slow(seconds)
    if isinstance(error, pymysql.MySQLError) and code in _STATEMENT:
        said = str(error.args[1]).splitlines()[0][:200] if len(error.args) > 1 else "the statement is not valid there"
        kind, remedy = _STATEMENT[code]
        return kind(f"the database says: {said}", remedy=remedy)
    if isinstance(error, pymysql.MySQLError) and code in _MEANINGS:
        kind, what, remedy = _MEANINGS[code]
        return kind(f"{label} {what}", remedy=remedy)
    if isinstance(error, socket.gaierror):
        return Unavailable(f"{label} has an unknown host", remedy="correct the host in the address")
    if isinstance(error, ssl.SSLError) or "ssl" in str(error).lower() or isinstance(error, RuntimeError):
        return Unavailable(f"{label} does not agree about TLS", remedy="set sslmode and sslrootcert in the address")
    if isinstance(error, ConnectionRefusedError):
        return Unavailable(f"{label} has no server", remedy="start it, or correct host and port of the address")
    if isinstance(error, TimeoutError):
        return Unavailable(f"{label} did not answer", remedy="check host, port and firewall")
    if code is None or code in _LOST:
        return Unavailable(f"{label} went away while it was asked", remedy="try again in a moment")
    return StoreError(f"{label} refused the statement ({code})", remedy="write it in another way")


_LATE = frozenset({1969, 3024, 1317})
_LOST = frozenset({1053, 2003, 2006, 2013, 2014, 2027, 0, 1927})
_NAMES = (NotFound, "refresh the connection, then use the names it lists")
_CORRECT = (InvalidInput, "correct the statement")
_GRANT = (Denied, "grant SELECT to the login, or leave the table out")
_STATEMENT: dict[int, tuple[type[RecollectError], str]] = {
    1146: _NAMES,
    1054: _NAMES,
    1051: _NAMES,
    1064: _CORRECT,
    1055: _CORRECT,
    1052: _CORRECT,
    1060: _CORRECT,
    1066: _CORRECT,
    1111: _CORRECT,
    1140: _CORRECT,
    1241: _CORRECT,
    1305: _CORRECT,
    1582: _CORRECT,
    1142: _GRANT,
    1143: _GRANT,
    1370: _GRANT,
}
_LOGIN = (Unavailable, "refused the login", "check the user of the address, and the secret")
_BUSY = (Overloaded, "has no connection left", "try again in a moment")
_MEANINGS: dict[int, tuple[type[RecollectError], str, str]] = {
    1045: _LOGIN,
    1044: _LOGIN,
    1130: (Unavailable, "refused the login", "let this machine in: CREATE USER name@host there"),
    1698: _LOGIN,
    1049: (Unavailable, "does not exist", "correct the name of the database in the address"),
    1040: _BUSY,
    1203: _BUSY,
    1226: _BUSY,
    1205: (Unavailable, "is busy: a table is locked", "try again in a moment"),
    1213: (Unavailable, "is busy: a table is locked", "try again in a moment"),
    1792: (InvalidInput, "is only ever read", "write one SELECT"),
    1114: (TooLarge, "has no space left for this query", "ask for less"),
    3026: (Unavailable, "does not agree about TLS", "set sslmode and sslrootcert in the address"),
    3159: (Unavailable, "does not agree about TLS", "set sslmode=require in the address"),
}
