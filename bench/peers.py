"""Recollect beside LangGraph's SqliteStore and Chroma: one run, one machine, the same texts and the same vectors.

Each product keeps 100 users' memories in a folder and grows from 1,000 to 10,000 to 100,000. At each size the products
take turns, round by round, so that noise hits all alike: bulk adds, single adds as durable as the product makes them by
default, the ten best memories of one user for a question. Ratios are to Recollect; above 1 Recollect is the faster.

Recollect is measured twice: `recall` as users call it (full text, vectors, ranking, citations, audit), and its vector
search alone, which is what the others do. recall@10 is the share of the exact ten nearest within the user.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import multiprocessing
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from plots import bar_chart
from shared import (
    DIMENSIONS,
    Corpus,
    Lookup,
    Vectors,
    console,
    corpus,
    disk_bytes,
    in_words,
    key,
    machine,
    summary,
    sync_ms,
    table,
    timed,
)

SIZES = (1_000, 10_000, 100_000)
BATCH = 1_000
ROUNDS = 5
CELL_SECONDS = 15.0
ADDS, RECALLS = 300, 400
LIMIT = 10
RESULTS = Path(__file__).parent / "results"
Item = tuple[str, str, str, dict[str, Any]]  # key, user, text, and all that `remember` is told besides
Asked = tuple[list[float], float, dict[int, list[str]]]  # milliseconds each, processor seconds, answers by question


class Product(Protocol):
    """A store of memories, opened on a folder of its own."""

    name: str

    def add(self, item: Item) -> None: ...

    def add_many(self, items: Sequence[Item]) -> None: ...

    def recall(self, user: str, text: str) -> list[str]: ...

    def sync_setting(self) -> str: ...

    def close(self) -> None: ...


class Recollect:
    name = "Recollect"

    def __init__(self, folder: Path, vector: Callable[[str], Vectors], people: Corpus | None = None) -> None:
        import recollect

        self._lookup = Lookup(vector)
        self._mem = recollect.open(folder / "memories.db", embedder=self._lookup)
        self._space = f"long_term/{self._lookup.model}"
        if people is not None:
            people.add_people(self._mem)

    def add(self, item: Item) -> None:
        self._mem.remember(item[2], id=item[0], **item[3])

    def add_many(self, items: Sequence[Item]) -> None:
        self._mem.remember_many([{"content": text, "id": id, **told} for id, _, text, told in items])

    def recall(self, user: str, text: str) -> list[str]:
        return [hit.id for hit in self._mem.recall(text, user=user, limit=LIMIT)]

    def by_meaning(self, user: str, text: str) -> list[str]:
        """What the others do: nearest vectors under a filter, read from the store, through the public API."""
        return [hit.id for hit in self._mem.recall(text, user=user, limit=LIMIT, by="meaning")]

    def nearest(self, user: str, text: str) -> list[str]:
        """The vector index alone."""
        core, vector = self._mem._core, self._lookup.embed_query(text)
        hits = core.vectors.search(self._mem.organization, self._space, vector, LIMIT, {"user_id": (user,)})
        return [hit.memory_id for hit in hits]

    def sync_setting(self) -> str:
        store: Any = self._mem._core.store
        writer = store._tables._connection
        return _sync_words(writer.execute("PRAGMA journal_mode").get, writer.execute("PRAGMA synchronous").get)

    def close(self) -> None:
        self._mem.close()


class LangGraph:
    name = "LangGraph SqliteStore"

    def __init__(self, folder: Path, vector: Callable[[str], Vectors], people: Corpus | None = None) -> None:
        from langgraph.store.sqlite import SqliteStore

        self._lookup = Lookup(vector)
        driver = _loading_driver()
        assert driver is not None
        # As SqliteStore.from_conn_string does it, with a driver that can load sqlite-vec.
        self._connection = driver.connect(str(folder / "store.db"), check_same_thread=False, isolation_level=None)
        self._store = SqliteStore(
            self._connection, index={"dims": DIMENSIONS, "embed": self._embed, "fields": ["text"]}
        )
        self._store.setup()

    def _embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [self._lookup.embed_query(text).tolist() for text in texts]

    def add(self, item: Item) -> None:
        self._store.put(("memories", item[1]), item[0], {"text": item[2]}, index=["text"])

    def add_many(self, items: Sequence[Item]) -> None:
        from langgraph.store.base import PutOp

        self._store.batch([PutOp(("memories", user), id, {"text": text}, ["text"]) for id, user, text, _ in items])

    def recall(self, user: str, text: str) -> list[str]:
        return [item.key for item in self._store.search(("memories", user), query=text, limit=LIMIT)]

    def sync_setting(self) -> str:
        mode = self._connection.execute("PRAGMA journal_mode").fetchone()[0]
        level = self._connection.execute("PRAGMA synchronous").fetchone()[0]
        return _sync_words(mode, level)

    def close(self) -> None:
        self._connection.close()


class Chroma:
    name = "Chroma"

    def __init__(self, folder: Path, vector: Callable[[str], Vectors], people: Corpus | None = None) -> None:
        import chromadb

        self._folder = folder
        self._lookup = Lookup(vector)
        self._client: Any = chromadb.PersistentClient(
            str(folder), settings=chromadb.config.Settings(anonymized_telemetry=False)
        )
        self._memories = self._client.get_or_create_collection(
            "memories", configuration={"hnsw": {"space": "cosine"}}, embedding_function=None
        )

    def add(self, item: Item) -> None:
        self.add_many([item])

    def add_many(self, items: Sequence[Item]) -> None:
        ids, users, texts, _ = zip(*items, strict=True)
        self._memories.add(
            ids=list(ids),
            documents=list(texts),
            metadatas=[{"user": user} for user in users],
            embeddings=self._lookup.embed(texts),
        )

    def recall(self, user: str, text: str) -> list[str]:
        found = self._memories.query(query_embeddings=self._lookup.embed([text]), n_results=LIMIT, where={"user": user})
        ids: list[str] = found["ids"][0]
        return ids

    def sync_setting(self) -> str:
        connection = sqlite3.connect(self._folder / "chroma.sqlite3")
        mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
        connection.close()
        return f"journal_mode={mode} (its synchronous setting cannot be asked); the HNSW file follows later"

    def close(self) -> None:
        self._client.close()
        self._client = None


PRODUCTS: dict[str, Callable[..., Any]] = {"recollect": Recollect, "langgraph": LangGraph, "chroma": Chroma}
PACKAGES = {"recollect": "recollect", "langgraph": "langgraph-checkpoint-sqlite", "chroma": "chromadb"}
VECTORS_ONLY = "recollect-vectors"
BY_MEANING = "recollect-meaning"
NAMES = {
    "recollect": "Recollect",
    BY_MEANING: "Recollect, by meaning",
    VECTORS_ONLY: "Recollect, vectors only",
    "langgraph": "SqliteStore",
    "chroma": "Chroma",
}


def _sync_words(mode: str, level: int) -> str:
    return f"journal_mode={mode}, synchronous={('OFF', 'NORMAL', 'FULL', 'EXTRA')[level]}"


def _loading_driver() -> Any:
    """A sqlite3 module that can load extensions; the one of many Pythons cannot."""
    if hasattr(sqlite3.Connection, "enable_load_extension"):
        return sqlite3
    if importlib.util.find_spec("pysqlite3"):
        return importlib.import_module("pysqlite3")
    return None


def missing() -> dict[str, str]:
    """Which products cannot be measured here, and why."""
    found = {}
    if not importlib.util.find_spec("chromadb"):
        found["chroma"] = "pip install chromadb"
    if not importlib.util.find_spec("sqlite_vec"):
        found["langgraph"] = "pip install langgraph-checkpoint-sqlite"
    elif _loading_driver() is None:
        found["langgraph"] = "this Python's sqlite3 cannot load sqlite-vec: pip install pysqlite3"
    return found


# -- one size --------------------------------------------------------------------------------------------------------


class Station:
    """One product in a process of its own: neither its threads, nor its garbage, nor its SQLite meets another's.

    The process is forked, so it has the corpus at once; this one never imports a product.
    """

    def __init__(self, name: str, folder: Path, data: Corpus, is_new: bool) -> None:
        context = multiprocessing.get_context("fork")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, name, folder, data, is_new), daemon=True)
        self._process.start()
        theirs.close()

    def do(self, verb: str, *given: Any) -> Any:
        self._pipe.send((verb, *given))
        return self._pipe.recv()  # EOFError if the product took its process down; its words are on stderr

    def close(self) -> None:
        self.do("close")
        self._process.join()


def _serve(pipe: Any, name: str, folder: Path, data: Corpus, is_new: bool) -> None:
    bench = _Hands(PRODUCTS[name](folder, data.vector, data if is_new else None), data)
    verb = ""
    while verb != "close":
        verb, *given = pipe.recv()
        pipe.send(getattr(bench, verb)(*given))


class _Hands:
    """What a station does when told."""

    def __init__(self, product: Any, data: Corpus) -> None:
        self._product = product
        self._data = data

    def fill(self, start: int, stop: int) -> float:
        items = self._items(start, stop)
        begun = time.perf_counter()
        self._product.add_many(items)
        return time.perf_counter() - begun

    def add(self, start: int, stop: int) -> tuple[list[float], float]:
        cpu = time.process_time()
        took = timed([partial(self._product.add, item) for item in self._items(start, stop)], float("inf"))
        return took, time.process_time() - cpu

    def ask(self, way: str, places: Sequence[int], seconds: float) -> Asked:
        answers: dict[int, list[str]] = {}
        search = getattr(self._product, way)

        def one(place: int) -> None:
            answers[place] = search(*self._data.questions[place])

        work = [partial(one, place % len(self._data.questions)) for place in places]
        cpu = time.process_time()
        took = timed(work, seconds)
        return took, time.process_time() - cpu, answers

    def sync_setting(self) -> str:
        return str(self._product.sync_setting())

    def close(self) -> None:
        self._product.close()

    def _items(self, start: int, stop: int) -> list[Item]:
        data = self._data
        return [(key(place), data.users[place], data.texts[place], data.told(place)) for place in range(start, stop)]


class Bench:
    """The products side by side, taking turns, and how far they have been filled."""

    def __init__(self, folder: Path, data: Corpus, chosen: Sequence[str], cell_seconds: float) -> None:
        self.folder = folder
        self.data = data
        self.chosen = chosen
        self.slice_seconds = cell_seconds / ROUNDS
        self.stored = 0
        self.stations: dict[str, Station] = {}
        for name in chosen:
            (folder / name).mkdir()
        self.open(is_new=True)

    def open(self, *, is_new: bool = False) -> None:
        self.stations = {name: Station(name, self.folder / name, self.data, is_new) for name in self.chosen}

    def close(self) -> None:
        for station in self.stations.values():
            station.close()

    def fill(self, size: int) -> dict[str, Any]:
        """Bulk adds in turn, batch by batch, until each holds `size` memories."""
        spent: dict[str, list[float]] = {name: [] for name in self.chosen}
        rows = size - self.stored
        for start in range(self.stored, size, BATCH):
            for name in _rotated(self.chosen, start // BATCH):
                spent[name].append(self.stations[name].do("fill", start, min(start + BATCH, size)))
        self.stored = size
        return {
            name: {"rows": rows, "seconds": round(sum(each), 3), "rows_per_second": round(rows / sum(each))}
            for name, each in spent.items()
        }

    def add_singly(self, adds: int) -> dict[str, Any]:
        spent: dict[str, list[float]] = {name: [] for name in self.chosen}
        cpu = dict.fromkeys(self.chosen, 0.0)
        per_round = max(1, adds // ROUNDS)
        for number in range(ROUNDS):
            for name in _rotated(self.chosen, number):
                took, processor = self.stations[name].do("add", self.stored, self.stored + per_round)
                spent[name] += took
                cpu[name] += processor
            self.stored += per_round
        return {name: summary(each, cpu[name]) for name, each in spent.items()}

    def recall(self, recalls: int) -> dict[str, Any]:
        ways = self._ways()
        spent: dict[str, list[float]] = {name: [] for name in ways}
        cpu = dict.fromkeys(ways, 0.0)
        answers: dict[str, dict[int, list[str]]] = {name: {} for name in ways}
        first = {name: self._ask(ways[name], [0])[0][0] for name in ways}
        for way in ways.values():  # warm up
            self._ask(way, range(20))
        per_round = max(1, recalls // ROUNDS)
        for number in range(ROUNDS):
            for name in _rotated(list(ways), number):
                took, processor, found = self._ask(ways[name], range(number * per_round, (number + 1) * per_round))
                spent[name] += took
                cpu[name] += processor
                answers[name] |= found
        return {
            name: {
                **summary(spent[name], cpu[name]),
                "recall_at_10": self._share(answers[name]),
                "first_ms": round(first[name], 1),
            }
            for name in ways
        }

    def _ask(self, way: tuple[str, str], places: Sequence[int]) -> Asked:
        name, method = way
        asked: Asked = self.stations[name].do("ask", method, places, self.slice_seconds)
        return asked

    def _ways(self) -> dict[str, tuple[str, str]]:
        ours = {"recollect": "recall", BY_MEANING: "by_meaning", VECTORS_ONLY: "nearest"}
        return {name: ("recollect", method) for name, method in ours.items()} | {
            name: (name, "recall") for name in self.chosen
        }

    def _share(self, answers: dict[int, list[str]]) -> float:
        shares = []
        for place, found in answers.items():
            exact = {key(one) for one in self.data.nearest(place, self.stored, LIMIT)}
            shares.append(len(exact & set(found)) / max(1, len(exact)))
        return round(statistics.mean(shares), 4)

    def cold_starts(self, times: int) -> dict[str, Any]:
        """A new process each: import the product, open the folder, recall once. The page cache stays warm."""
        self.close()
        question = self.folder / "question.npy"
        np.save(question, self.data.question_vectors[1])
        user, text = self.data.questions[1]
        found: dict[str, list[float]] = {name: [] for name in self.chosen}
        for number in range(times):
            for name in _rotated(self.chosen, number):
                command = [sys.executable, __file__, "--cold", name, str(self.folder / name), str(question), user, text]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                found[name].append(float(done.stdout.split()[-1]))
        sizes = {name: disk_bytes(self.folder / name) for name in self.chosen}
        self.open()
        return {
            name: {"ms": round(statistics.median(each), 1), "disk_bytes": sizes[name]} for name, each in found.items()
        }


def _rotated(names: Sequence[str], number: int) -> list[str]:
    turn = number % len(names)
    return [*names[turn:], *names[:turn]]


def cold(name: str, folder: Path, question: Path, user: str, text: str) -> None:
    """The body of a cold start: imports, open, first recall."""
    vector = np.load(question)
    begun = time.perf_counter()
    product = PRODUCTS[name](folder, lambda _: vector)
    found = product.recall(user, text)
    ended = time.perf_counter()
    product.close()
    print((ended - begun) * 1000 if found else "nothing was recalled")


# -- the run ---------------------------------------------------------------------------------------------------------


def run(sizes: Sequence[int], chosen: Sequence[str], *, adds: int, recalls: int, cell_seconds: float) -> dict[str, Any]:
    begun = time.perf_counter()
    data = corpus(max(sizes) + adds * len(sizes), questions=min(400, recalls))
    with tempfile.TemporaryDirectory(prefix="recollect-bench-") as name:
        folder = Path(name)
        bench = Bench(folder, data, chosen, cell_seconds)
        report: dict[str, Any] = {
            "machine": machine(),
            "sync": sync_ms(folder),
            "versions": {name: importlib.metadata.version(PACKAGES[name]) for name in chosen},
            "durability": {name: bench.stations[name].do("sync_setting") for name in chosen},
            "dimensions": DIMENSIONS,
            "users": len(set(data.users)),
            "sizes": {},
        }
        for size in sizes:
            report["sizes"][str(size)] = _one_size(bench, size, adds, recalls)
            report["ratios"] = ratios(report)
            show_size(report, str(size))
        bench.close()
    report["seconds"] = round(time.perf_counter() - begun)
    report["machine"]["load_average_after"] = machine()["load_average"]
    return report


def _one_size(bench: Bench, size: int, adds: int, recalls: int) -> dict[str, Any]:
    steps: dict[str, Callable[[], dict[str, Any]]] = {
        "bulk": lambda: bench.fill(size),
        "recall": lambda: bench.recall(recalls),
        "add": lambda: bench.add_singly(adds),
        "cold": lambda: bench.cold_starts(3),
    }
    found = {}
    for name, step in steps.items():
        with console.status(f"{size:,} memories: {name}"):
            found[name] = step()
    return found


def ratios(report: dict[str, Any]) -> dict[str, dict[str, dict[str, float]]]:
    """How many times as fast Recollect is: by size, measure and peer."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for size, cells in report["sizes"].items():
        peers = [name for name in cells["add"] if name != "recollect"]
        ours, vectors = cells["recall"]["recollect"], cells["recall"][VECTORS_ONLY]
        meaning = cells["recall"][BY_MEANING]
        found[size] = {
            peer: {
                "recall": cells["recall"][peer]["p50_ms"] / ours["p50_ms"],
                "recall, by meaning": cells["recall"][peer]["p50_ms"] / meaning["p50_ms"],
                "recall, vectors only": cells["recall"][peer]["p50_ms"] / vectors["p50_ms"],
                "recall, cpu": cells["recall"][peer]["cpu_ms"] / ours["cpu_ms"],
                "add": cells["add"][peer]["p50_ms"] / cells["add"]["recollect"]["p50_ms"],
                "bulk": cells["bulk"]["recollect"]["rows_per_second"] / cells["bulk"][peer]["rows_per_second"],
                "cold start": cells["cold"][peer]["ms"] / cells["cold"]["recollect"]["ms"],
                "disk": cells["cold"][peer]["disk_bytes"] / cells["cold"]["recollect"]["disk_bytes"],
            }
            for peer in peers
        }
    return {
        size: {peer: {name: float(f"{value:.3g}") for name, value in row.items()} for peer, row in rows.items()}
        for size, rows in found.items()
    }


