"""Leases: the right to work on something, for one holder at a time.

Built on `transact` alone, so every store has it. A lease carries a fencing number that grows with each new holder;
work done under a lease commits together with `holding(lease)`, so a holder that lost the lease is refused
by the store, whatever its clock says.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from recollect.domain.agents import Lease
from recollect.domain.record import now
from recollect.errors import LeaseLost, RequirementFailed
from recollect.ports.query import Compare, Filter
from recollect.ports.records import RecordStore, Scope, revised
from recollect.ports.steps import Insert, Put, Require, Step, Update
from recollect.services.tenant import Tenant

NOBODY = "nobody"
LONGEST_SECONDS = 86_400
# A lease that ends later than allowed was taken by a clock that is ahead, and would block its run for that long.
_FARTHEST = timedelta(seconds=LONGEST_SECONDS + 300)


def is_held(lease: Lease | None, moment: datetime | None = None) -> bool:
    """Whether it is held, by the caller's clock. A holder wrongly taken for dead is refused by its fencing number."""
    moment = moment or now()
    return lease is not None and moment < lease.expires_at <= moment + _FARTHEST


def held_now() -> tuple[Filter, ...]:
    """The same condition as filters."""
    moment = now()
    return Compare("expires_at", ">", moment), Compare("expires_at", "<=", moment + _FARTHEST)


def taking(
    held: Lease | None, tenant: Tenant, name: str, holder: str, until: datetime, claim_key: str | None = None
) -> tuple[Lease, Step]:
    """The lease with its next fencing number, and the step that takes it: concurrent takers are refused."""
    fields: dict[str, Any] = {"holder": holder, "expires_at": until, "claim_key": claim_key}
    if held is None:
        lease = Lease(organization_id=tenant.scope.organization_id, id=name, fence=1, **fields)
        return lease, Insert(lease)
    lease = revised(held, tenant.scope, fence=held.fence + 1, **fields)
    return lease, Update(lease)


def holding(lease: Lease) -> Step:
    """A step that fails the whole transaction unless this lease is still the current one."""
    return Require(Lease, lease.id, {"holder": lease.holder, "fence": lease.fence})


def fenced(name: str, fence: int) -> Step:
    """The same for callers that know only their fencing number."""
    return Require(Lease, name, {"fence": fence})


def lost(name: str) -> LeaseLost:
    return LeaseLost(f"the lease on '{name}' is no longer held", remedy="claim it again", id=name)


def held_with(store: RecordStore, scope: Scope, name: str, fence: int) -> Lease:
    """The lease, if this is still its fencing number."""
    current = store.get(scope, Lease, name)
    if current is None or current.fence != fence:
        raise lost(name)
    return current


def extend(store: RecordStore, scope: Scope, name: str, fence: int, until: datetime) -> Lease:
    """Extend it until then; an expired lease can be extended until someone else takes it.

    A released one cannot: a late renewal must not keep the next worker waiting.
    """
    current = held_with(store, scope, name, fence)
    if current.holder == NOBODY:
        raise lost(name)
    changed = revised(current, scope, expires_at=until)
    try:
        store.transact(scope, [holding(current), Put(changed)])
    except RequirementFailed:
        raise lost(name) from None
    return changed


def ending(store: RecordStore, scope: Scope, name: str, fence: int) -> list[Step]:
    """The steps that release a lease, in a transaction of its holder. The fencing number stays; the next is greater.

    Two threads of a holder may renew and release at once, so this does not check the version.
    """
    current = held_with(store, scope, name, fence)
    return [holding(current), Put(revised(current, scope, holder=NOBODY, expires_at=now()))]
