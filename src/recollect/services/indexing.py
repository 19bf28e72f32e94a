"""Vectors of memories: made with the memory, mended later if the embedder was away, moved to a new model.

The text index follows the records by itself. A vector needs a model, and models fail: then the memory is stored
all the same, with a task that says which vector is owed. Moving to a new model: give it as the second embedder, run
`reindex` while the first still serves, swap the two, then `reindex` again with `retire` to drop the old vectors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from pydantic import Field

from recollect.domain.memory import Embedding, IndexTask, Memory
from recollect.domain.questions import embedded_text
from recollect.domain.relevance import token_codes
from recollect.errors import EmbedderFailed, IndexFailed, InvalidInput, RequirementFailed
from recollect.ports.models import Embedder, TokenEmbedder, Vectors
from recollect.ports.records import (
    Compare,
    DeleteWhere,
    Insert,
    Linked,
    OneOf,
    Order,
    Put,
    Query,
    Require,
    Scope,
    Step,
    equal,
)
from recollect.ports.vectors import FACETS
from recollect.services.core import Core, Reply, Request

BATCH = 256
# The first tokens of a text say what it is about; more would cost 48 bytes each for little.
CODED_TOKENS = 128
Vectorized = tuple[Vectors, bytes | None]
Progress = Callable[[int, int], None]


def facets_of(memory: Memory) -> list[str | None]:
    return [getattr(memory, name) for name in FACETS]


def text_of(memory: Memory) -> str:
    return embedded_text(memory.author, memory.text)


def text_hash(memory: Memory) -> str:
    """Which text a vector was made of."""
    return hashlib.blake2b(text_of(memory).encode(), digest_size=16).hexdigest()


def index_steps(
    core: Core, memories: Sequence[Memory], given: Sequence[Sequence[float] | None] | None = None
) -> tuple[list[Step], list[str], list[str]]:
    """The steps that index new memories by every embedder, what they index, and what they leave queued."""
    steps: list[Step] = []
    indexed, queued = ["text"], []
    for embedder in core.embedders:
        try:
            vectors = _vectors(core, embedder, memories, given if embedder is core.embedder else None)
        except EmbedderFailed as failure:
            steps += [task for memory in memories for task in _tasks(memory, embedder.model, failure)]
            queued.append(f"vector:{embedder.model}")
            continue
        for memory, vector in zip(memories, vectors, strict=True):
            steps += [Insert(embedding) for embedding in _embeddings(memory, embedder.model, vector)]
        indexed.append(f"vector:{embedder.model}")
    return steps, indexed, queued


def reindex_steps(core: Core, before: Memory, after: Memory) -> list[Step]:
    """The steps that bring the vectors of one changed memory up to date."""
    dropped: list[Step] = [
        DeleteWhere(Embedding, (equal("memory_id", after.id),)),
        DeleteWhere(IndexTask, (equal("memory_id", after.id),)),
    ]
    if after.is_deleted:
        return dropped
    same_text = text_of(before) == text_of(after) and before.namespaces == after.namespaces
    if same_text and not before.is_deleted:
        if facets_of(before) == facets_of(after):
            return []
        return [Put(vector.changed(facets=facets_of(after))) for vector in _stored(core, after)]
    return dropped + index_steps(core, [after])[0]


def _stored(core: Core, memory: Memory) -> list[Embedding]:
    scope = Scope(memory.organization_id)
    return core.store.find(scope, Query(Embedding, (equal("memory_id", memory.id),))).records


def embedded(core: Core, embedder: Embedder, memories: Sequence[Memory]) -> list[Vectorized]:
    """A vector for each memory, with token codes where the model tells tokens apart and the settings want them."""
    texts = [text_of(memory) for memory in memories]
    if not texts:
        return []
    if core.late_interaction and isinstance(embedder, TokenEmbedder):
        vectors, tokens = embedder.embed_with_tokens(texts)
        codes = [token_codes(states[:CODED_TOKENS]).tobytes() for states in tokens]
        return list(zip(usable(vectors, embedder, len(texts)), codes, strict=True))
    return [(vector, None) for vector in usable(embedder.embed(texts), embedder, len(texts))]


def usable(vectors: Vectors, embedder: Embedder, count: int) -> Vectors:
    """One bad vector would spoil every ranking it takes part in, so a model that makes one has failed."""
    array = np.asarray(vectors, dtype=np.float32)
    if array.shape != (count, embedder.dimensions) or not np.isfinite(array).all():
        raise EmbedderFailed(f"the model '{embedder.model}' gave vectors that cannot be used", remedy="check the model")
    return array


def _vectors(
    core: Core, embedder: Embedder, memories: Sequence[Memory], given: Sequence[Sequence[float] | None] | None
) -> list[Vectorized]:
    known = given if given is not None else [None] * len(memories)
    missing = [memory for memory, vector in zip(memories, known, strict=True) if vector is None]
    made = iter(embedded(core, embedder, missing))
    return [next(made) if vector is None else (unit(vector), None) for vector in known]


def unit(vector: Sequence[float]) -> Vectors:
    array = np.asarray(vector, dtype=np.float64)
    largest = float(np.abs(array).max(initial=0.0))
    if not np.isfinite(largest) or largest == 0:
        raise InvalidInput("a vector must be finite and have a direction", remedy="leave it out to have one made")
    scaled = array / largest  # first, so that no square overflows
    return (scaled / np.linalg.norm(scaled)).astype(np.float32)


def _embeddings(memory: Memory, model: str, made: Vectorized) -> Iterator[Embedding]:
    vector, codes = made
    digest = text_hash(memory)
    for namespace in memory.namespaces:
        yield Embedding(
            organization_id=memory.organization_id,
            memory_id=memory.id,
            namespace=namespace,
            model=model,
            dimensions=len(vector),
            vector=vector.astype("<f2").tobytes(),
            tokens=codes,
            text_hash=digest,
            facets=facets_of(memory),
        )


def _tasks(memory: Memory, model: str, failure: EmbedderFailed) -> Iterator[Step]:
    for namespace in memory.namespaces:
        yield Insert(
            IndexTask(
                organization_id=memory.organization_id,
                memory_id=memory.id,
                namespace=namespace,
                model=model,
                problem=failure.message,
            )
        )


class ReindexRequest(Request):
    """Make the vectors that are missing."""

    retire: bool = Field(False, description="Also drop the vectors of models that are no longer configured")
    everything: bool = Field(False, description="Make all of them anew, not only the missing ones")
    index: bool = Field(False, description="Also throw the vector index away and make it again from the stored vectors")


class ReindexReply(Reply):
    made: int
    dropped: int
    remaining: int
    indexed: int | None = None
    notes: list[str] = Field(default_factory=list)


def reindex(
    core: Core, scope: Scope, request: ReindexRequest, progress: Progress = lambda done, of: None
) -> ReindexReply:
    """Make the vectors that are owed, by every configured embedder, in batches that each commit."""
    made = dropped = 0
    for embedder in core.embedders:
        wanted = Query(Memory, (), (Order("id"),)) if request.everything else _without_vector(embedder.model)
        total = core.store.count(scope, wanted)
        for batch in _batches(core, scope, wanted):
            had, filled = _fill(core, scope, batch, embedder)
            dropped, made = dropped + had, made + filled
            progress(made, total)
    if request.retire:
        current = tuple(Compare("model", "!=", embedder.model) for embedder in core.embedders)
        everything = (_anything("dimensions"),), (_anything("attempts"),)
        of_vectors, of_tasks = (current, current) if current else everything
        dropped += core.store.transact(scope, [DeleteWhere(Embedding, of_vectors)]).deleted
        core.store.transact(scope, [DeleteWhere(IndexTask, of_tasks)])
    indexed = core.vectors.rebuild() if request.index else None
    notes = [] if request.index else refreshed(core)
    remaining = sum(core.store.count(scope, _without_vector(embedder.model)) for embedder in core.embedders)
    return ReindexReply(made=made, dropped=dropped, remaining=remaining, indexed=indexed, notes=notes)


def refreshed(core: Core) -> list[str]:
    """Have the index do its upkeep; says so if it is away: what was stored is stored, and it catches up by itself."""
    try:
        core.vectors.refresh()
    except IndexFailed as failure:
        return [f"the vector index is behind: {failure.message}"]
    return []


def _anything(counter: str) -> Compare:
    return Compare(counter, ">=", 0)


def _without_vector(model: str) -> Query[Memory]:
    return Query(Memory, (Linked(Embedding, "memory_id", (equal("model", model),), wanted=False),), (Order("id"),))


def _batches(core: Core, scope: Scope, query: Query[Memory]) -> Iterator[list[Memory]]:
    after: str | None = None
    while True:
        page = core.store.find(scope, Query(Memory, query.where, query.order, limit=BATCH, after=after))
        if page.records:
            yield page.records
        after = page.next
        if after is None:
            return


def _fill(core: Core, scope: Scope, memories: Sequence[Memory], embedder: Embedder) -> tuple[int, int]:
    """Make the vectors of these memories in place of those they have; says how many they had, and how many memories.

    Models are slow: who was changed or erased while its vector was made is read again.
    """
    while memories:
        ids = tuple(memory.id for memory in memories)
        of_these = (OneOf("memory_id", ids), equal("model", embedder.model))
        had = core.store.count(scope, Query(Embedding, of_these))
        steps: list[Step] = [Require(Memory, memory.id, {"version": memory.version}) for memory in memories]
        steps += [DeleteWhere(IndexTask, of_these), DeleteWhere(Embedding, of_these)]
        for memory, vector in zip(memories, embedded(core, embedder, memories), strict=True):
            steps += [Insert(embedding) for embedding in _embeddings(memory, embedder.model, vector)]
        try:
            core.store.transact(scope, steps)
            return had, len(memories)
        except RequirementFailed:
            memories = core.store.find(scope, Query(Memory, (OneOf("id", ids),))).records
    return 0, 0
