"""The log beside a SQLite file: what changed in it is never sealed, what is missing from it is said, and it belongs to
the file that it was written for."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing
from pathlib import Path

import pytest

import recollect
from recollect.adapters.encryption.master_key import MasterKey
from recollect.adapters.records.sqlite import file_identity, wal_guard
from recollect.adapters.records.sqlite.page_encryption import PageKey
from recollect.adapters.records.sqlite.store import SqliteStore
from recollect.adapters.records.sqlite.wal_notes import LogNotes, notes_of
from recollect.domain.memory import Memory
from recollect.errors import DamagedData, FileReplaced
from recollect.ports.query import Query
from recollect.ports.records import Scope
from recollect.testing.conformance.makers import found, memory, stored

ACME = Scope("acme")
KILLED = """
    import os, sys, recollect
    mem = recollect.open(sys.argv[1], embedder="hash")
    for number in range(21):
        mem.remember(f"payment {number} of 1000 euros")
    os.kill(os.getpid(), 9)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "team.db"


@pytest.fixture
def killed(path: Path) -> Path:
    """A store whose 21 acknowledged memories are in the log; an earlier one is in the file."""
    with recollect.open(path, embedder="hash") as mem:
        mem.remember("the beginning")
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(KILLED), str(path)]
    assert subprocess.run(command, timeout=120, check=False).returncode == -9
    return path


def log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def change(file: Path, before: bytes, after: bytes) -> None:
    raw = file.read_bytes()
    assert before in raw
    with file.open("r+b") as opened:  # in place, as a disk would
        opened.write(raw.replace(before, after))


def test_a_byte_that_changed_in_the_log_is_never_sealed_into_the_file(path: Path) -> None:
    store = SqliteStore(path)
    found(store, "acme")
    stored(store, ACME, memory(ACME, "pay", "Pay 1000 euros"))
    change(log_of(path), b"Pay 1000 euros", b"Pay 9000 euros")
    assert any("log" in problem.what for problem in store.verify())
    with pytest.raises(DamagedData):
        store.erase_traces()
    with pytest.raises(DamagedData):
        stored(store, ACME, memory(ACME, "other", "is not written behind the damage"))
    store.close()
    assert b"Pay 9000 euros" not in path.read_bytes()
    assert log_of(path).exists()


def test_the_log_is_looked_at_before_it_is_moved_by_itself(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wal_guard, "MOVE_PAGES", 200)
    store = SqliteStore(path)
    found(store, "acme")
    stored(store, ACME, memory(ACME, "pay", "Pay 1000 euros"))
    change(log_of(path), b"Pay 1000 euros", b"Pay 9000 euros")
    many = [memory(ACME, f"m{number}", f"number {number}") for number in range(100)]
    with pytest.raises(DamagedData):
        any(stored(store, ACME, one) is None for one in many)
    store.close()
    assert b"Pay 9000 euros" not in path.read_bytes()


def test_a_long_log_is_moved_and_shrinks_while_the_store_is_open(path: Path) -> None:
    store = SqliteStore(path)
    found(store, "acme")
    stored(store, ACME, *(memory(ACME, f"m{number}", "word " * 4000) for number in range(1500)))
    large = log_of(path).stat().st_size
    assert large > 16_000_000
    for number in range(3):
        stored(store, ACME, memory(ACME, f"n{number}", "small"))
    assert log_of(path).stat().st_size <= 8_000_000
    assert path.stat().st_size > 16_000_000
    store.close()


def test_upkeep_that_a_lost_log_takes_along_leaves_no_wrong_notes(path: Path) -> None:
    body = """
        import os, sys
        from pathlib import Path
        from recollect.adapters.records.sqlite.store import SqliteStore
        from recollect.ports.records import Scope
        from recollect.testing.conformance.makers import found, memory, stored
        store, acme = SqliteStore(Path(sys.argv[1])), Scope("acme")
        found(store, "acme")
        stored(store, acme, *(memory(acme, f"m{number}", f"number {number}") for number in range(50)))
        print(os.path.getsize(sys.argv[1] + "-wal"), flush=True)
        store.mend()
        os.kill(os.getpid(), 9)
    """
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(body), str(path)]
    before = int(subprocess.run(command, capture_output=True, check=False, timeout=60).stdout)
    assert before < log_of(path).stat().st_size
    os.truncate(log_of(path), before)
    store = SqliteStore(path)
    stored(store, ACME, *(memory(ACME, f"n{number}", f"number {number}") for number in range(50)))
    assert store.verify() == []
    store.erase_traces()
    store.close()


