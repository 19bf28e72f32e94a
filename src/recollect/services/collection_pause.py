"""No garbage collection while many records are made and written together.

Nearly all that a bulk makes lives until it is committed, and Python's collector looks at all of it again and again in
search of cycles: a seventh of the processor time of a bulk. Memory that is not part of a cycle is given back as ever,
and what is not is collected right after. A program that has switched collection off finds it off.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

FEWEST = 50  # things of which each makes some twenty objects
_lock = threading.Lock()
_pauses = 0  # of all threads: the last that ends switches collection on again


class _Mine(threading.local):
    """Whether the pauses are, in part, this thread's."""

    pausing = False


_mine = _Mine()


@contextmanager
def paused_collection(count: int) -> Iterator[None]:
    """For work on so many things that takes a second or so: cycles that other threads leave meanwhile wait for its end.
    What waits for a model is done in `resumed_collection`.
    """
    if count < FEWEST or _mine.pausing or not _pause():
        yield
        return
    _mine.pausing = True
    try:
        yield
    finally:
        if _mine.pausing:
            _mine.pausing = False
            _resume()


@contextmanager
def resumed_collection() -> Iterator[None]:
    """Within a pause of this thread: as if there were none. Elsewhere nothing."""
    if not _mine.pausing:
        yield
        return
    _mine.pausing = False
    _resume()
    try:
        yield
    finally:
        _mine.pausing = _pause()


def _pause() -> bool:
    """False where somebody else has switched collection off."""
    global _pauses
    with _lock:
        if not _pauses and not gc.isenabled():
            return False
        gc.disable()
        _pauses += 1
        return True


def _resume() -> None:
    global _pauses
    with _lock:
        _pauses -= 1
        if not _pauses:
            gc.enable()
