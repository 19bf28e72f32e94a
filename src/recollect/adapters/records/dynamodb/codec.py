"""Records to items and back.

A record is one binary value: a JSON object of its fields, with the lengths of the bytes fields, then these bytes as
they are; compressed where that helps, with a checksum. DynamoDB's own numbers hold 38 digits
and lose -0.0 and the smallest floats; JSON text gives every float back as it was. What is longer than an item may be
is cut into parts under a fresh generation, so that a reader never joins parts of two versions.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from recollect.adapters.records.common.codec import Codec, UnopenedValue
from recollect.adapters.records.common.dialect import Convert, json_text, moment_text, same
from recollect.adapters.records.dynamodb.keys import Key, Keys, TenantPlaces
from recollect.domain.record import ColumnType, Record, new_id
from recollect.errors import DamagedData

R = TypeVar("R", bound=Record)
Item = dict[str, Any]
PART = 350_000  # an item may have 400 KB with its keys
_WORTH_COMPRESSING = 600
_RAW, _COMPRESSED = b"\x00", b"\x01"


class ItemEncoding:
    """How values of each type are kept. JSON stands in the header as it is: reading it is one parse for all fields."""

    encode: Mapping[ColumnType, Convert] = {
        "text": same,
        "integer": same,
        "real": float,
        "boolean": same,
        "moment": moment_text,
        "bytes": same,
        "json": same,
    }
    decode: Mapping[ColumnType, Convert] = {
        "text": same,
        "integer": same,
        "real": same,
        "boolean": same,
        "moment": datetime.fromisoformat,
        "bytes": same,
        "json": same,
    }


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """What the table has under a record's key: the record, or that it is gone; and which write it was."""

    record: Record | None
    seq: int
    tick: int = 0
    generation: str = ""
    parts: int = 0
    hashes: Mapping[str, object] = field(default_factory=dict)
    """Its `encrypted_hashes` as they are stored: index entries are made of that."""


@dataclass(frozen=True, slots=True)
class RecordItems:
    """The items of one record: its own, and its parts."""

    item: Item
    parts: tuple[Item, ...] = ()


def packed(codec: Codec, record: Record) -> bytes:
    header: Item = {}
    tail: list[bytes] = []
    for column, value in zip(codec.columns, codec.row(record), strict=True):
        if value is None:
            continue
        if isinstance(value, bytes):
            tail.append(value)
            value = len(value)
        header[column.name] = value
    head = json_text(header).encode()
    whole = len(head).to_bytes(4, "big") + head + b"".join(tail)
    body = _RAW + whole
    if len(whole) >= _WORTH_COMPRESSING:
        body = min(body, _COMPRESSED + zlib.compress(whole, 1), key=len)
    return body + zlib.crc32(body).to_bytes(4, "big")


def unpacked(codec: Codec, record: type[Record], raw: bytes) -> Any:
    return codec.record_or_sealed(_row(codec, record, raw))


def _row(codec: Codec, record: type[Record], raw: bytes) -> list[object]:
    body, checksum = raw[:-4], raw[-4:]
    if zlib.crc32(body).to_bytes(4, "big") != checksum:
        raise DamagedData(f"a stored {record.shape.table} is damaged", remedy="run `recollect verify`")
    whole = body[1:] if body[:1] == _RAW else zlib.decompress(body[1:])
    start = 4 + int.from_bytes(whole[:4], "big")
    header = json.loads(whole[4:start])
    row: list[object] = []
    for column in codec.columns:
        value = header.get(column.name)
        if value is not None and column.type == "bytes":
            end = start + int(value)
            value, start = whole[start:end], end
        elif value is None and not column.nullable:  # a field that came later
            default = record.model_fields[column.name].get_default(call_default_factory=True)
            value = codec.bound(column.name, default)
        row.append(value)
    return row


def opened(records: list[R]) -> list[R]:
    """The records, if every field of theirs could be opened; raises WrongKey."""
    for record in records:
        for name in record.shape.sealable:
            field_of(record, name)
    return records


def is_open(record: Record) -> bool:
    return not any(isinstance(getattr(record, name), UnopenedValue) for name in record.shape.sealable)


def field_of(record: Record, name: str) -> Any:
    value = getattr(record, name)
    if isinstance(value, UnopenedValue):
        raise value.problem
    return value


def record_items(keys: Keys, codec: Codec, record: Record, seq: int, tick: int) -> RecordItems:
    table, id = record.shape.table, record.id
    partition, sort = keys.record(table, id)
    item: Item = {"p": partition, "s": sort, "q": seq, "k": tick}
    body = packed(codec, record)
    if len(body) <= PART:
        return RecordItems({**item, "b": body})
    generation = new_id()
    pieces = [body[start : start + PART] for start in range(0, len(body), PART)]
    parts = []
    for number, piece in enumerate(pieces):
        partition, sort = keys.part(table, id, generation, number)
        parts.append({"p": partition, "s": sort, "b": piece})
    return RecordItems({**item, "g": generation, "n": len(pieces), "d": id}, tuple(parts))


def gone_item(keys: Keys, table: str, id: str, seq: int) -> Item:
    """What is left of a record deleted for good: when, for `changes`."""
    partition, sort = keys.record(table, id)
    return {"p": partition, "s": sort, "q": seq, "k": 0, "z": 1, "d": id}


def part_keys(keys: Keys, table: str, item: Item) -> list[Key]:
    return [keys.part(table, item["d"], item["g"], number) for number in range(item.get("n", 0))]


def stored(codec: Codec, record: type[Record], item: Item, parts: Sequence[bytes]) -> StoredRecord:
    if item.get("z"):
        return StoredRecord(None, item["q"])
    body = item["b"] if "b" in item else b"".join(parts)
    row = _row(codec, record, body)
    hashes = {
        name: value for name, value in zip(codec.names, row, strict=True) if name in record.shape.encrypted_hashes
    }
    made = codec.record_or_sealed(row)
    return StoredRecord(made, item["q"], item["k"], item.get("g", ""), item.get("n", 0), hashes)


def log_items(keys: TenantPlaces, changes: Sequence[tuple[str, str, int, bool]], token: str) -> list[Item]:
    """What a transaction changed, in order of seq, under the seq of the last change in each item."""
    items = []
    for start in range(0, len(changes), 2000):
        some = changes[start : start + 2000]
        partition, sort = keys.moment_of_log(some[-1][2])
        entries = zlib.compress(json_text([[t, id, q, int(gone)] for t, id, q, gone in some]).encode(), 1)
        items.append({"p": partition, "s": sort, "e": entries, "t": token})
    return items


def logged(item: Item) -> list[tuple[str, str, int, bool]]:
    return [(t, id, q, bool(gone)) for t, id, q, gone in json.loads(zlib.decompress(item["e"]))]
