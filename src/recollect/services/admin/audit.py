"""The access log, who did what to which memory: reading it, sealing it, and verifying that it was not changed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from pydantic import Field

from recollect.domain.audit import AccessLog, AccessOperation, Seal, entry_hash, names_of, seal_digest
from recollect.domain.cold import ColdRecord
from recollect.domain.record import Id, JsonObject, QueryText
from recollect.errors import InvalidInput
from recollect.ports.query import Compare, Filter, IsNull, OneOf, Order, Query, equal
from recollect.ports.records import revised
from recollect.ports.steps import Step, Touch, Update
from recollect.services.access_journal import PSEUDONYMISED, RETENTION_NAMES
from recollect.services.log_seals import seal_entries
from recollect.services.requests import PageReply, Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.times import From, Through
from recollect.services.transaction import logged

# The longest that an entry waits for its seal; an older entry without one was inserted later.
GRACE = timedelta(hours=1)
LOOKS = 5
_AT_ONCE = 1000  # seals or entries that are read together


class LogRequest(Request):
    """Which entries of the access log to show."""

    memory: Id | None = Field(None, description="Only about this memory")
    operation: AccessOperation | None = Field(
        None, description="Only create, read, update, delete, search or view (read in the console)"
    )
    by: Id | None = Field(None, description="Only by this actor")
    action: QueryText | None = Field(
        None, description="Only of this operation, such as promote; former names of operations are accepted"
    )
    session: Id | None = Field(None, description="Only entries about this session")
    agent: Id | None = Field(None, description="Only entries about this agent")
    success: bool | None = Field(None, description="Only calls that succeeded, or only those that failed")
    since: From | None = Field(None, description="Only from this time on")
    until: Through | None = Field(None, description="Only before this time; a date includes the whole day")
    limit: int = Field(50, ge=1, le=1000, description="How many at most")
    after: QueryText | None = Field(None, description="The `next` of the page before")


class LogEntry(Reply):
    """One access. Its id can be cited: cite.log(id)."""

    id: str
    timestamp: datetime
    operation: str
    action: str
    memory: str | None = None
    session: str | None = None
    agent: str | None = None
    actor: str | None = None
    success: bool = True
    error: str | None = None
    address: str | None = None
    request: JsonObject = Field(default_factory=dict)
    seal: int | None = Field(None, description="The number of its seal; none until it is sealed")


class LogPage(PageReply[LogEntry]):
    """Entries of the access log, the newest first."""

    entries: list[LogEntry]


def show_log(tenant: Tenant, request: LogRequest) -> LogPage:
    """The access log, the newest first. Reads are logged within a second."""
    tenant.journal.flush_quietly()
    named: JsonObject = {"memory_id": request.memory, "operation": request.operation, "actor_id": request.by}
    named |= {"session_id": request.session, "agent_id": request.agent, "success": request.success}
    where: list[Filter] = [equal(name, value) for name, value in named.items() if value is not None]
    if request.action is not None:
        where.append(OneOf("action", names_of(request.action)))
    if request.since:
        where.append(Compare("timestamp", ">=", request.since))
    if request.until:
        where.append(Compare("timestamp", "<", request.until))
    order = (Order("id", descending=True),)
    page = tenant.find(Query(AccessLog, tuple(where), order, request.limit, request.after))
    return LogPage(entries=[_entry(one) for one in page.records], next=page.next)


def _entry(one: AccessLog) -> LogEntry:
    return LogEntry(
        id=one.id,
        timestamp=one.timestamp,
        operation=one.operation,
        action=one.action,
        memory=one.memory_id,
        session=one.session_id,
        agent=one.agent_id,
        actor=one.actor_id,
        success=one.success,
        error=one.error_message,
        address=one.ip_address,
        request=one.request_data,
        seal=one.seal,
    )


class SealRequest(Request):
    """Seal the new entries of the access log."""


class SealReply(Reply):
    """Store `anchor` elsewhere: with it you can verify later that nothing before it was changed or cut off."""

    entries: int
    seals: int
    anchor: str | None = None


def seal(tenant: Tenant, request: SealRequest) -> SealReply:
    """Chain every entry that has no seal yet to those before it."""
    done = seal_entries(tenant)
    return SealReply(entries=done.entries, seals=done.seals, anchor=_anchor(done.last) if done.last else None)


def _anchor(last: Seal) -> str:
    return f"{last.number}:{last.digest}"


class VerifyLogRequest(Request):
    """Verify the access log."""

    anchor: QueryText | None = Field(None, description="The `number:hash` of a seal that you stored elsewhere")


class VerifyLogReply(Reply):
    sound: bool
    entries: int
    seals: int
    unsealed: int
    anchor: str | None = None
    let_go: int = Field(0, description="Up to this seal, entries were deleted by retention, as the log itself records")
    pseudonymised: list[int] = Field(
        default_factory=list,
        description="The seals in whose entries erased people were replaced, as the log itself records",
    )
    problems: list[str] = Field(default_factory=list)


def verify_log(tenant: Tenant, request: VerifyLogRequest) -> VerifyLogReply:
    """Recompute every seal, and report entries that were changed, deleted, inserted, swapped or cut off."""
    found = _verified(tenant, request)
    for _ in range(LOOKS):
        if found.sound or _last_number(tenant) == found.seals:
            break
        found = _verified(tenant, request)  # somebody sealed meanwhile, which looks like entries without their seal
    return found


def _last_number(tenant: Tenant) -> int:
    newest = Query(Seal, (), (Order("number", descending=True),), 1)
    return max((number for (number,) in tenant.select(newest, ("number",))), default=0)


def _verified(tenant: Tenant, request: VerifyLogRequest) -> VerifyLogReply:
    tenant.journal.flush()
    number, digest, entries = 0, "", 0
    problems: list[str] = []
    kept, let_go, restated = _kept(request.anchor), _deleted_by_retention(tenant), restatements(tenant)
    for one in all_seals(tenant):
        if one.number != number + 1:
            problems.append(f"seal {number + 1} is missing")
        elif one.previous != digest:
            problems.append(f"seal {one.number} does not follow the one before it")
        problems += _broken(tenant, one, one.number <= let_go, restated.get(one.number))
        if kept is not None and one.number == kept[0] and one.digest != kept[1]:
            problems.append(f"seal {one.number} does not match the anchor")
        number, digest, entries = one.number, one.digest, entries + one.entries
    if kept is not None and number < kept[0]:
        problems.append(f"the log ends at seal {number}, before the anchor's {kept[0]}: its end was cut off")
    problems += _strays(tenant, number)
    unsealed = tenant.count(Query(AccessLog, (IsNull("seal"),)))
    anchor = f"{number}:{digest}" if number else None
    return VerifyLogReply(
        sound=not problems, entries=entries, seals=number, unsealed=unsealed, anchor=anchor, let_go=let_go,
        pseudonymised=sorted(restated), problems=problems,
    )  # fmt: skip


def _kept(anchor: str | None) -> tuple[int, str] | None:
    if anchor is None:
        return None
    number, separator, digest = anchor.partition(":")
    if not separator or not number.isdecimal():
        raise InvalidInput(
            "that is not an anchor", remedy="give the anchor that `recollect audit seal` returned, number:hash"
        )
    return int(number), digest


def all_seals(tenant: Tenant) -> Iterator[Seal]:
    after: str | None = None
    while True:
        page = tenant.find(Query(Seal, (), (Order("number"),), _AT_ONCE, after))
        yield from page.records
        after = page.next
        if after is None:
            return


def _deleted_by_retention(tenant: Tenant) -> int:
    """Up to which seal retention has deleted entries; it records that in the log each time."""
    said = Query(AccessLog, (OneOf("action", tuple(RETENTION_NAMES)),), (Order("id", descending=True),), 10)
    return max((int(one.request_data.get("seals") or 0) for one in tenant.find(said).records), default=0)


def restatements(tenant: Tenant) -> dict[int, str]:
    """The digest of each seal whose entries were changed by an erasure, as the log states it; the latest counts.

    The seal itself keeps its digest, so the chain and every anchor hold. What its entries are now is proven by the
    statement, which is an entry under a later seal.
    """
    found: dict[int, str] = {}
    after: str | None = None
    while True:
        page = tenant.find(Query(AccessLog, (equal("action", PSEUDONYMISED),), (Order("id"),), _AT_ONCE, after))
        for one in page.records:
            found[int(one.request_data["seal"])] = str(one.request_data["digest"])
        after = page.next
        if after is None:
            return found


def entries_under(tenant: Tenant, one: Seal) -> list[AccessLog]:
    return tenant.find(Query(AccessLog, (equal("seal", one.number),), (Order("id"),), deleted="yes")).records


def restating_steps(
    tenant: Tenant, one: Seal, changes: dict[str, JsonObject], restated: str | None, erasure: str
) -> list[Step]:  # fmt: skip
    """Change sealed entries, each by the fields given, and state in the log what they are now.

    A seal that is broken already gets no statement: an erasure must not cover up what was done to it before. The seal
    is written, too, so that of two who change its entries at once one fails and reads again.
    """
    entries = entries_under(tenant, one)
    after = {entry.id: entry_hash(entry.changed(**changes.get(entry.id, {}))) for entry in entries}
    steps: list[Step] = [Update(revised(one, tenant.scope))]
    steps += [Touch(AccessLog, id, put=fields) for id, fields in changes.items()]
    if not any(_broken(tenant, one, False, restated)):
        told = {"seal": one.number, "entries": len(changes), "digest": _digest(tenant, one, after)}
        steps.append(logged(tenant, "update", PSEUDONYMISED, None, **told, erasure=erasure))
    return steps


def _broken(tenant: Tenant, one: Seal, may_lack: bool, restated: str | None) -> Iterator[str]:
    hashes = _with_moved(tenant, one, {entry.id: entry_hash(entry) for entry in entries_under(tenant, one)})
    if may_lack and len(hashes) < one.entries:
        return
    if len(hashes) != one.entries:
        yield f"seal {one.number} covers {one.entries} entries, {len(hashes)} are there"
    elif _digest(tenant, one, hashes) not in (one.digest, restated):
        yield f"an entry under seal {one.number} was changed or replaced"


def _with_moved(tenant: Tenant, one: Seal, hashes: dict[str, str]) -> dict[str, str]:
    """The hashes of all entries of a seal by id, also of those that are in cold storage."""
    if len(hashes) >= one.entries:
        return hashes
    moved = tenant.select(Query(ColdRecord, (equal("seal", one.number),)), ("record_id", "digest"))
    return {id: digest or "" for id, digest in moved} | hashes


def _digest(tenant: Tenant, one: Seal, hashes: dict[str, str]) -> str:
    whole = _with_moved(tenant, one, hashes)
    return seal_digest(one.number, one.previous, [whole[id] for id in sorted(whole)])


def _strays(tenant: Tenant, last: int) -> Iterator[str]:
    """Entries whose seal does not exist, or that are unsealed although older than the last seal."""
    beyond = tenant.count(Query(AccessLog, (Compare("seal", ">", last),), deleted="yes"))
    if beyond:
        yield f"{beyond} entries refer to a seal that does not exist"
    newest = tenant.find(Query(Seal, (), (Order("number", descending=True),), 1)).records
    if newest:
        old = Compare("timestamp", "<", newest[0].created_at - GRACE)
        inserted = tenant.count(Query(AccessLog, (IsNull("seal"), old)))
        if inserted:
            yield f"{inserted} entries are older than the last seal but not sealed: they were inserted later"
