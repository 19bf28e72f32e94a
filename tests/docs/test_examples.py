"""The examples run, end by themselves and show what they promise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]


def test_the_demo_shows_the_main_job(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(CHECKOUT / "examples" / "demo.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    shown = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "now Alice now prefers ward over pytest" in shown
    assert "as of a moment ago Alice prefers pytest over unittest" in shown
    assert "checked 3 citations: 2 hold, 1 broken" in shown
    assert "asked for the door code after its time: not found" in shown
    assert any(line.startswith("refused a memory without a citation") for line in shown)
    assert not list(tmp_path.iterdir())


def shown(example: str, folder: Path) -> str:
    command = [sys.executable, "-W", "error", str(CHECKOUT / "examples" / example)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert not list(folder.iterdir())
    return done.stdout


def test_the_langgraph_agent_remembers_over_restarts(tmp_path: Path) -> None:
    assert "You told me: My cat is called Mimi.    (6 messages so far)" in shown("langgraph_agent.py", tmp_path)


def test_the_openai_agent_is_given_its_history(tmp_path: Path) -> None:
    output = shown("openai_agents_session.py", tmp_path)
    assert "I was given 5 items." in output
    assert "found by its words: I prefer pytest." in output


def test_claude_keeps_files_and_leaves_its_folder_never(tmp_path: Path) -> None:
    output = shown("anthropic_memory.py", tmp_path)
    assert "     2\tHer cat is Mimi." in output
    assert "would escape /memories directory" in output
    assert "files: alice.md" in output
