"""The access log, who did what to which memory: reading it, sealing it, and verifying that it was not changed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import datetime, timedelta

from pydantic import Field

from recollect.domain.audit import AccessLog, AccessOperation, Seal, names_of
from recollect.domain.memory import canonical
from recollect.domain.record import Id, JsonObject, QueryText
from recollect.errors import DuplicateKey, InvalidInput
from recollect.ports.query import Compare, Filter, IsNull, OneOf, Order, Query, equal
from recollect.ports.steps import Insert, Step, Touch
from recollect.services.access_journal import KEPT_NAMES
from recollect.services.requests import PageReply, Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.times import From, Through

BATCH = 1000
# The longest that an entry waits for its seal; an older entry without one was inserted later.
GRACE = timedelta(hours=1)


class LogRequest(Request):
    """Which entries of the access log to show."""

    memory: Id | None = Field(None, description="Only about this memory")
    operation: AccessOperation | None = Field(None, description="Only create, read, update, delete or search")
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
    tenant.journal.flush()
    entries = seals = 0
    while True:
        order = (Order("id"),)
        waiting = tenant.find(Query(AccessLog, (IsNull("seal"),), order, BATCH)).records
        last = _last_seal(tenant)
        if not waiting:
            return SealReply(entries=entries, seals=seals, anchor=_anchor(last) if last else None)
        number, previous = (last.number + 1, last.digest) if last else (1, "")
        made = Seal(
            organization_id=tenant.scope.organization_id,
            number=number,
            previous=previous,
            digest=_digest(number, previous, waiting),
            entries=len(waiting),
        )
        steps: list[Step] = [Insert(made), *(Touch(AccessLog, one.id, put={"seal": number}) for one in waiting)]
        try:
            tenant.transact(steps)
        except DuplicateKey:
            continue  # another process sealed concurrently
        entries, seals = entries + len(waiting), seals + 1


def _last_seal(tenant: Tenant) -> Seal | None:
    found = tenant.find(Query(Seal, (), (Order("number", descending=True),), 1)).records
    return found[0] if found else None


def _digest(number: int, previous: str, entries: list[AccessLog]) -> str:
    hashes = [hashlib.sha256(canonical(one.model_dump(mode="json", exclude={"seal"}))).hexdigest() for one in entries]
    return hashlib.sha256(canonical([number, previous, hashes])).hexdigest()


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
    problems: list[str] = Field(default_factory=list)


def verify_log(tenant: Tenant, request: VerifyLogRequest) -> VerifyLogReply:
    """Recompute every seal, and report entries that were changed, deleted, inserted, swapped or cut off."""
    tenant.journal.flush()
    number, digest, entries = 0, "", 0
    problems: list[str] = []
    kept, let_go = _kept(request.anchor), _deleted_by_retention(tenant)
    for one in _seals(tenant):
        if one.number != number + 1:
            problems.append(f"seal {number + 1} is missing")
        elif one.previous != digest:
            problems.append(f"seal {one.number} does not follow the one before it")
        problems += _broken(tenant, one, one.number <= let_go)
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
        problems=problems,
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


def _seals(tenant: Tenant) -> Iterator[Seal]:
    after: str | None = None
    while True:
        page = tenant.find(Query(Seal, (), (Order("number"),), BATCH, after))
        yield from page.records
        after = page.next
        if after is None:
            return


def _deleted_by_retention(tenant: Tenant) -> int:
    """Up to which seal retention has deleted entries; it records that in the log each time."""
    said = Query(AccessLog, (OneOf("action", tuple(KEPT_NAMES)),), (Order("id", descending=True),), 10)
    return max((int(one.request_data.get("seals") or 0) for one in tenant.find(said).records), default=0)


def _broken(tenant: Tenant, one: Seal, may_lack: bool) -> Iterator[str]:
    found = tenant.find(Query(AccessLog, (equal("seal", one.number),), (Order("id"),), deleted="yes")).records
    if may_lack and len(found) < one.entries:
        return
    if len(found) != one.entries:
        yield f"seal {one.number} covers {one.entries} entries, {len(found)} are there"
    elif _digest(one.number, one.previous, found) != one.digest:
        yield f"an entry under seal {one.number} was changed or replaced"


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
