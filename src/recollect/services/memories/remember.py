"""A memory comes in: validated, cited, recognised if already known, and committed whole.

The memory, its tags, citations, links, vectors (or the note that they are owed) and the audit entry are one
transaction; the receipt says what is stored, what is indexed and what is queued. Revising keeps the whole former
state as a revision.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from pydantic import Field, field_validator

from recollect.domain.kinds import TEXT_LIMIT, read_content
from recollect.domain.memory import (
    LINKS,
    LONG_TERM,
    UTTERANCES,
    Embedding,
    Memory,
    Namespace,
    Relationship,
    Revision,
    Tag,
    content_hash,
    identity_of,
)
from recollect.domain.memory import Scope as MemoryScope
from recollect.domain.provenance import AnyCitation, Citation, CitationLookup, entered, read_citation
from recollect.domain.record import LONGEST_SECONDS, Id, Json, Name, Text, Vector, new_id, now
from recollect.errors import (
    Conflict,
    DuplicateKey,
    InvalidInput,
    ReferenceMissing,
    RequirementFailed,
    TooLarge,
    VersionConflict,
)
from recollect.ports.query import OneOf, Order, Query, equal
from recollect.ports.steps import Absent, Insert, Step
from recollect.services.memories.attachment_limits import refuse_more
from recollect.services.memories.embeddings import (
    GivenVectors,
    Indexed,
    Vectorized,
    check_lengths,
    embeddings,
    given_vector,
    index_steps,
)
from recollect.services.memories.revise import Receipt, change_steps, current, moment_in_words
from recollect.services.memories.supersession import end_steps, refuse_replaced
from recollect.services.request_limits import MOST_CITATIONS, MOST_LINKS, MOST_NAMESPACES, MOST_TAGS
from recollect.services.requests import Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.times import From, Through
from recollect.services.transaction import citations_of, commit, load, logged, made

MOST_AT_ONCE = 10_000
DERIVING = {"pattern": ("generalized_from", "generalized_from"), "summary": ("covers", "summarizes")}


class RememberRequest(Request):
    """One memory. Only `content` is needed; the rest says whose it is, why to believe it, how long to keep it."""

    content: str | dict[str, Any] = Field(description="What to remember: text, or the typed content of its kind")
    kind: Name = Field("fact", description="What it is: fact, observation, conversation, episode, pattern, …")
    cites: list[Any] = Field(
        default_factory=list, max_length=MOST_CITATIONS, description="Where it comes from: citations of recollect.cite"
    )
    tags: list[str] = Field(default_factory=list, max_length=MOST_TAGS, description="Words to find it by")
    author: Text | None = Field(None, description="Who said it: a name, or a role such as user or assistant")
    at: From | None = Field(None, description="When it was said or happened; now, if left out")
    user: Id | None = Field(None, description="The user it is about or belongs to")
    agent: Id | None = Field(None, description="The agent it belongs to")
    session: Id | None = Field(None, description="The session it was made in")
    project: Id | None = Field(None, description="The project it belongs to")
    cycle: Id | None = Field(None, description="The cycle of a run it comes from")
    source_agent: Text | None = Field(None, description="Name of the agent that made it")
    scope: MemoryScope = Field("global", description="How far it holds: task, project or global")
    level: Name = Field("item", description="How high it stands: item, stretch, session, day, project, …")
    confidence: float = Field(0.5, ge=0, le=1, description="How sure the maker is, 0 to 1")
    priority: int = Field(5, ge=1, le=10, description="What stays when space is limited, 1 to 10")
    importance: float = Field(0.0, ge=0, description="How much it matters; any scale, 0 and up")
    metadata: Json = Field(default_factory=dict, description="Anything else, as JSON")
    namespaces: list[Namespace] = Field(
        default_factory=lambda: [LONG_TERM],
        min_length=1,
        max_length=MOST_NAMESPACES,
        description="Where it is searched: long_term, short_term (found only within its session), or your own",
    )
    valid_from: From | None = Field(None, description="Since when the fact holds")
    valid_to: Through | None = Field(None, description="Until when the fact holds")
    expires_at: Through | None = Field(None, description="When to forget it")
    ttl_seconds: float | None = Field(None, gt=0, le=LONGEST_SECONDS, description="Forget it after so many seconds")
    supersedes: Id | None = Field(None, description="The memory that this one replaces")
    derived_from: list[Id] = Field(default_factory=list, description="Memories this one was concluded from")
    relates: dict[str, str] = Field(
        default_factory=dict, max_length=MOST_LINKS, description="Other links: memory id to type of link"
    )
    idempotency_key: Id | None = Field(None, description="The same key again returns the first receipt")
    id: Id | None = Field(None, description="An id of your own; made for you if left out")
    on_duplicate: Literal["return", "keep"] | None = Field(
        None, description="Return the memory an exact duplicate repeats, or keep both; utterances are kept"
    )
    vector: Vector | None = Field(None, description="Its vector, if you have made one; see vector_model")
    vector_model: Name | None = Field(
        None, description="The name of the model that made `vector`: it is kept and searched under this name"
    )

    def is_merged(self) -> bool:
        """People say "yes" more than once, and each time means something: what was said is kept as it was said."""
        if self.supersedes is not None:
            return False  # what replaces something is said anew, even in old words
        return (self.on_duplicate or ("keep" if self.kind in UTTERANCES else "return")) == "return"

    @field_validator("namespaces")
    @classmethod
    def _once(cls, namespaces: list[str]) -> list[str]:
        return list(dict.fromkeys(namespaces))

    @field_validator("tags")
    @classmethod
    def _tidy(cls, tags: list[str]) -> list[str]:
        return list(dict.fromkeys(tag.strip() for tag in tags if tag.strip()))


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


Hanging = Citation | Tag | Relationship


@dataclass(slots=True)
class _Draft:
    """A validated memory with all that will be written beside it."""

    request: RememberRequest
    memory: Memory
    tags: list[Tag]
    citations: list[Citation]
    links: list[Relationship]
    superseded: Memory | None = None
    given: GivenVectors = field(default_factory=dict)

    def hangs_on_it(self) -> list[Hanging]:
        return [*self.citations, *self.tags, *self.links]


def remember(tenant: Tenant, request: RememberRequest) -> Receipt:
    """Store one memory with its citations, tags and links."""
    return _remember_all(tenant, [request])[0]


def remember_many(tenant: Tenant, request: RememberManyRequest) -> RememberManyReply:
    """Store many memories at once: all of them, or none."""
    return RememberManyReply(receipts=_remember_all(tenant, request.memories))


def _remember_all(tenant: Tenant, requests: Sequence[RememberRequest]) -> list[Receipt]:
    lookup = tenant.citation_lookup(tenant.scope, None)
    drafts = [_draft(tenant, one, lookup) for one in requests]
    check_lengths(tenant, [(draft.given, draft.memory.namespaces) for draft in drafts if draft.given])
    return _remembered(tenant, drafts)


def fresh_steps(tenant: Tenant, request: RememberRequest) -> tuple[Memory, list[Step]]:
    """A new memory and the steps that store it, for services that commit more along with it."""
    draft = _draft(tenant, request)
    return draft.memory, _fresh_steps(tenant, [draft])[0]


def remembering(tenant: Tenant, request: RememberRequest, cycle: str | None) -> tuple[list[Step], str]:
    """The steps that store a memory of what a cycle brought, to commit with the cycle's result, and the memory's id.

    No steps if it is known already. Which cycle it came from is no part of what it is: an agent that sees the same
    result a thousand times remembers it once.
    """
    draft = _draft(tenant, request)
    known = _already_known(tenant, [draft]).get(draft.memory.id)
    if known is not None:
        return [], known.memory.id if isinstance(known, _Draft) else known.id
    draft.memory = draft.memory.changed(cycle_id=cycle)
    return _fresh_steps(tenant, [draft])[0], draft.memory.id


def _remembered(tenant: Tenant, drafts: Sequence[_Draft], looks_left: int = 3) -> list[Receipt]:
    # One memory is mostly new, and the write finds out if it is not; many may repeat each other.
    looked = len(drafts) > 1 or looks_left < 3
    try:
        return _store(tenant, drafts, _already_known(tenant, drafts) if looked else {})
    except (RequirementFailed, DuplicateKey, VersionConflict, ReferenceMissing) as conflict:
        if not looks_left or (looked and "id" in conflict.details.get("fields", [])):
            raise _explained(conflict) from None
    # Somebody stored, replaced or forgot the same between our look and our write: look again.
    for draft in drafts:
        if draft.superseded is not None:
            draft.superseded = load(tenant, Memory, draft.superseded.id)
    return _remembered(tenant, drafts, looks_left - 1)


def _draft(tenant: Tenant, request: RememberRequest, lookup: CitationLookup | None = None) -> _Draft:
    content, text = read_content(request.kind, request.content)
    if not text:
        raise InvalidInput("there is nothing to remember", remedy="give some text")
    if len(text) > TEXT_LIMIT:
        raise TooLarge(
            f"the text has {len(text)} characters", remedy=f"split it: at most {TEXT_LIMIT} fit in one memory"
        )
    lookup = lookup or tenant.citation_lookup(tenant.scope, None)
    citations = [(one, one.sealed(lookup)) for one in map(read_citation, request.cites)]
    memory = _memory(tenant, request, content, text)
    return _Draft(
        request,
        memory,
        [made(Tag, tenant, memory_id=memory.id, tag=tag) for tag in request.tags],
        [citation_record(tenant, memory.id, sealed, given) for given, sealed in _distinct(citations)],
        _links(tenant, memory, request),
        _replaceable(tenant, request.supersedes) if request.supersedes else None,
        given_vector(tenant, request.vector, request.vector_model),
    )


def _replaceable(tenant: Tenant, id: str) -> Memory:
    target = load(tenant, Memory, id)
    refuse_replaced(tenant, target)
    return target


def _memory(tenant: Tenant, request: RememberRequest, content: dict[str, Any], text: str) -> Memory:
    moment = now()
    at = request.at or moment
    links = {f"{name}_id": getattr(request, name) for name in LINKS}
    digest = content_hash(request.kind, content)
    expires_at = _expiry(request, moment)
    lasting = (sorted(request.namespaces), request.valid_from, request.valid_to, expires_at)
    memory: Memory = made(
        Memory,
        tenant,
        id=request.id or new_id(),
        content=content,
        text=text,
        content_hash=digest,
        identity=identity_of(digest, {**links, "author": request.author}, request.at, lasting),
        occurred_at=at,
        moment=moment_in_words(tenant, at, request.user),
        expires_at=expires_at,
        created_at=moment,
        updated_at=moment,
        **links,
        **{name: getattr(request, name) for name in _COPIED},
    )
    return memory


_COPIED = (
    "kind author source_agent scope level confidence priority importance metadata namespaces valid_from valid_to"
    " idempotency_key"
).split()


def _expiry(request: RememberRequest, moment: datetime) -> datetime | None:
    if request.ttl_seconds is None:
        return request.expires_at
    if request.expires_at is not None:
        raise InvalidInput("both expires_at and ttl_seconds are given", remedy="give one of them")
    try:
        return moment + timedelta(seconds=request.ttl_seconds)
    except OverflowError:
        raise InvalidInput("ttl_seconds is too large", remedy="leave it out to keep the memory for good") from None


def citation_record(tenant: Tenant, memory_id: str, cited: AnyCitation, given: AnyCitation) -> Citation:
    """A citation as it comes in: what was given, sealed, and who entered it."""
    evidence = cited.model_dump(mode="json", exclude_none=True)
    through: Literal["process", "door"] = "process" if tenant.scope.granted is None else "door"
    entry = entered(cited, given, tenant.scope.actor, through)
    record: Citation = made(
        Citation, tenant, memory_id=memory_id, type=cited.type, source=cited.source(), evidence=evidence, **entry
    )
    return record


def _distinct(citations: Sequence[tuple[AnyCitation, AnyCitation]]) -> list[tuple[AnyCitation, AnyCitation]]:
    return list({sealed.model_dump_json(): (given, sealed) for given, sealed in citations}.values())


def citation_mark(citation: Citation) -> str:
    """What makes two citations the same: a claim is not yet what the one who is cited says themself."""
    told = citation.cited().model_dump_json()
    return f"claimed {told}" if citation.state == "claimed" else told


def _links(tenant: Tenant, memory: Memory, request: RememberRequest) -> list[Relationship]:
    pairs = [(id, "derived_from") for id in request.derived_from]
    field, link = DERIVING.get(memory.kind, ("", ""))
    pairs += [(id, link) for id in memory.content.get(field, [])]
    pairs += list(request.relates.items())
    if any(id == memory.id for id, _ in pairs):
        raise InvalidInput("a memory cannot be linked to itself", remedy="give two different memories")
    if request.supersedes:
        pairs.append((request.supersedes, "supersedes"))
    return [
        made(Relationship, tenant, source_id=memory.id, target_id=target, type=type)
        for target, type in dict.fromkeys(pairs)
    ]


def _already_known(tenant: Tenant, drafts: Sequence[_Draft]) -> dict[str, Memory | _Draft]:
    """Which drafts repeat a stored memory, or an earlier draft of the same call."""
    repeated: dict[str, Memory | _Draft] = {}
    keys = tuple(d.memory.idempotency_key for d in drafts if d.memory.idempotency_key)
    by_key = {
        m.idempotency_key: m for m in _find(tenant, Query(Memory, (OneOf("idempotency_key", keys),), deleted="yes"))
    }
    identities = tuple(d.memory.identity for d in drafts if d.request.is_merged())
    by_identity = {m.identity: m for m in _find(tenant, Query(Memory, (OneOf("identity", identities), *current())))}
    earlier: dict[str, _Draft] = {}
    for draft in drafts:
        memory, key = draft.memory, draft.memory.idempotency_key
        found: Memory | _Draft | None = None
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


def _same_request(tenant: Tenant, draft: _Draft, stored: Memory) -> Memory:
    """The key's memory, if it began as what is asked for now; it may have been revised since."""
    first = tenant.find(Query(Revision, (equal("memory_id", stored.id),), (Order("number"),), limit=1))
    began_as = first.records[0].state["content_hash"] if first.records else stored.content_hash
    if began_as != draft.memory.content_hash:
        raise Conflict(
            "that idempotency key was used for another memory", remedy="use a new key for new content", id=stored.id
        )
    return stored


