"""A memory is checked: citations are looked up again, statuses move by the rules, and bad sources are rolled back.

Nothing becomes verified without a citation that was just checked and holds; a citation that no longer holds
takes the status away again. Every move records who made it and why. Rolling back a source archives everything that
cites it and everything derived from that, however far.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from recollect.domain.memory import TRANSITIONS, TRUSTED, Change, Memory, Relationship
from recollect.domain.provenance import Citation, CitationState, read_citation
from recollect.domain.record import Id, Json, QueryText, Text
from recollect.errors import IllegalTransition, InvalidInput, NotFound, VersionConflict
from recollect.ports.records import Delete, Insert, OneOf, Query, Require, Scope, Step, Update, equal, revised
from recollect.services.context import Core, Reply, Request, citations_of, commit, load, logged
from recollect.services.memories.attachment_limits import refuse_more
from recollect.services.memories.derived import supported_steps
from recollect.services.memories.remember import citation_mark, citation_record
from recollect.services.memories.revise import change_steps, dependants, fallen_steps
from recollect.services.memories.supersession import SUPERSEDES, moved_steps, promoted_steps, reinstated_steps
from recollect.services.request_limits import MOST_CITATIONS

PAGE = 500


class CiteRequest(Request):
    """Give a memory more evidence."""

    id: Id = Field(description="The memory")
    cites: list[Any] = Field(min_length=1, max_length=MOST_CITATIONS, description="Citations made with recollect.cite")


class Cited(Reply):
    id: str
    citations: list[str]


def cite_memory(core: Core, scope: Scope, request: CiteRequest) -> Cited:
    """Add citations to a memory."""
    memory = load(core, scope, Memory, request.id)
    world = core.world(scope, None)
    given = [read_citation(one) for one in request.cites]
    cited = [citation_record(scope, memory.id, one.sealed(world), one) for one in given]
    stored = citations_of(core, scope, memory.id)
    had = {citation_mark(citation) for citation in stored}
    records = list({mark: one for one in cited if (mark := citation_mark(one)) not in had}.values())
    refuse_more(Citation, len(stored), len(records))
    if records:
        entry = logged(scope, "update", "cite", memory, sources=[record.source for record in records])
        commit(core, scope, [*(Insert(record) for record in records), entry])
    return Cited(id=memory.id, citations=[record.id for record in records])


class UnciteRequest(Request):
    """Take a citation away from a memory."""

    id: Id = Field(description="The memory")
    citation: Id = Field(description="The citation's id")


def uncite(core: Core, scope: Scope, request: UnciteRequest) -> Standing:
    """Remove a citation; a trusted memory left without one that holds becomes a hypothesis again."""
    memory = load(core, scope, Memory, request.id)
    had = citations_of(core, scope, memory.id)
    kept = [citation for citation in had if citation.id != request.citation]
    if len(kept) == len(had):
        raise NotFound(f"memory has no citation '{request.citation[:80]}'", remedy="see its citations")
    unchanged = Require(Memory, memory.id, {"version": memory.version})
    steps: list[Step] = [unchanged, Delete(Citation, request.citation), logged(scope, "update", "uncite", memory)]
    commit(core, scope, [*steps, *unsupported_steps(core, scope, memory, kept)])
    return standing(core, scope, memory.id)


def unsupported_steps(core: Core, scope: Scope, memory: Memory, left: Sequence[Citation]) -> list[Step]:
    """Take the trust away from a memory if none of the citations that are left holds."""
    if memory.status not in TRUSTED or any(citation.state == "holds" for citation in left):
        return []
    why = "its last citation was removed"
    return _moving_steps(core, scope, memory, "hypothesis", "demoted", why, "lost its last citation")


def _moving_steps(core: Core, scope: Scope, memory: Memory, to: str, change: Change, why: str, what: str) -> list[Step]:
    """A memory gets another status: what rests on it falls with its trust, and what it replaced follows."""
    return [
        *change_steps(core, scope, memory, change, why, status=to),
        *(fallen_steps(core, scope, [memory], what) if to not in TRUSTED else ()),
        *moved_steps(core, scope, memory, memory.changed(status=to)),
    ]


class CheckRequest(Request):
    """Look citations up again: of one memory, or of all that the filters leave."""

    id: Id | None = Field(None, description="Only this memory; all of them if left out")
    source: QueryText | None = Field(None, description="Only citations of this source, such as file:notes.md")
    state: CitationState | None = Field(None, description="Only what was last found to be so, such as broken")


class Checked(Reply):
    """How many citations were looked at and what they were found to be; which memories fell."""

    looked_at: int = 0
    holds: int = 0
    claimed: int = 0
    broken: int = 0
    unreachable: int = 0
    demoted: list[str] = Field(default_factory=list)


def check(core: Core, scope: Scope, request: CheckRequest) -> Checked:
    """Check citations against the world; what no longer holds takes its memory's status away."""
    where = [equal("memory_id", request.id)] if request.id else []
    if request.id:
        load(core, scope, Memory, request.id)
    if request.source:
        where.append(equal("source", request.source))
    if request.state:
        where.append(equal("state", request.state))
    report, after = Checked(), None
    while True:
        page = core.store.find(scope, Query(Citation, tuple(where), limit=PAGE, after=after))
        for memory_id, citations in _by_memory(page.records).items():
            check_memory(core, scope, memory_id, citations, report)
        after = page.next
        if after is None:
            return report


