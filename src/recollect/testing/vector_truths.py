"""Truths to prove a vector index with: two plain ones (in memory; a SQLite file for many processes), and record stores.

`nearest` is the oracle: every row of the truth, scored and filtered one by one, with no index in between.
"""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import cast

import apsw
import numpy as np
from numpy.typing import NDArray

from recollect.domain.memory import Embedding, Memory
from recollect.domain.tenancy import Organization
from recollect.ports.query import equal
from recollect.ports.records import RecordStore, Scope
from recollect.ports.steps import DeleteWhere, Insert, Put, Step
from recollect.ports.vectors import FACETS, VectorHit, VectorRow, VectorSnapshot, VectorTruth

_EVERYTHING = 1 << 40


def facets_of(**values: str | None) -> tuple[str | None, ...]:
    return tuple(values.get(facet) for facet in FACETS)


def packed(vector: NDArray[np.floating]) -> bytes:
    """A vector as it is stored: unit length, float16."""
    exact = np.asarray(vector, np.float64)
    length = float(np.linalg.norm(exact))
    return (exact / length if length else exact).astype("<f2").tobytes()


def nearest(
    truth: VectorTruth,
    organization_id: str,
    space: str,
    query: NDArray[np.floating],
    limit: int,
    where: Mapping[str, Collection[str | None]] | None = None,
) -> list[VectorHit]:
    exact = np.asarray(query, np.float64)
    exact = exact / (float(np.linalg.norm(exact)) or 1.0)
    with truth.vector_snapshot() as snapshot:
        rows = snapshot.rows_after(0, _EVERYTHING)
    allowed = {FACETS.index(facet): values for facet, values in (where or {}).items()}
    mine = [
        row
        for row in rows
        if row.organization_id == organization_id
        and row.space == space
        and len(row.vector) == 2 * len(exact)
        and all(row.facets[facet] in values for facet, values in allowed.items())
    ]
    stored = np.frombuffer(b"".join([row.vector for row in mine]), "<f2").reshape(len(mine), len(exact))
    similarity = np.round(stored.astype(np.float64) @ exact, 6).clip(-1.0, 1.0).tolist()
    best: dict[str, float] = {}
    for row, value in zip(mine, similarity, strict=True):
        best[row.memory_id] = max(value, best.get(row.memory_id, -2.0))
    hits = [VectorHit(memory_id, value) for memory_id, value in best.items()]
    return sorted(hits, key=lambda hit: (-hit.similarity, hit.memory_id))[:limit]


class RecordTruth:
    """The vectors of a real record store, written as it writes them: an embedding with its memory."""

    def __init__(self, store: RecordStore) -> None:
        self.store = store

    def vector_snapshot(self) -> AbstractContextManager[VectorSnapshot]:
        return cast(VectorTruth, self.store).vector_snapshot()

    def put(
        self,
        organization_id: str,
        memory_id: str,
        vector: NDArray[np.floating] | bytes,
        *,
        space: str = "long_term/m",
        part: int = 0,
        **facets: str | None,
    ) -> None:
        self.put_all([(organization_id, memory_id, space, vector, facets_of(**facets))], part)

    def put_all(
        self,
        rows: Iterable[tuple[str, str, str, NDArray[np.floating] | bytes, tuple[str | None, ...]]],
        part: int = 0,
    ) -> None:
        """Write rows of (organization_id, memory_id, space, vector, facets), each tenant's in one transaction."""
        steps: dict[str, list[Step]] = {}
        for organization_id, memory_id, space, vector, facets in rows:
            data = vector if isinstance(vector, bytes) else packed(vector)
            steps.setdefault(organization_id, []).extend(_steps(organization_id, memory_id, space, data, facets, part))
        for organization_id, some in steps.items():
            scope = Scope(organization_id)
            if self.store.get(scope, Organization, organization_id) is None:
                tenant = Organization(organization_id=organization_id, id=organization_id, name="tenant")
                self.store.transact(scope, [Insert(tenant)])
            self.store.transact(scope, some)

    def delete(self, organization_id: str, memory_id: str, *, space: str = "long_term/m") -> None:
        namespace, _, model = space.partition("/")
        of_it = (equal("memory_id", memory_id), equal("namespace", namespace), equal("model", model))
        self.store.transact(Scope(organization_id), [DeleteWhere(Embedding, of_it)])


