"""A warm pool of child processes, each with hard limits and a kill.

A child is started with a clean environment, in a session and a folder of its own, and answers one job at a time. It is
killed at the deadline, when it is cancelled, and when the pool closes; whoever is killed is waited for, its folder is
deleted, and another is started in its place before anybody asks. Proven by tests/adapters/data/test_pool.py.
"""

from __future__ import annotations

import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from recollect.adapters.atomic_file import locked
from recollect.adapters.data.confinement import OUT_OF_MEMORY
from recollect.adapters.data.messages import Message, read_message, received_error, write_message
from recollect.errors import Cancelled, Closed, InvalidInput, Overloaded, RecollectError, TooLarge, Unavailable
from recollect.ports.data import Limits, Progress

_START_SECONDS = 120.0
_GRACE_SECONDS = 1.0
"""DuckDB ends a query at its time by itself, and the child stays warm; whoever does not is killed after this."""
_FOLDER = "recollect-data-"


class Child:
    """One process. `ask` is for one thread at a time; `kill` for any."""

    def __init__(self, root: Path) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="child-", dir=root))
        self.why_killed: Callable[[], RecollectError] | None = None
        self.protections: dict[str, bool] = {}
        self.is_usable = True
        self.is_at_work = False
        self.peak_bytes = 0
        self._jobs = 0
        self._ended = threading.Lock()
        self._inherited = _most_ever()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "recollect.adapters.data.child", str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self.folder,
            env=clean_environment(self.folder),
            start_new_session=os.name != "nt",
        )
        self._messages: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            while (message := read_message(self._process.stdout)) is not None:
                self._messages.put(message)
        except ValueError:  # closed under us, or not JSON: the child is of no more use
            self.is_usable = False
        finally:
            self._messages.put(None)

    def is_alive(self) -> bool:
        return self.is_usable and self._process.poll() is None

    def ready(self) -> None:
        """Wait until it can take a job."""
        if not self.protections:
            message = self._next(time.monotonic() + _START_SECONDS)
            found = message.get("ready") if message is not None else None
            if self.why_killed is not None:
                raise self.why_killed()
            if not isinstance(found, dict):
                raise Unavailable(
                    "the data engine's process did not start",
                    remedy="check that recollect[data] is installed and memory is free",
                )
            self.protections = found

    def ask(self, job: Message, limits: Limits, progress: Progress | None) -> Message:
        """The answer to a job; raises the error that came instead, or what became of the child.

        Whatever else is raised here, by `progress` or an interrupt, leaves a child that still works on the job: it is
        not usable until its answer has come, so that nobody else gets it.
        """
        self.is_usable = False
        self.peak_bytes = 0
        deadline = time.monotonic() + limits.seconds + _GRACE_SECONDS
        assert self._process.stdin is not None
        with suppress(OSError):  # it has died: the next message says so
            write_message(self._process.stdin, job)
        self.is_at_work = True
        while (message := self._next(deadline)) is not None:
            reported = message.get("progress")
            if isinstance(reported, list):
                if progress is not None:
                    progress(str(reported[0]), float(reported[1]))
                continue
            self.is_at_work = False
            self.is_usable = not message.get("is_last") and self.why_killed is None
            cost = message.get("cost")
            self.peak_bytes = int(cost["peak_bytes"]) if isinstance(cost, dict) else 0
            if "error" in message:
                error = received_error(message["error"])
                error.details["peak_bytes"] = self.peak_bytes
                raise error
            return message
        raise self._fate(limits)

    def _next(self, deadline: float) -> Message | None:
        try:
            return self._messages.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            self.kill(lambda: TooLarge("this took too long", remedy="ask for less, or allow more seconds"))
            return None

    def kill(self, why: Callable[[], RecollectError] | None = None) -> None:
        self.why_killed = self.why_killed or why
        self.is_usable = False
        with suppress(ProcessLookupError):
            if self._process.returncode is None:
                self.peak_bytes = _peak_of(self.pid) or self.peak_bytes
                # Not Popen.kill, which may collect the dead and with it the measure of its memory.
                os.kill(self.pid, getattr(signal, "SIGKILL", signal.SIGTERM))

    def _fate(self, limits: Limits) -> RecollectError:
        """Why there is no answer."""
        self.end()
        if self.why_killed is not None:
            error = self.why_killed()
        elif (status := self._process.returncode) in (OUT_OF_MEMORY, -signal.SIGKILL):
            error = TooLarge(
                f"this needs more than {limits.megabytes} MB of memory",
                remedy="ask for less at a time, or allow more memory",
            )
        elif status == -getattr(signal, "SIGXCPU", 0):
            error = TooLarge(
                f"this took more than {limits.cpu_seconds} seconds of processor time",
                remedy="ask for less, or allow more",
            )
        else:
            error = TooLarge(
                f"the data engine's process ended (status {status}), most likely for lack of memory",
                remedy="ask for less at a time, or allow more memory",
            )
        error.details.update(peak_bytes=self.peak_bytes or None)
        return error

    def end(self) -> None:
        """Kill it if it lives, wait for it, and leave nothing of it behind."""
        with self._ended:
            self.kill()
            if self._process.returncode is None:
                self._wait()
            self._reader.join(timeout=5)
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None and not (pipe is self._process.stdout and self._reader.is_alive()):
                    with suppress(OSError):  # what was not sent is of no use to a dead process
                        pipe.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    def _wait(self) -> None:
        if not hasattr(os, "wait4"):
            self._process.wait()
            return
        try:
            _, status, usage = os.wait4(self.pid, 0)
        except ChildProcessError:  # somebody in this program waits for all children
            self._process.returncode = -signal.SIGKILL
            return
        self._process.returncode = os.waitstatus_to_exitcode(status)
        # A process begins with the peak of the one that made it: less than that tells nothing.
        if usage.ru_maxrss > self._inherited * 1.05:
            self.peak_bytes = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)

    @contextmanager
    def job_folder(self) -> Iterator[Path]:
        self._jobs += 1
        folder = self.folder / f"job-{self._jobs}"
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


