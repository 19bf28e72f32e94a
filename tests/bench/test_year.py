"""The data of a year on one machine: as many as are asked for, and the same each time."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"
SHARE = 0.0008  # three batches


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("year_data")


def command(folder: Path, *options: str) -> list[str]:
    sizes = ("--share", str(SHARE), "--dimensions", "32", "--folder", str(folder), "--out", str(folder / "out"))
    return [sys.executable, str(BENCH / "year.py"), *sizes, *options]


def test_a_whole_year_is_what_the_requirements_say(data: Any) -> None:
    year = data.Year(1.0, 1536, datetime(2026, 1, 1, tzinfo=UTC))
    assert (year.memories, year.vectors) == (3_650_000, 1_825_000)
    assert year.at(year.memories).date().isoformat() == "2027-01-01"


def test_a_batch_is_the_same_each_time_and_every_other_memory_has_a_vector(data: Any) -> None:
    begun = datetime(2026, 1, 1, tzinfo=UTC)
    one, two = (data.Year(0.01, 16, begun).batch(5000) for _ in range(2))
    assert one == two
    assert one != data.Year(0.01, 16, begun).batch(6000)
    assert sum("vector" in memory for memory in one) == len(one) // 2
    assert len({memory["session"] for memory in one}) == len(one) // 50


def test_a_folder_of_another_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sqlite").mkdir(parents=True)
    (tmp_path / "sqlite" / "progress.json").write_text(json.dumps({"share": 0.5, "dimensions": 32}))
    done = subprocess.run(command(tmp_path, "--stores", "sqlite"), capture_output=True, text=True)
    assert done.returncode == 1
    assert "another run" in done.stderr


def test_measuring_again_keeps_what_a_store_shows_only_once(data: Any, tmp_path: Path) -> None:
    year = importlib.import_module("year")
    state = year.State(tmp_path, SHARE, 32)
    state.kept["measured"] = {"add": {"cpu_ms": 1.0}, "prune of a month": {"seconds": 2.0}}
    state.measure_anew()
    again = year.State(tmp_path, SHARE, 32)
    assert again.kept["measured"] == {"prune of a month": {"seconds": 2.0}}
    assert again.turn == 1


def test_a_report_keeps_the_figures_of_the_store_that_was_not_asked_for(data: Any, tmp_path: Path) -> None:
    year = importlib.import_module("year")
    (tmp_path / "year.json").write_text(
        json.dumps([{"store": "sqlite", "share": 1}, {"store": "postgres", "share": 1}])
    )
    written = year._with_others(tmp_path, [{"store": "postgres", "share": 0.5}])
    assert written == [{"store": "postgres", "share": 0.5}, {"store": "sqlite", "share": 1}]
