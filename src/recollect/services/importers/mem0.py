"""mem0: exported JSON, the folder of its local Qdrant, and the SQLite file of its history.

mem0 keeps the metadata of a memory beside its own fields in the payload of a point; its history says what a memory was
before. A memory with a role is what somebody said, word for word; others were extracted by a language model, and cite
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from itertools import groupby
from pathlib import Path

from recollect.domain.record import JsonObject
from recollect.services.importers.entities import named, relation
from recollect.services.importers.entries import Entry, Reading, Source
from recollect.services.importers.field_map import NOT_MAPPED, FieldMap, clean
from recollect.services.importers.json_stream import values
from recollect.services.importers.objects import fields_at_first
from recollect.services.importers.origin import Origin
from recollect.services.importers.pickled import pickled_data
from recollect.services.importers.sqlite_tables import Lookup, SqliteTables, tables_of
from recollect.services.importers.vectors import with_vector

MEMORIES = FieldMap(
    "memory",
    {
        "id": "memory.id",
        "memory": "memory.content",
        "data": "memory.content",
        "user_id": "memory.user",
        "agent_id": "memory.agent",
        "run_id": "memory.session",
        "actor_id": "memory.author",
        "role": "memory.role: the author, where no actor is named",
        "created_at": "memory.created_at",
        "updated_at": "memory.updated_at",
        "expiration_date": "memory.expires_at",
        "categories": "memory.tags",
        "metadata": "memory.metadata",
        "vector": "memory.vector",
        "embedding": "memory.vector",
        "hash": NOT_MAPPED,
        "score": NOT_MAPPED,
        "text_lemmatized": NOT_MAPPED,
    },
)
RELATIONS = FieldMap(
    "relation",
    {
        "source": "link.start: where the link begins",
        "relationship": "link.type: the type of the link",
        "relation": "link.type: the type of the link",
        "target": "link.end: where the link ends",
    },
)
HISTORY = FieldMap(
    "history",
    {
        "memory_id": "memory.id",
        "new_memory": "memory.content",
        "created_at": "memory.created_at",
        "updated_at": "memory.updated_at",
        "actor_id": "memory.author",
        "role": "memory.role: the author, where no actor is named",
        "old_memory": "history.before: in the metadata, under `imported`",
        "event": NOT_MAPPED,
        "id": NOT_MAPPED,
        "is_deleted": NOT_MAPPED,
    },
)
WRAPPERS = ("results", "memories", "relations", "points")
_STORAGES = ("storage.sqlite", "*/storage.sqlite", "collection/*/storage.sqlite", "*/collection/*/storage.sqlite")


def recognises(origin: Origin) -> bool:
    if origin.is_folder:
        return bool(_storages(origin.path)) or origin.has("history.db")
    found = fields_at_first(origin, WRAPPERS)
    return {"id", "memory"} <= found or {"memory_id", "old_memory", "new_memory"} <= found or {"payload"} <= found


def read(reading: Reading) -> Iterator[Entry]:
    origin = reading.origin
    if origin.is_folder:
        storages, history = _storages(origin.path), origin.path / "history.db"
        if not storages and not origin.has("history.db"):
            raise origin.lacks("storage.sqlite of Qdrant", "history.db")
        with tables_of(history) if origin.has("history.db") else nullcontext() as known:
            events = known.lookup("history", "memory_id") if known and "history" in known.columns else None
            for storage in storages:
                with tables_of(storage) as tables:
                    yield from _points(reading, tables, events)
            if not storages and known:
                yield from _history(reading, known)
    elif origin.is_sqlite:
        with tables_of(origin.path) as tables:
            if "points" in tables.columns:
                yield from _points(reading, tables)
            elif "history" in tables.columns:
                yield from _history(reading, tables)
            else:
                raise origin.lacks("table points or history")
    else:
        yield from _export(reading)


def _storages(folder: Path) -> list[Path]:
    """The databases of Qdrant's collections; none that a link leads to."""
    root = folder.resolve()
    found = {path for pattern in _STORAGES for path in folder.glob(pattern)}
    return sorted(path for path in found if path.resolve() == root / path.relative_to(folder) and path.is_file())


