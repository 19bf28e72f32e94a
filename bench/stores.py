"""Each record store's own figures: single add, bulk add, get, find, text search, recall; the same memories on each.

A store that is not built in, or whose engine is not installed, is named and left out. `--stores` chooses.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parent))

from plots import bar_chart
from shared import Corpus, Lookup, console, corpus, in_words, key, machine, summary, table, timed

RESULTS = Path(__file__).parent / "results"
BATCH = 1000


@contextmanager
def _sqlite(folder: Path) -> Iterator[str]:
    yield str(folder / "memories.db")


@contextmanager
def _encrypted(folder: Path) -> Iterator[str]:
    yield _with_key("memories.db", folder)


def _with_key(store: str, folder: Path) -> str:
    from recollect.adapters.encryption.master_key import new_key

    (folder / "key").write_text(new_key())
    settings = folder / "settings.yaml"
    settings.write_text(f"store: {store}\nkey_file: {folder / 'key'}\n")
    return str(settings)


@contextmanager
def _memory(folder: Path) -> Iterator[str]:
    yield "memory://"


@contextmanager
def _postgres(folder: Path) -> Iterator[str]:
    from postgres_server import Server

    server = Server(durable=True)
    try:
        yield server.new_database()
    finally:
        server.stop()


@contextmanager
def _postgres_with_key(folder: Path) -> Iterator[str]:
    with _postgres(folder) as address:
        yield _with_key(address, folder)


@contextmanager
def _postgres_with_encrypted_texts(folder: Path) -> Iterator[str]:
    import recollect

    with _postgres_with_key(folder) as address:
        memory: Any = recollect.open(address, embedder="none")
        with memory as mem:
            mem.encryption.text("on")
        yield address


@contextmanager
def _duckdb(folder: Path) -> Iterator[str]:
    yield f"duckdb:///{folder / 'memories.duckdb'}"


@contextmanager
def _dynamodb(folder: Path) -> Iterator[str]:
    from dynamodb_server import dynamodb  # the emulator that the tests start

    yield dynamodb().new_store()


STORES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "sqlite": (_sqlite, "recollect.adapters.records.sqlite.store"),
    "encrypted sqlite": (_encrypted, "recollect.adapters.records.sqlite.store"),
    "memory": (_memory, "recollect.adapters.records.in_memory"),
    "postgres": (_postgres, "recollect.adapters.records.postgres.store"),
    "postgres with a key": (_postgres_with_key, "recollect.adapters.records.postgres.store"),
    "postgres, texts encrypted": (_postgres_with_encrypted_texts, "recollect.adapters.records.postgres.store"),
    "duckdb": (_duckdb, "recollect.adapters.records.duckdb.store"),
    "dynamodb": (_dynamodb, "recollect.adapters.records.dynamodb.store"),
}
HELPERS = {"dynamodb": "dynamodb_server"}


def missing(name: str) -> bool:
    return not all(
        importlib.util.find_spec(one) for one in (STORES[name][1], *([HELPERS[name]] if name in HELPERS else []))
    )


def measure(address: str, data: Corpus, rows: int, times: int) -> dict[str, Any]:
    import recollect
    from recollect.domain.memory import Memory
    from recollect.ports.query import Order, Query, TextQuery, equal

    with recollect.open(address, embedder=Lookup(data.vector)) as mem:
        data.add_people(mem)
        begun = time.perf_counter()
        for start in range(0, rows, BATCH):
            mem.remember_many([_request(data, place) for place in range(start, min(start + BATCH, rows))])
        bulk = rows / (time.perf_counter() - begun)
        store, scope = mem._core.store, mem._scope
        newest = (Order("id", descending=True),)

        def find(place: int) -> Any:
            return store.find(scope, Query(Memory, (equal("user_id", data.users[place]),), newest, limit=10))

        work: dict[str, Callable[[int], Any]] = {
            "add": lambda place: _add(mem, data, rows + place),
            "get": lambda place: store.get(scope, Memory, key(place)),
            "find": find,
            "text search": lambda place: store.search_text(
                scope, TextQuery(Memory, tuple(data.texts[place].split()[3:5]), 10)
            ),
            "recall": lambda place: mem.recall(data.questions[place][1], user=data.questions[place][0], limit=10),
        }
        found = {
            name: summary(timed([partial(do, place) for place in range(times)], 20.0)) for name, do in work.items()
        }
    return {"bulk": {"rows_per_second": round(bulk)}, **found}


def _request(data: Corpus, place: int) -> dict[str, Any]:
    return {"content": data.texts[place], "id": key(place), **data.told(place)}


def _add(mem: Any, data: Corpus, place: int) -> None:
    mem.remember(**_request(data, place))


def run(names: list[str], rows: int, times: int) -> dict[str, Any]:
    data = corpus(rows + times, questions=times)
    report: dict[str, Any] = {"machine": machine(), "rows": rows, "stores": {}}
    for name in names:
        if missing(name):
            console.print(f"[yellow]without {name}: it is not here[/]")
            continue
        with tempfile.TemporaryDirectory(prefix="recollect-bench-") as folder, STORES[name][0](Path(folder)) as address:
            report["stores"][name] = measure(address, data, rows, times)
    return report


def show(report: dict[str, Any]) -> None:
    measures = [name for name in next(iter(report["stores"].values())) if name != "bulk"]
    rows = [
        [name, in_words(cells["bulk"]["rows_per_second"]), *(in_words(cells[one]["p50_ms"]) for one in measures)]
        for name, cells in report["stores"].items()
    ]
    heads = ("store", "bulk rows/s", *(f"{one} p50 ms" for one in measures))
    console.print(table(f"{report['rows']:,} memories", heads, rows))


def chart(report: dict[str, Any]) -> str:
    stores = report["stores"]
    measures = [name for name in next(iter(stores.values())) if name != "bulk"]
    return bar_chart(
        f"The record stores, {report['rows']:,} memories",
        {
            "median ms": {one: {name: cells[one]["p50_ms"] for name, cells in stores.items()} for one in measures},
            "bulk add, rows a second": {"": {n: cells["bulk"]["rows_per_second"] for n, cells in stores.items()}},
        },
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stores", nargs="+", choices=list(STORES), default=list(STORES))
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--out", type=Path, default=RESULTS, help="where stores.json and stores.svg go")
    options = parser.parse_args()
    report = run(options.stores, options.rows, options.times)
    show(report)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "stores.json").write_text(json.dumps(report, indent=1) + "\n")
    (options.out / "stores.svg").write_text(chart(report))


if __name__ == "__main__":
    main()
