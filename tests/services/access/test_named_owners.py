"""Naming an owner is enough: whoever is named first is made then, once, and never in silence."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.catalogue import OPERATIONS, invoke
from recollect.domain.agents import Agent
from recollect.domain.audit import AccessLog
from recollect.domain.conversations import Session
from recollect.domain.tenancy import Project, User
from recollect.errors import Conflict, DuplicateKey, InvalidInput, NotFound, ReferenceMissing
from recollect.ports.query import Query
from recollect.ports.records import Scope

OWNERS = {"user": "阿 Ann", "agent": "a1", "project": "p1", "session": "s1"}


def made(reply: Any) -> dict[str, str]:
    return {one.type: one.id for one in reply.created}


def living(mem: Any) -> dict[str, int]:
    records = (User, Agent, Project, Session)
    return {one.shape.table: mem._core.store.count(mem._scope, Query(one)) for one in records}


def test_whoever_is_named_is_made_with_what_names_them(every: Any) -> None:
    receipt = every.remember("Ann prefers tea", **OWNERS)
    assert made(receipt) == OWNERS
    session = every.session.show("s1")
    assert (session.user, session.agent, session.project) == ("阿 Ann", "a1", "p1")
    assert (every.user.show("阿 Ann").name, every.user.show("阿 Ann").role) == ("阿 Ann", None)
    assert made(every.remember("and coffee", **OWNERS)) == {}
    assert every.recall("tea", user="阿 Ann").hits[0].id == receipt.id
    said = every.message.add_many(
        [{"role": "user", "text": "hi", "user": "u2"}, {"role": "assistant", "text": "hello"}], session="s2", agent="a2"
    )
    assert made(said) == {"user": "u2", "agent": "a2", "session": "s2"}
    assert [one.text for one in every.message.list("s2")] == ["hi", "hello"]
    assert made(every.run.start("count", agent="a3", session="s3")) == {"agent": "a3", "session": "s3"}
    assert made(every.project.add("House", owner="u3")) == {"user": "u3"}
    assert made(every.block.attach(every.block.add("human", "Ann").id, "a4")) == {"agent": "a4"}
    assert every.verify().sound
    entries = every._core.store.find(every._scope, Query(AccessLog)).records
    told = [one.request_data.get("change") for one in entries if one.action == "remember"]
    assert sorted(filter(None, told)) == ["agent.add", "project.add", "session.add", "user.add"]


def test_nothing_is_made_when_the_write_fails(every: Any) -> None:
    before = living(every)
    with pytest.raises(ReferenceMissing):
        every.remember("lost", user="u1", cycle="nothing")
    with pytest.raises(DuplicateKey):
        every.remember_many([{"content": "one", "id": "same", "user": "u1"}, {"content": "two", "id": "same"}])
    assert living(every) == before


def test_a_removed_one_is_not_made_again_in_silence(each: Any) -> None:
    for type, id in OWNERS.items():
        getattr(each, type).add(id=id)
        getattr(each, type).remove(id)
        with pytest.raises(ReferenceMissing, match="was removed") as refused:
            each.remember("again", **{type: id})
        assert f"{type}.restore" in refused.value.remedy
    with pytest.raises(ReferenceMissing, match="was removed"):
        each.run.start("count", agent="a1")


def test_strict_owners_refuses_the_unknown(tmp_path: Path) -> None:
    mem: Any
    with recollect.open(tmp_path / "s.db", embedder="hash", strict_owners=True) as mem:
        for type, id in OWNERS.items():
            with pytest.raises(ReferenceMissing, match=f"there is no {type}") as refused:
                mem.remember("lost", **{type: id})
            assert "create" in refused.value.remedy
        with pytest.raises(NotFound):
            mem.run.start("count", agent="a1")
        assert living(mem) == {"user": 0, "agent": 0, "project": 0, "session": 0}


def test_reading_and_judging_make_nobody(each: Any) -> None:
    """An unknown owner has nothing; an operation that is not for writing refuses it."""
    assert each.recall("tea", user="nobody").hits == each.list(user="nobody").memories == []
    assert each.message.list(user="nobody").messages == each.session.list(agent="nobody").sessions == []
    for refused in (
        lambda: each.hold.place(user="nobody", reason="case"),
        lambda: each.retention.set(project="nobody", keep_days=3),
        lambda: each.key.add("key", user="nobody"),
    ):
        with pytest.raises((NotFound, InvalidInput, ReferenceMissing)):
            refused()
    assert sum(living(each).values()) == 0


def test_whoever_comes_second_finds_it_made(each: Any, meanwhile: Any) -> None:
    rival = each.within(actor="rival")
    meanwhile(each, "transact", User, lambda: rival.remember("first", user="u1", session="s1"))
    assert made(each.remember("second", user="u1", session="s2")) == {"session": "s2"}
    assert living(each) == {"user": 1, "agent": 0, "project": 0, "session": 2}


def test_many_at_once_make_each_owner_once(every: Any) -> None:
    told: list[dict[str, str]] = []

    def write(number: int) -> None:
        for turn in range(5):
            told.append(made(every.remember(f"fact {number} {turn}", user=f"u{turn}", session="s")))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(told) == 30
    assert sorted(one["user"] for one in told if "user" in one) == [f"u{turn}" for turn in range(5)]
    assert living(every)["session"] == 1


def test_two_processes_make_it_once(tmp_path: Path) -> None:
    code = (
        "import sys, recollect\n"
        "with recollect.open(sys.argv[1], embedder='hash', background=False) as mem:\n"
        "    for n in range(20):\n"
        "        print(len(mem.remember(f'{sys.argv[2]} {n}', user=f'u{n}').created))\n"
    )
    recollect.open(tmp_path / "s.db", embedder="hash").close()
    workers = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "s.db"), name], stdout=subprocess.PIPE, text=True)
        for name in ("one", "two")
    ]
    told = [one.communicate(timeout=120)[0].split() for one in workers]
    assert [one.returncode for one in workers] == [0, 0]
    assert [int(a) + int(b) for a, b in zip(*told, strict=True)] == [1] * 20


def test_adding_again_what_is_there_gives_it_back(each: Any) -> None:
    first = each.user.add("Ann", id="u1", email="ann@example.com")
    assert each.user.add(id="u1") == each.user.add("Ann", id="u1") == first
    with pytest.raises(Conflict, match="another name") as refused:
        each.user.add("Bob", id="u1")
    assert "user.revise" in refused.value.remedy
    assert each.user.add("Bob", id="u1", on_existing="return") == first
    with pytest.raises(DuplicateKey):
        each.user.add("Ann", id="u1", on_existing="fail")
    for type in ("agent", "project", "session"):
        assert getattr(each, type).add(id="x").id == getattr(each, type).add(id="x").id == "x"
    with pytest.raises(InvalidInput, match="no name"):
        each.user.add()


def test_one_that_was_only_named_is_filled_in_by_adding_it(each: Any) -> None:
    each.remember("tea", user="u1", agent="a1", session="s1")
    ann = each.user.add("Ann", id="u1", email="ann@example.com", preferences={"drink": "tea"})
    assert (ann.name, ann.preferences, ann.version) == ("Ann", {"drink": "tea"}, 2)
    assert each.agent.add("Ada", id="a1", system="Be kind.").system == "Be kind."
    assert each.session.add("Tea", id="s1", user="u1").title == "Tea"
    with pytest.raises(Conflict, match="another name"):
        each.user.add("Bob", id="u1")


def test_a_service_makes_owners_for_whoever_may_write(each: Any) -> None:
    writer = Scope(each.organization, "key", frozenset({"read", "write"}))
    reply = invoke(OPERATIONS["remember"], each._core, writer, {"content": "tea", "user": "u1"})
    assert made(reply) == {"user": "u1"}
    assert each.user.show("u1").created_by == "key"
