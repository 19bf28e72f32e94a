"""Restoring a session from cold storage: every record as it was, then the files are deleted.

All records are read and checked before the first is written, and written in one transaction, in which the archive loses
its session: from then on its files are to be deleted, now or by `sweep`. Of two who restore at once, one finds that it
is done. What changed in the store meanwhile is
respected: references to what was deleted are cleared, and keys that others took are given up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from pydantic import Field

from recollect.domain.agents import Cycle, Execution
from recollect.domain.cold import ColdArchive, ColdLink, ColdRecord
from recollect.domain.conversations import Session
from recollect.domain.memory import Memory, Relationship
from recollect.domain.record import RECORDS, JsonObject, Record
from recollect.ports.query import AnyOf, OneOf, Query, equal
from recollect.ports.records import revised
from recollect.ports.steps import Delete, DeleteWhere, Insert, Put, Require, Step, Touch, Update
from recollect.services.cold.archive_files import Manifest, manifest_of, read
from recollect.services.cold.archives import ColdRequest, stored_archive
from recollect.services.cold.session_records import ClearedReference, chunks
from recollect.services.cold.store_sessions import ENDS
from recollect.services.erasure import finish, owing
from recollect.services.memories.indexing import refreshed
from recollect.services.record_lines import record_of
from recollect.services.requests import Reply
from recollect.services.tenant import Tenant
from recollect.services.transaction import commit, load, logged

KEYED = (Memory, Execution)
"""What has an idempotency key."""


class RestoreColdReply(Reply):
    session: str
    records: int
    counts: dict[str, int] = Field(default_factory=dict)
    notes: list[str] = Field(default_factory=list)


def restore(tenant: Tenant, request: ColdRequest) -> RestoreColdReply:
    """Bring a session back from cold storage, with everything that was moved; its files are deleted afterwards."""
    archive = stored_archive(tenant, request.id)
    load(tenant, Session, archive.id)
    manifest = manifest_of(tenant, archive)
    back = _Restoration(tenant, archive, manifest, read(tenant, archive, manifest))
    commit(tenant, list(back.steps()))
    notes = [*back.notes, *refreshed(tenant)]
    finish(tenant)
    return RestoreColdReply(session=archive.id, records=len(back.records), counts=manifest.counts, notes=notes)


class _Restoration:
    """The records of an archive as they can be written now, and what had to be changed about them."""

    def __init__(self, tenant: Tenant, archive: ColdArchive, manifest: Manifest, records: Sequence[Record]) -> None:
        self.notes: list[str] = []
        self._tenant, self._archive, self._manifest = tenant, archive, manifest
        self.records = self._with_free_keys(self._with_references(records))

    def _with_references(self, records: Sequence[Record]) -> list[Record]:
        """What refers to something that was deleted meanwhile is cleared, or left out as it would have been deleted."""
        there = self._existing(records)
        kept: list[Record] = []
        for one in records:
            gone = [
                name
                for name, reference in one.shape.references.items()
                if (id := one.refers(name)) is not None and id not in there[reference.to]
            ]
            if any(one.shape.references[name].on_delete == "cascade" for name in gone):
                there[one.shape.table].discard(one.id)
                continue
            kept.append(one.changed(**dict.fromkeys(gone)) if gone else one)
        if len(kept) < len(records):
            self.notes.append(f"{len(records) - len(kept)} records that depend on deleted ones were left out")
        return kept

    def _existing(self, records: Sequence[Record]) -> dict[str, set[str]]:
        """By table, the ids that may be referred to: of these records, and of the store."""
        there: dict[str, set[str]] = defaultdict(set)
        wanted: dict[str, set[str]] = defaultdict(set)
        for one in records:
            there[one.shape.table].add(one.id)
            for name, reference in one.shape.references.items():
                if (id := one.refers(name)) is not None:
                    wanted[reference.to].add(id)
        for table, ids in wanted.items():
            for some in chunks(sorted(ids - there[table])):
                found = Query(RECORDS[table], (OneOf("id", some),), deleted="yes")
                there[table] |= {id for (id,) in self._tenant.select(found, ("id",))}
        return there

    def _with_free_keys(self, records: Sequence[Record]) -> list[Record]:
        keys = {one.id: one.idempotency_key for one in records if isinstance(one, KEYED) and one.idempotency_key}
        taken: set[str] = set()
        for record in KEYED:
            for some in chunks(sorted(set(keys.values()))):
                used = Query(record, (OneOf("idempotency_key", some),), deleted="yes")
                taken |= {f"{record.shape.table} {key}" for (key,) in self._tenant.select(used, ("idempotency_key",))}
        lost = {one.id for one in records if f"{one.shape.table} {keys.get(one.id)}" in taken}
        if lost:
            self.notes.append(f"{len(lost)} records gave up their idempotency key, which another has now")
        return [one.changed(idempotency_key=None) if one.id in lost else one for one in records]

    def steps(self) -> Iterator[Step]:
        archive, tenant = self._archive, self._tenant
        yield Require(ColdArchive, archive.id, {"version": archive.version, "status": "stored"})
        yield from (Delete(Cycle, mark) for mark in archive.cycle_marks)
        yield from (Insert(one, restoring=True) for one in self.records)
        yield from self._link_steps()
        yield from self._reference_steps()
        yield DeleteWhere(ColdRecord, (equal("archive_id", archive.id),))
        yield Touch(Session, archive.id, put={"cold_at": None})
        yield Update(revised(archive, tenant.scope, session_id=None))
        yield owing(tenant, archive.id)
        yield logged(tenant, "update", "cold.restore", None, id=archive.id, records=len(self.records))

    def _link_steps(self) -> Iterator[Step]:
        """Links whose other end is in the store are whole again; the others wait for it."""
        back = {one.id for one in self.records if isinstance(one, Memory)}
        mine = AnyOf(tuple(equal(end.archive, self._archive.id) for end in ENDS))
        for link in self._tenant.find(Query(ColdLink, (mine,))).records:
            relationship = record_of(
                {"table": "relationship", "record": dict(link.link)}, self._tenant.scope.organization_id
            )
            assert isinstance(relationship, Relationship)
            ends: JsonObject = {}
            for end in ENDS:
                if getattr(link, end.archive) == self._archive.id:
                    ends |= {end.memory: getattr(relationship, end.link), end.archive: None}
            if not all(id in back for name, id in ends.items() if id is not None):
                yield Delete(ColdLink, link.id)
            elif all(ends.get(end.archive, getattr(link, end.archive)) is None for end in ENDS):
                yield Delete(ColdLink, link.id)
                yield Insert(relationship, restoring=True)
            else:
                yield Update(revised(link, self._tenant.scope, **ends))

    def _reference_steps(self) -> Iterator[Step]:
        """Records that stayed refer to these again, unless they refer to something else by now."""
        by_record: dict[tuple[str, str], list[ClearedReference]] = defaultdict(list)
        back = {(one.shape.table, one.id) for one in self.records}
        for one in self._manifest.cleared:
            if one.table in RECORDS and one.field in RECORDS[one.table].shape.references:
                by_record[one.table, one.id].append(one)
        for (table, id), cleared in by_record.items():
            record = self._tenant.get(RECORDS[table], id, deleted=True)
            fields: dict[str, object] = {
                one.field: one.value
                for one in cleared
                if record is not None
                and getattr(record, one.field) is None
                and (record.shape.references[one.field].to, one.value) in back
            }
            if record is not None and fields:
                yield Put(record.changed(**fields), restoring=True)
