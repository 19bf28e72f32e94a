"""Where a repository of backups lies: bytes by name, in a folder of this machine or in a bucket (S3, Google, Azure).

A name is there whole or not at all. `create` gives a name to one of several processes that ask at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from recollect.adapters.atomic_file import clear_left, write_whole
from recollect.adapters.objects.folder import made_folder
from recollect.adapters.objects.remote import DELETED_AT_ONCE, opened_bucket, typed_storage_errors
from recollect.errors import InvalidSettings, NotFound, typed_os_errors
from recollect.ports.folders import private_opener

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Bucket


class Place(Protocol):
    @property
    def label(self) -> str: ...

    def put(self, name: str, data: bytes) -> None:
        """Store bytes, on disk when it returns; what had the name before is replaced."""

    def create(self, name: str, data: bytes) -> bool:
        """The same, unless the name is taken; whether it was free."""

    def get(self, name: str) -> bytes:
        """Raises NotFound."""

    def names(self, folder: str) -> Iterator[str]:
        """All names below a folder, in no order."""

    def delete(self, names: Iterable[str]) -> None:
        """Deleting what is not there is no error."""

    def sweep(self) -> None:
        """Delete temporary files that killed processes left."""


class FolderPlace:
    """The folder is made when something is first stored, for its owner alone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()

    @property
    def label(self) -> str:
        return str(self._folder)

    def put(self, name: str, data: bytes) -> None:
        target = self._folder / name
        with typed_os_errors():
            self._make_folder(target.parent)
            write_whole(target.with_name(f".recollect-{os.urandom(8).hex()}"), target, lambda file: file.write(data))

    def create(self, name: str, data: bytes) -> bool:
        target = self._folder / name
        with typed_os_errors():
            self._make_folder(target.parent)
            temporary = target.with_name(f".recollect-{os.urandom(8).hex()}")
            try:
                with open(temporary, "xb", opener=private_opener) as file:
                    file.write(data)
                os.link(temporary, target)  # with its content, or not at all
            except FileExistsError:
                return False
            finally:
                temporary.unlink(missing_ok=True)
            return True

    def _make_folder(self, folder: Path) -> None:
        """With those above it, up to our own, all for their owner alone."""
        for one in (self._folder, *reversed(folder.relative_to(self._folder).parents), folder):
            made_folder(self._folder / one)

    def get(self, name: str) -> bytes:
        with typed_os_errors():
            try:
                return (self._folder / name).read_bytes()
            except FileNotFoundError:
                raise _missing(name, self.label) from None

    def names(self, folder: str) -> Iterator[str]:
        with typed_os_errors():
            for path, _, files in os.walk(self._folder / folder):
                for file in files:
                    if not file.startswith("."):
                        yield (Path(path) / file).relative_to(self._folder).as_posix()

    def delete(self, names: Iterable[str]) -> None:
        with typed_os_errors():
            for name in names:
                (self._folder / name).unlink(missing_ok=True)

    def sweep(self) -> None:
        with typed_os_errors():
            for path, _, _ in os.walk(self._folder):
                clear_left(Path(path))


class BucketPlace:
    """`url` such as s3://bucket/prefix; nothing is imported or reached before it is used."""

    def __init__(self, url: str) -> None:
        self._url = url

    @property
    def label(self) -> str:
        return self._url

    @cached_property
    def _bucket(self) -> Bucket:
        return opened_bucket(self._url)

    def put(self, name: str, data: bytes) -> None:
        with typed_storage_errors():
            try:
                self._bucket.put(name, data)
            except FileNotFoundError:
                raise InvalidSettings(
                    f"there is no bucket for '{self._url}'", remedy="create it, or give another address"
                ) from None

    def create(self, name: str, data: bytes) -> bool:
        from obstore.exceptions import AlreadyExistsError

        with typed_storage_errors():
            try:
                self._bucket.put(name, data, mode="create")
            except AlreadyExistsError:
                return False
            except FileNotFoundError:
                raise InvalidSettings(
                    f"there is no bucket for '{self._url}'", remedy="create it, or give another address"
                ) from None
            return True

    def get(self, name: str) -> bytes:
        with typed_storage_errors():
            try:
                return bytes(self._bucket.get(name).bytes())
            except FileNotFoundError:
                raise _missing(name, self._url) from None

    def names(self, folder: str) -> Iterator[str]:
        with typed_storage_errors():
            pages = self._bucket.list(folder, chunk_size=DELETED_AT_ONCE)
        while True:
            with typed_storage_errors():
                page = next(pages, None)
            if page is None:
                return
            yield from (found["path"] for found in page)

    def delete(self, names: Iterable[str]) -> None:
        gone = list(names)
        for start in range(0, len(gone), DELETED_AT_ONCE):
            some = gone[start : start + DELETED_AT_ONCE]
            with typed_storage_errors():
                try:
                    self._bucket.delete(some)
                except FileNotFoundError:  # Google and Azure stop at the first that is missing
                    for name in some:
                        with suppress(FileNotFoundError):
                            self._bucket.delete(name)

    def sweep(self) -> None:
        """An upload is whole or not there; a lifecycle rule of the bucket deletes unfinished parts."""


def _missing(name: str, label: str) -> NotFound:
    return NotFound(f"'{name}' is missing in {label}", remedy="take another backup, such as an earlier one")
