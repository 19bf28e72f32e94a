"""Make a backup of the whole store while it is in use.

To a folder or a bucket, a backup is stored in chunks that earlier backups may have stored already, encrypted with the
store's key, and read back (ports/backups.py). SQLite and DuckDB stores are copied as files, others record by record,
each organization as of one moment. To a file, the store's engine writes its own kind of copy.

Every backup is recorded in every organization, since it holds data of each. (tests/services/backups)
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, BinaryIO, cast

from pydantic import Field

from recollect.domain.backups import Backup
from recollect.domain.record import new_id, now
from recollect.errors import Closed, DamagedData, InvalidInput, LeaseLost, RecollectError, StoreBusy
from recollect.ports.backups import BackedUpObject, BackupInfo, BackupRepository, ContentKind
from recollect.ports.objects import file_digest
from recollect.services.backups import store_lines
from recollect.services.backups.history import record_backup, rotate
from recollect.services.memories.indexing import Progress
from recollect.services.requests import AS_GIVEN, Reply, Request
from recollect.services.tenant import Tenant

log = logging.getLogger("recollect.backups")
PIECE_BYTES = 1 << 20
COPIED_AS_FILES = frozenset({"sqlite", "duckdb"})


class BackupRequest(Request):
    """Where to back up the whole store to."""

    path: Annotated[str, AS_GIVEN] | None = Field(
        None,
        description="A folder (written with / at the end if it is new), an address such as s3://bucket/prefix, or the "
        "path of a new file; by default the setting `backups.to`",
    )
    verify: bool = Field(
        True, description="Read it back, open it and check every record; the setting `backups.verify` turns it off, too"
    )


class BackupReply(Reply):
    path: str
    bytes: int
    objects: str | None = Field(None, description="Where the stored files are that belong to it, if there are any")
    object_bytes: int | None = Field(None, description="How many bytes of stored files were copied, if there are any")
    id: str | None = Field(None, description="The backup, in the list of backups")
    new_bytes: int | None = Field(None, description="How much was stored that earlier backups had not stored already")
    encrypted: bool = False
    verified: bool = Field(False, description="It was read back, opened, and every record of it checked")
    seconds: float = 0
    deleted: list[str] = Field(default_factory=list, description="Older backups that are not kept any longer")
    notes: list[str] = Field(default_factory=list)


def backup(tenant: Tenant, request: BackupRequest, progress: Progress = lambda done, total: None) -> BackupReply:
    """A consistent copy of the store, taken while others write.

    In a folder or a bucket, a backup shares what did not change with earlier ones. As a file, it is what the engine of
    the store writes; stored files, such as uploads, are copied to the folder `PATH-objects` beside it.
    """
    address = request.path or tenant.backups.policy.to
    if not address:
        raise InvalidInput(
            "no place for backups was given",
            remedy="`recollect backup PLACE`, or set `backups.to` (RECOLLECT_BACKUPS__TO) to a folder or an address",
        )
    tenant.journal.flush()
    if request.path is not None and not is_place(request.path):
        reply = _to_file(tenant, Path(request.path))
        progress(reply.bytes, reply.bytes)  # the engine does not say how far it is
        return reply
    return back_up_to(tenant, address, request.verify and tenant.backups.policy.verify, progress)


def is_place(address: str) -> bool:
    """Whether it names a folder or a bucket for many backups, not a file for one."""
    return "://" in address or address.endswith("/") or Path(address).expanduser().is_dir()


def back_up_to(tenant: Tenant, address: str, verify: bool, progress: Progress) -> BackupReply:
    """A backup in a folder or a bucket; recorded, whether it succeeds or fails."""
    repository, began = tenant.backups.at(address), time.monotonic()
    try:
        meter = _BytesMeter(progress, proves=verify)
        info = _stored(tenant, repository, meter)
        if verify:
            prove(tenant, repository, info.id, meter)
        meter.finish()
    except (Closed, LeaseLost, StoreBusy):
        raise  # stopped, or another process makes one
    except RecollectError as error:
        failed = Backup(
            organization_id=tenant.scope.organization_id, id=new_id(), place=repository.label, kind=_kind(tenant),
            made_at=now(), error=f"{error.code}: {error.message}",
        )  # fmt: skip
        _recorded(tenant, failed)
        raise
    seconds = round(time.monotonic() - began, 3)
    made = Backup(
        organization_id=tenant.scope.organization_id, id=info.id, place=repository.label, kind=info.kind,
        made_at=info.made_at, bytes=info.bytes, new_bytes=info.new_bytes, digest=info.digest, seconds=seconds,
        is_encrypted=info.encrypted, verified_at=now() if verify else None,
    )  # fmt: skip
    notes = _recorded(tenant, made)
    deleted = rotate(tenant, repository) if address == tenant.backups.policy.to else []
    return BackupReply(
        path=repository.label, bytes=info.bytes, id=info.id, new_bytes=info.new_bytes, encrypted=info.encrypted,
        verified=verify, seconds=seconds, deleted=deleted, notes=notes,
    )  # fmt: skip


def _stored(tenant: Tenant, repository: BackupRepository, meter: _BytesMeter) -> BackupInfo:
    kind = _kind(tenant)
    if kind == "records":
        return repository.write(kind, store_lines.lines(tenant.store), _objects(tenant), meter.written)
    with tenant.backups.work_folder() as folder:
        copy = folder / "store"
        tenant.store.backup(copy)
        meter.expected = copy.stat().st_size
        return repository.write(kind, copy, _objects(tenant), meter.written)


def _kind(tenant: Tenant) -> ContentKind:
    """Files that are encrypted as a whole share nothing with the next copy of them: their records do."""
    name = tenant.store.capabilities.name
    return cast(ContentKind, name) if name in COPIED_AS_FILES and not tenant.files.is_on else "records"


def _objects(tenant: Tenant) -> Iterator[BackedUpObject]:
    """The large content of all organizations; asked for after the records, so that all that they name is there."""
    for organization in tenant.store.tenants():
        place = tenant.keyring.known_content_place(organization)
        if place is None:
            continue
        for info in tenant.objects.list(place):
            read = partial(tenant.objects.read, place, info.digest)
            yield BackedUpObject(place, info.digest, info.size, read)


class _BytesMeter:
    """The bytes that were written, and read again where the backup is proved. How many there will be may not be known:
    then it is taken to be as many as there were.
    """

    def __init__(self, progress: Progress, *, proves: bool) -> None:
        self._progress, self._rounds = progress, 2 if proves else 1
        self._written = self._read = self.expected = 0

    def written(self, size: int) -> None:
        self._written += size
        self._progress(self._written, self._rounds * max(self.expected, self._written))

    def read(self, size: int) -> None:
        self._read += size
        done = self._written + self._read
        self._progress(done, max(2 * max(self.expected, self._written), done))

    def finish(self) -> None:
        done = max(self._rounds * max(self.expected, self._written), self._written + self._read)
        self._progress(done, done)


def prove(tenant: Tenant, repository: BackupRepository, id: str, meter: _BytesMeter) -> None:
    """Read a backup back, open what it holds, and check every record; one that fails is deleted."""
    try:
        repository.check(id, meter.read)
        with tenant.backups.restored(repository, id, objects=False) as copy:
            problems = copy.store.verify()
        if problems:
            raise DamagedData(
                f"the backup has {len(problems)} problems, the first: {problems[0].what}",
                remedy="run `recollect verify` on the store; the backup was not kept",
            )
    except DamagedData:
        repository.delete([id])
        raise


def _to_file(tenant: Tenant, target: Path) -> BackupReply:
    """By the engine's own means: a file, a dump, or a copy inside AWS."""
    began = time.monotonic()
    encrypted = _written(tenant, target)
    size = target.stat().st_size if target.exists() else 0  # some are inside AWS
    reply = BackupReply(path=str(target), bytes=size, id=new_id(), encrypted=encrypted)
    folder = target.with_name(target.name + "-objects")
    copied = tenant.objects.copy_to(folder)  # after the records, so that all the content they name is there
    if copied is None:
        stay = f"stored files are not part of the backup; they stay in {tenant.objects.label}"
        reply = reply.model_copy(update={"objects": tenant.objects.label, "notes": [stay]})
    elif folder.is_dir():
        reply = reply.model_copy(update={"objects": str(folder), "object_bytes": copied})
    seconds = round(time.monotonic() - began, 3)
    digest = file_digest(target) if target.exists() else None
    made = Backup(
        organization_id=tenant.scope.organization_id, id=reply.id or "", place=str(target.absolute()), kind="file",
        made_at=now(), bytes=size, new_bytes=size, digest=digest, is_encrypted=encrypted, seconds=seconds,
    )  # fmt: skip
    return reply.model_copy(update={"seconds": seconds, "notes": [*reply.notes, *_recorded(tenant, made)]})


