"""Tables of connections in a statement: asked where they are, or fetched as far as the statement needs them.

A statement over one connection runs there, whole. One that joins tables of several places, or that the database cannot
say, runs here, over the columns and rows of the outside tables that it needs. The reply notes which of the two it was.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from recollect.domain.record import clipped
from recollect.domain.sources import Connection, Field
from recollect.errors import InvalidInput, NotFound, TooLarge
from recollect.ports.connections import Fetched, FetchLimits, OutsideDatabase, OutsideTable
from recollect.ports.data import Column, Limits, QueryResult, Tables
from recollect.services.data.tables import KnownTable, fields_of
from recollect.services.tenant import Tenant
from recollect.services.transaction import load

FETCHED_ROWS = 1_000_000
"""So many rows of an outside table are fetched at most to be joined with others."""
_RESULT = "result"


@dataclass(frozen=True)
class StatementRows:
    """What a statement runs over here: files, and the statement over them."""

    sql: str
    files: Tables
    is_cut: bool = False
    notes: list[str] = field(default_factory=list)

    def told(self, result: QueryResult, asked: str, tables: Sequence[KnownTable]) -> QueryResult:
        """The result, as that of the statement that was asked."""
        names = [one.sql_name for one in tables]
        notes = [*self.notes, *result.notes]
        if not self.is_cut:
            return replace(result, sql=asked, tables=names, notes=notes)
        return replace(result, sql=asked, tables=names, notes=notes, is_cut=True, row_count=None, hash=None)


@contextmanager
def rows_of_statement(
    tenant: Tenant, sql: str, read: Sequence[KnownTable], files: Tables, limits: Limits, job: str | None, rows: int
) -> Iterator[StatementRows]:
    """The rows that a statement over outside tables needs, in files that are deleted afterwards.

    `files` are those of the tables that are here; `rows`, how many of the result are wanted at most.
    """
    outside = [one for one in read if one.source.connection_id is not None]
    fields = fields_of(tenant, [one.table for one in read])
    with tempfile.TemporaryDirectory(prefix="recollect-outside-") as folder:
        ids = {one.source.connection_id for one in outside}
        if len(outside) == len(read) and len(ids) == 1:
            tables = [outside_table(one, fields[one.table.id]) for one in outside]
            whole = _whole(tenant, outside[0], sql, tables, Path(folder) / "result.parquet", limits, job, rows)
            if whole is not None:
                yield whole
                return
        yield _parts(tenant, sql, read, fields, Path(folder), files, limits, job)


def _whole(
    tenant: Tenant, one: KnownTable, sql: str, tables: Sequence[OutsideTable], target: Path, limits: Limits,
    job: str | None, rows: int,
) -> StatementRows | None:  # fmt: skip
    """The statement, run in the database; None if it cannot be said there."""
    database = database_of(tenant, one)
    allowed = FetchLimits(seconds=limits.seconds, rows=rows, megabytes=limits.disk_megabytes, columns=limits.columns)
    for dialect in ("duckdb", "native"):
        try:
            found = database.select(sql, tables, target, dialect=dialect, limits=allowed, job=job)
        except (InvalidInput, NotFound) as error:
            if isinstance(error, TooLarge):
                raise
            continue
        said = f"asked of the connection '{one.source.name}': {clipped(found.sql, 2000)}"
        return StatementRows(f'SELECT * FROM "{_RESULT}"', {_RESULT: found.path}, found.is_cut, [said, *found.notes])
    return None


def _parts(
    tenant: Tenant, sql: str, read: Sequence[KnownTable], fields: Mapping[str, Sequence[Field]], folder: Path,
    files: Tables, limits: Limits, job: str | None,
) -> StatementRows:  # fmt: skip
    """What the statement needs of each outside table, fetched one after the other."""
    columns = {one.sql_name: [field.name for field in fields[one.table.id]] for one in read}
    allowed = FetchLimits(seconds=limits.seconds, rows=FETCHED_ROWS, megabytes=limits.disk_megabytes)
    fetched: dict[str, Fetched] = {}
    notes = []
    for at, one in enumerate(one for one in read if one.source.connection_id is not None):
        table = outside_table(one, fields[one.table.id])
        beside = {name: known for name, known in columns.items() if name != one.sql_name}
        found = database_of(tenant, one).fetch(table, sql, beside, folder / f"{at}.parquet", limits=allowed, job=job)
        fetched[one.sql_name] = found
        rows = "1 row" if found.rows == 1 else f"{found.rows:,} rows"
        notes += [f"{rows} of {one.sql_name} were fetched from '{one.source.name}'", *found.notes]
    return StatementRows(sql, {**files, **{name: one.path for name, one in fetched.items()}}, notes=notes)


def database_of(tenant: Tenant, one: KnownTable) -> OutsideDatabase:
    """The database behind the connection of a table."""
    return opened(tenant, load(tenant, Connection, one.source.connection_id or ""))


def opened(tenant: Tenant, connection: Connection) -> OutsideDatabase:
    """Callers over the network reach what the settings list, whoever added the connection."""
    confined = tenant.scope.granted is not None
    return tenant.databases.open(connection.address, connection.secret_name, connection.options, confined=confined)


def outside_table(one: KnownTable, fields: Sequence[Field]) -> OutsideTable:
    """A table as the database knows it, by its name in SQL here."""
    place = one.table.metadata
    columns = [Column(field.name, field.type) for field in fields]
    return OutsideTable(one.sql_name, str(place.get("schema", "")), str(place.get("table", one.table.name)), columns)
