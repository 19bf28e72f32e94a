"""Files that are written under another name until they are whole, and only then given their own."""

from __future__ import annotations

import os
from pathlib import Path


def publish(aside: Path, target: Path) -> None:
    """Give a finished file its name, for good: the folder is synced too."""
    aside.replace(target)
    if os.name != "nt":
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
