"""Checking a PostgreSQL store."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg

from recollect.adapters.postgres.connection import Connection
from recollect.adapters.records.common.codec import Codec
from recollect.adapters.records.common.sql_compiler import dangling_statement, quoted
from recollect.domain.record import RECORDS, Record
from recollect.errors import DamagedData, WrongKey
from recollect.ports.records import Problem

BATCH = 1000


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
                except (psycopg.Error, DamagedData, WrongKey, ValueError) as error:
                    yield Problem(f"cannot be read: {type(error).__name__}", table, row[1], row[0])
        for field in record.shape.references:
            for organization_id, id in connection.execute(dangling_statement(record, field)):
                yield Problem(f"its {field} points at nothing", table, id, organization_id)
