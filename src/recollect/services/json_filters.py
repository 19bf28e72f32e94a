"""Conditions on members of a JSON field, from what callers write to what stores are asked.

    {"success": False}                the member has this value
    {"env": ["test", "staging"]}      it has one of these
    {"size": {"gte": 3, "lt": 10}}    it passes these operators
    {"build": {"number": 7}}          a member of a member; {"build.number": 7} is the same, and also finds a member
                                      whose own name has the dot

Values are compared only with their own type: 1 equals 1.0, but neither "1" nor true. A member that is missing passes
`ne`, `nin` and `exists: false`, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from recollect.errors import InvalidInput, TooLarge
from recollect.ports.query import AnyOf, Compare, Filter, Has, Holds, Operator, Scalar

Path = tuple[str, ...]
MOST_COMPARED = 200
"""Values that one filter compares with, all its members together."""
DEEPEST = 10
OPERATORS: dict[str, str] = {
    "eq": "is this value",
    "ne": "is not this value, or is missing",
    "gt": "is greater",
    "gte": "is greater or the same",
    "lt": "is less",
    "lte": "is less or the same",
    "in": "is one of these values",
    "nin": "is none of these values, or is missing",
    "contains": "is a list that has this value; of several values, all of them",
    "exists": "true: is there, even if it is null; false: is missing",
}
"""The operators and what they mean: documentation and messages follow from it."""
_ORDERS: dict[str, Operator] = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_SYMBOLS = {"=": "eq", "==": "eq", "!=": "ne", ">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}
_ELSEWHERE: dict[str, str] = {
    "equals": "eq", "neq": "ne", "not": "ne", "ge": "gte", "gteq": "gte", "min": "gte", "le": "lte", "lteq": "lte",
    "max": "lte", "any_of": "in", "one_of": "in", "not_in": "nin", "none_of": "nin", "has": "contains",
}  # fmt: skip
"""What operators are called elsewhere. With a $ they are refused with a hint; without, they are names of members."""


class MemberCondition(NamedTuple):
    """A condition on a member, and the name of the member as it was given."""

    name: str
    filter: Filter


def member_conditions(field: str, wanted: Mapping[str, object]) -> list[MemberCondition]:
    """What a store is asked for all of these to hold. InvalidInput for what says nothing or cannot be compared."""
    conditions: list[MemberCondition] = []
    for name, value in wanted.items():
        parts = tuple(name.split("."))
        paths = [(name,), parts] if len(parts) > 1 and all(parts) else [(name,)]
        conditions += _Members(field).conditions(paths, value)
    if sum(_compared(one.filter) for one in conditions) > MOST_COMPARED:
        raise TooLarge(f"{field} is compared with more than {MOST_COMPARED} values", remedy="ask in several calls")
    return conditions


def _compared(given: Filter) -> int:
    return sum(map(_compared, given.filters)) if isinstance(given, AnyOf) else 1


class _Members:
    """Reads what is wanted of the members of one field. Several paths are readings of one name: any of them will do."""

    def __init__(self, field: str) -> None:
        self._field = field

    def conditions(self, paths: Sequence[Path], wanted: object) -> Iterator[MemberCondition]:
        name = ".".join(paths[0])
        if len(paths[0]) > DEEPEST:
            raise InvalidInput(f"{self._field} is nested more than {DEEPEST} levels deep", remedy="ask for less depth")
        if isinstance(wanted, dict):
            operators = self._operators(name, wanted)
            if operators is None:
                for inner, value in wanted.items():
                    yield from self.conditions([(*path, inner) for path in paths], value)
                return
        else:
            operators = {"in" if isinstance(wanted, list) else "eq": wanted}
        for operator, value in operators.items():
            for one in self._filters(paths, name, operator, value):
                yield MemberCondition(name, one)

    def _operators(self, name: str, wanted: Mapping[str, object]) -> dict[str, object] | None:
        """The operators by their names; None where these are names of members."""
        if not wanted:
            raise InvalidInput(f"{self._field} '{name}' says nothing", remedy=f"give a value or {_choices()}")
        known = {key: _SYMBOLS.get(key, key.removeprefix("$")) for key in wanted}
        unknown = [key for key, operator in known.items() if operator not in OPERATORS]
        if any(key.startswith("$") for key in unknown) or 0 < len(unknown) < len(wanted):
            word = unknown[0].removeprefix("$")
            near = [_ELSEWHERE[word]] if word in _ELSEWHERE else get_close_matches(word, OPERATORS, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise InvalidInput(
                f"{self._field} '{name}': there is no operator '{unknown[0][:40]}'", remedy=f"{hint}use {_choices()}"
            )
        return None if unknown else {known[key]: value for key, value in wanted.items()}

    def _filters(self, paths: Sequence[Path], name: str, operator: str, value: object) -> list[Filter]:
        """All of them must be passed."""
        field, said = self._field, f"{self._field} '{name}'"
        if operator == "exists":
            if not isinstance(value, bool):
                raise InvalidInput(f"{said}: exists is true or false", remedy='write {"exists": true}')
            has = [Has(field, path, wanted=value) for path in paths]
            return [_any(has)] if value else [*has]
        if operator in ("in", "nin", "contains"):
            values = value if isinstance(value, list) else [value]
            if not values:
                raise InvalidInput(f"{said}: the list is empty", remedy="give at least one value")
            if operator == "in":
                return [_any([Compare(field, "=", _scalar(one, said), path) for path in paths for one in values])]
            if operator == "nin":
                return [Compare(field, "!=", _scalar(one, said), path) for path in paths for one in values]
            return [_any([Holds(field, _scalar(one, said), path) for path in paths]) for one in values]
        if operator == "ne":
            return [Compare(field, "!=", _scalar(value, said), path) for path in paths]
        compared = _scalar(value, said)
        if operator in _ORDERS and (compared is None or isinstance(compared, bool)):
            raise InvalidInput(
                f"{said}: {operator} compares numbers or texts", remedy="use eq for true, false and null"
            )
        return [_any([Compare(field, _ORDERS.get(operator, "="), compared, path) for path in paths])]


def _any(filters: Sequence[Filter]) -> Filter:
    return filters[0] if len(filters) == 1 else AnyOf(tuple(filters))


def _scalar(value: object, said: str) -> Scalar:
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise InvalidInput(f"{said} is compared with single values", remedy="give text, a number, true, false or null")


def _choices() -> str:
    return ", ".join(OPERATORS)
