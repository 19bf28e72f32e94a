"""The commands of everyday work do what they say: `make help`, `make check`, `make promise`."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

import promises
from changed import ROOT, SURFACE, chosen

STORES = "not (duckdb or postgres or dynamodb or chroma or pgvector)"


def test_every_target_that_a_person_calls_is_in_the_help() -> None:
    said = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    makefile = (ROOT / "Makefile").read_text()
    phony = re.findall(r"^\.PHONY: ((?:.*\\\n)*.*)$", makefile, re.MULTILINE)[0].replace("\\\n", " ").split()
    parts_of_others = {"browser", "mariadb", "pooler"}
    assert set(re.findall(r"^  make (\S+) ", said, re.MULTILINE)) == set(phony) - parts_of_others


@pytest.mark.parametrize("promise", promises.promises().values(), ids=lambda one: str(one.number))
def test_a_promise_names_tests_that_exist(promise: promises.Promise) -> None:
    assert promise.tests, promise.words
    for test in promise.tests:
        path, _, name = test.partition("::")
        assert (ROOT / path).is_file(), test
        assert not name or name.rpartition("::")[2] in _defined(ROOT / path), test


def _defined(path: Path) -> set[str]:
    """The tests in a file, and those of the conformance kit that its classes take over."""
    kit = (ROOT / "src/recollect/testing/conformance").glob("*.py")
    trees = [ast.parse(one.read_text()) for one in (path, *kit)]
    return {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_a_number_without_tests_is_answered_with_those_that_have_some(capsys: pytest.CaptureFixture[str]) -> None:
    assert promises.main(["99"]) == 2
    assert "There are tests for 1, 2, 3" in capsys.readouterr().out


def test_what_changed_is_tried_by_the_tests_called_like_it() -> None:
    assert chosen([Path("src/recollect/services/learning/patterns.py")]) == [
        "tests/docs/test_layers.py", "tests/services/learning", "-k", STORES
    ]  # fmt: skip
    assert SURFACE in chosen([Path("src/recollect/catalogue.py")])
    assert "tests/crash/test_kill.py" in chosen([Path("tests/crash/test_kill.py")])
    assert chosen([Path("Makefile"), Path("LICENSE")]) == []


def test_what_a_folder_covers_is_not_named_again() -> None:
    one, whole = Path("tests/services/learning/test_learning.py"), Path("src/recollect/services/learning/patterns.py")
    assert "tests/services/learning/test_learning.py" not in chosen([one, whole])


def test_a_store_that_changed_is_tried() -> None:
    assert "postgres" not in chosen([Path("src/recollect/adapters/records/postgres/store.py")])[-1]
