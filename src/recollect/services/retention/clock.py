"""Whether the clock can be trusted: nothing is deleted because it was wrong for a moment.

The time is compared with when rules were last applied, or with the newest record where they never were. If it is far
ahead of that, it is in doubt; and believed when it still is so an hour later. A clock that was set back is no danger:
less is due then.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from recollect.domain.audit import AccessLog
from recollect.domain.memory import Memory
from recollect.domain.record import now
from recollect.domain.retention import RetentionClock
from recollect.errors import DuplicateKey, VersionConflict
from recollect.ports.query import Order, Query
from recollect.ports.records import revised
from recollect.ports.steps import Insert, Update
from recollect.services.tenant import Tenant
from recollect.services.transaction import made

CLOCK = "retention"
FARTHEST_AHEAD = timedelta(days=2)
BELIEVED_AFTER = timedelta(hours=1)


def doubt(tenant: Tenant, moment: datetime) -> str:
    """Why the clock is not believed; empty if it is. Remembers what it has seen."""
    known = tenant.get(RetentionClock, CLOCK)
    reference = known.applied_at if known is not None and known.applied_at is not None else _newest(tenant)
    doubted = known.doubted_at if known is not None else None
    if reference is None or moment - reference <= FARTHEST_AHEAD:
        _note(tenant, known, applied_at=moment, doubted_at=None)
        return ""
    if doubted is not None and BELIEVED_AFTER <= moment - doubted <= FARTHEST_AHEAD:
        _note(tenant, known, applied_at=moment, doubted_at=None)
        return ""
    if doubted is None or not timedelta(0) <= moment - doubted <= FARTHEST_AHEAD:
        _note(tenant, known, doubted_at=moment)
    days = (moment - reference).days
    return (
        f"the clock is {days:,} days ahead of the last time that is known here, so nothing was done; "
        "if it is right, rules apply when it has been so for an hour, or now with trust_clock"
    )


def trust(tenant: Tenant) -> None:
    """The clock is right: somebody said so."""
    _note(tenant, tenant.get(RetentionClock, CLOCK), applied_at=now(), doubted_at=None)


def _newest(tenant: Tenant) -> datetime | None:
    found = [
        moment
        for record, name in ((Memory, "created_at"), (AccessLog, "timestamp"))
        for (moment,) in tenant.select(Query(record, (), (Order(name, descending=True),), 1, deleted="yes"), (name,))
    ]
    return max(found, default=None)


def _note(tenant: Tenant, known: RetentionClock | None, **fields: datetime | None) -> None:
    if known is None:
        step: Insert | Update = Insert(made(RetentionClock, tenant, id=CLOCK, **fields))
    else:
        step = Update(revised(known, tenant.scope, **fields))
    try:
        tenant.transact([step])
    except (VersionConflict, DuplicateKey):
        return  # another process has just noted the same
