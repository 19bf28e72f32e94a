"""What only the PostgreSQL store has to keep: the second wall, partitions, retries, commit order, its own backup."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

import recollect
from postgres_server import BIN, Server, server
from recollect.adapters.postgres.connection import (
    APP,
    UPKEEP,
    WRITERS_AT_ONCE,
    Connection,
    Database,
    ReadStatement,
    _turn,
)
from recollect.adapters.postgres.errors import recollect_error
from recollect.adapters.postgres.halfvec import HalfVector
from recollect.adapters.records.common.migrations import migrations
from recollect.adapters.records.postgres import fulltext, schema
from recollect.adapters.records.postgres.fulltext import TextSearch
from recollect.adapters.records.postgres.schema import BY_MONTH, first_id, make_partitions
from recollect.adapters.records.postgres.store import PostgresStore
from recollect.adapters.vectors.embedded.index import EmbeddedIndex
from recollect.adapters.vectors.pgvector import EMBEDDINGS, PgVectorStore
from recollect.domain.agents import Agent
from recollect.domain.memory import Embedding, Memory
from recollect.domain.record import RECORDS, new_id, now
from recollect.errors import (
    Closed,
    DamagedData,
    DuplicateKey,
    InvalidInput,
    InvalidSettings,
    MissingExtra,
    NewerStore,
    RecollectError,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreReadOnly,
    Unavailable,
)
from recollect.ports.query import Compare, Query, TextQuery
from recollect.ports.records import Scope
from recollect.ports.steps import Delete, Insert, Update
from recollect.ports.vectors import FACETS
from recollect.testing.conformance.makers import agent, embedding, found, memory, one_of_each, search, stored, user


@pytest.fixture
def address() -> str:
    return server().emptied_store()


@pytest.fixture
def store(address: str) -> Iterator[PostgresStore]:
    opened = PostgresStore(address)
    yield opened
    opened.close()


@pytest.fixture
def acme(store: PostgresStore) -> Scope:
    return found(store, "acme")


@pytest.fixture
def globex(store: PostgresStore) -> Scope:
    return found(store, "globex")


class TestTheSecondWall:
    @pytest.fixture
    def full(self, store: PostgresStore, acme: Scope, globex: Scope) -> PostgresStore:
        for scope in (acme, globex):
            store.transact(scope, [Insert(one) for one in one_of_each(scope)[1:]])
            stored(store, scope, agent(scope, "gone"))
            store.transact(scope, [Delete(Agent, "gone")])
        return store

    def test_without_our_conditions_only_the_bound_tenant_is_seen(self, full: PostgresStore) -> None:
        for table in (*RECORDS, "recollect_gone"):
            with full.database.reading("acme") as connection:
                seen = connection.execute(f'SELECT DISTINCT organization_id FROM "{table}"').fetchall()
            assert seen == [("acme",)], table
            asked = ReadStatement(f'SELECT DISTINCT organization_id FROM "{table}"')
            assert full.database.ask("acme", asked, asked) == [[("acme",)], [("acme",)]], table

    @pytest.mark.parametrize("distributed", [False, True])
    def test_nothing_stays_bound_when_the_answers_are_in(self, full: PostgresStore, distributed: bool) -> None:
        bound = ReadStatement("SELECT current_user::text, current_setting('recollect.organization', true)")
        full.database.is_distributed = distributed
        assert full.database.ask("acme", bound) == [[(APP, "acme")]]
        assert full.database.ask("globex", bound, role=UPKEEP) == [[(UPKEEP, "globex")]]
        with pytest.raises(InvalidInput):
            full.database.ask("acme", ReadStatement("SELECT 1 / 0"))
        with full.database._open_pool().connection() as connection:
            assert connection.execute(*bound[:2]).fetchall() == [("postgres", "")]

    def test_a_transaction_without_a_tenant_sees_nothing(self, full: PostgresStore) -> None:
        for table in (*RECORDS, "recollect_gone"):
            with full.database.snapshot(APP) as connection:
                assert connection.execute(f'SELECT count(*) FROM "{table}"').fetchall() == [(0,)], table

    def test_what_is_bound_to_one_tenant_writes_nothing_of_another(self, full: PostgresStore) -> None:
        def steal(connection: Connection) -> int:
            text = "UPDATE \"user\" SET name = 'x' WHERE organization_id = 'globex' RETURNING id"
            return len(connection.execute(text).fetchall())

        def empty(connection: Connection) -> int:
            return len(connection.execute('DELETE FROM "tag" RETURNING id').fetchall())

        def plant(connection: Connection) -> None:
            connection.execute("UPDATE \"user\" SET organization_id = 'globex'")

        assert full.database.write("acme", steal) == 0
        assert full.database.write("acme", empty) == 1
        assert full.count(Scope("globex"), Query(RECORDS["tag"])) == 1
        with pytest.raises(StoreReadOnly):
            full.database.write("acme", plant)

    def test_a_partition_cannot_be_read_past_its_parent(self, full: PostgresStore) -> None:
        for partition in ("memory_other", "access_log_other", "embedding_0"):
            with full.database.reading("acme") as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f"SELECT * FROM {partition}")

    def test_every_table_has_the_wall_and_the_role_cannot_climb_it(self, full: PostgresStore) -> None:
        with full.database.snapshot() as connection:
            walled = "SELECT relname FROM pg_class WHERE relrowsecurity AND relforcerowsecurity"
            assert {name for (name,) in connection.execute(walled)} == {*RECORDS, "recollect_gone"}
            role = "SELECT rolsuper OR rolbypassrls OR rolcanlogin FROM pg_roles WHERE rolname = %s"
            assert connection.execute(role, (APP,)).fetchall() == [(False,)]

    def test_text_search_proves_its_hits_behind_the_wall(self, full: PostgresStore) -> None:
        query = TextQuery(Memory, ("something",), 10)
        for bound, expected in (("globex", ["a-memory"]), ("acme", [])):
            hits = TextSearch(full.database, full.compiler, full._cipher).search(Scope("globex"), query, bound=bound)
            assert [hit.id for hit in hits] == expected

    def test_a_tenant_named_like_sql_is_bound_as_itself(self, full: PostgresStore) -> None:
        for name in ("'; DROP TABLE memory; --", "acme'; RESET ROLE; --", "\\'", "%s", "$$", "acme\\"):
            scope = found(full, name)
            stored(full, scope, user(scope))
            with full.database.reading(name) as connection:
                assert connection.execute('SELECT organization_id FROM "user"').fetchall() == [(name,)]

    def test_a_login_without_special_rights_works_behind_the_same_wall(self, address: str) -> None:
        server().admin(f"CREATE ROLE plain LOGIN; GRANT {APP}, {UPKEEP} TO plain WITH INHERIT FALSE, SET TRUE")
        server().admin("CREATE DATABASE plain OWNER plain")
        try:
            own = PostgresStore(server().address("plain", "plain"))
            for name in ("acme", "globex"):
                scope = found(own, name)
                own.transact(scope, [Insert(one) for one in one_of_each(scope)[1:]])
            assert own.tenants() == ["acme", "globex"]
            assert own.verify() == []
            own.close()
            with psycopg.connect(server().address("plain", "plain")) as connection:
                assert connection.execute("SELECT count(*) FROM memory").fetchall() == [(0,)]
        finally:
            server().admin("DROP DATABASE plain (FORCE)")
            server().admin("DROP ROLE plain")


class TestPartitions:
    def test_a_record_lies_in_the_month_of_its_id(self, store: PostgresStore, acme: Scope) -> None:
        month = f"memory_{now():%Y_%m}"
        stored(store, acme, memory(acme, new_id()), memory(acme, "mine"), memory(acme, "0"))
        assert self.partitions_of(store, "memory") == {month: 1, "memory_other": 2}

    def test_the_months_ahead_are_there(self, store: PostgresStore) -> None:
        with store.database.snapshot() as connection:
            listed = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = %s::regclass"
            for table in BY_MONTH:
                names = {name for (name,) in connection.execute(listed, (table,))}
                assert len(names) >= 5  # others may have made more
                assert f"{table}_other" in names

    def test_months_follow_each_other_without_a_gap(self) -> None:
        assert first_id(2026, 13) == first_id(2027, 1)
        edge = int(datetime(2026, 12, 1, tzinfo=UTC).timestamp() * 1000)
        last = f"{edge - 1:012x}"
        assert first_id(2026, 11) < f"{last[:8]}-{last[8:]}-7fff-bfff-ffffffffffff" < first_id(2026, 12)
        assert first_id(now().year, now().month) <= new_id() < first_id(now().year, now().month + 1)

    def test_partitions_of_later_months_are_made_when_their_time_comes(self) -> None:
        later = PostgresStore(server().new_store())
        with later.as_owner() as connection:
            made = make_partitions(connection, datetime(2041, 11, 5, tzinfo=UTC))
            assert made[:4] == ["memory_2041_11", "memory_2041_12", "memory_2042_01", "memory_2042_02"]
            assert make_partitions(connection, datetime(2041, 11, 6, tzinfo=UTC)) == []
        acme = found(later, "acme")
        stored(later, acme, memory(acme, first_id(2043, 1)))
        with later.as_owner() as connection:
            made = make_partitions(connection, datetime(2042, 12, 1, tzinfo=UTC))
        assert "memory_2042_12" in made
        assert "memory_2043_01" not in made  # its records are in the default partition, and stay there
        assert later.count(acme, Query(Memory)) == 1
        later.close()

    def test_a_program_that_runs_for_months_makes_them_itself(self, store: PostgresStore, acme: Scope) -> None:
        with store.as_owner() as connection:
            connection.execute(f"DROP TABLE memory_{now():%Y_%m}")
        store._ahead = (0, 0)
        stored(store, acme, memory(acme, new_id()))
        assert self.partitions_of(store, "memory") == {f"memory_{now():%Y_%m}": 1}

    def test_a_long_reading_keeps_no_new_month_and_nobody_else_waiting(
        self, store: PostgresStore, acme: Scope, address: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(schema, "WAITED_FOR_MILLISECONDS", 50)
        later = datetime(2091, 5, 1, tzinfo=UTC)
        with psycopg.connect(address) as backup, ThreadPoolExecutor(1) as pool, store.as_owner() as owner:
            backup.execute("SELECT count(*) FROM memory_other")
            making = pool.submit(make_partitions, owner, later, 0)
            try:
                assert making.result(20) == ["access_log_2091_05"]
                assert store.count(acme, Query(Memory)) == 0
            finally:
                backup.rollback()
            assert make_partitions(owner, later, 0) == ["memory_2091_05"]
            owner.execute("DROP TABLE memory_2091_05, access_log_2091_05")

    def test_embeddings_are_spread_over_tenants(self, store: PostgresStore) -> None:
        for number in range(20):
            scope = found(store, f"tenant{number}")
            stored(store, scope, memory(scope))
            stored(store, scope, embedding(scope, "fact", b"\x00\x3c"))
        assert len(self.partitions_of(store, "embedding")) > 3

    def partitions_of(self, store: PostgresStore, table: str) -> dict[str, int]:
        with store.database.snapshot() as connection:
            text = f'SELECT tableoid::regclass::text, count(*) FROM "{table}" GROUP BY 1'
            return {name: number for name, number in connection.execute(text)}  # noqa: C416


class TestMigrations:
    def test_several_processes_may_open_a_new_database_at_once(self) -> None:
        address = server().new_database()
        code = (
            "import recollect.domain; from recollect.adapters.records.postgres.store import PostgresStore; "
            f"PostgresStore({address!r}).close()"
        )
        racers = [subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE) for _ in range(4)]
        for racer in racers:
            _, problem = racer.communicate(timeout=60)
            assert racer.returncode == 0, problem
        rows = server().admin("SELECT number FROM recollect_migrations ORDER BY number", address.rpartition("/")[2])
        assert rows == [(migration.number,) for migration in migrations()]

    def test_a_newer_store_is_refused_and_so_is_a_changed_migration(self) -> None:
        address = server().new_store()
        name = address.rpartition("/")[2]
        server().admin("UPDATE recollect_migrations SET checksum = 'other'", name)
        with pytest.raises(StoreError, match="not the one this program knows"):
            PostgresStore(address)
        server().admin("INSERT INTO recollect_migrations VALUES (999, 'later', 'x', now())", name)
        with pytest.raises(NewerStore):
            PostgresStore(address)


class TestTextSearch:
    """However a scope is searched, read whole or by its rare words and pairs of words, the answer is the same."""

    WORDS = [f"word{number}" for number in range(40)]

    @pytest.fixture
    def full(self, store: PostgresStore, acme: Scope) -> PostgresStore:
        chance = random.Random(5)
        common = [1 / (1 + number) for number in range(len(self.WORDS))]
        texts = [" ".join(chance.choices(self.WORDS, common, k=4)) for _ in range(300)]
        written = [
            memory(acme, f"m{number:03}", text=text, kind=chance.choice(["fact", "episode"]), priority=number % 3 + 1)
            for number, text in enumerate(texts)
        ]
        store.transact(acme, [Insert(one) for one in written])
        return store

    @pytest.mark.parametrize(
        "way",
        ["pairs", "any of them", "a large part", "pairs by the index alone", "threes", "who pass", "wrongly few"],
    )
    def test_a_broad_scope_gives_the_answer_of_a_small_one(
        self, full: PostgresStore, acme: Scope, way: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        chance, paired = random.Random(6), []
        monkeypatch.setattr(fulltext, "MANY_TIMES", 1000 if way == "any of them" else 0)
        monkeypatch.setattr(fulltext, "SMALL_PART", 10 if way == "a large part" else 0)
        monkeypatch.setattr(fulltext, "SCANNED", 0 if way in ("pairs by the index alone", "wrongly few") else 1000)
        if way in ("threes", "who pass", "wrongly few"):
            monkeypatch.setattr(fulltext, "ESTIMATED", 1)
            monkeypatch.setattr(fulltext._Search, "_few_pass", lambda search: way != "threes")
            monkeypatch.setattr(fulltext._Search, "_very_common", lambda search, terms, size: (size, {}))
        for number in range(60):
            terms = tuple(chance.sample(self.WORDS, chance.randint(1, 7)))
            facets = {"kind": ("fact",)} if number % 2 else {}
            where = (Compare("priority", ">=", 2),) if number % 3 == 0 else ()
            query = TextQuery(Memory, terms, chance.choice([1, 5, 20, 400]), facets, where)
            answers = []
            for few in (1000, 0):
                monkeypatch.setattr(fulltext, "FEW", few)
                answers.append(TextSearch(full.database, full.compiler, full._cipher).search(acme, query))
            small, broad = answers
            assert [hit.id for hit in broad] == [hit.id for hit in small], query
            assert [hit.score for hit in broad] == pytest.approx([hit.score for hit in small])
            paired.append(broad)
        assert sum(map(len, paired)) > 1000

    @pytest.mark.parametrize("times", [1, 10])
    def test_somebodys_own_are_gone_through_where_they_are_a_small_part_of_all(
        self, full: PostgresStore, acme: Scope, monkeypatch: pytest.MonkeyPatch, times: int
    ) -> None:
        """Half of all: the index, which knows of all, is quicker then."""
        for name, value in (("FEW", 0), ("SMALL_PART", times)):
            monkeypatch.setattr(fulltext, name, value)
        with full.as_owner() as owner:
            owner.execute("ANALYZE memory")
        search, gone_through = TextSearch(full.database, full.compiler, full._cipher), list[bool]()
        held = fulltext._Search._held

        def watched(self: Any, *given: Any, by_index: bool) -> Any:
            gone_through.append(not by_index)
            return held(self, *given, by_index=by_index)

        query = TextQuery(Memory, ("word0", "word39"), 5, {"kind": ("fact",)})
        assert search.suggested(acme, query)  # which counts how many there are
        monkeypatch.setattr(fulltext._Search, "_held", watched)
        assert search.suggested(acme, query)
        assert set(gone_through) == {times == 1}

    def test_what_is_very_common_is_not_counted_where_the_statistics_are_of_ones_own(
        self, full: PostgresStore, acme: Scope, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, value in (("FEW", 0), ("ESTIMATED", 100), ("MOST_HOLDERS", 20)):
            monkeypatch.setattr(fulltext, name, value)
        with full.as_owner() as owner:
            owner.execute("ANALYZE memory")
        search = TextSearch(full.database, full.compiler, full._cipher)
        asked: list[Any] = []
        ask = full.database.ask

        def listened(tenant: str, *statements: Any, **named: Any) -> Any:
            asked.extend(statements)
            return ask(tenant, *statements, **named)

        monkeypatch.setattr(full.database, "ask", listened)
        query = TextQuery(Memory, ("word0", "word39", "unheard"), 5)
        assert search.suggested(acme, query)
        (counted,) = [one for one in asked if one.statement.startswith("WITH asked AS MATERIALIZED (SELECT w")]
        assert [word.strip("'") for word in counted.values[0]] == ["word39", "unheard"]
        assert not [one for one in asked if one.statement.startswith("SELECT count(*)")]  # nor is the scope
        assert search.suggested(acme, query)
        other = found(full, "globex")
        full.transact(other, [Insert(memory(other, f"g{number}", text="word0")) for number in range(100)])
        with full.as_owner() as owner:
            owner.execute("ANALYZE memory")
        asked.clear()
        assert TextSearch(full.database, full.compiler, full._cipher).suggested(acme, query)
        (counted,) = [one for one in asked if one.statement.startswith("WITH asked AS MATERIALIZED (SELECT w")]
        assert len(counted.values[0]) == 3

    def test_the_index_finds_the_best_without_a_look_at_all_who_hold_a_common_word(
        self, full: PostgresStore, acme: Scope, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(fulltext, "FEW", 0)
        asked, ask = [], full.database.ask
        monkeypatch.setattr(full.database, "ask", lambda *given, **named: asked.append(given) or ask(*given, **named))
        query = TextQuery(Memory, ("word0", "word1", "word2", "word30"), 2)
        hits = full.search_text(acme, query)
        looks = [
            given[1].values for given in asked if "score" in given[1].statement and "few" not in given[1].statement
        ]
        assert len(hits) == 2
        assert len(looks) == 1
        assert any("&" in str(value) for value in looks[0])

    def test_what_is_new_in_a_text_index_stays_short_also_in_an_older_store(self) -> None:
        address = server().new_store()
        database = address.rpartition("/")[2]
        options = (
            "SELECT DISTINCT array_to_string(c.reloptions, ',') FROM pg_attribute a JOIN pg_class c "
            "ON c.oid = a.attrelid WHERE c.relkind = 'i' AND a.attname = '_text'"
        )
        assert server().admin(options, database) == [("gin_pending_list_limit=256",)]
        for index in ("memory_other__text_idx", "revision_text"):
            server().admin(f"ALTER INDEX {index} RESET (gin_pending_list_limit)", database)
        assert len(server().admin(options, database)) == 2
        PostgresStore(address).close()
        assert server().admin(options, database) == [("gin_pending_list_limit=256",)]

    def test_words_of_one_stem_count_once(
        self, store: PostgresStore, acme: Scope, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store.transact(acme, [Insert(memory(acme, "a", text="walking")), Insert(memory(acme, "b", text="a red door"))])
        scores = []
        for few in (10, 0):
            monkeypatch.setattr(fulltext, "FEW", few)
            for terms in (("walk",), ("walk", "walked", "walks")):
                found = TextSearch(store.database, store.compiler, store._cipher).search(
                    acme, TextQuery(Memory, terms, 5)
                )
                scores += [hit.score for hit in found]
        assert scores == pytest.approx([scores[0]] * 4)

    def test_common_words_are_counted_once_in_a_while(
        self, full: PostgresStore, acme: Scope, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(fulltext, "FEW", 0)
        monkeypatch.setattr(fulltext, "COMMON", 20)
        asked, ask = [], full.database.ask
        monkeypatch.setattr(full.database, "ask", lambda *given, **named: asked.append(given) or ask(*given, **named))
        for _ in range(2):
            assert full.search_text(acme, TextQuery(Memory, ("word0", "word1"), 3))
        counts = [given for given in asked if "count(*)" in given[1].statement and "few" not in given[1].statement]
        assert len(counts) == 1


class TestTalk:
    @pytest.fixture
    def said(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """The beginning of each statement of this thread."""
        said: list[str] = []
        here = threading.get_ident()  # behind it, the index looks whether it is worth an index of its own

        class Listening(psycopg.Cursor[Any]):
            def execute(self, query: Any, *given: Any, **named: Any) -> Any:
                if threading.get_ident() == here:
                    said.append(str(query).partition("(")[0])
                return super().execute(query, *given, **named)

        monkeypatch.setattr(Database, "cursor_factory", Listening)
        return said

    def test_all_entries_of_a_seal_are_one_statement(self, address: str, said: list[str]) -> None:
        with recollect.open(address, embedder="hash", background=False) as mem:
            mem.remember_many([{"content": f"boat number {number}"} for number in range(40)])
            mem._core.journal.flush()
            said.clear()
            assert mem.audit.seal().entries >= 40
            assert mem.audit.verify().problems == []
        assert [one.partition(" t ")[0] for one in said if one.startswith("UPDATE")] == ['UPDATE "access_log"']

    def test_a_memory_is_few_statements(self, address: str, said: list[str]) -> None:
        with recollect.open(address, embedder="hash") as mem:
            mem.user.add("ann", id="ann")
            mem.remember("the boat is old", user="ann")  # looks up where she lives, once for a while
            said.clear()
            mem.remember("the boat is blue", user="ann", tags=["boats"])
        assert [one[:9] for one in said] == ["BEGIN", "SELECT se", "LOCK TABL", "SELECT ", "WITH w0 A", "COMMIT"]

    def test_what_is_written_by_key_is_not_planned_anew(self, store: PostgresStore, acme: Scope) -> None:
        for number in range(6):
            store.transact(acme, [Insert(memory(acme, f"m{number}"))])
        plans = "SELECT statement, generic_plans, custom_plans FROM pg_prepared_statements"
        made: dict[str, Any] = {}
        for _ in range(4):  # the pool hands out its connections in turn
            with store.database._open_pool().connection() as connection:
                made |= {text[:12]: rest for text, *rest in connection.execute(plans) if '"memory"' in text}
        assert set(made) == {"INSERT INTO "}
        assert all(generic and not custom for generic, custom in made.values())

    def test_a_record_that_comes_back_is_no_longer_gone(self, store: PostgresStore, acme: Scope) -> None:
        store.transact(acme, [Insert(agent(acme))])
        seq = store.transact(acme, [Delete(Agent, agent(acme).id)]).seq
        assert [change.gone for change in store.changes(acme, seq - 1)] == [True]
        store.transact(acme, [Insert(agent(acme))])
        assert [change.gone for change in store.changes(acme, seq - 1)] == [False]


class TestFailures:
    def test_a_serialization_failure_is_tried_again_whole(self, store: PostgresStore, acme: Scope) -> None:
        with self.failing(store, "40001", times=2):
            store.transact(acme, [Insert(user(acme)), Insert(agent(acme))])
        assert (store.count(acme, Query(Agent)), store.count(acme, Query(RECORDS["user"]))) == (1, 1)

    def test_what_keeps_failing_is_given_up_and_leaves_nothing(self, store: PostgresStore, acme: Scope) -> None:
        with self.failing(store, "40P01", times=99), pytest.raises(StoreBusy):
            store.transact(acme, [Insert(user(acme)), Insert(agent(acme))])
        assert store.count(acme, Query(RECORDS["user"])) == 0

    def failing(self, store: PostgresStore, state: str, times: int) -> Any:
        """Inserting an agent fails so many times: a sequence counts, since it forgets nothing when undone."""
        return _Failing(store, state, times)

    def test_connections_that_died_while_idle_are_replaced(self, store: PostgresStore, acme: Scope) -> None:
        for _ in range(2):
            terminated = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'recollect'"
            server().admin(terminated)
            assert store.count(acme, Query(Agent)) == 0
            server().admin(terminated)
            store.transact(acme, [])

    def test_a_line_lost_before_the_commit_is_tried_again(self, store: PostgresStore, acme: Scope) -> None:
        tries: list[Any] = []

        def work(connection: Connection) -> None:
            tries.append(store._apply(connection, acme, [Insert(agent(acme))], together=True))
            if len(tries) == 1:
                server().admin(f"SELECT pg_terminate_backend({connection.info.backend_pid})")
                connection.execute("SELECT 1")

        store.database.write("acme", work)
        assert (len(tries), store.count(acme, Query(Agent))) == (2, 1)

    def test_a_commit_that_the_server_never_heard_is_looked_up_and_done_again(
        self, store: PostgresStore, acme: Scope
    ) -> None:
        tries: list[Any] = []

        def work(connection: Connection) -> None:
            tries.append(store._apply(connection, acme, [Insert(agent(acme))], together=True))
            if len(tries) == 1:
                connection.execute("SELECT 1").fetchall()
                server().admin(f"SELECT pg_terminate_backend({connection.info.backend_pid})")

        store.database.write("acme", work)
        assert (len(tries), store.count(acme, Query(Agent))) == (2, 1)

    def test_a_commit_whose_answer_is_lost_is_looked_up_and_not_done_again(self, acme: Scope) -> None:
        address = server().emptied_store()
        with Severed(address) as wire:
            store = PostgresStore(wire.address)
            tries: list[Any] = []

            def work(connection: Connection) -> None:
                tries.append(store._apply(connection, acme, [Insert(agent(acme, f"try{len(tries)}"))], together=True))
                connection.execute("SELECT 1").fetchall()
                wire.swallow_answers = True

            found(store, "acme")
            store.database.write("acme", work)
            assert [one.id for one in store.find(acme, Query(Agent)).records] == ["try0"]
            assert len(tries) == 1
            store.close()

    def test_a_commit_of_which_nobody_can_tell_says_so(self, acme: Scope) -> None:
        with Severed(server().emptied_store()) as wire:
            store = PostgresStore(wire.address)
            found(store, "acme")
            store.database.is_distributed = True

            def work(connection: Connection) -> None:
                store._apply(connection, acme, [Insert(agent(acme))], together=True)
                wire.swallow_answer_to = b"COMMIT"

            with pytest.raises(Unavailable, match="lost during a commit"):
                store.database.write("acme", work)
            store.close()

    def test_on_a_cluster_a_line_lost_before_the_commit_is_tried_again(self, store: PostgresStore, acme: Scope) -> None:
        store.database.is_distributed = True
        tries: list[Any] = []

        def work(connection: Connection) -> None:
            tries.append(store._apply(connection, acme, [Insert(agent(acme))], together=True))
            if len(tries) == 1:
                connection.execute("SELECT 1").fetchall()
                server().admin(f"SELECT pg_terminate_backend({connection.info.backend_pid})")

        store.database.write("acme", work)
        assert (len(tries), store.count(acme, Query(Agent))) == (2, 1)

    def test_what_a_cluster_says_to_a_commit_leaves_it_open(self, store: PostgresStore, acme: Scope) -> None:
        """That is how it tells of a worker that was lost just then: an internal error, and no damage."""
        store.database.is_distributed = True
        with _Failing(store, "XX000", 99, deferred=True), pytest.raises(Unavailable, match="lost during a commit"):
            store.transact(acme, [Insert(agent(acme))])

    @pytest.mark.parametrize(
        ("state", "error", "says"),
        [
            ("XX000", StoreError, r"\(worker worker-1:5432\) had an error of its own"),
            ("XX001", StoreError, r"\(worker worker-1:5432\) had an error of its own"),
            ("08006", Unavailable, r"\(worker worker-1:5432\) cannot be reached"),
            ("55P03", StoreBusy, r"\(worker worker-1:5432\) is busy"),
        ],
    )
    def test_what_a_worker_says_is_told_of_that_worker(
        self, store: PostgresStore, acme: Scope, state: str, error: type[Exception], says: str
    ) -> None:
        store.database.is_distributed = True
        with (
            _Failing(store, state, 99, function='"while executing command on worker-1:5432"'),
            pytest.raises(error, match=says) as caught,
        ):
            store.transact(acme, [Insert(agent(acme))])
        assert not isinstance(caught.value, DamagedData)

    def test_a_worker_that_does_not_answer_is_named(self, store: PostgresStore, acme: Scope) -> None:
        store.database.is_distributed = True
        said = "connection to the remote node recollect_app@worker-2:5432 failed with the following error: gone"
        with _Failing(store, "08006", 99, says=said), pytest.raises(Unavailable, match=r"\(worker worker-2:5432\)"):
            store.transact(acme, [Insert(agent(acme))])

    @pytest.mark.parametrize(
        ("index", "table", "fields"),
        [
            (
                "block_link_unique_block_id_block_label_agent_id_102045",
                "block_link",
                ["block_id", "block_label", "agent_id"],
            ),
            ("block_pkey_102046", "block", ["id"]),
            ("memory_2026_11_pkey_102047", "memory", ["id"]),
        ],
    )
    def test_a_key_that_is_taken_on_a_shard_is_told_of_its_table(
        self, store: PostgresStore, acme: Scope, index: str, table: str, fields: list[str]
    ) -> None:
        """Citus passes on the words of a worker, without the names beside them."""
        said = f'duplicate key value violates unique constraint "{index}"'
        with _Failing(store, "23505", 99, says=said), pytest.raises(DuplicateKey, match=f"a {table} already") as caught:
            store.transact(acme, [Insert(agent(acme))])
        assert caught.value.details["fields"] == fields

    def test_a_number_that_a_crashed_server_gives_out_anew_is_not_taken_for_ours(self) -> None:
        with _server_that_flushes_late() as mine:
            store = PostgresStore(mine.new_database())
            acme, tries = found(store, "acme"), list[Any]()

            def work(connection: Connection) -> None:
                tries.append(store._apply(connection, acme, [Insert(agent(acme, f"try{len(tries)}"))], together=True))
                if len(tries) == 1:
                    number = int(connection.execute("SELECT pg_current_xact_id()::text").fetchall()[0][0])
                    mine.restart(signal.SIGQUIT)
                    assert _numbers_up_to(number, mine.address())

            with pytest.raises(Unavailable, match="lost during a commit"):
                store.database.write("acme", work)
            assert store.find(acme, Query(Agent)).records == []
            store.close()

    def test_a_number_of_which_a_crashed_server_never_heard_is_done_again(self) -> None:
        with _server_that_flushes_late() as mine:
            store = PostgresStore(mine.new_database())
            acme, tries = found(store, "acme"), list[Any]()

            def work(connection: Connection) -> None:
                tries.append(store._apply(connection, acme, [Insert(agent(acme, f"try{len(tries)}"))], together=True))
                connection.execute("SELECT 1").fetchall()
                if len(tries) == 1:
                    mine.restart(signal.SIGQUIT)

            store.database.write("acme", work)
            assert [one.id for one in store.find(acme, Query(Agent)).records] == ["try1"]
            store.close()

    def test_a_client_killed_in_the_middle_leaves_nothing_and_no_lock(self, address: str) -> None:
        store = PostgresStore(address)
        acme = found(store, "acme")
        code = f"""
