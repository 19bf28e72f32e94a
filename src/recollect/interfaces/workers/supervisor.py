"""Watches over the workers of a service: starts them, replaces those that end, and stops all in order.

The first worker starts alone: it brings the store up to date and makes the owner, or says why it cannot. A worker that
ends by itself is replaced at once; one that cannot start is tried again later, and where none is left after some
tries, the service ends with its error. SIGTERM and SIGINT stop all; a second one does not wait for those who balance
load; who has not stopped when the time is up is killed. SIGHUP replaces the workers one by one, with the settings as
they are now; when it says that the terminal was closed, it stops the service.

All is done in one thread, in steps that wait for whichever comes first: a message, a signal, the end of a process.
(tests/interfaces/workers/)
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import signal
import socket
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from recollect.errors import RecollectError, Unavailable
from recollect.interfaces.workers.board import Board
from recollect.interfaces.workers.process import WorkerProcess

log = logging.getLogger("recollect.workers")
MOST_FAILURES = 5  # starts that fail one after the other while nobody serves
SETTLED_SECONDS = 10.0  # a worker that lived so long is replaced at once
LONGEST_PAUSE_SECONDS = 30.0
STEP_SECONDS = 1.0
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)
Launch = Callable[[int, bool, WorkerProcess | None], WorkerProcess]
"""Starts a worker: its place, whether it is the first, whom it replaces."""


class Supervisor:
    """`reload` reads the settings again for the workers to come. Those that are asked to stop have `stop_seconds`;
    `let_go` closes the port here, so that it is closed when they have closed it."""

    def __init__(
        self,
        workers: int,
        board: Board,
        launch: Launch,
        reload: Callable[[], None],
        let_go: Callable[[], None],
        stop_seconds: float,
    ) -> None:
        self._wanted, self._board = workers, board
        self._launch, self._reload, self._let_go = launch, reload, let_go
        self._stop_seconds = stop_seconds
        self._workers: list[WorkerProcess] = []
        self._to_replace: list[WorkerProcess] = []
        self._selector = selectors.DefaultSelector()
        self._signals: list[int] = []
        self._failures, self._not_before = 0, 0.0
        self._is_stopping = False
        self._had_terminal = _has_terminal()
        self._unfinished = 0

    def run(self, started: Callable[[], None]) -> None:
        """Until it is asked to stop; `started` is called when all workers serve for the first time."""
        with self._listening_to_signals():
            try:
                self._start()
                if not self._is_stopping:
                    started()
                while self._workers or not self._is_stopping:
                    self._step()
            finally:
                for worker in self._workers:
                    worker.close()
                self._selector.close()
        if self._unfinished:
            raise Unavailable(
                f"{self._unfinished} of the workers did not stop in time and were killed",
                remedy="nothing that was acknowledged is lost; see what they were doing in the log",
            )

    # -- starting ----------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        """The first alone, then the others; whoever cannot start now would not later either."""
        for count in dict.fromkeys((1, self._wanted)):
            while len(self._workers) < count:
                self._launch_one(is_first=count == 1)
            while not self._is_stopping and len(self._serving()) < count:
                self._step(is_start=True)
            if self._is_stopping:
                return

    def _launch_one(self, *, is_first: bool = False, replaces: WorkerProcess | None = None) -> None:
        taken = {worker.place for worker in self._workers}
        place = next(one for one in range(self._board.places) if one not in taken)
        self._board.clear(place)
        worker = self._launch(place, is_first, replaces)
        self._workers.append(worker)
        self._selector.register(worker.control, selectors.EVENT_READ, worker)

    def _serving(self) -> list[WorkerProcess]:
        return [worker for worker in self._workers if worker.state == "serving"]

    # -- one step ----------------------------------------------------------------------------------------------------

    def _step(self, *, is_start: bool = False) -> None:
        for key, _ in self._selector.select(STEP_SECONDS):
            if isinstance(key.data, WorkerProcess):
                self._hear(key.data)
            else:
                key.fileobj.recv(1024)  # type: ignore[union-attr]
        while self._signals:
            self._obey(self._signals.pop(0))
        for worker in list(self._workers):
            if worker.has_ended():
                self._ended(worker, is_start)
            elif worker.deadline is not None and time.monotonic() > worker.deadline:
                log.error("%s has not stopped in time and is killed", worker.name)
                self._unfinished, worker.deadline = self._unfinished + 1, None
                worker.kill()
        if not self._is_stopping and not is_start:
            self._fill_up()

    def _hear(self, worker: WorkerProcess) -> None:
        was = worker.state
        worker.hear()
        if worker.is_gone:  # its end is seen by the process
            self._selector.unregister(worker.control)
        if was == "starting" and worker.state == "serving":
            self._failures, self._not_before = 0, 0.0
            if worker.replaces is not None:
                worker.replaces.stop(self._stop_seconds)

    def _ended(self, worker: WorkerProcess, is_start: bool) -> None:
        self._workers.remove(worker)
        if not worker.is_gone:
            self._hear_the_rest(worker)
        worker.close()
        self._board.clear(worker.place)
        if worker.state == "stopping" or self._is_stopping:
            return
        if worker.state == "starting":
            self._could_not_start(worker, is_start)
            return
        self._board.note_restart()
        log.error("%s ended %s; another takes its place", worker.name, worker.how_it_ended())
        if worker.lived_seconds < SETTLED_SECONDS:
            self._not_before = time.monotonic() + 1.0

    def _hear_the_rest(self, worker: WorkerProcess) -> None:
        """What it said before it ended."""
        while not worker.is_gone:
            worker.hear()
        self._selector.unregister(worker.control)

    def _could_not_start(self, worker: WorkerProcess, is_start: bool) -> None:
        failure = worker.failure()
        self._failures += 1
        if is_start or (not self._serving() and self._failures >= MOST_FAILURES):
            raise failure
        log.error("a worker could not start: %s", failure)
        if worker.replaces is not None:
            self._to_replace = []  # the others would fail in the same way: those that serve go on
            return
        self._not_before = time.monotonic() + min(2.0 ** (self._failures - 1), LONGEST_PAUSE_SECONDS)

    def _fill_up(self) -> None:
        """As many as there should be; then one more, to take the place of one that is to be replaced."""
        lasting = [worker for worker in self._workers if worker.state != "stopping" and worker.replaces is None]
        lasting += [worker for worker in self._serving() if worker.replaces is not None]
        while len(lasting) < self._wanted and time.monotonic() >= self._not_before:
            self._launch_one()
            lasting.append(self._workers[-1])
        self._to_replace = [worker for worker in self._to_replace if worker in self._serving()]
        if self._to_replace and all(worker.state != "starting" for worker in self._workers):
            self._launch_one(replaces=self._to_replace.pop(0))

    # -- signals -----------------------------------------------------------------------------------------------------

    def _obey(self, number: int) -> None:
        if number == signal.SIGCHLD:
            return  # seen by the processes themselves
        if number == signal.SIGHUP and not (self._had_terminal and not _has_terminal()):
            self._replace_all()
        elif self._is_stopping:
            for worker in self._workers:
                worker.stop_now()
        else:
            self._is_stopping = True
            self._let_go()
            for worker in self._workers:
                worker.stop(self._stop_seconds)

    def _replace_all(self) -> None:
        if self._is_stopping:
            return
        try:
            self._reload()
        except RecollectError as error:
            log.error("the workers go on with the settings they have: %s", error)
            return
        log.info("the workers are replaced one by one")
        self._to_replace = self._serving()

    @contextlib.contextmanager
    def _listening_to_signals(self) -> Iterator[None]:
        """A signal ends the waiting of a step, which looks at it."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            theirs.setblocking(False)
            self._selector.register(ours, selectors.EVENT_READ)
            woken = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
            kept: dict[int, Any] = {number: signal.signal(number, self._note_signal) for number in SIGNALS}
            try:
                yield
            finally:
                for number, before in kept.items():
                    signal.signal(number, before)
                signal.set_wakeup_fd(woken)

    def _note_signal(self, number: int, frame: FrameType | None) -> None:
        self._signals.append(number)


def _has_terminal() -> bool:
    """Whether there is a terminal that can be closed, which is told by SIGHUP as well."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
