"""PostgreSQL behind a real PgBouncer that lends two connections by the transaction: all holds as without it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import psycopg
import pytest

import recollect
from citus_rules import Watched, watch
from pgbouncer import PgBouncer, needs_pgbouncer
from postgres_server import BIN, server
from recollect.adapters.postgres import connection as postgres_link
from recollect.adapters.postgres.connection import Connection, Database, ReadStatement
from recollect.adapters.postgres.errors import recollect_error
from recollect.adapters.records.postgres import preflight
from recollect.adapters.records.postgres.store import PostgresStore
from recollect.adapters.vectors.pgvector import PgVectorStore
from recollect.app import restore_backup
from recollect.domain.memory import Memory
from recollect.errors import InvalidSettings, RecollectError, StoreBusy, Unavailable
from recollect.ports.query import Query
from recollect.ports.records import RecordStore
from recollect.ports.steps import Insert
from recollect.testing.conformance import RecordStoreContract
from recollect.testing.conformance.makers import embedding, found, memory
from recollect.testing.conformance.sharing import SharingRules
from recollect.testing.conformance.snapshots import SnapshotRules
from recollect.testing.conformance.transactions import TransactionRules
from seeds import SOAK

pytestmark = needs_pgbouncer
SIZE = 3


@pytest.fixture(scope="module")
def pooler() -> Iterator[PgBouncer]:
    started = PgBouncer(server(), "transaction", SIZE)
    yield started
    started.stop()


@pytest.fixture
def address(pooler: PgBouncer) -> str:
    return pooler.before(server().emptied_store())


class ThroughThePooler:
    @pytest.fixture
    def store(self, address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[RecordStore]:
        watch(monkeypatch)
        opened = PostgresStore(address)
        assert opened.database.is_pooled
        yield opened
        opened.close()
        assert Watched.count > 0
        assert Watched.seen == {}

    @pytest.fixture
    def reopen(self, store: PostgresStore) -> Iterator[Callable[[RecordStore], RecordStore] | None]:
        opened: list[PostgresStore] = []

        def again(before: RecordStore) -> RecordStore:
            before.close()
            opened.append(PostgresStore(store.database.conninfo))
            return opened[-1]

        yield again
        for one in opened:
            one.close()


class TestTheRulesThatDependOnConnections(ThroughThePooler, TransactionRules, SharingRules, SnapshotRules):
    """What one transaction may leave to the next, and what runs at the same time. The other rules read the same
    statements off one connection, as without a pooler; they run in a soak."""

    acme, globex = RecordStoreContract.acme, RecordStoreContract.globex


class TestTheWholeContract(ThroughThePooler, RecordStoreContract):
    __test__ = SOAK


class TestManyClients:
    def test_eight_threads_of_every_kind_of_work_on_two_connections(self, pooler: PgBouncer) -> None:
        """With statements prepared and settings of the session, hardly one of these came through."""
        address = pooler.before(server().new_store())
        done: list[str] = []
        with recollect.open(address, embedder="hash") as mem, recollect.open(address, embedder="hash") as other:
            mem.user.add("ann", id="ann")
            for number in range(8):
                mem.agent.add(f"agent {number}", id=f"a{number}")
                mem.session.add(id=f"s{number}", user="ann")
                mem.workspace.add(f"a{number}", id=f"w{number}")

            def work(number: int) -> None:
                here = (mem, other)[number % 2]
                for turn in range(6):
                    said = here.remember(f"boat {number} {turn} is blue", user="ann", tags=[f"t{turn}"])
                    assert here.show(said.id).text == f"boat {number} {turn} is blue"
                    assert len(here.recall("which boat is blue?", user="ann", limit=3)) >= 1
                    here.revise(said.id, f"boat {number} {turn} is red")
                    assert here.list(user="ann", limit=5)
                    here.message.add("user", f"where is boat {turn}?", session=f"s{number}")
                    here.state.save(f"a{number}", {"turn": turn})
                    here.workspace.write(f"w{number}", "notes/plan.md", f"turn {turn}")
                    if turn % 3 == 2:
                        here.forget(said.id)
                    elif turn % 3 == 1:
                        here.erase(said.id)
                    done.append(said.id)

            with ThreadPoolExecutor(8) as pool:
                list(pool.map(work, range(8)))
            assert len(set(done)) == 48
            assert mem.stats().memories == 16
            assert mem.verify().sound
            mem.reindex()
            assert mem.doctor().well

    def test_nothing_is_left_on_a_connection_that_others_get(self, pooler: PgBouncer, address: str) -> None:
        with recollect.open(address, embedder="hash") as mem:
            mem.remember("the boat is blue")
            mem.recall("boat")
            mem.verify()
        left = (
            "SELECT current_user::text, current_setting('recollect.organization', true), "
            "current_setting('plan_cache_mode'), current_setting('lock_timeout'), "
            "(SELECT count(*) FROM pg_prepared_statements), "
            "(SELECT count(*) FROM pg_locks WHERE locktype = 'advisory')"
        )
        held = [psycopg.connect(address, prepare_threshold=None) for _ in range(SIZE)]
        try:  # each in a transaction, so that all connections of the pooler are seen
            for connection in held:
                assert connection.execute(left).fetchall()[0] in (
                    ("postgres", "", "auto", "0", 0, 0),
                    ("postgres", None, "auto", "0", 0, 0),
                )
        finally:
            for connection in held:
                connection.close()

    def test_no_setting_of_others_changes_an_answer(self, pooler: PgBouncer) -> None:
        """Whatever the connections behind a pooler are set to, each transaction says what it needs."""
        direct = server().new_store()
        name = direct.rpartition("/")[2]
        for setting in ("TimeZone = 'America/New_York'", "DateStyle = 'German'", "extra_float_digits = -5"):
            server().admin(f'ALTER DATABASE "{name}" SET {setting}')
        store = PostgresStore(pooler.before(direct))
        acme = found(store, "acme")
        early = datetime(1, 1, 1, tzinfo=UTC)
        store.transact(acme, [Insert(memory(acme, "m", created_at=early, importance=0.1234567890123))])
        got = store.get(acme, Memory, "m")
        assert got is not None
        assert (got.created_at, got.importance) == (early, 0.1234567890123)
        asked = (
            "SELECT current_setting('TimeZone'), current_setting('DateStyle'), current_setting('extra_float_digits')"
        )

        def answer(connection: Connection) -> list[tuple[str, ...]]:
            return connection.execute(asked).fetchall()

        told = [store.database.write("acme", answer), store.database.read("acme", answer)]
        told += store.database.ask("acme", ReadStatement(asked))
        for begun in (store.database.reading("acme"), store.database.moment("acme"), store.database.snapshot()):
            with begun as connection:
                told.append(answer(connection))
        store.database.is_distributed = True
        told += [store.database.write("acme", answer), *store.database.ask("acme", ReadStatement(asked))]
        assert [(zone, style.partition(",")[0], digits) for ((zone, style, digits),) in told] == [
            ("UTC", "ISO", "1")
        ] * 8
        store.close()

    def test_several_may_open_a_new_database_at_once(self, pooler: PgBouncer) -> None:
        address = pooler.before(server().new_database())
        with ThreadPoolExecutor(4) as pool:
            opened = list(pool.map(lambda _: PostgresStore(address), range(4)))
        assert sum(1 for one in opened if one.tenants() == []) == 4
        for one in opened:
            one.close()
        assert server().admin("SELECT 1 FROM pg_locks WHERE locktype = 'advisory'") == []

    def test_a_connection_lost_behind_the_pooler_is_replaced(self, pooler: PgBouncer, address: str) -> None:
        store = PostgresStore(address)
        acme = found(store, "acme")
        ended = threading.Event()

        def cut() -> None:
            while not ended.wait(0.02):
                server().admin(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = "
                    f"'{address.rpartition('/')[2]}' AND application_name = 'recollect' AND random() < 0.2"
                )

        with ThreadPoolExecutor(5) as pool:
            cutting = pool.submit(cut)
            try:
                list(pool.map(lambda n: store.transact(acme, [Insert(memory(acme, f"m{n:02}"))]), range(40)))
            finally:
                ended.set()
                cutting.result(10)
        assert store.count(acme, Query(Memory)) == 40
        store.close()

    def test_vector_indexes_are_made_through_it(self, pooler: PgBouncer) -> None:
        store = PostgresStore(pooler.before(server().new_store()))
        index = PgVectorStore(store, exact_rows=10, index_rows=50)
        acme = found(store, "acme")
        vectors = np.random.default_rng(3).normal(size=(80, 8)).astype("<f2")
        store.transact(acme, [Insert(memory(acme, f"m{n:02}")) for n in range(80)])
        made = [embedding(acme, f"m{n:02}", vectors[n].tobytes(), id=f"e{n}", dimensions=8) for n in range(80)]
        store.transact(acme, [Insert(one) for one in made])
        index.rebuild()
        assert len(index.search("acme", "long_term/m", vectors[0].astype(np.float32), 10)) == 10
        valid = "SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE c.relname LIKE "
        with store.as_owner() as connection:
            assert connection.execute(valid + "'embedding%%hnsw%%' AND indisvalid").fetchall() == [(8,)]
        index.close()
        store.close()

    def test_an_index_beside_another_store_is_kept_through_it(self, pooler: PgBouncer, tmp_path: Path) -> None:
        beside = {"provider": "pgvector", "url": pooler.before(server().new_database())}
        with recollect.open(tmp_path / "small.db", embedder="hash", vectors=beside) as mem:
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(lambda n: mem.remember(f"boat {n}"), range(12)))
                found = list(pool.map(lambda n: mem.recall(f"boat {n}", limit=1)[0].text, range(12)))
            mem.reindex()
            assert found == [f"boat {n}" for n in range(12)]
            assert mem.doctor().well


class TestSaid:
    def test_a_server_without_a_pooler_is_not_taken_for_one(self) -> None:
        store = PostgresStore(server().emptied_store())
        assert not store.database.is_pooled
        store.close()

    @pytest.mark.parametrize("option", ["", "?pooler=transaction"])
    def test_statement_mode_is_refused_with_the_remedy(self, option: str) -> None:
        started = PgBouncer(server(), "statement")
        try:
            with pytest.raises(InvalidSettings, match=r"statement mode.*pool_mode = transaction"):
                PostgresStore(started.before(server().emptied_store()) + option)
        finally:
            started.stop()

    def test_the_address_may_name_a_pooler_that_does_not_show(self, address: str) -> None:
        direct = server().emptied_store()
        for option, pooled in (
            ("?pooler=transaction", True),
            ("?connect_timeout=5&pooler=transaction&application_name=x", True),
            ("?pooler=session", False),
            ("?pooler=none&connect_timeout=5", False),
        ):
            store = PostgresStore(direct + option)
            assert store.database.is_pooled is pooled
            assert "pooler" not in store.database.conninfo
            assert store.tenants() == []
            store.close()
        assert not PostgresStore(address + "?pooler=session").database.is_pooled
        with pytest.raises(InvalidSettings, match="unknown kind"):
            Database(direct + "?pooler=statement")

    def test_doctor_and_config_check_say_that_a_pooler_was_found(self, address: str) -> None:
        with recollect.open(address, embedder="hash") as mem:
            (said,) = [one for one in mem.doctor().findings if one.name == "pooler"]
        assert said.well
        assert "pooler" in said.says
        assert "behind a pooler" in preflight.examine(address)
        direct = server().emptied_store()
        assert "pooler" not in preflight.examine(direct)
        with recollect.open(direct, embedder="hash") as mem:
            assert not [one for one in mem.doctor().findings if one.name == "pooler"]

    def test_a_backup_needs_a_line_of_its_own(self, pooler: PgBouncer, tmp_path: Path) -> None:
        """pg_dump empties the search path of its session: the next client of that connection would find no table."""
        direct = server().new_store()
        address = pooler.before(direct)
        with recollect.open(address, embedder="hash", postgres_tools=BIN) as mem:
            mem.remember("the boat is blue")
            with pytest.raises(Unavailable, match=r"pooler.*postgres_upkeep"):
                mem.backup(str(tmp_path / "copy.dump"))
            assert mem.recall("boat")
            mem.backup(f"{tmp_path}/backups/")  # record by record, which needs no such line
        with recollect.open(address, embedder="hash", postgres_tools=BIN, postgres_upkeep=direct) as mem:
            mem.backup(str(tmp_path / "copy.dump"))
        assert restore_backup(tmp_path / "backups", pooler.before(server().new_store())).memories == 1
        with pytest.raises(Unavailable, match="pooler"):
            restore_backup(tmp_path / "copy.dump", pooler.before(server().new_database()), postgres_tools=BIN)
        target = server().new_database()
        made = restore_backup(tmp_path / "copy.dump", pooler.before(target), postgres_tools=BIN, postgres_upkeep=target)
        assert made.memories == 1

    def test_an_option_that_the_pooler_refuses_is_explained(self, address: str) -> None:
        with pytest.raises(InvalidSettings, match="ALTER ROLE"):
            PostgresStore(address + "?options=-csearch_path%3Dpublic")

    @pytest.mark.parametrize(
        ("words", "kind"),
        [("query_wait_timeout", StoreBusy), ("no more connections allowed (max_client_conn)", StoreBusy)],
    )
    def test_a_full_pooler_is_busy(self, words: str, kind: type[RecollectError]) -> None:
        assert isinstance(recollect_error(psycopg.errors.ProtocolViolation(words), "it"), kind)

    def test_a_pooler_that_nobody_named_shows_in_the_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """As with one that hands the server's own key on."""
        monkeypatch.setattr(postgres_link, "is_between", lambda connection: False)
        unseen = PgBouncer(server(), "transaction", SIZE)
        address = unseen.before(server().new_store())

        def work(number: int) -> str:
            try:
                with recollect.open(address, embedder="hash") as mem:
                    for turn in range(6):
                        mem.remember(f"boat {number} {turn}")
            except RecollectError as error:
                return error.remedy
            return ""

        try:
            with ThreadPoolExecutor(8) as pool:
                told = list(pool.map(work, range(8)))
        finally:
            unseen.stop()
        assert any("pooler=transaction" in remedy for remedy in told)
