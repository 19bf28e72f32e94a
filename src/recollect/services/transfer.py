"""All of a tenant's records out to JSON Lines and back in, with the same bytes on the other side.

The first line says what follows; then one record a line, parents before children and by id, so that the same
records always make the same file; the last line carries the hash of all the lines before it. Importing
checks that hash first and writes nothing if it does not match.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from recollect.domain.kinds import describe
from recollect.domain.memory import Embedding, IndexTask, Memory, Relationship, Revision, Tag
from recollect.domain.provenance import Citation
from recollect.domain.record import RECORDS, Record
from recollect.domain.tenancy import User
from recollect.errors import DamagedData, Denied, InvalidInput
from recollect.ports.records import DeleteWhere, Insert, OneOf, Order, Put, Query, Scope, Step
from recollect.services.access import refuse_higher
from recollect.services.core import Core, Reply, Request, commit, logged
from recollect.services.indexing import Progress, refreshed

FORMAT = "recollect-export-1"
PAGE = 500
# The organization itself is named in the first line; keys and leases mean nothing elsewhere; seals go with the log.
LEFT_OUT = frozenset({"organization", "access_log", "seal", "lease", "api_key"})
EVIDENCE = frozenset({"access_log", "seal"})


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
        with partial.open("wb") as file:
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
    written: dict[str, set[str]] = {"organization": {scope.organization_id}}
    for record in _exported(audit):
        ids = written.setdefault(record.shape.table, set())
        after: str | None = None
        while True:
            page = core.store.find(scope, Query(record, (), (Order("id"),), PAGE, after, "yes"))
            for one in page.records:
                if _stands_on(one, written):
                    ids.add(one.id)
                    yield record_line(one)
            after = page.next
            if after is None:
                break


def _stands_on(record: Record, written: dict[str, set[str]]) -> bool:
    links = ((reference.to, getattr(record, field)) for field, reference in record.shape.references.items())
    return all(id is None or id in written.get(table, ()) for table, id in links)


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
    left_out = LEFT_OUT - EVIDENCE if audit else LEFT_OUT
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


class ImportRequest(Request):
    """Read an exported file into this organization."""

    path: str = Field(description="The JSON Lines file to read")
    existing: Literal["skip", "replace"] = Field("skip", description="What to do with ids that are here already")


def import_(core: Core, scope: Scope, request: ImportRequest, progress: Progress = lambda d, t: None) -> Transferred:
    """Read an export back: every line is checked before the first is written, and all are written, or none.

    A memory and what hangs on it (tags, citations, links, history, vectors) are one: skipped or replaced together.
    """
    path = Path(request.path)
    end = checked(path)
    records = []
    for item in _items(path):
        records.append(_record(item, scope))
        progress(len(records), 2 * end["records"])
    _refuse_rise(core, scope, records)
    steps = _steps(core, scope, records, request.existing)
    if steps:
        commit(core, scope, [*steps, logged(scope, "create", "import", None, records=len(records))])
    progress(2 * end["records"], 2 * end["records"])
    written = sum(isinstance(step, Insert | Put) for step in steps)
    skipped = len(records) - written
    return Transferred(path=str(path), records=written, hash=end["hash"], skipped=skipped, notes=refreshed(core))


def _refuse_rise(core: Core, scope: Scope, records: list[Record]) -> None:
    """Who comes with a key imports no keys, no evidence, and nobody who may do more than they."""
    if scope.granted is None:
        return
    taboo = next((one.shape.table for one in records if one.shape.table in LEFT_OUT), None)
    if taboo is not None:
        raise Denied(
            f"a file with the table {taboo} is not taken from here",
            remedy="import it where the store is",
        )
    users = [one for one in records if isinstance(one, User)]
    ids = OneOf("id", tuple(user.id for user in users))
    here = core.store.find(scope, Query(User, (ids,), deleted="yes")).records if users else []
    for user in (*users, *here):
        refuse_higher(scope, user)


def _steps(core: Core, scope: Scope, records: list[Record], existing: str) -> list[Step]:
    present = {
        (record.shape.table, id)
        for record in {type(one) for one in records}
        for id in _present(core, scope, record, records)
    }
    known = {id for table, id in present if table == "memory"}
    steps: list[Step] = []
    if existing == "replace" and known:
        for hanging in (Tag, Citation, Embedding, Revision, IndexTask):
            steps.append(DeleteWhere(hanging, (OneOf("memory_id", tuple(sorted(known))),)))
    for one in records:
        is_here = (one.shape.table, one.id) in present
        if _memory_of(one) in known:
            # Its old parts were deleted above, so that none stands in the way of the file's.
            steps += [Put(one, restoring=True)] if existing == "replace" else []
        elif not is_here:
            steps.append(Insert(one, restoring=True))
        elif existing == "replace":
            steps.append(Put(one, restoring=True))
    return steps


def _memory_of(record: Record) -> str | None:
    """The memory a record is a part of: itself, or the one it hangs on."""
    if isinstance(record, Memory):
        return record.id
    owner = getattr(record, "memory_id", None) or (record.source_id if isinstance(record, Relationship) else None)
    return owner if isinstance(owner, str) else None


def checked(path: Path) -> dict[str, Any]:
    digest, previous, header = hashlib.sha256(), b"", None
    try:
        with path.open("rb") as file:
            for line in file:
                if header is None:
                    header = _parsed(line)
                digest.update(previous)
                previous = line
    except OSError as error:
        raise InvalidInput(f"cannot read '{path}': {error.strerror}", remedy="give an exported file") from None
    end = _parsed(previous) if previous else {}
    if not header or header.get("format") != FORMAT or not isinstance(end.get("records", 0), int):
        raise InvalidInput(f"'{path.name}' is not a Recollect export", remedy="make one with: recollect export FILE")
    if end.get("end") != FORMAT or end.get("hash") != digest.hexdigest():
        raise DamagedData(f"'{path.name}' was cut short or changed", remedy="export it again; nothing was imported")
    return end


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _items(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as file:
        for line in file:
            item = _parsed(line)
            if "record" in item:
                yield item
            elif "format" not in item and "end" not in item:
                raise InvalidInput("a line of the file is no record", remedy="export it again")


def _record(item: dict[str, Any], scope: Scope) -> Record:
    table, fields = item.get("table"), item["record"]
    record = RECORDS.get(table) if isinstance(table, str) else None
    if record is None or not isinstance(fields, dict):
        raise InvalidInput(f"this program knows no record '{str(table)[:50]}'", remedy="upgrade Recollect")
    try:
        for column in record.columns():
            if column.type == "bytes" and fields.get(column.name) is not None:
                fields[column.name] = base64.b64decode(fields[column.name], validate=True)
        return record.model_validate({**fields, "organization_id": scope.organization_id})
    except ValidationError as error:
        raise InvalidInput(f"a {record.shape.table} in the file is not valid: {describe(error)}") from None
    except (TypeError, ValueError):
        raise InvalidInput(f"a {record.shape.table} in the file is not valid", remedy="export it again") from None


def _present(core: Core, scope: Scope, record: type[Record], records: list[Record]) -> set[str]:
    ids = tuple(one.id for one in records if type(one) is record)
    return {id for (id,) in core.store.select(scope, Query(record, (OneOf("id", ids),), deleted="yes"), ("id",))}


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
