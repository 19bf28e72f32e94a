"""The MCP door as a host meets it: the SDK's own client over stdio and over HTTP, old handshake and new."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from mcp import MCPError
from starlette.testclient import TestClient

import recollect
from mcp_hosts import over_http, over_stdio, run, tools_of
from recollect.catalogue import OPERATIONS
from recollect.interfaces.mcp import gateway, server, tools
from recollect.interfaces.mcp.http import McpEndpoint
from recollect.interfaces.serve import application
from recollect.settings import Settings
from serving import served


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    with served(tmp_path_factory.mktemp("served")) as found:
        yield found


@pytest.fixture(params=["stdio", "http"])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Opens a client over one of the two transports."""
    if request.param == "stdio":
        return lambda **more: over_stdio(tmp_path / "x.db", **more)
    running = request.getfixturevalue("running")
    return lambda **more: over_http(*running, **more)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_model_remembers_and_recalls(host: Any, mode: str) -> None:
    async def talk() -> None:
        async with host(mode=mode) as client:
            cites = ["user:alice:said so in review"]
            fields = {"content": f"Alice prefers pytest {mode}", "cites": cites, "tags": [mode]}
            made = await client.call_tool("remember", fields)
            assert not made.is_error
            assert made.content[0].text == f"stored: [{made.structured_content['id']} hypothesis, 1 citations]"
            found = await client.call_tool("recall", {"query": "pytest", "tags": [mode]})
            (source,) = found.structured_content["hits"][0]["cites"]
            assert source in ("user:alice (unchecked)", "user:alice (claimed)")  # over HTTP somebody is known to ask
            packed = await client.call_tool("context", {"query": "pytest", "tokens": 300})
            assert packed.content[0].text.startswith("<memories>")
            uri = f"memory://{made.structured_content['id']}"
            read = await client.read_resource(uri)
            assert json.loads(read.contents[0].text)["text"] == fields["content"]
            listed = await client.list_resources()
            assert {"recollect://recent", "recollect://stats", uri} <= {str(one.uri) for one in listed.resources}
            assert json.loads((await client.read_resource("recollect://stats")).contents[0].text)["memories"] > 0
            begun = await client.get_prompt("begin_task", {"task": "write tests", "tokens": "200"})
            assert begun.messages[0].content.text.endswith("write tests")
            assert len((await client.list_prompts()).prompts) == 2
            templates = (await client.list_resource_templates()).resource_templates
            assert [one.uri_template for one in templates] == ["memory://{id}", "recollect://context/{task}"]
            known = (await client.read_resource("recollect://context/which%20test%20framework")).contents[0]
            assert known.mime_type == "text/plain"
            assert fields["content"] in known.text

    run(talk)


def test_what_is_wrong_is_told_to_the_model_with_its_remedy(host: Any) -> None:
    async def talk() -> None:
        async with host() as client:
            for name, fields, code, said in (
                ("show", {"id": "absent"}, "not_found", "there is no memory 'absent'"),
                ("remember", {"content": "x", "colour": "red"}, "invalid_input", "remember takes content"),
                ("remember", {}, "invalid_input", "content"),
                ("recall", {"query": "x", "limit": "many"}, "invalid_input", "limit"),
                ("forget", {"id": "absent"}, "not_found", "check the id"),
            ):
                told = await client.call_tool(name, fields)
                assert told.is_error
                assert told.structured_content["error"]["code"] == code
                assert said in told.content[0].text
                assert "Traceback" not in told.content[0].text
            for wrong in (
                client.call_tool("backup", {"path": "x"}),
                client.read_resource("memory://absent"),
                client.read_resource("file:///etc/passwd"),
                client.get_prompt("begin_task", {}),
                client.get_prompt("nothing", {}),
                client.list_tools(cursor="soon"),
            ):
                with pytest.raises(MCPError):
                    await wrong

    run(talk)


def test_the_default_profile_offers_the_daily_tools(host: Any) -> None:
    async def talk() -> None:
        async with host() as client:
            assert set(await tools_of(client)) == {*tools.DAILY, *gateway.GATEWAYS}

    run(talk)


def test_the_profile_of_everything_has_no_local_ones_and_no_organizations(
    running: tuple[str, str], tmp_path: Path
) -> None:
    async def talk() -> None:
        for opened in (over_stdio(tmp_path / "y.db", "--profile", "all"), over_http(*running, "?profile=all")):
            async with opened as client:
                wanted = (one for one in OPERATIONS.values() if not one.local and one.group != "organization")
                assert set(await tools_of(client)) == {one.name.replace(".", "_") for one in wanted}

    run(talk)


