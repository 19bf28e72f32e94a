"""What all tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import recollect

for _name in [name for name in os.environ if name.startswith("RECOLLECT_") and name != "RECOLLECT_SOAK"]:
    if _name not in ("RECOLLECT_SEED",):
        del os.environ[_name]


@pytest.fixture
def mem(tmp_path: Path) -> Iterator[Any]:
    """An open memory on a real file, with the instant embedder."""
    with recollect.open(tmp_path / "test.db", embedder="hash", citation_root=tmp_path) as opened:
        yield opened
