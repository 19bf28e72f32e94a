"""Rules decide what is archived, forgotten, erased or moved; preview says it first, and the log afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cold_sessions import age, contents, fill, opened, tenant_of
from every_store import EMPTY_STORE, EVERY_STORE
from recollect.domain.memory import Memory
from recollect.domain.record import now
from recollect.domain.retention import RetentionClock, RetentionRule
from recollect.errors import InvalidInput, InvalidSettings, NotFound
from recollect.ports.steps import Put
from recollect.services.background import Schedule, tasks_of
from recollect.services.retention import clock


@pytest.fixture(params=EVERY_STORE)
def mem(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with opened(EMPTY_STORE[request.param](tmp_path), objects=str(tmp_path / "objects")) as memory:
        yield memory


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Any]:
    with opened(tmp_path / "local.db") as memory:
        memory.project.add("Ferries", id="ferries")
        yield memory


def remember(mem: Any, id: str, days: float, **fields: Any) -> None:
    """A memory that was made so many days ago."""
    mem.remember(f"What {id} says 记忆", id=id, **fields)
    tenant = tenant_of(mem)
    stored = tenant.get(Memory, id)
    assert stored is not None
    tenant.transact([Put(stored.changed(created_at=now() - timedelta(days=days)), restoring=True)])


def done(reply: Any) -> dict[str, int]:
    return {rule.then: rule.done for rule in reply.rules}


def test_each_rule_does_what_it_says_and_the_log_names_it(mem: Any) -> None:
    for kind in ("observation", "fact", "reflection"):
        remember(mem, f"old {kind}", 100, kind=kind)
        remember(mem, f"new {kind}", 1, kind=kind)
    rules = {
        then: mem.retention.set(kind=kind, keep_days=30, then=then, reason="policy 7").id
        for kind, then in (("observation", "erase"), ("fact", "forget"), ("reflection", "archive"))
    }
    shown = mem.retention.preview()
    assert {(rule.then, rule.due, rule.done, rule.held) for rule in shown.rules} == {
        (then, 1, 0, 0) for then in ("erase", "forget", "archive")
    }
    assert {rule.examples[0] for rule in shown.rules} == {
        f"old {kind} What old {kind} says 记忆" for kind in ("observation", "fact", "reflection")
    }
    assert done(mem.retention.apply()) == {"erase": 1, "forget": 1, "archive": 1}
    tenant = tenant_of(mem)
    assert tenant.get(Memory, "old observation", deleted=True) is None
    forgotten = tenant.get(Memory, "old fact", deleted=True)
    assert forgotten is not None
    assert forgotten.is_deleted
    assert mem.show("old reflection").status == "archived"
    assert mem.history("old reflection")[0].why == f"retention rule {rules['archive']}: policy 7"
    for kind in ("observation", "fact", "reflection"):
        assert mem.show(f"new {kind}").status == "hypothesis"
    told = {(entry.request.get("id"), entry.request.get("rule")) for entry in mem.log(action="retention.apply")}
    assert told >= {(f"old {kind}", rules[then]) for kind, then in (("observation", "erase"), ("fact", "forget"))}
    assert done(mem.retention.apply()) == {"erase": 0, "forget": 0, "archive": 0}
    assert mem.verify().problems == []


def test_the_most_specific_rule_counts_and_of_equals_the_one_that_keeps_longest(local: Any) -> None:
    remember(local, "plain", 50)
    remember(local, "observed", 50, kind="observation")
    remember(local, "project", 50, project="ferries")
    remember(local, "both", 50, kind="observation", project="ferries")
    local.retention.set(keep_days=10, then="forget")
    local.retention.set(kind="observation", keep_days=100, then="forget")
    local.retention.set(project="ferries", keep_days=40, then="forget")
    due = {rule.examples[0].split()[0]: rule.keep_days for rule in local.retention.preview().rules if rule.due}
    assert due == {"plain": 10, "project": 40}, "of equals, the longer one counts"
    local.retention.set(kind="observation", project="ferries", keep_days=45, then="erase")
    due = {rule.examples[0].split()[0]: rule.then for rule in local.retention.preview().rules if rule.due}
    assert due == {"plain": "forget", "project": "forget", "both": "erase"}
    assert [rule.then for rule in local.retention.list()] == ["erase", "forget", "forget", "forget"]


def test_a_memory_with_an_expiry_of_its_own_is_left_to_it(local: Any) -> None:
    remember(local, "brief", 50, ttl_seconds=10 * 86400)
    local.retention.set(keep_days=10, then="erase")
    assert local.retention.preview().rules[0].due == 0
    local.retention.apply()
    assert local.show("brief").id == "brief"


def test_what_is_held_stays_and_is_counted(local: Any) -> None:
    local.user.add("Ann", id="ann")
    remember(local, "free", 50)
    remember(local, "held", 50, user="ann")
    hold = local.hold.place(user="ann", reason="case 42")
    local.retention.set(keep_days=10, then="erase")
    (shown,) = local.retention.preview().rules
    assert (shown.due, shown.held) == (1, 1)
    (applied,) = local.retention.apply().rules
    assert (applied.done, applied.held) == (1, 1)
    assert local.show("held").id == "held"
    local.hold.release(hold.id)
    assert done(local.retention.apply()) == {"erase": 1}


def test_old_sessions_go_to_cold_storage_and_rules_reach_them_there(mem: Any) -> None:
    fill(mem)
    age(tenant_of(mem))
    fill(mem, "young")
    mem.retention.set(project="ferries", keep_days=300, then="cold")
    assert [(rule.then, rule.due) for rule in mem.retention.preview().rules] == [("cold", 1)]
    assert done(mem.retention.apply()) == {"cold": 1}
    assert [one.session for one in mem.cold.list()] == ["old"]
    entries = mem.log(action="retention.apply").entries
    assert any(entry.request.get("digest") and entry.request.get("rule") for entry in entries)
    assert done(mem.retention.apply()) == {"cold": 0}
    mem.retention.set(kind="observation", keep_days=200, then="erase")
    assert done(mem.retention.apply()) == {"erase": 1, "cold": 1}, "the forgotten one, in cold storage until now"
    assert "old-slip" not in contents(tenant_of(mem))["memory"]
    assert [one.session for one in mem.cold.list()] == ["old"]
    assert done(mem.retention.apply()) == {"cold": 0, "erase": 0}, "it does not go to and fro"


def test_rules_of_the_settings_apply_and_cannot_be_removed(tmp_path: Path) -> None:
    rules = [
        {"kind": "observation", "keep_days": 30, "then": "forget"},
        {"project": "x", "keep_days": 9, "then": "cold"},
    ]
    with opened(tmp_path / "a.db", retention=rules) as mem:
        remember(mem, "old", 40, kind="observation")
        assert [(one.origin, one.then) for one in mem.retention.list()] == [
            ("settings", "cold"),
            ("settings", "forget"),
        ]
        (rule,) = [one for one in mem.retention.list() if one.then == "forget"]
        with pytest.raises(NotFound, match="in the settings"):
            mem.retention.remove(rule.id)
        assert done(mem.retention.apply()) == {"forget": 1, "cold": 0}
        stored = mem.retention.set(kind="observation", keep_days=60, then="forget")
        (kept,) = [one for one in mem.retention.list() if one.then == "forget"]
        assert (stored.id, kept.keep_days, kept.origin) == (rule.id, 60, "stored"), "of two, the longer"
        mem.retention.remove(rule.id)
        assert {one.origin for one in mem.retention.list()} == {"settings"}
    with pytest.raises(InvalidSettings, match="whole sessions"):
        opened(tmp_path / "b.db", retention=[{"kind": "fact", "keep_days": 9, "then": "cold"}])


def test_bad_rules_are_refused_with_what_to_do(local: Any) -> None:
    for wrong in (
        {"keep_days": 0, "then": "erase"},
        {"keep_days": 10, "then": "burn"},
        {"keep_days": 10, "then": "cold", "kind": "fact"},
        {"keep_days": float("inf"), "then": "erase"},
        {"keep_days": 10},
    ):
        with pytest.raises(InvalidInput):
            local.retention.set(**wrong)
    with pytest.raises(NotFound):
        local.retention.set(project="none", keep_days=10, then="erase")
    with pytest.raises(NotFound, match=r"retention\.list"):
        local.retention.apply("none")
    assert local.retention.apply().rules == []


def test_nothing_is_deleted_because_a_clock_was_wrong_for_a_moment(local: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    remember(local, "young", 1)
    local.retention.set(keep_days=30, then="erase")
    local.retention.apply()
    ahead = timedelta(days=400)

    def at(moment: datetime) -> None:
        for module in ("application", "clock"):
            monkeypatch.setattr(f"recollect.services.retention.{module}.now", lambda: moment)

    at(now() + ahead)
    for _ in range(3):
        reply = local.retention.apply()
        assert reply.rules == []
        assert "399 days ahead" in reply.notes[0] or "400 days ahead" in reply.notes[0]
    at(now() + ahead + timedelta(days=9000))
    assert local.retention.apply().rules == [], "another jump is another doubt"
    at(now())
    assert done(local.retention.apply()) == {"erase": 0}
    tenant = tenant_of(local)
    seen = tenant.get(RetentionClock, clock.CLOCK)
    assert seen is not None
    assert seen.doubted_at is None
    at(now() + ahead)
    local.retention.apply()
    at(now() + ahead + timedelta(hours=2))
    assert done(local.retention.apply()) == {"erase": 1}, "a clock that stays so is right: the store was not used"


def test_somebody_can_say_that_the_clock_is_right(local: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    remember(local, "old", 50)
    local.retention.set(keep_days=30, then="erase")
    moment = now() + timedelta(days=100)
    for module in ("application", "clock"):
        monkeypatch.setattr(f"recollect.services.retention.{module}.now", lambda: moment)
    assert local.retention.apply().rules == []
    assert done(local.retention.apply(trust_clock=True)) == {"erase": 1}


def test_the_background_applies_rules_a_bounded_number_at_a_time(local: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        remember(local, f"old {number}", 50)
    monkeypatch.setattr("recollect.services.background.RETAINED_AT_ONCE", 2)
    tenant = tenant_of(local)
    (task,) = [one for one in tasks_of(local._core, Schedule(1.0)) if one.name == "retention"]
    assert not task.is_waiting(tenant), "without rules there is nothing to do"
    local.retention.set(keep_days=30, then="forget")
    task.work(tenant, lambda: None)
    assert len(local.list().memories) == 5, "a rule that was just stored can still be previewed and removed"
    monkeypatch.setattr("recollect.services.background.RULE_GRACE", timedelta())
    for left in (3, 1, 0, 0):
        task.work(tenant, lambda: None)
        assert len(local.list().memories) == left


def test_a_rule_that_is_removed_meanwhile_does_nothing_more(local: Any, meanwhile: Any) -> None:
    remember(local, "old", 50)
    rule = local.retention.set(keep_days=30, then="erase")
    meanwhile(local, "transact", Memory, lambda: local.retention.set(keep_days=300, then="erase"))
    assert done(local.retention.apply()) == {"erase": 0}
    assert local.show("old").id == "old"
    assert tenant_of(local).get(RetentionRule, rule.id) is not None


def test_tenants_have_their_own_rules(local: Any) -> None:
    other = local.within("globex")
    remember(local, "old", 50)
    other.retention.set(keep_days=10, then="erase")
    assert done(other.retention.apply()) == {"erase": 0}
    assert local.retention.apply().rules == []
    assert local.show("old").id == "old"
