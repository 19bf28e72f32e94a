"""An agent that is killed in the middle of its work and goes on as if nothing had been: `python examples/resume.py`.

A child process drives a run that bakes three loaves, and is killed with SIGKILL just after an effect, before its result
is stored. This process takes the run up again. The oven counts what really happened.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import recollect
from recollect import Act, Done, Runner, Task

LOAVES = 3
LEASE_SECONDS = 1.0


def think(task: Task) -> Act | Done:
    """What a language model would do: look at what was done, say what comes next."""
    if len(task.history) < LOAVES:
        return Act("bake", {"loaf": len(task.history) + 1}, reasoning="three loaves were ordered")
    return Done({"loaves": LOAVES}, "three loaves are ready")


class Oven:
    """The world outside: a file of what was baked. It bakes nothing twice for the same key."""

    def __init__(self, path: Path, dies_after: int | None = None) -> None:
        self.path = path
        self.path.touch()
        self._dies_after = dies_after

    def bake(self, loaf: int, idempotency_key: str) -> str:
        if idempotency_key not in self.path.read_text():
            with self.path.open("a") as file:
                file.write(f"loaf {loaf} {idempotency_key}\n")
        if loaf == self._dies_after:
            os.kill(os.getpid(), signal.SIGKILL)  # it is baked, and nobody has been told
        return f"loaf {loaf} is baked"


def worker(folder: Path, dies_after: int | None = None) -> int:
    with recollect.open(folder / "bakery.db", embedder="hash") as mem:
        oven = Oven(folder / "oven.txt", dies_after)
        return Runner(mem, think, {"bake": oven.bake}, lease_seconds=LEASE_SECONDS).work()


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with recollect.open(folder / "bakery.db", embedder="hash") as mem:
            run = mem.run.start("bake three loaves", agent="baker", idempotency_key="order-1").id
        died = subprocess.run([sys.executable, __file__, str(folder)], check=False)
        with recollect.open(folder / "bakery.db", embedder="hash") as mem:
            print(
                f"the worker was killed by signal {-died.returncode}; the run stands at step {mem.run.show(run).length}"
            )
            while mem.run.show(run).held_until is not None:
                time.sleep(0.05)  # its lease runs out
            print(f"next: {mem.run.show(run).next}")
        worker(folder)
        with recollect.open(folder / "bakery.db", embedder="hash") as mem:
            shown = mem.run.show(run)
            for step in shown.timeline:
                print(f"  {step.number} {step.tool} attempt {step.attempts}: {step.summary}")
            print(f"{shown.status} after {shown.crashes} crash: {shown.note}")
        print(f"the oven baked {len((folder / 'oven.txt').read_text().splitlines())} loaves")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        worker(Path(sys.argv[1]), dies_after=2)
    else:
        main()
