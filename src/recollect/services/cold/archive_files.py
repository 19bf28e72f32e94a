"""The files of an archive: the records in one file, and a manifest that says what it holds, both checked by hash.

The manifest is JSON: format and schema version, how many records of which table, the digest of the file, and a hash of
all records in order. It is enough to read the archive without the store.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from recollect.domain.agents import Execution, Result
from recollect.domain.audit import AccessLog
from recollect.domain.cold import COLD_FORMAT, ColdArchive
from recollect.domain.conversations import Message
from recollect.domain.memory import Memory
from recollect.domain.record import Record, new_id, now
from recollect.domain.text import tokenizer
from recollect.errors import DamagedData, NewerStore, NotFound
from recollect.ports.cold import ColdRow
from recollect.ports.objects import OBJECT_HASH, ObjectStore, file_digest
from recollect.services.cold.session_records import ClearedReference, SessionRecords
from recollect.services.record_lines import json_text, parents_first, plain, record_of
from recollect.services.tenant import Tenant

SCHEMA = 1
"""Of the columns; the records themselves are read as an export is."""
LARGEST_MANIFEST = 64 << 20


class Manifest(BaseModel):
    """What an archive holds."""

    model_config = ConfigDict(extra="ignore")

    format: str
    schema_version: int
    organization: str
    session: str
    written_at: datetime
    file: str
    bytes: int
    rows: int
    records_hash: str
    words_version: int
    counts: dict[str, int] = Field(default_factory=dict)
    cleared: list[ClearedReference] = Field(default_factory=list)


@dataclass(frozen=True)
class ArchiveFiles:
    """An archive that lies in a temporary folder, and what it will be known by."""

    records: Path
    manifest: Path
    digest: str
    manifest_digest: str
    bytes: int


@contextmanager
def written(tenant: Tenant, found: SessionRecords) -> Iterator[ArchiveFiles]:
    """The files of a session, for as long as the block lasts."""
    with TemporaryDirectory(prefix="recollect-cold-") as folder:
        records, manifest = Path(folder) / "records.parquet", Path(folder) / "manifest.json"
        hashed = _Hash()
        first = ColdRow(ColdArchive.shape.table, new_id(), "{}")  # no two attempts make the same file
        rows = tenant.cold_files.write(chain([first], map(hashed.row, in_order(found))), records) - 1
        digest, size = file_digest(records), records.stat().st_size
        told = Manifest(
            format=COLD_FORMAT, schema_version=SCHEMA, organization=tenant.scope.organization_id,
            session=found.session.id, written_at=now(), file=digest, bytes=size, rows=rows, records_hash=hashed.hex(),
            words_version=tokenizer.VERSION, counts=found.counts(), cleared=found.cleared,
        )  # fmt: skip
        text = json.dumps(told.model_dump(mode="json"), ensure_ascii=False, sort_keys=True, indent=1)
        manifest.write_text(text, encoding="utf-8")
        yield ArchiveFiles(records, manifest, digest, file_digest(manifest), size + len(text.encode()))


def in_order(found: SessionRecords) -> Iterator[Record]:
    """Parents before those that refer to them, each table by id."""
    for record in parents_first():
        yield from sorted(found.records.get(record.shape.table, ()), key=lambda one: one.id)


class _Hash:
    """The hash of all records, in their order."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def row(self, record: Record) -> ColdRow:
        line = json_text(plain(record))
        self.add(line)
        text = _text_of(record)
        terms = tuple(tokenizer.terms_of([text])) if text else ()
        return ColdRow(record.shape.table, record.id, line, _kind_of(record), moment_of(record), text, terms)

    def add(self, line: str) -> None:
        self._hash.update(line.encode() + b"\n")

    def hex(self) -> str:
        return self._hash.hexdigest()


def _text_of(record: Record) -> str | None:
    """What a search goes by."""
    if isinstance(record, Message | Memory):
        return record.text
    if isinstance(record, Execution):
        return record.goal
    return record.summary if isinstance(record, Result) else None


def _kind_of(record: Record) -> str | None:
    if isinstance(record, Memory):
        return record.kind
    return record.role if isinstance(record, Message) else None


def moment_of(record: Record) -> datetime:
    if isinstance(record, Memory):
        return record.occurred_at
    return record.timestamp if isinstance(record, AccessLog) else record.created_at


def put(objects: ObjectStore, place: str, files: ArchiveFiles) -> None:
    """Store both files, and read them back: only what was found to be there lets the records go."""
    for path, digest in ((files.records, files.digest), (files.manifest, files.manifest_digest)):
        objects.put(place, path)
        hashed = hashlib.sha256()
        for piece in objects.read(place, digest):
            hashed.update(piece)
        if OBJECT_HASH + hashed.hexdigest() != digest:
            raise DamagedData(
                f"what was stored at {objects.label} is not what was written there",
                remedy="nothing was moved; check that storage and try again",
            )


def place_of(tenant: Tenant, archive: ColdArchive) -> tuple[ObjectStore, str]:
    """Where the files of an archive are, and what they lie under."""
    objects = tenant.cold_places(archive.address, tenant.scope)
    return objects, tenant.content_place if archive.address is None else archive.place


def manifest_of(tenant: Tenant, archive: ColdArchive) -> Manifest:
    objects, place = place_of(tenant, archive)
    try:
        with objects.fetch(place, archive.manifest) as path:
            if path.stat().st_size > LARGEST_MANIFEST:
                raise damaged(archive, "its manifest is too large")
            manifest = Manifest.model_validate_json(path.read_bytes())
    except NotFound:
        raise missing(archive, objects) from None
    except ValidationError:
        raise damaged(archive, "its manifest cannot be read") from None
    if manifest.format != COLD_FORMAT or manifest.schema_version > SCHEMA:
        raise NewerStore(
            f"session '{archive.id[:80]}' was moved to cold storage by a newer version", remedy="upgrade Recollect"
        )
    if manifest.file != archive.digest or manifest.session != archive.id:
        raise damaged(archive, "its manifest is another's")
    return manifest


@contextmanager
def fetched(tenant: Tenant, archive: ColdArchive) -> Iterator[Path]:
    """The file of the records, checked by its hash."""
    objects, place = place_of(tenant, archive)
    try:
        with objects.fetch(place, archive.digest) as path:
            yield path
    except NotFound as error:
        if error.details.get("digest") == archive.digest:
            raise missing(archive, objects) from None
        raise


def read(tenant: Tenant, archive: ColdArchive, manifest: Manifest) -> list[Record]:
    """All records of an archive, in the order in which they can be written; DamagedData if any is not as it was."""
    hashed, records = _Hash(), list[Record]()
    with fetched(tenant, archive) as path:
        for row in tenant.cold_files.read(path):
            if row.table == ColdArchive.shape.table:
                continue
            hashed.add(row.record)
            records.append(
                record_of({"table": row.table, "record": json.loads(row.record)}, tenant.scope.organization_id)
            )
    if len(records) != manifest.rows or hashed.hex() != manifest.records_hash:
        raise damaged(archive, "its records are not those that were written")
    return records


def damaged(archive: ColdArchive, why: str) -> DamagedData:
    return DamagedData(
        f"the archive of session '{archive.id[:80]}' is damaged: {why}",
        remedy="restore its files from a backup of the cold storage; nothing was changed",
        id=archive.id,
    )


def missing(archive: ColdArchive, objects: ObjectStore) -> NotFound:
    return NotFound(
        f"the files of session '{archive.id[:80]}' are missing from its cold storage",
        remedy="put them back from a backup, then try again; `recollect cold show` says where they should be",
        id=archive.id,
    )
