"""Tenants, the feed of changes, threads, and the end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from recollect.domain.agents import Agent
from recollect.domain.conversations import Session
from recollect.domain.memory import Memory, Tag
from recollect.domain.tenancy import Organization, User
from recollect.errors import Closed, DuplicateKey, InvalidInput, NotFound, RequirementFailed, VersionConflict
from recollect.ports.query import Compare, IsNull, Linked, Query, TextQuery, equal
from recollect.ports.records import RecordStore, Scope
from recollect.ports.steps import Absent, Delete, DeleteWhere, Insert, Put, Require, Touch, Update
from recollect.testing.conformance.makers import agent, ids, memory, one_of_each, search, session, stored, tag, user

WRITERS = 32


def count_up(store: RecordStore, scope: Scope, times: int) -> None:
    """Read, change, write with the version read; begin again on a conflict."""
    for _ in range(times):
        while True:
            read = store.get(scope, Session, "counter")
            assert read is not None
            try:
                store.transact(scope, [Update(read.changed(metadata={"count": read.metadata["count"] + 1}))])
            except VersionConflict:
                continue
            break


class SharingRules:
    def test_the_same_ids_in_two_tenants_are_different_records(
        self, store: RecordStore, acme: Scope, globex: Scope
    ) -> None:
        for scope in (acme, globex):
            stored(store, scope, user(scope, name=scope.organization_id, email="ann@example.org"))
            stored(store, scope, memory(scope, text=f"anchor of {scope.organization_id}", user_id="ann"))
        store.transact(acme, [Delete(User, "ann")])
        kept = store.get(globex, User, "ann")
        assert kept is not None
        assert (kept.name, kept.version) == ("globex", 1)
        assert ids(store, globex, Query(Memory)) == search(store, globex, "anchor") == ["fact"]

    def test_reads_see_nothing_of_another_tenant(self, store: RecordStore, acme: Scope, globex: Scope) -> None:
        theirs = one_of_each(globex)
        store.transact(globex, [Insert(one) for one in theirs[1:]])
        for one in theirs:
            record = type(one)
            own = 1 if record is Organization else 0
            assert store.get(acme, record, one.id, deleted=True) is None
            assert len(store.find(acme, Query(record, deleted="yes")).records) == own
            assert len(store.select(acme, Query(record, deleted="yes"), ("id",))) == own
            assert store.count(acme, Query(record, deleted="yes")) == own
            if record.shape.text:
                assert search(store, acme, "something", record=record) == []
        assert [change.table for change in store.changes(acme, 0)] == ["organization"]

    def test_filters_see_nothing_of_another_tenant(self, store: RecordStore, acme: Scope, globex: Scope) -> None:
        stored(store, acme, memory(acme), user(acme))
        stored(store, globex, user(globex), memory(globex, user_id="ann"), tag(globex, "fact", "sea"))
        assert ids(store, acme, Query(Memory, (Linked(Tag, "memory_id"),))) == []
        assert ids(store, acme, Query(User, (Linked(Memory, "user_id", (Linked(Tag, "memory_id"),)),))) == []
        for where in ((equal("organization_id", "globex"),), (Compare("organization_id", "!=", "acme"),)):
            assert ids(store, acme, Query(Memory, where)) == []

    def test_writes_reach_nothing_of_another_tenant(self, store: RecordStore, acme: Scope, globex: Scope) -> None:
        first = stored(store, globex, memory(globex, "theirs", "an anchor"))
        before = store.changes(globex, 0)
        with pytest.raises(NotFound):
            store.transact(acme, [Update(memory(acme, "theirs", "stolen"))])
        with pytest.raises(RequirementFailed):
            store.transact(acme, [Require(Memory, "theirs")])
        for step in (Insert(first), Update(first), Put(first)):
            with pytest.raises(InvalidInput):
                store.transact(acme, [step])
        committed = store.transact(
            acme,
            [
                Absent(Memory, (equal("id", "theirs"),)),
                Delete(Memory, "theirs"),
                Delete(Organization, "globex"),
                DeleteWhere(Memory, (IsNull("author"),)),
                Touch(Memory, "theirs", {"access_count": 1}),
                Put(memory(acme, "theirs", "mine now")),
            ],
        )
        assert committed.deleted == 0
        assert store.get(globex, Memory, "theirs") == first
        assert store.changes(globex, 0) == before
        assert search(store, globex, "anchor", "mine") == ["theirs"]

    @pytest.mark.parametrize("name", ["' OR 1=1 --", "acme' --", "%", "*", "", "ACME", "acme ", '"', "🙂"])
    def test_a_hostile_scope_is_a_tenant_without_data(self, store: RecordStore, acme: Scope, name: str) -> None:
        stored(store, acme, memory(acme, text="an anchor"))
        scope = Scope(name)
        assert store.get(scope, Memory, "fact") is None
        assert ids(store, scope, Query(Memory, deleted="yes")) == []
        assert store.count(scope, Query(Memory)) == 0
        assert search(store, scope, "anchor") == []
        assert store.changes(scope, 0) == []
        assert store.transact(scope, [Delete(Memory, "fact"), DeleteWhere(Memory, (IsNull("author"),))]).deleted == 0
        assert store.count(acme, Query(Memory)) == 1

    def test_tenants_lists_every_organization(self, store: RecordStore, globex: Scope, acme: Scope) -> None:
        assert store.tenants() == ["acme", "globex"]

    def test_changes_lists_each_record_once_with_its_latest_seq(self, store: RecordStore, acme: Scope) -> None:
        first = stored(store, acme, user(acme), agent(acme))
        start = store.changes(acme, 0)
        assert [(one.table, one.id, one.gone) for one in start[1:]] == [("user", "ann", False), ("agent", "bot", False)]
        store.transact(acme, [Update(first.changed(name="Anna"))])
        store.transact(acme, [Update(first.changed(version=2, is_deleted=True))])
        later = store.changes(acme, 0)
        assert [(one.table, one.id) for one in later] == [("organization", "acme"), ("agent", "bot"), ("user", "ann")]
        assert later[:2] == [start[0], start[2]]
        assert later[2].seq > start[2].seq
        assert store.changes(acme, start[2].seq) == later[2:]

    def test_changes_tells_what_is_gone(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, session(acme), memory(acme, session_id="talk"), tag(acme, "fact", "sea", id="t"))
        seq = store.changes(acme, 0)[-1].seq
        store.transact(acme, [Delete(Session, "talk")])
        assert {(one.table, one.id, one.gone) for one in store.changes(acme, seq)} == {
            ("session", "talk", True),
            ("memory", "fact", False),
        }
        store.transact(acme, [Delete(Memory, "fact")])
        everything = store.changes(acme, 0)
        assert {(one.table, one.gone) for one in everything} == {
            ("organization", False),
            ("session", True),
            ("memory", True),
            ("tag", True),
        }
        assert len(everything) == 4

    def test_what_comes_back_after_it_was_gone_is_listed_once(self, store: RecordStore, acme: Scope) -> None:
        for _ in range(3):
            stored(store, acme, agent(acme))
            assert [(one.id, one.gone) for one in store.changes(acme, 0)] == [("acme", False), ("bot", False)]
            store.transact(acme, [Delete(Agent, "bot")])
            assert [(one.id, one.gone) for one in store.changes(acme, 0)] == [("acme", False), ("bot", True)]

    def test_changes_are_read_in_pieces(self, store: RecordStore, acme: Scope, globex: Scope) -> None:
        for number in range(40):
            stored(store, acme, agent(acme, f"a{number}"))
            stored(store, globex, agent(globex, f"g{number}"))
        store.transact(acme, [DeleteWhere(Agent, (Compare("id", ">=", "a3"),))])
        whole = store.changes(acme, 0)
        assert [one.seq for one in whole] == sorted({one.seq for one in whole})
        pieces, after = [], 0
        while piece := store.changes(acme, after, limit=7):
            assert len(piece) <= 7
            pieces += piece
            after = piece[-1].seq
        assert pieces == whole
        assert len(whole) == 41
        assert store.changes(acme, 0, limit=0) == []

    def test_seq_is_never_reused(self, store: RecordStore, acme: Scope) -> None:
        seqs = []
        for _ in range(3):
            seqs.append(store.transact(acme, [Put(agent(acme))]).seq)
            seqs.append(store.transact(acme, [Delete(Agent, "bot")]).seq)
            with pytest.raises(DuplicateKey):
                store.transact(acme, [Insert(agent(acme)), Insert(agent(acme))])
        assert seqs == sorted(set(seqs))

    def test_no_update_is_lost_among_many_writers(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, session(acme, "counter", metadata={"count": 0}))
        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(lambda _: count_up(store, acme, 4), range(WRITERS)))
        counter = store.get(acme, Session, "counter")
        assert counter is not None
        assert (counter.metadata["count"], counter.version) == (4 * WRITERS, 4 * WRITERS + 1)

    def test_one_writer_wins_a_unique_key_and_the_others_see_it(self, store: RecordStore, acme: Scope) -> None:
        def claim(number: int, email: str) -> bool:
            try:
                stored(store, acme, user(acme, f"{email}-{number}", email=email))
            except DuplicateKey:
                assert store.count(acme, Query(User, (equal("email", email),))) == 1
                return False
            return True

        with ThreadPoolExecutor(WRITERS) as pool:
            for turn in range(5):
                assert sum(pool.map(claim, range(WRITERS), [f"{turn}@acme.org"] * WRITERS)) == 1
        assert store.count(acme, Query(User)) == 5

    def test_of_concurrent_transactions_each_fails_alone(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, agent(acme, "taken"))
        ready = threading.Barrier(16)

        def write(worker: int) -> list[str]:
            ready.wait()
            written = []
            for turn in range(12):
                id = f"{worker:02}-{turn:02}"
                last = agent(acme, "taken") if (worker + turn) % 3 == 0 else agent(acme, f"{id}-b")
                try:
                    store.transact(acme, [Insert(agent(acme, id)), Insert(memory(acme, id, "an anchor")), Insert(last)])
                except DuplicateKey:
                    assert last.id == "taken"
                else:
                    assert last.id != "taken"
                    written += [id, f"{id}-b"]
            return written

        with ThreadPoolExecutor(16) as pool:
            acknowledged = sorted(id for written in pool.map(write, range(16)) for id in written)
        assert ids(store, acme, Query(Agent)) == [*acknowledged, "taken"]
        memories = [id for id in acknowledged if not id.endswith("-b")]
        assert ids(store, acme, Query(Memory)) == memories
        assert sorted(search(store, acme, "anchor", limit=1000)) == memories
        seqs = [change.seq for change in store.changes(acme, 0)]
        assert seqs == sorted(set(seqs))

    def test_a_reader_never_sees_half_a_transaction(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, agent(acme, "a"), agent(acme, "b"))
        done = threading.Event()

        def read() -> set[tuple[str | None, ...]]:
            seen = set()
            while not done.is_set():
                seen.add(tuple(row[0] for row in store.select(acme, Query(Agent), ("topic",))))
            return seen

        with ThreadPoolExecutor(2) as pool:
            readers = [pool.submit(read) for _ in range(2)]
            for turn in range(60):
                store.transact(acme, [Put(agent(acme, id, topic=f"{turn}")) for id in ("a", "b")])
            done.set()
            seen = set().union(*(reader.result() for reader in readers))
        assert [pair for pair in seen if len(set(pair)) != 1] == []

    def test_a_fresh_store_is_sound(self, store: RecordStore, acme: Scope) -> None:
        store.transact(acme, [Insert(one) for one in one_of_each(acme)[1:]])
        assert store.verify() == []
        store.mend()
        assert store.verify() == []
        assert search(store, acme, "something") == ["a-memory"]
        assert store.migrate() == []

    def test_erasing_traces_keeps_what_is_not_deleted(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, memory(acme, "gone", "an anchor"), memory(acme, "kept", "an anchor"))
        store.transact(acme, [Delete(Memory, "gone")])
        store.erase_traces()
        assert ids(store, acme, Query(Memory)) == search(store, acme, "anchor") == ["kept"]
        assert store.verify() == []

    def test_a_closed_store_says_so(self, store: RecordStore, acme: Scope, tmp_path: Path) -> None:
        store.close()
        store.close()
        verbs: list[Callable[[], object]] = [
            lambda: store.tenants(),
            lambda: store.get(acme, User, "ann"),
            lambda: store.find(acme, Query(User)),
            lambda: store.select(acme, Query(User), ("id",)),
            lambda: store.count(acme, Query(User)),
            lambda: store.transact(acme, []),
            lambda: store.search_text(acme, TextQuery(Memory, ("sky",), 5)),
            lambda: store.changes(acme, 0),
            lambda: store.verify(),
        ]
        for verb in verbs:
            with pytest.raises(Closed):
                verb()
