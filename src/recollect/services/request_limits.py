"""Limits of every request, whether its fields declare them or not.

A list, an object or a number without a limit can be abused: 100,000 tags on one memory kept a store busy for half a
minute, and a number of seconds beyond the calendar was an internal error. So a field that declares no limit gets one
here; and `true` is not accepted as a number, least of all as one that says how much to delete.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic_core import core_schema

MOST_LISTED = 1000
"""Entries of a list, and members of an object, where a field names no other number."""
MOST_TAGS = MOST_CITATIONS = MOST_LINKS = 100
"""What one call may hang on a memory; of tags and citations, also what hangs on it in all."""
MOST_LINKS_IN_ALL = 1000
"""Links from one memory: what was concluded from many memories has more than a call may relate."""
MOST_NAMESPACES = 20
MOST_CONDITIONS = 50
"""Members of an object, or tags, that must all be met: each is a condition of its own in the store."""
MOST_VALUES = 100_000
"""Values in one piece of free JSON, all its levels together."""
LARGEST_INTEGER = 2**63 - 1  # what every store keeps as one number
LARGEST_FLOAT = 1e15
_COUNTED = frozenset({"list", "dict", "set", "frozenset"})
_NUMBERS = {"int": LARGEST_INTEGER, "float": LARGEST_FLOAT}


def bounded(schema: Any) -> Any:
    """The schema of a request, with bounds wherever it has none."""
    if isinstance(schema, list):
        return [bounded(inner) for inner in schema]
    if isinstance(schema, tuple):
        return tuple(bounded(inner) for inner in schema)
    if not isinstance(schema, dict):
        return schema
    kind = schema.get("type")
    made = {name: _inside(name, inner) for name, inner in schema.items()}
    if kind in _COUNTED:
        made.setdefault("max_length", MOST_LISTED)
        is_numeric = kind == "list" and schema.get("items_schema", {}).get("type") in _NUMBERS
        return _without_truth(made | {"items_schema": _in_range(schema["items_schema"])}) if is_numeric else made
    if kind in _NUMBERS:
        return core_schema.no_info_before_validator_function(refuse_truth, _in_range(made))
    if kind == "any":
        return core_schema.no_info_after_validator_function(_of_bounded_size, made)
    return made


def _inside(part: str, inner: Any) -> Any:
    if part in ("fields", "choices") and isinstance(inner, dict):  # by the names that users of pydantic chose
        return {name: bounded(one) for name, one in inner.items()}
    return inner if part in _UNTOUCHED else bounded(inner)


_UNTOUCHED = frozenset({"metadata", "serialization", "default", "default_factory", "function", "cls", "config", "ref"})


def _in_range(number: Mapping[str, Any]) -> dict[str, Any]:
    most = _NUMBERS[number["type"]]
    upper = {} if "le" in number or "lt" in number else {"le": most}
    lower = {} if "ge" in number or "gt" in number else {"ge": -most}
    return {**number, **upper, **lower}


def _without_truth(schema: Any) -> Any:
    """Vectors are long: looked through once, not number by number."""

    def looked_through(given: Any) -> Any:
        if isinstance(given, list | tuple) and bool in map(type, given):
            raise ValueError("true and false are not numbers")
        return given

    return core_schema.no_info_before_validator_function(looked_through, schema)


def refuse_truth(given: Any) -> Any:
    if isinstance(given, bool):
        raise ValueError("must be a number, not true or false")
    return given


def _of_bounded_size(value: Any) -> Any:
    waiting, values = [value], 0
    while waiting:
        one = waiting.pop()
        values += 1
        if isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, list | tuple):
            waiting += one
        if values + len(waiting) > MOST_VALUES:
            raise ValueError(f"has more than {MOST_VALUES:,} values")
    return value
