"""The file of the MCP memory server: a graph of entities and relations, one JSON object per line.

Each line is cited, so a memory says where it comes from. A graph as `read_graph` shows it can be read, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from recollect.domain.provenance import line_hash
from recollect.domain.record import JsonObject
from recollect.services.importers.entities import entity, named, relation
from recollect.services.importers.entries import Entry, Reading, Source
from recollect.services.importers.field_map import NOT_MAPPED, FieldMap, words
from recollect.services.importers.json_stream import values
from recollect.services.importers.objects import fields_at_first
from recollect.services.importers.origin import Origin

ENTITIES = FieldMap(
    "entity",
    {
        "name": "content.name",
        "entityType": "content.type",
        "observations": "content.observations",
        "type": NOT_MAPPED,
    },
)
RELATIONS = FieldMap(
    "relation",
    {
        "from": "link.start: where the link begins",
        "to": "link.end: where the link ends",
        "relationType": "link.type: the type of the link",
        "type": NOT_MAPPED,
    },
)
WRAPPERS = ("entities", "relations")
FILES = ("memory.jsonl", "memory.json")
LONGEST_LINE = 16 << 20


def recognises(origin: Origin) -> bool:
    if origin.is_folder:
        return any(map(origin.has, FILES))
    found = fields_at_first(origin, WRAPPERS)
    return {"entityType", "name"} <= found or {"from", "to", "relationType"} <= found


def read(reading: Reading) -> Iterator[Entry]:
    """Entities first, since relations lead to them wherever they stand in the file."""
    known: set[str] = set()
    for kind, item, cites in _items(reading):
        of, rest = ENTITIES.read(item, reading.findings) if kind == "entity" else (None, {})
        if of is None:
            continue
        content = of.get("content", {})
        if not isinstance(content.get("name"), str):
            reading.findings.left_out(ENTITIES.what, item.get("name"), "it has no name")
        elif content["name"] not in known:
            known.add(content["name"])
            listed = content.get("observations", [])
            observations = [words(one) for one in (listed if isinstance(listed, list) else [listed])]
            yield from entity(reading, {**content, "observations": observations}, rest, cites)
    for kind, item, _ in _items(reading):
        if kind == "relation":
            of, _rest = RELATIONS.read(item, reading.findings)
            link = of.get("link", {})
            for name in (link.get("start"), link.get("end")):
                if isinstance(name, str) and 0 < len(name) <= 255 and name not in known:
                    yield from named(reading, name, mentioned_only=True)
            yield from relation(reading, RELATIONS.what, link.get("start"), link.get("end"), link.get("type"))


def _items(reading: Reading) -> Iterator[tuple[str, JsonObject, list[JsonObject]]]:
    """Entities and relations, each with the citation of its line."""
    origin = reading.origin
    if not _has_lines(origin):
        with origin.open(*FILES) as file:
            for key, value in values(file, origin.name, WRAPPERS):
                if isinstance(value, dict) and key:
                    yield key.removesuffix("ies") + "y" if key == "entities" else "relation", value, []
        return
    with origin.open(*FILES) as file:
        name = origin.path / next(filter(origin.has, FILES)) if origin.is_folder else origin.path
        for number, raw in enumerate(iter(lambda: file.readline(LONGEST_LINE), b""), 1):
            line = raw.decode("utf-8", "replace").rstrip("\r\n")
            if not line.strip():
                continue
            found = _parsed(line)
            if found is None or found.get("type") not in ("entity", "relation"):
                reading.findings.left_out("line", f"line {number}", "it is neither an entity nor a relation")
                continue
            lines = {"first_line": number, "last_line": number, "line_hash": line_hash([line])}
            cites = [{"type": "file", "path": str(name.absolute()), **lines}] if origin.can_be_cited else []
            yield str(found["type"]), found, cites


def _has_lines(origin: Origin) -> bool:
    with origin.open(*FILES) as file:
        found = _parsed(file.readline(LONGEST_LINE).decode("utf-8", "replace"))
    return found is not None and "type" in found


def _parsed(line: str) -> JsonObject | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


SOURCE = Source(
    "mcp-memory",
    "the MCP memory server",
    "memory.jsonl, memory.json, or a graph as `read_graph` shows it",
    (ENTITIES, RELATIONS),
    recognises,
    read,
)
