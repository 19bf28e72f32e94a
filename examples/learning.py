"""An agent gets better at its work: episodes, patterns, applications, and a day summed up. Works offline.

Run it with `python examples/learning.py`. It works in a temporary folder and leaves nothing behind.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import recollect

TASKS = [("orders", "price"), ("books", "title"), ("stock", "amount"), ("users", "name")]


def try_tasks(mem: Any) -> None:
    for table, column in TASKS:
        plan = [f"Look at the plan of the query on {table}", f"Add an index on {column} of {table}", "Measure again"]
        mem.episode.record(f"Find out why the query on {table} is slow", True, action_plan=plan, critique="no index")
    mem.episode.record("Find out why the query on logs is slow", False, critique="the disk was full")


def learn(mem: Any) -> str:
    report = mem.pattern.learn()
    pattern = mem.pattern.show(report.founded[0])
    print(f"learned: {pattern.problem}\n{pattern.template}\nworks in {pattern.rate}\n")
    return str(pattern.id)


def use(mem: Any) -> None:
    task = "Find out why the query on invoices is slow"
    best = mem.pattern.suggest(task)[0]
    used = mem.pattern.apply(best.id, task)
    print(f"for '{task}':\n{used.text}\nnothing is known for: {', '.join(used.missing) or '-'}")
    print(f"after a success it works in {mem.pattern.report(used.application, True).rate}")


def fail(mem: Any, pattern: str) -> None:
    status = "hypothesis"
    while status != "archived":
        status = mem.pattern.report(mem.pattern.apply(pattern).application, False).status
    print(f"put aside: {mem.history(pattern).entries[-2].why}\n")


def sum_up(mem: Any) -> None:
    for minute, text in enumerate(
        ["Good morning!", "We decided to index orders by 9 May.", "It took 40 ms, now 2 ms."]
    ):
        mem.remember(text, kind="conversation", author="Ann", session="talk", at=f"2024-05-08T10:{minute:02}")
    mem.session.end("talk")
    print(f"written: {mem.summary.roll_up().written}")
    for line in mem.summary.tree(depth=9).lines:
        print(f"{'  ' * line.depth}{line.level if line.kind == 'summary' else line.kind}: {line.text}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, recollect.open(Path(folder) / "agent.db") as mem:
        try_tasks(mem)
        pattern = learn(mem)
        use(mem)
        fail(mem, pattern)
        sum_up(mem)


if __name__ == "__main__":
    main()