def _by_memory(citations: Sequence[Citation]) -> dict[str, list[Citation]]:
    grouped: dict[str, list[Citation]] = {}
    for citation in citations:
        grouped.setdefault(citation.memory_id, []).append(citation)
    return grouped


def check_memory(core: Core, scope: Scope, memory_id: str, citations: Sequence[Citation], report: Checked) -> None:
    """Look up citations of one memory, and add to the report what they were found to be."""
    while True:
        memory = core.store.get(scope, Memory, memory_id)
        if memory is None:
            return
        try:
            checked, demoted = _checked_now(core, scope, memory, citations)
            break
        except VersionConflict:  # somebody checked or changed it meanwhile: look at what they left
            still = tuple(citation.id for citation in citations)
            citations = [one for one in citations_of(core, scope, memory_id) if one.id in still]
    if demoted:
        report.demoted.append(memory_id)
    for state, count in _found(checked).items():
        setattr(report, state, getattr(report, state) + count)
    report.looked_at += len(checked)


def _checked_now(
    core: Core, scope: Scope, memory: Memory, citations: Sequence[Citation]
) -> tuple[list[Citation], bool]:
    """Look the citations up and commit what was found; says whether the memory lost its status."""
    checked = [looked_up(core, scope, citation) for citation in citations]
    return checked, record_checked(core, scope, memory, checked)


def record_checked(core: Core, scope: Scope, memory: Memory, checked: Sequence[Citation]) -> bool:
    """Commit what was found of citations; says whether their memory lost its status by it."""
    broken = [citation for citation in checked if citation.state == "broken" and citation.is_just_seen]
    steps: list[Step] = [Update(citation) for citation in checked]
    fault = broken or _mere_claims(core, scope, memory, checked)
    demoted = bool(fault) and memory.status in TRUSTED
    if demoted:
        why = f"no longer holds: {fault[0].note}" if broken else f"rests on a claim alone: {fault[0].note}"
        steps += _moving_steps(core, scope, memory, "hypothesis", "demoted", why, "no longer holds")
    if steps:
        commit(core, scope, [*steps, logged(scope, "update", "check", memory, found=_found(checked))])
    return demoted


def _mere_claims(core: Core, scope: Scope, memory: Memory, checked: Sequence[Citation]) -> list[Citation]:
    """The claims that a memory rests on, if there is nothing else that it could rest on."""
    claims = [citation for citation in checked if citation.state == "claimed" and citation.is_just_seen]
    if not claims or memory.status not in TRUSTED:
        return []
    now_known = {citation.id: citation for citation in citations_of(core, scope, memory.id)}
    now_known |= {citation.id: citation for citation in checked}
    return [] if any(citation.state in ("holds", "unreachable") for citation in now_known.values()) else claims


