"""Files that are written under another name until they are whole, and only then given their own."""

from __future__ import annotations

import os
from pathlib import Path


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
