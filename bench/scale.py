"""The embedded vector index at full size: a million vectors of 384 dimensions, and a year's 1.83 million of 1536.

99% of the rows belong to one tenant with a hundred users, 1% to another. The embedding rows are written straight into
the store's own table, without memories (through `remember` a million takes the better part of an hour, and the index
reads only this table). Exact answers are computed from the stored float16 vectors while they are made. Searching is
measured in a fresh process, which is where memory is measured, too. The floor of a search is the time this machine
needs to read the 1-bit codes in scope once from memory.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

sys.path.insert(0, str(Path(__file__).parent))

from recollect.adapters.records.common.codec import Codec
from recollect.adapters.records.sqlite.connection import connect
from recollect.adapters.records.sqlite.store import SqliteStore
from recollect.adapters.vectors.embedded.index import EmbeddedIndex
from recollect.adapters.vectors.embedded.quantization import code_width
from recollect.domain.memory import LONG_TERM, Embedding, space_name
from shared import Vectors, console, disk_bytes, in_words, machine, near, summary, table, timed, unit

CASES = ((1_000_000, 384), (1_830_000, 1536))
BATCH = 10_000
USERS = 100
CENTRES = 2_000
SPREAD = 0.9  # two vectors of one cluster have a cosine of about 0.55
LIMIT = 10
MODEL = "synthetic"
SPACE = space_name(LONG_TERM, MODEL)
BIG, SMALL = "big", "small"
SCOPES = ("tenant with 99%", "tenant with 1%", "user with 1%")
RESULTS = Path(__file__).parent / "results"


# -- the data --------------------------------------------------------------------------------------------------------


class Made:
    """Vectors from a seed, batch by batch; the tenant and the user follow from the row's number."""

    def __init__(self, rows: int, dimensions: int, queries: int, seed: int = 11) -> None:
        self.rows = rows
        self.dimensions = dimensions
        self._numbers = np.random.default_rng(seed)
        self._centres = unit(self._numbers.standard_normal((CENTRES, dimensions), dtype=np.float32))
        self.questions = self._draw(queries)

    def _draw(self, count: int) -> Vectors:
        return near(self._numbers, self._centres, self._numbers.integers(0, CENTRES, count), SPREAD)

    def batches(self) -> Iterator[tuple[int, NDArray[np.float16]]]:
        for start in range(0, self.rows, BATCH):
            yield start, self._draw(min(BATCH, self.rows - start)).astype("<f2")


