"""What a narrow filter leaves, found once: a handful is searched and compared by itself.

A date, a tag or a source is known to no index of words or vectors. These are searched for the best of all, of which
one in a hundred may pass, so they are searched deeper and deeper. Where few pass, it is quicker to look up which.
Proof: tests/services/recall/test_few_passing.py.
"""

from __future__ import annotations

from recollect.ports.query import Query
from recollect.services.recall.near_depth import Conditions
from recollect.services.tenant import Tenant

# Up to so many passing memories are scored one by one, exactly.
EXACT_UP_TO = 5_000
# Up to so many, where an index found that hardly any pass.
MOST_COMPARED = 50_000
# To compare one that passes takes a tenth of what an index takes to find one more; up to so many.
QUICKER, MOST_QUICKER = 10, 20_000


def few_passing(tenant: Tenant, conditions: Conditions) -> tuple[str, ...] | None:
    """The ids of all that pass; None if they are many, or no filter narrows them."""
    if not conditions.is_narrowed and tenant.scope.restriction is None:
        return None
    return all_passing(tenant, conditions)


def worth_comparing(conditions: Conditions, depth: int) -> int:
    """Up to how many that pass are compared rather than that an index is searched so deep."""
    return max(depth, min(QUICKER * depth, MOST_QUICKER)) if conditions.is_narrowed else depth


def all_passing(tenant: Tenant, conditions: Conditions, most: int | None = None) -> tuple[str, ...] | None:
    """The ids of all that pass; None if they are many, or more than `most`."""
    most = EXACT_UP_TO if most is None else most
    found = Query(conditions.record, conditions.filters(), limit=most + 1, any_order=True)
    ids = tuple(id for (id,) in tenant.select(found, ("id",)))
    return ids if len(ids) <= most else None
