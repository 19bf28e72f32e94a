"""What all tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import recollect

# Everyday runs repeat themselves, so that a red one is about the change at hand; a soak looks further each time.
settings.register_profile("everyday", derandomize=True)
settings.register_profile("soak", print_blob=True)
settings.load_profile("soak" if os.environ.get("RECOLLECT_SOAK") else "everyday")

for _name in [name for name in os.environ if name.startswith("RECOLLECT_") and name != "RECOLLECT_SOAK"]:
    if _name not in ("RECOLLECT_SEED", "RECOLLECT_CITUS_URL"):
        del os.environ[_name]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What could not be tested here is said aloud."""
    for reason in sorted({str(one.longrepr[2]) for one in terminalreporter.stats.get("skipped", []) if one.longrepr}):
        if "NOT RUN" in reason:
            terminalreporter.write_line(reason.removeprefix("Skipped: "), yellow=True, bold=True)


@pytest.fixture
def mem(tmp_path: Path) -> Iterator[Any]:
    """An open memory on a real file, with the instant embedder."""
    with recollect.open(tmp_path / "test.db", embedder="hash", citation_root=tmp_path) as opened:
        yield opened
