"""Restricted keys and accounts: private by owner, shared by project; what is out of reach looks like what is absent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import recollect
from every_store import EMPTY_STORE, EVERY_STORE
from recollect.domain.access import Restriction
from recollect.domain.agents import Agent
from recollect.domain.memory import Memory
from recollect.domain.record import RECORDS
from recollect.domain.tenancy import ApiKey
from recollect.errors import Denied, InvalidInput, NotFound, ReferenceMissing, Unauthenticated
from recollect.services.access import keys
from recollect.services.restrictions import BOOKKEEPING, CLOSED, FREE, OPEN, Rules


@pytest.fixture(params=[*EVERY_STORE, "memory"])
def everywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    address = "memory://" if request.param == "memory" else EMPTY_STORE[request.param](tmp_path)
    with recollect.open(address, embedder="hash", citation_root=tmp_path) as opened:
        yield opened


@pytest.fixture
def mem(tmp_path: Path) -> Iterator[Any]:
    with recollect.open(tmp_path / "x.db", embedder="hash", citation_root=tmp_path) as opened:
        yield filled(opened)


def filled(mem: Any) -> Any:
    """Two users, two agents, two projects; each has something, one thing is nobody's."""
    for name in ("ann", "bob"):
        mem.user.add(name, id=name)
    for name in ("bee", "fly"):
        mem.agent.add(name, id=name)
    for name in ("house", "yard"):
        mem.project.add(name, id=name, owner="bob")
    mem.session.add("hers", id="hers", user="ann")
    mem.session.add("his", id="his", user="bob", agent="fly")
    mem.remember("the lake of everybody is deep", id="common")
    mem.remember("the lake of ann is deep", id="anns", user="ann", tags=["lake"])
    mem.remember("the lake of bob is deep", id="bobs", user="bob", tags=["secret"], cites=["user:bob:said so"])
    mem.remember("the lake in the talk with bob is deep", id="talk", session="his")
    mem.remember("the lake of the bee is deep", id="bees", agent="bee")
    mem.remember("the lake of the house is deep", id="houses", project="house")
    mem.remember("the lake that bob shows the house is deep", id="shown", project="house", scope="project", user="bob")
    mem.remember("the lake of bob in the house is deep", id="kept", project="house", user="bob")
    mem.remember("the lake of the yard is deep", id="yards", project="yard")
    mem.message.add("user", "bob speaks of the lake", session="his", user="bob")
    return mem


ALL = {"common", "anns", "bobs", "talk", "bees", "houses", "shown", "kept", "yards"}


def seen(mem: Any) -> set[str]:
    """What every way of reading memories gives, which must be the same."""
    found = {one.id for one in mem.recall("lake", limit=50)}
    assert found == {one.id for one in mem.list(limit=50)}
    assert found == {one.id for one in mem.recall("a deep lake", limit=50, by="meaning")}
    assert found == {id for id in ALL if _is_there(lambda: mem.show(id))}  # noqa: B023
    assert mem.stats().memories == len(found)
    return found


def _is_there(look: Callable[[], object]) -> bool:
    try:
        look()
    except NotFound:
        return False
    return True


def test_private_by_owner_shared_by_project(everywhere: Any) -> None:
    mem = filled(everywhere)
    assert seen(mem) == ALL
    assert seen(mem.restricted(user="ann")) == {"common", "anns"}
    assert seen(mem.restricted(user="bob")) == {"common", "bobs", "talk", "shown", "kept"}
    assert seen(mem.restricted(user="ann", project="house")) == {"common", "houses", "shown"}
    assert seen(mem.restricted(agent="bee")) == {"common", "bees"}
    assert seen(mem.restricted(agent="fly")) == {"common", "talk"}
    assert seen(mem.restricted(project="house")) == {"common", "houses", "shown", "kept"}
    assert seen(mem.restricted(namespace="long_term")) == ALL
    ann = mem.restricted(user="ann")
    assert [one.id for one in ann.session.list()] == ["hers"]
    assert [one.text for one in ann.message.search("lake")] == []
    assert [one.id for one in ann.user.list()] == ["ann"]
    fresh = ann.remember("the lake of ann is cold", tags=["lake"]).id
    assert mem.show(fresh).user == "ann"
    assert {one.id for one in ann.list(limit=50)} == {"common", "anns", fresh}


