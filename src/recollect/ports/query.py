"""Queries as data: filters, order, pages, counts by field, text search. The conformance kit checks what each means."""

from __future__ import annotations

import base64
import json
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Generic, Literal, TypeVar

from recollect.domain.record import Record
from recollect.errors import InvalidInput

R_co = TypeVar("R_co", bound=Record, covariant=True)
Row = tuple[Any, ...]
"""Values of some fields, or of some columns, of any type that a record may have."""
Operator = Literal["=", "!=", "<", "<=", ">", ">="]
Key = str | tuple[str, ...]
"""A member of a JSON object; several names lead to a member of a member. Only objects have members, lists have none."""
Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Compare:
    """A field against a value; with `key`, one member of a JSON object field, types compared strictly."""

    field: str
    operator: Operator
    value: Any
    key: Key | None = None

    @property
    def path(self) -> tuple[str, ...]:
        return path_of(self.key)


@dataclass(frozen=True, slots=True)
class OneOf:
    """A field is one of these values; or none of them, not even where it is empty."""

    field: str
    values: Row
    wanted: bool = True


@dataclass(frozen=True, slots=True)
class IsNull:
    field: str
    wanted: bool = True


@dataclass(frozen=True, slots=True)
class Has:
    """A JSON object field has this member, whatever its value is, even null; or has none."""

    field: str
    key: Key
    wanted: bool = True

    @property
    def path(self) -> tuple[str, ...]:
        return path_of(self.key)


@dataclass(frozen=True, slots=True)
class Holds:
    """A JSON list field, or with `key` a list in a JSON object field, has this value among its members."""

    field: str
    value: Scalar
    key: Key | None = None

    @property
    def path(self) -> tuple[str, ...]:
        return path_of(self.key)


def path_of(key: Key | None) -> tuple[str, ...]:
    """The names that lead to a member; none for the field itself."""
    return (key,) if isinstance(key, str) else key or ()


@dataclass(frozen=True, slots=True)
class AnyOf:
    filters: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class AllOf:
    filters: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Linked:
    """There is a living record of `record` whose `field` is this record's id and that passes `where`.

    With `by`, its `field` is this record's `by` instead: what a record refers to. With `deleted`, also a soft-deleted
    one.
    """

    record: type[Record]
    field: str
    where: tuple[Filter, ...] = ()
    wanted: bool = True
    by: str = "id"
    deleted: bool = False


Filter = Compare | OneOf | IsNull | Has | Holds | AnyOf | AllOf | Linked


def equal(field: str, value: object) -> Filter:
    return IsNull(field) if value is None else Compare(field, "=", value)


def between(field: str, since: datetime | None, until: datetime | None) -> list[Filter]:
    """From a moment on, and before another; None leaves an end open."""
    ends: list[Filter] = [Compare(field, ">=", since)] if since is not None else []
    return [*ends, Compare(field, "<", until)] if until is not None else ends


@dataclass(frozen=True, slots=True)
class Order:
    """Empty fields come first going up and last going down; ties are broken by id."""

    field: str
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Query(Generic[R_co]):
    record: type[R_co]
    where: tuple[Filter, ...] = ()
    order: tuple[Order, ...] = ()
    limit: int | None = None
    after: str | None = None
    deleted: Literal["no", "yes", "only"] = "no"
    any_order: bool = False
    """Whichever are found first: a set is wanted, so that a store may walk the index that narrows most."""

    def ordering(self) -> tuple[Order, ...]:
        if any(order.field == "id" for order in self.order):
            return self.order
        return (*self.order, Order("id", self.order[-1].descending if self.order else False))

    def start(self) -> list[Any] | None:
        """The ordering values of the last record of the page before this one."""
        return None if self.after is None else decode_cursor(self.after, self)


@dataclass(frozen=True, slots=True)
class Page(Generic[R_co]):
    records: list[R_co]
    next: str | None = None


def encode_cursor(values: Sequence[object]) -> str:
    plain = [["t", value.isoformat()] if isinstance(value, datetime) else value for value in values]
    return base64.urlsafe_b64encode(json.dumps(plain).encode()).decode().rstrip("=")


