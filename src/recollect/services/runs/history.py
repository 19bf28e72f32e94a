"""The history of runs: what they did, are doing and will do next, read from their records.

Nothing here is stored: the progress of a run follows from its last cycle. Only the requested steps are read, so a run
of ten thousand steps is shown, and continued, as fast as one of ten.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from recollect.domain.agents import Cycle, Execution, ExecutionStatus, Lease, Proposal, Result
from recollect.domain.record import Id, JsonArray, JsonObject, Name, QueryText, now
from recollect.domain.run_branches import BranchSpan, between, branch_of, history_of
from recollect.ports.query import Compare, Filter, OneOf, Order, Query, equal
from recollect.services.leases import held_now, is_held
from recollect.services.parties import restorable_until, shown
from recollect.services.requests import PageReply, Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.transaction import counted_page, load

Todo = Literal["think", "act", "ask", "wait"]
ShownStatus = Literal[ExecutionStatus, "interrupted"]
"""The status of a run as people are told it: one that runs, but whose worker stopped responding, is interrupted."""
RECORDED = ("outcome", "summary", "output", "error", "artifacts", "seconds")


class StepView(Reply):
    """One step: its proposal and its result."""

    number: int
    run: str
    branch: int
    cycle: str
    agent: str
    index: int = Field(description="The number of the cycle among all cycles of its agent, from 0")
    state: str = Field(description="done, open, waiting, approved, uncertain, again or abandoned")
    tool: str | None = None
    arguments: JsonObject = Field(default_factory=dict)
    thoughts: JsonObject = Field(default_factory=dict)
    reasoning: str = ""
    plan: JsonArray = Field(default_factory=list)
    snapshot: JsonObject = Field(default_factory=dict)
    idempotency_key: str | None = None
    repeatable: bool = False
    attempts: int = 1
    proposed_at: datetime
    approval: JsonObject | None = Field(None, description="Who approved or rejected it, when and why")
    result: str | None = None
    outcome: str | None = None
    summary: str = ""
    output: JsonObject | None = None
    error: JsonObject | None = None
    artifacts: JsonArray = Field(default_factory=list)
    missing_artifacts: JsonArray = Field(
        default_factory=list, description="Artifacts that named a file of a workspace which was not there"
    )
    memory: str | None = None
    recorded_at: datetime | None = None
    seconds: float | None = None


class RunView(Reply):
    """A run, its progress, and what happens next."""

    id: str
    goal: str
    agent: str
    status: str = Field(
        description="queued, running, waiting (for approval), paused, succeeded, failed or cancelled; interrupted: its "
        "worker stopped responding, and the next one continues it"
    )
    next: str
    length: int = Field(description="How many steps its history has, shared ones included")
    asks: int | None = Field(None, description="The step whose outcome is unknown; settle it with `run.settle`")
    waiting: int | None = Field(None, description="The step that waits for `run.approve` or `run.reject`")
    waits_until: datetime | None = Field(None, description="When that step counts as rejected")
    approve: str = Field("never", description="Which steps a person must approve: never, tools or always")
    approval_seconds: float | None = None
    note: str = ""
    session: str | None = None
    message: str | None = None
    queue: str = "default"
    priority: int = 5
    attempts: int = 0
    crashes: int = 0
    worker: str | None = None
    held_until: datetime | None = None
    max_steps: int | None = None
    max_crashes: int | None = None
    deadline: datetime | None = None
    remembers: bool = True
    steps: JsonArray = Field(default_factory=list)
    parent: str | None = None
    forked_after: int | None = None
    rewinds: list[int] = Field(default_factory=list)
    result: JsonObject | None = None
    error: JsonObject | None = None
    metadata: JsonObject = Field(default_factory=dict)
    idempotency_key: str | None = None
    created_at: datetime
    updated_at: datetime
    created_by: str | None = None
    updated_by: str | None = None
    version: int
    started_at: datetime | None = None
    ended_at: datetime | None = None
    restorable_until: datetime | None = Field(None, description="Set for a removed one: `run.restore` until then")
    duplicate: bool = Field(False, description="Whether an earlier call with the same idempotency key started it")


@dataclass(frozen=True, slots=True)
class RunProgress:
    """The progress of a run: its last own cycle, if any, and what to do next."""

    length: int
    todo: Todo
    last: Cycle | None = None
    proposal: Proposal | None = None

    def in_words(self) -> str:
        if self.todo == "think":
            return f"thinks about step {self.length + 1}"
        assert self.last is not None
        assert self.proposal is not None
        what = f"step {self.last.number} ({tool_of(self.proposal) or 'no tool'})"
        if self.todo == "wait":
            return f"{what} waits for approval: `run approve` or `run reject`"
        if self.last.status == "approved":
            return f"{what} is approved and carried out"
        if self.todo == "ask":
            return f"{what} may have happened: say so with `run settle`"
        if self.last.status == "again":
            return f"{what} did not happen and is carried out again"
        return f"{what} is carried out again, with the same idempotency key"


def lease_name(run: str) -> str:
    return f"run {run}"


def run_of(lease: str) -> str:
    return lease.removeprefix("run ")


def tool_of(proposal: Proposal) -> str | None:
    call = proposal.tool_call
    return None if call is None else str(call.get("tool", ""))


def on_branch(run: str, branch: int) -> tuple[Filter, ...]:
    return (equal("execution_id", run), Compare("branch", "=", branch))


def progress_of(tenant: Tenant, run: Execution) -> RunProgress:
    """Follows from the last cycle alone, however many there are."""
    own = history_of(run)[-1]
    query = Query(Cycle, on_branch(run.id, own.branch), (Order("number", descending=True),), limit=1)
    found = tenant.find(query).records
    if not found:
        return RunProgress(own.after, "think")
    last = found[0]
    if last.status == "done":
        return RunProgress(last.number, "think", last)
    return _at(last, tenant.find(Query(Proposal, (equal("cycle_id", last.id),), limit=1)).records[0])


def _at(last: Cycle, proposal: Proposal) -> RunProgress:
    if last.status == "waiting":
        return RunProgress(last.number, "wait", last, proposal)
    safe = last.status in ("again", "approved") or (last.status == "open" and proposal.is_repeatable)
    return RunProgress(last.number, "act" if safe else "ask", last, proposal)


def progress_of_all(tenant: Tenant, runs: Sequence[Execution]) -> dict[str, RunProgress]:
    """The progress of several runs, read together: the number of steps of a branch tells which is the last."""
    if not runs:
        return {}
    of_these = OneOf("execution_id", tuple(run.id for run in runs))
    lengths = tenant.count_by(Query(Cycle, (of_these,)), ["execution_id", "branch"])
    last: dict[str, tuple[int, int]] = {}
    for run in runs:
        own = history_of(run)[-1]
        last[run.id] = own.branch, own.after + lengths.get((run.id, own.branch), 0)
    numbers = OneOf("number", tuple({number for _, number in last.values()}))
    places = tenant.select(Query(Cycle, (of_these, numbers)), ("id", "execution_id", "branch", "number"))
    ids = tuple(id for id, run, *place in places if tuple(place) == last[run])
    cycles = {one.execution_id: one for one in tenant.find(Query(Cycle, (OneOf("id", ids),))).records}
    undone = OneOf("cycle_id", tuple(one.id for one in cycles.values() if one.status != "done"))
    proposals = {one.cycle_id: one for one in tenant.find(Query(Proposal, (undone,))).records}
    progress: dict[str, RunProgress] = {}
    for run in runs:
        cycle = cycles.get(run.id)
        if cycle is None:
            progress[run.id] = RunProgress(history_of(run)[-1].after, "think")
        elif cycle.id in proposals:
            progress[run.id] = _at(cycle, proposals[cycle.id])
        else:
            progress[run.id] = RunProgress(cycle.number, "think", cycle)
    return progress


def steps_between(tenant: Tenant, stretches: Sequence[BranchSpan], first: int, last: int) -> list[StepView]:
    """The steps with these numbers, both ends included, oldest first.

    A step that is shared has a result, and stays done here although the run that made it was rewound before it.
    """
    steps = step_views(tenant, cycles_between(tenant, stretches, first, last))
    return [one.model_copy(update={"state": "done"}) if one.state == "abandoned" else one for one in steps]


def cycles_between(tenant: Tenant, stretches: Sequence[BranchSpan], first: int, last: int) -> list[Cycle]:
    cycles: list[Cycle] = []
    for part in between(stretches, first, last):
        numbers = (Compare("number", ">", part.after), Compare("number", "<=", part.upto))
        query = Query(Cycle, (*on_branch(part.run, part.branch), *numbers), (Order("number"),))
        cycles += tenant.find(query).records
    return cycles


def step_views(tenant: Tenant, cycles: Sequence[Cycle]) -> list[StepView]:
    if not cycles:
        return []
    ids = OneOf("cycle_id", tuple(cycle.id for cycle in cycles))
    proposals = {one.cycle_id: one for one in tenant.find(Query(Proposal, (ids,))).records}
    results = {one.cycle_id: one for one in tenant.find(Query(Result, (ids,))).records}
    return [step_view(cycle, proposals.get(cycle.id), results.get(cycle.id)) for cycle in cycles]


def step_view(cycle: Cycle, proposal: Proposal | None, result: Result | None) -> StepView:
    fields: JsonObject = {}
    if proposal is not None:
        arguments = (proposal.tool_call or {}).get("arguments", {})
        fields |= {"tool": tool_of(proposal), "arguments": arguments, "repeatable": proposal.is_repeatable}
        copied = ("thoughts", "reasoning", "plan", "idempotency_key", "approval")
        fields |= {name: getattr(proposal, name) for name in copied}
    if result is not None:
        fields |= {"result": result.id, "memory": result.memory_id, "recorded_at": result.created_at}
        fields |= {name: getattr(result, name) for name in RECORDED}
        fields["missing_artifacts"] = result.missing_artifacts or []
    return StepView(
        number=cycle.number, run=cycle.execution_id or "", branch=cycle.branch, cycle=cycle.id, agent=cycle.agent_id,
        index=cycle.index, state=cycle.status, snapshot=cycle.snapshot, attempts=cycle.attempts,
        proposed_at=cycle.created_at, **fields,
    )  # fmt: skip


_SAME_NAME = (
    "id goal queue priority attempts crashes worker max_steps max_crashes deadline remembers steps note"
    " idempotency_key created_at updated_at created_by updated_by version started_at ended_at result error"
    " approve approval_seconds waits_until"
).split()


def run_view(tenant: Tenant, run: Execution, progress: RunProgress | None = None, **more: Any) -> RunView:
    progress = progress or progress_of(tenant, run)
    return _view(run, progress, tenant.get(Lease, lease_name(run.id)), **more)


def _view(run: Execution, progress: RunProgress, lease: Lease | None, **more: Any) -> RunView:
    held_until = lease.expires_at if lease is not None and is_held(lease) else None
    is_asking = progress.todo == "ask" and held_until is None and run.ended_at is None
    is_interrupted = run.status == "running" and held_until is None
    return RunView(
        status="interrupted" if is_interrupted else run.status,
        next=_next(run, progress, held_until),
        length=progress.length,
        asks=progress.length if is_asking else None,
        waiting=progress.length if run.status == "waiting" else None,
        agent=run.agent_id,
        session=run.session_id,
        message=run.message_id,
        held_until=held_until,
        parent=run.parent_id,
        forked_after=run.past[-1][3] if run.past else None,
        rewinds=run.rewinds or [],
        metadata=run.metadata or {},
        **{name: getattr(run, name) for name in _SAME_NAME},
        **more,
    )


def _next(run: Execution, progress: RunProgress, held_until: datetime | None) -> str:
    if run.status in ("succeeded", "cancelled"):
        return "nothing: it has ended"
    if held_until is not None:
        return f"{run.worker} is working on step {progress.length if progress.proposal else progress.length + 1}"
    if run.waits_until is not None and run.waits_until <= now():
        return f"step {progress.length} was not approved in time and counts as rejected when a worker looks for runs"
    when = {
        "waiting": "",
        "queued": "when a worker claims it: ",
        "running": "its worker stopped responding; when another claims it: ",
        "paused": "" if progress.todo == "ask" else "when it is resumed: ",
        "failed": "if it is resumed nevertheless: ",
    }
    return when[run.status] + progress.in_words()


class ShowRunRequest(Request):
    """Which run to show, and how many of its steps."""

    id: Id = Field(description="The run")
    limit: int = Field(50, ge=0, le=1000, description="The most steps to show, by default the latest")
    before: int | None = Field(None, ge=1, description="Only steps before this number, to page back")


class Timeline(RunView):
    """A run with its latest steps, oldest first; `more` is the number of steps before them."""

    timeline: list[StepView] = Field(default_factory=list)
    more: int = 0
    abandoned: list[StepView] = Field(default_factory=list)
    forks: list[str] = Field(default_factory=list)


def show(tenant: Tenant, request: ShowRunRequest) -> Timeline:
    """One run: its progress, its steps, those it abandoned, and its forks."""
    return timeline(tenant, load(tenant, Execution, request.id), request.limit, request.before)


def timeline(tenant: Tenant, run: Execution, limit: int = 50, before: int | None = None) -> Timeline:
    progress = progress_of(tenant, run)
    last = min(progress.length, (before or progress.length + 1) - 1)
    first = max(last - limit, 0) + 1
    steps = steps_between(tenant, history_of(run), first, last)
    forks = tenant.select(Query(Execution, (equal("parent_id", run.id),), (Order("id"),)), ("id",))
    view = run_view(tenant, run, progress)
    given_up = _abandoned(tenant, run, limit)
    return Timeline(
        **dict(view), timeline=steps, more=first - 1, abandoned=given_up, forks=[id for (id,) in forks]
    )  # fmt: skip


def _abandoned(tenant: Tenant, run: Execution, limit: int) -> list[StepView]:
    if not branch_of(run) or not limit:
        return []
    given_up = (equal("execution_id", run.id), Compare("status", "=", "abandoned"))
    query = Query(Cycle, given_up, (Order("branch"), Order("number")), limit=limit)
    return step_views(tenant, tenant.find(query).records)


class RunsRequest(Request):
    """Which runs to list."""

    status: ShownStatus | None = Field(None, description="Only with this status")
    agent: Id | None = Field(None, description="Only this agent's")
    session: Id | None = Field(None, description="Only of this session")
    message: Id | None = Field(None, description="Only those that this message asked for")
    queue: Name | None = Field(None, description="Only in this queue")
    parent: Id | None = Field(None, description="Only forks of this run")
    removed: bool = Field(False, description="List removed ones that can be restored instead")
    limit: int = Field(50, ge=1, le=1000, description="How many at most")
    after: QueryText | None = Field(None, description="The `next` of the page before")


class RunPage(PageReply[RunView]):
    """Runs, the newest first."""

    runs: list[RunView]
    total: int


_RUN_FILTERS = {
    "agent": "agent_id",
    "session": "session_id",
    "message": "message_id",
    "queue": "queue",
    "parent": "parent_id",
}


def runs(tenant: Tenant, request: RunsRequest) -> RunPage:
    """List runs, the newest first, each with its progress."""
    where = tuple(
        equal(field, value) for name, field in _RUN_FILTERS.items() if (value := getattr(request, name)) is not None
    )
    where += _with_status(tenant, request.status) if request.status is not None else ()
    newest = (Order("id", descending=True),)
    return run_page(tenant, Query(Execution, where, newest, request.limit, request.after, shown(request.removed)))


def _with_status(tenant: Tenant, status: ShownStatus) -> tuple[Filter, ...]:
    """Those that run have a worker with a lease, of which there are few; without one they are interrupted."""
    if status not in ("running", "interrupted"):
        return (equal("status", status),)
    held = tenant.select(Query(Lease, held_now()), ("id",))
    working = tuple(run_of(name) for (name,) in held if name.startswith(lease_name("")))
    return equal("status", "running"), OneOf("id", working, wanted=status == "running")


def run_page(tenant: Tenant, query: Query[Execution]) -> RunPage:
    page, total = counted_page(tenant, query)
    progress = progress_of_all(tenant, page.records)
    names = OneOf("id", tuple(lease_name(run.id) for run in page.records))
    leases = {run_of(one.id): one for one in tenant.find(Query(Lease, (names,))).records}
    views = [
        _view(run, progress[run.id], leases.get(run.id), restorable_until=restorable_until(tenant, run))
        for run in page.records
    ]
    return RunPage(runs=views, next=page.next, total=total)
