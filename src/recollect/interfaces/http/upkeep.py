"""What the service does by itself, beside the requests: flush what was noted, seal the log, sweep what expired."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial

from recollect.errors import RecollectError
from recollect.interfaces.http.service import Service
from recollect.ports.records import Scope
from recollect.services.audit import SealRequest, seal
from recollect.services.lifecycle import SweepRequest, sweep

SWEEP_SECONDS = 3600.0
log = logging.getLogger("recollect.upkeep")


class Upkeep:
    """A thread that looks every few seconds for something to do; trouble is logged and tried again."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._stop = threading.Event()
        self._due: dict[str, float] = {}
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
            scope = Scope(organization)
            self._try("seal", partial(seal, core, scope, SealRequest()))
            if self._is_due(f"sweep {organization}", SWEEP_SECONDS):
                self._try("sweep", partial(sweep, core, scope, SweepRequest()))
        self._try("index", core.vectors.refresh)

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
