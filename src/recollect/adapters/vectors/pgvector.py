"""Vector search by pgvector, over the embedding table itself: nothing to keep in step, and no file beside the store.

Each embedding carries its vector a second time as a `halfvec`. Where up to EXACT_ROWS vectors pass the filter, they are
filtered first and scored exactly: under a selective filter an HNSW walk is slower and misses most. A broader one walks
the HNSW index of its space, if there is one, and on until enough of what it meets passes the filters (iterative scan,
in strict order). `refresh` makes the indexes of spaces with many vectors, partition by partition without blocking
writers; a store that grows does it by itself, in one background thread of one process at a time. No writer adds to an
index: what is newer than all of them is scored exactly, beside the walk (see hnsw_segments.py).
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from recollect.adapters.postgres.connection import Connection, Database, NearStatement, ReadStatement, Row
from recollect.adapters.postgres.halfvec import MOST_DIMENSIONS, half
from recollect.adapters.ttl_cache import TtlCache
from recollect.adapters.vectors.exact import VectorFilter, unit_query
from recollect.adapters.vectors.halfvec_sql import (
    EXACT_ROWS,
    INDEX_ROWS,
    INDEXABLE_DIMENSIONS,
    Halfvecs,
    Part,
    RowFilter,
    Server,
    build_memory,
    facet_tests,
    literal,
    make_index,
    rows_that_fit,
    scored,
    walk_settings,
    walked_enough,
)
from recollect.adapters.vectors.hnsw_segments import (
    LISTED,
    TAIL_ROWS,
    Segment,
    due,
    index_name,
    parts_of,
    rows_of,
    segments_of,
    space_digest,
    spread_of,
    superseded,
)
from recollect.errors import RecollectError
from recollect.ports.read_ahead import NearSearch, PoolReading, ReadAhead
from recollect.ports.records import Scope
from recollect.ports.vectors import VectorHit

FILL_AT_ONCE = 500
CHECKED_AT_ONCE = 1_000
MOST_SEGMENTS = 32
COUNTED_SHARE = 0.1  # by which a store has grown when everything is counted again
Space = tuple[str, str, int]
"""Of vectors that are compared with each other: namespace, model, dimensions."""
EMBEDDINGS = Halfvecs("embedding", "memory_id")


class EmbeddingTable(Protocol):
    """What is needed of the record store: its connections, and the table of embeddings with their `_halfvec`."""

    database: Database
    vectors_are_new: bool
    """Whether the column was added just now, so that it is still empty."""

    @property
    def facet_columns(self) -> Mapping[str, str]:
        """The facets that have a column of their own."""

    @property
    def embedding_tables(self) -> Sequence[str]:
        """The partitions of the table, each of which gets its own index."""

    def tenants(self) -> Sequence[str]: ...

    def as_owner(self) -> AbstractContextManager[Connection]: ...

    def read_ahead(self, scope: Scope, reading: PoolReading, near: Sequence[NearStatement]) -> ReadAhead | None:
        """What a search is going to read, its vector searches given as statements."""


class PgVectorStore:
    def __init__(
        self,
        store: EmbeddingTable,
        *,
        exact_rows: int = EXACT_ROWS,
        index_rows: int = INDEX_ROWS,
        background: bool = False,
    ) -> None:
        self._store = store
        self._exact_rows = exact_rows
        self._index_rows = index_rows
        self._background = background
        self._broad = TtlCache[bool]()
        self._segments = TtlCache[dict[str, list[Segment]]]()
        self._looked_at = self._counted_at = 0
        self._tails: Counter[Space] = Counter()
        """About how many vectors of each space no index holds."""
        self._builder: threading.Thread | None = None
        self._building: Connection | None = None
        self._lock = threading.Lock()
        if store.vectors_are_new:
            self._fill()

    def search(
        self,
        organization_id: str,
        space: str,
        query: NDArray[np.float32],
        limit: int,
        where: Mapping[str, Collection[str | None]] | None = None,
    ) -> list[VectorHit]:
        asked = unit_query(query)
        VectorFilter.of(organization_id, space, where)  # refuses what is no facet
        if limit <= 0 or len(asked) > MOST_DIMENSIONS:
            return []
        row_filter = self._row_filter(organization_id, space, len(asked), where or {})

        def ask(*questions: ReadStatement) -> list[Row]:
            return self._store.database.ask(organization_id, *questions)[-1]

        server = Server(
            lambda text, values: ask(ReadStatement(text, values)),
            lambda settings, text, values: ask(ReadStatement(settings), ReadStatement(text, values)),
        )
        divided = partial(self._parts, organization_id, space, len(asked))
        rows = EMBEDDINGS.nearest(row_filter, asked, limit, self._exact_rows, self._broad, server, divided)
        return _hits(rows)

    def read_ahead(self, scope: Scope, reading: PoolReading) -> ReadAhead | None:
        if any(len(one.vector) > MOST_DIMENSIONS or one.limit <= 0 for one in reading.near):
            return None
        return self._store.read_ahead(scope, reading, [self._near(scope, one) for one in reading.near])

    def _near(self, scope: Scope, wanted: NearSearch) -> NearStatement:
        """The search as one statement, and how its answer reads: None where it takes another one to be sure."""
        asked, limit = unit_query(wanted.vector), wanted.limit
        tenant = scope.organization_id
        VectorFilter.of(tenant, wanted.space, wanted.where)
        row_filter = self._row_filter(tenant, wanted.space, len(asked), wanted.where)
        if not self._broad.get(row_filter.key):

            def read(rows: list[Row]) -> list[VectorHit] | None:
                found = scored(rows, self._exact_rows)
                if found is None:
                    self._broad.set(row_filter.key, True)
                return None if found is None else _hits(found)

            return NearStatement({}, *EMBEDDINGS.exact(row_filter, asked, limit, self._exact_rows), limit, read)
        parts = self._parts(tenant, wanted.space, len(asked))

        def read_walked(rows: list[Row]) -> list[VectorHit] | None:
            found = walked_enough(rows, limit, parts)
            return None if found is None else _hits(found)

        statement = EMBEDDINGS.walk_statement(row_filter.condition, len(asked), limit, parts)
        values = EMBEDDINGS.walk_values(row_filter, asked, parts)
        is_alike = not row_filter.values
        return NearStatement(walk_settings(limit), statement, values, limit, read_walked, is_alike=is_alike)

    def _row_filter(
        self, organization_id: str, space: str, dimensions: int, where: Mapping[str, Collection[str | None]]
    ) -> RowFilter:
        namespace, _, model = space.partition("/")
        tenant = literal(
            "organization_id = {} AND namespace = {} AND model = {} AND dimensions = {} AND _halfvec IS NOT NULL",
            organization_id, namespace, model, dimensions,
        )  # fmt: skip
        tests, values = facet_tests(where, self._store.facet_columns)
        return RowFilter(" AND ".join([tenant, *tests]), values)

    def _parts(self, organization_id: str, space: str, dimensions: int) -> Sequence[Part]:
        """How the indexes divide the rows of a space; looked up once in a while."""
        known = self._segments.get("all")
        if known is None:
            (listed,) = self._store.database.ask(organization_id, ReadStatement(LISTED))
            known = segments_of(listed, self._store.embedding_tables)
            self._segments.set("all", known)
        namespace, _, model = space.partition("/")
        return parts_of(known.get(space_digest(namespace, model, dimensions), []))

    @property
    def label(self) -> str:
        """What it is, and how far its indexes are: searches work meanwhile, exactly."""
        about = "pgvector in the record store"
        with self._store.database.translated_errors(), self._store.database.snapshot() as connection:
            is_building = bool(connection.execute(_IS_BUILDING).fetchall())
        return f"{about}, an HNSW index is being built" if is_building else about

    def hint(self, seq: int) -> None:
        """What is committed is searched at once; when much was written, an index may be due."""
        if not self._background or seq - self._looked_at < min(TAIL_ROWS, self._index_rows):
            return
        with self._lock:
            if self._builder is None or not self._builder.is_alive():
                since, self._looked_at = self._looked_at, seq
                self._builder = threading.Thread(
                    target=self._build, args=(since, seq), name="recollect-hnsw", daemon=True
                )
                self._builder.start()

    def _build(self, since: int, seq: int) -> None:
        """Everything is counted now and then, and ever less often; in between, what is new."""
        try:
            if seq - self._counted_at >= max(self._index_rows, COUNTED_SHARE * self._counted_at):
                self._counted_at = seq
                self._make_due(thorough=False)
            else:
                self._index_tails(since, seq)
        except RecollectError as error:  # searches work without an index, only slower
            _log.warning("could not build a vector index, will try again: %s", error.message)

    def purge(self) -> None:
        """Deleted vectors leave the index when the store vacuums its tables."""

    def refresh(self) -> None:
        """Let the server count what is there, and make the indexes that are missing for spaces with many vectors."""
        self._count_rows()
        self._make_due(thorough=True)

    def _count_rows(self) -> None:
        with self._store.as_owner() as connection:
            # A table that an index is being made of is left out: to wait for that would hold up whoever counts.
            connection.execute("ANALYZE (SKIP_LOCKED) memory, embedding")

    def _make_due(self, *, thorough: bool) -> None:
        """Everything is counted. One index after another, since of many vectors several are made."""
        wanted = self._due_of_all(thorough=thorough)
        if wanted and not thorough:
            self._count_rows()
        while wanted:
            for space, segment in wanted:
                if not self._make_index(space, segment):
                    return  # another process is at it
            wanted = self._due_of_all(thorough=thorough)

    def _due_of_all(self, *, thorough: bool) -> list[tuple[Space, Segment]]:
        with self._store.database.translated_errors(), self._store.database.snapshot() as connection:
            listed = connection.execute(LISTED).fetchall()
            known, wanted = segments_of(listed, self._store.embedding_tables), []
            for namespace, model, dimensions, total in connection.execute(_SPACES).fetchall():
                space: Space = (namespace, model, dimensions)
                segments = known.get(space_digest(*space), [])
                self._tails[space] = total
                if total < self._index_rows:
                    continue
                rows, last_seq = _rows_by_segment(connection, space, segments)
                held = dict(zip(segments, rows, strict=False))
                segment = self._due(connection, space, listed, held, rows[-1], last_seq, thorough=thorough)
                self._tails[space] = rows[-1] if segment is None else 0
                if segment is not None and space[2] <= INDEXABLE_DIMENSIONS:
                    wanted.append((space, segment))
        return wanted

    def _index_tails(self, since: int, upto: int) -> None:
        """Make an index of what is newer than those of its space, where that has become much."""
        with self._store.database.translated_errors(), self._store.database.snapshot() as connection:
            for namespace, model, dimensions, rows in connection.execute(_NEW, (since, upto)).fetchall():
                self._tails[namespace, model, dimensions] += rows
            grown = [space for space, rows in self._tails.items() if rows >= min(TAIL_ROWS, self._index_rows)]
            listed = connection.execute(LISTED.replace("%%", "%")).fetchall() if grown else []
            known, wanted, is_first = segments_of(listed, self._store.embedding_tables), [], False
            for space in grown:
                segments = known.get(space_digest(*space), [])
                if not segments:
                    is_first = is_first or self._tails[space] >= self._index_rows
                    continue
                if segments[-1].upto is None:
                    continue
                tail, last_seq = connection.execute(_TAIL, (segments[-1].upto, *space)).fetchall()[0]
                rows_in = rows_of(listed, space_digest(*space))
                held = {one: rows_in[one] for one in segments}
                segment = self._due(connection, space, listed, held, tail, last_seq, thorough=False)
                self._tails[space] = tail if segment is None else 0
                if segment is not None:
                    wanted.append((space, segment))
        for space, segment in wanted:
            self._make_index(space, segment)
        if is_first:
            self._make_due(thorough=False)

    def _due(
        self,
        connection: Connection,
        space: Space,
        listed: Sequence[Row],
        held: Mapping[Segment, int],
        tail: int,
        last_seq: int,
        *,
        thorough: bool,
    ) -> Segment | None:
        """The index to make next, no larger than what the server makes in memory."""
        memory = build_memory(connection, is_pooled=self._store.database.upkeep.is_pooled)
        fitting = int(rows_that_fit(memory, space[2]) * spread_of(listed, space_digest(*space)))
        # A search asks every index: where the server gives little memory, larger ones that take longer are made.
        most = max(fitting, (tail + sum(held.values())) // MOST_SEGMENTS)
        segment = due(held, tail, last_seq, self._index_rows, thorough=thorough, most=most)
        if segment is None or tail + sum(rows for one, rows in held.items() if one.after >= segment.after) <= most:
            return segment
        last = connection.execute(_LAST_OF, (segment.after, *space, most - 1)).fetchall()
        return Segment(segment.after, last[0][0]) if last else segment

    def rebuild(self) -> int:
        self._fill()
        with self._store.as_owner() as connection:
            for name, *_ in connection.execute(LISTED.replace("%%", "%")).fetchall():
                connection.execute(f'DROP INDEX CONCURRENTLY IF EXISTS "{name}"')
        self.refresh()
        with self._store.database.translated_errors(), self._store.database.snapshot() as connection:
            return int(connection.execute("SELECT count(_halfvec) FROM embedding").fetchall()[0][0])

    def behind(self) -> int:
        """The vectors are a column of the rows themselves."""
        return 0

    def verify(self) -> list[str]:
        wrong = []
        with (
            self._store.database.translated_errors(),
            self._store.database.snapshot() as connection,
            connection.cursor(name="check_vectors", binary=True) as rows,  # all of them together may be gigabytes
        ):
            rows.itersize = CHECKED_AT_ONCE
            for vector, kept in rows.execute("SELECT vector, halfvec_send(_halfvec) FROM embedding"):
                expected = half(vector)
                if kept != (None if expected is None else expected.wire()):
                    wrong.append("a vector is another one in the vector index")
        return wrong

    def close(self) -> None:
        """Stops an index that is being made; what is left of it is cleared away when it is next tried."""
        self._background = False
        builder, building = self._builder, self._building
        if building is not None and not building.closed:
            building.cancel_safe(timeout=5)
        if builder is not None:
            builder.join(10)

    def _fill(self) -> None:
        """Write what the index keeps beside each vector anew, where it is missing."""
        for tenant in self._store.tenants():
            while self._store.database.write(tenant, lambda connection, t=tenant: _fill_some(connection, t)):  # type: ignore[misc]
                pass

    @contextmanager
    def _watched(self, connection: Connection) -> Iterator[None]:
        self._building = connection
        try:
            yield
        finally:
            self._building = None

    def _make_index(self, space: Space, segment: Segment) -> bool:
        """Whether it was made; another process may be at it."""
        namespace, model, dimensions = space
        digest = space_digest(namespace, model, dimensions)
        condition = literal("namespace = {} AND model = {} AND dimensions = {}", namespace, model, dimensions)
        with self._store.as_owner() as lock, self._store.as_owner() as connection, self._watched(connection):
            # By a transaction that is left open beside: an index that blocks nobody is made outside of any, and a lock
            # of the session would stay behind where a pooler gives the connection to others.
            lock.execute("BEGIN")
            if not lock.execute(f"SELECT pg_try_advisory_xact_lock({_BUILDING})").fetchall()[0][0]:
                return False
            is_pooled = self._store.database.upkeep.is_pooled
            for table in self._store.embedding_tables:
                name = index_name(table, digest, segment)
                make_index(
                    connection, name, table, dimensions, f"{condition} AND {segment.condition}", is_pooled=is_pooled
                )
            for name in superseded(connection.execute(LISTED.replace("%%", "%")).fetchall(), digest, segment):
                connection.execute(f'DROP INDEX CONCURRENTLY IF EXISTS "{name}"')
        self._segments = TtlCache()
        return True


_log = logging.getLogger("recollect")
_BUILDING = 0x686E7377  # "hnsw": one process at a time makes indexes
_SPACES = "SELECT namespace, model, dimensions, count(*) FROM embedding WHERE _halfvec IS NOT NULL GROUP BY 1, 2, 3"
_NEW = (
    "SELECT namespace, model, dimensions, count(*) FROM embedding WHERE _seq > %s AND _seq <= %s "
    "AND _halfvec IS NOT NULL GROUP BY 1, 2, 3"
)
_TAIL = (
    "SELECT count(*), coalesce(max(_seq), 0) FROM embedding WHERE _seq > %s "
    "AND namespace = %s AND model = %s AND dimensions = %s AND _halfvec IS NOT NULL"
)
_LAST_OF = (
    "SELECT _seq FROM embedding WHERE _seq > %s AND namespace = %s AND model = %s AND dimensions = %s "
    "AND _halfvec IS NOT NULL ORDER BY _seq OFFSET %s LIMIT 1"
)
# Whoever builds has the lock. (How far it is, the server tells only the one who does it.)
_IS_BUILDING = (
    "SELECT 1 FROM pg_locks l JOIN pg_database d ON d.oid = l.database AND d.datname = current_database() "
    f"WHERE l.locktype = 'advisory' AND l.classid = 0 AND l.objid = {_BUILDING} AND l.granted"
)


def _rows_by_segment(connection: Connection, space: Space, segments: Sequence[Segment]) -> tuple[list[int], int]:
    """How many vectors each segment holds, and last those that are in none; and the highest seq of the space."""
    counted = [f"count(*) FILTER (WHERE {one.condition or 'TRUE'})" for one in segments]
    text = (
        f"SELECT {', '.join([*counted, 'count(*)', 'coalesce(max(_seq), 0)'])} FROM embedding "
        "WHERE namespace = %s AND model = %s AND dimensions = %s AND _halfvec IS NOT NULL"
    )
    *held, total, last_seq = connection.execute(text, space).fetchall()[0]
    return [*held, total - sum(held)], last_seq


def _hits(rows: Sequence[Row]) -> list[VectorHit]:
    hits = (VectorHit(row[0], max(-1.0, min(1.0, -float(row[1])))) for row in rows)
    return sorted(hits, key=lambda hit: (-hit.similarity, hit.memory_id))


def _fill_some(connection: Connection, tenant: str) -> int:
    """Fills some of a tenant's that are empty; vectors that no index can hold stay so, and are passed over."""
    rows = connection.execute(
        "SELECT id, vector FROM embedding WHERE organization_id = %s AND _halfvec IS NULL AND dimensions > 0 "
        "AND octet_length(vector) = 2 * dimensions LIMIT %s",
        (tenant, FILL_AT_ONCE),
    ).fetchall()
    filled = 0
    for id, vector in rows:
        made = half(vector)
        if made is not None:
            text = "UPDATE embedding SET _halfvec = %s WHERE organization_id = %s AND id = %s"
            connection.execute(text, (made, tenant, id))
            filled += 1
    return filled
