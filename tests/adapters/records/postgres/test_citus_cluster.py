"""A real Citus cluster: the whole contract, stores made before and after the extension, machines lost and shards moved.

Runs wherever `RECOLLECT_CITUS_URL` is the address of a database on a coordinator, as an administrator, in which Citus
is created and the workers are added. The tests make and drop databases whose names begin with `recollect_test_` there
and on every worker, so the machines must let that administrator, `recollect_app`, `recollect_upkeep` and
`recollect_keeper` in from the coordinator for every database (docs/scale.md). A worker is crashed on the way (it comes
back by itself), and shards are moved between the first two.
"""

from __future__ import annotations

import os
import random
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

import recollect
from postgres_server import BIN
from recollect.adapters.postgres.connection import APP, UPKEEP
from recollect.adapters.records.postgres.schema import first_id, make_partitions
from recollect.adapters.records.postgres.store import PostgresStore
from recollect.app.store_copies import copy
from recollect.app.store_restore import restore
from recollect.domain.audit import AccessLog
from recollect.domain.memory import Embedding, Memory
from recollect.domain.record import RECORDS, Record
from recollect.errors import RecollectError
from recollect.ports.query import Query
from recollect.ports.records import RecordStore, Scope
from recollect.ports.steps import Insert
from recollect.testing.conformance import RecordStoreContract
from recollect.testing.conformance.makers import embedding, every_type, found, memory, one_of_each, search

CITUS = os.environ.get("RECOLLECT_CITUS_URL")
pytestmark = pytest.mark.skipif(
    not CITUS, reason="NOT RUN ON A REAL CITUS CLUSTER: set RECOLLECT_CITUS_URL to the address of a coordinator"
)
TABLES = (*sorted(RECORDS), "recollect_gone")
WRITERS, ORGANIZATIONS = 6, 12


