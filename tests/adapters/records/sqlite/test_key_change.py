"""Another key for a SQLite store: all that is in it stays, nobody writes into the old file, no byte of it is left."""

from __future__ import annotations

import os
import threading
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from recollect.adapters import atomic_file
from recollect.adapters.encryption.master_key import MasterKey
from recollect.adapters.records.common import replaced_file
from recollect.adapters.records.sqlite import key_change
from recollect.adapters.records.sqlite.key_change import change_key, wait_for_change
from recollect.adapters.records.sqlite.store import SqliteStore
from recollect.domain.memory import Memory
from recollect.errors import DamagedData, FileReplaced, StoreBusy, WrongKey
from recollect.ports.query import Query
from recollect.ports.records import Scope
from recollect.testing.conformance.makers import found, memory, search, stored

ACME = Scope("acme")
FIRST, SECOND = MasterKey("the first key of these tests"), MasterKey("the second key of these tests")
CHANGES = [(None, FIRST), (FIRST, SECOND), (FIRST, None)]


def quiet(done: int, total: int) -> None:
    pass


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "team.db"


def made(path: Path, key: MasterKey | None, count: int = 30) -> None:
    with closing(SqliteStore(path, master=key)) as store:
        found(store, "acme")
        for number in range(count):
            stored(store, ACME, memory(ACME, f"m{number}", f"quagga {number}"))


@pytest.mark.parametrize(("old", "new"), CHANGES)
def test_everything_stays(path: Path, old: MasterKey | None, new: MasterKey | None) -> None:
    made(path, old)
    with closing(SqliteStore(path, master=old)) as store:
        schema = store._read_rows("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name")
        settings = store._read_rows("SELECT * FROM recollect_store WHERE key <> 'index_key' ORDER BY key")
    path.chmod(0o640)
    change_key(path, old, new, quiet)
    with closing(SqliteStore(path, master=new)) as store:
        assert store._read_rows("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name") == schema
        assert store._read_rows("SELECT * FROM recollect_store ORDER BY key") == settings
        assert store.verify() == []
        assert len(search(store, ACME, "quagga", limit=999)) == 30
        stored(store, ACME, memory(ACME, "after", "quagga after"))
        assert store.capabilities.encrypted is (new is not None)
    assert path.stat().st_mode & 0o777 == 0o640
    assert [file.name for file in path.parent.iterdir()] == ["team.db"]
    assert (b"quagga" in path.read_bytes()) is (new is None)
    if old is not None or new is not None:
        with pytest.raises(WrongKey):
            SqliteStore(path, master=old)


