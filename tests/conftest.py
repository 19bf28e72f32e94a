"""What all tests share."""

from __future__ import annotations

import os
import shutil
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
os.environ["RECOLLECT_BACKGROUND_SECONDS"] = "1e6"  # tests do background work when they say so


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file to copy: making the tables takes longer than most tests."""
    path = tmp_path_factory.mktemp("empty") / "test.db"
    recollect.open(path, embedder="hash").close()
    return path


@pytest.fixture
def mem(empty_store: Path, tmp_path: Path) -> Iterator[Any]:
    """An open memory on a real file, with the instant embedder."""
    shutil.copy(empty_store, tmp_path)
    with recollect.open(tmp_path / "test.db", embedder="hash", citation_root=tmp_path) as opened:
        yield opened


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Show a failure when it happens: a run that is stopped before its end has then named it."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        print(f"\n{report.nodeid} failed in its {report.when}\n{str(report.longrepr)[-2000:]}", flush=True)
