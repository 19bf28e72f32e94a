"""The other processes of the crash tests.

Python with Recollect loaded takes a second or two to start, so one process is started, loads everything, opens nothing,
and forks for every order it reads: `{"do": job, "with": {…}, "errors": file}` answers with the process id of the new
child, `{"wait": id}` with its exit code. When its input ends, it ends its children and itself.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import agent
import apsw
import numpy as np  # noqa: F401 - loaded once, before the forks
import workload

import recollect
import recollect.adapters.citation_lookup
import recollect.adapters.records.dynamodb.store
import recollect.adapters.records.postgres.store
import recollect.adapters.records.sqlite.store
import recollect.adapters.vectors.embedded.index
import recollect.adapters.vectors.pgvector
import recollect.interfaces.client
import recollect.interfaces.runner
import recollect.testing.fakes
from recollect.adapters.records.common import migrations
from recollect.catalogue import OPERATIONS
from recollect.errors import RecollectError, VersionConflict

Job = Callable[..., None]
JOBS: dict[str, Job] = {}


def job(function: Job) -> Job:
    JOBS[function.__name__] = function
    return function


def noted(path: str, ticks: str | None = None) -> workload.Note:
    """Appends lines to a file; what was written stays when the process is killed. Ticks for each acknowledgement."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    pipe = os.open(ticks, os.O_WRONLY) if ticks else None

    def note(entry: dict[str, Any]) -> None:
        os.write(descriptor, json.dumps(entry).encode() + b"\n")
        if pipe is not None and "done" in entry:
            os.write(pipe, b".")

    return note


@job
def write(path: str, log: str, ticks: str, life: int, seed: str, states: dict[str, Any], count: int = 4) -> None:
    """Mixed writes by several threads, until killed."""
    note = noted(log, ticks)
    with recollect.open(path, embedder="hash") as mem:
        workload.at_work(workload.hands(mem, life, count, seed, note, states), itertools.count())


class Killer:
    """Counts the SQL statements of the connections it watches and kills this process just before the n-th."""

    def __init__(self, statement: int) -> None:
        self.statement = statement
        self.ran = 0
        self.armed = False

    def watch(self, connection: apsw.Connection) -> None:
        connection.exec_trace = self

    def __call__(self, *_: Any) -> bool:
        self.ran += self.armed
        if self.armed and self.ran == self.statement:
            os.kill(os.getpid(), signal.SIGKILL)
        return True


@job
def until_statement(path: str, log: str, statement: int, act: str, **given: Any) -> None:
    """One act, killed just before its n-th SQL statement; or done."""
    killer = Killer(statement)
    apsw.connection_hooks.append(killer.watch)
    ACTS[act](path, killer, noted(log), **given)
    noted(log)({"finished": killer.ran})


def _opening(path: str, killer: Killer, note: workload.Note, migration: dict[str, Any] | None = None) -> None:
    """Opening makes the tables, and upgrades an older file."""
    if migration is not None:
        known = (*migrations.migrations(), migrations.Migration(**{**migration, "steps": tuple(migration["steps"])}))
        migrations.migrations = lambda: known  # type: ignore[assignment]
    killer.armed = True
    recollect.open(path, embedder="hash").close()


def _writing(path: str, killer: Killer, note: workload.Note, seed: str) -> None:
    """Each verb once, by one thread."""
    with recollect.open(path, embedder="hash") as mem:
        (hand,) = workload.hands(mem, 0, 1, seed, note, {})
        killer.armed = True
        for verb in workload.VERBS:
            hand.write(verb)


def _running(path: str, killer: Killer, note: workload.Note, world: str, goals: list[str]) -> None:
    """A run from its start to its end."""
    with recollect.open(path, embedder="hash") as mem:
        killer.armed = True
        agent.work(mem, agent.World(world), goals)


ACTS = {"open": _opening, "write": _writing, "run": _running}


@job
def drive(path: str, world: str, goals: list[str], gate: str = "", ticks: str = "", **given: Any) -> None:
    """Drives runs until none is left, or until it is killed at a seam."""
    with recollect.open(path, embedder="hash") as mem:
        if gate:
            pass_gate(gate, ticks)
        agent.work(mem, agent.World(world), goals, **given)


@job
def wake_late(path: str, log: str, run: str, gate: str, ticks: str) -> None:
    """Claims a run, proposes a step, falls asleep; then goes on as if nothing had happened."""
    with recollect.open(path, embedder="hash") as mem:
        fence = mem.run.claim("sleeper", id=run).fence
        mem.run.propose(run, fence, tool="keyed", repeatable=True)
        pass_gate(gate, ticks)
        for late in ("record", "propose", "renew", "finish", "fail", "release"):
            try:
                getattr(mem.run, late)(run, fence)
            except RecollectError as refused:
                noted(log)({"call": late, "refused": refused.code})
            else:
                noted(log)({"call": late, "refused": None})


