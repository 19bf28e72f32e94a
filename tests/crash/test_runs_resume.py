"""An agent resumes, once: killed at every seam, its runs end as if nothing had been, and no effect happens twice.

Workers are killed with SIGKILL just before or after each call and each effect, and just before every SQL statement;
others race for the same runs; one wakes up after its run was given to another. At the end every run equals the same run
in a store where nobody was killed, and the file of what really happened names each step once.
"""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import recollect
from crash import agent
from recollect.domain.agents import Lease
from recollect.domain.record import now
from recollect.ports.query import Compare, Query
from recollect.ports.records import revised
from recollect.ports.steps import Put


@pytest.fixture
def scene(folder: Path, opened: Any) -> SimpleNamespace:
    """A store with an agent, the world it acts on, and a store where nobody is ever killed."""
    mem, calm = opened(folder / "runs.db"), opened(folder / "calm.db")
    for one in (mem, calm):
        one.agent.add("Bee", id="bee")
    world = agent.World(folder / "world")
    return SimpleNamespace(mem=mem, calm=calm, path=folder / "runs.db", world=world, folder=folder)


def calm_runs(scene: SimpleNamespace, goals: list[str]) -> dict[str, Any]:
    agent.work(scene.calm, agent.World(scene.folder / "calm-world"), goals)
    return {run.goal: agent.told(scene.calm, run.id) for run in scene.calm.run.list(limit=1000).runs}


def give_up_leases(mem: Any) -> None:
    """As if time had passed: the dead renew nothing."""
    held = mem._core.store.find(mem._scope, Query(Lease, (Compare("expires_at", ">", now()),))).records
    for lease in held:
        over = revised(lease, mem._scope, expires_at=now() - timedelta(seconds=1))
        mem._core.store.transact(mem._scope, [Put(over)])


def answer_questions(mem: Any, world: agent.World, chance: random.Random) -> int:
    """A person looks at the world and says what happened."""
    asked = [run for run in mem.run.list(status="paused", limit=1000).runs if run.asks is not None]
    for run in asked:
        step = mem.run.show(run.id).timeline[-1]
        assert step.tool == "plain", "a tool that takes the key is never asked about"
        effects = world.effects()[f"plain {run.goal} {step.number}"]
        assert effects <= 1
        if effects:
            fine = agent.tools(agent.World(Path(f"{world._path}-aside")), agent.Seams(mem))["plain"](**step.arguments)
            mem.run.settle(run.id, "happened", output=fine, summary=fine["summary"])
        else:
            mem.run.settle(run.id, "did_not_happen")
    return len(asked)


def assert_all_as_if_nothing_had_been(scene: SimpleNamespace, goals: list[str]) -> None:
    wanted = calm_runs(scene, goals)
    assert {run.goal: agent.told(scene.mem, run.id) for run in scene.mem.run.list(limit=1000).runs} == wanted
    assert {one["status"] for one in wanted.values()} == {"succeeded"}
    steps = [f"{step['tool']} {goal} {step['number']}" for goal in goals for step in wanted[goal]["steps"]]
    assert scene.world.effects() == Counter(steps)
    assert scene.mem.verify().sound


def test_killed_at_every_seam_runs_end_as_if_nothing_had_been(
    scene: SimpleNamespace, children: Any, chance: random.Random, times: Any
) -> None:
    # A soak run: 20 tasks of about 120 steps, some hundreds of kills.
    goals = [f"task {number} of {times(chance.randrange(8, 16))}" for number in range(times(2))]
    killed: Counter[str] = Counter()
    asked = lives = 0
    while lives < len(agent.SEAMS) or any(run.ended_at is None for run in scene.mem.run.list(limit=1000).runs):
        lives += 1
        # A renewal is met only by a worker that is slow, so there it comes often.
        seam = agent.SEAMS[lives % len(agent.SEAMS)]
        lease = 0.003 if "renew" in seam else agent.LEASE_SECONDS
        crossing = 1 if seam.endswith(("start", "claim", "finish")) else chance.randrange(1, 4)
        plan = {"seam": seam, "crossing": crossing, "lease_seconds": lease}
        child = children.start("drive", path=scene.path, world=scene.folder / "world", goals=goals, **plan)
        code = child.wait()
        assert code in (0, -9), child.errors.read_text()
        killed[seam] += code == -9
        give_up_leases(scene.mem)
        asked += answer_questions(scene.mem, scene.world, chance)
    assert_all_as_if_nothing_had_been(scene, goals)
    assert [seam for seam in agent.SEAMS if not killed[seam]] == []
    print(f"{sum(killed.values())} kills, {asked} steps asked about")


def test_killed_while_steps_wait_for_approval_nothing_is_lost_or_done_unapproved(
    scene: SimpleNamespace, children: Any, chance: random.Random
) -> None:
    scene.mem.agent.revise("bee", config_overrides={"approve": "tools"})
    goals, approved, killed = ["task 0 of 2"], set[tuple[str, int]](), 0
    seams = ["after run.propose", "before effect", "before run.record"]
    lives = 0
    while not lives or any(run.ended_at is None for run in scene.mem.run.list()):
        given = {"seam": seams[lives % len(seams)], "crossing": 1, "lease_seconds": agent.LEASE_SECONDS}
        child = children.start("drive", path=scene.path, world=scene.folder / "world", goals=goals, **given)
        killed += child.wait() == -9
        lives += 1
        give_up_leases(scene.mem)
        answer_questions(scene.mem, scene.world, chance)
        assert sum(scene.world.effects().values()) <= len(approved)
        for step in scene.mem.run.waiting():
            assert (step.run, step.number) not in approved
            scene.mem.run.approve(step.run, step=step.number, cycle=step.cycle)
            approved.add((step.run, step.number))
    assert killed >= len(seams)
    assert len(approved) == sum(scene.world.effects().values())
    assert_all_as_if_nothing_had_been(scene, goals)


