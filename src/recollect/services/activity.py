"""What happened lately, day by day: how much was remembered, and how often memories were used."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from pydantic import Field

from recollect.domain.audit import AccessLog
from recollect.domain.memory import Memory
from recollect.domain.record import Record, now
from recollect.ports.records import Compare, Query, Scope
from recollect.services.core import Core, Reply, Request
from recollect.services.times import zone_for


class ActivityRequest(Request):
    """Ask what happened lately, day by day."""

    days: int = Field(30, ge=1, le=366, description="How many days back, today included")


class Day(Reply):
    """One day, in the time zone of whoever asks."""

    date: str
    remembered: int
    total: int = Field(description="How many memories there were at its end, of those that are still there")
    accesses: int


class Activity(Reply):
    days: list[Day]


def activity(core: Core, scope: Scope, request: ActivityRequest) -> Activity:
    """How much was remembered and how often memories were used, each of the last days."""
    zone = ZoneInfo(zone_for(core, scope))
    today = now().astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)
    total = core.store.count(scope, Query(Memory))
    days: list[Day] = []
    for back in range(request.days):
        begins, ends = today - timedelta(days=back), today - timedelta(days=back - 1)
        made = _counted(core, scope, Memory, "created_at", begins, ends)
        accesses = _counted(core, scope, AccessLog, "timestamp", begins, ends)
        days.append(Day(date=begins.date().isoformat(), remembered=made, total=total, accesses=accesses))
        total -= made
    return Activity(days=days[::-1])


def _counted(core: Core, scope: Scope, record: type[Record], field: str, begins: datetime, ends: datetime) -> int:
    return core.store.count(scope, Query(record, (Compare(field, ">=", begins), Compare(field, "<", ends))))
