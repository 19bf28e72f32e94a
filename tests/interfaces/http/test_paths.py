"""Whatever an id is made of, it can be written and read over HTTP; files lie in folders and go as they are."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from starlette.routing import Match
from starlette.testclient import TestClient

import recollect
from recollect.domain.access import PERMISSIONS
from recollect.errors import InvalidInput, NotFound, TooLarge, VersionConflict
from recollect.interfaces.http.openapi import document, offered
from recollect.interfaces.remote_exchange import path_of
from recollect.interfaces.serve import application
from recollect.ports.records import Scope
from recollect.services.access import keys
from recollect.settings import Settings
from serving import served

HOSTILE = [
    "a/b", "/", "//", "a/", "/a", "..", ".", "../../etc/passwd", "%2F", "100%", "%", "%zz", "a?b=c", "#", "a#b",
    "a&b=c", "with space", " ", "+", "naïve 猫 🦉", "\u202eabc", "'\"<b>", "batch", "claim", "search", "me", ";a=b",
    "a\\b", "x" * 255,
]  # fmt: skip


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    with served(tmp_path_factory.mktemp("served"), most_body_bytes="1000000") as told:
        yield told


@pytest.fixture
def app(mem: Any) -> Any:
    return application(mem._core, Settings(server={"upkeep_seconds": 1e6}))


@pytest.fixture(scope="module")
def routes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with recollect.open(tmp_path_factory.mktemp("routes") / "r.db", embedder="none") as mem:
        yield application(mem._core, Settings(server={"upkeep_seconds": 1e6})).routes


@pytest.mark.parametrize("operation", offered(), ids=lambda one: one.name)
def test_every_parameter_of_every_route_arrives_as_it_was_sent(operation: Any, routes: Any) -> None:
    """Only routing: what each operation makes of an id is its own."""
    method = operation.route.partition(" ")[0]
    named = re.findall(r"{(\w+)}", operation.route)
    for hostile in HOSTILE if named else [""]:
        given = {name: "notes/plan.md" if name == "path" and hostile.startswith("/") else hostile for name in named}
        raw = path_of(operation, dict(given)).encode()
        scope = {"type": "http", "method": method, "raw_path": raw, "path": "unused", "headers": []}
        found = [told for route in routes for match, told in [route.matches(scope)] if match is Match.FULL]
        assert found, (operation.name, hostile)
        assert found[0]["path_params"] == given, "the first that fits is taken"


@pytest.mark.parametrize("id", HOSTILE)
def test_a_memory_of_any_id_can_be_written_and_read(id: str, running: tuple[str, str]) -> None:
    with recollect.connect(*running) as mem:
        mem.remember(f"fact of {id}.", id=id)
        assert mem.show(id).text == f"fact of {id}."
        assert mem.revise(id, f"new fact of {id}.").version == 2
        assert mem.history(id).id == id
        assert mem.forget(id)
        assert mem.restore(id)
        mem.cite(id, [recollect.cite.user("ann", "said so")])
        mem.uncite(id, mem.show(id).citations[0].id)
        assert mem.archive(id)


@pytest.mark.parametrize("id", ["a/b", "../..", "100% é?#", "batch"])
def test_agents_blocks_and_workspaces_of_any_id_too(id: str, running: tuple[str, str]) -> None:
    with recollect.connect(*running) as mem:
        mem.agent.add("bot", id=id)
        mem.block.add("about", "me", id=id, agents=[id])
        assert mem.agent.show(id).name == "bot"
        assert mem.block.detach(id, id)
        mem.state.save(id, {"at": 1})
        assert mem.state.load(id).data == {"at": 1}
        mem.workspace.add(id, id=id)
        mem.workspace.write(id, "notes/plan.md", "the plan")
        assert mem.workspace.read(id, "notes/plan.md").text == "the plan"
        assert mem.agent.remove(id, dry_run=True)


def test_files_lie_in_folders(running: tuple[str, str]) -> None:
    url, key = running
    with recollect.connect(url, key) as mem:
        mem.workspace.add(mem.agent.add("filer").id, id="w")
        for path in ("notes/plan.md", "a/b/c/d é 猫?#%.txt", "x"):
            mem.workspace.write("w", path, f"text of {path}")
            assert mem.workspace.read("w", path).text == f"text of {path}"
        assert {one.path for one in mem.workspace.files("w").files} >= {"notes/plan.md", "x"}
        parts = urlsplit(url)
        for path in ("notes/plan.md", "notes%2Fplan.md"):
            connection = HTTPConnection(parts.hostname or "", parts.port, timeout=60)
            connection.request("GET", f"/v1/workspaces/w/files/{path}", headers={"authorization": f"Bearer {key}"})
            assert b"text of notes/plan.md" in connection.getresponse().read()
            connection.close()
        for wrong in ("../x", "a//b", "/abs"):
            with pytest.raises(InvalidInput):
                mem.workspace.write("w", wrong, "no")
        mem.workspace.remove("w", "notes", folder=True)
        with pytest.raises(NotFound, match="plan"):
            mem.workspace.read("w", "notes/plan.md")


def test_claudes_memory_tool_works_over_the_wire(running: tuple[str, str]) -> None:
    from recollect.integrations.anthropic_memory import MemoryFiles

    with recollect.connect(*running) as mem:
        files = MemoryFiles(mem, "claude-remote")
        files.create("/memories/projects/plan.md", "step one\n")
        assert "step one" in files.view("/memories/projects/plan.md", None)
        files.str_replace("/memories/projects/plan.md", "one", "two")
        assert "step two" in files.view("/memories/projects/plan.md", None)


def test_a_file_goes_either_way_as_it_is(running: tuple[str, str]) -> None:
    with recollect.connect(*running) as mem:
        mem.workspace.add(mem.agent.add("bytes").id, id="raw")
        data = os.urandom(3_000_000)  # three times what a JSON body may have
        import base64

        made = mem.workspace.write("raw", "in/data.bin", base64=base64.b64encode(data).decode(), media_type="x/y; é")
        found = mem.workspace.read("raw", "in/data.bin")
        assert (found.data, found.version, found.media_type, found.bytes) == (data, 1, "x/y; é", len(data))
        assert found.hash == made.hash == "b1:" + hashlib.sha256(data).hexdigest()
        kept = mem.workspace.snapshot("raw", "first")
        mem.workspace.write("raw", "in/data.bin", "", version=1)
        assert mem.workspace.read("raw", "in/data.bin").text == ""
        assert mem.workspace.read("raw", "in/data.bin", snapshot=kept.id).data == data
        with pytest.raises(VersionConflict):
            mem.workspace.write("raw", "in/data.bin", "again", version=1)


@pytest.fixture
def narrow(tmp_path: Path) -> Iterator[Any]:
    """A service whose workspaces take files of a megabyte, and JSON bodies of a tenth of it."""
    with recollect.open(tmp_path / "n.db", embedder="hash", workspace_file_bytes=1_000_000) as mem:
        request = keys.AddKeyRequest(name="all", scopes=list(PERMISSIONS))
        key = keys.add_key(mem._core.for_scope(Scope("default")), request).key
        mem.workspace.add(mem.agent.add("a", id="a").id, id="w")
        settings = Settings(server={"upkeep_seconds": 1e6, "most_body_bytes": 100_000})
        with TestClient(application(mem._core, settings), "http://127.0.0.1") as client:
            client.headers["authorization"] = f"Bearer {key}"
            yield client


def test_bodies_as_they_are_are_held_to_the_rules_of_files(narrow: Any) -> None:
    url, raw = "/v1/workspaces/w/files/a/b.png", {"content-type": "application/octet-stream"}
    made = narrow.put(url, content=b"\x89PNG", headers=raw)
    assert (made.status_code, made.json()["media_type"], made.headers["etag"]) == (200, "image/png", '"1"')
    assert narrow.put(url, content=b"2", headers=raw | {"if-match": '"7"'}).status_code == 409
    assert narrow.put(f"{url}?version=1&media_type=a/b", content=b"2", headers=raw).json()["media_type"] == "a/b"
    assert narrow.put(f"{url}?text=also", content=b"2", headers=raw).status_code == 422
    assert narrow.put(f"{url}?path=c", content=b"2", headers=raw).status_code == 422
    assert narrow.put(url, content=b"2", headers={"content-type": "text/plain"}).status_code == 422
    assert narrow.put(url, content=b"x" * 1_000_000, headers=raw).status_code == 200
    assert narrow.put(url, content=b"x" * 1_000_001, headers=raw).json()["error"]["code"] == "too_large"
    pieces = (b"x" * 10_000 for _ in range(101))
    assert narrow.put(url, content=pieces, headers=raw).json()["error"]["code"] == "too_large"
    got = narrow.get(url, headers={"accept": "application/octet-stream"})
    assert (got.content, got.headers["content-disposition"]) == (b"x" * 1_000_000, "attachment")
    assert got.headers["content-type"] == "application/octet-stream"
    assert narrow.get(f"{url}x", headers={"accept": "application/octet-stream"}).status_code == 404
    assert narrow.put(url, content=b"1", headers=raw | {"authorization": "Bearer rk.a.b.c"}).status_code == 401
    assert narrow.put("/v1/workspaces/none/files/x", content=b"1", headers=raw).status_code == 404


def test_the_description_says_that_files_go_as_they_are() -> None:
    told = document("/v1")["paths"]["/v1/workspaces/{id}/files/{path}"]
    assert "application/octet-stream" in told["put"]["requestBody"]["content"]
    assert "application/octet-stream" in told["get"]["responses"]["200"]["content"]


_LARGE = """
import resource, sys, tempfile
from pathlib import Path
from mmap import ACCESS_READ, mmap
import recollect
from recollect.catalogue import OPERATIONS, carry_out, validated
from recollect.ports.records import Scope
from recollect.services.workspaces.file_reading import open_file
mem = recollect.open(Path(sys.argv[1]) / "x.db", embedder="none")
mem.workspace.add(mem.agent.add("a").id, id="w")
scope = Scope("default")
def send(size):
    with tempfile.TemporaryFile() as kept:
        for number in range(size // 100_000):
            kept.write(number.to_bytes(4, "big") * 25_000)
        kept.flush()
        with mmap(kept.fileno(), 0, access=ACCESS_READ) as data:
            asked = validated(OPERATIONS["workspace.write"], {"id": "w", "path": "big"}).with_content(data)
            carry_out(OPERATIONS["workspace.write"], mem._core, scope, asked)
def receive():
    asked = validated(OPERATIONS["workspace.read"], {"id": "w", "path": "big"})
    return sum(map(len, open_file(mem._core.for_scope(scope), asked).parts))
import tracemalloc
send(5_000_000); receive()
tracemalloc.start()
send(100_000_000)
assert receive() == 100_000_000
print(tracemalloc.get_traced_memory()[1])
"""


def test_a_hundred_megabytes_go_through_a_bounded_amount_of_memory(tmp_path: Path) -> None:
    """Counted: what Python holds at its highest while a file of 100 MB goes in and out again."""
    done = subprocess.run(
        [sys.executable, "-c", _LARGE, str(tmp_path)], capture_output=True, text=True, check=True, timeout=600
    )
    assert int(done.stdout) < 40_000_000, done.stdout


def test_too_large_a_file_is_an_answer_over_the_wire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOLLECT_WORKSPACE_FILE_BYTES", "2000000")
    with served(tmp_path) as (url, key), recollect.connect(url, key) as mem:
        mem.workspace.add(mem.agent.add("a").id, id="w")
        mem.workspace.write("w", "fits", "x" * 2_000_000)
        with pytest.raises(TooLarge):
            mem.workspace.write("w", "does not", "x" * 30_000_000)
        assert mem.workspace.read("w", "fits").bytes == 2_000_000


def test_the_console_links_to_ids_with_slashes(mem: Any, app: Any) -> None:
    mem.remember("strange id", id="a/b?c#d")
    with TestClient(app, "http://127.0.0.1", follow_redirects=False) as client:
        key = mem.key.add("k", scopes=["read"]).key
        client.cookies.set("recollect", key)
        page = client.get("/console/search?q=strange").text
        assert f"/console/memories/{quote('a/b?c#d', safe='')}" in page
        assert "strange id" in client.get(f"/console/memories/{quote('a/b?c#d', safe='')}").text
