"""Files of other programs that are rewritten: whole or not at all, and through a link the file it names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from recollect.adapters.atomic_file import temporary_path, write_whole


def rewrite(named: Path, content: bytes | None) -> None:
    """The file gets this content and keeps its mode; None deletes it. A new one is the user's alone."""
    file = Path(os.path.realpath(named))
    if content is None:
        file.unlink()
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    mode = file.stat().st_mode & 0o7777 if file.exists() else None

    def write(out: BinaryIO) -> None:
        out.write(content)
        if mode is not None:
            os.chmod(out.name, mode)

    write_whole(temporary_path(file), file, write)
