"""How far something is, for people: a bar in a terminal or a notebook, plain lines where there is neither.

All of it goes to stderr, or below the cell of a notebook: what was asked for stays alone on stdout.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from importlib import import_module
from threading import Lock, Timer
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from recollect.errors import InvalidInput
from recollect.interfaces.client import Progress

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

Report = Callable[[int, int], None]
"""Called with how much is done, and how much there is."""
PATIENCE_SECONDS = 2.0
"""A command shows nothing of what takes no longer."""
PARTS = 10  # lines that are written of one thing


class _Surface(Protocol):
    def report(self, done: int, total: int) -> None: ...

    def end(self, whole: bool) -> None: ...


@contextmanager
def reporting(progress: Progress, title: str) -> Iterator[Report | None]:
    """What an operation is to call: nothing, the function that was given, or one that shows it."""
    if progress is None or progress is False:
        yield None
    elif progress is True:
        surface = _surface(title)
        with _shown_on(surface):
            yield surface.report
    elif callable(progress):
        yield progress
    else:
        raise InvalidInput(
            f"progress cannot be {type(progress).__name__}",
            remedy="give True for a bar, or a function of how much is done and how much there is",
        )


@contextmanager
def bar_for_command(title: str, after: float = PATIENCE_SECONDS) -> Iterator[Report | None]:
    """A bar for what takes long, only where a person looks at a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    bar = TerminalBar(title, after)
    with _shown_on(bar):
        yield bar.report


@contextmanager
def _shown_on(surface: _Surface) -> Iterator[None]:
    whole = False
    try:
        yield
        whole = True
    finally:
        surface.end(whole)


def _surface(title: str) -> _Surface:
    if (display := _notebook_display()) is not None:
        return NotebookBar(title, display)
    return TerminalBar(title) if sys.stderr.isatty() else Lines(title, sys.stderr)


def _notebook_display() -> Callable[..., Any] | None:
    """What shows something below the cell that runs; None outside of a notebook. Asks nothing of who has no IPython."""
    loaded = sys.modules.get("IPython")
    shell = loaded.get_ipython() if loaded is not None else None
    if shell is None or not hasattr(shell, "kernel"):  # IPython in a terminal has none
        return None
    display: Callable[..., Any] = import_module("IPython.display").display
    return display


class TerminalBar:
    """A bar that moves on its own while nothing is reported; it appears after so many seconds, and is gone at the
    end.
    """

    def __init__(self, title: str, after: float = 0.0) -> None:
        self._title, self._last = title, (0, 0)
        self._lock, self._ended = Lock(), False
        self._bar: RichProgress | None = None
        self._timer = Timer(after, self._appear)
        self._timer.daemon = True
        if after:
            self._timer.start()
        else:
            self._appear()

    def _appear(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
        with self._lock:
            if self._ended:
                return
            self._bar = Progress(
                *columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True,
                redirect_stdout=False, redirect_stderr=False,
            )  # fmt: skip
            self._bar.add_task(self._title, total=None)
            self._draw()
            self._bar.start()

    def report(self, done: int, total: int) -> None:
        with self._lock:
            self._last = (done, total)
            self._draw()

    def _draw(self) -> None:
        done, total = self._last
        if self._bar is not None and total > 0:
            self._bar.update(self._bar.task_ids[0], completed=done, total=max(total, done))

    def end(self, whole: bool) -> None:
        self._timer.cancel()
        with self._lock:
            self._ended = True
            if self._bar is not None:
                self._bar.stop()


class Lines:
    """A line for each tenth, for logs and pipes."""

    def __init__(self, title: str, output: TextIO) -> None:
        self._title, self._output, self._part = title.rstrip("."), output, -1

    def report(self, done: int, total: int) -> None:
        part = PARTS * min(done, total) // total if total > 0 else -1
        if part > self._part:
            self._part = part
            print(f"{self._title}: {done:,} of {max(total, done):,}", file=self._output, flush=True)

    def end(self, whole: bool) -> None:
        """The last line was written when it was reported."""


class NotebookBar:
    """A bar below the cell: an element of HTML itself, which needs no widgets and has the colours of the page."""

    def __init__(self, title: str, display: Callable[..., Any]) -> None:
        self._title, self._done, self._total, self._drawn = title, 0, 0, 0
        self._handle = display(self, display_id=True)

    def report(self, done: int, total: int) -> None:
        """Drawn anew for each hundredth: every drawing is a message to the page."""
        self._done, self._total = done, max(total, done)
        drawn = 100 * done // self._total if self._total > 0 else 0
        if drawn != self._drawn:
            self._drawn = drawn
            self._handle.update(self)

    def end(self, whole: bool) -> None:
        if whole:
            self._done = self._total
        self._handle.update(self)

    def _repr_html_(self) -> str:
        size = f' max="{self._total}" value="{self._done}"' if self._total > 0 else ""
        return f"<div>{escape(self._title)} <progress{size}></progress> <small>{self._counted()}</small></div>"

    def __repr__(self) -> str:
        return f"{self._title} {self._counted()}".rstrip()

    def _counted(self) -> str:
        return f"{self._done:,} of {self._total:,}" if self._total > 0 else ""