def _store(tenant: Tenant, drafts: Sequence[_Draft], known: Mapping[str, Memory | _Draft]) -> list[Receipt]:
    """One transaction: the new memories, and what the repeated ones add to those that are known."""
    repeated = [(draft, known[draft.memory.id]) for draft in drafts if draft.memory.id in known]
    merged, stands = _merged(repeated)
    fresh = [
        replace(draft, memory=stands.get(draft.memory.id, draft.memory))
        for draft in drafts
        if draft.memory.id not in known
    ]
    steps, indexed = _fresh_steps(tenant, fresh)
    added = _added(tenant, repeated)
    for memory, records in added.values():
        if records:
            steps += [*(Insert(record) for record in records), logged(tenant, "update", "remember again", memory)]
    steps += _change_known(tenant, repeated, stands)
    seq = commit(tenant, steps) if steps else 0
    return [
        _seen_again(*added[draft.memory.id], list(merged.get(draft.memory.id, ())), seq)
        if draft.memory.id in added
        else _receipt(draft, indexed[draft.memory.id], seq)
        for draft in drafts
    ]


_WIDTH = {"task": 0, "project": 1, "global": 2}


def _merged(
    repeated: Sequence[tuple[_Draft, Memory | _Draft]],
) -> tuple[dict[str, dict[str, Any]], dict[str, Memory]]:
    """What each repetition changes of the memory it repeats, several of one call building on each other; and how those
    memories stand after all of them.
    """
    stands: dict[str, Memory] = {}
    changes: dict[str, dict[str, Any]] = {}
    for draft, known in repeated:
        first = known.memory if isinstance(known, _Draft) else known
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


