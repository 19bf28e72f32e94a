"""The service under load: remember and recall over HTTP with 1, 8 and 64 clients, beside others in the same run.

    python bench/service.py            # into bench/results/service.json and service.svg
    python bench/service.py --rows 1000 --seconds 1

A second process asks, over connections that stay open, one request after another on each. Beside Recollect stand the
same with two workers, a bare FastAPI endpoint that reads a JSON body and does nothing (the floor of a Python web
service here) and Chroma's own server (a vector database alone: no words, no evidence, no access log, no keys). Texts
are embedded by hashing, so that no model's speed is in the numbers; both get the same vectors. All take turns, a few
times each cell, so that what else the machine does falls on all; where that is much, the processor's time of a request
says more than the clock.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from plots import bar_chart
from shared import DIMENSIONS, Corpus, console, corpus, in_words, machine, summary, table

RESULTS = Path(__file__).parent / "results"
NAMES = {
    "recollect": "Recollect",
    "workers": "Recollect, 2 workers",
    "bare": "bare FastAPI",
    "chroma": "Chroma server",
}
CLIENTS = (1, 8, 64)
BATCH = 500
ROUNDS = 3
SHOWN = ("per_second", "p50_ms", "p99_ms", "cpu_ms")


@dataclass
class Served:
    """A server that listens, and how it is asked: path and body of the n-th request."""

    port: int
    process: int
    headers: dict[str, str]
    remember: Callable[[int], tuple[str, Any]]
    recall: Callable[[int], tuple[str, Any]]


# -- servers ---------------------------------------------------------------------------------------------------------


@contextmanager
def recollect(folder: Path, data: Corpus, workers: int = 1) -> Iterator[Served]:
    from recollect import connect

    settings = {"EMBEDDER__PROVIDER": "hash", "EMBEDDER__DIMENSIONS": str(DIMENSIONS)}
    settings |= {"SERVER__RATE_PER_MINUTE": str(10**9)}
    environment = {**os.environ, **{f"RECOLLECT_{name}": value for name, value in settings.items()}}
    command = [sys.executable, "-m", "recollect", "serve", str(folder / "x.db"), "--port", "0"]
    command += ["--workers", str(workers)]
    with (folder / "log").open("w+") as log, started(command, environment, log) as process:
        wait(lambda: "listens on" in (folder / "log").read_text())
        said = (folder / "log").read_text()
        key, port = (folder / "x.db.owner-key").read_text().strip(), int(re.findall(r"listens on \S+:(\d+)", said)[0])
        served = Served(
            port,
            process,
            {"authorization": f"Bearer {key}"},
            lambda n: (
                "/v1/memories",
                {"content": f"{data.texts[n % len(data)]} Again {n}.", **data.told(n % len(data))},
            ),
            lambda n: ("/v1/recall", {"query": data.questions[n % len(data.questions)][1], "limit": 10}),
        )
        with connect(f"http://127.0.0.1:{port}", key=key) as mem:
            data.add_people(mem)
        told = [{"content": text, **data.told(place)} for place, text in enumerate(data.texts)]
        for start in range(0, len(data), BATCH):
            ask(served, "/v1/memories/batch", {"memories": told[start : start + BATCH]})
        ask(served, "/v1/reindex", {})  # large batches leave vectors to be made later
        yield served


def with_workers(folder: Path, data: Corpus) -> AbstractContextManager[Served]:
    return recollect(folder, data, workers=2)


@contextmanager
def bare(folder: Path, data: Corpus) -> Iterator[Served]:
    port = free_port()
    with started([sys.executable, __file__, "--bare", str(port)], dict(os.environ), subprocess.DEVNULL) as process:
        wait(lambda: listens(port))
        yield Served(
            port,
            process,
            {},
            lambda n: ("/", {"content": data.texts[n % len(data)]}),
            lambda n: ("/", {"query": data.questions[n % len(data.questions)][1], "limit": 10}),
        )


def serve_bare(port: int) -> None:
    import uvicorn
    from fastapi import FastAPI

    app = FastAPI()

    async def nothing(body: dict[str, Any]) -> dict[str, Any]:
        return {}

    app.post("/")(nothing)
    uvicorn.run(app, port=port, log_level="error", access_log=False)


@contextmanager
def chroma(folder: Path, data: Corpus) -> Iterator[Served]:
    from recollect.testing.fakes import HashEmbedder

    embedder, port = HashEmbedder(DIMENSIONS), free_port()
    program = shutil.which("chroma", path=str(Path(sys.executable).parent)) or "chroma"
    command = [program, "run", "--path", str(folder / "chroma"), "--port", str(port)]
    with started(command, {**os.environ, "ANONYMIZED_TELEMETRY": "False"}, subprocess.DEVNULL) as process:
        wait(lambda: listens(port))
        collections = "/api/v2/tenants/default_tenant/databases/default_database/collections"
        served = Served(port, process, {}, lambda n: ("", {}), lambda n: ("", {}))
        home = f"{collections}/{ask(served, collections, {'name': 'bench'})['id']}"
        asked = [embedder.embed_query(text).tolist() for _, text in data.questions]

        def added(start: int, texts: list[str]) -> tuple[str, Any]:
            ids = [f"m{start + place}" for place in range(len(texts))]
            return f"{home}/add", {"ids": ids, "documents": texts, "embeddings": embedder.embed(texts).tolist()}

        for start in range(0, len(data), BATCH):
            ask(served, *added(start, data.texts[start : start + BATCH]))
        served.remember = lambda n: added(len(data) + n, [f"{data.texts[n % len(data)]} Again {n}."])
        served.recall = lambda n: (f"{home}/query", {"query_embeddings": [asked[n % len(asked)]], "n_results": 10})
        yield served


PRODUCTS = {"recollect": recollect, "workers": with_workers, "bare": bare, "chroma": chroma}


def missing() -> set[str]:
    needs = {"bare": "fastapi", "chroma": "chromadb"}
    return {name for name, module in needs.items() if importlib.util.find_spec(module) is None}


@contextmanager
def started(command: list[str], environment: dict[str, str], output: Any) -> Iterator[int]:
    process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    try:
        yield process.pid
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def cpu_seconds(process: int) -> float:
    """What a process and those it has started have used of the processor so far."""
    stat = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    own = (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
    return own + sum(map(cpu_seconds, map(int, children)))


def wait(ready: Callable[[], bool], seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            raise SystemExit("a server did not start")
        time.sleep(0.05)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def ask(served: Served, path: str, body: Any) -> Any:
    connection = HTTPConnection("127.0.0.1", served.port, timeout=120)
    connection.request("POST", path, json.dumps(body), {"content-type": "application/json", **served.headers})
    answer = connection.getresponse()
    told = answer.read()
    connection.close()
    if answer.status >= 300:
        raise SystemExit(f"{path} answered {answer.status}: {told[:200]!r}")
    return json.loads(told)


# -- the load, in a process of its own -------------------------------------------------------------------------------


def generate(port: int, clients: int, seconds: float, requests: Path) -> None:
    """Ask what stands in the file, one request a line, on so many connections; print the milliseconds of each."""
    lines = [
        line.encode("latin-1").decode("unicode_escape").encode("latin-1") for line in requests.read_text().split("\n")
    ]
    print(json.dumps(asyncio.run(_load(port, clients, seconds, lines))))


async def _load(port: int, clients: int, seconds: float, requests: list[bytes]) -> dict[str, Any]:
    spent: list[float] = []
    wrong = 0
    waiting = iter(requests)
    begun = time.perf_counter()

    async def client() -> None:
        nonlocal wrong
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for request in waiting:
            at = time.perf_counter()
            if at - begun > seconds:
                break
            writer.write(request)
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = re.search(rb"content-length: (\d+)", head)
            await reader.readexactly(int(length[1]) if length else 0)
            spent.append((time.perf_counter() - at) * 1000)
            wrong += not head.startswith(b"http/1.1 2")
        writer.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    return {"milliseconds": spent, "wrong": wrong, "seconds": time.perf_counter() - begun}


def _raw(served: Served, path: str, body: Any) -> str:
    content = json.dumps(body)
    headers = {"host": f"127.0.0.1:{served.port}", "content-type": "application/json", "content-length": len(content)}
    lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in {**headers, **served.headers}.items())]
    return ("\r\n".join(lines) + "\r\n\r\n" + content).encode("unicode_escape").decode()


class Load:
    """Asks a server for a while, with so many clients; adds up what it found."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self._folder, self._seconds, self._asked = folder, seconds, 0

    def ask(self, served: Served, operation: str, clients: int, cell: Cell) -> None:
        most = int(self._seconds * 6000) + clients
        made = getattr(served, operation)
        file = self._folder / "requests"
        file.write_text("\n".join(_raw(served, *made(self._asked + number)) for number in range(most)))
        self._asked += most
        options = [str(served.port), str(clients), str(self._seconds), str(file)]
        before = cpu_seconds(served.process)
        done = subprocess.run(
            [sys.executable, __file__, "--load", *options], capture_output=True, text=True, check=True
        )
        found = json.loads(done.stdout)
        if found["wrong"]:
            raise SystemExit(f"{found['wrong']} of {len(found['milliseconds'])} requests failed")
        cell.milliseconds += found["milliseconds"]
        cell.seconds += found["seconds"]
        cell.cpu_seconds += cpu_seconds(served.process) - before


