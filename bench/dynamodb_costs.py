"""What each operation asks of DynamoDB: requests and capacity units, as the emulator of the tests counts them.

    python bench/dynamodb_costs.py [--memories 2500] [--embedder hash] [--shards 4]
    python bench/dynamodb_costs.py --reads 500,2000    # every operation that reads, in a growing organization

Memories come in sessions of 50, of ten users and two authors. Nothing is timed. The tables in
docs/guides/dynamodb.md are the output.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import recollect
from recollect.adapters.records.dynamodb.keys import SEPARATOR, SHARDS

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from dynamodb_meter import Cost, Meter
from dynamodb_readings import READINGS, TALK, begin, grow, measured
from dynamodb_server import dynamodb

CHANCE = random.Random(1)
WORDS = [f"w{n}" for n in range(3000)]
Operation = Callable[[Any], object]
REMEMBERS, THREADS, AWAY_SECONDS = 1000, 16, 0.01


def text(n: int) -> str:
    return f"note {n}: " + " ".join(CHANCE.choices(WORDS, k=14))


class Costs:
    def __init__(self, memories: int, embedder: str, shards: int, folder: Path) -> None:
        self.memories = memories
        self._address = f"{dynamodb().new_store()}&shards={shards}"
        self._given: dict[str, Any] = {"embedder": embedder}
        self._objects = str(folder)

    def opened(self, *, objects: bool = False) -> Any:
        given = {**self._given, "objects": self._objects} if objects else self._given
        return recollect.open(self._address, **given)

    def fill(self) -> None:
        with self.opened() as mem:
            for n in range(10):
                mem.user.add(id=f"u{n}", name=f"u{n}")
            for talk in range(self.memories // 50):
                mem.remember_many(self._session(mem, talk))

    def _session(self, mem: Any, talk: int) -> list[dict[str, Any]]:
        owner = f"u{talk % 10}"
        session = mem.session.add(user=owner, title=f"talk {talk}").id
        day = f"2026-01-{1 + talk % 28:02d}"
        return [
            {
                "content": text(50 * talk + n),
                "session": session,
                "user": owner,
                "author": ("ann", "bob")[n % 2],
                "at": f"{day}T10:{n:02d}:00Z",
            }
            for n in range(50)
        ]

    def show(self, name: str, operation: Operation, *, warm: bool = True, objects: bool = False) -> None:
        """In a new process; `warm`: where the same was done before, once."""
        with self.opened(objects=objects) as mem:
            if warm:
                operation(mem)
            mem._core.journal.flush()
            with Meter(mem._core.store).cost() as cost:
                operation(mem)
        print(f"| {name} | {cost.requests} | {cost.read_units:,.0f} | {cost.write_units:,.0f} |", flush=True)


def measure(costs: Costs) -> None:
    costs.fill()
    newest = costs.opened().list(limit=60).memories
    talk, one = newest[-1].session, newest[0].id
    print("| what | requests | read units | write units |\n| --- | --- | --- | --- |")
    costs.show("`remember`, a sentence", lambda mem: mem.remember(text(0)))
    costs.show("`remember` with a tag", lambda mem: mem.remember(text(0), tags=["sea"]))
    costs.show("`remember_many` of 50 in a session", lambda mem: mem.remember_many(costs._session(mem, 0)))
    costs.show("`remember_many` of 250", lambda mem: mem.remember_many([text(n) for n in range(250)]))
    costs.show("`remember_many` of 1,000", lambda mem: mem.remember_many([text(n) for n in range(1000)]), warm=False)
    costs.show("`list`, ten", lambda mem: mem.list(limit=10))
    costs.show("`list`, ten of a user with 250", lambda mem: mem.list(limit=10, user="u3"))
    costs.show("`list`, ten of a session with 50", lambda mem: mem.list(limit=10, session=talk))
    costs.show("`list`, ten in the order in which they happened", lambda mem: mem.list(limit=10, order="happened"))
    costs.show("`show`", lambda mem: mem.show(one))
    costs.show("`stats`", lambda mem: mem.stats())
    question = f"what of {WORDS[50]} and {WORDS[80]}"
    costs.show("the first `recall` of a process", lambda mem: mem.recall(question), warm=False)
    costs.show("the one that stores a segment", lambda mem: mem.recall(question), warm=False, objects=True)
    costs.show("the first with a segment", lambda mem: mem.recall(question), warm=False, objects=True)
    costs.show("`recall`, warm", lambda mem: mem.recall(question))
    costs.show("`recall` of a user, warm", lambda mem: mem.recall(question, user="u3"))
    costs.show("`erase` of a memory", lambda mem: mem.erase(mem.list(limit=1).memories[0].id), warm=False, objects=True)
    costs.show("`verify`", lambda mem: mem.verify(), warm=False)
    spread(costs)
    spread_of_reads(costs, question)


def spread(costs: Costs) -> None:
    """How the writes of many `remember` at once fall on partition keys, each of which takes 1,000 units a second.

    Each request is made to wait as long as one to AWS would, so that writers meet as they do there.
    """
    with costs.opened() as mem, ThreadPoolExecutor(THREADS) as pool:
        sessions = [mem.session.add(user=f"u{n}", title=f"spread {n}").id for n in range(10)]
        events = mem._core.store.dynamo.client.meta.events
        events.register("before-send.dynamodb", lambda **_: time.sleep(AWAY_SECONDS))

        def one(n: int) -> None:
            mem.remember(text(n), user=f"u{n % 10}", session=sessions[n % 10])

        with Meter(mem._core.store).cost() as cost:
            list(pool.map(one, range(REMEMBERS)))
            mem._core.journal.flush()
    show_spread(cost)


def show_spread(cost: Cost) -> None:
    print(f"\n{REMEMBERS} `remember` from {THREADS} threads: {cost.write_units:,.0f} units,", dict(cost.by_operation))
    print("| partition key | write units per `remember` | `remember` per second at 1,000 units |\n| --- | --- | --- |")
    for name, units in cost.written.most_common(12):
        each = units / REMEMBERS
        print(f"| {named(name)} | {each:.2f} | {1000 / each:,.0f} |")


def named(partition: str) -> str:
    return " ".join(partition.split(SEPARATOR)[1:])


def spread_of_reads(costs: Costs, question: str) -> None:
    """The same for a recall: a partition key takes 3,000 read units a second."""
    with costs.opened() as mem:
        mem.recall(question)
        with Meter(mem._core.store).cost() as cost:
            mem.recall(question)
    print("\n| partition key | items read in a `recall` | `recall` per second at 3,000 units |\n| --- | --- | --- |")
    for name, count in cost.got.most_common(6):
        print(f"| {named(name)} | {count} | {3000 / count:,.0f} |")


def show_reads(sizes: list[int], embedder: str, shards: int, folder: Path) -> None:
    """Requests and read units of every operation that reads, and whether they grow with the organization."""
    address, taken, before = f"{dynamodb().new_store()}&shards={shards}", [], TALK
    with recollect.open(address, embedder=embedder, background=False, citation_root=folder) as mem:
        store: Any = mem._core.store
        meter, names = Meter(store), begin(mem, folder)
        for size in sizes:
            grow(mem, before, size)
            taken.append({name: measured(mem, meter, one.call, names) for name, one in READINGS.items()})
            before = size
    columns = [f"requests, {size:,}" for size in sizes] + [f"read units, {size:,}" for size in sizes]
    print("| what | " + " | ".join(columns) + " | grows with |\n" + "| --- " * (len(columns) + 2) + "|")
    grows_with = {"constant": "", "some": "what it is about", "whole": "the organization"}
    for name, one in READINGS.items():
        counted = [cost[name].requests for cost in taken] + [round(cost[name].read_units) for cost in taken]
        print(f"| {name} | " + " | ".join(f"{number:,}" for number in counted) + f" | {grows_with[one.shape]} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=2500)
    parser.add_argument("--embedder", default="hash")
    parser.add_argument("--shards", type=int, default=SHARDS)
    parser.add_argument("--reads", help="sizes, with commas between them")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if given.reads:
            sizes = [int(size) for size in given.reads.split(",")]
            show_reads(sizes, given.embedder, given.shards, Path(folder))
            return
        measure(Costs(given.memories, given.embedder, given.shards, Path(folder)))


if __name__ == "__main__":
    main()
