"""SessionMemoryAgent, contextual_memory_pc2 and jarvis_memory_pc2, field by field."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.domain.conversations import Message
from recollect.domain.memory import Embedding
from recollect.ports.query import Query, equal

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.fixture
def mem(tmp_path: Path) -> Iterator[Any]:
    with recollect.open(tmp_path / "store.db", embedder="hash") as opened:
        yield opened


def fixture(name: str) -> str:
    return str(FIXTURES / name)


def unmapped(reply: Any) -> set[tuple[str, str]]:
    return {(one.what, one.field) for one in reply.unmapped}


def test_sessions_keep_their_ids_times_data_and_summaries(mem: Any) -> None:
    mem.import_(fixture("session-memory-agent.json"), source="session-memory-agent")
    session = mem.session.show("sess-1")
    assert session.started_at == datetime(2024, 3, 1, 7, 59, 58, tzinfo=UTC)
    assert session.summary == "Maria switched on the light and set an alarm."
    assert session.metadata["device"] == "kitchen speaker"
    assert session.metadata["imported"] == {"from": "session-memory-agent", "wake_word": "jarvis"}
    assert session.user == "maria"
    assert mem.user.show("maria").name == "maria"


def test_every_turn_is_a_message_and_a_memory_that_cites_it(mem: Any) -> None:
    mem.import_(fixture("session-memory-agent.json"), source="session-memory-agent")
    said = mem.message.list(session="sess-1").messages
    assert [(one.role, one.text) for one in said] == [
        ("user", "Turn on the kitchen light."),
        ("assistant", "The kitchen light is on."),
        ("user", "明天早上七点叫我起床"),
    ]
    assert [one.role for one in mem.message.list(session="sess-2").messages] == ["user", "assistant", "assistant"]
    (found,) = mem.recall("起床", session="sess-1", limit=1)
    shown = mem.show(found.id)
    assert (shown.kind, shown.status, shown.occurred_at) == (
        "conversation",
        "hypothesis",
        datetime(2024, 3, 1, 8, 5, tzinfo=UTC),
    )
    (citation,) = shown.citations
    assert citation.source == f"log:{said[2].id}"
    assert mem.check(found.id).broken == 0


def test_what_cannot_be_mapped_is_reported_and_kept(mem: Any) -> None:
    reply = mem.import_(fixture("session-memory-agent.json"), source="session-memory-agent")
    assert {("session", "wake_word"), ("session", "session_data"), ("session", "")} <= unmapped(reply)
    assert ("turn of conversation_history", "latency_ms") in unmapped(reply)
    (found,) = mem.recall("kitchen light is on", limit=1)
    assert mem.show(found.id).metadata["imported"]["latency_ms"] == 210


def test_contexts_keep_ids_times_tags_agents_and_vectors(mem: Any) -> None:
    reply = mem.import_(fixture("contextual-memory-pc2.json"), source="contextual-memory-pc2", vector_model="old-model")
    shown = mem.show("ctx-1")
    assert (shown.kind, shown.text, shown.content["confidence"]) == ("context", "Maria is vegetarian.", 0.9)
    assert shown.created_at == datetime(2024, 3, 1, 8, 10, tzinfo=UTC)
    assert (shown.fields["expires_at"], shown.fields["source_agent"]) == ("2099-01-01T00:00:00Z", "nutrition")
    assert (sorted(shown.tags), shown.session) == (["food", "preference"], "sess-1")
    kept = mem._core.store.find(mem._scope, Query(Embedding, (equal("memory_id", "ctx-1"),))).records
    assert {(one.model, one.given, one.dimensions) for one in kept} >= {("old-model", True, 3)}
    assert mem.show("42").text == "room: kitchen\ntemperature: 21"
    assert mem.show("42").metadata["imported"] == {
        "from": "contextual-memory-pc2",
        "created_at": "yesterday",
        "mood": "calm",
    }
    assert unmapped(reply) == {("context", "created_at"), ("context", "mood")}


def test_vectors_of_an_unknown_model_are_made_anew_and_the_report_says_so(mem: Any) -> None:
    reply = mem.import_(fixture("contextual-memory-pc2.json"), source="contextual-memory-pc2")
    (told,) = [one for one in reply.unmapped if one.field == "embedding"]
    assert "--vector-model" in told.why
    kept = mem._core.store.find(mem._scope, Query(Embedding, (equal("memory_id", "ctx-1"),))).records
    assert {one.given for one in kept} == {False}


def test_profiles_become_users_entities_interactions_and_states(mem: Any) -> None:
    reply = mem.import_(fixture("jarvis-memory-pc2.json"), source="jarvis-memory-pc2")
    user = mem.user.show("tony")
    assert user.preferences == {"units": "metric", "voice": "calm"}
    assert mem.state.load("calendar").data == {"next": "2024-05-02T09:00:00Z"}
    assert mem.state.load("music").data == {"volume": 4}
    entities = mem.list(kinds=["entity"], user="tony").memories
    assert {one.text for one in entities} == {
        "Pepper (person)\nrole: CEO\nlikes strawberries? no, allergic",
        "Malibu\na house by the sea",
    }
    interactions = mem.list(kinds=["interaction"], user="tony").memories
    assert {one.text for one in interactions} == {"Order flowers\nOrdered for six o'clock.", "Any calls?\nNone."}
    shown = mem.show(next(one.id for one in interactions if one.text.startswith("Order")))
    assert len(shown.citations) == 2
    assert mem.check(shown.id).broken == 0
    assert mem._core.store.count(mem._scope, Query(Message)) == 4
    assert unmapped(reply) == {("profile", "avatar")}


def test_the_same_from_sqlite(mem: Any, tmp_path: Path) -> None:
    path = tmp_path / "sessions.sqlite"
    with closing(sqlite3.connect(path)) as made:
        made.execute("CREATE TABLE s (session_id TEXT, conversation_history TEXT, session_data TEXT, created_at TEXT)")
        history = json.dumps([{"role": "user", "content": "hello there"}])
        made.execute("INSERT INTO s VALUES ('a', ?, ?, '2024-01-01')", (history, json.dumps({"device": "phone"})))
        made.commit()
    reply = mem.import_(str(path), source="auto")
    assert reply.source == "session-memory-agent"
    assert reply.found == {"memory (conversation)": 1, "message": 1, "session": 1}
    assert mem.session.show("a").metadata["device"] == "phone"
