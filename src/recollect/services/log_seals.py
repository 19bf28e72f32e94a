"""Sealing the access log: every entry that has no seal yet is chained to those before it (domain/audit.py).

The service seals every few seconds. It asks what changed since, and looks for entries without a seal among all others
only now and then: not every store can find those without reading the log.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from recollect.domain.audit import AccessLog, Seal, entry_hash, seal_digest
from recollect.domain.record import now
from recollect.errors import DuplicateKey, RequirementFailed
from recollect.ports.query import Filter, IsNull, OneOf, Order, Query
from recollect.ports.steps import Insert, Require, Step, Touch
from recollect.services.change_feed import changes_after, last_change
from recollect.services.tenant import GoOn, Tenant

AT_ONCE = 100  # in one seal: some milliseconds, for which others who write wait
ALL_AFTER_SECONDS = 3600.0
RECENT = timedelta(hours=12)  # retention keeps entries for a day at least


@dataclass(frozen=True, slots=True)
class Sealed:
    """What was sealed, and the last seal there is."""

    entries: int
    seals: int
    last: Seal | None


class DueSeals:
    """Seals what is new, and remembers for each organization how far it got. A new process begins with all of it."""

    def __init__(self) -> None:
        self._looked: dict[str, tuple[int, float]] = {}

    def seal(self, tenant: Tenant, go_on: GoOn = lambda: None) -> None:
        organization, moment = tenant.scope.organization_id, time.monotonic()
        tenant.journal.flush()
        seq, all_at = self._looked.get(organization, (0, -ALL_AFTER_SECONDS))
        if moment >= all_at + ALL_AFTER_SECONDS:
            seq = last_change(tenant)  # first: what is logged meanwhile is found the next time
            seal_entries(tenant, go_on=go_on)
            self._looked[organization] = seq, moment
            return
        for changes in changes_after(tenant, seq):
            new = tuple(one.id for one in changes if one.table == AccessLog.shape.table and not one.gone)
            if new:
                seal_entries(tenant, (OneOf("id", new),), go_on)
            self._looked[organization] = changes[-1].seq, all_at


def seal_entries(tenant: Tenant, among: tuple[Filter, ...] = (), go_on: GoOn = lambda: None) -> Sealed:
    tenant.journal.flush()
    entries = seals = 0
    while True:
        last = _last_seal(tenant)  # first: who read the entries before another sealed them would seal them again
        # Those of one seal: while this rests between two, retention may delete entries that have none yet.
        some = tenant.find(Query(AccessLog, (IsNull("seal"), *among), (Order("id"),), AT_ONCE)).records
        if not some:
            return Sealed(entries, seals, last)
        try:
            _seal(tenant, some, last)
        except (DuplicateKey, RequirementFailed):
            continue  # another process sealed concurrently, or deleted old entries
        entries, seals = entries + len(some), seals + 1
        go_on()


def _seal(tenant: Tenant, entries: Sequence[AccessLog], last: Seal | None) -> None:
    number, previous = (last.number + 1, last.digest) if last else (1, "")
    made = Seal(
        organization_id=tenant.scope.organization_id,
        number=number,
        previous=previous,
        digest=seal_digest(number, previous, [entry_hash(one) for one in entries]),
        entries=len(entries),
    )
    recent = now() - RECENT
    steps: list[Step] = [Require(AccessLog, one.id) for one in entries if one.timestamp < recent]
    steps += [Insert(made), *(Touch(AccessLog, one.id, put={"seal": number}) for one in entries)]
    tenant.transact(steps)


def _last_seal(tenant: Tenant) -> Seal | None:
    found = tenant.find(Query(Seal, (), (Order("number", descending=True),), 1)).records
    return found[0] if found else None
