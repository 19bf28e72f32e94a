"""Two tenants on one service: one that asks, one with something to find."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import uvicorn
from anyio.from_thread import BlockingPortal, start_blocking_portal
from starlette.testclient import TestClient

import recollect
from filling import fill
from mcp_hosts import over_stdio
from probing import MARKER
from recollect.domain.access import PERMISSIONS
from recollect.domain.record import RECORDS, new_id
from recollect.interfaces.serve import application
from recollect.ports.query import Query
from recollect.ports.records import Scope
from recollect.services.access import keys
from recollect.services.admin.copy import content_hash
from recollect.settings import Settings


class Stdio(NamedTuple):
    portal: BlockingPortal
    client: Any

    def call(self, name: str, fields: dict[str, Any]) -> Any:
        return self.portal.call(self.client.call_tool, name, fields)


class World:
    """An open store with the tenants `mine` and `theirs`, and a client of the service before it."""

    def __init__(self, mem: Any, path: Path, until_the_end: ExitStack) -> None:
        self.core = mem._core
        self._stack = until_the_end
        self.settings = path.with_name("mine.yaml")
        told = {"store": path.name, "organization": "mine", "actor": "me", "embedder": "hash", "citation_roots": []}
        self.settings.write_text(json.dumps(told))
        self.mine, self.theirs = mem.within("mine", actor="me"), mem.within("theirs", actor="they")
        settings = Settings(
            store=str(path), organization="operator", server={"rate_per_minute": 10**9, "upkeep_seconds": 1e6}
        )
        self._make = lambda: application(self.core, settings)
        self.http = TestClient(
            self._make(), "http://127.0.0.1", raise_server_exceptions=False, client=("127.0.0.1", 50000)
        )
        self.keys: dict[tuple[str, frozenset[str]], str] = {}
        # One of each table. What is kept by its content may be in both; and some probes take a foreign id as their own.
        own = {id for ids in self.ids("mine").values() for id in ids}
        foreign = {table: [id for id in ids if id not in own] for table, ids in self.ids("theirs").items()}
        self.foreign = {table: ids[0] for table, ids in foreign.items() if ids}

    @cached_property
    def theirs_at_first(self) -> str:
        """A hash of all that the other tenant has: asked for before the first probe, true after each."""
        return content_hash(self.core.store, Scope("theirs"))

    @cached_property
    def remote(self) -> Any:
        """The client of a service at a real address."""
        config = uvicorn.Config(self._make(), host="127.0.0.1", port=0, log_level="error")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)

        def stop() -> None:
            server.should_exit = True
            thread.join(30)

        self._stack.callback(stop)
        port = server.servers[0].sockets[0].getsockname()[1]
        return self._stack.enter_context(recollect.connect(f"http://127.0.0.1:{port}", self.key()))

    @cached_property
    def stdio(self) -> Stdio:
        """An MCP server that a host started for itself."""
        portal = self._stack.enter_context(start_blocking_portal())
        started = over_stdio(self.settings, "--profile", "all")
        return Stdio(portal, self._stack.enter_context(portal.wrap_async_context_manager(started)))

    def key(self, organization: str = "mine", scopes: tuple[str, ...] = PERMISSIONS, **more: Any) -> str:
        place = (organization, frozenset(scopes))
        if place not in self.keys or more:
            request = keys.AddKeyRequest(name="probe", scopes=list(scopes), **more)
            made = keys.add_key(self.core.for_scope(Scope(organization)), request).key
            if more:
                return made
            self.keys[place] = made
        return self.keys[place]

    def rpc(self, key: str | None, method: str, params: dict[str, Any], profile: str = "all") -> Any:
        """One message to the MCP door, as a host sends it."""
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        headers = {"host": "localhost", "accept": "application/json, text/event-stream"}
        headers |= {"authorization": f"Bearer {key}"} if key else {}
        return self.http.post(f"/mcp?profile={profile}", json=message, headers=headers)

    def tool(self, key: str, name: str, fields: dict[str, Any], profile: str = "all") -> Any:
        """What a tool says: its structured answer, or the error in it."""
        answer = self.rpc(key, "tools/call", {"name": name.replace(".", "_"), "arguments": fields}, profile)
        assert answer.status_code == 200, answer.text
        result = answer.json()["result"]
        return result["structuredContent"]["error"] if result["isError"] else result["structuredContent"]

    def ids(self, organization: str) -> dict[str, list[str]]:
        """The ids of every record of a tenant, by table."""
        scope = Scope(organization)
        return {
            table: [id for (id,) in self.core.store.select(scope, Query(record, deleted="yes"), ("id",))]
            for table, record in RECORDS.items()
        }


@pytest.fixture(scope="session")
def filled_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Something of every record for both; no two of their ids are alike, and none says whose it is."""
    path = tmp_path_factory.mktemp("filled") / "x.db"
    with recollect.open(path, embedder="hash", citation_root=path.parent) as mem:
        for name, word in (("mine", "ours"), ("theirs", MARKER)):
            fill(mem.within(name, actor="me"), word, path.parent, cache(lambda _: new_id()))
    return path


@contextmanager
def opened(template: Path, folder: Path) -> Iterator[World]:
    path = Path(shutil.copy(template, folder / "x.db"))
    with recollect.open(path, embedder="hash", citation_roots=[]) as mem, ExitStack() as stack:
        made = World(mem, path, stack)
        stack.enter_context(made.http)
        yield made


@pytest.fixture(scope="module")
def world(filled_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with opened(filled_store, tmp_path_factory.mktemp("world")) as made:
        yield made


@pytest.fixture
def twins(request: pytest.FixtureRequest) -> Callable[..., tuple[World, World]]:
    """Two worlds that are the same, as earlier probes left them or, for those who only read, as they began."""

    def pair(*, only_read: bool) -> tuple[World, World]:
        if only_read:
            return request.getfixturevalue("only_read")
        return request.getfixturevalue("world"), request.getfixturevalue("twin")

    return pair


@pytest.fixture(scope="module")
def only_read(filled_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, World]]:
    folders = [tmp_path_factory.mktemp("only-read") for _ in range(2)]
    with opened(filled_store, folders[0]) as one, opened(filled_store, folders[1]) as two:
        yield one, two


@pytest.fixture(scope="module")
def twin(filled_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The very same world a second time, for what should not make a difference."""
    with opened(filled_store, tmp_path_factory.mktemp("twin")) as made:
        yield made
