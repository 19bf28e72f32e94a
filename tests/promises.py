"""The promises of docs/promises.md and the tests that prove them: `make promise N=7`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/promises.md"
ROW = re.compile(r"^\| (\d+) \| (.+) \| (.+) \|$", re.MULTILINE)


class Promise(NamedTuple):
    number: int
    words: str
    tests: list[str]


def promises() -> dict[int, Promise]:
    found = [
        Promise(int(number), words, [f"tests/{test}" for test in re.findall(r"`([^`]+)`", tests)])
        for number, words, tests in ROW.findall(PAGE.read_text(encoding="utf-8"))
    ]
    assert len({one.number for one in found}) == len(found), "a number stands for one promise"
    return {one.number: one for one in found}


def main(arguments: list[str]) -> int:
    known = promises()
    if len(arguments) != 1 or not arguments[0].isdigit() or int(arguments[0]) not in known:
        print(
            f"Say which promise: make promise N=7. There are tests for {', '.join(map(str, known))}; see {PAGE.name}."
        )
        return 2
    promise = known[int(arguments[0])]
    print(f"{promise.number}. {promise.words}")
    return subprocess.call([sys.executable, "-m", "pytest", "--workers", "2", *promise.tests], cwd=ROOT)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
