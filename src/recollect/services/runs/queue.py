"""The queue of runs: many workers share it, each run has one worker at a time, and none is lost when a worker dies.

A worker claims the most urgent, then oldest run without a lease. The lease is taken in the transaction that marks the
run as running; its fencing number goes with every later call. When a worker dies, another claims its run as soon as the
lease has expired, and continues exactly where it stopped: a step without a result is carried out again if the tool
accepts an idempotency key; otherwise it is marked uncertain and the run waits until a person settles it. A run whose
step waits for approval is nobody's to claim until a person has decided, or the time for that is over.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from pydantic import Field

from recollect.domain.agents import Agent, Cycle, Execution, Lease
from recollect.domain.record import Id, JsonArray, JsonObject, Name, Text, now
from recollect.domain.run_branches import branch_of, history_of
from recollect.errors import Conflict, IllegalTransition, VersionConflict
from recollect.ports.query import Compare, Filter, OneOf, Order, Query, equal
from recollect.ports.records import revised
from recollect.ports.steps import Absent, Require, Step, Update
from recollect.retry import retry
from recollect.services.leases import LONGEST_SECONDS, ending, extend, held_now, is_held, taking
from recollect.services.requests import Reply, Request
from recollect.services.runs.approval import reject_all_late, reject_if_late
from recollect.services.runs.execution import DriveRequest, is_overdue, not_running
from recollect.services.runs.history import (
    RunProgress,
    RunView,
    StepView,
    lease_name,
    on_branch,
    progress_of,
    run_of,
    run_view,
    steps_between,
)
from recollect.services.tenant import Tenant
from recollect.services.transaction import commit, load, logged

PAGE = 100


class ClaimRequest(Request):
    """Which worker asks for a run, and of which queue."""

    worker: Name = Field(description="A unique name for this worker")
    id: Id | None = Field(None, description="This run, instead of the next in the queue")
    queue: Name = Field("default", description="The queue to claim from")
    agent: Id | None = Field(None, description="Only runs of this agent")
    seconds: float = Field(
        60, gt=0, le=LONGEST_SECONDS, description="How long the worker may be silent before another takes over"
    )
    idempotency_key: Id | None = Field(None, description="The same key again returns the same claim")


class AgentBrief(Reply):
    """The agent that a worker acts for."""

    id: str
    name: str
    type: str | None = None
    system: str | None = None
    topic: str | None = None
    directives: JsonArray = Field(default_factory=list)
    llm_config: JsonObject = Field(default_factory=dict)
    tool_rules: JsonArray = Field(default_factory=list)
    mcp_tools: JsonArray = Field(default_factory=list)
    config_overrides: JsonObject = Field(default_factory=dict)
    metadata: JsonObject = Field(default_factory=dict)


class ClaimReply(Reply):
    """A run to work on; `run` is empty when there is none. `todo` says whether to think or to carry out `step`."""

    run: RunView | None = None
    fence: int = 0
    expires_at: datetime | None = None
    todo: str = "think"
    step: StepView | None = Field(None, description="The step to carry out, with its idempotency key")
    last: StepView | None = Field(None, description="The last step that has a result")
    agent: AgentBrief | None = None


def claim(tenant: Tenant, request: ClaimRequest) -> ClaimReply:
    """Take the next run that has no worker."""
    return _claimed_before(tenant, request) or _claim(tenant, request)


def _claimed_before(tenant: Tenant, request: ClaimRequest) -> ClaimReply | None:
    """The run that the same claim already got, if its answer was lost."""
    if request.idempotency_key is None:
        return None
    mine = (equal("holder", request.worker), *_this_claim(request.idempotency_key))
    for lease in tenant.find(Query(Lease, mine, limit=1)).records:
        run = tenant.get(Execution, run_of(lease.id))
        agent = tenant.get(Agent, run.agent_id) if run else None
        if run is not None and agent is not None and run.status == "running":
            return _claimed(tenant, run, progress_of(tenant, run), lease, agent)
    return None


def _this_claim(key: str) -> tuple[Filter, ...]:
    return (equal("claim_key", key), *held_now())


def _claim(tenant: Tenant, request: ClaimRequest) -> ClaimReply:
    if request.id is not None:
        id = request.id
        run = retry(lambda: reject_if_late(tenant, load(tenant, Execution, id)), VersionConflict)
        return _claim_one(tenant, run, request)
    for run in _claimable(tenant, request):
        taken = _take(tenant, run, request)
        if taken is not None:
            return taken
    return _claimed_before(tenant, request) or ClaimReply()


def _claim_one(tenant: Tenant, run: Execution, request: ClaimRequest) -> ClaimReply:
    lease = tenant.get(Lease, lease_name(run.id))
    if lease is not None and is_held(lease):
        raise Conflict(
            f"another worker holds run '{run.id}' until {lease.expires_at:%Y-%m-%dT%H:%M:%SZ}",
            remedy="try again then",
            id=run.id,
        )
    if run.status in ("queued", "running"):
        taken = _take(tenant, run, request)
        if taken is not None:
            return taken
        run = load(tenant, Execution, run.id)
    progress = progress_of(tenant, run)
    if run.status == "paused" and progress.todo == "ask":
        raise IllegalTransition(
            f"run '{run.id}' must be settled: step {progress.length} may or may not have happened",
            remedy="say which with run.settle",
            id=run.id,
        )
    if run.status in ("queued", "running"):
        raise Conflict(f"run '{run.id}' cannot be claimed now", remedy="check that its agent is active", id=run.id)
    raise not_running(run)


def _claimable(tenant: Tenant, request: ClaimRequest) -> Iterator[Execution]:
    """Interrupted runs first, then the most urgent, then the oldest."""
    agent = (equal("agent_id", request.agent),) if request.agent else ()
    reject_all_late(tenant, (equal("queue", request.queue), *agent))
    interrupted = sorted(_interrupted(tenant, request.queue, agent), key=lambda run: (-run.priority, run.id))
    yield from interrupted
    waiting: tuple[Filter, ...] = (equal("queue", request.queue), Compare("status", "=", "queued"), *agent)
    below: tuple[Filter, ...] = ()
    while True:
        # Both reads follow the index from one end; sorting by priority and age at once would read the whole queue.
        top = Query(Execution, (*waiting, *below), (Order("priority", descending=True),), limit=1)
        rows = tenant.select(top, ("priority",))
        if not rows:
            return
        yield from _all(tenant, (*waiting, Compare("priority", "=", rows[0][0])))
        below = (Compare("priority", "<", rows[0][0]),)


def _interrupted(tenant: Tenant, queue: str, agent: tuple[Filter, ...]) -> Iterator[Execution]:
    running = (equal("queue", queue), Compare("status", "=", "running"), *agent)
    found = list(_all(tenant, running))
    for start in range(0, len(found), PAGE):
        page = found[start : start + PAGE]
        names = OneOf("id", tuple(lease_name(run.id) for run in page))
        held = Query(Lease, (names, *held_now()))
        busy = {name for (name,) in tenant.select(held, ("id",))}
        yield from (run for run in page if lease_name(run.id) not in busy)


def _all(tenant: Tenant, where: tuple[Filter, ...]) -> Iterator[Execution]:
    after: str | None = None
    while True:
        page = tenant.find(Query(Execution, where, (Order("id"),), PAGE, after))
        yield from page.records
        if page.next is None:
            return
        after = page.next


def _take(tenant: Tenant, run: Execution, request: ClaimRequest) -> ClaimReply | None:
    """The run with its lease; None if another worker took it first, or if it cannot continue."""
    agent = tenant.get(Agent, run.agent_id)
    held = tenant.get(Lease, lease_name(run.id))
    moment = now()
    if agent is None or agent.status != "active" or is_held(held, moment):
        return None
    progress = progress_of(tenant, run)
    verdict = _verdict(run, progress)
    until = moment + timedelta(seconds=request.seconds) if verdict["status"] == "running" else moment
    lease, taking_it = taking(held, tenant, lease_name(run.id), request.worker, until, request.idempotency_key)
    continued = revised(run, tenant.scope, **verdict, **_counted(run, request.worker, moment))
    once = [Absent(Lease, _this_claim(request.idempotency_key))] if request.idempotency_key else []
    steps = [
        *once,
        taking_it,
        *unmoved(run, progress),
        Update(continued),
        *_cycle_steps(tenant, progress, verdict["status"]),
    ]
    action = "claim" if verdict["status"] == "running" else f"run {verdict['status']}"
    try:
        commit(tenant, [*steps, logged(tenant, "update", action, None, id=run.id, fence=lease.fence)])
    except Conflict:
        return None  # another worker took it first, or the previous one recorded one more step
    if verdict["status"] != "running":
        return None
    return _claimed(tenant, load(tenant, Execution, run.id), progress, lease, agent)


def _verdict(run: Execution, progress: RunProgress) -> JsonObject:
    """The fields of a run that is claimed: it runs, asks to be settled, or fails."""
    crashes = run.crashes + (run.status == "running")
    if is_overdue(run):
        why = {"code": "deadline_passed", "message": "its deadline has passed"}
    elif run.max_crashes is not None and crashes > run.max_crashes:
        why = {"code": "too_many_crashes", "message": f"{crashes} workers crashed on it"}
    elif progress.todo == "ask":
        return {"status": "paused", "note": progress.in_words()}
    else:
        return {"status": "running", "note": ""}
    return {"status": "failed", "ended_at": now(), "error": why, "note": why["message"]}


def _counted(run: Execution, worker: str, moment: datetime) -> JsonObject:
    crashes = run.crashes + (run.status == "running")
    started = run.started_at or moment
    return {"attempts": run.attempts + 1, "crashes": crashes, "worker": worker, "started_at": started}


def _cycle_steps(tenant: Tenant, progress: RunProgress, status: str) -> list[Step]:
    """Count a step that is started again; mark one whose outcome is unknown."""
    last = progress.last
    if last is None or progress.todo == "think" or status == "failed":
        return []
    if progress.todo == "ask":
        return [Update(revised(last, tenant.scope, status="uncertain"))]
    return [Update(revised(last, tenant.scope, status="open", attempts=last.attempts + 1))]


def unmoved(run: Execution, progress: RunProgress) -> list[Step]:
    """Steps that fail unless the run is where it was when read: its previous worker may have continued meanwhile."""
    here = on_branch(run.id, branch_of(run))
    steps: list[Step] = [Absent(Cycle, (*here, Compare("number", ">", progress.length)))]
    if progress.last is not None:
        steps.append(Require(Cycle, progress.last.id, {"version": progress.last.version}))
    return steps


def _claimed(tenant: Tenant, run: Execution, progress: RunProgress, lease: Lease, agent: Agent) -> ClaimReply:
    first = max(progress.length - 1, 1)
    latest = steps_between(tenant, history_of(run), first, progress.length)
    is_acting = progress.todo == "act"
    done = latest[:-1] if is_acting else latest
    brief = AgentBrief(**{name: getattr(agent, name) for name in AgentBrief.own_fields()})
    return ClaimReply(
        run=run_view(tenant, run, progress),
        fence=lease.fence,
        expires_at=lease.expires_at,
        todo=progress.todo,
        step=latest[-1] if is_acting else None,
        last=done[-1] if done else None,
        agent=brief,
    )


class RenewRequest(DriveRequest):
    """A worker is still working on a run."""

    seconds: float = Field(60, gt=0, le=LONGEST_SECONDS, description="How long the worker may be silent from now on")


class RenewReply(Reply):
    """`status` tells the worker whether the run was paused or cancelled meanwhile."""

    run: str
    expires_at: datetime
    status: str


def renew(tenant: Tenant, request: RenewRequest) -> RenewReply:
    """Extend the lease of a run while a step takes long."""
    run = load(tenant, Execution, request.id)
    until = now() + timedelta(seconds=request.seconds)
    lease = extend(tenant.store, tenant.scope, lease_name(run.id), request.fence, until)
    return RenewReply(run=run.id, expires_at=lease.expires_at, status=run.status)


class ReleaseRequest(DriveRequest):
    """A worker stops working on a run that has not ended."""

    note: Text = Field("", max_length=10_000, description="Why")


def release(tenant: Tenant, request: ReleaseRequest) -> RunView:
    """Give a run back, so that another worker can continue it immediately."""
    name = lease_name(request.id)
    for attempts_left in (4, 3, 2, 1, 0):
        run = load(tenant, Execution, request.id)
        steps = ending(tenant.store, tenant.scope, name, request.fence)
        if run.status == "running":
            steps.append(Update(revised(run, tenant.scope, status="queued", note=request.note)))
        try:
            commit(tenant, [*steps, logged(tenant, "update", "release", None, id=run.id, fence=request.fence)])
            break
        except Conflict:  # taken over: the next attempt says so; or just paused: only the lease is left to end
            if not attempts_left:
                raise
    return run_view(tenant, load(tenant, Execution, run.id))
