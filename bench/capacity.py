"""How many machines so many organizations need: measured work per operation, put through a queue with peaks.

    python bench/capacity.py      # reads bench/results/year.json, writes bench/results/capacity.json

An organization has the size of REQUIREMENTS section 6 (D): 10,000 memories and 5,000 vectors a day. What it asks
besides is assumed, and stands in `ASKED_A_DAY`. The busiest quarter of an hour has `PEAK` times the mean rate, and
requests come in bursts. A machine serves them with its cores, first come, first served; how long each takes is drawn
around the measured processor time. The largest number of organizations at which the cores are at most 70% busy and
the slowest hundredth of the recalls still fast enough is what the machine holds; disk and memory bound it, too. All
draws come from one seed: the same measurements give the same answer.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from shared import console, in_words, table
from year_data import DAYS, MEMORIES_A_DAY

RESULTS = Path(__file__).parent / "results"
ORGANIZATIONS = (1, 100, 10_000)
SEED = 31
PEAK = 5.0
BURST = 4.0  # requests that come at once, on average
WINDOW_SECONDS = 900.0
MOST_EVENTS = 200_000
BUSY = 0.7
SLOWEST_MS = 500.0
SPREAD = 0.5  # of the logarithm of the time of a call: the slowest hundredth takes 3.2 times the median
# What an organization does on a day, and where the processor time of one is measured. Its memories are D's; what is
# asked of them is assumed: two recalls for each memory, nine of ten within a user.
ASKED_A_DAY: Mapping[str, float] = {
    "add": MEMORIES_A_DAY,
    "recall, one user's": 1.8 * MEMORIES_A_DAY,
    "recall, everybody's": 0.2 * MEMORIES_A_DAY,
    "show": 0.5 * MEMORIES_A_DAY,
    "list, one user's": 0.2 * MEMORIES_A_DAY,
    "revise": 0.05 * MEMORIES_A_DAY,
    "forget": 0.02 * MEMORIES_A_DAY,
}
RECALLS = ("recall, one user's", "recall, everybody's")


@dataclass(frozen=True)
class Machine:
    cores: int
    memory_gb: float
    disk_gb: float


# D's own: "4 to 8 cores and 16 GB".
MACHINE = Machine(8, 16, 2_000)
KEPT_FREE = 0.8  # of disk and memory: the rest is for a backup, a merge, the system


# -- the queue -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Load:
    """Requests a second of each kind, and the processor seconds of one."""

    rate: Mapping[str, float]
    seconds: Mapping[str, float]

    @property
    def cores(self) -> float:
        """How many cores would be busy all the time."""
        return sum(rate * self.seconds[name] for name, rate in self.rate.items())

    def times(self, factor: float) -> Load:
        return Load({name: factor * rate for name, rate in self.rate.items()}, self.seconds)


def arrivals(load: Load, seconds: float, draw: random.Random, burst: float = BURST) -> Iterator[tuple[float, str]]:
    """When which request comes: bursts at random times, of as many as a geometric draw says."""
    names, weights = list(load.rate), list(load.rate.values())
    bursts_a_second = sum(weights) / burst
    at = draw.expovariate(bursts_a_second)
    while at < seconds:
        size = 1 if burst <= 1 else 1 + int(math.log(1 - draw.random()) / math.log(1 - 1 / burst))
        for name in draw.choices(names, weights, k=size):
            yield at, name
        at += draw.expovariate(bursts_a_second)


def simulate(load: Load, cores: int, seconds: float = WINDOW_SECONDS, seed: int = SEED, spread: float = SPREAD,
             burst: float = BURST) -> dict[str, float]:  # fmt: skip
    """How busy the cores are and how long requests take, waiting included."""
    draw = random.Random(seed)
    free = [0.0] * cores
    busy, took, recalls, last = 0.0, [], [], 0.0
    for number, (at, name) in enumerate(arrivals(load, seconds, draw, burst)):
        if number >= MOST_EVENTS:
            break
        # The mean of the draws is the time that was measured.
        work = load.seconds[name] * math.exp(spread * draw.gauss(0, 1) - spread**2 / 2)
        begun = max(at, heapq.heappop(free))
        heapq.heappush(free, begun + work)
        busy, last = busy + work, at
        took.append(begun + work - at)
        if name in RECALLS:
            recalls.append(begun + work - at)
    window = max(last, max(free), 1e-9)
    return {
        "busy": busy / (cores * window),
        "requests": len(took),
        "mean_ms": 1000 * sum(took) / max(1, len(took)),
        "recall_p50_ms": 1000 * quantile(recalls, 0.5),
        "recall_p99_ms": 1000 * quantile(recalls, 0.99),
    }


def quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


# -- how much a machine holds ----------------------------------------------------------------------------------------


def load_of(report: Mapping[str, Any]) -> Load:
    """What one organization asks at its busiest, with what each takes of a processor: ours and the server's."""
    measured = report["measured"]
    seconds = {
        name: (measured[name]["cpu_ms"] + measured[name].get("server_cpu_ms", 0.0)) / 1000 for name in ASKED_A_DAY
    }
    return Load({name: PEAK * count / 86_400 for name, count in ASKED_A_DAY.items()}, seconds)


