"""Where the tests write: in memory, where the machine has room for it. To make files on a disk and to sync them takes a
good part of the time, and is not what most tests are about.

Those about what a crash leaves ask for the disk (`DISK`); in a soak everything is there. Who sets TMPDIR has chosen.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

from seeds import SOAK

_MEMORY = Path("/dev/shm")
_ROOM = 4 << 30  # three processes with their servers use about one
_NAME = "recollect-tests-"
_ON_DISK = "TESTS_ON_DISK"  # told to the processes that share the work

DISK = os.environ.get(_ON_DISK) or tempfile.gettempdir()


def use_memory() -> None:
    """Before anything is written. The folder is deleted at the end, or after a failure when the next run begins."""
    if SOAK or "TMPDIR" in os.environ or not _has_room():
        return
    for folder in _MEMORY.glob(f"{_NAME}*"):
        if not Path("/proc", folder.name.removeprefix(_NAME)).exists():
            shutil.rmtree(folder, ignore_errors=True)
    made = _MEMORY / f"{_NAME}{os.getpid()}"
    made.mkdir()
    made.chmod(0o1777)  # as that of the machine: database servers run as users of their own
    os.environ |= {"TMPDIR": str(made), _ON_DISK: DISK}
    tempfile.tempdir = None  # asks the environment again
    atexit.register(_delete, made, os.getpid())


_failed: list[int] = []


def note_end(exit_status: int) -> None:
    if exit_status:
        _failed.append(exit_status)


def _delete(folder: Path, owner: int) -> None:
    if os.getpid() == owner and not _failed:
        shutil.rmtree(folder, ignore_errors=True)


def _has_room() -> bool:
    if not _MEMORY.is_dir() or not os.access(_MEMORY, os.W_OK):
        return False
    told = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    available = int(told["MemAvailable"].split()[0]) * 1024
    return min(available, shutil.disk_usage(_MEMORY).free) >= _ROOM
