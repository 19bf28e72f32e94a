"""The port for databases outside: looked at, sampled and asked, never changed.

A statement arrives as text and is untrusted: an adapter parses it, runs exactly one SELECT over the listed tables in a
session that cannot write, and streams the result into a Parquet file within `FetchLimits`. What a driver says when
it fails may contain secrets or stored text, so adapters raise errors of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from recollect.domain.database_address import DatabaseEngine
from recollect.ports.data import Column, ForeignKey

SqlDialect = Literal["duckdb", "native"]
"""How a statement is written: as over uploaded tables, or in the language of the database itself."""


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """What one call may cost. Rows beyond the limit are left out and noted; the others end the call."""

    seconds: float = 30.0
    rows: int = 1_000_000
    megabytes: int = 512
    """Of the file that is written."""
    columns: int = 2000


DEFAULT_FETCH_LIMITS = FetchLimits()


@dataclass(frozen=True, slots=True)
class DatabaseFacts:
    """`is_read_only` when the login itself cannot write; the session never can."""

    engine: DatabaseEngine
    server: str
    version: str
    is_read_only: bool
    tables: int
    is_replica: bool = False
    is_encrypted: bool = False
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class OutsideTable:
    """`name` is how statements call it: the table's own name, with its schema before it where that is not the default.

    `rows` is an estimate of the server, None where it has none.
    """

    name: str
    schema: str
    table: str
    columns: list[Column]
    kind: Literal["table", "view"] = "table"
    description: str = ""
    descriptions: Mapping[str, str] = field(default_factory=dict)
    """What the database says about columns."""
    primary_key: list[str] = field(default_factory=list)
    foreign_keys: list[ForeignKey] = field(default_factory=list)
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class OutsideSchema:
    """`left_out` counts tables beyond the limit."""

    tables: list[OutsideTable]
    left_out: int = 0
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Fetched:
    """A result as a Parquet file. `is_cut` when the database had more rows than the limit."""

    path: Path
    rows: int
    columns: list[Column]
    bytes: int
    is_cut: bool
    sql: str
    """As it ran there."""
    tables: list[str]
    seconds: float
    notes: list[str] = field(default_factory=list)


class OutsideDatabase(Protocol):
    """One database, for one caller. Opens a connection for each call, so a server that was away is no reason to reopen.

    Every verb may raise Unavailable (cannot be reached, refused the login, went away), TooLarge (a limit), Cancelled,
    and InvalidInput, NotFound or Denied with a remedy.
    """

    engine: DatabaseEngine

    def check(self) -> DatabaseFacts:
        """Connect, and say what is there."""

    def schema(self, *, most_tables: int = 2000) -> OutsideSchema:
        """All tables and views the login may read, in a few statements however many there are."""

    def sample(
        self, table: OutsideTable, target: Path, *, rows: int = 10_000, limits: FetchLimits = DEFAULT_FETCH_LIMITS
    ) -> Fetched:
        """Some rows of a table, spread over it where the server can do that cheaply."""

    def select(
        self,
        sql: str,
        tables: Sequence[OutsideTable],
        target: Path,
        *,
        dialect: SqlDialect = "duckdb",
        limits: FetchLimits = DEFAULT_FETCH_LIMITS,
        job: str | None = None,
    ) -> Fetched:
        """Run one SELECT there, and write its rows to `target`: whole, or not at all. It reads nothing unlisted."""

    def fetch(
        self,
        table: OutsideTable,
        sql: str,
        beside: Mapping[str, Sequence[str]],
        target: Path,
        *,
        limits: FetchLimits = DEFAULT_FETCH_LIMITS,
        job: str | None = None,
    ) -> Fetched:
        """The columns and rows of one table that a statement over it and others (`beside`, with their columns) needs.

        Conditions of the statement that concern this table alone are pushed down; the others are left to whoever runs
        the statement over what was fetched. Raises TooLarge when more rows are needed than the limit allows.
        """


class OutsideDatabases(Protocol):
    """Opens databases, as far as the operator allows it."""

    def open(
        self, address: str, secret_name: str | None, options: Mapping[str, object], *, confined: bool
    ) -> OutsideDatabase:
        """`confined` for callers over the network: they reach only hosts, files and secrets that the settings list."""

    def cancel(self, job: str) -> bool:
        """End a running call; whether there was one. It raises Cancelled."""

    def close(self) -> None:
        """End what is running."""
