"""contextual_memory_pc2: pieces of context with their vectors, tags and times."""

from __future__ import annotations

from collections.abc import Iterator

from recollect.domain.record import JsonObject
from recollect.services.importers.entries import Entry, Reading, Source
from recollect.services.importers.field_map import FieldMap, decoded, words
from recollect.services.importers.objects import fields_at_first, objects
from recollect.services.importers.origin import Origin
from recollect.services.importers.vectors import with_vector

CONTEXTS = FieldMap(
    "context",
    {
        "context_id": "memory.id",
        "session_id": "memory.session",
        "context_data": "memory.content",
        "embedding": "memory.vector",
        "embedding_model": "memory.vector_model",
        "created_at": "memory.created_at",
        "expires_at": "memory.expires_at",
        "source_agent": "memory.source_agent",
        "tags": "memory.tags",
    },
)
WRAPPERS = ("contexts", "memories")


def recognises(origin: Origin) -> bool:
    return {"context_id", "context_data"} <= fields_at_first(origin, WRAPPERS)


def read(reading: Reading) -> Iterator[Entry]:
    for item in objects(reading, CONTEXTS, "context_id", WRAPPERS):
        of, rest = CONTEXTS.read(item, reading.findings)
        memory = with_vector(reading, CONTEXTS.what, of.get("memory", {}))
        if "id" not in memory:
            reading.findings.left_out(CONTEXTS.what, item.get("context_id"), "its context_id is not an id")
            continue
        yield from reading.memory({**memory, "kind": "context", "content": content(memory.get("content"))}, rest)


def content(data: object) -> JsonObject:
    """The data as they are; where they have no text, their fields are what is searched."""
    found = decoded(data)
    if not isinstance(found, dict):
        return {"text": words(found) if found is not None else ""}
    if isinstance(found.get("text"), str) and found["text"].strip():
        return found
    lines = [f"{name}: {words(value)}" for name, value in found.items() if value not in (None, "", [], {})]
    return {**found, "text": "\n".join(lines)}


SOURCE = Source(
    "contextual-memory-pc2",
    "contextual_memory_pc2",
    "JSON, JSON Lines, or a SQLite table with a column context_id",
    (CONTEXTS,),
    recognises,
    read,
)