def _steps(
    organization_id: str, memory_id: str, space: str, vector: bytes, facets: tuple[str | None, ...], part: int
) -> list[Step]:
    namespace, _, model = space.partition("/")
    id = blake2b(f"{memory_id} {space} {part}".encode(), digest_size=16).hexdigest()
    memory = Memory(
        organization_id=organization_id, id=memory_id, text="it", content={}, content_hash="h", identity=memory_id,
        occurred_at=datetime(2026, 1, 1, tzinfo=UTC),
    )  # fmt: skip
    embedding = Embedding(
        organization_id=organization_id, id=id, memory_id=memory_id, namespace=namespace, model=model, part=part,
        dimensions=max(1, len(vector) // 2), vector=vector, text_hash="h", facets=list(facets),
    )  # fmt: skip
    return [Put(memory), DeleteWhere(Embedding, (equal("id", id),)), Insert(embedding)]


class _MemorySnapshot:
    def __init__(self, rows: dict[int, VectorRow], last: int, incarnation: str) -> None:
        self._rows = rows
        self._last = last
        self.incarnation = incarnation

    def last_seq(self) -> int:
        return self._last

    def rows_after(self, seq: int, limit: int) -> Sequence[VectorRow]:
        return [self._rows[each] for each in sorted(self._rows) if each > seq][:limit]

    def rows_at(self, seqs: Sequence[int]) -> Sequence[VectorRow]:
        return [self._rows[seq] for seq in seqs if seq in self._rows]

    def living_seqs(self, after: int, upto: int) -> Iterable[int]:
        return [seq for seq in sorted(self._rows) if after < seq <= upto]


class MemoryTruth:
    """Rows in a dict, in order of seq; a snapshot is a copy."""

    def __init__(self, incarnation: str = "one") -> None:
        self.incarnation = incarnation
        self.rows: dict[int, VectorRow] = {}
        self.last = 0
        self._seq_of: dict[tuple[str, str, str], dict[int, int]] = {}
        self._lock = threading.Lock()

    @contextmanager
    def vector_snapshot(self) -> Iterator[VectorSnapshot]:
        with self._lock:
            snapshot = _MemorySnapshot(dict(self.rows), self.last, self.incarnation)
        yield snapshot

    def put(
        self,
        organization_id: str,
        memory_id: str,
        vector: NDArray[np.floating] | bytes,
        *,
        space: str = "default",
        part: int = 0,
        **facets: str | None,
    ) -> int:
        data = vector if isinstance(vector, bytes) else packed(vector)
        with self._lock:
            self.last += 1
            row = VectorRow(self.last, organization_id, memory_id, space, facets_of(**facets), data)
            parts = self._seq_of.setdefault((organization_id, memory_id, space), {})
            self.rows.pop(parts.get(part, 0), None)
            parts[part] = self.last
            self.rows[self.last] = row
            return self.last

    def delete(self, organization_id: str, memory_id: str, *, space: str = "default") -> None:
        with self._lock:
            for seq in self._seq_of.pop((organization_id, memory_id, space), {}).values():
                self.rows.pop(seq, None)


class _SqliteSnapshot:
    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        found = connection.execute(
            "SELECT (SELECT value FROM meta), (SELECT seq FROM sqlite_sequence WHERE name = 'vectors')"
        ).fetchone()
        incarnation, last = found or ("", 0)
        self.incarnation, self._last = str(incarnation), int(last or 0)

    def last_seq(self) -> int:
        return self._last

    def rows_after(self, seq: int, limit: int) -> Sequence[VectorRow]:
        return self._rows("SELECT * FROM vectors WHERE seq > ? ORDER BY seq LIMIT ?", seq, limit)

    def rows_at(self, seqs: Sequence[int]) -> Sequence[VectorRow]:
        return self._rows("SELECT v.* FROM json_each(?) j JOIN vectors v ON v.seq = j.value", json.dumps(list(seqs)))

    def living_seqs(self, after: int, upto: int) -> Iterable[int]:
        query = "SELECT seq FROM vectors WHERE seq > ? AND seq <= ? ORDER BY seq"
        return (seq for (seq,) in self._connection.execute(query, (after, upto)))

    def _rows(self, query: str, *values: int | str) -> list[VectorRow]:
        found = self._connection.execute(query, values)
        return [
            VectorRow(seq, organization_id, memory_id, space, tuple(facets), vector)
            for seq, organization_id, memory_id, space, vector, *facets in found
        ]


class SqliteTruth:
    """Rows in one table of a SQLite file; any number of processes."""

    def __init__(self, path: Path | str) -> None:
        self.path = str(path)
        self._idle: queue.SimpleQueue[apsw.Connection] = queue.SimpleQueue()
        self._write = threading.Lock()
        columns = ", ".join(FACETS)
        self._writer = self._connect()
        with self._writer:
            self._writer.execute(
                "CREATE TABLE IF NOT EXISTS meta(value TEXT);"
                "INSERT INTO meta SELECT hex(randomblob(8)) WHERE NOT EXISTS (SELECT 1 FROM meta);"
                "CREATE TABLE IF NOT EXISTS vectors(seq INTEGER PRIMARY KEY AUTOINCREMENT, organization_id TEXT,"
                f" memory_id TEXT, space TEXT, vector BLOB, {columns}, UNIQUE(organization_id, memory_id, space))"
            ).fetchall()

    def _connect(self) -> apsw.Connection:
        connection = apsw.Connection(self.path)
        connection.set_busy_timeout(10_000)
        connection.execute("PRAGMA journal_mode = wal").fetchall()
        return connection

    @contextmanager
    def vector_snapshot(self) -> Iterator[VectorSnapshot]:
        try:
            connection = self._idle.get_nowait()
        except queue.Empty:
            connection = self._connect()
        connection.execute("BEGIN")
        try:
            yield _SqliteSnapshot(connection)
        finally:
            connection.execute("ROLLBACK")
            self._idle.put(connection)

    def put_all(self, rows: Iterable[tuple[str, str, str, bytes, tuple[str | None, ...]]]) -> None:
        """Write rows of (organization_id, memory_id, space, vector, facets) in one transaction."""
        places = ", ".join("?" * (4 + len(FACETS)))
        names = f"organization_id, memory_id, space, vector, {', '.join(FACETS)}"
        with self._write, self._transaction():
            self._writer.executemany(
                f"INSERT OR REPLACE INTO vectors({names}) VALUES ({places})",
                ((*row[:4], *row[4]) for row in rows),
            )

    def put(
        self,
        organization_id: str,
        memory_id: str,
        vector: NDArray[np.floating],
        *,
        space: str = "default",
        **facets: str | None,
    ) -> None:
        self.put_all([(organization_id, memory_id, space, packed(vector), facets_of(**facets))])

    def delete(self, organization_id: str, memory_id: str, *, space: str = "default") -> None:
        with self._write, self._transaction():
            self._writer.execute(
                "DELETE FROM vectors WHERE organization_id = ? AND memory_id = ? AND space = ?",
                (organization_id, memory_id, space),
            )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._writer.execute("ROLLBACK")
            raise
        self._writer.execute("COMMIT")

    def close(self) -> None:
        self._writer.close()
        while not self._idle.empty():
            self._idle.get_nowait().close()
