"""An acknowledged write survives kill -9, whole, and so do an upgrade and a backup.

A child process writes through the public client from several threads and logs each acknowledgement; it is killed, the
file reopened and compared with the log. The bar: 200 random kills, 0 lost, 0 half written.
"""

from __future__ import annotations

import json
import random
import select
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

import recollect
from recollect.adapters.records import schema
from recollect.adapters.records.sqlite_file import connect
from recollect.errors import NewerStore, RecollectError

LIVES = 5


def lines_of(log: Path) -> list[str]:
    """What the child wrote; a line cut in two by the kill was never acknowledged."""
    return log.read_text().split("\n")[:-1] if log.exists() else []


@pytest.mark.parametrize("file", range(4))
def test_no_acknowledged_write_is_lost_and_none_is_half_there_after_kill_9(
    file: int, tmp_path: Path, children: Any, compare: Any, opened: Any, chance: random.Random, times: Any
) -> None:
    path, ledger, acknowledged = tmp_path / "killed.db", compare.Ledger(), 0
    for life in range(times(LIVES)):
        log = tmp_path / f"{life}.log"
        seed = f"{chance.random()} {file}"
        child = children.start("write", path=path, log=log, life=life, seed=seed, states=ledger.living())
        select.select([], [], [], chance.uniform(0.0, 0.9))  # the random instant
        child.kill()
        ledger = compare.Ledger.read(lines_of(log), ledger)
        acknowledged += ledger.acknowledged
        mem = opened(path)
        compare.assert_whole(mem, ledger, chance)
        mem.close()
    print(f"{acknowledged} acknowledged writes in {times(LIVES)} lives")
    assert acknowledged > 10 * times(LIVES)
