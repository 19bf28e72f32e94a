"""Create a store from a backup: from a folder or a bucket of backups, or from a file; of the same or another kind.

The backup is left as it is. What is made is another incarnation of the store, so no index takes it for the old one.
It takes the place of an old store, if that is asked for, when every record of it has been checked.
(tests/adapters/records/test_restore_backup.py, tests/services/backups)
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from recollect.adapters.atomic_file import clear_unfinished, unfinished
from recollect.adapters.backups.work_folder import work_folder
from recollect.adapters.encryption.files import SealedFiles
from recollect.adapters.encryption.sealed import is_sealed
from recollect.adapters.objects.folder import FolderObjects
from recollect.adapters.objects.sealing import Sealing
from recollect.app.backups import repository_at, unpacked, work_parent
from recollect.app.keys import key_service
from recollect.app.objects import beside, copy_objects, object_store
from recollect.app.store_copies import content_places, keyring_of
from recollect.app.stores import file_of, postgres_store, record_store
from recollect.domain.memory import Memory
from recollect.errors import (
    DamagedData,
    InvalidInput,
    InvalidSettings,
    MissingExtra,
    NotARecollectStore,
    NotFound,
    RecollectError,
    StoreError,
    WrongKey,
)
from recollect.ports.backups import BackupRepository
from recollect.ports.folders import private_opener
from recollect.ports.keys import KeyService
from recollect.ports.objects import ObjectStore
from recollect.ports.query import Query
from recollect.ports.records import RecordStore, Scope
from recollect.services.admin import copy as copying
from recollect.services.backups.backup import is_place
from recollect.services.backups.restored import RestoreBackupReply
from recollect.services.backups.store_lines import clear, is_empty, store_lines
from recollect.services.keyed_hashes import Keyring
from recollect.services.memories.indexing import Progress
from recollect.services.privacy.undone import Certificates, certificates_in, undone_notes
from recollect.settings import Settings, load, shown

Kind = Literal["sqlite", "duckdb", "postgresql", "records"]
_MAGIC: tuple[tuple[bytes, int, Kind], ...] = (
    (b"SQLite format 3", 0, "sqlite"),
    (b"RCLT", 0, "sqlite"),  # encrypted
    (b"DUCK", 8, "duckdb"),
    (b"PGDMP", 0, "postgresql"),
)
_UNKNOWN = (
    "the store that was replaced cannot be read: people who were erased after this backup was made are back, and must "
    "be erased again; your copies of the certificates say when each was erased"
)
_PIECES = ("", "-journal", "-wal", "-shm", "-notes", ".wal")


@dataclass(frozen=True, slots=True)
class _Source:
    """What is restored: a file of a store, or records of any."""

    name: str
    kind: Kind
    is_keyed: bool
    """Whether it is a file that is encrypted as a whole."""
    write: Callable[[Path], object]
    """Write the file of the store to a path."""
    fill: Callable[[RecordStore, Progress], object]
    """Write the records to a store that is empty."""
    restore_objects: Callable[[Settings], list[str]]
    dump: Path = Path()
    """The file, where it is a dump of PostgreSQL."""


def restore_backup(source: str | Path, target: str | Path, **settings: Any) -> RestoreBackupReply:
    """Create a store from what `backup` wrote, in an empty place, and check every record of it."""
    return restore(source, target, **settings)


def restore(
    source: str | Path,
    to: str | Path | None = None,
    id: str | None = None,
    *,
    replace: bool = False,
    progress: Progress | None = None,
    **settings: Any,
) -> RestoreBackupReply:
    """Create a store from a backup; `id` says which where there are several, the newest by default."""
    loaded, progress = load(to, **settings), progress or (lambda done, total: None)
    before = _certificates(loaded) if replace else {}
    with _opened(str(source), id, loaded) as found:
        if found.kind == "postgresql":
            memories = _restore_dump(found, loaded)
        elif file_of(loaded.store) is not None:
            memories = _restore_file(found, loaded, replace, progress)
        else:
            memories = _restore_database(found, loaded, replace, progress)
        notes = found.restore_objects(loaded)
    notes += [_UNKNOWN] if before is None else _undone(loaded, before)
    return RestoreBackupReply(store=shown(loaded.store), memories=memories, notes=notes)


def _certificates(settings: Settings) -> Certificates | None:
    """Of the erasures in the store that is about to be replaced; None where it cannot be read."""
    path = file_of(settings.store)
    if path is not None and not path.exists():
        return {}
    try:
        with closing(record_store(settings.store, settings.postgres_upkeep, key_service(settings)).store) as store:
            return certificates_in(store)
    except RecollectError:  # it may be damaged: that is why it is replaced
        return None


def _undone(settings: Settings, before: Certificates) -> list[str]:
    if not any(before.values()):
        return []
    with closing(record_store(settings.store, settings.postgres_upkeep, key_service(settings)).store) as store:
        return undone_notes(store, before)


# -- what is restored --------------------------------------------------------------------------------------------------


@contextmanager
def _opened(source: str, id: str | None, settings: Settings) -> Iterator[_Source]:
    with work_folder(_work_parent(settings)) as folder:
        if is_place(source):
            repository = repository_at(source, key_service(settings))
            yield _of_repository(repository, id, folder, settings)
        else:
            yield _of_file(Path(source).expanduser(), folder, settings)


def _work_parent(settings: Settings) -> Path:
    parent = work_parent(settings)
    if not parent.is_dir():
        raise InvalidInput(f"there is no folder '{parent}'", remedy="make it first, or give another path")
    return parent


def _of_repository(repository: BackupRepository, id: str | None, folder: Path, settings: Settings) -> _Source:
    ids = repository.ids()
    if not ids:
        raise NotFound(f"there is no backup in {repository.label}", remedy="check the address")
    info = repository.info(id or ids[0])

    def write(path: Path) -> None:
        with open(path, "xb", opener=private_opener) as file:
            file.writelines(repository.content(info.id))

    def fill(store: RecordStore, progress: Progress) -> None:
        if info.kind == "records":
            store_lines(repository.content(info.id), store, progress)
        else:
            _copy(unpacked(repository, info.id, folder, None).address, None, store, progress)

    def restore_objects(settings: Settings) -> list[str]:
        with _content_of(settings) as (_, files, _organizations):
            for one in repository.objects(info.id):
                try:
                    files.put(one.place, one.read())
                except InvalidSettings as error:  # there is no place for them
                    return [f"stored files were not restored: {error.message} ({error.remedy})"]
        return []

    return _Source(info.id, info.kind, False, write, fill, restore_objects)


def _of_file(path: Path, folder: Path, settings: Settings) -> _Source:
    try:
        plain = _unsealed(path, folder, settings) if is_sealed(path) else path
        with plain.open("rb") as file:
            beginning = file.read(16)
    except OSError as error:
        raise InvalidInput(f"cannot read '{path}': {error.strerror}", remedy="give the file of a backup") from None
    kind = next((kind for magic, at, kind in _MAGIC if beginning[at:].startswith(magic)), None)
    if kind is None:
        raise NotARecollectStore(f"'{path.name}' is not a backup", remedy="give a file that `recollect backup` wrote")

    def fill(store: RecordStore, progress: Progress) -> None:
        copied = folder / "copy" / path.name  # errors name it
        copied.parent.mkdir()
        shutil.copyfile(plain, copied)  # opening a store changes its file
        _copy(str(copied) if kind == "sqlite" else f"duckdb:///{copied}", key_service(settings), store, progress)

    return _Source(
        name=path.name,
        kind=kind,
        is_keyed=beginning.startswith(b"RCLT"),
        write=lambda target: shutil.copyfile(plain, target),
        fill=fill,
        restore_objects=lambda settings: _restore_objects(path, settings),
        dump=plain,
    )


def _unsealed(path: Path, folder: Path, settings: Settings) -> Path:
    plain = folder / "unsealed"
    with SealedFiles(key_service(settings)).opened(path) as sealed, open(plain, "xb", opener=private_opener) as file:
        shutil.copyfileobj(sealed, file)
    return plain


def _copy(address: str, keys: KeyService | None, target: RecordStore, progress: Progress) -> None:
    with closing(_native(address, keys)) as here:
        _refuse_damage(here, "the backup")
        if here.tenants():
            copying.copy(here, target, (), progress)


def _native(address: str, keys: KeyService | None) -> RecordStore:
    """The store in a file of a backup, which may be from before the store had a key."""
    if keys is not None:
        try:
            return record_store(address, None, keys).store
        except WrongKey:
            return record_store(address).store  # which says that it needs a key, if it is another one's
    return record_store(address).store


def _restore_objects(source: Path, settings: Settings) -> list[str]:
    """The stored files that `backup` put beside the copy of the store, each checked against its hash."""
    if not beside(source).is_dir():
        return []
    with _content_of(settings) as (keyring, files, organizations):
        own = FolderObjects(beside(source), Sealing(keyring.content_key))
        return copy_objects(own, files, content_places(keyring, keyring, organizations))


@contextmanager
def _content_of(settings: Settings) -> Iterator[tuple[Keyring, ObjectStore, list[str]]]:
    """The place for large content of the restored store, and the keys that it is sealed with."""
    with closing(record_store(settings.store, settings.postgres_upkeep, key_service(settings)).store) as store:
        keyring = keyring_of(store, settings)
        with closing(object_store(settings, keyring.content_key)) as files:
            yield keyring, files, store.tenants()


# -- where it is restored to -------------------------------------------------------------------------------------------


def _restore_file(source: _Source, settings: Settings, replace: bool, progress: Progress) -> int:
    """Under another name until every record has been checked."""
    target = file_of(settings.store)
    assert target is not None, "only asked for stores in a file"
    if target.exists() and not replace:
        raise InvalidInput(
            f"'{target}' already exists", remedy="give another path, or --replace if no process uses the store"
        )
    keys = key_service(settings)
    kind: Kind = "duckdb" if settings.store.startswith("duckdb:") else "sqlite"
    copied = target.with_name(target.name + ".restoring")
    address = f"duckdb:///{copied.absolute()}" if kind == "duckdb" else str(copied)
    try:
        clear_unfinished(target)
        _discard(copied)
        with unfinished(target, copied):
            is_same = source.kind == kind and source.is_keyed == (keys is not None)
            if is_same:
                source.write(copied)
            with closing(record_store(address, None, keys).store) as store:
                if not is_same:
                    source.fill(store, progress)
                _refuse_damage(store, source.name)
                with _moved_away(target) if replace else nullcontext():
                    store.backup(target)
                return _memories(store)
    except OSError as error:
        raise StoreError(
            f"cannot write '{target}': {error.strerror}", remedy="free some disk space, or choose another path"
        ) from None
    finally:
        _discard(copied)


@contextmanager
def _moved_away(target: Path) -> Iterator[None]:
    """A store that is to be replaced: deleted after the block, and put back if the block fails."""
    pieces = [target.with_name(target.name + ending) for ending in _PIECES]
    moved = [(piece, piece.with_name(piece.name + ".replaced")) for piece in pieces if piece.exists()]
    for piece, away in moved:
        piece.replace(away)
    try:
        yield
    except BaseException:
        for piece, away in moved:
            away.replace(piece)
        raise
    for _, away in moved:
        away.unlink()


def _discard(path: Path) -> None:
    for ending in _PIECES:
        path.with_name(path.name + ending).unlink(missing_ok=True)


def _restore_database(source: _Source, settings: Settings, replace: bool, progress: Progress) -> int:
    """Record by record."""
    with closing(record_store(settings.store, settings.postgres_upkeep, key_service(settings)).store) as store:
        if not replace and not is_empty(store):
            raise InvalidInput(
                f"{shown(settings.store)} is not empty",
                remedy="give an empty store, or --replace to delete everything that is in this one first",
            )
        clear(store)
        source.fill(store, progress)
        _refuse_damage(store, source.name)
        return _memories(store)


def _restore_dump(source: _Source, settings: Settings) -> int:
    """By PostgreSQL's own programs."""
    scheme = urlsplit(settings.store).scheme if "://" in settings.store else "sqlite"
    if scheme not in ("postgresql", "postgres"):
        raise InvalidInput(
            f"this is not a backup of a '{scheme}://' store but a dump of PostgreSQL",
            remedy="restore it to an empty PostgreSQL database, then use `recollect copy`",
        )
    try:
        from recollect.adapters.postgres.connection import Database
        from recollect.adapters.records.postgres import dump
    except ImportError:
        raise MissingExtra(
            "the PostgreSQL driver is not installed", remedy="pip install 'recollect[postgres]'"
        ) from None
    database = Database(settings.postgres_upkeep or settings.store)
    try:
        dump.restore(database, source.dump, settings.postgres_tools)
    finally:
        database.close()
    with closing(postgres_store(settings.store, settings.postgres_upkeep, key_service(settings))) as store:
        _refuse_damage(store, source.name)
        return _memories(store)


def _refuse_damage(store: RecordStore, name: str) -> None:
    problems = store.verify()
    if problems:
        raise DamagedData(
            f"'{name}' is damaged: {len(problems)} problems, the first: {problems[0].what}",
            remedy="restore an earlier backup",
        )


def _memories(store: RecordStore) -> int:
    return sum(store.count(Scope(tenant), Query(Memory, deleted="yes")) for tenant in store.tenants())
