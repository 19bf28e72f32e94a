"""The work that an operation does, counted: nothing here looks at a clock, so a busy machine counts the same.

    with counting() as work, opened(path) as mem:
        counts = work.of(lambda: mem.recall("harbour"))

Counted are, on SQLite: the statements of the caller (but those that begin and end transactions), the rows handed over
to Python, the steps of SQLite's virtual machine, the pages that SQLite looked at (also for full text, whose work takes
no steps), the vectors that were compared, and the calls of functions, ours and built-in. The thread that writes counts
for whoever waits for it; upkeep in the background and the journal of reads, which is written later, do not.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, cast

import apsw

from recollect.adapters.vectors.embedded import kernels
from recollect.app import build, ensure_organization
from recollect.interfaces.client import Recollect
from recollect.ports.models import Embedder
from recollect.ports.records import Scope
from recollect.services.access_journal import Journal
from recollect.settings import EmbedderSettings, Settings
from recollect.testing.statements import BRACKETS

MEASURES = ("statements", "rows", "steps", "pages", "vectors", "calls")
LATER_SECONDS = 3600.0
WRITER = "recollect writer"
_EVENTS = apsw.SQLITE_TRACE_STMT | apsw.SQLITE_TRACE_PROFILE
Counts = dict[str, int]


def opened(path: Path, embedder: Embedder | None = None) -> Recollect:
    """A store in which only the caller's own calls do anything: no upkeep, and the log of reads waits."""
    settings = Settings(store=str(path), embedder=EmbedderSettings(provider="hash"), background=False)
    core = build(settings, embedder)
    core = replace(core, journal=Journal(core.store, flush_seconds=LATER_SECONDS))
    cast(Any, core.store)._tables.tidy = lambda: None  # what the writer does after a commit, at its own time
    return Recollect(core, Scope(settings.organization, settings.actor), ensure_organization)


@contextmanager
def counting() -> Iterator[Work]:
    """What is opened in the block can be counted."""
    work = Work()
    apsw.connection_hooks.append(work.watch)
    hamming, dots = kernels.hamming, kernels.dots
    kernels.hamming = work.comparing(hamming)
    kernels.dots = work.comparing(dots)
    threading.setprofile(work.called)
    try:
        yield work
    finally:
        threading.setprofile(None)
        kernels.hamming, kernels.dots = hamming, dots
        apsw.connection_hooks.remove(work.watch)


class Work:
    def __init__(self) -> None:
        self._connections: list[apsw.Connection] = []
        self._counted: Counter[str] = Counter()
        self._running: dict[int, str] = {}
        self.statements: Counter[str] = Counter()
        """The steps of each statement of the last work: where they grow is seen here."""
        self._is_counting = False
        self._caller = threading.get_ident()

    def of(self, work: Callable[[], Any]) -> Counts:
        pages = self._pages()
        self._counted.clear()
        self.statements.clear()
        self._is_counting = True
        sys.setprofile(self.called)
        try:
            work()
        finally:
            sys.setprofile(None)
            self._is_counting = False
        self._counted["pages"] = self._pages() - pages
        return {measure: self._counted[measure] for measure in MEASURES}

    def watch(self, connection: apsw.Connection) -> None:
        self._connections.append(connection)
        connection.trace_v2(_EVENTS, self._traced)
        connection.row_trace = self._handed_over

    def _handed_over(self, cursor: apsw.Cursor, row: tuple[Any, ...]) -> tuple[Any, ...]:
        self._counted["rows"] += self._counts_here()
        return row

    def _traced(self, event: dict[str, Any]) -> None:
        if not self._counts_here():
            return
        if event["code"] == apsw.SQLITE_TRACE_PROFILE:
            self._note_end(event)
        elif not event["trigger"]:
            self._running[event["id"]] = event["sql"]
            self._counted["statements"] += not event["sql"].startswith(BRACKETS)

    def _note_end(self, event: dict[str, Any]) -> None:
        """What full text runs inside a statement ends under its id, too, and its steps add up from call to call."""
        sql = event["sql"]
        if self._running.get(event["id"]) == sql:
            steps = event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]
            self._counted["steps"] += steps
            self.statements[sql] += steps

    def comparing(self, kernel: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*given: Any, **named: Any) -> Any:
            found = kernel(*given, **named)
            if self._is_counting:
                self._counted["vectors"] += len(found[0] if isinstance(found, tuple) else found)
            return found

        return counted

    def called(self, frame: FrameType, event: str, given: Any) -> None:
        if self._is_counting and event in ("call", "c_call") and self._counts_here():
            self._counted["calls"] += 1

    def _counts_here(self) -> bool:
        if not self._is_counting:
            return False
        return threading.get_ident() == self._caller or threading.current_thread().name.startswith(WRITER)

    def _pages(self) -> int:
        total = 0
        for connection in self._connections:
            with suppress(apsw.ConnectionClosedError):
                for kind in (apsw.SQLITE_DBSTATUS_CACHE_HIT, apsw.SQLITE_DBSTATUS_CACHE_MISS):
                    total += connection.status(kind)[0]
        return total
