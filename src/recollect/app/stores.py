"""The record stores: which one an address means. To add one, write its maker and a line in `_STORES`.

Other packages add theirs by an entry point (see app/plugins.py).
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast
from urllib.parse import unquote, urlsplit

from recollect.app.plugins import is_installed, made, package_of
from recollect.errors import DamagedData, InvalidSettings, MissingExtra, NotFound, StoreReadOnly, Unsupported
from recollect.ports.keys import KeyService
from recollect.ports.records import ReadsAtOnce, RecordStore, missing_verbs
from recollect.settings import Settings

if TYPE_CHECKING:
    from recollect.adapters.encryption.master_key import MasterKey
    from recollect.adapters.records.postgres.store import PostgresStore


class Opened(NamedTuple):
    """A store, the folder beside it for the vector index, and what that is encrypted with."""

    store: RecordStore
    index_folder: Path | None = None
    index_key: bytes | None = None


def record_store(
    address: str,
    postgres_upkeep: str | None = None,
    key_service: KeyService | None = None,
    *,
    readonly: bool = False,
) -> Opened:
    """The store that an address means. With a key service, fields that are declared encrypted are."""
    scheme = _scheme_of(address)
    if readonly:
        return _read_only(scheme, address, postgres_upkeep, key_service)
    if scheme not in _STORES:
        return Opened(_added_store(scheme, address))
    maker = _STORES[scheme]
    if maker is _postgres:
        return Opened(postgres_store(address, postgres_upkeep, key_service))
    return maker(address, key_service)


def turn_of(store: RecordStore) -> AbstractContextManager[object]:
    """What whoever reads much takes for it: see `Core.turn`."""
    if not store.capabilities.row_by_row:
        return nullcontext()
    turns = threading.Lock() if _threads_take_turns() else nullcontext()
    return _ReadingTurn(store, turns) if isinstance(store, ReadsAtOnce) else turns


def _threads_take_turns() -> bool:
    """Whether one thread at a time runs Python. Without that, recalls need not wait for each other."""
    is_gil_enabled: Callable[[], bool] = getattr(sys, "_is_gil_enabled", lambda: True)
    return is_gil_enabled()


class _ReadingTurn(threading.local):
    """What is read is of one moment; one thread at a time, where they take turns."""

    reading: AbstractContextManager[None]

    def __init__(self, store: ReadsAtOnce, turns: AbstractContextManager[object]) -> None:
        self._store, self._turns = store, turns

    def __enter__(self) -> None:
        self._turns.__enter__()
        try:
            self.reading = self._store.reading()
            self.reading.__enter__()
        except BaseException:
            self._turns.__exit__(None, None, None)
            raise

    def __exit__(self, *problem: Any) -> None:
        try:
            self.reading.__exit__(*problem)
        finally:
            self._turns.__exit__(None, None, None)


def _added_store(scheme: str, address: str) -> RecordStore:
    store = cast(RecordStore, made(PLUGINS, scheme, RecordStore, address))
    store.migrate()
    return store


def check_store(given: object) -> RecordStore:
    """A store that was handed in, if it has everything that the port asks for."""
    remedy = "give a path, an address such as postgresql://…, a YAML settings file or a record store"
    if isinstance(given, type):
        raise InvalidSettings(f"{given.__name__} is a class, not a store", remedy=remedy)
    missing = missing_verbs(given)
    if not missing and isinstance(given, RecordStore):
        return given
    if "transact" not in missing:  # somebody is writing a store
        remedy = "add what is missing; `python -m recollect.testing.conformance` checks the rest"
    raise InvalidSettings(
        f"{type(given).__name__} is not a record store: it has no {', '.join(missing)}", remedy=remedy
    )


def _scheme_of(address: str) -> str:
    scheme = urlsplit(address).scheme if "://" in address else ""
    if scheme in ("http", "https"):
        raise InvalidSettings(
            f"'{scheme}://' is the address of a service, and this needs the store itself",
            remedy="do it on the machine of the service, with the store that it serves",
        )
    if scheme not in _STORES and not is_installed(PLUGINS, scheme):
        raise InvalidSettings(
            f"unknown kind of store '{scheme}://'",
            remedy="give a path, sqlite:///path, duckdb:///path, postgresql://…, dynamodb://table or memory://, "
            f"or install the package that adds it to {PLUGINS}",
        )
    return scheme


def refuse_missing(address: str) -> None:
    """Raise NotFound if there is no such file: whoever wants to read has most likely misspelt its path."""
    _scheme_of(address)
    path = file_of(address)
    if path is not None and not path.exists():
        raise NotFound(
            f"there is no store '{path.absolute()}'",
            remedy="give another path with --store or $RECOLLECT_STORE; `recollect remember` creates a new store",
        )


def refuse_workers(settings: Settings, what: str = "") -> None:
    """Raise Unsupported if only one process can have the store or the index open; a store that a package adds says so
    when it is open."""
    what = what or {"memory": "a store in memory", "duckdb": "a DuckDB file"}.get(_scheme_of(settings.store), "")
    if what:
        raise Unsupported(
            f"{what} can be open in one process only, so one worker can serve it",
            remedy="set server.workers to 1, or move to SQLite or PostgreSQL: recollect copy FROM TO",
        )
    if settings.vectors.path is not None:
        raise Unsupported(
            "the folder in vectors.path can be used by one process only, so one worker can serve it",
            remedy="set server.workers to 1, or run Chroma as a server and set vectors.url",
        )


def examine_store(address: str, postgres_upkeep: str | None = None, key: MasterKey | None = None) -> str:
    """What lies at an address, in a sentence, without making or changing anything."""
    scheme = _scheme_of(address)
    if scheme == "memory":
        return "in memory; lost when the program ends"
    if scheme not in _STORES:
        return f"added by {package_of(PLUGINS, scheme)}"
    path = file_of(address)
    if path is not None and not path.exists():
        return _could_be_made(path)
    if path is not None and not os.access(path, os.W_OK):
        raise StoreReadOnly(f"'{path}' is read-only", remedy="make it writable")
    module, extra = _EXAMINERS[scheme]
    try:
        examine = import_module(f"recollect.adapters.records.{module}").examine
    except ImportError:
        raise MissingExtra(
            f"the driver for {scheme}:// is not installed", remedy=f"pip install 'recollect[{extra}]'"
        ) from None
    if path is not None:
        return str(examine(path, key))
    return str(examine(address, postgres_upkeep) if module == "postgres.preflight" else examine(address))


def _could_be_made(path: Path) -> str:
    if path.parent.is_dir() and os.access(path.parent, os.W_OK):
        return "will be created when it is first used"
    raise StoreReadOnly(f"cannot create '{path}'", remedy=f"create the folder '{path.parent}', and make it writable")


def file_of(address: str) -> Path | None:
    """The file an address means, if it means one."""
    scheme, separator, rest = address.partition("://")
    if separator and scheme not in _FILES:
        return None
    path = address if not separator else unquote(rest.removeprefix("/") if not rest.startswith("//") else rest[1:])
    return Path(path).expanduser()


def key_file_of(address: str) -> Path:
    """Where the owner's first key goes: beside the store's file, or into the current folder for other stores."""
    path = file_of(address)
    return path.with_name(path.name + ".owner-key") if path is not None else Path("recollect.owner-key")


def path_of(address: str) -> Path:
    path = file_of(address)
    assert path is not None, "only asked for addresses of files"
    return path


def _sqlite(address: str, key_service: KeyService | None) -> Opened:
    from recollect.adapters.records.sqlite.store import SqliteStore

    path, index = _file_and_index(address)
    store = SqliteStore(path, master=_master(key_service))
    return Opened(store, index, store.index_key())


def _read_only(scheme: str, address: str, upkeep: str | None, key_service: KeyService | None) -> Opened:
    """The same store, opened so that nothing is written."""
    if _STORES.get(scheme) is _sqlite:
        from recollect.adapters.records.sqlite.read_only import ReadOnlySqliteStore

        path = path_of(address)
        store = ReadOnlySqliteStore(path, master=_master(key_service))
        return Opened(store, path.with_name(path.name + ".index"), store.index_key())
    if _STORES.get(scheme) is _postgres:
        return Opened(postgres_store(address, upkeep, key_service, readonly=True))
    raise Unsupported(
        f"a store at {scheme}:// cannot be opened read-only",
        remedy="SQLite files, PostgreSQL and services can; else leave readonly out",
    )


def _master(key_service: KeyService | None) -> MasterKey | None:
    """A store in a file is encrypted as a whole, which needs the key itself."""
    from recollect.adapters.encryption.master_key import KeyAndPrevious, MasterKey

    if isinstance(key_service, KeyAndPrevious):
        key_service = key_service.current
    if key_service is None or isinstance(key_service, MasterKey):
        return key_service
    raise InvalidSettings(
        "a key service cannot encrypt a store in a file: its pages need the key itself",
        remedy="set key_command to a program that fetches the key from the service, or key or key_file",
    )


def _duckdb(address: str, key_service: KeyService | None) -> Opened:
    try:
        from recollect.adapters.records.duckdb.store import DuckdbStore
    except ImportError:
        raise MissingExtra("DuckDB is not installed", remedy="pip install 'recollect[duckdb]'") from None
    path, index = _file_and_index(address)
    store = DuckdbStore(path, master=_master(key_service))
    return Opened(store, index, store.index_key())


def _file_and_index(address: str) -> tuple[Path, Path]:
    """The file that an address names, and the folder of its index."""
    path = path_of(address)
    index = path.with_name(path.name + ".index")
    if path.is_file() and path.stat().st_size == 0 and index.is_dir() and any(index.iterdir()):
        raise DamagedData(
            f"'{path.name}' is empty, but its index is not: the file was truncated",
            remedy=f"restore a backup, or delete both the file and '{index.name}' to start over",
        )
    return path, index


def _memory(address: str, key_service: KeyService | None) -> Opened:
    from recollect.adapters.records.in_memory import MemoryStore

    return Opened(MemoryStore())


def _postgres(address: str, key_service: KeyService | None) -> Opened:
    return Opened(postgres_store(address, None, key_service))


def postgres_store(
    address: str, upkeep: str | None = None, key_service: KeyService | None = None, *, readonly: bool = False
) -> PostgresStore:
    try:
        from recollect.adapters.records.postgres.store import PostgresStore
    except ImportError:
        raise MissingExtra(
            "the PostgreSQL driver is not installed", remedy="pip install 'recollect[postgres]'"
        ) from None
    return PostgresStore(address, upkeep=upkeep, key_service=key_service, readonly=readonly)


def _dynamodb(address: str, key_service: KeyService | None) -> Opened:
    try:
        from recollect.adapters.records.dynamodb.store import DynamoStore
    except ImportError:
        raise MissingExtra("the DynamoDB driver is not installed", remedy="pip install 'recollect[dynamodb]'") from None
    return Opened(DynamoStore(address, key_service=key_service))


PLUGINS: Literal["recollect.stores"] = "recollect.stores"
_FILES = frozenset({"sqlite", "duckdb"})


_STORES: dict[str, Callable[[str, KeyService | None], Opened]] = {
    "": _sqlite,
    "sqlite": _sqlite,
    "duckdb": _duckdb,
    "memory": _memory,
    "postgresql": _postgres,
    "postgres": _postgres,
    "dynamodb": _dynamodb,
}


# Which module looks at a store before it is used, and which extra brings its driver.
_EXAMINERS = {
    "": ("sqlite.maintenance", ""),
    "sqlite": ("sqlite.maintenance", ""),
    "duckdb": ("duckdb.maintenance", "duckdb"),
    "postgresql": ("postgres.preflight", "postgres"),
    "postgres": ("postgres.preflight", "postgres"),
    "dynamodb": ("dynamodb.maintenance", "dynamodb"),
}
