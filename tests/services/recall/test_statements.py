"""What recalling and remembering ask of the store, counted: the same for few memories and for many."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import recollect
from counting import store_calls
from every_store import EMPTY_STORE, EVERY_STORE
from recollect.adapters.records.common import data_keys
from recollect.services import keyed_hashes, times
from recollect.services.access_journal import Journal
from recollect.testing.statements import sqlite_statements

LONG = "The ferry leaves the pier at noon, and the crew has lunch on deck. " * 60


def fill(mem: Any, memories: int = 150) -> None:
    """Sessions with neighbours, tags, citations, and texts of several passages; more than one search finds."""
    mem.user.add("Ann", id="ann")
    mem.agent.add("Bee", id="bee")
    for number in range(3):
        mem.session.add(id=f"s{number}", user="ann", agent="bee")
    said = [
        {
            "content": f"{'the harbour is quiet' if number % 3 else 'nothing of note'}, day {number}",
            "kind": "conversation",
            "author": "Ann" if number % 2 else "Bob",
            "user": "ann",
            "session": f"s{number % 3}",
            "tags": ["day", f"t{number % 4}"],
            "cites": [recollect.cite.user("ann", f"said so {number}")] if number % 5 == 0 else [],
        }
        for number in range(memories)
    ]
    long = [{"content": f"{LONG} number {number}", "user": "ann", "tags": ["long"]} for number in range(3)]
    mem.remember_many([*said, *long])


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a slow machine, too, a user's zone and the secrets of an organization are read once."""
    monkeypatch.setattr(times, "KNOWN_SECONDS", 3600.0)
    for module in (keyed_hashes, data_keys):
        monkeypatch.setattr(module, "_BELIEVED_SECONDS", 3600.0)


@pytest.fixture
def counted(known: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, list[str]]]:
    monkeypatch.setattr(Journal, "note", lambda *given, **named: None)  # written later, with others
    with sqlite_statements() as seen, recollect.open(tmp_path / "counted.db", embedder="hash") as mem:
        fill(mem)
        mem.recall("warm", user="ann")
        yield mem, seen


QUESTIONS: dict[str, dict[str, Any]] = {
    "everything": {},
    "named": {"query": "What did Bob say of the harbour?"},
    "a user": {"user": "ann"},
    "tags": {"tags": ["day"]},
    "meaning": {"by": "meaning"},
    "words": {"by": "words"},
    "many": {"limit": 50},
    "long": {"query": "when does the ferry leave the pier"},
}


@pytest.mark.parametrize("asked", QUESTIONS.values(), ids=QUESTIONS)
def test_recall_runs_a_few_statements(counted: tuple[Any, list[str]], asked: dict[str, Any]) -> None:
    """Words: the counter, all terms, the proof. Meaning: the counter, the vectors, more of them where a memory has
    several. Then the records of those that were found by words, by meaning and beside, the neighbours (in sessions, and
    without one), the vectors of the pool, citations, tags. All statements count but those that begin and end a
    transaction.
    """
    mem, seen = counted
    question = {"query": "quiet days in the harbour", **asked}
    mem.recall(**question)  # the sizes of what is searched are counted once after each write
    seen.clear()
    found = mem.recall(**question)
    assert len(found) >= 3
    assert len(seen) <= 14, "\n".join(seen)
    records = [text for text in seen if '"content"' in text.partition(" FROM ")[0]]
    assert len(records) <= 3, records  # no memory is read twice: by words, by meaning, beside


def test_remember_runs_a_few_statements(counted: tuple[Any, list[str]]) -> None:
    """The counters, the look for a duplicate, all references in one, the memory and its words, tag, citation, log entry
    and vector, the counters again; nothing is asked about deleted records while there are none.
    """
    mem, seen = counted
    whose = {"user": "ann", "session": "s1", "agent": "bee"}
    seen.clear()
    mem.remember("the harbour opens at six", tags=["day"], cites=[recollect.cite.user("ann", "so")], **whose)
    assert len(seen) <= 11, "\n".join(seen)
    mem.erase(mem.remember("gone again", **whose).id)
    seen.clear()
    mem.remember("the harbour closes at ten", tags=["day"], cites=[recollect.cite.user("ann", "so")], **whose)
    assert len(seen) <= 12, "\n".join(seen)


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("kind", EVERY_STORE)
def test_every_store_is_waited_for_a_few_times(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted are calls of the store and of the vector index, each of which waits once where they are far away."""
    with recollect.open(EMPTY_STORE[kind](tmp_path), embedder="hash") as mem:
        fill(mem)
        seen = store_calls(mem, monkeypatch)
        for asked in QUESTIONS.values():
            seen.clear()
            assert len(mem.recall(**{"query": "quiet days in the harbour", **asked})) >= 3
            # Where rows are kept, what is shown beside what ranks is read of the hits alone.
            assert len(seen) <= 9 + mem._core.store.capabilities.keeps_rows, seen
        seen.clear()
        mem.remember("the harbour opens at six", user="ann", session="s1", tags=["day"], cites=["user:ann"])
        assert seen == ["transact"]
