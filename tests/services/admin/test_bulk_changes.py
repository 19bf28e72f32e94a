"""Changing many memories by a filter: what `list` shows is what is changed, and nothing by mistake."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.errors import Conflict, InvalidInput, NotFound, StoreError, TooLarge
from recollect.services.admin import bulk_changes
from recollect.services.memories.lifecycle import forget_all

ANN = recollect.cite.user("ann", "said so")


@pytest.fixture
def mem(every: Any) -> Any:
    every.remember_many([{"content": f"note {n}", "id": f"n{n}", "tags": ["old"], "cites": [ANN]} for n in range(7)])
    every.remember("kept", id="kept", tags=["new"])
    return every


def test_what_list_shows_is_forgotten_and_the_same_again_does_nothing(mem: Any) -> None:
    looked = mem.forget_many(tags=["old"], dry_run=True)
    assert (looked.matched, looked.changed, len(looked.examples)) == (7, 0, 5)
    assert len(mem.list()) == 8
    done = mem.forget_many(tags=["old"], expect=looked.matched, why="clearing up")
    assert (done.matched, done.changed) == (7, 7)
    assert [one.id for one in mem.list()] == ["kept"]
    assert mem.forget_many(tags=["old"]).changed == 0
    assert mem.history("n1").entries[-2].why == "clearing up"
    mem.restore("n1")
    erased = mem.erase_many(forgotten=True, all=True)
    assert erased.changed == 6
    with pytest.raises(NotFound):
        mem.history("n2")
    assert {one.id for one in mem.list()} == {"kept", "n1"}


def test_statuses_change_by_the_rules_for_one_and_what_may_not_is_told(mem: Any) -> None:
    done = mem.promote_many(all=True)
    assert (done.matched, done.changed, done.skipped) == (8, 7, 1)
    assert done.reasons[0].id == "kept"
    assert "without a citation" in done.reasons[0].why
    assert mem.demote_many(statuses=["verified"], metadata={"x": {"exists": False}}).changed == 7
    archived = mem.archive_many(tags=["old"])
    assert archived.changed == 7
    assert [one.id for one in mem.list()] == ["kept"]
    assert mem.archive_many(statuses=["archived"]).matched == 0


def test_nobody_changes_everything_by_mistake(mem: Any) -> None:
    nothing: list[dict[str, Any]] = [{}, {"tags": []}, {"content": {}}, {"purpose": "think"}, {"namespaces": ["x"]}]
    for asked in nothing:
        with pytest.raises(InvalidInput, match="all=True"):
            mem.erase_many(**asked)
    with pytest.raises(TooLarge, match="nothing was changed"):
        mem.forget_many(tags=["old"], limit=6)
    with pytest.raises(Conflict, match="7 memories match, not 6"):
        mem.forget_many(tags=["old"], expect=6)
    assert len(mem.list()) == 8


def test_what_is_on_legal_hold_is_left_alone_and_counted(local: Any) -> None:
    local.user.add("Ann", id="ann")
    local.remember("hers", id="hers", user="ann", tags=["old"])
    local.remember("nobody's", id="other", tags=["old"])
    local.hold.place(user="ann", reason="a case")
    done = local.erase_many(tags=["old"])
    assert (done.matched, done.changed, done.held) == (2, 1, 1)
    assert [one.id for one in local.list()] == ["hers"]


def test_a_batch_that_fails_leaves_the_ones_before_it_done_and_the_same_call_does_the_rest(
    local: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_changes, "BATCH", 2)
    local.remember_many([{"content": f"note {n}", "tags": ["old"]} for n in range(6)])
    calls: list[Any] = []

    def failing(*given: Any) -> None:
        calls.append(given)
        if len(calls) == 2:
            raise StoreError("the disk is gone")
        forget_all(*given)

    monkeypatch.setattr(bulk_changes, "forget_all", failing)
    with pytest.raises(StoreError):
        local.forget_many(tags=["old"])
    assert len(local.list()) == 4
    seen: list[tuple[int, int]] = []
    assert local.call("forget_many", tags=["old"], progress=lambda done, total: seen.append((done, total))).changed == 4
    assert seen == [(2, 4), (4, 4)]


def test_a_restricted_caller_changes_their_own_and_is_told_of_the_rest(local: Any) -> None:
    for user in ("ann", "bob"):
        local.user.add(user, id=user)
        local.remember(f"of {user}", id=user, user=user, tags=["x"])
    local.remember("everybody's", id="common", tags=["x"])
    local.relate("ann", "bob", "knows")
    hers = local.restricted(user="ann")
    done = hers.forget_many(tags=["x"])
    assert (done.matched, done.changed, done.skipped, done.reasons[0].id) == (2, 1, 1, "common")
    assert {one.id for one in local.list()} == {"bob", "common"}
    local.restore("ann")
    assert len(hers.relations(of="ann")) == 0
    assert [node.id for node in hers.relations.graph("ann").nodes] == ["ann"]
    assert {one.tag: one.memories for one in hers.tag.list()} == {"x": 2}
    assert hers.archive_many(tags=["x"]).skipped == 1


def test_forgetting_a_replacement_brings_back_what_it_replaced(local: Any) -> None:
    local.remember("the port is 1", id="old")
    local.remember("the port is 2", id="new", supersedes="old", tags=["x"])
    assert [one.id for one in local.list()] == ["new"]
    local.forget_many(tags=["x"])
    assert [one.id for one in local.list()] == ["old"]


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Any]:
    with recollect.open(tmp_path / "local.db", embedder="hash", background=False) as opened:
        yield opened
