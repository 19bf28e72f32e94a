"""A memory changes: the new state, and the whole former one kept as a revision.

Every change of a memory goes through `change_steps`: the record, its revision, its vectors and the audit entry are
one transaction, whoever asks for it (a revision, a promotion, forgetting, supersession). What was generalised or
compressed from a memory is never trusted further than the memory itself: when that falls, `fallen_steps` go along.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal
from zoneinfo import ZoneInfo

from pydantic import Field, ValidationError, field_validator

from recollect.domain.kinds import TEXT_LIMIT, MemoryKind, describe, read_content
from recollect.domain.memory import (
    LINKS,
    TRUSTED,
    UTTERANCES,
    Change,
    Embedding,
    IndexTask,
    Memory,
    MemoryNamespace,
    MemoryScope,
    Relationship,
    Revision,
    Tag,
    content_hash,
    identity_of,
)
from recollect.domain.record import Id, Json, Name, Text, Vector, now
from recollect.domain.text.questions import moment_words
from recollect.errors import Conflict, InvalidInput, RequirementFailed, TooLarge, VersionConflict
from recollect.ports.query import AnyOf, Compare, Filter, IsNull, OneOf, Query, equal
from recollect.ports.records import revised
from recollect.ports.steps import Absent, DeleteWhere, Insert, Require, Step, Update
from recollect.services.memories.content_hashes import intact
from recollect.services.memories.embeddings import LATER, GivenVectors, check_lengths, given_vector, reindex_steps
from recollect.services.memories.kinds import declared_kinds
from recollect.services.request_limits import MOST_NAMESPACES, MOST_TAGS
from recollect.services.requests import Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.times import From, Through, zone_of
from recollect.services.transaction import commit, load, logged, made, tags_of


class Receipt(Reply):
    """What became of a memory: nothing in it is promised that is not already on disk."""

    id: str
    version: int
    status: str
    content_hash: str
    duplicate: bool = False
    merged: list[str] = Field(default_factory=list, description="What a duplicate changed of the memory it repeats")
    tags: int = 0
    citations: int = 0
    links: int = 0
    indexed: list[str] = Field(default_factory=list)
    queued: list[str] = Field(default_factory=list)
    vectors: int = Field(0, description="How many vectors were made or kept: a long text has one for each passage")
    notes: list[str] = Field(default_factory=list)
    seq: int = 0


class ReviseRequest(Request):
    """Change what a memory says or carries; what is left out stays. The former state is kept as a revision."""

    id: Id = Field(description="The memory to change")
    content: str | dict[str, Any] | None = Field(None, description="What it says now")
    why: Text = Field("", max_length=10_000, description="Why it changed")
    tags: list[str] | None = Field(None, max_length=MOST_TAGS, description="Its tags from now on")
    metadata: Json | None = Field(None, description="Its metadata from now on")
    confidence: float | None = Field(None, ge=0, le=1, description="How sure, 0 to 1")
    priority: int | None = Field(None, ge=1, le=10, description="1 to 10")
    importance: float | None = Field(None, ge=0, description="How much it matters")
    valid_from: From | None = Field(None, description="Since when it holds")
    valid_to: Through | None = Field(None, description="Until when it holds")
    expires_at: Through | None = Field(None, description="When to forget it")
    scope: MemoryScope | None = Field(None, description="How far it holds: task, project or global")
    level: Name | None = Field(None, description="How high it stands: item, stretch, session, day, project, …")
    namespaces: list[MemoryNamespace] | None = Field(
        None, min_length=1, max_length=MOST_NAMESPACES, description="Where it is searched from now on"
    )
    user: Id | None = Field(None, description="The user it belongs to; null for none, like the others below")
    agent: Id | None = Field(None, description="The agent it belongs to")
    session: Id | None = Field(None, description="The session it was made in")
    project: Id | None = Field(None, description="The project it belongs to")
    author: Text | None = Field(None, description="Who said it; a new claim, like new content")
    at: From | None = Field(None, description="When it was said or happened; a new claim, like new content")
    source_agent: Text | None = Field(None, description="Name of the agent that made it")
    vector: Vector | None = Field(None, description="The vector of what it says now; see vector_model")
    vector_model: Name | None = Field(None, description="The name of the model that made `vector`")
    version: int | None = Field(None, ge=1, description="Only if it still has this version")

    @field_validator("namespaces")
    @classmethod
    def _once(cls, namespaces: list[str] | None) -> list[str] | None:
        return namespaces and list(dict.fromkeys(namespaces))


def revise(tenant: Tenant, request: ReviseRequest) -> Receipt:
    """Change a memory and keep what it was. New content is a new claim: it starts as a hypothesis again."""
    memory = load(tenant, Memory, request.id)
    if request.version is not None and request.version != memory.version:
        memory = memory.changed(version=request.version)  # the store will say so, in one way for every writer
    fields = _wanted(tenant, memory, request)
    given = given_vector(tenant, request.vector, request.vector_model)
    check_lengths(tenant, [(given, fields.get("namespaces", memory.namespaces))])
    steps = _distinct_steps(tenant, memory, fields)
    if fields or given:
        steps += change_steps(tenant, memory, "revised", request.why, given, **fields)
    if fields.get("status", memory.status) != memory.status:
        steps += fallen_steps(tenant, [memory], "was revised")
    if request.tags is not None:
        steps += _retag_steps(tenant, memory, request.tags)
    if not steps:
        raise InvalidInput("nothing to change was given", remedy="give content, tags, metadata, …")
    if not (fields or given) and request.version is not None:  # tags alone make no new version, but may ask for one
        steps.insert(0, Require(Memory, memory.id, {"version": request.version}))
    try:
        seq = commit(tenant, steps)
    except RequirementFailed as failure:
        raise _explained(failure, memory, request) from None
    # What this call made of it, not what others made of it since: its version may be the base of the next change.
    return Receipt(
        id=memory.id,
        version=memory.version + 1 if fields or given else memory.version,
        status=fields.get("status", memory.status),
        content_hash=fields.get("content_hash", memory.content_hash),
        indexed=["text", *_spaces(steps, Embedding)] if fields or given else [],
        queued=_spaces(steps, IndexTask),
        vectors=_vectors(steps, memory),
        notes=_owed(steps),
        seq=seq,
    )


_ENDS = ("valid_from", "valid_to", "expires_at")
_KEPT = ("metadata", "confidence", "priority", "importance", "scope", "level", "namespaces", *_ENDS)
_OWNERS = ("user", "agent", "session", "project")
_EMPTIED = (*_ENDS, *_OWNERS, "author", "source_agent")
_SAID = ("content_hash", "author", "occurred_at")


def _wanted(tenant: Tenant, memory: Memory, request: ReviseRequest) -> dict[str, Any]:
    """The fields that change, with all that follows from them: identity, words of the moment, status."""
    named = {name: name for name in (*_KEPT, "author", "source_agent")}
    named |= {name: f"{name}_id" for name in _OWNERS}
    fields = {field: value for name, field in named.items() if (value := getattr(request, name)) is not None}
    # Said to be empty is not the same as left out.
    emptied = [name for name in _EMPTIED if name in request.model_fields_set and getattr(request, name) is None]
    fields |= {named[name]: None for name in emptied}
    if request.at is not None:
        words = moment_in_words(tenant, request.at, fields.get("user_id", memory.user_id))
        fields |= {"occurred_at": request.at, "moment": words}
    if request.content is not None:
        fields |= new_content(memory, request.content, declared_kinds(tenant, [memory.kind]).get(memory.kind))
    if not fields:
        return {}
    if any(fields.get(name, getattr(memory, name)) != getattr(memory, name) for name in _SAID):
        fields["status"] = "hypothesis"
    return identified(memory, **fields) if _IDENTIFYING & fields.keys() else fields


_IDENTIFYING = frozenset({*_SAID, "namespaces", *_ENDS, *(f"{name}_id" for name in _OWNERS)})


def _distinct_steps(tenant: Tenant, memory: Memory, fields: dict[str, Any]) -> list[Step]:
    """A memory must not become what another one is already, not even while we change it."""
    identity = fields.get("identity", memory.identity)
    if identity == memory.identity or memory.kind in UTTERANCES:
        return []
    same = (equal("identity", identity), Compare("id", "!=", memory.id), *current())
    known = tenant.find(Query(Memory, same, limit=1)).records
    if known:
        raise _same_as(memory, known[0].id)
    return [Absent(Memory, same)]


def _same_as(memory: Memory, other: str) -> Conflict:
    return Conflict(
        "another memory says exactly that already",
        remedy=f"let one stand for both: merge {other} {memory.id}",
        id=memory.id,
        other=other,
    )


def _explained(failure: RequirementFailed, memory: Memory, request: ReviseRequest) -> Conflict:
    found = failure.details.get("id")
    if failure.details.get("table") == "memory" and found not in (None, memory.id):
        return _same_as(memory, str(found))
    return VersionConflict(
        f"memory '{memory.id}' was changed by someone else",
        remedy="read it again and repeat the change",
        id=memory.id,
        expected=request.version,
    )


def current() -> tuple[Filter, ...]:
    """Only a memory that recall would find can stand for another."""
    moment = now()
    return (
        AnyOf((IsNull("expires_at"), Compare("expires_at", ">", moment))),
        AnyOf((IsNull("valid_to"), Compare("valid_to", ">", moment))),
        Compare("status", "!=", "archived"),
    )


def moment_in_words(tenant: Tenant, at: datetime, user: str | None) -> str:
    """A moment as people would ask for it: in the zone of the user whose it is, else in the store's."""
    zone = zone_of(tenant, user) if user is not None else None
    try:
        return moment_words(at.astimezone(ZoneInfo(zone or tenant.timezone)))
    except OverflowError:  # the first and last days of the calendar have no local time everywhere
        return moment_words(at)


