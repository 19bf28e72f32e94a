"""What only the SQLite store promises: many processes, foreign and damaged files, backups, full disks."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from recollect.adapters.records.common import migrations
from recollect.adapters.records.sqlite import term_holders
from recollect.adapters.records.sqlite.connection import connect
from recollect.adapters.records.sqlite.store import SqliteStore
from recollect.domain.agents import Agent
from recollect.domain.conversations import Session
from recollect.domain.memory import Memory
from recollect.domain.record import RECORDS
from recollect.domain.tenancy import Organization
from recollect.errors import DamagedData, InvalidInput, NewerStore, NotARecollectStore, StoreBusy, StoreError, StoreFull
from recollect.ports.query import Compare, IsNull, OneOf, Query, TextQuery
from recollect.ports.records import Scope
from recollect.ports.steps import Delete, DeleteWhere, Insert, Put, Update
from recollect.testing.conformance.makers import agent, found, ids, memory, search, session, stored

ACME = Scope("acme")
BEGINNING = """
    import os, sys
    from pathlib import Path
    from recollect.adapters.records.sqlite.store import SqliteStore
    from recollect.domain.agents import Agent
    from recollect.domain.conversations import Session
    from recollect.domain.tenancy import Organization
    from recollect.errors import *
    from recollect.ports.query import *
    from recollect.ports.records import *
    from recollect.ports.steps import *
    path, acme = Path(sys.argv[1]), Scope("acme")
