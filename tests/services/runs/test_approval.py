"""A step that must be approved waits without a worker until a person has decided, or the time for that is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import recollect
from every_store import EMPTY_STORE, EVERY_STORE
from recollect import Act, Done, Runner, Task
from recollect.catalogue import OPERATIONS
from recollect.domain.access import ROLES
from recollect.domain.agents import Cycle, Execution, Lease
from recollect.domain.record import now
from recollect.errors import Conflict, IllegalTransition, InvalidInput
from recollect.interfaces.client import Recollect
from recollect.ports.records import Scope, revised
from recollect.ports.steps import Put
from recollect.services.leases import is_held
from recollect.services.runs.history import lease_name

EVERYTHING = frozenset({"read", "write", "govern", "delete", "admin"})


@pytest.fixture(params=EVERY_STORE)
def on_every_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with recollect.open(EMPTY_STORE[request.param](tmp_path), embedder="none", background=False) as opened:
        opened.agent.add("Worker bee", id="bee")
        yield opened


@pytest.fixture
def mem() -> Iterator[Any]:
    with recollect.open("memory://", embedder="hash", background=False) as opened:
        opened.agent.add("Worker bee", id="bee")
        yield opened


def as_ann(mem: Any) -> Any:
    """The same store as it is asked for Ann, who came with a key."""
    return Recollect(mem._core, Scope("default", "ann", EVERYTHING), lambda store, scope: None, owns=False)


def waiting(mem: Any, tool: str = "fly", **fields: Any) -> str:
    """A run whose first step waits."""
    run = str(mem.run.start("蜂蜜を集める", **{"agent": "bee", "approve": "always", **fields}).id)
    propose(mem, run, tool)
    return run


def propose(mem: Any, run: str, tool: str | None = "fly", worker: str = "w") -> Any:
    held = mem.run.claim(worker, id=run)
    return mem.run.propose(run, held.fence, tool=tool, arguments={"to": "薔薇"}, number=held.run.length + 1)


def let_time_pass(mem: Any, run: str) -> None:
    """Nobody decided in time."""
    record = mem._core.store.get(mem._scope, Execution, run)
    late = revised(record, mem._scope, waits_until=now() - timedelta(seconds=1))
    mem._core.store.transact(mem._scope, [Put(late)])


def test_steps_wait_are_approved_rejected_or_run_out_of_time(on_every_store: Any) -> None:
    mem, ann = on_every_store, as_ann(on_every_store)
    run = mem.run.start("collect honey", agent="bee", approve="always", approval_seconds=3600).id
    assert [mem.run.list(status=one).total for one in ("running", "interrupted")] == [0, 0]
    first = mem.run.claim("w", id=run).fence
    proposed = mem.run.propose(run, first, tool="fly", arguments={"to": "rose"}, reasoning="it smells", number=1)
    assert proposed.waiting

    shown = mem.run.show(run)
    assert (shown.status, shown.waiting, shown.held_until) == ("waiting", 1, None)
    assert timedelta(seconds=3590) < shown.waits_until - now() <= timedelta(seconds=3600)
    assert not is_held(mem._core.store.get(mem._scope, Lease, lease_name(run)))
    assert mem.run.claim("w2").run is None
    with pytest.raises(IllegalTransition, match="is waiting"):
        mem.run.claim("w2", id=run)
    with pytest.raises(IllegalTransition, match="is waiting"):
        mem.run.record(run, first, summary="done without asking")
    assert mem.run.propose(run, first, tool="fly", arguments={"to": "rose"}, number=1).duplicate  # its answer was lost
    (listed,) = mem.run.waiting()
    assert (listed.run, listed.number, listed.tool, listed.goal) == (run, 1, "fly", "collect honey")
    assert mem.run.waiting(agent="nobody").total == 0

    for _ in range(2):  # twice is harmless
        approved = ann.run.approve(run, step=1, cycle=listed.cycle, why="roses are fine")
        assert (approved.status, approved.waiting) == ("queued", None)
    decided = approved.timeline[0].approval
    assert (decided["decision"], decided["by"], decided["why"]) == ("approved", "ann", "roses are fine")
    with pytest.raises(IllegalTransition, match="already approved by ann"):
        ann.run.reject(run, "too late", step=1)
    claimed = mem.run.claim("w2")
    assert (claimed.todo, claimed.step.number, claimed.step.attempts) == ("act", 1, 1)
    mem.run.record(run, claimed.fence, summary="landed")

    mem.run.propose(run, claimed.fence, tool="sting", number=2)
    for _ in range(2):
        rejected = ann.run.reject(run, "nobody is stung", step=2)
        assert rejected.status == "queued"
    with pytest.raises(IllegalTransition, match=r"step 2 .* was already rejected by ann"):
        ann.run.approve(run)
    assert ann.run.approve(run, step=1).status == "queued"  # decided before, and still so
    claimed = mem.run.claim("w3")
    assert (claimed.todo, claimed.last.outcome) == ("think", "error")
    error = claimed.last.error
    assert (error["code"], error["message"], error["by"]) == ("rejected", "nobody is stung", "ann")

    mem.run.propose(run, claimed.fence, tool="sleep", number=3)
    let_time_pass(mem, run)
    assert mem.run.waiting().total == 0
    assert "was not approved in time" in mem.run.show(run).next
    with pytest.raises(IllegalTransition, match="was already rejected"):
        ann.run.approve(run)
    claimed = mem.run.claim("w4")
    assert (claimed.last.number, claimed.last.error["message"]) == (3, "nobody approved it in time")
    assert claimed.last.error["by"] is None
    mem.run.propose(run, claimed.fence, tool="sleep", number=4)
    let_time_pass(mem, run)
    claimed = mem.run.claim("w5")  # the next worker that looks for runs records it
    assert (claimed.run.id, claimed.last.number, claimed.last.error["code"]) == (run, 4, "rejected")
    assert mem.verify().sound


def test_which_steps_wait_is_said_by_the_run_and_the_agent(mem: Any) -> None:
    run = waiting(mem, tool="fly", approve="tools")
    mem.run.approve(run)
    fence = mem.run.claim("w", id=run).fence
    mem.run.record(run, fence)
    assert not mem.run.propose(run, fence).waiting  # a thought calls no tool
    mem.run.record(run, fence)
    assert mem.run.propose(run, fence, tool="fly").waiting
    never = mem.run.start("sleep", agent="bee").id
    assert not propose(mem, never).waiting

    mem.agent.add("Careful", id="careful", config_overrides={"approve": "tools"})
    assert mem.run.start("go", agent="careful").approve == "tools"
    assert mem.run.start("go", agent="careful", approve="never").approve == "tools"  # the stricter one counts
    assert mem.run.start("go", agent="careful", approve="always").approve == "always"
    mem.agent.add("Odd", id="odd", config_overrides={"approve": "sometimes"})
    with pytest.raises(InvalidInput, match="is not one of never, tools, always"):
        mem.run.start("go", agent="odd")
    with pytest.raises(InvalidInput):
        mem.run.start("go", agent="bee", approval_seconds=0)


def test_the_settings_say_how_long_a_step_waits(tmp_path: Path) -> None:
    with recollect.open(tmp_path / "a.db", embedder="none", background=False, approval_seconds=60) as mem:
        mem.agent.add("Worker bee", id="bee")
        assert mem.run.show(waiting(mem)).waits_until <= now() + timedelta(seconds=60)


def test_workers_may_not_approve_their_own_steps_unless_it_was_granted() -> None:
    for name in ("run.approve", "run.reject"):
        roles = {role for role, granted in ROLES.items() if OPERATIONS[name].permission in granted}
        assert roles == {"curator", "admin", "owner"}


def test_only_what_waits_can_be_decided(mem: Any) -> None:
    run = mem.run.start("collect honey", agent="bee").id
    with pytest.raises(InvalidInput, match="no such step"):
        mem.run.approve(run)
    propose(mem, run)
    with pytest.raises(IllegalTransition, match="does not wait for approval"):
        mem.run.approve(run)
    with pytest.raises(InvalidInput):
        mem.run.reject(waiting(mem), "")


def test_a_run_that_waits_can_be_cancelled_but_not_paused_or_resumed(mem: Any) -> None:
    run = waiting(mem)
    for call in (mem.run.pause, mem.run.resume):
        with pytest.raises(IllegalTransition) as refused:
            call(run)
        assert refused.value.remedy == "approve or reject its step, or cancel it"
    assert mem.run.cancel(run).status == "cancelled"
    assert mem.run.waiting().total == 0
    for call in (mem.run.approve, lambda id: mem.run.reject(id, "no")):
        with pytest.raises(IllegalTransition, match="is cancelled"):
            call(run)


def test_forks_and_rewinds_leave_what_waits_behind(mem: Any) -> None:
    run = waiting(mem, tool="first")
    mem.run.approve(run)
    fence = mem.run.claim("w", id=run).fence
    mem.run.record(run, fence)
    seen = mem.run.propose(run, fence, tool="second").cycle
    fork = mem.run.fork(run)
    assert (fork.length, fork.status, fork.approve) == (1, "queued", "always")
    assert propose(mem, fork.id).waiting

    back = mem.run.rewind(run, 1, paused=False)
    assert (back.status, back.waiting, back.waits_until) == ("queued", None, None)
    assert [step.tool for step in back.abandoned] == ["second"]
    with pytest.raises(InvalidInput, match="no such step"):
        mem.run.approve(run, step=2)
    propose(mem, run, tool="third")
    with pytest.raises(Conflict, match="another one by now"):
        mem.run.approve(run, step=2, cycle=seen)  # somebody still looks at the former step 2
    assert mem.run.show(run).waiting == 2
    assert {step.run for step in mem.run.waiting()} == {run, fork.id}


def test_of_two_decisions_at_once_the_first_stands(mem: Any, meanwhile: Callable[..., None]) -> None:
    run = waiting(mem)
    meanwhile(mem, "transact", Cycle, lambda: mem.run.reject(run, "no"))
    with pytest.raises(IllegalTransition, match="was already rejected"):
        mem.run.approve(run)
    run = waiting(mem)
    meanwhile(mem, "transact", Cycle, lambda: mem.run.approve(run))
    assert mem.run.approve(run).status == "queued"


def test_what_waits_is_listed_page_by_page_the_most_pressing_first(mem: Any) -> None:
    runs = [waiting(mem, approval_seconds=seconds, queue=f"q{seconds}") for seconds in (300, 100, 200)]
    first = mem.run.waiting(limit=2)
    assert ([one.run for one in first], first.total) == ([runs[1], runs[2]], 3)
    assert [one.run for one in mem.run.waiting(limit=2, after=first.next)] == [runs[0]]
    assert [one.run for one in mem.run.waiting(queue="q200")] == [runs[2]]
    assert {one.id for one in mem.run.list(status="waiting")} == set(runs)


def test_a_runner_leaves_what_waits_and_goes_on_when_it_was_decided(mem: Any) -> None:
    flown: list[str] = []

    def think(task: Task) -> Act | Done:
        if not task.history:
            return Act("fly", {"to": "rose"})
        if task.history[-1].error:
            return Act("fly", {"to": "lily"})
        return Done(summary=f"flew to {len(flown)}")

    runner = Runner(mem, think, {"fly": lambda to: flown.append(to)})
    run = runner.run("collect honey", agent="bee", approve="tools")
    assert (run.status, flown) == ("waiting", [])
    assert runner.work() == 0
    mem.run.reject(run.id, "roses sting")
    assert runner.work() == 1
    assert flown == []
    mem.run.approve(run.id)
    assert Runner(mem, think, {"fly": lambda to: flown.append(to)}).work() == 1  # another process, perhaps
    assert (mem.run.show(run.id).status, flown) == ("succeeded", ["lily"])
