"""A whole store as lines of JSON, one record each: the content of a backup that any store can be restored from.

Each organization is as of one moment. Records come parents first and by id, so that lines that did not change stand in
the same order in the next backup, which then shares most of its chunks. The last line says how many there were.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import chain

from recollect.domain.record import JsonObject
from recollect.errors import DamagedData, InvalidInput
from recollect.ports.query import Compare, Query
from recollect.ports.records import RecordStore, Scope
from recollect.ports.steps import DeleteWhere, Insert, Step
from recollect.services.admin.copy import BATCH, batches, copied_records
from recollect.services.admin.export import record_line
from recollect.services.memories.indexing import Progress
from recollect.services.record_lines import json_text, record_of

FORMAT = "recollect-records-1"
_DAMAGED = "take another backup, such as an earlier one"


def lines(store: RecordStore) -> Iterator[bytes]:
    """All lines of a store, many at a time."""
    count = 0
    yield _line({"format": FORMAT})
    for organization in store.tenants():
        yield _line({"organization": organization})
        scope = Scope(organization)
        with store.snapshot(scope) as reading:
            for batch in chain.from_iterable(batches(reading, scope, record) for record in copied_records()):
                count += len(batch)
                yield b"".join(map(record_line, batch))
    yield _line({"end": FORMAT, "records": count})


def store_lines(pieces: Iterable[bytes], target: RecordStore, progress: Progress = lambda done, total: None) -> int:
    """Write all records to a store that has none; how many."""
    count, organization, end = 0, "", None
    waiting: list[Step] = []
    for line in _split(pieces):
        item = _parsed(line)
        if "record" in item:
            waiting.append(Insert(record_of(item, organization), restoring=True))
            if len(waiting) < BATCH:
                continue
        if waiting:
            target.transact(Scope(organization), waiting)
            count += len(waiting)
            progress(count, count)
            waiting = []
        organization, end = str(item.get("organization", organization)), item.get("records", end)
    if end != count:
        raise DamagedData(f"the backup is cut short: {count} records were read", remedy=_DAMAGED)
    return count


def clear(store: RecordStore) -> None:
    """Delete every record of every organization."""
    for organization in store.tenants():
        for record in reversed(copied_records()):
            store.transact(Scope(organization), [DeleteWhere(record, (Compare("id", ">=", ""),))])


def is_empty(store: RecordStore) -> bool:
    """Whether nobody has stored anything: organizations alone do not count."""
    return not any(
        store.count(Scope(organization), Query(record, deleted="yes"))
        for organization in store.tenants()
        for record in copied_records()
        if record.shape.table != "organization"
    )


def _line(value: JsonObject) -> bytes:
    return json_text(value).encode() + b"\n"


def _parsed(line: bytes) -> JsonObject:
    try:
        item = json.loads(line)
    except (ValueError, RecursionError):
        item = None
    if not isinstance(item, dict):
        raise DamagedData("a line of the backup is damaged", remedy=_DAMAGED)
    if "format" in item and item["format"] != FORMAT:
        raise InvalidInput("this backup was made by a newer Recollect", remedy="upgrade Recollect, then try again")
    return item


def _split(pieces: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        yield from whole
    if rest:
        yield rest
