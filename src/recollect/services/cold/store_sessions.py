"""Moving sessions to cold storage: nothing is lost and nothing is there twice, whenever the process is killed.

The files are written and named by a record (`ColdArchive`, still without effect), stored, and read back. Then one
transaction deletes the records from the store, provided that none was changed since it was read, and leaves the rows
that say where they are. Of a killed process the archive is left, which nothing refers to: the next attempt replaces it,
and `sweep` deletes its files. There is one such record for a session, so it is also the lease on moving it: another
process waits until it is released or old, and whoever lost it is refused by its version. No two attempts make the same
file, so what one deletes is never another's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from pydantic import Field

from recollect.domain.agents import Cycle
from recollect.domain.audit import AccessLog, entry_hash
from recollect.domain.cold import ColdArchive, ColdLink, ColdRecord
from recollect.domain.conversations import Session
from recollect.domain.memory import Memory, Relationship
from recollect.domain.record import Id, JsonObject, Record, derived_id, now
from recollect.domain.tenancy import Project
from recollect.errors import Conflict, DuplicateKey, InvalidInput, RecollectError
from recollect.ports.query import Compare, Filter, IsNull, OneOf, Order, Query, equal
from recollect.ports.records import revised
from recollect.ports.steps import Absent, Delete, DeleteWhere, Insert, Require, Step, Touch, Update
from recollect.services.cold.archive_files import ArchiveFiles, moment_of, put, written
from recollect.services.cold.session_records import (
    SessionRecords,
    active_since,
    chunks,
    referring_to,
    roots,
    session_records,
)
from recollect.services.erasure import delete_cold_files, finish, owing
from recollect.services.legal_holds import active_holds
from recollect.services.log_seals import seal_entries
from recollect.services.memories.indexing import Progress
from recollect.services.record_lines import parents_first
from recollect.services.requests import Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.times import From
from recollect.services.transaction import commit, load, logged, made

PAGE = 200
MOST_TRIES = 3
AT_WORK_SECONDS = 900.0  # after which whoever began to move a session is taken for dead
MOST_NAMED = 1000  # of the sessions that stay
# What others look up by its id, so that they are told where it is; and entries of the log, which are proved by it.
INDEXED = ("memory", "message", "execution", "cycle", "result", "access_log")


class StoreColdRequest(Request):
    """Which sessions to move to cold storage, and where to."""

    before: From | None = Field(None, description="Sessions in which nothing happened since then")
    project: Id | None = Field(None, description="Only sessions of this project")
    session: Id | None = Field(None, description="Only this session")
    to: str | None = Field(
        None,
        max_length=2000,
        description="Where to: a folder, file:///… or s3://bucket/path; by default as the settings say, else beside "
        "the store's other files",
    )
    limit: int = Field(1000, ge=1, le=100_000, description="Move so many sessions at most, the oldest first")
    dry_run: bool = Field(False, description="Only report what would be moved")


class ColdSession(Reply):
    """A session that was or would be moved, or why it stays."""

    session: str
    title: str = ""
    records: int = 0
    bytes: int = Field(0, description="The size of its files")
    stays_because: str = Field("", description="Why it was not moved")


class StoreColdReply(Reply):
    """What was moved; `more` when further sessions are due."""

    moved: list[ColdSession] = Field(default_factory=list)
    stayed: list[ColdSession] = Field(default_factory=list)
    to: str = ""
    dry_run: bool = False
    more: bool = False


def store(tenant: Tenant, request: StoreColdRequest, progress: Progress = lambda done, total: None) -> StoreColdReply:
    """Move old sessions with their messages, memories, runs, checkpoints and log entries into compressed files.

    Summaries and patterns stay, and so do sessions that are in use. `cold.restore` brings a session back as it was.
    """
    if request.before is None and request.session is None:
        raise InvalidInput("nothing says which sessions to move", remedy="give before, such as 2026-01-01, or session")
    address = request.to if request.to is not None else tenant.cold_places.default
    objects = tenant.cold_places(address, tenant.scope)
    reply = StoreColdReply(to=objects.label, dry_run=request.dry_run)
    if not request.dry_run:
        seal_entries(tenant)
        delete_cold_files(tenant)
    for session in _due(tenant, request):
        if len(reply.moved) == request.limit:
            reply.more = True
            break
        moved = _preview(tenant, session) if request.dry_run else move(tenant, session, address)
        (reply.stayed if moved.stays_because else reply.moved).append(moved)
        del reply.stayed[MOST_NAMED:]
        progress(len(reply.moved), request.limit)
    if reply.moved and not request.dry_run:
        finish(tenant)
    return reply


def _due(tenant: Tenant, request: StoreColdRequest) -> Iterator[Session]:
    """The oldest first."""
    if request.session is not None:
        session = load(tenant, Session, request.session)
        if session.cold_at is None:
            yield session
        return
    assert request.before is not None
    if request.project is not None:
        load(tenant, Project, request.project)
    where: list[Filter] = [Compare("created_at", "<", request.before), IsNull("cold_at")]
    where += [equal("project_id", request.project)] if request.project is not None else []
    yield from idle_sessions(tenant, tuple(where), request.before)


def idle_sessions(tenant: Tenant, where: tuple[Filter, ...], before: datetime) -> Iterator[Session]:
    """Sessions in which nothing happened since then, the oldest first."""
    after: str | None = None
    while True:
        page = tenant.find(Query(Session, where, (Order("created_at"),), PAGE, after))
        active = active_since(tenant, [one.id for one in page.records], Compare("created_at", ">=", before))
        yield from (one for one in page.records if one.id not in active)
        after = page.next
        if after is None:
            return


def _preview(tenant: Tenant, session: Session) -> ColdSession:
    found = session_records(tenant, session)
    reason = found.stays_because or _held(tenant, found)
    count = sum(found.counts().values())
    return ColdSession(session=session.id, title=session.title, records=count, stays_because=reason)


def _held(tenant: Tenant, found: SessionRecords) -> str:
    holds = active_holds(tenant)
    hold = next((hold for record in _owned(found) if (hold := holds.over(record)) is not None), None) if holds else None
    return f"it is on legal hold: {hold.id}" if hold is not None else ""


def move(tenant: Tenant, session: Session, address: str | None, **entry: object) -> ColdSession:
    """Move one session; tried again if somebody changes it meanwhile. `entry` is for the access log."""
    told = ColdSession(session=session.id, title=session.title)
    for _ in range(MOST_TRIES):
        found = session_records(tenant, session)
        reason = found.stays_because or _held(tenant, found) or _being_moved(tenant, session.id)
        if reason:
            return told.model_copy(update={"stays_because": reason})
        moved = _moved(tenant, found, address, entry)
        if moved is not None:
            return told.model_copy(update={"records": sum(found.counts().values()), "bytes": moved.bytes})
    return told.model_copy(update={"stays_because": "it was changed while it was being moved"})


def _being_moved(tenant: Tenant, session: str) -> str:
    """Whether another process is at it. What one that was killed has left is taken away first."""
    left = tenant.get(ColdArchive, session)
    if left is None:
        return ""
    if left.status == "stored" and left.session_id is not None:
        return "it is in cold storage already"
    if left.session_id is not None and abs((now() - left.updated_at).total_seconds()) < AT_WORK_SECONDS:
        return "another process is moving it"
    _abandon(tenant, left)
    return ""


def _moved(tenant: Tenant, found: SessionRecords, address: str | None, entry: JsonObject) -> ColdArchive | None:
    """None if somebody changed it meanwhile, or another process began to move it."""
    with written(tenant, found) as files:
        archive = _archive_of(tenant, found, address, files)
        try:
            tenant.transact([Insert(archive)])  # before its files: whatever happens, they will be found
        except DuplicateKey:
            return None
        try:
            put(tenant.cold_places(address, tenant.scope), archive.place, files)
            commit(tenant, _moving_steps(tenant, found, archive, entry))
        except Conflict:
            _abandon(tenant, archive)
            return None
        except RecollectError:
            _abandon(tenant, archive)
            raise
    return archive


def _archive_of(
    tenant: Tenant, found: SessionRecords, address: str | None, files: ArchiveFiles
) -> ColdArchive:  # fmt: skip
    moments = [moment_of(one) for table in ("message", "memory", "execution") for one in found.records.get(table, ())]
    owners = {
        f"{name}_ids": sorted({id for one in _owned(found) if (id := getattr(one, f"{name}_id", None)) is not None})
        for name in ("user", "agent", "project")
    }
    archive: ColdArchive = made(
        ColdArchive, tenant, id=found.session.id, session_id=found.session.id,
        address=None if address is None else tenant.cold_places.spelt(address), place=tenant.content_place,
        digest=files.digest, manifest=files.manifest_digest, bytes=files.bytes, counts=found.counts(),
        first_at=min(moments, default=None), last_at=max(moments, default=None), memory_groups=_memory_groups(found),
        cycle_marks=[derived_id("cold cycle", agent, str(index)) for agent, index in found.last_cycles.items()],
        **owners,
    )  # fmt: skip
    return archive


def _memory_groups(found: SessionRecords) -> list[list[object]]:
    oldest: dict[tuple[str, str, str | None, bool], datetime] = {}
    for one in found.records.get("memory", ()):
        if isinstance(one, Memory):
            group = (one.kind, one.level, one.project_id, one.is_deleted)
            oldest[group] = min(one.created_at, oldest.get(group, one.created_at))
    return [[*group, moment.isoformat()] for group, moment in oldest.items()]


def _owned(found: SessionRecords) -> Iterator[Record]:
    yield found.session
    for table in ("message", "memory", "execution"):
        yield from found.records.get(table, ())


def _abandon(tenant: Tenant, archive: ColdArchive) -> None:
    """Its files are deleted now, or by `sweep`; nothing happens if it was stored after all, by its version."""
    try:
        tenant.transact([Update(revised(archive, tenant.scope, session_id=None)), owing(tenant, archive.id)])
        delete_cold_files(tenant)
    except RecollectError:  # what went wrong before is what the caller must hear of
        return


@dataclass(frozen=True)
class _End:
    """One end of a link, by the names of its fields."""

    memory: str
    archive: str
    link: str


ENDS = tuple(_End(f"{name}_memory_id", f"{name}_archive_id", f"{name}_id") for name in ("source", "target"))


def _moving_steps(tenant: Tenant, found: SessionRecords, archive: ColdArchive, entry: JsonObject) -> list[Step]:
    """Nothing may have changed; then the records go, and the rows that say where they are come."""
    session = found.session
    told = {"id": session.id, "records": sum(found.counts().values()), "digest": archive.digest, **entry}
    return [
        Require(Session, session.id, {"cold_at": None}),
        Require(ColdArchive, archive.id, {"version": archive.version, "session_id": session.id}),
        *_unchanged_steps(found),
        *_link_steps(tenant, found),
        *_deleting_steps(found),
        *(Absent(record, where) for record, where in roots(session.id)),
        *_row_steps(tenant, found, archive),
        *_mark_steps(tenant, found),
        Update(revised(archive, tenant.scope, status="stored")),
        Touch(Session, session.id, put={"cold_at": now()}),
        owing(tenant, session.id),
        logged(tenant, "update", "cold.store", None, **told),
    ]


def _unchanged_steps(found: SessionRecords) -> Iterator[Step]:
    """A record that was hidden cannot be required; writing it again as it is fails as well if it was changed."""
    for table, records in found.records.items():
        for one in records if table != AccessLog.shape.table else ():
            yield Update(one) if one.is_deleted else Require(type(one), one.id, {"version": one.version})
    for link in (*found.outward, *found.cold_links):
        yield Require(type(link), link.id, {"version": link.version})


def _link_steps(tenant: Tenant, found: SessionRecords) -> Iterator[Step]:
    """Links to memories that stay, or are in cold storage, are stored apart until both ends are back."""
    moving = set(found.ids("memory"))
    archive = found.session.id
    for link in found.cold_links:
        ends: JsonObject = {}
        for end in ENDS:
            if getattr(link, end.memory) in moving:
                ends |= {end.memory: None, end.archive: archive}
        yield Update(revised(link, tenant.scope, **ends))
    for one in found.outward:
        yield Delete(Relationship, one.id)
        ends = {
            end.archive if id in moving else end.memory: archive if id in moving else id
            for end in ENDS
            if (id := getattr(one, end.link))
        }
        whole = one.model_dump(mode="json", exclude={"organization_id"})
        yield Insert(made(ColdLink, tenant, id=one.id, link=whole, **ends), restoring=True)


def _deleting_steps(found: SessionRecords) -> Iterator[Step]:
    """Children first; what was added to one of them since fails the transaction instead of going with it."""
    cleared = {(one.table, one.field, one.id) for one in found.cleared}
    for record in reversed(parents_first()):
        table = record.shape.table
        for some in chunks(found.ids(table)):
            for child, name in referring_to(table, "cascade"):
                yield Absent(child, (OneOf(name, some),))
            for other, name in referring_to(table, "clear"):
                known = tuple(sorted(id for of, field, id in cleared if (of, field) == (other.shape.table, name)))
                yield Absent(other, (OneOf(name, some), *((OneOf("id", known, wanted=False),) if known else ())))
            if record is Memory:
                for end in ENDS:
                    yield Absent(Relationship, (OneOf(end.link, some),))
                    yield Absent(ColdLink, (OneOf(end.memory, some),))
            yield DeleteWhere(record, (OneOf("id", some),))


def _row_steps(tenant: Tenant, found: SessionRecords, archive: ColdArchive) -> Iterator[Step]:
    for table in INDEXED:
        for one in found.records.get(table, ()):
            proof = {"seal": one.seal, "digest": entry_hash(one)} if isinstance(one, AccessLog) else {}
            id = derived_id(table, one.id)
            yield Insert(
                made(ColdRecord, tenant, id=id, archive_id=archive.id, record_table=table, record_id=one.id, **proof)
            )


def _mark_steps(tenant: Tenant, found: SessionRecords) -> Iterator[Step]:
    """The numbers of an agent's cycles go on after those that were moved."""
    for agent, index in found.last_cycles.items():
        id = derived_id("cold cycle", agent, str(index))
        yield Insert(made(Cycle, tenant, id=id, agent_id=agent, index=index, status="abandoned"), restoring=True)