def _change_known(
    tenant: Tenant, repeated: Sequence[tuple[_Draft, Memory | _Draft]], stands: Mapping[str, Memory]
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


def _fresh_steps(tenant: Tenant, drafts: Sequence[_Draft]) -> tuple[list[Step], dict[str, Indexed]]:
    if not drafts:
        return [], {}
    vectors, indexed = index_steps(tenant, [draft.memory for draft in drafts], [draft.given for draft in drafts])
    steps = _none_known(drafts)
    steps += [step for draft in drafts for step in _memory_steps(tenant, draft)]
    # Links may point at memories of the same call, so all memories come first.
    steps += [Insert(link) for draft in drafts for link in draft.links]
    return steps + vectors, {draft.memory.id: one for draft, one in zip(drafts, indexed, strict=True)}


def _none_known(drafts: Sequence[_Draft]) -> list[Step]:
    """None of these came to be known meanwhile; no two of them are alike, so a store may look for all at once."""
    alive = current()
    return [
        Absent(Memory, (equal("identity", draft.memory.identity), *alive))
        for draft in drafts
        if draft.request.is_merged()
    ]


def _memory_steps(tenant: Tenant, draft: _Draft) -> list[Step]:
    memory = draft.memory
    steps: list[Step] = [Insert(memory)]
    steps += [Insert(record) for record in (*draft.tags, *draft.citations)]
    steps.append(logged(tenant, "create", "remember", memory, content_hash=memory.content_hash, kind=memory.kind))
    if draft.superseded is not None:
        steps += end_steps(tenant, memory, draft.superseded)
    return steps


def _receipt(draft: _Draft, indexed: Indexed, seq: int) -> Receipt:
    return Receipt(
        id=draft.memory.id,
        version=draft.memory.version,
        status=draft.memory.status,
        content_hash=draft.memory.content_hash,
        tags=len(draft.tags),
        citations=len(draft.citations),
        links=len(draft.links),
        indexed=indexed.names,
        queued=indexed.queued,
        vectors=indexed.vectors,
        notes=indexed.notes,
        seq=seq,
    )


def _added(
    tenant: Tenant, repeated: Sequence[tuple[_Draft, Memory | _Draft]]
) -> dict[str, tuple[Memory, list[Hanging | Embedding]]]:
    """A duplicate is not stored twice, but its evidence, tags, links and vector are added to what is known, once."""
    added: dict[str, tuple[Memory, list[Hanging | Embedding]]] = {}
    had: dict[str, set[str]] = {}
    held: dict[str, Counter[type[Hanging]]] = {}
    for draft, known in repeated:
        memory = known.memory if isinstance(known, _Draft) else known
        stored = known.hangs_on_it() if isinstance(known, _Draft) else _hanging(tenant, known.id)
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


def _new_vectors(tenant: Tenant, draft: _Draft, known: Memory | _Draft) -> list[Embedding]:
    """The vector that came with a duplicate, if what is known has none by that model."""
    memory = known.memory if isinstance(known, _Draft) else known
    if isinstance(known, _Draft):
        models = {*known.given, *(embedder.model for embedder in tenant.embedders)}
    else:
        stored = tenant.select(Query(Embedding, (equal("memory_id", memory.id),)), ("model",))
        models = {model for (model,) in stored}
    return [
        record
        for model, vector in draft.given.items()
        if model not in models
        for record in embeddings(memory, model, [Vectorized(vector)], given=True)
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


def _seen_again(memory: Memory, added: Sequence[Hanging | Embedding], merged: list[str], seq: int) -> Receipt:
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


def _explained(conflict: Conflict) -> Conflict:
    if isinstance(conflict, DuplicateKey) and "id" in conflict.details.get("fields", []):
        return DuplicateKey("there is a memory with that id already", remedy="revise it, or choose another id")
    return conflict