class ChildPool:
    """At most `size` children work at once; others wait up to `wait_seconds` for their turn."""

    def __init__(self, size: int = 2, *, scratch: Path | None = None, wait_seconds: float = 30.0) -> None:
        self._size, self._wait_seconds = size, wait_seconds
        self._turn = threading.Semaphore(size)
        self._changing = threading.Lock()
        self._idle: list[Child] = []
        self._busy: dict[str, Child] = {}
        self._is_closed = False
        self._root, self._lock = _scratch_folder(scratch or Path(tempfile.gettempdir()))
        self.last_protections: dict[str, bool] = {}

    def warm(self, children: int = 1) -> None:
        """Start children before they are needed; they get ready while we go on."""
        with self._changing:
            self._check_open()
            while len(self._idle) + len(self._busy) < min(children, self._size):
                self._idle.append(Child(self._root))

    @contextmanager
    def run(
        self, verb: str, asked: Message, limits: Limits, progress: Progress | None, job: str | None
    ) -> Iterator[Message]:
        """Do a job: the answer, and while the block lasts the files that it made, in `folder`."""
        name = job if job is not None else f"\0{threading.get_ident()}"
        if not self._turn.acquire(timeout=self._wait_seconds):
            raise Overloaded("too many queries at once", remedy="try again in a moment")
        try:
            child = self._take(name)
            try:
                child.ready()
                self.last_protections = child.protections
                with child.job_folder() as folder:
                    message = {"verb": verb, "folder": str(folder), "limits": asdict(limits), **asked}
                    answer = child.ask(message, limits, progress)
                    yield {**answer, "folder": str(folder)}
            finally:
                self._give_back(name, child)
        finally:
            self._turn.release()

    def _take(self, name: str) -> Child:
        with self._changing:
            self._check_open()
            if name in self._busy:
                raise InvalidInput(f"a job named '{name[:80]}' is running", remedy="give each running job another name")
            dead = []
            while self._idle and not self._idle[-1].is_alive():
                dead.append(self._idle.pop())
            child = self._idle.pop() if self._idle else Child(self._root)
            self._busy[name] = child
        for one in dead:
            one.end()
        return child

    def _give_back(self, name: str, child: Child) -> None:
        is_alive = child.is_alive()
        if not is_alive:
            child.end()
        with self._changing:
            del self._busy[name]
            if not self._is_closed:
                self._idle.append(child if is_alive else Child(self._root))
                return
        child.end()

    def cancel(self, job: str) -> bool:
        with self._changing:
            child = self._busy.get(job)
            if child is None:
                return False
            child.kill(lambda: Cancelled("this was cancelled", remedy="ask again if it is still wanted"))
            return True

    def children(self) -> list[int]:
        """The processes that live now, for those who watch over them."""
        with self._changing:
            return [child.pid for child in [*self._idle, *self._busy.values()]]

    def busy(self) -> int:
        """How many of them work now."""
        with self._changing:
            return sum(child.is_at_work for child in self._busy.values())

    def close(self) -> None:
        with self._changing:
            if self._is_closed:
                return
            self._is_closed = True
            idle, self._idle = self._idle, []
            for child in self._busy.values():
                child.kill(lambda: Closed("the data engine is closed", remedy="open it again"))
        for child in idle:
            child.end()
        for _ in range(self._size):  # those at work have taken their hands off when all turns are ours
            self._turn.acquire()
        for _ in range(self._size):
            self._turn.release()
        shutil.rmtree(self._root, ignore_errors=True)
        os.close(self._lock)

    def _check_open(self) -> None:
        if self._is_closed:
            raise Closed("the data engine is closed", remedy="open it again")


def clean_environment(folder: Path | str) -> dict[str, str]:
    """Nothing of ours but where Python finds its modules: no key, no proxy, no home."""
    found = {
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "MALLOC_ARENA_MAX": "2",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "PYTHONSAFEPATH": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    return found | {name: os.environ[name] for name in ("SYSTEMROOT",) if name in os.environ}


def _scratch_folder(parent: Path) -> tuple[Path, int]:
    """A folder of this pool's own, locked while its process lives; what killed processes have left is deleted."""
    parent.mkdir(parents=True, exist_ok=True)
    for left in parent.glob(f"{_FOLDER}*"):
        with suppress(OSError):  # not ours, or gone a moment ago
            handle = os.open(left / "lock", os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
            try:
                if os.name != "nt" and locked(handle, wait=False):
                    shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(handle)
    root = Path(tempfile.mkdtemp(prefix=_FOLDER, dir=parent))
    handle = os.open(root / "lock", os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
    locked(handle, wait=True)
    return root, handle


def _most_ever() -> int:
    """The peak of this process, in the unit of its system."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _peak_of(pid: int) -> int:
    """The most memory that a living process has filled, in bytes; 0 where the system does not tell."""
    with suppress(OSError):  # it ended in between, or the system has no such file
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0
