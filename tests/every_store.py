"""The address of an empty store of each kind that keeps what it is given, and of each way to search vectors."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from chroma_server import chroma
from dynamodb_server import dynamodb
from postgres_server import server
from recollect.adapters.records.duckdb.store import DuckdbStore
from recollect.adapters.records.dynamodb.store import DynamoStore
from recollect.adapters.records.postgres.store import PostgresStore
from recollect.adapters.records.sqlite.store import SqliteStore
from recollect.app.stores import file_of
from recollect.ports.keys import KeyService
from recollect.ports.records import RecordStore

EVERY_STORE: dict[str, Callable[[Path], str]] = {
    "sqlite": lambda folder: str(folder / "store.db"),
    "duckdb": lambda folder: f"duckdb:///{folder}/store.duckdb",
    "dynamodb": lambda folder: dynamodb().new_store(),
    "postgres": lambda folder: server().new_store(),
}


@cache
def _made_once(kind: str) -> Path:
    """The file of a store without a record."""
    folder = Path(tempfile.mkdtemp(prefix="recollect-empty-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = file_of(EVERY_STORE[kind](folder))
    assert path is not None
    (DuckdbStore if kind == "duckdb" else SqliteStore)(path).close()
    return path


def _copied(kind: str, folder: Path) -> str:
    address = EVERY_STORE[kind](folder)
    path = file_of(address)
    assert path is not None
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(_made_once(kind), path)
    return address


# The same with their tables, for tests that are not about a store that is made: copied in a quarter of the time.
EMPTY_STORE: dict[str, Callable[[Path], str]] = {
    **EVERY_STORE,
    "sqlite": lambda folder: _copied("sqlite", folder),
    "duckdb": lambda folder: _copied("duckdb", folder),
}


def store_with_keys(address: str, key_service: KeyService | None) -> RecordStore:
    """An open store whose encrypted fields are sealed; its file, where it has one, is not encrypted as a whole."""
    path = file_of(address)
    if path is not None:
        return (DuckdbStore if address.startswith("duckdb") else SqliteStore)(path, key_service=key_service)
    return (DynamoStore if address.startswith("dynamodb") else PostgresStore)(address, key_service=key_service)


VECTOR_SEARCH = (*EVERY_STORE, "memory", "chroma", "pgvector beside")


def searched(kind: str, folder: Path) -> dict[str, Any]:
    """The settings of an empty store whose vectors are searched in one of the ways there are."""
    if kind in EVERY_STORE:
        return {"store": EVERY_STORE[kind](folder)}
    if kind == "memory":
        return {"store": "memory://"}
    vectors = f"chroma+{chroma().url}" if kind == "chroma" else f"pgvector+{server().address()}"
    return {"store": str(folder / "beside.db"), "vectors": vectors}
