"""The data engine is made when it is first asked for; without its packages everything else works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PACKAGES = ("duckdb", "sqlglot", "obstore", "vl_convert", "fastexcel", "nanoarrow", "xlsxwriter", "pyarrow")
BLOCKED = f"""
import sys
sys.modules.update(dict.fromkeys({PACKAGES!r}))
from recollect.interfaces.cli.main import run
sys.exit(run(sys.argv[1:]))
"""


def test_a_command_says_which_extra_it_needs(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    for setting_up in (("remember", "a note"), ("source", "add", "a.csv")):
        code = "import sys; from recollect.interfaces.cli.main import run; sys.exit(run(sys.argv[1:]))"
        _run(tmp_path, code, *setting_up)
    (tmp_path / "a.csv").write_text("a,b\n3,4\n")
    for command in (("source", "add", "a.csv"), ("ask", "how many?"), ("query", "run", "select 1")):
        done = _run(tmp_path, BLOCKED, *command)
        assert done.returncode == 1, done.stderr
        assert "pip install 'recollect[data]'" in done.stderr


def test_what_needs_no_data_engine_works_without_it(tmp_path: Path) -> None:
    _run(tmp_path, BLOCKED, "remember", "something")
    for command in (("remember", "a note"), ("stats",), ("source", "list"), ("query", "list")):
        assert _run(tmp_path, BLOCKED, *command).returncode == 0, command


def _run(folder: Path, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