def test_who_opens_a_store_whose_log_was_changed_reads_what_is_sound_and_writes_nothing(
    path: Path, tmp_path: Path
) -> None:
    first = recollect.open(path, embedder="hash")
    sound, hit = first.remember("the harbour is open").id, first.remember("payment of 1000 euros").id
    change(log_of(path), b"of 1000 euros", b"of 9000 euros")
    before = log_of(path).read_bytes(), path.read_bytes()
    second = recollect.open(path, embedder="hash")
    with pytest.raises(DamagedData) as refused:
        second.remember("is not written behind the damage")
    assert "export FILE --damaged skip" in refused.value.remedy
    assert "backup" in refused.value.remedy
    with pytest.raises(DamagedData):
        second.backup(str(tmp_path / "copy.db"))
    assert not (tmp_path / "copy.db").exists()
    assert second.show(sound).text == "the harbour is open"
    with pytest.raises(DamagedData):
        second.show(hit)
    assert not second.verify().sound
    exported = second.export(str(tmp_path / "saved.jsonl"), damaged="skip")
    assert [one.id for one in exported.left_out if one.table == "memory"] == [hit]
    second.close()
    assert (log_of(path).read_bytes(), path.read_bytes()) == before
    with pytest.raises(DamagedData):  # nor does the one who had it open
        first.backup(str(tmp_path / "copy.db"))
    first.close()
    assert b"of 9000 euros" not in path.read_bytes()


