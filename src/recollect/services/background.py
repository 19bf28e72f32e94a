"""Work that nobody asks for: what is due in a store by itself, tenant by tenant.

The access log is sealed, vectors that are owed are made, erasures finished, what has expired is deleted, citations are
looked up again, summaries written. (A PostgreSQL store makes its months of partitions ahead by itself.) Of all
processes that have a store open, the one that holds its lease does the work; a holder that died loses it when it runs
out. Work is done in pieces that each commit and find what another has done: two that believe they hold it do no harm.
`app/background.py` is the thread that does it.
"""

from __future__ import annotations

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
from recollect.services.admin.audit import SealRequest, seal
from recollect.services.admin.expiry import SweepRequest, sweep
from recollect.services.erasure import finish, owed
from recollect.services.frameworks import key_value
from recollect.services.learning.rollup import RollUpRequest, roll_up
from recollect.services.leases import ending, is_held, taking
from recollect.services.memories.indexing import make_owed
from recollect.services.tenant import Core, Tenant
from recollect.services.trust.rechecks import check_oldest

LEASE = "background"
RETRY_SECONDS = 60.0  # what failed is not tried again at once: a model that is away, say
OWED_PASSAGES = 256  # made each time we look; the built-in model takes some seconds for them
EXPIRY_SECONDS = 3600.0
GoOn = Callable[[], None]
"""Raises when the work should stop, between two pieces of it."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """How often to look whether something is due, and how often to do what costs more; None is never."""

    look_seconds: float
    check_seconds: float | None = 60.0
    checks_at_once: int = 100
    summary_seconds: float | None = None
    lease_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class Task:
    """One kind of work, for one tenant at a time: at most once in so many seconds, if there is any to do."""

    name: str
    seconds: float
    work: Callable[[Tenant, GoOn], object]
    is_waiting: Callable[[Tenant], object] = lambda tenant: True


def tasks_of(core: Core, schedule: Schedule) -> Iterator[Task]:
    """What is done for each tenant, in this order."""
    yield Task("seal", 0, lambda tenant, go_on: seal(tenant, SealRequest()))
    for embedder in core.embedders:
        waiting = Query(IndexTask, (equal("model", embedder.model),))
        yield Task(
            f"vectors of {embedder.model}",
            0,
            partial(_make_owed, embedder),
            partial(lambda query, tenant: tenant.count(query), waiting),
        )
    yield Task("erasure", RETRY_SECONDS, lambda tenant, go_on: finish(tenant), owed)
    yield Task("expiry", EXPIRY_SECONDS, lambda tenant, go_on: sweep(tenant, SweepRequest()))
    items = key_value.SweepItemsRequest()
    yield Task("expiry of items", EXPIRY_SECONDS, lambda tenant, go_on: key_value.sweep(tenant, items))
    if schedule.summary_seconds is not None:
        yield Task("summaries", schedule.summary_seconds, _write_summaries)
    if schedule.check_seconds is not None:
        yield Task("citations", schedule.check_seconds, partial(_check_citations, schedule.checks_at_once))


def _make_owed(embedder: Embedder, tenant: Tenant, go_on: GoOn) -> None:
    """Some each time, so that one tenant's long texts keep neither the others nor the requests waiting."""
    make_owed(tenant, embedder, OWED_PASSAGES, go_on)


def _write_summaries(tenant: Tenant, go_on: GoOn) -> None:
    roll_up(tenant, RollUpRequest(), lambda done, of: go_on())


def _check_citations(most: int, tenant: Tenant, go_on: GoOn) -> None:
    """Sees of the machine no more than those who ask over the network."""
    check_oldest(tenant.for_scope(Scope(tenant.scope.organization_id, granted=frozenset({"govern"}))), most)


class StoreLease:
    """The right to do the background work of a store. One process of all holds it, and renews it while it works.

    It lies with the first organization by name. When another comes first, two may work until the old one runs out.
    """

    def __init__(self, core: Core, seconds: float) -> None:
        self._core = core
        self._seconds = seconds
        self._holder = new_id()
        self._held: tuple[Scope, Lease] | None = None
        self._renew_at = 0.0

    def take(self) -> bool:
        """Whether this process holds it now. Half of its time is left before the store is asked again."""
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
            except (VersionConflict, DuplicateKey):  # another one was quicker
                return False
            self._held, self._renew_at = (scope, lease), asked + self._seconds / 2
        return self._held is not None

    def keep(self) -> None:
        if not self.take():
            raise LeaseLost("another process does the background work now", remedy="it goes on with it")

    def release(self) -> None:
        """So that another process need not wait until it runs out."""
        if self._held is None:
            return
        scope, lease = self._held
        self._held, self._renew_at = None, 0.0
        try:
            self._core.store.transact(scope, ending(self._core.store, scope, LEASE, lease.fence))
        except (LeaseLost, Conflict):
            return  # it ran out, and another one has it
