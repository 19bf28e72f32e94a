"""Remember: validate a memory, cite its sources, recognise it if it is already known, and commit it whole.

The memory, its tags, citations, links, vectors (or the note that they are owed) and the audit entry are one
transaction; the receipt says what is stored, what is indexed and what is queued. Revising keeps the whole former
state as a revision.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

from pydantic import Field, field_validator

from recollect.domain.memory import TRUSTED, Memory, Relationship, Status
from recollect.errors import (
    Conflict,
    DuplicateKey,
    ReferenceMissing,
    RequirementFailed,
    VersionConflict,
)
from recollect.ports.query import Compare, OneOf, Query, equal
from recollect.ports.steps import Absent, Insert, Step, Update
from recollect.services.memories.draft import DERIVING, Draft, RememberRequest, draft_of, memory_of, superseded_by
from recollect.services.memories.embedded_records import embedded_memory
from recollect.services.memories.embeddings import (
    IndexingResult,
    check_lengths,
    index_steps,
)
from recollect.services.memories.kinds import declared_kinds, is_undeclared, still_declared
from recollect.services.memories.repeated import added_to_known, already_known, change_known, merged_into, seen_again
from recollect.services.memories.revise import Receipt, current
from recollect.services.memories.supersession import end_steps, refuse_replaced
from recollect.services.requests import Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.times import read_zones
from recollect.services.transaction import AuditEntries, commit, load, logged

MOST_AT_ONCE = 10_000
TRIES, TRIES_AMONG_OTHERS = 4, 16


class RememberManyRequest(Request):
    """Many memories, stored together or not at all."""

    memories: list[RememberRequest] = Field(
        max_length=MOST_AT_ONCE, description="Each a text, or the fields of `remember`"
    )

    @field_validator("memories", mode="before")
    @classmethod
    def _from_plain_text(cls, memories: Any) -> Any:
        if not isinstance(memories, list | tuple):
            return memories
        return [{"content": one} if isinstance(one, str) else one for one in memories]


class RememberManyReply(Reply):
    receipts: list[Receipt]


def remember(tenant: Tenant, request: RememberRequest) -> Receipt:
    """Store one memory with its citations, tags and links."""
    return _remember_all(tenant, [request])[0]


def remember_many(
    tenant: Tenant, request: RememberManyRequest, progress: Callable[[int, int], None] | None = None
) -> RememberManyReply:
    """Store many memories at once: all of them, or none."""
    if progress is None:
        return RememberManyReply.of_valid({"receipts": _remember_all(tenant, request.memories)})
    total = len(request.memories)
    meter = _EmbeddingMeter(progress, total, max(1, len(tenant.embedders)))
    receipts = _remember_all(tenant, request.memories, meter.add)
    progress(total, total)
    return RememberManyReply.of_valid({"receipts": receipts})


class _EmbeddingMeter:
    """How many memories have their vectors, of every model. The last is not counted before all are committed: until
    then none is stored.
    """

    def __init__(self, progress: Callable[[int, int], None], total: int, models: int) -> None:
        self._progress, self._total, self._models, self._made = progress, total, models, 0

    def add(self, count: int) -> None:
        self._made += count
        self._progress(min(self._made // self._models, self._total - 1), self._total)


Done = Callable[[int], None] | None


def _remember_all(tenant: Tenant, requests: Sequence[RememberRequest], done: Done = None) -> list[Receipt]:
    lookup = tenant.citation_lookup(tenant.scope, None) if any(one.cites for one in requests) else None
    kinds = declared_kinds(tenant, [one.kind for one in requests])
    read_zones(tenant, {one.user for one in requests if one.user is not None})
    drafts = [draft_of(tenant, one, lookup, kinds) for one in requests]
    check_lengths(tenant, [(draft.given, draft.memory.namespaces) for draft in drafts if draft.given])
    return _Storing(tenant, drafts, done).receipts()


def fresh_steps(tenant: Tenant, request: RememberRequest, status: Status = "hypothesis") -> tuple[Memory, list[Step]]:
    """A new memory and the steps that store it, for services that commit more along with it."""
    draft = draft_of(tenant, request)
    draft.memory = draft.memory.changed(status=status)
    return draft.memory, _fresh_steps(tenant, [draft]) + _indexed(tenant, [draft])[0]


def remembering(tenant: Tenant, request: RememberRequest, cycle: str | None) -> tuple[list[Step], str]:
    """The steps that store a memory of what a cycle brought, to commit with the cycle's result, and the memory's id.

    No steps if it is known already. Which cycle it came from is no part of what it is: an agent that sees the same
    result a thousand times remembers it once.
    """
    draft = draft_of(tenant, request)
    (known,) = already_known(tenant, [draft])
    if known is not None:
        return [], memory_of(known).id
    draft.memory = draft.memory.changed(cycle_id=cycle)
    return _fresh_steps(tenant, [draft]) + _indexed(tenant, [draft])[0], draft.memory.id


class _Storing:
    """The drafts of one call, until all of them are stored, or none."""

    def __init__(self, tenant: Tenant, drafts: Sequence[Draft], done: Done) -> None:
        self._tenant, self._drafts, self._done = tenant, drafts, done
        self._links = [draft.links for draft in drafts]
        # A model that is paid for need not make the same vectors again because others were quicker.
        self._vectors: dict[tuple[tuple[str, str], ...], tuple[list[Step], list[IndexingResult]]] = {}
        self._added_to: set[str] = set()
        """Stored memories that get something more, if they still say what they said."""

    def receipts(self, tries: int = 1) -> list[Receipt]:
        # One memory is mostly new, and the write finds out if it is not; many may repeat each other, and what replaces
        # another may be said once more when it has.
        looked = len(self._drafts) > 1 or tries > 1 or _may_have_replaced(self._drafts)
        nothing = [None] * len(self._drafts)
        try:
            return self._stored(already_known(self._tenant, self._drafts) if looked else nothing)
        except (RequirementFailed, DuplicateKey, VersionConflict, ReferenceMissing) as conflict:
            is_of_others = self._is_of_others(conflict)
            most = TRIES_AMONG_OTHERS if is_of_others else TRIES
            if tries >= most or (looked and "id" in conflict.details.get("fields", [])):
                raise _explained(conflict, is_of_others) from None
        # Somebody stored, replaced or forgot the same between our look and our write: look again.
        for draft in self._drafts:
            draft.superseded = superseded_by(self._tenant, draft.request)
        return self.receipts(tries + 1)

    def _is_of_others(self, conflict: Conflict) -> bool:
        """Whether others changed what this call repeats, or hung on it what this call brings, too: of many memories
        that others import as well, somebody changes one between each look and the write. What is refused for another
        reason is refused again: what it refers to is not there, or a key is taken that the caller cannot see.
        """
        if isinstance(conflict, DuplicateKey):
            return not {"id", "idempotency_key"} & set(conflict.details.get("fields", []))
        return isinstance(conflict, VersionConflict) or conflict.details.get("id") in self._added_to

    def _stored(self, known: Sequence[Memory | Draft | None]) -> list[Receipt]:
        """One transaction: the new memories, and what the repeated ones add to those that are known."""
        tenant = self._tenant
        self._link(known)
        repeated = [(draft, one) for draft, one in zip(self._drafts, known, strict=True) if one is not None]
        merged, stands = merged_into(repeated)
        changed, changes = change_known(tenant, repeated, stands)
        fresh = self._fresh(known, stands, changed)
        new = _fresh_steps(tenant, fresh)
        vectors, indexed = self._indexed(fresh)
        added = added_to_known(tenant, repeated, stands)
        steps = [*self._unchanged(repeated, added, changed), *changes, *new, *vectors]
        for (_, one), records in zip(repeated, added, strict=True):
            if records:
                entry = logged(tenant, "update", "remember again", memory_of(one))
                steps += [*(Insert(record) for record in records), entry]
        seq = commit(tenant, steps) if steps else 0
        written = Counter(one.record.id for one in steps if isinstance(one, Update) and isinstance(one.record, Memory))
        again = (
            seen_again(memory_of(one), records, list(fields) if _is_merged(one, changed) else [],
                       memory_of(one).version + written[memory_of(one).id], seq)
            for (_, one), records, fields in zip(repeated, added, merged, strict=True)
        )  # fmt: skip
        first = (_receipt(draft, became, seq) for draft, became in zip(fresh, indexed, strict=True))
        return [next(first if one is None else again) for one in known]

    def _link(self, known: Sequence[Memory | Draft | None]) -> None:
        """What is linked to an id of this call that no memory gets is linked to what that memory turned out to be."""
        if not any(self._links):
            return
        both = list(zip(self._drafts, known, strict=True))
        others = {
            draft.memory.id: memory_of(one).id
            for draft, one in both
            if draft.request.id is not None and one is not None and not memory_of(one).is_deleted
        }
        if others:
            of_them = Query(Memory, (OneOf("id", tuple(others)),), deleted="yes")
            there = {id for (id,) in self._tenant.select(of_them, ("id",))}
            there |= {draft.memory.id for draft, one in both if one is None}
            others = {id: other for id, other in others.items() if id not in there}
        for draft, links in zip(self._drafts, self._links, strict=True):
            # The content of some kinds names the same memories.
            draft.links = links if draft.memory.kind in DERIVING else _linked_to(links, others)

    def _fresh(
        self, known: Sequence[Memory | Draft | None], stands: Mapping[str, Memory], changed: Mapping[str, Memory]
    ) -> list[Draft]:
        """The new memories, as they are with what is said of them later in the call. What they replace is changed
        first, if the call repeats it, too.
        """
        said_again = {id(one) for one in known if isinstance(one, Draft)}
        fresh: list[Draft] = []
        for draft, one in zip(self._drafts, known, strict=True):
            if one is not None:
                continue
            old = draft.superseded
            if id(draft) in said_again or (old is not None and old.id in changed):
                memory = stands.get(draft.memory.id, draft.memory) if id(draft) in said_again else draft.memory
                draft = replace(draft, memory=memory, superseded=old and changed.get(old.id, old))
            fresh.append(draft)
        return fresh

    def _unchanged(
        self,
        repeated: Sequence[tuple[Draft, Memory | Draft]],
        added: Sequence[Sequence[object]],
        changed: Mapping[str, Memory],
    ) -> list[Step]:
        """What is added to a memory is evidence for what it says: nobody has revised it since."""
        known = {
            one.id: one.version
            for (_, one), records in zip(repeated, added, strict=True)
            if records and isinstance(one, Memory) and one.id not in changed
        }
        self._added_to = set(known)
        by_version = sorted(known.items(), key=itemgetter(1))  # a store may ask for all of one version at once
        return [Absent(Memory, (equal("id", id), Compare("version", "!=", version))) for id, version in by_version]

    def _indexed(self, fresh: Sequence[Draft]) -> tuple[list[Step], list[IndexingResult]]:
        these = tuple((draft.memory.id, draft.memory.scope) for draft in fresh)  # a repetition may widen the scope
        if these not in self._vectors:
            self._vectors[these] = _indexed(self._tenant, fresh, self._done)
        return self._vectors[these]


def _is_merged(known: Memory | Draft, changed: Mapping[str, Memory]) -> bool:
    """Whether what was merged is written: several repetitions of one call may leave a memory as it was."""
    return isinstance(known, Draft) or known.id in changed


def _may_have_replaced(drafts: Sequence[Draft]) -> bool:
    return any(draft.request.supersedes is not None and draft.memory.idempotency_key for draft in drafts)


def _linked_to(links: Sequence[Relationship], others: Mapping[str, str]) -> list[Relationship]:
    """Each once, and none of a memory with itself."""
    if not any(link.target_id in others for link in links):
        return list(links)
    moved = [link.changed(target_id=others.get(link.target_id, link.target_id)) for link in links]
    return list({(link.target_id, link.type): link for link in moved if link.target_id != link.source_id}.values())


def _refuse_replaced(tenant: Tenant, drafts: Sequence[Draft]) -> None:
    """A memory is replaced once. A trusted one is not yet: it waits for which of them is promoted."""
    replaced: set[str] = set()
    for draft in drafts:
        if draft.request.supersedes is None:
            continue
        old = draft.superseded = draft.superseded or load(tenant, Memory, draft.request.supersedes)
        refuse_replaced(tenant, old)
        if old.id in replaced and old.status not in TRUSTED:
            raise Conflict(
                "two memories of this call replace the same one",
                remedy="let the later one replace the earlier one, in a second call",
                id=old.id,
            )
        replaced.add(old.id)


def _fresh_steps(tenant: Tenant, drafts: Sequence[Draft]) -> list[Step]:
    """The steps that store new memories, without their vectors."""
    if not drafts:
        return []
    _refuse_replaced(tenant, drafts)
    kinds = {draft.kind.id: draft.kind for draft in drafts if draft.kind is not None}
    steps = [*still_declared(kinds.values()), *_none_known(drafts)]
    entries = AuditEntries(tenant, "create", "remember")
    steps += [step for draft in drafts for step in _memory_steps(tenant, draft, entries)]
    # Links may point at memories of the same call, so all memories come first.
    return steps + [Insert(link) for draft in drafts for link in draft.links]


def _indexed(tenant: Tenant, drafts: Sequence[Draft], done: Done = None) -> tuple[list[Step], list[IndexingResult]]:
    records = [embedded_memory(draft.memory) for draft in drafts]
    return index_steps(tenant, records, [draft.given for draft in drafts], done) if records else ([], [])


def _none_known(drafts: Sequence[Draft]) -> list[Step]:
    """None of these came to be known meanwhile; no two of them are alike, so a store may look for all at once."""
    alive = current()
    return [
        Absent(Memory, (equal("identity", draft.memory.identity), *alive))
        for draft in drafts
        if draft.request.is_merged()
    ]


def _memory_steps(tenant: Tenant, draft: Draft, entries: AuditEntries) -> list[Step]:
    memory = draft.memory
    steps: list[Step] = [Insert(memory)]
    steps += [Insert(record) for record in (*draft.tags, *draft.citations)]
    steps.append(entries.of(memory, content_hash=memory.content_hash, kind=memory.kind))
    if draft.superseded is not None:
        steps += end_steps(tenant, memory, draft.superseded)
    return steps


_UNDECLARED = ("its kind is not declared, and the settings accept any; declare it with kind.add",)


def _receipt(draft: Draft, indexed: IndexingResult, seq: int) -> Receipt:
    memory = draft.memory
    return Receipt.of_valid(
        {
            "id": memory.id,
            "version": memory.version,
            "status": memory.status,
            "content_hash": memory.content_hash,
            "tags": len(draft.tags),
            "citations": len(draft.citations),
            "links": len(draft.links),
            "indexed": indexed.names,
            "queued": indexed.queued,
            "vectors": indexed.vectors,
            "notes": [*indexed.notes, *(_UNDECLARED if is_undeclared(draft.kind) else ())],
            "seq": seq,
        }
    )


def _explained(conflict: Conflict, is_of_others: bool) -> Conflict:
    if isinstance(conflict, DuplicateKey) and "id" in conflict.details.get("fields", []):
        return DuplicateKey("there is a memory with that id already", remedy="revise it, or choose another id")
    if is_of_others:
        return VersionConflict(
            "others keep changing memories that this call repeats", remedy="try again, with fewer memories at once"
        )
    return conflict
