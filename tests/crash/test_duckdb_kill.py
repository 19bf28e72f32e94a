"""An acknowledged write to a DuckDB store survives kill -9, whole; so does erasing, which writes the file anew.

The same children and the same comparison as for SQLite (test_kill.py): 200 kills in a soak run, a tenth otherwise.
"""

from __future__ import annotations

import random
import select
from pathlib import Path
from typing import Any

import pytest

from seeds import SOAK

LIVES = 5


def lines_of(log: Path) -> list[str]:
    """What the child wrote; a line cut in two by the kill was never acknowledged."""
    return log.read_text().split("\n")[:-1] if log.exists() else []


@pytest.mark.parametrize("file", range(4 if SOAK else 1))
def test_no_acknowledged_write_is_lost_and_none_is_half_there_after_kill_9(
    file: int, folder: Path, tmp_path: Path, children: Any, new_ticks: Any, compare: Any, opened: Any, chance: Any,
    times: Any,
) -> None:  # fmt: skip
    address, ledger, acknowledged, replayed = f"duckdb:///{folder}/killed.duckdb", compare.Ledger(), 0, 0
    for life in range(times(LIVES)):
        log, ticks, seed, states = tmp_path / f"{life}.log", new_ticks(), str(chance.random()), ledger.living()
        child = children.start("write", path=address, log=log, ticks=ticks.path, life=life, seed=seed, states=states)
        ticks.wait(0 if life % 3 == 2 else chance.randrange(5, 40))  # every third is hit while it opens
        select.select([], [], [], chance.uniform(0.0, 0.1))
        child.kill()
        replayed += (folder / "killed.duckdb.wal").exists()
        ledger = compare.Ledger.read(lines_of(log), ledger)
        acknowledged += ledger.acknowledged
        mem = opened(address)
        compare.assert_whole(mem, ledger, chance, recalls=2)
        mem.close()
    print(f"{acknowledged} acknowledged writes in {times(LIVES)} lives, {replayed} logs replayed")
    assert acknowledged > 3 * times(LIVES)
    assert replayed > 0


def test_a_kill_while_the_file_is_written_anew_leaves_the_old_or_the_new_one(
    folder: Path, tmp_path: Path, children: Any, new_ticks: Any, opened: Any, chance: random.Random, times: Any
) -> None:
    address = f"duckdb:///{folder}/erased.duckdb"
    mem = opened(address)
    mem.remember_many([f"anchor {n} " + "word " * 50 for n in range(300)])
    mem.close()
    for life in range(times(4)):
        ticks = new_ticks()
        child = children.start("erase_traces", path=address, log=tmp_path / "log", ticks=ticks.path, times=50)
        ticks.wait(1)
        select.select([], [], [], chance.uniform(0.0, 0.4))
        child.kill()
        mem = opened(address)
        report = mem.verify()
        assert (report.sound, report.memories) == (True, 300), f"life {life}: {report.problems}"
        mem.close()
        assert {file.name for file in folder.iterdir()} <= {"erased.duckdb", "erased.duckdb.index"}