def targets(report: dict[str, Any]) -> list[tuple[str, float, float, bool]]:
    """What was aimed at, at the largest size: name, bar, measured, met."""
    size = max(report["sizes"], key=int)
    cells, ratio = report["sizes"][size], report["ratios"][size]
    wanted = [
        ("recall by meaning, times as fast as SqliteStore", 5.0, ratio.get("langgraph", {}).get("recall, by meaning")),
        ("recall by meaning, times as fast as Chroma", 20.0, ratio.get("chroma", {}).get("recall, by meaning")),
        ("vector index, times as fast as SqliteStore", 5.0, ratio.get("langgraph", {}).get("recall, vectors only")),
        ("vector index, times as fast as Chroma", 20.0, ratio.get("chroma", {}).get("recall, vectors only")),
        ("hybrid recall, times as fast as SqliteStore", 5.0, ratio.get("langgraph", {}).get("recall")),
        ("hybrid recall, times as fast as Chroma", 20.0, ratio.get("chroma", {}).get("recall")),
        ("recall@10 by meaning within a user", 0.99, cells["recall"][BY_MEANING]["recall_at_10"]),
        ("single add, times as fast as SqliteStore", 1.0, ratio.get("langgraph", {}).get("add")),
    ]
    return [(name, bar, value, value >= bar) for name, bar, value in wanted if value is not None]


