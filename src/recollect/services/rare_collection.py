"""Python's garbage collector looks less often while an operation works.

Nearly all that an operation makes lives until it ends, and the collector looks at all of it again and again in search
of cycles: every 700 objects, a quarter of the processor time of a bulk and a tenth of that of a recall. What it meets
is taken for long-lived, so that after some recalls it goes through all that the program has, 20 ms where that is
little. Within an operation it looks when many more have been made. So memory that is part of a cycle is given back
later, but never without a bound, however long an operation takes and however many overlap; all other memory is given
back as ever. Who has set the collector otherwise, or switched it off, finds it so.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

OBJECTS = 200_000  # a bulk of a thousand memories makes half as many


class _Operations:
    """Of all threads: the first that begins has it look less often, the last that ends as often as before."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._before: tuple[int, int, int] | None = None

    def begin(self) -> None:
        with self._lock:
            self._count += 1
            first, *others = gc.get_threshold()
            if self._before is None and 0 < first < OBJECTS:
                self._before = gc.get_threshold()
                gc.set_threshold(OBJECTS, *others)

    def end(self) -> None:
        with self._lock:
            self._count -= 1
            if self._count <= 0:
                self._restore()

    def _restore(self) -> None:
        before, self._before, self._count = self._before, None, 0
        if before is not None and gc.get_threshold()[0] == OBJECTS:
            gc.set_threshold(*before)

    def forget(self) -> None:
        """In a child process the threads of the others are not there to end."""
        self._lock = threading.Lock()
        self._restore()


_operations = _Operations()


@contextmanager
def rare_collection() -> Iterator[None]:
    _operations.begin()
    try:
        yield
    finally:
        _operations.end()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_operations.forget)