def test_the_default_profile_is_small_and_promotes_nothing() -> None:
    daily, agents = tools.offered("default"), tools.offered("agent")
    assert len(daily) <= 10
    assert not {tool.operation.permission for tool in daily.values()} & {"govern", "admin", "operate"}
    assert daily.keys() < agents.keys() < tools.offered("all").keys()


@pytest.mark.parametrize("profile", tools.PROFILES)
def test_tools_are_described_for_every_host(profile: str) -> None:
    for tool in tools.offered(profile).values():
        told = tool.described()
        assert told.name.replace("_", "").isalnum()
        assert len(told.name) <= 40
        assert told.description
        assert len(told.description) > 10
        assert (told.output_schema is not None) == tool.is_whole == (profile not in tools.LEAN)
        for schema in filter(None, (told.input_schema, told.output_schema)):
            jsonschema.Draft202012Validator.check_schema(schema)
            assert schema["type"] == "object"
            assert "$ref" not in json.dumps(schema)
        for name, field in told.input_schema["properties"].items():
            assert field.get("description"), (tool.name, name)
        assert told.annotations is not None
        assert bool(told.annotations.read_only_hint) == (tool.operation.access == "read")


def test_hints_follow_from_the_permission() -> None:
    every = {name: tool.described().annotations for name, tool in tools.offered("all").items()}
    assert every["erase"].destructive_hint
    assert every["recall"].read_only_hint
    assert not every["remember"].destructive_hint
    assert not every["remember"].idempotent_hint


def test_long_lists_come_in_pages() -> None:
    first, cursor = server.paged(range(250), None, 100)
    second, after = server.paged(range(250), cursor, 100)
    third, end = server.paged(range(250), after, 100)
    assert [*first, *second, *third] == list(range(250))
    assert end is None


def test_memories_are_listed_page_by_page(tmp_path: Path) -> None:
    with recollect.open(tmp_path / "x.db", embedder="hash") as mem:
        mem.remember_many([f"fact {number}" for number in range(120)])
        mem.remember("odd one", id="a/b c?d#e%f")

    async def talk() -> None:
        async with over_stdio(tmp_path / "x.db") as client:
            page, uris = await client.list_resources(), []
            while True:
                uris += [str(one.uri) for one in page.resources]
                if page.next_cursor is None:
                    break
                page = await client.list_resources(cursor=page.next_cursor)
            assert len(uris) == len(set(uris)) == 123
            (odd,) = [uri for uri in uris if "a%2Fb" in uri]
            assert json.loads((await client.read_resource(odd)).contents[0].text)["text"] == "odd one"

    run(talk)


def test_standard_output_carries_only_the_protocol(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "recollect", "mcp", "--store", str(tmp_path / "x.db")]
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }
    done = subprocess.run(
        command,
        input=json.dumps(hello) + "\nnot json\n",
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "RECOLLECT_EMBEDDER__PROVIDER": "hash"},
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines[0]["result"]["serverInfo"]["name"] == "recollect"
    assert all(line["jsonrpc"] == "2.0" for line in lines)


def test_a_store_that_cannot_be_opened_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from recollect.interfaces.cli.main import run as command

    (tmp_path / "x.db").write_text("this is no store " * 100)
    assert command(["mcp", "--store", str(tmp_path / "x.db")]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: ")


def test_the_owner_and_the_tenant_of_stdio_come_from_the_settings(tmp_path: Path) -> None:
    async def talk() -> None:
        options = ("--organization", "acme", "--actor", "ann")
        async with over_stdio(tmp_path / "x.db", *options) as client:
            await client.call_tool("remember", {"content": "kept for acme"})

    run(talk)
    with recollect.open(tmp_path / "x.db", embedder="hash") as mem:
        assert mem.stats().memories == 0
        acme = mem.within("acme")
        assert acme.show(acme.list().memories[0].id).fields["created_by"] == "ann"


@pytest.fixture
def service(mem: Any) -> Iterator[Any]:
    settings = Settings(server={"upkeep_seconds": 1e6, "most_body_bytes": 10_000})
    with TestClient(application(mem._core, settings), base_url="http://localhost:7070") as client:
        yield client


CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list", "arguments": {}}}
ACCEPT = {"accept": "application/json, text/event-stream"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"origin": "http://localhost:7070"}, 200),
        ({"origin": "http://127.0.0.1:3000"}, 200),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"host": "evil.example"}, 422),
        ({"host": "evil.example", "origin": "http://evil.example"}, 422),
        ({"host": "[::1]:7070"}, 200),
        ({"host": "localhost.evil.example"}, 422),
        ({"host": "["}, 422),
        ({"authorization": ""}, 401),
        ({"authorization": "Bearer rk.x"}, 401),
    ],
)
def test_only_its_own_name_and_no_strange_page_is_answered(
    headers: dict[str, str], status: int, service: Any, mem: Any
) -> None:
    key = mem.key.add("k", scopes=["read"]).key
    answer = service.post("/mcp", json=CALL, headers={"authorization": f"Bearer {key}", **ACCEPT, **headers})
    assert answer.status_code == status, answer.text
    if status >= 400:
        assert answer.json()["error"]["request_id"] == answer.headers["x-request-id"]
    if status == 401:
        assert answer.headers["www-authenticate"] == "Bearer"


