"""Run the examples of one page in this folder, from the first to the last: `python run_page.py PAGE`.

Python blocks share one namespace. In console blocks the lines that begin with `$ recollect` run, and the output shown
below one must be what is printed: ids, times, decimals and spacing aside; `…` stands for anything.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from recollect.interfaces.cli import main

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
VARYING = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d\S*)?"), "TIME"),
    (re.compile(r"-?\d+\.\d+"), "DECIMAL"),
    (re.compile(r"\s+"), " "),
)


@dataclass
class Command:
    line: str
    shown: list[str] = field(default_factory=list)


def blocks(page: str) -> Iterator[tuple[int, str, str]]:
    """Line number, language and text of every fenced block."""
    for found in BLOCK.finditer(page):
        yield page[: found.start()].count("\n") + 1, found[1], found[2]


def commands(block: str) -> Iterator[Command]:
    """The commands of a console block, each with the output shown below it."""
    current: Command | None = None
    for line in block.splitlines():
        if line.startswith("$ "):
            if current is not None:
                yield current
            current = Command(line[2:])
        elif current is not None:
            current.shown.append(line)
    if current is not None:
        yield current


def runs(command: Command) -> bool:
    return command.line.split()[0] == "recollect"


def plain(line: str) -> str:
    for pattern, name in VARYING:
        line = pattern.sub(name, line)
    return line.strip()


def agrees(shown: list[str], printed: list[str]) -> bool:
    """Whether the lines shown are the lines printed; a line `…` stands for any number of lines."""
    pattern = "".join(
        r"(?:[^\n]*\n)*" if line.strip() == "…" else re.escape(plain(line)).replace("…", r"[^\n]*") + r"\n"
        for line in shown
        if line.strip()
    )
    text = "".join(plain(line) + "\n" for line in printed if line.strip())
    return re.fullmatch(pattern, text) is not None


def run_command(command: Command) -> None:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = main.run(shlex.split(command.line, comments=True)[1:])
    printed = out.getvalue().splitlines()
    wrong_is_shown = "# exits with 1" in command.line or any(line.startswith("error:") for line in command.shown)
    if (code != 0) != wrong_is_shown:
        raise AssertionError(f"`{command.line}` ended with {code}:\n" + "\n".join(printed))
    if command.shown and not agrees(command.shown, printed):
        raise AssertionError(
            f"`{command.line}` prints\n" + "\n".join(printed) + "\nbut the page shows\n" + "\n".join(command.shown)
        )


def run(page: Path) -> None:
    namespace = {"__name__": "page"}
    for number, language, text in blocks(page.read_text(encoding="utf-8")):
        if language == "python":
            exec(compile("\n" * number + text, str(page), "exec", dont_inherit=True), namespace)  # noqa: S102 - our own pages
        elif language in ("console", "sh"):
            for command in filter(runs, commands(text)):
                run_command(command)


if __name__ == "__main__":
    run(Path(sys.argv[1]))
