"""A memory on every record store, with a folder for large content and small files to add."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import recollect
from every_store import EMPTY_STORE, EVERY_STORE


@pytest.fixture(autouse=True)
def _one_engine(one_engine: None) -> None:
    """Every test here."""


@pytest.fixture(params=tuple(EVERY_STORE))
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """Every test runs on every record store."""
    address = EMPTY_STORE[request.param](tmp_path)
    with recollect.open(address, embedder="hash", objects=str(tmp_path / "content"), background=False) as mem:
        yield mem


@pytest.fixture
def mem(tmp_path: Path) -> Iterator[Any]:
    """The embedded default."""
    with recollect.open(tmp_path / "data.db", background=False) as opened:
        yield opened


@pytest.fixture
def sales(tmp_path: Path) -> Path:
    """A thousand sales in three regions, nine months of 2025."""
    return write_sales(tmp_path / "sales.csv")


def write_sales(path: Path, count: int = 1000, more: str = "") -> Path:
    regions = ("north", "south", "west")
    rows = (f"{i},{regions[i % 3]},{i * 1.5},2025-{1 + i % 9:02}-11" for i in range(count))
    path.write_text("id,region,amount,day\n" + "\n".join(rows) + "\n" + more, encoding="utf-8")
    return path
