"""Where an id can be put into the requests of every operation: what the probes of all doors share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from recollect.catalogue import Operation
from recollect.interfaces.probing import id_fields, operations, options, sample, value_for

__all__ = ["MARKER", "Place", "id_fields", "operations", "places", "sample", "value_for"]

MARKER = "zanzibar"  # stands in everything that the other tenant has


class Place(NamedTuple):
    """Somewhere in the fields of an operation that takes an id, or any text that may be one."""

    label: str
    names_a_record: bool
    fields: Callable[[str], dict[str, Any]]


def places(operation: Operation, but: frozenset[str] | None = None) -> list[Place]:
    """In fields and lists, in the bodies inside them, in filters, as a key or a value, and in citations.

    Without the fields in `but`: by default those where a text is not looked up.
    """
    but = FREE if but is None else but
    named = dict(id_fields(operation))
    hints = get_type_hints(operation.request, include_extras=True)
    found = []
    for name in operation.request.model_fields:
        if name in but:
            continue
        for label, made in _holding(name, hints[name], but):
            found.append(Place(f"{name}{label}", name in named, lambda id, n=name, m=made: {n: m(id)}))  # type: ignore[misc]
    return found


def _holding(name: str, hint: Any, but: frozenset[str]) -> Iterator[tuple[str, Callable[[str], Any]]]:
    if name == "cites":
        for form in CITATIONS:
            yield f" {form}", lambda id, form=form: [form.replace("ID", id)]  # type: ignore[misc]
        for inner in CITED:
            yield f" {sorted(inner)}", lambda id, inner=inner: [json.loads(json.dumps(inner).replace("ID", id))]  # type: ignore[misc]
        return
    for option in options(hint):
        yield from _inside(name, option, but)


def _inside(name: str, option: Any, but: frozenset[str]) -> Iterator[tuple[str, Callable[[str], Any]]]:
    while get_origin(option) is Annotated:
        option = get_args(option)[0]
    origin, inner = get_origin(option) or option, get_args(option)
    if option in (str, Any):
        yield "", lambda id: id
    elif origin is list:
        for label, made in _holding("", inner[0] if inner else Any, but):
            yield f"[]{label}", lambda id, made=made: [made(id)]  # type: ignore[misc]
    elif origin is dict:
        for label, made in _holding("", inner[1] if inner else Any, but):
            yield f".x{label}", lambda id, made=made: {"x": made(id)}  # type: ignore[misc]
        yield ".key", lambda id: {id: value_for("", inner[1]) if inner and inner[1] is not Any else id}
    elif isinstance(option, type) and issubclass(option, BaseModel):
        whole = value_for(name, option)
        for field, hint in get_type_hints(option, include_extras=True).items():
            if field in option.model_fields and field not in but:
                for label, made in _holding(field, hint, but):
                    yield f".{field}{label}", lambda id, made=made, field=field: {**whole, field: made(id)}  # type: ignore[misc]


# What is read for its meaning: another text is another answer, whoever has it.
FREE = frozenset(
    {
        "base64",
        "query",
        "task",
        "text",
        "texts",
        "content",
        "goal",
        "vector",
        "timezone",
        "email",
        "type",
        "kind",
        "password",
        "sql",
    }
)
CITATIONS = (
    "user:ID:said so",
    "log:ID",
    "file:workspace:ID/notes/plan.md:1-2",
    "commit:1a2b3c4@ID",
    "file:ID:1-2",
    "query:ID",
)
CITED: tuple[dict[str, Any], ...] = (
    {"type": "user", "user_id": "ID", "comment": "said so"},
    {"type": "log", "log_id": "ID"},
    {"type": "file", "path": "notes/plan.md", "workspace": "ID", "first_line": 1, "last_line": 1},
    {"type": "query", "run": "ID"},
    {"type": "query", "run": "x", "sources": {"ID": {"name": "x", "hash": "x"}}, "tables": {"x": "ID"}},
)
