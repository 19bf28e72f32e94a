"""Import of an exported file of any size into an organization: checked first, then written in batches.

Every line is read and validated before the first is written; a file that was cut short or changed writes nothing. Then
batches commit, each with its entry in the access log. A memory and its parts (tags, citations, vectors, history) are
far apart in the file, but written in one transaction; so are an item and its vectors. So a killed import leaves
complete records only, and running it again skips what exists and writes the rest. Only the position of each line is
kept in memory.
"""

from __future__ import annotations

import base64
import hashlib
import json
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from recollect.domain.agents import Result
from recollect.domain.audit import Seal
from recollect.domain.key_value import Item, ItemVector
from recollect.domain.kinds import describe
from recollect.domain.memory import Embedding, IndexTask, Memory, Revision, Tag
from recollect.domain.provenance import Citation
from recollect.domain.record import RECORDS, JsonObject, Record, Unique
from recollect.domain.tenancy import User
from recollect.errors import Conflict, DamagedData, Denied, DuplicateKey, InvalidInput, RecollectError
from recollect.ports.query import OneOf, Query
from recollect.ports.steps import DeleteWhere, Insert, Put, Step
from recollect.retry import retry
from recollect.services.access.authorize import refuse_higher
from recollect.services.admin.export import FORMAT, LEFT_OUT, ExportFooter, SkippedRecords, TransferReply
from recollect.services.memories.content_hashes import difference
from recollect.services.memories.indexing import Progress, refreshed
from recollect.services.requests import Request
from recollect.services.tenant import Tenant
from recollect.services.transaction import commit, logged
from recollect.services.trust.import_trust import ImportCheck

BATCH = 1000
BATCH_BYTES = 8 << 20
PARTS: dict[type[Record], tuple[type[Record], str]] = {
    **dict.fromkeys((Tag, Citation, Embedding, Revision, IndexTask), (Memory, "memory_id")),
    ItemVector: (Item, "item_id"),
}
"""The parts of a memory or an item, and the field that names their owner; they refer to nothing else."""
WHOLES = frozenset(owner for owner, _ in PARTS.values())
Key = tuple[str, str]
"""A table and an id."""


class ImportRequest(Request):
    """Which exported file to import into this organization."""

    path: str = Field(description="The JSON Lines file to read")
    existing: Literal["skip", "replace"] = Field("skip", description="What to do with ids that exist already")


def import_(tenant: Tenant, request: ImportRequest, progress: Progress = lambda d, t: None) -> TransferReply:
    """Import an exported file: every line is checked before the first is written, then batches commit.

    A memory and its parts (tags, citations, history, vectors) are skipped or replaced together, and so are an item and
    its vectors. After an interruption, import the file again: what exists is skipped.
    """
    path = Path(request.path)
    written = done = 0
    try:
        with path.open("rb") as file:
            survey = _ImportFile(path.name, tenant, progress)
            survey.read(file)
            _refuse_higher_users(tenant, survey.users)
            _refuse_two_logs(tenant, survey.seals)
            proving = ImportCheck(tenant, survey.has_log, request.existing == "replace")
            for batch in survey.batches(file, proving):
                written += _write(tenant, batch, request.existing, written)
                done += len(batch)
                progress(survey.records + done, 2 * survey.records)
    except OSError as error:
        raise InvalidInput(f"cannot read '{path}': {error.strerror}", remedy="give an exported file") from None
    notes = [*proving.settle(), *refreshed(tenant)]
    written -= len(proving.fallen)  # each has one more version in its history than the file
    told = {"skipped": survey.records - written, "notes": notes, "left_out": survey.left_out}
    return TransferReply(path=str(path), records=written, hash=survey.hash, **told)