def _found(checked: Sequence[Citation]) -> dict[str, int]:
    """How many were found to be what; what was out of sight keeps its state, but was not found to be anything."""
    states = [citation.state if citation.is_just_seen else "unreachable" for citation in checked]
    return {state: states.count(state) for state in ("holds", "claimed", "broken", "unreachable")}


def looked_up(core: Core, scope: Scope, citation: Citation) -> Citation:
    return revised(citation, scope, **citation.looked_up(core.world(scope, citation.memory_id)))


class MoveRequest(Request):
    """Move a memory to another status."""

    id: Id = Field(description="The memory")
    why: Text = Field("", max_length=10_000, description="Why; kept in its history")
    version: int | None = Field(None, ge=1, description="Only if it still has this version")


class PromoteRequest(MoveRequest):
    """Raise a memory's status."""

    to: Literal["verified", "published"] = Field("verified", description="How far up")


class Standing(Reply):
    """Where a memory stands now."""

    id: str
    status: str
    version: int
    citations: list[str] = Field(default_factory=list)


def promote(core: Core, scope: Scope, request: PromoteRequest) -> Standing:
    """Raise a memory's status, if its citations, checked now, support it."""
    memory = load(core, scope, Memory, request.id, version=request.version)
    refuse_promotion(memory, request.to)
    checked = [looked_up(core, scope, citation) for citation in citations_of(core, scope, memory.id)]
    steps: list[Step] = [Update(citation) for citation in checked]
    commit(core, scope, [*steps, *promotion_steps(core, scope, memory, request.to, request.why, checked)])
    return standing(core, scope, memory.id)


def refuse_promotion(memory: Memory, to: str) -> None:
    refuse_illegal(memory, to)
    if memory.status == "published":
        raise IllegalTransition(
            "that memory is published already", remedy="demote it to lower its status", id=memory.id
        )


def promotion_steps(
    core: Core, scope: Scope, memory: Memory, to: str, why: str, checked: Sequence[Citation]
) -> list[Step]:
    """Raise a status that citations, just checked, support."""
    _refuse_unsupported(memory, checked)
    steps = supported_steps(core, scope, memory)
    steps += change_steps(core, scope, memory, "promoted", why, status=to)
    return steps + promoted_steps(core, scope, memory.changed(status=to))


class DemoteRequest(MoveRequest):
    """Lower a memory's status."""

    to: Literal["hypothesis", "verified"] = Field("hypothesis", description="How far down")


def demote(core: Core, scope: Scope, request: DemoteRequest) -> Standing:
    """Lower a memory's status: from published to verified, or to a hypothesis."""
    if request.to == "verified" and load(core, scope, Memory, request.id).status == "hypothesis":
        raise IllegalTransition("a hypothesis cannot be demoted to verified", remedy="promote it", id=request.id)
    return _move(core, scope, request, request.to, "demoted")


def archive(core: Core, scope: Scope, request: MoveRequest) -> Standing:
    """Put a memory aside: kept, but no longer recalled unless asked for."""
    return _move(core, scope, request, "archived", "archived")


def _move(core: Core, scope: Scope, request: MoveRequest, to: str, change: Change) -> Standing:
    memory = load(core, scope, Memory, request.id, version=request.version)
    refuse_illegal(memory, to)
    commit(core, scope, _moving_steps(core, scope, memory, to, change, request.why, f"was {change}"))
    return standing(core, scope, memory.id)


def refuse_illegal(memory: Memory, to: str) -> None:
    if to not in TRANSITIONS[memory.status]:
        raise IllegalTransition(
            f"a memory cannot go from {memory.status} to {to}",
            remedy=f"from {memory.status} it can become {' or '.join(sorted(TRANSITIONS[memory.status]))}",
            id=memory.id,
        )


