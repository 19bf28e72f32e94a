"""Import of an exported file of any size into an organization: checked first, then written in batches.

Every line is read and validated before the first is written; a file that was cut short or changed writes nothing. Then
batches commit, each with its entry in the access log. A memory and its parts (tags, citations, vectors, history) are
far apart in the file, but written in one transaction; so are an item or a source and its vectors. So a killed import
leaves complete records only, and running it again skips what exists and writes the rest. Only the position of each line
is kept in memory.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from recollect.domain.agents import Result
from recollect.domain.audit import Seal
from recollect.domain.conversations import Message
from recollect.domain.memory import Memory
from recollect.domain.record import JsonObject, Name, Record
from recollect.domain.tenancy import User
from recollect.errors import Conflict, DamagedData, Denied, InvalidInput
from recollect.ports.query import OneOf, Query
from recollect.services.access.authorize import refuse_higher
from recollect.services.admin.export import FORMAT, LEFT_OUT, ExportFooter, SkippedRecords, TransferReply
from recollect.services.admin.import_batches import PARTS, WHOLES, owner_of, write_batch
from recollect.services.admin.import_from import import_from
from recollect.services.admin.import_secrets import ImportMasking
from recollect.services.importers.findings import Findings, ImportSample, UnmappedField
from recollect.services.importers.registry import AUTO, NAMES
from recollect.services.memories.content_hashes import difference
from recollect.services.memories.indexing import Progress, refreshed
from recollect.services.record_lines import record_of
from recollect.services.requests import AS_GIVEN, Request
from recollect.services.tenant import Tenant
from recollect.services.trust.import_trust import ImportCheck

BATCH = 1000
BATCH_BYTES = 8 << 20
LONGEST_HEADER = 10_000


class ImportRequest(Request):
    """What to import into this organization: an exported file, or the memories of another product."""

    path: Annotated[str, AS_GIVEN] = Field(description="The file to read; of other products also a folder or a zip")
    existing: Literal["skip", "replace"] = Field("skip", description="What to do with ids that exist already")
    source: Name | None = Field(
        None,
        description=f"The product it comes from, if not from Recollect: {', '.join(NAMES)};"
        f" {AUTO} finds out from the file",
    )
    dry_run: bool = Field(False, description="Only say what would be imported, and write nothing")
    vector_model: Name | None = Field(
        None, description="The model that made the vectors of another product, if the file does not say; keeps them"
    )


class ImportReply(TransferReply):
    """What was imported. Of another product, `records` counts what was written of `found`."""

    source: str = Field("recollect", description="The product it came from")
    dry_run: bool = Field(False, description="Whether nothing was written, as asked")
    found: dict[str, int] = Field(default_factory=dict, description="How many of each kind of record the source has")
    samples: list[ImportSample] = Field(default_factory=list)
    unmapped: list[UnmappedField] = Field(
        default_factory=list, description="What has no field here, or was left out, and why"
    )


def import_(tenant: Tenant, request: ImportRequest, progress: Progress = lambda d, t: None) -> ImportReply:
    """Import an exported file, or with `source` the memories of another product.

    Everything is checked before the first record is written, then batches commit. A memory and its parts (tags,
    citations, history, vectors) are skipped or replaced together, and so are an item or a source and its vectors.
    After an interruption, import the file again: what exists is skipped.
    """
    path = Path(request.path).expanduser()
    if request.source is None or (request.source == AUTO and _is_export(tenant, path)):
        if request.vector_model is not None:
            raise InvalidInput(
                "vector_model is for imports from other products",
                remedy=f"name the product with --from, such as {NAMES[-1]} or {AUTO}",
            )
        if request.dry_run:
            return _looked_at(tenant, path, progress)
        return _import_export(tenant, path, request.existing, progress)
    done = import_from(tenant, path, request.source, request.existing, request.dry_run, request.vector_model, progress)
    notes = [f"recognised as {done.source.title}"] if done.guessed else []
    return ImportReply(
        path=str(path),
        records=done.written,
        hash="",
        skipped=done.skipped,
        notes=notes + done.notes,
        source=done.source.name,
        dry_run=request.dry_run,
        found=done.found,
        samples=done.samples,
        unmapped=done.unmapped,
        masked=done.masked,
    )


def _is_export(tenant: Tenant, path: Path) -> bool:
    """Whether a file is one of ours; only ours are sealed."""
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return _parsed(file.readline(LONGEST_HEADER)).get("format") == FORMAT or tenant.files.is_sealed(path)
    except OSError:
        return False


def _looked_at(tenant: Tenant, path: Path, progress: Progress) -> ImportReply:
    """What an exported file would bring: everything that is checked before an import, and nothing is written."""
    findings = Findings()
    with _opened(tenant, path) as file:
        survey = _ImportFile(path.name, tenant, progress, ImportMasking(tenant), findings=findings)
        survey.check(file)
    found = dict(sorted(findings.counts.items()))
    told = {"found": found, "samples": findings.samples, "left_out": survey.left_out, "masked": survey.masking.found}
    return ImportReply(path=str(path), records=0, hash=survey.hash, dry_run=True, **told)


@contextmanager
def _opened(tenant: Tenant, path: Path) -> Iterator[IO[bytes]]:
    try:
        _refuse_sealed(tenant, path)
        with tenant.files.opened(path) as file:
            yield file
    except OSError as error:
        raise InvalidInput(f"cannot read '{path}': {error.strerror}", remedy="give an exported file") from None


def _import_export(tenant: Tenant, path: Path, existing: Literal["skip", "replace"], progress: Progress) -> ImportReply:
    written = done = 0
    with _opened(tenant, path) as file:
        survey = _ImportFile(path.name, tenant, progress, ImportMasking(tenant))
        survey.check(file)
        survey.masking = ImportMasking(tenant)  # what was found is counted again as it is written
        proving = ImportCheck(tenant, survey.has_log, existing == "replace")
        for batch in survey.batches(file, proving):
            written += write_batch(tenant, batch, existing, written)
            done += len(batch)
            progress(survey.records + done, 2 * survey.records)
    notes = [*proving.settle(), *refreshed(tenant)]
    written -= len(proving.fallen)  # each has one more version in its history than the file
    told = {"skipped": survey.records - written, "notes": notes, "left_out": survey.left_out}
    return ImportReply(path=str(path), records=written, hash=survey.hash, masked=survey.masking.found, **told)


def _refuse_sealed(tenant: Tenant, path: Path) -> None:
    """Nobody reads another's encrypted export by importing it."""
    if tenant.scope.granted is not None and tenant.files.is_sealed(path):
        raise Denied(
            "an encrypted file cannot be imported over the network",
            remedy="import it on the machine of the store, or export it with --plain",
        )


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
    masking: ImportMasking
    records: int = 0
    hash: str = ""
    left_out: list[SkippedRecords] = field(default_factory=list)
    seals: set[str] = field(default_factory=set)
    users: set[str] = field(default_factory=set)
    findings: Findings | None = None
    """What is counted and sampled, where somebody only looks."""
    _logs: set[int] = field(default_factory=set)
    _heads: array[int] = field(default_factory=lambda: array("Q"))
    _wholes: array[int] = field(default_factory=lambda: array("Q"))
    _owners: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    _places: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))

    def check(self, file: IO[bytes]) -> None:
        """Read everything, and refuse what may not be imported."""
        self.read(file)
        _refuse_higher_users(self.tenant, self.users)
        _refuse_two_logs(self.tenant, self.seals)
        self.masking.refuse()

    def read(self, file: IO[bytes]) -> None:
        self.records, self.hash, self.left_out = checked(file, self.name)
        owners, places = array("Q"), array("Q")
        offset = file.seek(0)
        for number, line in enumerate(file, 1):
            record = _validated(line, self.tenant)
            if record is not None:
                _refuse_rise(self.tenant, record)
                _refuse_damaged(self.name, number, record)
                self._look(record)
            owner = owner_of(record) if record is not None else None
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

    def _look(self, record: Record) -> None:
        if self.findings is None and self.tenant.secrets.mode != "refuse":
            return
        masked = self.masking.records([record])[0]
        if self.findings is not None:
            text = (masked.text or "") if isinstance(masked, Memory | Message) else ""
            self.findings.count(record.shape.table, record.id, text)

    def _arrange(self, owners: array[int], places: array[int]) -> None:
        by = np.frombuffer(owners, np.uint64) if owners else self._owners
        if not np.isin(by, np.frombuffer(self._wholes, np.uint64) if self._wholes else self._owners).all():
            raise InvalidInput(
                f"'{self.name}' has parts of memories, messages, items or sources that it does not contain",
                remedy="export it again",
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
            batch += proving.taken(self.masking.records(group))
            size += length
        if batch:
            yield batch

    def _group(self, file: IO[bytes], offset: int) -> tuple[list[Record], int]:
        line = _line_at(file, offset)
        record, size = record_of(_parsed(line), self.tenant.scope.organization_id), len(line)
        if type(record) not in WHOLES:
            return [record], size
        key = (record.shape.table, record.id)
        owner = np.uint64(_digest_of(*key))
        first, last = np.searchsorted(self._owners, owner, "left"), np.searchsorted(self._owners, owner, "right")
        parts = []
        for place in self._places[first:last]:
            line = _line_at(file, int(place))
            size += len(line)
            parts.append(record_of(_parsed(line), self.tenant.scope.organization_id))
        return [record, *(one for one in parts if owner_of(one) == key)], size


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
        raise InvalidInput(
            f"'{name}' is not a Recollect export",
            remedy=f"make one with `recollect export FILE`, or name the product it comes from: --from {AUTO}",
        )
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
        return record_of(item, tenant.scope.organization_id)
    if "format" not in item and "end" not in item:
        raise InvalidInput("a line of the file is not a record", remedy="export it again")
    return None


def _parsed(line: bytes) -> JsonObject:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
