"""Each product's own formats: what becomes of its fields, and which of its files can be read."""

from __future__ import annotations

import json
import pickle
import sqlite3
import sys
import types
import zipfile
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

import recollect
from import_samples import FIXTURES, made_sample, sqlite_from
from recollect.domain.memory import Embedding, Relationship
from recollect.errors import InvalidInput
from recollect.integrations.langgraph import RecollectSaver, RecollectStore
from recollect.ports.query import Query, equal
from recollect.services.importers.pickled import pickled_data


@pytest.fixture
def mem(tmp_path: Path) -> Iterator[Any]:
    with recollect.open(tmp_path / "store.db", embedder="hash") as opened:
        yield opened


def unmapped(reply: Any) -> set[tuple[str, str]]:
    return {(one.what, one.field) for one in reply.unmapped}


def links(mem: Any) -> list[tuple[str, str, str]]:
    return sorted(mem._core.store.select(mem._scope, Query(Relationship), ("source_id", "type", "target_id")))


# -- mem0 --------------------------------------------------------------------------------------------------------------

FIRST = "0b0f9d3e-6d1c-4b57-9d30-5c0f9a2d1a01"
SECOND = "0b0f9d3e-6d1c-4b57-9d30-5c0f9a2d1a02"


def test_mem0_memories_keep_ids_times_owners_and_categories(mem: Any, tmp_path: Path) -> None:
    reply = mem.import_(made_sample("mem0", tmp_path), source="mem0")
    first, second = mem.show(FIRST), mem.show(SECOND)
    assert (first.text, first.user) == ("Likes to play cricket on weekends", "alice")
    assert first.created_at == datetime(2024, 7, 26, 17, 29, 36, 630547, tzinfo=UTC)
    assert first.metadata == {"category": "hobbies", "imported": {"from": "mem0"}}
    assert first.citations == []  # a model has extracted it, nobody said it
    assert (second.text, second.author, second.agent, second.session) == ("我对花生过敏", "Alice", "doctor", "visit-7")
    assert second.tags == ["health"]
    assert second.citations[0].source == "user:alice"
    assert mem.promote(SECOND).status == "verified"  # by somebody, not by the import
    assert second.metadata["imported"]["immutable"] is True
    assert unmapped(reply) == {("memory", "immutable"), ("memory", "")}
    entities = {one.text: one.id for one in mem.list(kinds=["entity"]).memories}
    assert links(mem) == [(entities["alice"], "plays", entities["cricket"])]


