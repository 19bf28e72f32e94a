"""Sealing the access log: every entry that has no seal yet is chained to those before it (domain/audit.py)."""

from __future__ import annotations

from dataclasses import dataclass

from recollect.domain.audit import AccessLog, Seal, entry_hash, seal_digest
from recollect.errors import DuplicateKey
from recollect.ports.query import IsNull, Order, Query
from recollect.ports.steps import Insert, Step, Touch
from recollect.services.tenant import Tenant

BATCH = 1000


@dataclass(frozen=True, slots=True)
class Sealed:
    """What was sealed, and the last seal there is."""

    entries: int
    seals: int
    last: Seal | None


def seal_entries(tenant: Tenant) -> Sealed:
    tenant.journal.flush()
    entries = seals = 0
    while True:
        last = _last_seal(tenant)  # first: who read the entries before another sealed them would seal them again
        order = (Order("id"),)
        waiting = tenant.find(Query(AccessLog, (IsNull("seal"),), order, BATCH)).records
        if not waiting:
            return Sealed(entries, seals, last)
        number, previous = (last.number + 1, last.digest) if last else (1, "")
        made = Seal(
            organization_id=tenant.scope.organization_id,
            number=number,
            previous=previous,
            digest=seal_digest(number, previous, [entry_hash(one) for one in waiting]),
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