import time, recollect.domain
from recollect.adapters.records.postgres.store import PostgresStore
from recollect.ports.records import Scope
from recollect.ports.steps import Insert
from recollect.testing.conformance.makers import agent, memory
store, acme = PostgresStore({address!r}), Scope("acme")
def work(connection):
    store._apply(connection, acme, [Insert(agent(acme)), Insert(memory(acme, text="an anchor"))], together=True)
    print("half way", flush=True)
    time.sleep(60)
store.database.write("acme", work)
"""
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert child.stdout is not None
        assert child.stdout.readline() == b"half way\n"
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        child.stdout.close()
        assert store.transact(acme, [Insert(user(acme))]).seq > 0
        assert store.count(acme, Query(Agent)) == store.count(acme, Query(Memory)) == 0
        assert search(store, acme, "anchor") == []
        assert store.verify() == []
        store.close()

    def test_a_duplicate_names_the_fields(self, store: PostgresStore, acme: Scope) -> None:
        stored(store, acme, user(acme, email="a@b.c"), agent(acme))
        stored(store, acme, memory(acme, idempotency_key="once"), memory(acme, "other"))
        stored(store, acme, embedding(acme, "fact", b"\x00\x3c"))
        for record, fields in (
            (user(acme), ["id"]),
            (user(acme, "eve", email="a@b.c"), ["email"]),
            (memory(acme), ["id"]),
            (memory(acme, "new", idempotency_key="once"), ["idempotency_key"]),
            (embedding(acme, "other", b"\x00\x3c"), ["id"]),
            (embedding(acme, "fact", b"\x00\x3c", id="second"), ["memory_id", "namespace", "model", "part"]),
        ):
            with pytest.raises(DuplicateKey) as caught:
                stored(store, acme, record)
            assert caught.value.details["fields"] == fields
        with pytest.raises(DuplicateKey):
            store.transact(acme, [Update(memory(acme, "other", idempotency_key="once"))])

    @pytest.mark.parametrize(
        ("state", "expected"),
        [
            ("DiskFull", StoreFull),
            ("ReadOnlySqlTransaction", StoreReadOnly),
            ("InsufficientPrivilege", StoreReadOnly),
            ("LockNotAvailable", StoreBusy),
            ("DeadlockDetected", StoreBusy),
            ("AdminShutdown", Unavailable),
            ("InvalidPassword", Unavailable),
            ("NumericValueOutOfRange", InvalidInput),
            ("SyntaxError", StoreError),
        ],
    )
    def test_driver_errors_become_meanings(self, state: str, expected: type[RecollectError]) -> None:
        error = getattr(psycopg.errors, state)("secret text")
        assert type(recollect_error(error, "here")) is expected
        assert "secret" not in str(recollect_error(error, "here"))

    def test_secrets_of_the_address_are_nowhere(self, store: PostgresStore) -> None:
        place = f"127.0.0.1:{server().port}/nowhere"
        for bad in (f"postgresql://postgres:hunter2@{place}", "postgresql://u:hunter2@127.0.0.1:1/x"):
            with pytest.raises(Unavailable) as caught:
                PostgresStore(bad)
            assert "hunter2" not in str(caught.value) + repr(caught.value.as_dict())
        with pytest.raises(InvalidSettings) as refused:
            PostgresStore("postgresql://u:hunter2@h/x?nonsense=hunter2")
        assert "hunter2" not in str(refused.value)
        assert refused.value.__cause__ is None
        named = PostgresStore(store.database.conninfo + " password=hunter2")
        assert "hunter2" not in repr(named) + repr(named.database) + repr(named.capabilities)
        named.close()

    def test_a_missing_driver_names_the_remedy(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("records.postgres.store", "postgres.connection"):
            monkeypatch.delitem(sys.modules, f"recollect.adapters.{name}")
        monkeypatch.setitem(sys.modules, "psycopg", None)
        with pytest.raises(MissingExtra, match=r"recollect\[postgres\]"):
            recollect.open("postgresql://localhost/x")

    def test_upkeep_of_a_closed_store_is_refused(self, store: PostgresStore) -> None:
        store.close()
        for verb in (store.mend, store.erase_traces):
            with pytest.raises(Closed):
                verb()


@contextlib.contextmanager
def _server_that_flushes_late() -> Iterator[Server]:
    """A crash takes along what was not committed, with the numbers of its transactions."""
    mine = Server(durable=True)
    try:
        mine.admin("ALTER SYSTEM SET wal_writer_delay = '10s'")
        mine.restart()
        yield mine
    finally:
        mine.stop()


def _numbers_up_to(number: int, address: str) -> bool:
    """Others use up the numbers of transactions; whether that one was among them."""
    with psycopg.connect(address, autocommit=True) as other:
        used = [0]
        while used[-1] < number:
            used.append(int(other.execute("SELECT pg_current_xact_id()::text").fetchall()[0][0]))
    return used[-1] == number


class Severed:
    """A wire to the server that can carry a last message there and lose the answer, as a cut cable does."""

    def __init__(self, address: str) -> None:
        self.swallow_answers = False
        self.swallow_answer_to = b""
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        self.address = address.replace(f":{server().port}/", f":{port}/")

    def __enter__(self) -> Severed:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", server().port))
            threading.Thread(target=self._carry, args=(near, far, False), daemon=True).start()
            threading.Thread(target=self._carry, args=(far, near, True), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        try:
            while data := source.recv(65536):
                if not answers and self.swallow_answer_to and self.swallow_answer_to in data:
                    self.swallow_answers = True
                if answers and self.swallow_answers:
                    self.swallow_answers = False
                    break
                target.sendall(data)
        except OSError:
            pass  # the other direction was cut
        for one in (source, target):
            with contextlib.suppress(OSError):  # it is closed already
                one.shutdown(socket.SHUT_RDWR)
            one.close()


class _Failing:
    """Writing an agent fails so many times; `deferred`, with the commit."""

    def __init__(
        self,
        store: PostgresStore,
        state: str,
        times: int,
        *,
        deferred: bool = False,
        function: str = "fail",
        says: str = "",
    ) -> None:
        self._store, self._state, self._times = store, state, times
        self._when = (
            'CREATE CONSTRAINT TRIGGER fail AFTER INSERT ON "agent" DEFERRABLE INITIALLY DEFERRED'
            if deferred
            else 'CREATE TRIGGER fail BEFORE INSERT ON "agent"'
        )
        self._function, self._says = function, says

    def __enter__(self) -> None:
        with self._store.as_owner() as connection:
            connection.execute(
                "CREATE SEQUENCE tries; GRANT USAGE ON tries TO public; "
                f"CREATE FUNCTION {self._function}() RETURNS trigger "
                f"LANGUAGE plpgsql AS $$ BEGIN IF nextval('tries') <= {self._times} THEN "
                f"RAISE EXCEPTION SQLSTATE '{self._state}' USING MESSAGE = '{self._says}'; END IF; RETURN new; END $$; "
                f"{self._when} FOR EACH ROW EXECUTE FUNCTION {self._function}()"
            )

    def __exit__(self, *problem: object) -> None:
        with self._store.as_owner() as connection:
            connection.execute(f"DROP FUNCTION {self._function}() CASCADE; DROP SEQUENCE tries")


class TestCommitOrder:
    def test_a_snapshot_of_vectors_waits_for_who_has_a_lower_seq(
        self, store: PostgresStore, acme: Scope, globex: Scope
    ) -> None:
        stored(store, acme, memory(acme))
        stored(store, globex, memory(globex))
        written, finish = threading.Event(), threading.Event()

        def slowly(connection: Connection) -> None:
            store._apply(connection, acme, [Insert(embedding(acme, "fact", b"\x00\x3c"))], together=True)
            written.set()
            finish.wait(60)

        def look() -> list[str]:
            with store.vector_snapshot() as snapshot:
                assert snapshot.last_seq() > 0
                return [row.organization_id for row in snapshot.rows_after(0, 10)]

        with ThreadPoolExecutor(2) as pool:
            slow = pool.submit(store.database.write, "acme", slowly)
            assert written.wait(60)
            stored(store, globex, embedding(globex, "fact", b"\x00\x3c"))  # does not wait for the other tenant
            looking = pool.submit(look)
            with pytest.raises(TimeoutError):
                looking.result(0.3)
            finish.set()
            slow.result(10)
            assert looking.result(10) == ["acme", "globex"]

    def test_a_snapshot_lets_writers_go_on(self, store: PostgresStore, acme: Scope) -> None:
        stored(store, acme, memory(acme))
        with store.vector_snapshot() as snapshot:
            before = snapshot.last_seq()
            stored(store, acme, embedding(acme, "fact", b"\x00\x3c"))
            assert list(snapshot.rows_after(0, 10)) == []
            assert snapshot.last_seq() == before

    def test_a_tenant_whose_writers_all_wait_keeps_nobody_else_waiting(
        self, store: PostgresStore, acme: Scope, globex: Scope, address: str
    ) -> None:
        waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        with psycopg.connect(address, autocommit=True) as other, ThreadPoolExecutor(21) as pool:
            other.execute("SELECT pg_advisory_lock(%s)", (_turn("acme"),))
            writing = [pool.submit(store.transact, acme, [Insert(agent(acme, f"a{n}"))]) for n in range(20)]
            while other.execute(waiting).fetchall()[0][0] < WRITERS_AT_ONCE:
                threading.Event().wait(0.01)
            try:
                assert pool.submit(store.count, globex, Query(Agent)).result(10) == 0
            finally:
                other.execute("SELECT pg_advisory_unlock_all()")
            assert len({one.result(30).seq for one in writing}) == 20
        assert store.count(acme, Query(Agent)) == 20

    def test_writers_of_a_tenant_commit_in_order_of_seq(self, store: PostgresStore, acme: Scope) -> None:
        """A follower of the changes that never looks back misses none."""
        done = threading.Event()
        seen: list[str] = []

        def follow() -> None:
            after = 0
            while True:
                last = done.is_set()
                for change in store.changes(acme, after):
                    seen.append(change.id)
                    after = change.seq
                if last:
                    return

        with ThreadPoolExecutor(9) as pool:
            follower = pool.submit(follow)
            list(pool.map(lambda n: stored(store, acme, agent(acme, f"{n:03}")), range(120)))
            done.set()
            follower.result(30)
        assert sorted(seen) == sorted([*(f"{n:03}" for n in range(120)), "acme"])


DIMENSIONS = 32
VECTOR = HalfVector(b"\x00\x3c" * DIMENSIONS)


@pytest.fixture(scope="module")
def filled() -> Iterator[tuple[PostgresStore, dict[str, Any]]]:
    store = PostgresStore(server().new_store())
    chance = np.random.default_rng(7)
    truth: dict[str, Any] = {}
    for name, many in (("big", 2500), ("small", 40)):
        scope = found(store, name)
        vectors = chance.normal(size=(many, DIMENSIONS)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        kinds = [("fact", "event", None)[n % 3] for n in range(many)]
        users = [f"u{n % 50}" for n in range(many)]
        for start in range(0, many, 500):
            some = range(start, min(start + 500, many))
            store.transact(scope, [Insert(memory(scope, f"m{n:05}")) for n in some])
            store.transact(scope, [Insert(_embedded(scope, n, vectors[n], kinds[n], users[n])) for n in some])
        truth[name] = (vectors.astype(np.float16).astype(np.float32), np.array(kinds), np.array(users))
    yield store, truth
    store.close()


def _embedded(scope: Scope, n: int, vector: Any, kind: str | None, owner: str) -> Embedding:
    facets: list[str | None] = [None] * len(FACETS)
    facets[FACETS.index("kind")], facets[FACETS.index("user_id")] = kind, owner
    raw = vector.astype("<f2").tobytes()
    return embedding(scope, f"m{n:05}", raw, id=f"e{n}", dimensions=DIMENSIONS, facets=facets)


class TestVectors:
    def nearest(self, truth: Any, query: Any, where: dict[str, Any]) -> list[str]:
        vectors, kinds, users = truth
        keep = np.ones(len(vectors), dtype=bool)
        if "kind" in where:
            keep &= np.array([kind in where["kind"] for kind in kinds])
        if "user_id" in where:
            keep &= np.array([owner in where["user_id"] for owner in users])
        scores = np.where(keep, vectors @ query, -9)
        return [f"m{n:05}" for n in np.argsort(-scores)[:10] if scores[n] > -9]

    WHERE: tuple[dict[str, Any], ...] = (
        {},
        {"kind": ("fact",)},
        {"kind": ("event", None)},
        {"user_id": ("u7",)},
        {"user_id": ("u7", "u8"), "kind": ("fact",)},
        {"user_id": ()},
    )

    @pytest.mark.parametrize("how", ["exact", "walk", "embedded"])
    def test_the_nearest_are_found_under_every_filter(
        self, filled: tuple[PostgresStore, dict[str, Any]], how: str
    ) -> None:
        store, truth = filled
        index: Any = EmbeddedIndex(store, None, background=False)
        if how != "embedded":
            index = PgVectorStore(store, exact_rows=10_000 if how == "exact" else 30, index_rows=1000)
            index.refresh()
        chance = np.random.default_rng(11)
        right = asked = 0
        for tenant in truth:
            for where in self.WHERE:
                for _ in range(10):
                    query = chance.normal(size=DIMENSIONS).astype(np.float32)
                    query /= np.linalg.norm(query)
                    hits = index.search(tenant, "long_term/m", query, 10, where)
                    assert [hit.similarity for hit in hits] == sorted((hit.similarity for hit in hits), reverse=True)
                    expected = self.nearest(truth[tenant], query, where)
                    right += len({hit.memory_id for hit in hits} & set(expected))
                    asked += len(expected)
                    assert len(hits) == len(expected)
        assert right / asked >= (0.95 if how == "walk" else 0.99)
        index.close()

    def test_the_index_of_a_space_is_used_for_broad_scopes(self, filled: tuple[PostgresStore, dict[str, Any]]) -> None:
        store, _ = filled
        index = PgVectorStore(store, exact_rows=30, index_rows=1000)
        assert index.rebuild() == 2540
        query = np.ones(DIMENSIONS, dtype=np.float32) / np.sqrt(DIMENSIONS)
        assert len(index.search("big", "long_term/m", query, 10)) == 10
        row_filter = index._row_filter("big", "long_term/m", DIMENSIONS, {"kind": ("fact",)})
        with store.database.reading("big") as connection:
            parts = index._parts("big", "long_term/m", DIMENSIONS)
            statement = EMBEDDINGS.walk_statement(row_filter.condition, DIMENSIONS, 10, parts)
            connection.execute("SET LOCAL enable_sort = off")  # so few could as well be sorted
            plan = connection.execute(
                f"EXPLAIN {statement}", [value for _ in parts for value in (VECTOR, *row_filter.values, VECTOR)]
            )
            assert "hnsw" in "".join(line for (line,) in plan)

    def test_a_walk_that_gives_up_too_early_is_made_good(self, filled: tuple[PostgresStore, dict[str, Any]]) -> None:
        store, truth = filled
        PgVectorStore(store, index_rows=1000).refresh()
        (name,) = store.database.ask("big", ReadStatement("SELECT current_database()"))[0][0]
        server().admin(f'ALTER DATABASE "{name}" SET hnsw.max_scan_tuples = 1')
        store = PostgresStore(store.database.conninfo)
        index = PgVectorStore(store, exact_rows=5, index_rows=1000)
        where = {"user_id": ("u7",), "kind": ("fact", None)}
        chance = np.random.default_rng(6)
        for _ in range(10):
            query = chance.normal(size=DIMENSIONS).astype(np.float32)
            query /= np.linalg.norm(query)
            expected = self.nearest(truth["big"], query, where)
            hits = index.search("big", "long_term/m", query, 30, where)
            assert len(hits) == 30
            assert {hit.memory_id for hit in hits[:10]} == set(expected)
        store.close()
        server().admin(f'ALTER DATABASE "{name}" RESET hnsw.max_scan_tuples')

    @pytest.mark.parametrize(
        ("share", "where"),
        [
            (0.5, {"user_id": tuple(f"u{n}" for n in range(25))}),
            (0.1, {"user_id": tuple(f"u{n}" for n in range(5))}),
            (0.01, {"user_id": ("u7",), "kind": ("fact", None)}),
        ],
    )
    def test_recall_holds_under_filters(
        self, filled: tuple[PostgresStore, dict[str, Any]], share: float, where: dict[str, Any]
    ) -> None:
        store, truth = filled
        index = PgVectorStore(store, exact_rows=100, index_rows=1000)
        index.refresh()
        chance, right, asked = np.random.default_rng(5), 0, 0
        for _ in range(20):
            query = chance.normal(size=DIMENSIONS).astype(np.float32)
            query /= np.linalg.norm(query)
            expected = self.nearest(truth["big"], query, where)
            hits = index.search("big", "long_term/m", query, 10, where)
            right += len({hit.memory_id for hit in hits} & set(expected))
            asked += len(expected)
        assert right / asked >= 0.95, share

    def test_a_store_that_grows_makes_its_index_by_itself(self) -> None:
        store = PostgresStore(server().new_store())
        index = PgVectorStore(store, index_rows=200, background=True)
        acme = found(store, "acme")
        vectors = np.random.default_rng(3).normal(size=(300, DIMENSIONS))
        store.transact(acme, [Insert(memory(acme, f"m{n:05}")) for n in range(300)])
        made = [Insert(_embedded(acme, n, vectors[n], None, "u")) for n in range(300)]
        index.hint(store.transact(acme, made).seq)
        assert index._builder is not None
        stored(store, acme, agent(acme))  # writers go on meanwhile
        index._builder.join(60)
        with store.as_owner() as connection:
            valid = "SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE c.relname LIKE "
            assert connection.execute(valid + "'embedding%%hnsw%%' AND indisvalid").fetchall() == [(8,)]
        index.close()
        store.close()

    def test_a_vector_that_pgvector_cannot_hold_is_no_obstacle(self, store: PostgresStore, acme: Scope) -> None:
        index = PgVectorStore(store)
        stored(store, acme, *(memory(acme, f"m{n}") for n in range(5)))
        for number, vector in enumerate((b"", b"\x01", b"\xff\xff", b"\x00\x3c" * 20_000, b"\x00\x3c")):
            stored(
                store, acme, embedding(acme, f"m{number}", vector, id=f"e{number}", dimensions=max(1, len(vector) // 2))
            )
        assert [hit.memory_id for hit in index.search("acme", "long_term/m", np.ones(1, np.float32), 5)] == ["m4"]
        assert index.verify() == []
        with pytest.raises(InvalidInput):
            index.search("acme", "long_term/m", np.array([np.nan], np.float32), 5)


class TestWholeThing:
    def test_the_public_api_works_end_to_end(self, address: str, tmp_path: Path) -> None:
        with recollect.open(address, embedder="hash") as mem:
            cites = [recollect.cite.user("alice", "said so in review")]
            first = mem.remember("Alice prefers pytest", cites=cites, tags=["testing"])
            second = mem.remember("The harbour opens at nine")
            assert mem.recall("pytest", limit=1)[0].text == "Alice prefers pytest"
            mem.promote(first.id, "verified")
            mem.forget(second.id)
            assert [hit.text for hit in mem.recall("when does the harbour open?")] == ["Alice prefers pytest"]
            assert mem.verify().sound
        with recollect.open(address, embedder="hash") as again:
            assert again.recall("pytest")[0].status == "verified"
        with recollect.open(address, organization="globex", embedder="hash") as other:
            assert list(other.recall("pytest")) == []

    def test_what_goes_from_sqlite_to_postgres_comes_out_the_same(self, address: str, tmp_path: Path) -> None:
        with recollect.open(tmp_path / "small.db", embedder="hash") as small:
            for number in range(30):
                cites = [recollect.cite.user("alice", f"said so {number}")]
                odd = {"b": 1e300, "a": -0.0}
                small.remember(f"Fact {number}: é🙂 -0.0", cites=cites, tags=[f"t{number % 3}"], metadata=odd)
            small.export(str(tmp_path / "one.jsonl"))
        with recollect.open(address, embedder="hash") as large:
            large.import_(str(tmp_path / "one.jsonl"))
            large.export(str(tmp_path / "two.jsonl"))
            assert large.verify().sound
        assert (tmp_path / "one.jsonl").read_bytes() == (tmp_path / "two.jsonl").read_bytes()

    def test_a_backup_restores_to_another_incarnation(
        self, store: PostgresStore, acme: Scope, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store.transact(acme, [Insert(one) for one in one_of_each(acme)[1:]])
        monkeypatch.setenv("PATH", str(BIN))
        store.backup(tmp_path / "copy.dump")
        with pytest.raises(InvalidInput):
            store.backup(tmp_path / "copy.dump")
        target = server().new_database()
        restored = subprocess.run([BIN / "pg_restore", "-d", target, tmp_path / "copy.dump"], capture_output=True)
        assert restored.returncode == 0, restored.stderr
        copy = PostgresStore(target)
        assert copy.changes(acme, 0) == store.changes(acme, 0)
        assert search(copy, acme, "something") == ["a-memory"]
        assert copy.verify() == []
        incarnations = []
        for one in (store, copy):
            with one.vector_snapshot() as snapshot:
                incarnations.append(snapshot.incarnation)
        assert incarnations[0] != incarnations[1]
        copy.close()

    def test_a_backup_without_the_tool_names_the_remedy(
        self, store: PostgresStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(Unavailable, match="client tools"):
            store.backup(tmp_path / "copy.dump")
        assert list(tmp_path.iterdir()) == []
