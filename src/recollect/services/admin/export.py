"""Export of a tenant's records to JSON Lines.

It is as of one moment, whatever others write meanwhile. The first line of an export says what follows; then one
record per line, parents before children and by id, so that the same records always make the same file; the last line
has the hash of all lines before it, and lists what could not be read of a damaged store. services/admin/import_.py
reads it.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Annotated, BinaryIO, Literal, NamedTuple

from pydantic import Field

from recollect.domain.record import JsonObject, Record
from recollect.errors import DamagedData, InvalidInput, WrongKey
from recollect.ports.keys import Writable
from recollect.ports.query import Query
from recollect.ports.records import Reads, Scope
from recollect.services.admin.export_selection import ExportSelection
from recollect.services.admin.salvage import IS_ENCRYPTED, LostRecords, fault, readable
from recollect.services.keyed_hashes import shown_record
from recollect.services.memories.indexing import Progress
from recollect.services.recall.filters import MemoryFilter, is_filtered
from recollect.services.record_lines import json_text, parents_first, plain
from recollect.services.requests import AS_GIVEN, Reply
from recollect.services.tenant import Tenant

FORMAT = "recollect-export-1"
PIECE_BYTES = 256 * 1024
_KEY = "set the key it was encrypted with, or export the rest with `--damaged skip` (damaged='skip')"
# The organization is named in the first line; keys, leases and backups have no meaning in another store, and seals none
# without the log that they seal.
AUDIT = frozenset({"access_log", "seal"})
LEFT_OUT = frozenset({"organization", "organization_secret", "lease", "api_key", "erasure", "backup"}) | AUDIT


class ExportRequest(MemoryFilter):
    """Where to export this organization to, and what to include: everything, or the memories that pass a filter with
    what hangs on them and what they refer to."""

    path: Annotated[str, AS_GIVEN] = Field(description="The JSON Lines file to write")
    audit: bool = Field(False, description="Include the access log")
    plain: bool = Field(False, description="Write it unencrypted, although the store is encrypted")
    damaged: Literal["refuse", "skip"] = Field(
        "refuse",
        description="What to do about damaged records: write nothing, or write the rest and report what was left out",
    )


class SkippedRecords(Reply):
    """Records of a damaged store that could not be exported: one, or a range of ids. Where their number is not known,
    `id` and `to` are the readable records before and after them."""

    table: str
    why: str
    id: str | None = Field(None, description="The record, or the first of several")
    to: str | None = Field(None, description="The last of several")
    count: int | None = Field(1, description="How many; none if that cannot be read, either")


class TransferReply(Reply):
    path: str
    records: int
    hash: str
    skipped: int = 0
    notes: list[str] = Field(default_factory=list)
    left_out: list[SkippedRecords] = Field(
        default_factory=list, description="The records of a damaged store that could not be exported"
    )


def export(tenant: Tenant, request: ExportRequest, progress: Progress = lambda d, t: None) -> TransferReply:
    """Write every record of the organization, parents first, with a hash at the end.

    If the store is damaged, nothing is written; with `damaged` set to skip, everything that can be read is, and the
    reply and the last line of the file say what is missing.
    """
    target = Path(request.path)

    def write(file: BinaryIO) -> ExportFooter:
        output = _OutputFile(file, target)
        if request.plain:
            return _written(tenant, request, output, progress)
        with tenant.files.sealing(output) as sealed:
            return _written(tenant, request, sealed, progress)

    try:
        done = tenant.folders.keep(target, write)
    except OSError as error:
        raise _cannot_write(target, error) from None
    return TransferReply(path=str(target), records=done.records, hash=done.hash, left_out=done.left_out)


class ExportFooter(NamedTuple):
    """The content of the last line of an export."""

    records: int
    hash: str
    left_out: list[SkippedRecords]


class _OutputFile:
    """A file being written; its errors name the file, not the store that is read."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file, self._path = file, path

    def write(self, line: bytes | memoryview) -> None:
        try:
            self._file.write(line)
        except OSError as error:
            raise _cannot_write(self._path, error) from None


def _cannot_write(target: Path, error: OSError) -> InvalidInput:
    return InvalidInput(f"cannot write '{target}': {error.strerror}", remedy="give a path you may write to")


def exported_pieces(tenant: Tenant, request: ExportRequest) -> Iterator[bytes]:
    """The bytes of an exported file. They are written to a temporary file first: a slow reader must not keep the
    transaction open, and errors must come before the first byte is sent."""
    with ExitStack() as undone:
        file = undone.enter_context(tempfile.TemporaryFile(prefix="recollect-export-"))
        _written(tenant, request, _OutputFile(file, Path("a temporary file")), lambda done, total: None)
        file.seek(0)
        undone.pop_all()
    return _pieces(file)


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        yield from iter(partial(file.read, PIECE_BYTES), b"")


