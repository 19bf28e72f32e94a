"""Partitions of a large store: months created ahead of time and dropped by age, tables distributed over a cluster.

A partition holds records of every organization, so these are operations on the store, not on one organization. Nothing
is dropped without `apply`; the plan before it counts what would be dropped and, for administrators of all
organizations, says whose it is. Memories are deleted as usual, with everything that belongs to them and an entry in the
log of each organization, before their empty month is dropped; a month of the access log is dropped directly.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from pydantic import Field

from recollect.domain.audit import AccessLog
from recollect.domain.memory import Memory
from recollect.domain.record import now
from recollect.errors import Denied, InvalidInput, Unsupported
from recollect.ports.partitions import Distributable, Partition, Partitioned
from recollect.ports.query import Compare, OneOf, Order, Query
from recollect.ports.records import Scope
from recollect.ports.steps import DeleteWhere
from recollect.services.legal_holds import active_holds, on_hold
from recollect.services.requests import Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.times import From
from recollect.services.transaction import commit, logged

PAGE = 500
_AGE = re.compile(r"^(\d{1,6})\s*(d|w|m|y)$")
_DAYS = {"d": 1, "w": 7, "m": 31, "y": 366}


class PartitionsRequest(Request):
    """Show the monthly partitions of a store; create them ahead, or drop old ones."""

    ahead: int | None = Field(None, ge=0, le=120, description="How many months ahead to create partitions for")
    drop_before: From | None = Field(None, description="Drop the months of the access log that ended before this time")
    older_than: str | None = Field(None, description="The same by age: 400d, 60w, 14m or 2y")
    memories: bool = Field(False, description="Drop months of memories instead, with everything that belongs to them")
    all_organizations: bool = Field(
        False, description="Also drop records of other organizations, and name them in the plan"
    )
    apply: bool = Field(False, description="Do it; otherwise only report what would be dropped")


class PartitionView(Reply):
    name: str
    table: str
    holds: str
    rows: int
    bytes: int


class PartitionDrop(Reply):
    """A month that was or would be dropped: how many rows, whose, and what belongs to them."""

    partition: str
    rows: int
    organizations: dict[str, int] = Field(default_factory=dict)
    others: int = 0
    hanging: dict[str, int] = Field(default_factory=dict)


class PartitionsReply(Reply):
    partitions: list[PartitionView]
    made: list[str] = Field(default_factory=list)
    drops: list[PartitionDrop] = Field(default_factory=list)
    applied: bool = False
    note: str = ""


def partitions(tenant: Tenant, request: PartitionsRequest) -> PartitionsReply:
    """Show the partitions of the store, create months ahead, drop old ones: only a plan unless `apply` is set."""
    store, before = tenant.store, _before(request)
    if not isinstance(store, Partitioned):
        if request.ahead is not None or before is not None:
            raise Unsupported(
                f"a {store.capabilities.name} store has no partitions",
                remedy="use `recollect sweep` and `recollect prune` to delete old memories",
            )
        return PartitionsReply(partitions=[], note=f"A {store.capabilities.name} store has no partitions.")
    made = store.make_ahead(request.ahead) if request.ahead is not None else []
    plan = _plan(store, "memory" if request.memories else "access_log", before) if before else []
    drops = [_view(store, tenant, one, request.all_organizations) for one in plan]
    if request.apply and plan:
        _refuse_others(drops, request.all_organizations)
        for partition in plan:
            _drop(tenant, store, partition)
    return PartitionsReply(
        partitions=[
            PartitionView(name=p.name, table=p.table, holds=p.holds, rows=p.rows, bytes=p.bytes)
            for p in store.partitions()
        ],
        made=made,
        drops=drops,
        applied=bool(request.apply and plan),
        note=_note(request, before, plan),
    )


def _before(request: PartitionsRequest) -> datetime | None:
    if request.older_than is None:
        before = request.drop_before
    elif request.drop_before is not None:
        raise InvalidInput("both drop_before and older_than are given", remedy="give one of them")
    else:
        found = _AGE.match(request.older_than.strip())
        if found is None:
            raise InvalidInput(f"'{request.older_than[:40]}' is not an age", remedy="write 400d, 60w, 14m or 2y")
        try:
            before = now() - timedelta(days=int(found[1]) * _DAYS[found[2]])
        except OverflowError:
            raise InvalidInput("that is before the first possible date", remedy="give a smaller age") from None
    if before is not None and before > now():
        raise InvalidInput("that time is in the future", remedy="give a time in the past")
    if before is None and (request.memories or request.apply):
        raise InvalidInput("neither older_than nor drop_before is given", remedy="give one of them")
    return before


def _plan(store: Partitioned, table: str, before: datetime) -> list[Partition]:
    return [one for one in store.partitions() if one.table == table and one.ends is not None and one.ends <= before]


def _view(store: Partitioned, tenant: Tenant, partition: Partition, everybody: bool) -> PartitionDrop:
    rows = store.rows_by_tenant(partition)
    mine = {id: count for id, count in rows.items() if everybody or id == tenant.scope.organization_id}
    return PartitionDrop(
        partition=partition.name,
        rows=sum(rows.values()),
        organizations=mine,
        others=sum(rows.values()) - sum(mine.values()),
        hanging=store.hanging(partition) if partition.table == "memory" else {},
    )


def _refuse_others(drops: Sequence[PartitionDrop], everybody: bool) -> None:
    if not everybody and any(one.others for one in drops):
        raise Denied(
            "these months hold records of other organizations",
            remedy="an administrator of the whole store can give all_organizations (--all-organizations)",
        )


def _drop(tenant: Tenant, store: Partitioned, partition: Partition) -> None:
    _refuse_holds(tenant, store.rows_by_tenant(partition))
    if partition.table == "memory":
        for id in store.rows_by_tenant(partition):
            _delete_memories(tenant.for_scope(Scope(id, tenant.scope.actor)), partition)
        store.drop(partition, [])
        return
    rows = store.rows_by_tenant(partition)
    notes = [_entry(tenant.for_scope(Scope(id, tenant.scope.actor)), partition, count) for id, count in rows.items()]
    store.drop(partition, notes)


def _refuse_holds(tenant: Tenant, organizations: Iterable[str]) -> None:
    """A whole month goes at once, so no organization in it may have a hold."""
    for id in organizations:
        for hold in active_holds(tenant.for_scope(Scope(id, tenant.scope.actor))).by_subject.values():
            raise on_hold(hold.subject_type, hold.subject_id, hold)


def _delete_memories(tenant: Tenant, partition: Partition) -> None:
    """In batches that each commit with a log entry; after an interruption, the next run continues."""
    within = (Compare("id", ">=", partition.first_id), Compare("id", "<", partition.end_id))
    while True:
        page = Query(Memory, within, (Order("id"),), limit=PAGE, deleted="yes")
        ids = tuple(id for (id,) in tenant.select(page, ("id",)))
        if not ids:
            return
        note = logged(tenant, "delete", "drop partition", partition=partition.name, memories=len(ids))
        commit(tenant, [DeleteWhere(Memory, (OneOf("id", ids),)), note])


def _entry(tenant: Tenant, partition: Partition, count: int) -> AccessLog:
    """Records up to which seal entries are dropped, so that verifying the log does not report tampering."""
    within = (Compare("id", ">=", partition.first_id), Compare("id", "<", partition.end_id), Compare("seal", ">=", 1))
    last = Query(AccessLog, within, (Order("seal", descending=True),), limit=1, deleted="yes")
    seals = [seal for (seal,) in tenant.select(last, ("seal",))]
    note = logged(
        tenant, "delete", "drop partition", partition=partition.name, entries=count, seals=max(seals, default=None)
    ).record
    assert isinstance(note, AccessLog)
    return note


def _note(request: PartitionsRequest, before: datetime | None, plan: Sequence[Partition]) -> str:
    if before is None:
        return ""
    if not plan:
        return "No whole month is that old; only whole months are dropped."
    return "" if request.apply else "Nothing was dropped: give apply (--apply) to do it."


def keep_retention(tenant: Tenant) -> int:
    """Delete access log entries of this organization that are older than the settings allow; returns how many.

    Where there are partitions, a month that holds no other organization's entries is dropped whole.
    """
    if tenant.access_log_days is None or active_holds(tenant):  # what the log says of held ones must stay, too
        return 0
    before = now() - timedelta(days=tenant.access_log_days)
    dropped = _drop_own(tenant, tenant.store, before) if isinstance(tenant.store, Partitioned) else 0
    return dropped + _delete_entries(tenant, before)


def _drop_own(tenant: Tenant, store: Partitioned, before: datetime) -> int:
    dropped = 0
    for partition in _plan(store, "access_log", before):
        rows = store.rows_by_tenant(partition)
        if rows.keys() <= {tenant.scope.organization_id}:
            dropped += sum(rows.values())
            _drop(tenant, store, partition)
    return dropped


def _delete_entries(tenant: Tenant, before: datetime) -> int:
    deleted = 0
    while True:
        page = Query(AccessLog, (Compare("timestamp", "<", before),), (Order("id"),), limit=PAGE, deleted="yes")
        rows = tenant.select(page, ("id", "seal"))
        if not rows:
            return deleted
        ids, seals = tuple(id for id, _ in rows), [seal for _, seal in rows if seal is not None]
        note = logged(tenant, "delete", "retention", entries=len(ids), seals=max(seals, default=None))
        commit(tenant, [DeleteWhere(AccessLog, (OneOf("id", ids),)), note])
        deleted += len(ids)


class MigrateRequest(Request):
    """Bring the tables up to date; with `distribute`, distribute them over a Citus cluster."""

    distribute: bool = Field(False, description="Distribute the tables over a Citus cluster, by organization")


class MigrateReply(Reply):
    """What was done; opening a store applies migrations as well, so often there is nothing to do."""

    applied: list[str]
    distributed: list[str] = Field(default_factory=list)


def migrate(tenant: Tenant, request: MigrateRequest) -> MigrateReply:
    """Apply pending migrations, each in one transaction."""
    if request.distribute and not isinstance(tenant.store, Distributable):
        raise Unsupported(
            f"a {tenant.store.capabilities.name} store cannot be distributed",
            remedy="move it to PostgreSQL with Citus first: docs/scale.md",
        )
    applied = tenant.store.migrate()
    distributed = tenant.store.distribute() if request.distribute and isinstance(tenant.store, Distributable) else []
    return MigrateReply(applied=applied, distributed=distributed)
