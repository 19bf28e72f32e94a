"""The right to work on something, for one holder at a time.

Built on `transact` alone, so every store has it. A lease carries a fencing number that grows with each new holder;
work done under a lease commits together with `holding(lease)`, so a holder that woke up late is refused by the
store, whatever its clock says.
"""

from __future__ import annotations

from datetime import timedelta

from recollect.domain.agents import Lease
from recollect.domain.record import now
from recollect.errors import Conflict, LeaseLost, RequirementFailed
from recollect.ports.records import Insert, RecordStore, Require, Scope, Step, Update, revised


def claim(store: RecordStore, scope: Scope, name: str, holder: str, seconds: float) -> Lease | None:
    """Take the lease, or extend one's own; None while somebody else holds it."""
    moment = now()
    until = moment + timedelta(seconds=seconds)
    held = store.get(scope, Lease, name)
    try:
        if held is None:
            fresh = Lease(organization_id=scope.organization_id, id=name, holder=holder, fence=1, expires_at=until)
            store.transact(scope, [Insert(fresh)])
        elif held.holder == holder and held.expires_at > moment:
            store.transact(scope, [Update(revised(held, scope, expires_at=until))])
        elif held.expires_at <= moment:
            taken = revised(held, scope, holder=holder, fence=held.fence + 1, expires_at=until)
            store.transact(scope, [Update(taken)])
        else:
            return None
    except Conflict:
        return None  # another worker was quicker
    return store.get(scope, Lease, name)


def holding(lease: Lease) -> Step:
    """A step that fails the whole transaction unless this very lease is still the current one."""
    return Require(Lease, lease.id, {"holder": lease.holder, "fence": lease.fence})


def release(store: RecordStore, scope: Scope, lease: Lease) -> None:
    """Let go early. The fence stays, so that the next holder's number is greater."""
    current = store.get(scope, Lease, lease.id)
    if current is None or current.fence != lease.fence:
        raise LeaseLost(f"the lease on '{lease.id}' is no longer held", remedy="claim it again", id=lease.id)
    try:
        store.transact(scope, [holding(lease), Update(revised(current, scope, expires_at=now()))])
    except RequirementFailed:
        raise LeaseLost(f"the lease on '{lease.id}' is no longer held", remedy="claim it again", id=lease.id) from None
