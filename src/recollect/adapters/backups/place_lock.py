"""The right to write to a place of backups: one process at a time, also over a bucket.

A lock is a numbered name that only one process can create. It says until when it holds and is renewed while its holder
works; when it has run out, or its holder on this machine is dead, the next number may be taken.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

from recollect.adapters.backups.place import Place
from recollect.errors import LeaseLost, NotFound, StoreBusy

SECONDS = 120.0
_FOLDER = "lock"


@contextmanager
def locked(place: Place) -> Iterator[Callable[[], None]]:
    """Holds the lock for the block, which calls what it is given now and then: it renews the lock, and raises
    LeaseLost if another process has taken it. Raises StoreBusy where another process holds it."""
    number = _taken(place)
    name, due = f"{_FOLDER}/{number:08}", time.monotonic() + SECONDS / 4

    def renew() -> None:
        nonlocal due
        if time.monotonic() < due:
            return
        if any(other != name for other in place.names(_FOLDER)):
            raise LeaseLost(f"another process writes to {place.label} now", remedy="start the backup again")
        place.put(name, _content())
        due = time.monotonic() + SECONDS / 4

    try:
        yield renew
    finally:
        place.delete([name])


def _taken(place: Place) -> int:
    names = sorted(place.names(_FOLDER))
    for name in names:
        with suppress(NotFound):  # released a moment ago
            _refuse_held(place, place.get(name))
    number = int(names[-1].rpartition("/")[2]) + 1 if names else 1
    if not place.create(f"{_FOLDER}/{number:08}", _content()):
        raise StoreBusy(f"another backup is being written to {place.label}", remedy="try again when it is finished")
    place.delete(names)
    return number


def _content() -> bytes:
    return json.dumps({"until": time.time() + SECONDS, "host": socket.gethostname(), "process": os.getpid()}).encode()


def _refuse_held(place: Place, content: bytes) -> None:
    held = json.loads(content)
    if held["until"] <= time.time() or (held["host"] == socket.gethostname() and not _is_alive(held["process"])):
        return
    until = datetime.fromtimestamp(held["until"], UTC).strftime("%H:%M:%S UTC")
    raise StoreBusy(
        f"another backup is being written to {place.label}",
        remedy=f"try again when it is finished; if it was killed, after {until}",
    )


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is another user's
        return True
    return True
