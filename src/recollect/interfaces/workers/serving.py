"""`recollect serve` with several workers: what they are given, and what they share.

The port is bound here, once; every worker inherits it, so none is lost that connects while a worker is replaced. The
processor is divided among the workers, so that their models and libraries together start no more threads than there
are cores.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from recollect import app
from recollect.domain.record import new_id
from recollect.errors import InvalidSettings, Unsupported
from recollect.interfaces.http.log_lines import show_logs
from recollect.interfaces.serve import (
    STOP_SECONDS,
    ServeRequest,
    core_count,
    listening,
    settings_of,
    worker_count,
)
from recollect.settings import Settings, handed_on

FINISH_SECONDS = 15  # for what is at work in threads, beyond the time for connections
THREADS_OF_LIBRARIES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def serve_with_workers(request: ServeRequest, settings: Settings) -> None:
    """Until stopped."""
    refuse_unsuitable(settings)
    from recollect.interfaces.workers.board import Board
    from recollect.interfaces.workers.messages import Start
    from recollect.interfaces.workers.process import WorkerProcess
    from recollect.interfaces.workers.supervisor import Supervisor

    count = worker_count(settings.server)
    board, name, given = Board.made(2 * count), new_id(), handed_on(shared_out(settings, count))
    with listening(settings.server) as (listener, address), tempfile.TemporaryDirectory(prefix="recollect-") as folder:

        def launch(place: int, is_first: bool, replaces: WorkerProcess | None) -> WorkerProcess:
            start = Start(
                settings=given, listener=listener.fileno(), board=board.file, places=board.places, place=place,
                metrics=folder, holder=f"{name}-{place}", is_first=is_first,
            )  # fmt: skip
            return WorkerProcess(start, environment_of(count, folder), replaces)

        def reload() -> None:
            nonlocal given
            again = settings_of(request)
            refuse_unsuitable(again)
            _refuse_moved(settings, again)
            given = handed_on(shared_out(again, count))

        def started() -> None:
            print(f"Recollect listens on {address} with {count} workers", file=sys.stderr, flush=True)

        show_logs(settings.server.log_format)
        stop_seconds = settings.server.drain_seconds + STOP_SECONDS + FINISH_SECONDS
        Supervisor(count, board, launch, reload, listener.close, stop_seconds).run(started)


def refuse_unsuitable(settings: Settings) -> None:
    """What only one process can have open, before anything is started."""
    if sys.platform == "win32":
        raise Unsupported(
            "several workers on one port need Unix",
            remedy="set server.workers to 1, or run services on several ports behind a proxy",
        )
    app.refuse_workers(settings)


def _refuse_moved(settings: Settings, again: Settings) -> None:
    for name in ("host", "port", "workers"):
        if getattr(settings.server, name) != getattr(again.server, name):
            raise InvalidSettings(f"server.{name} cannot be changed while it serves", remedy="restart the service")


def shared_out(settings: Settings, workers: int) -> Settings:
    """The settings of one worker of so many: its part of the cores, and of the processes that read files."""
    settings = app.with_printed_keys(settings)
    threads = threads_of_each(workers)
    models = {
        name: model.model_copy(update={"threads": min(model.threads, threads)})
        for name in ("embedder", "incoming_embedder")
        if (model := getattr(settings, name)) is not None
    }
    processes = max(1, settings.data_processes // workers)
    return settings.model_copy(update={**models, "data_processes": processes})


def threads_of_each(workers: int) -> int:
    return max(1, core_count() // workers)


def environment_of(workers: int, folder: str | Path) -> dict[str, str]:
    """What the libraries of a worker read: numpy's threads, unless somebody chose them, and where figures are kept."""
    threads = str(threads_of_each(workers))
    chosen = {name: os.environ.get(name, threads) for name in THREADS_OF_LIBRARIES}
    return {**chosen, "PROMETHEUS_MULTIPROC_DIR": str(folder)}
