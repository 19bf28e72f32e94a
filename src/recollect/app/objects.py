"""Where large content goes: which adapter the setting `objects` means."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from recollect.app.stores import file_of
from recollect.errors import DamagedData, NotFound, StoreReadOnly
from recollect.ports.objects import ObjectStore
from recollect.settings import Settings

if TYPE_CHECKING:
    from recollect.adapters.objects.sealing import Sealing


def object_store(
    settings: Settings, key_of: Callable[[str], bytes | None] | None = None, *, is_handed_in: bool = False
) -> ObjectStore:
    """Neither makes a folder nor imports a client before something is put or fetched.

    `key_of`: what the content in a place is sealed with. `is_handed_in`: the record store is the caller's own, so
    `settings.store` says nothing about it.
    """
    from recollect.adapters.objects.folder import FolderObjects
    from recollect.adapters.objects.sealing import Sealing
    from recollect.adapters.objects.unset import UnsetObjects

    sealing = Sealing(key_of)
    if settings.objects is None and is_handed_in:
        return UnsetObjects()
    if (folder := folder_of(settings)) is not None:
        return FolderObjects(folder, sealing)
    if settings.objects is not None:
        return remote_objects(settings.objects, settings, sealing)
    return FolderObjects(None, sealing) if settings.store.startswith("memory:") else UnsetObjects()


def remote_objects(address: str, settings: Settings, sealing: Sealing, *, is_cold: bool = False) -> ObjectStore:
    """Content in a bucket. Copies of cold files have their own folder: the other may be where content is stored."""
    from recollect.adapters.objects.cache import ObjectCache
    from recollect.adapters.objects.remote import RemoteObjects

    folder = _cache_folder(settings)
    folder = folder.with_name(f"{folder.name}-cold") if is_cold else folder
    return RemoteObjects(address, ObjectCache(folder, settings.objects_cache_bytes), sealing)


def folder_of(settings: Settings) -> Path | None:
    """The folder that the settings name, or the one beside the store's file; None if content goes elsewhere."""
    address = settings.objects
    if address is not None and "://" not in address:
        return Path(address).expanduser()
    if address is not None:
        return Path(unquote(urlsplit(address).path)) if urlsplit(address).scheme == "file" else None
    return beside(path) if (path := file_of(settings.store)) is not None else None


def beside(store: Path) -> Path:
    """The folder for the content of a store in a file, or of its backup."""
    return store.with_name(store.name + "-objects")


def examine_objects(settings: Settings) -> str:
    """What lies where the setting says, in a few words, without making or changing anything."""
    folder = folder_of(settings)
    if folder is not None and not folder.exists():
        return "will be created when it is first used"
    if folder is not None and not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise StoreReadOnly(f"'{folder}' is not a folder that can be written to", remedy="change its permissions")
    with closing(object_store(settings)) as objects:
        next(objects.list(settings.organization), None)
    return "can be used" if folder is not None else "can be listed"


def copy_objects(source: ObjectStore, target: ObjectStore, places: Iterable[tuple[str, str]]) -> list[str]:
    """Copy what is not there yet, each object checked against its hash; says what could not be copied.

    `places` are those of the organizations here and there.
    """
    notes: list[str] = []
    for here, there in places:
        if (source.label, here) == (target.label, there):
            continue
        for info in source.list(here):
            if target.info(there, info.digest) is not None:
                continue
            try:
                with source.fetch(here, info.digest) as path:
                    target.put(there, path)
            except (DamagedData, NotFound) as error:
                notes.append(error.message)
    return notes


def _cache_folder(settings: Settings) -> Path:
    """Never in a folder that other users of the machine can write to."""
    store = file_of(settings.store)
    default = beside(store) if store is not None else Path("~/.cache/recollect/objects")
    return (settings.objects_cache or default).expanduser()
