"""Looking memories up without a question: one by its id, or all of them page by page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Literal

from pydantic import Field

from recollect.domain.cold import ColdLink
from recollect.domain.memory import Memory, Relationship
from recollect.domain.record import Id, JsonObject, QueryText, now
from recollect.errors import DamagedData
from recollect.ports.query import AnyOf, Compare, Filter, IsNull, OneOf, Order, Page, Query, encode_cursor
from recollect.services.memories.content_hashes import intact, left_out_note, unreadable_note
from recollect.services.recall.filters import MemoryFilter, search_conditions
from recollect.services.requests import PageReply, Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.times import MomentText, RecordFields
from recollect.services.transaction import citations_of, counted_page, load, tags_of
from recollect.services.trust.citations import CitationView, citation_view

LINK_TEXT = 200
MOST_COUNTED = 100_000  # 40 ms; of millions counting took longer than everything else that a list does


class ShowRequest(Request):
    """Ask for one memory."""

    id: Id = Field(description="The memory")


class LinkView(Reply):
    type: str
    direction: Literal["to", "from"]
    id: str
    text: str = Field("", description="The beginning of what the other one says; empty if it was forgotten")
    status: str = ""
    cold: str | None = Field(None, description="The session to restore, if the other one is in cold storage")


class MemoryView(Reply):
    """A memory with everything that hangs on it."""

    id: str
    text: str
    kind: str
    status: str
    version: int
    user: str | None = None
    agent: str | None = None
    session: str | None = None
    project: str | None = None
    author: str | None = None
    occurred_at: datetime
    created_at: datetime
    content: JsonObject = Field(default_factory=dict)
    metadata: JsonObject = Field(default_factory=dict)
    fields: RecordFields = Field(description="Everything else that is stored of it")
    tags: list[str]
    citations: list[CitationView]
    links: list[LinkView]


def show(tenant: Tenant, request: ShowRequest) -> MemoryView:
    """One memory with its citations, tags and links."""
    memory = intact(load(tenant, Memory, request.id))
    tenant.journal.note(tenant.scope, "read", "show", [memory.id], session=memory.session_id, agent=memory.agent_id)
    return memory_view(tenant, memory)


def memory_view(tenant: Tenant, memory: Memory) -> MemoryView:
    fields = memory.model_dump(mode="json", exclude={"organization_id", "id", "text", "kind", "status", "version"})
    citations = [citation_view(tenant, citation) for citation in citations_of(tenant, memory.id)]
    return MemoryView(
        id=memory.id,
        text=memory.text,
        kind=memory.kind,
        status=memory.status,
        version=memory.version,
        user=memory.user_id,
        agent=memory.agent_id,
        session=memory.session_id,
        project=memory.project_id,
        author=memory.author,
        occurred_at=memory.occurred_at,
        created_at=memory.created_at,
        content=memory.content,
        metadata=memory.metadata,
        fields={name: value for name, value in fields.items() if value not in (None, "", [], {})},
        tags=tags_of(tenant, memory.id),
        citations=citations,
        links=_links(tenant, memory.id),
    )


def _links(tenant: Tenant, id: str) -> list[LinkView]:
    either: Filter = AnyOf((Compare("source_id", "=", id), Compare("target_id", "=", id)))
    rows = tenant.select(Query(Relationship, (either,)), ("type", "source_id", "target_id"))
    others = tuple({target if source == id else source for _, source, target in rows})
    said = tenant.select(Query(Memory, (OneOf("id", others),)), ("id", "text", "status")) if others else []
    known = {other: (text[:LINK_TEXT], status) for other, text, status in said}
    links = []
    for type, source, target in rows:
        direction, other = ("to", target) if source == id else ("from", source)
        text, status = known.get(other, ("", ""))
        links.append(LinkView(type=type, direction=direction, id=other, text=text, status=status))
    return [*links, *_cold_links(tenant, id)]


def _cold_links(tenant: Tenant, id: str) -> Iterator[LinkView]:
    """Links to memories that are in cold storage."""
    either = AnyOf((Compare("source_memory_id", "=", id), Compare("target_memory_id", "=", id)))
    fields = ("link", "source_archive_id", "target_archive_id")
    for link, source_archive, target_archive in tenant.select(Query(ColdLink, (either,)), fields):
        direction: Literal["to", "from"] = "to" if link["source_id"] == id else "from"
        other = link["target_id"] if direction == "to" else link["source_id"]
        yield LinkView(
            type=link["type"], direction=direction, id=other, status="cold", cold=target_archive or source_archive
        )


MemoryOrder = Literal[
    "newest", "oldest", "happened", "updated", "priority", "confidence", "importance", "used", "expires"
]
_ORDERS: dict[str, Order] = {
    "newest": Order("id", descending=True),
    "oldest": Order("id"),
    "happened": Order("occurred_at", descending=True),
    "updated": Order("updated_at", descending=True),
    "priority": Order("priority", descending=True),
    "confidence": Order("confidence", descending=True),
    "importance": Order("importance", descending=True),
    "used": Order("access_count", descending=True),
    "expires": Order("expires_at"),
}


class ListRequest(MemoryFilter):
    """Which memories to list."""

    limit: int = Field(50, ge=1, le=1000, description="How many at most")
    after: QueryText | None = Field(None, description="The `next` of the page before")
    order: MemoryOrder = Field(
        "newest",
        description="newest, oldest (as stored), happened, updated, priority, confidence, importance or used, each the"
        " latest or highest first; expires: the soonest first, and only what expires",
    )
    forgotten: bool = Field(False, description="List what was forgotten instead")
    rolled_up: bool = Field(True, description="Also summaries of others; if not, only when asked for by kind or level")
    count_at_most: int | None = Field(
        MOST_COUNTED,
        ge=1,
        description="Stop counting for `total` there; `is_whole` says whether there are more. Empty: count all",
    )


class MemoryLine(Reply):
    id: str
    text: str
    kind: str
    status: str
    author: str | None
    occurred_at: MomentText
    priority: int
    user: str | None = None
    agent: str | None = None
    session: str | None = None
    project: str | None = None

    @classmethod
    def of(cls, memory: Memory) -> MemoryLine:
        return MemoryLine(
            id=memory.id, text=memory.text, kind=memory.kind, status=memory.status, author=memory.author,
            occurred_at=memory.occurred_at.isoformat(), priority=memory.priority,
            user=memory.user_id, agent=memory.agent_id, session=memory.session_id, project=memory.project_id,
        )  # fmt: skip


class MemoryPage(PageReply[MemoryLine]):
    """Memories in the order that was asked for, the newest first if none was."""

    memories: list[MemoryLine]
    total: int
    is_whole: bool = Field(True, description="Whether `total` counts all; not if it was to stop counting")
    notes: list[str] = Field(default_factory=list)


def list_memories(tenant: Tenant, request: ListRequest) -> MemoryPage:
    """List memories with the filters of recall, the newest first unless another order is asked for."""
    conditions = search_conditions(request, now(), evidence_only=not request.rolled_up)
    filters = (replace(conditions, alive=()) if request.forgotten else conditions).filters()
    if request.order == "expires":
        filters = (*filters, IsNull("expires_at", wanted=False))
    deleted: Literal["only", "no"] = "only" if request.forgotten else "no"
    query = Query(Memory, filters, (_ORDERS[request.order],), request.limit, request.after, deleted)
    notes: list[str] = []
    most = request.count_at_most and request.count_at_most + 1
    try:
        page, total = counted_page(tenant, query, most)
    except DamagedData:
        page, total = readable_page(tenant, query, notes), tenant.count(query, most)
    lines = [MemoryLine.of(memory) for memory in page.records if left_out_note(memory) is None]
    notes += [note for m in page.records if (note := left_out_note(m)) is not None]
    is_whole = request.count_at_most is None or total <= request.count_at_most
    if not is_whole:
        total -= 1
        if "count_at_most" not in request.model_fields_set:
            notes.append(f"there are more than {total:,}: count_at_most says how far to count")
    return MemoryPage(memories=lines, next=page.next, total=total, is_whole=is_whole, notes=notes)


def readable_page(tenant: Tenant, query: Query[Memory], notes: list[str]) -> Page[Memory]:
    """The page one by one: a memory that cannot be read does not hide the others, and is named."""
    after = (query.after or "").partition("~")[0] or None
    rows = tenant.select(replace(query, after=after), [order.field for order in query.ordering()])
    ids = [row[-1] for row in rows]
    memories: list[Memory] = []
    for id in ids:
        try:
            found = tenant.get(Memory, id, deleted=query.deleted != "no")
        except DamagedData:
            notes.append(unreadable_note(id))
            continue
        memories += [found] if found is not None else []
    return Page(memories, encode_cursor(rows[-1]) if len(rows) == query.limit else None)
