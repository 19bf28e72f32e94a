"""All of a tenant's records out to JSON Lines, and the whole store to a backup.

All of one moment, whatever others write meanwhile. The first line of an export says what follows; then one record a
line, parents before children and by id, so that the same records always make the same file; the last line carries the
hash of all the lines before it. `importing` reads it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import tempfile
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import Field

from recollect.domain.record import RECORDS, Record
from recollect.errors import InvalidInput
from recollect.ports.records import Order, Query, Reads, Scope
from recollect.services.core import Core, Reply, Request
from recollect.services.indexing import Progress
from recollect.services.keyring import shown_record

FORMAT = "recollect-export-1"
PAGE = 500
PIECE_BYTES = 256 * 1024
# The organization itself is named in the first line; keys and leases mean nothing elsewhere, seals nothing without
# the log that they seal.
AUDIT = frozenset({"access_log", "seal"})
LEFT_OUT = frozenset({"organization", "lease", "api_key", "erasure"}) | AUDIT


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

    def write(file: BinaryIO) -> tuple[int, str]:
        return _written(core, scope, request.audit, _Target(file, target), progress)

    try:
        records, digest = core.folders.keep(target, write)
    except OSError as error:
        raise _cannot_write(target, error) from None
    return Transferred(path=str(target), records=records, hash=digest)


class _Target:
    """A file being written; what the disk says against it is told of the file, not of the store that is read."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file, self._path = file, path

    def write(self, line: bytes) -> None:
        try:
            self._file.write(line)
        except OSError as error:
            raise _cannot_write(self._path, error) from None


def _cannot_write(target: Path, error: OSError) -> InvalidInput:
    return InvalidInput(f"cannot write '{target}': {error.strerror}", remedy="give a path you may write to")


def exported_pieces(core: Core, scope: Scope, audit: bool) -> Iterator[bytes]:
    """The very bytes of an exported file. Set down first: who takes long to read them must not keep the moment open."""
    with tempfile.TemporaryFile(prefix="recollect-export-") as file:
        _written(core, scope, audit, _Target(file, Path("a temporary file")), lambda done, total: None)
        file.seek(0)
        yield from iter(partial(file.read, PIECE_BYTES), b"")


def _written(core: Core, scope: Scope, audit: bool, target: _Target, progress: Progress) -> tuple[int, str]:
    """Writes all the lines; gives how many records there are, and their hash."""
    core.journal.flush()
    digest, count = hashlib.sha256(), -1
    with core.store.snapshot(scope) as reading:
        total = sum(reading.count(scope, Query(record, deleted="yes")) for record in _exported(audit))
        for line in _lines(core, reading, scope, audit):
            target.write(line)
            digest.update(line)
            count += 1
            progress(count, total)
    target.write(_line({"end": FORMAT, "records": count, "hash": digest.hexdigest()}))
    return count, digest.hexdigest()


def _lines(core: Core, reading: Reads, scope: Scope, audit: bool) -> Iterator[bytes]:
    yield _line({"format": FORMAT, "organization": scope.organization_id})
    for record in _exported(audit):
        after: str | None = None
        while True:
            page = reading.find(scope, Query(record, (), (Order("id"),), PAGE, after, "yes"))
            yield from (record_line(shown_record(core.keyring, scope, one)) for one in page.records)
            after = page.next
            if after is None:
                break


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