def _refuse_damaged(name: str, number: int, record: Record) -> None:
    """Refuse damaged memories: the hash of the file does not tell what was damaged before the export."""
    wrong = difference(record)
    if wrong:
        raise DamagedData(
            f"line {number} of '{name}', the {record.shape.table} '{record.id}', is damaged: {wrong}",
            remedy="nothing was imported; export it again with --damaged skip, which leaves out what is damaged",
            line=number,
            id=record.id,
        )


def _refuse_rise(tenant: Tenant, record: Record) -> None:
    """A caller with a key may not import keys, evidence, or users with more permissions than their own."""
    if tenant.scope.granted is None:
        return
    if record.shape.table in LEFT_OUT:
        raise Denied(
            f"a file with the table {record.shape.table} cannot be imported over the network",
            remedy="import it on the machine of the store",
        )
    if isinstance(record, User):
        refuse_higher(tenant.scope, record)


def _refuse_higher_users(tenant: Tenant, ids: set[str]) -> None:
    """Nor a user who would replace one with more permissions."""
    here = Query(User, (OneOf("id", tuple(sorted(ids))),), deleted="yes")
    for user in tenant.find(here).records if ids and tenant.scope.granted is not None else []:
        refuse_higher(tenant.scope, user)


def _refuse_two_logs(tenant: Tenant, seals: set[str]) -> None:
    """Seals are numbered and each follows the one before: two sealed logs together would look forged."""
    if seals and not seals.issuperset(id for (id,) in tenant.select(Query(Seal, deleted="yes"), ("id",))):
        raise Conflict(
            "the file has a sealed access log, and so has this organization",
            remedy="export without the access log (--audit), or import into another organization",
        )


# -- reading -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _ImportFile:
    """A checked file: the positions of its lines, those of parts by their owner."""

    name: str
    tenant: Tenant
    progress: Progress
    records: int = 0
    hash: str = ""
    left_out: list[SkippedRecords] = field(default_factory=list)
    seals: set[str] = field(default_factory=set)
    users: set[str] = field(default_factory=set)
    _logs: set[int] = field(default_factory=set)
    _heads: array[int] = field(default_factory=lambda: array("Q"))
    _wholes: array[int] = field(default_factory=lambda: array("Q"))
    _owners: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    _places: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))

    def read(self, file: IO[bytes]) -> None:
        self.records, self.hash, self.left_out = checked(file, self.name)
        owners, places = array("Q"), array("Q")
        offset = file.seek(0)
        for number, line in enumerate(file, 1):
            record = _validated(line, self.tenant)
            if record is not None:
                _refuse_rise(self.tenant, record)
                _refuse_damaged(self.name, number, record)
            owner = _owner_of(record) if record is not None else None
            if owner is not None and type(record) in PARTS:
                owners.append(_digest_of(*owner))
                places.append(offset)
            elif record is not None:
                self._heads.append(offset)
                if owner is not None:
                    self._wholes.append(_digest_of(*owner))
                elif isinstance(record, Seal):
                    self.seals.add(record.id)
                elif isinstance(record, User):
                    self.users.add(record.id)
                elif isinstance(record, Result):
                    self._logs.add(_digest_of("result", record.id))
            offset += len(line)
            self.progress(len(self._heads) + len(places), 2 * self.records)
        if len(self._heads) + len(places) != self.records:
            raise InvalidInput(
                f"'{self.name}' does not have the number of records that it says", remedy="export it again"
            )
        self._arrange(owners, places)

    def _arrange(self, owners: array[int], places: array[int]) -> None:
        by = np.frombuffer(owners, np.uint64) if owners else self._owners
        if not np.isin(by, np.frombuffer(self._wholes, np.uint64) if self._wholes else self._owners).all():
            raise InvalidInput(
                f"'{self.name}' has parts of memories or items that it does not contain", remedy="export it again"
            )
        order = np.argsort(by, kind="stable")
        self._owners, self._places = by[order], np.frombuffer(places, np.uint64)[order] if places else self._places

    def has_log(self, id: str) -> bool:
        """Of the log entries that can be cited, only results come after memories in a file."""
        return _digest_of("result", id) in self._logs

    def batches(self, file: IO[bytes], proving: ImportCheck) -> Iterator[list[Record]]:
        """Records in the order of the file, each followed by its parts, with trust as it was checked here."""
        batch: list[Record] = []
        size = 0
        for offset in self._heads:
            group, length = self._group(file, offset)
            if batch and (len(batch) + len(group) > BATCH or size + length > BATCH_BYTES):
                yield batch
                batch, size = [], 0
            batch += proving.taken(group)
            size += length
        if batch:
            yield batch

    def _group(self, file: IO[bytes], offset: int) -> tuple[list[Record], int]:
        line = _line_at(file, offset)
        record, size = _record(_parsed(line), self.tenant), len(line)
        if type(record) not in WHOLES:
            return [record], size
        key = (record.shape.table, record.id)
        owner = np.uint64(_digest_of(*key))
        first, last = np.searchsorted(self._owners, owner, "left"), np.searchsorted(self._owners, owner, "right")
        parts = []
        for place in self._places[first:last]:
            line = _line_at(file, int(place))
            size += len(line)
            parts.append(_record(_parsed(line), self.tenant))
        return [record, *(one for one in parts if _owner_of(one) == key)], size


