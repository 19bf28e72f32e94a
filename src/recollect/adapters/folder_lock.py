"""A lock on a folder, so that one process at a time writes there."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from recollect.adapters.atomic_file import locked


class FolderLock:
    """Given back when the process dies. The thread that holds it may take it again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._holder = 0  # the thread of this process that holds it

    @contextmanager
    def hold(self) -> Iterator[bool]:
        """Whether we have it; never waits, because the holder may be a thread that waits for us."""
        if self._holder == threading.get_ident():
            yield True
            return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        try:
            # Windows has no such lock: two writers delete each other's work, which wastes time and damages nothing.
            if os.name != "nt" and not locked(handle, wait=False):
                yield False
                return
            self._holder = threading.get_ident()
            try:
                yield True
            finally:
                self._holder = 0
        finally:
            os.close(handle)
