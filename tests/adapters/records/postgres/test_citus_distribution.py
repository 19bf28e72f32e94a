"""How a store is spread over a cluster: in which order, as whom, and that nothing waits for itself.

On a stand-in for Citus (tests/citus_stand_in.py), whose one worker is really reached over another connection as the
current role. On a real cluster: test_citus_cluster.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

import recollect
from citus_rules import broken
from citus_stand_in import calls, create_extension, offer_extension
from postgres_server import Server, server
from recollect.adapters.postgres.connection import APP, UPKEEP, Database
from recollect.adapters.records.postgres import cluster, distribution
from recollect.adapters.records.postgres.preflight import examine
from recollect.adapters.records.postgres.schema import make_partitions
from recollect.adapters.records.postgres.store import PostgresStore
from recollect.adapters.vectors.halfvec_sql import make_index
from recollect.domain.audit import AccessLog
from recollect.domain.memory import Memory
from recollect.domain.record import RECORDS, now
from recollect.errors import StoreBusy, StoreError, StoreReadOnly, Unavailable
from recollect.ports.query import Query
from recollect.ports.records import Scope
from recollect.ports.steps import Insert
from recollect.testing.conformance.makers import found, memory, one_of_each, search

ROLES = f"{APP}, {UPKEEP}"


@pytest.fixture(scope="module")
def own_server() -> Iterator[Server]:
    """Of their own: roles belong to a whole server."""
    started = Server()
    yield started
    started.stop()


@pytest.fixture
def plain(own_server: Server) -> Iterator[tuple[Server, str]]:
    """A server, and a store on it that was made before the extension; the roles as they are on one server."""
    address = own_server.new_store()
    with opened(address) as store:
        scope = found(store, "acme")
        store.transact(scope, [Insert(one) for one in one_of_each(scope)[1:]])
    own_server.admin(f"ALTER ROLE {APP} NOLOGIN; ALTER ROLE {UPKEEP} NOLOGIN")
    create_extension(own_server, name_of(address))
    yield own_server, address
    own_server.admin(f"ALTER ROLE {APP} NOSUPERUSER; ALTER ROLE {UPKEEP} NOSUPERUSER")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the store asks its server, in order."""
    heard: list[str] = []

    class Listening(psycopg.Cursor[Any]):
        def execute(self, query: Any, *given: Any, **named: Any) -> Any:
            heard.append(str(query))
            return super().execute(query, *given, **named)

    monkeypatch.setattr(Database, "cursor_factory", Listening)
    return heard


@pytest.fixture
def spread(plain: tuple[Server, str], asked: list[str]) -> Iterator[PostgresStore]:
    with opened(plain[1]) as store:
        store.distribute()
        asked.clear()
        yield store


@contextmanager
def opened(address: str) -> Iterator[PostgresStore]:
    with closing(PostgresStore(address)) as store:
        yield store


def name_of(address: str) -> str:
    return address.rpartition("/")[2]


def about(made: list[tuple[str, str, str]], what: str) -> list[str]:
    return [on for kind, on, _ in made if kind == what]


