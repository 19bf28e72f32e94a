"""Whatever workers and people do to runs, in whatever order, with leases running out in between: the runs are as a
plain model of them says, every refusal is the one the model expects, and no recorded step is ever lost or changed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import recollect
from recollect.domain.agents import Lease
from recollect.domain.record import now
from recollect.errors import Conflict, IllegalTransition, InvalidInput, LeaseLost, RecollectError
from recollect.ports.records import revised
from recollect.ports.steps import Put
from recollect.services.runs.history import lease_name
from seeds import SOAK

PICK = st.integers(0, 1 << 16)
OPEN = ("queued", "running", "paused", "failed")


@dataclass
class Step:
    repeatable: bool
    state: str = "open"
    value: int | None = None
    decided: str | None = None


@dataclass
class Run:
    """What the model knows of a run. `base`: how many of its steps lie on earlier branches or in another run."""

    id: str
    priority: int
    status: str = "queued"
    steps: list[Step] = field(default_factory=list)
    base: int = 0
    fence: int = 0
    is_held: bool = False
    is_let_go: bool = False
    given_up: int = 0
    is_guarded: bool = False

    @property
    def last(self) -> Step | None:
        return self.steps[-1] if len(self.steps) > self.base else None

    @property
    def todo(self) -> str:
        last = self.last
        if last is None or last.state == "done":
            return "think"
        if last.state == "waiting":
            return "wait"
        return "act" if last.state in ("again", "approved") or (last.state == "open" and last.repeatable) else "ask"

    def done(self) -> int:
        return len(self.steps) - (self.last is not None and self.last.state != "done")

    def fenced_off(self) -> None:
        if self.fence:
            self.fence, self.is_held, self.is_let_go = self.fence + 1, False, True


def refused(call: Callable[[], Any]) -> type[RecollectError] | None:
    try:
        call()
    except RecollectError as error:
        return next(kind for kind in (LeaseLost, IllegalTransition, InvalidInput, Conflict) if isinstance(error, kind))
    return None


class RunsFollowTheModel(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
        self.runs: list[Run] = []
        self.holders: list[tuple[Run, int]] = []
        self._open()
        self.mem.agent.add("Bee", id="bee")

    def _open(self) -> None:
        self.mem = recollect.open(self.folder / "runs.db" if SOAK else "memory://", embedder="none")

    def teardown(self) -> None:
        if hasattr(self, "mem"):
            self.mem.close()
            shutil.rmtree(self.folder)

    @rule(priority=st.sampled_from([5, 5, 8]), is_guarded=st.booleans())
    def start(self, priority: int, is_guarded: bool) -> None:
        view = self.mem.run.start("collect", agent="bee", priority=priority, approve="tools" if is_guarded else "never")
        self.runs.append(Run(view.id, priority, is_guarded=is_guarded))

    def _one(self, pick: int) -> Run:
        return self.runs[pick % len(self.runs)]

    # -- workers

    @rule()
    def claim(self) -> None:
        order = sorted(self.runs, key=lambda run: (run.status != "running", -run.priority, run.id))
        wanted = None
        for run in order:
            if run.status not in ("running", "queued") or run.is_held:
                continue
            run.fence, run.is_let_go = run.fence + 1, False
            if run.todo == "ask":
                assert run.last is not None
                run.last.state, run.status = "uncertain", "paused"
                continue
            run.is_held, run.status, wanted = True, "running", run
            break
        got = self.mem.run.claim("worker", seconds=10_000)
        assert (got.run and got.run.id) == (wanted and wanted.id)
        if wanted is not None:
            assert (got.fence, got.todo) == (wanted.fence, wanted.todo)
            if wanted.last is not None and wanted.last.state in ("again", "approved"):
                wanted.last.state = "open"
            self.holders.append((wanted, wanted.fence))

    @precondition(lambda self: self.holders)
    @rule(pick=PICK, repeatable=st.booleans())
    def propose(self, pick: int, repeatable: bool) -> None:
        run, fence = self.holders[pick % len(self.holders)]
        expected: type[RecollectError] | None = None
        if fence != run.fence:
            expected = LeaseLost
        elif run.status != "running" or run.todo != "think":
            expected = IllegalTransition
        assert refused(lambda: self.mem.run.propose(run.id, fence, tool="fly", repeatable=repeatable)) is expected
        if expected is None:
            run.steps.append(Step(repeatable, "waiting" if run.is_guarded else "open"))
            if run.is_guarded:
                run.status, run.is_held, run.is_let_go = "waiting", False, True

    @precondition(lambda self: self.holders)
    @rule(pick=PICK, value=st.integers(0, 999))
    def record(self, pick: int, value: int) -> None:
        run, fence = self.holders[pick % len(self.holders)]
        expected: type[RecollectError] | None = None
        if fence != run.fence:
            expected = LeaseLost
        elif run.last is None or run.last.state != "open":
            expected = IllegalTransition
        assert refused(lambda: self.mem.run.record(run.id, fence, output={"value": value})) is expected
        if expected is None:
            assert run.last is not None
            run.last.state, run.last.value = "done", value

    @precondition(lambda self: self.holders)
    @rule(pick=PICK, how=st.sampled_from(["finish", "fail"]))
    def end(self, pick: int, how: str) -> None:
        run, fence = self.holders[pick % len(self.holders)]
        status = {"finish": "succeeded", "fail": "failed"}[how]
        expected: type[RecollectError] | None = None
        if fence != run.fence:
            expected = LeaseLost
        elif run.status == status:
            pass
        elif run.status != "running" or (how == "finish" and run.todo != "think"):
            expected = IllegalTransition
        assert refused(lambda: getattr(self.mem.run, how)(run.id, fence)) is expected
        if expected is None and run.status == "running":
            run.status, run.is_held, run.is_let_go = status, False, True

    @precondition(lambda self: self.holders)
    @rule(pick=PICK)
    def release(self, pick: int) -> None:
        run, fence = self.holders[pick % len(self.holders)]
        expected = LeaseLost if fence != run.fence else None
        assert refused(lambda: self.mem.run.release(run.id, fence)) is expected
        if expected is None:
            run.is_held, run.is_let_go = False, True
            run.status = "queued" if run.status == "running" else run.status

    @precondition(lambda self: self.holders)
    @rule(pick=PICK)
    def renew(self, pick: int) -> None:
        run, fence = self.holders[pick % len(self.holders)]
        expected = LeaseLost if fence != run.fence or run.is_let_go else None
        assert refused(lambda: self.mem.run.renew(run.id, fence, seconds=10_000)) is expected
        run.is_held = run.is_held or expected is None

    @precondition(lambda self: any(run.is_held for run in self.runs))
    @rule(pick=PICK)
    def crash(self, pick: int) -> None:
        """A worker dies, and its lease runs out; it may wake up all the same."""
        held = [run for run in self.runs if run.is_held]
        run = held[pick % len(held)]
        scope, store = self.mem._scope, self.mem._core.store
        lease = store.get(scope, Lease, lease_name(run.id))
        assert lease is not None
        store.transact(scope, [Put(revised(lease, scope, expires_at=now() - timedelta(seconds=1)))])
        run.is_held = False

    @precondition(lambda self: SOAK)
    @rule()
    def restart(self) -> None:
        self.mem.close()
        self._open()

    # -- people

    @precondition(lambda self: self.runs)
    @rule(pick=PICK)
    def pause(self, pick: int) -> None:
        run = self._one(pick)
        expected = None if run.status in ("queued", "running", "paused") else IllegalTransition
        assert refused(lambda: self.mem.run.pause(run.id)) is expected
        run.status = run.status if expected else "paused"

    @precondition(lambda self: self.runs)
    @rule(pick=PICK)
    def cancel(self, pick: int) -> None:
        run = self._one(pick)
        expected = None if run.status in (*OPEN, "waiting", "cancelled") else IllegalTransition
        assert refused(lambda: self.mem.run.cancel(run.id)) is expected
        run.status = run.status if expected else "cancelled"

    @precondition(lambda self: self.runs)
    @rule(pick=PICK)
    def resume(self, pick: int) -> None:
        run = self._one(pick)
        expected = None if run.status in OPEN else IllegalTransition
        assert refused(lambda: self.mem.run.resume(run.id)) is expected
        if expected is not None:
            return
        if run.is_held:
            run.status = "running"
        elif run.todo == "ask":
            assert run.last is not None
            if run.last.state == "open":
                run.fenced_off()
            run.last.state, run.status = "uncertain", "paused"
        else:
            run.status = "queued"

    @precondition(lambda self: self.runs)
    @rule(pick=PICK, after=st.integers(0, 6))
    def fork(self, pick: int, after: int) -> None:
        run = self._one(pick)
        expected = InvalidInput if after > run.done() else None
        made: list[Any] = []
        assert refused(lambda: made.append(self.mem.run.fork(run.id, after=after))) is expected
        if made:
            shared = [Step(one.repeatable, one.state, one.value) for one in run.steps[:after]]
            self.runs.append(Run(made[0].id, run.priority, steps=shared, base=after, is_guarded=run.is_guarded))

    @precondition(lambda self: self.runs)
    @rule(pick=PICK, to=st.integers(0, 5), paused=st.booleans())
    def rewind(self, pick: int, to: int, paused: bool) -> None:
        run = self._one(pick)
        expected = Conflict if run.is_held else InvalidInput if to >= len(run.steps) else None
        assert refused(lambda: self.mem.run.rewind(run.id, to, paused=paused)) is expected
        if expected is None:
            run.fenced_off()
            run.steps, run.base, run.status = run.steps[:to], to, "paused" if paused else "queued"

    @precondition(lambda self: self.runs)
    @rule(pick=PICK, verdict=st.sampled_from(["happened", "did_not_happen", "abandon"]), resume=st.booleans())
    def settle(self, pick: int, verdict: Any, resume: bool) -> None:
        asking = [run for run in self.runs if run.last is not None and run.last.state == "uncertain"]
        run = asking[pick % len(asking)] if asking and pick % 4 else self._one(pick)
        last = run.last
        expected = None if last is not None and last.state == "uncertain" else IllegalTransition
        given: dict[str, Any] = {"output": {"value": 7}} if verdict == "happened" else {}
        assert refused(lambda: self.mem.run.settle(run.id, verdict, resume=resume, **given)) is expected
        if expected is None:
            assert last is not None
            last.state = "again" if verdict == "did_not_happen" else "done"
            last.value = 7 if verdict == "happened" else None
            run.status = "queued" if resume and run.status == "paused" else run.status

    @precondition(lambda self: self.runs)
    @rule(pick=PICK, decision=st.sampled_from(["approved", "rejected"]))
    def decide(self, pick: int, decision: str) -> None:
        waiting = [run for run in self.runs if run.status == "waiting"]
        run = waiting[pick % len(waiting)] if waiting and pick % 4 else self._one(pick)
        last, is_waiting = run.last, run.status == "waiting"
        expected: type[RecollectError] | None = None
        if last is None:
            expected = InvalidInput
        elif not is_waiting and last.decided != decision:
            expected = IllegalTransition
        verbs = {"approved": self.mem.run.approve, "rejected": lambda id: self.mem.run.reject(id, "not now")}
        assert refused(lambda: verbs[decision](run.id)) is expected
        if is_waiting:
            assert last is not None
            last.decided, last.state, run.status = decision, "approved" if decision == "approved" else "done", "queued"

    @invariant()
    def every_run_is_as_the_model_says(self) -> None:
        for run in getattr(self, "runs", []):
            shown = self.mem.run.show(run.id)
            steps = [(one.state, (one.output or {}).get("value")) for one in shown.timeline]
            status = "interrupted" if run.status == "running" and not run.is_held else run.status
            assert (shown.status, steps) == (status, [(one.state, one.value) for one in run.steps])
            assert [one.number for one in shown.timeline] == list(range(1, len(run.steps) + 1))
            assert (shown.held_until is not None) is run.is_held


TestRunsFollowTheModel = RunsFollowTheModel.TestCase
TestRunsFollowTheModel.settings = settings(
    max_examples=400 if SOAK else 25,
    stateful_step_count=60 if SOAK else 40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
