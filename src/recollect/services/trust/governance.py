"""Checking memories: citations are looked up again, statuses change by the rules, and bad sources are rolled back.

A memory becomes verified only by a citation that was just checked and holds; a citation that no longer holds demotes it
again. Every change of status records who made it and why. Rolling back a source archives everything that cites it and
everything derived from that, over any number of steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from recollect.domain.memory import TRANSITIONS, TRUSTED, Change, Memory
from recollect.domain.provenance import Citation, CitationState, read_citation
from recollect.domain.record import Id, QueryText, Text
from recollect.errors import Denied, IllegalTransition, NotFound, VersionConflict
from recollect.ports.query import OneOf, Query, equal
from recollect.ports.records import revised
from recollect.ports.steps import Delete, Insert, Require, Step, Update
from recollect.services.memories.attachment_limits import refuse_more
from recollect.services.memories.derived import supported_steps
from recollect.services.memories.draft import citation_mark, citation_record
from recollect.services.memories.revise import change_steps, dependants, fallen_steps
from recollect.services.memories.supersession import moved_steps, promoted_steps, reinstated_steps
from recollect.services.request_limits import MOST_CITATIONS
from recollect.services.requests import Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.transaction import citations_of, commit, load, logged

PAGE = 500


class CiteRequest(Request):
    """Citations to add to a memory."""

    id: Id = Field(description="The memory")
    cites: list[Any] = Field(min_length=1, max_length=MOST_CITATIONS, description="Citations made with recollect.cite")


class CiteReply(Reply):
    id: str
    citations: list[str]


def cite_memory(tenant: Tenant, request: CiteRequest) -> CiteReply:
    """Add citations to a memory."""
    memory = load(tenant, Memory, request.id)
    lookup = tenant.citation_lookup(tenant.scope, None)
    given = [read_citation(one) for one in request.cites]
    cited = [citation_record(tenant, memory.id, one.sealed(lookup), one) for one in given]
    stored = citations_of(tenant, memory.id)
    had = {citation_mark(citation) for citation in stored}
    records = list({mark: one for one in cited if (mark := citation_mark(one)) not in had}.values())
    refuse_more(Citation, len(stored), len(records))
    if records:
        entry = logged(tenant, "update", "cite", memory, sources=[record.source for record in records])
        commit(tenant, [*(Insert(record) for record in records), entry])
    return CiteReply(id=memory.id, citations=[record.id for record in records])


class UnciteRequest(Request):
    """A citation to remove from a memory."""

    id: Id = Field(description="The memory")
    citation: Id = Field(description="The citation's id")


def uncite(tenant: Tenant, request: UnciteRequest) -> StatusReply:
    """Remove a citation; a trusted memory left without one that holds becomes a hypothesis again."""
    memory = load(tenant, Memory, request.id)
    had = citations_of(tenant, memory.id)
    kept = [citation for citation in had if citation.id != request.citation]
    if len(kept) == len(had):
        raise NotFound(f"memory has no citation '{request.citation[:80]}'", remedy="list its citations")
    unchanged = Require(Memory, memory.id, {"version": memory.version})
    steps: list[Step] = [unchanged, Delete(Citation, request.citation), logged(tenant, "update", "uncite", memory)]
    commit(tenant, [*steps, *unsupported_steps(tenant, memory, kept)])
    return status_of(tenant, memory.id)


def unsupported_steps(tenant: Tenant, memory: Memory, left: Sequence[Citation]) -> list[Step]:
    """Demote a memory if none of its remaining citations holds."""
    if memory.status not in TRUSTED or any(supports(tenant, citation, memory.status) for citation in left):
        return []
    why = "what supported it was removed" if left else "its last citation was removed"
    return moving_steps(tenant, memory, "hypothesis", "demoted", why, "lost its last citation")


def moving_steps(tenant: Tenant, memory: Memory, to: str, change: Change, why: str, what: str) -> list[Step]:
    """Change the status of a memory, of what is derived from it, and of what it replaced."""
    return [
        *change_steps(tenant, memory, change, why, status=to),
        *(fallen_steps(tenant, [memory], what) if to not in TRUSTED else ()),
        *moved_steps(tenant, memory, memory.changed(status=to)),
    ]


class CheckRequest(Request):
    """Which citations to check: those of one memory, or all that match the filters."""

    id: Id | None = Field(None, description="Only this memory; all by default")
    source: QueryText | None = Field(None, description="Only citations of this source, such as file:notes.md")
    state: CitationState | None = Field(None, description="Only citations last found in this state, such as broken")
    fetch: bool = Field(
        False, description="Fetch pages that were cited without a hash and record it, if the settings allow fetching"
    )


class CheckReply(Reply):
    """How many citations were checked, with which results, and which memories were demoted."""

    looked_at: int = 0
    holds: int = 0
    claimed: int = 0
    broken: int = 0
    unreachable: int = 0
    demoted: list[str] = Field(default_factory=list)


def check(tenant: Tenant, request: CheckRequest) -> CheckReply:
    """Check citations again; a memory whose citation no longer holds is demoted."""
    where = [equal("memory_id", request.id)] if request.id else []
    if request.fetch and not tenant.citation_lookup(tenant.scope, None).fetches:
        raise Denied("pages are not fetched here", remedy="ask the operator to set fetch: true in the settings")
    if request.id:
        load(tenant, Memory, request.id)
    if request.source:
        where.append(equal("source", request.source))
    if request.state:
        where.append(equal("state", request.state))
    report, after = CheckReply(), None
    while True:
        page = tenant.find(Query(Citation, tuple(where), limit=PAGE, after=after))
        for memory_id, citations in _by_memory(page.records).items():
            check_memory(tenant, memory_id, citations, report, fetch=request.fetch)
        after = page.next
        if after is None:
            return report


def _by_memory(citations: Sequence[Citation]) -> dict[str, list[Citation]]:
    grouped: dict[str, list[Citation]] = {}
    for citation in citations:
        grouped.setdefault(citation.memory_id, []).append(citation)
    return grouped


def check_memory(
    tenant: Tenant, memory_id: str, citations: Sequence[Citation], report: CheckReply, *, fetch: bool = False
) -> None:
    """Check citations of one memory, and add the results to the report."""
    while True:
        memory = tenant.get(Memory, memory_id)
        if memory is None:
            return
        try:
            checked = [looked_up(tenant, citation, fetch=fetch) for citation in citations]
            demoted = record_checked(tenant, memory, checked)
            break
        except VersionConflict:  # it was checked or changed meanwhile: read it again
            still = tuple(citation.id for citation in citations)
            citations = [one for one in citations_of(tenant, memory_id) if one.id in still]
    if demoted:
        report.demoted.append(memory_id)
    for state, count in _found(checked).items():
        setattr(report, state, getattr(report, state) + count)
    report.looked_at += len(checked)


def record_checked(tenant: Tenant, memory: Memory, checked: Sequence[Citation]) -> bool:
    """Commit the results of checks; returns whether the memory was demoted."""
    broken = [citation for citation in checked if citation.state == "broken" and citation.is_just_seen]
    steps: list[Step] = [Update(citation) for citation in checked]
    fault = broken or _mere_claims(tenant, memory, checked)
    demoted = bool(fault) and memory.status in TRUSTED
    if demoted:
        why = f"no longer holds: {fault[0].note}" if broken else f"is supported by a claim only: {fault[0].note}"
        steps += moving_steps(tenant, memory, "hypothesis", "demoted", why, "no longer holds")
    if steps:
        commit(tenant, [*steps, logged(tenant, "update", "check", memory, found=_found(checked))])
    return demoted


def _mere_claims(tenant: Tenant, memory: Memory, checked: Sequence[Citation]) -> list[Citation]:
    """The claims that a memory cites, if it cites nothing stronger."""
    claims = [citation for citation in checked if citation.state == "claimed" and citation.is_just_seen]
    if not claims or memory.status not in TRUSTED:
        return []
    now_known = {citation.id: citation for citation in citations_of(tenant, memory.id)}
    now_known |= {citation.id: citation for citation in checked}
    return [] if any(citation.state in ("holds", "unreachable") for citation in now_known.values()) else claims


def _found(checked: Sequence[Citation]) -> dict[str, int]:
    """How many citations were found in which state; one that could not be reached keeps its own state."""
    states = [citation.state if citation.is_just_seen else "unreachable" for citation in checked]
    return {state: states.count(state) for state in ("holds", "claimed", "broken", "unreachable")}


def looked_up(tenant: Tenant, citation: Citation, *, fetch: bool = False) -> Citation:
    lookup = tenant.citation_lookup(tenant.scope, citation.memory_id)
    citation = citation.fetched(lookup) if fetch else citation
    return revised(citation, tenant.scope, **citation.looked_up(lookup))


class MoveRequest(Request):
    """A change of status."""

    id: Id = Field(description="The memory")
    why: Text = Field("", max_length=10_000, description="The reason; stored in its history")
    version: int | None = Field(None, ge=1, description="Only if it still has this version")


class PromoteRequest(MoveRequest):
    """Raise a memory's status."""

    to: Literal["verified", "published"] = Field("verified", description="The status to promote it to")