# -- showing ---------------------------------------------------------------------------------------------------------


def show_size(report: dict[str, Any], size: str) -> None:
    console.print(table(f"{int(size):,} memories of {report['users']} users", _HEADS, _rows(report["sizes"][size])))
    found = report["ratios"][size]
    if found:
        rows = [[NAMES[peer], *(f"{value:.3g}x" for value in row.values())] for peer, row in found.items()]
        console.print(table("", ["ratio to Recollect", *next(iter(found.values()))], rows))


def show_rest(report: dict[str, Any]) -> None:
    for name, text in report["durability"].items():
        console.print(f"{NAMES[name]} {report['versions'][name]}: {text}")
    console.print(
        f"one synced 4 kB write here: p50 {report['sync']['p50_ms']} ms; load {report['machine']['load_average']}"
    )
    largest = max(report["sizes"], key=int)
    heads = (f"target at {int(largest):,}", "bar", "measured", "")
    marks = [(n, in_words(bar), in_words(value), "met" if met else "missed") for n, bar, value, met in targets(report)]
    console.print(table("", heads, marks))


_HEADS = (
    "", "recall p50 ms", "p99", "cpu", "per s", "recall@10", "add p50 ms", "p99", "cpu", "bulk rows/s", "cold ms", "MB",
)  # fmt: skip