@job
def back_up(path: str, log: str, ticks: str, target: str) -> None:
    """Copies a store, after a sign that it begins."""
    with recollect.open(path, embedder="hash") as mem:
        noted(log, ticks)({"done": True})
        mem.backup(target)


@job
def erase_traces(path: str, log: str, ticks: str, times: int) -> None:
    """Has a store leave no trace of what was deleted, again and again, after a sign that it begins."""
    with recollect.open(path, embedder="hash") as mem:
        noted(log, ticks)({"done": True})
        for _ in range(times):
            mem._core.store.erase_traces()


@job
def cut_power(path: str, log: str, images: str, life: int, seed: str, states: dict[str, Any], **options: Any) -> None:
    """Mixed writes on a disk that forgets what was not synced; leaves what survives each cut."""
    import power_cut_vfs

    power_cut_vfs.run(path, log, images, life, seed, states, **options)


@job
def count_up(path: str, log: str, id: str, threads: int, times: int) -> None:
    """Adds one to a number in a memory, again and again, each time on the version that was read."""
    note = noted(log)

    def count() -> None:
        done = 0
        while done < times:
            seen = mem.show(id)
            number = int(seen.text.split()[-1])
            try:
                receipt = mem.revise(id, f"the count is {number + 1}", version=seen.version)
            except VersionConflict:
                continue
            note({"version": receipt.version, "number": number + 1})
            done += 1

    with recollect.open(path, embedder="hash") as mem, ThreadPoolExecutor(threads) as pool:
        for future in [pool.submit(count) for _ in range(threads)]:
            future.result()


@job
def report_uses(path: str, log: str, pattern: str, threads: int, times: int) -> None:
    """Applies a pattern and reports how it went, every third time as a failure; each report twice."""
    note = noted(log)

    def report(number: int) -> None:
        for turn in range(times):
            use, success = mem.pattern.apply(pattern).application, (number + turn) % 3 > 0
            repeated = [mem.pattern.report(use, success).repeated for _ in range(2)]
            note({"success": success, "repeated": repeated})

    with recollect.open(path, embedder="hash") as mem, ThreadPoolExecutor(threads) as pool:
        for future in [pool.submit(report, number) for number in range(threads)]:
            future.result()


@job
def remember_some(path: str, log: str, gate: str, ticks: str, name: str, texts: list[str], key: str | None) -> None:
    """Remembers texts when the gate opens; with a key, texts that others remember at the same time."""
    note = noted(log)
    with recollect.open(path, embedder="hash") as mem:
        pass_gate(gate, ticks)
        for number, text in enumerate(texts):
            keyed: dict[str, Any] = {"idempotency_key": f"{key} {number}"} if key else {}
            receipt = mem.remember(text, tags=[name], **keyed)
            note({"id": receipt.id, "text": text, "duplicate": receipt.duplicate})


@job
def open_at_once(path: str, gate: str, ticks: str, name: str) -> None:
    """Opens a brand-new file when the gate opens, and remembers something in it."""
    pass_gate(gate, ticks)
    with recollect.open(path, embedder="hash") as mem:
        mem.remember(f"anchor {name} was here")


def pass_gate(gate: str, ticks: str) -> None:
    """Waits at a pipe, having said so, until its writer lets go of it."""
    with open(gate) as waiting, open(ticks, "wb", buffering=0) as pipe:
        pipe.write(b".")
        waiting.read()


@job
def answer(path: str, orders: str, answers: str) -> None:
    """Recalls what it is asked, line by line."""
    with recollect.open(path, embedder="hash") as mem, open(answers, "w") as out, open(orders) as asked:
        for line in asked:
            print(json.dumps([hit.text for hit in mem.recall(line.strip(), limit=3)]), file=out, flush=True)


def spawn(order: dict[str, Any]) -> int:
    id = os.fork()
    if id:
        return id
    code = 1
    try:
        errors = os.open(order["errors"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(errors, 1)
        os.dup2(errors, 2)
        JOBS[order["do"]](**order["with"])
        code = 0
    except BaseException:  # noqa: BLE001 - the edge of a process: its parent sees the exit code and the file
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def serve() -> None:
    for operation in OPERATIONS.values():
        _ = operation.request, operation.reply
    children: set[int] = set()
    for line in sys.stdin:
        order = json.loads(line)
        if "wait" in order:
            _, status = os.waitpid(order["wait"], 0)
            children.discard(order["wait"])
            reply = os.waitstatus_to_exitcode(status)
        else:
            reply = spawn(order)
            children.add(reply)
        print(reply, flush=True)
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


if __name__ == "__main__":
    serve()