def _spaces(steps: Sequence[Step], kind: type[Embedding] | type[IndexTask]) -> list[str]:
    """The models whose vectors some steps store, or leave owed."""
    made = [step.record for step in steps if isinstance(step, Insert)]
    return list(dict.fromkeys(f"vector:{one.model}" for one in made if isinstance(one, kind)))


def _owed(steps: Sequence[Step]) -> list[str]:
    """What is to be said of vectors that were left for later."""
    owed = (step.record for step in steps if isinstance(step, Insert) and isinstance(step.record, IndexTask))
    return [LATER] if any(one.problem == LATER for one in owed) else []


def _vectors(steps: Sequence[Step], memory: Memory) -> int:
    """How many vectors some steps store, counted once for all namespaces."""
    made = (step.record for step in steps if isinstance(step, Insert))
    return sum(isinstance(one, Embedding) and one.namespace == memory.namespaces[0] for one in made)


def new_content(memory: Memory, given: str | dict[str, Any], declared: MemoryKind | None = None) -> dict[str, Any]:
    """The fields that change with what a memory says: a new claim starts as a hypothesis."""
    content, text = read_content(memory.kind, given, declared)
    if not text:
        raise InvalidInput("there is nothing to remember", remedy="give some text, or forget the memory")
    if len(text) > TEXT_LIMIT:
        raise TooLarge(f"the text has {len(text)} characters", remedy=f"split it: at most {TEXT_LIMIT} fit")
    digest = content_hash(memory.kind, content)
    status = "hypothesis" if digest != memory.content_hash else memory.status
    return identified(memory, content=content, text=text, content_hash=digest, status=status)


