"""Several memories say the same: one stays for all of them, in one transaction."""

from __future__ import annotations

from typing import Any

import pytest

from recollect import cite
from recollect.errors import IllegalTransition, InvalidInput, NotFound, VersionConflict


def three(mem: Any) -> None:
    mem.remember("Alice prefers pytest", id="kept", tags=["tests"])
    mem.remember("Alice likes pytest best", id="said", cites=[cite.user("alice", "said so")], tags=["alice", "tests"])
    mem.remember("pytest is what Alice wants", id="bare")


def test_one_stays_with_the_evidence_of_all(mem: Any) -> None:
    three(mem)
    merged = mem.merge("kept", ["said", "bare", "said"], promote="verified", why="the same")
    assert (merged.status, merged.merged, merged.citations_added, merged.tags_added) == (
        "verified", ["said", "bare"], 1, 1,
    )  # fmt: skip
    kept = mem.show("kept")
    assert (kept.tags, [one.source for one in kept.citations]) == (["alice", "tests"], ["user:alice"])
    assert {(link.id, link.type, link.direction) for link in kept.links} == {
        ("said", "merged_into", "from"), ("bare", "merged_into", "from"),
    }  # fmt: skip
    assert [mem.show(id).status for id in ("said", "bare")] == ["archived", "archived"]
    assert mem.history("bare").entries[-2].why == "merged into kept: the same"
    assert [hit.id for hit in mem.recall("what does Alice prefer?")] == ["kept"]


def test_everything_is_in_the_access_log_in_one_transaction(mem: Any) -> None:
    three(mem)
    mem.merge("kept", ["said"], promote="verified")
    entries = mem.log().entries[:3]
    assert {(entry.action, entry.request.get("change"), entry.memory) for entry in entries} == {
        ("merge", None, "kept"), ("merge", "promoted", "kept"), ("merge", "archived", "said"),
    }  # fmt: skip


def test_without_evidence_nothing_is_promoted_and_nothing_merged(mem: Any) -> None:
    three(mem)
    with pytest.raises(IllegalTransition, match="without a citation"):
        mem.merge("kept", ["bare"], promote="verified")
    assert mem.show("bare").status == "hypothesis"
    assert mem.merge("kept", ["bare"]).status == "hypothesis"


def test_what_is_trusted_gives_way_only_to_what_is(mem: Any) -> None:
    three(mem)
    mem.promote("said")
    with pytest.raises(IllegalTransition, match="cannot be merged into a hypothesis"):
        mem.merge("kept", ["said"])
    assert mem.merge("kept", ["said"], promote="verified").status == "verified"


def test_evidence_that_does_not_hold_stays_behind(mem: Any, tmp_path: Any) -> None:
    three(mem)
    (tmp_path / "notes.md").write_text("pytest\n")
    mem.cite("bare", ["file:notes.md:1-1"])
    (tmp_path / "notes.md").write_text("nose\n")
    assert mem.merge("kept", ["bare", "said"], promote="verified").citations_added == 1


def test_what_cannot_be_merged_is_refused(mem: Any) -> None:
    three(mem)
    for id, others, error in (
        ("kept", ["kept"], InvalidInput), ("kept", [], InvalidInput), ("kept", ["absent"], NotFound),
        ("absent", ["kept"], NotFound),
    ):  # fmt: skip
        with pytest.raises(error):
            mem.merge(id, others)
    with pytest.raises(VersionConflict):
        mem.merge("kept", ["said"], version=9)
    mem.archive("bare")
    with pytest.raises(IllegalTransition, match="archived"):
        mem.merge("bare", ["said"])
    assert mem.merge("kept", ["bare"]).merged == ["bare"]  # put aside already: now it says for whom


def test_a_merge_is_taken_back_whole(mem: Any) -> None:
    three(mem)
    before = [(one.text, one.status, one.tags, len(one.citations)) for one in map(mem.show, ("kept", "said", "bare"))]
    mem.merge("kept", ["said", "bare"], promote="verified")
    back = mem.unmerge("said", why="they differ")
    assert (back.status, back.into, back.citations_removed, back.tags_removed) == ("hypothesis", "kept", 1, 1)
    mem.unmerge("bare")
    assert before == [
        (one.text, one.status, one.tags, len(one.citations)) for one in map(mem.show, ("kept", "said", "bare"))
    ]
    assert mem.show("kept").links == []
    assert mem.history("said").entries[-2].why == "no longer merged into kept: they differ"
    assert {hit.id for hit in mem.recall("what does Alice prefer?")} == {"kept", "said", "bare"}
    assert mem.log(action="unmerge").entries[0].memory == "bare"
    with pytest.raises(NotFound, match="not merged"):
        mem.unmerge("said")


def test_what_another_merged_memory_gave_too_stays_until_that_one_goes(mem: Any) -> None:
    three(mem)
    same = cite.user("alice", "said so")
    mem.remember("Alice is fond of pytest", id="later", cites=[same], tags=["alice"])
    mem.merge("kept", ["said"])
    assert mem.merge("kept", ["later"]).citations_added == 0
    assert mem.unmerge("said").citations_removed == 0
    assert (len(mem.show("kept").citations), mem.show("kept").tags) == (1, ["alice", "tests"])
    mem.unmerge("later")
    assert (mem.show("kept").citations, mem.show("kept").tags) == ([], ["tests"])


def test_what_the_one_that_stayed_has_of_its_own_is_never_taken(mem: Any) -> None:
    three(mem)
    mem.cite("kept", [cite.user("alice", "said so")])
    mem.promote("kept")
    mem.merge("kept", ["said"])
    mem.unmerge("said")
    kept = mem.show("kept")
    assert (kept.status, len(kept.citations), kept.tags) == ("verified", 1, ["tests"])


def test_what_was_trusted_or_put_aside_before_comes_back_no_higher_than_it_may(mem: Any) -> None:
    three(mem)
    mem.promote("said")
    mem.archive("bare")
    mem.merge("kept", ["said", "bare"], promote="verified")
    assert mem.unmerge("said").status == "hypothesis"
    assert mem.unmerge("bare").status == "archived"
    mem.demote("bare")
    mem.merge("said", ["bare"])
    mem.demote("bare", why="brought back by hand")
    mem.merge("said", ["bare"])
    assert mem.unmerge("bare").status == "hypothesis"


def test_a_merge_is_taken_back_though_the_one_that_stayed_was_forgotten(mem: Any) -> None:
    three(mem)
    mem.merge("kept", ["said"])
    mem.forget("kept")
    assert mem.unmerge("said").citations_removed == 1
    mem.restore("kept")
    assert mem.show("kept").citations == []