@dataclass
class Cell:
    """One product, one operation, so many clients."""

    milliseconds: list[float] = field(default_factory=list)
    seconds: float = 0.0
    cpu_seconds: float = 0.0

    def summary(self) -> dict[str, float]:
        per_second = float(f"{len(self.milliseconds) / self.seconds:.4g}")
        return summary(self.milliseconds, self.cpu_seconds) | {"per_second": per_second}


# -- the run ---------------------------------------------------------------------------------------------------------


def run(rows: int, seconds: float, clients: list[int], products: list[str], rounds: int) -> dict[str, Any]:
    data = corpus(rows)
    cells: dict[str, Any] = {operation: {} for operation in ("remember", "recall")}
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as running:
        served = {}
        for name in products:
            folder = Path(scratch) / name
            folder.mkdir()
            served[name] = running.enter_context(PRODUCTS[name](folder, data))
        load = Load(Path(scratch), seconds / rounds)
        for operation, by_clients in cells.items():
            for count in clients:
                found = {name: Cell() for name in served}
                for name in [*served] * rounds:
                    load.ask(served[name], operation, count, found[name])
                by_clients[str(count)] = {name: cell.summary() for name, cell in found.items()}
    versions = {"bare": "fastapi", "chroma": "chromadb", "recollect": "recollect", "workers": "recollect"}
    return {
        "machine": machine(),
        "versions": {name: importlib.metadata.version(versions[name]) for name in products},
        "rows": rows,
        "cells": cells,
        "ratios": ratios(cells),
    }