def _export(reading: Reading) -> Iterator[Entry]:
    with reading.origin.open("mem0.json", "memories.json") as file:
        for key, value in values(file, reading.origin.name, WRAPPERS):
            if not isinstance(value, dict):
                reading.findings.left_out(MEMORIES.what, str(value)[:40], "it is not a JSON object")
            elif key == "relations":
                yield from _relation(reading, value)
            elif "payload" in value:
                yield from _point(reading, value)
            elif "memory" in value:
                yield from _memory(reading, value)
            elif isinstance(inner := value.get("result"), dict) and isinstance(inner.get("points"), list):
                for point in inner["points"]:
                    yield from _point(reading, point if isinstance(point, dict) else {})
            else:
                reading.findings.left_out(MEMORIES.what, ", ".join(list(value)[:5]), "it has no memory")


def _points(reading: Reading, tables: SqliteTables, events: Lookup | None = None) -> Iterator[Entry]:
    for row in tables.rows("points", ("id",)):
        try:
            point = pickled_data(row["point"])
        except (ValueError, TypeError) as error:
            reading.findings.left_out("point", row["id"], f"{error}")
            continue
        yield from _point(reading, point if isinstance(point, dict) else {}, events)


def _point(reading: Reading, point: JsonObject, events: Lookup | None = None) -> Iterator[Entry]:
    """A point of Qdrant: what of its payload is not mem0's own is the metadata of the memory."""
    payload = point.get("payload")
    if not isinstance(payload, dict) or not payload.get("data"):
        reading.findings.left_out("point", point.get("id", ""), "its payload has no data")
        return
    own = {name: value for name, value in payload.items() if name in MEMORIES.fields and name != "metadata"}
    more = {name: value for name, value in payload.items() if name not in own}
    vector = point.get("vector")
    vector = next(iter(vector.values()), None) if isinstance(vector, dict) else vector
    before = _former(events(point.get("id"))) if events else []
    yield from _memory(reading, {"id": point.get("id"), **own, "metadata": more, "vector": vector}, before)


def _memory(reading: Reading, item: JsonObject, history: list[JsonObject] | None = None) -> Iterator[Entry]:
    of, rest = MEMORIES.read(item, reading.findings)
    memory = with_vector(reading, MEMORIES.what, of.get("memory", {}))
    if "id" not in memory:
        reading.findings.left_out(MEMORIES.what, item.get("id"), "it has no id")
        return
    if memory.get("role") == "user" and memory.get("user") and memory.get("content"):
        memory["cites"] = [{"type": "user", "user_id": memory["user"], "comment": memory["content"]}]
    yield from reading.memory(_authored(memory), {**rest, **({"history": history} if history else {})})


def _authored(memory: JsonObject) -> JsonObject:
    """With who said it: the name of the actor, else the role."""
    author = memory.get("author") or memory.get("role")
    fields = {name: value for name, value in memory.items() if name != "role"}
    return {**fields, "author": author} if author else fields


def _relation(reading: Reading, item: JsonObject) -> Iterator[Entry]:
    of, _ = RELATIONS.read(item, reading.findings)
    link = of.get("link", {})
    for name in (link.get("start"), link.get("end")):
        if isinstance(name, str) and 0 < len(name) <= 255:
            yield from named(reading, name)
    yield from relation(reading, RELATIONS.what, link.get("start"), link.get("end"), link.get("type"))


def _history(reading: Reading, tables: SqliteTables) -> Iterator[Entry]:
    """Each memory as its last event left it, with what it was before."""
    rows = tables.rows("history", ("memory_id", "created_at", "updated_at"))
    for id, some in groupby(rows, key=lambda row: row["memory_id"]):
        events = list(some)
        last = events[-1]
        if last.get("is_deleted") or last.get("event") == "DELETE":
            reading.findings.left_out(HISTORY.what, id, "mem0 has deleted it")
            continue
        of, _ = HISTORY.read({**last, "created_at": events[0]["created_at"]}, reading.findings)
        before = _former(events)
        memory = of.get("memory", {})
        if "id" in memory:
            yield from reading.memory(_authored(memory), {"history": before} if before else {})


def _former(events: list[JsonObject]) -> list[JsonObject]:
    """What a memory said before each change."""
    return [
        {"memory": clean(one["old_memory"]), "until": str(one.get("updated_at") or one.get("created_at"))}
        for one in events
        if one.get("old_memory")
    ]


SOURCE = Source(
    "mem0",
    "mem0",
    "exported JSON, the folder of a local Qdrant, or history.db",
    (MEMORIES, RELATIONS, HISTORY),
    recognises,
    read,
)