def by_processor(load: Load, cores: int) -> int:
    """The most organizations that the cores serve in time; 0 if not even one."""

    def holds(count: int) -> bool:
        found = simulate(load.times(count), cores)
        return found["busy"] <= BUSY and found["recall_p99_ms"] <= SLOWEST_MS

    low, high = 0, max(1, math.ceil(2 * cores / load.cores))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def plan(report: Mapping[str, Any], machine: Machine = MACHINE) -> dict[str, Any]:
    load = load_of(report)
    year_gb = report["measured"]["disk"]["bytes_a_memory"] * DAYS * MEMORIES_A_DAY / 1e9
    # The codes of the vectors, which every question to everybody's memories walks through.
    hot_gb = report["vectors"] / report["share"] * report["dimensions"] / 8 / 1e9
    holds = {
        "processor": by_processor(load, machine.cores),
        "disk": int(KEPT_FREE * machine.disk_gb / year_gb),
        "memory": int(KEPT_FREE * machine.memory_gb / hot_gb),
    }
    each = max(1, min(holds.values()))
    return {
        "store": report["store"],
        "share": report["share"],
        "machine": asdict(machine),
        "cores_at_peak": round(load.cores, 4),
        "gb_a_year": round(year_gb, 1),
        "hot_gb": round(hot_gb, 2),
        "holds": holds,
        "bound_by": min(holds, key=lambda name: holds[name]),
        "organizations": {str(count): _needed(count, each, load, machine, year_gb) for count in ORGANIZATIONS},
    }


def _needed(count: int, each: int, load: Load, machine: Machine, year_gb: float) -> dict[str, Any]:
    machines = math.ceil(count / each)
    found = simulate(load.times(min(count, each)), machine.cores)
    return {
        "machines": machines,
        "organizations_each": min(count, each),
        "disk_tb_a_year": round(count * year_gb / 1000, 2),
        "busy_at_peak": round(found["busy"], 3),
        "recall_p50_ms": float(in_words(found["recall_p50_ms"]).replace(",", "")),
        "recall_p99_ms": float(in_words(found["recall_p99_ms"]).replace(",", "")),
    }


def show(plans: Sequence[Mapping[str, Any]]) -> None:
    for one in plans:
        rows = [
            [count, *(in_words(float(value)) for value in needed.values())]
            for count, needed in one["organizations"].items()
        ]
        heads = ("organizations", "machines", "each", "TB a year", "busy", "recall p50 ms", "p99 ms")
        console.print(table(f"{one['store']}: bound by {one['bound_by']}, {one['holds']}", heads, rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--year", type=Path, default=RESULTS / "year.json", help="what bench/year.py measured")
    parser.add_argument("--cores", type=int, default=MACHINE.cores)
    parser.add_argument("--memory-gb", type=float, default=MACHINE.memory_gb)
    parser.add_argument("--disk-gb", type=float, default=MACHINE.disk_gb)
    parser.add_argument("--out", type=Path, default=RESULTS, help="where capacity.json goes")
    options = parser.parse_args()
    machine = Machine(options.cores, options.memory_gb, options.disk_gb)
    plans = [plan(report, machine) for report in json.loads(options.year.read_text())]
    show(plans)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "capacity.json").write_text(json.dumps(plans, indent=1) + "\n")


if __name__ == "__main__":
    main()
