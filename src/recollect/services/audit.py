"""Who did what to which memory: reading the access log."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from recollect.domain.audit import AccessLog, AccessOperation
from recollect.domain.record import Id, Moment
from recollect.ports.records import Compare, Filter, Order, Query, Scope, equal
from recollect.services.core import Core, Reply, Request


class LogRequest(Request):
    """Which entries of the access log to show."""

    memory: Id | None = Field(None, description="Only about this memory")
    operation: AccessOperation | None = Field(None, description="Only create, read, update, delete or search")
    by: Id | None = Field(None, description="Only by this actor")
    since: Moment | None = Field(None, description="Only from this time on")
    limit: int = Field(50, ge=1, le=1000, description="How many at most")
    after: str | None = Field(None, description="The `next` of the page before")


class LogEntry(Reply):
    """One access. Its id can be cited: cite.log(id)."""

    id: str
    timestamp: datetime
    operation: str
    action: str
    memory: str | None = None
    actor: str | None = None
    success: bool = True
    request: dict[str, Any] = Field(default_factory=dict)


class LogPage(Reply):
    entries: list[LogEntry]
    next: str | None = None


def show_log(core: Core, scope: Scope, request: LogRequest) -> LogPage:
    """The access log, the newest first. Reads are written within a second of happening."""
    core.journal.flush()
    wanted = (("memory_id", request.memory), ("operation", request.operation), ("actor_id", request.by))
    where: list[Filter] = [equal(name, value) for name, value in wanted if value is not None]
    if request.since:
        where.append(Compare("timestamp", ">=", request.since))
    order = (Order("id", descending=True),)
    page = core.store.find(scope, Query(AccessLog, tuple(where), order, request.limit, request.after))
    return LogPage(entries=[_entry(one) for one in page.records], next=page.next)


def _entry(one: AccessLog) -> LogEntry:
    return LogEntry(
        id=one.id,
        timestamp=one.timestamp,
        operation=one.operation,
        action=one.action,
        memory=one.memory_id,
        actor=one.actor_id,
        success=one.success,
        request=one.request_data,
    )
