"""A commit that goes to the log in one write: the same bytes as ever, and nothing is written later than it was told."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apsw
import pytest

from recollect.adapters.records.sqlite import log_writes
from recollect.adapters.records.sqlite.connection import checksum_vfs, connect, prepare
from recollect.adapters.records.sqlite.store import SqliteStore
from recollect.adapters.records.sqlite.wal import open_log, read_frames, read_header
from recollect.adapters.records.sqlite.wal_notes import LogNotes
from recollect.domain.memory import Memory
from recollect.errors import DuplicateKey
from recollect.ports.query import Query
from recollect.ports.records import Scope
from recollect.ports.steps import Insert
from recollect.testing.conformance.makers import found, memory, stored

ACME = Scope("acme")
COUNTED = Path("/proc/self/io")
URI = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
resource = pytest.importorskip("resource")  # how a disk is made full
pytestmark = pytest.mark.skipif(log_writes.compiled is None, reason="the kernels were not compiled")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "team.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(path)) as store:
        found(store, "acme")
        yield store


def add(store: SqliteStore, *ids: str, text: str = "tea") -> None:
    store.transact(ACME, [Insert(memory(ACME, id, f"{text} {id}")) for id in ids])


def ids_in(store: SqliteStore) -> set[str]:
    return {one.id for one in store.find(ACME, Query(Memory)).records}


def frames_and_notes(path: Path) -> tuple[Any, Any]:
    """What the log holds, read by ourselves, and what was noted of it."""
    notes, log = LogNotes(path), open_log(path)
    noted = notes.read()
    assert noted is not None
    assert log is not None
    try:
        header = read_header(log)
        assert header is not None
        return read_frames(log, header, 0, noted.frames).tolist(), notes.entries(noted.frames).tolist()
    finally:
        os.close(log)


def recovered(path: Path, folder: Path) -> set[str]:
    """The memories in a copy, whose log SQLite checks from the beginning as after a crash."""
    folder.mkdir()
    for ending in ("", "-wal"):
        shutil.copy(path.with_name(path.name + ending), folder / ("copy.db" + ending))
    with closing(sqlite3.connect(folder / "copy.db")) as copy:
        assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return {id for (id,) in copy.execute("SELECT id FROM memory")}


def writes() -> int:
    return int(COUNTED.read_text().partition("syscw: ")[2].split()[0])


@pytest.mark.skipif(not COUNTED.exists(), reason="this system does not count the writes of a process")
def test_a_commit_is_a_few_writes(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def fewest(what: str) -> int:
        """Of several, since what other threads of this process write is counted, too."""
        counts = []
        for number in range(8):
            before = writes()
            add(store, f"{what} {number}")
            counts.append(writes() - before)
        return min(counts)

    whole = fewest("whole")
    monkeypatch.setattr(log_writes, "compiled", None)
    in_pieces = fewest("in pieces")
    assert in_pieces >= 20
    assert 2 * whole <= in_pieces, (whole, in_pieces)


@pytest.mark.parametrize("is_compiled", [True, False])
def test_the_log_and_what_is_noted_of_it_are_the_same_as_ever(
    store: SqliteStore, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_compiled: bool
) -> None:
    if not is_compiled:
        monkeypatch.setattr(log_writes, "compiled", None)
    monkeypatch.setattr(store._tables, "tidy", lambda: None)  # the log stays
    add(store, "small")
    add(store, *(f"many {number}" for number in range(300)), text="tea " * 400)  # more than the room, and than is noted
    add(store, "last")
    assert len(ids_in(store)) == 302
    frames, noted = frames_and_notes(path)
    assert frames == noted
    assert len(frames) > log_writes.MOST_NOTED
    assert recovered(path, tmp_path / "copy") == ids_in(store)
    assert not store.verify()


def test_what_a_commit_appended_is_noted_without_reading_it(store: SqliteStore, path: Path) -> None:
    add(store, "one")
    appended = store._tables._writes.appended
    assert appended is not None
    frames, noted = frames_and_notes(path)
    assert appended.frames.tolist() == frames[-len(appended.frames) :] == noted[-len(appended.frames) :]


def test_a_transaction_larger_than_the_cache_is_written_and_undone_as_ever(
    store: SqliteStore, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pages go to the log before the commit, some of them twice; when it is undone others write in their place."""
    monkeypatch.setattr(store._tables, "tidy", lambda: None)
    store._tables._connection.execute("PRAGMA cache_size = 10")
    many = [f"many {number}" for number in range(40)]
    add(store, *many)
    with pytest.raises(DuplicateKey):  # the last is there already
        add(store, *(f"undone {number}" for number in range(40)), many[0])
    with closing(SqliteStore(path)) as other:
        add(other, "of another")
    add(store, "after it")
    assert ids_in(store) == {*many, "of another", "after it"}
    frames, noted = frames_and_notes(path)
    assert frames == noted
    assert recovered(path, tmp_path / "copy") == ids_in(store)
    assert not store.verify()


