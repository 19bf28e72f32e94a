"""Recollect beside LangGraph's PostgresStore: one run, one real PostgreSQL server with fsync on, the same vectors.

Both keep the memories of 100 users in a database of their own and take turns: single adds, bulk adds, then the ten best
memories for a question, of one user (scoped), of everybody (broad), and under filters that half, a tenth and 1% of
the memories pass. Ratios are to Recollect; above 1 Recollect is the faster. recall@10 is the share of the exact ten
nearest. PostgresStore searches with its default HNSW index; Recollect by meaning, which is what the other does, and as
users call it, with full text, ranking, citations and audit.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parent))

from plots import bar_chart
from postgres_server import Server
from shared import DIMENSIONS, Corpus, Lookup, console, corpus, in_words, key, machine, summary, sync_ms, table, timed

RESULTS = Path(__file__).parent / "results"
BATCH, ROUNDS, LIMIT = 1000, 5, 10
SHARES = {"half": 2, "tenth": 10, "hundredth": 100}
SCOPES = ("scoped to a user", "broad", "filter 50%", "filter 10%", "filter 1%")
RECOLLECT, MEANING, PEER = "Recollect", "Recollect, by meaning", "PostgresStore"


def marks(place: int) -> dict[str, str]:
    """Which parts of the memories one belongs to; the hundredth is its user."""
    return {"half": f"half-{place % 2}", "tenth": f"tenth-{place // 2 % 10}", "hundredth": f"user-{place % 100:03d}"}


class Ours:
    def __init__(self, address: str, data: Corpus) -> None:
        import recollect

        self._data = data
        self._mem = recollect.open(address, embedder=Lookup(data.vector))
        data.add_people(self._mem)
        for number in range(2):
            self._mem.project.add(f"half {number}", id=f"half-{number}")
        for number in range(10):
            self._mem.agent.add(f"tenth {number}", id=f"tenth-{number}")

    def _request(self, place: int) -> dict[str, Any]:
        of = marks(place)
        told = self._data.told(place) | {"project": of["half"], "agent": of["tenth"]}
        return {"content": self._data.texts[place], "id": key(place), **told}

    def add(self, place: int) -> None:
        request = self._request(place)
        self._mem.remember(request.pop("content"), **request)

    def add_many(self, places: Sequence[int]) -> None:
        self._mem.remember_many([self._request(place) for place in places])

    def settle(self) -> None:
        self._mem._core.vectors.refresh()

    def recall(self, question: int, within: Mapping[str, str], by: Any = "everything") -> list[str]:
        names = {"half": "project", "tenth": "agent", "hundredth": "user", "user": "user"}
        where: dict[str, Any] = {names[name]: value for name, value in within.items()}
        text = self._data.questions[question][1]
        return [hit.id for hit in self._mem.recall(text, limit=LIMIT, by=by, **where)]

    def close(self) -> None:
        self._mem.close()


class Peer:
    def __init__(self, address: str, data: Corpus) -> None:
        from langgraph.store.postgres import PostgresStore

        self._data = data
        index: Any = {"dims": DIMENSIONS, "embed": self._embed, "fields": ["text"]}
        self._made = PostgresStore.from_conn_string(address, index=index)
        self._store = self._made.__enter__()
        self._store.setup()

    def _embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [self._data.vector(text).tolist() for text in texts]

    def add(self, place: int) -> None:
        value = {"text": self._data.texts[place], **marks(place)}
        self._store.put(("memories", marks(place)["hundredth"]), key(place), value, index=["text"])

    def add_many(self, places: Sequence[int]) -> None:
        from langgraph.store.base import PutOp

        self._store.batch(
            [
                PutOp(
                    ("memories", marks(one)["hundredth"]),
                    key(one),
                    {"text": self._data.texts[one], **marks(one)},
                    ["text"],
                )
                for one in places
            ]
        )

    def settle(self) -> None:
        """Its index is always there."""

    def recall(self, question: int, within: Mapping[str, str]) -> list[str]:
        given = dict(within)
        space = ("memories", given.pop("user")) if "user" in given else ("memories",)
        text = self._data.questions[question][1]
        return [item.key for item in self._store.search(space, query=text, filter=given or None, limit=LIMIT)]

    def close(self) -> None:
        self._made.__exit__(None, None, None)


def within(scope: str, question: int) -> dict[str, str]:
    of = marks(question)
    return {
        "scoped to a user": {"user": of["hundredth"]},
        "broad": {},
        "filter 50%": {"half": of["half"]},
        "filter 10%": {"tenth": of["tenth"]},
        "filter 1%": {"hundredth": of["hundredth"]},
    }[scope]


def exact(data: Corpus, stored: int, question: int, where: Mapping[str, str]) -> set[str]:
    passing = [
        n for n in range(stored) if all(marks(n)[{"user": "hundredth"}.get(k, k)] == v for k, v in where.items())
    ]
    similarity = data.vectors[passing] @ data.question_vectors[question]
    return {key(passing[n]) for n in np.argsort(-similarity)[:LIMIT]}


def run(rows: int, adds: int, recalls: int, cell_seconds: float) -> dict[str, Any]:
    begun, data = time.perf_counter(), corpus(rows + adds, questions=max(1, recalls))
    server = Server(durable=True)
    try:
        products: dict[str, Any] = {RECOLLECT: Ours(server.new_database(), data)}
        if importlib.util.find_spec("langgraph.store.postgres"):
            products[PEER] = Peer(server.new_database(), data)
        report: dict[str, Any] = {
            "machine": machine(),
            "sync": sync_ms(server.folder),
            "server": server.admin("SHOW server_version")[0][0],
            "versions": {"langgraph-checkpoint-postgres": _version("langgraph-checkpoint-postgres")},
            "rows": rows,
            "dimensions": DIMENSIONS,
            "bulk": _bulk(products, rows),
            "add": _adds(products, rows, adds),
        }
        for one in products.values():
            one.settle()
        server.admin("SELECT 1")
        report["recall"] = _recalls(products, data, rows + adds, recalls, cell_seconds)
        for one in products.values():
            one.close()
    finally:
        server.stop()
    report["ratios"] = ratios(report)
    report["seconds"] = round(time.perf_counter() - begun)
    return report


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _bulk(products: Mapping[str, Any], rows: int) -> dict[str, Any]:
    spent = dict.fromkeys(products, 0.0)
    for start in range(0, rows, BATCH):
        places = range(start, min(start + BATCH, rows))
        for name, product in products.items():
            begun = time.perf_counter()
            product.add_many(places)
            spent[name] += time.perf_counter() - begun
    return {name: {"rows_per_second": round(rows / seconds)} for name, seconds in spent.items()}


def _adds(products: Mapping[str, Any], start: int, adds: int) -> dict[str, Any]:
    spent: dict[str, list[float]] = {name: [] for name in products}
    each = max(1, adds // ROUNDS)
    for number in range(ROUNDS):
        places = range(start + number * each, min(start + (number + 1) * each, start + adds))
        for name, product in products.items():
            spent[name] += timed([partial(product.add, place) for place in places], float("inf"))
    return {name: summary(each) for name, each in spent.items()}


def _recalls(products: Mapping[str, Any], data: Corpus, stored: int, recalls: int, seconds: float) -> dict[str, Any]:
    ways: dict[str, Callable[..., list[str]]] = {RECOLLECT: products[RECOLLECT].recall}
    ways[MEANING] = partial(products[RECOLLECT].recall, by="meaning")
    if PEER in products:
        ways[PEER] = products[PEER].recall
    found: dict[str, Any] = {}
    for scope in SCOPES:
        found[scope] = {}
        spent: dict[str, list[float]] = {name: [] for name in ways}
        shares: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(ROUNDS):
            questions = range(number, recalls, ROUNDS)
            for name, way in ways.items():
                answers: dict[int, list[str]] = {}
                work = [partial(_ask, way, question, scope, answers) for question in questions]
                spent[name] += timed(work, seconds / ROUNDS)
                for question, ids in answers.items():
                    truth = exact(data, stored, question, within(scope, question))
                    shares[name].append(len(truth & set(ids)) / max(1, len(truth)))
        for name in ways:
            found[scope][name] = {**summary(spent[name]), "recall_at_10": round(float(np.mean(shares[name])), 4)}
    return found


def _ask(way: Callable[..., list[str]], question: int, scope: str, answers: dict[int, list[str]]) -> None:
    answers[question] = way(question, within(scope, question))


def ratios(report: Mapping[str, Any]) -> dict[str, float]:
    """How many times as fast as PostgresStore."""
    if PEER not in report["add"]:
        return {}
    found = {
        "add": report["add"][PEER]["p50_ms"] / report["add"][RECOLLECT]["p50_ms"],
        "bulk": report["bulk"][RECOLLECT]["rows_per_second"] / report["bulk"][PEER]["rows_per_second"],
    }
    for scope, cells in report["recall"].items():
        found[f"{scope}, by meaning"] = cells[PEER]["p50_ms"] / cells[MEANING]["p50_ms"]
        found[scope] = cells[PEER]["p50_ms"] / cells[RECOLLECT]["p50_ms"]
    return {name: float(f"{value:.3g}") for name, value in found.items()}


def show(report: Mapping[str, Any]) -> None:
    rows = [
        [f"{scope}: {name}", in_words(cell["p50_ms"]), in_words(cell["p99_ms"]), in_words(cell["recall_at_10"])]
        for scope, cells in report["recall"].items()
        for name, cell in cells.items()
    ]
    console.print(table(f"{report['rows']:,} memories", ("recall", "p50 ms", "p99", "recall@10"), rows))
    written = [[name, in_words(report["add"][name]["p50_ms"]), in_words(report["bulk"][name]["rows_per_second"])]
               for name in report["add"]]  # fmt: skip
    console.print(table("", ("writing", "add p50 ms", "bulk rows/s"), written))
    console.print(
        table("", ("times as fast as PostgresStore", ""), [(n, f"{v:.3g}x") for n, v in report["ratios"].items()])
    )


def chart(report: Mapping[str, Any]) -> str:
    recall = {scope: {name: one["p50_ms"] for name, one in cells.items()} for scope, cells in report["recall"].items()}
    return bar_chart(
        f"PostgreSQL: Recollect beside LangGraph's PostgresStore, {report['rows']:,} memories",
        {
            "the ten best, median ms": recall,
            "single durable add, median ms": {"": {name: one["p50_ms"] for name, one in report["add"].items()}},
            "bulk add, rows a second": {"": {name: one["rows_per_second"] for name, one in report["bulk"].items()}},
        },
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--adds", type=int, default=200)
    parser.add_argument("--recalls", type=int, default=100)
    parser.add_argument("--cell-seconds", type=float, default=15.0, help="the most for one product's recalls")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where postgres.json and postgres.svg go")
    options = parser.parse_args()
    report = run(options.rows, options.adds, options.recalls, options.cell_seconds)
    show(report)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "postgres.json").write_text(json.dumps(report, indent=1) + "\n")
    (options.out / "postgres.svg").write_text(chart(report))


if __name__ == "__main__":
    main()
