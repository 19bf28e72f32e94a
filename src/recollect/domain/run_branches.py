"""The history of a run: its own steps and those it shares with the run it was forked from, without those it
abandoned.

Every cycle lies on a branch of a run and has a number there. A rewind to step k starts the next branch after k; a fork
starts a new run after step k of any branch. So a history is a short list of spans, nothing is copied, and abandoned
steps stay where they are. Numbers run from 1 without a gap through the spans of a history.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from recollect.domain.agents import Execution
from recollect.domain.record import JsonList


@dataclass(frozen=True, slots=True)
class BranchSpan:
    """The steps of one branch of a run with `after < number <= upto`; without an end, all that follow."""

    run: str
    branch: int
    after: int
    upto: int | None = None

    def cut(self, first: int, last: int) -> BranchSpan | None:
        """The part between two numbers, both included."""
        upto = last if self.upto is None else min(self.upto, last)
        after = max(self.after, first - 1)
        return BranchSpan(self.run, self.branch, after, upto) if after < upto else None


def branch_of(run: Execution) -> int:
    """The current branch of a run."""
    return len(run.rewinds or ())


def history_of(run: Execution, branch: int | None = None) -> list[BranchSpan]:
    """The spans of a run's history as seen from one of its branches, oldest first; the last has no end."""
    cuts = list(run.rewinds or ())
    stretches = [BranchSpan(*one) for one in run.past or ()]
    stretches.append(BranchSpan(run.id, 0, stretches[-1].upto or 0 if stretches else 0))
    for number, kept in enumerate(cuts[: branch_of(run) if branch is None else branch], 1):
        stretches = [*_upto(stretches, kept), BranchSpan(run.id, number, kept)]
    return stretches


def past_for_fork(run: Execution, kept: int, branch: int | None = None) -> JsonList:
    """What a fork after step `kept` shares, as it is stored with the fork."""
    return [[one.run, one.branch, one.after, one.upto] for one in _upto(history_of(run, branch), kept)]


def between(stretches: Sequence[BranchSpan], first: int, last: int) -> Iterator[BranchSpan]:
    for stretch in stretches:
        part = stretch.cut(first, last)
        if part is not None:
            yield part


def _upto(stretches: Sequence[BranchSpan], kept: int) -> list[BranchSpan]:
    return list(between(stretches, 1, kept))