def _digest_of(table: str, id: str) -> int:
    """A record is identified by eight bytes; readers compare the id again."""
    return int.from_bytes(hashlib.blake2b(f"{table} {id}".encode(), digest_size=8).digest(), "little")


def _line_at(file: IO[bytes], offset: int) -> bytes:
    file.seek(offset)
    return file.readline()


def checked(file: IO[bytes], name: str) -> ExportFooter:
    """The last line: the number of records, the hash of all lines before it (checked), and what was left out."""
    digest, previous, header = hashlib.sha256(), b"", None
    for line in file:
        header = _parsed(line) if header is None else header
        digest.update(previous)
        previous = line
    end = _parsed(previous)
    if not header or header.get("format") != FORMAT:
        raise InvalidInput(f"'{name}' is not a Recollect export", remedy="make one with: recollect export FILE")
    if end.get("end") != FORMAT or end.get("hash") != digest.hexdigest() or not isinstance(end.get("records"), int):
        raise DamagedData(f"'{name}' was cut short or changed", remedy="export it again; nothing was imported")
    try:
        left_out = [SkippedRecords.model_validate(one) for one in end.get("left_out", [])]
    except (ValidationError, TypeError):
        raise DamagedData(f"'{name}' was changed", remedy="export it again; nothing was imported") from None
    return ExportFooter(int(end["records"]), digest.hexdigest(), left_out)


def _validated(line: bytes, tenant: Tenant) -> Record | None:
    """None for the first and the last line."""
    item = _parsed(line)
    if "record" in item:
        return _record(item, tenant)
    if "format" not in item and "end" not in item:
        raise InvalidInput("a line of the file is not a record", remedy="export it again")
    return None


def _parsed(line: bytes) -> JsonObject:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _record(item: JsonObject, tenant: Tenant) -> Record:
    table, fields = item.get("table"), item.get("record")
    record = RECORDS.get(table) if isinstance(table, str) else None
    if record is None or not isinstance(fields, dict):
        raise InvalidInput(f"this version does not know the record '{str(table)[:50]}'", remedy="upgrade Recollect")
    try:
        for column in record.columns():
            if column.type == "bytes" and fields.get(column.name) is not None:
                fields[column.name] = base64.b64decode(fields[column.name], validate=True)
        return record.model_validate({**fields, "organization_id": tenant.scope.organization_id})
    except ValidationError as error:
        raise InvalidInput(f"a {record.shape.table} in the file is not valid: {describe(error)}") from None
    except (TypeError, ValueError):
        raise InvalidInput(f"a {record.shape.table} in the file is not valid", remedy="export it again") from None


# -- writing -----------------------------------------------------------------------------------------------------------


