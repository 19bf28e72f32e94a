"""The record of backups: in every organization, since a backup holds the data of all. What is not kept any longer is
deleted here and at its place."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Annotated, Literal

from pydantic import Field

from recollect.domain.backups import Backup
from recollect.domain.record import Id, JsonObject, QueryText, now
from recollect.errors import Denied, InvalidInput, NotFound
from recollect.ports.backups import BackupRepository
from recollect.ports.query import Compare, IsNull, Order, Query, equal
from recollect.ports.records import Scope
from recollect.ports.steps import Delete, DeleteWhere, Put, Step
from recollect.services.backups.rotation import kept
from recollect.services.requests import AS_GIVEN, PageReply, Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.transaction import load

MOST_LISTED = 1000


class BackupView(Reply):
    """A backup: where it is, what it holds, and what was proven of it."""

    id: str
    place: str
    kind: Literal["sqlite", "duckdb", "records", "file"] = Field(
        description="A file of the store, its records one by one, or a file that the store's engine wrote"
    )
    made_at: datetime
    bytes: int = 0
    new_bytes: int = Field(0, description="How much of it was stored, compressed; the rest earlier backups had stored")
    digest: str | None = None
    encrypted: bool = False
    seconds: float | None = None
    verified_at: datetime | None = Field(None, description="When it was last read back and every record checked")
    drilled_at: datetime | None = Field(None, description="When it was last restored to a temporary place and tried")
    drill: JsonObject | None = Field(None, description="What that proved")
    error: str | None = Field(None, description="Why there is no such backup: it failed")


class BackupsRequest(Request):
    """Which backups to list."""

    place: Annotated[str, AS_GIVEN] | None = Field(
        None, description="Look at this folder or address instead of the record of this store"
    )
    limit: int = Field(100, ge=1, le=MOST_LISTED, description="How many, at most")
    after: QueryText | None = Field(None, description="The `next` of the page before")


class BackupPage(PageReply[BackupView]):
    backups: list[BackupView]


def list_backups(tenant: Tenant, request: BackupsRequest) -> BackupPage:
    """Backups, newest first, and those that failed."""
    if request.place is None:
        page = tenant.find(Query(Backup, (), (Order("made_at", True),), request.limit, request.after))
        return BackupPage(backups=[view(one) for one in page.records], next=page.next)
    if tenant.scope.granted is not None:
        raise Denied("the service does not look at other places", remedy="list the backups it has a record of")
    repository = tenant.backups.at(request.place)
    there = [
        BackupView(
            id=one.id, place=repository.label, kind=one.kind, made_at=one.made_at, bytes=one.bytes,
            new_bytes=one.new_bytes, digest=one.digest, encrypted=one.encrypted,
        )
        for one in repository.backups()[: request.limit]
    ]  # fmt: skip
    return BackupPage(backups=there)


def view(record: Backup) -> BackupView:
    return BackupView(
        id=record.id, place=record.place, kind=record.kind, made_at=record.made_at, bytes=record.bytes,
        new_bytes=record.new_bytes, digest=record.digest, encrypted=record.is_encrypted,
        seconds=record.seconds or None, verified_at=record.verified_at, drilled_at=record.drilled_at,
        drill=record.drill, error=record.error,
    )  # fmt: skip


class RemoveBackupRequest(Request):
    """Which backup to delete."""

    id: Id = Field(description="The backup")


class RemovedBackup(Reply):
    id: str
    place: str
    notes: list[str] = Field(default_factory=list)


def remove_backup(tenant: Tenant, request: RemoveBackupRequest) -> RemovedBackup:
    """Delete a backup at its place, with what no other backup needs. One that is a file is yours to delete."""
    found = load(tenant, Backup, request.id)
    if found.kind == "file" and found.error is None:
        raise InvalidInput(
            "this backup is a file of its own", remedy=f"delete '{found.place}' yourself, and what lies beside it"
        )
    if found.error is None:
        tenant.backups.at(found.place).delete([found.id])
    forget(tenant, [found.id])
    return RemovedBackup(id=found.id, place=found.place)


def record_backup(tenant: Tenant, made: Backup) -> None:
    """In every organization; of backups that failed only the last is kept."""
    for organization in tenant.store.tenants():
        steps: list[Step] = [DeleteWhere(Backup, (IsNull("error", False),))] if made.error is not None else []
        actor = tenant.scope.actor
        steps.append(Put(made.changed(organization_id=organization, created_by=actor, updated_by=actor)))
        tenant.store.transact(Scope(organization, actor), steps)


def forget(tenant: Tenant, ids: list[str]) -> None:
    """Delete the records of backups in every organization."""
    for organization in tenant.store.tenants():
        tenant.store.transact(Scope(organization), [Delete(Backup, id) for id in ids])


def rotate(tenant: Tenant, repository: BackupRepository) -> list[str]:
    """Delete the backups of this store at a place that the policy does not keep; which."""
    made = {one.id: one.made_at for one in _known(tenant) if one.place == repository.label}
    there = set(repository.ids())
    keep = kept({id: moment for id, moment in made.items() if id in there}, tenant.backups.policy)
    gone = sorted(made.keys() - keep)
    if gone:
        repository.delete(gone)
        forget(tenant, gone)
    return gone


def _known(tenant: Tenant) -> Iterator[Backup]:
    """The good backups that any organization has a record of; some may be younger than others."""
    for organization in tenant.store.tenants():
        query = Query(Backup, (IsNull("error"),), (Order("made_at", True),), MOST_LISTED)
        yield from tenant.store.find(Scope(organization), query).records


def last_good(tenant: Tenant) -> datetime | None:
    """When the last backup was made that did not fail."""
    found = tenant.select(Query(Backup, (IsNull("error"),), (Order("made_at", True),), 1), ("made_at",))
    return found[0][0] if found else None


def last_at_place(tenant: Tenant) -> Backup:
    """The newest good backup in a folder or a bucket; in that of the settings, where they name one."""
    place = tenant.backups.policy.to
    where = Compare("kind", "!=", "file") if place is None else equal("place", tenant.backups.at(place).label)
    found = tenant.find(Query(Backup, (IsNull("error"), where), (Order("made_at", True),), 1)).records
    if not found:
        raise NotFound("there is no backup yet", remedy="make one: `recollect backup PLACE`")
    return found[0]


def is_due(tenant: Tenant) -> bool:
    """Whether the schedule wants a backup now."""
    policy = tenant.backups.policy
    if policy.to is None or policy.every_hours is None:
        return False
    where = (IsNull("error"), equal("place", tenant.backups.at(policy.to).label))
    last = tenant.select(Query(Backup, where, (Order("made_at", True),), 1), ("made_at",))
    return not last or last[0][0] + timedelta(hours=policy.every_hours) <= now()
