"""A small agent for the crash tests, the outside world it acts on, and the seams at which its worker is killed.

The agent is deterministic: what it does next follows from its goal, its history and its state. The world is a file of
what really happened; the tool that takes the idempotency key leaves the second call for a key without effect, as a
good service does, the other one acts every time it is called.
"""

from __future__ import annotations

import fcntl
import os
import random
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recollect import Act, Done, Runner, Task

CALLS = ("run.start", "run.claim", "run.propose", "effect", "run.record", "run.renew", "run.finish")
SEAMS = tuple(f"{side} {call}" for call in CALLS for side in ("before", "after"))
LEASE_SECONDS = 30.0


def think(task: Task) -> Act | Done:
    """So many steps as the goal says, of several sorts; each looks at the last result and at its own state."""
    steps = int(task.goal.split()[-1])
    done = len(task.history)
    if done == steps:
        return Done({"total": task.state["total"], "seen": task.history[-1].output["mark"]}, f"{task.goal} is done")
    before = task.history[-1].output["mark"] if done else 0
    task.state["total"] = task.state.get("total", 0) + before
    tool = random.Random(f"{task.goal} {done}").choice(["keyed", "keyed", "plain"])
    return Act(tool, {"task": task.goal, "n": done + 1, "before": before}, reasoning=f"after {before}")


class World:
    """What happened, one line each: the tool, the task, the number of the step."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._path.touch()

    def act(self, line: str, key: str | None) -> None:
        with self._path.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if key is None or not any(one.endswith(f"\t{key}\n") for one in file):
                file.seek(0, os.SEEK_END)
                file.write(f"{line}\t{key}\n")
                file.flush()

    def effects(self) -> Counter[str]:
        return Counter(line.partition("\t")[0] for line in self._path.read_text().splitlines())


class Seams:
    """A client that kills its process at the n-th crossing of one seam."""

    def __init__(self, mem: Any, seam: str = "", crossing: int = 0) -> None:
        self._mem = mem
        self._seam = seam
        self._left = crossing

    def call(self, operation: str, /, **fields: Any) -> Any:
        return self.around(operation, lambda: self._mem.call(operation, **fields))

    def around(self, name: str, work: Callable[[], Any]) -> Any:
        self._cross(f"before {name}")
        answer = work()
        self._cross(f"after {name}")
        return answer

    def _cross(self, seam: str) -> None:
        if seam == self._seam:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def tools(world: World, seams: Seams) -> dict[str, Callable[..., Any]]:
    def mark(task: str, n: int, before: int) -> dict[str, Any]:
        return {"mark": random.Random(f"{task} {n} {before}").randrange(1000), "summary": f"{task}: step {n} was done"}

    def keyed(task: str, n: int, before: int, idempotency_key: str) -> dict[str, Any]:
        seams.around("effect", lambda: world.act(f"keyed {task} {n}", idempotency_key))
        return mark(task, n, before)

    def plain(task: str, n: int, before: int) -> dict[str, Any]:
        seams.around("effect", lambda: world.act(f"plain {task} {n}", None))
        return mark(task, n, before)

    return {"keyed": keyed, "plain": plain}


def work(
    mem: Any, world: World, goals: list[str], *, seam: str = "", crossing: int = 0, lease_seconds: float = LEASE_SECONDS
) -> None:
    """Start what is not started yet, then drive all of it."""
    seams = Seams(mem, seam, crossing)
    for goal in goals:
        seams.call("run.start", goal=goal, agent="bee", idempotency_key=goal)
    Runner(seams, think, tools(world, seams), lease_seconds=lease_seconds).work()


def told(mem: Any, run: str) -> dict[str, Any]:
    """All that a run must have in common with one that was never interrupted."""
    shown = mem.run.show(run, limit=1000)
    copied = ("number", "tool", "arguments", "output", "outcome", "summary", "snapshot", "reasoning")
    steps = [{name: getattr(step, name) for name in copied} for step in shown.timeline]
    return {"goal": shown.goal, "status": shown.status, "result": shown.result, "steps": steps}
