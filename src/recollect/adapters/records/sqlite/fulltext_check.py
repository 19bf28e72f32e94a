"""Checking the text indexes of a SQLite store: every living record, by its own terms, and nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import cast

import apsw

from recollect.adapters.records.common.codec import Codec
from recollect.adapters.records.common.ddl import marks, text_marks
from recollect.adapters.records.common.sql_compiler import quoted
from recollect.adapters.records.common.text_terms import READ_OTHERWISE, terms_of
from recollect.adapters.records.sqlite.fulltext import INDEXED_AT_ONCE, TOKENIZER, facet_tokens
from recollect.adapters.records.sqlite.maintenance import CodecOf, running
from recollect.domain.record import RECORDS, Record
from recollect.errors import DamagedData
from recollect.ports.query import Row
from recollect.ports.records import Problem


def check_text(connection: apsw.Connection, codec_of: CodecOf) -> Iterator[Problem]:
    """The text index holds exactly the living records, each by its own terms."""
    try:
        made_of = marks(running(connection))
    except apsw.Error as error:
        yield Problem(what=f"what the text indexes are made of cannot be read: {error}")
        return
    if made_of != text_marks(TOKENIZER):
        yield Problem(what=READ_OTHERWISE, part="index")
        return
    for record in [one for one in RECORDS.values() if one.shape.text]:
        try:
            yield from _check_index(connection, record, codec_of(record))
        except apsw.Error as error:
            yield Problem(what=f"the text index cannot be read: {error}", table=record.shape.table, part="index")


def _check_index(connection: apsw.Connection, record: type[Record], codec: Codec) -> Iterator[Problem]:
    table, held = record.shape.table, _held(connection, record)
    for row, living in _living(connection, record, codec):
        found = held.pop(row, None)
        if living is None:
            continue
        wanted = _sum([*facet_tokens(living).split(), *terms_of(living)])
        if found is None:
            yield Problem("is missing from the text index", table, living.id, living.organization_id, "index")
        elif found != wanted:
            yield Problem("is not in the text index as it reads", table, living.id, living.organization_id, "index")
    for row in sorted(held)[:100]:
        yield Problem(f"the text index holds row {row}, which is not a living record", table, part="index")


def _living(connection: apsw.Connection, record: type[Record], codec: Codec) -> Iterator[tuple[int, Record | None]]:
    """None for rows that cannot be read: these are named by the check of the records."""
    columns = ", ".join(quoted(column) for column in codec.names)
    statement = (
        f"SELECT _row, {columns} FROM {quoted(record.shape.table)} WHERE is_deleted = 0 AND _row > ? "
        f"ORDER BY _row LIMIT {INDEXED_AT_ONCE}"
    )
    last = -1
    while some := connection.execute(statement, (last,)).fetchall():
        for row, *stored in cast(list[Row], some):
            try:
                yield row, codec.record(stored)
            except DamagedData:
                yield row, None
        last = cast(int, some[-1][0])


def _held(connection: apsw.Connection, record: type[Record]) -> dict[int, int]:
    """For each row of the index one number that stands for all of its terms."""
    name, listed = record.shape.table + "_text", quoted(record.shape.table + "_text_docsize")
    held = {cast(int, row): 0 for (row,) in connection.execute(f"SELECT id FROM {listed}")}
    connection.execute("PRAGMA query_only = off")
    try:
        connection.execute(f"CREATE VIRTUAL TABLE temp.recollect_held USING fts5vocab(main, {quoted(name)}, instance)")
        for term, row in cast(Iterable[tuple[str, int]], connection.execute("SELECT term, doc FROM recollect_held")):
            held[row] = held.get(row, 0) ^ _number(term)
    finally:
        connection.execute("DROP TABLE IF EXISTS temp.recollect_held")
        connection.execute("PRAGMA query_only = on")
    return held


def _sum(terms: Iterable[str]) -> int:
    """In any order: the index gives its terms in its own."""
    found = 0
    for term in dict.fromkeys(terms):
        found ^= _number(term)
    return found


def _number(term: str) -> int:
    return int.from_bytes(hashlib.blake2b(term.encode(), digest_size=8).digest(), "big")
