"""A store and a vector store that answer from what was read ahead, and ask the real ones for everything else."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from recollect.domain.record import Record
from recollect.ports.query import Beside, OneOf, Query, Reading, Row, TextHit, TextQuery
from recollect.ports.read_ahead import PoolReading, ReadAhead, ReadsAhead
from recollect.ports.records import RecordStore, Scope
from recollect.ports.vectors import StoredVector, VectorHit, VectorStore
from recollect.services.tenant import Tenant


def reads_ahead(tenant: Tenant) -> bool:
    """Whether it is worth telling this tenant's store what is going to be read. Whoever reaches only a part of an
    organization is answered by a store that narrows each reading by itself."""
    # As `isinstance` would find, which takes fifty times as long for a protocol and is asked in every recall.
    return tenant.scope.restriction is None and hasattr(tenant.vectors, "read_ahead")


def reading_ahead(tenant: Tenant, reading: PoolReading) -> Tenant:
    """The same tenant, after this was read ahead."""
    if not reads_ahead(tenant):
        return tenant
    found = cast(ReadsAhead, tenant.vectors).read_ahead(tenant.scope, reading)
    if found is None:
        return tenant
    store, vectors = _StoreAhead(tenant.store, found), _VectorsAhead(tenant.vectors, found)
    return replace(tenant, store=cast(RecordStore, store), vectors=cast(VectorStore, vectors))


class _StoreAhead:
    def __init__(self, store: RecordStore, found: ReadAhead) -> None:
        self._store = store
        self._found = found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def search_text(self, scope: Scope, query: TextQuery[Record]) -> list[TextHit]:
        found = self._found
        if found.hits is not None and query == found.reading.words:
            return found.hits
        return self._store.search_text(scope, query)

    def select(self, scope: Scope, query: Query[Record], fields: Sequence[str]) -> list[Row]:
        return self.select_each(scope, [(query, fields)])[0]

    def select_each(self, scope: Scope, readings: Sequence[Reading]) -> list[list[Row]]:
        known = [self._known(query, tuple(fields)) for query, fields in readings]
        left = [reading for reading, rows in zip(readings, known, strict=True) if rows is None]
        asked = iter(self._store.select_each(scope, left) if left else [])
        return [next(asked) if rows is None else rows for rows in known]

    def _known(self, query: Query[Record], fields: tuple[str, ...]) -> list[Row] | None:
        found, reading = self._found, self._found.reading
        for given, rows in zip(reading.besides, found.besides, strict=False):
            if given == (query, fields):
                return rows
        if query.order or query.limit is not None or query.after or query.deleted != "no" or not query.where:
            return None
        first, *filters = query.where
        if not isinstance(first, OneOf) or not first.wanted:
            return None
        if query.record is reading.record and first.field == "id" and tuple(filters) == reading.filters:
            is_read = fields == reading.fields and found.asked.issuperset(first.values)
            return [found.rows[id] for id in sorted(map(str, first.values)) if id in found.rows] if is_read else None
        for (record, held), rows in zip(reading.hanging, found.hanging, strict=False):
            if query.record is record and held == fields and first.field == "memory_id" and not filters:
                return [row for row in rows if row[0] in first.values] if found.hung_on >= {*first.values} else None
        return None

    def beside(self, scope: Scope, query: Beside[Record]) -> list[list[str]]:
        reading, wanted = self._found.reading, self._found.reading.neighbours
        known = self._found.stretches.get(query.within, {})
        is_read = (
            wanted is not None
            and query.record is reading.record
            and wanted.within.get(query.within) == query.by
            and (wanted.reach, wanted.where) == (query.reach, query.where)
            and all(id in known for _, _, id in query.places)
        )
        return [known[id] for _, _, id in query.places] if is_read else self._store.beside(scope, query)

    def stored_vectors(self, scope: Scope, space: str, ids: Sequence[str]) -> Sequence[StoredVector]:
        known = self._found.vectors.get(space, {})
        unread = [id for id in ids if id not in known]
        found = [row for id in ids for row in known.get(id, ())]
        return [*found, *self._store.stored_vectors(scope, space, unread)] if unread else found


class _VectorsAhead:
    def __init__(self, vectors: VectorStore, found: ReadAhead) -> None:
        self._vectors = vectors
        self._found = found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._vectors, name)

    def search(
        self,
        organization_id: str,
        space: str,
        query: NDArray[np.float32],
        limit: int,
        where: Mapping[str, Collection[str | None]] | None = None,
    ) -> list[VectorHit]:
        for one, hits in zip(self._found.reading.near, self._found.near, strict=False):
            is_same = (one.space, one.limit, one.where) == (space, limit, where or {})
            if hits is not None and is_same and np.array_equal(one.vector, query):
                return hits
        return self._vectors.search(organization_id, space, query, limit, where)
