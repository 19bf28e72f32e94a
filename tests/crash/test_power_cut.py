"""An acknowledged write survives a power cut.

A child writes on a disk that keeps only what was synced (power_cut_vfs.py); each image that a cut leaves is opened like
any store and compared with what was acknowledged when the power went. The bar: 1,000 cuts, 0 lost, 0 corrupt;
`make test` cuts 52 times, on two of four disks. That the disk is cruel enough is proven by a store that syncs less: it
loses acknowledged writes.
"""

from __future__ import annotations

import copy
import json
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.errors import RecollectError
from seeds import some

NAME = "cut.db"


@dataclass
class Cut:
    """What was found after a cut, and what had been acknowledged before it."""

    image: Path
    ledger: Any


def cuts_of(log: Path, before: Any, compare: Any) -> Iterator[Cut]:
    ledger = compare.Ledger(dict(before.states))
    for line in log.read_text().splitlines():
        entry = json.loads(line)
        if "cut" in entry:
            yield Cut(Path(entry["cut"]), copy.deepcopy(ledger))
        else:
            ledger.enter(entry)


def write_through_cuts(children: Any, folder: Path, start: Path | None, ledger: Any, **given: Any) -> Path:
    """Writes on a disk that starts as the image of a former cut, if any; gives the log."""
    disk, images, log = folder / "disk", folder / "images", folder / "log"
    images.mkdir(parents=True)
    shutil.copytree(start, disk) if start else disk.mkdir()
    states = ledger.living()
    children.start("cut_power", path=disk / NAME, log=log, images=images, states=states, **given).done()
    return log


@pytest.mark.parametrize("disk", some(2, range(4), "disks whose power is cut"))
def test_no_acknowledged_write_is_lost_and_nothing_is_corrupt_after_a_power_cut(
    disk: int, folder: Path, children: Any, compare: Any, chance: random.Random, times: Any
) -> None:
    start, ledger, looked_at = None, compare.Ledger(), 0
    for life in range(times(2)):
        place, seed = folder / str(life), str(chance.random())
        log = write_through_cuts(children, place, start, ledger, life=life, seed=seed, cuts=13, every=500)
        cuts = list(cuts_of(log, ledger, compare))
        chosen, start = chance.choice(cuts), folder / f"start-{life}"
        shutil.copytree(chosen.image, start)  # the next life recovers from it, on a disk that fails again
        for cut in cuts:
            with recollect.open(cut.image / NAME, embedder="hash") as mem:
                compare.assert_whole(mem, cut.ledger, chance, recalls=1)
            looked_at += 1
        ledger = chosen.ledger
        shutil.rmtree(place)
    assert looked_at >= times(2) * 13


def test_the_disk_is_cruel_enough_to_show_a_store_that_syncs_too_little(
    folder: Path, children: Any, compare: Any, chance: random.Random
) -> None:
    given = {"life": 0, "seed": str(chance.random()), "cuts": 20, "every": 500, "synchronous": "normal"}
    log = write_through_cuts(children, folder / "normal", None, compare.Ledger(), **given)
    losses = sum(lost(cut, compare) for cut in cuts_of(log, compare.Ledger(), compare))
    print(f"{losses} of 20 cuts lost something acknowledged")
    assert losses > 2


def lost(cut: Cut, compare: Any) -> bool:
    """Whether something acknowledged is not there."""
    try:
        with recollect.open(cut.image / NAME, embedder="hash") as mem:
            seen, _ = compare.witnessed(mem)
    except (RecollectError, AssertionError):
        return True
    mine = {id: state for id, state in cut.ledger.living().items() if not pending(cut, id)}
    return any(seen.get(id) != state for id, state in mine.items())


def pending(cut: Cut, id: str) -> bool:
    return any(id in after for after in cut.ledger.pending.values())
