"""Opening files beneath a folder part by part, without following links: no swap of a folder for a link leads out."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

OPENING = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
READING = OPENING | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
FOLDER = OPENING | getattr(os, "O_DIRECTORY", 0)


def open_beneath(root: Path, parts: Sequence[str]) -> int:
    """Open a file part by part from its root; a part that became a link meanwhile is an error."""
    handle = os.open(root, FOLDER)
    for position, part in enumerate(parts):
        flags = READING if position == len(parts) - 1 else FOLDER
        try:
            inner = os.open(part, flags, dir_fd=handle)
        finally:
            os.close(handle)
        handle = inner
    return handle


def read_regular(handle: int, limit: int) -> bytes | None:
    """The bytes of an open regular file; None for anything else, and for one over the limit. Closes it."""
    try:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode) or about.st_size > limit:
            return None
        data = bytearray()
        while chunk := os.read(handle, 1 << 20):  # never trusts the size: files of /proc say 0
            data += chunk
            if len(data) > limit:
                return None
        return bytes(data)
    finally:
        os.close(handle)