def ratios(cells: dict[str, Any]) -> dict[str, Any]:
    """Requests a second of each, over ours."""
    return {
        operation: {
            count: {
                name: float(f"{one['per_second'] / by_name['recollect']['per_second']:.3g}")
                for name, one in by_name.items()
                if name != "recollect"
            }
            for count, by_name in by_clients.items()
        }
        for operation, by_clients in cells.items()
    }


def show(report: dict[str, Any]) -> None:
    for operation, by_clients in report["cells"].items():
        rows = [
            (f"{NAMES[name]}, {count} clients", *(in_words(one[part]) for part in SHOWN))
            for count, by_name in by_clients.items()
            for name, one in by_name.items()
        ]
        title = f"{operation} over HTTP, {report['rows']:,} memories"
        console.print(table(title, ("", "requests/s", "p50 ms", "p99 ms", "CPU ms"), rows))
    console.print(f"load {report['machine']['load_average']}; the load generator shares the machine")


def charts(report: dict[str, Any]) -> str:
    panels = {
        f"{operation}, {title}": {
            f"{count} clients": {NAMES[name]: one[part] for name, one in by_name.items()}
            for count, by_name in by_clients.items()
        }
        for operation, by_clients in report["cells"].items()
        for title, part in (("requests a second", "per_second"), ("p99 ms", "p99_ms"))
    }
    return bar_chart("The service under load", panels)


def main() -> None:
    if sys.argv[1:2] == ["--bare"]:
        return serve_bare(int(sys.argv[2]))
    if sys.argv[1:2] == ["--load"]:
        port, clients, seconds, requests = sys.argv[2:]
        return generate(int(port), int(clients), float(seconds), Path(requests))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000, help="how many memories are there before")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long each cell is asked")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="in how many turns")
    parser.add_argument("--clients", type=int, nargs="+", default=list(CLIENTS))
    parser.add_argument("--products", nargs="+", choices=list(PRODUCTS), default=list(PRODUCTS))
    parser.add_argument("--out", type=Path, default=RESULTS, help="where service.json and service.svg go")
    options = parser.parse_args()
    absent = missing()
    for name in absent & set(options.products):
        console.print(f"[yellow]without {NAMES[name]}: it is not installed[/]")
    chosen = ["recollect", *(name for name in options.products if name not in absent and name != "recollect")]
    report = run(options.rows, options.seconds, options.clients, chosen, options.rounds)
    show(report)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "service.json").write_text(json.dumps(report, indent=1) + "\n")
    (options.out / "service.svg").write_text(charts(report))
    return None


if __name__ == "__main__":
    main()