FULL = """
    import resource, signal, sys
    from pathlib import Path
    from recollect.adapters.records.sqlite.store import SqliteStore
    from recollect.domain.memory import Memory
    from recollect.errors import StoreError
    from recollect.ports.query import Query
    from recollect.ports.records import Scope
    from recollect.ports.steps import Insert
    from recollect.testing.conformance.makers import memory
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    acme, path = Scope("acme"), Path(sys.argv[1])
    mine, other = SqliteStore(path), SqliteStore(path)
    mine._tables.tidy = other._tables.tidy = lambda: None
    def add(store, *ids):
        store.transact(acme, [Insert(memory(acme, id, "tea " * 300 + id)) for id in ids])
    add(mine, "before")
    for room in range(int(sys.argv[2]), 600_000, 90_000):  # the log may grow by so much, in ever more of its pieces
        log = path.with_name(path.name + "-wal").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (log + room, resource.RLIM_INFINITY))
        try:
            add(mine, *(f"lost {room} {number}" for number in range(400)))
            print("was not refused")
        except StoreError:
            pass
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        add(other, f"other {room}")
        add(mine, f"mine {room}")
    there = {one.id for one in mine.find(acme, Query(Memory)).records}
    print(len(there), any(id.startswith("lost") for id in there), mine.verify(), other.verify())
"""


def test_what_a_failed_commit_has_left_is_never_written_over_what_others_wrote(path: Path, store: SqliteStore) -> None:
    script = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(FULL), str(path), "9000"]
    said = subprocess.run(script, capture_output=True, text=True, timeout=120, check=False)
    rounds = len(range(9000, 600_000, 90_000))
    assert said.stdout.split("\n")[0] == f"{1 + 2 * rounds} False [] []", said.stdout + said.stderr
    assert len(ids_in(store)) == 1 + 2 * rounds


