"""The text index of a PostgreSQL store: a column of our own terms with a GIN index over it.

The terms are made by `domain/text/tokenizer.py` and handed over with the row; no dictionary or configuration of the
server has a part in it. They stand in the record's own row, so they go where it goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from recollect.adapters.postgres.connection import UPKEEP, Connection
from recollect.adapters.records.common.codec import Codec, UnopenedValue
from recollect.adapters.records.common.data_keys import DataKeys
from recollect.adapters.records.common.ddl import mark_text, marks, text_marks, update_text
from recollect.adapters.records.common.dialect import Run, Values
from recollect.adapters.records.common.field_cipher import FieldCipher
from recollect.adapters.records.common.sql_compiler import quoted
from recollect.adapters.records.common.text_terms import READ_OTHERWISE, indexed_terms, keyed, terms_of
from recollect.adapters.records.postgres import cluster
from recollect.adapters.records.postgres.dialect import placeholders
from recollect.domain.record import RECORDS, Record
from recollect.errors import DamagedData, WrongKey
from recollect.ports.query import Row
from recollect.ports.records import Problem

BATCH = 1000
_UNBOUND = (
    'ALTER TABLE "organization" NO FORCE ROW LEVEL SECURITY',
    'ALTER TABLE "organization" FORCE ROW LEVEL SECURITY',
)
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


@dataclass(frozen=True, slots=True)
class RecordReading:
    """What reading records of all tenants needs: their codecs, and the keys of their texts."""

    codec: Callable[[type[Record]], Codec]
    keys: DataKeys
    cipher: FieldCipher

    def learn_keys(self, connection: Connection) -> None:
        """By this connection: within a transaction that changes tables, another would wait for it.

        On a cluster that is true of another role, too: Citus connects to the workers as the role that works.
        """
        as_owner = cluster.is_distributed(connection)
        enter, leave = _UNBOUND if as_owner else (f"SET LOCAL ROLE {UPKEEP}", "RESET ROLE")
        connection.execute(enter)
        rows = connection.execute('SELECT id, data_key, text_encrypted FROM "organization"').fetchall()
        connection.execute(leave)
        for row in rows:
            self.keys.learn(*row)


def text_value(record: Record, cipher: FieldCipher) -> str:
    """The terms as PostgreSQL writes them; none has a quote or a backslash."""
    shape = record.shape.text
    assert shape is not None
    if any(isinstance(getattr(record, name), UnopenedValue) for name in shape.fields):
        return ""  # only of an organization whose key was destroyed: nobody finds it any more
    return asked_value(indexed_terms(record, cipher), " ")


def asked_value(terms: Sequence[str], between: str = " | ") -> str:
    """Any of these terms."""
    return between.join(f"'{term}'" for term in terms)


def running(connection: Connection) -> Run:
    def run(statement: str, values: Values) -> list[Row]:
        """Without values as it is: a question mark in it is no place-holder."""
        done = connection.execute(placeholders(statement), values) if values else connection.execute(statement)
        return done.fetchall() if done.description else []

    return run


def make_text(connection: Connection, reading: RecordReading) -> None:
    """The text indexes that are not, or not any more, what they should be: all of them in one go."""

    def make(record: type[Record]) -> None:
        for statement in text_statements(record.shape.table):
            connection.execute(statement)
        fill_text(connection, record, reading)

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


def rebuild_text(connection: Connection, reading: RecordReading) -> list[str]:
    """Write the terms of every record again, and their indexes."""
    done = []
    for table, mark in text_marks(MAKER).items():
        with connection.transaction():
            cluster.go_in_sequence(connection)
            count = fill_text(connection, RECORDS[table], reading)
            mark_text(running(connection), table, mark)
        _reindex(connection, table)
        if count:
            done.append(f"{table}: {count} in the text index")
    return done


def erase_words(connection: Connection) -> None:
    """Vacuum takes rows out of a text index, but not their words; and statistics quote the commonest values."""
    for table in sorted(RECORDS):
        if RECORDS[table].shape.has_keyed_terms:
            _reindex(connection, table)
        if RECORDS[table].shape.sealable:
            connection.execute(f"ANALYZE {quoted(table)}")


def _reindex(connection: Connection, table: str) -> None:
    if cluster.is_distributed(connection):
        cluster.reindex_text(connection, table)
    else:
        connection.execute(f"REINDEX INDEX {quoted(table + '_text')}")


def fill_text(connection: Connection, record: type[Record], reading: RecordReading) -> int:
    """Write the terms of every record of a type; in the transaction that is open. Gives how many there are."""
    table, count = quoted(record.shape.table), 0
    if record.shape.has_keyed_terms:
        reading.learn_keys(connection)
    # Row-level security binds the owner too, and lets nobody but the tenants write.
    connection.execute(f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY")
    statement = f"UPDATE {table} SET _text = %s WHERE organization_id = %s AND id = %s"
    for some in _pages(connection, record, reading.codec(record)):
        values = [(text_value(one, reading.cipher), one.organization_id, one.id) for one in some]
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


def check_text(connection: Connection, reading: RecordReading) -> Iterator[Problem]:
    """Every record is held by its own terms."""
    if marks(running(connection)) != text_marks(MAKER):
        yield Problem(what=READ_OTHERWISE, part="index")
        return
    for table in text_marks(MAKER):
        codec = reading.codec(RECORDS[table])
        columns = ", ".join(quoted(name) for name in codec.names)
        with connection.cursor(name="check_text") as rows:
            rows.itersize = BATCH
            for row in rows.execute(f"SELECT {columns}, tsvector_to_array(_text) FROM {quoted(table)}"):
                try:
                    record = codec.record(row[:-1])
                    terms = terms_of(record)
                    keys = reading.cipher.term_keys(row[0]) if record.shape.has_keyed_terms else (None,)
                except (DamagedData, WrongKey):
                    continue  # the check of the records says so
                if not any(set(keyed(terms, key)) == set(row[-1]) for key in keys):
                    yield Problem("is not in the text index as it reads", table, row[1], row[0], "index")
