"""Where an import is read from: a file, a folder or a zip, none of which is trusted.

A zip is read in place: nothing is unpacked, so no path in it leads anywhere. What it says about its own size is
checked before and counted while it is read. Links in a folder are not followed.
"""

from __future__ import annotations

import os
import stat
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from recollect.errors import InvalidInput, TooLarge
from recollect.ports.folders import Folders, Found

MOST_MEMBERS = 200_000
MOST_RATIO = 200  # text shrinks to a tenth or a twentieth; a thousandth is made to do harm
LEAST_SUSPECT = 10 << 20
LARGEST_TEXT = 8 << 20
DEEPEST_MEMBER = 3
SQLITE = b"SQLite format 3\x00"
STORE_ID = 0x52434C54
"""The application id of our own stores."""


@dataclass(frozen=True, slots=True)
class Origin:
    path: Path
    folders: Folders
    most_bytes: int
    is_here: bool = True
    """Whether it is a file of this machine, and not an upload."""

    def __post_init__(self) -> None:
        try:
            mode = self.path.stat().st_mode
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "it is not a path"
            raise InvalidInput(f"cannot read '{self.path}': {why}", remedy="give a file, a folder or a zip") from None
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise InvalidInput(f"'{self.path}' is not a file or folder", remedy="give a file, a folder or a zip")

    @property
    def name(self) -> str:
        return self.path.name or str(self.path)

    @property
    def is_folder(self) -> bool:
        return self.path.is_dir()

    @property
    def is_zip(self) -> bool:
        return self.head(4) == b"PK\x03\x04"

    @property
    def is_sqlite(self) -> bool:
        start = self.head(100)
        if start[:16] != SQLITE:
            return False
        if int.from_bytes(start[68:72], "big") == STORE_ID:
            raise InvalidInput(f"'{self.name}' is a Recollect store", remedy="use recollect copy FROM TO")
        return True

    @property
    def can_be_cited(self) -> bool:
        """Whether its files stay where they are: not those of an upload, nor those in a zip."""
        return self.is_here and not self.is_zip

    def head(self, size: int) -> bytes:
        """The first bytes of a file; of a folder none."""
        if self.is_folder:
            return b""
        with self._opened(self.path) as file:
            return file.read(size)

    @contextmanager
    def open(self, *names: str) -> Iterator[IO[bytes]]:
        """The file; of a folder or zip the first member with one of these names."""
        if self.is_folder:
            found = next((place for name in names if _is_regular(place := self.path / name)), None)
            if found is None:
                raise self.lacks(*names)
            with self._opened(found) as file:
                yield file
        elif self.is_zip:
            with self._archive() as archive:
                member = _member(archive, names)
                if member is None:
                    raise self.lacks(*names)
                with _unpacked(archive, member, self) as file:
                    yield file
        else:
            with self._opened(self.path) as file:
                yield file

    def has(self, name: str) -> bool:
        """Whether a folder or zip has a member of this name."""
        if self.is_folder:
            return _is_regular(self.path / name)
        if not self.is_zip:
            return False
        with self._archive() as archive:
            return _member(archive, (name,)) is not None

    def texts(self, *endings: str) -> Iterator[Found]:
        """Every file whose name ends in one of these, in order of path; what was left out says why."""
        if self.is_folder:
            for found in self.folders.read(self.path, LARGEST_TEXT):
                if found.path.lower().endswith(endings) and not _is_hidden(found.path):
                    yield found
        elif self.is_zip:
            yield from self._zipped(endings)
        else:
            data = self.head(LARGEST_TEXT + 1)
            if len(data) > LARGEST_TEXT:
                raise TooLarge(f"'{self.name}' is larger than {LARGEST_TEXT:,} bytes", remedy="split it")
            yield Found(self.name, data)

    def _zipped(self, endings: tuple[str, ...]) -> Iterator[Found]:
        with self._archive() as archive:
            members = sorted(archive.infolist(), key=lambda one: one.filename)
            wanted = [one for one in members if one.filename.lower().endswith(endings) and not one.is_dir()]
            if sum(one.file_size for one in wanted) > self.most_bytes:
                raise TooLarge(f"'{self.name}' unpacks to more than {self.most_bytes:,} bytes", remedy="split it")
            for one in wanted:
                if _leads_outside(one.filename):
                    yield Found(one.filename, None, "its path leads out of the zip")
                elif _is_link(one):
                    yield Found(one.filename, None, "it is a link")
                elif one.file_size > LARGEST_TEXT:
                    yield Found(one.filename, None, f"it is larger than {LARGEST_TEXT} bytes")
                elif not _is_hidden(one.filename):
                    with _unpacked(archive, one, self) as file:
                        yield Found(one.filename, file.read())

    @contextmanager
    def _archive(self) -> Iterator[zipfile.ZipFile]:
        try:
            with zipfile.ZipFile(self.path) as archive:
                if len(archive.infolist()) > MOST_MEMBERS:
                    raise TooLarge(f"'{self.name}' has more than {MOST_MEMBERS:,} files", remedy="split it")
                yield archive
        except (zipfile.BadZipFile, EOFError) as error:
            raise InvalidInput(f"'{self.name}' is a damaged zip: {error}", remedy="download or copy it again") from None
        except (NotImplementedError, RuntimeError) as error:  # encrypted, or packed in a way we cannot read
            raise InvalidInput(
                f"'{self.name}' cannot be unpacked: {error}", remedy="unpack it and import the folder"
            ) from None

    @contextmanager
    def _opened(self, path: Path) -> Iterator[IO[bytes]]:
        try:
            with path.open("rb") as file:
                yield file
        except OSError as error:
            raise InvalidInput(
                f"cannot read '{path.name}': {error.strerror}", remedy="give a file you may read"
            ) from None

    def lacks(self, *names: str) -> InvalidInput:
        wanted = " or ".join(names)
        return InvalidInput(f"'{self.name}' has no {wanted}", remedy=f"give the file {wanted}, or another --from")


def _is_regular(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _is_hidden(path: str) -> bool:
    return any(part.startswith((".", "__MACOSX")) for part in path.split("/"))


def _leads_outside(name: str) -> bool:
    return name.startswith(("/", "\\")) or ".." in PurePosixPath(name.replace("\\", "/")).parts or ":" in name[:3]


def _is_link(member: zipfile.ZipInfo) -> bool:
    return stat.S_ISLNK(member.external_attr >> 16)


def _member(archive: zipfile.ZipFile, names: tuple[str, ...]) -> zipfile.ZipInfo | None:
    """The one that lies highest, in a folder of the zip or beside others."""
    found = [
        one
        for one in archive.infolist()
        if one.filename.rpartition("/")[2] in names
        and one.filename.count("/") <= DEEPEST_MEMBER
        and not _is_hidden(one.filename)
        and not _leads_outside(one.filename)
    ]
    return min(found, key=lambda one: (one.filename.count("/"), one.filename), default=None)


@contextmanager
def _unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo, origin: Origin) -> Iterator[IO[bytes]]:
    bomb = member.file_size > LEAST_SUSPECT and member.file_size > MOST_RATIO * max(1, member.compress_size)
    if bomb or member.file_size > origin.most_bytes:
        raise TooLarge(
            f"'{member.filename}' in '{origin.name}' unpacks to {member.file_size:,} bytes",
            remedy="unpack it yourself if you trust it, and import the folder",
        )
    with archive.open(member) as file:  # it reads no more than the size it says
        yield file


def same_file(path: Path, other: Path) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False
