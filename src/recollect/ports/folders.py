"""The port for folders of this machine: what workspaces are filled from and written out to.

Neither verb ever leaves the folder it is given: links are not followed, not even when somebody swaps a folder for one
meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol, TypeVar

T = TypeVar("T")


def private_opener(path: str, flags: int) -> int:
    """For `open(…, opener=…)`: a file that is new is its owner's alone, since it holds what is remembered."""
    return os.open(path, flags | getattr(os, "O_BINARY", 0), 0o600)


def make_private(path: Path) -> None:
    """An empty file that is its owner's alone, unless there is one already."""
    os.close(private_opener(str(path), os.O_WRONLY | os.O_CREAT))


@dataclass(frozen=True, slots=True)
class Found:
    """A file of a folder; without data when it was left out, and why."""

    path: str
    data: bytes | None = None
    left_out: str = ""


class Folders(Protocol):
    def keep(self, path: Path, write: Callable[[BinaryIO], T]) -> T:
        """Let `write` write a file, and give it its name when it is whole and on disk; what `write` returned.

        Of a file that could not be finished nothing is left, and what had its name before stays. Raises OSError.
        """

    def read(self, root: Path, limit: int) -> Iterator[Found]:
        """Every file below a folder, in order of path. What is not a regular file, or over `limit` bytes, is left out.

        Raises InvalidInput if there is no such folder.
        """

    def write(self, root: Path, files: Iterable[tuple[str, bytes]]) -> int:
        """Write files below a folder, each whole or not at all; how many. Makes the folder if need be. On disk, names
        and all, when it returns.

        Raises InvalidInput, naming the file, where a part of its path is a link or not a folder.
        """
