"""What an operation costs is counted, stands on the page of operations, and stays small."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import apsw
import pytest

from recollect.catalogue import OPERATIONS
from recollect.testing.statements import sqlite_statements

DOCS = Path(__file__).parents[2] / "docs"
CALLED_OFTEN = """
    remember remember_many recall context show list revise forget message.add message.list message.search run.start
    run.claim run.propose run.record run.finish run.show item.put item.get item.search checkpoint.put checkpoint.get
    workspace.write workspace.read block.write state.save pattern.suggest user.add log
""".split()


@cache
def costs() -> ModuleType:
    spec = importlib.util.spec_from_file_location("costs", DOCS / "costs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("operation", "most"), [("remember", 12), ("recall", 24)])
def test_remembering_and_recalling_take_few_statements(operation: str, most: int) -> None:
    assert 0 < costs().statements()[operation] <= most


def test_every_operation_that_is_called_often_is_counted() -> None:
    counted = costs().statements()
    assert set(counted) == set(CALLED_OFTEN)
    assert [name for name in counted if name not in OPERATIONS] == []
    assert [name for name, count in counted.items() if count == 0] == []


def test_the_page_says_what_each_costs() -> None:
    page = (DOCS / "reference" / "operations.md").read_text(encoding="utf-8")
    overview = page.partition("\n## What an operation costs\n")[2].partition("\n## ")[0]
    for name, count in costs().statements().items():
        section = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        assert f"Costs {count} statement" in section, name
        assert any(f"[`{name}`]" in row and row.endswith(f"| {count} |") for row in overview.splitlines()), name


def test_every_statement_counts_but_those_around_a_transaction() -> None:
    with sqlite_statements() as seen:
        connection = apsw.Connection(":memory:")
        connection.execute("CREATE TABLE t(x)")
        with connection:
            connection.executemany("INSERT INTO t VALUES (?)", [(1,), (2,)])
        connection.execute("BEGIN; SELECT x FROM t; COMMIT")
    assert [text.split()[0] for text in seen] == ["CREATE", "INSERT", "INSERT", "SELECT"]


def test_another_process_counts_the_same_whatever_its_environment_sets() -> None:
    command = [sys.executable, "-c", "import costs; print(dict(costs.statements()))"]
    surroundings = {**os.environ, "RECOLLECT_EMBEDDER__PROVIDER": "none", "RECOLLECT_ACTOR": "somebody"}
    done = subprocess.run(command, cwd=DOCS, env=surroundings, capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.strip() == str(dict(costs().statements()))
