"""What people do with runs: pause, resume, cancel, fork, rewind, and settle what nobody can know.

None of it needs a lease. A worker in the middle of a step may still record its result when its run was paused or
cancelled, since what happened must not be lost; it is refused the next step. A rewind gives steps up without deleting
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
from recollect.ports.steps import Delete, Insert, Step, Update
from recollect.services.erasure import erase_traces, owing
from recollect.services.leases import NOBODY, is_held, taking
from recollect.services.requests import Reply, Request
from recollect.services.runs.execution import store_result
from recollect.services.runs.history import Standing, Timeline, lease_name, on_branch, standing, timeline
from recollect.services.runs.queue import unmoved
from recollect.services.tenant import Tenant
from recollect.services.transaction import commit, load, logged, made

SHOWN = 20
PATIENCE = 5


class RunRequest(Request):
    id: Id = Field(description="The run")
    why: Text = Field("", max_length=10_000, description="Why; kept with the run")


class PauseRequest(RunRequest):
    """Stop a run before its next step."""


class ResumeRequest(RunRequest):
    """Let a run go on where it stopped."""


class CancelRequest(RunRequest):
    """End a run that is no longer wanted."""


def pause(tenant: Tenant, request: PauseRequest) -> Timeline:
    """Stop a run before its next step; a step that is being carried out is finished and recorded."""

    def paused(run: Execution) -> Timeline:
        if run.status == "paused":
            return timeline(tenant, run, SHOWN)
        _refuse_unless(run, ("queued", "running"), "only what waits or runs can be paused")
        return _changed(tenant, run, "pause run", [], status="paused", note=request.why)

    return _insisting(tenant, request.id, paused)


def cancel(tenant: Tenant, request: CancelRequest) -> Timeline:
    """End a run; a step that is being carried out may still be recorded, another is not begun."""

    def cancelled(run: Execution) -> Timeline:
        if run.status == "cancelled":
            return timeline(tenant, run, SHOWN)
        _refuse_unless(run, ("queued", "running", "paused", "failed"), "fork it to go on from one of its steps")
        return _changed(tenant, run, "cancel run", [], status="cancelled", ended_at=now(), note=request.why)

    return _insisting(tenant, request.id, cancelled)


def resume(tenant: Tenant, request: ResumeRequest) -> Timeline:
    """Put a paused, failed or interrupted run back into its queue; says what happens next."""

    def resumed(run: Execution) -> Timeline:
        _refuse_unless(run, ("queued", "running", "paused", "failed"), "fork it to go on from one of its steps")
        stands = standing(tenant, run)
        status, steps = _resumption(tenant, run, stands)
        if run.status == status and not any(isinstance(step, Update) for step in steps):
            return timeline(tenant, run, SHOWN)
        note = stands.in_words() if status == "paused" else request.why
        return _changed(tenant, run, "resume run", steps, status=status, note=note, error=None, ended_at=None)

    return _insisting(tenant, request.id, resumed)


def _resumption(tenant: Tenant, run: Execution, stands: Standing) -> tuple[str, list[Step]]:
    """The status a run goes on with, and what must change besides."""
    if _is_held(tenant, run):  # its worker is still at it, and goes on as if nothing had been
        return "running", []
    if stands.todo != "ask" or stands.last is None:
        return "queued", unmoved(run, stands)
    if stands.last.status == "uncertain":
        return "paused", []
    marked = Update(revised(stands.last, tenant.scope, status="uncertain"))
    return "paused", [*_fence_off(tenant, run), *unmoved(run, stands), marked]


def _insisting(tenant: Tenant, id: str, change: Callable[[Execution], Timeline]) -> Timeline:
    """A person's word is not lost because a worker was a moment quicker: look again, and say it again."""
    for _ in range(PATIENCE):
        try:
            return change(load(tenant, Execution, id))
        except _WentOn:
            continue
    return change(load(tenant, Execution, id))


class _WentOn(Conflict):
    """The run is not as it was a moment ago."""


class SettleRequest(RunRequest):
    """Say what became of a step whose effect may have happened."""

    verdict: Literal["happened", "did_not_happen", "abandon"] = Field(
        description="It happened; it did not, so do it again; or leave it unknown and go on"
    )
    output: Json | None = Field(None, description="What it gave, if it happened")
    summary: Text = Field("", max_length=20_000, description="What came of it, in a sentence")
    step: int | None = Field(None, ge=1, description="The number of the step, to be sure that it is the one meant")
    resume: bool = Field(True, description="Put the run back into its queue at once")


def settle(tenant: Tenant, request: SettleRequest) -> Timeline:
    """Answer for a step whose effect may have happened; then the run goes on."""
    run = load(tenant, Execution, request.id)
    stands = standing(tenant, run)
    cycle = stands.last
    if cycle is None or cycle.status != "uncertain" or (request.step or cycle.number) != cycle.number:
        raise IllegalTransition(f"run '{run.id}' does not ask about such a step", remedy="see run.show", id=run.id)
    if request.verdict != "happened" and request.output is not None:
        raise InvalidInput("an output is given of what did not happen", remedy="leave it out, or say happened")
    status = "queued" if request.resume and run.status == "paused" else run.status
    goes_on = Update(revised(run, tenant.scope, status=status, note=request.why))
    if request.verdict == "did_not_happen":
        again = Update(revised(cycle, tenant.scope, status="again"))
        entry = logged(tenant, "update", "settle did_not_happen", None, id=run.id, step=cycle.number)
        _commit(tenant, run, [again, goes_on, entry])
    else:
        happened = request.verdict == "happened"
        unknown = {"code": "uncertain", "message": "nobody knows whether it happened"}
        given = {
            "outcome": "success" if happened else "uncertain",
            "summary": request.summary,
            "output": request.output,
            "error": None if happened else unknown,
        }
        kind = "result" if happened and run.remembers else None
        action = f"settle {request.verdict}"
        store_result(tenant, run, cycle, given, kind=kind, fence=None, action=action, also=[goes_on])
    return timeline(tenant, load(tenant, Execution, run.id), SHOWN)


