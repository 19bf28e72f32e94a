"""What a soak has found stays found; and the choices of a soak are new, printed, and made again when asked."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from seeds import FOUND, chosen, found, some

TESTS = Path(__file__).parents[1]
PROBE = """
from hypothesis import given, strategies as st
from seeds import SEED

def test_probe(request):
    drawn = []

    @given(st.integers(0, 1 << 60))
    def draw(number):
        drawn.append(number)

    draw()
    print("drawn", SEED, hash(tuple(drawn)))
    assert "fails" not in request.config.rootpath.name
"""
CONFTEST = """
from seeds import load_profile
from soak_report import pytest_terminal_summary
load_profile()
"""


@pytest.mark.parametrize(("test", "seed"), list(found()) or [pytest.param("", "", id="none so far")])
def test_what_a_soak_found_stays_mended(test: str, seed: str) -> None:
    if not test:
        assert FOUND.read_text().startswith("#")
        return
    surroundings = {**os.environ, "RECOLLECT_SOAK": "1", "RECOLLECT_SEED": seed}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", test]
    ran = subprocess.run(command, env=surroundings, cwd=TESTS.parent, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout[-4000:]


@pytest.fixture
def probe(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_probe.py").write_text(PROBE)
    return tmp_path


def drawn(folder: Path, **surroundings: str) -> tuple[str, str]:
    """The seed and the choices of a run, and all that it said."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RECOLLECT_")}
    kept |= {"PYTHONPATH": str(TESTS), "PYTHONHASHSEED": "0", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **surroundings}
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-s",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(folder),
        folder,
    ]
    said = subprocess.run(command, env=kept, cwd=folder, capture_output=True, text=True).stdout
    line = re.search(r"drawn .*", said)
    assert line, said
    return line[0], said


def test_every_day_is_the_same_and_every_soak_another_that_can_be_repeated(probe: Path) -> None:
    assert drawn(probe)[0] == drawn(probe)[0]
    first, said = drawn(probe, RECOLLECT_SOAK="1")
    assert drawn(probe, RECOLLECT_SOAK="1")[0] != first
    seed = re.search(r"RECOLLECT_SEED=(\d+)", said)
    assert seed
    assert drawn(probe, RECOLLECT_SOAK="1", RECOLLECT_SEED=seed[1])[0] == first
    assert drawn(probe, RECOLLECT_SEED=seed[1])[0].split()[1] == seed[1]


def test_a_failure_in_a_soak_says_how_to_see_it_again(probe: Path) -> None:
    failing = probe.rename(probe.with_name("fails"))
    said = drawn(failing, RECOLLECT_SOAK="1", RECOLLECT_SEED="77")[1]
    assert "RECOLLECT_SOAK=1 RECOLLECT_SEED=77 .venv/bin/python -m pytest 'test_probe.py::test_probe'" in said


def test_a_seed_is_given_chosen_or_the_everyday_one() -> None:
    assert chosen({"RECOLLECT_SEED": "5", "RECOLLECT_SOAK": "1"}) == 5
    assert chosen({}) == chosen({})
    assert chosen({"RECOLLECT_SOAK": "1"}) != chosen({"RECOLLECT_SOAK": "1"})


def test_some_of_a_whole_is_another_part_with_every_seed_until_all_were_had() -> None:
    assert some(3, range(20), "x", seed=1, soak=False) == some(3, range(20), "x", seed=1, soak=False)
    assert some(3, range(20), "x", seed=1, soak=False) != some(3, range(20), "y", seed=1, soak=False)
    had = [some(3, range(20), "x", seed=seed, soak=False) for seed in range(60)]
    assert all(len(part) == 3 and part == sorted(part) for part in had)
    assert {one for part in had for one in part} == set(range(20))
    assert some(3, range(20), "x", seed=1, soak=True) == list(range(20))


def test_a_soak_runs_all_the_tests_there_are() -> None:
    """Also those of the doors, of security and of other people's frameworks; and what they need is installed first."""
    told = subprocess.run(["make", "-n", "soak"], cwd=TESTS.parent, capture_output=True, text=True, check=True).stdout
    (line,) = [one for one in told.splitlines() if "-m pytest" in one]
    assert "RECOLLECT_SOAK=1" in line
    assert "tests/" not in line
    assert "chromium" in told
    assert "pgbouncer" in told
