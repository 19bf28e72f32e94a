"""A folder for the files that a backup or a restore needs on its way; deleted afterwards, and by the next one where
the process was killed."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from recollect.adapters.atomic_file import locked
from recollect.errors import typed_os_errors

_NAME = re.compile(r"\.recollect-work-[0-9a-f]{16}")


@contextmanager
def work_folder(parent: Path) -> Iterator[Path]:
    """A new folder that only its owner can enter. Its lock goes with the process, so leftovers are known."""
    with typed_os_errors():
        _clear(parent)
        folder = parent / f".recollect-work-{secrets.token_hex(8)}"
        folder.mkdir(mode=0o700)
        handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        locked(handle, wait=True)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def _clear(parent: Path) -> None:
    for name in filter(_NAME.fullmatch, os.listdir(parent)):
        with suppress(OSError):  # just made, just deleted, or another user's
            handle = os.open(parent / name / "lock", os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
            try:
                if locked(handle, wait=False):
                    shutil.rmtree(parent / name)
            finally:
                os.close(handle)
