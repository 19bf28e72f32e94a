"""Tests in several processes, forked when everything is imported and collected: `pytest --workers 4`.

Importing and collecting takes a dozen seconds of a processor, here once and not in each of the processes. What is
shared by tests is made once in a process: the tests of a file, of one store in it or of one `together("name")` are
one unit of work. A process asks for its next unit when it begins the last test of the one it has.

A test whose process ends has failed; the rest of its unit goes to a new process. A process without a parent ends.
Tried by tests/test_forked_workers.py.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import tempfile
import traceback
import warnings
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe, wait
from types import SimpleNamespace
from typing import Any

import pytest
from _pytest.capture import FDCapture

STORES = ("sqlite", "postgres", "duckdb", "dynamodb", "memory")
# Few tests, each of which takes long and often waits for another program: begun first, or the run ends with one.
LONG = (
    "tests/integrations/test_frameworks.py",
    "tests/browser",
    "tests/crash",
    "tests/bench",
    "tests/interfaces/workers",
    "tests/interfaces/mcp",
    "tests/docs",
    "tests/property",
    "tests/security",
    "tests/services",
)
Unit = list[int]  # places in the list of all tests


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--workers", type=int, default=0, help="run the tests in so many processes")


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    config = session.config
    cannot = not hasattr(os, "fork") or config.option.collectonly or session.testsfailed  # which pytest reports
    if not config.option.workers or cannot:
        return None
    Workers(session).run(config.option.workers)
    return True


# -- units of work -----------------------------------------------------------------------------------------------------


def units(items: list[pytest.Item]) -> list[Unit]:
    """Long ones first, then those with the most tests."""
    together: dict[str, Unit] = {}
    for place, item in enumerate(items):
        together.setdefault(_shared(item), []).append(place)
    return sorted(together.values(), key=lambda unit: (_turn(items[unit[0]].nodeid), -len(unit)))


def _shared(item: pytest.Item) -> str:
    mark = item.get_closest_marker("together")
    if mark is not None:
        return str(mark.args[0])
    file, _, test = item.nodeid.partition("::")
    given = test.partition("[")[2]
    return f"{file} {next((name for name in STORES if given.startswith(name)), '')}"


def _turn(test: str) -> int:
    return next((turn for turn, path in enumerate(LONG) if test.startswith(path)), len(LONG))


# -- the process that collected ----------------------------------------------------------------------------------------


@dataclass
class Worker:
    process: int
    channel: Connection
    name: str
    owed: deque[int] = field(default_factory=deque)  # tests that it was given and has not ended
    code: int | None = None

    def has_ended(self, *, wait: bool = False) -> bool:
        if self.code is None:
            process, status = os.waitpid(self.process, 0 if wait else os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if process else None
        return self.code is not None


class Workers:
    def __init__(self, session: pytest.Session) -> None:
        self._session = session
        self._waiting = deque(units(session.items))
        self._running: list[Worker] = []
        self._started = 0

    def run(self, count: int) -> None:
        self._session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]  # of which each has a part
        gc.collect()
        gc.freeze()  # what all of them share is not looked through by each, nor copied for it
        try:
            for _ in range(min(count, len(self._waiting))):
                self._start()
            while self._running:
                self._hear()
                self._stop_where_asked()
        finally:
            gc.unfreeze()  # else what libraries made is never deleted, and they complain of it at the end
            for worker in self._running:
                worker.channel.close()  # after the test that it runs it finds nobody to tell
            for worker in self._running:
                worker.has_ended(wait=True)

    def _start(self) -> None:
        ours, its = Pipe()
        name = f"gw{self._started}"
        sys.stdout.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which libraries have begun
            process = os.fork()
        if process == 0:
            for other in [ours, *(worker.channel for worker in self._running)]:
                other.close()  # else it would keep the line of another open
            _work_and_exit(self._session, its, name)
        its.close()
        self._started += 1
        self._running.append(Worker(process, ours, name))

    def _hear(self) -> None:
        ready = wait([worker.channel for worker in self._running], timeout=5)
        if not ready:  # a process that a test left behind may keep the line of one that ended
            ready = [worker.channel for worker in self._running if worker.has_ended()]
        for worker in [one for one in self._running if one.channel in ready]:
            if not worker.channel.poll() and worker.has_ended():
                self._ended(worker)
                continue
            try:
                kind, told = worker.channel.recv()
            except (EOFError, OSError):
                self._ended(worker)
                continue
            if kind == "report":
                self._report(told)
            elif kind == "done":
                worker.owed.popleft()
            else:
                self._give(worker)

    def _give(self, worker: Worker) -> None:
        unit = self._waiting.popleft() if self._waiting else []
        worker.owed.extend(unit)
        with suppress(OSError):  # one that ended meanwhile is noticed when it is heard next
            worker.channel.send(unit)

    def _report(self, told: dict[str, Any]) -> None:
        hook = self._session.config.hook
        report = hook.pytest_report_from_serializable(config=self._session.config, data=told)
        if report.when == "setup":
            hook.pytest_runtest_logstart(nodeid=report.nodeid, location=report.location)
        hook.pytest_runtest_logreport(report=report)

    def _ended(self, worker: Worker) -> None:
        worker.channel.close()
        self._running.remove(worker)
        worker.has_ended(wait=True)
        if not worker.owed and worker.code == 0:
            return
        left = list(worker.owed)
        at = self._session.items[left.pop(0)] if left else None
        test, location = (at.nodeid, at.location) if at is not None else (worker.name, (worker.name, None, worker.name))
        said = f"{worker.name} ended with {worker.code} while it ran {test}"
        report = pytest.TestReport(test, location, {}, "failed", said, "call")
        self._session.config.hook.pytest_runtest_logreport(report=report)
        if left:
            self._waiting.appendleft(left)
        if self._waiting:
            self._start()

    def _stop_where_asked(self) -> None:
        if self._session.shouldfail:
            raise self._session.Failed(self._session.shouldfail)
        if self._session.shouldstop:
            raise self._session.Interrupted(self._session.shouldstop)


# -- a process that runs tests -----------------------------------------------------------------------------------------


def _work_and_exit(session: pytest.Session, channel: Connection, name: str) -> None:
    """Never returns to what the forked process was doing."""
    code = 1
    try:
        atexit._clear()  # what was registered before is for the parent to do
        _settle(session.config, channel, name)
        code = _work(session, channel)
    except (BrokenPipeError, EOFError, KeyboardInterrupt):
        pass  # nobody waits for it
    except BaseException:  # noqa: BLE001  the edge of a process: else its parent would only see that it ended
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        sys.stderr.flush()
        os._exit(code)


def _settle(config: pytest.Config, channel: Connection, name: str) -> None:
    """What a process of the tests has of its own: its output, its folder; and its parent says what came of a test."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ["PYTEST_XDIST_WORKER"] = name
    config.workerinput = {"workerid": name}  # type: ignore[attr-defined]  # to pytest: another process writes its caches
    _part_output(config)
    terminal = config.pluginmanager.unregister(name="terminalreporter")
    config.pluginmanager.register(SimpleNamespace(_tw=terminal._tw), "terminalreporter")  # type: ignore[union-attr]
    config.pluginmanager.register(Telling(config, channel))
    folders = config._tmp_path_factory  # type: ignore[attr-defined]
    folders._basetemp = folders.getbasetemp() / name
    folders._basetemp.mkdir()


