"""What changed in an organization since somebody looked: background work reads this, not everything again."""

from __future__ import annotations

from collections.abc import Iterator

from recollect.ports.records import Change
from recollect.services.tenant import Tenant

CHANGES = 1000


def last_change(tenant: Tenant) -> int:
    """The seq after which nothing has changed."""
    low, high = 0, 1
    while tenant.store.changes(tenant.scope, high, 1):
        low, high = high, 2 * high
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if tenant.store.changes(tenant.scope, middle, 1) else (low, middle)
    return high


def changes_after(tenant: Tenant, seq: int) -> Iterator[list[Change]]:
    """Some at a time, the oldest first."""
    while changes := tenant.store.changes(tenant.scope, seq, CHANGES):
        yield changes
        seq = changes[-1].seq
