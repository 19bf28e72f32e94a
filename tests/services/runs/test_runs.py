"""A run is stored before work, a proposal before its effect, a result before the next step; on every record store."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import recollect
from postgres_server import server
from recollect.domain.agents import Agent, Cycle, Execution, Lease, Proposal, Result
from recollect.domain.audit import AccessLog
from recollect.domain.memory import Memory
from recollect.domain.record import now
from recollect.errors import Conflict, IllegalTransition, InvalidInput, LeaseLost, NotFound, ReferenceMissing, TooLarge
from recollect.ports.query import Query
from recollect.ports.records import revised
from recollect.ports.steps import Put, Update
from recollect.services.runs.history import lease_name


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def mem(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    address = {"memory": "memory://", "sqlite": str(tmp_path / "runs.db")}.get(request.param)
    with recollect.open(address or server().emptied_store(), embedder="hash") as opened:
        opened.agent.add("Worker bee", id="bee")
        yield opened


def start(mem: Any, **fields: Any) -> str:
    return str(mem.run.start("collect honey", **{"agent": "bee", **fields}).id)


def taken(mem: Any, **fields: Any) -> tuple[str, int]:
    """A run with its fencing number."""
    run = start(mem, **fields)
    return run, mem.run.claim("w", id=run).fence


def step(mem: Any, run: str, fence: int, tool: str = "fly", **fields: Any) -> Any:
    mem.run.propose(run, fence, tool=tool)
    return mem.run.record(run, fence, **fields)


def expire(mem: Any, run: str) -> None:
    """The worker has been silent for too long."""
    lease = mem._core.store.get(mem._scope, Lease, lease_name(run))
    past = revised(lease, mem._scope, expires_at=now() - timedelta(seconds=1))
    mem._core.store.transact(mem._scope, [Put(past)])


def stored(mem: Any, record: Any) -> list[Any]:
    return list(mem._core.store.find(mem._scope, Query(record)).records)


def test_an_accepted_run_is_there_before_any_work(mem: Any) -> None:
    run = start(mem, priority=7, deadline="2099-01-01", max_steps=9, metadata={"a": 1}, steps=["fly", "return"])
    shown = mem.run.show(run)
    assert (shown.status, shown.length, shown.priority, shown.metadata) == ("queued", 0, 7, {"a": 1})
    assert shown.next == "when a worker claims it: thinks about step 1"
    assert [entry.action for entry in stored(mem, AccessLog)][-1] == "run.start"


def test_the_same_key_returns_the_same_run(mem: Any) -> None:
    first = mem.run.start("collect honey", agent="bee", idempotency_key="k")
    again = mem.run.start("collect honey", agent="bee", idempotency_key="k")
    assert (again.id, first.duplicate, again.duplicate) == (first.id, False, True)
    with pytest.raises(Conflict, match="another run"):
        mem.run.start("sleep", agent="bee", idempotency_key="k")


def test_a_key_raced_by_many_starts_one_run(mem: Any) -> None:
    with ThreadPoolExecutor(8) as pool:
        ids = {view.id for view in pool.map(lambda _: mem.run.start("g", agent="bee", idempotency_key="k"), range(8))}
    assert len(ids) == 1


def test_a_run_needs_an_active_agent(mem: Any) -> None:
    bee = mem._core.store.get(mem._scope, Agent, "bee")
    waiting = start(mem)
    mem._core.store.transact(mem._scope, [Update(revised(bee, mem._scope, status="paused"))])
    with pytest.raises(IllegalTransition, match="paused"):
        start(mem)
    assert mem.run.claim("w").run is None
    with pytest.raises(Conflict, match="cannot be claimed"):
        mem.run.claim("w", id=waiting)


def test_a_run_for_a_message_that_is_not_there_is_refused(mem: Any) -> None:
    with pytest.raises(ReferenceMissing):
        start(mem, message="no such message", session="made with it")
    assert stored(mem, Execution) == mem.session.list().sessions == []


def test_the_proposal_stands_before_the_effect_and_the_result_before_the_next_step(mem: Any) -> None:
    run, fence = taken(mem)
    proposed = mem.run.propose(
        run, fence, tool="fly", arguments={"to": "rose"}, thoughts={"mood": "busy"}, reasoning="smells", plan=["back"],
        snapshot={"load": 0},
    )  # fmt: skip
    (cycle,), (proposal,) = stored(mem, Cycle), stored(mem, Proposal)
    assert (cycle.index, cycle.number, cycle.snapshot, cycle.status) == (0, 1, {"load": 0}, "open")
    assert proposal.tool_call == {"tool": "fly", "arguments": {"to": "rose"}}
    assert proposed.idempotency_key == proposal.idempotency_key
    with pytest.raises(IllegalTransition, match="no result yet"):
        mem.run.propose(run, fence, tool="fly")
    with pytest.raises(IllegalTransition, match="no result yet"):
        mem.run.finish(run, fence)
    mem.run.record(run, fence, summary="landed", output={"nectar": 3}, artifacts=["hive/1"], seconds=0.5)
    assert mem.run.propose(run, fence, tool="fly").number == 2
    (one, two) = mem.run.show(run).timeline
    assert (one.state, one.outcome, one.output, one.arguments) == ("done", "success", {"nectar": 3}, {"to": "rose"})
    assert (one.thoughts, one.plan, one.artifacts, one.seconds) == ({"mood": "busy"}, ["back"], ["hive/1"], 0.5)
    assert (two.state, two.outcome) == ("open", None)


def test_a_repeated_call_is_recognised_by_the_number_of_its_step(mem: Any) -> None:
    run, fence = taken(mem)
    first = mem.run.propose(run, fence, tool="fly", number=1)
    again = mem.run.propose(run, fence, tool="fly", number=1)
    assert (again.cycle, again.duplicate) == (first.cycle, True)
    recorded = mem.run.record(run, fence, output={"a": 1}, number=1)
    assert mem.run.record(run, fence, output={"a": 1}, number=1).result == recorded.result
    with pytest.raises(IllegalTransition, match="already has a result"):
        mem.run.record(run, fence, output={"a": 2}, number=1)
    with pytest.raises(IllegalTransition, match="already has a result"):
        mem.run.record(run, fence, output={"a": 1})
    with pytest.raises(IllegalTransition, match="no such step"):
        mem.run.record(run, fence, number=2)
    assert len(stored(mem, Cycle)) == len(stored(mem, Result)) == 1


def test_finishing_ends_a_run_and_frees_its_lease(mem: Any) -> None:
    run, fence = taken(mem)
    step(mem, run, fence)
    done = mem.run.finish(run, fence, result={"honey": 1}, summary="a jar of honey")
    assert (done.status, done.result, done.next, done.held_until) == (
        "succeeded", {"honey": 1}, "nothing: it has ended", None,
    )  # fmt: skip
    assert mem.run.finish(run, fence).status == "succeeded"
    with pytest.raises(IllegalTransition, match="succeeded"):
        mem.run.propose(run, fence, tool="fly")
    assert "a jar of honey" in [hit.text for hit in mem.recall("honey", agent="bee")]


def test_a_failed_run_says_why_and_can_be_resumed(mem: Any) -> None:
    run, fence = taken(mem)
    step(mem, run, fence)
    assert mem.run.fail(run, fence, error={"code": "rain"}, note="it rains").error == {"code": "rain"}
    assert mem.run.fail(run, fence).status == "failed"
    resumed = mem.run.resume(run)
    assert (resumed.status, resumed.error, resumed.length) == ("queued", None, 1)


def test_deadline_and_number_of_steps_are_kept(mem: Any) -> None:
    run, fence = taken(mem, max_steps=1)
    step(mem, run, fence)
    with pytest.raises(IllegalTransition, match="all of its 1 steps"):
        mem.run.propose(run, fence, tool="fly")
    late = start(mem, deadline="2020-01-01")
    assert mem.run.claim("w").run is None
    assert mem.run.show(late).error["code"] == "deadline_passed"


def test_what_is_too_large_or_not_json_is_refused(mem: Any) -> None:
    run, fence = taken(mem)
    with pytest.raises(TooLarge):
        mem.run.propose(run, fence, tool="fly", arguments={"x": "y" * 1_000_001})
    mem.run.propose(run, fence, tool="fly")
    with pytest.raises(TooLarge):
        mem.run.record(run, fence, output={"x": "y" * 1_000_001})
    with pytest.raises(InvalidInput):
        mem.run.record(run, fence, output={"x": float("nan")})
    assert mem.run.record(run, fence).number == 1


def test_cycles_of_an_agent_are_counted_through_all_its_runs(mem: Any) -> None:
    runs = [taken(mem) for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda run: [step(mem, *run) for _ in range(4)], runs))
    cycles = stored(mem, Cycle)
    assert sorted(cycle.index for cycle in cycles) == list(range(24))
    for run, _ in runs:
        assert [one.number for one in mem.run.show(run).timeline] == [1, 2, 3, 4]


# -- leases ------------------------------------------------------------------------------------------------------------


def test_cycles_are_found_by_agent_and_number(mem: Any) -> None:
    runs = [taken(mem), taken(mem)]
    for run, fence in (*runs, *runs):
        step(mem, run, fence, summary=f"by {run}")
    page = mem.cycle.list(agent="bee", limit=3)
    assert ([one.index for one in page], page.total) == ([3, 2, 1], 4)
    assert [one.index for one in mem.cycle.list(agent="bee", limit=3, after=page.next)] == [0]
    assert [one.index for one in mem.cycle.list(run=runs[1][0])] == [3, 1]
    assert mem.cycle.list(agent="bee", state="open").total == 0
    shown = mem.cycle.show("bee", 2)
    assert (shown.agent, shown.run, shown.number, shown.index) == ("bee", runs[0][0], 2, 2)
    assert (shown.tool, shown.outcome, shown.summary) == ("fly", "success", f"by {runs[0][0]}")
    for agent, index in (("bee", 4), ("nobody", 0)):
        with pytest.raises(NotFound):
            mem.cycle.show(agent, index)
    assert mem.within("rivals").cycle.list().total == 0


def test_the_most_urgent_then_the_oldest_is_claimed_first(mem: Any) -> None:
    runs = {name: start(mem, priority=priority) for name, priority in (("a", 5), ("b", 9), ("c", 5), ("d", 9))}
    order = [mem.run.claim(f"w{number}").run.id for number in range(4)]
    assert order == [runs["b"], runs["d"], runs["a"], runs["c"]]
    assert mem.run.claim("w").run is None


def test_queues_and_agents_are_kept_apart(mem: Any) -> None:
    mem.agent.add("Ant", id="ant")
    start(mem, queue="nights")
    mine = start(mem, agent="ant")
    assert mem.run.claim("w", agent="ant").run.id == mine
    assert mem.run.claim("w").run is None
    assert mem.run.claim("w", queue="nights").agent.name == "Worker bee"


def test_a_held_run_is_not_given_to_another(mem: Any) -> None:
    run, _ = taken(mem)
    assert mem.run.claim("other").run is None
    assert mem.run.claim("w").run is None  # not even to one of the same name: it may be another process
    with pytest.raises(Conflict, match="another worker holds"):
        mem.run.claim("other", id=run)


def test_many_workers_get_each_run_once(mem: Any) -> None:
    runs = {start(mem) for _ in range(12)}
    with ThreadPoolExecutor(6) as pool:
        claims = list(pool.map(lambda number: mem.run.claim(f"w{number}"), range(20)))
    got = [claim.run.id for claim in claims if claim.run is not None]
    assert len(got) == len(set(got))
    rest = []
    while (claim := mem.run.claim("last")).run is not None:
        rest.append(claim.run.id)
    assert sorted([*got, *rest]) == sorted(runs)


def test_a_run_whose_worker_is_gone_is_claimed_by_another_who_goes_on(mem: Any) -> None:
    run, fence = taken(mem)
    step(mem, run, fence, output={"n": 1})
    expire(mem, run)
    again = mem.run.claim("second")
    assert (again.run.id, again.fence, again.todo, again.last.output) == (run, fence + 1, "think", {"n": 1})
    assert (again.run.crashes, again.run.attempts, again.run.worker) == (1, 2, "second")


@pytest.mark.parametrize("late", ["propose", "record", "finish", "fail", "renew", "release"])
def test_a_stale_fencing_number_is_refused(mem: Any, late: str) -> None:
    run, fence = taken(mem)
    mem.run.propose(run, fence, tool="fly", repeatable=True)
    expire(mem, run)
    assert mem.run.claim("second").todo == "act"
    before = stored(mem, Cycle), stored(mem, Result), stored(mem, Execution), stored(mem, Lease)
    with pytest.raises(LeaseLost):
        getattr(mem.run, late)(run, fence)
    assert before == (stored(mem, Cycle), stored(mem, Result), stored(mem, Execution), stored(mem, Lease))


@pytest.mark.parametrize("late", ["propose", "record", "finish", "fail", "renew", "release"])
def test_a_run_taken_over_between_look_and_write_is_not_written(
    mem: Any, monkeypatch: pytest.MonkeyPatch, late: str
) -> None:
    run, fence = taken(mem)
    if late == "record":
        mem.run.propose(run, fence, tool="fly", repeatable=True)
    store = mem._core.store
    real = store.transact

    def too_late(*given: Any) -> Any:
        monkeypatch.undo()
        expire(mem, run)
        assert mem.run.claim("second").fence == fence + 1
        return real(*given)

    monkeypatch.setattr(store, "transact", too_late)
    with pytest.raises(LeaseLost):
        getattr(mem.run, late)(run, fence)
    shown = mem.run.show(run)
    assert (shown.status, shown.worker, [one.outcome for one in shown.timeline]) == (
        "running", "second", [None] if late == "record" else [],
    )  # fmt: skip


def test_a_late_holder_who_goes_on_at_the_moment_of_the_take_over_is_not_overlooked(
    mem: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, fence = taken(mem)
    expire(mem, run)
    store = mem._core.store
    real = store.transact

    def one_step_earlier(*given: Any) -> Any:
        monkeypatch.undo()
        mem.run.propose(run, fence, tool="sting")
        return real(*given)

    monkeypatch.setattr(store, "transact", one_step_earlier)
    assert mem.run.claim("second").run is None  # what it saw is no longer true
    assert mem.run.show(run).status == "interrupted"
    assert mem.run.claim("second").run is None
    assert mem.run.show(run).asks == 1


def test_a_holder_who_is_late_but_not_replaced_goes_on(mem: Any) -> None:
    run, fence = taken(mem)
    expire(mem, run)
    assert step(mem, run, fence).number == 1
    mem.run.renew(run, fence)
    assert mem.run.claim("other").run is None


def test_a_claim_whose_answer_was_lost_is_the_same_when_repeated(mem: Any) -> None:
    for goal in ("one", "two"):
        mem.run.start(goal, agent="bee")
    first = mem.run.claim("w", idempotency_key="k")
    assert mem.run.claim("w", idempotency_key="k") == first
    assert mem.run.claim("w", id=first.run.id, idempotency_key="k") == first
    other = mem.run.claim("w2", idempotency_key="k")
    assert other.run is None  # the key of somebody else's claim
    assert mem.run.claim("w", idempotency_key="k2").run.goal == "two"
    mem.run.release(first.run.id, first.fence)
    assert mem.run.claim("w", idempotency_key="k").fence == first.fence + 1


def test_a_claim_repeated_while_it_is_under_way_takes_one_run(mem: Any, meanwhile: Any) -> None:
    for goal in ("one", "two"):
        mem.run.start(goal, agent="bee")
    held: list[Any] = []
    meanwhile(mem, "transact", Lease, lambda: held.append(mem.run.claim("w", idempotency_key="k")))
    assert mem.run.claim("w", idempotency_key="k") == held[0]
    assert [run.status for run in mem.run.list().runs].count("running") == 1


def test_a_released_run_is_claimed_at_once(mem: Any) -> None:
    run, fence = taken(mem)
    assert mem.run.release(run, fence).status == "queued"
    with pytest.raises(LeaseLost):
        mem.run.renew(run, fence)  # a renewal that comes a moment too late keeps nobody waiting
    again = mem.run.claim("other")
    assert (again.run.id, again.run.crashes, again.fence) == (run, 0, fence + 1)


def test_a_run_that_kills_its_workers_is_given_up(mem: Any) -> None:
    run, _ = taken(mem, max_crashes=1)
    expire(mem, run)
    assert mem.run.claim("second").run.id == run
    expire(mem, run)
    assert mem.run.claim("third").run is None
    assert mem.run.show(run).error["code"] == "too_many_crashes"


# -- effects -----------------------------------------------------------------------------------------------------------


def test_a_step_whose_tool_takes_the_key_is_carried_out_again_with_it(mem: Any) -> None:
    run, fence = taken(mem)
    key = mem.run.propose(run, fence, tool="fly", repeatable=True, snapshot={"n": 4}).idempotency_key
    expire(mem, run)
    assert mem.run.show(run).next.endswith("step 1 (fly) is carried out again, with the same idempotency key")
    again = mem.run.claim("second")
    assert (again.todo, again.step.idempotency_key, again.step.snapshot) == ("act", key, {"n": 4})
    assert again.step.attempts == 2
    assert mem.run.record(run, again.fence).number == 1


def test_another_step_that_may_have_happened_is_asked_about(mem: Any) -> None:
    run, fence = taken(mem)
    mem.run.propose(run, fence, tool="sting")
    expire(mem, run)
    assert mem.run.claim("second").run is None
    shown = mem.run.show(run)
    assert (shown.status, shown.asks, shown.timeline[0].state) == ("paused", 1, "uncertain")
    assert "may have happened" in shown.next
    with pytest.raises(LeaseLost):
        mem.run.record(run, fence)
    with pytest.raises(IllegalTransition, match="must be settled"):
        mem.run.claim("third", id=run)
    assert mem.run.resume(run).status == "paused"


@pytest.fixture
def asking(mem: Any) -> str:
    run, fence = taken(mem)
    mem.run.propose(run, fence, tool="sting")
    expire(mem, run)
    assert mem.run.claim("second").run is None
    return run


def test_it_happened_and_is_not_done_again(mem: Any, asking: str) -> None:
    settled = mem.run.settle(asking, "happened", output={"stung": True}, summary="stung the bear", why="saw it")
    assert (settled.status, settled.timeline[0].outcome, settled.note) == ("queued", "success", "saw it")
    again = mem.run.claim("third")
    assert (again.todo, again.last.output) == ("think", {"stung": True})
    assert [hit.text for hit in mem.recall("bear", agent="bee")] == ["stung the bear"]


def test_it_did_not_happen_and_is_done_again_once(mem: Any, asking: str) -> None:
    key = mem.run.show(asking).timeline[0].idempotency_key
    assert mem.run.settle(asking, "did_not_happen").timeline[0].state == "again"
    again = mem.run.claim("third")
    assert (again.todo, again.step.idempotency_key, again.step.state) == ("act", key, "open")
    expire(mem, asking)
    assert mem.run.claim("fourth").run is None  # it died again: nobody guesses
    assert mem.run.show(asking).asks == 1


def test_it_stays_unknown_and_the_run_goes_on(mem: Any, asking: str) -> None:
    settled = mem.run.settle(asking, "abandon", resume=False)
    assert (settled.status, settled.timeline[0].outcome, settled.asks) == ("paused", "uncertain", None)
    assert mem.run.resume(asking).status == "queued"
    assert mem.run.claim("third").last.error["code"] == "uncertain"


def test_only_what_is_asked_can_be_settled(mem: Any, asking: str) -> None:
    with pytest.raises(IllegalTransition):
        mem.run.settle(asking, "happened", step=2)
    with pytest.raises(InvalidInput):
        mem.run.settle(asking, "abandon", output={})
    mem.run.settle(asking, "happened")
    with pytest.raises(IllegalTransition):
        mem.run.settle(asking, "happened")


def test_a_thought_has_no_effect_and_may_be_repeated(mem: Any) -> None:
    run, fence = taken(mem)
    mem.run.propose(run, fence, reasoning="hm")
    expire(mem, run)
    assert mem.run.claim("second").todo == "act"


# -- memory ------------------------------------------------------------------------------------------------------------


def test_a_result_becomes_a_memory_that_cites_it(mem: Any) -> None:
    mem.session.add("a day", id="day", agent="bee")
    run, fence = taken(mem, session="day")
    recorded = step(mem, run, fence, summary="the rose has nectar")
    memory = mem.show(recorded.memory)
    assert (memory.kind, memory.text, memory.citations[0].source) == (
        "result", "the rose has nectar", f"log:{recorded.result}",
    )  # fmt: skip
    assert memory.fields["session_id"] == "day"
    assert memory.fields["cycle_id"] == mem.run.show(run).timeline[0].cycle
    assert mem.promote(recorded.memory).status == "verified"  # the log it cites is there


def test_identical_results_are_remembered_once(mem: Any) -> None:
    memories = set()
    for _ in range(3):
        run, fence = taken(mem)
        memories |= {step(mem, run, fence, summary="nothing new").memory for _ in range(3)}
    assert len(memories) == len(stored(mem, Memory)) == 1
    assert len(mem.show(memories.pop()).citations) == 1


def test_what_is_remembered_can_be_said(mem: Any) -> None:
    run, fence = taken(mem)
    assert step(mem, run, fence).memory is None
    assert step(mem, run, fence, summary="a", remember=False).memory is None
    assert step(mem, run, fence, summary="b", outcome="error", error={"code": "x"}).memory is None
    assert step(mem, run, fence, summary="c", outcome="error", remember=True).memory is not None
    assert mem.show(step(mem, run, fence, summary="d", kind="observation").memory).kind == "observation"
    quiet, fence = taken(mem, remember=False)
    assert step(mem, quiet, fence, summary="e").memory is None


def test_an_agent_can_say_that_its_results_are_not_remembered(mem: Any) -> None:
    bee = mem._core.store.get(mem._scope, Agent, "bee")
    silent = revised(bee, mem._scope, config_overrides={"remember_results": False})
    mem._core.store.transact(mem._scope, [Update(silent)])
    assert mem.run.show(start(mem)).remembers is False
    assert mem.run.show(start(mem, remember=True)).remembers is True


def test_recall_merges_recent_results_with_memories_and_tells_nothing_twice(mem: Any) -> None:
    run, fence = taken(mem)
    step(mem, run, fence, summary="the rose has nectar")
    for _ in range(2):
        step(mem, run, fence, summary="the wind was too strong", outcome="error", error={})
    found = mem.recall("rose", agent="bee")
    assert [hit.text for hit in found] == ["the rose has nectar"]
    assert [one.summary for one in found.recent] == ["the wind was too strong"]
    assert "too strong" in mem.context("rose", agent="bee").text
    assert mem.recall("rose", agent="bee", purpose="act").recent == []


def test_a_memory_forgotten_between_look_and_write_is_made_anew(mem: Any) -> None:
    run, fence = taken(mem)
    first = step(mem, run, fence, summary="the same").memory
    mem.forget(first)
    second = step(mem, run, fence, summary="the same").memory
    assert second != first
    mem.erase(second)
    assert mem.run.show(run).timeline[1].memory is None


# -- steering ----------------------------------------------------------------------------------------------------------


def test_a_paused_run_takes_no_further_step_but_loses_no_result(mem: Any) -> None:
    run, fence = taken(mem)
    mem.run.propose(run, fence, tool="fly")
    assert mem.run.pause(run, why="lunch").note == "lunch"
    assert mem.run.renew(run, fence).status == "paused"
    mem.run.record(run, fence)
    with pytest.raises(IllegalTransition, match="paused"):
        mem.run.propose(run, fence, tool="fly")
    with pytest.raises(IllegalTransition, match="paused"):
        mem.run.finish(run, fence)
    assert mem.run.release(run, fence).status == "paused"
    assert mem.run.claim("other").run is None
    assert mem.run.resume(run).status == "queued"
    assert mem.run.claim("other").last.number == 1


def test_resuming_while_the_worker_is_still_at_it_lets_it_go_on(mem: Any) -> None:
    run, fence = taken(mem)
    mem.run.pause(run)
    assert mem.run.resume(run).status == "running"
    assert step(mem, run, fence).number == 1


def test_a_cancelled_run_ends(mem: Any) -> None:
    run, fence = taken(mem)
    mem.run.propose(run, fence, tool="fly")
    assert mem.run.cancel(run).status == "cancelled"
    mem.run.record(run, fence)
    with pytest.raises(IllegalTransition):
        mem.run.propose(run, fence, tool="fly")
    for refused in (mem.run.resume, mem.run.pause):
        with pytest.raises(IllegalTransition):
            refused(run)
    assert mem.run.cancel(run).status == "cancelled"


def history(mem: Any, run: str) -> list[Any]:
    return [one.output and one.output["n"] for one in mem.run.show(run).timeline]


def counted(mem: Any, run: str, fence: int, *numbers: int) -> None:
    for number in numbers:
        step(mem, run, fence, output={"n": number})


def test_a_fork_goes_on_from_any_step_without_doing_it_again(mem: Any) -> None:
    run, fence = taken(mem)
    counted(mem, run, fence, 1, 2, 3)
    forked = mem.run.fork(run, after=2, goal="collect wax")
    assert (forked.goal, forked.parent, forked.forked_after, forked.length) == ("collect wax", run, 2, 2)
    claimed = mem.run.claim("w2", id=forked.id)
    assert claimed.last.output == {"n": 2}
    counted(mem, forked.id, claimed.fence, 30, 40)
    counted(mem, run, fence, 4)
    assert (history(mem, run), history(mem, forked.id)) == ([1, 2, 3, 4], [1, 2, 30, 40])
    assert mem.run.show(run).forks == [forked.id]
    assert history(mem, mem.run.fork(forked.id, after=3).id) == [1, 2, 30]
    assert history(mem, mem.run.fork(forked.id, after=1).id) == [1]
    assert mem.run.fork(run, after=0).length == 0
    assert len(stored(mem, Cycle)) == 6


def test_a_fork_shares_only_steps_with_a_result(mem: Any) -> None:
    run, fence = taken(mem)
    counted(mem, run, fence, 1)
    mem.run.propose(run, fence, tool="fly")
    assert mem.run.fork(run, paused=True).length == 1
    with pytest.raises(InvalidInput, match="no result"):
        mem.run.fork(run, after=2)
    with pytest.raises(InvalidInput, match="no branch"):
        mem.run.fork(run, branch=1)
    first = mem.run.fork(run, idempotency_key="k")
    assert mem.run.fork(run, idempotency_key="k").id == first.id


def test_a_rewind_gives_steps_up_and_keeps_them_visible(mem: Any) -> None:
    run, fence = taken(mem)
    counted(mem, run, fence, 1, 2, 3)
    with pytest.raises(Conflict, match="is working"):
        mem.run.rewind(run, 1)
    sharing = mem.run.fork(run).id
    mem.run.release(run, fence)
    rewound = mem.run.rewind(run, 1, why="wrong flower")
    assert (rewound.status, rewound.length, [one.number for one in rewound.abandoned]) == ("paused", 1, [2, 3])
    with pytest.raises(LeaseLost):
        mem.run.propose(run, fence, tool="fly")
    mem.run.resume(run)
    claimed = mem.run.claim("w2", id=run)
    counted(mem, run, claimed.fence, 20, 30)
    assert (history(mem, run), history(mem, sharing)) == ([1, 20, 30], [1, 2, 3])
    assert [one.state for one in mem.run.show(sharing).timeline] == ["done"] * 3
    assert history(mem, mem.run.fork(run, branch=0).id) == [1, 2, 3]
    with pytest.raises(LeaseLost):
        mem.run.propose(run, fence, tool="fly")
    with pytest.raises(InvalidInput):
        mem.run.rewind(start(mem), 0)


def test_a_rewind_reaches_back_through_earlier_ones(mem: Any) -> None:
    run = start(mem)
    for keep, numbers in ((3, (1, 2, 3, 4)), (2, (40, 50)), (1, (30,))):
        claimed = mem.run.claim("w", id=run)
        counted(mem, run, claimed.fence, *numbers)
        mem.run.release(run, claimed.fence)
        mem.run.rewind(run, keep, paused=False)
    assert history(mem, run) == [1]
    assert sorted(one.output["n"] for one in mem.run.show(run).abandoned) == [2, 3, 4, 30, 40, 50]


def test_a_finished_run_can_be_rewound(mem: Any) -> None:
    run, fence = taken(mem)
    counted(mem, run, fence, 1, 2)
    mem.run.finish(run, fence, result={"a": 1})
    rewound = mem.run.rewind(run, 1)
    assert (rewound.status, rewound.result, rewound.ended_at) == ("paused", None, None)


def test_an_uncertain_step_can_be_given_up_by_a_rewind(mem: Any, asking: str) -> None:
    rewound = mem.run.rewind(asking, 0, paused=False)
    assert (rewound.asks, rewound.status, rewound.abandoned[0].outcome) == (None, "queued", None)
    assert mem.run.claim("third").todo == "think"


def test_an_erased_run_is_gone_unless_others_share_its_steps(mem: Any) -> None:
    run, fence = taken(mem)
    recorded = step(mem, run, fence, summary="the rose has nectar")
    with pytest.raises(Conflict, match="is working"):
        mem.run.remove(run)
    mem.run.release(run, fence)
    fork = mem.run.fork(run).id
    mem.run.remove(run)
    with pytest.raises(Conflict, match="share"):
        mem.run.erase(run)
    mem.run.erase(fork)
    mem.run.erase(run)
    assert stored(mem, Cycle) == stored(mem, Result) == stored(mem, Lease) == []
    assert mem.show(recorded.memory).text == "the rose has nectar"
    assert mem.check(recorded.memory).broken == 1


def test_runs_are_listed_and_narrowed(mem: Any) -> None:
    ids = [start(mem) for _ in range(3)]
    mem.run.cancel(ids[0])
    page = mem.run.list(limit=2)
    assert ([run.id for run in page.runs], page.total) == ([ids[2], ids[1]], 3)
    assert [run.id for run in mem.run.list(limit=2, after=page.next).runs] == [ids[0]]
    assert [run.id for run in mem.run.list(status="cancelled").runs] == [ids[0]]
    assert mem.run.list(agent="nobody").total == 0
    mem.session.add("Talk", id="talk", agent="bee")
    asked = mem.message.add("user", "collect honey", session="talk").id
    wanted = start(mem, session="talk", message=asked)
    assert [run.id for run in mem.run.list(message=asked)] == [wanted]


def test_a_run_whose_worker_is_gone_is_interrupted_not_running(mem: Any) -> None:
    dead, _ = taken(mem)
    alive, _ = taken(mem)
    assert mem.run.list(status="interrupted").total == 0
    expire(mem, dead)
    shown = mem.run.show(dead)
    assert (shown.status, shown.held_until) == ("interrupted", None)
    assert "its worker stopped responding" in shown.next
    assert {run.id: run.status for run in mem.run.list()} == {dead: "interrupted", alive: "running"}
    assert [run.id for run in mem.run.list(status="interrupted")] == [dead]
    assert [run.id for run in mem.run.list(status="running")] == [alive]
    assert mem.run.claim("another").run.status == "running"


def test_a_long_history_is_shown_page_by_page(mem: Any) -> None:
    run, fence = taken(mem)
    counted(mem, run, fence, *range(1, 8))
    latest = mem.run.show(run, limit=3)
    assert ([one.number for one in latest.timeline], latest.more) == ([5, 6, 7], 4)
    earlier = mem.run.show(run, limit=3, before=5)
    assert ([one.number for one in earlier.timeline], earlier.more) == ([2, 3, 4], 1)


def test_another_organization_sees_no_run(mem: Any) -> None:
    run, fence = taken(mem)
    other = mem.within("rivals")
    assert other.run.list().total == 0
    assert other.run.claim("w").run is None
    for call in (lambda: other.run.show(run), lambda: other.run.propose(run, fence), lambda: other.run.cancel(run)):
        with pytest.raises(NotFound):
            call()


def test_removing_an_agent_takes_its_runs_along(mem: Any) -> None:
    run, fence = taken(mem)
    step(mem, run, fence, summary="x")
    mem.run.fork(run)
    mem.agent.remove("bee", for_good=True)
    assert stored(mem, Execution) == stored(mem, Cycle) == stored(mem, Proposal) == stored(mem, Result) == []
    assert mem.verify().sound


def test_runs_survive_export_and_import(mem: Any, tmp_path: Path) -> None:
    run, fence = taken(mem)
    counted(mem, run, fence, 1, 2)
    fork = mem.run.fork(run, after=1).id
    mem.export(str(tmp_path / "out.jsonl"))
    with recollect.open("memory://", embedder="hash") as other:
        other.import_(str(tmp_path / "out.jsonl"))
        assert history(other, fork) == [1]
        assert other.run.claim("w", id=run).last.number == 2
