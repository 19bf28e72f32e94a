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
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
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
Item = tuple[str, str, str]  # key, user, text


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

    def __init__(self, folder: Path, vector: Callable[[str], Vectors], users: Sequence[str] = ()) -> None:
        import recollect

        self._lookup = Lookup(vector)
        self._mem = recollect.open(folder / "memories.db", embedder=self._lookup)
        self._space = f"long_term/{self._lookup.model}"
        for user in users:
            self._mem.add_user(user, id=user)

    def add(self, item: Item) -> None:
        self._mem.remember(item[2], user=item[1], id=item[0])

    def add_many(self, items: Sequence[Item]) -> None:
        self._mem.remember_many([{"content": text, "user": user, "id": id} for id, user, text in items])

    def recall(self, user: str, text: str) -> list[str]:
        return [hit.id for hit in self._mem.recall(text, user=user, limit=LIMIT)]

    def nearest(self, user: str, text: str) -> list[str]:
        """The vector search alone."""
        core, vector = self._mem._core, self._lookup.embed_query(text)
        hits = core.vectors.search(self._mem.organization, self._space, vector, LIMIT, {"user_id": (user,)})
        return [hit.memory_id for hit in hits]

    def sync_setting(self) -> str:
        return "WAL, synchronous=FULL: each add is synced"

    def close(self) -> None:
        self._mem.close()


class LangGraph:
    name = "LangGraph SqliteStore"

    def __init__(self, folder: Path, vector: Callable[[str], Vectors], users: Sequence[str] = ()) -> None:
        from langgraph.store.sqlite import SqliteStore

        self._lookup = Lookup(vector)
        driver = _loading_driver()
        assert driver is not None
        # As SqliteStore.from_conn_string does it, with a driver that can load sqlite-vec.
        self._connection = driver.connect(
            str(folder / "store.db"), check_same_thread=False, isolation_level=None
        )
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

        self._store.batch([PutOp(("memories", user), id, {"text": text}, ["text"]) for id, user, text in items])

    def recall(self, user: str, text: str) -> list[str]:
        return [item.key for item in self._store.search(("memories", user), query=text, limit=LIMIT)]

    def sync_setting(self) -> str:
        mode = self._connection.execute("PRAGMA journal_mode").fetchone()[0]
        level = self._connection.execute("PRAGMA synchronous").fetchone()[0]
        return f"journal_mode={mode}, synchronous={('OFF', 'NORMAL', 'FULL', 'EXTRA')[level]}"

    def close(self) -> None:
        self._connection.close()


class Chroma:
    name = "Chroma"

    def __init__(self, folder: Path, vector: Callable[[str], Vectors], users: Sequence[str] = ()) -> None:
        import chromadb

        self._folder = folder
        self._lookup = Lookup(vector)
        self._client: Any = chromadb.PersistentClient(
            str(folder), settings=chromadb.Settings(anonymized_telemetry=False)
        )
        self._memories = self._client.get_or_create_collection(
            "memories", configuration={"hnsw": {"space": "cosine"}}, embedding_function=None
        )

    def add(self, item: Item) -> None:
        self.add_many([item])

    def add_many(self, items: Sequence[Item]) -> None:
        ids, users, texts = zip(*items, strict=True)
        self._memories.add(
            ids=list(ids),
            documents=list(texts),
            metadatas=[{"user": user} for user in users],
            embeddings=self._lookup.embed(texts),
        )

    def recall(self, user: str, text: str) -> list[str]:
        found = self._memories.query(
            query_embeddings=self._lookup.embed([text]), n_results=LIMIT, where={"user": user}
        )
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
NAMES = {"recollect": "Recollect", VECTORS_ONLY: "Recollect, vectors only", "langgraph": "SqliteStore", "chroma": "Chroma"}


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


