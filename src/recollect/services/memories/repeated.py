"""The same said again: recognised, and merged into the memory that is there by a stated rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
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
from recollect.services.memories.draft import Draft, Hanging, RememberRequest, citation_mark, memory_of
from recollect.services.memories.embedded_records import embedded_memory
from recollect.services.memories.embeddings import PassageVector, embeddings, reindex_steps
from recollect.services.memories.revise import Receipt, current, kept_steps
from recollect.services.memories.supersession import SUPERSEDES
from recollect.services.tenant import Tenant


def already_known(tenant: Tenant, drafts: Sequence[Draft]) -> list[Memory | Draft | None]:
    """What each draft repeats: a stored memory, or an earlier draft of the same call; None for what is new."""
    repeated: list[Memory | Draft | None] = []
    keys = tuple(d.memory.idempotency_key for d in drafts if d.memory.idempotency_key)
    by_key = {
        m.idempotency_key: m for m in _find(tenant, Query(Memory, (OneOf("idempotency_key", keys),), deleted="yes"))
    }
    identities = tuple(d.memory.identity for d in drafts if d.request.is_merged())
    alike = _find(tenant, Query(Memory, (OneOf("identity", identities), *current()), any_order=True))
    # Of several that were kept, the newest.
    by_identity = {one.identity: one for one in sorted(alike, key=lambda one: (one.created_at, one.id))}
    began_as = _first_hashes(tenant, by_key.values())
    earlier: dict[str, Memory | Draft] = {}  # what is stored for a key or an identity of this call
    for draft in drafts:
        memory, key = draft.memory, draft.memory.idempotency_key
        found: Memory | Draft | None = None
        if key and key in by_key:
            found = by_key[key]
            _refuse_another(draft, found.id, began_as[found.id])
        elif key and key in earlier:
            found = earlier[key]
            first = memory_of(found)
            _refuse_another(draft, first.id, first.content_hash)
        elif draft.request.is_merged():
            found = earlier.get(memory.identity) or by_identity.get(memory.identity)
        repeated.append(found)
        if found is None:
            earlier[memory.identity] = draft  # of several that were kept, the newest is repeated
        if key:
            earlier.setdefault(key, draft if found is None else found)
    return repeated


def _find(tenant: Tenant, query: Query[Memory]) -> list[Memory]:
    asked = query.where[0]
    return tenant.find(query).records if isinstance(asked, OneOf) and asked.values else []


def _first_hashes(tenant: Tenant, memories: Collection[Memory]) -> dict[str, str]:
    """The content hash that each of these had when it was stored; it may have been revised since.

    Most that were revised have a revision of their first state. What an erased person or run took out of a memory
    leaves none, and those that came after it begin with a higher number.
    """
    hashes = {memory.id: memory.content_hash for memory in memories}
    revised = {memory.id for memory in memories if memory.version > 1}
    for number in ([equal("number", 1)], []):
        asked = (OneOf("memory_id", tuple(revised)), *number)
        found = tenant.find(Query(Revision, asked, (Order("number", True),))).records if revised else []
        hashes |= {one.memory_id: one.state["content_hash"] for one in found}
        revised -= {one.memory_id for one in found}
    return hashes


def _refuse_another(draft: Draft, id: str, began_as: str) -> None:
    """A key is for one request: its memory must have begun as what is asked for now."""
    if began_as != draft.memory.content_hash:
        raise Conflict(
            "that idempotency key was used for another memory", remedy="use a new key for new content", id=id
        )


_WIDTH = {"task": 0, "project": 1, "global": 2}


def merged_into(
    repeated: Sequence[tuple[Draft, Memory | Draft]],
) -> tuple[list[dict[str, Any]], dict[str, Memory]]:
    """What each repetition changes of the memory it repeats, several of one call building on each other; and how those
    memories stand after all of them.
    """
    stands: dict[str, Memory] = {}
    changes: list[dict[str, Any]] = []
    for draft, known in repeated:
        first = memory_of(known)
        memory = stands.get(first.id, first)
        key = draft.memory.idempotency_key
        if memory.is_deleted or not draft.request.is_merged() or (key is not None and key == memory.idempotency_key):
            changes.append({})  # the same request once more, by its key: its first answer stands
            continue
        changes.append(_richer(memory, draft.request))
        stands[first.id] = memory.changed(**changes[-1])
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
) -> tuple[dict[str, Memory], list[Step]]:
    """Stored memories are changed once for all that repeat them in this call, and their former state is kept; how those
    that change stand after it.
    """
    known = {one.id: one for _, one in repeated if isinstance(one, Memory) and one.id in stands}
    steps: list[Step] = []
    changed: dict[str, Memory] = {}
    for memory in known.values():
        fields = {
            name: value for name in _MERGED if (value := getattr(stands[memory.id], name)) != getattr(memory, name)
        }
        if fields:
            after, kept = kept_steps(tenant, memory, "revised", "remembered again", **fields)
            steps += [*kept, *reindex_steps(tenant, memory, after)]
            changed[memory.id] = after.changed(version=memory.version + 1)
    return changed, steps


def added_to_known(
    tenant: Tenant, repeated: Sequence[tuple[Draft, Memory | Draft]], stands: Mapping[str, Memory]
) -> list[list[Hanging | Embedding]]:
    """A duplicate is not stored twice, but its evidence, tags, links and vector are added to what is known, once."""
    added: list[list[Hanging | Embedding]] = []
    had: dict[str, set[str]] = {}
    held: dict[str, Counter[type[Hanging]]] = {}
    hanging, models = _hanging(tenant, repeated), _models(tenant, repeated)
    for draft, known in repeated:
        memory = memory_of(known)
        stored = known.hangs_on_it() if isinstance(known, Draft) else hanging.get(known.id, [])
        marks = had.setdefault(memory.id, {_mark(record) for record in stored})
        brought = [] if memory.is_deleted else [_hung_on(one, memory.id) for one in draft.hangs_on_it()]
        new = [one for one in brought if _mark(one) not in marks and not _is_in_vain(one)]
        counts = held.setdefault(memory.id, Counter(type(record) for record in stored))
        for kind, more in Counter(type(record) for record in new).items():
            refuse_more(kind, counts[kind], more)
            counts[kind] += more
        marks.update(map(_mark, new))
        now = stands.get(memory.id, memory)
        vectors = _new_vectors(draft, now, models[memory.id]) if draft.given and not memory.is_deleted else []
        models.get(memory.id, set()).update(vector.model for vector in vectors)
        added.append([*new, *vectors])
    return added


def _models(tenant: Tenant, repeated: Sequence[tuple[Draft, Memory | Draft]]) -> dict[str, set[str]]:
    """Of which models what is known has a vector, of each that is given one again."""
    given = [known for draft, known in repeated if draft.given]
    own = {embedder.model for embedder in tenant.embedders}
    models = {known.memory.id: {*known.given, *own} for known in given if isinstance(known, Draft)}
    stored = tuple({known.id: None for known in given if isinstance(known, Memory)})
    models |= {id: set() for id in stored}
    if stored:
        for id, model in tenant.select(Query(Embedding, (OneOf("memory_id", stored),)), ("memory_id", "model")):
            models[id].add(model)
    return models


def _new_vectors(draft: Draft, memory: Memory, models: Collection[str]) -> list[Embedding]:
    """The vector that came with a duplicate, if what is known has none by that model, and still the same text."""
    if memory.content_hash != draft.memory.content_hash:  # known by its key, and revised since
        return []
    return [
        record
        for model, vector in draft.given.items()
        if model not in models
        for record in embeddings(embedded_memory(memory), model, [PassageVector(vector)], given=True)
    ]


def _hanging(tenant: Tenant, repeated: Sequence[tuple[Draft, Memory | Draft]]) -> dict[str, list[Hanging]]:
    """What hangs on the stored memories, of each kind of which something is brought again: a statement a kind."""
    hanging: dict[str, list[Hanging]] = {}
    for record, field in _HANGS_BY.items():
        brought = {
            known.id: None
            for draft, known in repeated
            if isinstance(known, Memory) and any(type(one) is record for one in draft.hangs_on_it())
        }
        found = tenant.find(Query(record, (OneOf(field, tuple(brought)),))).records if brought else []
        for one in found:
            hanging.setdefault(getattr(one, field), []).append(one)
    return hanging


_HANGS_BY: dict[type[Hanging], str] = {Citation: "memory_id", Tag: "memory_id", Relationship: "source_id"}


def _hung_on(record: Hanging, memory_id: str) -> Hanging:
    hung: Hanging = record.changed(**{_HANGS_BY[type(record)]: memory_id})
    return hung


def _is_in_vain(record: Hanging) -> bool:
    """A link of a memory with itself; or that it replaces another, which it has not done when it was stored."""
    if not isinstance(record, Relationship):
        return False
    return record.source_id == record.target_id or record.type == SUPERSEDES


def _mark(record: Hanging) -> str:
    """What makes something that hangs on a memory the same as another of its kind."""
    if isinstance(record, Tag):
        return f"tag {record.tag}"
    if isinstance(record, Relationship):
        return f"link {record.type} {record.target_id}"
    return f"citation {citation_mark(record)}"


def seen_again(
    memory: Memory, added: Sequence[Hanging | Embedding], merged: list[str], version: int, seq: int
) -> Receipt:
    """`version` is that of the memory after the call."""
    vectors = dict.fromkeys(f"vector:{record.model}" for record in added if isinstance(record, Embedding))
    return Receipt(
        id=memory.id,
        version=version,
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