class StatusReply(Reply):
    """The status of a memory now."""

    id: str
    status: str
    version: int
    citations: list[str] = Field(default_factory=list)


def promote(tenant: Tenant, request: PromoteRequest) -> StatusReply:
    """Raise a memory's status if its citations, which are checked now, support it."""
    memory = load(tenant, Memory, request.id, version=request.version)
    refuse_promotion(memory, request.to)
    checked = [looked_up(tenant, citation) for citation in citations_of(tenant, memory.id)]
    steps: list[Step] = [Update(citation) for citation in checked]
    commit(tenant, [*steps, *promotion_steps(tenant, memory, request.to, request.why, checked)])
    return status_of(tenant, memory.id)


def refuse_promotion(memory: Memory, to: str) -> None:
    refuse_illegal(memory, to)
    if memory.status == "published":
        raise IllegalTransition(
            "that memory is already published", remedy="demote it to lower its status", id=memory.id
        )


def promotion_steps(tenant: Tenant, memory: Memory, to: str, why: str, checked: Sequence[Citation]) -> list[Step]:
    """Raise the status of a memory whose citations were just checked."""
    _refuse_unsupported(tenant, memory, to, checked)
    steps = supported_steps(tenant, memory)
    steps += change_steps(tenant, memory, "promoted", why, status=to)
    return steps + promoted_steps(tenant, memory.changed(status=to))


