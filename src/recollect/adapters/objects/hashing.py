"""Reading in pieces, hashing what is read, and checking that a file still has the content its name promises."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from recollect.errors import DamagedData, InvalidInput
from recollect.ports.objects import OBJECT_HASH

PIECE_BYTES = 1 << 20
MOST_KNOWN = 10_000

Identity = tuple[int, int, int, int]


class HashedPieces:
    """Passes pieces on and hashes them."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = pieces
        self._hash = hashlib.sha256()
        self.size = 0

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            self._hash.update(piece)
            self.size += len(piece)
            yield piece

    @property
    def digest(self) -> str:
        """Of what has been passed on so far."""
        return OBJECT_HASH + self._hash.hexdigest()


def pieces_of(path: Path) -> Iterator[bytes]:
    with open(path, "rb", buffering=0) as file:
        while piece := file.read(PIECE_BYTES):
            yield piece


def source_pieces(source: Path | Iterable[bytes]) -> Iterable[bytes]:
    """The pieces of what somebody wants stored; a file that cannot be read is their mistake, not the store's."""
    if not isinstance(source, Path):
        return source
    return _pieces_of_source(source)


def _pieces_of_source(source: Path) -> Iterator[bytes]:
    try:
        if not stat.S_ISREG(os.stat(source).st_mode):  # a pipe or a device might never end
            raise InvalidInput(f"'{source}' is not a file", remedy="give the path of a file")
        file = open(source, "rb", buffering=0)  # noqa: SIM115 - closed below; only opening is the caller's mistake
    except OSError as error:
        raise InvalidInput(
            f"cannot read '{source}': {error.strerror}", remedy="give a file that exists and that you may read"
        ) from None
    with file:
        while piece := file.read(PIECE_BYTES):
            yield piece


def hash_of(pieces: Iterable[bytes]) -> str:
    hashed = HashedPieces(pieces)
    for _ in hashed:
        pass
    return hashed.digest


Content = Callable[[Path], Iterable[bytes]]
"""The content of a file, which may be sealed in it."""


class CheckedFiles:
    """Hashes a file when it is first used, and again when it is another file or has changed since."""

    def __init__(self) -> None:
        self._known: dict[Path, Identity] = {}

    def check(self, path: Path, digest: str, content: Content = pieces_of) -> None:
        """Raises DamagedData if the content is not what its digest says, FileNotFoundError if there is no file."""
        found = _identity(path)
        if self._known.get(path) == found:
            return
        if path.is_symlink() or hash_of(content(path)) != digest:  # a link is none of ours
            self._known.pop(path, None)
            raise damaged(digest)
        self._note(path, found)

    def note(self, path: Path) -> None:
        """A file that was hashed while it was written."""
        self._note(path, _identity(path))

    def forget(self, path: Path) -> None:
        self._known.pop(path, None)

    def _note(self, path: Path, found: Identity) -> None:
        while len(self._known) >= MOST_KNOWN:
            self._known.pop(next(iter(self._known)), None)
        self._known[path] = found


def _identity(path: Path) -> Identity:
    there = os.stat(path, follow_symlinks=False)
    return there.st_dev, there.st_ino, there.st_size, there.st_mtime_ns


def damaged(digest: str, remedy: str = "upload the file again, or restore it from a backup") -> DamagedData:
    return DamagedData(
        f"the stored content {digest} is damaged: its bytes do not match its hash",
        remedy=remedy,
        digest=digest,
    )
