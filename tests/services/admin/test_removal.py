"""Removing a user, agent, session or project: it says what it takes, others keep theirs, and there is a way back."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import recollect
from every_store import EMPTY_STORE
from recollect.domain.agents import Agent, Execution
from recollect.domain.conversations import Message, Session
from recollect.domain.memory import Memory
from recollect.domain.record import now
from recollect.domain.tenancy import User
from recollect.errors import Conflict, DuplicateKey, InvalidInput, NotFound, ReferenceMissing, Unauthenticated
from recollect.interfaces.serve import application
from recollect.ports.query import Query
from recollect.ports.steps import Touch, Update
from recollect.services.access.keys import authenticate
from recollect.settings import Settings


def shared_project(mem: Any) -> None:
    """Ann owns a project in which Bob talked, too."""
    for name in ("Ann", "Bob", "Cy"):
        mem.user.add(name, id=name.lower())
    mem.project.add("House", id="house", owner="ann")
    mem.session.add("Ann's", id="hers", user="ann", project="house")
    mem.session.add("Bob's", id="his", user="bob", project="house")
    mem.message.add("user", "I am Ann.", session="hers", user="ann")
    mem.message.add("user", "I am Bob.", session="his", user="bob")
    mem.message.add("assistant", "Hello Bob.", session="his")
    mem.remember("Ann likes tea", user="ann", id="tea")
    mem.remember("Bob likes milk", user="bob", id="milk", session="his", project="house")


def said(mem: Any, session: str) -> list[str]:
    return [one.text for one in mem.message.list(session).messages]


def taken(reply: Any) -> dict[tuple[str, str | None], int]:
    return {(one.table, one.owner): one.count for one in reply.takes}


def test_removing_the_owner_of_a_project_takes_nothing_that_others_said(every: Any) -> None:
    shared_project(every)
    for for_good in (False, True):
        with pytest.raises(Conflict, match="belong to other users") as refused:
            every.user.remove("ann", for_good=for_good)
        assert "hand_over_to" in refused.value.remedy
        assert refused.value.details["owners"] == ["bob"]
    assert said(every, "his") == ["I am Bob.", "Hello Bob."]
    assert every.recall("Ann likes tea").hits[0].id == "tea"


def test_a_dry_run_says_what_goes_and_whose_it_is(each: Any) -> None:
    shared_project(each)
    told = each.user.remove("ann", dry_run=True)
    assert told.dry_run
    assert "hand_over_to" in told.refused
    counts = taken(told)
    assert counts["message", "ann"] == 1
    assert counts["message", "bob"] == 2
    assert counts["session", "bob"] == counts["session", "ann"] == counts["memory", "ann"] == 1
    assert ("memory", "bob") not in counts
    assert {one.owner_name for one in told.takes if one.others} == {"Bob"}
    assert told.others == 3
    heirs = each.user.remove("ann", hand_over_to="cy", dry_run=True)
    assert [(one.table, one.owner) for one in heirs.hands_over] == [("project", "ann")]
    assert not heirs.refused
    assert not any(one.others for one in heirs.takes)
    assert each.user.list()[-1].id == "ann"


@pytest.mark.parametrize("for_good", [False, True])
def test_what_others_use_passes_on_to_an_heir(every: Any, for_good: bool) -> None:
    shared_project(every)
    every.user.remove("ann", hand_over_to="cy", for_good=for_good)
    [house] = every.project.list()
    assert house.owner == "cy"
    assert said(every, "his") == ["I am Bob.", "Hello Bob."]
    assert said(every, "hers") == []
    assert [hit.id for hit in every.recall("likes").hits] == ["milk"]
    assert every.verify().sound


def test_with_others_takes_them_too_when_that_is_said(each: Any) -> None:
    shared_project(each)
    each.user.remove("ann", with_others=True, for_good=True)
    assert said(each, "his") == []
    assert each.recall("likes").hits[0].id == "milk"  # a memory of Bob's only lets go of its session
    assert each.verify().sound


def test_what_was_removed_comes_back_as_it_was(every: Any) -> None:
    shared_project(every)
    every.forget(every.remember("Ann forgot this", user="ann", id="before").id)
    every.block.add("human", "Ann", user="ann", id="block")
    before = {id: every.show(id).text for id in ("tea", "milk")}
    done = every.user.remove("ann", hand_over_to="cy")
    assert done.deleted == 0
    assert timedelta(days=29) < done.restorable_until - now() <= timedelta(days=30)
    for read in (lambda: every.show("tea"), lambda: every.session.show("hers"), lambda: every.block.show("block")):
        with pytest.raises(NotFound):
            read()
    assert "tea" not in [hit.id for hit in every.recall("Ann likes tea").hits]
    assert [one.id for one in every.user.list(removed=True)] == ["ann"]
    assert every.user.list(removed=True)[0].restorable_until == done.restorable_until
    assert every.verify().sound
    every.user.restore("ann")
    assert {id: every.show(id).text for id in before} == before
    assert said(every, "hers") == ["I am Ann."]
    assert every.recall("Ann likes tea", by="meaning").hits[0].id == "tea"
    assert every.block.show("block").value == "Ann"
    assert [one.id for one in every.list(forgotten=True).memories] == ["before"]
    assert every.project.list()[0].owner == "cy"
    assert every.verify().sound


def test_a_removed_user_cannot_come_in_and_their_keys_stop_at_once(each: Any) -> None:
    each.user.add("Ann", id="ann")
    each.user.revise("ann", role="reader")
    key = each.key.add("hers", scopes=["read"], user="ann").key
    assert authenticate(each._core, key).scope.actor == "ann"
    each.user.remove("ann")
    with pytest.raises(Unauthenticated):
        authenticate(each._core, key)
    each.user.restore("ann")
    assert authenticate(each._core, key).scope.actor == "ann"


def test_names_stay_taken_while_somebody_can_be_restored(each: Any) -> None:
    each.user.add("Ann", id="ann", email="ann@example.com")
    each.user.remove("ann")
    for fields in ({"id": "ann"}, {"email": "ann@example.com"}, {"id": "ann", "on_existing": "return"}):
        with pytest.raises(DuplicateKey, match="already") as taken:
            each.user.add("Anna", **fields)
        assert "user.restore" in taken.value.remedy
    each.user.remove("ann", for_good=True)
    each.user.add("Anna", id="ann", email="ann@example.com")


def overdue(mem: Any, record: Any, id: str) -> None:
    stored = mem._core.store.get(mem._scope, record, id, deleted=True)
    mem._core.store.transact(mem._scope, [Update(stored.changed(updated_at=now() - timedelta(days=31)))])


def test_sweeping_deletes_for_good_what_nobody_restored_in_time(every: Any) -> None:
    shared_project(every)
    every.agent.add("Ada", id="ada")
    every.run.start("count", agent="ada")
    every.user.remove("ann", hand_over_to="cy")
    every.agent.remove("ada")
    assert every.sweep(dry_run=True).removed == every.sweep().removed == 0
    overdue(every, User, "ann")
    overdue(every, Agent, "ada")
    assert every.sweep(dry_run=True).removed == 2
    assert every.sweep().removed == 2
    for record in (User, Agent, Session, Message, Memory, Execution):
        assert not every._core.store.count(every._scope, Query(record, (), deleted="only"))
    with pytest.raises(NotFound):
        every.user.restore("ann")
    assert said(every, "his") == ["I am Bob.", "Hello Bob."]
    assert every.verify().sound


def test_removing_an_agent_keeps_the_conversations_of_users(every: Any) -> None:
    every.user.add("Ann", id="ann")
    for name in ("Ada", "Eve"):
        every.agent.add(name, id=name.lower())
    every.session.add("Ann's", id="s", user="ann", agent="ada")
    every.message.add("user", "Hello.", session="s", user="ann")
    every.message.add("assistant", "Good day.", session="s", agent="ada")
    every.message.add("user", "Of nobody.", agent="ada")
    every.remember("Ann told Ada", user="ann", agent="ada", id="told")
    every.remember("Ada by herself", agent="ada", id="own")
    with pytest.raises(Conflict):
        every.agent.remove("ada")
    every.agent.remove("ada", hand_over_to="eve")
    assert said(every, "s") == ["Hello.", "Good day."]
    assert [one.name for one in every.message.list("s").messages] == [None, "Ada"]
    assert every.show("told").fields["agent_id"] == every.session.show("s").agent == "eve"
    with pytest.raises(NotFound):
        every.show("own")
    assert every.verify().sound


def test_an_agents_words_in_the_session_of_another_stay_there(each: Any) -> None:
    each.user.add("Ann", id="ann")
    for name in ("Ada", "Eve"):
        each.agent.add(name, id=name.lower())
    each.session.add("Ann's", id="s", user="ann", agent="eve")
    each.message.add("assistant", "Ada was here.", session="s", agent="ada")
    with pytest.raises(Conflict):
        each.agent.remove("ada", for_good=True)
    each.agent.remove("ada", hand_over_to="eve", for_good=True)
    assert said(each, "s") == ["Ada was here."]


def test_a_session_in_which_several_spoke_is_not_taken_by_mistake(each: Any) -> None:
    for name in ("ann", "bob"):
        each.user.add(name, id=name)
    each.session.add("Both", id="s", user="ann")
    each.message.add("user", "Ann speaks.", session="s", user="ann")
    each.message.add("user", "Bob speaks.", session="s", user="bob")
    with pytest.raises(Conflict):
        each.session.remove("s")
    with pytest.raises(Conflict):
        each.user.remove("ann")
    each.user.remove("ann", hand_over_to="bob")
    assert said(each, "s") == ["Bob speaks."]
    assert each.session.show("s").user == "bob"
    with pytest.raises(InvalidInput, match="nothing to hand over"):
        each.session.remove("s", hand_over_to="t")
    each.session.remove("s")
    assert said(each, "s") == []


def test_a_project_hands_the_sessions_of_others_to_another_project(each: Any) -> None:
    shared_project(each)
    each.project.add("Garden", id="garden", owner="bob")
    with pytest.raises(Conflict):
        each.project.remove("house")
    each.project.remove("house", hand_over_to="garden")
    assert each.session.show("his").project == "garden"
    with pytest.raises(NotFound):
        each.session.show("hers")


def test_a_session_begun_by_another_meanwhile_is_noticed(each: Any, meanwhile: Any) -> None:
    each.user.add("Ann", id="ann")
    each.user.add("Bob", id="bob")
    each.project.add("House", id="house", owner="ann")

    def begins() -> None:
        each.session.add("Bob's", id="his", user="bob", project="house")
        each.message.add("user", "I am Bob.", session="his", user="bob")

    meanwhile(each, "transact", User, begins)
    with pytest.raises(Conflict, match="other users"):
        each.user.remove("ann")
    assert said(each, "his") == ["I am Bob."]


def test_nothing_is_added_to_what_was_removed(each: Any) -> None:
    shared_project(each)
    each.user.remove("ann", hand_over_to="cy")
    for fields in ({"user": "ann"}, {"session": "hers"}):
        with pytest.raises(ReferenceMissing):
            each.remember("too late", **fields)
    with pytest.raises(Conflict, match="its user was removed"):
        each.restore("tea")
    with pytest.raises(Conflict, match="is removed, too"):
        each.session.restore("hers")
    with pytest.raises(InvalidInput, match="not removed"):
        each.user.restore("bob")
    with pytest.raises(NotFound):
        each.user.remove("ann")
    with pytest.raises(InvalidInput, match="itself"):
        each.user.remove("bob", hand_over_to="bob")
    with pytest.raises(NotFound):
        each.user.remove("bob", hand_over_to="nobody")


def test_counting_uses_does_not_move_the_time_to_restore(each: Any) -> None:
    each.user.add("Ann", id="ann")
    each.remember("Ann likes tea", user="ann", id="tea")
    each.user.remove("ann")
    each._core.store.transact(each._scope, [Touch(Memory, "tea", {"access_count": 1})])
    each.user.restore("ann")
    assert each.show("tea").text == "Ann likes tea"


@pytest.mark.parametrize("room", ["block", "tool"])
def test_what_several_agents_share_is_not_taken_from_all_by_mistake(each: Any, room: str) -> None:
    for agent in ("ada", "eve"):
        each.agent.add(agent, id=agent)
    operations = getattr(each, room)
    id = (each.block.add("human", "Ann") if room == "block" else each.tool.add("count")).id
    operations.attach(id, "ada")
    operations.attach(id, "eve")
    with pytest.raises(Conflict, match="2 agents share it") as refused:
        operations.remove(id)
    assert "detach" in refused.value.remedy
    assert operations.remove(id, dry_run=True).agents == ["ada", "eve"]
    operations.detach(id, "eve")
    assert operations.remove(id).agents == ["ada"]
    with pytest.raises(NotFound):
        operations.show(id)


def test_what_one_person_alone_used_is_theirs(each: Any) -> None:
    for name in ("ann", "bob"):
        each.user.add(name, id=name)
    each.project.add("Nobody's", id="p")
    each.session.add("Nobody's", id="s", project="p")
    each.message.add("user", "Ann speaks.", session="s", user="ann")
    assert each.project.remove("p", dry_run=True).others == 0
    each.message.add("user", "Bob speaks.", session="s", user="bob")
    assert each.project.remove("p", dry_run=True).others == 2
    each.user.remove("bob")
    assert each.session.remove("s", dry_run=True).others == 0


@pytest.mark.parametrize("kind", ["duckdb", "dynamodb"])
def test_removing_and_restoring_on_the_other_stores(kind: str, tmp_path: Path) -> None:
    with recollect.open(EMPTY_STORE[kind](tmp_path), embedder="hash") as mem:
        shared_project(mem)
        with pytest.raises(Conflict):
            mem.user.remove("ann", for_good=True)
        mem.user.remove("ann", hand_over_to="cy")
        assert (said(mem, "hers"), said(mem, "his")) == ([], ["I am Bob.", "Hello Bob."])
        assert mem.verify().sound
        mem.user.restore("ann")
        assert mem.recall("Ann likes tea", by="words").hits[0].id == "tea"
        assert said(mem, "hers") == ["I am Ann."]
        mem.user.remove("ann")
        overdue(mem, User, "ann")
        assert mem.sweep().removed == 1
        assert mem._core.store.get(mem._scope, Memory, "tea", deleted=True) is None
        assert mem.verify().sound


def test_messages_of_several_users_are_not_cleared_by_mistake(each: Any) -> None:
    shared_project(each)
    each.message.add("user", "Ann answers.", session="his", user="ann")
    assert each.message.clear("his", dry_run=True).users == {"ann": 1, "bob": 1}
    with pytest.raises(Conflict, match="2 users said them"):
        each.message.clear("his")
    assert each.message.clear(session="his", user="ann").removed == 1
    assert said(each, "his") == ["I am Bob.", "Hello Bob."]
    assert each.message.clear("his").removed == 2


def test_what_was_removed_softly_leaves_no_byte_when_it_goes_for_good(tmp_path: Path) -> None:
    marker = "x7qmarker4711"
    with recollect.open(tmp_path / "m.db", embedder="hash") as mem:
        mem.user.add(f"Ann {marker}", id="ann", profile_data={"code": marker})
        mem.session.add(marker, id="s", user="ann")
        mem.message.add("user", f"the code is {marker}", session="s", user="ann")
        mem.remember(f"a secret {marker}", user="ann", session="s", tags=[marker], metadata={"m": marker})
        mem.block.add("human", marker, user="ann")
        mem.user.remove("ann")
        mem.user.remove("ann", for_good=True)
        holding = [path for path in tmp_path.rglob("*") if path.is_file() and marker.encode() in path.read_bytes()]
        assert holding == []
        assert mem.verify().sound


def test_over_http_removing_is_asked_about_refused_done_and_undone(each: Any) -> None:
    shared_project(each)
    each.user.add("Owner", id="owner")
    each.user.revise("owner", role="owner")
    key = each.key.add("all", scopes=["read", "write", "delete", "admin"], user="owner").key
    app = application(each._core, Settings(server={"upkeep_seconds": 1e6}))
    with TestClient(app, "http://127.0.0.1", headers={"authorization": f"Bearer {key}"}) as client:
        told = client.delete("/v1/users/ann?dry_run=true").json()
        assert (told["dry_run"], told["others"]) == (True, 3)
        refused = client.delete("/v1/users/ann")
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "conflict")
        done = client.delete("/v1/users/ann?hand_over_to=cy").json()
        assert done["restorable_until"] is not None
        assert client.get("/v1/users?removed=true").json()["users"][0]["id"] == "ann"
        assert client.post("/v1/users/ann/restore", json={}).json()["id"] == "ann"
    assert said(each, "hers") == ["I am Ann."]
