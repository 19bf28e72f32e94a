"""Writing of imported records in batches: each batch is one transaction, with its entry in the access log.

A memory and its parts (tags, citations, vectors, history) are skipped or replaced together; so are a message, an item
or a source and its vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from recollect.domain.conversations import Message
from recollect.domain.key_value import Item, ItemVector
from recollect.domain.memory import Embedding, IndexTask, Memory, Revision, Tag
from recollect.domain.provenance import Citation
from recollect.domain.record import RECORDS, Record, Unique
from recollect.domain.sources import Source
from recollect.errors import Conflict, DuplicateKey, RecollectError
from recollect.ports.query import OneOf, Query
from recollect.ports.steps import DeleteWhere, Insert, Put, Step
from recollect.retry import retry
from recollect.services.tenant import Tenant
from recollect.services.transaction import commit, logged

Link = tuple[type[Record], str]
PARTS: dict[type[Record], tuple[Link, ...]] = {
    **dict.fromkeys((Embedding, IndexTask), ((Source, "source_id"), (Message, "message_id"), (Memory, "memory_id"))),
    **dict.fromkeys((Tag, Citation), ((Memory, "memory_id"),)),
    Revision: ((Message, "message_id"), (Memory, "memory_id")),
    ItemVector: ((Item, "item_id"),),
}
"""The parts of a memory, a message, an item or a source, and the field that names their owner: the first that is not
empty. They refer to nothing else."""
WHOLES = frozenset(owner for links in PARTS.values() for owner, _ in links)
Key = tuple[str, str]
"""A table and an id."""


def write_batch(tenant: Tenant, batch: Sequence[Record], existing: str, before: int) -> int:
    """Write one batch; returns the number of records. Retried if another writer wrote the same concurrently."""

    def attempt() -> int:
        steps = _steps(tenant, batch, existing)
        count = sum(isinstance(step, Insert | Put) for step in steps)
        if steps:
            commit(tenant, [*steps, logged(tenant, "create", "import", None, records=count)])
        return count

    try:
        return retry(attempt, DuplicateKey, tries=2)
    except Conflict as error:
        raise _stopped(error, before) from None


def _stopped(error: RecollectError, before: int) -> RecollectError:
    if before == 0:
        return error
    return type(error)(
        f"{error.message}; {before} records before it were imported and stay",
        remedy=f"{error.remedy}; then import the file again to continue".removeprefix("; "),
        **error.details,
    )


def _steps(tenant: Tenant, records: Sequence[Record], existing: str) -> list[Step]:
    types = {type(one) for one in records}
    present = {(record.shape.table, id) for record in types for id in _present(tenant, record, records)}
    steps: list[Step] = _dropping_steps(present) if existing == "replace" else []
    taken = _taken(tenant, records) if existing == "skip" else set()
    for one in records:
        is_here = (one.shape.table, one.id) in present
        if owner_of(one) in present:
            # Its old parts were deleted above, so that they cannot conflict with those of the file.
            steps += [Put(one, restoring=True)] if existing == "replace" else []
        elif not is_here and (one.shape.table, one.id) not in taken:
            steps.append(Insert(one, restoring=True))
        elif existing == "replace":
            steps.append(Put(one, restoring=True))
    return steps


def _dropping_steps(present: set[Key]) -> list[Step]:
    """The steps that delete the parts of records that will be replaced."""
    steps: list[Step] = []
    for part, links in PARTS.items():
        for owner, link in links:
            known = tuple(sorted(id for table, id in present if table == owner.shape.table))
            steps += [DeleteWhere(part, (OneOf(link, known),))] if known else []
    return steps


def owner_of(record: Record) -> Key | None:
    """The memory, item or source that a record is or is a part of."""
    if type(record) in WHOLES:
        return record.shape.table, record.id
    named = ((owner, getattr(record, link)) for owner, link in PARTS.get(type(record), ()))
    return next(((owner.shape.table, str(id)) for owner, id in named if id is not None), None)


def _present(tenant: Tenant, record: type[Record], records: Sequence[Record]) -> set[str]:
    ids = tuple(one.id for one in records if type(one) is record)
    return {id for (id,) in tenant.select(Query(record, (OneOf("id", ids),), deleted="yes"), ("id",))}


def _taken(tenant: Tenant, records: Sequence[Record]) -> set[tuple[str, str]]:
    """Records whose unique key another record already has, such as a link that exists on both sides.

    Only types that nothing refers to: references to the others could not follow.
    """
    taken: set[tuple[str, str]] = set()
    for record in {type(one) for one in records} - set(PARTS):
        for key in record.shape.unique if _is_leaf(record) else ():
            mine = {values: one for one in records if type(one) is record and (values := _key_of(one, key))}
            if mine:
                first = OneOf(key.fields[0], tuple({values[0] for values in mine}))
                rows = tenant.select(Query(record, (first,), deleted="yes"), ("id", *key.fields))
                held = {tuple(row[1:]): row[0] for row in rows}
                taken |= {(record.shape.table, one.id) for at, one in mine.items() if held.get(at, one.id) != one.id}
    return taken


def _key_of(record: Record, key: Unique) -> tuple[Any, ...] | None:
    values = tuple(getattr(record, name) for name in key.fields)
    return None if values[0] is None or (None in values and not key.nulls_equal) else values


@cache
def _is_leaf(record: type[Record]) -> bool:
    return not any(
        reference.to == record.shape.table for one in RECORDS.values() for reference in one.shape.references.values()
    )
