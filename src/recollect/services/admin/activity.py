"""Recent activity, day by day: how much was remembered, and how often memories were used."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal
from zoneinfo import ZoneInfo

from pydantic import Field

from recollect.domain.audit import AccessLog
from recollect.domain.memory import Memory
from recollect.domain.record import now
from recollect.ports.query import Compare, Query, Spans
from recollect.services.requests import Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.times import zone_for

_COUNTED_BY = {"stored": "created_at", "happened": "occurred_at"}


class ActivityRequest(Request):
    """How many days to report."""

    days: int = Field(30, ge=1, le=366, description="How many days back, today included")
    by: Literal["stored", "happened"] = Field(
        "stored", description="Count a memory on the day it was stored, or on the day of what it is about"
    )


class ActivityDay(Reply):
    """One day, in the time zone of the caller."""

    date: str
    remembered: int
    total: int = Field(description="How many of the memories that still exist there were at its end")
    accesses: int = Field(description="Entries of the access log, without what people read in the console")


class Activity(Reply):
    days: list[ActivityDay]


def activity(tenant: Tenant, request: ActivityRequest) -> Activity:
    """How much was remembered, and how often memories were used, on each of the last days."""
    zone = ZoneInfo(zone_for(tenant))
    today = now().astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)
    # One day more, which starts after now: entries dated by a clock that is ahead do not count for today.
    days = [today - timedelta(days=back) for back in range(request.days - 1, -2, -1)]
    made = tenant.count_by(Query(Memory), [Spans(_COUNTED_BY[request.by], tuple(days))])
    uses = (Compare("timestamp", ">=", days[0]), Compare("operation", "!=", "view"))
    used = tenant.count_by(Query(AccessLog, uses), [Spans("timestamp", tuple(days))])
    total, told = made.get((0,), 0), []
    for number, day in enumerate(days[:-1], 1):
        remembered = made.get((number,), 0)
        total += remembered
        told.append(
            ActivityDay(
                date=day.date().isoformat(), remembered=remembered, total=total, accesses=used.get((number,), 0)
            )
        )
    return Activity(days=told)
