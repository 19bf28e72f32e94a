"""A worker as who watches over it sees it: a process, the sockets to talk with it, and how far it is."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Literal

from recollect.errors import RecollectError, Unavailable
from recollect.interfaces.workers.messages import Order, Start, error_of, send

MODULE = "recollect.interfaces.workers.worker"
State = Literal["starting", "serving", "stopping"]


class WorkerProcess:
    def __init__(self, start: Start, environment: Mapping[str, str], replaces: WorkerProcess | None = None) -> None:
        self.place = start["place"]
        self.replaces = replaces
        self.state: State = "starting"
        self.error: RecollectError | None = None
        self.began = time.monotonic()
        self.deadline: float | None = None
        self.is_gone = False
        self._heard = b""
        self.control, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                # Its first path is that of this process, not the current folder.
                [sys.executable, "-P", "-m", MODULE, str(theirs.fileno())],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment},
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), start["listener"], start["board"]),
                start_new_session=True,  # Ctrl-C is for us: we tell the workers
            )
        with contextlib.suppress(OSError):  # it ended at once, which is noticed
            send(self.control, start)
        self.control.setblocking(False)

    @property
    def name(self) -> str:
        return f"worker {self.process.pid}"

    @property
    def lived_seconds(self) -> float:
        return time.monotonic() - self.began

    def hear(self) -> None:
        """Take in what it says; at the end of it, that it is going."""
        try:
            said = self.control.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            said = b""
        self.is_gone = not said
        *whole, self._heard = (self._heard + said).split(b"\n")
        for line in whole:
            self._note(line)

    def _note(self, line: bytes) -> None:
        news = json.loads(line)
        if "error" in news:
            self.error = error_of(news["error"])
        elif self.state == "starting":
            self.state = "serving"

    def stop(self, within_seconds: float) -> None:
        if self.state != "stopping":
            self.state, self.deadline = "stopping", time.monotonic() + within_seconds
            self._order("stop")

    def stop_now(self) -> None:
        self._order("now")

    def _order(self, order: Order) -> None:
        with contextlib.suppress(OSError):  # it is gone already
            self.control.setblocking(True)
            send(self.control, order)
            self.control.setblocking(False)

    def kill(self) -> None:
        self.process.kill()

    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def how_it_ended(self) -> str:
        code = self.process.returncode
        return f"by {signal.Signals(-code).name}" if code < 0 else f"with exit status {code}"

    def failure(self) -> RecollectError:
        """Why it could not start."""
        return self.error or Unavailable(
            f"a worker could not start: it ended {self.how_it_ended()}", remedy="see what it said on standard error"
        )

    def close(self) -> None:
        self.control.close()
        if not self.has_ended():
            self.kill()
        self.process.wait()
