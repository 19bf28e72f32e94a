"""What an operation costs: the SQL statements of one call on SQLite, counted for the page of operations.

A small store is made in a temporary folder. Each operation is called twice, and the second call is counted: the first
has opened connections and filled caches. What begins and ends a transaction is not counted, nor is the log of reads,
which is written later, many reads at once (`log` writes it before it answers, here the one entry of the call before).
Every process counts the same: nothing is measured by a clock, and neither the environment nor a settings file is read.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import recollect
from recollect.app import build, ensure_organization
from recollect.interfaces.client import Recollect
from recollect.ports.records import Scope
from recollect.services.access_journal import Journal
from recollect.settings import EmbedderSettings, Settings
from recollect.testing.statements import sqlite_statements

MEMORIES = 12
AT_ONCE = 10
AMOUNTS = {"remember_many": f"{AT_ONCE} memories"}  # how much one call does, where that is up to the caller
LATER_SECONDS = 3600.0  # when the log of reads is written: not while statements are counted
NOTES = ["notes"]
WHOSE = {"user": "ann", "agent": "bee", "session": "talk"}


def calls(number: int, run: str) -> dict[str, dict[str, Any]]:
    """The operations that agents call often, in the order they are called, with their fields. Calls of another number
    repeat none of what was written. A run is claimed before its steps, and the claim of a new run has the fence 1."""
    cites = [recollect.cite.user("ann", f"said so on day {number}")]
    return {
        "remember": {"content": f"The harbour opens at six on day {number}", "tags": ["day"], "cites": cites, **WHOSE},
        "remember_many": {"memories": [_memory(AT_ONCE * number + one, "high") for one in range(AT_ONCE)]},
        "recall": {"query": "when is the harbour quiet", "user": "ann"},
        "context": {"query": "when is the harbour quiet", "user": "ann"},
        "show": {"id": "m0"},
        "list": {"user": "ann"},
        "revise": {"id": "m1", "content": f"The harbour is closed on day {number}", "why": "seen"},
        "forget": {"id": f"m{1 + number}", "why": "no longer true"},
        "pattern.suggest": {"task": "count the boats in the harbour"},
        "message.add": {"role": "user", "text": f"Is the harbour open on day {number}?", **WHOSE},
        "message.list": {"session": "talk"},
        "message.search": {"query": "harbour", "session": "talk"},
        "run.start": {"goal": f"count the boats on day {number}", "agent": "bee", "session": "talk", "queue": "later"},
        "run.claim": {"worker": f"worker {number}", "id": run},
        "run.propose": {"id": run, "fence": 1, "tool": "count", "arguments": {"what": "boats"}},
        "run.record": {"id": run, "fence": 1, "summary": f"{number} boats were counted", "output": {"boats": number}},
        "run.finish": {"id": run, "fence": 1, "summary": f"all {number} boats are counted"},
        "run.show": {"id": run},
        "block.write": {"id": "persona", "value": f"I have counted boats for {number} days."},
        "state.save": {"agent": "bee", "session": "talk", "data": {"day": number}},
        "workspace.write": {"id": "desk", "path": "boats.md", "text": f"On day {number} there were boats."},
        "workspace.read": {"id": "desk", "path": "boats.md"},
        "checkpoint.put": {"thread": "talk", "id": f"c{number}", "base": "c0", "items": {"m": [b"x"]}},
        "checkpoint.get": {"thread": "talk"},
        "item.put": {"namespace": NOTES, "key": f"k{number}", **_item(number)},
        "item.get": {"namespace": NOTES, "key": "k0"},
        "item.search": {"prefix": NOTES, "query": "boats"},
        "user.add": {"name": f"User {number}", "id": f"user{number}"},
        "log": {"memory": "m0"},
    }


@cache
def statements() -> Mapping[str, int]:
    """How many statements one call of each operation takes; counted once in a process."""
    found: dict[str, int] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        sqlite_statements(upkeep=False) as seen,
        _opened(Path(folder)) as mem,
    ):
        one_run, other_run = _fill(mem)
        first, second = calls(1, one_run), calls(2, other_run)
        for name, fields in first.items():
            mem.call(name, **fields)
            seen.clear()
            mem.call(name, **second[name])
            found[name] = len(seen)
    return found


def _opened(folder: Path) -> Recollect:
    """A new store, built from these settings alone, in which only the caller's own calls do anything."""
    settings = Settings(store=str(folder / "counted.db"), embedder=EmbedderSettings(provider="hash"), background=False)
    core = build(settings)
    core = replace(core, journal=Journal(core.store, flush_seconds=LATER_SECONDS))
    return Recollect(core, Scope(settings.organization, settings.actor), ensure_organization)


def _fill(mem: Recollect) -> tuple[str, str]:
    """A little of everything that is asked for. Returns two runs that wait for a worker."""
    mem.user.add("Ann", id="ann")
    mem.agent.add("Bee", id="bee")
    mem.session.add("A talk", id="talk", user="ann", agent="bee")
    mem.remember_many([_memory(number, "quiet") | {"id": f"m{number}"} for number in range(MEMORIES)])
    mem.erase(mem.remember("gone again").id)  # where anything was ever deleted, a write looks for traces of it
    for number in range(3):
        mem.episode.record(f"count the boats in harbour {number}", True, action_plan=["go there", "count"], agent="bee")
    mem.pattern.learn()
    mem.message.add("user", "How is the harbour today?", **WHOSE)
    mem.block.add("persona", "I count boats.", id="persona", agents=["bee"])
    mem.workspace.add("bee", id="desk")
    mem.checkpoint.put("talk", "c0", items={"m": [b"x"]})
    mem.item.put(NOTES, "k0", **_item(0))
    return mem.run.start("count the boats", agent="bee").id, mem.run.start("count the nets", agent="bee").id


def _memory(number: int, word: str) -> dict[str, Any]:
    cites = [recollect.cite.user("ann", f"said so, {word} {number}")]
    return {"content": f"The harbour is {word} on day {number}", "tags": ["day", word], "cites": cites, **WHOSE}


def _item(number: int) -> dict[str, Any]:
    return {"value": {"boats": number}, "texts": {"text": f"{number} boats lie in the harbour"}}
