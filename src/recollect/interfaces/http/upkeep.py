"""What the service does by itself, beside the requests.

It writes what was noted, seals the access log, makes vectors that are owed since a model was away or a text is long,
deletes what has expired, looks citations up again and writes summaries that are due. (Months of partitions a PostgreSQL
store makes ahead by itself.) Several services on one store may all do so: each piece of work is one transaction that
finds what another has done, and citations are looked up by whoever takes the turn.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial

from recollect.domain.memory import IndexTask
from recollect.domain.record import new_id
from recollect.errors import Closed, RecollectError
from recollect.interfaces.http.app import Service
from recollect.ports.query import Query
from recollect.ports.records import Scope
from recollect.services.admin.audit import SealRequest, seal
from recollect.services.admin.expiry import SweepRequest, sweep
from recollect.services.erasure import finish, owed
from recollect.services.frameworks import key_value
from recollect.services.learning.rollup import RollUpRequest, roll_up
from recollect.services.memories.indexing import make_owed
from recollect.services.tenant import Tenant
from recollect.services.trust.rechecks import check_oldest, takes_turn

OWED_SECONDS = 60.0  # a model that is away is not asked again at once
OWED_PASSAGES = 256  # made each time we look; the built-in model takes some seconds for them
SWEEP_SECONDS = 3600.0
log = logging.getLogger("recollect.upkeep")


class Upkeep:
    """A thread that looks every few seconds for something to do; trouble is logged and tried again."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._stop = threading.Event()
        self._due: dict[str, float] = {}
        self._name = new_id()
        self._thread = threading.Thread(target=self._keep_up, name="recollect-upkeep", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def once(self) -> None:
        """Everything that is due now."""
        core = self._service.core
        self._try("usage", self._service.usage.flush)
        self._try("journal", core.journal.flush)
        for organization in core.store.tenants():
            if self._stop.is_set():
                return
            self._look_after(Scope(organization))
        self._try("index", core.vectors.refresh)

    def _look_after(self, scope: Scope) -> None:
        """What one tenant needs. Long work is done in pieces that each commit, and ends early when we stop."""
        tenant, seconds = self._service.core.for_scope(scope), self._service.settings.summary_seconds
        id = scope.organization_id
        self._try("seal", partial(seal, tenant, SealRequest()))
        if tenant.count(Query(IndexTask)):
            self._make_owed(tenant)
        if owed(tenant) and self._is_due(f"erasure {id}", OWED_SECONDS):
            self._try("erasure", partial(finish, tenant))
        if self._is_due(f"sweep {id}", SWEEP_SECONDS):
            self._try("sweep", partial(sweep, tenant, SweepRequest()))
            self._try("sweep items", partial(key_value.sweep, tenant, key_value.SweepItemsRequest()))
        if seconds is not None and self._is_due(f"summaries {id}", seconds):
            self._try("summaries", partial(roll_up, tenant, RollUpRequest(), self._go_on))

        checking = self._service.settings.check_seconds
        if checking is not None and self._is_due(f"citations {id}", checking):
            self._try("citations", partial(self._check_citations, id, checking))

    def _make_owed(self, tenant: Tenant) -> None:
        """Some each time, so that one tenant's long texts keep neither the others nor the requests waiting."""
        for embedder in tenant.embedders:
            task = f"vectors {tenant.scope.organization_id} {embedder.model}"
            if not self._is_due(task, 0.0):
                continue
            try:
                make_owed(tenant, embedder, OWED_PASSAGES, partial(self._go_on, 0, 0))
            except RecollectError as error:
                log.warning("vectors: %s", error.code)
                self._due[task] = time.monotonic() + OWED_SECONDS

    def _check_citations(self, organization: str, seconds: float) -> None:
        """By one service of all on this store, which sees of the machine no more than those who ask it."""
        tenant = self._service.core.for_scope(Scope(organization, granted=frozenset({"govern"})))
        if takes_turn(tenant, self._name, seconds):
            check_oldest(tenant, self._service.settings.checks_at_once)

    def _go_on(self, done: int, of: int) -> None:
        if self._stop.is_set():
            raise Closed("the service is stopping", remedy="the next start goes on with it")

    def _is_due(self, task: str, seconds: float) -> bool:
        at = time.monotonic()
        if at < self._due.get(task, 0.0):
            return False
        self._due[task] = at + seconds
        return True

    def _try(self, task: str, work: Callable[[], object]) -> None:
        try:
            work()
        except RecollectError as error:
            log.warning("%s: %s", task, error.code)

    def _keep_up(self) -> None:
        while not self._stop.wait(self._service.settings.upkeep_seconds):
            try:
                self.once()
            except RecollectError as error:
                log.warning("upkeep: %s", error.code)
            except Exception:  # the edge of the thread, which must live: what is due is tried again
                log.exception("upkeep failed")
