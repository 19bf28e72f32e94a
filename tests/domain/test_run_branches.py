"""Histories of runs are stretches: rewinds begin branches, forks share what came before."""

from __future__ import annotations

from recollect.domain.agents import Execution
from recollect.domain.run_branches import BranchSpan, between, branch_of, history_of, past_for_fork


def run(id: str, **fields: object) -> Execution:
    return Execution(organization_id="acme", id=id, agent_id="bot", goal="g", **fields)


def test_a_plain_run_is_one_stretch() -> None:
    assert history_of(run("a")) == [BranchSpan("a", 0, 0)]


def test_a_rewind_begins_a_branch_and_keeps_what_was_before() -> None:
    rewound = run("a", rewinds=[3])
    assert branch_of(rewound) == 1
    assert history_of(rewound) == [BranchSpan("a", 0, 0, 3), BranchSpan("a", 1, 3)]
    assert history_of(rewound, 0) == [BranchSpan("a", 0, 0)]


def test_a_rewind_past_an_earlier_one_drops_its_branch() -> None:
    assert history_of(run("a", rewinds=[3, 5, 2])) == [BranchSpan("a", 0, 0, 2), BranchSpan("a", 3, 2)]


def test_a_rewind_to_the_beginning_keeps_nothing() -> None:
    assert history_of(run("a", rewinds=[0])) == [BranchSpan("a", 1, 0)]


def test_a_fork_shares_and_a_fork_of_it_shares_both() -> None:
    parent = run("a", rewinds=[3])
    child = run("b", parent_id="a", past=past_for_fork(parent, 5))
    assert history_of(child) == [BranchSpan("a", 0, 0, 3), BranchSpan("a", 1, 3, 5), BranchSpan("b", 0, 5)]
    grandchild = run("c", parent_id="b", past=past_for_fork(child, 7))
    assert history_of(grandchild)[-2:] == [BranchSpan("b", 0, 5, 7), BranchSpan("c", 0, 7)]
    assert past_for_fork(child, 2) == [["a", 0, 0, 2]]


def test_a_fork_from_a_branch_that_was_given_up() -> None:
    assert past_for_fork(run("a", rewinds=[3]), 6, branch=0) == [["a", 0, 0, 6]]


def test_only_the_asked_numbers_are_read() -> None:
    stretches = history_of(run("a", rewinds=[3]))
    assert list(between(stretches, 3, 4)) == [BranchSpan("a", 0, 2, 3), BranchSpan("a", 1, 3, 4)]
    assert list(between(stretches, 5, 4)) == []