def tenants(rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which rows are of the big tenant."""
    return np.not_equal(rows % 100, 99)


def user_of(row: int) -> int:
    return row // 100 % USERS


class Exact:
    """The true nearest of each question in each scope, kept up as the batches go by."""

    def __init__(self, questions: Vectors) -> None:
        self._questions = questions
        self.best = [(np.full((len(questions), LIMIT), -2.0), np.zeros((len(questions), LIMIT), np.int64))] * len(
            SCOPES
        )

    def see(self, start: int, vectors: NDArray[np.float16]) -> None:
        rows = np.arange(start, start + len(vectors))
        similarity = self._questions @ vectors.astype(np.float32).T
        big = tenants(rows)
        for number, mask in enumerate((big, ~big, big & (rows // 100 % USERS == 0))):
            self.best[number] = self._merged(number, similarity[:, mask], rows[mask])

    def _merged(self, number: int, similarity: Vectors, rows: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[Any]]:
        values, found = self.best[number]
        values = np.concatenate([values, similarity], axis=1)
        found = np.concatenate([found, np.broadcast_to(rows, similarity.shape)], axis=1)
        order = np.argpartition(-values, LIMIT - 1, axis=1)[:, :LIMIT]
        return np.take_along_axis(values, order, 1), np.take_along_axis(found, order, 1)


def load(store: SqliteStore, made: Made, exact: Exact) -> float:
    """Write the embedding rows as the store would, in its own file and table; gives the seconds of writing alone."""
    codec = store.codec(Embedding)
    columns = ", ".join(f'"{name}"' for name in codec.names)
    statement = f"INSERT INTO embedding(_seq, {columns}) VALUES ({', '.join('?' * (len(codec.names) + 1))})"
    connection = connect(store.path, writable=True)
    connection.execute("PRAGMA synchronous = full")
    spent = 0.0
    with _progress() as progress:
        task = progress.add_task("load", total=made.rows)
        for start, vectors in made.batches():
            exact.see(start, vectors)
            rows = list(_rows(codec, start, vectors))
            begun = time.perf_counter()
            with connection:
                connection.executemany(statement, rows)
                last = start + len(vectors)
                connection.execute("UPDATE recollect_store SET value = ? WHERE key = 'seq'", (last,))
            spent += time.perf_counter() - begun
            progress.advance(task, len(vectors))
    connection.close()
    return spent


def _rows(codec: Codec, start: int, vectors: NDArray[np.float16]) -> Iterator[list[Any]]:
    sample = Embedding(
        organization_id=BIG, memory_id="m", model=MODEL, dimensions=vectors.shape[1], vector=b"", text_hash=""
    )
    row = codec.row(sample)
    place = {name: number for number, name in enumerate(codec.names)}
    for number, vector in enumerate(vectors, start):
        row[place["organization_id"]] = BIG if number % 100 != 99 else SMALL
        row[place["id"]] = row[place["memory_id"]] = f"m{number:010d}"
        row[place["vector"]] = vector.tobytes()
        row[place["facets"]] = f'["u{user_of(number)}",null,null,null,"fact","global","hypothesis"]'
        yield [number + 1, *row]


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=console
    )


# -- measuring -------------------------------------------------------------------------------------------------------


def bandwidth() -> float:
    """Bytes a second that one core reads from memory: the best of a few sums over a gigabyte."""
    block = np.ones(2**27, np.int64)
    best = min(timed([block.sum] * 5, 10.0))
    return block.nbytes / best * 1000


def memory() -> dict[str, float]:
    """Of this process, in MB: all that is resident, and what is its own (no mapped file can be given back)."""
    found = {}
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]:
        name, amount, *_ = line.split()
        if name in ("Rss:", "Anonymous:"):
            found[f"{name[:-1].lower()}_mb"] = round(int(amount) / 1024, 1)
    return found


def build(folder: Path, made: Made) -> dict[str, Any]:
    """Load the rows and index them: what a bulk load costs, then what a rebuild from nothing but the rows costs."""
    store = SqliteStore(folder / "scale.db")
    exact = Exact(made.questions)
    loading = load(store, made, exact)
    index = EmbeddedIndex(store, folder / "scale.db.index", background=False)
    with console.status("index"):
        indexing = timed([index.refresh], 0)[0] / 1000
    with console.status("rebuild"):
        rebuilding = timed([index.rebuild], 0)[0] / 1000
    index.close()
    store.close()
    np.savez(folder / "exact.npz", questions=made.questions, found=np.stack([found for _, found in exact.best]))
    return {
        "load_rows_per_second": round(made.rows / loading),
        "index_seconds": round(indexing, 1),
        "rebuild_seconds": round(rebuilding, 1),
        "store_gb": round(sum(path.stat().st_size for path in folder.glob("scale.db*") if path.is_file()) / 1e9, 3),
        "index_gb": round(disk_bytes(folder / "scale.db.index") / 1e9, 3),
    }


def search(folder: Path, rows: int, dimensions: int) -> dict[str, Any]:
    """In a fresh process: open, search in each scope, compare with the exact answers."""
    saved = np.load(folder / "exact.npz")
    questions, truth = saved["questions"], saved["found"]
    before = memory()
    begun = time.perf_counter()
    store = SqliteStore(folder / "scale.db")
    index = EmbeddedIndex(store, folder / "scale.db.index", background=False)
    index.search(BIG, SPACE, questions[0], LIMIT)
    first = (time.perf_counter() - begun) * 1000
    found = {}
    speed = bandwidth()
    for number, name in enumerate(SCOPES):
        inside = {0: rows - rows // 100, 1: rows // 100, 2: (rows - rows // 100) // USERS}[number]
        floor = inside * code_width(dimensions) / speed * 1000
        found[name] = _search_scope(index, number, questions, truth[number], floor)
    after = memory()
    index.close()
    store.close()
    return {
        "scopes": found,
        "open_and_first_search_ms": round(first, 1),
        "memory": after,
        "anonymous_grown_mb": round(after["anonymous_mb"] - before["anonymous_mb"], 1),
        "bandwidth_gb_per_second": round(speed / 1e9, 1),
    }


def _search_scope(
    index: EmbeddedIndex, number: int, questions: Vectors, truth: NDArray[np.int64], floor: float
) -> dict[str, Any]:
    organization = SMALL if number == 1 else BIG
    where = {"user_id": ("u0",)} if number == 2 else None
    answers: list[list[str]] = []

    def ask(question: Vectors) -> None:
        answers.append([hit.memory_id for hit in index.search(organization, SPACE, question, LIMIT, where)])

    timed([partial(ask, question) for question in questions[:10]], 5.0)  # warm up: checksums, page cache
    answers.clear()
    spent = timed([partial(ask, question) for question in questions], 60.0)
    shares = [
        len(set(answer) & {f"m{row:010d}" for row in exact}) / LIMIT
        for answer, exact in zip(answers, truth, strict=False)
    ]
    took = summary(spent)
    return {
        **took,
        "recall_at_10": round(float(np.mean(shares)), 4),
        "floor_ms": round(floor, 3),
        "times_the_floor": round(took["p50_ms"] / floor, 1),
    }


# -- the run ---------------------------------------------------------------------------------------------------------


def bytes_needed(rows: int, dimensions: int) -> int:
    """The store's rows and keys, the log while it grows, and the index twice: a rebuild is written beside the old."""
    row = 2 * dimensions + 700
    return int(rows * (row + 2 * (dimensions + code_width(dimensions) + 80)) * 1.15)


def run(rows: int, dimensions: int, queries: int, under: Path | None) -> dict[str, Any]:
    needed, free = bytes_needed(rows, dimensions), shutil.disk_usage(under or tempfile.gettempdir()).free
    console.print(
        f"[bold]{rows:,} x {dimensions}[/]: about {needed / 1e9:.1f} GB of disk, {free / 1e9:.1f} GB are free"
    )
    if needed > free:
        return {"rows": rows, "dimensions": dimensions, "skipped": f"needs {needed / 1e9:.1f} GB of disk"}
    with tempfile.TemporaryDirectory(prefix="recollect-scale-", dir=under) as name:
        built = build(Path(name), Made(rows, dimensions, queries))
        command = [sys.executable, __file__, "--search", name, "--rows", str(rows), "--dimensions", str(dimensions)]
        with console.status("search"):
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return {"rows": rows, "dimensions": dimensions, **built, **json.loads(done.stdout), "machine": machine()}


def show(report: dict[str, Any]) -> None:
    if "skipped" in report:
        return console.print(f"skipped: {report['skipped']}")
    heads = ("scope", "p50 ms", "p99 ms", "recall@10", "floor ms", "times the floor")
    fields = ("p50_ms", "p99_ms", "recall_at_10", "floor_ms", "times_the_floor")
    rows = [[name, *(in_words(cell[part]) for part in fields)] for name, cell in report["scopes"].items()]
    console.print(table(f"{report['rows']:,} x {report['dimensions']}", heads, rows))
    console.print(
        f"load {report['load_rows_per_second']:,} rows/s straight into the table; index {report['index_seconds']} s, "
        f"rebuild {report['rebuild_seconds']} s; store {report['store_gb']} GB, index {report['index_gb']} GB"
    )
    held = report["memory"]
    console.print(
        f"open and first search {report['open_and_first_search_ms']} ms; memory {held['rss_mb']} MB resident,"
        f" {held['anonymous_mb']} MB of it anonymous (the index's share {report['anonymous_grown_mb']} MB)"
    )
    load = ", ".join(map(str, report["machine"]["load_average"]))
    return console.print(f"one core reads {report['bandwidth_gb_per_second']} GB/s; load average {load}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--dimensions", type=int)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--folder", type=Path, help="where the files are made for the time of the run")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where scale.json goes")
    parser.add_argument("--search", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.search:
        print(json.dumps(search(options.search, options.rows, options.dimensions)))
        return
    given = options.rows or options.dimensions
    cases = [(options.rows or CASES[0][0], options.dimensions or CASES[0][1])] if given else CASES
    options.out.mkdir(parents=True, exist_ok=True)
    reports = []
    for rows, dimensions in cases:
        reports.append(run(rows, dimensions, options.queries, options.folder))
        show(reports[-1])
        (options.out / "scale.json").write_text(json.dumps(reports, indent=1) + "\n")


if __name__ == "__main__":
    main()
