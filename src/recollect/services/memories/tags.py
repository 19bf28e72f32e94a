"""Tags of memories: added, removed, counted, renamed. `revise(tags=…)` sets all of a memory's tags at once."""

from __future__ import annotations

import re
from collections import Counter
from typing import Literal

from pydantic import Field

from recollect.domain.memory import Memory, Tag, TagName
from recollect.domain.record import Id, QueryText
from recollect.errors import Conflict, InvalidInput, NotFound
from recollect.ports.query import Compare, Filter, Linked, OneOf, Query, equal
from recollect.ports.steps import Delete, DeleteWhere, Insert, Step, Update
from recollect.retry import retry
from recollect.services.memories.attachment_limits import refuse_more
from recollect.services.request_limits import MOST_TAGS
from recollect.services.requests import PageReply, Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.transaction import commit, load, logged, made, rewritten, tags_of

BATCH = 200
CHUNK = 500
LAST = "\U0010ffff"


class TagsRequest(Request):
    """Tags of one memory."""

    id: Id = Field(description="The memory")
    tags: list[TagName] = Field(min_length=1, max_length=MOST_TAGS, description="The tags")


class TagsReply(Reply):
    """The tags that a memory has now, and which of them this call changed."""

    id: str
    tags: list[str]
    changed: list[str]


def add_tags(tenant: Tenant, request: TagsRequest) -> TagsReply:
    """Add tags to a memory; those it has already stay."""
    memory = load(tenant, Memory, request.id)
    had = tags_of(tenant, memory.id)
    new = sorted(set(request.tags) - set(had))
    refuse_more(Tag, len(had), len(new))
    if new:
        tags = [Insert(made(Tag, tenant, memory_id=memory.id, tag=tag)) for tag in new]
        commit(tenant, [*tags, logged(tenant, "update", "retag", memory)])
    return TagsReply(id=memory.id, tags=tags_of(tenant, memory.id), changed=new)


def remove_tags(tenant: Tenant, request: TagsRequest) -> TagsReply:
    """Remove tags from a memory; those it does not have are left out of the reply."""
    memory = load(tenant, Memory, request.id)
    gone = sorted(set(request.tags) & set(tags_of(tenant, memory.id)))
    if gone:
        these = DeleteWhere(Tag, (equal("memory_id", memory.id), OneOf("tag", tuple(gone))))
        commit(tenant, [these, logged(tenant, "update", "retag", memory)])
    return TagsReply(id=memory.id, tags=tags_of(tenant, memory.id), changed=gone)


class ListTagsRequest(Request):
    """Which tags to list."""

    prefix: QueryText = Field("", description="Only those that begin like this")
    order: Literal["name", "count"] = Field("name", description="By name, or the most used first")
    limit: int = Field(100, ge=1, le=1000, description="How many at most")
    after: QueryText | None = Field(None, description="The `next` of the page before")


class TagCount(Reply):
    tag: str
    memories: int = Field(description="How many memories have it; forgotten ones do not count")


class TagPage(PageReply[TagCount]):
    """Tags with how many memories have each."""

    tags: list[TagCount]
    total: int = Field(description="How many different tags there are")


def list_tags(tenant: Tenant, request: ListTagsRequest) -> TagPage:
    """Tags with the number of their memories, by name or the most used first."""
    counts = _counts(tenant, request.prefix)
    by_count = request.order == "count"
    ordered = sorted((-count if by_count else 0, tag) for tag, count in counts.items())
    if request.after is not None:
        mark = _mark(request.after)
        ordered = [place for place in ordered if place > mark]
    shown = ordered[: request.limit]
    return TagPage(
        tags=[TagCount(tag=tag, memories=counts[tag]) for _, tag in shown],
        total=len(counts),
        next="{}:{}".format(*shown[-1]) if len(ordered) > len(shown) else None,
    )


def _mark(after: str) -> tuple[int, str]:
    """The place of the last tag of the page before."""
    number, _, tag = after.partition(":")
    if not re.fullmatch("-?[0-9]{1,18}", number):
        raise InvalidInput("the cursor is not valid", remedy="give `next` of the page before, unchanged")
    return int(number), tag


def _counts(tenant: Tenant, prefix: str) -> Counter[str]:
    """How many living memories have each tag: tags stay on forgotten ones, so those are taken off again."""
    named: tuple[Filter, ...] = (Compare("tag", ">=", prefix), Compare("tag", "<", prefix + LAST)) if prefix else ()
    counts = Counter({tag: count for (tag,), count in tenant.count_by(Query(Tag, named), ("tag",)).items()})
    forgotten = Query(Memory, (Linked(Tag, "memory_id", named),), deleted="only")
    ids = [id for (id,) in tenant.select(forgotten, ("id",))]
    for start in range(0, len(ids), CHUNK):
        of_these = Query(Tag, (*named, OneOf("memory_id", tuple(ids[start : start + CHUNK]))))
        counts.subtract({tag: count for (tag,), count in tenant.count_by(of_these, ("tag",)).items()})
    return +counts


class RenameTagRequest(Request):
    """A tag, and what it is called from now on."""

    tag: TagName = Field(description="The tag as it is called now")
    to: TagName = Field(description="What to call it; where a memory has that one already, the old one is removed")


class RenameTagReply(Reply):
    tag: str
    memories: int = Field(description="How many memories had the old one")


def rename_tag(tenant: Tenant, request: RenameTagRequest) -> RenameTagReply:
    """Rename a tag on every memory that has it, in batches; run it again if it was interrupted."""
    if request.tag == request.to:
        raise InvalidInput("that is what it is called already", remedy="give another name")
    renamed = 0
    while some := retry(lambda: _renamed(tenant, request), Conflict):
        renamed += some
    if not renamed:
        raise NotFound(f"no memory has the tag '{request.tag}'", remedy="see tag.list")
    return RenameTagReply(tag=request.to, memories=renamed)


def _renamed(tenant: Tenant, request: RenameTagRequest) -> int:
    old = tenant.find(Query(Tag, (equal("tag", request.tag),), limit=BATCH)).records
    if not old:
        return 0
    ids = tuple(tag.memory_id for tag in old)
    both = Query(Tag, (equal("tag", request.to), OneOf("memory_id", ids)))
    have = {id for (id,) in tenant.select(both, ("memory_id",))}
    steps: list[Step] = [
        Delete(Tag, tag.id) if tag.memory_id in have else Update(rewritten(tag, tenant, tag=request.to)) for tag in old
    ]
    commit(tenant, [*steps, logged(tenant, "update", "tag.rename", None, count=len(old))])
    return len(old)