def test_limits_hold_at_this_door_too(service: Any, mem: Any) -> None:
    key = mem.key.add("k", scopes=["read"], rate_per_minute=3).key
    headers = {"authorization": f"Bearer {key}", **ACCEPT}
    assert service.post("/mcp", content=b"x" * 20_000, headers=headers).status_code == 413
    assert service.get("/mcp", headers=headers).status_code == 405
    assert service.post("/mcp", json=CALL, headers=headers).status_code == 200
    limited = service.post("/mcp", json=CALL, headers=headers)
    assert limited.status_code == 429
    assert int(limited.headers["retry-after"]) > 0
    assert service.post("/mcp?profile=none", json=CALL, headers={**headers, "authorization": ""}).status_code == 401


def test_it_is_loaded_when_somebody_with_a_key_asks_for_it_and_once(tmp_path: Path) -> None:
    program = """
import sys, threading
from starlette.testclient import TestClient
import recollect
from recollect.interfaces.serve import application
from recollect.settings import Settings
with recollect.open(sys.argv[1], embedder="hash") as mem:
    key = mem.key.add("k", scopes=["read"]).key
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list", "arguments": {}}}
    accept = {"accept": "application/json, text/event-stream"}
    with TestClient(application(mem._core, Settings()), "http://127.0.0.1") as client:
        assert client.get("/v1/stats", headers={"authorization": f"Bearer {key}"}).status_code == 200
        assert client.post("/mcp", json=call, headers=accept).status_code == 401
        assert "mcp" not in sys.modules
        found = []
        def ask():
            headers = {"authorization": f"Bearer {key}", **accept}
            found.append(client.post("/mcp", json=call, headers=headers).status_code)
        asking = [threading.Thread(target=ask) for _ in range(4)]
        for one in asking: one.start()
        for one in asking: one.join()
        assert found == [200] * 4, found
        assert "mcp" in sys.modules
    with TestClient(application(mem._core, Settings()), "http://127.0.0.1"):
        pass  # one that nobody asked ends at once
print("well")
"""
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "x.db")], capture_output=True, text=True)
    assert done.stdout == "well\n", done.stderr


def test_a_protocol_that_cannot_be_loaded_is_told_to_each_who_asks(mem: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(McpEndpoint, "_load", lambda endpoint: 1 / 0)
    headers = {"authorization": f"Bearer {mem.key.add('k', scopes=['read']).key}", **ACCEPT}
    app = application(mem._core, Settings(server={"upkeep_seconds": 1e6}))
    with TestClient(app, "http://127.0.0.1", raise_server_exceptions=False) as client:
        for _ in range(2):
            answer = client.post("/mcp", json=CALL, headers=headers)
            assert answer.status_code == 500
            assert "Traceback" not in answer.text


def test_a_name_of_the_settings_is_answered(mem: Any) -> None:
    settings = Settings(server={"host": "0.0.0.0", "hosts": ["memory.example.org"], "upkeep_seconds": 1e6})
    key = mem.key.add("k", scopes=["read"]).key
    headers = {"authorization": f"Bearer {key}", **ACCEPT}
    with TestClient(application(mem._core, settings), "http://127.0.0.1") as client:
        for host, status in (("memory.example.org", 200), ("localhost:1", 200), ("other.example.org", 422)):
            assert client.post("/mcp", json=CALL, headers={**headers, "host": host}).status_code == status


def test_a_fault_of_ours_is_no_traceback(service: Any, mem: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    key = mem.key.add("k", scopes=["read"]).key
    monkeypatch.setattr(server, "invoke", lambda *given: 1 / 0)
    answer = service.post("/mcp", json=CALL, headers={"authorization": f"Bearer {key}", **ACCEPT})
    told = answer.json()["result"]
    assert told["isError"]
    assert "ZeroDivisionError" in told["content"][0]["text"]
    assert "Traceback" not in answer.text