class DemoteRequest(MoveRequest):
    """Lower a memory's status."""

    to: Literal["hypothesis", "verified"] = Field("hypothesis", description="The status to demote it to")


def demote(tenant: Tenant, request: DemoteRequest) -> StatusReply:
    """Lower a memory's status: from published to verified, or to a hypothesis."""
    if request.to == "verified" and load(tenant, Memory, request.id).status == "hypothesis":
        raise IllegalTransition("a hypothesis cannot be demoted to verified", remedy="promote it", id=request.id)
    return _move(tenant, request, request.to, "demoted")


def archive(tenant: Tenant, request: MoveRequest) -> StatusReply:
    """Archive a memory: it stays, but is no longer recalled unless requested."""
    return _move(tenant, request, "archived", "archived")


def _move(tenant: Tenant, request: MoveRequest, to: str, change: Change) -> StatusReply:
    memory = load(tenant, Memory, request.id, version=request.version)
    refuse_illegal(memory, to)
    commit(tenant, moving_steps(tenant, memory, to, change, request.why, f"was {change}"))
    return status_of(tenant, memory.id)


def refuse_illegal(memory: Memory, to: str) -> None:
    if to not in TRANSITIONS[memory.status]:
        raise IllegalTransition(
            f"a memory cannot go from {memory.status} to {to}",
            remedy=f"from {memory.status} it can become {' or '.join(sorted(TRANSITIONS[memory.status]))}",
            id=memory.id,
        )


