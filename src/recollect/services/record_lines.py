"""Records as lines of JSON: for exports and for cold storage. The same record makes the same bytes on every store."""

from __future__ import annotations

import base64
import json
from functools import cache

from pydantic import ValidationError

from recollect.domain.kinds import describe
from recollect.domain.record import RECORDS, JsonObject, Record
from recollect.errors import InvalidInput


def json_text(value: JsonObject) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def plain(record: Record) -> JsonObject:
    """A record as JSON; bytes are base64."""
    values = record.__dict__
    binary = [column.name for column in record.columns() if column.type == "bytes"]
    plain = record.model_dump(mode="json", exclude={*binary, *record.shape.store_only})
    return plain | {name: None if values[name] is None else base64.b64encode(values[name]).decode() for name in binary}


def record_of(item: JsonObject, organization: str) -> Record:
    """The record of a line, as one of this organization."""
    table, fields = item.get("table"), item.get("record")
    record = RECORDS.get(table) if isinstance(table, str) else None
    if record is None or not isinstance(fields, dict):
        raise InvalidInput(f"this version does not know the record '{str(table)[:50]}'", remedy="upgrade Recollect")
    try:
        for column in record.columns():
            if column.type == "bytes" and fields.get(column.name) is not None:
                fields[column.name] = base64.b64decode(fields[column.name], validate=True)
        return record.model_validate({**fields, "organization_id": organization})
    except ValidationError as error:
        raise InvalidInput(f"a {record.shape.table} in the file is not valid: {describe(error)}") from None
    except (TypeError, ValueError):
        raise InvalidInput(f"a {record.shape.table} in the file is not valid", remedy="export it again") from None


@cache
def parents_first() -> tuple[type[Record], ...]:
    """Every record type after those it refers to."""
    ordered: list[type[Record]] = []
    waiting = dict(sorted(RECORDS.items()))
    while waiting:
        ready = [table for table, record in waiting.items() if not _refers(record) & waiting.keys()]
        ordered += [waiting.pop(table) for table in ready]
    return tuple(ordered)


def _refers(record: type[Record]) -> set[str]:
    return {reference.to for reference in record.shape.references.values()} - {record.shape.table}
