"""What only the DuckDB store promises: one process, no trace of what was erased, backups, damage, upgrades."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest

import recollect
from recollect.adapters.records.common import migrations
from recollect.adapters.records.duckdb.store import DuckdbStore
from recollect.domain.agents import Agent
from recollect.domain.memory import Embedding, Memory, Tag
from recollect.domain.tenancy import Organization
from recollect.errors import (
    Closed,
    DamagedData,
    InvalidInput,
    MissingExtra,
    NewerStore,
    NotARecollectStore,
    RecollectError,
    ReferenceMissing,
    RequirementFailed,
    StoreBusy,
    StoreError,
)
from recollect.ports.query import IsNull, Linked, Query, equal
from recollect.ports.records import Scope
from recollect.ports.steps import Absent, Delete, DeleteWhere, Insert, Put, Step, Update
from recollect.testing.conformance.makers import agent, embedding, found, ids, memory, search, session, stored, tag
from seeds import SEED, SOAK

ACME = Scope("acme")
MANY = 60
NOW = memory(ACME).occurred_at


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "records.duckdb"


@pytest.fixture
def store(path: Path) -> Iterator[DuckdbStore]:
    store = DuckdbStore(path)
    yield store
    store.close()


def in_another_process(path: Path, *, read_only: bool = False) -> str:
    """What another Python says when it opens the store: the code of the error, or "open"."""
    script = f"""if True:
        import os, sys
        from pathlib import Path
        from recollect.errors import RecollectError
        from recollect.adapters.records.duckdb.store import DuckdbStore
        try:
            DuckdbStore(Path({str(path)!r})).close()
            print("open")
        except RecollectError as error:
            print(error.code, error)
    """
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


def meddle(path: Path, statement: str) -> None:
    """Change a closed store's file behind its back."""
    connection = duckdb.connect(str(path))
    connection.execute(statement)
    connection.close()


def test_a_second_process_is_told_at_once_who_has_the_store_and_what_to_do(store: DuckdbStore, path: Path) -> None:
    said = in_another_process(path)
    assert said.startswith("store_busy")
    assert f"process {os.getpid()}" in said
    assert "SQLite" in said
    assert "PostgreSQL" in said
    assert "export" in said


def test_the_store_stays_locked_when_something_else_reads_its_file(store: DuckdbStore, path: Path) -> None:
    """DuckDB's own lock is gone then: POSIX takes it away with the first descriptor that is closed."""
    path.read_bytes()
    assert in_another_process(path).startswith("store_busy")


def test_the_file_is_free_again_after_closing_and_nothing_is_left_beside_it(path: Path) -> None:
    DuckdbStore(path).close()
    assert list(path.parent.iterdir()) == [path]
    assert in_another_process(path) == "open"


def test_another_program_that_has_the_file_is_named(path: Path) -> None:
    DuckdbStore(path).close()
    script = f"import duckdb, sys; c = duckdb.connect({str(path)!r}); print('open', flush=True); sys.stdin.read()"
    other = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    assert other.stdout.readline() == "open\n"
    with pytest.raises(StoreBusy, match=str(other.pid)):
        DuckdbStore(path)
    other.communicate()
    DuckdbStore(path).close()


def test_opening_it_twice_in_one_process_is_refused(store: DuckdbStore, path: Path) -> None:
    with pytest.raises(StoreBusy, match="this process"):
        DuckdbStore(path)
    found(store, "acme")


def test_a_child_that_was_forked_off_is_told_to_open_it_itself(path: Path) -> None:
    script = f"""if True:
        import os
        from pathlib import Path
        from recollect.adapters.records.duckdb.store import DuckdbStore
        from recollect.errors import Closed
        from recollect.ports.records import Scope
        store = DuckdbStore(Path({str(path)!r}))
        child = os.fork()
        if child == 0:
            refused = 0
            for verb in (store.tenants, lambda: store.transact(Scope("a"), []), store.verify):
                try:
                    verb()
                except Closed:
                    refused += 1
            os._exit(refused)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        store.close()
    """
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, timeout=60)


