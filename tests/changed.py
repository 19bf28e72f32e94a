"""The tests of what changed, for the inner loop: `make check`.

Test folders mirror those of the code: a change in `services/recall` is tried by `tests/services/recall`, one in
`adapters/records/sqlite` by `tests/adapters/records/sqlite`. A change of a test runs that test, one of a helper tests
that import it, one of a page the examples and links of that page. Tests that go through every store try the embedded
ones alone, unless one of the others changed. What does not fit into a minute is left to `make test`, and said.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CODE, TESTS = Path("src/recollect"), Path("tests")
ENVIRONMENTS = TESTS / "integrations" / "environments"  # their tests run in there alone
FRAMEWORKS = "tests/integrations/test_frameworks.py"
PAGES = "tests/docs/test_docs.py"
LAYERS = "tests/docs/test_layers.py"
# What lies above the folders: the surface that all doors share.
SURFACE = "tests/interfaces/test_client.py"
SECONDS = 45
MOST_USERS = 5
OTHER_STORES = ("duckdb", "postgres", "dynamodb", "chroma", "pgvector")


def changed() -> list[Path]:
    """The files that differ from the last commit, new ones too; where none does, what the branch changed since main."""
    names = {*_git("diff", "--name-only", "HEAD"), *_git("ls-files", "--others", "--exclude-standard")}
    if not names:
        base = _git("merge-base", "HEAD", "main") or _git("merge-base", "HEAD", "origin/main")
        names = {*_git("diff", "--name-only", *base)}
    return sorted(Path(name) for name in names if (ROOT / name).is_file())


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.split() if done.returncode == 0 else []


def tests_of(path: Path) -> Iterator[str]:
    """The test files, folders and single tests that try one file."""
    if path.is_relative_to(CODE) and path.suffix in (".py", ".html", ".js", ".css"):
        yield LAYERS
        yield _mirror(path.relative_to(CODE).parent)
    elif path.is_relative_to(ENVIRONMENTS):
        yield FRAMEWORKS
    elif path.is_relative_to(TESTS) and path.suffix == ".py":
        if path.name.startswith("test_"):
            yield str(path)
        else:
            yield from _users(path)
    elif path.suffix == ".md":
        yield f"{PAGES}::test_links_lead_somewhere[{path.as_posix()}]"
        if re.search(r"^```(python|console)$", (ROOT / path).read_text(), re.MULTILINE):
            yield f"{PAGES}::test_the_examples_of_a_page_run_as_shown[{path.as_posix()}]"


def _mirror(folder: Path) -> str:
    """The folder of tests called like one of the code, or like the nearest one above it."""
    while folder.parts:
        if any((ROOT / TESTS / folder).glob("**/test_*.py")):
            return str(TESTS / folder)
        folder = folder.parent
    return SURFACE


def _users(helper: Path) -> list[str]:
    """A few of the tests that import a helper; for a conftest those below it."""
    named = re.compile(rf"^(from|import) {helper.stem}\b", re.MULTILINE)
    below = helper.parent if helper.name == "conftest.py" else TESTS
    users = [
        test.relative_to(ROOT).as_posix()
        for test in sorted((ROOT / below).rglob("test_*.py"))
        if helper.name == "conftest.py" or named.search(test.read_text())
    ]
    return users[:MOST_USERS]


def chosen(paths: Iterable[Path]) -> list[str]:
    """What pytest is told: each test once, nothing that a folder covers, and the stores that matter."""
    paths = list(paths)
    tests = {test for path in paths for test in tests_of(path)}
    whole = sorted(test for test in tests if not any(str(above) in tests for above in Path(test).parents))
    if not whole:
        return []
    said = " ".join(map(str, paths))
    left_out = [store for store in OTHER_STORES if store not in said]
    return [*whole, "-k", f"not ({' or '.join(left_out)})"] if left_out else whole


class Budget:
    """Begins no further test after so many seconds, and says how many were left."""

    def __init__(self, seconds: float) -> None:
        self._ends, self.left = time.monotonic() + seconds, 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self) -> bool | None:
        if time.monotonic() < self._ends:
            return None
        self.left += 1
        return True


def main() -> int:
    arguments = chosen(changed())
    if not arguments:
        print("Nothing changed that has tests.")
        return 0
    print("testing", *arguments)
    budget = Budget(SECONDS)
    code = pytest.main(["-x", *arguments], [budget])
    if budget.left:
        print(f"{budget.left} tests more did not fit into {SECONDS} seconds: `make test` runs them")
    return 0 if code == pytest.ExitCode.NO_TESTS_COLLECTED else int(code)  # where all of it is about other stores


if __name__ == "__main__":
    sys.exit(main())
