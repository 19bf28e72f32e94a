"""A small sample of every source: a fixture as it is, or a database or folder made from fixtures."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

FIXTURES = Path(__file__).parent / "services" / "importers" / "fixtures"


def made_sample(source: str, folder: Path) -> str:
    """The path of a sample of a source; `folder` is for what has to be made first."""
    return str(_SAMPLES[source](folder) if source in _SAMPLES else FIXTURES / f"{source}.json")


def sqlite_from(script: str, target: Path) -> Path:
    """A SQLite file made by a fixture of SQL."""
    target.unlink(missing_ok=True)
    with closing(sqlite3.connect(target)) as made:
        made.executescript((FIXTURES / script).read_text())
    return target


_SAMPLES: dict[str, Callable[[Path], Path]] = {
    "mcp-memory": lambda folder: FIXTURES / "mcp-memory.jsonl",
    "letta": lambda folder: FIXTURES / "letta.af",
    "langgraph": lambda folder: sqlite_from("langgraph.sql", folder / "langgraph.sqlite"),
    "markdown": lambda folder: FIXTURES / "notes",
}