class Cluster:
    """The machines, and databases of our own on all of them."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._names: list[str] = []

    def address(self, database: str, user: str | None = None) -> str:
        parts = urlsplit(self._url)
        place = parts.netloc.rpartition("@")[2] if user else parts.netloc
        return parts._replace(path=f"/{database}", netloc=f"{user}@{place}" if user else place).geturl()

    def run(self, statement: str, values: Sequence[object] = (), database: str | None = None) -> list[Any]:
        """As the administrator, on the coordinator."""
        with psycopg.connect(self.address(database) if database else self._url, autocommit=True) as connection:
            done = connection.execute(statement, values or None)
            return done.fetchall() if done.description else []

    @cached_property
    def workers(self) -> list[tuple[str, int]]:
        found = self.run("SELECT node_name, node_port::int FROM citus_get_active_worker_nodes() ORDER BY 1, 2")
        assert found, "the cluster has no workers"
        return found

    def on_worker(self, worker: tuple[str, int], command: str, database: str | None = None) -> tuple[bool, str]:
        """By the coordinator: nobody else needs to reach the workers."""
        host, port = worker
        asked = "SELECT success, result FROM master_run_on_worker(ARRAY[%s], ARRAY[%s]::int[], ARRAY[%s], false)"
        ((well, says),) = self.run(asked, (host, port, command), database)
        return bool(well), str(says)

    def new_database(self, name: str) -> str:
        """On every machine, still without the extension; gives its name."""
        name = f"recollect_test_{name}"
        self.drop(name)
        self._names.append(name)
        self.run(f"CREATE DATABASE {name}")
        for worker in self.workers:
            well, says = self.on_worker(worker, f"CREATE DATABASE {name}")
            assert well or "exists" in says, says
        return name

    def create_extension(self, name: str) -> None:
        self.run("CREATE EXTENSION IF NOT EXISTS citus", database=name)
        for worker in self.workers:
            well, says = self.on_worker(worker, "CREATE EXTENSION IF NOT EXISTS citus", name)
            assert well, says
        here = "SELECT nodename, nodeport FROM pg_dist_node WHERE groupid = 0 AND noderole = 'primary'"
        for host, port in self.run(here):
            self.run("SELECT citus_set_coordinator_host(%s, %s)", (host, port), name)
        for host, port in self.workers:
            self.run("SELECT citus_add_node(%s, %s)", (host, port), name)

    def drop(self, name: str) -> None:
        self.run(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        for worker in self.workers:
            self.on_worker(worker, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def new_store(self, name: str) -> str:
        """The address of an empty store that is spread over the cluster."""
        made = self.new_database(name)
        self.create_extension(made)
        with opened(self.address(made)) as store:
            assert set(store.distribute()) >= set(RECORDS)
            assert store.distribute() == []
        return self.address(made)

    def close(self) -> None:
        for name in self._names:
            self.drop(name)


@contextmanager
def opened(address: str) -> Iterator[PostgresStore]:
    with closing(PostgresStore(address)) as store:
        yield store


def emptied(address: str) -> None:
    with psycopg.connect(address, autocommit=True) as connection:
        known = "SELECT id FROM organization UNION SELECT DISTINCT organization_id FROM recollect_gone"
        for (organization,) in connection.execute(known).fetchall():
            for table in TABLES:
                connection.execute(f'DELETE FROM "{table}" WHERE organization_id = %s', (organization,))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    assert CITUS is not None
    one = Cluster(CITUS)
    yield one
    one.close()


@pytest.fixture(scope="module")
def made(cluster: Cluster) -> str:
    return cluster.new_store("contract")


@pytest.fixture
def address(made: str) -> str:
    emptied(made)
    return made


@pytest.fixture
def spread(address: str) -> Iterator[PostgresStore]:
    with opened(address) as store:
        assert store.database.is_distributed
        yield store


class TestTheContract(RecordStoreContract):
    """Every rule that every store keeps."""

    @pytest.fixture
    def store(self, address: str) -> Iterator[RecordStore]:
        with opened(address) as store:
            assert store.database.is_distributed
            yield store

    @pytest.fixture
    def deleted_types(self) -> list[type[Record]]:
        return every_type()

    @pytest.fixture
    def reopen(self) -> Iterator[Callable[[RecordStore], RecordStore]]:
        again: list[PostgresStore] = []

        def reopen(before: RecordStore) -> RecordStore:
            assert isinstance(before, PostgresStore)
            before.close()
            again.append(PostgresStore(before.database.conninfo))
            return again[-1]

        yield reopen
        for one in again:
            one.close()


class TestTheStore:
    def test_records_of_every_type_come_back_and_are_sound(self, spread: PostgresStore) -> None:
        for name in ("acme", "globex"):
            scope = found(spread, name)
            spread.transact(scope, [Insert(one) for one in one_of_each(scope)[1:]])
            for record in RECORDS.values():
                assert spread.count(scope, Query(record)) >= 1, record
        assert spread.verify() == []

    def test_the_wall_stands_on_the_workers(self, spread: PostgresStore) -> None:
        scope = found(spread, "walled")
        spread.transact(scope, [Insert(one) for one in one_of_each(scope)[1:]])
        for table in RECORDS:
            with spread.database.reading("nobody") as connection:
                assert connection.execute(f'SELECT count(*) FROM "{table}"').fetchall() == [(0,)], table

    def test_what_was_there_is_not_kept_on_the_coordinator(self, spread: PostgresStore) -> None:
        with spread.as_owner() as connection:
            kept = connection.execute(
                "SELECT c.oid::regclass::text FROM pg_dist_partition p JOIN pg_class c ON c.oid = p.logicalrelid "
                "WHERE c.relkind = 'r' AND pg_relation_size(c.oid) > 0"
            ).fetchall()
        assert kept == []

    def test_there_are_few_shards_and_they_lie_on_every_worker(self, cluster: Cluster, spread: PostgresStore) -> None:
        with spread.as_owner() as connection:
            shards = connection.execute(
                "SELECT count(DISTINCT shardid), count(DISTINCT (nodename, nodeport)) FROM citus_shards "
                "WHERE table_name = 'organization'::regclass"
            ).fetchall()[0]
        assert shards[0] <= max(16, 8 * len(cluster.workers))
        assert shards[1] >= min(len(cluster.workers), 2)
        assert list(spread.embedding_tables) == ["embedding"]

    def test_text_is_found_and_its_index_made_again(self, spread: PostgresStore) -> None:
        scope = found(spread, "acme")
        spread.transact(scope, [Insert(memory(scope, f"m{n}", text=f"an anchor, number{n}")) for n in range(20)])
        assert search(spread, scope, "number7") == ["m7"]
        assert spread.mend() == ["memory: 20 in the text index"]
        spread.erase_words()
        spread.erase_traces()
        assert search(spread, scope, "number7") == ["m7"]
        assert spread.verify() == []

    def test_months_are_made_counted_and_dropped_with_a_note(self, spread: PostgresStore) -> None:
        scope = found(spread, "acme")
        with spread.as_owner() as connection:
            make_partitions(connection, datetime(2021, 3, 5, tzinfo=UTC), 0)
        old = [
            AccessLog(organization_id="acme", id=first_id(2021, 3)[:-2] + f"{n:02x}", operation="read")
            for n in range(9)
        ]
        spread.transact(scope, [Insert(one) for one in old])
        with spread.as_owner() as connection:
            connection.execute("ANALYZE access_log")
        march = next(one for one in spread.partitions() if one.name == "access_log_2021_03")
        assert (march.rows, march.bytes > 0) == (9, True)
        assert spread.rows_by_tenant(march) == {"acme": 9}
        assert spread.drop(march, [AccessLog(organization_id="acme", id="note", operation="delete")])
        assert spread.get(scope, AccessLog, "note") is not None
        assert spread.count(scope, Query(AccessLog)) == 1

    def test_an_index_of_vectors_that_was_cut_off_is_made(self, cluster: Cluster, spread: PostgresStore) -> None:
        from recollect.adapters.vectors.halfvec_sql import make_index

        if not spread.has_vectors:
            pytest.skip("the cluster has no pgvector")
        scope = found(spread, "acme")
        spread.transact(scope, [Insert(memory(scope)), Insert(embedding(scope, "fact", b"\x00\x3c"))])
        name = "embedding_hnsw_cut_off"
        with spread.as_owner() as connection:
            make_index(connection, name, "embedding", 1, "dimensions = 1")
            # As a build leaves it that was cut off: absent on some shards, and not valid here.
            connection.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = %s::regclass", (name,))
            one = connection.execute(
                "SELECT min(shardid) FROM pg_dist_shard WHERE logicalrelid = 'embedding'::regclass"
            ).fetchall()[0][0]
            connection.execute(
                "SELECT run_command_on_shards('embedding', $$ DO $do$ BEGIN IF '%s' LIKE '%%" + str(one) + "' "
                "THEN DROP INDEX IF EXISTS " + f"{name}_{one}" + "; END IF; END $do$ $$)"
            )
            make_index(connection, name, "embedding", 1, "dimensions = 1")
            valid = connection.execute("SELECT indisvalid FROM pg_index WHERE indexrelid = %s::regclass", (name,))
            assert valid.fetchall() == [(True,)]
            connection.execute(f"DROP INDEX {name}")

    def test_every_machine_is_asked(self, cluster: Cluster, address: str) -> None:
        with recollect.open(address, organization="acme", embedder="hash") as mem:
            told = {one.name: one.well for one in mem.doctor().findings if one.name.startswith("machine ")}
        assert told == {f"machine {host}:{port}": True for host, port in cluster.workers}


class TestTheProduct:
    def test_a_memory_is_kept_found_revised_and_erased(self, address: str) -> None:
        with recollect.open(address, organization="acme", embedder="hash") as mem:
            kept = mem.remember("the boat is blue", tags=["boats"])
            mem.remember_many([{"content": f"harbour number {n}"} for n in range(300)])
            for by in ("everything", "meaning", "words"):
                assert mem.recall("blue boat", by=by)[0].id == kept.id
            mem.revise(kept.id, "the boat is red")
            mem.erase(kept.id)
            assert not [hit for hit in mem.recall("red boat") if hit.id == kept.id]
            assert mem.verify().sound

    def test_a_backup_of_records_is_restored_as_a_file(self, address: str, tmp_path: Path) -> None:
        with recollect.open(address, organization="acme", embedder="hash") as mem:
            kept = mem.remember("the boat is blue").id
            mem.backup(f"{tmp_path}/backups/")
        restore(f"{tmp_path}/backups/", tmp_path / "restored.db", embedder="hash")
        with recollect.open(tmp_path / "restored.db", organization="acme", embedder="hash") as mem:
            assert mem.show(kept).text == "the boat is blue"
            assert mem.verify().sound

    def test_a_dump_holds_the_records_of_all_machines(self, spread: PostgresStore, tmp_path: Path) -> None:
        for number in range(ORGANIZATIONS):
            scope = found(spread, f"org{number}")
            spread.transact(scope, [Insert(memory(scope, "mine", text=f"anchor{number}"))])
        spread.tools = BIN
        spread.backup(tmp_path / "whole.pgdump")
        listed = subprocess.run(
            [BIN / "pg_restore", "--data-only", "--file=-", tmp_path / "whole.pgdump"],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        assert [number for number in range(ORGANIZATIONS) if f"anchor{number}" not in listed] == []

    def test_all_of_it_is_copied_to_a_file_and_back(self, address: str, cluster: Cluster, tmp_path: Path) -> None:
        with recollect.open(address, organization="acme", embedder="hash") as mem:
            mem.remember_many([{"content": f"harbour number {n}"} for n in range(50)])
        copy(address, tmp_path / "copy.db")
        with recollect.open(tmp_path / "copy.db", organization="acme", embedder="hash") as mem:
            assert mem._core.store.count(Scope("acme"), Query(Memory)) == 50
        emptied(address)
        copy(tmp_path / "copy.db", address)
        with opened(address) as store:
            assert store.count(Scope("acme"), Query(Memory)) == 50
            assert store.count(Scope("acme"), Query(Embedding)) > 0
            assert store.verify() == []


class TestOtherDatabases:
    def test_a_store_made_before_the_extension(self, cluster: Cluster) -> None:
        name = cluster.new_database("before")
        address = cluster.address(name)
        with opened(address) as store:
            scope = found(store, "acme")
            store.transact(scope, [Insert(one) for one in one_of_each(scope)[1:]])
            store.transact(scope, [Insert(memory(scope, f"m{n}", text=f"number{n}")) for n in range(30)])
        cluster.create_extension(name)
        with opened(address) as store:
            assert set(store.distribute()) >= set(RECORDS)
            for record in RECORDS.values():
                assert store.count(Scope("acme"), Query(record)) >= 1, record
            assert search(store, Scope("acme"), "number7") == ["m7"]
            assert store.verify() == []
            with store.as_owner() as connection:
                left = "SELECT 1 FROM pg_dist_partition p WHERE pg_relation_size(p.logicalrelid) > 0"
                assert connection.execute(left).fetchall() == []

    def test_a_second_database_at_the_same_time(self, cluster: Cluster, made: str) -> None:
        names = [cluster.new_database(f"second_{n}") for n in range(2)]
        for name in names:
            cluster.create_extension(name)
        done: list[str] = []

        def make(name: str) -> None:
            with opened(cluster.address(name)) as store:
                store.distribute()
                scope = found(store, "acme")
                store.transact(scope, [Insert(memory(scope, "mine", text="an anchor"))])
                assert search(store, scope, "anchor") == ["mine"]
            done.append(name)

        threads = [threading.Thread(target=make, args=(name,)) for name in names]
        for one in threads:
            one.start()
        for one in threads:
            one.join(300)
        assert sorted(done) == sorted(names)

    def test_a_plain_owner(self, cluster: Cluster) -> None:
        name = cluster.new_database("owned")
        cluster.create_extension(name)
        cluster.run("CREATE EXTENSION IF NOT EXISTS vector", database=name)
        keeper = "recollect_keeper"
        for role in (APP, UPKEEP, keeper):
            there = cluster.run("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,), name)
            cluster.run(f"{'ALTER' if there else 'CREATE'} ROLE {role} LOGIN", database=name)
        cluster.run(f"GRANT {APP}, {UPKEEP} TO {keeper} WITH INHERIT FALSE, SET TRUE", database=name)
        # What Citus knows already it takes to the workers itself; what was there before, an administrator does.
        missing = " ".join(
            f"IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = '{role}') THEN CREATE ROLE {role} LOGIN; END IF; "
            f"ALTER ROLE {role} LOGIN;"
            for role in (APP, UPKEEP, keeper)
        )
        alone = "PERFORM set_config('citus.enable_ddl_propagation', 'off', true);"
        granted = f"GRANT CREATE ON SCHEMA public TO {keeper};"
        cluster.run(granted, database=name)
        for worker in cluster.workers:
            well, says = cluster.on_worker(worker, f"DO $do$ BEGIN {alone} {missing} {granted} END $do$", name)
            assert well, says
        with opened(cluster.address(name, keeper)) as store:
            assert set(store.distribute()) >= set(RECORDS)
            scope = found(store, "acme")
            store.transact(scope, [Insert(one) for one in one_of_each(scope)[1:]])
            assert store.verify() == []
            assert store.mend() != []
            assert [one.remedy for one in store.machines()] == [""] * len(cluster.workers)


class Writers:
    """Threads that write to many organizations, and remember what was acknowledged."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.acknowledged: list[tuple[str, str]] = []
        self.unknown: set[str] = set()
        self.errors: set[str] = set()
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(number,)) for number in range(WRITERS)]

    def __enter__(self) -> Writers:
        with opened(self._address) as store:
            for number in range(ORGANIZATIONS):
                found(store, f"org{number}")
        for one in self._threads:
            one.start()
        self.wait_for(50)
        return self

    def __exit__(self, *problem: object) -> None:
        self._over.set()
        for one in self._threads:
            one.join(120)

    def wait_for(self, more: int) -> None:
        goal, deadline = len(self.acknowledged) + more, time.monotonic() + 180
        while len(self.acknowledged) < goal:
            assert time.monotonic() < deadline, "nothing is written any more"
            time.sleep(0.05)

    def _write(self, writer: int) -> None:
        chance, count = random.Random(writer), 0
        with opened(self._address) as store:
            while not self._over.is_set():
                organization, id = f"org{chance.randrange(ORGANIZATIONS)}", f"w{writer}-{count}"
                count += 1
                try:
                    store.transact(Scope(organization), [Insert(memory(Scope(organization), id))])
                    self.acknowledged.append((organization, id))
                except RecollectError as error:
                    self.unknown.add(id)  # it may be there, or not
                    self.errors.add(error.code)

    def check(self) -> None:
        """Nothing that was acknowledged is lost, and nothing is there that nobody wrote."""
        kept: list[tuple[str, str]] = []
        with opened(self._address) as store:
            for number in range(ORGANIZATIONS):
                scope = Scope(f"org{number}")
                kept += [(scope.organization_id, str(id)) for (id,) in store.select(scope, Query(Memory), ("id",))]
            assert store.verify() == []
        assert set(self.acknowledged) <= set(kept)
        assert {id for _, id in set(kept) - set(self.acknowledged)} <= self.unknown
        assert len(kept) == len(set(kept))
        assert self.errors <= {"unavailable", "store_busy", "store_error"}


