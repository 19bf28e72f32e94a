"""All of a tenant's records out to JSON Lines, and the whole store to a backup.

The first line of an export says what follows; then one record a line, parents before children and by id, so that the
same records always make the same file; the last line carries the hash of all the lines before it. `importing` reads it.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import Field

from recollect.domain.record import RECORDS, Record
from recollect.errors import InvalidInput
from recollect.ports.outside import private_opener
from recollect.ports.records import Order, Query, Scope
from recollect.services.core import Core, Reply, Request
from recollect.services.indexing import Progress
from recollect.services.keyring import shown_record

FORMAT = "recollect-export-1"
PAGE = 500
# The organization itself is named in the first line; keys and leases mean nothing elsewhere, seals nothing without
# the log that they seal.
AUDIT = frozenset({"access_log", "seal"})
LEFT_OUT = frozenset({"organization", "lease", "api_key"}) | AUDIT


class ExportRequest(Request):
    """Write everything of this organization to a file."""

    path: str = Field(description="The JSON Lines file to write")
    audit: bool = Field(False, description="Also the access log")


class Transferred(Reply):
    path: str
    records: int
    hash: str
    skipped: int = 0
    notes: list[str] = Field(default_factory=list)


def export(core: Core, scope: Scope, request: ExportRequest, progress: Progress = lambda d, t: None) -> Transferred:
    """Write every record of the organization, parents first, with a hash at the end."""
    target = Path(request.path)
    digest, count = hashlib.sha256(), 0
    core.journal.flush()
    total = sum(core.store.count(scope, Query(record, deleted="yes")) for record in _exported(request.audit))
    partial = target.with_name(target.name + ".part")
    try:
        with open(partial, "wb", opener=private_opener) as file:
            for line in _lines(core, scope, request.audit):
                file.write(line)
                digest.update(line)
                count += 1
                progress(count - 1, total)
            file.write(_end(count - 1, digest.hexdigest()))
        partial.replace(target)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise InvalidInput(
            f"cannot write '{target}': {error.strerror}", remedy="give a path you may write to"
        ) from None
    return Transferred(path=str(target), records=count - 1, hash=digest.hexdigest())


def exported_lines(core: Core, scope: Scope, audit: bool) -> Iterator[bytes]:
    """The very bytes of an exported file, as they are read."""
    core.journal.flush()
    digest, count = hashlib.sha256(), -1
    for line in _lines(core, scope, audit):
        digest.update(line)
        count += 1
        yield line
    yield _end(count, digest.hexdigest())


def _end(records: int, digest: str) -> bytes:
    return _line({"end": FORMAT, "records": records, "hash": digest})


def _lines(core: Core, scope: Scope, audit: bool) -> Iterator[bytes]:
    """One line a record. What came in after its parents were written is left out: the file must stand alone."""
    yield _line({"format": FORMAT, "organization": scope.organization_id})
    written: dict[str, set[str]] = {table: set() for table in _referred()} | {"organization": {scope.organization_id}}
    for record in _exported(audit):
        ids = written.get(record.shape.table)
        after: str | None = None
        while True:
            page = core.store.find(scope, Query(record, (), (Order("id"),), PAGE, after, "yes"))
            for one in page.records:
                if _stands_on(one, written):
                    if ids is not None:
                        ids.add(one.id)
                    yield record_line(shown_record(core.keyring, scope, one))
            after = page.next
            if after is None:
                break


def _stands_on(record: Record, written: dict[str, set[str]]) -> bool:
    links = ((reference.to, getattr(record, field)) for field, reference in record.shape.references.items())
    return all(id is None or id in written[table] for table, id in links)


@cache
def _referred() -> frozenset[str]:
    """The tables that somebody refers to: of the others, no id has to be kept in mind."""
    return frozenset(reference.to for record in RECORDS.values() for reference in record.shape.references.values())


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def record_line(record: Record) -> bytes:
    """A record as one line: the same bytes whichever store it came from."""
    return _line({"table": record.shape.table, "record": _plain(record)})


def _plain(record: Record) -> dict[str, Any]:
    values = record.__dict__
    binary = [column.name for column in record.columns() if column.type == "bytes"]
    plain = record.model_dump(mode="json", exclude=set(binary))
    return plain | {name: None if values[name] is None else base64.b64encode(values[name]).decode() for name in binary}


def _exported(audit: bool) -> list[type[Record]]:
    left_out = LEFT_OUT - AUDIT if audit else LEFT_OUT
    return [record for record in parents_first() if record.shape.table not in left_out]


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


class BackupRequest(Request):
    """Copy the whole store while it is in use."""

    path: str = Field(description="Where to write the copy; must not exist yet")


class BackedUp(Reply):
    path: str
    bytes: int


def backup(core: Core, scope: Scope, request: BackupRequest) -> BackedUp:
    """A consistent copy of the store, taken while others write."""
    target = Path(request.path)
    core.journal.flush()
    core.store.backup(target)
    return BackedUp(path=str(target), bytes=target.stat().st_size)


class Restored(Reply):
    """Where the store is now, and how many memories it holds, all organizations together."""

    store: str
    memories: int
