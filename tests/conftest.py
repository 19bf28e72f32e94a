"""What all tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import recollect
from seeds import load_profile
from soak_report import pytest_terminal_summary as pytest_terminal_summary

load_profile()

_OURS = ("RECOLLECT_SOAK", "RECOLLECT_SEED", "RECOLLECT_CITUS_URL")
for _name in [name for name in os.environ if name.startswith("RECOLLECT_") and name not in _OURS]:
    del os.environ[_name]


@pytest.fixture
def mem(tmp_path: Path) -> Iterator[Any]:
    """An open memory on a real file, with the instant embedder."""
    with recollect.open(tmp_path / "test.db", embedder="hash", citation_root=tmp_path) as opened:
        yield opened
