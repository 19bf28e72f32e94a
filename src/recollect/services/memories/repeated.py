"""The same said again: recognised, and merged into the memory that is there by a stated rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from recollect.domain.memory import (
    Embedding,
    Memory,
    Relationship,
    Revision,
    Tag,
)
from recollect.domain.provenance import Citation
from recollect.errors import (
    Conflict,
)
from recollect.ports.query import OneOf, Order, Query, equal
from recollect.ports.steps import Step
from recollect.services.memories.attachment_limits import refuse_more
from recollect.services.memories.draft import Draft, Hanging, RememberRequest, citation_mark
from recollect.services.memories.embedded_records import embedded_memory
from recollect.services.memories.embeddings import PassageVector, embeddings
from recollect.services.memories.revise import Receipt, change_steps, current
from recollect.services.tenant import Tenant
from recollect.services.transaction import citations_of


def already_known(tenant: Tenant, drafts: Sequence[Draft]) -> dict[str, Memory | Draft]:
    """Which drafts repeat a stored memory, or an earlier draft of the same call."""
    repeated: dict[str, Memory | Draft] = {}
    keys = tuple(d.memory.idempotency_key for d in drafts if d.memory.idempotency_key)
    by_key = {
        m.idempotency_key: m for m in _find(tenant, Query(Memory, (OneOf("idempotency_key", keys),), deleted="yes"))
    }
    identities = tuple(d.memory.identity for d in drafts if d.request.is_merged())
    by_identity = {m.identity: m for m in _find(tenant, Query(Memory, (OneOf("identity", identities), *current())))}
    earlier: dict[str, Draft] = {}
    for draft in drafts:
        memory, key = draft.memory, draft.memory.idempotency_key
        found: Memory | Draft | None = None
        if key and key in by_key:
            found = _same_request(tenant, draft, by_key[key])
        elif key and key in earlier:
            found = earlier[key]
        elif draft.request.is_merged():
            found = by_identity.get(memory.identity) or earlier.get(memory.identity)
        if found is not None:
            repeated[memory.id] = found
        for mark in (key, memory.identity if draft.request.is_merged() else None):
            if mark:
                earlier.setdefault(mark, draft)
    return repeated


def _find(tenant: Tenant, query: Query[Memory]) -> list[Memory]:
    asked = query.where[0]
    return tenant.find(query).records if isinstance(asked, OneOf) and asked.values else []


def _same_request(tenant: Tenant, draft: Draft, stored: Memory) -> Memory:
    """The key's memory, if it began as what is asked for now; it may have been revised since."""
    first = tenant.find(Query(Revision, (equal("memory_id", stored.id),), (Order("number"),), limit=1))
    began_as = first.records[0].state["content_hash"] if first.records else stored.content_hash
    if began_as != draft.memory.content_hash:
        raise Conflict(
            "that idempotency key was used for another memory", remedy="use a new key for new content", id=stored.id
        )
    return stored


_WIDTH = {"task": 0, "project": 1, "global": 2}


def merged_into(
    repeated: Sequence[tuple[Draft, Memory | Draft]],
) -> tuple[dict[str, dict[str, Any]], dict[str, Memory]]:
    """What each repetition changes of the memory it repeats, several of one call building on each other; and how those
    memories stand after all of them.
    """
    stands: dict[str, Memory] = {}
    changes: dict[str, dict[str, Any]] = {}
    for draft, known in repeated:
        first = known.memory if isinstance(known, Draft) else known
        memory = stands.get(first.id, first)
        key = draft.memory.idempotency_key
        if memory.is_deleted or not draft.request.is_merged() or (key is not None and key == memory.idempotency_key):
            continue  # the same request once more, by its key: its first answer stands
        changes[draft.memory.id] = fields = _richer(memory, draft.request)
        stands[first.id] = memory.changed(**fields)
    return changes, stands


def _richer(memory: Memory, request: RememberRequest) -> dict[str, Any]:
    """The rule of merging, for what was said and not left out: the wider scope, the higher of each number, metadata
    joined with the newer value where both have one; level and source agent where there was none of their own.
    """
    said = request.model_fields_set
    wanted: dict[str, Any] = {name: max(getattr(memory, name), getattr(request, name)) for name in _HIGHER & said}
    if "scope" in said:
        wanted["scope"] = max(memory.scope, request.scope, key=_WIDTH.__getitem__)
    if "metadata" in said:
        wanted["metadata"] = {**memory.metadata, **request.metadata}
    if "level" in said and memory.level == "item":
        wanted["level"] = request.level
    if "source_agent" in said and memory.source_agent is None:
        wanted["source_agent"] = request.source_agent
    return {name: value for name, value in sorted(wanted.items()) if value != getattr(memory, name)}


