"""No garbage collection while many records are made and written together.

Nearly all that a bulk makes lives until it is committed, and Python's collector looks at all of it again and again in
search of cycles: a quarter of the processor time of a bulk, and still a twentieth where it did so twice. Memory that is
not part of a cycle is given back as ever, and what is not is collected right after. A pause ends by itself after two
seconds, as where a model takes minutes for all. A program that has switched collection off finds it off.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

FEWEST = 50  # things of which each makes some twenty objects
MOST_SECONDS = 2.0


class _Pauses:
    """Of all threads: the last that ends switches collection on again, or the time that is up."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._end: threading.Timer | None = None  # none while nothing is paused, or no longer

    def begin(self) -> bool:
        """False where somebody else has switched collection off."""
        with self._lock:
            if not self._count:
                if not gc.isenabled():
                    return False
                self._end = threading.Timer(MOST_SECONDS, self._time_is_up)
                self._end.daemon = True
                gc.disable()
                self._end.start()
            self._count += 1
            return True

    def leave(self) -> None:
        with self._lock:
            self._count -= 1
            if not self._count:
                self._resume()

    def _time_is_up(self) -> None:
        with self._lock:
            if self._end is threading.current_thread():  # not that of a later pause
                self._resume()

    def _resume(self) -> None:
        if self._end is not None:
            self._end.cancel()
            self._end = None
            gc.enable()

    def forget(self) -> None:
        """In a child process there are none of the threads that paused, nor what would end it."""
        self._lock, self._count = threading.Lock(), 0
        if self._end is not None:  # not to be cancelled: its own lock may be held for ever here
            self._end = None
            gc.enable()


_pauses = _Pauses()


@contextmanager
def paused_collection(count: int) -> Iterator[None]:
    """For work on so many things: cycles that other threads leave meanwhile wait for its end."""
    if count < FEWEST or not _pauses.begin():
        yield
        return
    try:
        yield
    finally:
        _pauses.leave()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pauses.forget)
