"""A year on one machine: 3.65 million memories, 1.83 million vectors of 1536 numbers, and the access log, for real.

    python bench/year.py                          # SQLite, then PostgreSQL: hours, and about 20 and 40 GB of disk
    python bench/year.py --share 0.02             # a fiftieth of each day, for a trial
    python bench/year.py --stores sqlite --folder /data/year

The memories go in through `remember_many` with their vectors, which is the fastest way that the product offers; every
memory writes its entry in the access log, and a thousand memories a day are read again. Then a fresh process measures.
A run that is killed, at any time, goes on where it was when it is started again with the same folder and share: what
is stored is asked of the store, what is measured is kept in progress.json there. `--again` measures anew.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

import recollect
from recollect.errors import Conflict, NotFound
from shared import SESSION, console, disk_bytes, in_words, machine, table
from year_data import BATCH, DAYS, USERS, Asked, Year
from year_measures import ONCE, QUESTIONS, Measures

RESULTS = Path(__file__).parent / "results"
STORES = ("sqlite", "postgres")
DIMENSIONS = 1536
READS_AT_ONCE = 1_000
LINE_SECONDS = 60.0


class State:
    """What was done, in a file that is whole at any time."""

    def __init__(self, folder: Path, share: float, dimensions: int) -> None:
        self._path = folder / "progress.json"
        given = {"share": share, "dimensions": dimensions}
        if self._path.exists():
            self.kept: dict[str, Any] = json.loads(self._path.read_text())
            found = {name: self.kept[name] for name in given}
            if found != given:
                raise SystemExit(f"{folder} holds another run ({found}): give another --folder, or delete it")
        else:
            folder.mkdir(parents=True, exist_ok=True)
            begun = datetime.now(UTC).replace(microsecond=0) - timedelta(days=DAYS)
            self.kept = {**given, "begun": begun.isoformat(), "loaded": 0, "read": 0, "seconds": {}, "measured": {}}
            self.save()

    @property
    def year(self) -> Year:
        return Year(self.kept["share"], self.kept["dimensions"], datetime.fromisoformat(self.kept["begun"]))

    def measure_anew(self) -> None:
        """Forget what was measured, but for what a store can show only once."""
        self.kept["measured"] = {name: found for name, found in self.kept["measured"].items() if name in ONCE}
        self.kept["turn"] = self.turn + 1
        self.save()

    @property
    def turn(self) -> int:
        """How often it was measured before."""
        return int(self.kept.get("turn", 0))

    def spent(self, what: str, wall: float, cpu: float) -> None:
        before = self.kept["seconds"].get(what, {"wall": 0.0, "cpu": 0.0})
        self.kept["seconds"][what] = {"wall": before["wall"] + wall, "cpu": before["cpu"] + cpu}

    def save(self) -> None:
        beside = self._path.with_suffix(".new")
        beside.write_text(json.dumps(self.kept, indent=1))
        os.replace(beside, self._path)


# -- loading ---------------------------------------------------------------------------------------------------------


def load(mem: Any, state: State) -> None:
    """All memories, from the first that the store does not have."""
    year = state.year
    if not state.kept["loaded"]:
        _add_anew([lambda n=n: mem.user.add(f"User {n}", id=f"user-{n:03d}") for n in range(USERS)])  # type: ignore[misc]
    with _progress("load", year.memories, state.kept["loaded"]) as advance:
        for start in range(state.kept["loaded"], year.memories, BATCH):
            if not _is_stored(mem, year.key(start)):
                _load_batch(mem, state, start)
            state.kept["loaded"] = start + BATCH
            state.save()
            advance(start + BATCH)


def _load_batch(mem: Any, state: State, start: int) -> None:
    year = state.year
    sessions = {year.session(place): year.user(place) for place in range(start, start + BATCH, SESSION)}
    with _counted(state, "sessions"):
        _add_anew([lambda s=s, u=u: mem.session.add(id=s, user=u) for s, u in sessions.items()])  # type: ignore[misc]
    batch = year.batch(start)
    with _counted(state, "load"):
        mem.remember_many(batch)


def _add_anew(adds: list[Callable[[], Any]]) -> None:
    """What a killed run had added already is there."""
    for add in adds:
        try:
            add()
        except Conflict:
            continue


def _is_stored(mem: Any, id: str) -> bool:
    try:
        mem.show(id)
    except NotFound:
        return False
    return True


def read(mem: Any, state: State, most: int) -> None:
    """Memories are read again, some more often than others: each read is counted and logged."""
    year = state.year
    with _progress("read", most, state.kept["read"]) as advance:
        for start in range(state.kept["read"], most, READS_AT_ONCE):
            draw = random.Random(start)
            with _counted(state, "read"):
                for _ in range(min(READS_AT_ONCE, most - start)):
                    mem.show(year.key(int(year.memories * draw.random() ** 2)))
            state.kept["read"] = min(start + READS_AT_ONCE, most)
            state.save()
            advance(state.kept["read"])


@contextmanager
def _counted(state: State, what: str) -> Iterator[None]:
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    state.spent(what, time.perf_counter() - wall, time.process_time() - cpu)


@contextmanager
def _progress(what: str, total: int, done: int) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal; a line now and then in a log."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    begun = said = time.monotonic()
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=total, completed=done)

        def advance(now: int) -> None:
            nonlocal said
            progress.update(task, completed=now)
            if not console.is_terminal and time.monotonic() - said > LINE_SECONDS:
                said = time.monotonic()
                left = (total - now) * (said - begun) / max(1, now - done)
                console.print(f"{what}: {now:,} of {total:,}, about {left / 60:.0f} minutes left")

        yield advance


# -- one store -------------------------------------------------------------------------------------------------------


@contextmanager
def address_of(store: str, folder: Path) -> Iterator[str]:
    if store == "sqlite":
        yield str(folder / "year.db")
        return
    from kept_postgres import kept

    with kept(folder / "server") as address:
        yield address


def run_store(store: str, folder: Path, share: float, dimensions: int, most_reads: int | None) -> dict[str, Any]:
    state = State(folder, share, dimensions)
    year = state.year
    reads = year.reads if most_reads is None else min(year.reads, most_reads)
    console.print(f"[bold]{store}[/]: {year.memories:,} memories, {year.vectors:,} vectors, {reads:,} reads")
    with address_of(store, folder) as address:
        if state.kept["loaded"] < year.memories or state.kept["read"] < reads:
            # Vectors are indexed when all are there, which is a measure of its own.
            with recollect.open(address, embedder="none", background=False) as mem:
                load(mem, state)
                read(mem, state, reads)
        asked = [str(folder), str(share), str(dimensions), store, address]
        subprocess.run([sys.executable, __file__, "--measure", *asked], check=True)
    return report_of(store, State(folder, share, dimensions))


def measure(folder: Path, share: float, dimensions: int, store: str, address: str) -> None:
    """In a fresh process, one measure after the other; those that a killed run had taken are kept."""
    state = State(folder, share, dimensions)
    year = state.year
    questions, vectors = year.questions(QUESTIONS)
    measures = Measures(address, store, folder, year, questions, Asked(year, vectors), state.turn)
    try:
        for name, take in measures.steps():
            if name not in state.kept["measured"]:
                with console.status(f"{store}: {name}"):
                    state.kept["measured"][name] = take()
                state.save()
                console.print(f"{store}: {name}: {json.dumps(state.kept['measured'][name])}")
    finally:
        measures.close()


def report_of(store: str, state: State) -> dict[str, Any]:
    year, spent = state.year, state.kept["seconds"]
    loading = spent.get("load", {"wall": 0.0, "cpu": 0.0})
    return {
        "store": store,
        "share": year.share,
        "memories": year.memories,
        "vectors": year.vectors,
        "dimensions": year.dimensions,
        "reads": state.kept["read"],
        "seconds": {what: {kind: round(value, 1) for kind, value in one.items()} for what, one in spent.items()},
        "load_per_second": round(year.memories / max(loading["wall"], 1e-9)),
        "measured": state.kept["measured"],
        "machine": machine(),
    }


def show(report: dict[str, Any]) -> None:
    rows = [
        [
            name,
            ", ".join(f"{part} {in_words(value)}" for part, value in found.items() if isinstance(value, int | float)),
        ]
        for name, found in report["measured"].items()
    ]
    title = f"{report['store']}, {report['share']:g} of a year: {report['memories']:,} memories"
    console.print(table(title, ("", "measured"), rows))
    console.print(f"loaded {report['load_per_second']:,} memories/s")


def main() -> None:
    if sys.argv[1:2] == ["--measure"]:
        folder, share, dimensions, store, address = sys.argv[2:]
        return measure(Path(folder), float(share), int(dimensions), store, address)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=1.0, help="of each day's memories, vectors and reads")
    parser.add_argument("--dimensions", type=int, default=DIMENSIONS)
    parser.add_argument("--stores", nargs="+", choices=STORES, default=list(STORES))
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "recollect-year")
    parser.add_argument("--reads", type=int, help="fewer of the memories that are read again: at most so many")
    parser.add_argument("--again", action="store_true", help="measure anew what is loaded")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where year.json goes")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    reports = []
    for store in options.stores:
        folder = options.folder / store
        _warn_of_disk(folder.parent, store, options.share, options.dimensions)
        if options.again and (folder / "progress.json").exists():
            State(folder, options.share, options.dimensions).measure_anew()
        reports.append(run_store(store, folder, options.share, options.dimensions, options.reads))
        show(reports[-1])
        (options.out / "year.json").write_text(json.dumps(_with_others(options.out, reports), indent=1) + "\n")
    return None


def _with_others(out: Path, reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The stores that this run was not asked for keep their figures."""
    ours = {report["store"] for report in reports}
    before = json.loads((out / "year.json").read_text()) if (out / "year.json").exists() else []
    return [*reports, *(report for report in before if report["store"] not in ours)]


def _warn_of_disk(folder: Path, store: str, share: float, dimensions: int) -> None:
    """And a third of it for the backup, which is packed, and for what a server writes ahead."""
    each = {"sqlite": 2_000 + dimensions * 4.4 / 2, "postgres": 3_600 + dimensions * 8.4 / 2}[store]
    needed = 1.35 * share * DAYS * 10_000 * each
    here = next(path for path in (folder, *folder.parents) if path.exists())
    kept = disk_bytes(folder / store) if (folder / store).exists() else 0
    free = shutil.disk_usage(here).free + kept
    console.print(f"{store}: about {needed / 1e9:.1f} GB of disk with a backup, {free / 1e9:.1f} GB are free")
    if needed > free:
        raise SystemExit("not enough disk space: give a smaller --share, or another --folder")


if __name__ == "__main__":
    main()
