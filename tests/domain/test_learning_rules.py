"""Rates, groups, templates and extracts: the pure rules of learning."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.domain.learning import HALF_LIFE_DAYS, TrialOutcome, beta_cdf, beta_quantile, posterior, verdict
from recollect.domain.text.extractive import extract, sentences
from recollect.domain.text.pattern_templates import TaskExample, filled, generalized, read_slots, slots_of, steps_of
from recollect.domain.text.similarity import grouped, likeness

NOW = datetime(2024, 6, 1, tzinfo=UTC)
counts = st.integers(0, 60)


def outcomes(successes: int, failures: int, days_ago: float = 0) -> list[TrialOutcome]:
    at = NOW - timedelta(days=days_ago)
    return [TrialOutcome(True, at)] * successes + [TrialOutcome(False, at)] * failures


@pytest.mark.parametrize(
    ("probability", "alpha", "beta", "expected"),
    # Known values: of the uniform, of powers (1 - (1-p)^(1/b), p^(1/a)), and the symmetric middle.
    [(0.05, 1, 1, 0.05), (0.05, 4, 1, 0.05**0.25), (0.95, 1, 6, 1 - 0.05 ** (1 / 6)), (0.5, 250, 250, 0.5)],
)
def test_quantiles_are_those_of_the_beta_distribution(
    probability: float, alpha: float, beta: float, expected: float
) -> None:
    assert beta_quantile(probability, alpha, beta) == pytest.approx(expected, abs=1e-9)


def test_the_distribution_agrees_with_drawing_from_it() -> None:
    chance = random.Random(7)
    drawn = sorted(chance.betavariate(5.5, 2.25) for _ in range(20_000))
    for rate in (0.3, 0.6, 0.8, 0.9):
        share = sum(one <= rate for one in drawn) / len(drawn)
        assert beta_cdf(rate, 5.5, 2.25) == pytest.approx(share, abs=0.012)


@settings(deadline=None)
@given(counts, counts)
def test_a_rate_lies_within_its_interval_and_never_at_the_ends(successes: int, failures: int) -> None:
    found = posterior(outcomes(successes, failures), NOW)
    assert 0 < found.low < found.mean < found.high < 1


@settings(deadline=None)
@given(counts, counts)
def test_a_success_raises_and_a_failure_lowers_all_of_it(successes: int, failures: int) -> None:
    before = posterior(outcomes(successes, failures), NOW)
    better = posterior(outcomes(successes + 1, failures), NOW)
    worse = posterior(outcomes(successes, failures + 1), NOW)
    for one in ("low", "mean", "high"):
        assert getattr(worse, one) < getattr(before, one) < getattr(better, one)


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(1, 40))
def test_more_of_the_same_narrows_the_interval(successes: int, failures: int) -> None:
    little = posterior(outcomes(successes, failures), NOW)
    much = posterior(outcomes(4 * successes, 4 * failures), NOW)
    assert much.high - much.low < little.high - little.low


@settings(deadline=None)
@given(st.integers(1, 40), counts)
def test_what_is_long_ago_counts_less_and_is_never_quite_forgotten(successes: int, failures: int) -> None:
    fresh, old = (posterior(outcomes(successes, failures, days), NOW) for days in (0, HALF_LIFE_DAYS))
    assert old.alpha - 1 == pytest.approx((fresh.alpha - 1) / 2)
    assert old.evidence == fresh.evidence
    assert abs(old.mean - 0.5) <= abs(fresh.mean - 0.5)


def test_three_of_three_rank_below_ninety_of_a_hundred() -> None:
    assert posterior(outcomes(3, 0), NOW).low < posterior(outcomes(90, 10), NOW).low


@pytest.mark.parametrize(
    ("successes", "failures", "says"),
    [(0, 2, "fine"), (1, 2, "doubtful"), (0, 3, "doubtful"), (0, 4, "useless"), (2, 9, "useless"), (3, 2, "fine")],
)
def test_a_pattern_is_judged_only_on_enough_outcomes(successes: int, failures: int, says: str) -> None:
    assert verdict(posterior(outcomes(successes, failures), NOW)) == says


def test_groups_do_not_depend_on_luck_and_keep_strangers_apart() -> None:
    texts = ["open the red door", "mend the roof", "open the blue door", "mend the roof again", "sing"]
    assert grouped(likeness(texts), 0.3) == [[0, 2], [1, 3], [4]]
    assert grouped(np.eye(3), 0.5) == [[0], [1], [2]]


def test_steps_are_read_off_lines_numbers_and_sentences() -> None:
    assert steps_of("1. Open it\n2) Close it.\n\n- Go") == ["Open it", "Close it", "Go"]
    assert steps_of("Open version 2.5; close it. Then go.") == ["Open version 2.5", "close it", "Then go"]
    assert steps_of(" \n ") == []


TRIES = [
    TaskExample(
        "Rename column price to cost in orders.csv", "Open orders.csv\nRename price to cost\nbuy milk\nRun the tests"
    ),
    TaskExample("Rename column name to title in books.csv", "Open books.csv\nRename name to title\nRun the tests"),
    TaskExample("Rename column qty to amount in stock.csv", "Open stock.csv\nRename qty to amount\nRun the tests"),
]


def test_common_steps_stay_and_what_differs_becomes_the_same_slot_everywhere() -> None:
    template = generalized(TRIES)
    assert template.problem == "Rename column {1} to {2} in {3}"
    assert template.solution == "1. Open {3}\n2. Rename {1} to {2}\n3. Run the tests"
    values = read_slots(template.problem, "Rename column a to b in c.csv")
    assert filled(template.solution, values) == "1. Open c.csv\n2. Rename a to b\n3. Run the tests"


def test_a_slot_without_a_value_stays_visible() -> None:
    assert filled("paint it {1} and {2}", {"1": "red"}) == "paint it red and {2}"
    assert slots_of("paint {b} and {a} and {b}") == ["b", "a"]
    assert read_slots("paint the door {1}", "sing a song") == {}


def test_tries_with_nothing_in_common_give_the_shortest_plan() -> None:
    assert generalized([TaskExample("a", "sing loudly in the bath"), TaskExample("b", "swim")]).solution == "swim"


SAID = [
    ("Ann", "Hello there!"),
    ("Bob", "Hi, how are you?"),
    ("Ann", "We decided to fly to Lisbon on 3 May with 4 people."),
    ("Bob", "Nice weather, is it not?"),
    ("Bob", "The hotel in Lisbon costs 420 euros, and I will book it tomorrow."),
    ("Ann", "Fine, fine."),
    ("Ann", "Remember that I am allergic to peanuts, so no snacks on the flight to Lisbon."),
    ("Bob", "Sure."),
]


def test_an_extract_keeps_names_numbers_and_decisions_and_leaves_the_small_talk() -> None:
    said = [one for by, text in SAID for one in sentences(text, by)]
    chosen = extract(said, 45)
    assert [one.text for one in chosen] == [SAID[2][1], SAID[4][1], SAID[6][1]]
    assert [one.by for one in chosen] == ["Ann", "Bob", "Ann"]


def test_what_fits_is_taken_whole_and_one_sentence_always_is() -> None:
    said = sentences("One. Two. Two. Three.")
    assert [one.text for one in extract(said, 100)] == ["One.", "Two.", "Three."]
    assert len(extract(sentences("far too long a sentence for the room. Another such sentence here."), 1)) == 1
