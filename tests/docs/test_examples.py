"""The examples run, end by themselves and show what they promise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]


def shown_by(example: str, folder: Path) -> list[str]:
    """The lines an example prints, which leaves nothing behind."""
    command = [sys.executable, "-W", "error", str(CHECKOUT / "examples" / example)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert not list(folder.iterdir())
    return [" ".join(line.split()) for line in done.stdout.splitlines()]


def test_the_demo_shows_the_main_job(tmp_path: Path) -> None:
    shown = shown_by("demo.py", tmp_path)
    assert "now Alice now prefers ward over pytest" in shown
    assert "as of a moment ago Alice prefers pytest over unittest" in shown
    assert "checked 3 citations: 2 hold, 1 broken" in shown
    assert "asked for the door code after its time: not found" in shown
    assert any(line.startswith("refused a memory without a citation") for line in shown)
    assert any(line.endswith("Alice prefers pytest over unittest verified") for line in shown)
    assert not list(tmp_path.iterdir())


def test_the_learning_example_learns_uses_and_gives_up_a_pattern(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(CHECKOUT / "examples" / "learning.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "learned: Find out why the query on {1} is slow" in done.stdout
    assert "2. Add an index on {2} of invoices" in done.stdout
    assert "put aside: " in done.stdout
    assert "{'stretch': 1}" in done.stdout


def test_a_killed_agent_goes_on_as_if_nothing_had_been(tmp_path: Path) -> None:
    shown = shown_by("resume.py", tmp_path)
    assert "the worker was killed by signal 9; the run stands at step 2" in shown
    assert "2 bake attempt 2: loaf 2 is baked" in shown
    assert "succeeded after 1 crash: three loaves are ready" in shown
    assert "the oven baked 3 loaves" in shown


def test_the_langgraph_agent_remembers_over_restarts(tmp_path: Path) -> None:
    assert "You told me: My cat is called Mimi. (6 messages so far)" in "\n".join(
        shown_by("langgraph_agent.py", tmp_path)
    )


def test_the_openai_agent_is_given_its_history(tmp_path: Path) -> None:
    output = "\n".join(shown_by("openai_agents_session.py", tmp_path))
    assert "I was given 5 items." in output
    assert "found by its words: I prefer pytest." in output


def test_claude_keeps_files_and_leaves_its_folder_never(tmp_path: Path) -> None:
    output = "\n".join(shown_by("anthropic_memory.py", tmp_path))
    assert "2 Her cat is Mimi." in output
    assert "would escape /memories directory" in output
    assert "files: alice.md" in output
