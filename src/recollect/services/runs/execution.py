"""Running a task step by step: propose, act, record, finish.

The order is guaranteed: the run is stored before any work, a proposal before its effect, a result before the next step;
each is one transaction with its audit entry. A worker sends the fencing number of its lease (services/runs/queue.py)
with every call, and the store checks it in the same transaction, so a worker that lost its lease changes nothing. A
proposal that must be approved ends the lease as it is stored: the run waits without a worker
(services/runs/approval.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

from pydantic import Field

from recollect.domain.agents import Cycle, Execution, Proposal, Result
from recollect.domain.memory import canonical
from recollect.domain.record import Id, Json, JsonArray, JsonList, JsonObject, Text, now
from recollect.domain.run_branches import branch_of
from recollect.errors import (
    Conflict,
    DuplicateKey,
    IllegalTransition,
    ReferenceMissing,
    RequirementFailed,
    TooLarge,
    VersionConflict,
)
from recollect.ports.query import Order, Query, equal
from recollect.ports.records import revised
from recollect.ports.steps import Insert, Require, Step, Update
from recollect.services.leases import ending, fenced, held_with
from recollect.services.memories.draft import RememberRequest
from recollect.services.memories.remember import remembering
from recollect.services.requests import Reply, Request
from recollect.services.runs.artifacts import missing_artifacts
from recollect.services.runs.history import RunProgress, RunView, lease_name, progress_of, run_view
from recollect.services.tenant import Tenant
from recollect.services.transaction import commit, load, logged, made

MOST_OUTPUT = 1_000_000
PROPOSE_ATTEMPTS = 100


class DriveRequest(Request):
    """The fields of every call by a worker."""

    id: Id = Field(description="The run")
    fence: int = Field(ge=1, description="The fencing number that `run.claim` gave; an old one is refused")


class ProposeRequest(DriveRequest):
    """What the agent is about to do. It must be stored before it is done."""

    tool: Text | None = Field(None, description="The tool to call; omit it for a step that only thinks")
    arguments: Json = Field(default_factory=dict, description="The arguments of the tool")
    thoughts: Json = Field(default_factory=dict, description="The thoughts of the model, as it returned them")
    reasoning: Text = Field("", description="Why this step")
    plan: JsonList = Field(default_factory=list, description="The steps planned after this one")
    snapshot: Json = Field(default_factory=dict, description="The state of the agent, to resume from")
    repeatable: bool = Field(
        False, description="Whether the tool can safely be called again with the same idempotency key"
    )
    number: int | None = Field(None, ge=1, description="The number of the step, to recognise a repeated call")


class ProposeReply(Reply):
    """The stored step: carry it out now, with its idempotency key; unless it is `waiting` for approval, in which case
    the lease has ended, and whoever claims the run afterwards carries it out."""

    run: str
    number: int
    cycle: str
    index: int
    idempotency_key: str
    waiting: bool = False
    duplicate: bool = False


def propose(tenant: Tenant, request: ProposeRequest) -> ProposeReply:
    """Store the next step before it is carried out."""
    run = load(tenant, Execution, request.id)
    held_with(tenant.store, tenant.scope, lease_name(run.id), request.fence)
    for _ in range(PROPOSE_ATTEMPTS):
        progress = progress_of(tenant, run)
        if _is_repeated(progress, request):
            return _proposed(progress.last, duplicate=True)
        _refuse_a_step(run, progress)
        waits = run.needs_approval(request.tool)
        cycle = _next_cycle(tenant, run, progress, request.snapshot, waits)
        steps = [*_driving(run, request.fence), *_proposal_steps(tenant, cycle, request)]
        steps += _waiting_steps(tenant, run, request.fence) if waits else []
        try:
            commit(tenant, [*steps, logged(tenant, "create", "propose", None, id=run.id, step=cycle.number)])
        except DuplicateKey:
            continue  # another run of the same agent took that index: get the next one
        except VersionConflict:
            run = load(tenant, Execution, request.id)
            continue
        except RequirementFailed as failed:
            raise _refusal(tenant, run, request.fence, failed) from None
        return _proposed(cycle)
    raise Conflict("too many runs of this agent propose steps at the same time", remedy="try again", id=run.id)


def _is_repeated(progress: RunProgress, request: ProposeRequest) -> bool:
    if request.number is None or progress.last is None or progress.last.number != request.number:
        return False
    call = progress.proposal.tool_call if progress.proposal is not None else None
    return progress.last.status in ("open", "waiting", "approved") and call == _call(request)


def _call(request: ProposeRequest) -> JsonObject | None:
    return None if request.tool is None else {"tool": request.tool, "arguments": request.arguments}


def _refuse_a_step(run: Execution, progress: RunProgress) -> None:
    if run.status != "running":
        raise not_running(run)
    if progress.todo != "think":
        raise IllegalTransition(
            f"step {progress.length} of run '{run.id}' has no result yet", remedy="record its result first", id=run.id
        )
    if is_overdue(run):
        raise IllegalTransition(
            f"the deadline of run '{run.id}' has passed",
            remedy="fail or finish it",
            id=run.id,
            reason="deadline_passed",
        )
    if run.max_steps is not None and progress.length >= run.max_steps:
        raise IllegalTransition(
            f"run '{run.id}' has taken all of its {run.max_steps} steps",
            remedy="fail or finish it",
            id=run.id,
            reason="too_many_steps",
        )


def not_running(run: Execution) -> IllegalTransition:
    remedies = {
        "paused": "resume it first",
        "queued": "claim it first",
        "waiting": "its last step waits for approval: run.approve or run.reject",
    }
    remedy = remedies.get(run.status, "fork it to continue from a step")
    return IllegalTransition(f"run '{run.id}' is {run.status}", remedy=remedy, id=run.id, status=run.status)


def is_overdue(run: Execution) -> bool:
    return run.deadline is not None and run.deadline <= now()


def _next_cycle(tenant: Tenant, run: Execution, progress: RunProgress, snapshot: JsonObject, waits: bool) -> Cycle:
    latest = Query(Cycle, (equal("agent_id", run.agent_id),), (Order("index", descending=True),), limit=1)
    rows = tenant.unrestricted.select(latest, ("index",))  # an agent counts the steps of all its runs
    index = rows[0][0] + 1 if rows else 0
    place = {"branch": branch_of(run), "number": progress.length + 1, "index": index}
    place |= {"status": "waiting", "attempts": 0} if waits else {}
    cycle: Cycle = made(Cycle, tenant, agent_id=run.agent_id, execution_id=run.id, snapshot=snapshot, **place)
    _check_size(cycle.snapshot, "snapshot")
    return cycle


def _proposal_steps(tenant: Tenant, cycle: Cycle, request: ProposeRequest) -> list[Step]:
    call = _call(request)
    _check_size(call, "tool call")
    copied = {name: getattr(request, name) for name in ("thoughts", "reasoning", "plan")}
    proposal = made(
        Proposal,
        tenant,
        cycle_id=cycle.id,
        tool_call=call,
        idempotency_key=cycle.id,
        is_repeatable=request.repeatable or call is None,
        **copied,
    )
    return [Insert(cycle), Insert(proposal)]


def _waiting_steps(tenant: Tenant, run: Execution, fence: int) -> list[Step]:
    """The run gives its worker free until somebody has decided, or the time for that is over."""
    until = now() + timedelta(seconds=run.approval_seconds or tenant.approval_seconds)
    waiting = revised(run, tenant.scope, status="waiting", waits_until=until)
    return [*ending(tenant.store, tenant.scope, lease_name(run.id), fence), Update(waiting)]


def _driving(run: Execution, fence: int) -> list[Step]:
    """Fails unless the caller holds the lease and the run is still running."""
    return [fenced(lease_name(run.id), fence), Require(Execution, run.id, {"status": "running"})]


def _refusal(tenant: Tenant, run: Execution, fence: int, failed: RequirementFailed) -> Conflict:
    """Why a call of a worker was refused: it lost the lease, or the run was stopped."""
    held_with(tenant.store, tenant.scope, lease_name(run.id), fence)
    current = load(tenant, Execution, run.id)
    return failed if current.status == "running" else not_running(current)


def _proposed(cycle: Cycle | None, duplicate: bool = False) -> ProposeReply:
    assert cycle is not None
    assert cycle.execution_id is not None
    return ProposeReply(
        run=cycle.execution_id, number=cycle.number, cycle=cycle.id, index=cycle.index, idempotency_key=cycle.id,
        waiting=cycle.status in ("waiting", "approved"), duplicate=duplicate,
    )  # fmt: skip


def _check_size(value: Any, what: str) -> None:
    if value and len(canonical(value)) > MOST_OUTPUT:
        raise TooLarge(
            f"that {what} is larger than {MOST_OUTPUT} bytes",
            remedy="store it in a file of the workspace and record its path",
        )


class RecordRequest(DriveRequest):
    """The result of a proposed step."""

    outcome: Literal["success", "error", "timeout"] = Field("success", description="Whether it succeeded")
    summary: Text = Field("", max_length=20_000, description="The result in a sentence; this is remembered")
    output: Json | None = Field(None, description="The output of the tool")
    error: Json | None = Field(None, description="What went wrong: a code and a message")
    artifacts: JsonList = Field(
        default_factory=list,
        description="What it produced: paths, URLs or ids; those that name a file of a workspace, such as "
        '{"path": "report.md", "version": 2}, are looked up',
    )
    seconds: float | None = Field(None, ge=0, description="How long it took")
    number: int | None = Field(None, ge=1, description="The number of the step, to recognise a repeated call")
    remember: bool | None = Field(None, description="Whether to remember it; by default as the run is configured")
    kind: Literal["result", "observation"] = Field("result", description="The kind of the memory")


class RecordReply(Reply):
    """The stored result: the next step may start now."""

    run: str
    number: int
    result: str
    memory: str | None = None
    missing_artifacts: JsonArray = Field(
        default_factory=list, description="Artifacts that name a file of a workspace which is not there"
    )
    duplicate: bool = False


def record(tenant: Tenant, request: RecordRequest) -> RecordReply:
    """Store the result of a step, and a memory of it, before the next step starts."""
    run = load(tenant, Execution, request.id)
    held_with(tenant.store, tenant.scope, lease_name(run.id), request.fence)
    progress = progress_of(tenant, run)
    cycle = progress.last
    if progress.todo == "wait":
        raise not_running(run)
    if cycle is None or (request.number or cycle.number) != cycle.number or cycle.status not in ("open", "done"):
        raise IllegalTransition(
            f"run '{run.id}' has no such step without a result", remedy="propose it first", id=run.id
        )
    if cycle.status == "done":
        return _recorded_before(tenant, run, cycle, request)
    given = request.model_dump(exclude={"id", "fence", "number", "remember", "kind"})
    given["missing_artifacts"] = missing_artifacts(tenant, run.agent_id, request.artifacts) or None
    wanted = request.remember if request.remember is not None else run.remembers and request.outcome == "success"
    return store_result(tenant, run, cycle, given, kind=request.kind if wanted else None, fence=request.fence)


def _recorded_before(tenant: Tenant, run: Execution, cycle: Cycle, request: RecordRequest) -> RecordReply:
    stored = tenant.find(Query(Result, (equal("cycle_id", cycle.id),), limit=1)).records[0]
    same = ("outcome", "summary", "output", "error", "artifacts")
    if request.number != cycle.number or any(getattr(stored, name) != getattr(request, name) for name in same):
        raise IllegalTransition(
            f"step {cycle.number} of run '{run.id}' already has a result", remedy="propose the next step", id=run.id
        )
    return _recorded(run, cycle, stored, stored.memory_id, duplicate=True)


def store_result(
    tenant: Tenant, run: Execution, cycle: Cycle, given: JsonObject, *, kind: str | None,
    fence: int | None, action: str = "record", also: Sequence[Step] = (),
) -> RecordReply:  # fmt: skip
    """Store the result, a memory of it if a kind is given, and the end of its cycle in one transaction.

    A worker passes its fencing number; a person who settles a step has none.
    """
    guards = [fenced(lease_name(run.id), fence)] if fence is not None else []
    _check_size(given.get("output"), "output")
    result: Result = made(Result, tenant, cycle_id=cycle.id, agent_id=run.agent_id, **given)
    entry = logged(tenant, "create", action, None, id=run.id, step=cycle.number, result=result.id)
    for looks_left in (2, 1, 0):
        steps, memory = _memory_of(tenant, run, cycle, result, kind)
        stored = Insert(result.changed(memory_id=memory))
        done = Update(revised(cycle, tenant.scope, status="done"))
        try:
            commit(tenant, [*guards, *steps, stored, done, entry, *also])
            break
        except Conflict:
            if fence is not None:
                held_with(tenant.store, tenant.scope, lease_name(run.id), fence)
            if kind is None or not looks_left:
                raise
            # The same was remembered, or its duplicate was forgotten, since it was looked for: try again.
    return _recorded(run, cycle, result, memory)


def _recorded(
    run: Execution, cycle: Cycle, result: Result, memory: str | None, *, duplicate: bool = False
) -> RecordReply:
    return RecordReply(
        run=run.id, number=cycle.number, result=result.id, memory=memory,
        missing_artifacts=result.missing_artifacts or [], duplicate=duplicate,
    )  # fmt: skip


def _memory_of(
    tenant: Tenant, run: Execution, cycle: Cycle, result: Result, kind: str | None
) -> tuple[list[Step], str | None]:
    """The memory of a result, which it cites; an identical memory that exists already is referred to instead."""
    if kind is None or not result.summary.strip():
        return [], None
    request = _remember_request(run, result.summary, result.outcome == "success", kind, result.id, result.created_at)
    return remembering(tenant, request, cycle.id)


def _remember_request(
    run: Execution, summary: str, success: bool, kind: str, log_id: str, at: datetime
) -> RememberRequest:
    content: JsonObject = {"text": summary, "success": success} if kind == "result" else {"text": summary}
    cited = {"type": "log", "log_id": log_id, "timestamp": at.isoformat(), "context": f"run {run.id}"}
    return RememberRequest(
        content=content, kind=kind, cites=[cited], agent=run.agent_id, session=run.session_id, scope="task",
        metadata={"run": run.id},
    )  # fmt: skip


class FinishRequest(DriveRequest):
    """The task is done."""

    result: Json = Field(default_factory=dict, description="The result of the task")
    summary: Text = Field("", max_length=20_000, description="The result in a sentence; this is remembered")
    remember: bool | None = Field(None, description="Whether to remember it; by default as the run is configured")


class FailRequest(DriveRequest):
    """The task cannot be done."""

    error: Json = Field(default_factory=dict, description="What went wrong: a code and a message")
    note: Text = Field("", max_length=10_000, description="The error in a sentence")


def finish(tenant: Tenant, request: FinishRequest) -> RunView:
    """End a run that has reached its goal."""
    run = _run_to_end(tenant, request, "succeeded")
    if run.status == "succeeded":
        return run_view(tenant, run)
    progress = progress_of(tenant, run)
    if progress.todo != "think":
        raise IllegalTransition(
            f"step {progress.length} of run '{run.id}' has no result yet", remedy="record its result first", id=run.id
        )
    _check_size(request.result, "result")
    remember = run.remembers if request.remember is None else request.remember
    fields = {"result": request.result, "note": request.summary}
    for looks_left in (2, 1, 0):
        steps = _memory_of_all(tenant, run, progress, request.summary) if remember else []
        try:
            return _ended(tenant, run, request.fence, "succeeded", steps, **fields)
        except (RequirementFailed, ReferenceMissing):
            if not steps or not looks_left:
                raise
            # The same was remembered or forgotten since it was looked for: try again.
    raise AssertionError


def _memory_of_all(tenant: Tenant, run: Execution, progress: RunProgress, summary: str) -> list[Step]:
    if not summary.strip():
        return []
    asked = _remember_request(run, summary, True, "result", run.id, now())
    return remembering(tenant, asked, progress.last.id if progress.last else None)[0]


def fail(tenant: Tenant, request: FailRequest) -> RunView:
    """End a run that cannot reach its goal; it can still be resumed or rewound."""
    run = _run_to_end(tenant, request, "failed")
    if run.status == "failed":
        return run_view(tenant, run)
    return _ended(tenant, run, request.fence, "failed", [], error=request.error, note=request.note)


def _run_to_end(tenant: Tenant, request: DriveRequest, status: str) -> Execution:
    """The run, if its holder may end it or already has (and retries because the answer got lost)."""
    run = load(tenant, Execution, request.id)
    held_with(tenant.store, tenant.scope, lease_name(run.id), request.fence)
    if run.status not in ("running", status):
        raise not_running(run)
    return run


def _ended(tenant: Tenant, run: Execution, fence: int, status: str, steps: list[Step], **fields: Any) -> RunView:
    over = revised(run, tenant.scope, status=status, ended_at=now(), **fields)
    entry = logged(tenant, "update", f"run {status}", None, id=run.id)
    letting_go = ending(tenant.store, tenant.scope, lease_name(run.id), fence)
    try:
        commit(tenant, [*letting_go, *_driving(run, fence), *steps, Update(over), entry])
    except RequirementFailed as failed:
        raise _refusal(tenant, run, fence, failed) from None
    return run_view(tenant, load(tenant, Execution, run.id))
