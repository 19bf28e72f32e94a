"""Vectors that are owed are made, and those of a new model: `reindex`.

The text index follows the records by itself. A vector needs a model, and models fail: then the record is stored
all the same, with a task that says which vector is owed. Moving to a new model: give it as the second embedder, run
`reindex` while the first still serves, swap the two, then `reindex` again with `retire` to drop the old vectors.

Vectors from before passages are of a text's beginning: `reindex` makes those that a long text lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from pydantic import Field

from recollect.domain.conversations import Message
from recollect.domain.memory import Embedding, IndexTask, Memory
from recollect.domain.record import Record
from recollect.errors import IndexFailed, RequirementFailed
from recollect.ports.models import Embedder
from recollect.ports.query import Compare, Filter, IsNull, Linked, OneOf, Order, Query, equal
from recollect.ports.steps import DeleteWhere, Require, Step, Touch
from recollect.services.memories.data_vectors import DATA_AT_ONCE, by_keys, dropping_steps, orphans, outdated
from recollect.services.memories.embedded_records import (
    DATA_RECORDS,
    EmbeddedRecord,
    by_ids,
    embedded_data,
    embedded_memory,
    embedded_message,
    read_again,
)
from recollect.services.memories.embeddings import embedded, insert_steps
from recollect.services.memories.message_vectors import MESSAGES_AT_ONCE, WITH_TEXT, messages_without_vector
from recollect.services.requests import Reply, Request
from recollect.services.tenant import Core, GoOn, Tenant

BATCH = 256
Progress = Callable[[int, int], None]
R = TypeVar("R", bound=Record)


class ReindexRequest(Request):
    """Make the vectors that are missing."""

    retire: bool = Field(
        False, description="Also drop the vectors of models that are no longer configured; those you gave stay"
    )
    everything: bool = Field(False, description="Make all of them anew, not only the missing ones")
    index: bool = Field(False, description="Also throw the vector index away and make it again from the stored vectors")


class ReindexReply(Reply):
    """`made` counts the memories, messages, tables and fields that got vectors, `vectors` what they got: long ones
    several.
    """

    made: int
    vectors: int = 0
    dropped: int
    remaining: int
    indexed: int | None = None
    notes: list[str] = Field(default_factory=list)


def reindex(tenant: Tenant, request: ReindexRequest, progress: Progress = lambda done, of: None) -> ReindexReply:
    """Make the vectors that are owed, by every configured embedder, in batches that each commit."""
    made = vectors = 0
    dropped = tenant.transact(dropping_steps(orphans(tenant))).deleted
    owed = [(embedder, *_owed(embedder, request.everything)) for embedder in tenant.embedders]
    total = sum(tenant.count(memories) + tenant.count(messages) for _, memories, messages in owed)
    for embedder, memories, messages in owed:
        for batch in _wanting(tenant, memories, messages, embedder, request.everything):
            had, filled, got = _fill(tenant, batch, embedder)
            dropped, made, vectors = dropped + had, made + filled, vectors + got
            progress(made, max(total, made))
    if made < total:  # some were forgotten meanwhile
        progress(total, total)
    if request.retire:
        current = tuple(Compare("model", "!=", embedder.model) for embedder in tenant.embedders)
        not_given = equal("given", False)
        dropped += tenant.transact([DeleteWhere(Embedding, (not_given, *current))]).deleted
        tenant.transact([DeleteWhere(IndexTask, current or (Compare("attempts", ">=", 0),))])
    indexed = tenant.vectors.rebuild() if request.index else None
    notes = [] if request.index else refreshed(tenant)
    remaining = sum(_remaining(tenant, embedder.model) for embedder in tenant.embedders)
    return ReindexReply(made=made, vectors=vectors, dropped=dropped, remaining=remaining, indexed=indexed, notes=notes)


def _owed(embedder: Embedder, everything: bool) -> tuple[Query[Memory], Query[Message]]:
    if everything:
        return Query(Memory, (), (Order("id"),)), Query(Message, WITH_TEXT, (Order("id"),))
    return memories_without_vector(embedder.model), messages_without_vector(embedder.model)


def make_owed(tenant: Tenant, embedder: Embedder, passages: int, go_on: GoOn = lambda: None) -> int:
    """Make the vectors that were noted as owed, the oldest first, of about so many passages; how many records got
    theirs. One memory is done at least, and each is a transaction of its own; messages, tables and fields, which are
    mostly short, are done together.
    """
    notes = Query(IndexTask, (equal("model", embedder.model),), (Order("id"),), limit=passages)
    tasks = tenant.select(notes, ("memory_id", "source_id", "message_id"))
    of_data = [key for key, source, _ in tasks if source is not None]
    said = {key: message for key, _, message in tasks if message is not None}
    ids = dict.fromkeys(key for key, source, message in tasks if source is None and message is None)
    known = {one.key: [one] for one in by_ids(tenant, Memory, tuple(ids))}
    waiting: dict[tuple[str, ...], list[EmbeddedRecord]] = {(id,): known.get(id, []) for id in ids}
    for keys in _chunks(list(said), MESSAGES_AT_ONCE):
        waiting[keys] = by_ids(tenant, Message, tuple(said[key] for key in keys))
    for keys in _chunks(of_data, DATA_AT_ONCE):
        waiting[keys] = by_keys(tenant, keys)
    made = spent = 0
    for keys, records in waiting.items():
        if spent >= passages:
            break
        go_on()
        gone = set(keys) - {one.key for one in records}
        if gone:  # forgotten or deleted meanwhile
            tenant.transact([DeleteWhere(IndexTask, (OneOf("memory_id", tuple(sorted(gone))),))])
        _, filled, got = _fill(tenant, records, embedder)
        made, spent = made + filled, spent + got
    return made


def _chunks(keys: Sequence[str], size: int) -> Iterator[tuple[str, ...]]:
    return (tuple(keys[start : start + size]) for start in range(0, len(keys), size))


def _wanting(
    tenant: Tenant, memories: Query[Memory], messages: Query[Message], embedder: Embedder, everything: bool
) -> Iterator[list[EmbeddedRecord]]:
    """Those without a vector, then those with one that is of the beginning of a longer text; messages, tables and
    fields.
    """
    for batch in _batches(tenant, memories):
        yield [embedded_memory(one) for one in batch]
    for batch in _batches(tenant, _from_before(embedder.model)):
        records = [embedded_memory(one) for one in batch]
        long = {one.key for one in records if one.passages(embedder).of > 1}
        if long:
            yield [one for one in records if one.key in long]
        _mark_whole(tenant, [one for one in records if one.key not in long], embedder.model)
    for said in _batches(tenant, messages):
        yield [embedded_message(one) for one in said]
    for record in DATA_RECORDS:
        for some in _batches(tenant, Query(record, (), (Order("id"),))):
            stored = embedded_data(tenant, some)
            yield stored if everything else outdated(tenant, stored, embedder.model)


def _from_before(model: str) -> Query[Memory]:
    unmarked = Linked(Embedding, "memory_id", (equal("model", model), equal("given", False), IsNull("start")))
    return Query(Memory, (unmarked,), (Order("id"),))


def _mark_whole(tenant: Tenant, records: Sequence[EmbeddedRecord], model: str) -> None:
    """Note that a vector from before is of the whole text, which is short: it need not be looked at again."""
    lengths = {one.key: len(one.text) for one in records}
    if not lengths:
        return
    where: tuple[Filter, ...] = (OneOf("memory_id", tuple(lengths)), equal("model", model), equal("given", False))
    rows = tenant.select(Query(Embedding, (*where, IsNull("start"))), ("id", "memory_id"))
    marks = [Touch(Embedding, id, put={"start": 0, "end": lengths[memory_id]}) for id, memory_id in rows]
    tenant.transact(marks)


def refreshed(core: Core) -> list[str]:
    """Have the index do its upkeep; says so if it is away: what was stored is stored, and it catches up by itself."""
    try:
        core.vectors.refresh()
    except IndexFailed as failure:
        return [f"the vector index is behind: {failure.message}"]
    return []


def memories_without_vector(model: str) -> Query[Memory]:
    return Query(Memory, (Linked(Embedding, "memory_id", (equal("model", model),), wanted=False),), (Order("id"),))


def _remaining(tenant: Tenant, model: str) -> int:
    of_data = Query(IndexTask, (equal("model", model), IsNull("source_id", wanted=False)))
    return (
        tenant.count(memories_without_vector(model))
        + tenant.count(messages_without_vector(model))
        + tenant.count(of_data)
    )


def _batches(tenant: Tenant, query: Query[R]) -> Iterator[list[R]]:
    after: str | None = None
    while True:
        page = tenant.find(replace(query, limit=BATCH, after=after))
        if page.records:
            yield page.records
        after = page.next
        if after is None:
            return


def _fill(tenant: Tenant, records: Sequence[EmbeddedRecord], embedder: Embedder) -> tuple[int, int, int]:
    """Make the vectors of these records in place of those they have: how many they had, how many records, vectors.

    What a caller gave stays. Models are slow: who was changed or erased while its vector was made is read again.
    """
    while records:
        keys = tuple(one.key for one in records)
        of_these: tuple[Filter, ...] = (OneOf("memory_id", keys), equal("model", embedder.model))
        kept = tenant.select(Query(Embedding, (*of_these, equal("given", True))), ("memory_id",))
        given = {key for (key,) in kept}
        had = tenant.count(Query(Embedding, (*of_these, equal("given", False))))
        wanting = [one for one in records if one.key not in given]
        steps: list[Step] = [
            Require(type(one.record), one.record.id, {"version": one.record.version}) for one in wanting
        ]
        steps += [DeleteWhere(IndexTask, of_these), DeleteWhere(Embedding, (*of_these, equal("given", False)))]
        got = 0
        for one, made in zip(wanting, embedded(tenant, embedder, wanting), strict=True):
            steps += insert_steps(one, embedder.model, made)
            got += len(made)
        try:
            tenant.transact(steps)
            return had, len(wanting), got
        except RequirementFailed:
            records = read_again(tenant, records)
    return 0, 0, 0