def test_of_the_plain_file_and_its_log_no_byte_is_left(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others have it open: the old file and its log live on, without a name, and hold nothing."""
    made(path, None)
    left = SqliteStore(path)
    stored(left, ACME, memory(ACME, "in the log", "quagga in the log"))
    handles = [os.open(path.with_name(path.name + ending), os.O_RDONLY) for ending in ("", "-wal")]
    change_key(path, None, FIRST, quiet)
    for handle in handles:
        assert not any(os.pread(handle, 1 << 30, 0))
        os.close(handle)
    left.close()
    assert [file.name for file in path.parent.iterdir()] == ["team.db"]


@pytest.mark.parametrize(("old", "new"), CHANGES)
def test_those_who_have_it_open_are_told_and_lose_nothing(
    path: Path, old: MasterKey | None, new: MasterKey | None
) -> None:
    made(path, old)
    left = SqliteStore(path, master=old)
    stored(left, ACME, memory(ACME, "late", "written before the change"))
    change_key(path, old, new, quiet)
    with pytest.raises(FileReplaced):
        left.get(ACME, Memory, "late")
    with pytest.raises(FileReplaced):
        stored(left, ACME, memory(ACME, "lost", "written after the change"))
    with closing(SqliteStore(path, master=new)) as store:
        stored(store, ACME, memory(ACME, "new", "written with the new key"))
        left.close()  # takes nothing along that belongs to the new file
        assert store.count(ACME, Query(Memory)) == 32
        assert store.get(ACME, Memory, "late") is not None
        assert store.verify() == []
    with closing(SqliteStore(path, master=new)) as store:
        assert store.count(ACME, Query(Memory)) == 32


def test_who_waits_to_write_does_not_write_into_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(path, FIRST)
    left = SqliteStore(path, master=FIRST)
    told: list[BaseException] = []

    def write() -> None:
        try:
            stored(left, ACME, memory(ACME, "waited", "quagga"))
        except FileReplaced as error:
            told.append(error)

    writer = threading.Thread(target=write)
    moved = key_change._move_log

    def meanwhile(mover: apsw.Connection, path: Path) -> None:
        writer.start()
        writer.join(0.3)
        assert writer.is_alive()
        moved(mover, path)

    monkeypatch.setattr(key_change, "_move_log", meanwhile)
    change_key(path, FIRST, SECOND, quiet)
    writer.join(60)
    assert told
    left.close()
    with closing(SqliteStore(path, master=SECOND)) as store:
        assert store.get(ACME, Memory, "waited") is None


def test_a_long_read_keeps_the_old_key(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(path, FIRST)
    monkeypatch.setattr(key_change, "BUSY_SECONDS", 0.1)
    with closing(SqliteStore(path, master=FIRST)) as left:
        with left.snapshot(ACME) as moment:
            moment.count(ACME, Query(Memory))
            stored(left, ACME, memory(ACME, "late", "quagga"))
            with pytest.raises(StoreBusy, match="somebody reads"):
                change_key(path, FIRST, SECOND, quiet)
        stored(left, ACME, memory(ACME, "later", "quagga"))
    with closing(SqliteStore(path, master=FIRST)) as store:
        assert store.count(ACME, Query(Memory)) == 32
    assert [file.name for file in path.parent.iterdir()] == ["team.db"]


def test_who_opens_the_store_meanwhile_waits(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(path, FIRST)
    opened: list[SqliteStore] = []
    opening = threading.Thread(target=lambda: opened.append(SqliteStore(path, master=SECOND)))
    replace = replaced_file.replace_wiping

    def meanwhile(path: Path, new: Path) -> None:
        opening.start()
        opening.join(0.3)
        assert opening.is_alive()
        replace(path, new)

    monkeypatch.setattr(key_change, "replace_wiping", meanwhile)
    change_key(path, FIRST, SECOND, quiet)
    opening.join(60)
    (store,) = opened
    stored(store, ACME, memory(ACME, "waited", "quagga"))
    store.close()
    with closing(SqliteStore(path, master=SECOND)) as store:
        assert store.count(ACME, Query(Memory)) == 31


def test_two_changes_at_once_are_refused_and_the_mark_of_a_killed_one_is_no_hindrance(path: Path) -> None:
    made(path, FIRST)
    with key_change._changing(path), pytest.raises(StoreBusy, match="another process"):
        change_key(path, FIRST, SECOND, quiet)
    path.with_name("team.db.key-change").touch()
    assert wait_for_change(path) is False
    SqliteStore(path, master=FIRST).close()
    assert [file.name for file in path.parent.iterdir()] == ["team.db"]


def test_a_wrong_key_changes_nothing(path: Path) -> None:
    made(path, FIRST)
    before = path.read_bytes()
    for old in (None, SECOND):
        with pytest.raises(WrongKey):
            change_key(path, old, FIRST, quiet)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["team.db"]


@pytest.mark.parametrize("key", [None, FIRST])
def test_a_damaged_file_keeps_its_key(path: Path, key: MasterKey | None) -> None:
    made(path, key)
    broken = bytearray(path.read_bytes())
    for at in range(4096 * 3 + 50, len(broken), 4096):
        broken[at] ^= 1
    path.write_bytes(broken)
    with pytest.raises(DamagedData):
        change_key(path, key, SECOND, quiet)
    assert path.read_bytes() == broken
    assert [file.name for file in path.parent.iterdir()] == ["team.db"]


def failing(handle: int) -> None:
    raise OSError(5, "the disk failed")


def test_what_was_replaced_is_overwritten_by_the_next_who_opens_the_store(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(path, None)
    with monkeypatch.context() as patched:
        for module in (replaced_file, atomic_file):
            patched.setattr(module, "overwrite", failing)
        with pytest.raises(Exception, match="the disk failed"):
            change_key(path, None, FIRST, quiet)
    left = path.with_name("team.db.replaced")
    assert b"quagga" in left.read_bytes()
    handle = os.open(left, os.O_RDONLY)
    with closing(SqliteStore(path, master=FIRST)) as store:
        assert store.count(ACME, Query(Memory)) == 30
    assert not any(os.pread(handle, 1 << 30, 0))
    os.close(handle)
    assert [file.name for file in path.parent.iterdir()] == ["team.db"]
