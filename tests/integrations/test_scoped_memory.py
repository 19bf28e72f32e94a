"""What the adapters of agent frameworks share: nothing of one user is found, shown or deleted by another."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.errors import InvalidInput, NotFound
from recollect.integrations.kept_items import given_back, kept, kept_if_it_fits
from recollect.integrations.memory_tools import NOTHING, MemoryTools
from recollect.integrations.scoped_memory import ScopedMemory, in_thread, synchronous


def test_the_names_of_sessions_count_within_their_owners(mem: Any) -> None:
    owners = [("ann", None), ("ann", "shop"), ("shop", "ann"), ("a/b", None), ("b", "a"), ("a%2Fb", None)]
    names = [ScopedMemory(mem, user, project).session("1") for user, project in owners]
    assert len({*names}) == len(owners)
    long = [ScopedMemory(mem, "猫" * 200, "shop").session("1" * length) for length in (300, 301)]
    assert long[0] != long[1]
    assert [len(name) for name in long] == [255, 255]


def test_what_is_somebody_elses_is_not_found(mem: Any) -> None:
    ann, bob, elsewhere = (
        ScopedMemory(mem, "ann", "shop"),
        ScopedMemory(mem, "bob", "shop"),
        ScopedMemory(mem, "ann", "x"),
    )
    fact = ann.remember("Ann drinks 绿茶").id
    ann.say("1", [{"role": "user", "text": "I drink 绿茶"}])
    said = ann.said("1")[0].id
    for stranger in (bob, elsewhere):
        assert stranger.context("绿茶", 500) == ""
        assert stranger.recall("绿茶", 10) == []
        assert stranger.said("1") == []
        for id in (fact, said):
            for reach in (stranger.show, stranger.forget, stranger.erase):
                with pytest.raises(NotFound):
                    reach(id)
    assert {hit.id for hit in ann.recall("绿茶", 10)} == {fact, said}
    ann.forget(fact)
    ann.erase(said)
    assert ann.recall("绿茶", 10) == []
    assert mem.restore(fact).id == fact
    with pytest.raises(NotFound):
        mem.message.restore(said)


def test_a_key_counts_within_its_owner(mem: Any) -> None:
    ann, bob = ScopedMemory(mem, "ann"), ScopedMemory(mem, "bob")
    assert ann.remember("one", key="7").id == ann.remember("one", key="7").id != bob.remember("one", key="7").id


def test_a_long_conversation_is_read_whole_and_from_its_end(mem: Any) -> None:
    ann = ScopedMemory(mem, "ann")
    ann.say("1", [{"role": "user", "text": f"number {n}", "otid": str(n)} for n in range(2100)])
    ann.say("1", [{"role": "user", "text": "number 2099", "otid": "2099"}, {"role": "user", "text": "last"}])
    assert [one.text for one in ann.said("1")][-2:] == ["number 2099", "last"]
    assert len(ann.said("1")) == 2101
    assert [one.text for one in ann.said("1", newest=2)] == ["number 2099", "last"]
    assert ann.said("1", newest=0) == []
    ann.say("2", [])
    with pytest.raises(NotFound):
        mem.session.show("ann/2")


def test_a_question_may_be_empty_or_endless(mem: Any) -> None:
    ann = ScopedMemory(mem, "ann")
    ann.remember("Ann drinks tea")
    assert ann.context(" \x00 ", 500) == ""
    assert ann.recall("", 3) == []
    assert "Ann drinks tea" in ann.context("tea " * 100_000, 500)


def test_tools_tell_a_model_what_it_got_wrong_and_raise_what_is_wrong_with_the_store(mem: Any) -> None:
    tools = MemoryTools(ScopedMemory(mem, "ann"), "helper")
    assert tools.use("recall", "tea") == NOTHING
    first = tools.use("remember", "Ann drinks tea")
    id = first.removeprefix("Remembered as ")
    assert tools.use("remember", "Ann drinks tea") == f"Known already, as {id}"
    assert id in tools.use("recall", "tea")
    for wrong in ("", "none", "x" * 300):
        assert tools.use("forget", wrong).startswith("That did not work")
    assert tools.use("remember", "").startswith("That did not work")
    assert tools.use("forget", id) == f"Forgotten: {id}"
    mem.close()
    with pytest.raises(recollect.errors.Closed):
        tools.use("recall", "tea")


def test_work_is_done_off_the_event_loop_whatever_the_memory(tmp_path: Path) -> None:
    async def run() -> None:
        async with recollect.aopen(tmp_path / "a.db", embedder="hash") as asynchronous:
            with recollect.open(tmp_path / "b.db", embedder="hash") as plain:
                for mem in (asynchronous, plain):
                    threads = [await in_thread(mem, lambda sync: (threading.get_ident(), sync.stats().memories))]
                    assert threads[0][0] != threading.get_ident()
                    assert threads[0][1] == 0
                assert synchronous(plain) is plain
            with pytest.raises(InvalidInput, match="synchronous"):
                synchronous(asynchronous)  # type: ignore[arg-type]

    asyncio.run(run())


def test_an_item_comes_back_as_it_was_unless_it_is_huge(mem: Any) -> None:
    items: list[Any] = [{"a": "nul \x00 half \ud800", "n": float("inf")}, {"文": ["绿茶", None, 1]}]
    parts = [kept(items[0], "x"), kept_if_it_fits(items[1], "x"), kept_if_it_fits({"file": "x" * 900_000}, "x")]
    added = mem.message.add_many([{"role": "user", "content": [part]} for part in parts], session="s").messages
    assert [given_back(one, "x") for one in added] == [*items, None]
    assert given_back(added[0], "y") is None