def identified(memory: Memory, /, **fields: Any) -> dict[str, Any]:
    """The fields of a change with the identity that the memory has after it."""
    after = {**memory.__dict__, **fields}
    owners = {name: after[name] for name in (*(f"{link}_id" for link in LINKS), "author")}
    said_at = after["occurred_at"] if after["occurred_at"] != after["created_at"] else None
    lasting = (sorted(after["namespaces"]), after["valid_from"], after["valid_to"], after["expires_at"])
    return {**fields, "identity": identity_of(after["content_hash"], owners, said_at, lasting)}


def _retag_steps(tenant: Tenant, memory: Memory, wanted: Sequence[str]) -> list[Step]:
    had = set(tags_of(tenant, memory.id))
    want = {tag.strip() for tag in wanted if tag.strip()}
    steps: list[Step] = [Insert(made(Tag, tenant, memory_id=memory.id, tag=tag)) for tag in sorted(want - had)]
    if had - want:
        gone = OneOf("tag", tuple(sorted(had - want)))
        steps.append(DeleteWhere(Tag, (equal("memory_id", memory.id), gone)))
    return [*steps, logged(tenant, "update", "retag", memory)] if steps else []


def change_steps(
    tenant: Tenant,
    memory: Memory,
    change: Change,
    why: str,
    given: GivenVectors | None = None,
    /,
    *,
    because_of: str | None = None,
    **fields: Any,
) -> list[Step]:
    """Change a memory, keeping its former state: the revision, the record, its vectors and the audit entry."""
    after, steps = kept_steps(tenant, memory, change, why, because_of=because_of, **fields)
    return [*steps, *reindex_steps(tenant, memory, after, given)]


