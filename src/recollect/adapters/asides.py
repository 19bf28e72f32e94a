"""Files that are written under another name until they are whole, and files that somebody else takes away."""

from __future__ import annotations

import os
from pathlib import Path

from recollect.errors import FileReplaced


def publish(aside: Path, target: Path) -> None:
    """Give a finished file its name, for good: the folder is synced too."""
    aside.replace(target)
    sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """The names in a folder, for good."""
    if os.name != "nt":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def identity(path: Path) -> tuple[int, int] | None:
    """Which file has this name; None if none has."""
    try:
        there = os.stat(path)
    except OSError:
        return None
    return there.st_dev, there.st_ino


def refuse_replaced(path: Path, opened: tuple[int, int] | None) -> None:
    """What is written to a file that was deleted or exchanged is written into nothing."""
    if identity(path) != opened:
        raise FileReplaced(
            f"'{path.name}' was deleted, moved or replaced while it was in use; nothing more is written to it",
            remedy="close it and open it again; what was acknowledged before is in the file that was taken away",
        )
