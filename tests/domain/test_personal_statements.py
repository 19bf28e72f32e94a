"""What is stated in talk is found by rules: precision first, and what is missed is counted, too."""

from __future__ import annotations

from datetime import date

import pytest

from counting import steps_of
from dialogues import DIALOGUES, HELD_OUT
from recollect.domain.text.personal_statements import (
    contradict,
    read_statement,
    repeats,
    says_the_same,
    statements,
)

MONDAY = date(2026, 11, 16)


def test_what_is_found_in_dialogues_is_right_and_most_of_it_is_found() -> None:
    """Of what is proposed nothing is wrong; of what a careful reader would note the plainly stated is found."""
    found = right = expected = 0
    wrong: list[str] = []
    for dialogue in DIALOGUES:
        stated = {(one.category, one.text) for line in dialogue.lines for one in statements(line, MONDAY)}
        found += len(stated)
        right += len(stated & set(dialogue.expected))
        expected += len(dialogue.expected)
        wrong += [f"{dialogue.about}: {one}" for one in stated - set(dialogue.expected)]
    assert wrong == []
    assert (found, right, expected) == (20, 20, 24)


def test_what_the_rules_do_with_lines_that_they_were_not_made_for() -> None:
    """Twenty statements and 25 lines that only look like some, such as "I play along": what is wrong is counted too."""
    found = [(line, is_stated) for line, is_stated in HELD_OUT if statements(line, MONDAY)]
    right = sum(is_stated for _, is_stated in found)
    assert (right, len(found) - right, sum(stated for _, stated in HELD_OUT), len(HELD_OUT)) == (16, 5, 20, 45)


@pytest.mark.parametrize(
    ("said", "on"),
    [
        ("I'm flying to Rome tomorrow", date(2026, 11, 17)),
        ("I'm flying to Rome the day after tomorrow", date(2026, 11, 18)),
        ("I'm flying to Rome on Monday", date(2026, 11, 23)),  # said on a Monday
        ("I'm flying to Rome on Sunday", date(2026, 11, 22)),
        ("The deadline is 2026-12-04", date(2026, 12, 4)),
        ("The deadline is 2026-13-04", None),
        ("The deadline is next Friday", None),  # one of two
        ("I'm getting married in June", None),
    ],
)
def test_a_plan_names_its_day_where_that_is_certain(said: str, on: date | None) -> None:
    (plan,) = statements(said, MONDAY)
    assert (plan.category, plan.when) == ("plan", on)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("I live in Berlin", "I moved to Porto last month"),
        ("The user lives in Berlin.", "I live in Porto"),
        ("User works at Acme", "I now work at Globex"),
        ("I like green tea", "I don't like green tea"),
        ("I'm not a fan of jazz", "I really love jazz"),
        ("my favourite colour is blue", "My favorite colour is green"),
        ("I'm 34 years old", "I'm 35"),
        ("My birthday is on May 5", "My birthday is on June 5"),
        ("Alice works at Globex", "Alice works for Initech"),
    ],
)
def test_another_value_of_the_same_is_a_contradiction(before: str, after: str) -> None:
    known, (said,) = read_statement(before), statements(after)
    assert known is not None
    if "favorite" in after:  # another spelling of the word, the same slot
        assert known.slot == said.slot
    assert contradict(said, known)
    assert not says_the_same(before, after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("I live in Berlin", "I like Berlin"),
        ("I love tea", "I love coffee"),
        ("I have two dogs", "I have a cat"),
        ("Alice works at Globex", "Bob works at Initech"),
        ("I work at Acme", "I work as a designer"),
        ("I live in Porto", "I live in Porto because of the sea"),
    ],
)
def test_different_things_do_not_contradict_each_other(before: str, after: str) -> None:
    known, (said,) = read_statement(before), statements(after)
    assert known is not None
    assert not contradict(said, known)


def test_the_same_is_recognised_in_nearly_the_same_words() -> None:
    assert says_the_same("I really love green tea!", "I love green tea")
    assert not says_the_same("I love green tea", "I love black tea")
    assert not says_the_same("I like tea", "I don't like tea")
    (said,), known = statements("I adore green tea"), read_statement("The user likes green tea")
    assert known is not None
    assert repeats(said, known)
    (more,) = statements("I live in Porto with my wife and three old cats")
    less = read_statement("I live in Porto")
    assert less is not None
    assert not repeats(more, less)  # it says more


def test_reading_takes_time_in_proportion_to_the_text() -> None:
    for unit in ("I live in a house and I love tea. ", "I " * 20, "my my my favourite ", "- , ; ? ", "I'll go with "):
        one, four = (steps_of(lambda text=text: statements(text, MONDAY)) for text in (unit * 15, unit * 60))  # type: ignore[misc]
        assert four <= 6 * max(one, 500), unit
    assert statements("I live in Rome. " * 1000) == []  # a pasted text
