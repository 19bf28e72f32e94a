"""Vectors of a source: kept when the model that made them is known, else made anew."""

from __future__ import annotations

from recollect.domain.record import JsonObject
from recollect.services.importers.entries import Reading

UNKNOWN_MODEL = (
    "the source does not say which model made its vectors: name it with --vector-model to keep them;"
    " without, the text is embedded anew"
)


def with_vector(reading: Reading, what: str, memory: JsonObject) -> JsonObject:
    """The fields of a memory, with its vector only where the model has a name."""
    model = memory.get("vector_model") or reading.vector_model
    fields = {name: value for name, value in memory.items() if name not in ("vector", "vector_model")}
    if "vector" not in memory:
        return fields
    if not model:
        reading.findings.unmapped(what, "embedding", UNKNOWN_MODEL, memory.get("id", ""))
        return fields
    return {**fields, "vector": memory["vector"], "vector_model": str(model)[:255]}
