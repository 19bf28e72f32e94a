"""Control of runs by people: pause, resume, cancel, fork, rewind, and settle steps whose outcome is unknown.

None of these needs a lease. A worker in the middle of a step may still record its result after its run was paused or
cancelled, so that nothing that happened is lost; its next step is refused. A rewind abandons steps without deleting
them, a fork shares them without copying them (see domain/run_branches.py).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Literal

from pydantic import Field

from recollect.domain.agents import Cycle, Execution, Lease, Result
from recollect.domain.record import Id, Json, Name, Text, now
from recollect.domain.run_branches import between, branch_of, history_of, past_for_fork
from recollect.errors import Conflict, DuplicateKey, IllegalTransition, InvalidInput
from recollect.ports.query import Compare, OneOf, Order, Query, equal
from recollect.ports.records import revised
from recollect.ports.steps import Insert, Step, Update
from recollect.services.leases import NOBODY, is_held, taking
from recollect.services.requests import Request
from recollect.services.runs.execution import store_result
from recollect.services.runs.history import RunProgress, Timeline, lease_name, on_branch, progress_of, timeline
from recollect.services.runs.queue import unmoved
from recollect.services.tenant import Tenant
from recollect.services.transaction import commit, load, logged, made

SHOWN = 20
PATIENCE = 5
FORKED = (
    "agent_id session_id message_id priority steps max_steps max_crashes remembers approve approval_seconds".split()
)
"""What a fork takes over from its run: the same steps need approval."""


class RunRequest(Request):
    id: Id = Field(description="The run")
    why: Text = Field("", max_length=10_000, description="The reason; stored with the run")


class PauseRequest(RunRequest):
    """Stop a run before its next step."""


class ResumeRequest(RunRequest):
    """Continue a run where it stopped."""


class CancelRequest(RunRequest):
    """End a run that is no longer wanted."""


def pause(tenant: Tenant, request: PauseRequest) -> Timeline:
    """Stop a run before its next step; a step that is being carried out is finished and recorded."""

    def paused(run: Execution) -> Timeline:
        if run.status == "paused":
            return timeline(tenant, run, SHOWN)
        _refuse_unless(run, ("queued", "running"), "only a queued or running run can be paused")
        return _changed(tenant, run, "pause run", [], status="paused", note=request.why)

    return _with_retries(tenant, request.id, paused)


def cancel(tenant: Tenant, request: CancelRequest) -> Timeline:
    """End a run; a step that is being carried out may still be recorded, but no other is started."""

    def cancelled(run: Execution) -> Timeline:
        if run.status == "cancelled":
            return timeline(tenant, run, SHOWN)
        open = ("queued", "running", "waiting", "paused", "failed")
        _refuse_unless(run, open, "fork it to continue from one of its steps")
        ended = {"status": "cancelled", "ended_at": now(), "waits_until": None}
        return _changed(tenant, run, "cancel run", [], **ended, note=request.why)

    return _with_retries(tenant, request.id, cancelled)


def resume(tenant: Tenant, request: ResumeRequest) -> Timeline:
    """Put a paused, failed or interrupted run back into its queue; the reply says what happens next."""

    def resumed(run: Execution) -> Timeline:
        _refuse_unless(run, ("queued", "running", "paused", "failed"), "fork it to continue from one of its steps")
        progress = progress_of(tenant, run)
        status, steps = _resumption(tenant, run, progress)
        if run.status == status and not any(isinstance(step, Update) for step in steps):
            return timeline(tenant, run, SHOWN)
        note = progress.in_words() if status == "paused" else request.why
        return _changed(tenant, run, "resume run", steps, status=status, note=note, error=None, ended_at=None)

    return _with_retries(tenant, request.id, resumed)


def _resumption(tenant: Tenant, run: Execution, progress: RunProgress) -> tuple[str, list[Step]]:
    """The status that a run continues with, and the steps that go with it."""
    if _is_held(tenant, run):  # its worker is still alive and simply continues
        return "running", []
    if progress.todo != "ask" or progress.last is None:
        return "queued", unmoved(run, progress)
    if progress.last.status == "uncertain":
        return "paused", []
    marked = Update(revised(progress.last, tenant.scope, status="uncertain"))
    return "paused", [*_fence_off(tenant, run), *unmoved(run, progress), marked]


def _with_retries(tenant: Tenant, id: str, change: Callable[[Execution], Timeline]) -> Timeline:
    """Repeat a change that a worker's concurrent write prevented: what a person asks for must not get lost."""
    for _ in range(PATIENCE):
        try:
            return change(load(tenant, Execution, id))
        except _ConcurrentChange:
            continue
    return change(load(tenant, Execution, id))