@pytest.mark.parametrize("how", ["cut", "emptied", "deleted", "damaged"])
def test_acknowledged_writes_that_a_lost_log_takes_along_are_named(killed: Path, how: str) -> None:
    log = log_of(killed)
    if how == "deleted":
        log.unlink()
    elif how == "damaged":
        raw = log.read_bytes()
        with log.open("r+b") as file:
            file.seek(len(raw) // 3)
            file.write(b"damaged " * 600)
    else:
        os.truncate(log, log.stat().st_size // 2 if how == "cut" else 0)
    noted = LogNotes(killed).read()
    assert noted is not None
    with recollect.open(killed, embedder="hash") as mem:
        kept = mem.stats().memories
        assert kept < 22
        problems = [one.what for one in mem.verify().problems]
        assert any(f"to {noted.seq} are missing" in one for one in problems), problems
        diagnosis = mem.doctor()
        assert not diagnosis.well
        mem.remember("written afterwards")
        assert min(one.seq for one in mem._core.store.changes(mem._scope, noted.seq)) == noted.seq + 1
    with recollect.open(killed, embedder="hash") as mem:  # it is not forgotten by closing
        assert any("are missing" in one.what for one in mem.verify().problems)
        assert any("without what is lost" in line for line in mem.doctor(fix=True).mended)
        assert mem.doctor().well
        assert mem.stats().memories == kept + 1
    assert not notes_of(killed).exists()


def test_nothing_is_said_to_be_missing_after_a_crash_that_lost_nothing(killed: Path) -> None:
    with recollect.open(killed, embedder="hash") as mem:
        assert mem.stats().memories == 22
        assert mem.doctor().well
    assert not notes_of(killed).exists()


MOVED_AND_KILLED = """
    import os, sys
    from pathlib import Path
    from recollect.adapters.encryption.master_key import MasterKey
    from recollect.adapters.records.sqlite.store import SqliteStore
    from recollect.ports.records import Scope
    from recollect.testing.conformance.makers import found, memory, stored
    acme, key = Scope("acme"), sys.argv[2]
    store = SqliteStore(Path(sys.argv[1]), master=MasterKey(key) if key else None)
    found(store, "acme")
    for number in range(5):
        stored(store, acme, memory(acme, f"m{number}", f"payment {number} of 1000 euros"))
    store._tables._connection.wal_checkpoint("main")
    os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("key", ["", "k" * 44], ids=["plain", "encrypted"])
@pytest.mark.parametrize("first", [bytes(512), b"\xa5" * 512], ids=["zeros", "garbage"])
def test_a_first_page_that_a_power_cut_hit_on_its_way_into_the_file_comes_from_the_log(
    path: Path, first: bytes, key: str
) -> None:
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(MOVED_AND_KILLED), str(path), key]
    assert subprocess.run(command, timeout=120, check=False).returncode == -9
    path.with_name(path.name + "-shm").unlink()  # was never on a disk
    with path.open("r+b") as opened:
        opened.write(first)
    for _ in range(2):
        store = SqliteStore(path, master=MasterKey(key) if key else None)
        assert len(store.find(ACME, Query(Memory)).records) == 5
        assert not store.verify()
        store.close()


def test_a_file_that_was_emptied_beside_its_log_is_no_new_store(killed: Path) -> None:
    before = log_of(killed).read_bytes()
    killed.write_bytes(b"")
    with pytest.raises(DamagedData, match="is empty"):
        SqliteStore(killed)
    assert log_of(killed).read_bytes() == before


def test_a_file_that_was_deleted_takes_no_more_writes(path: Path) -> None:
    store = SqliteStore(path)
    found(store, "acme")
    path.unlink()
    with pytest.raises(FileReplaced):
        stored(store, ACME, memory(ACME))
    store.close()


def test_a_file_that_was_replaced_takes_no_more_writes_and_loses_none_of_the_others(path: Path) -> None:
    store = SqliteStore(path)
    found(store, "acme")
    stored(store, ACME, memory(ACME, "old"))
    copy = path.with_name("copy.db")
    store.backup(copy)
    stored(store, ACME, memory(ACME, "newer"))
    os.replace(copy, path)
    with pytest.raises(FileReplaced):
        stored(store, ACME, memory(ACME, "into nothing"))
    with pytest.raises(FileReplaced, match="log"):  # SQLite would write the old log into the restored file
        SqliteStore(path)
    for ending in ("-wal", "-shm", "-notes"):
        path.with_name(path.name + ending).unlink()
    body = """
        import sys
        from pathlib import Path
        from recollect.adapters.records.sqlite.store import SqliteStore
        from recollect.ports.records import Scope
        from recollect.testing.conformance.makers import memory, stored
        stored(SqliteStore(Path(sys.argv[1])), Scope("acme"), memory(Scope("acme"), "restored and written"))
        import os; os.kill(os.getpid(), 9)
    """
    subprocess.run([sys.executable, "-W", "ignore", "-c", textwrap.dedent(body), str(path)], check=False, timeout=60)
    store.close()  # must not delete the log that lies there now
    again = SqliteStore(path)
    assert {one.id for one in again.find(ACME, Query(Memory)).records} == {"old", "restored and written"}
    again.close()


def overwrite(path: Path, other: Path) -> None:
    """As `cp` does: the same file, another content."""
    with path.open("wb") as file:
        file.write(other.read_bytes())


def another(path: Path, how: str) -> Path:
    """What somebody copies over an open store: a backup, an older copy of the file itself, or something else."""
    other = path.with_name("other.db")
    if how == "backup":
        store = SqliteStore(path)
        store.backup(other)
        store.close()
    elif how == "older":
        shutil.copy(path, other)
    elif how == "another store":
        SqliteStore(other).close()
    elif how == "another program's":
        with closing(sqlite3.connect(other)) as theirs:
            theirs.execute("CREATE TABLE theirs(x)")
    else:
        other.write_bytes(b"no store at all " * 5000 if how == "scrap" else b"")
    return other


@pytest.mark.parametrize("how", ["backup", "older", "another store", "another program's", "scrap", "nothing"])
def test_a_file_that_was_written_over_is_neither_read_nor_written_any_more(path: Path, how: str) -> None:
    first = SqliteStore(path)
    found(first, "acme")
    stored(first, ACME, memory(ACME, "old"))
    first.close()
    other = another(path, how)
    SqliteStore(path).close()
    store, reader = SqliteStore(path), SqliteStore(path)
    stored(store, ACME, memory(ACME, "newer"))
    store.erase_traces()  # the file has it
    stored(store, ACME, memory(ACME, "newest"))
    assert reader.get(ACME, Memory, "newest") is not None
    wanted = other.read_bytes()
    overwrite(path, other)
    for _ in range(3):
        with pytest.raises(FileReplaced):
            stored(store, ACME, memory(ACME, "into nothing"))
        for one in (store, reader):
            with pytest.raises(FileReplaced):
                one.get(ACME, Memory, "newest")
            with pytest.raises(FileReplaced):
                one.find(ACME, Query(Memory))
    for refused in (store.verify, store.mend, store.erase_traces, lambda: store.backup(path.with_name("copy.db"))):
        with pytest.raises(FileReplaced):
            refused()
    store.close()
    reader.close()
    assert path.read_bytes() == wanted
    assert not path.with_name("copy.db").exists()


@pytest.mark.parametrize("how", ["backup", "older"])
def test_what_was_written_over_an_open_file_opens_once_the_old_log_is_away(path: Path, how: str) -> None:
    store = SqliteStore(path)
    found(store, "acme")
    stored(store, ACME, memory(ACME, "old"))
    store.close()
    other = another(path, how)
    store = SqliteStore(path)
    stored(store, ACME, memory(ACME, "newer"))
    store.erase_traces()
    stored(store, ACME, memory(ACME, "newest"))
    overwrite(path, other)
    with pytest.raises(FileReplaced):
        stored(store, ACME, memory(ACME, "into nothing"))
    store.close()
    with pytest.raises(FileReplaced, match="log"):
        SqliteStore(path)
    for ending in ("-wal", "-shm", "-notes"):
        path.with_name(path.name + ending).unlink(missing_ok=True)
    again = SqliteStore(path)
    assert again.verify() == []
    assert {one.id for one in again.find(ACME, Query(Memory)).records} == {"old"}
    again.close()


def test_moving_the_log_is_not_taken_for_writing_over_the_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wal_guard, "MOVE_PAGES", 20)
    looks: list[Path] = []
    standing = file_identity.standing

    def counted(at: Path, key: PageKey | None) -> file_identity.FileIdentity:
        looks.append(at)
        return standing(at, key)

    monkeypatch.setattr(file_identity, "standing", counted)
    first, second = SqliteStore(path), SqliteStore(path)
    found(first, "acme")
    for number in range(40):
        for store in (first, second):
            stored(store, ACME, memory(ACME, f"m{number} {store is first}"))
            assert len(store.find(ACME, Query(Memory, limit=200)).records) == 2 * number + 1 + (store is second)
    assert len(looks) > 4
    monkeypatch.setattr(wal_guard, "MOVE_PAGES", 100_000)
    for store in (first, second):  # who writes next waits for the moving that the last one left to be done
        stored(store, ACME, memory(ACME, f"next {store is first}"))
    before = len(looks)
    first.erase_traces()
    for number in range(20):
        stored(first, ACME, memory(ACME, f"n{number}"))
    assert len(looks) <= before + 2, "the file is read only after it changed"
    first.close()
    assert second.verify() == []
    second.close()


def test_a_store_that_was_moved_with_all_its_files_opens(killed: Path) -> None:
    there = killed.parent / "there"
    there.mkdir()
    for file in killed.parent.glob("team.db*"):
        if file.is_file():
            shutil.copy(file, there)
    with recollect.open(there / "team.db", embedder="hash") as mem:
        assert mem.stats().memories == 22
        assert mem.doctor().well


def test_commits_cost_no_second_sync(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SqliteStore(path)
    found(store, "acme")
    stored(store, ACME, memory(ACME, "first"))
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    for number in range(10):
        stored(store, ACME, memory(ACME, f"m{number}"))
    assert synced == []
    store.close()


def test_notes_that_cannot_be_written_fail_no_commit(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    notes_of(path).mkdir()
    store = SqliteStore(path)
    found(store, "acme")
    stored(store, ACME, memory(ACME, "kept"))
    store.close()
    assert "could not be noted" in caplog.text
    again = SqliteStore(path)
    assert again.get(ACME, Memory, "kept") is not None
    again.close()


def test_who_opens_a_store_while_the_last_one_closes_it_takes_no_harm(
    killed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The notes are read, and gone a moment later: whoever closes last takes them along with the log."""
    read = LogNotes.read
    notes_of(killed).rename(kept := killed.with_name("kept-notes"))

    def read_then_gone(notes: LogNotes) -> object:
        shutil.copy(kept, notes_of(killed))
        noted = read(notes)
        notes_of(killed).unlink()
        return noted

    monkeypatch.setattr(LogNotes, "read", read_then_gone)
    store = SqliteStore(killed)
    monkeypatch.undo()
    with closing(store):
        assert store.verify() == []
