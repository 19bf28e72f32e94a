"""`recollect ci` as a CI job runs it: in real checkouts, on stores, exports and a service."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import recollect
from recollect.interfaces.cli.commands import COMMANDS
from recollect.interfaces.cli.main import run
from serving import served

ACTION = Path(__file__).parents[3] / "integrations" / "github-action"


def git(folder: Path, *arguments: str) -> None:
    named = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", "-C", str(folder), *named, *arguments], check=True, capture_output=True)


def opened(store: Path) -> Any:
    return recollect.open(store, embedder="hash", background=False)


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout on a branch that changes one cited file, moves the lines of another and renames a third."""
    monkeypatch.setenv("RECOLLECT_EMBEDDER__PROVIDER", "hash")
    for name in ("GITHUB_BASE_REF", "GITHUB_STEP_SUMMARY", "RECOLLECT_STORE"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "my 仓库"
    (folder / "src").mkdir(parents=True)
    git(folder, "init", "-q")
    for name in ("src/a.py", "src/moved.py", "src/old.py", "same.py"):
        (folder / name).write_text(f"# {name}\ntimeout = 30\nretries = 2\nmore = 1\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "one")
    with opened(tmp_path / "m.db") as mem:
        for id, file in (("a", "src/a.py"), ("moved", "src/moved.py"), ("old", "src/old.py"), ("same", "same.py")):
            mem.remember(f"超时 of {id} | is `30` @team\n::error::x", id=id, cites=[f"file:{folder / file}:2-3"])
            mem.promote(id)
        mem.remember("only a guess about a", id="guess", cites=[f"file:{folder}/src/a.py:2-2"])
        mem.remember("forgotten", id="gone", cites=[f"file:{folder}/src/a.py:2-2"])
        mem.forget("gone")
        mem.export(str(tmp_path / "memory.jsonl"))
    git(folder, "checkout", "-qb", "feature")
    (folder / "src/a.py").write_text("timeout_ms = 30000\n")
    (folder / "src/moved.py").write_text("# new\n# new\n# src/moved.py\ntimeout = 30\nretries = 2\nmore = 1\n")
    git(folder, "mv", "src/old.py", "src/new.py")
    git(folder, "commit", "-qam", "two")
    monkeypatch.chdir(folder)
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = run(["ci", *arguments])
    said = capsys.readouterr()
    return code, said.out or said.err


def test_what_a_pull_request_breaks_is_told_and_fails(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = str(work / "m.db")
    code, said = told(capsys, "--base", "main", "--store", store)
    assert code == 1
    assert "✗ src/a.py:2-3  [a verified]" in said
    assert said.endswith("failed: 4 files changed, 4 facts cite them, 2 broken\n")
    found = json.loads(told(capsys, "--base", "main", "--store", store, "--json")[1])
    states = {one["memory"]: one["state"] for one in found["findings"]}
    assert states == {"a": "broken", "guess": "broken", "moved": "holds", "old": "holds"}
    assert told(capsys, "--base", "main", "--store", store, "--fail-on", "never")[0] == 0
    with opened(work / "m.db") as mem:
        assert mem.show("a").status == "verified"  # a pull request may never be merged


def test_an_export_in_another_clone_gives_the_same(
    work: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = work / "elsewhere"
    git(work, "clone", "-q", "-b", "feature", str(work / "my 仓库"), str(clone))
    shutil.rmtree(work / "my 仓库")
    monkeypatch.chdir(clone)
    monkeypatch.setenv("GITHUB_BASE_REF", "main")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(work / "summary.md"))
    code, said = told(
        capsys, "--store", str(work / "memory.jsonl"), "--format", "github", "--comment", str(work / "c.md")
    )
    assert code == 1
    lines = said.splitlines()
    assert [line.split(",")[0] for line in lines[:-1]] == ["::error file=src/a.py", "::warning file=src/a.py"]
    assert not any(line.startswith("::error::x") for line in lines)
    summary = (work / "summary.md").read_text()
    assert summary == (work / "c.md").read_text()
    assert "2 of 4 no longer hold" in summary
    assert "@team" not in summary
    rows = [line for line in summary.splitlines() if line.startswith(("| ❌", "| ✅"))]
    assert [row.replace("\\|", "").count("|") for row in rows] == [7] * 4


def test_fail_on_any_fails_on_a_guess_and_trusted_does_not(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with opened(work / "m.db") as mem:
        mem.erase("a")
    arguments = ("--base", "main", "--store", str(work / "m.db"))
    assert told(capsys, *arguments)[0] == 0
    assert told(capsys, *arguments, "--fail-on", "any")[0] == 1
    assert told(capsys, *arguments, "--project", "other")[1].startswith("passed: 4 files changed, 0 facts")


def test_a_service_is_asked_with_a_key(
    work: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = work / "service"
    place.mkdir()
    shutil.copy(work / "m.db", place / "s.db")
    with served(place) as (address, key):
        monkeypatch.setenv("RECOLLECT_API_KEY", key)
        code, said = told(capsys, "--base", "main", "--store", address)
    assert code == 1
    assert "2 broken" in said


def test_what_cannot_be_compared_is_said_with_its_remedy(
    work: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = str(work / "m.db")
    assert "--base origin/main" in told(capsys, "--store", store)[1]
    assert "fetch-depth: 0" in told(capsys, "--base", "nowhere", "--store", store)[1]
    assert "there is no revision" in told(capsys, "--base", "--output=x", "--store", store)[1] or not Path("x").exists()
    assert told(capsys, "--base", "main", "--store", "absent.jsonl")[0] != 0
    monkeypatch.chdir(work)
    assert told(capsys, "--base", "main", "--store", store)[0] == 2


def test_the_action_calls_the_command_as_it_is() -> None:
    action = yaml.safe_load((ACTION / "action.yml").read_text())
    script = next(step["run"] for step in action["runs"]["steps"] if "recollect ci" in step.get("run", ""))
    known = {f"--{name.replace('_', '-')}" for name in COMMANDS["ci"].request.model_fields}
    used = {word.strip("()") for word in script.replace("(", " ").split() if word.strip("()").startswith("--")}
    assert used <= known
    for step in action["runs"]["steps"]:
        assert "${{" not in step.get("run", ""), "what a stranger names would be run"
    job = yaml.safe_load((ACTION / "workflow.yml").read_text())["jobs"]["facts"]["steps"]
    assert set(job[1]["with"]) <= set(action["inputs"])


def test_the_script_of_the_action_runs(work: Path) -> None:
    """With the program in the path, as a runner has it."""
    action = yaml.safe_load((ACTION / "action.yml").read_text())
    script = next(step["run"] for step in action["runs"]["steps"] if "recollect ci" in step.get("run", ""))
    program = work / "bin" / "recollect"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m recollect "$@"\n')
    program.chmod(0o755)
    given = {"STORE": str(work / "memory.jsonl"), "BASE": "main", "FAIL_ON": "any", "RUNNER_TEMP": str(work)}
    surroundings = {**os.environ, **given, "PATH": f"{program.parent}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-e", "-c", script], env=surroundings, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("::error file=src/a.py,line=2,endLine=3")
    assert "no longer hold" in (work / "recollect.md").read_text()
