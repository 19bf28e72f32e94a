"""What two sequences have in common, in time that grows with their length.

Python's `difflib` is cubic where much repeats: two texts of 960 words that share nothing but their spaces took it half
a minute. Here what stands once in both sequences anchors them (as in patience diff), the longest run in order; the
short gaps between anchors are left to `difflib`, a long gap counts as replaced. So whoever writes a text cannot make
its comparison expensive; `tests/domain/test_alignment.py` counts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Literal

Change = tuple[Literal["equal", "replace", "delete", "insert"], int, int, int, int]
"""As difflib's opcodes: equal, replace, delete or insert, and the stretch of either sequence."""

MOST_COMPARED = 64
CONTEXT = 3


def changes(old: Sequence[str], new: Sequence[str]) -> list[Change]:
    """How the old becomes the new, from the first to the last."""
    found: list[Change] = []
    for one in _stretches(old, new):
        if found and found[-1][0] == one[0] == "equal":
            _, start, _, first, _ = found.pop()
            one = ("equal", start, one[2], first, one[4])
        found.append(one)
    return found


def _stretches(old: Sequence[str], new: Sequence[str]) -> Iterator[Change]:
    here, there = 0, 0
    for mine, theirs in [(0, 0), *_anchors(old, new), (len(old), len(new))]:
        if mine < here:  # in what was equal already
            continue
        first_mine, first_theirs = mine, theirs
        while first_mine > here and first_theirs > there and old[first_mine - 1] == new[first_theirs - 1]:
            first_mine, first_theirs = first_mine - 1, first_theirs - 1
        yield from _gap(old, new, here, first_mine, there, first_theirs)
        here, there = mine, theirs
        while here < len(old) and there < len(new) and old[here] == new[there]:
            here, there = here + 1, there + 1
        if here > first_mine:
            yield "equal", first_mine, here, first_theirs, there


def _anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """The longest run, in order on both sides, of what stands exactly once on each."""
    once = {one for one, count in Counter(old).items() if count == 1}
    once &= {one for one, count in Counter(new).items() if count == 1}
    place = {one: at for at, one in enumerate(new) if one in once}
    ends: list[int] = []  # of the runs of each length, the least place they can end at
    last: list[tuple[int, int, int]] = []  # place in old, place in new, the one before in its run
    tops: list[int] = []
    for at, one in enumerate(old):
        if one not in once:
            continue
        length = bisect_left(ends, place[one])
        last.append((at, place[one], tops[length - 1] if length else -1))
        ends[length : length + 1] = [place[one]]
        tops[length : length + 1] = [len(last) - 1]
    run: list[tuple[int, int]] = []
    index = tops[-1] if tops else -1
    while index >= 0:
        mine, theirs, index = last[index]
        run.append((mine, theirs))
    return run[::-1]


def _gap(old: Sequence[str], new: Sequence[str], i1: int, i2: int, j1: int, j2: int) -> Iterator[Change]:
    """A stretch without anchors."""
    if i1 >= i2 or j1 >= j2:
        if i1 < i2:
            yield "delete", i1, i2, j1, j1
        elif j1 < j2:
            yield "insert", i1, i1, j1, j2
        return
    if i2 - i1 > MOST_COMPARED or j2 - j1 > MOST_COMPARED:
        yield "replace", i1, i2, j1, j2
        return
    matcher = SequenceMatcher(None, old[i1:i2], new[j1:j2], autojunk=False)
    for tag, a1, a2, b1, b2 in matcher.get_opcodes():
        yield tag, i1 + a1, i1 + a2, j1 + b1, j1 + b2


class _KnownChanges(SequenceMatcher[str]):
    """Only for what difflib makes of changes that are known."""

    def __init__(self, old: Sequence[str], new: Sequence[str]) -> None:
        super().__init__()
        self._changes = changes(old, new)

    def get_opcodes(self) -> list[Change]:
        return self._changes


def unified(old: Sequence[str], new: Sequence[str], names: tuple[str, str]) -> list[str]:
    """The lines that differ with three around them, as `diff -u` writes them."""
    lines: list[str] = []
    for group in _KnownChanges(old, new).get_grouped_opcodes(CONTEXT):
        spans = _span(group[0][1], group[-1][2]), _span(group[0][3], group[-1][4])
        lines.append(f"@@ -{spans[0]} +{spans[1]} @@")
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                lines += [" " + line for line in old[i1:i2]]
                continue
            lines += ["-" + line for line in old[i1:i2]]
            lines += ["+" + line for line in new[j1:j2]]
    return [f"--- {names[0]}", f"+++ {names[1]}", *lines] if lines else []


def _span(start: int, stop: int) -> str:
    length = stop - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"