def decode_cursor(cursor: str, query: Query[Record]) -> list[Any]:
    try:
        plain = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        values = [datetime.fromisoformat(value[1]) if isinstance(value, list) else value for value in plain]
    except (ValueError, TypeError, IndexError, RecursionError):
        plain = values = []
    if not isinstance(plain, list) or len(values) != len(query.ordering()):
        raise InvalidInput("the cursor is not valid", remedy="give `next` of the page before, unchanged")
    return values


@dataclass(frozen=True, slots=True)
class Spans:
    """The stretches of time between these moments, in order: 0 is before the first, 1 from the first on, and so on."""

    field: str
    edges: tuple[datetime, ...]


@dataclass(frozen=True, slots=True)
class Beside(Generic[R_co]):
    """What stands beside some records: among those with the same `within`, in order of `by` and then of id.

    Each place is a record's values of `within` and `by`, and its id; `within` and `by` are declared as an index in this
    order, and neither is empty.
    """

    record: type[R_co]
    within: str
    by: str
    places: tuple[tuple[Any, Any, str], ...]
    reach: int
    where: tuple[Filter, ...] = ()


@dataclass(frozen=True, slots=True)
class TextQuery(Generic[R_co]):
    """Any of the terms, in any of the record's declared text fields; best first, ties by id.

    The rarer a term within what the facets leave, the more it counts; other tenants' texts never matter. `facets`
    must all match and are part of the index; `where` filters what is left.
    """

    record: type[R_co]
    terms: tuple[str, ...]
    limit: int
    facets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    where: tuple[Filter, ...] = ()


@dataclass(frozen=True, slots=True)
class TextHit:
    id: str
    score: float


Reading = tuple[Query[Record], Sequence[str]]
"""A query, and the fields that are wanted."""


def passes(record: Record, given: Filter) -> bool | None:
    """Whether a record passes a filter; None when that depends on other records (Linked)."""

    def value_of(field: str) -> Any:
        if field not in type(record).model_fields:
            raise InvalidInput(f"{type(record).__name__} has no field '{field}'", remedy="see the record reference")
        return getattr(record, field)

    return meets(value_of, given)


def meets(value_of: Callable[[str], Any], given: Filter) -> bool | None:
    """Whether something with these values of fields passes a filter; None when that depends on other records."""
    if isinstance(given, AnyOf):
        verdicts = [meets(value_of, one) for one in given.filters]
        return None if None in verdicts and True not in verdicts else True in verdicts
    if isinstance(given, AllOf):
        verdicts = [meets(value_of, one) for one in given.filters]
        return None if None in verdicts and False not in verdicts else False not in verdicts
    if isinstance(given, Linked):
        return None
    value = value_of(given.field)
    if isinstance(given, Compare):
        return _compares(value, given) if given.key is None else _member_compares(member(value, given.path), given)
    if isinstance(given, OneOf):
        return (value in [_as_kept(one) for one in given.values]) == given.wanted
    if isinstance(given, Has):
        return (member(value, given.path) is not MISSING) == given.wanted
    if isinstance(given, Holds):
        members = member(value, given.path)
        return isinstance(members, list) and any(_is_same(one, given.value) for one in members)
    return (value is None) == given.wanted


MISSING = object()


def member(value: object, path: Sequence[str]) -> object:
    """What a path leads to; MISSING if it leads nowhere."""
    for key in path:
        if not isinstance(value, dict) or key not in value:
            return MISSING
        value = value[key]
    return value


_TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _compares(value: Any, given: Compare) -> bool:
    if given.operator == "!=":
        return bool(value != _as_kept(given.value))
    wanted = _as_kept(given.value)
    return value is not None and wanted is not None and _TESTS[given.operator](value, wanted)


def _as_kept(value: Any) -> Any:
    """As records read a moment without a zone."""
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) and value.tzinfo is None else value


def _member_compares(found: Any, given: Compare) -> bool:
    if given.operator == "!=":
        return not _is_same(found, given.value)
    if given.operator == "=" or given.value is None or isinstance(given.value, bool):
        return _is_same(found, given.value)
    return _kind(found) == _kind(given.value) and _TESTS[given.operator](found, given.value)


def _is_same(found: object, wanted: Scalar) -> bool:
    """JSON values are compared only with their own type: 1 is neither true nor "1"."""
    return _kind(found) == _kind(wanted) and found == wanted


def _kind(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return "constant"
    return "number" if isinstance(value, int | float) else type(value).__name__
