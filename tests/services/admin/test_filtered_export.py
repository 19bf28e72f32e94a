"""An export of some memories: with all that hangs on them and that they refer to, so that it can be imported alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import recollect


def _fill(mem: Any) -> None:
    mem.user.add("Ann", id="ann")
    mem.user.add("Bob", id="bob")
    mem.agent.add("Bot", id="bot")
    mem.session.add("Talk", id="talk", user="ann", agent="bot")
    cited = recollect.cite.user("ann", "said so")
    mem.remember("hers", id="hers", session="talk", user="ann", tags=["a"], cites=[cited], metadata={"n": {"m": 1}})
    mem.remember("also hers", id="also", user="ann", metadata={"n": {"m": 2}}, relates={"hers": "supports"})
    mem.remember("his", id="his", user="bob", metadata={"n": {"m": 3}}, relates={"hers": "contradicts"})
    mem.revise("hers", priority=9)
    mem.message.add("user", "hello", session="talk")


def test_a_filtered_export_is_whole_in_itself(every: Any, tmp_path: Path) -> None:
    _fill(every)
    path = tmp_path / "some.jsonl"
    every.export(str(path), metadata={"n": {"m": {"lt": 3}}})
    lines = [json.loads(line) for line in path.read_text().splitlines()][1:-1]
    tables: dict[str, set[str]] = {}
    for line in lines:
        tables.setdefault(line["table"], set()).add(line["record"]["id"])
    assert tables["memory"] == {"hers", "also"}
    assert (tables["user"], tables["agent"], tables["session"]) == ({"ann"}, {"bot"}, {"talk"})
    assert len(tables["relationship"]) == len(tables["tag"]) == len(tables["citation"]) == len(tables["revision"]) == 1
    assert "message" not in tables
    with recollect.open(tmp_path / "other.db", embedder="hash") as other:
        other.import_(str(path))
        assert {one.id for one in other.list()} == {"hers", "also"}
        assert other.show("also").links[0].id == "hers"
        assert other.verify().sound


def test_without_a_filter_everything_is_exported(every: Any, tmp_path: Path) -> None:
    _fill(every)
    every.export(str(tmp_path / "all.jsonl"), metadata={})
    assert (tmp_path / "all.jsonl").read_text().count('"table":"memory"') == 3
