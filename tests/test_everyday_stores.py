"""Every day a service is tried on one of the two slow stores; their own tests are tried on both."""

from __future__ import annotations

from everyday_stores import left_out

STORES = ("sqlite", "duckdb", "dynamodb", "postgres")
SERVICES = [f"tests/services/test_{name}.py::test_it[{store}-2]" for name in "abcdefgh" for store in STORES]


def test_each_test_of_a_service_is_left_out_on_one_of_the_two_and_on_no_other() -> None:
    without = left_out(SERVICES, seed=1)
    assert len(without) == 8
    assert all("duckdb" in one or "dynamodb" in one for one in without)
    assert len({one.partition("[")[0] for one in without}) == 8
    assert {one for seed in range(9) for one in left_out(SERVICES, seed)} > without


def test_what_has_no_other_like_it_always_runs() -> None:
    alone = ["tests/services/test_a.py::test_it[duckdb]", "tests/services/test_b.py::test_dynamodb"]
    stores = [f"tests/adapters/test_a.py::test_it[{store}]" for store in STORES]
    assert left_out([*alone, *stores], seed=1) == set()


def test_of_a_pair_of_both_one_direction_is_tried() -> None:
    pairs = [f"tests/services/test_a.py::test_it[{one}]" for one in ("duckdb-dynamodb", "dynamodb-duckdb")]
    assert len(left_out(pairs, seed=1)) == 1
