"""Run the examples of one page in this folder, from the first to the last: `python run_page.py PAGE`. Without a page,
run those that the lines of the input ask for, each in a process of its own: see `serve`.

Python blocks share one namespace. In console blocks the lines that begin with `$ recollect` run, and the output shown
below one must be what is printed: ids, times, decimals and spacing aside; `…` stands for anything.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import re
import shlex
import sys
import tempfile
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import recollect
from recollect.catalogue import OPERATIONS
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


def import_everything() -> None:
    """What an operation needs is imported when it is first called; nothing that is running is left behind."""
    for operation in OPERATIONS.values():
        assert operation.request
        assert operation.function
    with tempfile.TemporaryDirectory() as folder, recollect.open(f"{folder}/x.db", embedder="hash") as mem:
        mem.remember("a page")
        mem.recall("page")
    gc.freeze()


def surround(asked: dict[str, Any]) -> None:
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["surroundings"])
    nothing, said = os.open(os.devnull, os.O_RDONLY), os.open(asked["said"], os.O_WRONLY | os.O_CREAT)
    for taken, given in ((0, nothing), (1, said), (2, said)):
        os.dup2(given, taken)


def _run_asked(asked: dict[str, Any]) -> int:
    surround(asked)
    try:
        run(Path(asked["page"]))
    except BaseException:  # noqa: BLE001 - whatever ends the page
        traceback.print_exc()
        return 1
    return 0


def serve() -> int:
    """Forks a process for each page, where everything is imported already: that is most of what a page takes.

    A line asks for a page: `{"page", "folder", "surroundings", "said"}`, the last being the file that takes what the
    page prints. The answer to each is a line with how the process ended.
    """
    import_everything()
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if child == 0:
            return _run_asked(asked)  # and ends as any other process does
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    return 0


if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.exit(serve())
    run(Path(sys.argv[1]))
