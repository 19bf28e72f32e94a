"""Content in a folder of this machine: one file per object, named by its hash, in a folder per tenant.

A file is written under a temporary name, synced, and renamed, so a name that is there is whole. All of it belongs to
the owner of the process alone, as the store's own file does. Several processes may use the folder at once: they write
the same bytes under the same name. (tests/adapters/objects)
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import BinaryIO

from recollect.adapters.atomic_file import clear_left, held, publish, sync_folder, wipe, write_whole
from recollect.adapters.objects.hashing import (
    PIECE_BYTES,
    CheckedFiles,
    HashedPieces,
    damaged,
    hash_of,
    pieces_of,
    source_pieces,
)
from recollect.adapters.objects.names import FILE_NAME, folder_name
from recollect.adapters.objects.sealing import Sealing, is_name, is_sealed_name, opened_file
from recollect.errors import DamagedData, NotFound, typed_os_errors
from recollect.ports.folders import private_opener
from recollect.ports.objects import ObjectInfo


class FolderObjects:
    """`folder` is made when something is first put. Without one, a temporary folder that is deleted when closed."""

    def __init__(self, folder: Path | None, sealing: Sealing | None = None) -> None:
        self._is_temporary = folder is None
        self._sealing = sealing or Sealing()
        self._folder = folder.absolute() if folder is not None else _unused_folder()
        self._checked = CheckedFiles()

    @property
    def label(self) -> str:
        return "a temporary folder" if self._is_temporary else str(self._folder)

    def put(self, tenant: str, source: Path | Iterable[bytes]) -> ObjectInfo:
        if isinstance(source, Path) and (there := self._intact(tenant, hash_of(source_pieces(source)))) is not None:
            return there
        with typed_os_errors():
            return self._written(tenant, source_pieces(source))

    def _written(self, tenant: str, source: Iterable[bytes]) -> ObjectInfo:
        made_folder(self._folder)
        pieces = HashedPieces(source)
        temporary = self._folder / _temporary_name()
        try:
            with open(temporary, "xb", buffering=0, opener=private_opener) as file, held(file.fileno()):
                for piece in self._sealing.stored(tenant, pieces):
                    written = 0
                    while written < len(piece):
                        written += file.write(memoryview(piece)[written:])
                if (there := self._intact(tenant, pieces.digest)) is not None:
                    return there
                os.fsync(file.fileno())
                target = self._paths(tenant, pieces.digest)[0]
                made_folder(target.parent)
                file.close()
                publish(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
        self._checked.note(target)
        return ObjectInfo(pieces.digest, pieces.size, datetime.now(UTC))

    def _paths(self, tenant: str, digest: str) -> list[Path]:
        """Where content may lie, the first where it would be stored now."""
        return [self._folder / folder_name(tenant) / name for name in self._sealing.names(tenant, digest)]

    def _intact(self, tenant: str, digest: str) -> ObjectInfo | None:
        """What is stored under a digest as it would be now, unless it is missing or damaged: then it is written."""
        path = self._paths(tenant, digest)[0]
        try:
            self._checked.check(path, digest, partial(self._content, tenant))
        except (OSError, DamagedData):
            return None
        return self._described(path, digest)

    def _content(self, tenant: str, path: Path) -> Iterable[bytes]:
        return self._sealing.content(tenant, path.name, pieces_of(path))

    def _found(self, tenant: str, digest: str) -> Path:
        """The file with this content, checked; of two, the first that is whole."""
        wrong: DamagedData | None = None
        for path in self._paths(tenant, digest):
            try:
                self._checked.check(path, digest, partial(self._content, tenant))
                return path
            except (FileNotFoundError, NotADirectoryError):
                continue
            except DamagedData as error:
                wrong = damaged(digest) if error.details.get("digest") != digest else error
        raise wrong or missing(digest)

    @contextmanager
    def fetch(self, tenant: str, digest: str) -> Iterator[Path]:
        with typed_os_errors():
            path = self._found(tenant, digest)
        if not is_sealed_name(path.name):
            yield path
            return
        with opened_file(self._content(tenant, path)) as opened:
            yield opened

    def read(self, tenant: str, digest: str) -> Iterator[bytes]:
        with typed_os_errors():
            yield from self._content(tenant, self._found(tenant, digest))

    def info(self, tenant: str, digest: str) -> ObjectInfo | None:
        found = (self._described(path, digest) for path in self._paths(tenant, digest))
        return next((info for info in found if info is not None), None)

    def _described(self, path: Path, digest: str) -> ObjectInfo | None:
        try:
            there = os.stat(path, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
        size = self._sealing.size(path.name, there.st_size)
        return ObjectInfo(digest, size, datetime.fromtimestamp(there.st_mtime, UTC))

    def list(self, tenant: str) -> Iterator[ObjectInfo]:
        folder = self._folder / folder_name(tenant)
        try:
            names = sorted(filter(is_name, os.listdir(folder)))
        except FileNotFoundError:
            return
        seen: set[str] = set()
        for name in names:
            digest = self._sealing.digest_of(tenant, name)
            info = self._described(folder / name, digest) if digest is not None and digest not in seen else None
            if info is not None:
                seen.add(info.digest)
                yield info

    def delete(self, tenant: str, digests: Iterable[str]) -> None:
        paths = [path for digest in digests for path in self._paths(tenant, digest)]
        with typed_os_errors():
            for path in paths:
                self._checked.forget(path)
                if path.parent.is_dir():
                    path.unlink(missing_ok=True)
            for folder in {path.parent for path in paths if path.parent.is_dir()}:
                sync_folder(folder)

    def delete_tenant(self, tenant: str) -> None:
        self.delete(tenant, [info.digest for info in self.list(tenant)])
        if (folder := self._folder / folder_name(tenant)).is_dir():
            with typed_os_errors():
                shutil.rmtree(folder)
                sync_folder(self._folder)

    def copy_to(self, folder: Path) -> int:
        copied = 0
        with typed_os_errors():
            for path in self._folder.glob("[th]-*/*"):
                target = folder / path.parent.name / path.name
                if not is_name(path.name) or target.exists():
                    continue
                made_folder(folder)
                made_folder(target.parent)
                with suppress(FileNotFoundError):  # deleted a moment ago
                    copied += write_whole(folder / _temporary_name(), target, partial(_copied, path))
        return copied

    def seal_plain(self, tenant: str) -> int:
        """Seal what was stored before there was a key, and overwrite it; how many there were."""
        folder, sealed = self._folder / folder_name(tenant), 0
        with typed_os_errors():
            for path in folder.glob("*") if folder.is_dir() else ():
                if FILE_NAME.fullmatch(path.name) is not None:
                    self.put(tenant, path)
                    wipe(path)
                    sealed += 1
        return sealed

    def sweep(self) -> int:
        with typed_os_errors():
            return cleared(self._folder) if self._folder.is_dir() else 0

    def close(self) -> None:
        if self._is_temporary:
            shutil.rmtree(self._folder, ignore_errors=True)


def made_folder(folder: Path) -> None:
    """A folder that only its owner can enter, on disk with its name."""
    if not folder.is_dir():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        sync_folder(folder.parent)


def cleared(folder: Path) -> int:
    """Delete temporary files that nobody writes any more; how many."""
    before = sum(name.startswith(".recollect-") for name in os.listdir(folder))
    clear_left(folder)
    return max(0, before - sum(name.startswith(".recollect-") for name in os.listdir(folder)))


def _unused_folder() -> Path:
    """Not made before something is put: most stores in memory never hold an object."""
    return Path(tempfile.gettempdir()) / f"recollect-objects-{secrets.token_hex(16)}"


def _temporary_name() -> str:
    return f".recollect-{secrets.token_hex(8)}"


def _copied(path: Path, file: BinaryIO) -> int:
    with open(path, "rb") as source:
        shutil.copyfileobj(source, file, PIECE_BYTES)
    return file.tell()


def missing(digest: str) -> NotFound:
    return NotFound(
        f"the stored content {digest} is missing",
        remedy="upload the file again, or restore it from a backup; `recollect verify` lists what is missing",
        digest=digest,
    )