def test_members_of_a_project_share_what_is_in_it(mem: Any) -> None:
    key = mem.key.add("ann's", user="ann").key
    assert seen(mem.restricted(user="ann")) == {"common", "anns"}
    mem.project.add_member("house", "ann")
    ann = mem.restricted(user="ann")
    assert seen(ann) == {"common", "anns", "houses", "shown"}
    assert keys.authenticate(mem._core, key).scope.restriction == Restriction(user="ann", shared=frozenset({"house"}))
    shared = ann.remember("the lake that ann shows the house is deep", project="house", scope="project").id
    assert shared in {one.id for one in mem.restricted(user="bob", project="house").list(limit=50)}
    mem.project.remove_member("house", "ann")
    assert keys.authenticate(mem._core, key).scope.restriction == Restriction(user="ann")


def test_what_is_out_of_reach_looks_absent(mem: Any) -> None:
    ann = mem.restricted(user="ann")
    for act in (
        lambda id: ann.show(id),
        lambda id: ann.revise(id, "mine now"),
        lambda id: ann.forget(id),
        lambda id: ann.erase(id),
        lambda id: ann.history(id),
        lambda id: ann.relate("anns", id, "supports"),
        lambda id: ann.remember("x", session=id),
        lambda id: ann.remember("x", project=id),
        lambda id: ann.remember("x", user=id),
        lambda id: ann.message.add("user", "x", session=id),
        lambda id: ann.session.end(id),
    ):
        for foreign in ("bobs", "his", "yard", "bob"):
            assert _told(act, foreign) == _told(act, "nobody's"), foreign
    assert mem.show("bobs").text == "the lake of bob is deep"
    assert not [one for one in mem.list(limit=50) if one.text == "x"]


def _told(act: Callable[[str], object], id: str) -> str:
    try:
        act(id)
    except recollect.RecollectError as error:
        return f"{error.code} {error}".replace(id, "ID")
    return "done"


def test_what_is_the_organizations_can_be_read_and_not_changed(mem: Any) -> None:
    ann = mem.restricted(user="ann")
    for act in (
        lambda: ann.revise("common", "mine now"),
        lambda: ann.forget("common"),
        lambda: ann.erase("common"),
        lambda: ann.cite("common", ["user:ann:said so"]),
        lambda: ann.relate("common", "anns", "supports"),
        lambda: ann.agent.revise("bee", topic="me"),
        lambda: ann.agent.add("mine"),
        lambda: ann.tool.add("mine", "a tool"),
    ):
        with pytest.raises(Denied, match="restricted"):
            act()
    ann.relate("anns", "common", "supports")
    with pytest.raises(Denied, match="whole organization"):
        ann.stats() and ann.export("x.jsonl")
    house = mem.restricted(user="ann", project="house")
    house.revise("houses", "the lake of the house is green")
    with pytest.raises(Denied):
        house.revise("shown", "hers now")


def test_runs_files_items_and_checkpoints_follow_their_owner(mem: Any) -> None:
    ann, bob, fly = mem.restricted(user="ann"), mem.restricted(user="bob"), mem.restricted(agent="fly")
    run = bob.run.start("count the lakes", agent="fly", session="his").id
    fence = bob.run.claim("worker", id=run).fence
    bob.run.propose(run, fence, tool="count", arguments={"of": "lakes"})
    bob.run.record(run, fence, summary="three lakes")
    assert [one.id for one in fly.run.list()] == [one.id for one in bob.run.list()] == [run]
    assert not ann.run.list()
    with pytest.raises(NotFound):
        ann.run.show(run)
    place = fly.workspace.add("fly", "desk").id
    fly.workspace.write(place, "lake.txt", "deep")
    assert fly.workspace.read(place, "lake.txt").text == "deep"
    other = mem.workspace.add("bee", "desk").id
    mem.workspace.write(other, "sea.txt", "salty")
    fly.workspace.snapshot(place, "now")
    fly.workspace.prune(place, keep=1)
    assert mem.workspace.read(other, "sea.txt").text == "salty"  # what others use is not deleted as unused
    for stranger in (ann, mem.restricted(agent="bee")):
        with pytest.raises(NotFound):
            stranger.workspace.read(place, "lake.txt")
    bob.item.put(["bob", "notes"], "lake", value={"depth": 9})
    with pytest.raises(Denied):
        bob.item.put(["ann", "notes"], "lake", value={"depth": 9})
    assert bob.item.get(["bob", "notes"], "lake").item is not None
    assert ann.item.get(["bob", "notes"], "lake").item is None
    bob.checkpoint.put("his", "1", items={"x": [b"one"]}, body=b"state")
    assert bob.checkpoint.get("his").checkpoints
    assert not ann.checkpoint.get("his").checkpoints
    assert not ann.checkpoint.threads().threads
    with pytest.raises(Denied):
        ann.checkpoint.put("his", "2", items={}, body=b"state")
    assert mem.workspace.read(place, "lake.txt").text == "deep"


