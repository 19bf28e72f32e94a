"""Copying everything in one store to another, of any kind, and verifying that both are the same.

Records are copied parents first and by id, in batches that each commit; each organization as of one moment. Records
that the target already has are compared and left alone, so an interrupted copy continues when it is run again, and a
second run copies only what changed and deletes what the source has deleted. A target with records that the source never
had was written to by someone else: it is refused before anything is changed. At the end both sides are read again and
their content hashes compared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence

from pydantic import Field

from recollect.domain.audit import AccessLog
from recollect.domain.provenance import KEYED_HASH
from recollect.domain.record import RECORDS, Record
from recollect.domain.tenancy import Organization
from recollect.errors import Conflict, InvalidInput
from recollect.ports.query import Compare, Filter, OneOf, Order, Query
from recollect.ports.records import Reads, RecordStore, Scope
from recollect.ports.steps import Delete, Insert, Put, Step
from recollect.services.admin.export import record_line
from recollect.services.keyed_hashes import Keyring
from recollect.services.memories.indexing import Progress
from recollect.services.record_lines import parents_first
from recollect.services.requests import Reply

BATCH = 500
CHANGES = 10_000
# A lease has no meaning in another store.
LEFT_OUT = frozenset({"lease", "erasure"})


class TenantCopy(Reply):
    organization: str
    records: int
    written: int
    hash: str


class CopyReply(Reply):
    """What was copied; the hash of each organization is the same on both sides."""

    records: int
    written: int
    organizations: list[TenantCopy] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)


def copy(
    source: RecordStore,
    target: RecordStore,
    organizations: Sequence[str] = (),
    progress: Progress = lambda done, total: None,
) -> CopyReply:
    """Copy every record of these organizations (by default all) from one store to another."""
    known = source.tenants()
    unknown = [name for name in organizations if name not in known]
    if unknown or not known:
        raise InvalidInput(
            f"the source has no organization '{unknown[0][:80]}'" if unknown else "the source is empty",
            remedy="check the address" if not known else f"it has {', '.join(known[:10])}",
        )
    chosen = list(organizations) or known
    total = 2 * sum(_size(source, Scope(name)) for name in chosen)
    meter = _ProgressMeter(progress, total)
    copied = [_copy_tenant(source, target, Scope(name), meter) for name in chosen]
    meter.finish()
    return CopyReply(
        records=sum(one.records for one in copied), written=sum(one.written for one in copied), organizations=copied
    )


class _ProgressMeter:
    """Counts the records copied and checked; the total is an estimate while others write."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0

    def add(self, count: int) -> None:
        self._done += count
        self._progress(min(self._done, self._total), self._total)

    def finish(self) -> None:
        self._progress(self._total, self._total)


def _copy_tenant(source: RecordStore, target: RecordStore, scope: Scope, meter: _ProgressMeter) -> TenantCopy:
    """Copy one organization as of one moment; records the target already has are only read."""
    with source.snapshot(scope) as reading:
        _follow_deletions(source, reading, target, scope)
        written = sum(_copy_records(reading, target, scope, record, meter) for record in copied_records())
        here, there = content_hash(reading, scope, meter), content_hash(target, scope)
        if here != there:
            raise Conflict(
                _difference(reading, target, scope), remedy="copy into an empty store that no one else writes to"
            )
        return TenantCopy(organization=scope.organization_id, records=_size(reading, scope), written=written, hash=here)


def _follow_deletions(source: RecordStore, reading: Reads, target: RecordStore, scope: Scope) -> None:
    """Delete in the target what the source has deleted for good; refuse a target with records the source never had."""
    extra = {record: ids for record in copied_records() if (ids := list(_extra(reading, target, scope, record)))}
    if not extra:
        return
    gone = _gone(source, scope)
    foreign = {
        record.shape.table: count
        for record, ids in extra.items()
        if (count := sum(not gone(record.shape.table, id) for id in _told(reading, scope, record, ids)))
    }
    if foreign:
        raise Conflict(
            f"'{scope.organization_id}' in the target has records that the source never had: "
            + ", ".join(f"{count} of {table}" for table, count in sorted(foreign.items())),
            remedy="nothing was changed; copy into a store without it, or merge the two by export and import",
        )
    for record in reversed(copied_records()):
        ids = extra.get(record, [])
        for start in range(0, len(ids), BATCH):
            target.transact(scope, [Delete(record, id) for id in ids[start : start + BATCH]])


