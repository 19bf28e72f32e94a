"""The background work of an open store, in a thread of its own.

The service always has it. A program that opened the store itself has it too, unless the `background` setting says
otherwise: it begins a while after the store was opened, so a short program never does any, and it writes no memories:
summaries are the service's. Closing ends it between two pieces of work. A process that was forked has none.
`services/background.py` says what there is to do and who does it. (tests/app/test_background.py)
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from recollect.background_thread import BackgroundThread
from recollect.errors import Closed, LeaseLost, RecollectError
from recollect.ports.records import Scope
from recollect.services.background import RETRY_SECONDS, Schedule, StoreLease, tasks_of
from recollect.services.backups.backup import BackupRequest
from recollect.services.backups.backup import backup as back_up
from recollect.services.backups.history import is_due
from recollect.services.tenant import Core
from recollect.settings import ServerSettings, Settings

log = logging.getLogger("recollect.background")
BACKUP_LOOK_SECONDS, BACKUP_RETRY_SECONDS = 60.0, 600.0
RESTS, LONGEST_REST = 3.0, 1.0  # times as long as was worked, while somebody waits for answers; seconds


def service_schedule(settings: ServerSettings) -> Schedule:
    return Schedule(
        settings.upkeep_seconds, settings.check_seconds, settings.checks_at_once, settings.summary_seconds,
        lease_seconds=max(60.0, 4 * settings.upkeep_seconds), backups=True,
    )  # fmt: skip


def embedded_schedule(settings: Settings) -> Schedule:
    """Outside the service: less often, and without summaries, which are memories that nobody asked for."""
    seconds, server = settings.background_seconds, settings.server
    checks = None if server.check_seconds is None else max(seconds, server.check_seconds)
    return Schedule(seconds, checks, server.checks_at_once, lease_seconds=max(60.0, 4 * seconds))


class Background:
    """Looks every few seconds for something to do; what fails is logged and tried again later.

    `own_work` is done each time by every process; all else by the one that holds the store's lease. `count` is told
    of each task, and whether it was done. `holder` names the holder of the lease: who takes the place of a process that
    has ended, under its name, need not wait until its lease runs out. A `thread` that is given is somebody else's, who
    starts it and calls `once`. While `is_busy`, each piece of work is followed by a rest: the summaries of two hundred
    sessions that were imported doubled the time of every recall beside them.
    """

    def __init__(
        self,
        core: Core,
        schedule: Schedule,
        own_work: Mapping[str, Callable[[], object]] = MappingProxyType({}),
        count: Callable[[str, bool], None] = lambda task, is_done: None,
        holder: str | None = None,
        thread: BackgroundThread | None = None,
        is_busy: Callable[[], bool] = lambda: False,
    ) -> None:
        self._core = core
        self._tasks = tuple(tasks_of(core, schedule))
        self._own_work, self._count, self._is_busy = own_work, count, is_busy
        self._lease = StoreLease(core, min(schedule.lease_seconds, 86_400.0), holder)
        self._makes_backups = schedule.backups
        self._due: dict[tuple[str, str], float] = {}
        self._worked_since = time.monotonic()
        self._process = os.getpid()
        own = BackgroundThread("recollect.background", self.once, every_seconds=schedule.look_seconds)
        self._thread = thread or own

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop, and let another process go on."""
        self._thread.stop()
        if os.getpid() != self._process:
            return  # a forked child has not taken the lease
        try:
            self._lease.release()
        except RecollectError as error:  # it runs out by itself
            log.info("the lease on background work was not released: %s", error.code)

    def once(self) -> None:
        """Everything that is due now."""
        self._worked_since = time.monotonic()
        for name, work in self._own_work.items():
            self._try(name, work)
        try:
            if self._lease.take():
                for organization in self._core.store.tenants():
                    self._look_after(organization)
                self._back_up()
        except LeaseLost:
            return  # another process has taken over

    def _look_after(self, organization: str) -> None:
        tenant = self._core.for_scope(Scope(organization))
        for task in self._tasks:
            self._go_on()
            key, moment = (organization, task.name), time.monotonic()
            if moment < self._due.get(key, 0.0) or not task.is_waiting(tenant):
                continue
            done = self._try(task.name, partial(task.work, tenant, self._go_on))
            self._due[key] = moment + (task.seconds if done else max(task.seconds, RETRY_SECONDS))

    def _back_up(self) -> None:
        """Once for the whole store, when the settings say so. A failure is recorded, and tried again later."""
        key, moment = ("", "backup"), time.monotonic()
        first = self._core.store.tenants()[:1]
        if not self._makes_backups or moment < self._due.get(key, 0.0) or not first:
            return
        tenant = self._core.for_scope(Scope(first[0]))
        work = partial(back_up, tenant, BackupRequest(), lambda done, total: self._go_on())
        done = not is_due(tenant) or self._try("backup", work)
        self._due[key] = moment + (BACKUP_LOOK_SECONDS if done else BACKUP_RETRY_SECONDS)

    def _go_on(self) -> None:
        if self._is_busy():
            self._thread.stopping.wait(min(RESTS * (time.monotonic() - self._worked_since), LONGEST_REST))
        if self._thread.stopping.is_set():
            raise Closed("the store is being closed", remedy="the next process to open it continues")
        self._worked_since = time.monotonic()
        self._lease.keep()

    def _try(self, name: str, work: Callable[[], object]) -> bool:
        try:
            work()
        except (Closed, LeaseLost):
            raise
        except RecollectError as error:
            log.warning("%s: %s", name, error.code)
            self._count(name, False)
            return False
        self._count(name, True)
        return True
