"""Checking and backing up a PostgreSQL store."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

from recollect.adapters.records.postgres_link import Connection
from recollect.adapters.records.rows import Codec
from recollect.adapters.records.sql import dangling_statement, quoted
from recollect.domain.record import RECORDS, Record
from recollect.errors import InvalidInput, StoreError, Unavailable
from recollect.ports.records import Problem

BATCH = 1000
# What pg_dump reads from the environment instead of its arguments, which every user of the machine can see.
_ENVIRONMENT = {
    "host": "PGHOST",
    "hostaddr": "PGHOSTADDR",
    "port": "PGPORT",
    "dbname": "PGDATABASE",
    "user": "PGUSER",
    "password": "PGPASSWORD",
    "passfile": "PGPASSFILE",
    "sslmode": "PGSSLMODE",
    "sslrootcert": "PGSSLROOTCERT",
    "sslcert": "PGSSLCERT",
    "sslkey": "PGSSLKEY",
    "service": "PGSERVICE",
    "options": "PGOPTIONS",
}


def check_records(connection: Connection, codec_of: Callable[[type[Record]], Codec]) -> Iterator[Problem]:
    """Re-read every row, validate it again, and follow every reference."""
    for record in list(RECORDS.values()):
        codec, table = codec_of(record), record.shape.table
        columns = ", ".join(quoted(name) for name in codec.names)
        with connection.cursor(name="check") as rows:
            rows.itersize = BATCH
            for row in rows.execute(f"SELECT {columns} FROM {quoted(table)}"):
                try:
                    record.model_validate(codec.record(row).__dict__)
                except (psycopg.Error, ValueError) as error:
                    yield Problem(f"cannot be read: {type(error).__name__}", table, row[1], row[0])
        for field in record.shape.references:
            for organization_id, id in connection.execute(dangling_statement(record, field)):
                yield Problem(f"its {field} points at nothing", table, id, organization_id)


def dump(conninfo: str, label: str, target: Path) -> None:
    """One consistent moment, by PostgreSQL's own tool, under another name until it is whole."""
    if target.exists():
        raise InvalidInput(f"'{target}' exists already", remedy="give a path that is not taken")
    tool = shutil.which("pg_dump")
    if tool is None:
        raise Unavailable("pg_dump was not found", remedy="install the PostgreSQL client tools, or use `export`")
    parts = {name: str(value) for name, value in conninfo_to_dict(conninfo).items() if value is not None}
    environment = {**os.environ, **{_ENVIRONMENT[name]: parts[name] for name in parts if name in _ENVIRONMENT}}
    aside = target.with_name(target.name + ".part")
    try:
        ran = subprocess.run(
            [tool, "--format=custom", "--no-password", f"--file={aside}"],
            env=environment,
            capture_output=True,
            check=False,
        )
        if ran.returncode != 0:
            raise StoreError(
                f"pg_dump could not back up {label}",
                remedy="it must be as new as the server, and its user must be an administrator or have BYPASSRLS",
            )
        aside.replace(target)
    finally:
        aside.unlink(missing_ok=True)
