"""One worker: a process that is started by who watches over all (process.py), and is the whole service but its port.

It serves until it is told to stop, gets SIGTERM or SIGINT, or finds that who watches over it is gone. Signals of the
terminal do not reach it, since it has a session of its own; one that comes twice, as from a service manager that
signals every process, is the same as one.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from types import FrameType

from prometheus_client import values
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.values import MultiProcessValue

from recollect import app
from recollect.errors import RecollectError
from recollect.interfaces.http.log_lines import show_logs
from recollect.interfaces.http.metrics import Metrics, RequestsInside
from recollect.interfaces.serve import Stopping, application, opened, prepare, run_server, web_config
from recollect.interfaces.workers.board import Board, WritingTurn
from recollect.interfaces.workers.connections import WorkerServer
from recollect.interfaces.workers.messages import News, Start, lines, send
from recollect.ports.records import WritesInTurn
from recollect.settings import received

FAILED = 3  # the exit status of a worker that could not start


class WorkerFigures(Collector):
    """How many workers there are, and how many had to be replaced."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def collect(self) -> Iterable[Metric]:
        yield from RequestsInside(self._board.requests_inside).collect()
        yield GaugeMetricFamily("recollect_workers", "Workers that serve now.", self._board.workers())
        told = "Workers that ended and were replaced."
        yield CounterMetricFamily("recollect_worker_restarts", told, self._board.restarts)


class Worker:
    def __init__(self, control: socket.socket, start: Start) -> None:
        self._control, self._start = control, start
        self._settings = received(start["settings"])
        self._stopping: Stopping | None = None
        for file in (start["listener"], start["board"], control.fileno()):
            os.set_inheritable(file, False)  # the processes that read files have no business with them

    def run(self) -> int:
        try:
            with opened(self._settings) as core:
                if not core.store.capabilities.many_processes:
                    app.refuse_workers(self._settings, f"a store of the kind '{core.store.capabilities.name}'")
                if self._start["is_first"]:
                    prepare(core, self._settings)
                if isinstance(core.store, WritesInTurn):
                    core.store.write_in_turn(WritingTurn(self._start["board"]))
                board = Board(self._start["board"], self._start["places"], self._start["place"])
                served = application(core, self._settings, board, self._metrics(board), self._start["holder"])
                listener = socket.socket(fileno=self._start["listener"])
                server = WorkerServer(web_config(served, self._settings.server), listener, board, self._is_ready)
                self._stopping = Stopping(server, served.state.service)
                run_server(server, [])
        except RecollectError as error:
            self._tell({"error": error.as_dict()})
            return FAILED
        return 0

    def _metrics(self, board: Board) -> Metrics:
        # Files by place and not by process: who comes after a worker that died goes on with its figures.
        name = f"worker{self._start['place']}"
        values.ValueClass = MultiProcessValue(lambda: name)  # type: ignore[assignment,misc,unused-ignore]
        return Metrics(WorkerFigures(board), Path(self._start["metrics"]))

    def _is_ready(self) -> None:
        show_logs(self._settings.server.log_format)
        self._tell({"is_ready": True})

    def _tell(self, news: News) -> None:
        with contextlib.suppress(OSError):  # nobody listens any more, and we stop
            send(self._control, news)

    def stop(self, number: int, frame: FrameType | None) -> None:
        """In the main thread, whatever it does."""
        if self._stopping is None:
            raise SystemExit(0)  # it had not begun to serve
        if not self._stopping.is_asked:
            self._stopping.ask(number)

    def obey(self, orders: Iterable[str]) -> None:
        """What we are told, in a thread of its own; when nobody is left to tell us anything, stop."""
        for order in orders:
            if order == "now" and self._stopping is not None:
                self._stopping.ask(at_once=True)
            else:
                os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        if self._stopping is not None:
            self._stopping.ask(at_once=True)


def main(control_file: int) -> int:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # who watches over us replaces us when it gets one
    control = socket.socket(fileno=control_file)
    told = lines(control)
    start: Start | None = next(told, None)
    if start is None:
        return 0
    worker = Worker(control, start)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, worker.stop)
    threading.Thread(target=worker.obey, args=(told,), name="recollect-control", daemon=True).start()
    return worker.run()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
