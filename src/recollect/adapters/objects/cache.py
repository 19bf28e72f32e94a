"""Local copies of remote content, for whoever needs a file: downloaded once, the least recently used deleted first.

Several processes share the folder. A copy is downloaded under a temporary name and gets its own when its hash is right,
unless somebody was quicker. Who reads one holds a shared lock on it, and only a copy that nobody holds is deleted to
make room. A single object may be larger than the whole cache: then it is there for as long as it is read, and goes
next.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from recollect.adapters.atomic_file import held, is_named
from recollect.adapters.objects.folder import cleared, made_folder
from recollect.adapters.objects.hashing import CheckedFiles, Content, damaged
from recollect.adapters.objects.names import folder_name
from recollect.adapters.objects.sealing import is_name
from recollect.errors import DamagedData, Unavailable, typed_os_errors
from recollect.ports.folders import private_opener

try:
    import fcntl
except ImportError:  # Windows, where an open file cannot be deleted anyway
    fcntl = None  # type: ignore[assignment]

TRIES = 5
UNUSED_SECONDS = 7 * 86_400.0

Download = Callable[[], Iterable[bytes]]
"""An object in pieces, as it is stored."""


class Wanted(NamedTuple):
    """An object that somebody needs as a file.

    `content` reads what is in its copy, which may be sealed; `remedy` helps if the object itself is damaged.
    """

    tenant: str
    name: str
    digest: str
    size: int
    content: Content
    remedy: str


class ObjectCache:
    """At most about `most_bytes` in `folder`, which is made when it is first used."""

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self._folder = folder.absolute()
        self._most_bytes = most_bytes
        self._checked = CheckedFiles()

    @contextmanager
    def fetch(self, wanted: Wanted, download: Download) -> Iterator[Path]:
        """A local copy that nobody deletes while the block runs."""
        path = self._folder / folder_name(wanted.tenant) / wanted.name
        with typed_os_errors():
            file = self._shared(path, wanted, download)
        with file:
            yield path

    def _shared(self, path: Path, wanted: Wanted, download: Download) -> BinaryIO:
        is_fresh = False
        for _ in range(TRIES):
            try:
                file = self._taken(path, wanted)
                if is_fresh:  # others who made room may have downloaded at the same time
                    self._make_room(0)
                return file
            except FileNotFoundError:
                self._make_room(wanted.size)
                self._download(path, download)
                is_fresh = True
            except DamagedData:
                path.unlink(missing_ok=True)
                if is_fresh:  # it is not the copy that is damaged
                    raise damaged(wanted.digest, wanted.remedy) from None
        raise Unavailable(
            "the cache of stored content is too busy", remedy="try again, or raise objects_cache_bytes in the settings"
        )

    def _taken(self, path: Path, wanted: Wanted) -> BinaryIO:
        """The open, checked and locked copy; FileNotFoundError if there is none, or was deleted at this moment."""
        file = open(path, "rb")  # noqa: SIM115 - the caller closes it
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_SH)
            if not is_named(file.fileno(), path):
                raise FileNotFoundError(path)
            self._checked.check(path, wanted.digest, wanted.content)
            os.utime(
                path, ns=(time.time_ns(), os.fstat(file.fileno()).st_mtime_ns)
            )  # the access time orders what is deleted first
        except BaseException:
            file.close()
            raise
        return file

    def _download(self, path: Path, download: Download) -> None:
        made_folder(path.parent)
        with self.written(download()) as temporary:
            try:
                os.link(temporary, path)
            except FileExistsError:
                pass  # somebody was quicker. To replace theirs would take it from whoever reads it
            except OSError:  # where a file has one name only
                temporary.replace(path)

    @contextmanager
    def written(self, pieces: Iterable[bytes]) -> Iterator[Path]:
        """A temporary file with content that came in pieces; deleted after the block unless it was renamed."""
        made_folder(self._folder)
        temporary = self._folder / f".recollect-{secrets.token_hex(8)}"
        try:
            with open(temporary, "xb", opener=private_opener) as file, held(file.fileno()):
                file.writelines(pieces)
                file.close()
                yield temporary
        finally:
            temporary.unlink(missing_ok=True)

    def _make_room(self, size: int) -> None:
        copies = sorted(self._copies(), key=lambda copy: copy.used)
        total = sum(copy.size for copy in copies) + size
        for copy in copies:
            if total <= self._most_bytes:
                return
            if _deleted_unheld(copy.path):
                total -= copy.size

    def _copies(self) -> Iterator[_Copy]:
        for path in self._folder.glob("*/*"):
            with suppress(FileNotFoundError):
                if is_name(path.name):
                    there = path.stat()
                    yield _Copy(path, there.st_size, there.st_atime)

    def forget(self, tenant: str, names: Iterable[str]) -> None:
        """Delete the copies of content that is deleted, held or not."""
        for name in names:
            (self._folder / folder_name(tenant) / name).unlink(missing_ok=True)

    def forget_tenant(self, tenant: str) -> None:
        shutil.rmtree(self._folder / folder_name(tenant), ignore_errors=True)

    def sweep(self) -> int:
        """Delete what killed processes left, and copies that were not used for a week; how many."""
        if not self._folder.is_dir():
            return 0
        old = [copy.path for copy in self._copies() if copy.used < time.time() - UNUSED_SECONDS]
        return cleared(self._folder) + sum(map(_deleted_unheld, old))


class _Copy(NamedTuple):
    path: Path
    size: int
    used: float


def _deleted_unheld(path: Path) -> bool:
    """Whether a copy was deleted: not if somebody reads it, nor if it is another by now, which somebody may read."""
    try:
        with open(path, "rb") as file:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not is_named(file.fileno(), path):
                    return False
            path.unlink()
    except OSError:  # held, or already deleted
        return False
    return True
