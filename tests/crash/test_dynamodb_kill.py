"""DynamoDB: an acknowledged write survives kill -9, whole, and no update is lost among processes.

The bar: 200 kills, 0 lost, 0 half written; 32 writers, 0 anomalies. `make test` kills a fortieth
as often, on one of four tables, and does a tenth of the counting.
"""

from __future__ import annotations

import json
import select
from pathlib import Path
from typing import Any

import pytest

from dynamodb_server import dynamodb
from seeds import some

LIVES = 5
PROCESSES, THREADS = 4, 2


@pytest.mark.parametrize("table", some(1, range(4), "tables of DynamoDB that are written by the killed"))
def test_no_acknowledged_write_is_lost_and_none_is_half_there_after_kill_9(
    table: int, tmp_path: Path, children: Any, new_ticks: Any, compare: Any, opened: Any, chance: Any, times: Any
) -> None:
    address, ledger, acknowledged = dynamodb().new_store(), compare.Ledger(), 0
    for life in range(times(LIVES)):
        log, ticks, seed, states = tmp_path / f"{life}.log", new_ticks(), str(chance.random()), ledger.living()
        given = {"log": log, "ticks": ticks.path, "life": life, "seed": seed, "states": states, "count": 3}
        child = children.start("write", path=address, **given)
        ticks.wait(0 if life % 5 == 4 else chance.randrange(2, 12))
        select.select([], [], [], chance.uniform(0.0, 0.1))  # a random instant, not the one just after a commit
        child.kill()
        lines = log.read_text().split("\n")[:-1] if log.exists() else []
        ledger = compare.Ledger.read(lines, ledger)
        acknowledged += ledger.acknowledged
        mem = opened(address)
        compare.assert_whole(mem, ledger, chance, recalls=1)
        mem.close()
    print(f"{acknowledged} acknowledged writes in {times(LIVES)} lives")
    assert acknowledged > 2 * times(LIVES)


def test_writers_in_4_processes_each_count_exactly_once(tmp_path: Path, children: Any, opened: Any, times: Any) -> None:
    address, log, each = dynamodb().new_store(), tmp_path / "log", times(2)
    mem = opened(address)
    id = mem.remember("the count is 0").id
    given = {"path": address, "log": log, "id": id, "threads": THREADS, "times": each}
    for child in [children.start("count_up", **given) for _ in range(PROCESSES)]:
        child.done()
    total = PROCESSES * THREADS * each
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    assert sorted((one["version"], one["number"]) for one in entries) == [(n + 1, n) for n in range(1, total + 1)]
    assert mem.show(id).text == f"the count is {total}"
    assert mem.verify().sound
