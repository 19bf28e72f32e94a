"""A store that is only read: nothing is written, whatever lies beside the file and whoever writes meanwhile."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import recollect
from recollect.adapters.records.sqlite.read_only import ReadOnlySqliteStore
from recollect.adapters.records.sqlite.store import SqliteStore
from recollect.domain.tenancy import Organization
from recollect.errors import InvalidInput, NotFound, RecollectError, StoreBusy, StoreError, StoreReadOnly
from recollect.interfaces.cli import main as cli
from recollect.ports.query import Query
from recollect.ports.records import Scope
from recollect.testing.conformance.makers import embedding, found, memory, search, stored

ACME, SPACE = Scope("acme"), "long_term/m"

WRITER = """
import sys, recollect
mem = recollect.open(sys.argv[1], embedder="hash", background=False)
print("open", flush=True)
for line in sys.stdin:
    if line.startswith("kill"):
        import os; os._exit(9)
    mem.remember(line.strip())
    print("stored", flush=True)
mem.close()
print("closed", flush=True)
"""


class Writer:
    """Another process that writes."""

    def __init__(self, path: Path) -> None:
        command = [sys.executable, "-c", WRITER, str(path)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._heard("open")

    def _heard(self, word: str) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline().strip() == word

    def remember(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        self._heard("stored")

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self._heard("closed")
        self.process.wait(60)

    def kill(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("kill\n")
        self.process.stdin.close()
        self.process.wait(60)


@contextmanager
def _writing(path: Path) -> Iterator[Writer]:
    writer = Writer(path)
    try:
        yield writer
    finally:
        if writer.process.poll() is None:
            writer.process.kill()
            writer.process.wait(60)
        for pipe in (writer.process.stdin, writer.process.stdout):
            assert pipe is not None
            pipe.close()


def _hashes(folder: Path) -> dict[str, str]:
    files = [one for one in sorted(folder.rglob("*")) if one.is_file()]
    return {str(one.relative_to(folder)): hashlib.sha256(one.read_bytes()).hexdigest() for one in files}


def _texts(mem: recollect.Recollect) -> set[str]:
    return {hit.text for hit in mem.recall("tea", limit=20)}


@pytest.fixture
def store(tmp_path: Path, empty_store: Path) -> Path:
    path = tmp_path / "folder" / "a.db"
    path.parent.mkdir()
    shutil.copy(empty_store, path)
    with recollect.open(path, embedder="hash", background=False) as mem:
        mem.remember("Alice drinks tea")
    return path


def _read(path: Path) -> recollect.Recollect:
    return recollect.open(path, embedder="hash", readonly=True)


def test_a_store_without_a_log_is_read_and_left_as_it_is(store: Path) -> None:
    before = _hashes(store.parent)
    with _read(store) as mem:
        assert _texts(mem) == {"Alice drinks tea"}
        assert mem.verify().sound
        assert mem.stats().memories == 1
    assert _hashes(store.parent) == before


def test_every_write_says_what_to_do_instead(store: Path) -> None:
    before = _hashes(store.parent)
    with _read(store) as mem:
        id = mem.list().memories[0].id
        for write in (
            lambda: mem.remember("more"),
            lambda: mem.forget(id),
            lambda: mem.user.add("Bob"),
            lambda: mem.reindex(),
            lambda: mem.doctor(fix=True),
            lambda: mem.user.save_search("mine", "tea"),
        ):
            with pytest.raises((StoreReadOnly, NotFound, InvalidInput)) as refused:
                write()
            assert refused.value.remedy
        with pytest.raises(StoreReadOnly, match="without readonly"):
            mem._core.store.transact(Scope("default"), [])
    assert _hashes(store.parent) == before


def test_beside_one_who_writes_all_of_it_is_seen_and_nothing_is_touched(store: Path) -> None:
    with _writing(store) as writer:
        writer.remember("Bob drinks tea")
        before = _hashes(store.parent)
        with _read(store) as mem:
            assert _texts(mem) == {"Alice drinks tea", "Bob drinks tea"}
            assert _hashes(store.parent) == before
            writer.remember("Carol drinks tea")
            assert len(_texts(mem)) == 3


def test_who_comes_and_goes_is_seen_by_one_that_stays_open(store: Path) -> None:
    """From a file without a log to one with a log, and back, twice."""
    with _read(store) as mem:
        assert len(_texts(mem)) == 1
        for count, name in enumerate(("Bob", "Carol"), 2):
            with _writing(store) as writer:
                writer.remember(f"{name} drinks tea")
                assert len(_texts(mem)) == count
                writer.close()
            assert len(_texts(mem)) == count


def test_what_was_read_while_the_file_changed_is_read_again(store: Path) -> None:
    reader = ReadOnlySqliteStore(store)

    def read_slowly() -> None:
        with reader._readers.one() as connection:
            assert connection.execute("SELECT count(*) FROM memory").get == 1
            with recollect.open(store, embedder="hash", background=False) as mem:
                mem.remember("Bob drinks tea")

    with pytest.raises(recollect.errors.StoreBusy):
        read_slowly()
    assert reader._read_rows("SELECT count(*) FROM memory") == [(2,)]
    reader.close()


def test_nothing_stays_of_a_reading_that_met_two_states_of_the_file(tmp_path: Path) -> None:
    """Of its pages some are of the one state and some of the other: memories seem to have no vectors."""
    path, half = tmp_path / "records.db", b"\x00\x38"
    ids = [f"m{number:05d}" for number in range(1000)]
    _write(path, ids, half)
    reader = ReadOnlySqliteStore(path)
    try:
        with pytest.raises(StoreBusy):
            _read_while_written(reader, path, ids, half)
        assert [row[0] for row in reader.stored_vectors(ACME, SPACE, ids)] == ids
        assert len(search(reader, ACME, "harbour", limit=2000)) == 1250
    finally:
        reader.close()


def _read_while_written(reader: ReadOnlySqliteStore, path: Path, ids: list[str], vector: bytes) -> None:
    with reader.reading():
        reader.stored_vectors(ACME, SPACE, ids[::400])  # a few pages of the state before
        _write(path, [f"{id}x" for id in ids[::4]], vector)
        for id in ids:
            with suppress(RecollectError):
                reader.stored_vectors(ACME, SPACE, [id])


def _write(path: Path, ids: Sequence[str], vector: bytes) -> None:
    store = SqliteStore(path)
    if not store.count(ACME, Query(Organization)):
        found(store, "acme")
    stored(store, ACME, *(memory(ACME, id, f"harbour {id}") for id in ids))
    stored(store, ACME, *(embedding(ACME, id, vector, id=f"v{id}") for id in ids))
    store.close()


def test_a_log_that_a_dead_process_left_is_read(store: Path) -> None:
    with _writing(store) as writer:
        writer.remember("Bob drinks tea")
        writer.kill()
    before = _hashes(store.parent)
    assert f"{store.name}-wal" in before
    with _read(store) as mem:
        assert len(_texts(mem)) == 2
    assert _hashes(store.parent) == before


def test_a_log_without_its_index_is_not_overlooked(store: Path) -> None:
    with _writing(store) as writer:
        writer.remember("Bob drinks tea")
        writer.kill()
    store.with_name(f"{store.name}-shm").unlink()
    with pytest.raises(StoreError, match="lies beside") as refused:
        _read(store)
    assert "copy" in refused.value.remedy


@pytest.mark.skipif(os.name == "nt", reason="there are no such modes")
def test_a_file_in_a_folder_that_nobody_may_write_to_is_read(store: Path) -> None:
    """As another user where we are root, for whom no mode counts."""
    store.chmod(0o444)
    store.parent.chmod(0o555)
    script = (
        "import os, sys\n"
        "import recollect\n"
        "with recollect.open(sys.argv[1], embedder='hash', readonly=True) as mem:\n"
        "    mem.recall('tea')\n"  # all is imported: another user may not read our packages
        "os.getuid() or os.seteuid(65534)\n"
        "mem = recollect.open(sys.argv[1], embedder='hash', readonly=True)\n"
        "print(mem.recall('tea').hits[0].text)\n"
    )
    parents = [one for one in store.parents if one != store.parent and one.stat().st_uid == os.getuid()]
    modes = {one: one.stat().st_mode for one in parents}
    try:
        for one in parents:
            one.chmod(modes[one] | 0o555)
        done = subprocess.run([sys.executable, "-c", script, str(store)], capture_output=True, text=True, timeout=60)
    finally:
        store.parent.chmod(0o755)
        for one, mode in modes.items():
            one.chmod(mode)
    assert done.stdout.strip() == "Alice drinks tea", done.stderr


def test_the_files_of_the_vector_index_are_read_and_not_written(store: Path) -> None:
    with recollect.open(store, embedder="hash", background=False) as mem:
        mem.remember_many([{"content": f"pebble {number}"} for number in range(40)])
        mem._core.vectors.refresh()
    before = _hashes(store.parent)
    assert any(name.endswith(".seg") for name in before)
    with _read(store) as mem:
        assert any("pebble 7" in hit.text for hit in mem.recall("pebble 7"))
        mem._core.vectors.hint(10**9)
    assert _hashes(store.parent) == before


def test_nothing_is_made_where_there_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        _read(tmp_path / "none.db")
    assert list(tmp_path.iterdir()) == []


def test_commands_read_with_the_option_and_write_nothing(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = _hashes(store.parent)
    assert cli.run(["list", "--readonly", "--store", str(store)]) == 0
    assert "Alice" in capsys.readouterr().out
    assert cli.run(["--readonly", "remember", "more", "--store", str(store)]) == 1
    assert "without --readonly" in capsys.readouterr().err
    assert _hashes(store.parent) == before


def test_an_encrypted_store_is_read_likewise(tmp_path: Path) -> None:
    how = {"embedder": "hash", "background": False, "key": "correct horse battery staple of the team"}
    with recollect.open(tmp_path / "a.db", **how) as mem:  # type: ignore[arg-type]
        mem.remember("Alice drinks tea")
    before = _hashes(tmp_path)
    with recollect.open(tmp_path / "a.db", readonly=True, **how) as mem:  # type: ignore[arg-type]
        assert _texts(mem) == {"Alice drinks tea"}
    assert _hashes(tmp_path) == before
