"""Vectors that are owed are made, and those of a new model: `reindex`.

The text index follows the records by itself. A vector needs a model, and models fail: then the memory is stored
all the same, with a task that says which vector is owed. Moving to a new model: give it as the second embedder, run
`reindex` while the first still serves, swap the two, then `reindex` again with `retire` to drop the old vectors.

Vectors from before passages are of a text's beginning: `reindex` makes those that a long text lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pydantic import Field

from recollect.domain.memory import Embedding, IndexTask, Memory
from recollect.errors import IndexFailed, RequirementFailed
from recollect.ports.models import Embedder
from recollect.ports.query import Compare, Filter, IsNull, Linked, OneOf, Order, Query, equal
from recollect.ports.steps import DeleteWhere, Insert, Require, Step, Touch
from recollect.services.memories.embeddings import embedded, embeddings, passages_of, text_of
from recollect.services.requests import Reply, Request
from recollect.services.tenant import Core, Tenant

BATCH = 256
Progress = Callable[[int, int], None]


class ReindexRequest(Request):
    """Make the vectors that are missing."""

    retire: bool = Field(
        False, description="Also drop the vectors of models that are no longer configured; those you gave stay"
    )
    everything: bool = Field(False, description="Make all of them anew, not only the missing ones")
    index: bool = Field(False, description="Also throw the vector index away and make it again from the stored vectors")


class ReindexReply(Reply):
    """`made` counts the memories that got vectors, `vectors` what they got: a long one has several."""

    made: int
    vectors: int = 0
    dropped: int
    remaining: int
    indexed: int | None = None
    notes: list[str] = Field(default_factory=list)


def reindex(tenant: Tenant, request: ReindexRequest, progress: Progress = lambda done, of: None) -> ReindexReply:
    """Make the vectors that are owed, by every configured embedder, in batches that each commit."""
    made = vectors = dropped = 0
    for embedder in tenant.embedders:
        wanted = Query(Memory, (), (Order("id"),)) if request.everything else _without_vector(embedder.model)
        total = tenant.count(wanted)
        for batch in _wanting(tenant, wanted, embedder):
            had, filled, got = _fill(tenant, batch, embedder)
            dropped, made, vectors = dropped + had, made + filled, vectors + got
            progress(made, max(total, made))
    if request.retire:
        current = tuple(Compare("model", "!=", embedder.model) for embedder in tenant.embedders)
        not_given = equal("given", False)
        dropped += tenant.transact([DeleteWhere(Embedding, (not_given, *current))]).deleted
        tenant.transact([DeleteWhere(IndexTask, current or (Compare("attempts", ">=", 0),))])
    indexed = tenant.vectors.rebuild() if request.index else None
    notes = [] if request.index else refreshed(tenant)
    remaining = sum(tenant.count(_without_vector(embedder.model)) for embedder in tenant.embedders)
    return ReindexReply(made=made, vectors=vectors, dropped=dropped, remaining=remaining, indexed=indexed, notes=notes)


def make_owed(tenant: Tenant, embedder: Embedder, passages: int, go_on: Callable[[], None] = lambda: None) -> int:
    """Make the vectors of memories that were noted as owed, the oldest first, of about so many passages; how many
    memories got theirs. One memory is done at least, and each is a transaction of its own.
    """
    notes = Query(IndexTask, (equal("model", embedder.model),), (Order("id"),), limit=passages)
    tasks = tenant.select(notes, ("memory_id",))
    ids = list(dict.fromkeys(id for (id,) in tasks))
    known = {one.id: one for one in tenant.find(Query(Memory, (OneOf("id", tuple(ids)),))).records}
    made = spent = 0
    for id in ids:
        if spent >= passages:
            break
        go_on()
        if id in known:
            _, filled, got = _fill(tenant, [known[id]], embedder)
            made, spent = made + filled, spent + got
        else:  # forgotten meanwhile
            tenant.transact([DeleteWhere(IndexTask, (equal("memory_id", id),))])
    return made


def _wanting(tenant: Tenant, wanted: Query[Memory], embedder: Embedder) -> Iterator[list[Memory]]:
    """Those without a vector, then those with one that is of the beginning of a longer text."""
    yield from _batches(tenant, wanted)
    for batch in _batches(tenant, _from_before(embedder.model)):
        is_long = [passages_of(memory, embedder).of > 1 for memory in batch]
        if any(is_long):
            yield [memory for memory, long in zip(batch, is_long, strict=True) if long]
        short = [memory for memory, long in zip(batch, is_long, strict=True) if not long]
        _mark_whole(tenant, short, embedder.model)


def _from_before(model: str) -> Query[Memory]:
    unmarked = Linked(Embedding, "memory_id", (equal("model", model), equal("given", False), IsNull("start")))
    return Query(Memory, (unmarked,), (Order("id"),))


def _mark_whole(tenant: Tenant, memories: Sequence[Memory], model: str) -> None:
    """Note that a vector from before is of the whole text, which is short: it need not be looked at again."""
    lengths = {memory.id: len(text_of(memory)) for memory in memories}
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


def _without_vector(model: str) -> Query[Memory]:
    return Query(Memory, (Linked(Embedding, "memory_id", (equal("model", model),), wanted=False),), (Order("id"),))


def _batches(tenant: Tenant, query: Query[Memory]) -> Iterator[list[Memory]]:
    after: str | None = None
    while True:
        page = tenant.find(Query(Memory, query.where, query.order, limit=BATCH, after=after))
        if page.records:
            yield page.records
        after = page.next
        if after is None:
            return


def _fill(tenant: Tenant, memories: Sequence[Memory], embedder: Embedder) -> tuple[int, int, int]:
    """Make the vectors of these memories in place of those they have: how many they had, how many memories, vectors.

    What a caller gave stays. Models are slow: who was changed or erased while its vector was made is read again.
    """
    while memories:
        ids = tuple(memory.id for memory in memories)
        of_these: tuple[Filter, ...] = (OneOf("memory_id", ids), equal("model", embedder.model))
        kept = tenant.select(Query(Embedding, (*of_these, equal("given", True))), ("memory_id",))
        given = {id for (id,) in kept}
        had = tenant.count(Query(Embedding, (*of_these, equal("given", False))))
        wanting = [memory for memory in memories if memory.id not in given]
        steps: list[Step] = [Require(Memory, memory.id, {"version": memory.version}) for memory in wanting]
        steps += [DeleteWhere(IndexTask, of_these), DeleteWhere(Embedding, (*of_these, equal("given", False)))]
        got = 0
        for memory, made in zip(wanting, embedded(tenant, embedder, wanting), strict=True):
            steps += [Insert(embedding) for embedding in embeddings(memory, embedder.model, made)]
            got += len(made)
        try:
            tenant.transact(steps)
            return had, len(wanting), got
        except RequirementFailed:
            memories = tenant.find(Query(Memory, (OneOf("id", ids),))).records
    return 0, 0, 0
