"""What a process keeps of a tenant to search it: words, vectors and the small fields of records, in a file of SQLite's.

The file has no name and vanishes with its connection, so memory holds some pages of it and the disk the rest; where
the store is encrypted it is kept in memory instead. A copy of it is a sealed segment (segments.py).
Nothing here knows of DynamoDB: it is told record by record what there is now.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import apsw

from recollect.adapters.records.common.dialect import json_text, moment_text
from recollect.adapters.records.common.in_python_queries import by_rarity, facet_values
from recollect.adapters.records.common.text_terms import terms_of
from recollect.adapters.records.dynamodb.codec import StoredRecord
from recollect.adapters.records.dynamodb.facts import Known, partial_record
from recollect.domain.memory import Embedding
from recollect.domain.record import RECORDS, Record
from recollect.domain.text import tokenizer
from recollect.ports.query import TextHit, TextQuery
from recollect.ports.vectors import StoredVector, VectorRow

FORMAT = 1
EMBEDDINGS = Embedding.shape.table
_SCHEMA = """
CREATE TABLE about(name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE loaded(name TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE kept(n INTEGER PRIMARY KEY, name TEXT, id TEXT, small TEXT, UNIQUE (name, id));
CREATE TABLE words(name TEXT, word TEXT, n INTEGER, PRIMARY KEY (name, word, n)) WITHOUT ROWID;
CREATE INDEX words_of ON words(n);
CREATE TABLE marks(name TEXT, field TEXT, value TEXT, n INTEGER, PRIMARY KEY (name, field, value, n)) WITHOUT ROWID;
CREATE INDEX marks_of ON marks(n);
CREATE TABLE vectors(
    seq INTEGER PRIMARY KEY, id TEXT, memory_id TEXT, space TEXT, facets TEXT, vector BLOB, tokens BLOB,
    first INTEGER, last INTEGER, died INTEGER
);
CREATE INDEX vectors_of ON vectors(space, memory_id);
CREATE INDEX vectors_by_id ON vectors(id);
"""
_LIVING = "(died IS NULL OR died > :moment)"


class ReplicaFile:
    def __init__(self, *, in_memory: bool) -> None:
        self._in_memory = in_memory
        self._file = apsw.Connection(":memory:" if in_memory else "")
        self._file.execute("PRAGMA secure_delete = ON")
        self._file.execute(_SCHEMA)
        self._clock = 0
        self._open: list[int] = []

    @property
    def changing(self) -> apsw.Connection:
        """What is taken within its block is taken whole or not at all."""
        return self._file

    # -- what is in it -----------------------------------------------------------------------------------------------

    def note(self, name: str, value: str | int) -> None:
        self._file.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (name, value))

    def noted(self, name: str) -> Any:
        return next((value for (value,) in self._file.execute("SELECT value FROM about WHERE name = ?", (name,))), None)

    def loaded(self) -> set[str]:
        return {name for (name,) in self._file.execute("SELECT name FROM loaded")}

    def has_loaded(self, table: str) -> None:
        self._file.execute("INSERT OR IGNORE INTO loaded VALUES (?)", (table,))

    def size(self) -> int:
        ((count,),) = self._file.execute("SELECT (SELECT count(*) FROM kept) + (SELECT count(*) FROM vectors)")
        return int(count)

    def has(self, table: str, id: str) -> bool:
        if table == EMBEDDINGS:
            found = self._file.execute("SELECT 1 FROM vectors WHERE id = ? AND died IS NULL", (id,))
        else:
            found = self._file.execute("SELECT 1 FROM kept WHERE name = ? AND id = ?", (table, id))
        return bool(found.fetchall())

    def take(self, record: type[Record], id: str, stored: StoredRecord | None) -> None:
        """The record is now this, or gone."""
        if record is Embedding:
            self._take_vector(id, stored)
        else:
            self._take_record(record, id, stored.record if stored else None)

    # -- words and small fields --------------------------------------------------------------------------------------

    def _take_record(self, kind: type[Record], id: str, record: Record | None) -> None:
        table = kind.shape.table
        for (n,) in list(self._file.execute("SELECT n FROM kept WHERE name = ? AND id = ?", (table, id))):
            for name in ("words", "marks", "kept"):
                self._file.execute(f"DELETE FROM {name} WHERE n = ?", (n,))
        if record is None or record.is_deleted:
            return
        self._file.execute("INSERT INTO kept(name, id, small) VALUES (?, ?, ?)", (table, id, _small(record)))
        n, text = self._file.last_insert_rowid(), kind.shape.text
        if text is not None:
            words = [(table, word, n) for word in terms_of(record)]
            self._file.executemany("INSERT OR IGNORE INTO words VALUES (?, ?, ?)", words)
            marks = [(table, name, json_text(value), n) for name in text.facets for value in facet_values(record, name)]
            self._file.executemany("INSERT OR IGNORE INTO marks VALUES (?, ?, ?, ?)", marks)

    def search(self, query: TextQuery[Record]) -> list[TextHit]:
        """All that have one of the words, best first; the query's filters are for the caller."""
        table = query.record.shape.table
        scope: set[int] | None = None
        for name, values in query.facets.items():
            having = self._marked(table, name, values)
            scope = having if scope is None else scope & having
        asked = (self._numbers("words", "word = ?", table, (word,)) for word in tokenizer.terms_asked(query.terms))
        held = [found if scope is None else found & scope for found in asked if found]
        size = self._living(table) if scope is None else len(scope)
        ids = self._ids(set().union(*held))
        return by_rarity({str(place): {ids[n] for n in found} for place, found in enumerate(held)}, size)

    def _marked(self, table: str, field: str, values: Iterable[object]) -> set[int]:
        return self._numbers("marks", "field = ? AND value = ?", table, *((field, json_text(one)) for one in values))

    def _numbers(self, source: str, condition: str, table: str, *given: Sequence[object]) -> set[int]:
        text = f"SELECT n FROM {source} WHERE name = ? AND {condition}"
        return {n for values in given for (n,) in self._file.execute(text, (table, *values))}

    def _ids(self, numbers: Iterable[int]) -> dict[int, str]:
        text = "SELECT n, id FROM kept WHERE n IN (SELECT value FROM json_each(?))"
        return dict(self._file.execute(text, (json.dumps(list(numbers)),)))

    def _living(self, table: str) -> int:
        ((count,),) = self._file.execute("SELECT count(*) FROM kept WHERE name = ?", (table,))
        return int(count)

    def small_fields(self, record: type[Record]) -> Iterator[tuple[str, Known]]:
        """Of every living record: its id, and what is kept of it."""
        text = "SELECT id, small FROM kept WHERE name = ?"
        return ((id, _known(record, small)) for id, small in self._file.execute(text, (record.shape.table,)))

    # -- vectors: a row that died is kept as long as a snapshot may still want it ------------------------------------

    def _take_vector(self, id: str, stored: StoredRecord | None) -> None:
        self._clock += 1
        made = stored.record if stored else None
        before = [seq for (seq,) in self._file.execute("SELECT seq FROM vectors WHERE id = ? AND died IS NULL", (id,))]
        if stored is not None and before == [stored.seq] and made is not None:
            return
        self._file.execute("UPDATE vectors SET died = ? WHERE id = ? AND died IS NULL", (self._clock, id))
        if stored is not None and isinstance(made, Embedding):
            row = (
                stored.seq, id, made.memory_id, made.space, json_text(list(made.facets)), made.vector, made.tokens,
                made.start, made.end,
            )  # fmt: skip
            self._file.execute("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)", row)
        if before and not self._open:
            self._file.execute("DELETE FROM vectors WHERE died IS NOT NULL")

    def opened(self) -> int:
        self._open.append(self._clock)
        return self._clock

    def let_go(self, moment: int) -> None:
        self._open.remove(moment)

    def rows(self, organization_id: str, where: str, order: str = "", **values: object) -> list[VectorRow]:
        text = f"SELECT seq, memory_id, space, facets, vector FROM vectors WHERE {_LIVING} AND {where} {order}"
        return [
            VectorRow(seq, organization_id, memory_id, space, tuple(json.loads(facets)), vector)
            for seq, memory_id, space, facets, vector in self._file.execute(text, values)
        ]

    def living_seqs(self, moment: int, after: int, upto: int) -> list[int]:
        text = f"SELECT seq FROM vectors WHERE {_LIVING} AND seq > :after AND seq <= :upto ORDER BY seq"
        values = {"moment": moment, "after": after, "upto": upto}
        return [seq for (seq,) in self._file.execute(text, values)]

    def vectors_of(self, space: str, id: str) -> list[StoredVector]:
        text = (
            "SELECT memory_id, vector, tokens, first, last FROM vectors"
            " WHERE space = ? AND memory_id = ? AND died IS NULL ORDER BY seq"
        )
        return list(self._file.execute(text, (space, id)))

    # -- copies ------------------------------------------------------------------------------------------------------

    def copied_to(self, path: Path) -> bool:
        """Without anything that was deleted from it; not while a snapshot may still want that."""
        if self._open:
            return False
        self._file.execute("DELETE FROM vectors WHERE died IS NOT NULL")
        self._file.execute("VACUUM INTO ?", (str(path),))
        return True

    def read_from(self, path: Path) -> None:
        """Become what a copy was."""
        there = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            with self._file.backup("main", there, "main") as copying:
                copying.step(-1)
        finally:
            there.close()


@cache
def format_mark() -> str:
    """A copy with another mark is not used: its words are of another tokenizer, or records have other fields now."""
    fields = ",".join(f"{table}:{' '.join(_small_fields(RECORDS[table]))}" for table in sorted(RECORDS))
    return f"{FORMAT}/{tokenizer.VERSION}/{zlib.crc32(fields.encode()):08x}"


@cache
def _small_fields(record: type[Record]) -> dict[str, str]:
    """The fields that are kept beside the words, with their types: of texts only whether there is one."""
    shape = record.shape
    facets = shape.text.facets if shape.text else ()
    columns = (one for one in record.columns() if one.name not in ("organization_id", "id"))
    return {one.name: one.type for one in columns if one.type not in ("json", "bytes") or one.name in facets}


def _small(record: Record) -> str:
    shape = record.shape
    texts = {*(shape.text.fields if shape.text else ()), *shape.sealable}
    values: dict[str, object] = {}
    filled: list[str] = []
    for name in _small_fields(type(record)):
        value = getattr(record, name)
        if name in texts and value not in (None, ""):
            filled.append(name)
        elif value is not None:
            values[name] = moment_text(value) if isinstance(value, datetime) else value
    return json_text([values, filled])


def _known(record: type[Record], small: str) -> Known:
    values, filled = json.loads(small)
    types = _small_fields(record)
    read = {n: datetime.fromisoformat(v) if types.get(n) == "moment" else v for n, v in values.items() if n in types}
    names = frozenset(types) - frozenset(filled)
    made = partial_record(record, {name: read.get(name) for name in names})
    return Known(made, names, frozenset(filled))