def test_a_key_is_restricted_to_what_it_names(mem: Any) -> None:
    core = mem._core
    key = mem.key.add("ann's phone", user="ann")
    assert key.own_only
    assert keys.authenticate(core, key.key).scope.restriction == Restriction(user="ann")
    both = mem.key.add("house", project="house", agent="bee", namespace="plans", scopes=["read"])
    found = keys.authenticate(core, both.key)
    assert found.scope.restriction == Restriction(agent="bee", project="house", namespace="plans")
    shown = {one.id: one for one in mem.key.list()}[both.id]
    assert (shown.project, shown.agent, shown.namespace, shown.own_only) == ("house", "bee", "plans", False)
    with pytest.raises(InvalidInput, match="admin"):
        mem.key.add("x", user="ann", own_only=True, scopes=["read", "admin"])
    with pytest.raises(InvalidInput, match="no user"):
        mem.key.add("x", own_only=True)
    with pytest.raises((NotFound, ReferenceMissing)):
        mem.key.add("x", agent="nobody")
    whole = mem.key.add("whole", user="ann", own_only=False)
    with pytest.raises(Unauthenticated):  # she has no role
        keys.authenticate(core, whole.key)
    mem.user.revise("ann", role="curator")
    assert keys.authenticate(core, whole.key).scope.restriction is None
    mem.user.revise("ann", own_only=True)
    restricted = keys.authenticate(core, whole.key).scope
    assert restricted.restriction == Restriction(user="ann")
    mem.user.revise("bob", role="owner")
    assert keys.authenticate(core, mem.key.add("all", user="bob").key).scope.restriction is None


def test_a_key_ends_with_the_agent_or_project_it_is_restricted_to(mem: Any) -> None:
    """Without it, it would reach everything."""
    key = mem.key.add("bee's", agent="bee")
    mem.agent.remove("bee", for_good=True)
    with pytest.raises(Unauthenticated):
        keys.authenticate(mem._core, key.key)
    assert ApiKey.shape.references["project_id"].on_delete == "cascade"


def test_a_namespace_is_read_and_written_where_none_is_named(mem: Any) -> None:
    plans = mem.restricted(namespace="plans")
    plan = plans.remember("swim in the lake").id
    assert mem._tenant.get(Memory, plan).namespaces == ["plans"]
    assert [one.id for one in plans.recall("lake")] == [plan]
    with pytest.raises(Denied, match="plans"):
        plans.remember("swim in the sea", namespaces=["plans", "long_term"])
    with pytest.raises(NotFound):
        plans.show("common")


def test_every_record_type_says_whose_it_is_or_is_closed() -> None:
    """A new type is closed until somebody says whose it is; what is open or bookkeeping is listed by hand."""
    rules = Rules(Restriction(user="ann"))
    unconditional = {table for table, record in RECORDS.items() if rules.readable(record) == FREE}
    assert unconditional == {one.shape.table for one in OPEN | BOOKKEEPING | {Agent}}
    closed = {table for table, record in RECORDS.items() if rules.readable(record) == CLOSED}
    assert closed == CLOSED_TO_USERS
    for record in OPEN:
        assert rules.writable(record) == CLOSED


CLOSED_TO_USERS = {
    "api_key", "backup", "cold_link", "erasure_certificate", "membership", "organization_secret", "retention_clock",
    "seal", "workspace",
}  # fmt: skip
