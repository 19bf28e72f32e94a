"""Links between memories: made, deleted, listed, and read by the hop for whoever walks along them.

A link is one-way and has a type; the same link is there once. Links that stand for something else that was done
(a replacement, a merge, what a summary covers) are undone with that, never alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, NamedTuple

from pydantic import Field

from recollect.domain.memory import Memory, Relationship
from recollect.domain.record import Id, Json, JsonObject, Name, QueryText, Text
from recollect.errors import InvalidInput, NotFound
from recollect.ports.query import AnyOf, Filter, OneOf, Order, Query, equal
from recollect.ports.steps import Delete, Insert
from recollect.services.legal_holds import refuse_held
from recollect.services.memories.attachment_limits import refuse_more
from recollect.services.memories.derived import GENERALIZED, SUMMARIZES
from recollect.services.memories.revise import MADE_FROM_OTHERS
from recollect.services.memories.supersession import SUPERSEDES
from recollect.services.requests import PageReply, Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.transaction import commit, load, logged

MERGED_INTO = "merged_into"
UNDONE_BY = {
    SUPERSEDES: "forget or archive the replacement, and what it replaced is valid again",
    MERGED_INTO: "undo the merge: unmerge",
}
"""Links that stand for a change, and what undoes that."""
BEGINNING = 200  # characters of a memory that are shown beside a link
MOST_READ = 500  # links of one hop, in either direction
_NEWEST = (Order("id", descending=True),)


class RelateRequest(Request):
    """Link two memories."""

    id: Id = Field(description="The memory the link starts from")
    to: Id = Field(description="The memory it points to")
    type: Text = Field(
        min_length=1, max_length=255, description="The type of the link, such as supports or contradicts"
    )
    metadata: Json = Field(default_factory=dict, description="Anything else about the link")


class RelateReply(Reply):
    id: str
    links: int


def relate(tenant: Tenant, request: RelateRequest) -> RelateReply:
    """Link one memory to another; the same link again changes nothing."""
    if request.id == request.to:
        raise InvalidInput("a memory cannot be linked to itself", remedy="give two different memories")
    if request.type == SUPERSEDES:
        raise InvalidInput("a link alone does not replace a memory", remedy="remember the new one with supersedes=ID")
    memory = load(tenant, Memory, request.id)
    load(tenant, Memory, request.to)
    same = (equal("source_id", request.id), equal("target_id", request.to), equal("type", request.type))
    links = tenant.count(Query(Relationship, (equal("source_id", request.id),)))
    if not tenant.count(Query(Relationship, same)):
        refuse_more(Relationship, links, 1)
        link = Relationship(
            organization_id=tenant.scope.organization_id,
            source_id=request.id,
            target_id=request.to,
            type=request.type,
            metadata=request.metadata,
            created_by=tenant.scope.actor,
        )
        commit(tenant, [Insert(link), logged(tenant, "update", "relate", memory, to=request.to, type=request.type)])
    return RelateReply(id=request.id, links=tenant.count(Query(Relationship, (equal("source_id", request.id),))))


class UnrelateRequest(Request):
    """A link to delete."""

    id: Id = Field(description="The memory the link starts from")
    to: Id = Field(description="The memory it points to")
    type: Name | None = Field(None, description="Only the link of this type; all of them if omitted")


class UnrelateReply(Reply):
    id: str
    removed: list[str] = Field(description="The types of the links that were deleted")
    links: int = Field(description="How many links still start from the memory")


def unrelate(tenant: Tenant, request: UnrelateRequest) -> UnrelateReply:
    """Delete the links from one memory to another."""
    memory = load(tenant, Memory, request.id)
    typed = [equal("type", request.type)] if request.type is not None else []
    between = (equal("source_id", memory.id), equal("target_id", request.to), *typed)
    links = tenant.find(Query(Relationship, between)).records
    if not links:
        raise NotFound("there is no such link", remedy="see relations(of=ID)", id=memory.id)
    _refuse_meaningful(memory, links)
    refuse_held(tenant, {"memory": [memory.id]})
    types = sorted(link.type for link in links)
    entry = logged(tenant, "update", "unrelate", memory, to=request.to, types=types)
    commit(tenant, [*(Delete(Relationship, link.id) for link in links), entry])
    left = tenant.count(Query(Relationship, (equal("source_id", memory.id),)))
    return UnrelateReply(id=memory.id, removed=types, links=left)


def _refuse_meaningful(memory: Memory, links: Sequence[Relationship]) -> None:
    """What was made from others keeps the links to them: they say what else must go when those are erased."""
    for link in links:
        remedy = UNDONE_BY.get(link.type)
        if link.type in (GENERALIZED, SUMMARIZES) and memory.kind in MADE_FROM_OTHERS:
            remedy = f"a {memory.kind} keeps its origins; forget it, and make it again from others"
        if remedy is not None:
            raise InvalidInput(f"a link '{link.type}' is not deleted alone", remedy=remedy, id=memory.id)


class RelationsRequest(Request):
    """Which links to list."""

    of: Id | None = Field(None, description="Only the links of this memory")
    type: Name | None = Field(None, description="Only of this type")
    direction: Literal["both", "to", "from"] = Field(
        "both", description="Of a memory: links to others, links from others, or both"
    )
    limit: int = Field(100, ge=1, le=1000, description="How many at most")
    after: QueryText | None = Field(None, description="The `next` of the page before")


class RelationView(Reply):
    """A link. `text` and `status` are of the other memory: that at its end, unless the links to one were asked for."""

    id: str
    type: str
    source: str
    target: str
    direction: Literal["to", "from"] = "to"
    text: str = Field("", description="The beginning of what the other one says; empty if it was forgotten")
    status: str = ""
    metadata: JsonObject = Field(default_factory=dict)
    created_at: datetime
    created_by: str | None = None
    version: int


class RelationPage(PageReply[RelationView]):
    """Links, the newest first."""

    relations: list[RelationView]


def relations(tenant: Tenant, request: RelationsRequest) -> RelationPage:
    """Links between memories with their metadata, the newest first."""
    if request.of is not None:
        load(tenant, Memory, request.of, deleted=True)
    elif request.direction != "both":
        raise InvalidInput("a direction is that of a memory", remedy="give `of`, or leave direction out")
    where: list[Filter] = [equal("type", request.type)] if request.type is not None else []
    if request.of is not None:
        start, end = equal("source_id", request.of), equal("target_id", request.of)
        where.append({"to": start, "from": end, "both": AnyOf((start, end))}[request.direction])
    page = tenant.find(Query(Relationship, tuple(where), _NEWEST, request.limit, request.after))
    others = [link.source_id if link.target_id == request.of else link.target_id for link in page.records]
    known = _beginnings(tenant, others)
    views = [_view(link, other, *known.get(other, ("", ""))) for link, other in zip(page.records, others, strict=True)]
    return RelationPage(relations=views, next=page.next)


def _beginnings(tenant: Tenant, ids: Sequence[str]) -> dict[str, tuple[str, str]]:
    if not ids:
        return {}
    said = tenant.select(Query(Memory, (OneOf("id", tuple(set(ids))),)), ("id", "text", "status"))
    return {id: (text[:BEGINNING], status) for id, text, status in said}


def _view(link: Relationship, other: str, text: str, status: str) -> RelationView:
    shown = link.model_dump(include={"id", "type", "metadata", "created_at", "created_by", "version"})
    direction: Literal["to", "from"] = "to" if link.target_id == other else "from"
    return RelationView(
        **shown, source=link.source_id, target=link.target_id, direction=direction, text=text, status=status
    )


class Link(NamedTuple):
    """What a walk needs of a link; the fields are named as those of the record."""

    id: str
    source_id: str
    target_id: str
    type: str
    created_at: datetime


def links_at(tenant: Tenant, ids: Sequence[str], types: Sequence[str] = ()) -> list[Link]:
    """The links from and to some memories, the newest first, so many at most in each direction."""
    typed = [OneOf("type", tuple(types))] if types else []
    ends = [(OneOf(end, tuple(ids)), *typed) for end in ("source_id", "target_id")]
    found = tenant.select_each([(Query(Relationship, where, _NEWEST, MOST_READ), Link._fields) for where in ends])
    return list({row[0]: Link._make(row) for rows in found for row in rows}.values())
