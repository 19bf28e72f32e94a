"""The agent frameworks that do not install beside everything else: their tests, in environments of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
ENVIRONMENTS = CHECKOUT / "tests" / "integrations" / "environments"
FILES = {
    "agents": ["agent_framework", "autogen", "google_adk", "pydantic_ai", "smolagents", "strands"],
    "crewai": ["crewai"],
}


def files_of(environment: str) -> list[str]:
    return [str(ENVIRONMENTS / f"test_{name}.py") for name in FILES[environment]]


@pytest.mark.timeout(900)  # all tests of an environment; each of them has the usual limit in there
@pytest.mark.parametrize("environment", sorted(FILES))
def test_the_frameworks_of_an_environment(environment: str) -> None:
    home = CHECKOUT / ".frameworks" / environment
    if not (home / ".ready").exists():
        pytest.skip(f"NOT RUN: {', '.join(FILES[environment])}: .frameworks/{environment} could not be set up")
    command = [str(home / "bin" / "python"), "-m", "pytest", "-p", "no:cacheprovider", "-W", "default"]
    command += ["--confcutdir", str(ENVIRONMENTS), *files_of(environment)]
    surroundings = {**os.environ, "RECOLLECT_PYTHON": sys.executable, "PYTHONPATH": str(CHECKOUT / "src")}
    surroundings.pop("PYTEST_ADDOPTS", None)
    done = subprocess.run(command, cwd=CHECKOUT, env=surroundings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


def test_every_test_of_a_framework_belongs_to_an_environment() -> None:
    there = {str(path) for path in ENVIRONMENTS.glob("test_*.py")}
    assert there == {file for environment in FILES for file in files_of(environment)}
    assert {path.stem for path in ENVIRONMENTS.glob("*.lock")} == {*FILES}
