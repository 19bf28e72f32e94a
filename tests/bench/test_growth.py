"""How work grows with the store: everyday at two small sizes, and what would have to be noticed is noticed."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import apsw
import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"
SMALL = (300, 1_200)


@pytest.fixture
def growth(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("growth")


def test_no_operation_grows_faster_than_is_declared(growth: ModuleType, tmp_path: Path) -> None:
    report = growth.run(growth.QUICK, tmp_path)
    assert set(report["operations"]) == set(growth.DECLARED)
    assert growth.offences(report) == []


def without_index(path: Path) -> None:
    """Every index that finds the memories of a user, as if none had been declared."""
    connection = apsw.Connection(str(path))
    named = "SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'memory' AND sql LIKE '%user_id%'"
    for name in [str(name) for (name,) in connection.execute(named)]:
        connection.execute(f'DROP INDEX "{name}"')
    connection.close()


def test_a_missing_index_is_noticed(growth: ModuleType, tmp_path: Path) -> None:
    said = growth.offences(growth.run(SMALL, tmp_path, ["list, one user's"], without_index))
    assert any("steps" in line and "not logarithmic" in line for line in said), said


def test_with_its_index_the_same_is_in_order(growth: ModuleType, tmp_path: Path) -> None:
    assert growth.offences(growth.run(SMALL, tmp_path, ["list, one user's"])) == []


@pytest.mark.parametrize("measure", ["statements", "rows", "steps", "pages", "vectors", "calls"])
def test_work_that_grows_with_the_store_is_an_offence(growth: ModuleType, measure: str) -> None:
    """Four times as many of anything at four times the size, where nothing says that it may."""
    few = dict.fromkeys(growth.MEASURES, 10_000)
    report = {"sizes": [1, 4], "operations": {"show": {"1": few, "4": {**few, measure: 40_000}}}}
    assert [line.split(" ")[2] for line in growth.offences(report)] == [measure]


def test_more_than_linear_is_an_offence_even_where_linear_is_declared(growth: ModuleType) -> None:
    counts = {str(size): dict.fromkeys(growth.MEASURES, 100) | {"steps": 1000 * size * size} for size in (1, 4)}
    assert len(growth.offences({"sizes": [1, 4], "operations": {"stats": counts}})) == 1
