"""Where a coding agent's memory lies, and which project it works in.

One store for a user; a project for each repository, so that what is known of two does not mix. Files of a repository
are cited by their whole path: a store that serves many folders must find each again.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from recollect.app.repositories import Checkout, checkout_of

HERE = "."


def users_store(given: str | None) -> str | None:
    """The store that was named, by option or environment; else the one for all projects of this user."""
    if given is not None or os.environ.get("RECOLLECT_STORE") or os.environ.get("RECOLLECT_CONFIG"):
        return given
    return str(data_folder() / "recollect" / "memory.db")


def data_folder() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    if os.name == "nt":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")


def made_folder_of(store: str | None) -> None:
    """The folder of the user's own store, which nobody has made yet."""
    if store is not None and "://" not in store and Path(store).is_relative_to(data_folder()):
        Path(store).parent.mkdir(parents=True, exist_ok=True, mode=0o700)


def here(folder: Path | None = None) -> Checkout:
    return checkout_of(folder or Path.cwd())


def rooted(cites: Sequence[Any], root: Path) -> list[Any]:
    """The same citations, with files by their whole path and commits of the repository in which they were made."""
    return [_rooted(one, root) for one in cites]


def _rooted(cited: Any, root: Path) -> Any:
    if isinstance(cited, str):
        kind, _, rest = cited.partition(":")
        if kind == "file" and rest and not os.path.isabs(rest):
            return f"file:{root / rest}"
        return f"{cited}@{root}" if kind == "commit" and "@" not in rest else cited
    if isinstance(cited, dict) and cited.get("type") == "file" and not cited.get("workspace"):
        path = cited.get("path")
        return {**cited, "path": str(root / path)} if isinstance(path, str) and not os.path.isabs(path) else cited
    return cited
