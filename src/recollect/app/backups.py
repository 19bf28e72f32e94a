"""Backups of a store: the places that addresses mean, and a backup as a store of its own in a temporary folder."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from recollect.app.keys import key_service
from recollect.app.stores import file_of, record_store
from recollect.errors import InvalidSettings, typed_os_errors
from recollect.ports.backups import BackupPolicy, BackupRepository
from recollect.ports.folders import private_opener
from recollect.ports.keys import KeyService
from recollect.services.tenant import Core
from recollect.settings import BackupSettings, Settings, VectorSettings

if TYPE_CHECKING:
    from recollect.adapters.backups.repository import Repository

Build = Callable[[Settings], Core]
_NO_KEY = dict.fromkeys(("key", "key_file", "key_command", "key_service"))


class StoreBackups:
    """Fills `services/tenant.py:Backups`. `build` opens a store, as the one whose backups these are was opened."""

    def __init__(self, settings: Settings, build: Build) -> None:
        self._settings, self._build = settings, build

    @property
    def policy(self) -> BackupPolicy:
        given = self._settings.backups
        return BackupPolicy(
            given.to, given.every_hours, given.keep.daily, given.keep.weekly, given.keep.monthly, given.verify
        )

    @cached_property
    def _keys(self) -> KeyService | None:
        return key_service(self._settings)

    def at(self, address: str) -> BackupRepository:
        return repository_at(address, self._keys)

    def work_folder(self) -> AbstractContextManager[Path]:
        from recollect.adapters.backups.work_folder import work_folder

        return work_folder(work_parent(self._settings))

    @contextmanager
    def restored(self, repository: BackupRepository, id: str, *, objects: bool) -> Iterator[Core]:
        with self.work_folder() as folder, ExitStack() as parts:
            content = unpacked(repository, id, folder, self._keys)
            temporary = self._settings.model_copy(
                update={
                    "store": content.address,
                    **({} if content.is_keyed else _NO_KEY),
                    "objects": str(folder / "objects"),
                    "vectors": VectorSettings(provider="embedded"),
                    "backups": BackupSettings(),
                    "background": False,
                }
            )
            core = parts.enter_context(_closing(self._build(temporary)))
            if objects:
                for one in repository.objects(id):
                    core.objects.put(one.place, one.read())
            yield core


@contextmanager
def _closing(core: Core) -> Iterator[Core]:
    from recollect.app import close

    try:
        yield core
    finally:
        close(core)


def repository_at(address: str, keys: KeyService | None) -> Repository:
    """The backups at an address."""
    from recollect.adapters.backups.place import BucketPlace, FolderPlace
    from recollect.adapters.backups.repository import Repository

    if "://" not in address:
        return Repository(FolderPlace(Path(address).expanduser()), keys)
    scheme = urlsplit(address).scheme
    if scheme == "file":
        return Repository(FolderPlace(Path(unquote(urlsplit(address).path))), keys)
    if scheme not in ("s3", "gs", "az"):
        raise InvalidSettings(
            f"'{scheme}://' is not a place for backups", remedy="give a folder, s3://bucket/prefix, gs://… or az://…"
        )
    return Repository(BucketPlace(address), keys)


def work_parent(settings: Settings) -> Path:
    """Where files are put on the way: beside the store, which has room for a copy of it, else a temporary folder."""
    path = file_of(settings.store)
    return path.absolute().parent if path is not None else Path(tempfile.gettempdir())


class Unpacked(NamedTuple):
    """A backup as a file: the address of the store that it is, and whether that needs the key."""

    address: str
    is_keyed: bool


def unpacked(repository: BackupRepository, id: str, folder: Path, keys: KeyService | None) -> Unpacked:
    """Unpack a backup in a folder. Records become a store that is encrypted where there is a key."""
    from recollect.adapters.encryption.master_key import MasterKey
    from recollect.services.backups.store_lines import store_lines

    info = repository.info(id)
    target = folder / "restored"
    if info.kind == "records":
        own = keys if isinstance(keys, MasterKey) else None  # a key service cannot encrypt a file
        with closing(record_store(str(target), None, own).store) as store:
            store_lines(repository.content(id), store)
        return Unpacked(str(target), own is not None)
    with typed_os_errors(), open(target, "xb", opener=private_opener) as file:
        file.writelines(repository.content(id))
    return Unpacked(str(target) if info.kind == "sqlite" else f"duckdb:///{target}", False)