def _extra(source: Reads, target: RecordStore, scope: Scope, record: type[Record]) -> Iterator[str]:
    """The ids that exist only in the target."""
    after: tuple[Filter, ...] = ()
    while True:
        page = Query(record, after, (Order("id"),), BATCH, deleted="yes")
        ids = tuple(id for (id,) in target.select(scope, page, ("id",)))
        if not ids:
            return
        here = {id for (id,) in source.select(scope, Query(record, (OneOf("id", ids),), deleted="yes"), ("id",))}
        yield from (id for id in ids if id not in here)
        after = (Compare("id", ">", ids[-1]),)


def _told(source: Reads, scope: Scope, record: type[Record], ids: list[str]) -> list[str]:
    """Those of them whose deletion the source would have recorded, had they ever been in it.

    Deleting some types of records leaves no record of it, nor does dropping a month of the access log; use of the
    target on its own leaves newer entries in its log.
    """
    if not record.shape.leaves_trace:
        return []
    if record is not AccessLog:
        return ids
    first = source.select(scope, Query(AccessLog, (), (Order("id"),), 1, deleted="yes"), ("id",))
    return [id for id in ids if not first or id > first[0][0]]


def _gone(source: RecordStore, scope: Scope) -> Callable[[str, str], bool]:
    """What the source has deleted for good, as far as it recorded that; what was erased, by a keyed hash of its id."""
    gone: set[tuple[str, str]] = set()
    after = 0
    while changes := source.changes(scope, after, CHANGES):
        gone.update((one.table, one.id) for one in changes if one.gone)
        after = changes[-1].seq
    keyring = Keyring(source) if any(id.startswith(KEYED_HASH) for _, id in gone) else None

    def is_gone(table: str, id: str) -> bool:
        return (table, id) in gone or (keyring is not None and (table, keyring.keyed(scope, id)) in gone)

    return is_gone


def copied_records() -> list[type[Record]]:
    """What is carried over to another store, each after those it refers to."""
    return [record for record in parents_first() if record.shape.table not in LEFT_OUT]


def _size(store: Reads, scope: Scope) -> int:
    return sum(store.count(scope, Query(record, deleted="yes")) for record in copied_records())


def _copy_records(
    source: Reads, target: RecordStore, scope: Scope, record: type[Record], meter: _ProgressMeter
) -> int:  # fmt: skip
    written = 0
    for batch in batches(source, scope, record):
        steps = _steps(target, scope, record, batch)
        if steps:
            target.transact(scope, steps)
        written += len(steps)
        meter.add(len(batch))
    return written


def batches(store: Reads, scope: Scope, record: type[Record]) -> Iterator[list[Record]]:
    """All records of a type, by id, the deleted ones too."""
    after: str | None = None
    while True:
        page = store.find(scope, Query(record, (), (Order("id"),), BATCH, after, "yes"))
        if page.records:
            yield list(page.records)
        after = page.next
        if after is None:
            return


def _steps(target: RecordStore, scope: Scope, record: type[Record], batch: list[Record]) -> list[Step]:
    ids = OneOf("id", tuple(one.id for one in batch))
    there = {one.id: one for one in target.find(scope, Query(record, (ids,), deleted="yes")).records}
    steps: list[Step] = []
    for one in batch:
        if one.id not in there:
            steps.append(Insert(one, restoring=True))
        elif _compared(one) != _compared(there[one.id]):
            steps.append(Put(one, restoring=True))
    return steps


def content_hash(store: Reads, scope: Scope, meter: _ProgressMeter | None = None) -> str:
    """The hash of every record of an organization, in an order that is the same on every store."""
    digest = hashlib.sha256()
    for record in copied_records():
        for batch in batches(store, scope, record):
            for one in batch:
                digest.update(_compared(one))
            if meter is not None:
                meter.add(len(batch))
    return digest.hexdigest()


def _compared(record: Record) -> bytes:
    """What must be the same in both stores. Whether texts are encrypted is decided for each store."""
    if isinstance(record, Organization):
        record = record.model_copy(update={"text_encrypted": False})
    return record_line(record)


def _difference(source: Reads, target: Reads, scope: Scope) -> str:
    for table, record in sorted(RECORDS.items()):
        here, there = (store.count(scope, Query(record, deleted="yes")) for store in (source, target))
        if table not in LEFT_OUT and here != there:
            return f"'{scope.organization_id}' differs after copying: {here} records of {table} here, {there} there"
    return f"'{scope.organization_id}' differs after copying: one of the stores was written to meanwhile"