def _written(tenant: Tenant, request: ExportRequest, target: Writable, progress: Progress) -> ExportFooter:
    """Write all the lines; returns the number of records, their hash, and what was left out."""
    digest, count = hashlib.sha256(), -1
    with _remedied(request):
        # A store whose log is damaged cannot log the export, but must still be exportable.
        tenant.journal.flush_quietly() if request.damaged == "skip" else tenant.journal.flush()
    with _remedied(request), tenant.snapshot() as reading:
        selection = ExportSelection(reading, tenant.scope, request) if is_filtered(request) else None
        taking = _RecordReader(reading, tenant.scope, request.damaged == "skip", selection)
        records = _exported(request.audit)
        total = sum(taking.count(record) for record in records)
        for line in _lines(tenant, taking, records):
            target.write(line)
            digest.update(line)
            count += 1
            progress(count, max(total, count))
    end = {"end": FORMAT, "records": count, "hash": digest.hexdigest()}
    if taking.left_out:
        end["left_out"] = [one.model_dump(mode="json") for one in taking.left_out]
    target.write(_line(end))
    return ExportFooter(count, digest.hexdigest(), taking.left_out)


@contextmanager
def _remedied(request: ExportRequest) -> Iterator[None]:
    """The same error, with the way to export what can be read."""
    try:
        yield
    except DamagedData as error:
        if request.damaged == "skip":
            raise
        remedy = "`recollect export FILE --damaged skip` (damaged='skip') writes what can be read and reports the rest"
        raise DamagedData(error.message, remedy=remedy, **error.details) from error


def _lines(tenant: Tenant, taking: _RecordReader, records: list[type[Record]]) -> Iterator[bytes]:
    yield _line({"format": FORMAT, "organization": tenant.scope.organization_id})
    for record in records:
        yield from (record_line(shown_record(tenant.keyring, tenant.scope, one)) for one in taking.records(record))


class _RecordReader:
    """Reads all records, or all that are readable: what refers to a record that was left out is left out, too."""

    def __init__(self, reading: Reads, scope: Scope, skips: bool, selection: ExportSelection | None) -> None:
        self._reading, self._scope, self._skips, self._selection = reading, scope, skips, selection
        self._taken: dict[str, set[str]] = {}
        self.left_out: list[SkippedRecords] = []
        self._is_run = False

    def count(self, record: type[Record]) -> int:
        try:
            return self._reading.count(self._scope, Query(record, deleted="yes"))
        except DamagedData:
            if not self._skips:
                raise
            return 0  # only needed for progress

    def records(self, record: type[Record]) -> Iterator[Record]:
        self._is_run = False
        taken = self._taken[record.shape.table] = set()
        for one in readable(self._reading, self._scope, record):
            if self._selection is not None and isinstance(one, Record) and not self._selection.takes(one):
                continue
            kept = one if isinstance(one, LostRecords) else self._whole(one)
            if isinstance(kept, LostRecords):
                self._leave_out(kept)
                continue
            self._is_run = False
            if self._skips:
                taken.add(kept.id)
            yield kept

    def _whole(self, record: Record) -> Record | LostRecords:
        table, wrong = record.shape.table, fault(record)
        if wrong is not None or not self._skips:
            return record if wrong is None else LostRecords(table, wrong, record.id)
        for name, reference in record.shape.references.items():
            there, id = self._taken.get(reference.to), record.refers(name)
            if id is None or there is None or id in there:
                continue
            if reference.on_delete == "cascade":
                return LostRecords(table, f"its {reference.to} was left out", record.id)
            record = record.changed(**{name: None})
        return record

    def _leave_out(self, lost: LostRecords) -> None:
        if not self._skips:
            if lost.why == IS_ENCRYPTED:
                raise WrongKey(f"the {lost.table} '{lost.id}' is encrypted with another key", remedy=_KEY, id=lost.id)
            where = f"the {lost.table} '{lost.id}'" if lost.between is None else f"a part of the table {lost.table}"
            raise DamagedData(f"{where} is damaged: {lost.why}", id=lost.id)
        last = self.left_out[-1] if self._is_run else None
        if lost.between is not None:
            first, end = lost.between
            self.left_out.append(SkippedRecords(table=lost.table, why=lost.why, id=first, to=end, count=None))
        elif last is not None and last.why == lost.why and last.count is not None:
            self.left_out[-1] = last.model_copy(update={"to": lost.id, "count": last.count + 1})
        else:
            self.left_out.append(SkippedRecords(table=lost.table, why=lost.why, id=lost.id))
        self._is_run = True


def _line(value: JsonObject) -> bytes:
    return json_text(value).encode() + b"\n"


def record_line(record: Record) -> bytes:
    """A record as one line: the same bytes for every store."""
    return _line({"table": record.shape.table, "record": plain(record)})


def _exported(audit: bool) -> list[type[Record]]:
    left_out = LEFT_OUT - AUDIT if audit else LEFT_OUT
    return [record for record in parents_first() if record.shape.table not in left_out]
