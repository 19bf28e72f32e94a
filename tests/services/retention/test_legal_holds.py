"""What is on legal hold is not deleted, by any operation that deletes; everything else is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import pytest

from cold_sessions import contents, fill, opened, tenant_of
from counting import store_calls
from every_store import EMPTY_STORE, EVERY_STORE
from recollect.domain.agents import AgentState
from recollect.domain.memory import Memory
from recollect.domain.record import now
from recollect.errors import InvalidInput, NotFound, OnLegalHold, VersionConflict
from recollect.ports.query import Query
from recollect.ports.steps import Put, Step
from recollect.services import transaction
from recollect.services.admin import expiry
from recollect.services.memories import lifecycle
from recollect.services.tenant import Tenant

DELETIONS: dict[str, Callable[[Any], Any]] = {
    "forget": lambda mem: mem.forget("old-fact"),
    "erase": lambda mem: mem.erase("old-fact"),
    "erase what was forgotten": lambda mem: mem.erase("old-slip"),
    "message.remove": lambda mem: mem.message.remove(mem.message.list("old")[0].id),
    "message.pop": lambda mem: mem.message.pop("old"),
    "message.clear": lambda mem: mem.message.clear("old"),
    "run.remove": lambda mem: mem.run.remove(mem.run.list()[0].id),
    "state.drop": lambda mem: mem.state.drop("bee", session="old"),
    "checkpoint.delete": lambda mem: mem.checkpoint.delete("old"),
    "session.remove": lambda mem: mem.session.remove("old"),
    "session.remove for good": lambda mem: mem.session.remove("old", for_good=True),
    "project.remove": lambda mem: mem.project.remove("ferries"),
    "user.remove": lambda mem: mem.user.remove("ann", with_others=True),
    "privacy.erase": lambda mem: mem.privacy.erase(user="ann"),
    "agent.remove": lambda mem: mem.agent.remove("bee", for_good=True, with_others=True),
}


@pytest.fixture
def mem(tmp_path: Path) -> Iterator[Any]:
    with opened(tmp_path / "a.db") as memory:
        _fill(memory)
        yield memory


def _fill(mem: Any) -> None:
    fill(mem)
    mem.state.save("bee", {"at": "sea"}, session="old")
    mem.session.add("Another", id="free")
    mem.message.add("user", "nobody minds", session="free")
    mem.remember("Nobody minds", id="free-fact", session="free")


@pytest.mark.parametrize("subject", [{"session": "old"}, {"project": "ferries"}, {"user": "ann"}, {"agent": "bee"}])
def test_nothing_of_a_held_subject_is_deleted_until_the_hold_is_released(mem: Any, subject: dict[str, str]) -> None:
    hold = mem.hold.place(**subject, reason="case 42")
    before = contents(tenant_of(mem))
    for name, delete in DELETIONS.items():
        with pytest.raises(OnLegalHold, match=f"recollect hold release {hold.id}"):
            delete(mem)
        assert contents(tenant_of(mem)) == before, name
    assert mem.cold.store(session="old").stayed[0].stays_because == f"it is on legal hold: {hold.id}"
    mem.prune(older_than_days=0.0000001, keep_trusted=False)
    assert mem.show("old-fact").id == "old-fact"
    with pytest.raises(NotFound):
        mem.show("free-fact")
    mem.hold.release(hold.id, reason="case closed")
    mem.forget("old-fact")
    mem.session.remove("old", for_good=True)


def test_what_is_not_held_can_be_deleted_as_ever(mem: Any) -> None:
    mem.hold.place(session="old", reason="case 42")
    mem.message.clear("free")
    mem.erase("free-fact")
    mem.session.remove("free", for_good=True)


@pytest.mark.parametrize("kind", EVERY_STORE)
def test_what_is_held_does_not_expire(kind: str, tmp_path: Path) -> None:
    with opened(EMPTY_STORE[kind](tmp_path), restore_days=0, access_log_days=1) as mem:
        _fill(mem)
        tenant = tenant_of(mem)
        for session in ("old", "free"):
            mem.remember(f"soon gone {session}", id=f"{session}-brief", session=session, ttl_seconds=3600)
        mem.session.remove("free")
        hold = mem.hold.place(session="old", reason="case 42")
        past = now() - timedelta(days=1)
        brief = [tenant.get(Memory, f"{one}-brief") for one in ("old", "free")]
        states = [one.changed(expires_at=past) for one in tenant.find(Query(AgentState)).records]
        tenant.transact([Put(one.changed(expires_at=past)) for one in brief if one is not None])
        tenant.transact([Put(one) for one in states])
        reply = mem.sweep()
        assert (reply.expired, reply.states, reply.removed, reply.log_entries) == (1, 0, 1, 0)
        assert tenant.get(Memory, "old-brief") is not None
        mem.hold.release(hold.id)
        reply = mem.sweep()
        assert (reply.expired, reply.states) == (1, 1)


@pytest.mark.parametrize("deletion", ["sweep", "prune"])
def test_a_hold_that_is_placed_meanwhile_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deletion: Literal["sweep", "prune"]
) -> None:
    """Much is deleted some at a time, and others work in between."""
    area = expiry if deletion == "sweep" else lifecycle
    monkeypatch.setattr(area, "AT_ONCE" if deletion == "sweep" else "PAGE", 2)
    with opened(tmp_path / "a.db") as mem:
        mem.user.add("Ann", id="ann")
        for number in range(6):
            mem.remember(f"note {number}", id=f"n{number}", user="ann", ttl_seconds=3600)
        tenant = tenant_of(mem)
        if deletion == "sweep":
            past = now() - timedelta(days=1)
            found = tenant.find(Query(Memory)).records
            tenant.transact([Put(one.changed(expires_at=past)) for one in found])

        def held_after_the_first(tenant: Tenant, steps: Sequence[Step]) -> int:
            done = transaction.commit(tenant, steps)
            if not mem.hold.list():
                mem.hold.place(user="ann", reason="case 42")
            return done

        monkeypatch.setattr(area, "commit", held_after_the_first)
        if deletion == "sweep":
            assert mem.sweep().expired == 2
            assert tenant.count(Query(Memory, deleted="yes")) == 4
        else:
            assert len(mem.prune(keep=0).forgotten) == 2
            assert tenant.count(Query(Memory)) == 4


def test_a_hold_that_is_placed_while_a_prune_is_tried_again_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path / "a.db") as mem:
        mem.user.add("Ann", id="ann")
        mem.remember_many([{"content": f"note {number}", "user": "ann"} for number in range(5)])

        def refused_once(tenant: Tenant, steps: Sequence[Step]) -> int:
            if mem.hold.list():
                return transaction.commit(tenant, steps)
            mem.hold.place(user="ann", reason="case 42")
            raise VersionConflict("somebody changed one of them")

        monkeypatch.setattr(lifecycle, "commit", refused_once)
        assert mem.prune(keep=0).forgotten == []
        assert tenant_of(mem).count(Query(Memory)) == 5


def test_what_is_to_expire_later_after_all_is_not_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "AT_ONCE", 1)
    with opened(tmp_path / "a.db") as mem:
        for id in ("n0", "n1"):
            mem.remember(f"note {id}", id=id, ttl_seconds=3600)
        tenant = tenant_of(mem)
        found = tenant.find(Query(Memory)).records
        tenant.transact([Put(one.changed(expires_at=now() - timedelta(days=1))) for one in found])

        def kept_after_the_first(tenant: Tenant, steps: Sequence[Step]) -> int:
            done = transaction.commit(tenant, steps)
            tenant.transact(
                [Put(one.changed(expires_at=None)) for one in tenant.find(Query(Memory, deleted="yes")).records]
            )
            return done

        monkeypatch.setattr(expiry, "commit", kept_after_the_first)
        assert mem.sweep().expired == 1
        assert tenant.count(Query(Memory)) == 1


def test_a_removed_user_who_is_held_is_not_deleted_for_good_in_the_end(tmp_path: Path) -> None:
    with opened(tmp_path / "a.db", restore_days=0) as mem:
        fill(mem)
        mem.user.add("Bob", id="bob")
        mem.user.remove("bob")
        hold = mem.hold.place(user="bob", reason="case 42")
        assert mem.sweep().notes == ["user 'bob' is on legal hold"]
        mem.hold.release(hold.id)
        assert mem.sweep().notes == []
        with pytest.raises(NotFound):
            mem.user.restore("bob")


def test_holds_are_listed_with_who_placed_and_released_them(mem: Any) -> None:
    one = mem.hold.place(user="ann", reason="案件四十二")
    two = mem.hold.place(session="old", reason="case 43")
    mem.hold.release(one.id, reason="settled")
    assert [hold.id for hold in mem.hold.list()] == [two.id]
    assert [hold.id for hold in mem.hold.list(released="yes")] == [two.id, one.id]
    (gone,) = mem.hold.list(user="ann", released="only")
    assert (gone.reason, gone.release_reason, gone.released_at is None) == ("案件四十二", "settled", False)
    assert mem.hold.release(one.id).released_at == gone.released_at, "a second time changes nothing"
    assert {entry.action for entry in mem.log(limit=20)} >= {"hold.place", "hold.release"}
    for wrong in ({}, {"user": "ann", "session": "old"}):
        with pytest.raises(InvalidInput, match="exactly one"):
            mem.hold.place(reason="x", **wrong)
    with pytest.raises(NotFound):
        mem.hold.place(user="nobody", reason="x")
    with pytest.raises(InvalidInput):
        mem.hold.place(user="ann", reason="")


def test_two_holds_on_one_subject_are_released_one_by_one(mem: Any) -> None:
    one, two = (mem.hold.place(session="old", reason=reason) for reason in ("a", "b"))
    mem.hold.release(one.id)
    with pytest.raises(OnLegalHold):
        mem.erase("old-fact")
    mem.hold.release(two.id)
    mem.erase("old-fact")


def test_a_deletion_asks_once_more_where_nothing_is_held(mem: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = store_calls(mem, monkeypatch)
    mem.forget("free-fact")
    asked = len(calls)
    mem.hold.place(session="old", reason="x")
    mem.restore("free-fact")
    calls.clear()
    mem.forget("free-fact")
    assert len(calls) - asked <= 2, "the memory itself, and its session"


def test_a_hold_of_one_tenant_is_not_another_tenants(mem: Any) -> None:
    other = mem.within("globex")
    fill(other)
    mem.hold.place(session="old", reason="x")
    other.erase("old-fact")
    assert other.hold.list().holds == []
