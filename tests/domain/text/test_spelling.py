"""A word that was typed wrongly is taken for the nearest one at hand, or for none."""

from __future__ import annotations

import pytest

from recollect.domain.text.spelling import LONGEST, compounds_of, errors_in, meant, typing_errors


@pytest.mark.parametrize(
    ("typed", "word"),
    [
        ("melanei", "melanie"),  # swapped
        ("caroline", "carolinne"),  # doubled
        ("pottry", "pottery"),  # left out
        ("pitano", "piano"),  # one too many
        ("guiter", "guitar"),  # another one
        ("conferrense", "conference"),  # two, in a long word
        ("aclligraphy", "calligraphy"),  # at the beginning
    ],
)
def test_a_typing_error_is_seen_through(typed: str, word: str) -> None:
    assert meant(typed, [word, "something", "else"]) == [word]


@pytest.mark.parametrize(
    ("typed", "among"),
    [
        ("tea", ["sea", "ten"]),  # too short to be sure
        ("guitar", ["sitar"]),
        ("hobbies", ["robberies"]),
        ("err4012", ["err4013"]),  # a number is another number
        ("a" * (LONGEST + 1), ["a" * LONGEST]),
        ("anything", []),
    ],
)
def test_other_words_are_other_words(typed: str, among: list[str]) -> None:
    assert meant(typed, among) == []


def test_only_the_nearest_are_meant() -> None:
    assert meant("carolina", ["caroline", "carolinas"]) == ["carolinas", "caroline"]
    assert meant("conference", ["conferences", "confluences"]) == ["conferences"]


def test_errors_are_counted_up_to_the_most() -> None:
    assert [typing_errors("abcd", other, 2) for other in ("abcd", "abdc", "abc", "acbde")] == [0, 1, 1, 2]
    assert typing_errors("abcdef", "uvwxyz", 2) > 2
    assert errors_in("ann") == 0


def test_a_word_is_looked_for_in_compounds() -> None:
    assert compounds_of("test", ["pytest", "testbed", "contested", "tea"]) == ["pytest", "testbed"]
    assert compounds_of("est", ["pytest"]) == []
    assert compounds_of("test", [f"test{letter}" for letter in "abcdef"]) == []
