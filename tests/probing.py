"""Requests for every operation, made from the catalogue alone: what the probes of all doors share."""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from recollect.catalogue import OPERATIONS, Operation
from recollect.domain.record import Id

MARKER = "zanzibar"  # stands in everything that the other tenant has
# What a value of the right shape would be where the type alone does not say.
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
}


def operations() -> list[Operation]:
    return [one for one in OPERATIONS.values() if not one.local]


def id_fields(operation: Operation) -> Iterator[tuple[str, bool]]:
    """The fields that name a record, and whether they name several."""
    for name, hint in get_type_hints(operation.request, include_extras=True).items():
        if name in operation.request.model_fields:
            for option in _options(hint):
                if option == Id:
                    yield name, False
                elif get_origin(option) is list and get_args(option) and get_args(option)[0] in (Id, str):
                    yield name, True


class Place(NamedTuple):
    """Somewhere in the fields of an operation that takes an id, or any text that may be one."""

    label: str
    names_a_record: bool
    fields: Callable[[str], dict[str, Any]]


def places(operation: Operation) -> list[Place]:
    """In fields and lists, in the bodies inside them, in filters, as a key or a value, and in citations."""
    named = dict(id_fields(operation))
    hints = get_type_hints(operation.request, include_extras=True)
    found = []
    for name in operation.request.model_fields:
        if name in FREE:
            continue
        for label, made in _holding(name, hints[name]):
            found.append(Place(f"{name}{label}", name in named, lambda id, n=name, m=made: {n: m(id)}))  # type: ignore[misc]
    return found


def _holding(name: str, hint: Any) -> Iterator[tuple[str, Callable[[str], Any]]]:
    if name == "cites":
        for form in CITATIONS:
            yield f" {form}", lambda id, form=form: [form.replace("ID", id)]  # type: ignore[misc]
        for inner in CITED:
            yield f" {sorted(inner)}", lambda id, inner=inner: [json.loads(json.dumps(inner).replace("ID", id))]  # type: ignore[misc]
        return
    for option in _options(hint):
        yield from _inside(name, option)


def _inside(name: str, option: Any) -> Iterator[tuple[str, Callable[[str], Any]]]:
    while get_origin(option) is Annotated:
        option = get_args(option)[0]
    origin, inner = get_origin(option) or option, get_args(option)
    if option in (str, Any):
        yield "", lambda id: id
    elif origin is list:
        for label, made in _holding("", inner[0] if inner else Any):
            yield f"[]{label}", lambda id, made=made: [made(id)]  # type: ignore[misc]
    elif origin is dict:
        for label, made in _holding("", inner[1] if inner else Any):
            yield f".x{label}", lambda id, made=made: {"x": made(id)}  # type: ignore[misc]
        yield ".key", lambda id: {id: value_for("", inner[1]) if inner and inner[1] is not Any else id}
    elif isinstance(option, type) and issubclass(option, BaseModel):
        whole = value_for(name, option)
        for field, hint in get_type_hints(option, include_extras=True).items():
            if field in option.model_fields and field not in FREE:
                for label, made in _holding(field, hint):
                    yield f".{field}{label}", lambda id, made=made, field=field: {**whole, field: made(id)}  # type: ignore[misc]


# What is read for its meaning: another text is another answer, whoever has it.
FREE = frozenset(
    {"query", "task", "text", "texts", "content", "goal", "vector", "timezone", "email", "type", "kind", "password"}
)
CITATIONS = ("user:ID:said so", "log:ID", "file:workspace:ID/notes/plan.md:1-2", "commit:1a2b3c4@ID", "file:ID:1-2")
CITED: tuple[dict[str, Any], ...] = (
    {"type": "user", "user_id": "ID", "comment": "said so"},
    {"type": "log", "log_id": "ID"},
    {"type": "file", "path": "notes/plan.md", "workspace": "ID", "first_line": 1, "last_line": 1},
)


def sample(operation: Operation, **given: Any) -> dict[str, Any]:
    """The required fields with values of the right shape, and the given ones."""
    fields = {name: one for name, one in operation.request.model_fields.items() if one.is_required()}
    return {name: value_for(name, one.annotation) for name, one in fields.items() if name not in given} | given


def value_for(name: str, annotation: Any) -> Any:
    if name in KNOWN and KNOWN[name] is not None:
        return KNOWN[name]
    option = next(iter(_options(annotation)))
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


def _options(annotation: Any) -> list[Any]:
    if get_origin(annotation) in (Union, types.UnionType):
        return [one for one in get_args(annotation) if one is not type(None)]
    return [annotation]