def test_killed_before_any_statement_a_run_ends_as_if_nothing_had_been(
    scene: SimpleNamespace, children: Any, chance: random.Random, times: Any
) -> None:
    goals, log, world = ["task 0 of 3"], scene.folder / "log", scene.folder / "world"
    scene.mem.close()
    template = scene.folder / "template.db"
    shutil.copy(scene.path, template)
    wanted = calm_runs(scene, goals)
    step = 30 // times(1)
    statement = 1 + chance.randrange(step)
    while not log.exists() or b"finished" not in log.read_bytes():
        shutil.rmtree(f"{scene.path}.index", ignore_errors=True)
        for aside in ("-wal", "-shm"):
            Path(f"{scene.path}{aside}").unlink(missing_ok=True)
        shutil.copy(template, scene.path)
        world.write_text("")
        given = {"path": scene.path, "log": log, "world": world, "goals": goals}
        assert children.start("until_statement", act="run", statement=statement, **given).wait() in (0, -9)
        go_on(scene, goals, chance)
        with reopened(scene.path) as mem:
            assert {run.goal: agent.told(mem, run.id) for run in mem.run.list()} == wanted, f"statement {statement}"
        assert set(scene.world.effects().values()) == {1}
        statement += step
    assert statement > 50


def reopened(path: Path) -> Any:
    return recollect.open(path, embedder="hash")


def go_on(scene: SimpleNamespace, goals: list[str], chance: random.Random) -> None:
    with reopened(scene.path) as mem:
        while True:
            give_up_leases(mem)
            agent.work(mem, scene.world, goals)
            if not answer_questions(mem, scene.world, chance):
                break


def test_workers_race_and_each_step_is_taken_once(
    scene: SimpleNamespace, children: Any, new_gate: Any, new_ticks: Any, chance: random.Random, times: Any
) -> None:
    goals = [f"task {number} of 4" for number in range(times(6))]
    gate, ticks = new_gate(), [new_ticks() for _ in range(4)]
    given = {"path": scene.path, "world": scene.folder / "world", "goals": goals, "gate": gate.path}
    kills = [{}, {}, {"seam": "before run.record", "crossing": 7}, {"seam": "after run.propose", "crossing": 9}]
    workers = [
        children.start("drive", **given, **kill, ticks=tick.path) for kill, tick in zip(kills, ticks, strict=True)
    ]
    for tick in ticks:
        tick.wait(1)
    gate.open()
    assert all(worker.wait() in (0, -9) for worker in workers), [worker.errors.read_text() for worker in workers]
    go_on(scene, goals, chance)
    assert_all_as_if_nothing_had_been(scene, goals)


def test_one_who_wakes_up_late_is_refused_everything(
    scene: SimpleNamespace, children: Any, new_gate: Any, new_ticks: Any
) -> None:
    gate, ticks, log = new_gate(), new_ticks(), scene.folder / "log"
    run = scene.mem.run.start("task 1 of 2", agent="bee").id
    child = children.start("wake_late", path=scene.path, log=log, run=run, gate=gate.path, ticks=ticks.path)
    ticks.wait(1)
    give_up_leases(scene.mem)
    again = scene.mem.run.claim("quick", id=run)
    assert again.todo == "act"
    scene.mem.run.record(run, again.fence, summary="done by the quick one")
    gate.open()
    child.done()
    said = [json.loads(line) for line in log.read_text().splitlines()]
    assert [one["refused"] for one in said] == ["lease_lost"] * 6
    shown = scene.mem.run.show(run)
    assert [(step.number, step.summary) for step in shown.timeline] == [(1, "done by the quick one")]
    assert (shown.status, shown.worker) == ("running", "quick")


@pytest.mark.parametrize(("seam", "happened"), [("before effect", False), ("after effect", True)])
def test_a_tool_without_a_key_killed_around_its_effect_is_asked_about(
    scene: SimpleNamespace, children: Any, chance: random.Random, seam: str, happened: bool
) -> None:
    goal = next(f"plain {n} of 1" for n in range(99) if random.Random(f"plain {n} of 1 0").choice("kkp") == "p")
    given = {"path": scene.path, "world": scene.folder / "world", "goals": [goal]}
    assert children.start("drive", **given, seam=seam, crossing=1).wait() == -9
    give_up_leases(scene.mem)
    children.start("drive", **given).done()
    (run,) = scene.mem.run.list().runs
    assert (run.status, run.asks, sum(scene.world.effects().values())) == ("paused", 1, int(happened))
    assert answer_questions(scene.mem, scene.world, chance) == 1
    children.start("drive", **given).done()
    assert_all_as_if_nothing_had_been(scene, [goal])
