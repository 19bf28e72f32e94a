"""PostgreSQL opened to be read alone: the session itself is read only."""

from __future__ import annotations

import psycopg
import pytest

import recollect
from postgres_server import server
from recollect.adapters.records.postgres.store import PostgresStore
from recollect.errors import StoreReadOnly


def test_a_session_that_only_reads_is_refused_every_write_by_the_server() -> None:
    address = server().emptied_store()
    with recollect.open(address, embedder="hash", background=False) as mem:
        mem.remember("Alice drinks tea")
    with recollect.open(address, embedder="hash", readonly=True) as mem:
        assert [hit.text for hit in mem.recall("tea")] == ["Alice drinks tea"]
        assert mem.stats().memories == 1
        with pytest.raises(StoreReadOnly, match="read-only"):
            mem.remember("Bob drinks tea")
        store = mem._core.store
        assert isinstance(store, PostgresStore)
        with pytest.raises(StoreReadOnly, match="opened read-only"):
            store.transact(mem._scope, [])
        with pytest.raises(StoreReadOnly), store.as_owner() as connection:
            connection.execute("DELETE FROM memory")
    with recollect.open(address, embedder="hash", background=False) as mem:
        assert mem.log(limit=100).entries[-1].action == "remember", "reading was not logged"
        assert "recall" not in {entry.action for entry in mem.log(limit=100).entries}


def test_tables_that_are_not_there_are_not_made() -> None:
    address = server().new_database()
    with pytest.raises(StoreReadOnly, match="must be written"):
        recollect.open(address, embedder="hash", readonly=True)
    with psycopg.connect(address, autocommit=True) as connection:
        assert connection.execute("SELECT to_regclass('memory')").fetchall() == [(None,)]