"""


def process(path: Path, body: str, *arguments: str) -> subprocess.Popen[str]:
    """Another Python that runs these lines with a store's path."""
    script = textwrap.dedent(BEGINNING) + textwrap.dedent(body)
    command = [sys.executable, "-W", "ignore", "-c", script, str(path), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def outcome(child: subprocess.Popen[str]) -> str:
    return outcomes([child])[0]


def outcomes(children: list[subprocess.Popen[str]]) -> list[str]:
    """Of all of them, before one is found to have failed: none is left behind."""
    said = [child.communicate(timeout=60) for child in children]
    for child, (_, err) in zip(children, said, strict=True):
        assert child.returncode == 0, err[-2000:]
    return [out.strip() for out, _ in said]


def change(path: Path, statement: str, *values: object) -> None:
    """Meddle with a closed store's file, with correct checksums."""
    connection = connect(path, writable=True)
    connection.execute(statement, values)
    connection.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "records.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(path)
    yield store
    store.close()


@pytest.fixture
def connections() -> Iterator[list[apsw.Connection]]:
    """Every connection opened during the test; a store's first is its writer."""
    opened: list[apsw.Connection] = []
    apsw.connection_hooks.append(opened.append)
    yield opened
    apsw.connection_hooks.remove(opened.append)


def test_several_processes_on_one_new_file_lose_no_update(path: Path) -> None:
    body = """
        store = SqliteStore(path)
        start = [Put(Organization(organization_id="acme", id="acme", name="A"))]
        counter = Session(organization_id="acme", id="counter", metadata={"count": 0})
        try:
            store.transact(acme, [*start, Insert(counter)])
        except DuplicateKey:
            pass
        for turn in range(20):
            store.transact(acme, [Insert(Agent(organization_id="acme", name=sys.argv[2]))])
            while True:
                read = store.get(acme, Session, "counter")
                try:
                    store.transact(acme, [Update(read.changed(metadata={"count": read.metadata["count"] + 1}))])
                    break
                except VersionConflict:
                    pass
        store.close()
    """
    outcomes([process(path, body, f"p{number}") for number in range(4)])
    with_all = SqliteStore(path)
    counter = with_all.get(ACME, Session, "counter")
    assert counter is not None
    assert (counter.metadata["count"], counter.version) == (80, 81)
    assert with_all.count(ACME, Query(Agent)) == 80
    seqs = [change.seq for change in with_all.changes(ACME, 0)]
    assert seqs == sorted(set(seqs))
    assert with_all.verify() == []
    with_all.close()


def test_who_opened_the_file_while_another_made_it_seals_the_pages_that_it_moves(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first: list[SqliteStore] = []

    def make(connection: apsw.Connection) -> None:  # the file is there and empty; now another is faster
        if connection.filename == str(path):
            apsw.connection_hooks.remove(make)
            first.append(SqliteStore(path))
            organization = Organization(organization_id="acme", id="acme", name="A")
            first[0].transact(ACME, [Put(organization), Insert(session(ACME, "counter"))])

    apsw.connection_hooks.append(make)
    second = SqliteStore(path)
    found = second.get(ACME, Session, "counter")
    assert found is not None
    assert first[0]._tables.keeping.move()
    second.transact(ACME, [Update(found.changed(title="harbour"))])
    first[0].close()
    second.close()  # the last one moves the rest
    with closing(SqliteStore(path)) as again:
        assert again.verify() == []
    assert not caplog.records  # nothing had to be sealed afterwards


def test_pages_that_another_process_has_just_sealed_are_no_damage(path: Path) -> None:
    store = SqliteStore(path)
    calls: list[int] = []

    def read() -> int:
        calls.append(1)
        if len(calls) == 1:
            raise DamagedData("as another process found it, and mended it at once")
        return 5

    assert store._healing(read) == 5
    store.close()


def test_another_process_sees_what_was_committed_at_once(store: SqliteStore, path: Path) -> None:
    found(store, "acme")
    stored(store, ACME, agent(ACME))
    body = 'store = SqliteStore(path); print(store.get(acme, Agent, "bot").name); store.close()'
    assert outcome(process(path, body)) == "Bot"


def test_a_child_that_was_forked_off_is_told_to_open_the_store_itself(path: Path) -> None:
    body = """
        store = SqliteStore(path)
        store.transact(acme, [Insert(Organization(organization_id="acme", id="acme", name="A"))])
        child = os.fork()
        if child == 0:
            closed = 0
            for verb in (lambda: store.tenants(), lambda: store.transact(acme, []), lambda: store.verify()):
                try:
                    verb()
                except Closed:
                    closed += 1
            os._exit(closed)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), store.tenants())
        store.close()
    """
    assert outcome(process(path, body)) == "3 ['acme']"


def another_program(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE songs(title); INSERT INTO songs VALUES ('Yesterday')")
    connection.close()


@pytest.mark.parametrize(
    "make",
    [
        another_program,
        lambda path: path.write_text("Dear diary, today I read about SQLite.\n" * 50),
        lambda path: path.write_text("x"),
        lambda path: path.write_text("Dear diary, " * 40),
        lambda path: path.write_bytes(bytes(range(256)) * 64),
        lambda path: path.write_bytes(b"SQLite format 3\x00" + b"\xff" * 5000),
    ],
    ids=["another program", "text", "one byte", "a note", "bytes", "only the magic"],
)
def test_a_foreign_file_is_refused_and_left_as_it_is(path: Path, make: Callable[[Path], object]) -> None:
    make(path)
    before = path.read_bytes()
    with pytest.raises(NotARecollectStore):
        SqliteStore(path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_directory_or_a_missing_folder_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing" / "records.db"):
        with pytest.raises(StoreError):
            SqliteStore(path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a?mode=memory&cache=shared", "a#b.db", "100%41.db", "ключ 🗝.db", "a'b\"c.db"])
def test_a_path_is_a_path_and_never_an_option(tmp_path: Path, name: str) -> None:
    store = SqliteStore(tmp_path / name)
    found(store, "acme")
    store.backup(tmp_path / f"copy of {name}")
    store.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, f"copy of {name}"])


def test_a_file_that_may_not_be_written_is_a_typed_error(tmp_path: Path) -> None:
    body = """
        import shutil, tempfile
        store = SqliteStore(path)
        store.close()
        folder = Path(tempfile.mkdtemp())
        copy = Path(shutil.copy(path, folder))
        copy.chmod(0o444)
        folder.chmod(0o555)
        if os.getuid() == 0:
            os.chown(folder, 65534, 65534)
            os.setuid(65534)
        before = copy.read_bytes()
        for mode in (0o555, 0o755):
            folder.chmod(mode)
            try:
                SqliteStore(copy)
            except RecollectError as error:
                print(error.code, copy.read_bytes() == before)
        copy.unlink()
    """
    child = process(tmp_path / "records.db", body)
    assert outcome(child) in ("store_error True\nstore_read_only True", "store_read_only True\nstore_read_only True")


def test_a_newer_file_is_refused_and_left_as_it_is(path: Path) -> None:
    SqliteStore(path).close()
    change(path, "INSERT INTO recollect_migrations VALUES (99, 'future', 'x', '2030-01-01')")
    before = path.read_bytes()
    with pytest.raises(NewerStore):
        SqliteStore(path)
    assert path.read_bytes() == before


def test_a_file_made_by_an_altered_migration_is_refused(path: Path) -> None:
    SqliteStore(path).close()
    change(path, "UPDATE recollect_migrations SET checksum = 'other' WHERE number = 1")
    with pytest.raises(StoreError, match="migration 1"):
        SqliteStore(path)


def test_opening_an_old_file_applies_only_what_is_missing(path: Path) -> None:
    SqliteStore(path).close()
    connection = connect(path, writable=True)
    rows = connection.execute("SELECT number, checksum FROM recollect_migrations ORDER BY number").fetchall()
    assert rows == [(migration.number, migration.checksum) for migration in migrations.migrations()]
    connection.close()
    again = SqliteStore(path)
    assert again.migrate() == []
    again.close()


def test_a_backup_under_load_is_one_consistent_moment(store: SqliteStore, tmp_path: Path) -> None:
    found(store, "acme")
    stored(store, ACME, session(ACME, "counter", metadata={"count": 0}))
    done = threading.Event()

    def write(worker: int) -> None:
        turn = 0
        while not done.is_set():
            turn += 1
            id = f"{worker}-{turn:04}"
            counter = session(ACME, f"counter{worker}", metadata={"count": turn})
            store.transact(ACME, [Insert(agent(ACME, id)), Insert(memory(ACME, id, "an anchor")), Put(counter)])

    with ThreadPoolExecutor(3) as pool:
        writers = [pool.submit(write, worker) for worker in range(3)]
        for number in range(3):
            threading.Event().wait(0.1)
            store.backup(tmp_path / f"{number}.db")
        done.set()
        [writer.result() for writer in writers]
    with store.vector_snapshot() as snapshot:
        incarnations = {snapshot.incarnation}
    whole = {(one.table, one.id): one.seq for one in store.changes(ACME, 0, limit=10**6)}
    for number in range(3):
        copy = SqliteStore(tmp_path / f"{number}.db")
        agents = ids(copy, ACME, Query(Agent))
        counters = copy.find(ACME, Query(Session)).records
        assert sum(one.metadata["count"] for one in counters) == len(agents) > 0
        assert agents == ids(copy, ACME, Query(Memory)) == sorted(search(copy, ACME, "anchor", limit=10**6))
        last = copy.changes(ACME, 0, limit=10**6)[-1].seq
        assert set(agents) == {id for (table, id), seq in whole.items() if table == "agent" and seq <= last}
        assert all(store.get(ACME, Memory, one.id) == one for one in copy.find(ACME, Query(Memory)).records)
        with copy.vector_snapshot() as snapshot:
            incarnations.add(snapshot.incarnation)
        assert copy.verify() == []
        copy.close()
    assert len(incarnations) == 4


def test_a_store_larger_than_its_cache_is_backed_up(path: Path, store: SqliteStore, tmp_path: Path) -> None:
    """Pages that a copy writes before its first one must have their checksums all the same."""
    found(store, "acme")
    stored(store, ACME, *(agent(ACME, f"{n:02}", metadata={"noise": "x" * 2_000_000}) for n in range(20)))
    stored(store, ACME, agent(ACME, "in the log"))  # where pages have no checksums yet
    assert path.stat().st_size + path.with_name(path.name + "-wal").stat().st_size > 40_000_000
    store.backup(tmp_path / "copy.db")
    copy = SqliteStore(tmp_path / "copy.db")
    assert copy.count(ACME, Query(Agent)) == 21
    assert copy.verify() == []
    copy.close()


def test_who_reads_after_an_interrupted_read_does_not_come_into_its_transaction(store: SqliteStore) -> None:
    """Ctrl-C may come at any moment, also when a transaction is about to be ended."""

    def interrupted(reader: apsw.Cursor, statement: str, _: object) -> bool:
        if statement == "ROLLBACK":
            raise KeyboardInterrupt
        return True

    with store._readers.one() as reader:
        reader.exec_trace = interrupted
    with pytest.raises(KeyboardInterrupt), store.vector_snapshot() as snapshot:
        snapshot.last_seq()
    found(store, "acme")
    assert store.tenants() == ["acme"]
    assert ids(store, ACME, Query(Agent)) == []


def test_traces_that_cannot_be_erased_because_somebody_reads_are_told(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recollect.adapters.records.sqlite.connection.BUSY_SECONDS", 0.01)
    with closing(SqliteStore(path)) as store, closing(SqliteStore(path)) as other:
        found(store, "acme")
        stored(store, ACME, memory(ACME, text="xyzzyplugh"))
        with other.vector_snapshot() as snapshot:
            snapshot.last_seq()
            store.transact(ACME, [Delete(Memory, "fact")])
            with pytest.raises(StoreBusy, match="still in the log"):
                store.erase_traces()
        store.erase_traces()
        assert b"xyzzy" not in b"".join(file.read_bytes() for file in path.parent.iterdir())


def test_a_backup_never_overwrites(store: SqliteStore, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(InvalidInput):
        store.backup(tmp_path / "taken")
    with pytest.raises(StoreError):
        store.backup(tmp_path / "missing" / "copy.db")
    assert (tmp_path / "taken").read_text() == "mine"


def test_a_full_disk_is_a_typed_error_and_passes(connections: list[apsw.Connection], store: SqliteStore) -> None:
    found(store, "acme")
    writer = connections[0]
    pages = writer.execute("PRAGMA page_count").get
    writer.execute(f"PRAGMA max_page_count = {pages + 30}")
    kept: list[str] = []

    def fill() -> None:
        for number in range(100):
            stored(store, ACME, memory(ACME, f"{number:03}", "an anchor " + "x" * 5000))
            kept.append(f"{number:03}")

    with pytest.raises(StoreFull):
        fill()
    assert kept
    assert ids(store, ACME, Query(Memory)) == sorted(search(store, ACME, "anchor")) == kept
    writer.execute("PRAGMA max_page_count = 1000000")
    stored(store, ACME, memory(ACME, "later", "an anchor"))
    assert store.verify() == []


def test_a_refused_piece_that_cannot_be_undone_is_told_as_what_it_is(store: SqliteStore) -> None:
    found(store, "acme")
    stored(store, ACME, agent(ACME, "taken"))
    connection = store._tables._connection

    def trace(cursor: object, statement: str, values: object) -> bool:
        if "ROLLBACK" in statement:
            raise apsw.FullError("database or disk is full")
        return True

    connection.exec_trace = trace
    with pytest.raises(StoreFull):
        store.transact(ACME, [Insert(agent(ACME, "a")), Insert(agent(ACME, "taken"))])
    connection.exec_trace = None
    store.transact(ACME, [Insert(agent(ACME, "b"))])
    assert ids(store, ACME, Query(Agent)) == ["b", "taken"]


def test_when_the_disk_fills_under_many_writers_each_is_told_the_truth(
    connections: list[apsw.Connection], store: SqliteStore
) -> None:
    found(store, "acme")
    writer = connections[0]
    pages = writer.execute("PRAGMA page_count").get
    writer.execute(f"PRAGMA max_page_count = {pages + 120}")
    ready = threading.Barrier(16)

    def write(worker: int) -> list[str]:
        ready.wait()
        kept = []
        for turn in range(12):
            id = f"{worker:02}-{turn:02}"
            try:
                stored(store, ACME, memory(ACME, id, "x" * 700 * (1 + worker % 5)), agent(ACME, id))
            except (StoreFull, StoreError):
                continue
            kept.append(id)
        return kept

    with ThreadPoolExecutor(16) as pool:
        kept = sorted(id for ids in pool.map(write, range(16)) for id in ids)
    assert 0 < len(kept) < 16 * 12
    assert ids(store, ACME, Query(Memory)) == ids(store, ACME, Query(Agent)) == kept
    writer.execute("PRAGMA max_page_count = 1000000")
    stored(store, ACME, memory(ACME, "later"))
    seqs = [change.seq for change in store.changes(ACME, 0)]
    assert seqs == sorted(set(seqs))
    assert store.verify() == []


def test_no_byte_is_left_of_what_was_deleted_once_traces_are_erased(path: Path, store: SqliteStore) -> None:
    found(store, "acme")
    stored(store, ACME, *(memory(ACME, f"m{number}", f"kept number {number}") for number in range(50)))
    stored(store, ACME, memory(ACME, "secret", "xyzzyplugh", author="xyzzyauthor", metadata={"k": "xyzzymeta"}))
    store.transact(ACME, [Update(memory(ACME, "secret", "xyzzyplover"))])
    store.transact(ACME, [Delete(Memory, "secret")])
    store.erase_traces()
    left = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert b"xyzzy" not in left
    assert b"kept number 49" in left


PIECES = "SELECT count(DISTINCT segid) FROM memory_text_idx"


def test_the_text_index_is_merged_in_transactions_that_nobody_waits_for(store: SqliteStore) -> None:
    found(store, "acme")
    run: list[str] = []

    def seen(cursor: apsw.Cursor, statement: str, values: object) -> bool:
        run.append("merge" if "'merge'" in statement else statement)
        return True

    store._tables._connection.exec_trace = seen
    for number in range(400):
        stored(store, ACME, memory(ACME, f"m{number}", f"word{number} of many"))
    store.migrate()  # waits for what the writer does by itself
    merges = [place for place, what in enumerate(run) if what == "merge"]
    assert len(merges) >= 3
    for place in merges:
        begun = max(before for before in range(place) if run[before].startswith("BEGIN"))
        assert "SAVEPOINT work" not in run[begun:place]
    assert dict(store._read_rows("SELECT k, v FROM memory_text_config WHERE k LIKE '%merge'")) == {
        "automerge": 0,
        "deletemerge": 0,
    }
    assert search(store, ACME, "word77") == ["m77"]
    assert store.verify() == []


def test_the_text_index_stays_in_few_pieces_where_every_process_adds_one(path: Path) -> None:
    for number in range(100):
        store = SqliteStore(path)
        if not number:
            found(store, "acme")
        stored(store, ACME, memory(ACME, f"m{number}", f"word{number} of many"))
        store.close()
    store = SqliteStore(path)
    ((pieces,),) = store._read_rows(PIECES)
    assert int(str(pieces)) <= 16
    assert search(store, ACME, "word77") == ["m77"]
    store.close()


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Merges of a small index are of many steps, too."""
    monkeypatch.setattr(SqliteStore, "pages_at_once", 2)


def merged(store: SqliteStore) -> Callable[[], int]:
    """How many steps of merging were run since."""
    steps = 0

    def count(cursor: apsw.Cursor, statement: str, values: object) -> bool:
        nonlocal steps
        steps += "'merge'" in statement
        return True

    store._tables._connection.exec_trace = count
    return lambda: steps


def words(start: int, count: int) -> list[Memory]:
    return [
        memory(ACME, f"m{number}", f"word{number} seen on day{number % 700}") for number in range(start, start + count)
    ]


def test_nothing_is_left_when_a_merge_had_copied_what_is_deleted(
    path: Path, store: SqliteStore, small_steps: None
) -> None:
    """A merge that had begun ends with what it copied: the index is written once more."""
    found(store, "acme")
    first = "0000171717xyzzy"  # of all words: what is merged first
    stored(store, ACME, memory(ACME, "secret", f"{first} xyzzyplugh"), *words(0, 1000))
    stored(store, ACME, *words(1000, 1000))
    assert store._writer.run(lambda: store._tables.begin_merging(["memory"], 2)) == ["memory"]
    assert store._writer.run(lambda: store._tables.merge_text("memory", 2))
    assert store._read_rows(PIECES) == [(3,)]  # the two that are merged, and what has been made of them
    store.transact(ACME, [Delete(Memory, "secret")])
    store.erase_traces()
    assert b"xyzzy" not in b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert search(store, ACME, "word77") == ["m77"]
    assert store.verify() == []


def test_others_write_while_traces_are_erased(store: SqliteStore, small_steps: None) -> None:
    """Each step of merging is a transaction of its own: a write waits for one of them, not for all."""
    found(store, "acme")
    stored(store, ACME, *words(0, 1000))
    stored(store, ACME, *words(1000, 1000))
    store.transact(ACME, [Delete(Memory, "m7")])
    steps, seen = merged(store), list[int]()
    with ThreadPoolExecutor(1) as other:
        erasing = other.submit(store.erase_traces)
        while not erasing.done():
            stored(store, ACME, memory(ACME, f"meanwhile{len(seen)}", f"more {len(seen)}"))
            seen.append(steps())
        erasing.result()
    assert len({step for step in seen if 0 < step < steps()}) > 3, seen
    assert store.verify() == []


def pieces(store: SqliteStore) -> list[tuple[object, ...]]:
    return store._read_rows("SELECT DISTINCT segid FROM memory_text_idx ORDER BY segid")


def test_to_delete_many_does_not_write_the_text_index_anew(store: SqliteStore) -> None:
    """FTS5 would, within the transaction that deletes: others waited for seconds beside a prune."""
    found(store, "acme")
    stored(store, ACME, *words(0, 2000))
    store.erase_traces()
    before = pieces(store)
    store.transact(ACME, [Delete(Memory, f"m{number}") for number in range(1000)])
    assert pieces(store) == before
    assert (search(store, ACME, "word77"), search(store, ACME, "word1077")) == ([], ["m1077"])
    store.erase_traces()
    assert pieces(store) != before


def test_a_store_from_before_leaves_merging_to_us_once_it_is_opened(path: Path) -> None:
    with closing(SqliteStore(path)) as store:
        found(store, "acme")
        setting = "INSERT INTO memory_text(memory_text, rank) VALUES ('deletemerge', 10)"
        store._writer.run(lambda: store._tables.run(setting))
    with closing(SqliteStore(path)) as store:
        kept = "SELECT v FROM {}_text_config WHERE k = 'deletemerge'"
        assert [store._read_rows(kept.format(table)) for table in ("memory", "message")] == [[(0,)], [(0,)]]


def test_erasing_traces_again_merges_nothing(store: SqliteStore, small_steps: None) -> None:
    found(store, "acme")
    stored(store, ACME, *words(0, 1000))
    store.erase_traces()
    steps = merged(store)
    store.erase_traces()
    searched = sum(1 for record in RECORDS.values() if record.shape.text)
    assert steps() == searched  # each is asked whether there is something to do


def test_verify_finds_what_the_text_index_lacks_and_mend_makes_it_again(path: Path, store: SqliteStore) -> None:
    found(store, "acme")
    stored(store, ACME, *(memory(ACME, f"m{number}", "an anchor") for number in range(5)))
    change(path, "DELETE FROM memory_text WHERE rowid = (SELECT _row FROM memory WHERE id = 'm3')")
    problems = store.verify()
    assert [(one.table, one.id, one.organization_id) for one in problems] == [("memory", "m3", "acme")]
    assert "m3" not in search(store, ACME, "anchor")
    assert any("memory: 5" in line for line in store.mend())
    assert store.verify() == []
    assert sorted(search(store, ACME, "anchor")) == ["m0", "m1", "m2", "m3", "m4"]


def test_verify_finds_what_the_text_index_should_not_have(path: Path, store: SqliteStore) -> None:
    found(store, "acme")
    first = stored(store, ACME, memory(ACME, text="an anchor"))
    store.transact(ACME, [Update(first.changed(is_deleted=True))])
    change(path, "INSERT INTO memory_text(rowid, facets, terms) SELECT _row, '', 'anchor' FROM memory")
    assert [one.table for one in store.verify()] == ["memory"]
    store.mend()
    assert store.verify() == []


def test_verify_finds_nothing_wrong_while_others_write(store: SqliteStore) -> None:
    found(store, "acme")
    done = threading.Event()

    def churn() -> None:
        while not done.is_set():
            stored(store, ACME, *(memory(ACME, f"m{number}", "an anchor") for number in range(100)))
            store.transact(ACME, [DeleteWhere(Memory, (IsNull("author"),))])

    with ThreadPoolExecutor(1) as pool:
        churning = pool.submit(churn)
        problems = [problem for _ in range(12) for problem in [*store.verify(), *search_errors(store)]]
        done.set()
        churning.result()
    assert problems == []


def search_errors(store: SqliteStore) -> list[str]:
    hits = search(store, ACME, "anchor")
    return [] if len(hits) in (0, 100) else hits


def test_verify_names_a_record_that_points_at_nothing(path: Path, store: SqliteStore) -> None:
    found(store, "acme")
    stored(store, ACME, session(ACME), memory(ACME, session_id="talk"))
    change(path, "DELETE FROM session")
    assert [(one.table, one.id) for one in store.verify()] == [("memory", "fact")]


def test_no_statement_is_planned_again_because_other_values_are_asked_for(store: SqliteStore) -> None:
    found(store, "acme")
    stored(store, ACME, *(memory(ACME, f"m{number}", f"sky number {number}") for number in range(20)))
    again: list[int] = []
    with store._readers.one() as connection:
        connection.trace_v2(
            apsw.SQLITE_TRACE_PROFILE, lambda told: again.append(told["stmt_status"]["SQLITE_STMTSTATUS_REPREPARE"])
        )
    for number in range(5):
        after, wanted = f"m{number}", tuple(f"m{number + place}" for place in range(number + 1))
        store.select(ACME, Query(Memory, (Compare("id", ">", after), OneOf("id", wanted))), ("id", "text"))
        store.search_text(ACME, TextQuery(Memory, ("sky", str(number)), 10))
    assert len(again) > 20
    assert sum(again) == 0


def test_the_others_of_a_store_never_count_however_often_it_is_searched(store: SqliteStore) -> None:
    def scores() -> dict[str, float]:
        hits = store.search_text(ACME, TextQuery(Memory, ("sky", "two"), 10))
        return {hit.id: hit.score for hit in hits}

    found(store, "acme")
    stored(store, ACME, *(memory(ACME, name, f"sky {name}") for name in ("one", "two", "three")))
    alone = scores()
    assert scores() == alone
    globex = found(store, "globex")
    stored(store, globex, *(memory(globex, f"other{number}", "sky two") for number in range(5)))
    assert scores() == alone
    store.transact(ACME, [Delete(Memory, "three")])
    fewer = scores()
    assert set(fewer) == {"one", "two"}
    assert fewer["two"] < alone["two"]  # rare among three is rarer than among two
    store.transact(globex, [DeleteWhere(Memory, (Compare("text", "=", "sky two"),))])
    assert scores() == fewer


def test_the_size_of_a_scope_is_counted_once_until_something_is_written(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[str] = []
    count = term_holders._count
    monkeypatch.setattr(term_holders, "_count", lambda *given: counted.append("again") or count(*given))
    found(store, "acme")
    stored(store, ACME, memory(ACME, "one", "sky one"))
    for _ in range(3):
        assert search(store, ACME, "sky") == ["one"]
    assert len(counted) == 1
    stored(store, ACME, memory(ACME, "two", "sky two"))
    assert set(search(store, ACME, "sky")) == {"one", "two"}
    assert len(counted) == 2
