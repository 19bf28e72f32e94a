"""LangGraph: its stores and checkpointers, as SQLite files or as dumps of PostgreSQL.

Items of a store become items. Checkpoints are moved with their values as they are: the values are LangGraph's own
objects, and its saver on Recollect reads them. Values that were encrypted cannot be moved.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import groupby

from recollect.domain.checkpoints import Checkpoint, CheckpointLine, CheckpointWrites, checkpoint_key, line_id
from recollect.domain.key_value import Item, item_id, path_of
from recollect.domain.record import JsonObject, derived_id
from recollect.services.importers.entries import Entry, Reading, Source
from recollect.services.importers.field_map import NOT_MAPPED, FieldMap, clean, decoded, words
from recollect.services.importers.msgpack import Packed, members, packed
from recollect.services.importers.origin import Origin
from recollect.services.importers.postgres_dump import bytea, dumped_tables, is_dump
from recollect.services.importers.sqlite_tables import SqliteTables, tables_of

ITEMS = FieldMap(
    "store",
    {
        "prefix": "item.prefix: the namespace, cut at its dots",
        "key": "item.key",
        "value": "item.value",
        "created_at": "item.created_at",
        "updated_at": "item.updated_at",
        "expires_at": "item.expires_at",
        "ttl_minutes": "item.ttl_minutes",
    },
)
VECTORS = FieldMap("store_vectors", {"embedding": NOT_MAPPED})
CHECKPOINTS = FieldMap(
    "checkpoints",
    {
        "thread_id": "checkpoint.thread",
        "checkpoint_ns": "checkpoint.namespace",
        "checkpoint_id": "checkpoint.checkpoint_id",
        "parent_checkpoint_id": "checkpoint.parent_id",
        "checkpoint": "checkpoint.body",
        "type": "checkpoint.form: how the body is written",
        "metadata": "checkpoint.metadata",
    },
)
WRITES = FieldMap(
    "writes",
    {
        "task_id": "checkpoint_writes.task_id",
        "task_path": "checkpoint_writes.task_path",
        "idx": "checkpoint_writes.slots",
        "channel": "checkpoint_writes.slots",
        "type": "checkpoint_writes.data",
        "value": "checkpoint_writes.data",
        "blob": "checkpoint_writes.data",
    },
)
TABLES = ("store", "store_vectors", "checkpoints", "checkpoint_blobs", "checkpoint_writes", "writes")
DELTAS = "counters_since_delta_snapshot"
FORMS = ("msgpack", "json", "null", "bytes", "bytearray")
_LINE = ("thread_id", "checkpoint_ns")
_TASK = (*_LINE, "checkpoint_id", "task_id")
Values = Callable[[JsonObject, JsonObject], dict[str, bytes]]
"""The values of a checkpoint that stand in another table, given its row and its body."""


def recognises(origin: Origin) -> bool:
    if is_dump(origin):
        with dumped_tables(origin, ("store", "checkpoints")) as tables:
            return bool(tables.columns)
    if origin.is_folder or not origin.is_sqlite:
        return False
    with tables_of(origin.path) as tables:
        return tables.with_columns("prefix", "key", "value") == "store" or "checkpoints" in tables.columns


def read(reading: Reading) -> Iterator[Entry]:
    origin = reading.origin
    dumped = is_dump(origin)
    if not dumped and not origin.is_sqlite:
        raise origin.lacks("tables of LangGraph")
    opened: AbstractContextManager[SqliteTables] = dumped_tables(origin, TABLES) if dumped else tables_of(origin.path)
    with opened as tables:
        if not {"store", "checkpoints"} & tables.columns.keys():
            raise origin.lacks("table store", "table checkpoints")
        if "store" in tables.columns:
            yield from _items(reading, tables)
        if "checkpoints" in tables.columns:
            yield from _checkpoints(reading, tables)


def _items(reading: Reading, tables: SqliteTables) -> Iterator[Entry]:
    for row in tables.rows("store", ("prefix", "key")):
        of, _ = ITEMS.read({**row, "value": None}, reading.findings)
        item, value = (
            of.get("item", {}),
            decoded(row["value"] if isinstance(row["value"], str) else _text(row["value"])),
        )
        namespace = words(item.pop("prefix", "")).split(".")
        key = words(item.get("key", ""))
        path = path_of(namespace)
        kept = clean(value) if isinstance(value, dict) else {"value": clean(value)}
        ttl = item.pop("ttl_minutes", None)
        ttl = {"ttl_minutes": float(ttl)} if ttl else {}
        fields = {"id": item_id(path, key), "path": path, "namespace": namespace, "key": key, "value": kept}
        yield Entry(Item, {**item, **fields, **ttl})
    if tables.columns.get("store_vectors"):
        count = sum(1 for _ in tables.rows("store_vectors"))
        if count:
            reading.findings.unmapped(VECTORS.what, "embedding", "items are embedded anew, so that questions find them")


def _text(raw: object) -> str:
    return raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw)


# -- checkpoints -------------------------------------------------------------------------------------------------------


def _checkpoints(reading: Reading, tables: SqliteTables) -> Iterator[Entry]:
    blobs = _blobs(tables) if "checkpoint_blobs" in tables.columns else None
    for row in tables.rows("checkpoints", (*_LINE, "checkpoint_id")):
        thread, namespace = words(row["thread_id"]), words(row["checkpoint_ns"] or "")
        yield from _line(reading, thread, namespace)
        metadata = decoded(_text(row["metadata"] or "{}"))
        known = clean(metadata) if isinstance(metadata, dict) else {}
        try:
            body, channels = _body(row, blobs)
        except ValueError as error:
            reading.findings.left_out(CHECKPOINTS.what, row["checkpoint_id"], f"its values cannot be moved: {error}")
            continue
        deltas = known.get(DELTAS) if isinstance(known, dict) else None
        line, id = line_id(thread, namespace), words(row["checkpoint_id"])
        fields = {
            "id": checkpoint_key(line, id),
            "line_id": line,
            "checkpoint_id": id,
            "parent_id": row["parent_checkpoint_id"] or None,
            "metadata": known,
            "body": body,
            "lacks": [one for one in deltas if one not in channels] if isinstance(deltas, dict | list) else [],
        }
        run = known.get("run_id") if isinstance(known, dict) else None
        yield Entry(Checkpoint, fields | ({"run_id": words(run)} if run else {}))
    for table in ("writes", "checkpoint_writes"):
        if table in tables.columns:
            yield from _writes(reading, tables, table)


def _line(reading: Reading, thread: str, namespace: str) -> Iterator[Entry]:
    """Its first version is random, as that of every line: one that is made again is not taken for the one before."""
    version = 1 + secrets.randbits(40)
    fields = {"thread": thread, "namespace": namespace, "version": version}
    yield from reading.once(CheckpointLine, line_id(thread, namespace), **fields)


def _body(row: JsonObject, blobs: Values | None) -> tuple[bytes, set[str]]:
    """The body of a checkpoint as our saver writes it, with every value in it; and which values it has."""
    form = words(row.get("type") or ("json" if blobs else "msgpack"))
    if form not in ("msgpack", "json"):
        raise ValueError(f"they are written as '{form[:40]}'")
    if form == "msgpack":
        whole: dict[str, object] = {name: Packed(raw) for name, raw in members(row["checkpoint"]).items()}
        inner = members(row["checkpoint"]).get("channel_values", b"\x80")
        values = {name: _dumped("msgpack", raw) for name, raw in members(inner).items()}
    else:
        found = json.loads(_text(row["checkpoint"]))
        if not isinstance(found, dict):
            raise ValueError("it is not a checkpoint")
        whole = found
        inline = found.get("channel_values") or {}
        values = {name: _dumped("json", json.dumps(value).encode()) for name, value in inline.items()}
        values |= blobs(row, found) if blobs else {}
    whole = {**whole, "channel_values": {name: ["=", value] for name, value in values.items()}}
    return _dumped("msgpack", packed(whole)), set(values)


def _dumped(form: str, raw: bytes) -> bytes:
    """A value with the name of its form before it."""
    if form not in FORMS:
        raise ValueError(f"they are written as '{form[:40]}'")
    return bytes([len(form)]) + form.encode() + raw


def _blobs(tables: SqliteTables) -> Values:
    """PostgreSQL has the values of a checkpoint beside it, by channel and version."""
    found = tables.lookup("checkpoint_blobs", "thread_id", "checkpoint_ns", "channel", "version")

    def of(row: JsonObject, body: JsonObject) -> dict[str, bytes]:
        values: dict[str, bytes] = {}
        for channel, version in (body.get("channel_versions") or {}).items():
            for blob in found(row["thread_id"], row["checkpoint_ns"], channel, version):
                if blob["type"] != "empty":
                    values[channel] = _dumped(words(blob["type"]), bytea(blob["blob"]))
        return values

    return of


def _writes(reading: Reading, tables: SqliteTables, table: str) -> Iterator[Entry]:
    rows = tables.rows(table, _TASK)
    for key, some in groupby(rows, key=lambda row: tuple(row[name] for name in _TASK)):
        thread, namespace, checkpoint, task = map(words, (key[0], key[1] or "", key[2], key[3]))
        yield from _line(reading, thread, namespace)
        listed = sorted(some, key=lambda row: int(row["idx"]))
        try:
            values = [
                _dumped(words(row["type"] or "null"), bytea(row["value" if table == "writes" else "blob"]))
                for row in listed
            ]
        except ValueError as error:
            reading.findings.left_out(WRITES.what, task, f"its values cannot be moved: {error}")
            continue
        line = line_id(thread, namespace)
        fields = {"line_id": line, "checkpoint_id": checkpoint, "task_id": task}
        slots = [[int(row["idx"]), words(row["channel"])] for row in listed]
        path = words(listed[0].get("task_path") or "")
        id = derived_id("writes", line, checkpoint, task)
        yield Entry(CheckpointWrites, {"id": id, **fields, "task_path": path, "slots": slots, "data": values})


SOURCE = Source(
    "langgraph",
    "LangGraph",
    "a SQLite file of its store or checkpointer, or a plain dump of the PostgreSQL tables",
    (ITEMS, VECTORS, CHECKPOINTS, WRITES),
    recognises,
    read,
)
