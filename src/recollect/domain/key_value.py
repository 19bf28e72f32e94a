"""What agents keep under names: a JSON value under a key in a namespace, with vectors of the texts in it.

An item is not a memory: putting it again replaces it, and it claims nothing that could be cited or verified. A
namespace is a path of labels, kept as one text that sorts by label, so that a prefix is a range of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import ge, gt, le, lt
from typing import Any, ClassVar

from pydantic import Field

from recollect.domain.record import Id, Json, JsonList, Moment, Record, Reference, Shape, Text, derived_id
from recollect.errors import InvalidInput

_END, _AFTER_END, _ESCAPE = "\x1f", "\x20", "\x1e"
# Two texts by their characters, as LangGraph's SqliteStore has them: so dates as ISO 8601 writes them are in order.
_ORDERS: dict[str, Callable[[Any, Any], bool]] = {"$gt": gt, "$gte": ge, "$lt": lt, "$lte": le}
OPERATORS = {"$eq", "$ne", *_ORDERS}


def path_of(labels: Sequence[str]) -> str:
    """Each label with a mark after it; marks inside a label are written otherwise."""
    return "".join(one.replace(_ESCAPE, _ESCAPE + "0").replace(_END, _ESCAPE + "1") + _END for one in labels)


def after_all_below(path: str) -> str:
    """The first text that sorts after every path that begins with this one."""
    return path[:-1] + _AFTER_END


def item_id(path: str, key: str) -> str:
    return derived_id("item", path, key)


def item_vector_id(item_id: str, place: str, part: int) -> str:
    return derived_id("item_vector", item_id, place, str(part))


class Item(Record):
    shape: ClassVar[Shape] = Shape(
        "item",
        references={"organization_id": Reference("organization")},
        indexes=(("path", "key"), ("expires_at",)),
        encrypted_texts=frozenset({"value"}),
    )

    path: Text
    namespace: JsonList
    key: Text
    value: Json
    expires_at: Moment | None = None
    ttl_minutes: float | None = None


class ItemVector(Record):
    """The vector of one passage of one text of an item; `place` says which text.

    Most texts are one passage; a long one has several, numbered by `part`, of the characters from `start` to `end`.
    Where these are empty the vector is from before passages: then it is of the text's beginning.
    """

    shape: ClassVar[Shape] = Shape(
        "item_vector",
        references={"organization_id": Reference("organization"), "item_id": Reference("item")},
        indexes=(("item_id",), ("path",)),
        leaves_trace=False,
    )

    item_id: Id
    path: Text
    place: Text
    part: int = Field(default=0, ge=0)
    start: int | None = None
    end: int | None = None
    model: Text
    vector: bytes


def matches(value: object, wanted: object) -> bool:
    """Whether a value is as wanted: equal, or member by member, or by operators such as {"$gt": 3}."""
    if isinstance(wanted, dict):
        if any(name.startswith("$") for name in wanted):
            return all(_compares(value, name, than) for name, than in wanted.items())
        return isinstance(value, dict) and all(matches(value.get(name), inner) for name, inner in wanted.items())
    if isinstance(wanted, list | tuple):
        return isinstance(value, list | tuple) and len(value) == len(wanted) and all(map(matches, value, wanted))
    return _equals(value, wanted)


def _equals(value: object, wanted: object) -> bool:
    return bool(value == wanted) and isinstance(value, bool) == isinstance(wanted, bool)


def _compares(value: object, operator: str, than: object) -> bool:
    if operator not in OPERATORS:
        raise InvalidInput(f"unknown operator '{operator[:20]}'", remedy=f"use {', '.join(sorted(OPERATORS))}")
    if operator not in _ORDERS:
        return _equals(value, than) == (operator == "$eq")
    if isinstance(value, str) and isinstance(than, str):
        return _ORDERS[operator](value, than)
    one, other = _number(value), _number(than)
    return one is not None and other is not None and _ORDERS[operator](one, other)


def _number(value: object) -> float | None:
    """Where one of the two is a number, a text counts as the number it is; another text is not compared with one."""
    try:
        return float(value) if isinstance(value, int | float | str) else None
    except (ValueError, OverflowError):
        return None


def names_match(labels: Sequence[str], pattern: Sequence[str], *, at_end: bool) -> bool:
    """Whether a namespace begins (or ends) with a pattern, in which * stands for any label."""
    if len(labels) < len(pattern):
        return False
    part = labels[len(labels) - len(pattern) :] if at_end else labels[: len(pattern)]
    return all(wanted in ("*", label) for label, wanted in zip(part, pattern, strict=True))
