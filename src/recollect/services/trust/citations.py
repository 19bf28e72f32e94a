"""Citations as shown with memories: what each refers to, who entered it, and the result of the last check."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pydantic import Field

from recollect.domain.memory import Memory
from recollect.domain.provenance import Citation, CitationState
from recollect.domain.record import Id, QueryText
from recollect.ports.query import Filter, OneOf, Order, Query, equal
from recollect.services.keyed_hashes import shown_evidence
from recollect.services.requests import PageReply, Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.transaction import counted_page

SHOWN_TEXT = 300


class CitationView(Reply):
    """A citation as shown with a memory: what it refers to, and the result and time of the last check."""

    id: str
    type: str
    source: str
    state: str
    note: str = ""
    evidence: dict[str, Any] = Field(default_factory=dict)
    checked_at: datetime | None = None
    entered_by: str | None = None
    confirmed_at: datetime | None = None

    def __str__(self) -> str:
        return f"{self.source} ({self.state})"


SHOWN = CitationView.own_fields()


def trust_in_words(status: str, cited: Sequence[CitationView]) -> str:
    """The status of a memory, how many of its citations hold, and when they were last checked."""
    if not cited:
        return f"{status}, uncited"
    held = [one for one in cited if one.state == "holds"]
    said = f"{status}, {len(held)} of {len(cited)} citations hold"
    times = [one.checked_at for one in held]
    known = [at for at in times if at is not None]
    return f"{said}, checked {min(known):%Y-%m-%d}" if known and len(known) == len(times) else said


def citation_view(tenant: Tenant, citation: Citation) -> CitationView:
    return CitationView(**shown_fields(tenant, {name: getattr(citation, name) for name in SHOWN}))


def shown_fields(tenant: Tenant, fields: dict[str, Any]) -> dict[str, Any]:
    return {**fields, "evidence": shown_evidence(tenant.keyring, tenant.scope, fields["evidence"])}


def by_memory(tenant: Tenant, rows: Sequence[tuple[Any, ...]]) -> dict[str, list[CitationView]]:
    """Rows of memory id and shown fields, as views by memory."""
    found: dict[str, list[CitationView]] = {}
    for row in rows:
        fields = shown_fields(tenant, dict(zip(SHOWN, row[1:], strict=True)))
        found.setdefault(row[0], []).append(CitationView(**fields))
    return found


class ListCitationsRequest(Request):
    """Which citations to list."""

    state: CitationState | None = Field(None, description="unchecked, holds, broken or unreachable")
    source: QueryText | None = Field(None, description="Only of this source, such as file:notes.md")
    memories: list[Id] = Field(default_factory=list, max_length=1000, description="Only of these memories")
    limit: int = Field(50, ge=1, le=1000, description="How many at most")
    after: QueryText | None = Field(None, description="The `next` of the page before")


class CitationLine(CitationView):
    """A citation, and the beginning of its memory."""

    memory: str
    text: str
    kind: str
    status: str = Field(description="The status of the memory, or forgotten")


class CitationPage(PageReply[CitationLine]):
    """Citations, the newest first."""

    citations: list[CitationLine]
    total: int


def list_citations(tenant: Tenant, request: ListCitationsRequest) -> CitationPage:
    """List citations, the newest first, including those of forgotten memories, which can be restored."""
    given = {"state": request.state, "source": request.source}
    where: list[Filter] = [equal(name, value) for name, value in given.items() if value is not None]
    where += [OneOf("memory_id", tuple(dict.fromkeys(request.memories)))] if request.memories else []
    query = Query(Citation, tuple(where), (Order("id", descending=True),), request.limit, request.after)
    page, total = counted_page(tenant, query)
    ids = tuple({citation.memory_id for citation in page.records})
    found = tenant.find(Query(Memory, (OneOf("id", ids),), deleted="yes")).records if ids else []
    memories = {memory.id: memory for memory in found}
    lines = [_line(tenant, one, memories[one.memory_id]) for one in page.records if one.memory_id in memories]
    return CitationPage(citations=lines, next=page.next, total=total)


def _line(tenant: Tenant, citation: Citation, memory: Memory) -> CitationLine:
    kept = shown_fields(tenant, {name: getattr(citation, name) for name in SHOWN})
    status = "forgotten" if memory.is_deleted else memory.status
    return CitationLine(memory=memory.id, text=memory.text[:SHOWN_TEXT], kind=memory.kind, status=status, **kept)
