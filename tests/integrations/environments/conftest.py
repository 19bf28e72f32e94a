"""What the tests of the frameworks share. They run in an environment of `.frameworks`, which `make test` sets up, and
nowhere else: to run one by hand, `.frameworks/agents/bin/python -m pytest --confcutdir tests/integrations/environments
tests/integrations/environments/test_strands.py`. There is no server in those environments, since theirs are others than
ours need: the service that they talk to runs where everything else is tested.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import recollect

CHECKOUT = Path(__file__).parents[3]
PAGE = CHECKOUT / "docs" / "integrations.md"
os.environ["RECOLLECT_BACKGROUND_SECONDS"] = "1e6"


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    is_ours = Path(sys.prefix).parent.name == ".frameworks"
    return None if is_ours or collection_path.name == "environments" else True


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("empty") / "test.db"
    recollect.open(path, embedder="hash").close()
    return path


@pytest.fixture
def store(empty_store: Path, tmp_path: Path) -> Path:
    """The file of a memory that is not open: for tests that open it twice."""
    return Path(shutil.copy(empty_store, tmp_path / "test.db"))


@pytest.fixture
def mem(store: Path) -> Iterator[Any]:
    with recollect.open(store, embedder="hash") as opened:
        yield opened


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The address and the key of a service."""
    from serving import served

    python = os.environ.get("RECOLLECT_PYTHON") or str(CHECKOUT / ".venv" / "bin" / "python")
    with served(tmp_path_factory.mktemp("service"), python=python) as (url, key):
        yield url, key


@pytest.fixture
def remote(service: tuple[str, str]) -> Iterator[Any]:
    with recollect.connect(*service) as connected:
        yield connected


@pytest.fixture
def run_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Runs the examples of the page that are marked with a name, such as ```python strands."""

    def run(name: str) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("RECOLLECT_EMBEDDER__PROVIDER", "hash")
        found = re.findall(rf"^```python {name}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
        assert found, f"{PAGE.name} has no example of {name}"
        for text in found:
            exec(compile(text, f"{PAGE.name}: {name}", "exec", dont_inherit=True), {"__name__": "page"})  # noqa: S102

    return run
