"""Filters on members of JSON, as callers write them: what passes, and what is refused with a way out."""

from __future__ import annotations

from typing import Any

import pytest

from recollect.domain.memory import Memory
from recollect.domain.record import now
from recollect.errors import InvalidInput, TooLarge
from recollect.ports.query import passes
from recollect.services.json_filters import MOST_COMPARED, OPERATORS, member_conditions


def _passes(stored: dict[str, Any], wanted: dict[str, Any]) -> bool:
    memory = Memory(
        organization_id="acme", content={}, text="x", content_hash="", identity="", occurred_at=now(), metadata=stored
    )
    return all(passes(memory, condition.filter) for condition in member_conditions("metadata", wanted))


BUILD = {"ok": False, "n": 3, "env": "test", "tags": ["a", "b"], "by": {"who": "ann", "at": None}, "a.b": 1}


@pytest.mark.parametrize(
    "wanted",
    [
        {"ok": False},
        {"n": 3},
        {"n": 3.0},
        {"n": [1, 2, 3]},
        {"n": {"gte": 3, "lt": 4}},
        {"n": {">": 2}},
        {"n": {"$gt": 2, "$ne": 4}},
        {"env": {"in": ["test", "staging"]}},
        {"env": {"gt": "tes"}},
        {"env": {"nin": ["prod"]}},
        {"gone": {"ne": 1}},
        {"gone": {"exists": False}},
        {"tags": {"contains": "a"}},
        {"tags": {"contains": ["a", "b"]}},
        {"by": {"who": "ann"}},
        {"by.who": "ann"},
        {"by": {"who": {"in": ["ann"]}, "at": None}},
        {"by.at": {"exists": True}},
        {"a.b": 1},  # a member whose own name has the dot
        {"ok": False, "n": 3},
    ],
    ids=str,
)
def test_what_is_so_passes(wanted: dict[str, Any]) -> None:
    assert _passes(BUILD, wanted)


@pytest.mark.parametrize(
    "wanted",
    [
        {"ok": 0},
        {"ok": None},
        {"ok": "false"},
        {"n": "3"},
        {"n": True},
        {"n": {"gt": 3}},
        {"n": {"gte": 3, "lt": 3}},
        {"n": {"gt": "2"}},
        {"n": {"nin": [3]}},
        {"env": ["prod"]},
        {"gone": None},
        {"gone": {"exists": True}},
        {"by.at": {"exists": False}},
        {"by": {"who": {"ne": "ann"}}},
        {"by.who": {"ne": "ann"}},
        {"tags": {"contains": ["a", "c"]}},
        {"tags": "a"},
        {"tags": {"0": "a"}},
        {"env": {"contains": "t"}},
        {"a": {"b": 1}},
        {"ok": False, "n": 4},
    ],
    ids=str,
)
def test_what_is_not_so_does_not(wanted: dict[str, Any]) -> None:
    assert not _passes(BUILD, wanted)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"n": {}}, "says nothing"),
        ({"n": []}, "the list is empty"),
        ({"n": {"$gteq": 3}}, "did you mean gte?"),
        ({"n": {"$ge": 3}}, "did you mean gte?"),
        ({"n": {"gte": 3, "less": 4}}, "there is no operator 'less'"),
        ({"n": {"$regex": "x"}}, "use eq, ne, gt"),
        ({"n": {"gt": True}}, "compares numbers or texts"),
        ({"n": {"eq": {"x": 1}}}, "single values"),
        ({"n": [[1]]}, "single values"),
        ({"n": {"exists": "no"}}, "exists is true or false"),
        ({"a": {"b": {"c": {"d": {"e": {"f": {"g": {"h": {"i": {"j": {"k": 1}}}}}}}}}}}, "levels deep"),
    ],
    ids=str,
)
def test_what_says_nothing_is_refused_with_a_way_out(wanted: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        member_conditions("metadata", wanted)
    assert said in str(refused.value)
    assert refused.value.remedy


def test_the_values_of_one_filter_are_bounded() -> None:
    member_conditions("metadata", {"n": list(range(MOST_COMPARED))})
    with pytest.raises(TooLarge):
        member_conditions("metadata", {"n": list(range(MOST_COMPARED)), "m": 1})


def test_every_operator_is_understood() -> None:
    for operator in OPERATORS:
        assert member_conditions("metadata", {"n": {operator: True if operator == "exists" else 1}})
