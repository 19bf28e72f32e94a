"""Tests run in several processes: each once, what belongs together in one process, and none is lost with a process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SHARED = """
import os, pathlib, signal, sys, time, pytest
SAID = pathlib.Path(__file__).with_name("said")

@pytest.fixture(scope="session")
def made(): return os.getpid()

def say(name, made, kept=sys.stderr):
    print("from", name)
    os.write(kept.fileno(), b"at all times")  # as a library may that is imported while the tests are collected
    assert made == os.getpid()
    with SAID.open("a") as said: said.write(f"{name} {os.getpid()}\\n")
    time.sleep(0.3)  # so that others run at the same time
"""
FILES = {
    "test_a.py": "@pytest.mark.parametrize('n', range(6))\ndef test_a(n, made, tmp_path): say(f'a{n}', made)\n",
    "test_b.py": (
        "pytestmark = pytest.mark.together('both')\n"
        "@pytest.mark.parametrize('n', range(2))\ndef test_b(n, made): say(f'b{n}', made)\n"
    ),
    "test_c.py": "pytestmark = pytest.mark.together('both')\ndef test_c(made):\n say('c', made)\n assert made == 0\n",
    "test_d.py": (
        "def test_d0(made): say('d0', made)\n"
        "def test_d1(made):\n say('d1', made)\n if os.fork(): os.kill(os.getpid(), signal.SIGKILL)\n"
        " time.sleep(8)\n os._exit(0)\n"
        "def test_d2(made): say('d2', made)\n"
    ),
}


def run(folder: Path, *options: str) -> tuple[subprocess.CompletedProcess[str], dict[str, str]]:
    """What it said at the end, and in which process each test ran."""
    for name, text in FILES.items():
        (folder / name).write_text(SHARED + text)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = together\n")
    command = [sys.executable, "-m", "pytest", "-p", "forked_workers", "-p", "no:cacheprovider", *options]
    environment = {"PYTHONPATH": str(Path(__file__).parent), "PATH": "/usr/bin:/bin"}
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    lines = [line.split() for line in (folder / "said").read_text().splitlines()]
    assert len({line[0] for line in lines}) == len(lines), "some test ran twice"
    return ended, {line[0]: line[1] for line in lines}


def test_each_runs_once_where_it_belongs_and_none_is_lost_with_its_process(tmp_path: Path) -> None:
    ended, ran = run(tmp_path, "--workers", "4")
    assert ran.keys() == {*(f"a{n}" for n in range(6)), "b0", "b1", "c", "d0", "d1", "d2"}, json.dumps(ran)
    assert len({ran[f"a{n}"] for n in range(6)}) == len({ran["b0"], ran["c"]}) == len({ran["d0"], ran["d1"]}) == 1
    assert ran["d2"] != ran["d1"]
    assert ended.returncode == 1
    assert "2 failed, 10 passed" in ended.stdout
    assert "ended with -9 while it ran test_d.py::test_d1" in ended.stdout
    assert "from c" in ended.stdout
    assert "from a" not in ended.stdout
    assert "from b" not in ended.stdout
    assert ended.stdout.count("at all times") == 1, "of the one that failed"


def test_a_run_stops_at_the_first_failure_where_asked(tmp_path: Path) -> None:
    ended, ran = run(tmp_path, "--workers", "1", "-x", "test_c.py", "test_a.py", "test_d.py", "--deselect", "test_a.py")
    assert ended.returncode == 1
    assert "stopping after 1 failures" in ended.stdout
    assert ran.keys() <= {"d0", "d1", "c"}