def _part_output(config: pytest.Config) -> None:
    """What tests print goes through a file, which is another one here: the object stays, libraries may have kept it."""
    capturing = config.pluginmanager.getplugin("capturemanager")._global_capturing
    for stream in (capturing.out, capturing.err):
        if isinstance(stream, FDCapture):
            with tempfile.TemporaryFile(buffering=0) as own:
                os.dup2(own.fileno(), stream.tmpfile.fileno(), inheritable=False)


class Telling:
    def __init__(self, config: pytest.Config, channel: Connection) -> None:
        self._config, self._channel = config, channel

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        told = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._channel.send(("report", told))


def _work(session: pytest.Session, channel: Connection) -> int:
    hook, items = session.config.hook, session.items
    try:
        for place, following in _in_pairs(channel):
            item, then = items[place], None if following is None else items[following]
            hook.pytest_runtest_protocol(item=item, nextitem=then)
            channel.send(("done", place))
    finally:
        hook.pytest_sessionfinish(session=session, exitstatus=0)
    return 0


def _in_pairs(channel: Connection) -> Iterator[tuple[int, int | None]]:
    """Each test and the one after it, which keeps what both use."""
    unit = _next_unit(channel)
    while unit:
        place, *unit = unit
        unit = unit or _next_unit(channel)
        yield place, unit[0] if unit else None


def _next_unit(channel: Connection) -> Unit:
    channel.send(("next", None))
    unit: Unit = channel.recv()
    return unit
