"""What an erasure leaves to the server: to take many vectors out of an index takes minutes."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from postgres_server import server
from recollect.adapters.records.postgres import vacuuming
from recollect.adapters.records.postgres.distribution import unite
from recollect.adapters.records.postgres.store import PostgresStore
from recollect.domain.memory import Embedding
from recollect.ports.query import Query
from recollect.ports.records import Scope
from recollect.ports.steps import Delete, Insert
from recollect.testing.conformance.makers import embedding, found, memory

COUNT = 30
INDEX = "CREATE INDEX ON {} USING hnsw ((_halfvec::halfvec(1)) halfvec_ip_ops)"


@pytest.fixture
def store() -> Iterator[PostgresStore]:
    opened = PostgresStore(server().new_store())
    yield opened
    opened.close()


@pytest.fixture
def acme(store: PostgresStore) -> Scope:
    return found(store, "acme")


def fill(store: PostgresStore, scope: Scope) -> str:
    """Some vectors and an index of them; the table that they are in."""
    memories = [memory(scope, f"m{number}") for number in range(COUNT)]
    vectors = [embedding(scope, one.id, b"\x00\x3c", id=f"v{one.id}") for one in memories]
    store.transact(scope, [Insert(one) for one in (*memories, *vectors)])
    with store.as_owner() as connection:
        ((table,),) = connection.execute("SELECT DISTINCT tableoid::regclass::text FROM embedding").fetchall()
        connection.execute(INDEX.format(table))
    return str(table)


def delete(store: PostgresStore, scope: Scope, table: str) -> None:
    store.transact(scope, [Delete(Embedding, f"vm{number}") for number in range(COUNT)])
    deadline = time.monotonic() + 60
    while dead(store, table) < COUNT:  # the server counts a little later
        assert time.monotonic() < deadline
        assert store.count(scope, Query(Embedding)) == 0
        time.sleep(0.1)


def dead(store: PostgresStore, table: str) -> int:
    with store.as_owner() as connection:
        ((count,),) = connection.execute(f"SELECT pg_stat_get_dead_tuples('{table}'::regclass)").fetchall()
    return int(count)


def test_many_dead_vectors_are_left_to_the_server_which_is_told_to_come_soon(
    store: PostgresStore, acme: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = fill(store, acme)
    delete(store, acme, table)
    monkeypatch.setattr(vacuuming, "MOST_DEAD", COUNT // 2)
    (note,) = store.erase_traces()
    assert f"({COUNT} when it last counted)" in note
    assert "sweep" in note
    with store.as_owner() as connection:
        ((options,),) = connection.execute(
            f"SELECT reloptions FROM pg_class WHERE oid = '{table}'::regclass"
        ).fetchall()
        assert f"autovacuum_vacuum_threshold={COUNT // 2}" in options
        connection.execute(f"VACUUM {table}")  # as the server does
    assert store.erase_traces() == []


def test_few_dead_vectors_are_gone_at_once(store: PostgresStore, acme: Scope) -> None:
    table = fill(store, acme)
    delete(store, acme, table)
    assert store.erase_traces() == []
    assert dead(store, table) == 0


def test_a_vacuum_that_takes_long_after_all_is_left_to_the_server(
    store: PostgresStore, acme: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's count may lag behind: who erases waits for a while, not for all of it."""
    table = fill(store, acme)
    delete(store, acme, table)
    monkeypatch.setattr(vacuuming, "MOST_SECONDS", 1)
    with store.as_owner() as other:
        other.execute(f"BEGIN; LOCK TABLE {table} IN SHARE UPDATE EXCLUSIVE MODE")
        (note,) = store.erase_traces()
    assert f"({COUNT} when it last counted)" in note
    assert store.erase_traces() == []


def test_tables_without_such_an_index_are_vacuumed_whatever_is_dead_in_the_others(
    store: PostgresStore, acme: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = fill(store, acme)
    other = next(f"embedding_{number}" for number in range(8) if f"embedding_{number}" != table)
    with store.as_owner() as connection:
        connection.execute(INDEX.format(other))
        connection.execute(f"DROP INDEX {table}__halfvec_idx")
    delete(store, acme, table)
    monkeypatch.setattr(vacuuming, "MOST_DEAD", 0)
    assert store.erase_traces() == []
    assert dead(store, table) == 0


def test_where_the_server_does_not_vacuum_by_itself_it_is_waited_for(
    store: PostgresStore, acme: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = fill(store, acme)
    delete(store, acme, table)
    monkeypatch.setattr(vacuuming, "MOST_DEAD", 0)
    monkeypatch.setattr(vacuuming, "_SETTING", "SELECT 'off'")
    assert store.erase_traces() == []
    assert dead(store, table) == 0


def test_where_the_vectors_are_in_one_table_as_on_a_cluster_it_is_vacuumed(store: PostgresStore, acme: Scope) -> None:
    with store.as_owner() as connection, connection.transaction():
        unite(connection, "embedding")
    table = fill(store, acme)
    assert table == "embedding"
    delete(store, acme, table)
    assert store.erase_traces() == []
    assert dead(store, table) == 0


@pytest.mark.parametrize(
    "option",
    [
        "autovacuum_enabled = 'OFF'",
        "autovacuum_vacuum_threshold = 1000000",
        "autovacuum_vacuum_threshold = 50",
        "autovacuum_vacuum_scale_factor = 0.5",
    ],
)
def test_where_an_administrator_has_the_server_come_late_or_never_it_is_waited_for(
    store: PostgresStore, acme: Scope, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    table = fill(store, acme)
    with store.as_owner() as connection:
        connection.execute(f"ALTER TABLE {table} SET ({option})")
    delete(store, acme, table)
    monkeypatch.setattr(vacuuming, "MOST_DEAD", 0)
    assert store.erase_traces() == []
    assert dead(store, table) == 0
