"""A small runner for those who give a `think` function and tools: it drives runs, and dies without losing a step.

It uses nothing but the operations of the client, so it drives a run from wherever a client can. For each step it stores
what `think` proposes, carries it out, stores what came of it; a step that has a result is never carried out again, one
that has none is, if its tool allows. A step that must be approved is stored and left to whoever claims the run after
that. While it works, a thread renews the lease; when the lease is lost all the same, every call is refused, and the run
is left to its new worker.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, overload

from recollect.domain.record import new_id
from recollect.errors import IllegalTransition, InvalidInput, LeaseLost, NotFound, RecollectError, Unavailable
from recollect.interfaces.tool_runner import Outcome, Toolbox, error_fields, positive_seconds
from recollect.services.recall.recall import RecallReply
from recollect.services.runs.history import RunView, StepView, Timeline
from recollect.services.runs.queue import AgentBrief, ClaimReply

PAGE = 200
WAITS_SECONDS = (0.1, 0.5, 2.0, 5.0)
log = logging.getLogger("recollect.runner")


class Client(Protocol):
    """What the runner needs of a client, here or far away."""

    def call(self, operation: str, /, **fields: Any) -> Any: ...


@dataclass(frozen=True)
class Act:
    """What to do next: a tool to call; without one, a step that is thought only."""

    tool: str | None = None
    arguments: Mapping[str, object] = field(default_factory=dict)
    reasoning: str = ""
    thoughts: Mapping[str, object] = field(default_factory=dict)
    plan: Sequence[object] = ()


@dataclass(frozen=True)
class Done:
    """The goal is reached."""

    result: Mapping[str, object] = field(default_factory=dict)
    summary: str = ""


@dataclass(frozen=True)
class GiveUp:
    """The goal cannot be reached."""

    why: str
    error: Mapping[str, object] = field(default_factory=dict)


class History(Sequence[StepView]):
    """The steps that have a result, read when they are looked at: `history[-1]` costs the same after 10,000 steps."""

    def __init__(self, client: Client, run: str, length: int, last: StepView | None) -> None:
        self._client = client
        self._run = run
        self._length = length
        self._known: dict[int, StepView] = {last.number: last} if last is not None else {}

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> StepView: ...

    @overload
    def __getitem__(self, index: slice) -> list[StepView]: ...

    def __getitem__(self, index: int | slice) -> StepView | list[StepView]:
        numbers = range(1, self._length + 1)[index]
        if isinstance(numbers, int):
            return self._read(numbers, 1)
        if numbers:
            self._read(max(numbers), max(numbers) - min(numbers) + 1)
        return [self._known[number] for number in numbers]

    def __iter__(self) -> Iterator[StepView]:
        for number in range(1, self._length + 1):
            if number not in self._known:
                self._read(min(number + PAGE - 1, self._length), PAGE)
            yield self._known[number]

    def grow(self) -> None:
        self._length += 1

    def _read(self, last: int, count: int) -> StepView:
        """Makes sure that so many steps up to one are known, and gives that one."""
        wanted = [number for number in range(last - count + 1, last + 1) if number > 0 and number not in self._known]
        while wanted:
            count = min(wanted[-1] - wanted[0] + 1, 1000)
            page = self._client.call("run.show", id=self._run, before=wanted[-1] + 1, limit=count)
            self._known.update({step.number: step for step in page.timeline})
            wanted = [number for number in wanted if number < wanted[-1] - count + 1]
        return self._known[last]


@dataclass
class Task:
    """What `think` sees. `state` is kept with every step, and found again on resuming."""

    run: RunView
    agent: AgentBrief
    history: History
    state: dict[str, object]
    client: Client

    @property
    def goal(self) -> str:
        return self.run.goal

    def recall(self, query: str, **filters: object) -> RecallReply:
        """Memories of the agent, its earlier results among them; any filter of `recall` may be given."""
        found: RecallReply = self.client.call("recall", query=query, **{"agent": self.agent.id, **filters})
        return found


Think = Callable[[Task], Act | Done | GiveUp]


class Runner:
    """Drives runs with a `think` function and tools.

    `lease_seconds` is how long a run waits after its worker died; `tool_timeout_seconds` is for tools without one of
    their own. The agent's `config_overrides` may say `tool_timeout_seconds` too.
    """

    def __init__(
        self, client: Client, think: Think, tools: Mapping[str, Callable[..., object]] | None = None, *,
        worker: str | None = None, lease_seconds: float = 60, tool_timeout_seconds: float = 600,
    ) -> None:  # fmt: skip
        self._client = _RetryingClient(client)
        self._think = think
        self._tools = dict(tools or {})
        self._lease_seconds = lease_seconds
        self._tool_timeout_seconds = positive_seconds(tool_timeout_seconds, "tool_timeout_seconds")
        self._stopping = threading.Event()
        self.worker = worker or f"worker-{os.getpid()}-{new_id()[-8:]}"

    def run(self, goal: str, agent: str, **fields: Any) -> Timeline:
        """Start a run and drive it; every field of `run.start` may be given."""
        started = self._client.call("run.start", goal=goal, agent=agent, **fields)
        return self.drive(started.id) if started.ended_at is None else self._shown(started.id)

    def drive(self, id: str) -> Timeline:
        """Drive one run until it ends, is stopped, asks, or waits for approval."""
        self._work_on(self._claimed(id=id))
        return self._shown(id)

    def work(
        self, queue: str = "default", *, agent: str | None = None, forever: bool = False, poll_seconds: float = 1.0
    ) -> int:
        """Drive the runs of a queue until it is empty, or forever; says how many. SIGTERM ends it after a step."""
        driven = 0
        with _stopped_by_sigterm(self):
            while not self._stopping.is_set():
                claimed = self._claimed(queue=queue, agent=agent)
                if claimed.run is not None:
                    self._work_on(claimed)
                    driven += 1
                elif forever:
                    self._stopping.wait(poll_seconds)
                else:
                    break
        return driven

    def _claimed(self, **wanted: object) -> ClaimReply:
        """A claim has a key, so that one whose answer was lost is the same when it is repeated."""
        mine = {"worker": self.worker, "seconds": self._lease_seconds, "idempotency_key": new_id()}
        claimed: ClaimReply = self._client.call("run.claim", **mine, **wanted)
        return claimed

    def stop(self) -> None:
        """Finish the current step, release the run, and claim no other."""
        self._stopping.set()

    def _work_on(self, claimed: ClaimReply) -> None:
        assert claimed.run is not None
        assert claimed.agent is not None
        lease = _Lease(self._client, claimed.run.id, claimed.fence, self._lease_seconds)
        try:
            with lease:
                toolbox = self._toolbox(claimed.agent, lease)
                if toolbox is not None:
                    self._drive(claimed, lease, toolbox)
        except LeaseLost:
            log.warning("run %s was taken over by another worker", claimed.run.id)
        except NotFound:
            log.warning("run %s was deleted, perhaps with its agent, while it was worked on", claimed.run.id)

    def _toolbox(self, agent: AgentBrief, lease: _Lease) -> Toolbox | None:
        """None when the agent's configuration makes no sense: its run fails, and the worker goes on with others."""
        said = agent.config_overrides.get("tool_timeout_seconds", self._tool_timeout_seconds)
        try:
            return Toolbox(self._tools, positive_seconds(said, f"tool_timeout_seconds of agent '{agent.id}'"))
        except InvalidInput as refused:
            self._fail(lease, "invalid_configuration", refused)
            return None

    def _drive(self, claimed: ClaimReply, lease: _Lease, toolbox: Toolbox) -> None:
        task, step = self._task(claimed), claimed.step
        if step is not None:
            self._carry_out(task, lease, toolbox, step.tool, step.arguments, step.idempotency_key or step.cycle)
        while True:
            if self._stopping.is_set() or lease.is_stopped:
                self._release(lease)
                return
            decision = self._decision(task)
            if isinstance(decision, Done):
                self._end(lease, "run.finish", result=_plain(decision.result), summary=decision.summary)
                return
            if isinstance(decision, GiveUp):
                said = decision.error
                known = {"code": "gave_up", "message": decision.why}
                error = {**known, **said} if isinstance(said, Mapping) else said
                self._end(lease, "run.fail", error=error, note=decision.why)
                return
            key = self._propose(task, lease, toolbox, decision)
            if key is None:
                return
            self._carry_out(task, lease, toolbox, decision.tool, decision.arguments, key)

    def _task(self, claimed: ClaimReply) -> Task:
        assert claimed.run is not None
        assert claimed.agent is not None
        done = claimed.run.length - (claimed.step is not None)
        latest = claimed.step or claimed.last
        history = History(self._client, claimed.run.id, done, claimed.last)
        state = dict(latest.snapshot) if latest is not None else {}
        return Task(claimed.run, claimed.agent, history, state, self._client)

    def _decision(self, task: Task) -> Act | Done | GiveUp:
        try:
            decided = self._think(task)
        except Exception as error:  # noqa: BLE001 - a program of the user's: its failure is the run's, and is recorded
            fields = error_fields("think_failed", error)
            return GiveUp(f"thinking failed: {fields['type']}: {fields['message']}", fields)
        if isinstance(decided, Act | Done | GiveUp):
            return decided
        why = f"think returned {type(decided).__name__}, not recollect.Act, Done or GiveUp"
        return GiveUp(why, {"code": "think_failed"})

    def _propose(self, task: Task, lease: _Lease, toolbox: Toolbox, act: Act) -> str | None:
        """The key of the step that is stored now; None when the run may not take another, or not yet."""
        try:
            proposed = self._client.call(
                "run.propose", id=lease.run, fence=lease.fence, number=len(task.history) + 1, tool=act.tool,
                arguments=_plain(act.arguments), reasoning=act.reasoning, thoughts=_plain(act.thoughts),
                plan=_plain(act.plan), snapshot=task.state, repeatable=toolbox.is_repeatable(act.tool),
            )  # fmt: skip
        except (IllegalTransition, InvalidInput) as refused:
            reason = refused.details.get("reason", "think_failed" if isinstance(refused, InvalidInput) else None)
            if reason is None:  # paused or cancelled
                self._release(lease)
            else:  # too late, too many steps, or nothing that can be stored
                self._fail(lease, reason, refused)
            return None
        return None if proposed.waiting else str(proposed.idempotency_key)

    def _carry_out(
        self, task: Task, lease: _Lease, toolbox: Toolbox, tool: str | None, arguments: Mapping[str, object], key: str
    ) -> None:
        outcome = toolbox.carry_out(tool, arguments, key, self._stopping)
        step = {"id": lease.run, "fence": lease.fence, "number": len(task.history) + 1}
        try:
            self._client.call("run.record", **step, **outcome.fields())
        except InvalidInput as refused:
            # It happened, but what it gave cannot be kept: that much is recorded.
            said = {"code": "output_not_recorded", "message": refused.message}
            kept = Outcome(outcome.outcome, error={**(outcome.error or {}), **said}, seconds=outcome.seconds)
            self._client.call("run.record", **step, **kept.fields())
        task.history.grow()

    def _end(self, lease: _Lease, operation: str, **fields: Any) -> None:
        try:
            self._client.call(operation, id=lease.run, fence=lease.fence, **fields)
        except IllegalTransition:  # paused or cancelled this moment
            self._release(lease)
        except InvalidInput as refused:  # nothing that can be stored; resumed, the run thinks again
            self._fail(lease, "think_failed", refused)

    def _fail(self, lease: _Lease, code: str, why: RecollectError) -> None:
        try:
            error = {"code": code, "message": why.message}
            self._client.call("run.fail", id=lease.run, fence=lease.fence, error=error, note=why.message)
        except IllegalTransition:  # paused or cancelled this moment
            self._release(lease)

    def _release(self, lease: _Lease) -> None:
        self._client.call("run.release", id=lease.run, fence=lease.fence)

    def _shown(self, id: str) -> Timeline:
        shown: Timeline = self._client.call("run.show", id=id)
        return shown