class Bench:
    """The products, open side by side, and how far each has been filled."""

    def __init__(self, folder: Path, data: Corpus, chosen: Sequence[str], cell_seconds: float) -> None:
        self.folder = folder
        self.data = data
        self.chosen = chosen
        self.slice_seconds = cell_seconds / ROUNDS
        self.stored = 0
        self.products: dict[str, Any] = {}
        self.open(sorted(set(data.users)))

    def open(self, users: Sequence[str] = ()) -> None:
        for name in self.chosen:
            home = self.folder / name
            home.mkdir(exist_ok=True)
            self.products[name] = PRODUCTS[name](home, self.data.vector, users)

    def close(self) -> None:
        for product in self.products.values():
            product.close()
        self.products = {}

    def items(self, start: int, stop: int) -> list[Item]:
        return [(key(place), self.data.users[place], self.data.texts[place]) for place in range(start, stop)]

    def fill(self, size: int) -> dict[str, Any]:
        """Bulk adds in turn, batch by batch, until each holds `size` memories."""
        spent: dict[str, list[float]] = {name: [] for name in self.chosen}
        rows = size - self.stored
        for start in range(self.stored, size, BATCH):
            batch = self.items(start, min(start + BATCH, size))
            for name in _rotated(self.chosen, start // BATCH):
                begun = time.perf_counter()
                self.products[name].add_many(batch)
                spent[name].append(time.perf_counter() - begun)
        self.stored = size
        return {
            name: {"rows": rows, "seconds": round(sum(each), 3), "rows_per_second": round(rows / sum(each))}
            for name, each in spent.items()
        }

    def add_singly(self, adds: int) -> dict[str, Any]:
        spent: dict[str, list[float]] = {name: [] for name in self.chosen}
        per_round = max(1, adds // ROUNDS)
        for number in range(ROUNDS):
            batch = self.items(self.stored, self.stored + per_round)
            for name in _rotated(self.chosen, number):
                product = self.products[name]
                spent[name] += timed([_adding(product, item) for item in batch], float("inf"))
            self.stored += per_round
        return {name: summary(each) for name, each in spent.items()}

    def recall(self, recalls: int) -> dict[str, Any]:
        ways = self._ways()
        spent: dict[str, list[float]] = {name: [] for name in ways}
        answers: dict[str, dict[int, list[str]]] = {name: {} for name in ways}
        first = {name: timed([_asking(way, self.data, 0, {})], 0)[0] for name, way in ways.items()}
        for way in ways.values():
            timed([_asking(way, self.data, place, {}) for place in range(20)], 1.0)
        per_round = max(1, recalls // ROUNDS)
        for number in range(ROUNDS):
            asked = range(number * per_round, (number + 1) * per_round)
            for name in _rotated(list(ways), number):
                work = [_asking(ways[name], self.data, place % len(self.data.questions), answers[name]) for place in asked]
                spent[name] += timed(work, self.slice_seconds)
        return {
            name: {**summary(spent[name]), "recall_at_10": self._share(answers[name]), "first_ms": round(first[name], 1)}
            for name in ways
        }

    def _ways(self) -> dict[str, Callable[[str, str], list[str]]]:
        ways = {name: product.recall for name, product in self.products.items()}
        return {**ways, VECTORS_ONLY: self.products["recollect"].nearest} if "recollect" in ways else ways

    def _share(self, answers: dict[int, list[str]]) -> float:
        shares = []
        for place, found in answers.items():
            exact = {key(one) for one in self.data.nearest(place, self.stored, LIMIT)}
            shares.append(len(exact & set(found)) / max(1, len(exact)))
        return round(statistics.mean(shares), 4)

    def cold_starts(self, times: int) -> dict[str, Any]:
        """A new process each: import the product, then open the folder and recall once. The page cache stays warm."""
        self.close()
        question = self.folder / "question.npy"
        np.save(question, self.data.question_vectors[1])
        user, text = self.data.questions[1]
        found: dict[str, list[dict[str, float]]] = {name: [] for name in self.chosen}
        for number in range(times):
            for name in _rotated(self.chosen, number):
                command = [sys.executable, __file__, "--cold", name, str(self.folder / name), str(question), user, text]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                found[name].append(json.loads(done.stdout.splitlines()[-1]))
        sizes = {name: disk_bytes(self.folder / name) for name in self.chosen}
        self.open()
        return {
            name: {
                **{part: round(statistics.median(one[part] for one in each), 1) for part in each[0]},
                "disk_bytes": sizes[name],
            }
            for name, each in found.items()
        }


def _rotated(names: Sequence[str], number: int) -> list[str]:
    turn = number % len(names)
    return [*names[turn:], *names[:turn]]


def _adding(product: Product, item: Item) -> Callable[[], None]:
    return lambda: product.add(item)


def _asking(
    way: Callable[[str, str], list[str]], data: Corpus, place: int, answers: dict[int, list[str]]
) -> Callable[[], None]:
    user, text = data.questions[place]

    def ask() -> None:
        answers[place] = way(user, text)

    return ask


def cold(name: str, folder: Path, question: Path, user: str, text: str) -> None:
    """The body of a cold start."""
    vector = np.load(question)
    begun = time.perf_counter()
    {"recollect": _import_recollect, "langgraph": _import_langgraph, "chroma": _import_chroma}[name]()
    imported = time.perf_counter()
    product = PRODUCTS[name](folder, lambda _: vector)
    assert product.recall(user, text)
    ended = time.perf_counter()
    product.close()
    print(json.dumps({"import_ms": (imported - begun) * 1000, "open_and_recall_ms": (ended - imported) * 1000}))


def _import_recollect() -> None:
    import recollect  # noqa: F401


def _import_langgraph() -> None:
    import langgraph.store.sqlite  # noqa: F401


def _import_chroma() -> None:
    import chromadb  # noqa: F401


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
            "durability": {name: bench.products[name].sync_setting() for name in chosen},
            "dimensions": DIMENSIONS,
            "users": len(set(data.users)),
            "sizes": {},
        }
        for size in sizes:
            report["sizes"][str(size)] = _one_size(bench, size, adds, recalls)
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
        found[size] = {
            peer: {
                "recall": cells["recall"][peer]["p50_ms"] / ours["p50_ms"],
                "recall, vectors only": cells["recall"][peer]["p50_ms"] / vectors["p50_ms"],
                "add": cells["add"][peer]["p50_ms"] / cells["add"]["recollect"]["p50_ms"],
                "bulk": cells["bulk"]["recollect"]["rows_per_second"] / cells["bulk"][peer]["rows_per_second"],
                "cold start": cells["cold"][peer]["open_and_recall_ms"]
                / cells["cold"]["recollect"]["open_and_recall_ms"],
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
        ("recall, times as fast as SqliteStore", 5.0, ratio.get("langgraph", {}).get("recall")),
        ("recall, times as fast as Chroma", 20.0, ratio.get("chroma", {}).get("recall")),
        ("recall@10 of the vector search within a user", 0.99, cells["recall"][VECTORS_ONLY]["recall_at_10"]),
        ("single add, times as fast as SqliteStore", 1.0, ratio.get("langgraph", {}).get("add")),
    ]
    return [(name, bar, value, value >= bar) for name, bar, value in wanted if value is not None]


# -- showing ---------------------------------------------------------------------------------------------------------


def show(report: dict[str, Any]) -> None:
    for size, cells in report["sizes"].items():
        console.print(table(f"{int(size):,} memories of {report['users']} users", _HEADS, _rows(cells)))
        rows = [[NAMES[peer], *(f"{value:.3g}x" for value in row.values())] for peer, row in report["ratios"][size].items()]
        if rows:
            heads = ["ratio to Recollect", *next(iter(report["ratios"][size].values()))]
            console.print(table("", heads, rows))
    for name, text in report["durability"].items():
        console.print(f"{NAMES[name]} {report['versions'][name]}: {text}")
    console.print(f"one synced 4 kB write here: p50 {report['sync']['p50_ms']} ms; load {report['machine']['load_average']}")
    largest = max(report["sizes"], key=int)
    heads = (f"target at {int(largest):,}", "bar", "measured", "")
    marks = [(n, in_words(bar), in_words(value), "met" if met else "missed") for n, bar, value, met in targets(report)]
    console.print(table("", heads, marks))


_HEADS = (
    "", "recall p50 ms", "p99", "per s", "recall@10", "add p50 ms", "p99", "bulk rows/s", "open + recall ms", "import ms",
    "MB",
)  # fmt: skip


def _rows(cells: dict[str, Any]) -> Iterator[list[str]]:
    for name, recall in cells["recall"].items():
        found = [NAMES[name], *(in_words(recall[part]) for part in ("p50_ms", "p99_ms", "per_second", "recall_at_10"))]
        if name in cells["add"]:
            add, cold_start = cells["add"][name], cells["cold"][name]
            found += [in_words(add["p50_ms"]), in_words(add["p99_ms"]), in_words(cells["bulk"][name]["rows_per_second"])]
            found += [in_words(cold_start[part]) for part in ("open_and_recall_ms", "import_ms")]
            found.append(in_words(cold_start["disk_bytes"] / 1e6))
        yield found + [""] * (len(_HEADS) - len(found))


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
    report["ratios"] = ratios(report)
    report["targets"] = [dict(zip(("name", "bar", "measured", "met"), one, strict=True)) for one in targets(report)]
    show(report)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "peers.json").write_text(json.dumps(report, indent=1) + "\n")
    (options.out / "peers.svg").write_text(charts(report))
    return None


if __name__ == "__main__":
    main()
