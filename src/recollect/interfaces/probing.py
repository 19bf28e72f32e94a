"""Requests for every operation, made from the catalogue alone: for tests that try all of them."""

from __future__ import annotations

import types
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from recollect.catalogue import OPERATIONS, Operation
from recollect.domain.record import Id

KNOWN: dict[str, Any] = {
    "content": "the sky is blue",
    "cites": ["user:ann:said so"],
    "memories": ["the sky is blue"],
    "timezone": "UTC",
    "email": None,
    "metadata": {},
    "vector": None,
    "after": None,
    "path": "notes.txt",
    "anchor": None,
    "sql": "SELECT 1",
}
"""What a value of the right shape would be where the type alone does not say."""


def operations() -> list[Operation]:
    return [one for one in OPERATIONS.values() if not one.local]


def id_fields(operation: Operation) -> Iterator[tuple[str, bool]]:
    """The fields that name a record, and whether they name several."""
    for name, hint in get_type_hints(operation.request, include_extras=True).items():
        if name in operation.request.model_fields:
            for option in options(hint):
                if option == Id:
                    yield name, False
                elif get_origin(option) is list and get_args(option) and get_args(option)[0] in (Id, str):
                    yield name, True


def sample(operation: Operation, **given: Any) -> dict[str, Any]:
    """The required fields with values of the right shape, and the given ones."""
    fields = {name: one for name, one in operation.request.model_fields.items() if one.is_required()}
    return {name: value_for(name, one.annotation) for name, one in fields.items() if name not in given} | given


def value_for(name: str, annotation: Any) -> Any:
    if name in KNOWN and KNOWN[name] is not None:
        return KNOWN[name]
    option = next(iter(options(annotation)))
    while get_origin(option) is Annotated:
        option = get_args(option)[0]
    if get_origin(option) is Literal:
        return get_args(option)[0]
    if isinstance(option, type) and issubclass(option, BaseModel):
        return {
            inner: value_for(inner, one.annotation) for inner, one in option.model_fields.items() if one.is_required()
        }
    plain = {int: 1, float: 0.5, bool: True, datetime: datetime(2026, 1, 1, tzinfo=UTC).isoformat(), bytes: "AAAA"}
    if option in plain:
        return plain[option]
    origin = get_origin(option) or option
    if origin is list:
        inner = get_args(option)
        return [value_for("", inner[0])] if inner else []
    return {} if origin is dict else "something"


def options(annotation: Any) -> list[Any]:
    """The types that a field takes."""
    if get_origin(annotation) in (Union, types.UnionType):
        return [one for one in get_args(annotation) if one is not type(None)]
    return [annotation]