class _ConcurrentChange(Conflict):
    """The run was changed since it was read."""


class SettleRequest(RunRequest):
    """Say whether a step whose outcome is unknown has happened."""

    verdict: Literal["happened", "did_not_happen", "abandon"] = Field(
        description="Whether it happened; did not, so that it is done again; or is to be left unknown"
    )
    output: Json | None = Field(None, description="Its output, if it happened")
    summary: Text = Field("", max_length=20_000, description="The outcome in a sentence")
    step: int | None = Field(None, ge=1, description="The number of the step, as a safeguard against settling another")
    resume: bool = Field(True, description="Put the run back into its queue immediately")


def settle(tenant: Tenant, request: SettleRequest) -> Timeline:
    """Settle a step whose outcome is unknown, so that the run can continue."""
    run = load(tenant, Execution, request.id)
    progress = progress_of(tenant, run)
    cycle = progress.last
    if cycle is None or cycle.status != "uncertain" or (request.step or cycle.number) != cycle.number:
        raise IllegalTransition(f"run '{run.id}' has no such step to settle", remedy="see run.show", id=run.id)
    if request.verdict != "happened" and request.output is not None:
        raise InvalidInput(
            "an output is given for a step that did not happen", remedy="omit the output, or use the verdict happened"
        )
    status = "queued" if request.resume and run.status == "paused" else run.status
    continued = Update(revised(run, tenant.scope, status=status, note=request.why))
    if request.verdict == "did_not_happen":
        again = Update(revised(cycle, tenant.scope, status="again"))
        entry = logged(tenant, "update", "settle did_not_happen", None, id=run.id, step=cycle.number)
        _commit(tenant, run, [again, continued, entry])
    else:
        happened = request.verdict == "happened"
        unknown = {"code": "uncertain", "message": "it is not known whether it happened"}
        given = {
            "outcome": "success" if happened else "uncertain",
            "summary": request.summary,
            "output": request.output,
            "error": None if happened else unknown,
        }
        kind = "result" if happened and run.remembers else None
        action = f"settle {request.verdict}"
        store_result(tenant, run, cycle, given, kind=kind, fence=None, action=action, also=[continued])
    return timeline(tenant, load(tenant, Execution, run.id), SHOWN)


class ForkRequest(RunRequest):
    """Start another run with the history of this one."""

    after: int | None = Field(None, ge=0, description="The last step to share; by default the last with a result")
    branch: int | None = Field(None, ge=0, description="To start from steps that a rewind abandoned: their branch")
    goal: Text | None = Field(None, min_length=1, max_length=100_000, description="A different goal")
    queue: Name | None = Field(None, description="A different queue")
    paused: bool = Field(False, description="Start it paused")
    idempotency_key: Id | None = Field(None, description="The same key again returns the same run")


def fork(tenant: Tenant, request: ForkRequest) -> Timeline:
    """Start another run after any step of this one; the steps up to there are shared, not repeated."""
    run = load(tenant, Execution, request.id)
    known = _forked_before(tenant, run, request)
    if known is not None:
        return timeline(tenant, known, SHOWN)
    kept = _step_to_keep(tenant, run, request.after, request.branch)
    made_of = {name: getattr(run, name) for name in FORKED}
    child: Execution = made(
        Execution,
        tenant,
        **made_of,
        goal=request.goal or run.goal,
        queue=request.queue or run.queue,
        status="paused" if request.paused else "queued",
        note=request.why,
        parent_id=run.id,
        past=past_for_fork(run, kept, request.branch),
        idempotency_key=request.idempotency_key,
        metadata=run.metadata,
    )
    try:
        commit(tenant, [Insert(child), logged(tenant, "create", "fork run", None, id=child.id, parent=run.id)])
    except DuplicateKey:
        raced = _forked_before(tenant, run, request)
        if raced is None:
            raise
        child = raced
    return timeline(tenant, child, SHOWN)


def _forked_before(tenant: Tenant, run: Execution, request: ForkRequest) -> Execution | None:
    if request.idempotency_key is None:
        return None
    found = tenant.find(Query(Execution, (equal("idempotency_key", request.idempotency_key),))).records
    if found and found[0].parent_id != run.id:
        raise Conflict("that idempotency key was used for another run", remedy="use a new key", id=found[0].id)
    return found[0] if found else None


