"""What memories rest on: citations by what the last look at them found, each with the memory it supports."""

from __future__ import annotations

from pydantic import Field

from recollect.domain.memory import Memory
from recollect.domain.provenance import Citation, CitationState
from recollect.domain.record import Id, QueryText
from recollect.ports.records import Filter, OneOf, Order, Query, Scope, equal
from recollect.services.context import Core, Reply, Request, counted_page
from recollect.services.trust.citations import SHOWN, CitationView, shown_fields

SHOWN_TEXT = 300


class ListCitationsRequest(Request):
    """Which citations to list."""

    state: CitationState | None = Field(None, description="unchecked, holds, broken or unreachable")
    source: QueryText | None = Field(None, description="Only of this source, such as file:notes.md")
    memories: list[Id] = Field(default_factory=list, max_length=1000, description="Only of these memories")
    limit: int = Field(50, ge=1, le=1000, description="How many at most")
    after: QueryText | None = Field(None, description="The `next` of the page before")


class CitationLine(CitationView):
    """A citation, and the beginning of the memory that rests on it."""

    memory: str
    text: str
    kind: str
    status: str = Field(description="The memory's status, or forgotten")


class CitationPage(Reply):
    citations: list[CitationLine]
    next: str | None = None
    total: int


def list_citations(core: Core, scope: Scope, request: ListCitationsRequest) -> CitationPage:
    """List citations, the newest first; those of forgotten memories too, since they come back with them."""
    given = {"state": request.state, "source": request.source}
    where: list[Filter] = [equal(name, value) for name, value in given.items() if value is not None]
    where += [OneOf("memory_id", tuple(dict.fromkeys(request.memories)))] if request.memories else []
    query = Query(Citation, tuple(where), (Order("id", descending=True),), request.limit, request.after)
    page, total = counted_page(core, scope, query)
    ids = tuple({citation.memory_id for citation in page.records})
    found = core.store.find(scope, Query(Memory, (OneOf("id", ids),), deleted="yes")).records if ids else []
    memories = {memory.id: memory for memory in found}
    lines = [_line(core, scope, one, memories[one.memory_id]) for one in page.records if one.memory_id in memories]
    return CitationPage(citations=lines, next=page.next, total=total)


def _line(core: Core, scope: Scope, citation: Citation, memory: Memory) -> CitationLine:
    kept = shown_fields(core, scope, {name: getattr(citation, name) for name in SHOWN})
    status = "forgotten" if memory.is_deleted else memory.status
    return CitationLine(memory=memory.id, text=memory.text[:SHOWN_TEXT], kind=memory.kind, status=status, **kept)