def _written(tenant: Tenant, target: Path) -> bool:
    """Whether it is encrypted: where the engine does not do that, its copy is made elsewhere and then sealed."""
    if target.exists():
        raise InvalidInput(f"'{target}' already exists", remedy="give a path that is not taken")
    if not tenant.files.is_on or tenant.store.capabilities.encrypted:
        tenant.store.backup(target)
        return tenant.store.capabilities.encrypted
    with tenant.backups.work_folder() as folder:
        copy = folder / target.name
        tenant.store.backup(copy)
        if not copy.exists():  # it is inside AWS
            return False
        try:
            tenant.folders.keep(target, partial(_seal, tenant, copy))
        except OSError as error:
            raise InvalidInput(
                f"cannot write '{target}': {error.strerror}", remedy="give a path you may write to"
            ) from None
        return True


def _seal(tenant: Tenant, source: Path, file: BinaryIO) -> None:
    with source.open("rb") as copy, tenant.files.sealing(file) as sealed:
        while piece := copy.read(PIECE_BYTES):
            sealed.write(piece)


def _recorded(tenant: Tenant, made: Backup) -> list[str]:
    """A backup that cannot be recorded, since the store is read-only or its disk full, is one all the same."""
    try:
        record_backup(tenant, made)
    except RecollectError as error:
        log.warning("a backup could not be recorded: %s", error.code)
        return [f"the backup is not in the list of backups: {error.message}"]
    return []