class TestFailures:
    def test_a_worker_that_crashes_under_writers_loses_nothing(self, cluster: Cluster, address: str) -> None:
        """Killing one backend without a word makes a server end all of them and recover from its log."""
        crash = "COPY (SELECT pg_backend_pid()) TO PROGRAM 'xargs kill -9'"
        with Writers(address) as writers:
            for worker in cluster.workers[:2]:
                well, _ = cluster.on_worker(worker, crash)
                assert not well
                writers.wait_for(200)
        writers.check()

    def test_shards_move_under_writers_and_lose_nothing(self, cluster: Cluster, address: str) -> None:
        if len(cluster.workers) < 2:
            pytest.skip("the cluster has one worker")
        (here, there), name = cluster.workers[:2], urlsplit(address).path.lstrip("/")
        with Writers(address) as writers:
            placed = (
                "SELECT shardid FROM citus_shards WHERE table_name = 'organization'::regclass AND nodename = %s "
                "AND nodeport = %s ORDER BY shardid LIMIT 3"
            )
            how = cluster.on_worker(here, "SELECT current_setting('wal_level')")[1]
            mode = "force_logical" if how == "logical" else "block_writes"
            for (shard,) in cluster.run(placed, here, name):
                cluster.run(
                    "SELECT citus_move_shard_placement(%s, %s, %s, %s, %s, shard_transfer_mode => %s)",
                    (shard, *here, *there, mode),
                    name,
                )
                writers.wait_for(50)
        writers.check()
        with opened(address) as store:
            assert all(not one.remedy for one in store.machines())
