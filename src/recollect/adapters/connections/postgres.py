"""A PostgreSQL database outside, by ADBC: rows arrive as Arrow, streamed.

Every call has a connection and one transaction of its own, READ ONLY, with its time limits set for that transaction
alone. So nothing depends on the session, and a pooler that lends its connections by the transaction may stand between.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import adbc_driver_manager
import adbc_driver_postgresql.dbapi as adbc
import pyarrow as pa

from recollect.adapters.connections import postgres_catalog as catalog
from recollect.adapters.connections.jobs import Job, Jobs, too_slow
from recollect.adapters.connections.parquet_file import EXACT, all_rows, write
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

Rows = list[tuple[Any, ...]]
_BATCH_BYTES = str(4 << 20)
_NO_FILE = os.path.join(os.sep, "nonexistent", "recollect")  # the server's operator may have a password file: not ours
_FIXED = {
    "client_encoding": "UTF8",
    "application_name": "recollect",
    "gssencmode": "disable",
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}


class PostgresServer:
    """Fills `OutsideDatabase`. `at` is the address that was judged for the host, where callers are confined."""

    engine: DatabaseEngine = "postgresql"

    def __init__(self, address: DatabaseAddress, password: str | None, jobs: Jobs, *, at: str = "") -> None:
        self.address = address
        self._password = password
        self._at = at
        self._jobs = jobs

    def __repr__(self) -> str:
        return f"PostgresServer({self.address})"

    def check(self) -> DatabaseFacts:
        with self._transaction(30) as cursor:
            return catalog.facts(_all(cursor, catalog.FACTS)[0])

    def schema(self, *, most_tables: int = 2000) -> OutsideSchema:
        with self._transaction(60) as cursor:
            tables = _all(cursor, catalog.TABLES.format(most=int(most_tables)))
            listed = ", ".join(str(int(row[0])) for row in tables) or "0"
            columns = _all(cursor, catalog.COLUMNS.format(tables=listed))
            keys = _all(cursor, catalog.KEYS.format(tables=listed))
            ((count,),) = _all(cursor, catalog.COUNT)
        return catalog.schema_of(tables, columns, keys, int(count))

    def sample(
        self, table: OutsideTable, target: Path, *, rows: int = 10_000, limits: FetchLimits = DEFAULT_FETCH_LIMITS
    ) -> Fetched:
        """Blocks of a large table by chance, always the same ones; the beginning of a small table or a view."""
        select = whole_table(table, self.engine).sql("postgres")
        limits = FetchLimits(limits.seconds, rows, limits.megabytes, limits.columns)
        if table.kind == "table" and (table.rows or 0) > 10 * rows:
            percent = min(100.0, max(0.001, 300.0 * rows / (table.rows or 1)))
            found = self._fetch(
                f"{select} TABLESAMPLE SYSTEM ({percent:.4f}) REPEATABLE (42)", [table.name], target, limits
            )
            if found.rows:
                return found
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
        with self._transaction(limits.seconds, job) as cursor:
            described = cursor.adbc_execute_schema(sql)
            if len(described) > limits.columns:
                raise TooLarge(f"the result has more than {limits.columns:,} columns", remedy="select fewer columns")
            cursor.execute(_readable(sql, described, limits.rows + 1))
            reader = cursor.fetch_record_batch()
            return write(_plain_schema(reader.schema), reader, target, limits, sql, tables)

    @contextmanager
    def _transaction(self, seconds: float, job: str | None = None) -> Iterator[adbc.Cursor]:
        running: Job | None = None
        try:
            connection = adbc.connect(self._uri())
            try:
                with connection.cursor() as cursor, self._jobs.run(job, seconds, cursor.adbc_cancel) as running:
                    cursor.adbc_statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": _BATCH_BYTES})
                    for setting in _settings(seconds):
                        cursor.execute(setting)
                    yield cursor
            finally:
                connection.close()
        except (adbc_driver_manager.Error, pa.ArrowException, OSError) as error:
            if running is not None and (ended := running.ended()):
                raise ended from None
            raise recollect_error(error, str(self.address), seconds) from None

    def _uri(self) -> str:
        """With the password: for the driver only."""
        address = self.address
        options = dict(_FIXED)
        options |= {name: value for name, value in address.options.items() if name != "host"}
        if self._at:
            options |= {"hostaddr": self._at, "passfile": _NO_FILE}
        user = quote(address.user, safe="")
        if self._password is not None or self._at:
            user += ":" + quote(self._password or "", safe="")
        if address.host.startswith("/"):
            options["host"], place = address.host, f":{address.port}"
        else:
            place = f"[{address.host}]:{address.port}" if ":" in address.host else f"{address.host}:{address.port}"
        return f"postgresql://{user}@{place}/{quote(address.database, safe='')}?{urlencode(options, quote_via=quote)}"


def _settings(seconds: float) -> list[str]:
    milliseconds = max(1, int(seconds * 1000))
    return [
        "SET TRANSACTION READ ONLY",
        f"SET LOCAL statement_timeout = {milliseconds}",
        f"SET LOCAL lock_timeout = {min(milliseconds, 5000)}",
        f"SET LOCAL idle_in_transaction_session_timeout = {milliseconds + 30_000}",
        "SET LOCAL standard_conforming_strings = on",
        "SET LOCAL TimeZone = 'UTC'",
        "SET LOCAL search_path = pg_catalog",
    ]


def _all(cursor: adbc.Cursor, sql: str) -> Rows:
    cursor.execute(sql)
    table = cursor.fetch_arrow_table()
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True)) if table.num_columns else []


def _readable(sql: str, described: pa.Schema, rows: int) -> str:
    """The statement, cut at so many rows, with the types that Arrow has no word for written as text."""
    names = [f"c{index}" for index in range(len(described))]
    written = [_written(f't."{name}"', one) for name, one in zip(names, described, strict=True)]
    columns = ", ".join(f"{sql} AS {_quoted(one.name)}" for sql, one in zip(written, described, strict=True))
    listed = ", ".join(f'"{name}"' for name in names)
    return f"SELECT {columns} FROM ({sql}) AS t({listed}) LIMIT {rows}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _written(column: str, described: pa.Field) -> str:
    own = (described.metadata or {}).get(b"POSTGRESQL:type", b"").decode()
    if own == "money":
        return f"CAST({column} AS numeric)"
    if pa.types.is_list(described.type):
        if own == "_numeric":
            return f"CAST({column} AS double precision[])"
        return column if _is_plain(described.type.value_type) else f"CAST({column} AS text[])"
    if own in ("numeric", "json", "jsonb") or _is_plain(described.type):
        return column
    return f"CAST({column} AS text)"


def _is_plain(type: pa.DataType) -> bool:
    is_extension = isinstance(type, pa.BaseExtensionType)
    return not is_extension and not pa.types.is_nested(type) and not pa.types.is_interval(type)


def _plain_schema(arrived: pa.Schema) -> pa.Schema:
    fields = []
    for one in arrived:
        is_exact = (one.metadata or {}).get(b"POSTGRESQL:type") == b"numeric"
        type = one.type.storage_type if isinstance(one.type, pa.BaseExtensionType) else one.type
        fields.append(pa.field(one.name, type, metadata={EXACT: b"1"} if is_exact else None))
    return pa.schema(fields)


def recollect_error(error: Exception, label: str, seconds: float) -> RecollectError:
    """Never the driver's own words where they may hold stored text or the address."""
    said = str(error)
    told = re.search(r"SQLSTATE:? \(?(\w{5})", said)  # where it comes by way of Arrow, only the text has it
    state = str(getattr(error, "sqlstate", None) or (told[1] if told else ""))
    if state == "57014" or "statement timeout" in said:
        return too_slow(seconds)
    if state.startswith("42") and state != "42501":
        return _wrong_statement(state, said)
    for beginning, kind, what, remedy in _MEANINGS:
        if state.startswith(beginning):
            return kind(f"{label} {what}", remedy=remedy)
    if state:
        return StoreError(f"{label} refused the statement ({state})", remedy="write it in another way", sqlstate=state)
    lowered = said.lower()
    for words, what, remedy in _UNREACHED:
        if any(word in lowered for word in words.split("|")):
            return Unavailable(f"{label} {what}", remedy=remedy)
    return Unavailable(f"{label} cannot be reached", remedy="check the address, and that the server is running")


