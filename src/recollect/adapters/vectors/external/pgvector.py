"""A PostgreSQL database with pgvector as the external system of a vector index, beside any record store.

Everything lies in a schema of its own, `recollect_index`, made on first use: `generation` says up to which seq each
generation was fed, and each generation has a table of entries (place, seq, facets as hashes, halfvec), so that deleting
it leaves nothing behind. A place with many vectors gets an HNSW index of its own.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg.conninfo import make_conninfo

from recollect.adapters.postgres.connection import Connection, Database, Row
from recollect.adapters.postgres.halfvec import MOST_DIMENSIONS, found, half, may_create, offered
from recollect.adapters.ttl_cache import TtlCache
from recollect.adapters.vectors.external.port import Entry, FacetHashes, Generation, GenerationDeleted, next_name
from recollect.adapters.vectors.halfvec_sql import (
    EXACT_ROWS,
    INDEX_ROWS,
    INDEXABLE_DIMENSIONS,
    Halfvecs,
    RowFilter,
    Server,
    facet_tests,
    literal,
    make_index,
)
from recollect.errors import Closed, IndexFailed, InvalidSettings, RecollectError

T = TypeVar("T")
SCHEMA = "recollect_index"
_PAGE = 1000
_PATIENCE_SECONDS = 3
_REMEDY = "check the server and vectors.url; memories are safe, and the index catches up by itself"
_TABLES = f"""
SELECT pg_advisory_xact_lock(7238512930);
CREATE SCHEMA IF NOT EXISTS {SCHEMA};
CREATE TABLE IF NOT EXISTS {SCHEMA}.generation
    (store text, name text, fed bigint NOT NULL, in_use boolean NOT NULL, PRIMARY KEY (store, name))