def supports(tenant: Tenant, citation: Citation, status: str) -> bool:
    """Whether a citation holds and is of a kind that is enough for a status."""
    return citation.state == "holds" and citation.evidence_kind in tenant.enough_evidence[status]


def _refuse_unsupported(tenant: Tenant, memory: Memory, to: str, checked: Sequence[Citation]) -> None:
    if not checked:
        raise IllegalTransition(
            "a memory without a citation remains a hypothesis",
            remedy="cite its source: a user, file, commit, log entry, url or query",
            id=memory.id,
        )
    broken = [citation for citation in checked if citation.state == "broken"]
    if broken:
        raise IllegalTransition(
            f"a citation does not hold: {broken[0].note}",
            remedy="cite what holds now, or remove the broken citation (uncite)",
            id=memory.id,
            citation=broken[0].id,
        )
    claims = [citation for citation in checked if citation.state == "claimed"]
    if claims and not any(citation.state == "holds" and citation.is_just_seen for citation in checked):
        raise IllegalTransition(
            f"a claim alone does not support a promotion: {claims[0].note}",
            remedy="ask the user who is cited to confirm it (confirm), or cite something that can be checked",
            id=memory.id,
            citation=claims[0].id,
        )
    if not any(citation.state == "holds" and citation.is_just_seen for citation in checked):
        raise IllegalTransition(
            f"no citation could be checked: {checked[0].note}",
            remedy="cite something that can be checked",
            id=memory.id,
        )
    if not any(supports(tenant, citation, to) and citation.is_just_seen for citation in checked):
        kinds = sorted({citation.evidence_kind for citation in checked})
        raise IllegalTransition(
            f"{' and '.join(kinds)} alone is not enough evidence for {to}",
            remedy=f"cite one of {', '.join(sorted(tenant.enough_evidence[to]))}; the settings say what is enough",
            id=memory.id,
        )


def status_of(tenant: Tenant, id: str) -> StatusReply:
    memory = load(tenant, Memory, id)
    shown = [f"{citation.source}: {citation.state}" for citation in citations_of(tenant, id)]
    return StatusReply(id=id, status=memory.status, version=memory.version, citations=shown)


class RollBackRequest(Request):
    """A source to withdraw, with everything that cites it."""

    source: QueryText = Field(
        min_length=1, description="The source as named in citations, such as url:https://… or user:bob"
    )
    why: Text = Field("", max_length=10_000, description="Why it is not trusted")
    dry_run: bool = Field(False, description="Only report what would be archived")


class RollBackReply(Reply):
    citing: list[str]
    derived: list[str]


def roll_back(tenant: Tenant, request: RollBackRequest) -> RollBackReply:
    """Archive every memory that cites a source, and everything derived from those, in one transaction."""
    cited = tenant.select(Query(Citation, (equal("source", request.source),)), ("memory_id",))
    citing = sorted({id for (id,) in cited})
    if not citing:
        raise NotFound(f"no memory cites '{request.source[:200]}'", remedy="see `source` of a memory's citations")
    derived = dependants(tenant, citing)
    if not request.dry_run:
        why = f"source rolled back: {request.source}" + (f" ({request.why})" if request.why else "")
        memories = _loaded(tenant, [*citing, *derived])
        steps = [
            step
            for memory in memories
            if memory.status != "archived"
            for step in change_steps(tenant, memory, "archived", why, status="archived")
        ]
        steps += reinstated_steps(tenant, memories)
        if steps:
            commit(tenant, steps)
    return RollBackReply(citing=citing, derived=derived)


def _loaded(tenant: Tenant, ids: Sequence[str]) -> list[Memory]:
    """Includes forgotten ones: they must not be trusted when they are restored."""
    return tenant.find(Query(Memory, (OneOf("id", tuple(ids)),), deleted="yes")).records
