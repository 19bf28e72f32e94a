"""Approval: steps of runs that wait until a person says whether they may be carried out.

A run that asks for approval (`run.start(approve=…)`) stores such a step, gives its lease back and waits: no worker is
bound to it, and one that dies meanwhile loses nothing. Approved, the run goes back into its queue, and whoever claims
it carries the step out. Rejected, the step has a result that says why and by whom, and the agent continues from there.
A decision stands: the same one again changes nothing, another one is refused. A step that nobody decides on in time
counts as rejected; the next worker that looks for runs, or the next person who decides, records that.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from recollect.domain.agents import Cycle, Execution, Proposal
from recollect.domain.record import Id, JsonObject, Name, QueryText, Text, now
from recollect.domain.run_branches import history_of
from recollect.errors import Conflict, IllegalTransition, InvalidInput, VersionConflict
from recollect.ports.query import Compare, Filter, Order, Query, equal
from recollect.ports.records import revised
from recollect.ports.steps import Update
from recollect.retry import retry
from recollect.services.requests import PageReply, Request
from recollect.services.runs.execution import store_result
from recollect.services.runs.history import (
    StepView,
    Timeline,
    cycles_between,
    progress_of,
    progress_of_all,
    step_view,
    timeline,
)
from recollect.services.tenant import Tenant
from recollect.services.transaction import commit, counted_page, load, logged

SHOWN = 20
EXPIRED_AT_ONCE = 100
TOO_LATE = "nobody approved it in time"
Decision = Literal["approved", "rejected"]


class WaitingRequest(Request):
    """Which steps to list."""

    agent: Id | None = Field(None, description="Only this agent's")
    session: Id | None = Field(None, description="Only of runs of this session")
    queue: Name | None = Field(None, description="Only of runs in this queue")
    limit: int = Field(50, ge=1, le=1000, description="How many at most")
    after: QueryText | None = Field(None, description="The `next` of the page before")


class WaitingStep(StepView):
    """A step that waits for approval, and the run it belongs to."""

    goal: str
    session: str | None = None
    queue: str
    waits_until: datetime = Field(description="When it counts as rejected")


class WaitingPage(PageReply[WaitingStep]):
    """Steps that wait for approval, the one with the least time left first."""

    steps: list[WaitingStep]
    total: int


def waiting(tenant: Tenant, request: WaitingRequest) -> WaitingPage:
    """List the steps that wait for approval; those whose time is over count as rejected and are left out."""
    given = {"agent_id": request.agent, "session_id": request.session, "queue": request.queue}
    where = [equal(field, value) for field, value in given.items() if value is not None]
    where += [Compare("status", "=", "waiting"), Compare("waits_until", ">", now())]
    query = Query(Execution, tuple(where), (Order("waits_until"),), request.limit, request.after)
    page, total = counted_page(tenant, query)
    progress = progress_of_all(tenant, page.records)
    steps: list[WaitingStep] = []
    for run in page.records:
        last, proposal = progress[run.id].last, progress[run.id].proposal
        if last is not None and run.waits_until is not None:
            more = {"goal": run.goal, "session": run.session_id, "queue": run.queue, "waits_until": run.waits_until}
            steps.append(WaitingStep(**dict(step_view(last, proposal, None)), **more))
    return WaitingPage(steps=steps, next=page.next, total=total)


class DecideRequest(Request):
    """A decision about a step that waits for approval."""

    id: Id = Field(description="The run")
    step: int | None = Field(None, ge=1, description="The number of the step, as a safeguard against deciding another")
    cycle: Id | None = Field(
        None, description="The id of its cycle, as a safeguard where the run may have been rewound meanwhile"
    )


class ApproveRequest(DecideRequest):
    """Let a step be carried out."""

    why: Text = Field("", max_length=10_000, description="The reason; stored with the step")


class RejectRequest(DecideRequest):
    """Do not let a step be carried out."""

    why: Text = Field(min_length=1, max_length=10_000, description="The reason; the agent gets it as the result")


def approve(tenant: Tenant, request: ApproveRequest) -> Timeline:
    """Let a step that waits be carried out; the run goes back into its queue."""
    return retry(lambda: _decide(tenant, request, "approved"), VersionConflict)


def reject(tenant: Tenant, request: RejectRequest) -> Timeline:
    """Refuse a step that waits; its result says why and by whom, and the agent continues from there."""
    return retry(lambda: _decide(tenant, request, "rejected"), VersionConflict)


def _decide(tenant: Tenant, request: ApproveRequest | RejectRequest, decision: Decision) -> Timeline:
    run = reject_if_late(tenant, load(tenant, Execution, request.id))
    cycle = _cycle_meant(tenant, run, request)
    proposal = tenant.find(Query(Proposal, (equal("cycle_id", cycle.id),), limit=1)).records[0]
    if run.status == "waiting" and cycle.status == "waiting":
        if decision == "approved":
            _approve(tenant, run, cycle, proposal, request.why)
        else:
            _reject(tenant, run, cycle, proposal, request.why, by=tenant.scope.actor)
    elif (proposal.approval or {}).get("decision") != decision:
        raise _undecidable(run, cycle, proposal)
    return timeline(tenant, load(tenant, Execution, run.id), SHOWN)


def _cycle_meant(tenant: Tenant, run: Execution, request: DecideRequest) -> Cycle:
    if request.step is None:
        last = progress_of(tenant, run).last
        found = [last] if last is not None else []
    else:
        found = cycles_between(tenant, history_of(run), request.step, request.step)
    if not found:
        raise InvalidInput(f"run '{run.id}' has no such step", remedy="see run.show")
    if request.cycle not in (None, found[0].id):
        raise Conflict(
            f"step {found[0].number} of run '{run.id}' is another one by now", remedy="look at it again", id=run.id
        )
    return found[0]


def _undecidable(run: Execution, cycle: Cycle, proposal: Proposal) -> IllegalTransition:
    decided = proposal.approval
    if decided is not None:
        who = f" by {decided['by']}" if decided.get("by") else ""
        message = f"step {cycle.number} of run '{run.id}' was already {decided['decision']}{who}"
        remedy = "rewind the run to let the agent propose it again; run.show has the reason"
    elif cycle.status == "waiting":
        message, remedy = f"run '{run.id}' is {run.status}", "fork it to continue from one of its steps"
    else:
        message = f"step {cycle.number} of run '{run.id}' does not wait for approval"
        remedy = "run.waiting lists the steps that do"
    return IllegalTransition(message, remedy=remedy, id=run.id, step=cycle.number)


def _approve(tenant: Tenant, run: Execution, cycle: Cycle, proposal: Proposal, why: str) -> None:
    decided = _decided("approved", tenant.scope.actor, why)
    commit(
        tenant,
        [
            Update(revised(run, tenant.scope, status="queued", waits_until=None)),
            Update(revised(cycle, tenant.scope, status="approved")),
            Update(revised(proposal, tenant.scope, approval=decided)),
            logged(tenant, "update", "approve step", None, id=run.id, step=cycle.number),
        ],
    )


def _reject(tenant: Tenant, run: Execution, cycle: Cycle, proposal: Proposal, why: str, by: str | None) -> None:
    decided = _decided("rejected", by, why)
    given = {"outcome": "error", "error": {"code": "rejected", "message": why, "by": by, "at": decided["at"]}}
    also = [
        Update(revised(run, tenant.scope, status="queued", waits_until=None)),
        Update(revised(proposal, tenant.scope, approval=decided)),
    ]
    store_result(tenant, run, cycle, given, kind=None, fence=None, action="reject step", also=also)


def _decided(decision: Decision, by: str | None, why: str) -> JsonObject:
    return {"decision": decision, "by": by, "at": now().isoformat(), "why": why}


def reject_if_late(tenant: Tenant, run: Execution) -> Execution:
    """The run as it is now: with a result for a step that nobody approved in time."""
    if run.status != "waiting" or run.waits_until is None or run.waits_until > now():
        return run
    progress = progress_of(tenant, run)
    if progress.last is not None and progress.proposal is not None:
        _reject(tenant, run, progress.last, progress.proposal, TOO_LATE, by=None)
    return load(tenant, Execution, run.id)


def reject_all_late(tenant: Tenant, where: tuple[Filter, ...]) -> None:
    """The same for the runs that pass the filters; what somebody else decides at this moment is left to them."""
    late = (*where, Compare("status", "=", "waiting"), Compare("waits_until", "<=", now()))
    for run in tenant.find(Query(Execution, late, (Order("waits_until"),), EXPIRED_AT_ONCE)).records:
        try:
            reject_if_late(tenant, run)
        except VersionConflict:
            continue