_HIGHER = frozenset({"priority", "confidence", "importance"})


_MERGED = (*sorted(_HIGHER), "scope", "metadata", "level", "source_agent")


def change_known(
    tenant: Tenant, repeated: Sequence[tuple[Draft, Memory | Draft]], stands: Mapping[str, Memory]
) -> list[Step]:
    """Stored memories are changed once for all that repeat them in this call; their former state is kept."""
    known = {one.id: one for _, one in repeated if isinstance(one, Memory) and one.id in stands}
    steps: list[Step] = []
    for memory in known.values():
        fields = {
            name: value for name in _MERGED if (value := getattr(stands[memory.id], name)) != getattr(memory, name)
        }
        steps += change_steps(tenant, memory, "revised", "remembered again", **fields) if fields else []
    return steps


def added_to_known(
    tenant: Tenant, repeated: Sequence[tuple[Draft, Memory | Draft]]
) -> dict[str, tuple[Memory, list[Hanging | Embedding]]]:
    """A duplicate is not stored twice, but its evidence, tags, links and vector are added to what is known, once."""
    added: dict[str, tuple[Memory, list[Hanging | Embedding]]] = {}
    had: dict[str, set[str]] = {}
    held: dict[str, Counter[type[Hanging]]] = {}
    for draft, known in repeated:
        memory = known.memory if isinstance(known, Draft) else known
        stored = known.hangs_on_it() if isinstance(known, Draft) else _hanging(tenant, known.id)
        marks = had.setdefault(memory.id, {_mark(record) for record in stored})
        new = [] if memory.is_deleted else [one for one in draft.hangs_on_it() if _mark(one) not in marks]
        counts = held.setdefault(memory.id, Counter(type(record) for record in stored))
        for kind, more in Counter(type(record) for record in new).items():
            refuse_more(kind, counts[kind], more)
            counts[kind] += more
        marks.update(map(_mark, new))
        vectors = [] if memory.is_deleted or not draft.given else _new_vectors(tenant, draft, known)
        added[draft.memory.id] = memory, [*(_hung_on(record, memory.id) for record in new), *vectors]
    return added


def _new_vectors(tenant: Tenant, draft: Draft, known: Memory | Draft) -> list[Embedding]:
    """The vector that came with a duplicate, if what is known has none by that model."""
    memory = known.memory if isinstance(known, Draft) else known
    if isinstance(known, Draft):
        models = {*known.given, *(embedder.model for embedder in tenant.embedders)}
    else:
        stored = tenant.select(Query(Embedding, (equal("memory_id", memory.id),)), ("model",))
        models = {model for (model,) in stored}
    return [
        record
        for model, vector in draft.given.items()
        if model not in models
        for record in embeddings(embedded_memory(memory), model, [PassageVector(vector)], given=True)
    ]


def _hanging(tenant: Tenant, memory_id: str) -> list[Hanging]:
    tags = tenant.find(Query(Tag, (equal("memory_id", memory_id),))).records
    links = tenant.find(Query(Relationship, (equal("source_id", memory_id),))).records
    return [*citations_of(tenant, memory_id), *tags, *links]


def _hung_on(record: Hanging, memory_id: str) -> Hanging:
    field = "source_id" if isinstance(record, Relationship) else "memory_id"
    hung: Hanging = record.changed(**{field: memory_id})
    return hung


def _mark(record: Hanging) -> str:
    """What makes something that hangs on a memory the same as another of its kind."""
    if isinstance(record, Tag):
        return f"tag {record.tag}"
    if isinstance(record, Relationship):
        return f"link {record.type} {record.target_id}"
    return f"citation {citation_mark(record)}"


def seen_again(memory: Memory, added: Sequence[Hanging | Embedding], merged: list[str], seq: int) -> Receipt:
    vectors = dict.fromkeys(f"vector:{record.model}" for record in added if isinstance(record, Embedding))
    return Receipt(
        id=memory.id,
        version=memory.version + bool(merged),
        status=memory.status,
        content_hash=memory.content_hash,
        duplicate=True,
        merged=merged,
        tags=sum(isinstance(record, Tag) for record in added),
        citations=sum(isinstance(record, Citation) for record in added),
        links=sum(isinstance(record, Relationship) for record in added),
        indexed=list(vectors),
        vectors=len(vectors),
        seq=seq if added or merged else 0,
    )