def test_frames_that_are_written_anew_in_a_commit_are_not_held_back(
    store: SqliteStore, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite writes a page over that went to the log before the commit, and sums up what follows it anew."""
    monkeypatch.setattr(store._tables, "tidy", lambda: None)
    add(store, *(f"many {number}" for number in range(60)))
    connection = store._tables._connection
    connection.execute("PRAGMA cache_size = 5")

    def again() -> None:
        for turn in range(30):
            connection.execute("UPDATE memory SET text = ? || id", (f"{turn} ",))

    store._writer.run(again)
    frames, noted = frames_and_notes(path)
    assert frames == noted
    assert recovered(path, tmp_path / "copy") == ids_in(store)


def test_a_store_that_syncs_less_is_written_whole_too(store: SqliteStore, path: Path, tmp_path: Path) -> None:
    store._tables._connection.execute("PRAGMA synchronous = normal")
    add(store, "one")
    add(store, "two")
    assert recovered(path, tmp_path / "copy") == {"one", "two"}


@pytest.fixture
def connections(path: Path) -> Iterator[list[apsw.Connection]]:
    """Two that write, with hardly a page in memory."""
    both = [connect(path, writable=True) for _ in range(2)]
    prepare(both[0], path)
    both[0].execute("CREATE TABLE written (number INTEGER PRIMARY KEY, text)")
    for one in both:
        one.execute("PRAGMA cache_size = 1; PRAGMA wal_autocheckpoint = 0")
    yield both
    for one in both:
        one.close()


def insert(connection: apsw.Connection, first: int, count: int) -> None:
    connection.executemany(
        "INSERT INTO written VALUES (?, ?)", ((n, f"{n} " * 300) for n in range(first, first + count))
    )


def written(connection: apsw.Connection) -> list[int]:
    assert connection.execute("PRAGMA integrity_check").get == "ok"
    return [number for (number,) in connection.execute("SELECT number FROM written WHERE text LIKE number || '%'")]


def begin() -> bytearray:
    assert log_writes.compiled is not None
    room = bytearray(log_writes.ROOM)
    log_writes.compiled.begin(room, bytearray(12))
    return room


def end() -> int:
    assert log_writes.compiled is not None
    left: int = log_writes.compiled.end()[0]
    return left


def test_what_is_gathered_is_read_like_what_is_written(connections: list[apsw.Connection]) -> None:
    mine, _ = connections
    begin()
    mine.execute("BEGIN")
    insert(mine, 0, 50)  # more than the cache holds
    assert written(mine) == list(range(50))
    mine.execute("COMMIT")
    assert end() == 0


def test_what_is_gathered_and_never_committed_is_never_written(connections: list[apsw.Connection]) -> None:
    """Not even when this thread writes again: others have written in its place."""
    mine, other = connections
    begin()
    mine.execute("BEGIN IMMEDIATE")
    insert(mine, 0, 50)
    assert end() > 0
    mine.execute("ROLLBACK")
    insert(other, 100, 3)
    begin()
    insert(mine, 200, 1)
    assert end() == 0
    insert(other, 300, 1)
    for one in connections:
        assert written(one) == [100, 101, 102, 200, 300]


def test_what_an_interrupted_commit_left_is_given_up(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where something raises in the writer's thread just after it began to gather, it never says that it has ended: the
    next transaction that is larger than the cache would go to the log with a hole in it."""
    compiled = log_writes.compiled
    assert compiled is not None
    store._tables._connection.execute("PRAGMA cache_size = 10")
    kept: set[str] = set()

    def interrupted(*given: Any) -> None:
        compiled.begin(*given)
        raise MemoryError

    for turn in range(40):
        monkeypatch.setattr(log_writes, "compiled", SimpleNamespace(begin=interrupted, end=compiled.end))
        with pytest.raises(MemoryError):
            add(store, f"lost {turn}")
        monkeypatch.setattr(log_writes, "compiled", compiled)
        some = [f"many {turn} {number}" for number in range(2 + turn)]
        add(store, *some, text="tea " * (10 * turn))
        kept |= set(some)
    assert not store.verify()
    assert ids_in(store) == kept


def test_what_was_gathered_and_never_ended_is_not_dropped_in_silence(connections: list[apsw.Connection]) -> None:
    mine, _ = connections
    begin()
    mine.execute("BEGIN IMMEDIATE")
    insert(mine, 0, 50)
    with pytest.raises(RuntimeError, match="neither written nor given up"):
        begin()
    mine.execute("ROLLBACK")
    end()


def test_a_disk_that_needs_sectors_filled_gets_what_fills_them(path: Path) -> None:
    """There SQLite writes the last page again until the sector is full, and syncs amid one of these frames."""
    with closing(apsw.Connection(f"file:{path}?psow=0", vfs=checksum_vfs(), flags=URI)) as mine:
        mine.reserve_bytes("main", 8)
        mine.execute("PRAGMA journal_mode = wal; PRAGMA synchronous = full; PRAGMA wal_autocheckpoint = 0")
        mine.execute("CREATE TABLE written (number INTEGER PRIMARY KEY, text)")
        for turn in range(5):
            mine.execute("BEGIN IMMEDIATE")
            insert(mine, turn, 1)
            begin()
            mine.execute("COMMIT")
            assert end() == 0
            with closing(apsw.Connection(str(path), vfs=checksum_vfs())) as other:
                assert written(other) == list(range(turn + 1))


def test_a_module_of_another_build_is_left_alone(monkeypatch: pytest.MonkeyPatch, store: SqliteStore) -> None:
    monkeypatch.setattr(log_writes, "compiled", None)
    with closing(apsw.Connection(":memory:")) as connection:
        log_writes.lay_under(connection)  # nothing to load
    stored(store, ACME, memory(ACME, "plain", "is written as ever"))
    assert store._tables._writes.appended is None
    assert ids_in(store) == {"plain"}
