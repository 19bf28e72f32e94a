"""Settings files in TOML, changed in place: a table of ours is added at the end and taken away again, nothing else."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

_HEADER = re.compile(r"^[ \t]*\[\[?[^\n]*\]\]?[ \t]*(?:#[^\n]*)?$", re.MULTILINE)


def with_table(text: str, path: Sequence[str], table: Mapping[str, Any]) -> str:
    text = without_table(text, path)
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = [f"[{'.'.join(path)}]", *(f"{name} = {_written(value)}" for name, value in table.items())]
    before = text if not text or text.endswith("\n") else text + newline
    return before + (newline if before.strip() else "") + newline.join(lines) + newline


def without_table(text: str, path: Sequence[str]) -> str:
    """The tables of that name and below it, each up to the next header; the same words in a text are none."""
    name = re.compile(rf"^[ \t]*\[{re.escape('.'.join(path))}(?:\.[^\]]*)?\]")
    headers = [found.start() for found in _HEADER.finditer(text)] + [len(text)]
    for start, end in reversed(list(pairwise(headers))):
        if not name.match(text[start:end]):
            continue
        before = text[:start]
        if end == len(text) and before.endswith(("\n\n", "\r\n\r\n")):  # the empty line that came with it
            before = before[: -2 if before.endswith("\r\n") else -1]
        left = before + text[end:]
        text = left if _others(left, path) == _others(text, path) else text
    return text


def _others(text: str, path: Sequence[str]) -> object:
    """Everything but the table; None if it cannot be read."""
    try:
        tables = read(text)
    except ValueError:
        return None
    siblings = dict(tables.pop(path[0], {}))
    siblings.pop(path[1], None)
    return tables, siblings


def read(text: str) -> dict[str, Any]:
    return tomllib.loads(text.removeprefix("\ufeff"))


def _written(value: Any) -> str:
    """Texts, numbers and lists of them are the same as in JSON."""
    return json.dumps(value, ensure_ascii=False)
