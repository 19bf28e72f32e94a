"""The key of a store in a file: a new one, another one, none. Others may use the store meanwhile; see the adapters."""

from __future__ import annotations

import os
from contextlib import closing, suppress
from pathlib import Path

from pydantic import Field

from recollect.adapters.atomic_file import wipe
from recollect.adapters.encryption.master_key import MasterKey, new_key
from recollect.app.keys import file_key, given_key
from recollect.app.objects import folder_of
from recollect.app.stores import file_of, record_store, refuse_missing
from recollect.errors import InvalidInput, WrongKey
from recollect.ports.folders import private_opener
from recollect.services.keyed_hashes import Keyring
from recollect.services.memories.indexing import Progress
from recollect.services.requests import Reply
from recollect.settings import Settings, load, shown


class NewKey(Reply):
    key: str = Field("", description="The key; empty where it was written to a file")
    path: str = Field("", description="The file that holds it")


class StoreKey(Reply):
    store: str
    encrypted: bool
    says: str


def make_key(path: Path | None = None) -> NewKey:
    """A random key: as text, or in a new file that its owner alone can read."""
    if path is None:
        return NewKey(key=new_key())
    try:
        with open(path, "x", encoding="ascii", opener=private_opener) as file:
            file.write(new_key() + "\n")
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        raise InvalidInput(
            f"'{path}' already exists", remedy="give another path: a key that is in use may be in it"
        ) from None
    except OSError as error:
        raise InvalidInput(f"cannot write '{path}': {error.strerror}", remedy="give another path") from None
    return NewKey(path=str(path))


def check_key(source: str | Path | None = None) -> StoreKey:
    """Open the store with the key that the settings name; raises WrongKey where it is another."""
    settings = load(source)
    _file(settings)
    with closing(record_store(settings.store, key_service=file_key(settings)).store) as store:
        encrypted = store.capabilities.encrypted
    says = "encrypted, and the key is right" if encrypted else "not encrypted"
    return StoreKey(store=shown(settings.store), encrypted=encrypted, says=says)


def set_key(
    source: str | Path | None = None,
    new_key_file: Path | None = None,
    new_key_command: str | None = None,
    progress: Progress | None = None,
) -> StoreKey:
    """Encrypt a plain store, or encrypt it with another key. Without a new one, a plain store gets that of the
    settings; for one that has it already, what a killed process left undone is done."""
    settings = load(source)
    path, old = _file(settings), file_key(settings)
    new = given_key(new_key_file, new_key_command)
    try:
        _settle(settings, old)
    except WrongKey:
        if old is None or not _is_plain(settings):
            raise
        old, new = None, new or old
    if new is None and old is None:
        raise InvalidInput("no key was given", remedy="name one with --new-key-file or --new-key-command")
    if new is not None:
        _change(settings, path, old, new, progress)
    _seal_files(settings, new or old)
    says = "encrypted with the new key; open it with that from now on" if new else "already encrypted with this key"
    return StoreKey(store=shown(settings.store), encrypted=True, says=says)


def remove_key(source: str | Path | None = None, progress: Progress | None = None) -> StoreKey:
    """Decrypt a store."""
    settings = load(source)
    path, old = _file(settings), file_key(settings)
    if old is None:
        raise InvalidInput("no key was given", remedy="give the key of the store; one that is plain needs nothing")
    _settle(settings, old)
    _change(settings, path, old, None, progress)
    return StoreKey(store=shown(settings.store), encrypted=False, says="not encrypted any more; open it without a key")


def _file(settings: Settings) -> Path:
    path = file_of(settings.store)
    if path is None:
        raise InvalidInput(
            f"'{shown(settings.store)}' is not a store in a file", remedy="see docs/guides/encryption.md for its keys"
        )
    refuse_missing(settings.store)
    return path


def _settle(settings: Settings, key: MasterKey | None) -> None:
    """Open and close it: brings tables and log in order, and tells a wrong key."""
    record_store(settings.store, key_service=key).store.close()


def _is_plain(settings: Settings) -> bool:
    try:
        _settle(settings, None)
    except WrongKey:
        return False
    return True


def _change(
    settings: Settings, path: Path, old: MasterKey | None, new: MasterKey | None, progress: Progress | None
) -> None:
    report = progress or (lambda done, total: None)
    if settings.store.startswith("duckdb://"):
        from recollect.adapters.records.duckdb.file import DuckdbFile

        with closing(DuckdbFile(path, old, to_encrypt=new is not None)) as file:
            file.change_key(new)
        report(1, 1)
    else:
        from recollect.adapters.records.sqlite.key_change import change_key

        change_key(path, old, new, report)
    if old is None or new is None:
        _clear_index(path.with_name(path.name + ".index"))


def _clear_index(folder: Path) -> None:
    """Of plain vectors no byte is left; the index is made again when the store is next used."""
    for file in folder.glob("*.seg*"):
        with suppress(FileNotFoundError):  # another process has merged it away
            wipe(file)


def _seal_files(settings: Settings, key: MasterKey | None) -> None:
    """Stored files that lie beside the store, or in another folder; those in a bucket stay as they are."""
    from recollect.adapters.objects.folder import FolderObjects
    from recollect.adapters.objects.sealing import Sealing

    if (folder := folder_of(settings)) is None or not folder.is_dir():
        return
    with closing(record_store(settings.store, key_service=key).store) as store:
        keyring = Keyring(store, is_encrypting=True)
        files = FolderObjects(folder, Sealing(keyring.content_key))
        for organization in store.tenants():
            if (place := keyring.known_content_place(organization)) is not None:
                files.seal_plain(place)
