"""Python's garbage collector looks less often while an operation works.

Nearly all that an operation makes lives until it ends, and the collector looks at all of it again and again in search
of cycles: every 700 objects, a quarter of the processor time of a bulk and a tenth of that of a recall. What it meets
is taken for long-lived, so that after some recalls it goes through all that the program has, 20 ms where that is
little. Within an operation it looks when many more have been made. So memory that is part of a cycle is given back
later, but never without a bound, however long an operation takes and however many overlap; all other memory is given
back as ever. Who has set the collector otherwise, or switched it off, finds it so.

Nothing waits here, since the collector itself may run in the midst of it and with it whatever a finalizer does. What an
interruption cuts off is put right by the next operation.
"""

from __future__ import annotations

import gc
import os
from weakref import ref

OBJECTS = 200_003  # a bulk of a thousand memories makes half as many; and nobody else says just so many


class RareCollection:
    """Of one operation; it looks as often as before when the last of all threads ends."""

    __slots__ = ("__weakref__",)

    def __enter__(self) -> None:
        _running.add(ref(self))
        now = gc.get_threshold()
        if 0 < now[0] < OBJECTS:
            _usual[:] = [now]
            gc.set_threshold(OBJECTS, *now[1:])

    def __exit__(self, *problem: object) -> None:
        _running.discard(ref(self))
        others = list(_running)
        if not any(one() is not None for one in others):
            _running.difference_update(others)  # of some that were interrupted here
            _restore()


_running: set[ref[RareCollection]] = set()
_usual: list[tuple[int, int, int]] = []
"""What it was set to before, the last of them."""


def _restore() -> None:
    if _usual and gc.get_threshold()[0] == OBJECTS:
        gc.set_threshold(*_usual[-1])


def _forget() -> None:
    """In a child process the threads of the others are not there to end."""
    _running.clear()
    _restore()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
