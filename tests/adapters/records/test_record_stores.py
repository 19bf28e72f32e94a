"""Every record store in the tree keeps every rule of the socket."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from citus_rules import Watched, watch
from dynamodb_server import dynamodb
from postgres_server import server
from recollect.adapters.encryption.master_key import MasterKey
from recollect.adapters.records.duckdb import file as duckdb_file
from recollect.adapters.records.duckdb.store import DuckdbStore
from recollect.adapters.records.dynamodb.store import DynamoStore
from recollect.adapters.records.in_memory import MemoryStore
from recollect.adapters.records.postgres.store import PostgresStore
from recollect.adapters.records.sqlite.store import SqliteStore
from recollect.domain.record import Record
from recollect.ports.records import RecordStore
from recollect.testing.conformance import RecordStoreContract
from recollect.testing.conformance.makers import every_type
from seeds import SOAK, some
from without_openssl import WITHOUT_OPENSSL

# An encrypted DuckDB file is the same code on slower pages: all of it only in a soak.
SLOW = ("duckdb encrypted",) if SOAK else ()
STORES = ("memory", "sqlite", "sqlite encrypted", "duckdb", *SLOW, "postgres", "dynamodb")
KEY = MasterKey("a key for tests that nobody keeps")


@pytest.fixture(scope="module")
def empty_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made once and copied: making the tables takes longer than most of the tests."""
    path = tmp_path_factory.mktemp("empty") / "records.db"
    SqliteStore(path).close()
    return path


@pytest.fixture(scope="module")
def empty_encrypted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("empty") / "records.db"
    SqliteStore(path, master=KEY).close()
    return path


@pytest.fixture(scope="module")
def empty_duckdb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("empty") / "records.duckdb"
    DuckdbStore(path).close()
    return path


class TestRecordStores(RecordStoreContract):
    @pytest.fixture(params=STORES)
    def store(
        self,
        request: pytest.FixtureRequest,
        tmp_path: Path,
        empty_file: Path,
        empty_encrypted: Path,
        empty_duckdb: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> Iterator[RecordStore]:
        store: RecordStore = MemoryStore()
        if request.param == "sqlite":
            store = SqliteStore(Path(shutil.copy(empty_file, tmp_path)))
        elif request.param == "sqlite encrypted":
            store = SqliteStore(Path(shutil.copy(empty_encrypted, tmp_path)), master=KEY)
        elif request.param == "duckdb encrypted":
            monkeypatch.setattr(duckdb_file, "CRYPTOGRAPHY", WITHOUT_OPENSSL)
            store = DuckdbStore(tmp_path / "records.duckdb", master=KEY)
        elif request.param == "duckdb":
            store = DuckdbStore(Path(shutil.copy(empty_duckdb, tmp_path)))
        elif request.param == "postgres":
            watch(monkeypatch)
            store = PostgresStore(server().emptied_store())
        elif request.param == "dynamodb":
            store = DynamoStore(dynamodb().new_store())
        yield store
        store.close()
        if request.param == "postgres":  # what runs here must run on a cluster, too
            assert Watched.count > 0
            assert Watched.seen == {}

    @pytest.fixture
    def deleted_types(self, store: RecordStore) -> list[type[Record]]:
        """All in a soak; else those on which others hang, and some of the rest, others on each store and each seed."""
        referred = {one.to for record in every_type() for one in record.shape.references.values()}
        roots = [record for record in every_type() if record.shape.table in referred]
        leaves = [record for record in every_type() if record.shape.table not in referred]
        return [*some(8, roots, f"roots {type(store)}"), *some(3, leaves, f"leaves {type(store)}")]

    @pytest.fixture
    def reopen(self, store: RecordStore) -> Iterator[Callable[[RecordStore], RecordStore] | None]:
        opened: list[RecordStore] = []

        def again(before: RecordStore) -> RecordStore:
            before.close()
            if isinstance(before, PostgresStore):
                opened.append(PostgresStore(before.database.conninfo))
            elif isinstance(before, DynamoStore):
                opened.append(DynamoStore(before.address))
            else:
                assert isinstance(before, SqliteStore | DuckdbStore)
                opened.append(type(before)(before.path, master=KEY if before.capabilities.encrypted else None))
            return opened[-1]

        yield again if store.capabilities.durable else None
        for one in opened:
            one.close()