def qdrant(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A local Qdrant as its client writes it: points as pickled models of pydantic."""
    from pydantic import BaseModel

    class PointStruct(BaseModel):
        id: str
        vector: list[float]
        payload: dict[str, Any]

    module = types.ModuleType("qdrant_client_models")
    PointStruct.__module__, PointStruct.__qualname__ = module.__name__, "PointStruct"
    module.PointStruct = PointStruct  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    place = folder / "qdrant" / "collection" / "mem0"
    place.mkdir(parents=True)
    payload = {
        "data": "Prefers tea",
        "hash": "x",
        "created_at": "2024-01-01T00:00:00Z",
        "user_id": "bo",
        "mood": "calm",
    }
    points = [
        PointStruct(id=FIRST, vector=[0.6, 0.8], payload=payload),
        PointStruct(id=SECOND, vector=[1.0, 0.0], payload={"data": "喜欢喝茶", "user_id": "bo"}),
    ]
    with closing(sqlite3.connect(place / "storage.sqlite")) as made:
        made.execute("CREATE TABLE points (id TEXT PRIMARY KEY, point BLOB)")
        made.executemany("INSERT INTO points VALUES (?, ?)", [(one.id, pickle.dumps(one)) for one in points])
        made.execute("INSERT INTO points VALUES ('bad', ?)", (pickle.dumps(print),))
        made.commit()
    with closing(sqlite3.connect(folder / "qdrant" / "history.db")) as made:
        made.execute(HISTORY)
        made.executemany("INSERT INTO history VALUES (?, ?, ?, ?, ?, ?, ?, 0, NULL, NULL)", EVENTS)
        made.commit()
    return folder / "qdrant"


HISTORY = (
    "CREATE TABLE history (id TEXT PRIMARY KEY, memory_id TEXT, old_memory TEXT, new_memory TEXT, event TEXT,"
    " created_at DATETIME, updated_at DATETIME, is_deleted INTEGER, actor_id TEXT, role TEXT)"
)
EVENTS = [
    ("h1", FIRST, None, "Prefers coffee", "ADD", "2024-01-01T00:00:00Z", None),
    ("h2", FIRST, "Prefers coffee", "Prefers tea", "UPDATE", "2024-01-01T00:00:00Z", "2024-02-01T00:00:00Z"),
    ("h3", "gone", None, "Likes rain", "ADD", "2024-01-01T00:00:00Z", None),
    ("h4", "gone", "Likes rain", None, "DELETE", "2024-01-03T00:00:00Z", None),
]


def test_a_local_qdrant_of_mem0_is_read_with_its_vectors_and_history(
    mem: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = qdrant(tmp_path, monkeypatch)
    reply = mem.import_(str(folder), source="auto", vector_model="text-embedding-3-small")
    assert reply.source == "mem0"
    shown = mem.show(FIRST)
    assert (shown.text, shown.user, shown.metadata["mood"]) == ("Prefers tea", "bo", "calm")
    assert shown.metadata["imported"]["history"] == [{"memory": "Prefers coffee", "until": "2024-02-01T00:00:00Z"}]
    kept = mem._core.store.find(mem._scope, Query(Embedding, (equal("given", True),))).records
    assert {(one.memory_id, one.model, one.dimensions) for one in kept} == {
        (FIRST, "text-embedding-3-small", 2),
        (SECOND, "text-embedding-3-small", 2),
    }
    assert ("point", "") in unmapped(reply)  # the pickle that is more than data


def test_a_link_to_another_qdrant_is_not_followed(mem: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collections = qdrant(tmp_path, monkeypatch) / "collection"
    (tmp_path / "mine" / "collection").mkdir(parents=True)
    (tmp_path / "mine" / "collection" / "mem0").symlink_to(collections / "mem0")
    with pytest.raises(InvalidInput, match=r"has no storage\.sqlite"):
        mem.import_(str(tmp_path / "mine"), source="mem0")


def test_the_history_of_mem0_alone_tells_what_its_memories_say_now(
    mem: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = qdrant(tmp_path, monkeypatch) / "history.db"
    reply = mem.import_(str(path), source="auto")
    assert reply.found == {"memory (fact)": 1}
    assert mem.show(FIRST).text == "Prefers tea"
    assert [one.why for one in reply.unmapped] == ["mem0 has deleted it"]


def test_points_of_qdrant_over_http_are_read_too(mem: Any, tmp_path: Path) -> None:
    points = [{"id": "p", "payload": {"data": "Owns a boat", "user_id": "cy"}, "vector": None}]
    (tmp_path / "scroll.json").write_text(json.dumps({"result": {"points": points}, "status": "ok"}))
    assert mem.import_(str(tmp_path / "scroll.json"), source="mem0").found == {"memory (fact)": 1, "user": 1}


def test_a_pickle_is_read_and_never_run(tmp_path: Path) -> None:
    class Harm:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "harmed",))

    assert pickled_data(pickle.dumps({"a": [1, 2.5, None, True, ("x", b"y")]})) == {
        "a": [1, 2.5, None, True, ("x", b"y")]
    }
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        with suppress(ValueError):
            pickled_data(pickle.dumps([Harm()], protocol))
    assert not (tmp_path / "harmed").exists()
    shared: list[object] = []
    shared.append(shared)
    for raw in (pickle.dumps(shared), pickle.dumps([1])[:-3], b"", b"rubbish"):
        with pytest.raises(ValueError, match=r"it|pickle|stream"):
            pickled_data(raw)


# -- the MCP memory server ---------------------------------------------------------------------------------------------


def test_the_graph_of_the_memory_server_is_the_graph_here(mem: Any) -> None:
    reply = mem.import_(str(FIXTURES / "mcp-memory.jsonl"), source="mcp-memory")
    entities = {one.text.splitlines()[0]: one.id for one in mem.list(kinds=["entity"]).memories}
    assert set(entities) == {"Ada (person)", "Recollect (project)", "Łódź"}
    ada, project, city = entities["Ada (person)"], entities["Recollect (project)"], entities["Łódź"]
    assert sorted(links(mem)) == sorted([(ada, "works_on", project), (ada, "lives_in", city)])
    shown = mem.show(project)
    assert shown.content["observations"] == ["记忆系统"]
    assert shown.citations[0].source.endswith("mcp-memory.jsonl")
    assert mem.promote(project).status == "verified"
    assert unmapped(reply) == {("entity", "url"), ("line", "")}


def test_an_entity_that_exists_under_its_name_is_the_same_one(mem: Any, tmp_path: Path) -> None:
    from recollect.services.frameworks.graph import CreateEntitiesRequest, ReadGraphRequest, create_entities, read_graph

    tenant = mem._core.for_scope(mem._scope)
    create_entities(
        tenant, CreateEntitiesRequest(entities=[{"name": "Ada", "entityType": "person", "observations": ["Sings"]}])
    )
    mem.import_(str(FIXTURES / "mcp-memory.jsonl"), source="mcp-memory")
    graph = read_graph(tenant, ReadGraphRequest())
    assert sorted(one.name for one in graph.entities) == ["Ada", "Recollect"]
    assert {(one.start, one.to) for one in graph.relations} == {("Ada", "Recollect"), ("Ada", "Łódź")}


def test_a_graph_as_read_graph_shows_it_is_read(mem: Any, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in (FIXTURES / "mcp-memory.jsonl").read_text().splitlines()]
    graph = {
        "entities": [one for one in lines if one["type"] == "entity"],
        "relations": [one for one in lines if one["type"] == "relation"],
    }
    (tmp_path / "graph.json").write_text(json.dumps(graph))
    reply = mem.import_(str(tmp_path / "graph.json"), source="auto")
    assert (reply.source, reply.found) == ("mcp-memory", {"memory (entity)": 3, "relationship": 2})


# -- ChatGPT and Claude ------------------------------------------------------------------------------------------------


def test_the_branch_of_chatgpt_that_was_shown_last_is_imported(mem: Any, tmp_path: Path) -> None:
    reply = mem.import_(made_sample("chatgpt", tmp_path), source="chatgpt")
    session = mem.session.show("67a1-conv")
    assert (session.title, session.started_at) == (
        "Trip to Lisbon",
        datetime(2024, 5, 1, 10, 40, 0, 500000, tzinfo=UTC),
    )
    said = mem.message.list(session="67a1-conv").messages
    assert [(one.role, one.text, one.model) for one in said] == [
        ("user", "Which day is best for Sintra?", None),
        ("assistant", 'search("Sintra crowds")', "gpt-4o"),
        ("assistant", "Go on a Tuesday: Sintra is crowded at weekends.", "gpt-4o"),
    ]
    assert said[0].content[0]["asset_pointer"] == "file-service://file-1"
    assert said[1].tool_calls[0]["name"] == "browser"
    assert mem.show("m5").citations[0].source == f"log:{said[2].id}"
    assert mem.show("m5").metadata["imported"]["metadata"] == {"finish_details": {"type": "stop"}}
    assert reply.found["memory (conversation)"] == 2  # not the call of a tool
    assert {"m3", "n3"} & {one.example for one in reply.unmapped}
    assert ("conversation", "default_model_slug") in unmapped(reply)


def zipped(path: Path, **files: str) -> str:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return str(path)


def test_the_zip_of_chatgpt_names_its_user(mem: Any, tmp_path: Path) -> None:
    whole = (FIXTURES / "chatgpt.json").read_text()
    user = json.dumps({"id": "user-9", "email": "a@example.org", "chatgpt_plus_user": True})
    path = zipped(tmp_path / "export.zip", **{"conversations.json": whole, "user.json": user, "chat.html": "<html>"})
    assert mem.import_(path, source="auto").source == "chatgpt"
    assert mem.show("m5").user == "user-9"
    assert mem.user.show("user-9").profile_data["email"] == "a@example.org"


def test_conversations_of_claude_keep_tools_thoughts_and_attachments(mem: Any, tmp_path: Path) -> None:
    reply = mem.import_(made_sample("claude", tmp_path), source="claude")
    session = mem.session.show("c1a0de00-0000-4000-8000-000000000001")
    assert (session.title, session.summary, session.user) == ("Sourdough", "How to feed a starter.", "acc-1")
    first, second = mem.message.list(session=session.id).messages
    assert [one["type"] for one in first.content] == ["attachment", "file"]
    assert (second.text, second.tool_calls[0]["name"]) == ("Once a day at room temperature.", "search")
    assert second.content[0]["thinking"] == "Room temperature matters."
    assert mem.show("msg-2").author == "assistant"
    assert {("conversation", "is_starred"), ("message", "stop_reason"), ("message", "")} == unmapped(reply)


def test_the_zip_of_claude_has_users_and_projects(mem: Any, tmp_path: Path) -> None:
    users = json.dumps([{"uuid": "acc-1", "full_name": "Ann Lee", "email_address": "ann@example.org"}])
    projects = [
        {"uuid": "p-1", "name": "Bread", "docs": [{"uuid": "d-1", "filename": "rye.md", "content": "Rye is slow."}]}
    ]
    files = {
        "data/conversations.json": (FIXTURES / "claude.json").read_text(),
        "data/users.json": users,
        "data/projects.json": json.dumps(projects),
    }
    assert mem.import_(zipped(tmp_path / "c.zip", **files), source="auto").source == "claude"
    assert mem.user.show("acc-1").name == "Ann Lee"
    assert (mem.show("d-1").text, mem.show("d-1").project) == ("Rye is slow.", "p-1")


def test_a_folder_is_read_like_its_zip_and_links_in_it_are_not_followed(mem: Any, tmp_path: Path) -> None:
    folder = tmp_path / "export"
    folder.mkdir()
    (tmp_path / "secret.json").write_text((FIXTURES / "claude.json").read_text())
    (folder / "conversations.json").symlink_to(tmp_path / "secret.json")
    with pytest.raises(InvalidInput, match=r"has no conversations\.json"):
        mem.import_(str(folder), source="claude")
    (folder / "conversations.json").unlink()
    (folder / "conversations.json").write_text((FIXTURES / "claude.json").read_text())
    assert mem.import_(str(folder), source="auto").source == "claude"


# -- Markdown ----------------------------------------------------------------------------------------------------------


def test_instructions_become_one_memory_for_each_item_with_its_lines(mem: Any) -> None:
    mem.import_(str(FIXTURES / "notes" / "CLAUDE.md"), source="markdown")
    found = {one.text: mem.show(one.id) for one in mem.list().memories}
    assert set(found) == {
        "Working here: Always run the tests before you commit.",
        "Working here > Style: Use pytest, never unittest.\n  - Fixtures go into conftest.py.",
        "Working here > Style: Lines have at most 120 characters.",
        "Working here > Style: ```bash\n# not a heading\nmake test\n```",
    }
    shown = found["Working here > Style: Use pytest, never unittest.\n  - Fixtures go into conftest.py."]
    evidence = shown.citations[0]
    assert evidence.source.endswith("CLAUDE.md")
    assert mem.promote(shown.id).status == "verified"  # the lines are there


def test_notes_keep_front_matter_tags_and_links(mem: Any) -> None:
    reply = mem.import_(str(FIXTURES / "notes"), source="markdown")
    found = {one.text.splitlines()[0]: mem.show(one.id) for one in mem.list(limit=100).memories}
    garden, roses, pond = (
        found[next(one for one in found if one.startswith("Notes"))],
        found["## Roses"],
        found["# 池塘"],
    )
    assert sorted(roses.tags) == ["outdoors", "plants", "pruning"]
    assert pond.tags == ["水"]
    assert garden.created_at == datetime(2024, 4, 1, tzinfo=UTC)
    assert garden.metadata["imported"]["weather"] == {"zone": "8b"}
    assert {(garden.id, "links_to", pond.id), (pond.id, "links_to", garden.id)} == set(links(mem))
    assert ("link", "") in unmapped(reply)
    assert "hidden" not in str(found)


def test_a_zip_of_notes_is_read_in_place(mem: Any, tmp_path: Path) -> None:
    path = zipped(
        tmp_path / "vault.zip", **{"v/A.md": "# A\nsee [[B]]", "v/B.md": "text", "../evil.md": "x", "v/.git/c.md": "y"}
    )
    reply = mem.import_(path, source="auto")
    assert reply.found == {"memory (fact)": 2, "relationship": 1}
    assert [one.why for one in reply.unmapped] == ["its path leads out of the zip"]
    assert all(not mem.show(one.id).citations for one in mem.list().memories)  # what is in a zip cannot be looked up


def test_front_matter_cannot_do_harm(mem: Any, tmp_path: Path) -> None:
    bomb = "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]"
    for number, matter in enumerate((bomb, "x: !!python/object/apply:os.getcwd []", "[" * 3000, "- list", "x: [")):
        (tmp_path / f"{number}.md").write_text(f"---\n{matter}\n---\nText {number}")
    reply = mem.import_(str(tmp_path), source="markdown")
    assert reply.found["memory (fact)"] == 5


# -- Letta -------------------------------------------------------------------------------------------------------------


def test_an_agent_file_becomes_an_agent_with_blocks_tools_and_messages(mem: Any, tmp_path: Path) -> None:
    reply = mem.import_(made_sample("letta", tmp_path), source="letta")
    (agent,) = mem.agent.list().agents
    shown = mem.agent.show(agent.id)
    assert (shown.name, shown.system) == ("Sam", "You are Sam.")
    blocks = {one.label: one for one in mem.block.list(agent=agent.id).blocks}
    assert blocks["persona"].value == "I am Sam, and I like dogs."
    assert (blocks["human"].value, blocks["human"].limit) == ("名字:小明", 5)
    assert [one.name for one in mem.tool.list().tools] == ["send_message"]
    said = mem.message.list(agent=agent.id).messages
    assert [(one.role, one.text) for one in said][1:3] == [
        ("user", "My dog is called Rex"),
        ("assistant", "Hello to Rex!"),
    ]
    assert mem.recall("Rex the dog", limit=1)[0].text in ("My dog is called Rex", "Hello to Rex!")
    (told,) = [one for one in reply.unmapped if "secrets" in one.why]
    assert told.field == "tool_exec_environment_variables"
    mem.export(str(tmp_path / "all.jsonl"))
    assert "sk-secret" not in (tmp_path / "all.jsonl").read_text()


def test_a_tool_that_exists_is_linked_and_left_as_it_is(mem: Any, tmp_path: Path) -> None:
    own = mem.tool.add("send_message", "my own").id
    mem.import_(made_sample("letta", tmp_path), source="letta")
    (tool,) = mem.tool.list().tools
    assert (tool.id, tool.description) == (own, "my own")
    assert mem.tool.show(own).agents == [mem.agent.list().agents[0].id]


def test_the_former_agent_file_is_read_too(mem: Any, tmp_path: Path) -> None:
    former = {
        "agent_type": "memgpt_agent", "name": "Old Sam", "system": "You are old.", "version": "0.6",
        "core_memory": [{"label": "persona", "value": "old", "limit": 100}], "tools": [],
        "in_context_message_indices": [0],
        "messages": [{"role": "user", "text": "hello", "created_at": "2025-01-01T00:00:00Z"}],
    }  # fmt: skip
    (tmp_path / "old.af").write_text(json.dumps(former))
    reply = mem.import_(str(tmp_path / "old.af"), source="auto")
    assert reply.source == "letta"
    assert reply.found == {"agent": 1, "block": 1, "block_link": 1, "memory (conversation)": 1, "message": 1}


# -- LangGraph ---------------------------------------------------------------------------------------------------------


def test_items_of_a_store_are_items_here(mem: Any, tmp_path: Path) -> None:
    mem.import_(made_sample("langgraph", tmp_path), source="langgraph")
    store = RecollectStore(mem)
    found = store.get(("memories", "ann"), "food")
    assert found is not None
    assert (found.value, found.created_at) == (
        {"text": "Ann likes dumplings", "score": 3},
        datetime(2024, 6, 1, 10, tzinfo=UTC),
    )
    assert store.search(("memories",), query="波说中文")[0].key == "语言"


def saved(serde: JsonPlusSerializer) -> dict[str, Any]:
    messages = [HumanMessage("hi"), AIMessage("hello " * 50)]
    return {
        "v": 4, "id": "1f0-b", "ts": "2025-01-01T00:00:00+00:00", "channel_values": {"messages": messages, "n": 7},
        "channel_versions": {"messages": 2, "n": 2}, "versions_seen": {"agent": {"messages": 1}},
        "updated_channels": None,
    }  # fmt: skip


def test_threads_of_a_sqlite_checkpointer_go_on_here(mem: Any, tmp_path: Path) -> None:
    serde = JsonPlusSerializer()
    path = sqlite_from("langgraph.sql", tmp_path / "lg.sqlite")
    form, raw = serde.dumps_typed(saved(serde))
    with closing(sqlite3.connect(path)) as made:
        row = (
            "t2",
            "",
            "1f0-b",
            "1f0-a",
            form,
            raw,
            json.dumps({"source": "loop", "step": 2, "run_id": "r1"}).encode(),
        )
        made.execute("INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        written = (*serde.dumps_typed([AIMessage("next")]),)
        made.execute("INSERT INTO writes VALUES ('t2', '', '1f0-b', 'task', '', 0, 'messages', ?, ?)", written)
        made.commit()
    reply = mem.import_(str(path), source="langgraph")
    assert reply.found["checkpoint"] == 2
    saver = RecollectSaver(mem)
    found = saver.get_tuple({"configurable": {"thread_id": "t2", "checkpoint_ns": ""}})
    assert found is not None
    assert found.checkpoint["channel_values"] == saved(serde)["channel_values"]
    assert found.checkpoint["channel_versions"] == {"messages": 2, "n": 2}
    assert (found.metadata["step"], found.pending_writes) == (2, [("task", "messages", [AIMessage("next")])])
    config = saver.put(found.config, {**found.checkpoint, "id": "1f0-c"}, {"source": "loop", "step": 3}, {})
    again = saver.get_tuple(config)
    assert again is not None
    assert again.checkpoint["channel_values"]["n"] == 7
    first = saver.get_tuple({"configurable": {"thread_id": "t1", "checkpoint_ns": ""}})
    assert first is not None
    assert first.checkpoint["channel_values"] == {"count": 3}
    assert mem.verify().sound


def copied(table: str, columns: str, *rows: tuple[object, ...]) -> str:
    lines = ["\t".join("\\N" if one is None else str(one).replace("\\", "\\\\") for one in row) for row in rows]
    return f"COPY public.{table} ({columns}) FROM stdin;\n" + "\n".join(lines) + "\n\\.\n\n"


def dump(serde: JsonPlusSerializer) -> str:
    state = saved(serde)
    (form, raw), n = serde.dumps_typed(state["channel_values"]["messages"]), state["channel_values"]["n"]
    body = {**state, "channel_values": {"n": n}}
    row = ("t3", "", "1f0-b", None, None, json.dumps(body), json.dumps({"step": 1, "source": "a\tb"}))
    value = json.dumps({"text": "ate\\drank"})
    line = "thread_id, checkpoint_ns"
    at = "2024-01-01 00:00:00+00"
    blobs = (("t3", "", "messages", 2, form, "\\x" + raw.hex()), ("t3", "", "messages", 1, "empty", None))
    return "".join(
        (
            "--\n-- PostgreSQL database dump\n--\n\nCREATE TABLE public.store (prefix text);\n\n",
            copied("store", f"prefix, key, value, {TIMES}", ("a.b", "k", value, at, at, None, None)),
            copied("checkpoint_blobs", f"{line}, channel, version, type, blob", *blobs),
            copied("checkpoints", f"{line}, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata", row),
            copied(
                "checkpoint_writes",
                f"{line}, checkpoint_id, task_id, idx, channel, type, blob, task_path",
                ("t3", "", "1f0-b", "task", 0, "n", "msgpack", "\\x08", ""),
            ),
        )
    )


TIMES = "created_at, updated_at, expires_at, ttl_minutes"


def test_a_dump_of_the_postgresql_tables_is_read(mem: Any, tmp_path: Path) -> None:
    serde = JsonPlusSerializer()
    (tmp_path / "dump.sql").write_text(dump(serde))
    assert mem.import_(str(tmp_path / "dump.sql"), source="auto").source == "langgraph"
    found = RecollectSaver(mem).get_tuple({"configurable": {"thread_id": "t3", "checkpoint_ns": ""}})
    assert found is not None
    assert found.checkpoint["channel_values"] == saved(serde)["channel_values"]
    assert (found.metadata["source"], found.pending_writes) == ("a\tb", [("task", "n", 8)])
    item = RecollectStore(mem).get(("a", "b"), "k")
    assert item is not None
    assert item.value == {"text": "ate\\drank"}
    (tmp_path / "cut.sql").write_text(dump(serde)[:-30])
    with pytest.raises(InvalidInput, match="cut short"):
        mem.import_(str(tmp_path / "cut.sql"), source="langgraph")