def _step_to_keep(tenant: Tenant, run: Execution, asked: int | None, branch: int | None = None) -> int:
    """The number of a step of the branch that has a result; 0 is before the first."""
    if branch is not None and branch > branch_of(run):
        raise InvalidInput(f"run '{run.id}' has no branch {branch}", remedy="see run.show")
    own = history_of(run, branch)[-1]
    done = [number for number, is_done in _own_steps(tenant, run, own.branch) if is_done]
    last = max(done, default=own.after)
    kept = last if asked is None else asked
    if kept > last:
        raise InvalidInput(f"step {kept} of run '{run.id}' has no result", remedy=f"give a step from 0 to {last}")
    return kept


def _own_steps(tenant: Tenant, run: Execution, branch: int) -> list[tuple[int, bool]]:
    """The last steps of a branch, and whether each has a result; only the very last may have none."""
    query = Query(Cycle, on_branch(run.id, branch), (Order("number", descending=True),), limit=2)
    rows = tenant.select(query, ("number", "id"))
    ids = OneOf("cycle_id", tuple(id for _, id in rows))
    done = {id for (id,) in tenant.select(Query(Result, (ids,)), ("cycle_id",))} if rows else set()
    return [(number, id in done) for number, id in rows]


class RewindRequest(RunRequest):
    """Go back to an earlier step."""

    to: int = Field(ge=0, description="The last step to keep; 0 to start over")
    paused: bool = Field(True, description="Leave it paused until it is resumed")


def rewind(tenant: Tenant, request: RewindRequest) -> Timeline:
    """Abandon the steps after one, and continue from there; abandoned steps stay visible."""
    run = load(tenant, Execution, request.id)
    if _is_held(tenant, run):
        raise Conflict(
            f"a worker is working on run '{run.id}'", remedy="pause it and wait until the step has ended", id=run.id
        )
    progress = progress_of(tenant, run)
    if request.to >= progress.length:
        raise InvalidInput(f"run '{run.id}' has {progress.length} steps", remedy="give an earlier step to keep")
    abandoned = _abandoned_by(tenant, run, request.to, progress.length)
    steps = [*_fence_off(tenant, run), *unmoved(run, progress)]
    steps += [Update(revised(cycle, tenant.scope, status="abandoned")) for cycle in abandoned]
    status = "paused" if request.paused else "queued"
    rewinds = [*(run.rewinds or []), request.to]
    fields = {"status": status, "note": request.why, "rewinds": rewinds, "waits_until": None}
    return _changed(tenant, run, "rewind run", steps, **fields, result=None, error=None, ended_at=None)


def _abandoned_by(tenant: Tenant, run: Execution, kept: int, length: int) -> list[Cycle]:
    """The run's own cycles after a step; those it shares with other runs are left alone."""
    found: list[Cycle] = []
    for part in between(history_of(run), kept + 1, length):
        if part.run == run.id:
            numbers = (Compare("number", ">", part.after), Compare("number", "<=", part.upto))
            found += tenant.find(Query(Cycle, (*on_branch(run.id, part.branch), *numbers))).records
    return found


def _refuse_unless(run: Execution, statuses: tuple[str, ...], remedy: str) -> None:
    if run.status not in statuses:
        remedy = "approve or reject its step, or cancel it" if run.status == "waiting" else remedy
        raise IllegalTransition(f"run '{run.id}' is {run.status}", remedy=remedy, id=run.id, status=run.status)


def _is_held(tenant: Tenant, run: Execution) -> bool:
    return is_held(tenant.get(Lease, lease_name(run.id)))


def _fence_off(tenant: Tenant, run: Execution) -> list[Step]:
    """Refuses the previous holder from now on, even if no one claims the run."""
    held = tenant.get(Lease, lease_name(run.id))
    if held is None:
        return []
    return [taking(held, tenant, held.id, NOBODY, now() - timedelta(seconds=1))[1]]


def _changed(tenant: Tenant, run: Execution, action: str, steps: list[Step], **fields: Any) -> Timeline:
    entry = logged(tenant, "update", action, None, id=run.id)
    _commit(tenant, run, [*steps, Update(revised(run, tenant.scope, **fields)), entry])
    return timeline(tenant, load(tenant, Execution, run.id), SHOWN)


def _commit(tenant: Tenant, run: Execution, steps: list[Step]) -> None:
    try:
        commit(tenant, steps)
    except Conflict:
        raise _ConcurrentChange(
            f"run '{run.id}' was changed meanwhile", remedy="see run.show, and try again", id=run.id
        ) from None
