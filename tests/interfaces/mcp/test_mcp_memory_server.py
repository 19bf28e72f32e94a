"""The profile `memory-server` beside the official server itself: the same calls, the same answers."""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

import recollect
from mcp_hosts import OFFICIAL, over_http, over_stdio, run, tools_of
from seeds import SEED, SOAK
from serving import served

CALLS = 5000 if SOAK else 400
NAMES = ["Ada", "Bert", "Ćao", "recollect", "The Parser", "ada"]
TYPES = ["person", "project", "Tool"]
FACTS = ["likes tea", "speaks Python", "lives in Łódź", "Ada's friend", "was born in 1815"]
VERBS = ["knows", "works on", "is part of"]


def official(folder: Path) -> Any:
    assert OFFICIAL.exists(), "`make test` fetches the official memory server"
    server = StdioServerParameters(
        command="node", args=[str(OFFICIAL)], env={**os.environ, "MEMORY_FILE_PATH": str(folder / "memory.jsonl")}
    )
    return Client(server, cache=None)


def made_up(draw: random.Random) -> Iterator[tuple[str, dict[str, Any]]]:
    def some(words: list[str], most: int = 2) -> list[str]:
        return draw.sample(words, draw.randint(0, most))

    def relations() -> list[dict[str, str]]:
        ends = [(draw.choice(NAMES), draw.choice(NAMES), draw.choice(VERBS)) for _ in range(2)]
        return [{"from": a, "to": b, "relationType": type} for a, b, type in dict.fromkeys(ends)]

    while True:
        entities = [{"name": n, "entityType": draw.choice(TYPES), "observations": some(FACTS)} for n in some(NAMES)]
        name = draw.choice(NAMES)
        choices: dict[str, tuple[int, dict[str, Any]]] = {
            "create_entities": (6, {"entities": entities}),
            "create_relations": (4, {"relations": relations()}),
            "add_observations": (4, {"observations": [{"entityName": name, "contents": some(FACTS)}]}),
            "delete_observations": (2, {"deletions": [{"entityName": name, "observations": some(FACTS)}]}),
            "delete_entities": (3, {"entityNames": some(NAMES, 2)}),
            "delete_relations": (2, {"relations": relations()}),
            "search_nodes": (5, {"query": draw.choice(["a", "TEA", "tool", "nobody", "ŁÓDŹ", "Python", ""])}),
            "open_nodes": (3, {"names": some(NAMES)}),
            "read_graph": (1, {}),
        }
        (tool,) = draw.choices(list(choices), [weight for weight, _ in choices.values()])
        yield tool, choices[tool][1]


def said(answer: Any) -> Any:
    """In no order: theirs is the order of a file, ours of time."""

    def sorted_lists(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: sorted_lists(one) for name, one in value.items()}
        if isinstance(value, list):
            return sorted((sorted_lists(one) for one in value), key=json.dumps)
        return value

    text = answer.content[0].text
    if answer.is_error:
        return text.splitlines()[0]
    read = sorted_lists(json.loads(text)) if text[0] in "[{" else text
    return read, sorted_lists(answer.structured_content)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    with served(tmp_path_factory.mktemp("served")) as found:
        yield found


def test_it_answers_as_the_official_server_does(tmp_path: Path) -> None:
    calls = made_up(random.Random(SEED))

    told_of: Counter[str] = Counter()

    async def compare() -> None:
        async with official(tmp_path) as theirs, over_stdio(tmp_path / "x.db", "--profile", "memory-server") as ours:
            for number in range(CALLS):
                name, fields = next(calls)
                told = [await client.call_tool(name, fields) for client in (theirs, ours)]
                assert told[0].is_error == told[1].is_error, (SEED, number, name, fields, told)
                assert said(told[0]) == said(told[1]), (SEED, number, name, fields)
                told_of[name] += bool((told[0].structured_content or {}).get("entities"))

    run(compare, seconds=600)
    assert all(told_of[name] > 10 for name in ("create_entities", "search_nodes", "open_nodes")), told_of


