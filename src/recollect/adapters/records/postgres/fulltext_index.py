"""The text index of a PostgreSQL store: a column of our own terms with a GIN index over it.

The terms are made by `domain/text/tokenizer.py` and handed over with the row; no dictionary or configuration of the
server has a part in it. They stand in the record's own row, so they go where it goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from recollect.adapters.postgres.connection import Connection
from recollect.adapters.records.common.codec import Codec
from recollect.adapters.records.common.ddl import mark_text, marks, text_marks, update_text
from recollect.adapters.records.common.dialect import Run, Values
from recollect.adapters.records.common.sql_compiler import quoted
from recollect.adapters.records.common.text_terms import READ_OTHERWISE, terms_of
from recollect.adapters.records.postgres.dialect import placeholders
from recollect.domain.record import RECORDS, Record
from recollect.errors import DamagedData
from recollect.ports.query import Row
from recollect.ports.records import Problem

BATCH = 1000
MAKER = "lexemes of terms"
# What is new in a text index is read from end to end by every search until it is sorted in: by default up to 4 MB.
PENDING = "gin_pending_list_limit = 256"
# Before the words were ours the server made them.
_FORMER = (
    "DROP FUNCTION IF EXISTS recollect_index(text)",
    "DROP FUNCTION IF EXISTS recollect_plain(text)",
    "DROP TEXT SEARCH CONFIGURATION IF EXISTS recollect_words",
    "DROP TEXT SEARCH DICTIONARY IF EXISTS recollect_stem",
)

CodecOf = Callable[[type[Record]], Codec]


def text_value(record: Record) -> str:
    """The terms as PostgreSQL writes them; none has a quote or a backslash."""
    return " ".join(map(asked_value, terms_of(record)))


def asked_value(term: str) -> str:
    return f"'{term}'"


def running(connection: Connection) -> Run:
    def run(statement: str, values: Values) -> list[Row]:
        """Without values as it is: a question mark in it is no place-holder."""
        done = connection.execute(placeholders(statement), values) if values else connection.execute(statement)
        return done.fetchall() if done.description else []

    return run


def make_text(connection: Connection, codec_of: CodecOf) -> None:
    """The text indexes that are not, or not any more, what they should be: all of them in one go."""

    def make(record: type[Record]) -> None:
        for statement in text_statements(record.shape.table):
            connection.execute(statement)
        fill_text(connection, record, codec_of)

    def drop(table: str) -> None:
        connection.execute(f"ALTER TABLE {quoted(table)} DROP COLUMN IF EXISTS _text")

    with connection.transaction():
        if update_text(running(connection), MAKER, drop, make):
            for statement in _FORMER:
                connection.execute(statement)


def text_statements(table: str) -> tuple[str, str]:
    """The column of terms and its index."""
    return (
        f"ALTER TABLE {quoted(table)} ADD COLUMN _text tsvector NOT NULL DEFAULT ''",
        f"CREATE INDEX {quoted(table + '_text')} ON {quoted(table)} USING gin (_text) WITH ({PENDING})",
    )


def rebuild_text(connection: Connection, codec_of: CodecOf) -> list[str]:
    """Write the terms of every record again, and their indexes."""
    done = []
    for table, mark in text_marks(MAKER).items():
        with connection.transaction():
            count = fill_text(connection, RECORDS[table], codec_of)
            mark_text(running(connection), table, mark)
        connection.execute(f"REINDEX INDEX {quoted(table + '_text')}")
        if count:
            done.append(f"{table}: {count} in the text index")
    return done


def fill_text(connection: Connection, record: type[Record], codec_of: CodecOf) -> int:
    """Write the terms of every record of a type; in the transaction that is open. Gives how many there are."""
    table, count = quoted(record.shape.table), 0
    # Row-level security binds the owner too, and lets nobody but the tenants write.
    connection.execute(f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY")
    statement = f"UPDATE {table} SET _text = %s WHERE organization_id = %s AND id = %s"
    for some in _pages(connection, record, codec_of(record)):
        values = [(text_value(one), one.organization_id, one.id) for one in some]
        connection.cursor().executemany(statement, values)
        count += len(some)
    connection.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
    return count


def _pages(connection: Connection, record: type[Record], codec: Codec) -> Iterator[list[Record]]:
    columns = ", ".join(quoted(name) for name in codec.names)
    statement = (
        f"SELECT {columns} FROM {quoted(record.shape.table)} WHERE (organization_id, id) > (%s, %s) "
        f"ORDER BY organization_id, id LIMIT {BATCH}"
    )
    last = ("", "")
    while rows := connection.execute(statement, last).fetchall():
        some = [codec.record(row) for row in rows]
        yield some
        last = some[-1].organization_id, some[-1].id


def check_text(connection: Connection, codec_of: CodecOf) -> Iterator[Problem]:
    """Every record is held by its own terms."""
    if marks(running(connection)) != text_marks(MAKER):
        yield Problem(what=READ_OTHERWISE, part="index")
        return
    for table in text_marks(MAKER):
        codec = codec_of(RECORDS[table])
        columns = ", ".join(quoted(name) for name in codec.names)
        with connection.cursor(name="check_text") as rows:
            rows.itersize = BATCH
            for row in rows.execute(f"SELECT {columns}, tsvector_to_array(_text) FROM {quoted(table)}"):
                try:
                    wanted = terms_of(codec.record(row[:-1])).keys()
                except DamagedData:
                    continue  # the check of the records says so
                if wanted != set(row[-1]):
                    yield Problem("is not in the text index as it reads", table, row[1], row[0], "index")
