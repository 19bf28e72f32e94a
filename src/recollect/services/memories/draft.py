"""What is about to be remembered: read for its kind, cited, linked, and not yet stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any, Literal

from pydantic import Field, field_validator

from recollect.domain.kinds import TEXT_LIMIT, MemoryKind, read_content
from recollect.domain.memory import (
    LINKS,
    LONG_TERM,
    UTTERANCES,
    Memory,
    MemoryNamespace,
    MemoryScope,
    Relationship,
    Tag,
    content_hash,
    identity_of,
)
from recollect.domain.provenance import AnyCitation, Citation, CitationLookup, entered, read_citation
from recollect.domain.record import ID_LENGTH, LONGEST_SECONDS, Id, Json, Name, Text, Vector, in_utc, new_id, now
from recollect.errors import (
    Denied,
    InvalidInput,
    TooLarge,
)
from recollect.services.memories.embeddings import (
    GivenVectors,
    given_vector,
)
from recollect.services.memories.kinds import declared_kinds
from recollect.services.memories.revise import moment_in_words
from recollect.services.request_limits import MOST_CITATIONS, MOST_LINKS, MOST_NAMESPACES, MOST_TAGS
from recollect.services.requests import Request
from recollect.services.tenant import Tenant
from recollect.services.times import From, Through
from recollect.services.transaction import made, valid_scope

Hanging = Citation | Tag | Relationship
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
    namespaces: list[MemoryNamespace] = Field(
        default_factory=lambda: [LONG_TERM],
        min_length=1,
        max_length=MOST_NAMESPACES,
        description="Where it is searched: long_term, short_term (found only within its session), or your own",
    )
    valid_from: From | None = Field(None, description="Since when the fact holds")
    valid_to: Through | None = Field(None, description="Until when the fact holds")
    expires_at: Through | None = Field(None, description="When to forget it")
    ttl_seconds: float | None = Field(None, gt=0, le=LONGEST_SECONDS, description="Forget it after this many seconds")
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

    created_at: From | None = Field(None, description="When it was stored elsewhere; for importers, with `admin`")
    score: float | None = Field(None, description="The score it had elsewhere; for importers, with `admin`")

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


@dataclass(slots=True)
class Draft:
    """A validated memory with all that will be written beside it."""

    request: RememberRequest
    memory: Memory
    tags: list[Tag]
    citations: list[Citation]
    links: list[Relationship]
    superseded: Memory | None = None
    given: GivenVectors = field(default_factory=dict)
    kind: MemoryKind | None = None
    """What the store declares of its kind, if no class is for it."""

    def hangs_on_it(self) -> list[Hanging]:
        return [*self.citations, *self.tags, *self.links]


def draft_of(
    tenant: Tenant,
    request: RememberRequest,
    lookup: CitationLookup | None = None,
    kinds: Mapping[str, MemoryKind] | None = None,
) -> Draft:
    kind = (declared_kinds(tenant, [request.kind]) if kinds is None else kinds).get(request.kind)
    content, text = read_content(request.kind, request.content, kind)
    if not text:
        raise InvalidInput("there is nothing to remember", remedy="give some text")
    if len(text) > TEXT_LIMIT:
        raise TooLarge(
            f"the text has {len(text)} characters", remedy=f"split it: at most {TEXT_LIMIT} fit in one memory"
        )
    citations = _sealed(tenant, request.cites, lookup) if request.cites else []
    memory = _memory(tenant, request, content, text)
    return Draft(
        request,
        memory,
        [made(Tag, tenant, memory_id=memory.id, tag=tag) for tag in request.tags],
        [citation_record(tenant, memory.id, sealed, given) for given, sealed in _distinct(citations)],
        _links(tenant, memory, request),
        superseded_by(tenant, request),
        given_vector(tenant, request.vector, request.vector_model),
        kind,
    )


def memory_of(known: Memory | Draft) -> Memory:
    return known.memory if isinstance(known, Draft) else known


def superseded_by(tenant: Tenant, request: RememberRequest) -> Memory | None:
    """What it replaces; if that is gone, a request that is known already need not fail."""
    return tenant.get(Memory, request.supersedes) if request.supersedes is not None else None


def _sealed(
    tenant: Tenant, cites: Sequence[Any], lookup: CitationLookup | None
) -> list[tuple[AnyCitation, AnyCitation]]:
    """Each citation as it was given, and with what was found at its source."""
    lookup = lookup or tenant.citation_lookup(tenant.scope, None)
    return [(one, one.sealed(lookup)) for one in map(read_citation, cites)]


def _memory(tenant: Tenant, request: RememberRequest, content: dict[str, Any], text: str) -> Memory:
    moment = _stored_at(tenant, request)
    at, given = request.at or moment, request.__dict__
    links: dict[str, str | None] = dict(zip(_OWNER_FIELDS, _owners(given), strict=True))
    links |= tenant.owners(Memory, links)
    digest = content_hash(request.kind, content)
    expires_at = _expiry(request, moment)
    lasting = (sorted(request.namespaces), request.valid_from, request.valid_to, expires_at)
    fields = {
        "id": request.id or new_id(),
        "content": content,
        "text": text,
        "content_hash": digest,
        "identity": identity_of(digest, {**links, "author": request.author}, request.at, lasting),
        "occurred_at": at,
        "moment": moment_in_words(tenant, at, request.user),
        "expires_at": expires_at,
        "created_at": moment,
        "updated_at": moment,
        **links,
        **dict(zip(_COPIED, _copied(given), strict=True)),
    }
    if not valid_scope(tenant.scope) or not _are_valid(fields, links):
        return made(Memory, tenant, **fields)
    actor = tenant.scope.actor
    for name in _MOMENTS:
        value = fields[name]
        if value is not None and value.tzinfo is not UTC:
            fields[name] = in_utc(value)
    fields |= {"organization_id": tenant.scope.organization_id, "created_by": actor, "updated_by": actor}
    return Memory.of_valid(fields)


_OWNER_FIELDS = tuple(f"{name}_id" for name in LINKS)
_owners = itemgetter(*LINKS)
_COPIED = (
    "kind author source_agent scope level confidence priority importance metadata namespaces valid_from valid_to"
    " idempotency_key score"
).split()
_copied = itemgetter(*_COPIED)
_MOMENTS = ("occurred_at", "expires_at", "created_at", "updated_at")
_named = itemgetter("id", "level", "idempotency_key")


def _are_valid(fields: Mapping[str, Any], links: Mapping[str, str | None]) -> bool:
    """Whether a memory of these fields is valid, since the request was: nothing that a request does not check. Masking
    may have made an id longer, and what a kind makes of its content is the kind's own.
    """
    if fields["valid_from"] is not None or fields["valid_to"] is not None:
        return False
    if fields["content"] != {"text": fields["text"]}:
        return False
    named = [name for name in (*links.values(), *_named(fields)) if name is not None]
    return all(named) and len(max(named, key=len)) <= ID_LENGTH


def _stored_at(tenant: Tenant, request: RememberRequest) -> datetime:
    """When it counts as stored: now, or when it was stored where it comes from."""
    moment, granted = now(), tenant.scope.granted
    if request.created_at is None and request.score is None:
        return moment
    imported = [name for name in ("created_at", "score") if getattr(request, name) is not None]
    if imported and granted is not None and "admin" not in granted:
        raise Denied(
            f"{' and '.join(imported)} can be set by importers only",
            remedy="leave it out, or use a key with the permission 'admin'; `at` says when something happened",
            permission="admin",
        )
    if request.created_at is not None and request.created_at > moment:
        raise InvalidInput("created_at lies in the future", remedy="give when it was stored, or leave it out")
    return request.created_at or moment


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
    if not (request.derived_from or request.relates or request.supersedes or memory.kind in DERIVING):
        return []
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