def test_a_process_that_ends_without_closing_ends_quietly_and_loses_nothing(path: Path) -> None:
    script = f"""if True:
        import recollect
        mem = recollect.open("duckdb:///{path}", embedder="hash")
        mem.remember("Alice prefers pytest")
        mem.recall("pytest")
    """
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    with recollect.open(f"duckdb:///{path}", embedder="hash") as mem:
        assert [hit.text for hit in mem.recall("pytest")] == ["Alice prefers pytest"]


def test_a_missing_package_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "recollect.adapters.records.duckdb.store")
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(MissingExtra, match=r"recollect\[duckdb\]"):
        recollect.open("duckdb:///x.duckdb")


def test_thousands_of_memories_at_once_and_their_duplicates(path: Path) -> None:
    """Rows wait to be written together, and must be seen all the same by what looks for them meanwhile."""
    with recollect.open(f"duckdb:///{path}", embedder="hash") as mem:
        first = mem.remember_many([f"fact {n % 150}" for n in range(300)]).receipts
        again = mem.remember_many([f"fact {n}" for n in range(100, 200)]).receipts
        assert len({one.id for one in first}) == 150
        assert [one.duplicate for one in again] == [True] * 50 + [False] * 50
        assert mem.stats().memories == 200
        assert mem.verify().sound


def test_what_waits_is_found_by_later_steps_of_the_same_transaction(store: DuckdbStore) -> None:
    found(store, "acme")
    absent = [Absent(Memory, (equal("id", f"m{n}"),)) for n in range(20)]
    adding = [Insert(memory(ACME, f"m{n}", f"anchor {n}")) for n in range(20)]
    store.transact(ACME, [step for pair in zip(absent, adding, strict=True) for step in pair])
    for late in (0, 19):
        with pytest.raises(RequirementFailed):
            store.transact(ACME, [Insert(memory(ACME, "new")), Absent(Memory, (equal("id", "new"),)), *absent])
        with pytest.raises(RequirementFailed):
            store.transact(ACME, [*absent[:late], absent[late], *absent])
    gone: list[Step] = [Delete(Memory, "m3"), Absent(Memory, (equal("id", "m3"),)), Insert(memory(ACME, "m3", "back"))]
    store.transact(ACME, gone)
    linked = Absent(Memory, (equal("id", "m4"), Linked(Tag, "memory_id")))
    with pytest.raises(RequirementFailed):
        store.transact(ACME, [Insert(tag(ACME, "m4", "sea")), linked])
    assert store.verify() == []


def test_deleting_and_bringing_back_the_same_keys_in_one_transaction(store: DuckdbStore) -> None:
    """Engines that check keys too eagerly take the deleted row for a duplicate."""
    found(store, "acme")
    stored(store, ACME, agent(ACME), memory(ACME, text="an anchor", idempotency_key="once"))
    with store.vector_snapshot() as snapshot:  # an old reader keeps the old rows alive
        snapshot.last_seq()
        for turn in range(5):
            again = memory(ACME, text=f"anchor {turn}", idempotency_key="once")
            store.transact(ACME, [Delete(Memory, "fact"), Insert(again), Delete(Memory, "fact"), Insert(again)])
            store.transact(ACME, [Update(again.changed(text="a lantern")), Delete(Memory, "fact"), Put(again)])
            store.transact(ACME, [Delete(Agent, "bot"), Insert(agent(ACME))])
    assert search(store, ACME, "anchor") == ["fact"]
    assert store.verify() == []


