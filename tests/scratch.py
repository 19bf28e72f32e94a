"""A folder in memory for what is not about disks: making and deleting the files of databases is most of what they take.

What tests write themselves stays on a disk: the product refuses files below /dev, for one.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from seeds import SOAK

_MEMORY = Path("/dev/shm")
_ROOM = 4 << 30  # each of three processes was seen to use about 100 MB, some tests a few times as much
_NAME = "recollect-servers-"


def folder_in_memory() -> Path:
    """On a disk where there is no room in memory, and in a soak. What a killed run has left there is deleted."""
    if SOAK or not _has_room():
        return Path(tempfile.mkdtemp(prefix=_NAME))
    for left in _MEMORY.glob(f"{_NAME}*"):
        if not Path("/proc", left.name.removeprefix(_NAME).partition("-")[0]).exists():
            shutil.rmtree(left, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{_NAME}{os.getpid()}-", dir=_MEMORY))


def _has_room() -> bool:
    if not _MEMORY.is_dir() or not os.access(_MEMORY, os.W_OK):
        return False
    told = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    available = int(told["MemAvailable"].split()[0]) * 1024
    return min(available, shutil.disk_usage(_MEMORY).free) >= _ROOM