def _wrong_statement(state: str, said: str) -> RecollectError:
    """What the server says about a statement names tables and columns of the statement, and no data."""
    reason = said.partition("ERROR:")[2].partition("\n")[0].strip()[:200] or "the statement is not valid there"
    if state in ("42P01", "42703"):
        return NotFound(f"the database says: {reason}", remedy="refresh the connection, then use the names it lists")
    return InvalidInput(f"the database says: {reason}", remedy="correct the statement")


_MEANINGS: tuple[tuple[str, type[RecollectError], str, str], ...] = (
    ("42501", Denied, "does not let this login read that", "grant SELECT to the login, or leave the table out"),
    ("25006", InvalidInput, "is only ever read", "write one SELECT"),
    ("28", Unavailable, "refused the login", "check the user of the address, and the secret"),
    ("3D", Unavailable, "does not exist", "correct the name of the database in the address"),
    ("40", Unavailable, "is busy: a replica had to give way to its primary", "try again in a moment"),
    ("55P03", Unavailable, "is busy: a table is locked", "try again in a moment"),
    ("53300", Overloaded, "has no connection left", "try again in a moment"),
    ("53", Overloaded, "has run out of a resource", "ask for less, or try again in a moment"),
    ("54", TooLarge, "cannot run a statement as large", "write it simpler"),
    ("22", InvalidInput, "cannot compute this with the values that are there", "filter out odd values, or cast less"),
    ("57P", Unavailable, "went away while it was asked", "try again in a moment"),
    ("08", Unavailable, "went away while it was asked", "try again in a moment"),
)
_LOGIN = "check the user of the address, and the secret; pg_hba.conf there must let this machine in"
_UNREACHED = (
    ("password|authentication|pg_hba|role \"", "refused the login", _LOGIN),
    ("translate host|name or service|resolve", "has an unknown host", "correct the host in the address"),
    ("database \"", "does not exist", "correct the name of the database in the address"),
    ("connection refused", "has no server", "start it, or correct host and port of the address"),
    ("timeout|timed out", "did not answer", "check host, port and firewall"),
    ("ssl|tls|certificate", "does not agree about TLS", "set sslmode and sslrootcert in the address"),
    ("too many|connection slots|query_wait|max_client", "has no connection left", "try again in a moment"),
    ("closed the connection|terminating|reset by peer|no connection to the server|eof", "went away while it was asked",
     "try again in a moment"),
)  # fmt: skip