def _write(tenant: Tenant, batch: Sequence[Record], existing: str, before: int) -> int:
    """Write one batch; returns the number of records. Retried if another writer wrote the same concurrently."""

    def attempt() -> int:
        steps = _steps(tenant, batch, existing)
        count = sum(isinstance(step, Insert | Put) for step in steps)
        if steps:
            commit(tenant, [*steps, logged(tenant, "create", "import", None, records=count)])
        return count

    try:
        return retry(attempt, DuplicateKey, tries=2)
    except Conflict as error:
        raise _stopped(error, before) from None


def _stopped(error: RecollectError, before: int) -> RecollectError:
    if before == 0:
        return error
    return type(error)(
        f"{error.message}; {before} records before it were imported and stay",
        remedy=f"{error.remedy}; then import the file again to continue".removeprefix("; "),
        **error.details,
    )


def _steps(tenant: Tenant, records: Sequence[Record], existing: str) -> list[Step]:
    types = {type(one) for one in records}
    present = {(record.shape.table, id) for record in types for id in _present(tenant, record, records)}
    steps: list[Step] = _dropping_steps(present) if existing == "replace" else []
    taken = _taken(tenant, records) if existing == "skip" else set()
    for one in records:
        is_here = (one.shape.table, one.id) in present
        if _owner_of(one) in present:
            # Its old parts were deleted above, so that they cannot conflict with those of the file.
            steps += [Put(one, restoring=True)] if existing == "replace" else []
        elif not is_here and (one.shape.table, one.id) not in taken:
            steps.append(Insert(one, restoring=True))
        elif existing == "replace":
            steps.append(Put(one, restoring=True))
    return steps


def _dropping_steps(present: set[Key]) -> list[Step]:
    """The steps that delete the parts of records that will be replaced."""
    steps: list[Step] = []
    for part, (owner, link) in PARTS.items():
        known = tuple(sorted(id for table, id in present if table == owner.shape.table))
        steps += [DeleteWhere(part, (OneOf(link, known),))] if known else []
    return steps


def _owner_of(record: Record) -> Key | None:
    """The memory or item that a record is or is a part of."""
    if type(record) in WHOLES:
        return record.shape.table, record.id
    if type(record) not in PARTS:
        return None
    owner, link = PARTS[type(record)]
    return owner.shape.table, str(getattr(record, link))


def _present(tenant: Tenant, record: type[Record], records: Sequence[Record]) -> set[str]:
    ids = tuple(one.id for one in records if type(one) is record)
    return {id for (id,) in tenant.select(Query(record, (OneOf("id", ids),), deleted="yes"), ("id",))}


def _taken(tenant: Tenant, records: Sequence[Record]) -> set[tuple[str, str]]:
    """Records whose unique key another record already has, such as a link that exists on both sides.

    Only types that nothing refers to: references to the others could not follow.
    """
    taken: set[tuple[str, str]] = set()
    for record in {type(one) for one in records} - set(PARTS):
        for key in record.shape.unique if _is_leaf(record) else ():
            mine = {values: one for one in records if type(one) is record and (values := _key_of(one, key))}
            if mine:
                first = OneOf(key.fields[0], tuple({values[0] for values in mine}))
                rows = tenant.select(Query(record, (first,), deleted="yes"), ("id", *key.fields))
                held = {tuple(row[1:]): row[0] for row in rows}
                taken |= {(record.shape.table, one.id) for at, one in mine.items() if held.get(at, one.id) != one.id}
    return taken


def _key_of(record: Record, key: Unique) -> tuple[Any, ...] | None:
    values = tuple(getattr(record, name) for name in key.fields)
    return None if values[0] is None or (None in values and not key.nulls_equal) else values


@cache
def _is_leaf(record: type[Record]) -> bool:
    return not any(
        reference.to == record.shape.table for one in RECORDS.values() for reference in one.shape.references.values()
    )
