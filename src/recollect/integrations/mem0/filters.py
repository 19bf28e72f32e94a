"""mem0's filters: what our operations can be asked for, and what is looked at afterwards.

    {"user_id": "alice", "AND": [{"team": "core"}, {"NOT": [{"level": {"lt": 3}}]}]}

Owners and plain conditions on metadata go to the store. OR, NOT, wildcards, times and substrings are decided here on
each memory: `keeps` says whether it stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from recollect.errors import InvalidInput, NotFound

OWNERS = {"user_id": "user", "agent_id": "agent", "run_id": "session", "app_id": "project"}
OWN_FIELDS = frozenset({*OWNERS, "id", "memory", "created_at", "updated_at", "categories", "expiration_date"})
IN_STORE = frozenset({"eq", "ne", "gt", "gte", "lt", "lte", "in", "nin"})
Json = dict[str, Any]
Keeps = Callable[[Json], bool]


class InvalidRequest(InvalidInput, ValueError):
    """What mem0 raises a ValueError for."""


class NoSuchMemory(NotFound, ValueError):
    """mem0 raises a ValueError for it."""


@dataclass(slots=True)
class Wanted:
    """Fields of `recall` and `list`, and what they cannot say."""

    fields: Json = field(default_factory=dict)
    metadata: Json = field(default_factory=dict)
    checks: list[Keeps] = field(default_factory=list)

    def keeps(self, item: Json) -> bool:
        return all(check(item) for check in self.checks)

    def asked(self) -> Json:
        return {**self.fields, **({"metadata": self.metadata} if self.metadata else {})}


def read_filters(filters: Mapping[str, Any] | None, *, needs_owner: bool) -> Wanted:
    """InvalidRequest where no owner is named though one must be, as mem0 has it."""
    wanted = Wanted()
    given = dict(filters or {})
    _read(given, wanted)
    if needs_owner and not _names_owner(given):
        raise InvalidRequest(
            "filters must contain at least one of: user_id, agent_id, run_id", remedy="filters={'user_id': 'u1'}"
        )
    return wanted


def owner(name: str, value: object) -> str:
    """An id, trimmed; mem0 refuses empty ones and those with white space inside."""
    text = value.strip() if isinstance(value, str) else ""
    if not text or any(letter.isspace() for letter in text):
        raise InvalidRequest(f"{name} must be a text without white space", remedy=f"give {name} as an id")
    return text


def _names_owner(given: object) -> bool:
    if isinstance(given, list):
        return any(map(_names_owner, given))
    if not isinstance(given, dict):
        return False
    return bool(OWNERS.keys() & given.keys()) or any(_names_owner(given.get(word)) for word in ("AND", "OR"))


def _read(given: Json, wanted: Wanted) -> None:
    for name, value in given.items():
        if name == "AND":
            for part in _parts(name, value):
                _read(part, wanted)
        elif name in OWNERS and isinstance(value, str) and value != "*" and OWNERS[name] not in wanted.fields:
            wanted.fields[OWNERS[name]] = owner(name, value)
        elif name in ("OR", "NOT") or name in OWN_FIELDS or not _is_plain(value) or name in wanted.metadata:
            wanted.checks.append(_check(name, value))
        else:
            wanted.metadata[name] = value


def _parts(name: str, value: object) -> list[Json]:
    parts = [value] if isinstance(value, dict) else value
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise InvalidRequest(f"{name} takes a list of filters", remedy=f'{{"{name}": [{{"user_id": "u1"}}]}}')
    return parts


def _is_plain(value: object) -> bool:
    if isinstance(value, dict):
        return bool(value) and value.keys() <= IN_STORE
    return isinstance(value, str | int | float | bool) and value != "*"


def _check(name: str, value: Any) -> Keeps:
    if name in ("OR", "NOT", "AND"):
        parts = [_all(part) for part in _parts(name, value)]
        if name == "OR":
            return lambda item: any(part(item) for part in parts)
        if name == "NOT":
            return lambda item: not any(part(item) for part in parts)
        return lambda item: all(part(item) for part in parts)
    if name == "metadata" and isinstance(value, dict):
        return _all(value)
    tests = value if isinstance(value, dict) else {"in": value} if isinstance(value, list) else {"eq": value}
    unknown = sorted(tests.keys() - OPERATORS.keys())
    if unknown:
        raise InvalidRequest(f"unknown operator {unknown[0]}", remedy=f"use {', '.join(OPERATORS)}")
    return lambda item: all(OPERATORS[operator](_member(item, name), wanted) for operator, wanted in tests.items())


def _all(given: Json) -> Keeps:
    checks = [_check(name, value) for name, value in given.items()]
    return lambda item: all(check(item) for check in checks)


def _member(item: Json, name: str) -> Any:
    return item.get(name) if name in OWN_FIELDS else (item.get("metadata") or {}).get(name)


def _equal(found: Any, wanted: Any) -> bool:
    return found is not None if wanted == "*" else found == wanted


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def passes(found: Any, wanted: Any) -> bool:
        is_number = isinstance(found, int | float) and isinstance(wanted, int | float)
        both = is_number or (isinstance(found, str) and isinstance(wanted, str))
        return both and compare(found, wanted)

    return passes


def _contains(found: Any, wanted: Any) -> bool:
    if isinstance(found, list) and isinstance(wanted, list):
        return any(one in found for one in wanted)
    return wanted in found if isinstance(found, list) else isinstance(found, str) and str(wanted) in found


def _icontains(found: Any, wanted: Any) -> bool:
    lowered = [str(one).lower() for one in found] if isinstance(found, list) else str(found or "").lower()
    return str(wanted).lower() in lowered


def _one_of(found: Any, wanted: Any) -> bool:
    if isinstance(found, list):
        return any(one in wanted for one in found)
    return found in wanted


OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": _equal,
    "ne": lambda found, wanted: not _equal(found, wanted),
    "gt": _ordered(lambda found, wanted: found > wanted),
    "gte": _ordered(lambda found, wanted: found >= wanted),
    "lt": _ordered(lambda found, wanted: found < wanted),
    "lte": _ordered(lambda found, wanted: found <= wanted),
    "in": _one_of,
    "nin": lambda found, wanted: not _one_of(found, wanted),
    "contains": _contains,
    "icontains": _icontains,
}
