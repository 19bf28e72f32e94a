"""Settings files in JSON, also with comments and trailing commas, changed in place: all other text stays as it is.

A change is made in the text, at the place that a small reader finds. What was added and is removed again leaves the
text as it was, byte for byte.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

_SPACE = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_PLAIN = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null")
DEEPEST = 100


class BrokenJson(ValueError):
    def __init__(self, text: str, at: int) -> None:
        super().__init__(f"line {text.count(chr(10), 0, at) + 1}")


@dataclass
class Node:
    start: int
    end: int = 0
    value: Any = None
    items: list[Item] = field(default_factory=list)


@dataclass
class Item:
    """A member of an object or an element of an array: where it begins, its value, and the comma behind it."""

    start: int
    key: str | None
    node: Node
    comma: int | None = None


def read(text: str) -> Node:
    """The whole document; an empty one is an empty object."""
    start = _past_space(text, 1 if text.startswith("\ufeff") else 0)
    if start == len(text):
        return Node(start, start, {})
    node = _value(text, start, 0)
    rest = _past_space(text, node.end)
    if rest != len(text):
        raise BrokenJson(text, rest)
    return node


def _past_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _value(text: str, at: int, depth: int) -> Node:
    opening = text[at : at + 1]
    if opening in ("{", "[") and depth < DEEPEST:
        return _container(text, at, depth)
    found = (_STRING if opening == '"' else _PLAIN).match(text, at)
    if not found:
        raise BrokenJson(text, at)
    try:
        return Node(at, found.end(), json.loads(found[0]))
    except ValueError:
        raise BrokenJson(text, at) from None


def _container(text: str, at: int, depth: int) -> Node:
    is_object = text[at] == "{"
    closing, node, here = "}" if is_object else "]", Node(at), _past_space(text, at + 1)
    while text[here : here + 1] != closing:
        if node.items and node.items[-1].comma is None:
            raise BrokenJson(text, here)
        start, key = here, None
        if is_object:
            name = _STRING.match(text, here)
            here = _past_space(text, name.end()) if name else here
            if not name or text[here : here + 1] != ":":
                raise BrokenJson(text, here)
            key, here = json.loads(name[0]), _past_space(text, here + 1)
        item = Item(start, key, _value(text, here, depth + 1))
        here = _past_space(text, item.node.end)
        if text[here : here + 1] == ",":
            item.comma, here = here, _past_space(text, here + 1)
        node.items.append(item)
    node.end = here + 1
    values = [item.node.value for item in node.items]
    node.value = {str(item.key): item.node.value for item in node.items} if is_object else values
    return node


def with_item(text: str, path: Sequence[str], value: Any, replaces: Callable[[Any], bool]) -> str:
    """A member set, or with a path that ends in `[]` an element appended, after what it replaces is taken away."""
    text = without_item(text, path, replaces, keep_empty=True)
    node, depth = read(text), 0
    if node.start == node.end:  # an empty file
        text, node = text + "{}\n", read(text + "{}\n")
    for depth, key in enumerate(path):  # noqa: B007 - how deep it is says how far it is indented
        found = node if key == "[]" else _member(node, key)
        if found is None or key == "[]":
            break
        node = found
    rest = path[depth + 1 :]
    for key in reversed(rest):
        value = [value] if key == "[]" else {key: value}
    return _appended(text, node, None if path[depth] == "[]" else path[depth], value, depth + 1)


def without_item(text: str, path: Sequence[str], ours: Callable[[Any], bool], keep_empty: bool = False) -> str:
    """Members or elements that are ours taken away; with them what is left empty by it."""
    while True:
        place = _find(read(text), path, ours)
        if place is None:
            return text
        parents, index = place
        while not keep_empty and len(parents) > 1 and len(parents[-1].items) == 1:
            inner = parents.pop()
            index = next(i for i, item in enumerate(parents[-1].items) if item.node is inner)
        text = _removed(text, parents[-1], index)


def _find(node: Node, path: Sequence[str], ours: Callable[[Any], bool]) -> tuple[list[Node], int] | None:
    parents = [node]
    for key in path[:-1]:
        found = _member(parents[-1], key)
        if found is None:
            return None
        parents.append(found)
    for index, item in enumerate(parents[-1].items):
        if path[-1] in ("[]", item.key) and ours(item.node.value):
            return parents, index
    return None


def _member(node: Node, key: str) -> Node | None:
    return next((item.node for item in node.items if item.key == key), None)


def _appended(text: str, node: Node, key: str | None, value: Any, depth: int) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    unit = _indent_unit(text)
    lines = json.dumps(value, ensure_ascii=False, indent=unit).split("\n")
    name = f"{json.dumps(key, ensure_ascii=False)}: " if key is not None else ""
    written = (newline + unit * depth).join([name + lines[0], *lines[1:]])
    before_end = len(text[: node.end - 1].rstrip())
    end = f"{newline}{unit * (depth - 1)}" if not node.items else ""
    added = f"{newline}{unit * depth}{written}"
    if not node.items:
        return f"{text[: node.start + 1]}{added}{end}{text[node.end - 1 :]}"
    last = node.items[-1]
    if last.comma is not None:
        return f"{text[:before_end]}{added},{text[before_end:]}"
    return f"{text[: last.node.end]},{text[last.node.end : before_end]}{added}{text[before_end:]}"


def _removed(text: str, node: Node, index: int) -> str:
    item = node.items[index]
    if len(node.items) == 1:
        return text[: node.start + 1] + text[node.end - 1 :]
    if index < len(node.items) - 1:
        return text[: item.start] + text[node.items[index + 1].start :]
    before, end = node.items[index - 1], item.node.end
    start = len(text[: item.start].rstrip())
    if item.comma is not None:
        return text[:start] + text[item.comma + 1 :]
    assert before.comma is not None
    return text[: before.comma] + text[before.comma + 1 : start] + text[end:]


def _indent_unit(text: str) -> str:
    found = re.search(r"^[ \t]+(?=[\"\[{])", text, re.MULTILINE)
    return found[0] if found else "  "
