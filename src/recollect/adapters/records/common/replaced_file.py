"""A file that takes the place of another when a store gets a new key, and the old one, of which no byte is left.

Killed at any moment, the old file or the new one has the name, whole. What was replaced keeps a second name until it is
overwritten, so whoever opens the store after a crash finishes that.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from recollect.adapters.atomic_file import identity, overwrite, publish, wipe

LOGS = ("-wal", "-shm", "-notes")


def replace_wiping(path: Path, new: Path) -> None:
    """Put `new`, which is whole and synced, in the place of `path`. What lies beside that as a log goes with it, and
    must hold nothing that is not in it."""
    wipe_replaced(path)
    with suppress(OSError):  # no second names on this disk: a crash from here on could leave the old bytes
        os.link(path, _aside(path, ""))
    old = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
    try:
        publish(new, path)
        take_logs_away(path)
        overwrite(old)
    finally:
        os.close(old)
    wipe_replaced(path)


def take_logs_away(path: Path) -> None:
    """From the name of a file that they do not belong to."""
    for ending in LOGS:
        with suppress(FileNotFoundError):
            path.with_name(path.name + ending).replace(_aside(path, ending))


def wipe_replaced(path: Path) -> None:
    """Overwrite and delete what was replaced."""
    for ending in ("", *LOGS):
        left = _aside(path, ending)
        if left.is_file():
            if identity(left) != identity(path):
                wipe(left)
            left.unlink(missing_ok=True)  # the second name of one that was not replaced: killed before


def _aside(path: Path, ending: str) -> Path:
    return path.with_name(f"{path.name}.replaced{ending}")
