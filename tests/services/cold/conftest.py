"""An open memory on every store, and on one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cold_sessions import opened
from every_store import EMPTY_STORE, EVERY_STORE


@pytest.fixture(params=EVERY_STORE)
def mem(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with opened(EMPTY_STORE[request.param](tmp_path), objects=str(tmp_path / "objects")) as memory:
        yield memory


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Any]:
    with opened(tmp_path / "local.db") as memory:
        yield memory
