"""What no store can answer is refused before anything is read, with the same error by every store.

A filter names a declared field, compares it with a value of the field's type, and uses one of the six operators;
so neither a misspelt field nor a hostile value ever reaches a driver.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any, cast, get_args

from pydantic import TypeAdapter, ValidationError

from recollect.domain.record import Column, ColumnType, Record, storable
from recollect.errors import InvalidInput
from recollect.ports.query import (
    AllOf,
    AnyOf,
    Beside,
    Compare,
    Filter,
    Has,
    Holds,
    Linked,
    OneOf,
    Operator,
    Query,
    Spans,
    TextQuery,
)
from recollect.ports.steps import Touch

OPERATORS = frozenset(get_args(Operator))
DEEPEST_PATH = 32
_TYPES: dict[ColumnType, tuple[type, ...]] = {
    "text": (str,),
    "integer": (int,),
    "real": (int, float),
    "boolean": (bool,),
    "moment": (datetime,),
    "bytes": (bytes,),
    "json": (),
}


@cache
def columns_of(record: type[Record]) -> Mapping[str, Column]:
    return {column.name: column for column in record.columns()}


def column(record: type[Record], name: str) -> Column:
    found = columns_of(record).get(name)
    if found is None:
        raise InvalidInput(f"{record.__name__} has no field '{name}'", remedy="see docs/reference/records.md")
    return found


def check_groups(record: type[Record], by: Sequence[str | Spans]) -> None:
    """What `count_by` can count by."""
    known = columns_of(record)
    for one in by:
        name, wanted = (one.field, _MOMENTS) if isinstance(one, Spans) else (one, _GROUPS)
        if name not in known or known[name].type not in wanted or name in record.shape.encrypted:
            raise InvalidInput(f"{record.__name__} cannot be counted by '{name}'", remedy="see the record reference")
    if not by or any(isinstance(one, Spans) and list(one.edges) != sorted(one.edges) for one in by):
        raise InvalidInput("nothing says what to count by, or its moments are not in order", remedy="give a field")


_GROUPS = ("text", "integer", "boolean")
_MOMENTS = ("moment",)


def check_query(query: Query[Record], fields: Iterable[str] = ()) -> None:
    check_filters(query.record, query.where)
    check_ordering(query, fields)


def check_beside(query: Beside[Record]) -> None:
    """Only where an index leads to the neighbours: reading all that is within would be right, and slow."""
    if (query.within, query.by) not in (index[:2] for index in query.record.shape.indexes):
        raise InvalidInput(f"{query.record.__name__} has no index by '{query.within}' and '{query.by}'")
    _check_limit(query.reach)
    check_filters(query.record, query.where)
    if any(isinstance(one, Linked) for one in query.where):
        raise InvalidInput("what stands beside a record is found by the records' own fields")
    for name, values in zip((query.within, query.by, "id"), zip(*query.places, strict=True), strict=False):
        if None in values:
            raise InvalidInput(f"a place needs a value of '{name}'")
        _check_values(query.record, name, tuple(dict.fromkeys(values)))


def check_ordering(query: Query[Record], fields: Iterable[str] = ()) -> None:
    _check_limit(query.limit)
    for name in fields:
        column(query.record, name)
    for order in query.order:
        _refuse_encrypted(query.record, order.field)
        if column(query.record, order.field).type in ("json", "bytes"):
            raise InvalidInput(f"records cannot be put in order of '{order.field}'")
    for order, value in zip(query.ordering(), query.start() or (), strict=False):
        check_value(query.record, order.field, value)


_GROUPS_OF_FILTERS = (AnyOf, AllOf)
_IN_JSON = (Has, Holds)


def check_filters(record: type[Record], where: Iterable[Filter]) -> None:
    for given in where:
        if isinstance(given, _GROUPS_OF_FILTERS):
            check_filters(record, given.filters)
        elif isinstance(given, Linked):
            column(given.record, given.field)
            column(record, given.by)
            check_filters(given.record, given.where)
        elif isinstance(given, Compare):
            _refuse_encrypted(record, given.field)
            _check_compare(record, given)
        elif isinstance(given, OneOf):
            _refuse_encrypted(record, given.field)
            _check_values(record, given.field, given.values)
        elif isinstance(given, _IN_JSON):
            _refuse_encrypted(record, given.field)
            if column(record, given.field).type != "json":
                what = "a list" if isinstance(given, Holds) else "an object"
                raise InvalidInput(f"'{given.field}' of {record.__name__} is not {what}")
            _check_path(given.path, given.field)
            if isinstance(given, Holds):
                _check_member_value(given.value, given.field)
        else:
            column(record, given.field)


def _refuse_encrypted(record: type[Record], name: str) -> None:
    """Whether it is encrypted in this store or not: what works in one store works in every other."""
    if name in record.shape.encrypted:
        raise InvalidInput(
            f"'{name}' of {record.__name__} is encrypted, so records are not found or put in order by it",
            remedy="use another field, or compare the values of the records that you read",
        )


def sealed_text(record: type[Record], name: str) -> InvalidInput:
    """Where the store would have to look into encrypted texts. Some stores can: they compare what was opened."""
    return InvalidInput(
        f"the texts of this organization are encrypted, so '{name}' of {record.__name__} is not compared or sorted by",
        remedy="search for its words, use another field, or turn it off with `recollect encryption text off`",
    )


def _check_compare(record: type[Record], given: Compare) -> None:
    if given.operator not in OPERATORS:
        raise InvalidInput(f"there is no operator '{str(given.operator)[:20]}'", remedy="use = != < <= > >=")
    if given.key is None:
        check_value(record, given.field, given.value)
    elif column(record, given.field).type != "json":
        raise InvalidInput(f"'{given.field}' of {record.__name__} has no members")
    else:
        _check_path(given.path, given.field)
        _check_member_value(given.value, given.field)


def _check_path(path: Sequence[str], name: str) -> None:
    if len(path) > DEEPEST_PATH:
        raise InvalidInput(f"a member of '{name}' is found by at most {DEEPEST_PATH} names")
    for key in path:
        if not isinstance(key, str):
            raise InvalidInput(f"a member of '{name}' is found by its name, not by {type(key).__name__}")
        _check_scalar(key, name)


def _check_member_value(value: object, name: str) -> None:
    if value is not None and not isinstance(value, bool | int | float | str):
        raise InvalidInput(f"members of '{name}' are compared with text, numbers, true, false or null")
    _check_scalar(value, name)


def _check_values(record: type[Record], name: str, values: Sequence[Any]) -> None:
    if column(record, name).type == "text" and set(map(type, values)) <= _ONLY_TEXT:
        _check_scalar("".join(values), name)  # thousands of ids at once, on hot paths
        return
    for value in values:
        check_value(record, name, value)


_ONLY_TEXT = {str}


def check_value(record: type[Record], name: str, value: object) -> None:
    """A value that this field may be compared with."""
    wanted = column(record, name).type
    if value is None:
        return
    if wanted == "json":
        raise InvalidInput(f"'{name}' is compared member by member", remedy="give a key, or use Holds for a list")
    fits = isinstance(value, _TYPES[wanted]) and isinstance(value, bool) == (wanted == "boolean")
    if not fits:
        raise InvalidInput(f"'{name}' of {record.__name__} is {wanted}, not {type(value).__name__}")
    _check_scalar(value, name)


def _check_scalar(value: object, name: str) -> None:
    try:
        if isinstance(value, str):
            storable(value)
        elif isinstance(value, datetime):
            in_utc(value)
        elif isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise ValueError("must fit into 64 bits")
        elif isinstance(value, float) and math.isnan(value):
            raise ValueError("must be a number")
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"the value for '{name}' cannot be stored, so nothing can equal it: {error}") from None


def in_utc(moment: datetime) -> datetime:
    """As records keep it: a moment without a zone is in UTC."""
    if moment.tzinfo is UTC:
        return moment
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def check_text(query: TextQuery[Record]) -> None:
    shape = query.record.shape.text
    if shape is None:
        raise InvalidInput(f"{query.record.__name__} is not searched as text")
    for name, values in query.facets.items():
        if name not in shape.facets:
            raise InvalidInput(f"'{name}' does not narrow a text search of {query.record.__name__}")
        for value in values:
            if not isinstance(value, str):
                raise InvalidInput(f"'{name}' is text, not {type(value).__name__}")
            _check_scalar(value, name)
    _check_limit(query.limit)
    check_filters(query.record, query.where)


def _check_limit(limit: int | None) -> None:
    if limit is not None and limit < 0:
        raise InvalidInput("a limit is 0 or more", limit=limit)


def checked_touch(step: Touch) -> dict[str, object]:
    """The validated values to put; a touch keeps off all that keys, references and the text index rest on."""
    check_added(step)
    for name in (*step.add, *step.put):
        column(step.record, name)
        if name in step.add and name in step.put:
            raise InvalidInput(f"'{name}' of {step.record.__name__} is both added to and put", remedy="do one of them")
        if name in _guarded(step.record):
            raise InvalidInput(f"'{name}' of {step.record.__name__} cannot be touched", remedy="update the record")
    try:
        return {name: _field(step.record, name).validate_python(value) for name, value in step.put.items()}
    except (ValidationError, OverflowError) as error:
        raise InvalidInput(f"a {step.record.__name__} cannot hold that: {error}") from None


def touched_alike(step: Touch) -> tuple[Hashable, ...]:
    """What touches have in common that one statement can write: the fields, and the very values that are put. Those
    that are merely equal may be others: 1 and True in JSON.
    """
    put = ((name, type(value), value if type(value) in _ALIKE else id(value)) for name, value in step.put.items())
    return step.record, tuple(step.add), *put


_ALIKE = frozenset({str, int, bool, bytes, type(None)})  # moments of two hours that a clock has twice are equal, too


def check_added(step: Touch) -> None:
    """What is to be added are numbers that the fields take."""
    for name, amount in step.add.items():
        wanted = column(step.record, name).type
        if wanted not in ("integer", "real"):
            raise InvalidInput(f"'{name}' of {step.record.__name__} is not a number")
        if isinstance(amount, bool) or not isinstance(amount, _TYPES[wanted]):
            raise InvalidInput(f"'{name}' of {step.record.__name__} is {wanted}, not {type(amount).__name__}")
        _check_scalar(amount, name)


@cache
def _guarded(record: type[Record]) -> frozenset[str]:
    shape = record.shape
    unique = [name for key in shape.unique for name in key.fields]
    text = (*shape.text.fields, *shape.text.facets) if shape.text else ()
    return frozenset(("organization_id", "id", "version", "is_deleted", *shape.references, *unique, *text))


@cache
def _field(record: type[Record], name: str) -> TypeAdapter[object]:
    info = record.model_fields[name]
    return TypeAdapter(cast(Any, Annotated[info.annotation, info]))