def test_a_failing_neighbour_in_the_same_commit_undoes_nobody_else(store: DuckdbStore) -> None:
    found(store, "acme")
    stored(store, ACME, agent(ACME, "taken"))
    tables = store._tables

    def work(id: str) -> Any:
        return lambda: tables.apply(ACME, [Insert(agent(ACME, id)), Insert(memory(ACME, id, "an anchor"))])

    tables.begin()
    seqs = [tables.attempt(work("a")).seq]
    with pytest.raises(RecollectError):
        tables.attempt(work("taken"))
    seqs.append(tables.attempt(work("b")).seq)
    tables.commit()
    assert ids(store, ACME, Query(Agent)) == ["a", "b", "taken"]
    assert sorted(search(store, ACME, "anchor")) == ["a", "b"]
    assert [one.seq for one in store.changes(ACME, 0)][-1] == seqs[-1] > seqs[0]
    assert store.verify() == []


def test_when_the_neighbours_cannot_be_done_again_nothing_is_committed(
    store: DuckdbStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was undone with a failing neighbour and could not be repeated must not be acknowledged."""
    found(store, "acme")
    stored(store, ACME, agent(ACME, "taken"))
    tables = store._tables

    def refusing() -> Any:
        tables._execute("UPDATE agent SET name = 'other'")
        monkeypatch.setattr(tables, "_flush", full)
        raise RequirementFailed("refused")

    def full() -> None:
        raise duckdb.OutOfMemoryException("could not allocate block")

    tables.begin()
    tables.attempt(lambda: tables.apply(ACME, [Insert(agent(ACME, "a"))]))
    with pytest.raises(StoreError):
        tables.attempt(refusing)
    monkeypatch.undo()
    with pytest.raises(StoreError, match="out of memory"):
        tables.commit()
    tables.begin()
    tables.attempt(lambda: tables.apply(ACME, [Insert(agent(ACME, "b"))]))
    tables.commit()
    assert ids(store, ACME, Query(Agent)) == ["b", "taken"]


def test_no_byte_is_left_of_what_was_deleted_once_traces_are_erased(path: Path, store: DuckdbStore) -> None:
    found(store, "acme")
    stored(store, ACME, *(memory(ACME, f"m{number}", f"kept number {number}") for number in range(50)))
    secret = {"author": "xyzzyauthor", "metadata": {"k": "xyzzymeta"}}
    stored(store, ACME, memory(ACME, "secret", "xyzzyplugh", **secret))
    stored(store, ACME, *(embedding(ACME, f"m{n}", b"xyzzyvector" * 50, id=f"e{n}") for n in range(50)))
    store.transact(ACME, [Update(memory(ACME, "secret", "xyzzyplover"))])
    store.transact(ACME, [Delete(Memory, "secret"), *(Delete(Embedding, f"e{n}") for n in range(50))])
    assert b"xyzzy" in everything(path)
    store.erase_traces()
    assert b"xyzzy" not in everything(path)
    assert b"kept number 49" in everything(path)
    assert store.count(ACME, Query(Memory)) == 50
    assert store.verify() == []
    stored(store, ACME, memory(ACME, "later", "it goes on"))
    store.close()
    assert b"xyzzy" not in everything(path)
    again = DuckdbStore(path)
    assert again.count(ACME, Query(Memory)) == 51
    again.close()


def everything(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in path.parent.rglob("*") if file.is_file())


def test_traces_are_erased_from_a_store_whose_log_was_left_by_a_killed_process(path: Path) -> None:
    script = f"""if True:
        import os
        from pathlib import Path
        from recollect.adapters.records.duckdb.store import DuckdbStore
        from recollect.domain.tenancy import Organization
        from recollect.ports.records import Scope
        from recollect.ports.steps import Insert
        store = DuckdbStore(Path({str(path)!r}))
        store.transact(Scope("acme"), [Insert(Organization(organization_id="acme", id="acme", name="A"))])
        os.kill(os.getpid(), 9)
    """
    subprocess.run([sys.executable, "-c", script], check=False, timeout=60)
    assert path.with_name(path.name + ".wal").exists()
    store = DuckdbStore(path)
    store.erase_traces()
    assert store.tenants() == ["acme"]
    store.close()
    assert list(path.parent.iterdir()) == [path]


def test_the_file_is_rewritten_under_readers_and_writers_without_losing_anything(store: DuckdbStore) -> None:
    found(store, "acme")
    done = threading.Event()

    def write(worker: int) -> int:
        turn = 0
        while not done.is_set():
            stored(store, ACME, memory(ACME, f"{worker}-{turn}", "an anchor"))
            assert store.get(ACME, Memory, f"{worker}-{turn}") is not None
            with store.vector_snapshot() as snapshot:
                assert snapshot.last_seq() > 0
                assert store.tenants() == ["acme"]  # who reads may read more, whoever waits to be alone
            turn += 1
        return turn

    with ThreadPoolExecutor(3) as pool:
        writers = [pool.submit(write, worker) for worker in range(3)]
        for _ in range(4):
            store.erase_traces()
        done.set()
        written = sum(writer.result() for writer in writers)
    assert store.count(ACME, Query(Memory)) == len(search(store, ACME, "anchor", limit=10**6)) == written > 0
    assert store.verify() == []


def test_a_backup_under_load_is_one_consistent_moment(store: DuckdbStore, tmp_path: Path) -> None:
    found(store, "acme")
    done = threading.Event()

    def write(worker: int) -> None:
        turn = 0
        while not done.is_set():
            turn += 1
            counter = session(ACME, f"counter{worker}", metadata={"count": turn})
            id = f"{worker}-{turn}"
            store.transact(ACME, [Insert(agent(ACME, id)), Insert(memory(ACME, id, "an anchor")), Put(counter)])

    with ThreadPoolExecutor(2) as pool:
        writers = [pool.submit(write, worker) for worker in range(2)]
        (tmp_path / "copies").mkdir()
        for number in range(2):
            while len(ids(store, ACME, Query(Agent))) <= 2 * number:  # on a busy machine writing takes its time
                threading.Event().wait(0.05)
            store.backup(tmp_path / "copies" / f"{number}.duckdb")
        done.set()
        [writer.result() for writer in writers]
    with store.vector_snapshot() as snapshot:
        incarnations = {snapshot.incarnation}
    for number in range(2):
        copy = DuckdbStore(tmp_path / "copies" / f"{number}.duckdb")
        agents = ids(copy, ACME, Query(Agent))
        counts = [metadata["count"] for (metadata,) in copy.select(ACME, Query(type(session(ACME))), ("metadata",))]
        assert sum(counts) == len(agents) > 0
        assert agents == ids(copy, ACME, Query(Memory)) == sorted(search(copy, ACME, "anchor", limit=10**6))
        assert copy.verify() == []
        with copy.vector_snapshot() as snapshot:
            incarnations.add(snapshot.incarnation)
        copy.close()
    assert len(incarnations) == 3
    assert sorted(file.name for file in (tmp_path / "copies").iterdir()) == ["0.duckdb", "1.duckdb"]


def test_a_backup_never_overwrites(store: DuckdbStore, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(InvalidInput):
        store.backup(tmp_path / "taken")
    with pytest.raises(StoreError):
        store.backup(tmp_path / "missing" / "copy.duckdb")
    assert (tmp_path / "taken").read_text() == "mine"


def test_a_newer_file_is_refused_and_a_foreign_one_left_alone(path: Path, tmp_path: Path) -> None:
    DuckdbStore(path).close()
    meddle(path, f"INSERT INTO recollect_migrations VALUES ({len(migrations.migrations()) + 1}, 'next', 'x', now())")
    with pytest.raises(NewerStore):
        DuckdbStore(path)
    meddle(tmp_path / "theirs.duckdb", "CREATE TABLE theirs(a INT)")
    with pytest.raises(NotARecollectStore):
        DuckdbStore(tmp_path / "theirs.duckdb")
    (tmp_path / "text.duckdb").write_text("not a database at all " * 400)
    with pytest.raises(NotARecollectStore):
        DuckdbStore(tmp_path / "text.duckdb")
    (tmp_path / "scrap.duckdb").write_text("scrap")
    with pytest.raises((NotARecollectStore, DamagedData)):
        DuckdbStore(tmp_path / "scrap.duckdb")
    assert (tmp_path / "scrap.duckdb").read_text() == "scrap"
    with pytest.raises(StoreError):
        DuckdbStore(tmp_path / "no" / "folder.duckdb")
    assert not list(tmp_path.glob("*.lock"))


def test_an_upgrade_adds_columns_and_indexes_to_a_store_with_records(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = DuckdbStore(path)
    found(store, "acme")
    kept = stored(store, ACME, memory(ACME, text="an anchor"))
    store.close()
    steps = (
        {"do": "add_column", "table": "memory", "column": ["mood", "text", True]},
        {"do": "add_column", "table": "tag", "column": ["weight", "integer", False]},
        {"do": "add_index", "table": "memory", "fields": ["author_id"]},
        {"do": "drop_index", "table": "memory", "fields": ["created_at"]},
    )
    known = (
        *migrations.migrations(),
        migrations.Migration(len(migrations.migrations()) + 1, "next", steps[:2] + steps[3:], "sum"),
    )
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "migrations", lambda: known)
        upgraded = DuckdbStore(path)
        assert upgraded.get(ACME, Memory, "fact") == kept
        assert upgraded.verify() == []
        upgraded.close()
    with pytest.raises(NewerStore):
        DuckdbStore(path)


def test_verify_finds_what_the_text_index_lacks_and_mend_makes_it_again(path: Path) -> None:
    store = DuckdbStore(path)
    found(store, "acme")
    stored(store, ACME, *(memory(ACME, f"m{number}", "an anchor") for number in range(5)))
    store.close()
    meddle(path, "DELETE FROM memory_text WHERE row = (SELECT _row FROM memory WHERE id = 'm3')")
    meddle(path, "INSERT INTO memory_text VALUES (1, 999999)")
    store = DuckdbStore(path)
    assert {(one.table, one.id) for one in store.verify()} == {("memory", "m3"), ("memory", None)}
    assert "m3" not in search(store, ACME, "anchor")
    assert any("memory: 5" in line for line in store.mend())
    assert store.verify() == []
    assert sorted(search(store, ACME, "anchor")) == ["m0", "m1", "m2", "m3", "m4"]
    store.close()


def test_verify_names_what_points_at_nothing_what_vanished_and_what_cannot_be_read(path: Path) -> None:
    store = DuckdbStore(path)
    found(store, "acme")
    stored(store, ACME, session(ACME), memory(ACME, session_id="talk"), agent(ACME, "a"), agent(ACME, "b"))
    store.close()
    meddle(path, "DELETE FROM agent WHERE id = 'b'")
    assert ["there are" in one.what for one in problems_of(path)] == [True]
    meddle(path, "DELETE FROM session")
    assert ("memory", "fact") in {(one.table, one.id) for one in problems_of(path)}
    meddle(path, "UPDATE agent SET name = ''")
    assert ("agent", "a") in {(one.table, one.id) for one in problems_of(path)}


def problems_of(path: Path) -> list[Any]:
    store = DuckdbStore(path)
    try:
        return store.verify()
    finally:
        store.close()


def test_verify_finds_nothing_wrong_while_others_write(store: DuckdbStore) -> None:
    found(store, "acme")
    done = threading.Event()

    def churn() -> None:
        while not done.is_set():
            stored(store, ACME, *(memory(ACME, f"m{number}", "an anchor") for number in range(50)))
            store.transact(ACME, [DeleteWhere(Memory, (IsNull("author"),))])

    with ThreadPoolExecutor(1) as pool:
        churning = pool.submit(churn)
        problems = [problem for _ in range(3) for problem in store.verify()]
        done.set()
        churning.result()
    assert problems == []


def test_a_closed_store_says_so(path: Path) -> None:
    store = DuckdbStore(path)
    store.close()
    store.close()
    for verb in (store.tenants, lambda: store.transact(ACME, []), store.verify, store.erase_traces):
        with pytest.raises(Closed):
            verb()


# -- damage ------------------------------------------------------------------------------------------------------------


def truth(number: int) -> Memory:
    text = f"marker{number}x anchor " + "word " * (number % 40) * (number % 7)
    return memory(ACME, f"m{number}", text, metadata={"n": number}, created_at=NOW, updated_at=NOW)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("sound") / "records.duckdb"
    store = DuckdbStore(path)
    found(store, "acme")
    stored(store, ACME, *(truth(number) for number in range(MANY)))
    store.close()
    return path.read_bytes()


def look(path: Path) -> tuple[int, int]:
    """How many answers were right, and how many were refused; a wrong one fails the test."""
    right = refused = 0
    try:
        store = DuckdbStore(path)
    except StoreError:
        return 0, 1
    try:
        for number in range(0, MANY, 7):
            for question, answer in (
                (lambda n=number: store.get(ACME, Memory, f"m{n}"), truth(number)),
                (lambda n=number: search(store, ACME, f"marker{n}x"), [f"m{number}"]),
                (lambda: store.count(ACME, Query(Memory)), MANY),
            ):
                try:
                    assert question() == answer
                    right += 1
                except StoreError:
                    refused += 1
        assert store.verify() or not refused, "verify must find what a read stumbled over"
    finally:
        try:
            store.close()
        except StoreError:
            refused += 1
    return right, refused


def test_a_sound_file_answers_everything(path: Path, sound: bytes) -> None:
    path.write_bytes(sound)
    assert look(path)[1] == 0


@pytest.mark.parametrize("seed", range(20 if SOAK else 2))
def test_a_flipped_byte_anywhere_is_noticed_or_harmless(path: Path, sound: bytes, seed: int) -> None:
    chance, noticed = random.Random(f"flips {SEED} {seed}"), 0
    used = [position for position in range(0, len(sound), 8) if sound[position : position + 8] != bytes(8)]
    for _ in range(10):
        position, flip = chance.choice(used), chance.randrange(1, 256)
        print("flipped", position, flip)
        broken = bytearray(sound)
        broken[position] ^= flip
        path.write_bytes(broken)
        noticed += look(path)[1] > 0
        for rest in path.parent.glob("records.duckdb*"):
            shutil.rmtree(rest) if rest.is_dir() else rest.unlink()
    assert noticed > 0


def test_a_truncated_file_is_noticed(path: Path, sound: bytes) -> None:
    for part in (2, 4, 8):
        path.write_bytes(sound[: len(sound) // part])
        assert look(path)[1] > 0
        for rest in path.parent.glob("records.duckdb*"):
            shutil.rmtree(rest) if rest.is_dir() else rest.unlink()


def test_restored_records_are_written_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A question between two of them would write each by itself: fifty times as slow, for a copy or an import."""
    scope = Scope("acme")
    memories = [memory(scope, f"m{number}") for number in range(200)]
    tags = [Tag(organization_id="acme", id=f"t{one.id}", memory_id=one.id, tag="x") for one in memories]
    with closing(DuckdbStore(tmp_path / "a.duckdb")) as store:
        store.transact(scope, [Insert(Organization(organization_id="acme", id="acme", name="A"))])
        asked: list[str] = []
        run = store._tables._execute
        monkeypatch.setattr(store._tables, "_execute", lambda *given: (asked.append(given[0]), run(*given))[1])
        for records in (memories, tags):
            store.transact(scope, [Insert(one, restoring=True) for one in records])
        assert len(asked) < 20
        assert store.count(scope, Query(Tag)) == 200
        absent = [one.changed(id=f"x{one.id}", memory_id="nothing") for one in tags]
        with pytest.raises(ReferenceMissing):
            store.transact(scope, [Insert(one, restoring=True) for one in absent])
