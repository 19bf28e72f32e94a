"""The review inbox: hypotheses that nobody has judged, the most urgent first, page by page.

All that wait are ranked by a few fields, read without their texts; only the memories of the page are read whole. So a
page takes two statements per thousand that wait, and a few more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import Field

from recollect.domain.memory import Memory, Relationship
from recollect.domain.provenance import Citation
from recollect.domain.record import Id, Name, QueryText, now
from recollect.domain.review import CONTRADICTS, REASONS, Reason, ReviewReason, Signals, reasons, urgency
from recollect.errors import DamagedData, InvalidInput
from recollect.ports.query import AnyOf, OneOf, Order, Query, decode_cursor, encode_cursor
from recollect.services.memories.content_hashes import left_out_note
from recollect.services.memories.revise import DERIVATIONS
from recollect.services.recall.browse import MemoryLine, readable_page
from recollect.services.recall.filters import MemoryFilter, search_conditions
from recollect.services.requests import PageReply, Reply, Request
from recollect.services.tenant import Tenant

MOST_RANKED = 10_000
CHUNK = 1000
SUPPORTS = "supports"
_RANKED_FIELDS = ("id", "access_count", "priority")


class ReviewRequest(Request):
    """Which hypotheses to list for review."""

    user: Id | None = Field(None, description="Only this user's")
    agent: Id | None = Field(None, description="Only this agent's")
    session: Id | None = Field(None, description="Only of this session")
    project: Id | None = Field(None, description="Only of this project")
    kinds: list[Name] = Field(default_factory=list, description="Only of these kinds; summaries only if named")
    author: QueryText | None = Field(None, description="Only said by this author")
    reason: ReviewReason | None = Field(
        None, description=f"Only those that are listed for this reason: {', '.join(REASONS)}"
    )
    limit: int = Field(50, ge=1, le=200, description="How many at most")
    after: QueryText | None = Field(None, description="The `next` of the page before")
    count_all: bool = Field(True, description=f"Count for `total` also what is not ranked: beyond {MOST_RANKED:,}")


class ReviewReasonView(Reply):
    name: ReviewReason
    words: str


class ReviewLine(MemoryLine):
    """A hypothesis, and why it stands where it does."""

    urgency: float
    reasons: list[ReviewReasonView]


class ReviewPage(PageReply[ReviewLine]):
    """Hypotheses to review, the most urgent first."""

    memories: list[ReviewLine]
    total: int = Field(description="How many wait that pass the filters")
    by_reason: dict[str, int] = Field(description="How many wait for each reason, whichever reason was asked for")
    notes: list[str] = Field(default_factory=list)


class _Ranked(NamedTuple):
    urgency: float
    id: str
    reasons: list[Reason]


def review(tenant: Tenant, request: ReviewRequest) -> ReviewPage:
    """List the hypotheses that wait for review: the most used and most risky first, then by their evidence."""
    wanted = MemoryFilter(
        statuses=["hypothesis"],
        **request.model_dump(include={"user", "agent", "session", "project", "kinds", "author"}, exclude_none=True),
    )
    filters = search_conditions(wanted, now(), evidence_only=True).filters()
    newest = Query(Memory, filters, (Order("id", descending=True),), MOST_RANKED)
    rows = tenant.select(newest, _RANKED_FIELDS)
    most = None if request.count_all else MOST_RANKED + 1
    waiting = tenant.count(newest, most) if len(rows) == MOST_RANKED else len(rows)
    of = f" of {waiting:,}" if request.count_all else ""
    notes = [f"only the newest {MOST_RANKED:,}{of} are ranked"] if waiting > len(rows) else []
    ranked = sorted(_ranked(tenant, rows), key=lambda one: (one.urgency, one.id), reverse=True)
    by_reason = Counter(reason.name for one in ranked for reason in one.reasons)
    if request.reason is not None:
        ranked = [one for one in ranked if any(reason.name == request.reason for reason in one.reasons)]
        waiting = len(ranked)
    left = ranked
    if request.after is not None:  # by its place, not by its number: others may have been judged meanwhile
        place = _place(request.after)
        left = [one for one in ranked if (one.urgency, one.id) < place]
    page = left[: request.limit]
    last = encode_cursor((page[-1].urgency, page[-1].id)) if len(left) > len(page) else None
    lines = list(_lines(tenant, page, notes))
    return ReviewPage(memories=lines, next=last, total=waiting, by_reason=dict(by_reason), notes=notes)


def _place(after: str) -> tuple[float, str]:
    at, id = decode_cursor(after, Query(Memory, (), (Order("priority"),)))
    if not isinstance(at, int | float) or not isinstance(id, str):
        raise InvalidInput("the cursor is not valid", remedy="give `next` of the page before, unchanged")
    return at, id


def _ranked(tenant: Tenant, rows: Sequence[tuple[str, int, int]]) -> Iterator[_Ranked]:
    judged: dict[Any, tuple[float, list[Reason]]] = {}  # of ten thousand, most are alike in all that counts
    for start in range(0, len(rows), CHUNK):
        some = rows[start : start + CHUNK]
        ids = tuple(row[0] for row in some)
        cited: dict[str, Counter[str]] = {}
        of_these = Query(Citation, (OneOf("memory_id", ids),))
        for (memory, state), number in tenant.count_by(of_these, ["memory_id", "state"]).items():
            cited.setdefault(memory, Counter())[state] = number
        contradictions, dependents = _links(tenant, ids)
        for id, uses, priority in some:
            states: Mapping[str, int] = cited.get(id, {})
            alike = (uses, priority, contradictions[id], dependents[id], tuple(sorted(states.items())))
            if alike not in judged:
                found = reasons(Signals(uses, priority, contradictions[id], dependents[id], states))
                judged[alike] = (urgency(found), found)
            yield _Ranked(judged[alike][0], id, judged[alike][1])


def _links(tenant: Tenant, ids: tuple[str, ...]) -> tuple[Counter[str], Counter[str]]:
    """How many memories each of these contradicts or is contradicted by, and how many rest on it."""
    typed = OneOf("type", (CONTRADICTS, SUPPORTS, *DERIVATIONS))
    either = AnyOf((OneOf("source_id", ids), OneOf("target_id", ids)))
    contradictions, dependents = Counter[str](), Counter[str]()
    for type, source, target in tenant.select(Query(Relationship, (typed, either)), ("type", "source_id", "target_id")):
        if type == CONTRADICTS:
            contradictions.update((source, target))
        else:  # what supports another is rested on by it; what was concluded from another rests on that
            dependents[source if type == SUPPORTS else target] += 1
    return contradictions, dependents


def _lines(tenant: Tenant, page: Sequence[_Ranked], notes: list[str]) -> Iterator[ReviewLine]:
    ids = tuple(one.id for one in page)
    these = Query(Memory, (OneOf("id", ids),), (Order("id"),), limit=len(ids))
    try:
        found = tenant.find(these).records if ids else []
    except DamagedData:
        found = readable_page(tenant, these, notes).records
    known = {memory.id: memory for memory in found}
    for one in page:
        memory = known.get(one.id)
        if memory is None:  # judged meanwhile
            continue
        damage = left_out_note(memory)
        if damage is not None:
            notes.append(damage)
            continue
        yield ReviewLine(
            **MemoryLine.of(memory).model_dump(),
            urgency=one.urgency,
            reasons=[ReviewReasonView(name=reason.name, words=reason.words) for reason in one.reasons],
        )