def _rows(cells: dict[str, Any]) -> Iterator[list[str]]:
    for name, recall in cells["recall"].items():
        values = [recall[part] for part in ("p50_ms", "p99_ms", "cpu_ms", "per_second", "recall_at_10")]
        if name in cells["add"]:
            values += [cells["add"][name][part] for part in ("p50_ms", "p99_ms", "cpu_ms")]
            values += [cells["bulk"][name]["rows_per_second"], cells["cold"][name]["ms"]]
            values.append(cells["cold"][name]["disk_bytes"] / 1e6)
        yield [NAMES[name], *map(in_words, values), *[""] * (len(_HEADS) - 1 - len(values))]


def charts(report: dict[str, Any]) -> str:
    """One panel per measure, at each size."""
    panels: dict[str, dict[str, dict[str, float]]] = {}
    for title, part, field in (
        ("recall of one user's best ten, median ms", "recall", "p50_ms"),
        ("single durable add, median ms", "add", "p50_ms"),
        ("bulk add, rows a second", "bulk", "rows_per_second"),
    ):
        panels[title] = {
            f"{int(size):,}": {NAMES[name]: cell[field] for name, cell in cells[part].items()}
            for size, cells in report["sizes"].items()
        }
    return bar_chart("Recollect beside other stores", panels)