def kept_steps(
    tenant: Tenant, memory: Memory, change: Change, why: str, /, *, because_of: str | None = None, **fields: Any
) -> tuple[Memory, list[Step]]:
    """The changed memory and the steps that write it, without its vectors: for those who make many at once.

    What is damaged may be forgotten, but gets no new trust and no new seal.
    """
    if change in ("revised", "promoted"):
        intact(memory)
    try:
        after = revised(memory, tenant.scope, **fields)
    except ValidationError as error:
        raise InvalidInput(f"that change is not valid: {describe(error)}") from None
    revision = made(
        Revision,
        tenant,
        memory_id=memory.id,
        number=memory.version,
        change=change,
        why=why,
        because_of=because_of,
        state=memory.model_dump(mode="json"),
        text=memory.text,
        held_from=memory.updated_at,
        held_to=after.updated_at,
    )
    operation: Literal["delete", "update"] = "delete" if change == "forgotten" else "update"
    entry = logged(tenant, operation, change, memory, fields=sorted(fields))
    return after, [Update(after), Insert(revision, restoring=True), entry]


DERIVATIONS = ("derived_from", "generalized_from", "summarizes")
MADE_FROM_OTHERS = frozenset({"pattern", "query_pattern", "summary"})


def dependants(tenant: Tenant, origins: Sequence[str]) -> list[str]:
    """The ids of everything derived from these memories, however far."""
    seen, frontier = set(origins), list(origins)
    while frontier:
        links = Query(Relationship, (OneOf("target_id", tuple(frontier)), OneOf("type", DERIVATIONS)))
        frontier = list({id for (id,) in tenant.select(links, ("source_id",)) if id not in seen})
        seen |= set(frontier)
    return sorted(seen - set(origins))


def fallen_steps(tenant: Tenant, memories: Sequence[Memory], what: str) -> list[Step]:
    """Take the trust away from the patterns and summaries that rest on memories which just lost theirs."""
    lost = [memory for memory in memories if memory.status in TRUSTED]
    resting = dependants(tenant, [memory.id for memory in lost]) if lost else []
    if not resting:
        return []
    trusted = (OneOf("id", tuple(resting)), OneOf("status", tuple(TRUSTED)), OneOf("kind", tuple(MADE_FROM_OTHERS)))
    why = f"it rests on {lost[0].id}, which {what}"
    return [
        step
        for memory in tenant.find(Query(Memory, trusted)).records
        for step in change_steps(tenant, memory, "demoted", why, because_of=lost[0].id, status="hypothesis")
    ]
