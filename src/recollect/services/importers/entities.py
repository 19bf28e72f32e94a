"""Entities and the relations between them, as memories of the kind `entity` and links."""

from __future__ import annotations

from collections.abc import Iterator

from recollect.domain.memory import Memory, Relationship, entity_key
from recollect.domain.record import JsonObject, derived_id
from recollect.services.importers.entries import Entry, Reading


def entity_id(name: str) -> str:
    return derived_id("imported entity", name)


def entity(reading: Reading, content: JsonObject, rest: JsonObject, cites: list[JsonObject]) -> Iterator[Entry]:
    """An entity with a name, which is the only one of that name: the idempotency key sees to it."""
    name = content["name"]
    keys = {"id": entity_id(name), "idempotency_key": entity_key(name)}
    yield from reading.memory({**keys, "kind": "entity", "content": content, "cites": cites}, rest)


def relation(reading: Reading, what: str, start: object, end: object, type: object) -> Iterator[Entry]:
    """A link between two entities by name."""
    label = f"{start} → {end}"
    if not all(isinstance(one, str) and 0 < len(one) <= 255 for one in (start, end, type)):
        reading.findings.left_out(what, label, "its ends and its type must be texts of 1 to 255 characters")
    elif start == end or type == "supersedes":
        reading.findings.left_out(what, label, "a link to itself, or one that replaces a memory, cannot be imported")
    else:
        ends = (entity_id(str(start)), entity_id(str(end)))
        fields = {"id": derived_id("imported link", *ends, str(type)), "source_id": ends[0], "target_id": ends[1]}
        yield Entry(Relationship, {**fields, "type": type})


def named(reading: Reading, name: str, **content: object) -> Iterator[Entry]:
    """An entity of which only the name is known."""
    fields = {"idempotency_key": entity_key(name), "kind": "entity", "content": {"name": name, **content}}
    yield from reading.once(Memory, entity_id(name), **fields, metadata=reading.kept({}, {}))
