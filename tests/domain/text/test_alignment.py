"""Two sequences side by side: every change adds up, and no pair of texts makes it slow."""

from __future__ import annotations

import difflib
import random
from collections.abc import Sequence

import pytest

from recollect.domain.text import alignment
from recollect.domain.text.alignment import changes, unified


class Word(str):
    """A word that counts how often it is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Word.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def applied(old: Sequence[str], new: Sequence[str]) -> list[str]:
    made: list[str] = []
    here = there = 0
    for tag, i1, i2, j1, j2 in changes(old, new):
        assert (i1, j1) == (here, there)
        assert i2 > i1 or j2 > j1
        assert (tag == "equal") == (list(old[i1:i2]) == list(new[j1:j2]))
        made += old[i1:i2] if tag == "equal" else new[j1:j2]
        here, there = i2, j2
    assert (here, there) == (len(old), len(new))
    return made


def test_the_changes_lead_from_the_old_to_the_new() -> None:
    chance = random.Random(7)
    for _ in range(800):
        letters = "abcdefghij"[: chance.randint(1, 10)]
        old = [chance.choice(letters) for _ in range(chance.randint(0, 30))]
        new = [chance.choice(letters) for _ in range(chance.randint(0, 30))]
        assert applied(old, new) == new


def test_long_texts_with_a_small_change_differ_by_that_change() -> None:
    old = [f"line {number % 700}" for number in range(2000)]
    new = [*old[:900], "something else", *old[901:]]
    assert [one for one in changes(old, new) if one[0] != "equal"] == [("replace", 900, 901, 900, 901)]


def test_a_unified_diff_reads_as_difflib_writes_it() -> None:
    old = [f"line {number}" for number in range(60)]
    for new in ([*old[:5], "x", *old[6:50], *old[51:]], [], ["a"], [*old, "z"], old):
        theirs = list(difflib.unified_diff(old, new, "before/a", "after/a", lineterm=""))
        assert unified(old, new, ("before/a", "after/a")) == theirs


@pytest.mark.parametrize("shared", [" ", "a"])
def test_texts_that_share_only_what_repeats_are_compared_in_few_looks(shared: str) -> None:
    looks = []
    for count in (500, 2000):
        old = [Word(one) for number in range(count) for one in (f"x{number}", shared)]
        new = [Word(one) for number in range(count) for one in (f"y{number}", shared)]
        Word.compared = 0
        changes(old, new)
        looks.append(Word.compared)
    assert looks[1] <= 6 * max(looks[0], 100)
    assert alignment.MOST_COMPARED <= 64