def _plain(given: object) -> object:
    """What can be read as JSON, as JSON; what a program gives by mistake as it is: the operation says what is wrong."""
    if isinstance(given, Mapping):
        return dict(given)
    return list(given) if isinstance(given, Sequence) and not isinstance(given, str) else given


class _RetryingClient:
    """A client that tries again: a store that is busy for a moment costs no result.

    Every call of a runner may be repeated: steps are recognised by their numbers, claims by their keys.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    def call(self, operation: str, /, **fields: Any) -> Any:
        for seconds in WAITS_SECONDS:
            try:
                return self._client.call(operation, **fields)
            except Unavailable as away:
                log.warning("%s: %s; trying again", operation, away)
                threading.Event().wait(seconds)
        return self._client.call(operation, **fields)


class _Lease:
    """Renews the lease of a run while it is worked on; knows when somebody stopped the run or took it."""

    def __init__(self, client: Client, run: str, fence: int, seconds: float) -> None:
        self.run = run
        self.fence = fence
        self.is_stopped = False
        self._client = client
        self._seconds = seconds
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"recollect-lease-{run[:8]}", daemon=True)

    def __enter__(self) -> _Lease:
        self._thread.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._over.set()
        self._thread.join()

    def _keep(self) -> None:
        while not self._over.wait(self._seconds / 3):
            try:
                renewed = self._client.call("run.renew", id=self.run, fence=self.fence, seconds=self._seconds)
            except LeaseLost:
                return  # the next call of the worker is refused, and says so
            except RecollectError as problem:
                log.warning("the lease on run %s could not be renewed: %s", self.run, problem)
            else:
                self.is_stopped = renewed.status != "running"


@contextmanager
def _stopped_by_sigterm(runner: Runner) -> Iterator[None]:
    """In the main thread only: elsewhere Python knows no signals, and `stop` does the same."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: runner.stop())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
