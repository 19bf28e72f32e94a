"""Items of LangGraph's store that are memories: recalled, cited and trusted, and memories found in the store."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from langgraph.graph import START, StateGraph
from langgraph.store.base import BaseStore
from typing_extensions import TypedDict

import recollect
from recollect.errors import InvalidInput
from recollect.integrations.langgraph import RecollectStore

NOTES = ("notes", "alice")
CAT = {"text": "Her cat is called Mimi", "about": "pets"}


def of_user(labels: tuple[str, ...]) -> str | None:
    return labels[1] if len(labels) > 1 else None


@pytest.fixture
def store(mem: Any) -> RecollectStore:
    return RecollectStore(mem, fields=["text"], as_memories=True, user=of_user)


def test_an_item_is_recalled_cited_and_promoted(store: RecollectStore, mem: Any, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("Mimi")
    store.put(NOTES, "1", CAT)
    hit = mem.recall("what is the cat called?", user="alice").hits[0]
    assert (hit.text, hit.status, hit.user) == ("Her cat is called Mimi", "hypothesis", "alice")
    mem.cite(hit.id, cites=[recollect.cite.file("notes.md")])
    assert mem.promote(hit.id).status == "verified"
    assert mem.recall("cat", user="alice", purpose="act").hits[0].id == hit.id
    assert store.get(NOTES, "1").value == CAT
    store.put(NOTES, "1", {**CAT, "text": "Her cat is called Momo"})
    assert [one.text for one in mem.history(hit.id).entries][-1] == "Her cat is called Momo"
    assert mem.show(hit.id).status == "hypothesis"  # what was proven was said of the former text
    assert mem.verify().sound


def test_a_memory_shows_up_in_the_store(store: RecollectStore, mem: Any) -> None:
    tea = mem.remember("Alice drinks green tea", user="alice", cites=[recollect.cite.user("alice", "said so")]).id
    rain = mem.remember("It rains in Bergen").id
    store.put(NOTES, "1", CAT)
    found = store.search(("memories", "alice"), query="tea")
    assert next((one.namespace, one.key) for one in found) == (("memories", "alice"), tea)
    assert found[0].value["text"] == "Alice drinks green tea"
    assert found[0].value["citations"][0]["source"] == "user:alice"
    assert {one.key for one in store.search(())} == {tea, rain, "1"}
    assert [one.key for one in store.search((), query="green tea", limit=1)] == [tea]
    assert {one.key for one in store.search(("memories",))} == {tea, rain}
    assert store.list_namespaces() == [("memories",), ("memories", "alice"), NOTES]
    store.put(("memories", "alice"), tea, {"text": "Alice drinks cocoa"})
    assert mem.show(tea).text == store.get(("memories", "alice"), tea).value["text"] == "Alice drinks cocoa"
    with pytest.raises(InvalidInput, match="text alone"):
        store.put(("memories", "alice"), tea, {"n": 1})
    assert store.get(("memories", "bob"), tea) is None
    store.delete(("memories", "bob"), tea)
    store.delete(("memories", "alice"), tea)
    assert mem.list(user="alice", metadata={}).total == 1  # the note
    store.put(("memories", "alice"), "own", {"text": "an item there"})
    assert store.get(("memories", "alice"), "own").value == {"text": "an item there"}
    assert next(one.key for one in store.search(("memories", "alice"), query="item")) == "own"


def test_what_is_deleted_on_either_side_is_gone_on_both(store: RecollectStore, mem: Any) -> None:
    for key in "123":
        store.put(NOTES, key, {"text": f"note {key}"})
    ids = {one.text: one.id for one in mem.list(user="alice").memories}
    store.delete(NOTES, "1")
    mem.erase(ids["note 2"])
    mem.forget(ids["note 3"])
    assert (mem.list().total, store.search(NOTES), store.get(NOTES, "3")) == (0, [], None)
    store.put(NOTES, "3", {"text": "new"})
    assert [one.value for one in store.search(NOTES)] == [{"text": "new"}]
    mem.privacy.erase(user="alice", dry_run=False)
    assert store.search(()) == []


def test_what_is_not_indexed_is_kept_but_not_recalled(store: RecollectStore, mem: Any) -> None:
    store.put(NOTES, "hidden", {"text": "red secret"}, index=False)
    store.put(NOTES, "found", {"text": "red"})
    assert [(one.key, one.score is None) for one in store.search(NOTES, query="red")] == [
        ("found", False),
        ("hidden", True),
    ]
    assert [hit.text for hit in mem.recall("red secret").hits] == ["red"]
    store.put(NOTES, "found", {"text": "red"}, index=False)
    assert mem.recall("red").hits == []
    assert len(store.search(())) == 2
    store.put(NOTES, "other", {"title": "blue", "text": "red"}, index=["title"])
    assert [hit.text for hit in mem.recall("blue").hits] == ["blue"]


def test_filters_offsets_and_prefixes(store: RecollectStore) -> None:
    for number in range(6):
        store.put(("docs", str(number % 2)), str(number), {"text": f"red {number}", "n": number})
    assert {one.key for one in store.search(("docs",), filter={"n": {"$gte": 4}})} == {"4", "5"}
    assert {one.key for one in store.search(("docs", "1"), query="red", filter={"n": {"$lt": 4}})} == {"1", "3"}
    pages = [store.search(("docs",), query="red", limit=2, offset=offset) for offset in (0, 2, 4, 6)]
    assert sorted(one.key for page in pages for one in page) == list("012345")
    assert store.list_namespaces(prefix=("docs", "*"), max_depth=1) == [("docs",)]


def test_time_to_live_ends_and_reading_renews_it(mem: Any) -> None:
    store = RecollectStore(mem, as_memories=True, ttl={"default_ttl": 10, "refresh_on_read": True})
    store.put(("a",), "k", {"n": 1})
    id = mem.list().memories[0].id
    soon = datetime.now(UTC) + timedelta(minutes=2)
    mem.revise(id, expires_at=soon)
    store.get(("a",), "k", refresh_ttl=False)
    assert mem.show(id).fields["expires_at"].startswith(soon.isoformat()[:19])
    before = len(mem.history(id).entries)
    store.get(("a",), "k")
    store.search(("a",))
    assert datetime.fromisoformat(mem.show(id).fields["expires_at"]) > soon + timedelta(minutes=5)
    assert len(mem.history(id).entries) <= before + 1  # renewed once
    mem.revise(id, expires_at=datetime.now(UTC) + timedelta(milliseconds=1))
    time.sleep(0.01)
    assert (store.get(("a",), "k"), store.search(()), store.list_namespaces()) == (None, [], [])
    store.put(("a",), "k", {"n": 2})
    assert store.get(("a",), "k").value == {"n": 2}
    mem.revise(mem.list().memories[0].id, expires_at=datetime.now(UTC) + timedelta(milliseconds=1))
    time.sleep(0.01)
    assert store.sweep_ttl() == 1


def test_a_graph_uses_it_and_users_never_meet(tmp_path: Path) -> None:
    class State(TypedDict):
        user: str
        said: str

    def keep(state: State, *, store: BaseStore) -> dict[str, str]:
        store.put(("notes", state["user"]), state["said"][:5], {"text": state["said"]})
        return {}

    for said, user in (("我喜欢喝绿茶", "李雷"), ("I drink coffee", "bob")):
        with recollect.open(tmp_path / "g.db", embedder="hash") as mem:
            builder = StateGraph(State)
            builder.add_node("keep", keep)
            builder.add_edge(START, "keep")
            graph = builder.compile(store=RecollectStore(mem, as_memories=True, user=of_user))
            graph.invoke({"user": user, "said": said})
    with recollect.open(tmp_path / "g.db", embedder="hash") as again:
        assert [hit.text for hit in again.recall("绿茶", user="李雷", include_messages=False).hits] == ["我喜欢喝绿茶"]
        store = RecollectStore(again, as_memories=True)
        assert [one.value["text"] for one in store.search(("notes", "bob"), query="drink")] == ["I drink coffee"]
        assert RecollectStore(again.within("other"), as_memories=True).search(()) == []
        assert RecollectStore(again).search(()) == []  # the other kind of item, as before


def test_it_works_awaited_over_a_service(service: tuple[str, str]) -> None:
    async def run(mem: Any) -> None:
        store = RecollectStore(mem, as_memories=True, user="greta")
        await asyncio.gather(*(store.aput(("a", "b"), str(n), {"text": f"red {n}"}) for n in range(3)))
        assert len(await store.asearch(("a",), query="red")) == 3
        await store.adelete(("a", "b"), "0")
        assert await store.aget(("a", "b"), "0") is None

    with recollect.connect(*service) as mem:
        asyncio.run(run(mem))
        assert len(mem.recall("red", user="greta", include_messages=False).hits) == 2


def test_an_owner_needs_memories(mem: Any) -> None:
    with pytest.raises(InvalidInput, match="as_memories"):
        RecollectStore(mem, user="alice")
