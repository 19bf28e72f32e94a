"""The stored vectors of a memory, by hand: added under the name of the model that made them, listed, removed.

Several models stand side by side: a memory has the vectors of each, and `recall` with a vector and its model searches
those. A vector that is added takes the place of what the memory has by that model. services/memories/embeddings.py says
how long it stays.
"""

from __future__ import annotations

from datetime import datetime

import numpy as np
from pydantic import Field

from recollect.domain.memory import Embedding, IndexTask, Memory, MemoryNamespace
from recollect.domain.record import Id, Name, Vector
from recollect.errors import InvalidInput, NotFound
from recollect.ports.query import Filter, Order, Query, equal
from recollect.ports.steps import DeleteWhere, Insert, Require, Step
from recollect.services.memories.embedded_records import embedded_memory
from recollect.services.memories.embeddings import PassageVector, check_lengths, embeddings, given_vector
from recollect.services.requests import PageReply, Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.transaction import commit, load, logged


class EmbeddingView(Reply):
    """A stored vector."""

    memory: str
    model: str
    namespace: str
    dimensions: int
    given: bool = Field(description="Whether it was given; else a model of the store made it")
    part: int = Field(0, description="The number of the passage it is of")
    start: int | None = Field(None, description="Where the passage starts in the text")
    end: int | None = Field(None, description="Where it ends")
    created_at: datetime
    vector: list[float] | None = Field(None, description="Of unit length; with `vectors` only")


class EmbeddingList(PageReply[EmbeddingView]):
    """The stored vectors of a memory."""

    embeddings: list[EmbeddingView]


class MemoryEmbeddingRequest(Request):
    """The vectors of a memory."""

    id: Id = Field(description="The memory")


class AddEmbeddingRequest(MemoryEmbeddingRequest):
    """A vector for a memory."""

    vector: Vector = Field(description="The vector; it is stored with unit length")
    model: Name = Field(description="The name of the model that made it")
    namespace: MemoryNamespace | None = Field(None, description="One namespace of the memory; all of them by default")


def add_embedding(tenant: Tenant, request: AddEmbeddingRequest) -> EmbeddingList:
    """Store a vector of a memory under the name of its model. It takes the place of those by the same model."""
    memory = load(tenant, Memory, request.id)
    if request.namespace is not None and request.namespace not in memory.namespaces:
        raise InvalidInput(
            f"that memory is not in the namespace '{request.namespace}'",
            remedy=f"use one of {', '.join(memory.namespaces)}",
        )
    given = given_vector(tenant, request.vector, request.model)
    namespaces = [request.namespace] if request.namespace is not None else memory.namespaces
    check_lengths(tenant, [(given, namespaces)])
    made = [
        one
        for one in embeddings(embedded_memory(memory), request.model, [PassageVector(given[request.model])], given=True)
        if one.namespace in namespaces
    ]
    steps: list[Step] = [Require(Memory, memory.id, {"content_hash": memory.content_hash})]
    for namespace in namespaces:
        steps += _dropping(memory, request.model, namespace)
    entry = logged(tenant, "update", "embedding.add", memory, model=request.model)
    commit(tenant, [*steps, *(Insert(one) for one in made), entry])
    return EmbeddingList(embeddings=[_view(one, whole=False) for one in made])


class ListEmbeddingsRequest(MemoryEmbeddingRequest):
    """Which vectors of a memory to list."""

    model: Name | None = Field(None, description="Only those by this model")
    namespace: MemoryNamespace | None = Field(None, description="Only those in this namespace")
    vectors: bool = Field(False, description="With the numbers themselves")


def list_embeddings(tenant: Tenant, request: ListEmbeddingsRequest) -> EmbeddingList:
    """The stored vectors of a memory, by model and namespace."""
    memory = load(tenant, Memory, request.id)
    where = _of(memory, request.model, request.namespace)
    order = tuple(Order(name) for name in ("model", "namespace", "part"))
    found = tenant.find(Query(Embedding, where, order)).records
    return EmbeddingList(embeddings=[_view(one, whole=request.vectors) for one in found])


class RemoveEmbeddingRequest(MemoryEmbeddingRequest):
    """Which vectors of a memory to remove."""

    model: Name = Field(description="Those by this model")
    namespace: MemoryNamespace | None = Field(None, description="Only in this namespace; in all of them by default")


class RemovedEmbeddings(Reply):
    """How many were removed."""

    removed: int
    notes: list[str] = Field(default_factory=list)


def remove_embedding(tenant: Tenant, request: RemoveEmbeddingRequest) -> RemovedEmbeddings:
    """Remove the vectors of a memory by one model. Those of a model of the store itself are made again by `reindex`."""
    memory = load(tenant, Memory, request.id)
    count = tenant.count(Query(Embedding, _of(memory, request.model, request.namespace)))
    if not count:
        raise NotFound(f"that memory has no vectors by '{request.model}'", remedy="see embedding.list", id=memory.id)
    entry = logged(tenant, "update", "embedding.remove", memory, model=request.model)
    commit(tenant, [*_dropping(memory, request.model, request.namespace), entry])
    own = any(embedder.model == request.model for embedder in tenant.embedders)
    return RemovedEmbeddings(removed=count, notes=["`reindex` makes them again"] if own else [])


def _dropping(memory: Memory, model: str, namespace: str | None) -> list[Step]:
    where = _of(memory, model, namespace)
    return [DeleteWhere(Embedding, where), DeleteWhere(IndexTask, where)]


def _of(memory: Memory, model: str | None, namespace: str | None) -> tuple[Filter, ...]:
    wanted = {"memory_id": memory.id, "source_id": None, "model": model, "namespace": namespace}
    return tuple(equal(name, value) for name, value in wanted.items() if value is not None or name == "source_id")


def _view(one: Embedding, *, whole: bool) -> EmbeddingView:
    vector = np.frombuffer(one.vector, dtype="<f2").astype(float).tolist() if whole else None
    shown = one.model_dump(include=set(EmbeddingView.model_fields) - {"vector"})
    return EmbeddingView(memory=one.memory_id, vector=vector, **shown)
