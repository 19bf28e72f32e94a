"""Two tenants on one service: one that asks, one with something to find."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import recollect
from probing import MARKER
from recollect.domain.access import PERMISSIONS
from recollect.domain.record import RECORDS
from recollect.interfaces.serve import application
from recollect.ports.records import Query, Scope
from recollect.services import access
from recollect.settings import Settings


class World:
    """An open store with the tenants `mine` and `theirs`, and a client of the service before it."""

    def __init__(self, mem: Any, path: Path) -> None:
        self.core = mem._core
        self.mine, self.theirs = mem.within("mine", actor="me"), mem.within("theirs", actor="they")
        settings = Settings(
            store=str(path), organization="operator", server={"rate_per_minute": 10**9, "upkeep_seconds": 1e6}
        )
        app = application(self.core, settings)
        self.http = TestClient(app, "http://127.0.0.1", raise_server_exceptions=False, client=("127.0.0.1", 50000))
        self.keys: dict[tuple[str, frozenset[str]], str] = {}

    def key(self, organization: str = "mine", scopes: tuple[str, ...] = PERMISSIONS, **more: Any) -> str:
        place = (organization, frozenset(scopes))
        if place not in self.keys or more:
            request = access.AddKeyRequest(name="probe", scopes=list(scopes), **more)  # type: ignore[arg-type]
            made = access.add_key(self.core, Scope(organization), request).key
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


def _fill(mem: Any, word: str) -> None:
    user = mem.add_user(f"Ann {word}", email=f"ann@{word}.org")
    agent = mem.add_agent(f"Bot {word}")
    project = mem.add_project(f"Project {word}", owner=user.id)
    session = mem.add_session(f"Talk {word}", user=user.id, agent=agent.id, project=project.id)
    cited = mem.remember(
        f"{word} one", cites=[recollect.cite.user("ann", word)], tags=[word], session=session.id, user=user.id
    )
    mem.promote(cited.id)
    other = mem.remember(f"{word} two", agent=agent.id, metadata={word: word})
    mem.relate(cited.id, other.id, "supports")
    mem.revise(other.id, f"{word} three")
    mem.forget(mem.remember(f"{word} gone").id)
    mem.recall(word)
    mem.key.add(f"key {word}")


@pytest.fixture(scope="session")
def filled_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filled") / "x.db"
    with recollect.open(path, embedder="hash", citation_roots=[]) as mem:
        _fill(mem.within("mine", actor="me"), "ours")
        _fill(mem.within("theirs", actor="they"), MARKER)
    return path


@contextmanager
def opened(template: Path, folder: Path) -> Iterator[World]:
    path = Path(shutil.copy(template, folder / "x.db"))
    with recollect.open(path, embedder="hash", citation_roots=[]) as mem:
        made = World(mem, path)
        with made.http:
            yield made


@pytest.fixture(scope="module")
def world(filled_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with opened(filled_store, tmp_path_factory.mktemp("world")) as made:
        yield made


@pytest.fixture
def twins(
    request: pytest.FixtureRequest, filled_store: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., tuple[World, World]]]:
    """Two worlds that are the same, as earlier probes left them or as they began."""
    with ExitStack() as stack:

        def pair(*, fresh: bool) -> tuple[World, World]:
            if not fresh:
                return request.getfixturevalue("world"), request.getfixturevalue("twin")
            one, two = (stack.enter_context(opened(filled_store, tmp_path_factory.mktemp("fresh"))) for _ in "12")
            return one, two

        yield pair


@pytest.fixture(scope="module")
def twin(filled_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The very same world a second time, for what should not make a difference."""
    with opened(filled_store, tmp_path_factory.mktemp("twin")) as made:
        yield made
