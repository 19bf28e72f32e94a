"""What a memory over MCP costs an agent, in tokens: the tool list that is read at every turn, and typical replies.

Our server beside the official memory server, over stdio, with the same facts in both. Counted with the tokenizer of
SmolLM2 (tests/token_counts.py). Of a reply both forms are counted, since hosts differ in which they show to a model:
the text, and the structured content.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

from shared import console, machine, table

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from mcp_hosts import OFFICIAL, over_stdio, run, tools_of
from token_counts import token_counter

RESULTS = Path(__file__).resolve().parent / "results" / "mcp_tokens.json"
PROFILES = ("default", "data", "agent", "memory-server")
FACTS = {
    "Alice": ["prefers pytest over unittest", "reviews the parser", "works from Lisbon on Fridays"],
    "parser": ["is written in Rust since March", "reads at most 10 MB", "is tested against the golden files"],
    "release": ["is cut on the first Monday of a month", "needs two approvals", "is announced by Bob"],
    "timeouts": ["are in seconds everywhere", "of the payment service are 30", "are set in settings.ini"],
}
ONE = "The staging database is rebuilt every night at two o'clock."
Count = Callable[[str], int]


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


async def list_cost(client: Any, count: Count) -> dict[str, int]:
    tools = [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in (await tools_of(client)).values()]
    return {"tools": len(tools), "tokens": count(compact(tools))}


async def reply_cost(client: Any, count: Count, tool: str, fields: dict[str, Any]) -> dict[str, int]:
    answer = await client.call_tool(tool, fields)
    assert not answer.is_error, answer.content
    structured = answer.structured_content
    return {
        "text": count("".join(part.text for part in answer.content)),
        "structured": count(compact(structured)) if structured is not None else 0,
    }


async def ours(folder: Path, count: Count) -> dict[str, Any]:
    lists = {}
    for profile in PROFILES:
        async with over_stdio(folder / "m.db", "--profile", profile) as client:
            lists[profile] = await list_cost(client, count)
    async with over_stdio(folder / "m.db") as client:
        for name, facts in FACTS.items():
            for fact in facts:
                await client.call_tool("remember", {"content": f"{name} {fact}"})
        replies = {
            "store a fact": await reply_cost(client, count, "remember", {"content": ONE, "cites": ["user:bob"]}),
            "find a fact": await reply_cost(client, count, "recall", {"query": "pytest", "limit": 3}),
            "read everything": await reply_cost(client, count, "list", {"limit": 100}),
        }
    return {"lists": lists, "replies": replies}


async def theirs(folder: Path, count: Count) -> dict[str, Any]:
    environment = {**os.environ, "MEMORY_FILE_PATH": str(folder / "memory.jsonl")}
    server = StdioServerParameters(command="node", args=[str(OFFICIAL)], env=environment)
    async with Client(server, cache=None) as client:
        entities = [{"name": name, "entityType": "topic", "observations": facts} for name, facts in FACTS.items()]
        await client.call_tool("create_entities", {"entities": entities})
        added = {"observations": [{"entityName": "release", "contents": [ONE]}]}
        return {
            "lists": {"all of it": await list_cost(client, count)},
            "replies": {
                "store a fact": await reply_cost(client, count, "add_observations", added),
                "find a fact": await reply_cost(client, count, "search_nodes", {"query": "pytest"}),
                "read everything": await reply_cost(client, count, "read_graph", {}),
            },
        }


def measured() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder, token_counter() as count:
        place = Path(folder)
        useful = {"find a fact": count("Alice prefers pytest over unittest"), "store a fact": count(ONE)}
        useful["read everything"] = sum(count(f"{name} {fact}") for name, facts in FACTS.items() for fact in facts)
        return {
            "machine": machine(),
            "tokenizer": "SmolLM2 (49,152 tokens)",
            "useful": useful,
            "recollect": run(lambda: ours(place, count), seconds=300),
            "server-memory": run(lambda: theirs(place, count), seconds=300),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS)
    out = parser.parse_args().out
    report = measured()
    rows = [
        (f"{who}: list, {name}", f"{cost['tools']} tools", str(cost["tokens"]))
        for who in ("recollect", "server-memory")
        for name, cost in report[who]["lists"].items()
    ]
    rows += [
        (f"{who}: {name}", f"text {cost['text']}", f"structured {cost['structured']}")
        for who in ("recollect", "server-memory")
        for name, cost in report[who]["replies"].items()
    ]
    console.print(table("tokens over MCP", ["what", "", ""], rows))
    out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
