"""Copy one store into another, of any kind; create a store from a backup."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from recollect.adapters.atomic_file import clear_unfinished, unfinished
from recollect.app.stores import file_of, path_of, postgres_store, record_store
from recollect.domain.memory import Memory
from recollect.errors import DamagedData, InvalidInput, MissingExtra, NotARecollectStore, NotFound, StoreError
from recollect.ports.query import Query
from recollect.ports.records import RecordStore, Scope
from recollect.services.admin import copy as copying
from recollect.services.admin.copy import CopyReply
from recollect.services.admin.export import RestoreBackupReply
from recollect.services.memories.indexing import Progress
from recollect.settings import Settings, load, shown


def copy(
    source: str | Path, target: str | Path, organizations: Sequence[str] = (), progress: Progress | None = None
) -> CopyReply:
    """Copy everything from one store to another, of any kind; run it again to continue where it stopped."""
    origin, destination = load(source), load(target)
    if origin.store == destination.store:
        raise InvalidInput("source and target are the same store", remedy="give two different stores")
    path = file_of(origin.store)
    if path is not None and not path.is_file():
        raise NotFound(f"there is no store '{origin.store}'", remedy="check the path")
    here, there = (record_store(one.store, one.postgres_upkeep)[0] for one in (origin, destination))
    with closing(here), closing(there):
        return copying.copy(here, there, organizations, progress or (lambda done, total: None))


def restore_backup(source: str | Path, target: str | Path, **settings: Any) -> RestoreBackupReply:
    """Create a store from what `backup` wrote, in an empty place, and check every record of it.

    The backup is left as it is. What is made is another incarnation of the store, so no index takes it for the old one.
    """
    loaded, path = load(target, **settings), Path(source)
    try:
        with path.open("rb") as file:
            beginning = file.read(16)
    except OSError as error:
        raise InvalidInput(f"cannot read '{path}': {error.strerror}", remedy="give the file of a backup") from None
    scheme = urlsplit(loaded.store).scheme if "://" in loaded.store else "sqlite"
    for magic, at, schemes, restore in _RESTORERS:
        if beginning[at:].startswith(magic):
            if scheme not in schemes:
                raise InvalidInput(
                    f"this is not a backup of a '{scheme}://' store",
                    remedy="restore it to the kind of store it came from, then use `recollect copy`",
                )
            return RestoreBackupReply(store=shown(loaded.store), memories=restore(path, loaded))
    raise NotARecollectStore(f"'{path.name}' is not a backup", remedy="give a file that `recollect backup` wrote")


def _restore_sqlite(source: Path, settings: Settings) -> int:
    from recollect.adapters.records.sqlite.connection import discard
    from recollect.adapters.records.sqlite.store import SqliteStore

    return _restore_file(source, path_of(settings.store), SqliteStore, discard)


def _restore_duckdb(source: Path, settings: Settings) -> int:
    try:
        from recollect.adapters.records.duckdb.store import DuckdbStore
    except ImportError:
        raise MissingExtra("DuckDB is not installed", remedy="pip install 'recollect[duckdb]'") from None
    return _restore_file(source, path_of(settings.store), DuckdbStore, lambda path: path.unlink(missing_ok=True))


def _restore_file(
    source: Path, target: Path, store_type: Callable[[Path], RecordStore], discard: Callable[[Path], object]
) -> int:
    if target.exists():
        raise InvalidInput(f"'{target}' already exists", remedy="give another path, or move the file away first")
    copied = target.with_name(target.name + ".restoring")
    try:
        clear_unfinished(target)
        discard(copied)
        with unfinished(target, copied):
            shutil.copyfile(source, copied)
            with closing(store_type(copied)) as store:
                _refuse_damage(store, source)
                store.backup(target)
                return _memories(store)
    except OSError as error:
        raise StoreError(
            f"cannot write '{target}': {error.strerror}", remedy="free some disk space, or choose another path"
        ) from None
    finally:
        discard(copied)


def _restore_postgres(source: Path, settings: Settings) -> int:
    try:
        from recollect.adapters.postgres.connection import Database
        from recollect.adapters.records.postgres import dump
    except ImportError:
        raise MissingExtra(
            "the PostgreSQL driver is not installed", remedy="pip install 'recollect[postgres]'"
        ) from None
    database = Database(settings.postgres_upkeep or settings.store)
    try:
        dump.restore(database, source, settings.postgres_tools)
    finally:
        database.close()
    store = postgres_store(settings.store, settings.postgres_upkeep)
    try:
        _refuse_damage(store, source)
        return _memories(store)
    finally:
        store.close()


def _refuse_damage(store: RecordStore, source: Path) -> None:
    problems = store.verify()
    if problems:
        raise DamagedData(
            f"'{source.name}' is damaged: {len(problems)} problems, the first: {problems[0].what}",
            remedy="restore an earlier backup",
        )


def _memories(store: RecordStore) -> int:
    return sum(store.count(Scope(tenant), Query(Memory, deleted="yes")) for tenant in store.tenants())


_RESTORERS: tuple[tuple[bytes, int, tuple[str, ...], Callable[[Path, Settings], int]], ...] = (
    (b"SQLite format 3", 0, ("sqlite",), _restore_sqlite),
    (b"DUCK", 8, ("duckdb",), _restore_duckdb),
    (b"PGDMP", 0, ("postgresql", "postgres"), _restore_postgres),
)