"""


class PgVector:
    most_dimensions = MOST_DIMENSIONS
    exact_rows = 0  # the database itself scores few rows exactly

    def __init__(
        self,
        address: str,
        *,
        password: str | None = None,
        exact_limit: int = EXACT_ROWS,
        index_rows: int = INDEX_ROWS,
    ) -> None:
        try:
            whole = make_conninfo(address, password=password) if password else address
        except psycopg.ProgrammingError:
            whole = "://"  # the database says what is wrong with an address, without repeating it
        self._link = Database(whole, patience_seconds=_PATIENCE_SECONDS, tries=2)
        self._exact_limit = exact_limit
        self._broad = TtlCache[bool]()
        self._index_rows = index_rows
        self._ready = False
        self.label = f"pgvector in {self._link.label}"

    # -- generations -------------------------------------------------------------------------------------------------

    def current(self, store: str) -> Generation | None:
        text = f"SELECT name, fed FROM {SCHEMA}.generation WHERE store = %s AND in_use ORDER BY name DESC LIMIT 1"
        rows = self._run(lambda connection: connection.execute(text, (store,)).fetchall())
        return Generation(store, *rows[0]) if rows else None

    def begin(self, store: str) -> Generation:
        def work(connection: Connection) -> Generation:
            youngest = f"SELECT max(name) FROM {SCHEMA}.generation WHERE store = %s"
            before = connection.execute(youngest, (store,)).fetchall()[0][0]
            made = Generation(store, next_name(time.time_ns(), before), 0)
            connection.execute(f"INSERT INTO {SCHEMA}.generation VALUES (%s, %s, 0, false)", (store, made.name))
            connection.execute(
                f"CREATE TABLE {_table(made)} "
                "(place text, seq bigint, facets json NOT NULL, _halfvec halfvec NOT NULL, PRIMARY KEY (place, seq))"
            )
            connection.execute(f"ALTER TABLE {_table(made)} ALTER COLUMN _halfvec SET STORAGE MAIN")
            return made

        return self._run(work)

    def use(self, generation: Generation) -> None:
        def work(connection: Connection) -> None:
            key = (generation.store, generation.name)
            connection.execute(f"UPDATE {SCHEMA}.generation SET in_use = true WHERE store = %s AND name = %s", key)
            older = f"DELETE FROM {SCHEMA}.generation WHERE store = %s AND name < %s RETURNING name"
            for (name,) in connection.execute(older, key).fetchall():
                connection.execute(f"DROP TABLE IF EXISTS {_table(Generation(generation.store, name, 0))}")

        self._run(work)

    def note(self, generation: Generation, fed: int) -> None:
        text = f"UPDATE {SCHEMA}.generation SET fed = greatest(fed, %s) WHERE store = %s AND name = %s"
        self._run(lambda connection: connection.execute(text, (fed, generation.store, generation.name)))

    # -- entries -----------------------------------------------------------------------------------------------------

    def add(self, generation: Generation, place: str, entries: Sequence[Entry]) -> None:
        text = f"INSERT INTO {_table(generation)} VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING"
        rows = [
            (place, entry.seq, json.dumps(entry.facets), half(entry.vector.astype("<f2").tobytes()))
            for entry in entries
        ]

        def work(connection: Connection) -> None:
            with connection.cursor() as cursor:
                cursor.executemany(text, rows)

        self._run(work)

    def remove(self, generation: Generation, place: str, seqs: Sequence[int]) -> None:
        text = f"DELETE FROM {_table(generation)} WHERE place = %s AND seq = ANY(%s)"
        self._run(lambda connection: connection.execute(text, (place, list(seqs))))

    def within(self, generation: Generation, place: str, wanted: FacetHashes, most: int) -> list[int] | None:
        condition, values = _condition(place, wanted)
        text = f"SELECT seq FROM {_table(generation)} WHERE {condition} LIMIT %s"
        rows = self._run(lambda connection: connection.execute(text, [*values, most + 1]).fetchall())
        return [seq for (seq,) in rows] if len(rows) <= most else None

    def nearest(
        self, generation: Generation, place: str, wanted: FacetHashes, query: NDArray[np.float32], limit: int
    ) -> list[int]:
        row_filter, table = RowFilter(*_condition(place, wanted)), Halfvecs(_table(generation), "seq")
        server = Server(
            lambda text, values: self._run(lambda connection: connection.execute(text, values).fetchall()),
            lambda settings, text, values: self._run(lambda connection: _walked(connection, settings, text, values)),
        )
        rows = table.nearest(row_filter, query, limit, self._exact_limit, self._broad, server)
        return [row[0] for row in rows]

    def places(self, generation: Generation) -> list[str]:
        text = f"SELECT DISTINCT place FROM {_table(generation)} ORDER BY place"
        return [place for (place,) in self._run(lambda connection: connection.execute(text).fetchall())]

    def seqs(self, generation: Generation, place: str) -> Iterator[Sequence[int]]:
        for rows in self._pages(generation, place, "seq"):
            yield [seq for (seq,) in rows]

    def entries(self, generation: Generation, place: str) -> Iterator[Sequence[Entry]]:
        for rows in self._pages(generation, place, "seq, facets, _halfvec::real[]"):
            yield [Entry(seq, tuple(facets), np.array(vector, np.float32)) for seq, facets, vector in rows]

    def _pages(self, generation: Generation, place: str, columns: str) -> Iterator[list[Row]]:
        after = -1
        text = f"SELECT {columns} FROM {_table(generation)} WHERE place = %s AND seq > %s ORDER BY seq LIMIT %s"
        while True:
            page = (place, after, _PAGE)
            rows = self._run(lambda connection, page=page: connection.execute(text, page).fetchall())  # type: ignore[misc]
            if not rows:
                return
            yield rows
            after = rows[-1][0]

    def tend(self, generation: Generation) -> None:
        """Make the indexes that are missing for places with many vectors."""
        text = (
            f"SELECT place, max(vector_dims(_halfvec)) FROM {_table(generation)} GROUP BY place HAVING count(*) >= %s"
        )
        places = self._run(lambda connection: connection.execute(text, (self._index_rows,)).fetchall())
        for place, dimensions in places:
            if dimensions <= INDEXABLE_DIMENSIONS:
                with self._our_errors():
                    connection = self._link.connect()
                    try:
                        name = f"hnsw_{generation.name}_{place}"[:60]
                        in_place = literal("place = {}", place)
                        make_index(
                            connection,
                            name,
                            _table(generation),
                            dimensions,
                            in_place,
                            SCHEMA,
                            is_pooled=self._link.is_pooled,
                        )
                    finally:
                        connection.close()

    def examine(self) -> str:
        """What is there, in a sentence; makes nothing."""
        with self._our_errors():
            connection = self._link.connect()
            try:
                with self._link.translated_errors():
                    version, is_created = found(connection)
                    if version is None or not (is_created or may_create(connection)):
                        raise _no_pgvector()
                    return f"pgvector {version}{'' if is_created else ', which is not yet created in it'}"
            finally:
                connection.close()

    def close(self) -> None:
        self._link.close()

    def _run(self, work: Callable[[Connection], T]) -> T:
        with self._our_errors():
            if not self._ready:
                self._prepare()
            return self._link.own(work)

    def _prepare(self) -> None:
        """On a connection of its own: where there is no server it says so at once, and the pool after a while."""
        connection = self._link.connect()
        try:
            with self._link.translated_errors(), connection.transaction():
                _make_tables(connection)
        finally:
            connection.close()
        self._ready = True

    @contextmanager
    def _our_errors(self) -> Iterator[None]:
        try:
            yield
        except (Closed, IndexFailed, InvalidSettings):
            raise
        except RecollectError as error:
            if error.details.get("sqlstate") in ("42P01", "3F000"):  # no such table, no such schema
                self._ready = False
                raise GenerationDeleted from None
            self._ready = False
            raise IndexFailed(error.message, remedy=error.remedy or _REMEDY) from error


def _make_tables(connection: Connection) -> None:
    if not offered(connection):
        raise _no_pgvector()
    connection.execute(_TABLES)


def _no_pgvector() -> IndexFailed:
    return IndexFailed(
        "that database has no pgvector 0.8 or newer",
        remedy="install pgvector there, then ask an administrator to run: CREATE EXTENSION vector",
    )


def _walked(connection: Connection, settings: str, text: str, values: Sequence[object]) -> list[Row]:
    connection.execute(settings)
    return connection.execute(text, values).fetchall()


def _table(generation: Generation) -> str:
    """Store and name are hexadecimal numbers of ours."""
    return f"{SCHEMA}.entry_{generation.store}_{generation.name}"


def _condition(place: str, wanted: FacetHashes) -> tuple[str, list[object]]:
    tests, values = facet_tests(wanted)
    return " AND ".join([literal("place = {}", place), *tests]), values
