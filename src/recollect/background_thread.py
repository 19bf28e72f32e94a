"""A thread for work that nobody waits for: upkeep of the vector index, and of the whole store.

It works when it is woken, and every so often where it is told to. It is a daemon, so that a program may end without it,
and it starts when it is first needed, again after a fork. It holds its owner weakly: an owner that was dropped without
being closed is not kept alive, and its thread ends. (tests/app/test_background.py)
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from weakref import WeakMethod

from recollect.errors import Closed, RecollectError

RETRY_SECONDS = 30.0


class BackgroundThread:
    """Calls `work`, a method of its owner. What fails is logged once, as `complaint`, and tried again after a while."""

    def __init__(
        self,
        name: str,
        work: Callable[[], object],
        *,
        every_seconds: float | None = None,
        complaint: str = "background work failed; it is tried again",
    ) -> None:
        self.stopping = threading.Event()
        self.is_failing = False
        self._complaint = complaint
        self._name = name
        self._work = WeakMethod(work)
        self._every_seconds = every_seconds
        self._woken = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._log = logging.getLogger(name)

    def start(self) -> None:
        with self._starting:
            if self.stopping.is_set():
                return
            if self._thread is None or not self._thread.is_alive():  # never started, or lost in a fork
                self._thread = threading.Thread(target=self._run, name=self._name.replace(".", "-"), daemon=True)
                self._thread.start()

    def wake(self) -> None:
        """Work now, rather than when it is time again."""
        self._woken.set()
        self.start()

    def stop(self, patience_seconds: float | None = None) -> None:
        """Returns when the work under way has ended, which looks at `stopping` if it is long."""
        self.stopping.set()
        self._woken.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(patience_seconds)

    def _run(self) -> None:
        while not self.stopping.is_set():
            if self.is_failing:
                self.stopping.wait(self._every_seconds or RETRY_SECONDS)
            else:
                self._woken.wait(self._every_seconds)
            self._woken.clear()
            work = self._work()
            if work is None or self.stopping.is_set():
                return
            try:
                work()
                self.is_failing = False
            except Closed:
                return
            except Exception as error:  # noqa: BLE001 - the edge of the thread, which must live
                if not self.is_failing:
                    is_foreseen = isinstance(error, RecollectError)
                    self._log.warning("%s: %s", self._complaint, error, exc_info=not is_foreseen)
                self.is_failing = True
            del work
