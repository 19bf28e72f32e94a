"""How fast runs go: steps per second, and how long a run of thousands of steps takes to be taken up again.

A step is a proposal and its result, each durable before the next: two transactions with their audit entries. With
memories, each result also becomes a memory with its citation and its vector (by a stand-in for a model, so that it is
the store that is measured). Resuming is what happens after a worker died: claim, look at the last step, think on.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import recollect
from recollect.domain.agents import Lease
from recollect.domain.record import now
from recollect.ports.records import revised
from recollect.ports.steps import Put
from recollect.services.runs.history import lease_name
from shared import console, disk_bytes, in_words, machine, summary, sync_ms, table, timed

RESULTS = Path(__file__).parent / "results"
STEPS, CYCLES, RESUMES = 500, 10_000, 20
WORKERS = 8


def opened(folder: Path, name: str) -> Any:
    mem = recollect.open(folder / name / "runs.db", embedder="hash")
    mem.agent.add("Bee", id="bee")
    return mem


def begun(mem: Any, **fields: Any) -> tuple[str, int]:
    run = mem.run.start("collect honey", **{"agent": "bee", **fields}).id
    return run, mem.run.claim("bench", id=run, seconds=86_400).fence


def step(mem: Any, run: str, fence: int, number: int, summary: str = "") -> None:
    call = {"tool": "fly", "arguments": {"to": f"flower {number}"}, "snapshot": {"load": number}}
    mem.run.propose(run, fence, **call, repeatable=True)
    mem.run.record(run, fence, summary=summary, output={"nectar": number})


def steps_of_one(folder: Path, count: int, *, remembering: bool) -> dict[str, float]:
    (folder / f"one-{remembering}").mkdir()
    with opened(folder, f"one-{remembering}") as mem:
        run, fence = begun(mem)
        told = "flower {} has nectar" if remembering else ""
        works = [lambda n=n: step(mem, run, fence, n, told.format(n)) for n in range(count)]
        return summary(timed(works, 60.0))


def steps_of_many(folder: Path, count: int) -> float:
    """Steps per second of several workers, each with a run of an agent of its own."""
    (folder / "many").mkdir()
    with opened(folder, "many") as mem:
        for worker in range(WORKERS):
            mem.agent.add("Bee", id=f"bee{worker}")
        runs = [begun(mem, agent=f"bee{worker}") for worker in range(WORKERS)]

        def work(run: tuple[str, int]) -> None:
            for number in range(count // WORKERS):
                step(mem, *run, number)

        with ThreadPoolExecutor(WORKERS) as pool:
            took = timed([lambda: list(pool.map(work, runs))], 120.0)[0] / 1000
    return (count // WORKERS) * WORKERS / took


def resumes(folder: Path, cycles: int, times: int) -> dict[str, Any]:
    """A run with so many steps, whose worker dies again and again."""
    (folder / "long").mkdir()
    with opened(folder, "long") as mem:
        run, fence = begun(mem)
        for number in range(cycles):
            step(mem, run, fence, number)

        def resume() -> None:
            claimed = mem.run.claim("bench", id=run, seconds=86_400)
            assert claimed.last.number == cycles

        def die() -> None:
            store, scope = mem._core.store, mem._scope
            lease = store.get(scope, Lease, lease_name(run))
            store.transact(scope, [Put(revised(lease, scope, expires_at=now() - timedelta(seconds=1)))])

        took = []
        for _ in range(times):
            die()
            took += timed([resume], 60.0)
        die()
    size = disk_bytes(folder / "long") / cycles
    began = timed([lambda: _reopen_and_resume(folder, run)], 60.0)[0]
    return {"bytes_per_step": size, "claim": summary(took), "open_and_claim_ms": began}


def _reopen_and_resume(folder: Path, run: str) -> None:
    with recollect.open(folder / "long" / "runs.db", embedder="hash") as mem:
        mem.run.claim("bench", id=run)


def measure(steps: int, cycles: int, times: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        return {
            "machine": machine(),
            "sync": sync_ms(folder),
            "step": steps_of_one(folder, steps, remembering=False),
            "step_remembered": steps_of_one(folder, steps, remembering=True),
            "many_workers_steps_per_second": steps_of_many(folder, steps),
            "short_run": resumes(folder / _made(folder, "short"), 10, times),
            "cycles": cycles,
            "long_run": resumes(folder / _made(folder, "whole"), cycles, times),
        }


def _made(folder: Path, name: str) -> str:
    (folder / name).mkdir()
    return name


def show(report: dict[str, Any]) -> None:
    rows = [
        ("one worker, steps per second", in_words(report["step"]["per_second"])),
        ("the same, each result remembered", in_words(report["step_remembered"]["per_second"])),
        (f"{WORKERS} workers, steps per second", in_words(report["many_workers_steps_per_second"])),
        ("resume after 10 steps, median ms", in_words(report["short_run"]["claim"]["p50_ms"])),
        (f"resume after {report['cycles']:,} steps, median ms", in_words(report["long_run"]["claim"]["p50_ms"])),
        ("the same with opening the store, ms", in_words(report["long_run"]["open_and_claim_ms"])),
        ("bytes per step", in_words(report["long_run"]["bytes_per_step"])),
        ("one synced write of 4 kB, median ms", in_words(report["sync"]["p50_ms"])),
    ]
    console.print(table("Runs of agents", ("what", "figure"), rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--cycles", type=int, default=CYCLES, help="how long the run is that is taken up again")
    parser.add_argument("--resumes", type=int, default=RESUMES)
    parser.add_argument("--out", type=Path, default=RESULTS, help="where runtime.json goes")
    options = parser.parse_args()
    report = measure(options.steps, options.cycles, options.resumes)
    show(report)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "runtime.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
