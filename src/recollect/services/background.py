"""Background work: what is due in a store without a request, tenant by tenant.

The access log is sealed, pending vectors are made, erasures finished, fields encrypted, expired records deleted,
retention rules applied, citations checked again, tables profiled, summaries written. (A PostgreSQL store creates its
monthly partitions by itself.) Of all processes that have a store open, the one that holds its lease does the work; if
it dies, the lease expires. Work is done in small transactions that see what others have done, so two processes that
both believe to hold the lease do no harm. `app/background.py` is the thread that does it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from recollect.domain.agents import Lease
from recollect.domain.memory import IndexTask
from recollect.domain.record import new_id, now
from recollect.errors import Conflict, DuplicateKey, LeaseLost, VersionConflict
from recollect.ports.models import Embedder
from recollect.ports.query import Query, equal
from recollect.ports.records import Scope
from recollect.services.admin import encryption
from recollect.services.admin.expiry import SweepRequest, sweep
from recollect.services.data.sources import profile_next, sampled_tables
from recollect.services.erasure import finish, owed
from recollect.services.frameworks import key_value
from recollect.services.learning.changed_sessions import DueSummaries
from recollect.services.leases import ending, is_held, taking
from recollect.services.log_seals import DueSeals
from recollect.services.memories.indexing import make_owed
from recollect.services.retention.application import ApplyRequest, apply_rules
from recollect.services.retention.rules import rules_of
from recollect.services.tenant import Core, GoOn, Tenant
from recollect.services.trust.rechecks import check_oldest

log = logging.getLogger("recollect.background")
LEASE = "background"
RETRY_SECONDS = 60.0  # before failed work is tried again, such as calls of a model that is unavailable
OWED_PASSAGES = 256  # vectors made each time; the built-in model takes some seconds for them
EXPIRY_SECONDS = 3600.0
RULE_GRACE = timedelta(hours=1)
RETAINED_AT_ONCE = 1000  # memories and sessions of a rule


@dataclass(frozen=True, slots=True)
class Schedule:
    """How often to check what is due, and how often to do more expensive work; None is never."""

    look_seconds: float
    check_seconds: float | None = 60.0
    checks_at_once: int = 100
    summary_seconds: float | None = None
    lease_seconds: float = 60.0
    backups: bool = False
    """Whether backups are made that are due."""


@dataclass(frozen=True, slots=True)
class Task:
    """One kind of work for one tenant: done at most once in so many seconds, if there is any."""

    name: str
    seconds: float
    work: Callable[[Tenant, GoOn], object]
    is_waiting: Callable[[Tenant], object] = lambda tenant: True


def tasks_of(core: Core, schedule: Schedule) -> Iterator[Task]:
    """The work for each tenant, in this order."""
    seals = DueSeals()
    yield Task("seal", 0, lambda tenant, go_on: seals.seal(tenant, go_on))
    for embedder in core.embedders:
        waiting = Query(IndexTask, (equal("model", embedder.model),))
        yield Task(
            f"vectors of {embedder.model}",
            0,
            partial(_make_owed, embedder),
            partial(lambda query, tenant: tenant.count(query), waiting),
        )
    yield Task("erasure", RETRY_SECONDS, lambda tenant, go_on: finish(tenant), owed)
    yield Task("encryption", RETRY_SECONDS, encryption.reseal_in_background, encryption.is_incomplete)
    yield Task("expiry", EXPIRY_SECONDS, lambda tenant, go_on: sweep(tenant, SweepRequest(), go_on))
    yield Task("retention", EXPIRY_SECONDS, _apply_retention, rules_of)
    items = key_value.SweepItemsRequest()
    yield Task("expiry of items", EXPIRY_SECONDS, lambda tenant, go_on: key_value.sweep(tenant, items))
    yield Task("profiles of tables", 0, lambda tenant, go_on: profile_next(tenant), sampled_tables)
    if schedule.summary_seconds is not None:
        due = DueSummaries(schedule.summary_seconds)
        yield Task("summaries", 0, lambda tenant, go_on: due.write(tenant, go_on), due.is_waiting)
    if schedule.check_seconds is not None:
        yield Task("citations", schedule.check_seconds, partial(_check_citations, schedule.checks_at_once))


def _make_owed(embedder: Embedder, tenant: Tenant, go_on: GoOn) -> None:
    """A limited number each time, so that long texts of one tenant do not delay others or requests."""
    make_owed(tenant, embedder, OWED_PASSAGES, go_on)


def _apply_retention(tenant: Tenant, go_on: GoOn) -> None:
    """A limited number each time; what is left is done the next time."""
    done = apply_rules(tenant, ApplyRequest(limit=RETAINED_AT_ONCE), go_on, grace=RULE_GRACE)
    for note in done.notes:
        log.warning("retention: %s", note)


def _check_citations(most: int, tenant: Tenant, go_on: GoOn) -> None:
    """With the same access to this machine as requests over the network."""
    check_oldest(tenant.for_scope(Scope(tenant.scope.organization_id, granted=frozenset({"govern"}))), most)


class StoreLease:
    """The right to do the background work of a store. One process holds it at a time, and renews it while it works.

    It is stored in the first organization by name. When another becomes the first, two may work until the old one
    expires.
    """

    def __init__(self, core: Core, seconds: float, holder: str | None = None) -> None:
        self._core = core
        self._seconds = seconds
        self._holder = holder or new_id()
        self._held: tuple[Scope, Lease] | None = None
        self._renew_at = 0.0

    def take(self) -> bool:
        """Whether this process holds it now. The store is asked again when half of the time has passed."""
        if time.monotonic() < self._renew_at:
            return True
        self._held = None
        for organization in self._core.store.tenants()[:1]:
            scope = Scope(organization)
            held = self._core.store.get(scope, Lease, LEASE)
            if held is not None and held.holder != self._holder and is_held(held):
                return False
            until, asked = now() + timedelta(seconds=self._seconds), time.monotonic()
            lease, step = taking(held, self._core.for_scope(scope), LEASE, self._holder, until)
            try:
                self._core.store.transact(scope, [step])
            except (VersionConflict, DuplicateKey):  # another process took it first
                return False
            self._held, self._renew_at = (scope, lease), asked + self._seconds / 2
        return self._held is not None

    def keep(self) -> None:
        if not self.take():
            raise LeaseLost("another process does the background work now", remedy="nothing needs to be done")

    def release(self) -> None:
        """Release it, so that another process need not wait until it expires."""
        if self._held is None:
            return
        scope, lease = self._held
        self._held, self._renew_at = None, 0.0
        try:
            self._core.store.transact(scope, ending(self._core.store, scope, LEASE, lease.fence))
        except (LeaseLost, Conflict):
            return  # it expired, and another process holds it