def main() -> None:
    if sys.argv[1:2] == ["--cold"]:
        name, folder, question, user, text = sys.argv[2:]
        return cold(name, Path(folder), Path(question), user, text)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="1,000 and 10,000 only")
    parser.add_argument("--sizes", type=int, nargs="+", help="other sizes, growing")
    parser.add_argument("--products", nargs="+", choices=list(PRODUCTS), default=list(PRODUCTS))
    parser.add_argument("--adds", type=int, default=ADDS)
    parser.add_argument("--recalls", type=int, default=RECALLS)
    parser.add_argument("--cell-seconds", type=float, default=CELL_SECONDS, help="the most for one product's recalls")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where peers.json and peers.svg go")
    options = parser.parse_args()
    absent = missing()
    for name in options.products:
        if name in absent:
            console.print(f"[yellow]without {NAMES[name]}: {absent[name]}[/]")
    chosen = ["recollect", *(name for name in options.products if name not in absent and name != "recollect")]
    sizes = options.sizes or (SIZES[:2] if options.quick else SIZES)
    report = run(sizes, chosen, adds=options.adds, recalls=options.recalls, cell_seconds=options.cell_seconds)
    report["targets"] = [dict(zip(("name", "bar", "measured", "met"), one, strict=True)) for one in targets(report)]
    show_rest(report)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "peers.json").write_text(json.dumps(report, indent=1) + "\n")
    (options.out / "peers.svg").write_text(charts(report))
    return None


if __name__ == "__main__":
    main()