class ForkRequest(RunRequest):
    """Begin another run with the history of this one."""

    after: int | None = Field(None, ge=0, description="The last step to share; the last with a result if left out")
    branch: int | None = Field(None, ge=0, description="From steps that a rewind gave up: the branch they lie on")
    goal: Text | None = Field(None, min_length=1, max_length=100_000, description="Another goal")
    queue: Name | None = Field(None, description="Another queue")
    paused: bool = Field(False, description="Do not begin until it is resumed")
    idempotency_key: Id | None = Field(None, description="The same key again returns the same run")


def fork(tenant: Tenant, request: ForkRequest) -> Timeline:
    """Begin another run after any step of this one; the steps up to there are shared, not done again."""
    run = load(tenant, Execution, request.id)
    known = _forked_before(tenant, run, request)
    if known is not None:
        return timeline(tenant, known, SHOWN)
    kept = _step_to_keep(tenant, run, request.after, request.branch)
    copied = ("agent_id", "session_id", "message_id", "priority", "steps", "max_steps", "max_crashes", "remembers")
    made_of = {name: getattr(run, name) for name in copied}
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
    """The number of a step with a result, on the branch meant; 0 is before the first."""
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
    """The last steps of a branch, and whether they have a result: a given-up one has unless it was its last."""
    query = Query(Cycle, on_branch(run.id, branch), (Order("number", descending=True),), limit=2)
    rows = tenant.select(query, ("number", "id"))
    ids = OneOf("cycle_id", tuple(id for _, id in rows))
    done = {id for (id,) in tenant.select(Query(Result, (ids,)), ("cycle_id",))} if rows else set()
    return [(number, id in done) for number, id in rows]


class RewindRequest(RunRequest):
    """Go back to an earlier step."""

    to: int = Field(ge=0, description="The last step to keep; 0 to begin anew")
    paused: bool = Field(True, description="Wait until it is resumed")


def rewind(tenant: Tenant, request: RewindRequest) -> Timeline:
    """Give up the steps after one, and go on from there; what was given up stays visible."""
    run = load(tenant, Execution, request.id)
    if _is_held(tenant, run):
        raise Conflict(
            f"a worker is at work on run '{run.id}'", remedy="pause it and wait for the step to end", id=run.id
        )
    stands = standing(tenant, run)
    if request.to >= stands.length:
        raise InvalidInput(f"run '{run.id}' has {stands.length} steps", remedy="give an earlier step to keep")
    given_up = _given_up(tenant, run, request.to, stands.length)
    steps = [*_fence_off(tenant, run), *unmoved(run, stands)]
    steps += [Update(revised(cycle, tenant.scope, status="abandoned")) for cycle in given_up]
    status = "paused" if request.paused else "queued"
    rewinds = [*(run.rewinds or []), request.to]
    fields = {"status": status, "note": request.why, "rewinds": rewinds}
    return _changed(tenant, run, "rewind run", steps, **fields, result=None, error=None, ended_at=None)


def _given_up(tenant: Tenant, run: Execution, kept: int, length: int) -> list[Cycle]:
    """The run's own cycles after a step; those it shares with others are not touched."""
    found: list[Cycle] = []
    for part in between(history_of(run), kept + 1, length):
        if part.run == run.id:
            numbers = (Compare("number", ">", part.after), Compare("number", "<=", part.upto))
            found += tenant.find(Query(Cycle, (*on_branch(run.id, part.branch), *numbers))).records
    return found


class RemoveRunRequest(Request):
    """Delete a run for good."""

    id: Id = Field(description="The run")


class RunRemoved(Reply):
    id: str
    deleted: int


def remove(tenant: Tenant, request: RemoveRunRequest) -> RunRemoved:
    """Delete a run with its steps for good; memories made of its results stay, without their evidence."""
    run = load(tenant, Execution, request.id, deleted=True)
    if _is_held(tenant, run):
        raise Conflict(f"a worker is at work on run '{run.id}'", remedy="cancel it, and wait", id=run.id)
    if tenant.count(Query(Execution, (equal("parent_id", run.id),), deleted="yes")):
        raise Conflict(f"forks of run '{run.id}' share its steps", remedy="remove the forks first", id=run.id)
    entry = logged(tenant, "delete", "remove run", None, id=run.id)
    done = tenant.transact([Delete(Execution, run.id), Delete(Lease, lease_name(run.id)), owing(tenant, run.id), entry])
    erase_traces(tenant)
    return RunRemoved(id=run.id, deleted=done.deleted)


def _refuse_unless(run: Execution, statuses: tuple[str, ...], remedy: str) -> None:
    if run.status not in statuses:
        raise IllegalTransition(f"run '{run.id}' is {run.status}", remedy=remedy, id=run.id, status=run.status)


def _is_held(tenant: Tenant, run: Execution) -> bool:
    return is_held(tenant.get(Lease, lease_name(run.id)))


def _fence_off(tenant: Tenant, run: Execution) -> list[Step]:
    """Whoever held the run before is refused from now on, even if nobody claims it."""
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
        raise _WentOn(f"run '{run.id}' went on meanwhile", remedy="see run.show, and try again", id=run.id) from None
