"""Removing a user, agent, session or project: it says what it takes, others keep theirs, and there is a way back."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import recollect
from every_store import EVERY_STORE
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
        mem.add_user(name, id=name.lower())
    mem.add_project("House", id="house", owner="ann")
    mem.add_session("Ann's", id="hers", user="ann", project="house")
    mem.add_session("Bob's", id="his", user="bob", project="house")
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
            every.remove("user", "ann", for_good=for_good)
        assert "hand_over_to" in refused.value.remedy
        assert refused.value.details["owners"] == ["bob"]
    assert said(every, "his") == ["I am Bob.", "Hello Bob."]
    assert every.recall("Ann likes tea").hits[0].id == "tea"


def test_a_dry_run_says_what_goes_and_whose_it_is(each: Any) -> None:
    shared_project(each)
    told = each.remove("user", "ann", dry_run=True)
    assert told.dry_run
    assert "hand_over_to" in told.refused
    counts = taken(told)
    assert counts["message", "ann"] == 1
    assert counts["message", "bob"] == 2
    assert counts["session", "bob"] == counts["session", "ann"] == counts["memory", "ann"] == 1
    assert ("memory", "bob") not in counts
    assert {one.owner_name for one in told.takes if one.others} == {"Bob"}
    assert told.others == 3
    heirs = each.remove("user", "ann", hand_over_to="cy", dry_run=True)
    assert [(one.table, one.owner) for one in heirs.hands_over] == [("project", "ann")]
    assert not heirs.refused
    assert not any(one.others for one in heirs.takes)
    assert each.parties("user").parties[-1].id == "ann"


@pytest.mark.parametrize("for_good", [False, True])
def test_what_others_use_passes_on_to_an_heir(every: Any, for_good: bool) -> None:
    shared_project(every)
    every.remove("user", "ann", hand_over_to="cy", for_good=for_good)
    [house] = every.parties("project").parties
    assert house.fields["owner_id"] == "cy"
    assert said(every, "his") == ["I am Bob.", "Hello Bob."]
    assert said(every, "hers") == []
    assert [hit.id for hit in every.recall("likes").hits] == ["milk"]
    assert every.verify().sound


def test_with_others_takes_them_too_when_that_is_said(each: Any) -> None:
    shared_project(each)
    each.remove("user", "ann", with_others=True, for_good=True)
    assert said(each, "his") == []
    assert each.recall("likes").hits[0].id == "milk"  # a memory of Bob's only lets go of its session
    assert each.verify().sound


def test_what_was_removed_comes_back_as_it_was(every: Any) -> None:
    shared_project(every)
    every.forget(every.remember("Ann forgot this", user="ann", id="before").id)
    every.block.add("human", "Ann", user="ann", id="block")
    before = {id: every.show(id).text for id in ("tea", "milk")}
    done = every.remove("user", "ann", hand_over_to="cy")
    assert done.deleted == 0
    assert timedelta(days=29) < done.restorable_until - now() <= timedelta(days=30)
    for read in (lambda: every.show("tea"), lambda: every.session.show("hers"), lambda: every.block.show("block")):
        with pytest.raises(NotFound):
            read()
    assert "tea" not in [hit.id for hit in every.recall("Ann likes tea").hits]
    assert [one.id for one in every.parties("user", removed=True).parties] == ["ann"]
    assert every.parties("user", removed=True).parties[0].restorable_until == done.restorable_until
    assert every.verify().sound
    every.unremove("user", "ann")
    assert {id: every.show(id).text for id in before} == before
    assert said(every, "hers") == ["I am Ann."]
    assert every.recall("Ann likes tea", by="meaning").hits[0].id == "tea"
    assert every.block.show("block").value == "Ann"
    assert [one.id for one in every.list(forgotten=True).memories] == ["before"]
    assert every.parties("project").parties[0].fields["owner_id"] == "cy"
    assert every.verify().sound


def test_a_removed_user_cannot_come_in_and_their_keys_stop_at_once(each: Any) -> None:
    each.add_user("Ann", id="ann")
    each.user.revise("ann", role="reader")
    key = each.key.add("hers", scopes=["read"], user="ann").key
    assert authenticate(each._core, key).scope.actor == "ann"
    each.remove("user", "ann")
    with pytest.raises(Unauthenticated):
        authenticate(each._core, key)
    each.unremove("user", "ann")
    assert authenticate(each._core, key).scope.actor == "ann"


def test_names_stay_taken_while_somebody_can_be_restored(each: Any) -> None:
    each.add_user("Ann", id="ann", email="ann@example.com")
    each.remove("user", "ann")
    for fields in ({"id": "ann"}, {"email": "ann@example.com"}, {"id": "ann", "on_existing": "return"}):
        with pytest.raises(DuplicateKey, match="already") as taken:
            each.add_user("Anna", **fields)
        assert "unremove" in taken.value.remedy
    each.remove("user", "ann", for_good=True)
    each.add_user("Anna", id="ann", email="ann@example.com")


def overdue(mem: Any, record: Any, id: str) -> None:
    stored = mem._core.store.get(mem._scope, record, id, deleted=True)
    mem._core.store.transact(mem._scope, [Update(stored.changed(updated_at=now() - timedelta(days=31)))])


def test_sweeping_deletes_for_good_what_nobody_restored_in_time(every: Any) -> None:
    shared_project(every)
    every.add_agent("Ada", id="ada")
    every.run.start("count", agent="ada")
    every.remove("user", "ann", hand_over_to="cy")
    every.remove("agent", "ada")
    assert every.sweep(dry_run=True).removed == every.sweep().removed == 0
    overdue(every, User, "ann")
    overdue(every, Agent, "ada")
    assert every.sweep(dry_run=True).removed == 2
    assert every.sweep().removed == 2
    for record in (User, Agent, Session, Message, Memory, Execution):
        assert not every._core.store.count(every._scope, Query(record, (), deleted="only"))
    with pytest.raises(NotFound):
        every.unremove("user", "ann")
    assert said(every, "his") == ["I am Bob.", "Hello Bob."]
    assert every.verify().sound


def test_removing_an_agent_keeps_the_conversations_of_users(every: Any) -> None:
    every.add_user("Ann", id="ann")
    for name in ("Ada", "Eve"):
        every.add_agent(name, id=name.lower())
    every.add_session("Ann's", id="s", user="ann", agent="ada")
    every.message.add("user", "Hello.", session="s", user="ann")
    every.message.add("assistant", "Good day.", session="s", agent="ada")
    every.message.add("user", "Of nobody.", agent="ada")
    every.remember("Ann told Ada", user="ann", agent="ada", id="told")
    every.remember("Ada by herself", agent="ada", id="own")
    with pytest.raises(Conflict):
        every.remove("agent", "ada")
    every.remove("agent", "ada", hand_over_to="eve")
    assert said(every, "s") == ["Hello.", "Good day."]
    assert [one.name for one in every.message.list("s").messages] == [None, "Ada"]
    assert every.show("told").fields["agent_id"] == every.session.show("s").agent == "eve"
    with pytest.raises(NotFound):
        every.show("own")
    assert every.verify().sound


def test_an_agents_words_in_the_session_of_another_stay_there(each: Any) -> None:
    each.add_user("Ann", id="ann")
    for name in ("Ada", "Eve"):
        each.add_agent(name, id=name.lower())
    each.add_session("Ann's", id="s", user="ann", agent="eve")
    each.message.add("assistant", "Ada was here.", session="s", agent="ada")
    with pytest.raises(Conflict):
        each.remove("agent", "ada", for_good=True)
    each.remove("agent", "ada", hand_over_to="eve", for_good=True)
    assert said(each, "s") == ["Ada was here."]


def test_a_session_in_which_several_spoke_is_not_taken_by_mistake(each: Any) -> None:
    for name in ("ann", "bob"):
        each.add_user(name, id=name)
    each.add_session("Both", id="s", user="ann")
    each.message.add("user", "Ann speaks.", session="s", user="ann")
    each.message.add("user", "Bob speaks.", session="s", user="bob")
    for party in (("session", "s"), ("user", "ann")):
        with pytest.raises(Conflict):
            each.remove(*party)
    each.remove("user", "ann", hand_over_to="bob")
    assert said(each, "s") == ["Bob speaks."]
    assert each.session.show("s").user == "bob"
    with pytest.raises(InvalidInput, match="nothing to hand over"):
        each.remove("session", "s", hand_over_to="t")
    each.remove("session", "s")
    assert said(each, "s") == []


def test_a_project_hands_the_sessions_of_others_to_another_project(each: Any) -> None:
    shared_project(each)
    each.add_project("Garden", id="garden", owner="bob")
    with pytest.raises(Conflict):
        each.remove("project", "house")
    each.remove("project", "house", hand_over_to="garden")
    assert each.session.show("his").project == "garden"
    with pytest.raises(NotFound):
        each.session.show("hers")


def test_a_session_begun_by_another_meanwhile_is_noticed(each: Any, meanwhile: Any) -> None:
    each.add_user("Ann", id="ann")
    each.add_user("Bob", id="bob")
    each.add_project("House", id="house", owner="ann")

    def begins() -> None:
        each.add_session("Bob's", id="his", user="bob", project="house")
        each.message.add("user", "I am Bob.", session="his", user="bob")

    meanwhile(each, "transact", User, begins)
    with pytest.raises(Conflict, match="other users"):
        each.remove("user", "ann")
    assert said(each, "his") == ["I am Bob."]


def test_nothing_is_added_to_what_was_removed(each: Any) -> None:
    shared_project(each)
    each.remove("user", "ann", hand_over_to="cy")
    for fields in ({"user": "ann"}, {"session": "hers"}):
        with pytest.raises(ReferenceMissing):
            each.remember("too late", **fields)
    with pytest.raises(Conflict, match="its user was removed"):
        each.restore("tea")
    with pytest.raises(Conflict, match="was removed, too"):
        each.unremove("session", "hers")
    with pytest.raises(InvalidInput, match="not removed"):
        each.unremove("user", "bob")
    with pytest.raises(NotFound):
        each.remove("user", "ann")
    with pytest.raises(InvalidInput, match="itself"):
        each.remove("user", "bob", hand_over_to="bob")
    with pytest.raises(NotFound):
        each.remove("user", "bob", hand_over_to="nobody")


def test_counting_uses_does_not_move_the_time_to_restore(each: Any) -> None:
    each.add_user("Ann", id="ann")
    each.remember("Ann likes tea", user="ann", id="tea")
    each.remove("user", "ann")
    each._core.store.transact(each._scope, [Touch(Memory, "tea", {"access_count": 1})])
    each.unremove("user", "ann")
    assert each.show("tea").text == "Ann likes tea"


@pytest.mark.parametrize("room", ["block", "tool"])
def test_what_several_agents_share_is_not_taken_from_all_by_mistake(each: Any, room: str) -> None:
    for agent in ("ada", "eve"):
        each.add_agent(agent, id=agent)
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
        each.add_user(name, id=name)
    each.add_project("Nobody's", id="p")
    each.add_session("Nobody's", id="s", project="p")
    each.message.add("user", "Ann speaks.", session="s", user="ann")
    assert each.remove("project", "p", dry_run=True).others == 0
    each.message.add("user", "Bob speaks.", session="s", user="bob")
    assert each.remove("project", "p", dry_run=True).others == 2
    each.remove("user", "bob")
    assert each.remove("session", "s", dry_run=True).others == 0


@pytest.mark.parametrize("kind", ["duckdb", "dynamodb"])
def test_removing_and_restoring_on_the_other_stores(kind: str, tmp_path: Path) -> None:
    with recollect.open(EVERY_STORE[kind](tmp_path), embedder="hash") as mem:
        shared_project(mem)
        with pytest.raises(Conflict):
            mem.remove("user", "ann", for_good=True)
        mem.remove("user", "ann", hand_over_to="cy")
        assert (said(mem, "hers"), said(mem, "his")) == ([], ["I am Bob.", "Hello Bob."])
        assert mem.verify().sound
        mem.unremove("user", "ann")
        assert mem.recall("Ann likes tea", by="words").hits[0].id == "tea"
        assert said(mem, "hers") == ["I am Ann."]
        mem.remove("user", "ann")
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
        mem.add_user(f"Ann {marker}", id="ann", profile_data={"code": marker})
        mem.add_session(marker, id="s", user="ann")
        mem.message.add("user", f"the code is {marker}", session="s", user="ann")
        mem.remember(f"a secret {marker}", user="ann", session="s", tags=[marker], metadata={"m": marker})
        mem.block.add("human", marker, user="ann")
        mem.remove("user", "ann")
        mem.remove("user", "ann", for_good=True)
        holding = [path for path in tmp_path.rglob("*") if path.is_file() and marker.encode() in path.read_bytes()]
        assert holding == []
        assert mem.verify().sound


def test_over_http_removing_is_asked_about_refused_done_and_undone(each: Any) -> None:
    shared_project(each)
    each.add_user("Owner", id="owner")
    each.user.revise("owner", role="owner")
    key = each.key.add("all", scopes=["read", "write", "delete", "admin"], user="owner").key
    app = application(each._core, Settings(server={"upkeep_seconds": 1e6}))
    with TestClient(app, "http://127.0.0.1", headers={"authorization": f"Bearer {key}"}) as client:
        told = client.delete("/v1/parties/user/ann?dry_run=true").json()
        assert (told["dry_run"], told["others"]) == (True, 3)
        refused = client.delete("/v1/parties/user/ann")
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "conflict")
        done = client.delete("/v1/parties/user/ann?hand_over_to=cy").json()
        assert done["restorable_until"] is not None
        assert client.get("/v1/parties/user?removed=true").json()["parties"][0]["id"] == "ann"
        assert client.post("/v1/parties/user/ann/restore", json={}).json()["id"] == "ann"
    assert said(each, "hers") == ["I am Ann."]
