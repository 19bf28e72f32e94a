"""How what each operation reads grows with the organization on DynamoDB: counted, and held to what is declared.

The table in docs/guides/dynamodb.md has the same operations at 500 and 2,000 memories.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import recollect
from dynamodb_meter import Cost, Meter
from dynamodb_readings import ELSEWHERE, READINGS, begin, grow, measured
from dynamodb_server import dynamodb
from recollect.catalogue import OPERATIONS

SMALL, LARGE = 150, 450
Costs = dict[str, tuple[Cost, Cost]]


@pytest.fixture(scope="module")
def costs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Costs]:
    """Of each operation, in an organization and in one three times as large; what reads all is left out."""
    folder: Path = tmp_path_factory.mktemp("growth")
    asked = {name: one.call for name, one in READINGS.items() if one.shape != "whole"}
    with recollect.open(dynamodb().new_store(), embedder="hash", background=False, citation_root=folder) as mem:
        store: Any = mem._core.store
        meter, names, taken, before = Meter(store), begin(mem, folder), [], 50
        for size in (SMALL, LARGE):
            grow(mem, before, size)
            taken.append({name: measured(mem, meter, call, names) for name, call in asked.items()})
            before = size
        yield {name: (taken[0][name], taken[1][name]) for name in asked}


def test_nothing_that_is_declared_constant_grows_with_the_organization(costs: Costs) -> None:
    grown = {}
    for name, (before, after) in costs.items():
        # Ids decide which partition a memory is in: where one of them has more of a page, a few more requests are made.
        more = 3 * max(0, after.requests - before.requests)
        is_more = after.read_units > 1.1 * before.read_units + 3 + more or after.requests > 1.1 * before.requests + 3
        if READINGS[name].shape == "constant" and is_more:
            grown[name] = (before.requests, before.read_units), (after.requests, after.read_units)
    assert grown == {}


def test_what_grows_with_what_it_is_about_grows_no_faster(costs: Costs) -> None:
    times = LARGE / SMALL
    grown = {
        name: (before.read_units, after.read_units)
        for name, (before, after) in costs.items()
        if READINGS[name].shape == "some" and after.read_units > times * before.read_units
    }
    assert grown == {}


@pytest.mark.parametrize("name", ["list, newest", "list, happened", "list, priority", "list, one user's"])
def test_the_first_page_of_a_list_reads_about_a_page(costs: Costs, name: str) -> None:
    for cost in costs[name]:
        assert cost.read_units <= 20
        assert cost.requests <= 20


def test_what_is_counted_is_not_read(costs: Costs) -> None:
    assert max(cost.read_units for cost in costs["activity"]) <= 6
    assert max(cost.read_units for cost in costs["stats"]) <= 22


def test_every_operation_that_reads_says_how_it_grows() -> None:
    declared = {name.partition(",")[0] for name in READINGS}
    assert {name for name, one in OPERATIONS.items() if one.only_reads} == declared | ELSEWHERE.keys()


def test_reading_changes_nothing(costs: Costs) -> None:
    assert {name for name, pair in costs.items() for cost in pair if cost.write_units} == set()