def _refuse_unsupported(memory: Memory, checked: Sequence[Citation]) -> None:
    if not checked:
        raise IllegalTransition(
            "a memory without a citation is a hypothesis and stays one",
            remedy="say where it comes from: cite a user, file, commit, log entry or url",
            id=memory.id,
        )
    broken = [citation for citation in checked if citation.state == "broken"]
    if broken:
        raise IllegalTransition(
            f"a citation does not hold: {broken[0].note}",
            remedy="cite what is true now, or take the broken citation away",
            id=memory.id,
            citation=broken[0].id,
        )
    claims = [citation for citation in checked if citation.state == "claimed"]
    if claims and not any(citation.state == "holds" and citation.is_just_seen for citation in checked):
        raise IllegalTransition(
            f"a claim alone carries no promotion: {claims[0].note}",
            remedy="let the one who is cited confirm it (confirm), or cite something that can be looked up",
            id=memory.id,
            citation=claims[0].id,
        )
    if not any(citation.state == "holds" and citation.is_just_seen for citation in checked):
        raise IllegalTransition(
            f"no citation could be checked: {checked[0].note}", remedy="cite something that can be", id=memory.id
        )


def standing(core: Core, scope: Scope, id: str) -> Standing:
    memory = load(core, scope, Memory, id)
    shown = [f"{citation.source}: {citation.state}" for citation in citations_of(core, scope, id)]
    return Standing(id=id, status=memory.status, version=memory.version, citations=shown)


class RollBackRequest(Request):
    """Withdraw everything that rests on a source."""

    source: QueryText = Field(
        min_length=1, description="The source as citations name it, such as url:https://… or user:bob"
    )
    why: Text = Field("", max_length=10_000, description="Why it is not to be trusted")
    dry_run: bool = Field(False, description="Only say what would be withdrawn")


class RolledBack(Reply):
    citing: list[str]
    derived: list[str]


def roll_back(core: Core, scope: Scope, request: RollBackRequest) -> RolledBack:
    """Archive every memory that cites a source and everything derived from those, in one transaction."""
    cited = core.store.select(scope, Query(Citation, (equal("source", request.source),)), ("memory_id",))
    citing = sorted({id for (id,) in cited})
    if not citing:
        raise NotFound(f"no memory cites '{request.source[:200]}'", remedy="see `source` of a memory's citations")
    derived = dependants(core, scope, citing)
    if not request.dry_run:
        why = f"source rolled back: {request.source}" + (f" ({request.why})" if request.why else "")
        memories = _loaded(core, scope, [*citing, *derived])
        steps = [
            step
            for memory in memories
            if memory.status != "archived"
            for step in change_steps(core, scope, memory, "archived", why, status="archived")
        ]
        steps += reinstated_steps(core, scope, memories)
        if steps:
            commit(core, scope, steps)
    return RolledBack(citing=citing, derived=derived)


def _loaded(core: Core, scope: Scope, ids: Sequence[str]) -> list[Memory]:
    """Forgotten ones too: restored, they must not come back trusted."""
    return core.store.find(scope, Query(Memory, (OneOf("id", tuple(ids)),), deleted="yes")).records


class RelateRequest(Request):
    """Link two memories."""

    id: Id = Field(description="The memory the link starts from")
    to: Id = Field(description="The memory it points to")
    type: Text = Field(min_length=1, max_length=255, description="What the link says, such as supports or contradicts")
    metadata: Json = Field(default_factory=dict, description="Anything about the link")


class Related(Reply):
    id: str
    links: int


def relate(core: Core, scope: Scope, request: RelateRequest) -> Related:
    """Link one memory to another; the same link twice is one link."""
    if request.id == request.to:
        raise InvalidInput("a memory cannot be linked to itself", remedy="give two different memories")
    if request.type == SUPERSEDES:
        raise InvalidInput("replacing takes more than a link", remedy="remember the new one with supersedes=ID")
    memory = load(core, scope, Memory, request.id)
    load(core, scope, Memory, request.to)
    same = (equal("source_id", request.id), equal("target_id", request.to), equal("type", request.type))
    links = core.store.count(scope, Query(Relationship, (equal("source_id", request.id),)))
    if not core.store.count(scope, Query(Relationship, same)):
        refuse_more(Relationship, links, 1)
        link = Relationship(
            organization_id=scope.organization_id,
            source_id=request.id,
            target_id=request.to,
            type=request.type,
            metadata=request.metadata,
            created_by=scope.actor,
        )
        commit(core, scope, [Insert(link), logged(scope, "update", "relate", memory, to=request.to, type=request.type)])
    return Related(id=request.id, links=core.store.count(scope, Query(Relationship, (equal("source_id", request.id),))))
