"""Vectors of the tables and fields of sources: made with them, dropped with them, following whose the source is.

They are made by the same models as those of memories, and `reindex` and the background make those that are owed.
"""

from __future__ import annotations

from collections.abc import Sequence

from recollect.domain.memory import DATA, Embedding, IndexTask, owner_key
from recollect.domain.sources import Field, Source, Table
from recollect.ports.query import IsNull, OneOf, Query, equal
from recollect.ports.steps import DeleteWhere, Put, Step
from recollect.ports.vectors import FACETS
from recollect.services.memories.embedded_records import DATA_RECORDS, EmbeddedRecord, by_ids, embedded_data
from recollect.services.memories.embeddings import index_steps, task_steps
from recollect.services.tenant import Tenant

DATA_AT_ONCE = 64
"""Tables and fields that are embedded while whoever adds them waits; of more, all vectors are owed."""
LATER = "many columns get their vectors in the background or by `reindex`; their words find them at once"
_KEYS = 256  # of one statement


def embedding_steps(
    tenant: Tenant, records: Sequence[Source | Table | Field], *, replacing: bool = False
) -> list[Step]:
    """The steps that give tables and fields their vectors, or note that they are owed; `replacing` those they have.

    A table is given with all of its fields, or without any. What they belong to may be stored, or be given as well.
    """
    wanted = embedded_data(tenant, records)
    steps = dropping_steps([one.key for one in wanted]) if replacing else []
    if len(wanted) <= DATA_AT_ONCE:
        return steps + index_steps(tenant, wanted)[0]
    for embedder in tenant.embedders:
        steps += [step for one in wanted for step in task_steps(one, embedder.model, LATER)]
    return steps


def gone_steps(records: Sequence[Table | Field]) -> list[Step]:
    """The steps that delete the vectors of tables and fields that are deleted, while their source stays."""
    return dropping_steps([owner_key(one) for one in records])


def dropping_steps(keys: Sequence[str]) -> list[Step]:
    steps: list[Step] = []
    for start in range(0, len(keys), _KEYS):
        of_these = (OneOf("memory_id", tuple(keys[start : start + _KEYS])), equal("namespace", DATA))
        steps += [DeleteWhere(Embedding, of_these), DeleteWhere(IndexTask, of_these)]
    return steps


def moved_steps(tenant: Tenant, source: Source) -> list[Step]:
    """The steps that let the vectors of a source say whose it is now."""
    whose = {"user_id": source.user_id, "project_id": source.project_id}
    stored = tenant.find(Query(Embedding, (equal("source_id", source.id),))).records
    return [
        Put(one.changed(facets=[whose.get(name, value) for name, value in zip(FACETS, one.facets, strict=True)]))
        for one in stored
    ]


def outdated(tenant: Tenant, records: Sequence[EmbeddedRecord], model: str) -> list[EmbeddedRecord]:
    """Those without a vector of their text as it is now."""
    stored = Query(Embedding, (OneOf("memory_id", tuple(one.key for one in records)), equal("model", model)))
    rows = tenant.select(stored, ("memory_id", "text_hash", "facets"))
    has = {(key, digest, tuple(facets)) for key, digest, facets in rows}
    return [one for one in records if (one.key, one.text_hash, tuple(one.facets)) not in has]


def by_keys(tenant: Tenant, keys: Sequence[str]) -> list[EmbeddedRecord]:
    """The tables and fields of these keys."""
    named = [key.partition(":")[::2] for key in keys]
    return [
        one
        for record in DATA_RECORDS
        for one in by_ids(tenant, record, tuple(id for table, id in named if table == record.shape.table))
    ]


def orphans(tenant: Tenant) -> list[str]:
    """The keys of vectors, and of notes that they are owed, whose table or field is gone."""
    of_data = (IsNull("source_id", wanted=False),)
    keys = {key for (key,) in tenant.select(Query(Embedding, of_data), ("memory_id",))}
    keys |= {key for (key,) in tenant.select(Query(IndexTask, of_data), ("memory_id",))}
    for record in DATA_RECORDS if keys else ():
        keys -= {f"{record.shape.table}:{id}" for (id,) in tenant.select(Query(record), ("id",))}
    return sorted(keys)