def test_its_tools_are_called_as_the_official_ones(tmp_path: Path) -> None:
    async def compare() -> None:
        async with official(tmp_path) as theirs, over_stdio(tmp_path / "x.db", "--profile", "memory-server") as ours:
            known, offered = await tools_of(theirs), await tools_of(ours)
            assert set(known) == set(offered)
            for name, tool in known.items():
                mine = offered[name]
                assert _shape(tool.input_schema) == _shape(mine.input_schema), name
                assert _shape(tool.output_schema) == _shape(mine.output_schema), name
                for hint in ("read_only_hint", "destructive_hint", "idempotent_hint", "open_world_hint"):
                    assert getattr(tool.annotations, hint) == getattr(mine.annotations, hint), (name, hint)
            graphs = [
                json.loads((await one.read_resource("memory://knowledge-graph")).contents[0].text)
                for one in (theirs, ours)
            ]
            assert graphs[0] == graphs[1]

    run(compare)


def _shape(schema: Any) -> Any:
    """What a caller sees of a schema: names and types."""
    if not isinstance(schema, dict):
        return schema
    inner = {name: _shape(one) for name, one in schema.get("properties", {}).items()}
    return {"type": schema.get("type"), "properties": inner, "items": _shape(schema.get("items"))}


def test_what_it_keeps_are_memories_like_all_others(tmp_path: Path) -> None:
    async def talk() -> None:
        async with over_stdio(tmp_path / "x.db", "--profile", "memory-server") as client:
            ada = {"name": "Ada", "entityType": "person", "observations": ["wrote the first program"]}
            await client.call_tool("create_entities", {"entities": [ada]})
            link = {"from": "Ada", "to": "Babbage", "relationType": "worked with"}
            await client.call_tool("create_relations", {"relations": [link]})
            await client.call_tool("delete_entities", {"entityNames": ["Ada"]})
            await client.call_tool("create_entities", {"entities": [ada | {"observations": ["liked numbers"]}]})
            wrong = await client.call_tool("create_relations", {"relations": [link | {"relationType": "supersedes"}]})
            assert wrong.is_error

    run(talk)
    with recollect.open(tmp_path / "x.db", embedder="hash") as mem:
        assert mem.recall("numbers").hits[0].text == "Ada (person)\nliked numbers"
        (forgotten,) = mem.list(forgotten=True).memories
        assert forgotten.text == "Ada (person)\nwrote the first program"
        mem.forget(mem.list(kinds=["entity"]).memories[0].id)
        assert mem.verify().sound


def test_two_hosts_at_once_lose_no_observation(running: tuple[str, str]) -> None:
    async def talk() -> None:
        async with over_http(*running, "?profile=memory-server") as client:
            ada = {"name": "Ada", "entityType": "person", "observations": []}
            await client.call_tool("create_entities", {"entities": [ada]})

            async def add(number: int) -> bool:
                given = {"observations": [{"entityName": "Ada", "contents": [f"fact {number}"]}]}
                told = await client.call_tool("add_observations", given)
                assert not told.is_error, told
                return True

            assert all(await asyncio.gather(*(add(number) for number in range(4))))
            told = await client.call_tool("read_graph", {})
            assert len(told.structured_content["entities"][0]["observations"]) == 4

    run(talk)


@pytest.mark.parametrize("permission", ["read", "write"])
def test_a_key_sees_the_tools_it_grants(permission: Any, running: tuple[str, str]) -> None:
    async def talk(address: str, key: str) -> None:
        async with over_http(address, key, "?profile=memory-server") as client:
            reading = {"read_graph", "search_nodes", "open_nodes"}
            adding = {"create_entities", "create_relations", "add_observations"}
            assert set(await tools_of(client)) == (reading if permission == "read" else adding)
            denied = await client.call_tool("delete_entities", {"entityNames": ["x"]})
            assert denied.structured_content["error"]["code"] == "denied"

    with recollect.connect(*running) as mem:
        key = mem.key.add("weak", scopes=[permission]).key
    run(lambda: talk(running[0], key))
