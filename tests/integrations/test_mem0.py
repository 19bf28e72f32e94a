"""mem0's interface on Recollect: its signatures and replies, its filters, and what is deleted is gone.

`mem0_2_2_1.json` holds the signatures and the members of replies as they were read off the real package.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

import recollect
from recollect.errors import NotFound
from recollect.integrations import mem0
from recollect.integrations.mem0 import AsyncMemory, Memory, MemoryClient
from recollect.integrations.mem0.filters import InvalidRequest

REAL = json.loads(Path(__file__).with_name("mem0_2_2_1.json").read_text())
ALICE = {"user_id": "alice"}


def ids(reply: Any) -> list[str]:
    return [one["id"] for one in reply["results"]]


def texts(reply: Any) -> list[str]:
    return [one["memory"] for one in reply["results"]]


@pytest.mark.parametrize(
    ("name", "method"), [(name, method) for name, methods in REAL["methods"].items() for method in methods]
)
def test_every_method_takes_what_mem0s_takes(name: str, method: str) -> None:
    ours = inspect.signature(getattr(getattr(mem0, name), method))
    taken = list(ours.parameters.values())[1:]
    theirs = [one for one in REAL["methods"][name][method] if one[0] != "llm"]  # a model of LangChain's, for async add
    assert [[one.name, one.kind.name] for one in taken] == [one[:2] for one in theirs]
    assert [one.default is not one.empty for one in taken] == [one[3] for one in theirs]
    given = [(one.default, real[2]) for one, real in zip(taken, theirs, strict=True) if real[2] is not None]
    assert [default for default, _ in given] == [real for _, real in given]


def test_replies_have_the_members_of_mem0s(mem: Any) -> None:
    memory = Memory(mem)
    said = {"role": "user", "content": "I like tea", "name": "bob"}
    added = memory.add(
        said, user_id="alice", agent_id="a", metadata={"k": 1}, infer=False, expiration_date="2030-01-01"
    )
    id = ids(added)[0]
    replies: dict[str, Any] = {
        "add": added["results"][0],
        "get": memory.get(id),
        "get_all": memory.get_all(filters=ALICE)["results"][0],
        "search": memory.search("tea", filters=ALICE)["results"][0],
        "history": memory.history(id)[0],
    }
    assert {name: sorted(reply) for name, reply in replies.items()} == {
        name: sorted(members) for name, members in REAL["replies"].items()
    }
    assert (replies["get"]["role"], replies["get"]["actor_id"]) == ("user", "bob")
    assert (replies["get"]["metadata"], replies["get"]["expiration_date"]) == ({"k": 1}, "2030-01-01")
    assert 0 < replies["search"]["score"] <= 1


def test_a_conversation_becomes_memories_that_cite_it(mem: Any) -> None:
    memory = Memory(mem)
    talk = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "I love sci-fi movies. Which one should I watch?"},
        {"role": "assistant", "content": "Arrival."},
        {"role": "user", "content": "我喜欢喝绿茶"},
        {"role": "user", "content": "What else?"},
    ]
    added = memory.add(talk, user_id="alice", metadata={"category": "films"})
    assert texts(added) == ["I love sci-fi movies", "我喜欢喝绿茶"]
    assert {one["event"] for one in added["results"]} == {"ADD"}
    assert [one["metadata"]["category"] for one in memory.get_all(filters=ALICE)["results"]] == ["films"] * 2
    assert all(mem.show(id).citations[0].source.startswith("log:") for id in ids(added))
    assert texts(memory.search("绿茶", filters=ALICE, top_k=1)) == ["我喜欢喝绿茶"]
    assert memory.add(talk[1], user_id="alice")["results"] == []  # known already
    assert "run_id" not in memory.get_all(filters=ALICE)["results"][0]
    assert mem.verify().sound


def test_a_memory_is_changed_and_its_history_tells_it(mem: Any) -> None:
    memory = Memory(mem)
    id = ids(memory.add("tea", user_id="alice", infer=False, metadata={"a": 1}, expiration_date="2030-01-01"))[0]
    assert memory.update(id, "coffee", metadata={"b": 2, "user_id": "bob"})["message"].startswith("Memory updated")
    memory.update(id, data="cocoa")
    memory.update(id, expiration_date=None)
    changed = memory.get(id)
    assert changed is not None
    assert (changed["memory"], changed["metadata"], changed["user_id"]) == ("cocoa", {"a": 1, "b": 2}, "alice")
    assert "expiration_date" not in changed
    told = [(one["event"], one["old_memory"], one["new_memory"]) for one in memory.history(id)]
    assert told == [("ADD", None, "tea"), ("UPDATE", "tea", "coffee"), ("UPDATE", "coffee", "cocoa")]
    with pytest.raises(ValueError, match="nothing to update"):
        memory.update(id)


def test_what_is_deleted_is_gone(mem: Any) -> None:
    memory = Memory(mem)
    first = ids(memory.add("I prefer tea over coffee.", user_id="alice"))[0]
    memory.add("I prefer trains over planes.", user_id="alice", run_id="trip")
    memory.add("I prefer cats over dogs.", user_id="bob")
    memory.delete(first)
    assert (memory.get(first), memory.history(first)) == (None, [])
    with pytest.raises(ValueError, match="not found"):
        memory.delete(first)
    with pytest.raises(ValueError, match="at least one"):
        memory.delete_all()
    memory.delete_all(user_id="alice")
    assert texts(memory.get_all(filters=ALICE)) == []
    assert [one.text for one in mem.message.list().messages] == ["I prefer cats over dogs."]
    memory.reset()
    assert (mem.list().total, mem.message.list().messages) == (0, [])


def test_delete_all_leaves_talk_that_others_stored(mem: Any) -> None:
    mem.message.add("user", "Said elsewhere", session="mine", user="alice")
    memory = Memory(mem)
    memory.add("I prefer tea over coffee.", user_id="alice", run_id="trip")
    memory.add("I prefer cake over bread.", user_id="alice", run_id="home")
    memory.delete_all(user_id="alice", run_id="trip")
    assert texts(memory.get_all(filters=ALICE)) == ["I prefer cake over bread"]
    memory.delete_all(user_id="alice")
    assert [one.text for one in mem.message.list().messages] == ["Said elsewhere"]


def test_two_users_never_meet(mem: Any) -> None:
    memory = Memory(mem)
    memory.add("I prefer tea over coffee.", user_id="alice")
    memory.add("I prefer milk over tea.", user_id="bob")
    assert texts(memory.search("tea", filters=ALICE, threshold=0)) == ["I prefer tea over coffee"]
    assert texts(memory.get_all(filters={"user_id": "bob"})) == ["I prefer milk over tea"]
    for wrong in ({}, {"category": "x"}, {"user_id": "a b"}, {"user_id": "  "}):
        with pytest.raises(ValueError):
            memory.search("tea", filters=wrong)


FILTERS: list[tuple[dict[str, Any], str]] = [
    ({"n": 1}, "a"),
    ({"n": {"gte": 2}}, "bc"),
    ({"n": {"gt": 1, "lt": 3}}, "b"),
    ({"team": {"in": ["red", "green"]}}, "ac"),
    ({"team": {"ne": "red"}}, "bc"),
    ({"team": "*"}, "abc"),
    ({"team": {"icontains": "RE"}}, "ac"),
    ({"team": {"contains": "lu"}}, "b"),
    ({"OR": [{"n": 1}, {"team": "blue"}]}, "ab"),
    ({"NOT": [{"n": 1}, {"n": 2}]}, "c"),
    ({"AND": [{"n": {"lte": 2}}, {"NOT": [{"team": "red"}]}]}, "b"),
    ({"AND": [{"n": {"gte": 2}}, {"n": {"lt": 3}}]}, "b"),
    ({"run_id": "r1"}, "a"),
    ({"run_id": "*"}, "a"),
    ({"created_at": {"gte": "2000-01-01"}}, "abc"),
    ({"created_at": {"lt": "2000-01-01"}}, ""),
    ({"OR": [{"run_id": "r1"}, {"n": 3}]}, "ac"),
]


@pytest.fixture(scope="module")
def filled() -> Any:
    with recollect.open("memory://", embedder="hash") as mem:
        memory = Memory(mem)
        for text, n, team in (("a tea", 1, "red"), ("b tea", 2, "blue"), ("c tea", 3, "green")):
            run = "r1" if n == 1 else None
            memory.add(text, user_id="alice", run_id=run, metadata={"n": n, "team": team}, infer=False)
        memory.add("d tea", user_id="bob", metadata={"n": 1, "team": "red"}, infer=False)
        yield memory


@pytest.mark.parametrize(("given", "kept"), FILTERS, ids=[json.dumps(given) for given, _ in FILTERS])
def test_filters_mean_what_mem0_says(given: dict[str, Any], kept: str, filled: Memory) -> None:
    whole = {"AND": [ALICE, given]}
    assert sorted(texts(filled.get_all(filters=whole))) == [f"{letter} tea" for letter in kept]
    assert sorted(texts(filled.search("tea", filters=whole, threshold=0))) == [f"{letter} tea" for letter in kept]


def test_limits_thresholds_and_unknown_operators(filled: Memory) -> None:
    assert len(filled.get_all(filters=ALICE, top_k=2)["results"]) == 2
    assert len(filled.search("tea", filters=ALICE, top_k=1)["results"]) == 1
    assert filled.search("tea", filters=ALICE, threshold=1.0)["results"] == []
    assert "score_details" in filled.search("tea", filters=ALICE, explain=True)["results"][0]
    assert len(filled.search("tea", user_id="alice", limit=2)["results"]) == 2  # as mem0 took it before version 2
    for wrong in ({"n": {"near": 2}}, {"OR": 3}):
        with pytest.raises(ValueError):
            filled.get_all(filters={**ALICE, **wrong})
    with pytest.raises(ValueError):
        filled.get_all(filters=ALICE, top_k=0)


def test_async_and_after_a_restart(tmp_path: Path) -> None:
    async def run() -> None:
        async with AsyncMemory(tmp_path / "m.db") as memory:
            done = await asyncio.gather(*(memory.add(f"fact {n}", user_id="alice", infer=False) for n in range(5)))
            assert len({ids(one)[0] for one in done}) == 5
            assert len((await memory.search("fact", filters=ALICE))["results"]) == 5
            await memory.update(ids(done[0])[0], "fact zero")

    asyncio.run(run())
    with Memory.from_config({"recollect": {"source": tmp_path / "m.db"}, "llm": {"provider": "openai"}}) as again:
        assert "fact zero" in texts(again.get_all(filters=ALICE))


def test_the_platforms_client_on_a_service(service: tuple[str, str]) -> None:
    url, key = service
    with MemoryClient(api_key=key, host=url) as client:
        added = client.add([{"role": "user", "content": "I prefer tea over coffee."}], user_id="alice")
        client.add("raw", user_id="alice", agent_id="bot", infer=False, metadata={"n": 1})
        assert client.get_all(filters=ALICE, page=1, page_size=1)["count"] == 2
        assert client.get_all(filters=ALICE, page=2, page_size=1)["results"][0]["id"] == ids(added)[0]
        assert texts(client.search("tea", filters=ALICE, top_k=1)) == ["I prefer tea over coffee"]
        client.update(ids(added)[0], text="I prefer cocoa")
        assert client.history(ids(added)[0])[1]["new_memory"] == "I prefer cocoa"
        assert {(one["type"], one["name"]) for one in client.users()["results"]} == {
            ("user", "alice"),
            ("agent", "bot"),
        }
        client.delete_users(user_id="alice")
        assert client.get_all(filters=ALICE)["results"] == []
        with pytest.raises(NotFound):
            client.get(ids(added)[0])
        # mem0's own paths are closed unless the operator opens them
        assert httpx.get(f"{url}/mem0/v1/ping/", headers={"Authorization": f"Token {key}"}).status_code == 404


def test_a_later_page_reads_only_its_own_memories(mem: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mem.remember_many([{"content": f"fact {number}", "user": "alice"} for number in range(7)])
    client, read = MemoryClient(mem=mem), list[str]()
    show = mem.show
    monkeypatch.setattr(type(mem), "show", lambda self, id: read.append(id) or show(id))
    pages = [client.get_all(filters=ALICE, page=number, page_size=3) for number in (1, 2, 3)]
    found = [one["id"] for page in pages for one in page["results"]]
    assert (len(set(found)), [page["count"] for page in pages]) == (7, [7, 7, 7])
    assert read == found
    with pytest.raises(InvalidRequest, match="page_size must be a number from 1 to 1000"):
        client.get_all(filters=ALICE, page_size=10**9)
