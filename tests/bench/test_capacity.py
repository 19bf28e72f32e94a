"""The queue that the sizes of docs/scale.md come from, held against what is known of queues."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"
LONG = 100_000.0


@pytest.fixture(scope="module")
def capacity() -> Iterator[Any]:
    """With the search for the most that a machine serves made once for each load, since it takes seconds."""
    found: dict[tuple[str, int], int] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCH))
        module = importlib.import_module("capacity")
        search = module.by_processor

        def searched_once(load: Any, cores: int) -> int:
            place = (repr(load), cores)
            if place not in found:
                found[place] = search(load, cores)
            return found[place]

        patch.setattr(module, "by_processor", searched_once)
        yield module


def load(capacity: Any, a_second: float, seconds: float) -> Any:
    return capacity.Load({"recall, one user's": a_second}, {"recall, one user's": seconds})


@pytest.mark.parametrize("busy", [0.3, 0.6, 0.8])
def test_one_server_waits_as_the_formula_of_pollaczek_and_khinchine_says(capacity: Any, busy: float) -> None:
    """Single arrivals, every call as long as the other: the mean wait is busy / 2(1 - busy) calls."""
    found = capacity.simulate(load(capacity, busy, 1.0), 1, LONG, spread=0.0, burst=1.0)
    assert found["busy"] == pytest.approx(busy, rel=0.03)
    assert found["mean_ms"] == pytest.approx(1000 * (1 + busy / (2 * (1 - busy))), rel=0.05)


def test_bursts_and_uneven_calls_wait_longer(capacity: Any) -> None:
    asked = load(capacity, 0.6, 1.0)
    even = capacity.simulate(asked, 1, LONG, spread=0.0, burst=1.0)["mean_ms"]
    uneven = capacity.simulate(asked, 1, LONG, spread=0.5, burst=1.0)["mean_ms"]
    bursts = capacity.simulate(asked, 1, LONG, spread=0.5, burst=4.0)["mean_ms"]
    assert even < uneven < bursts


def test_what_is_drawn_around_the_measured_time_has_it_as_its_mean(capacity: Any) -> None:
    found = capacity.simulate(load(capacity, 0.001, 1.0), 1, 1e8, burst=1.0)
    assert found["mean_ms"] == pytest.approx(1000, rel=0.02)


def test_the_same_seed_gives_the_same_answer_and_more_cores_a_faster_one(capacity: Any) -> None:
    asked = load(capacity, 20.0, 0.1)
    four = capacity.simulate(asked, 4)
    assert four == capacity.simulate(asked, 4)
    assert four != capacity.simulate(asked, 4, seed=1)
    assert capacity.simulate(asked, 8)["recall_p99_ms"] < four["recall_p99_ms"]


def report(share: float = 1.0, cpu_ms: float = 20.0, **more: float) -> dict[str, Any]:
    names = ("add", "recall, one user's", "recall, everybody's", "show", "list, one user's", "revise", "forget")
    cells: dict[str, Any] = {name: {"cpu_ms": cpu_ms, **more} for name in names}
    cells["disk"] = {"bytes_a_memory": 5_000}
    return {"store": "sqlite", "share": share, "vectors": 1_825_000 * share, "dimensions": 1536, "measured": cells}


def test_a_machine_holds_as_many_as_its_scarcest_part(capacity: Any) -> None:
    small = capacity.plan(report(), capacity.Machine(8, 16, 100))
    assert (small["bound_by"], small["holds"]["disk"]) == ("disk", 4)
    assert small["organizations"]["100"]["machines"] == 25
    assert capacity.plan(report(), capacity.Machine(8, 2, 10_000))["bound_by"] == "memory"
    slow = capacity.plan(report(cpu_ms=200.0), capacity.Machine(2, 1_000, 100_000))
    assert slow["bound_by"] == "processor"
    assert slow["organizations"]["10000"]["busy_at_peak"] <= capacity.BUSY


def test_no_more_are_put_on_a_machine_than_answer_in_time(capacity: Any) -> None:
    asked = capacity.load_of(report())
    most = capacity.by_processor(asked, 8)
    found = capacity.simulate(asked.times(most), 8)
    assert found["busy"] <= capacity.BUSY
    assert found["recall_p99_ms"] <= capacity.SLOWEST_MS
    more = capacity.simulate(asked.times(1.2 * most), 8)
    assert more["busy"] > capacity.BUSY or more["recall_p99_ms"] > capacity.SLOWEST_MS


def test_the_time_of_a_database_server_counts(capacity: Any) -> None:
    assert capacity.load_of(report(server_cpu_ms=20.0)).cores == pytest.approx(2 * capacity.load_of(report()).cores)


def test_a_share_of_the_year_is_taken_for_the_whole_in_size(capacity: Any) -> None:
    whole, part = (capacity.plan(report(share)) for share in (1.0, 0.05))
    assert (whole["gb_a_year"], whole["hot_gb"]) == (part["gb_a_year"], part["hot_gb"])
