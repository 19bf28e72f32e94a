"""`recollect remember --lines < notes.txt`: one memory for each line of standard input.

Lines are stored a batch at a time, so the memory that this takes does not grow with the input. A batch with a line that
is refused is stored line by line: the others are stored all the same, and each refused line is told by its number.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from stat import S_ISREG
from typing import TYPE_CHECKING, Any

from recollect.errors import Conflict, InvalidInput, RecollectError

if TYPE_CHECKING:
    from recollect.interfaces.cli.render.replies import Renderer
    from recollect.interfaces.client import Recollect

LINES_AT_ONCE = 200
LONGEST_LINE = 1 << 20
MOST_TOLD = 20


@dataclass
class Counts:
    new: int = 0
    duplicate: int = 0
    refused: int = 0
    lines: list[dict[str, Any]] = field(default_factory=list)


def remember_lines(mem: Recollect, renderer: Renderer, fields: Mapping[str, Any], as_json: bool) -> int:
    """The exit code: 1 if a line was refused."""
    counts, size = Counts(), _size()
    with renderer.progress("Storing lines", shown=not as_json) as report:
        for batch in _batches():
            _store(mem, batch, fields, counts)
            if report is not None:
                report(min(sys.stdin.buffer.tell(), size) if size else counts.new, size)
    if as_json:
        told = {"new": counts.new, "duplicate": counts.duplicate, "refused": counts.refused, "lines": counts.lines}
        print(json.dumps(told, ensure_ascii=False, indent=1))
    else:
        print(f"remembered {counts.new:,} new · {counts.duplicate:,} known already · {counts.refused:,} refused")
        for one in counts.lines[:MOST_TOLD]:
            print(f"line {one['line']}: {one['message']}", file=sys.stderr)
        if counts.refused > MOST_TOLD:
            print(f"and {counts.refused - MOST_TOLD:,} more; --json names 1,000 of them", file=sys.stderr)
    return 1 if counts.refused else 0


def _size() -> int:
    """Of a file that is read; 0 for a pipe."""
    there = os.fstat(sys.stdin.fileno())
    return there.st_size if S_ISREG(there.st_mode) else 0


def _numbered() -> Iterator[tuple[int, bytes]]:
    number, stream = 0, sys.stdin.buffer
    while raw := stream.readline(LONGEST_LINE + 1):
        number += 1
        yield number, raw
        while len(raw) > LONGEST_LINE and not raw.endswith(b"\n"):  # the rest of a line that is refused
            raw = stream.readline(LONGEST_LINE + 1)


def _batches() -> Iterator[list[tuple[int, bytes]]]:
    batch: list[tuple[int, bytes]] = []
    for numbered in _numbered():
        if numbered[1].strip():
            batch.append(numbered)
        if len(batch) == LINES_AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch


def _store(mem: Recollect, batch: list[tuple[int, bytes]], fields: Mapping[str, Any], counts: Counts) -> None:
    readable: list[tuple[int, str]] = []
    for number, raw in batch:
        try:
            readable.append((number, _text(raw)))
        except InvalidInput as error:
            _refuse(counts, number, error)
    memories = [{**fields, "content": text} for _, text in readable]
    if not memories:
        return
    try:
        _count(counts, mem.call("remember_many", memories=memories).receipts)
    except (InvalidInput, Conflict):
        for (number, _), one in zip(readable, memories, strict=True):
            _attempt(lambda one=one: _count(counts, [mem.call("remember", **one)]), counts, number)  # type: ignore[misc]


def _text(raw: bytes) -> str:
    if len(raw) > LONGEST_LINE:
        raise InvalidInput(f"longer than {LONGEST_LINE:,} bytes")
    try:
        return raw.decode("utf-8").strip()
    except UnicodeDecodeError:
        raise InvalidInput("not UTF-8 text") from None


def _attempt(store: Callable[[], None], counts: Counts, number: int) -> None:
    try:
        store()
    except (InvalidInput, Conflict) as error:
        _refuse(counts, number, error)


def _count(counts: Counts, receipts: list[Any]) -> None:
    known = sum(receipt.duplicate for receipt in receipts)
    counts.duplicate += known
    counts.new += len(receipts) - known


def _refuse(counts: Counts, number: int, error: RecollectError) -> None:
    counts.refused += 1
    if len(counts.lines) < 1000:
        counts.lines.append({"line": number, "code": error.code, "message": error.message})
