"""How the work of each operation grows with the store, counted; fails where it grows faster than is declared here.

    python bench/growth.py             # 1,000, 4,000 and 16,000 memories, into bench/results/growth.json
    python bench/growth.py --quick     # 1,500 and 6,000: what the everyday tests look at

One store grows; each user tells a hundred memories in two sessions, so there are ever more users, and what one user
has stays the same. Each operation is done a few times at each size and its work counted (bench/counts.py). How far it
may grow between the two largest sizes is said by a shape: the smaller ones show where a bound is reached. No clock is
looked at, so a busy machine changes nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

sys.path.insert(0, str(Path(__file__).parent))

from counts import MEASURES, Counts, Work, counting, opened
from recollect.app.background import Background, embedded_schedule
from recollect.settings import Settings
from shared import SESSION, Corpus, Lookup, console, corpus, in_words, key, table

RESULTS = Path(__file__).parent / "results"
SIZES, QUICK = (1_000, 4_000, 16_000), (1_500, 6_000)
OF_A_USER = 2 * SESSION
TIMES = 3
AT_ONCE = 50
BATCH = 1_000
RARE, LATELY = "rare", "2031-06-01T12:00:00+00:00"
FEW = 40  # memories that have this tag, and are of this time
Shape = Literal["constant", "logarithmic", "linear"]
# A count may be larger by this much without having grown: a page that was just split, a question with one more word.
SLACK: Mapping[str, int] = {"statements": 1, "rows": 20, "steps": 300, "pages": 20, "vectors": 200, "calls": 500}
# A tree may be a level deeper where the store is four times as large: from two to three, half as many pages again.
MOST_FOR_A_LEVEL = 1.75
BY_MEASURE: Mapping[str, Shape] = {"steps": "logarithmic", "pages": "logarithmic"}


@dataclass(frozen=True)
class Declared:
    """How an operation may grow: each measure by its shape, else steps and pages with the depth of the trees alone."""

    shapes: Mapping[str, Shape] = field(default_factory=dict)
    why: str = ""

    def shape(self, measure: str) -> Shape:
        return self.shapes.get(measure, BY_MEASURE.get(measure, "constant"))


def linear(*measures: str, why: str) -> Declared:
    return Declared(dict.fromkeys(measures, "linear"), why)


SCAN = "every vector in scope is compared, and every holder of a word is scored"
BY_SEGMENT: Mapping[str, Shape] = {"calls": "logarithmic"}  # each has four times as many rows as the one before
HELD = "every holder of a word is scored"
COUNTS = "what is counted is looked at"
REWRITTEN = "the indexes are written anew without what is erased"
DECLARED: Mapping[str, Declared] = {
    "recall, one user's": Declared(),
    "recall by meaning, one user's": Declared(),
    "recall, everybody's": Declared({**dict.fromkeys(("vectors", "steps", "pages"), "linear"), **BY_SEGMENT}, SCAN),
    "recall by meaning, everybody's": Declared({"vectors": "linear", **BY_SEGMENT}, SCAN),
    "context, one user's": Declared(),
    "remember": Declared(),
    f"remember_many of {AT_ONCE}": Declared(),
    "show": Declared(),
    "history": Declared(),
    "list, one user's": Declared(),
    "list, everybody's": linear("steps", "pages", why=COUNTS),
    "list, everybody's, counted so far": Declared(),
    "list, as it happened": linear("pages", why="what happened one after the other was not stored so"),
    "list, what happened last": Declared(),
    "list, a rare tag": Declared(),
    "recall, what happened last": linear("steps", "pages", why=HELD),
    "recall, a rare tag": linear("steps", "pages", why=HELD),
    "session.list": Declared(),
    "summary.tree": Declared(),
    "log": Declared(),
    "log, of one operation": Declared(),
    "log, what succeeded": Declared(),
    "background, nothing to do": Declared(),
    "revise": Declared(),
    "forget": Declared(),
    "restore": Declared(),
    "erase": linear("statements", "rows", "steps", "pages", "calls", why=REWRITTEN),
    "stats": linear("steps", "pages", why=COUNTS),
    "activity": linear("steps", "pages", why=COUNTS),
    "tag.list": linear("steps", "pages", why=COUNTS),
}


def most(shape: Shape, measure: str, before: int, ratio: float) -> float:
    """The most that a count may be after the store grew by `ratio`, having been `before`."""
    growth = {"constant": 1.1, "logarithmic": MOST_FOR_A_LEVEL, "linear": 1.1 * ratio}[shape]
    return before * growth + SLACK[measure]


# -- what is done ----------------------------------------------------------------------------------------------------


class Doing:
    """The operations on one open store, each with arguments of its own every time."""

    def __init__(self, mem: Any, data: Corpus, stored: int) -> None:
        self._mem, self._data = mem, data
        self.stored = stored
        self._old = iter(range(stored - 1, 0, -3))
        self._forgotten: list[str] = []

    def pieces(self) -> Iterator[tuple[str, Callable[[int], Any]]]:
        mem, asked = self._mem, self._data.questions
        yield "recall, one user's", lambda n: mem.recall(asked[n][1], user=asked[n][0])
        yield "recall by meaning, one user's", lambda n: mem.recall(asked[n][1], user=asked[n][0], by="meaning")
        yield "recall, everybody's", lambda n: mem.recall(asked[n][1])
        yield "recall by meaning, everybody's", lambda n: mem.recall(asked[n][1], by="meaning")
        yield "context, one user's", lambda n: mem.context(asked[n][1], user=asked[n][0])
        yield "remember", lambda n: mem.remember(**self._next())
        yield f"remember_many of {AT_ONCE}", lambda n: mem.remember_many([self._next() for _ in range(AT_ONCE)])
        yield "show", lambda n: mem.show(key(n))
        yield "history", lambda n: mem.history(key(n))
        yield "list, one user's", lambda n: mem.list(user=asked[n][0])
        yield "list, everybody's", lambda n: mem.list()
        yield "list, everybody's, counted so far", lambda n: mem.list(count_at_most=1_000)
        yield "list, as it happened", self._list_as_it_happened
        yield "list, what happened last", lambda n: mem.list(since=LATELY)
        yield "list, a rare tag", lambda n: mem.list(tags=[RARE])
        yield "recall, what happened last", lambda n: mem.recall(asked[n][1], since=LATELY)
        yield "recall, a rare tag", lambda n: mem.recall(asked[n][1], tags=[RARE])
        yield "session.list", lambda n: mem.session.list(limit=10)
        yield "summary.tree", lambda n: mem.summary.tree()
        yield "log", lambda n: mem.log(limit=10)
        yield "log, of one operation", lambda n: mem.log(operation="create", limit=10)
        yield "log, what succeeded", lambda n: mem.log(success=True, limit=10)
        yield "stats", lambda n: mem.stats()
        yield "activity", lambda n: mem.activity()
        yield "tag.list", lambda n: mem.tag.list()
        yield "revise", lambda n: mem.revise(key(next(self._old)), importance=n + 1)
        yield "forget", self._forget
        yield "restore", lambda n: mem.restore(self._forgotten[n])
        yield "erase", lambda n: mem.erase(key(next(self._old)))
        background = Background(mem._core, embedded_schedule(Settings()), holder="growth")
        yield "background, nothing to do", lambda n: self._look_for_work(background)

    def _list_as_it_happened(self, number: int) -> None:
        """A page, and one that begins further on."""
        first = self._mem.list(order="happened", limit=500, count_at_most=1_000)
        self._mem.list(order="happened", after=first.next)

    def _look_for_work(self, background: Background) -> None:
        """All of it at once, also what is looked for every hour."""
        background._due.clear()
        background.once()

    def forget_rows(self) -> None:
        """What the store has read before and keeps, or it would be counted how often something is asked twice."""
        self._mem._core.store._known.clear()

    def _next(self) -> dict[str, Any]:
        self.stored += 1
        return request(self._data, self.stored - 1)

    def _forget(self, number: int) -> None:
        self._forgotten.append(key(next(self._old)))
        self._mem.forget(self._forgotten[-1])


def request(data: Corpus, place: int) -> dict[str, Any]:
    rare = {"tags": [RARE], "at": LATELY} if place < FEW else {}
    return {"content": data.texts[place], "id": key(place), **data.told(place), **rare}


def made(sizes: Sequence[int]) -> Corpus:
    """Enough for the largest size and for what is added while work is counted."""
    rows = sizes[-1] + len(sizes) * (TIMES + 1) * (AT_ONCE + 1)
    return corpus(rows, users=rows // OF_A_USER + 1, questions=TIMES + 1, in_turn=OF_A_USER)


def fill(path: Path, data: Corpus, start: int, stop: int) -> None:
    with opened(path, Lookup(data.vector)) as mem:
        if not start:
            data.add_people(mem)
        for low in range(start, stop, BATCH):
            mem.remember_many([request(data, place) for place in range(low, min(low + BATCH, stop))])


def counted(work: Work, do: Doing, only: Collection[str]) -> dict[str, Counts]:
    """The middle of a few times; the first opened connections and filled caches."""
    found: dict[str, Counts] = {}
    for name, piece in do.pieces():
        if name not in only:
            continue
        times = []
        for number in range(TIMES + 1):
            do.forget_rows()
            times.append(work.of(partial(piece, number)))
        times = times[1:]
        found[name] = {measure: sorted(one[measure] for one in times)[TIMES // 2] for measure in MEASURES}
    return found


def run(
    sizes: Sequence[int],
    folder: Path,
    only: Collection[str] = tuple(DECLARED),
    change: Callable[[Path], None] = lambda path: None,
) -> dict[str, Any]:
    """Count at each size; `change` does something to the store before, as a test does to see that it is noticed."""
    data, path, stored = made(sizes), folder / "growth.db", 0
    found: dict[str, Any] = {name: {} for name in only}
    for size in sizes:
        fill(path, data, stored, size)
        change(path)
        with counting() as work, opened(path, Lookup(data.vector)) as mem:
            do = Doing(mem, data, size)
            for name, counts in counted(work, do, only).items():
                found[name][str(size)] = counts
        stored = do.stored
    return {"sizes": list(sizes), "operations": found}


# -- what is said of it ----------------------------------------------------------------------------------------------


def offences(report: Mapping[str, Any]) -> list[str]:
    """What grew faster than is declared, in words."""
    before, after = report["sizes"][-2:]
    said = []
    for name, counts in report["operations"].items():
        for measure in MEASURES:
            old, new = (counts[str(size)][measure] for size in (before, after))
            shape = DECLARED[name].shape(measure)
            if new > most(shape, measure, old, after / before):
                said.append(f"{name}: {old:,} {measure} at {before:,} memories, {new:,} at {after:,}: not {shape}")
    return said


def show(report: Mapping[str, Any]) -> None:
    rows = [
        [name, *("  ".join(in_words(counts[str(size)][one]) for size in report["sizes"]) for one in MEASURES)]
        for name, counts in report["operations"].items()
    ]
    sizes = ", ".join(f"{size:,}" for size in report["sizes"])
    console.print(table(f"work of one call at {sizes} memories", ("", *MEASURES), rows))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two smaller sizes")
    parser.add_argument("--sizes", type=int, nargs="+", help="other sizes, growing")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where growth.json goes")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="recollect-growth-") as folder:
        report = run(options.sizes or (QUICK if options.quick else SIZES), Path(folder))
    show(report)
    report["shapes"] = {name: {one: declared.shape(one) for one in MEASURES} for name, declared in DECLARED.items()}
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "growth.json").write_text(json.dumps(report, indent=1) + "\n")
    wrong = offences(report)
    for line in wrong:
        console.print(f"[red]{line}[/]")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