class TestSpreading:
    def test_roles_come_first_tables_in_one_transaction_and_what_is_left_behind_last(
        self, plain: tuple[Server, str]
    ) -> None:
        with opened(plain[1]) as store:
            assert set(store.distribute()) >= set(RECORDS)
        made = calls(plain[0], name_of(plain[1]))
        assert [kind for kind, *_ in dict.fromkeys((kind,) for kind, *_ in made)] == [
            "workers", "reference", "distributed", "truncated"
        ]  # fmt: skip
        transactions = {
            kind: {number for known, _, number in made if known == kind} for kind in ("workers", "distributed")
        }
        assert len(transactions["distributed"]) == 1
        assert not transactions["workers"] & transactions["distributed"]
        assert about(made, "reference") == ["recollect_migrations", "recollect_store"]
        assert about(made, "distributed")[0] == "organization"
        assert len(about(made, "distributed")) == len(RECORDS) + 1

    def test_nothing_is_left_behind_on_the_coordinator(self, plain: tuple[Server, str]) -> None:
        with opened(plain[1]) as store:
            store.distribute()
        holding = plain[0].admin(
            "SELECT c.oid::regclass::text FROM pg_class c JOIN pg_dist_partition p ON p.logicalrelid = c.oid "
            "WHERE c.relkind = 'r' AND pg_relation_size(c.oid) > 0 ORDER BY 1",
            name_of(plain[1]),
        )
        assert len(holding) > len(RECORDS)
        assert about(calls(plain[0], name_of(plain[1])), "truncated") == [table for (table,) in holding]

    def test_it_can_be_repeated_after_it_was_cut_off_before_the_end(self, plain: tuple[Server, str]) -> None:
        with opened(plain[1]) as store:
            with store.as_owner() as connection, connection.transaction():
                distribution.spread(connection)
            assert about(calls(plain[0], name_of(plain[1])), "truncated") == []
            assert store.distribute() == []
            assert "memory_other" in about(calls(plain[0], name_of(plain[1])), "truncated")

    def test_everything_is_there_as_before(self, plain: tuple[Server, str]) -> None:
        acme = Scope("acme")
        with opened(plain[1]) as store:
            before = {table: store.find(acme, Query(record, limit=9)).records for table, record in RECORDS.items()}
            store.distribute()
            after = {table: store.find(acme, Query(record, limit=9)).records for table, record in RECORDS.items()}
            assert after == before
            assert all(before.values())
            assert store.verify() == []

    def test_embeddings_are_one_table_with_the_same_indexes_and_the_same_wall(self, plain: tuple[Server, str]) -> None:
        asked = (
            "SELECT regexp_replace(pg_get_indexdef(i.indexrelid), ' ONLY', '') FROM pg_index i "
            "WHERE indrelid = 'embedding'::regclass ORDER BY 1",
            "SELECT polname, polcmd, pg_get_expr(polqual, polrelid) FROM pg_policy "
            "WHERE polrelid = 'embedding'::regclass ORDER BY 1",
            "SELECT relacl::text, relrowsecurity, relforcerowsecurity FROM pg_class WHERE oid = 'embedding'::regclass",
            "SELECT attname, format_type(atttypid, atttypmod), attnotnull, attstorage, attgenerated, attcollation "
            "FROM pg_attribute WHERE attrelid = 'embedding'::regclass AND attnum > 0 ORDER BY attnum",
        )
        name = name_of(plain[1])
        before = [plain[0].admin(text, name) for text in asked]
        with opened(plain[1]) as store:
            assert len(store.embedding_tables) == 8
            store.distribute()
            assert store.embedding_tables == ["embedding"]
        assert [plain[0].admin(text, name) for text in asked] == before
        with opened(plain[1]) as store:
            assert store.embedding_tables == ["embedding"]

    @pytest.mark.parametrize(("workers", "shards"), [(0, 16), (1, 16), (4, 16), (5, 32), (16, 64)])
    def test_there_are_as_many_shards_as_the_machines_need(self, workers: int, shards: int) -> None:
        assert distribution.shards_for(workers) == shards

    @pytest.mark.parametrize(("given", "shards"), [(None, 16), (48, 48)])
    def test_the_settings_say_how_many_shards(self, plain: tuple[Server, str], given: int | None, shards: int) -> None:
        with recollect.open(plain[1], embedder="hash", citus_shards=given) as mem:
            mem.migrate(distribute=True)
        made = "SELECT DISTINCT shards FROM pg_dist_partition WHERE beside = 'none' AND shards > 1"
        assert plain[0].admin(made, name_of(plain[1])) == [(shards,)]

    def test_what_a_later_version_adds_is_spread_when_the_store_is_opened(
        self, plain: tuple[Server, str], spread: PostgresStore
    ) -> None:
        plain[0].admin("DELETE FROM pg_dist_partition WHERE logicalrelid = 'tag'::regclass", name_of(plain[1]))
        with opened(plain[1]) as store:
            assert store.database.is_distributed
        assert about(calls(plain[0], name_of(plain[1])), "distributed").count("tag") == 2

    def test_a_second_database_does_not_wait_for_the_first(self, plain: tuple[Server, str]) -> None:
        second = plain[0].new_store()
        create_extension(plain[0], name_of(second))
        for address in (plain[1], second):
            with opened(address) as store:
                assert set(store.distribute()) >= set(RECORDS)
                scope = found(store, "globex")
                store.transact(scope, [Insert(memory(scope, "mine", text="an anchor"))])
                assert search(store, scope, "anchor") == ["mine"]

    def test_every_wait_has_an_end(self, plain: tuple[Server, str], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(distribution, "BUSY_SECONDS", 1)
        with (
            psycopg.connect(plain[1]) as writer,
            opened(plain[1]) as store,
        ):
            writer.execute("LOCK TABLE embedding IN ROW EXCLUSIVE MODE")
            with pytest.raises(StoreBusy):
                store.distribute()
        assert about(calls(plain[0], name_of(plain[1])), "truncated") == []


class TestRoles:
    def test_they_may_log_in_once_the_tables_are_spread(self, plain: tuple[Server, str], spread: PostgresStore) -> None:
        may = f"SELECT rolname FROM pg_roles WHERE rolcanlogin AND rolname IN ('{APP}', '{UPKEEP}') ORDER BY 1"
        assert plain[0].admin(may) == [(APP,), (UPKEEP,)]

    def test_a_plain_owner_spreads_what_an_administrator_prepared(self, plain: tuple[Server, str]) -> None:
        admin, address = plain[0].admin, plain[0].new_database()
        name = name_of(address)
        admin("DROP ROLE IF EXISTS keeper; CREATE ROLE keeper LOGIN")
        admin(
            f"GRANT {ROLES} TO keeper WITH INHERIT FALSE, SET TRUE; ALTER ROLE {APP} LOGIN; ALTER ROLE {UPKEEP} LOGIN"
        )
        admin(f"ALTER DATABASE {name} OWNER TO keeper; CREATE EXTENSION vector", name)
        admin("GRANT CREATE ON SCHEMA public TO keeper", name)
        create_extension(plain[0], name)
        with opened(plain[0].address(name, "keeper")) as store:
            assert set(store.distribute()) >= set(RECORDS)
            scope = found(store, "acme")
            store.transact(scope, [Insert(memory(scope, "mine", text="an anchor"))])
            assert search(store, scope, "anchor") == ["mine"]
            assert [one.remedy for one in store.machines()] == [""]
            assert store.mend() == ["memory: 1 in the text index"]

    def test_a_plain_owner_who_may_not_change_them_is_told_what_to_ask_for(self, plain: tuple[Server, str]) -> None:
        admin, address = plain[0].admin, plain[0].new_database()
        name = name_of(address)
        admin("DROP ROLE IF EXISTS owner; CREATE ROLE owner LOGIN")
        admin(f"GRANT {ROLES} TO owner WITH INHERIT FALSE, SET TRUE")
        admin(f"ALTER DATABASE {name} OWNER TO owner")
        admin("GRANT CREATE ON SCHEMA public TO owner", name)
        create_extension(plain[0], name)
        with opened(plain[0].address(name, "owner")) as store:
            with pytest.raises(StoreReadOnly, match="must be able to log in") as caught:
                store.distribute()
            assert f"ALTER ROLE {APP} LOGIN" in caught.value.remedy
        assert about(calls(plain[0], name), "distributed") == []

    def test_a_worker_that_does_not_let_the_roles_in_is_named_before_anything_is_changed(
        self, plain: tuple[Server, str]
    ) -> None:
        plain[0].admin(f"ALTER ROLE {APP} CONNECTION LIMIT 0")
        try:
            with opened(plain[1]) as store:
                with pytest.raises(Unavailable, match=f"worker-1:5432 .* does not let {APP} in") as caught:
                    store.distribute()
                assert "pg_hba.conf" in caught.value.remedy
                assert not store.database.is_distributed
        finally:
            plain[0].admin(f"ALTER ROLE {APP} CONNECTION LIMIT -1")
        assert about(calls(plain[0], name_of(plain[1])), "distributed") == []

    def test_the_command_for_a_worker_makes_what_is_missing_and_no_more(self, plain: tuple[Server, str]) -> None:
        with psycopg.connect(plain[1], autocommit=True) as connection:
            command = distribution.roles_on_a_worker(connection)
            for _ in range(2):
                connection.execute(command)
            for role in (APP, UPKEEP):
                connection.execute(f"ALTER ROLE {role} RENAME TO {role}_away")
            try:
                connection.execute(command)
                made = connection.execute(
                    "SELECT rolname, rolcanlogin, rolsuper, rolbypassrls FROM pg_roles "
                    "WHERE rolname = ANY(%s) ORDER BY 1",
                    ([APP, UPKEEP],),
                ).fetchall()
                assert made == [(APP, True, False, False), (UPKEEP, True, False, False)]
            finally:
                for role in (APP, UPKEEP):
                    connection.execute(f"REVOKE {role} FROM postgres; DROP ROLE {role}")
                    connection.execute(f"ALTER ROLE {role}_away RENAME TO {role}")


class TestUpkeep:
    def test_text_indexes_are_made_again_shard_by_shard(
        self, plain: tuple[Server, str], spread: PostgresStore, asked: list[str]
    ) -> None:
        assert spread.mend() != []
        spread.erase_words()
        assert not [text for text in asked if text.startswith("REINDEX")]
        made = about(calls(plain[0], name_of(plain[1])), "shards")
        assert {"memory_other", f"memory_{now():%Y_%m}"} <= set(made)
        assert "memory" not in made
        assert spread.verify() == []

    def test_a_shard_whose_index_cannot_be_made_is_told(self, plain: tuple[Server, str], spread: PostgresStore) -> None:
        with psycopg.connect(plain[1]) as other:
            other.execute("LOCK TABLE memory_other IN ROW EXCLUSIVE MODE")
            with spread.as_owner() as connection, pytest.raises(StoreError, match="on 1 of 1 shards"):
                cluster.reindex_text(connection, "memory")

    def test_an_owner_never_takes_another_role_within_a_transaction(
        self, spread: PostgresStore, asked: list[str]
    ) -> None:
        """Its connections to the workers are others then, and wait for what the owner's have locked."""
        with spread.as_owner() as connection:
            make_partitions(connection, datetime(2021, 3, 5, tzinfo=UTC), 0)
            # Citus does that by itself, whenever a table that is spread gets a partition.
            connection.execute("INSERT INTO pg_dist_partition VALUES ('access_log_2021_03', 16, 'organization')")
        march = next(one for one in spread.partitions() if one.name == "access_log_2021_03")
        asked.clear()
        spread.mend()
        assert spread.drop(march, [AccessLog(organization_id="acme", id="note", operation="delete")])
        entering = [number for number, text in enumerate(asked) if text.startswith("SET LOCAL ROLE")]
        assert entering
        for number in entering:
            assert asked[number - 1].startswith(("BEGIN", "SET LOCAL lock_timeout")), asked[number - 3 : number + 1]
            assert asked[number - 2].startswith(("BEGIN", "SELECT concat")) or asked[number - 1].startswith("BEGIN")
        assert spread.get(Scope("acme"), AccessLog, "note") is not None
        assert "access_log_2021_03" not in [one.name for one in spread.partitions()]

    def test_many_rows_go_in_few_statements(self, spread: PostgresStore, asked: list[str]) -> None:
        scope = found(spread, "globex")
        asked.clear()
        spread.transact(scope, [Insert(memory(scope, f"m{n}", text=f"number{n}", version=n + 1)) for n in range(150)])
        inserts = [text for text in asked if text.startswith('INSERT INTO "memory"')]
        assert [text.count("), (") + 1 for text in inserts] == [64, 64, 22]
        assert not any(broken(text) for text in inserts)
        assert spread.count(scope, Query(Memory)) == 150
        assert search(spread, scope, "number149") == ["m149"]

    def test_partitions_are_counted_over_all_shards(self, spread: PostgresStore) -> None:
        listed = {one.name: one for one in spread.partitions()}
        assert {"memory_other", "access_log_other", "embedding"} <= set(listed)
        assert "embedding_0" not in listed
        assert listed["embedding"].holds == "organizations, in 1 shards"
        assert listed["memory_other"].bytes > 0

    def test_doctor_asks_every_machine(self, plain: tuple[Server, str], spread: PostgresStore) -> None:
        with recollect.open(plain[1], organization="acme", embedder="hash") as mem:
            assert finding(mem).well
            plain[0].admin(f"ALTER ROLE {UPKEEP} CONNECTION LIMIT 0")
            try:
                told = finding(mem)
                assert not told.well
                assert f"does not let {UPKEEP} in" in told.says
                with pytest.raises(Unavailable, match="does not let"):
                    examine(plain[1])
            finally:
                plain[0].admin(f"ALTER ROLE {UPKEEP} CONNECTION LIMIT -1")
            assert "each of which answers as" in examine(plain[1])

    def test_config_check_says_that_the_tables_are_not_spread_yet(self, plain: tuple[Server, str]) -> None:
        assert "the tables are not spread over it" in examine(plain[1])

    def test_what_an_interrupted_build_left_on_some_shards_is_cleared_away(
        self, spread: PostgresStore, asked: list[str]
    ) -> None:
        with spread.as_owner() as connection:
            if not spread.has_vectors:
                pytest.skip("the server has no pgvector")
            make_index(connection, "embedding_hnsw_x", "embedding", 3, "dimensions = 3")
            connection.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'embedding_hnsw_x'::regclass")
            make_index(connection, "embedding_hnsw_x", "embedding", 3, "dimensions = 3")
        dropped = [text for text in asked if text.startswith("DROP INDEX")]
        assert [text.endswith("IF EXISTS embedding_hnsw_x") for text in dropped] == [True]


def finding(mem: Any) -> Any:
    return next(one for one in mem.doctor().findings if one.name == "machine worker-1:5432")


@pytest.mark.parametrize(
    ("catalog", "column"),
    [("pg_proc", "pronamespace"), ("pg_ts_config", "cfgnamespace"), ("pg_ts_dict", "dictnamespace")],
)
def test_the_schema_has_nothing_that_citus_would_not_see(catalog: str, column: str) -> None:
    """What a function's body names is invisible to Citus: we have no function, and no dictionary, of our own."""
    ours = (
        f"SELECT count(*) FROM {catalog} o WHERE {column} = 'public'::regnamespace "
        "AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = o.oid AND d.deptype = 'e')"
    )
    assert server().admin(ours, server().empty()) == [(0,)]


def test_the_tests_of_a_real_cluster_start_and_run(own_server: Server, tmp_path: Path) -> None:
    """Nobody here has a cluster to see that: on the stand-in, some of those that ask no more than it can do."""
    some = "test_the_wall or second_database or plain_owner or every_machine or copied or counted_by"
    file = Path(__file__).with_name("test_citus_cluster.py")
    arguments = ["-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'cluster'}", "-k", some, str(file)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments],
        env={**os.environ, "RECOLLECT_CITUS_URL": offer_extension(own_server)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert done.stdout.count(".") >= 6
