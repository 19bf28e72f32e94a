"""What users have: memories in sessions of fifty with authors and dates, a hundred users, several processes.

    python bench/sessions.py             # 1,000, 10,000 and 100,000 memories: bench/results/sessions.json and .svg
    python bench/sessions.py --quick     # without the largest
    python bench/sessions.py --million   # a million, too; takes long

Each operation is timed on a SQLite store that grows: by the clock and by the processor. Recalls are timed in three
states: cold (a fresh process, with the files out of the page cache), of a process that was asked little so far ("at
first"), and of one that has answered ten other questions of each user, as a service has after a while. At the largest
size several processes ask the same store at once. Beside the figures stand floors, which are measured in the same run
and below which nothing can go: reading the 1-bit codes in scope once from memory, a write of 4 kB that is synced, an
empty request to a bare web endpoint, and what the built-in model takes to embed a question (which is no part of the
figures: vectors are looked up).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import recollect
import service
from plots import line_charts
from recollect.adapters.vectors.embedded.quantization import code_width
from scale import bandwidth, memory
from shared import (
    DIMENSIONS,
    Corpus,
    Lookup,
    console,
    corpus,
    disk_bytes,
    in_words,
    key,
    machine,
    question_number,
    summary,
    sync_ms,
    table,
    timed,
)

RESULTS = Path(__file__).parent / "results"
SIZES, MILLION = (1_000, 10_000, 100_000), 1_000_000
USERS = 100
BATCH = 1_000
LIMIT = 10
BEFORE = 10 * USERS  # other questions that a process has answered
TIMES, SECONDS = 200, 10.0  # of one operation at one size: the most
PROCESSES = (1, 2, 4)
WRITES = ("add", "revise", "forget", "restore", "erase")
REPEATABLE_WRITES = ("add", "revise")
_RECALLS = (("", ", at first"), ("", ""), (" by meaning", ""))
FLOOR_OF = {
    **dict.fromkeys((f"recall{how}, everybody's{when}" for how, when in _RECALLS), "codes, all"),
    **dict.fromkeys((f"recall{how}, one user's{when}" for how, when in _RECALLS), "codes, one user's"),
    **dict.fromkeys(WRITES, "sync of 4 kB"),
}


# -- one size --------------------------------------------------------------------------------------------------------


class Grown:
    """A store that grows, and what is done to it."""

    def __init__(self, folder: Path, data: Corpus) -> None:
        self.path = folder / "sessions.db"
        self.data = data
        self.stored = 0
        self._mem: Any = None

    @property
    def mem(self) -> Any:
        if self._mem is None:
            self._mem = recollect.open(self.path, embedder=Lookup(self.data.vector))
        return self._mem

    def close(self) -> None:
        if self._mem is not None:
            self._mem.close()
            self._mem = None

    def again(self) -> None:
        """Opened by somebody who has asked nothing yet."""
        self.close()

    def request(self) -> dict[str, Any]:
        """The next memory that is not stored."""
        place, self.stored = self.stored, self.stored + 1
        return {"content": self.data.texts[place], "id": key(place), **self.data.told(place)}

    def fill(self, size: int) -> dict[str, float]:
        if not self.stored:
            self.data.add_people(self.mem)
        rows, wall, cpu = size - self.stored, 0.0, 0.0
        while self.stored < size:
            batch = [self.request() for _ in range(min(BATCH, size - self.stored))]
            begun, used = time.perf_counter(), time.process_time()
            self.mem.remember_many(batch)
            wall += time.perf_counter() - begun
            cpu += time.process_time() - used
        self.mem._core.vectors.refresh()
        each = {"cpu_ms": 1000 * cpu / rows, "p50_ms": 1000 * wall / rows, "per_second": rows / wall, "count": rows}
        return {name: float(f"{value:.4g}") for name, value in each.items()}

    def operations(self) -> Iterator[tuple[str, Callable[[int], Any]]]:
        asked = self.data.questions
        users, texts = [user for user, _ in asked], [text for _, text in asked]
        newest, others = self.stored, range(len(asked) - BEFORE, len(asked))
        recall_one = partial(self._recall, users=users)
        yield "recall, one user's, at first", recall_one
        self._answer(recall_one, others)
        yield "recall, one user's", recall_one
        self.again()
        yield "recall, everybody's, at first", self._recall
        self._answer(self._recall, others)
        yield "recall, everybody's", self._recall
        mem = self.mem
        yield "recall by meaning, one user's", lambda n: mem.recall(texts[n], user=users[n], by="meaning", limit=LIMIT)
        yield "recall by meaning, everybody's", lambda n: mem.recall(texts[n], by="meaning", limit=LIMIT)
        yield "context, one user's", lambda n: mem.context(texts[n], user=users[n])
        yield "show", lambda n: mem.show(key(n))
        yield "list, one user's", lambda n: mem.list(user=users[n])
        yield "list, everybody's", lambda n: mem.list()
        yield "log", lambda n: mem.log(limit=50)
        yield "stats", lambda n: mem.stats()
        yield "add", lambda n: mem.remember(**self.request())
        yield "revise", lambda n: mem.revise(key(n), importance=2.0)
        yield "forget", lambda n: mem.forget(key(newest - 1 - n))
        yield "restore", lambda n: mem.restore(key(newest - 1 - n))
        yield "erase", lambda n: mem.erase(key(newest - 1 - n))

    def _recall(self, number: int, users: Sequence[str] = ()) -> Any:
        asked = {"user": users[number]} if users else {}
        return self.mem.recall(self.data.questions[number][1], limit=LIMIT, **asked)

    def _answer(self, recall: Callable[[int], Any], others: Sequence[int]) -> None:
        """Other questions, by somebody who was asked nothing before."""
        self.again()
        for number in others:
            recall(number)

    def measure(self, times: int, seconds: float) -> dict[str, dict[str, float]]:
        found = {}
        for name, operation in self.operations():
            count = min(times, 10) if name in ("erase", "stats") else times
            if name not in WRITES or name in REPEATABLE_WRITES:
                operation(0)
            cpu = time.process_time()
            spent = timed([partial(operation, number) for number in range(count)], seconds)
            found[name] = summary(spent, time.process_time() - cpu)
        return found


def floors(folder: Path, stored: int, speed: float) -> dict[str, float]:
    codes = stored * code_width(DIMENSIONS) / speed * 1000
    return {"codes, all": codes, "codes, one user's": codes / USERS, "sync of 4 kB": sync_ms(folder)["p50_ms"]}


# -- other processes -------------------------------------------------------------------------------------------------


def keep_questions(folder: Path, data: Corpus) -> None:
    """What a fresh process needs to ask, without the corpus."""
    np.save(folder / "questions.npy", data.question_vectors)
    (folder / "questions.json").write_text(json.dumps(data.questions))


def asked_of(folder: Path) -> tuple[list[tuple[str, str]], Lookup]:
    vectors = np.load(folder / "questions.npy")
    return json.loads((folder / "questions.json").read_text()), Lookup(lambda text: vectors[question_number(text) or 0])


def drop_from_cache(path: Path) -> None:
    """Have the system forget the pages of these files, as if the machine had just been started."""
    for file in [path, *path.parent.glob(path.name + "-*"), *path.with_name(path.name + ".index").glob("*")]:
        if file.is_file():
            with file.open("rb") as opened:
                os.fdatasync(opened.fileno())
                os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def into_cache(path: Path) -> None:
    """As a machine has them that has been at work: of several processes the first must not read for the others."""
    for file in [path, *path.with_name(path.name + ".index").glob("*")]:
        with file.open("rb") as opened:
            while opened.read(1 << 24):
                pass


def cold(folder: Path) -> None:
    """In a fresh process: open and ask once, and again."""
    questions, embedder = asked_of(folder)
    begun, used = time.perf_counter(), time.process_time()
    with recollect.open(folder / "sessions.db", embedder=embedder) as mem:
        mem.recall(questions[0][1], user=questions[0][0], limit=LIMIT)
        first = time.perf_counter() - begun, time.process_time() - used
        begun, used = time.perf_counter(), time.process_time()
        mem.recall(questions[1][1], user=questions[1][0], limit=LIMIT)
        second = time.perf_counter() - begun, time.process_time() - used
    named = {"open and first recall": first, "second recall": second}
    found = {
        name: {"wall_ms": round(1000 * wall, 1), "cpu_ms": round(1000 * cpu, 1)} for name, (wall, cpu) in named.items()
    }
    print(json.dumps({**found, **memory()}))


def worker(folder: Path, seconds: float, number: int) -> None:
    """Ask for so long, as one of several processes; wait for the others before."""
    questions, embedder = asked_of(folder)
    with recollect.open(folder / "sessions.db", embedder=embedder) as mem:
        turn = questions[number * 17 :] + questions[: number * 17]
        mem.recall(turn[0][1], user=turn[0][0], limit=LIMIT)
        print("ready", flush=True)
        sys.stdin.readline()
        used = time.process_time()
        work = [partial(mem.recall, text, user=user, limit=LIMIT) for user, text in turn] * 1000
        spent = timed(work, seconds)
        print(json.dumps({"spent": spent, "cpu": time.process_time() - used}), flush=True)


def together(folder: Path, count: int, seconds: float) -> dict[str, float]:
    started = [
        subprocess.Popen(
            [sys.executable, __file__, "--worker", str(folder), str(seconds), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(count)
    ]
    for one in started:
        assert one.stdout is not None
        one.stdout.readline()
    for one in started:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    told = [json.loads(one.communicate()[0]) for one in started]
    spent = [value for one in told for value in one["spent"]]
    return {
        **summary(spent, sum(one["cpu"] for one in told)),
        "per_second": float(f"{sum(1000 * len(one['spent']) / sum(one['spent']) for one in told):.4g}"),
    }


def bare_http(folder: Path, seconds: float) -> dict[str, float]:
    """An empty answer of the web server that ours runs in, one client."""
    port = service.free_port()
    command = [sys.executable, __file__, "--bare", str(port)]
    with service.started(command, dict(os.environ), subprocess.DEVNULL) as process:
        service.wait(lambda: service.listens(port))
        served = service.Served(port, process, {}, lambda n: ("/", {}), lambda n: ("/", {"query": f"question {n}"}))
        cell = service.Cell()
        service.Load(folder, seconds).ask(served, "recall", 1, cell)
        return cell.summary()


def serve_bare(port: int) -> None:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    async def nothing(request: Request) -> Response:
        await request.json()
        return JSONResponse({})

    uvicorn.run(Starlette(routes=[Route("/", nothing, methods=["POST"])]), port=port, log_level="error")


def embedding_ms() -> dict[str, float]:
    """What the built-in model takes for a question."""
    with tempfile.TemporaryDirectory() as folder, recollect.open(Path(folder) / "x.db") as mem:
        embedder = mem._core.embedder
        assert embedder is not None, "the default is the built-in model"
        embedder.embed_query("warm")
        used = time.process_time()
        spent = timed(
            [partial(embedder.embed_query, f"What did Ann say about the harbour on day {n}?") for n in range(100)], 5.0
        )
        return summary(spent, time.process_time() - used)


def shell(times: int = 10) -> dict[str, float]:
    """`recollect recall` as a shell or a hook runs it for each question, with the built-in model; as an installed
    package runs, whose modules are compiled."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "x.db")
        with recollect.open(path) as mem:
            mem.remember_many([f"Ann mentioned harbour {n} on her {n}th day at sea" for n in range(200)])
        command = [sys.executable, "-m", "recollect", "recall", "what did Ann say about harbour 7?", "--store", path]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        # By a small process of its own: until another program begins in it, a child is as large as who started it.
        watching = [sys.executable, "-c", _WATCHING, *command]
        runs = [
            json.loads(subprocess.run(watching, env=environment, stdout=subprocess.PIPE, check=True).stdout)
            for _ in range(times + 1)
        ]
        cpu, wall, resident = (sorted(values)[times // 2] for values in zip(*runs[1:], strict=True))
        return {"cpu_ms": round(1000 * cpu), "wall_ms": round(1000 * wall), "rss_mb": round(resident / 1024)}


_WATCHING = """
import json, resource, subprocess, sys, time
begun = time.perf_counter()
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
wall, used = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([used.ru_utime + used.ru_stime, wall, used.ru_maxrss]))
"""


# -- the run ---------------------------------------------------------------------------------------------------------


def run(sizes: Sequence[int], times: int, seconds: float, processes: Sequence[int]) -> dict[str, Any]:
    data = corpus(sizes[-1] + len(sizes) * (times + 1), users=USERS, questions=times + 1 + BEFORE)
    report: dict[str, Any] = {"machine": machine(), "dimensions": DIMENSIONS, "users": USERS, "sizes": {}}
    with tempfile.TemporaryDirectory(prefix="recollect-sessions-") as name:
        folder, speed = Path(name), bandwidth()
        keep_questions(folder, data)
        report["floors"] = {
            "embedding of a question": embedding_ms(),
            "bare HTTP": bare_http(folder, seconds / 5),
        }
        report["shell"] = shell()
        report["floors"]["bandwidth_gb_per_second"] = round(speed / 1e9, 1)
        grown = Grown(folder, data)
        for size in sizes:
            with console.status(f"{size:,}"):
                report["sizes"][str(size)] = _measure_size(grown, size, folder, speed, times, seconds)
            show_size(size, report["sizes"][str(size)])
        grown.close()
        into_cache(grown.path)
        report["processes"] = {str(count): together(folder, count, seconds / 2) for count in processes}
    show_rest(report)
    return report


def _measure_size(grown: Grown, size: int, folder: Path, speed: float, times: int, seconds: float) -> dict[str, Any]:
    bulk = grown.fill(size)
    below = floors(folder, size, speed)
    operations = {"bulk": bulk, **grown.measure(times, seconds)}
    grown.close()
    drop_from_cache(grown.path)
    done = subprocess.run(
        [sys.executable, __file__, "--cold", str(folder)], stdout=subprocess.PIPE, text=True, check=True
    )
    held = disk_bytes(grown.path.with_name("sessions.db.index")) + grown.path.stat().st_size
    return {
        "operations": operations,
        "floors": {name: float(f"{value:.4g}") for name, value in below.items()},
        "cold": json.loads(done.stdout),
        "disk_bytes_a_memory": round(held / grown.stored),
    }


def show_size(size: int, cell: Mapping[str, Any]) -> None:
    rows = [
        [name, *(in_words(one[part]) for part in ("cpu_ms", "p50_ms")), in_words(one.get("p99_ms", 0.0))]
        for name, one in cell["operations"].items()
    ]
    console.print(table(f"{size:,} memories", ("", "CPU ms", "p50 ms", "p99 ms"), rows))
    console.print(f"floors, ms: {cell['floors']}; cold: {cell['cold']}; {cell['disk_bytes_a_memory']:,} bytes a memory")


def show_rest(report: Mapping[str, Any]) -> None:
    rows = [
        [count, *(in_words(one[part]) for part in ("per_second", "cpu_ms", "p50_ms", "p99_ms"))]
        for count, one in report["processes"].items()
    ]
    console.print(table("recall, one user's, by processes", ("", "per second", "CPU ms", "p50 ms", "p99 ms"), rows))
    console.print(f"floors: {report['floors']}; recollect recall from the shell: {report['shell']}")


def charts(report: Mapping[str, Any]) -> str:
    """One chart for each operation: what a call takes as the store grows, and its floor."""
    panels: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for size, cell in report["sizes"].items():
        for name, one in cell["operations"].items():
            lines = panels.setdefault(name, {"by the clock": [], "processor": []})
            lines["by the clock"].append((float(size), one["p50_ms"]))
            lines["processor"].append((float(size), one["cpu_ms"]))
            if name in FLOOR_OF:
                lines.setdefault("floor", []).append((float(size), cell["floors"][FLOOR_OF[name]]))
    return line_charts("What a call takes as the store grows (ms, both axes logarithmic)", panels)


def main() -> None:
    if sys.argv[1:2] == ["--cold"]:
        return cold(Path(sys.argv[2]))
    if sys.argv[1:2] == ["--bare"]:
        return serve_bare(int(sys.argv[2]))
    if sys.argv[1:2] == ["--worker"]:
        return worker(Path(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="without the largest size")
    parser.add_argument("--million", action="store_true", help="a million memories, too")
    parser.add_argument("--sizes", type=int, nargs="+", help="other sizes, growing")
    parser.add_argument("--times", type=int, default=TIMES)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="the most for one operation at one size")
    parser.add_argument("--processes", type=int, nargs="+", default=list(PROCESSES))
    parser.add_argument("--out", type=Path, default=RESULTS, help="where sessions.json and sessions.svg go")
    options = parser.parse_args()
    sizes = options.sizes or (SIZES[:2] if options.quick else (*SIZES, MILLION) if options.million else SIZES)
    report = run(sizes, options.times, options.seconds, options.processes)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "sessions.json").write_text(json.dumps(report, indent=1) + "\n")
    (options.out / "sessions.svg").write_text(charts(report))
    return None


if __name__ == "__main__":
    main()
