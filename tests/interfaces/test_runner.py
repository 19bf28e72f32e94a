"""A runner with a think function and tools: every step recorded, nothing done twice, nothing lost when it stops."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect import Act, Done, GiveUp, Runner, Task
from recollect.domain.agents import Agent, Lease
from recollect.domain.record import now
from recollect.errors import Conflict, InvalidInput, StoreBusy
from recollect.interfaces.runner import History
from recollect.ports.records import revised
from recollect.ports.steps import Put, Update
from recollect.services.runs.history import lease_name


@pytest.fixture
def mem(tmp_path: Path) -> Iterator[Any]:
    with recollect.open(tmp_path / "runs.db", embedder="hash") as opened:
        opened.agent.add("Counter", id="counter", system="count")
        yield opened


def count_to(limit: int, tool: str = "count") -> Any:
    def think(task: Task) -> Act | Done:
        if len(task.history) == limit:
            return Done({"sum": sum(step.output["value"] for step in task.history if step.output)}, "counted")
        task.state["seen"] = len(task.history)
        return Act(tool, {"n": len(task.history) + 1}, reasoning="one more", plan=["stop"])

    return think


def times_ten(n: int) -> int:
    return n * 10


def outcomes(shown: Any) -> list[str | None]:
    return [step.outcome for step in shown.timeline]


def test_a_think_function_and_tools_are_enough(mem: Any) -> None:
    done = Runner(mem, count_to(3), {"count": times_ten}).run("count", agent="counter")
    assert (done.status, done.result, done.length) == ("succeeded", {"sum": 60}, 3)
    assert [(step.arguments, step.output, step.snapshot) for step in done.timeline] == [
        ({"n": number}, {"value": number * 10}, {"seen": number - 1}) for number in (1, 2, 3)
    ]
    assert done.timeline[0].reasoning == "one more"
    assert done.held_until is None


def test_a_run_that_was_started_with_the_same_key_is_not_driven_twice(mem: Any) -> None:
    calls: list[int] = []
    runner = Runner(mem, count_to(2), {"count": lambda n: calls.append(n) or n})
    first = runner.run("count", agent="counter", idempotency_key="once")
    assert runner.run("count", agent="counter", idempotency_key="once").id == first.id
    assert calls == [1, 2]


def test_think_sees_the_agent_its_results_and_its_memories(mem: Any) -> None:
    mem.remember("the door code is 1234", agent="counter")
    seen: list[Any] = []

    def think(task: Task) -> Act | Done:
        seen.append((task.goal, task.agent.system, [step.summary for step in task.history]))
        if task.history:
            seen.append([hit.text for hit in task.recall("door code", kinds=["fact"])])
            return Done()
        return Act("look")

    Runner(mem, think, {"look": lambda: "a red door"}).run("enter", agent="counter")
    assert seen == [("enter", "count", []), ("enter", "count", ["a red door"]), ["the door code is 1234"]]
    assert "a red door" in [hit.text for hit in mem.recall("door", agent="counter")]


def broken(n: int) -> None:
    raise ValueError(f"cannot count \x00 to {n}")


def test_errors_and_unknown_tools_are_results_that_think_sees(mem: Any) -> None:
    done = Runner(mem, count_to(1), {"count": broken}).run("count", agent="counter")
    (step,) = done.timeline
    assert (step.outcome, step.error["type"]) == ("error", "ValueError")
    assert "cannot count" in step.error["message"]
    other = Runner(mem, count_to(1, "fly"), {"count": broken}).run("count", agent="counter")
    assert other.timeline[0].error["code"] == "unknown_tool"
    wrong = Runner(mem, count_to(1), {"count": lambda: 1}).run("count", agent="counter")
    assert wrong.timeline[0].error["type"] == "TypeError"


def test_a_tool_that_hangs_is_timed_out(mem: Any) -> None:
    release = threading.Event()
    hanging = recollect.tool(lambda n: release.wait(60), timeout_seconds=0.05)
    done = Runner(mem, count_to(1), {"count": hanging}).run("count", agent="counter")
    release.set()
    assert outcomes(done) == ["timeout"]
    assert done.timeline[0].error["may_have_happened"] is True


def test_an_agent_says_how_long_its_tools_may_take(mem: Any) -> None:
    agent = mem._core.store.get(mem._scope, Agent, "counter")
    changed = revised(agent, mem._scope, config_overrides={"tool_timeout_seconds": 0.05})
    mem._core.store.transact(mem._scope, [Update(changed)])
    release = threading.Event()
    done = Runner(mem, count_to(1), {"count": lambda n: release.wait(60)}).run("count", agent="counter")
    release.set()
    assert outcomes(done) == ["timeout"]


def test_a_tool_is_retried_only_if_it_may_be_called_twice(mem: Any) -> None:
    keys: list[str] = []

    @recollect.tool(retries=2, retry_seconds=0)  # type: ignore[untyped-decorator]
    def flaky(n: int, idempotency_key: str) -> int:
        keys.append(idempotency_key)
        if len(keys) < 3:
            raise ConnectionError("away")
        return n

    done = Runner(mem, count_to(1), {"count": flaky}).run("count", agent="counter")
    assert outcomes(done) == ["success"]
    assert keys == [done.timeline[0].idempotency_key] * 3
    with pytest.raises(InvalidInput, match="only an idempotent tool"):
        recollect.tool(times_ten, retries=1)
    always = recollect.tool(broken, idempotent=True, retries=1, retry_seconds=0)
    assert Runner(mem, count_to(1), {"count": always}).run("c", agent="counter").timeline[0].error["attempts"] == 2


@pytest.mark.parametrize(
    ("value", "output", "summary"),
    [
        ("text", {"value": "text"}, "text"),
        ({"a": 1, "summary": "s"}, {"a": 1, "summary": "s"}, "s"),
        ({"summary": 5}, {"summary": 5}, ""),
        (None, None, ""),
        ([1, 2], {"value": [1, 2]}, ""),
        (object, {"repr": "<class 'object'>"}, ""),
        (float("nan"), {"repr": "nan"}, ""),
        ("\ud800", {"repr": "'\\ud800'"}, ""),
        ({1: 2}, {"repr": "{1: 2}"}, ""),
    ],
)
def test_whatever_a_tool_gives_is_recorded(mem: Any, value: Any, output: Any, summary: str) -> None:
    done = Runner(mem, count_to_one, {"count": lambda: value}).run("count", agent="counter")
    assert (done.timeline[0].outcome, done.timeline[0].output, done.timeline[0].summary) == ("success", output, summary)


def count_to_one(task: Task) -> Act | Done:
    return Done() if task.history else Act("count")


def test_what_is_too_large_to_keep_is_recorded_as_having_happened(mem: Any) -> None:
    done = Runner(mem, count_to_one, {"count": lambda: "x" * 1_000_001}).run("count", agent="counter")
    assert done.timeline[0].outcome == "success"
    assert done.timeline[0].error["code"] == "output_not_recorded"


NOTHING: Any = None
MISTAKEN: list[Any] = [
    "nonsense", Act("count", {"x": object()}), ZeroDivisionError("oh"), Act("count", NOTHING), Act("count", ["x"]),  # type: ignore[arg-type]
    Act("count", thoughts="hm"), Act("count", plan=NOTHING), Done("text"), Done({"x": object()}),  # type: ignore[arg-type]
    Done(summary="x" * 20_001), Done({"x": "x" * 2_000_000}), Done(summary="\x00"), GiveUp(NOTHING), GiveUp("\x00"),
    GiveUp("no", "way"),  # type: ignore[arg-type]
    GiveUp("no", {"x": object()}),
]  # fmt: skip


@pytest.mark.parametrize("answer", MISTAKEN, ids=range(len(MISTAKEN)))
def test_a_think_function_that_fails_fails_the_run(mem: Any, answer: Any) -> None:
    def think(task: Task) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    done = Runner(mem, think).run("count", agent="counter")
    assert (done.status, done.error["code"], done.held_until) == ("failed", "think_failed", None)


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


def nested() -> list[Any]:
    value: list[Any] = []
    for _ in range(10_000):
        value = [value]
    return value


@pytest.mark.parametrize("give", [Unshowable, nested])
def test_what_cannot_even_be_shown_is_recorded_as_having_happened(mem: Any, give: Any) -> None:
    done = Runner(mem, count_to(1), {"count": lambda n: give()}).run("count", agent="counter")
    (step,) = done.timeline
    assert (step.outcome, step.error["code"]) == ("success", "output_not_recorded")


def test_a_tool_that_exits_ends_its_step_only(mem: Any) -> None:
    done = Runner(mem, count_to(1), {"count": lambda n: sys.exit(n)}).run("count", agent="counter")
    assert (done.status, done.timeline[0].error["type"]) == ("succeeded", "SystemExit")


def test_a_function_that_does_not_say_what_it_takes_is_a_tool(mem: Any) -> None:
    done = Runner(mem, count_to(1), {"count": max}).run("count", agent="counter")
    assert (outcomes(done), done.timeline[0].error["type"]) == (["error"], "TypeError")


@pytest.mark.parametrize("seconds", ["soon", None, -1, 0, True, [1], 1e300])
def test_an_agent_whose_configuration_makes_no_sense_stops_no_worker(mem: Any, seconds: Any) -> None:
    mem.agent.revise("counter", config_overrides={"tool_timeout_seconds": seconds})
    mem.agent.add("Other", id="other")
    first, second = mem.run.start("count", agent="counter"), mem.run.start("count", agent="other")
    assert Runner(mem, count_to(1), {"count": times_ten}).work() == 2
    assert mem.run.show(first.id).error["code"] == "invalid_configuration"
    assert mem.run.show(second.id).status == "succeeded"


def test_seconds_and_retries_that_make_no_sense_are_refused(mem: Any) -> None:
    mistakes: list[dict[str, Any]] = [{"timeout_seconds": -1}, {"timeout_seconds": 0}]
    for wrong in [*mistakes, {"retries": -1, "idempotent": True}]:
        with pytest.raises(InvalidInput):
            recollect.tool(times_ten, **wrong)
    with pytest.raises(InvalidInput):
        Runner(mem, count_to(1), tool_timeout_seconds=0)


def test_an_agent_removed_while_its_run_is_worked_on_stops_no_worker(mem: Any) -> None:
    mem.agent.add("Other", id="other")
    mem.run.start("count", agent="counter", priority=9)
    other = mem.run.start("count", agent="other")
    removed: list[str] = []

    def tool(n: int) -> int:
        if not removed:
            removed.append(mem.agent.remove("counter").id)
        return n

    assert Runner(mem, count_to(1), {"count": tool}).work() == 2
    assert mem.run.show(other.id).status == "succeeded"


def test_giving_up_says_why(mem: Any) -> None:
    done = Runner(mem, lambda task: GiveUp("no way", {"code": "wall"})).run("count", agent="counter")
    assert (done.status, done.error) == ("failed", {"code": "wall", "message": "no way"})


def test_a_run_with_too_many_steps_fails(mem: Any) -> None:
    done = Runner(mem, count_to(9), {"count": times_ten}).run("count", agent="counter", max_steps=2)
    assert (done.status, done.error["code"], done.length) == ("failed", "too_many_steps", 2)


def test_a_step_that_is_thought_only_is_recorded(mem: Any) -> None:
    def think(task: Task) -> Act | Done:
        return Done() if task.history else Act(reasoning="let me see")

    assert outcomes(Runner(mem, think).run("count", agent="counter")) == ["success"]


def abandon(mem: Any, run: str) -> None:
    """Its worker is dead, and its lease over."""
    lease = mem._core.store.get(mem._scope, Lease, lease_name(run))
    mem._core.store.transact(mem._scope, [Put(revised(lease, mem._scope, expires_at=now() - timedelta(seconds=1)))])


def dead(mem: Any, done: int, *, repeatable: bool, pending: bool) -> str:
    """A run whose worker died after so many steps."""
    run = str(mem.run.start("count", agent="counter").id)
    fence = mem.run.claim("dead", id=run).fence
    for number in range(1, done + pending + 1):
        mem.run.propose(run, fence, tool="count", arguments={"n": number}, repeatable=repeatable)
        if number <= done:
            mem.run.record(run, fence, output={"value": number * 10})
    abandon(mem, run)
    return run


def test_a_dead_run_goes_on_where_it_stopped(mem: Any) -> None:
    calls: list[int] = []
    run = dead(mem, 2, repeatable=False, pending=False)
    runner = Runner(mem, count_to(4), {"count": lambda n: calls.append(n) or n * 10})
    assert runner.drive(run).result == {"sum": 100}
    assert calls == [3, 4]


def test_a_step_without_a_result_is_carried_out_again_with_its_key(mem: Any) -> None:
    keys: list[str] = []
    run = dead(mem, 1, repeatable=True, pending=True)
    key = mem.run.show(run).timeline[-1].idempotency_key

    def count(n: int, idempotency_key: str) -> int:
        keys.append(idempotency_key)
        return n * 10

    assert Runner(mem, count_to(2), {"count": count}).drive(run).result == {"sum": 30}
    assert keys == [key]


def test_a_step_that_may_have_happened_is_not_carried_out(mem: Any) -> None:
    run = dead(mem, 1, repeatable=False, pending=True)
    runner = Runner(mem, count_to(2), {"count": pytest.fail})
    with pytest.raises(Conflict, match="must be settled"):
        runner.drive(run)
    assert runner.work() == 0
    mem.run.settle(run, "happened", output={"value": 20})
    assert Runner(mem, count_to(2), {"count": pytest.fail}).drive(run).result == {"sum": 30}


def test_a_queue_is_worked_off(mem: Any) -> None:
    for _ in range(3):
        mem.run.start("count", agent="counter", queue="nights")
    assert Runner(mem, count_to(2), {"count": times_ten}).work("nights") == 3
    assert {run.status for run in mem.run.list().runs} == {"succeeded"}


def test_a_run_paused_amid_a_step_records_it_and_lets_go(mem: Any) -> None:
    def count(n: int) -> int:
        mem.run.pause(mem.run.list().runs[0].id)
        return n

    paused = Runner(mem, count_to(3), {"count": count}).run("count", agent="counter")
    assert (paused.status, outcomes(paused), paused.held_until) == ("paused", ["success"], None)
    mem.run.resume(paused.id)
    assert Runner(mem, count_to(3), {"count": times_ten}).drive(paused.id).status == "succeeded"


def test_sigterm_finishes_the_step_and_lets_go_of_the_run(mem: Any) -> None:
    def count(n: int) -> int:
        os.kill(os.getpid(), signal.SIGTERM)
        return n

    before = signal.getsignal(signal.SIGTERM)
    run = mem.run.start("count", agent="counter").id
    assert Runner(mem, count_to(3), {"count": count}).work(forever=True) == 1
    shown = mem.run.show(run)
    assert (shown.status, outcomes(shown), shown.held_until) == ("queued", ["success"], None)
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_worker_that_waits_for_work_is_stopped(mem: Any) -> None:
    runner = Runner(mem, count_to(1), {"count": times_ten})
    thread = threading.Thread(target=lambda: runner.work(forever=True, poll_seconds=60))
    thread.start()
    runner.stop()
    thread.join(30)
    assert not thread.is_alive()


def test_the_lease_is_renewed_while_a_step_takes_long(mem: Any) -> None:
    renewed = threading.Event()

    class Watched:
        def call(self, operation: str, /, **fields: Any) -> Any:
            answer = mem.call(operation, **fields)
            if operation == "run.renew":
                renewed.set()
            return answer

    runner = Runner(Watched(), count_to(1), {"count": lambda n: renewed.wait(30)}, lease_seconds=0.3)
    assert runner.run("count", agent="counter").status == "succeeded"


def test_a_worker_whose_run_was_taken_over_changes_nothing_more(mem: Any) -> None:
    taken: list[Any] = []

    def count(n: int) -> int:
        run = mem.run.list().runs[0].id
        abandon(mem, run)
        taken.append(mem.run.claim("thief"))
        return n

    @recollect.tool(idempotent=True)  # type: ignore[untyped-decorator]
    def safe(n: int) -> int:
        return count(n)

    shown = Runner(mem, count_to(2), {"count": safe}).run("count", agent="counter")
    assert (shown.status, shown.worker, outcomes(shown)) == ("running", "thief", [None])
    assert taken[0].todo == "act"


def test_a_store_that_is_busy_for_a_moment_costs_no_result(mem: Any) -> None:
    class Busy:
        calls = 0

        def call(self, operation: str, /, **fields: Any) -> Any:
            Busy.calls += 1
            answer = mem.call(operation, **fields)
            if Busy.calls % 2 and operation != "run.claim":  # done, but the answer was lost
                raise StoreBusy("busy")
            return answer

    done = Runner(Busy(), count_to(2), {"count": times_ten}).run("c", agent="counter", idempotency_key="k")
    assert (done.status, done.length) == ("succeeded", 2)


def test_history_is_read_when_it_is_looked_at(mem: Any) -> None:
    run = dead(mem, 7, repeatable=False, pending=False)
    asked: list[dict[str, Any]] = []

    class Watched:
        def call(self, operation: str, /, **fields: Any) -> Any:
            asked.append(fields)
            return mem.call(operation, **fields)

    history = History(Watched(), run, 7, None)
    assert history[-1].number == 7
    assert asked == [{"id": run, "before": 8, "limit": 1}]
    assert [step.number for step in history[-3:]] == [5, 6, 7]
    assert [step.number for step in history] == [1, 2, 3, 4, 5, 6, 7]
    assert len(asked) == 3
    assert [step.number for step in history[::3]] == [1, 4, 7]
    assert history[10:] == []
    with pytest.raises(IndexError):
        history[7]
