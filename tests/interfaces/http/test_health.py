"""Health is answered whatever else goes on: nothing that waits or computes is done where requests are taken in."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.testclient import TestClient

import recollect
from probing import operations, sample
from recollect.domain.access import PERMISSIONS
from recollect.interfaces.http.connection_limits import Connections
from recollect.interfaces.remote_exchange import wired
from recollect.interfaces.serve import application, listening
from recollect.ports.records import Scope
from recollect.services.access import keys
from recollect.settings import ServerSettings, Settings
from recollect.testing.fakes import HashEmbedder

THREADS, WAITING, ASKED = 2, 3, 200


class Stuck(HashEmbedder):
    """A model that does not answer until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.is_let_go = threading.Event()
        self.asked = threading.Semaphore(0)

    def embed_query(self, text: str) -> Any:
        self.asked.release()
        assert self.is_let_go.wait(300)
        return super().embed_query(text)


def key_of(mem: Any) -> str:
    request = keys.AddKeyRequest(name="all", scopes=list(PERMISSIONS))
    return keys.add_key(mem._core.for_scope(Scope("default")), request).key


@contextmanager
def serving(core: Any, **server: Any) -> Iterator[int]:
    """A real server on a port of its own, in a thread."""
    settings = Settings(server={"upkeep_seconds": 1e6, "port": 0, "rate_per_minute": 10**9, **server})
    with listening(ServerSettings(port=0)) as (listener, _):
        protocol: Any = Connections(settings.server).protocol
        config = uvicorn.Config(application(core, settings), http=protocol, ws="none", log_config=None, lifespan="on")
        running = uvicorn.Server(config)
        thread = threading.Thread(target=lambda: asyncio.run(running._serve([listener])))
        port = int(listener.getsockname()[1])
        thread.start()
        try:
            yield port
        finally:
            running.should_exit = True
            thread.join()


def asked(port: int, method: str, path: str, body: str | None = None, key: str = "") -> int:
    connection = HTTPConnection("127.0.0.1", port, timeout=300)
    try:
        headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


def figures(port: int) -> str:
    connection = HTTPConnection("127.0.0.1", port, timeout=300)
    try:
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def test_health_is_answered_while_every_worker_is_busy_and_the_queue_is_full(tmp_path: Path) -> None:
    with recollect.open(tmp_path / "x.db", embedder="hash") as mem:
        mem.remember("something")
        key, stuck = key_of(mem), Stuck()
        core = dataclasses.replace(mem._core, embedders=(stuck,))
        with serving(core, threads=THREADS, waiting=WAITING) as port, ThreadPoolExecutor(THREADS + WAITING) as pool:
            recalls = [
                pool.submit(asked, port, "POST", "/v1/recall", '{"query": "something"}', key)
                for _ in range(THREADS + WAITING)
            ]
            try:
                assert stuck.asked.acquire(timeout=300)
                while f"requests_inside {THREADS + WAITING}.0\n" not in figures(port):
                    pass  # until those that wait have all come
                statuses = [asked(port, "GET", "/health") for _ in range(ASKED)]
                assert statuses == [200] * ASKED
                assert not any(one.done() for one in recalls), "and all that while nobody was let go"
                assert asked(port, "GET", "/ready") == 503, "which says that no more would be served"
            finally:
                stuck.is_let_go.set()
            assert [one.result() for one in recalls] == [200] * (THREADS + WAITING)
            assert asked(port, "GET", "/ready") == 200


@pytest.fixture
def watched(mem: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, str, list[str]]]:
    """A client of a service, its key, and the verbs of the store and the model that were called where requests are
    taken in. Every note is written at once, so that one made there is seen."""
    monkeypatch.setattr("recollect.services.access_journal.MOST_WAITING", 1)
    wrong: list[str] = []
    key = key_of(mem)
    agent = mem.agent.add("a", id="something").id
    mem.workspace.add(agent, id="w")
    store = mem._core.store
    for name in [one for one in dir(type(store)) if not one.startswith("_") and callable(getattr(store, one))]:
        monkeypatch.setattr(store, name, _noting(name, getattr(store, name), wrong))
    settings = Settings(server={"upkeep_seconds": 1e6, "rate_per_minute": 10**9})
    with TestClient(application(mem._core, settings), "http://127.0.0.1", raise_server_exceptions=False) as client:
        client.headers["authorization"] = f"Bearer {key}"
        yield client, key, wrong


def _noting(name: str, verb: Any, wrong: list[str]) -> Any:
    def called(*given: Any, **fields: Any) -> Any:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            wrong.append(name)
        return verb(*given, **fields)

    return called


def test_no_request_makes_the_door_wait_for_the_store(watched: Any) -> None:
    client, _, wrong = watched
    for operation in operations():
        for fields in (sample(operation), {**sample(operation), "no_such_field": 1}):
            method, path, body = wired(operation, dict(fields))
            client.request(method, path, content=body, headers={"content-type": "application/json"})
            assert not wrong, operation.name
    client.get("/v1/stats", headers={"authorization": "Bearer rk.a.b.c"})
    assert not wrong


def test_files_pages_and_figures_do_not_either(watched: Any) -> None:
    client, key, wrong = watched
    raw = {"content-type": "application/octet-stream", "accept": "application/octet-stream"}
    assert client.put("/v1/workspaces/w/files/a/b", content=b"x" * 500_000, headers=raw).status_code == 200
    assert client.get("/v1/workspaces/w/files/a/b", headers=raw).content == b"x" * 500_000
    exported = client.get("/v1/export").content
    assert client.post("/v1/import", content=exported).status_code == 200
    for path in ("/health", "/ready", "/metrics", "/openapi.json", "/console/sign-in"):
        client.get(path)
    client.post("/console/sign-in", data={"email": "a@example.com", "password": "not the password"})
    client.cookies.set("recollect", key)
    for path in ("", "/search?q=x", "/memories/none", "/audit", "/users", "/keys", "/settings", "/workspaces/w"):
        client.get(f"/console{path}")
    assert not wrong


def test_tools_over_mcp_do_not_either(watched: Any, mem: Any) -> None:
    client, _, wrong = watched
    accept = {"accept": "application/json, text/event-stream"}
    reader = mem.key.add("reader", scopes=["read"]).key
    for key in (client.headers["authorization"].removeprefix("Bearer "), reader):
        headers = accept | {"authorization": f"Bearer {key}"}
        for method, params in (
            ("tools/list", {}),
            ("tools/call", {"name": "remember", "arguments": {"content": "by tool"}}),
            ("tools/call", {"name": "recall", "arguments": {"query": "tool"}}),
            ("tools/call", {"name": "sweep", "arguments": {}}),
            ("resources/list", {}),
            ("resources/read", {"uri": "recollect://stats"}),
            ("resources/read", {"uri": "memory://absent"}),
        ):
            message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            assert client.post("/mcp?profile=all", json=message, headers=headers).status_code == 200
            assert not wrong, (method, params)
