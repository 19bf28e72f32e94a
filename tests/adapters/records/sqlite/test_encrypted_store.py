"""An encrypted SQLite file: nothing of it can be read without its key, and what is not as it was written is noticed."""

from __future__ import annotations

import hashlib
import importlib.metadata
import random
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

import recollect
from recollect.adapters.encryption.master_key import MasterKey
from recollect.adapters.records.sqlite.page_encryption import START_BYTES, is_encrypted
from recollect.adapters.records.sqlite.store import SqliteStore
from recollect.domain.memory import Memory
from recollect.errors import DamagedData, InvalidSettings, MissingExtra, StoreError, WrongKey
from recollect.ports.query import Query
from recollect.ports.records import Scope
from recollect.testing.conformance.makers import found, memory, search, stored
from seeds import SEED, SOAK

ACME = Scope("acme")
KEY, OTHER = MasterKey("the key of these tests"), MasterKey("another key of these tests")
MARKER = b"quagga"
MANY = 60


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("sound") / "records.db"
    with closing(SqliteStore(path, master=KEY)) as store:
        fill(store)
    return path.read_bytes()


@pytest.fixture
def path(tmp_path: Path, sound: bytes) -> Path:
    path = tmp_path / "records.db"
    path.write_bytes(sound)
    return path


def fill(store: SqliteStore) -> None:
    found(store, "acme")
    for number in range(MANY):
        stored(store, ACME, memory(ACME, f"m{number}", f"quagga {number} " + "斑驴 word " * (number % 30)))


def bytes_beside(path: Path) -> Iterator[tuple[str, bytes]]:
    for file in path.parent.rglob("*"):
        if file.is_file():
            yield file.name, file.read_bytes()


def test_the_package_that_encrypts_is_installed_alone() -> None:
    """Both are the module apsw: the one installed last would be used, and plain apsw takes no notice of a key."""
    installed = {one.name.lower().replace("_", "-") for one in importlib.metadata.distributions()}
    assert "apsw-sqlite3mc" in installed
    assert "apsw" not in installed
    assert hasattr(apsw, "mc_version")


def test_plain_sqlite_in_its_place_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(apsw, "mc_version")
    with pytest.raises(MissingExtra, match="apsw-sqlite3mc"):
        SqliteStore(path, master=KEY)


def test_no_plain_byte_is_in_any_file(tmp_path: Path) -> None:
    """While it is used, in the log too, and in a backup; words of the text index are as secret as the text."""
    path = tmp_path / "records.db"
    with closing(SqliteStore(path, master=KEY)) as store:
        fill(store)
        assert len(search(store, ACME, "quagga", limit=999)) == MANY
        store.backup(tmp_path / "copy.db")
        store.erase_traces()
        stored(store, ACME, memory(ACME, "last", "the last quagga"))
        names = dict(bytes_beside(path))
        assert {"records.db", "records.db-wal", "records.db-shm", "copy.db"} <= names.keys()
        for name, raw in names.items():
            assert MARKER not in raw.lower(), name
            assert "斑驴".encode() not in raw, name
            assert b"CREATE TABLE" not in raw, name
    assert store.capabilities.encrypted


def test_a_backup_opens_with_the_same_key_and_no_other(tmp_path: Path, path: Path) -> None:
    with closing(SqliteStore(path, master=KEY)) as store:
        store.backup(tmp_path / "copy.db")
    with closing(SqliteStore(tmp_path / "copy.db", master=KEY)) as copy:
        assert copy.count(ACME, Query(Memory)) == MANY
        assert copy.verify() == []
    with pytest.raises(WrongKey):
        SqliteStore(tmp_path / "copy.db", master=OTHER)


@pytest.mark.parametrize("given", [None, OTHER])
def test_no_key_and_a_wrong_one_are_refused_and_nothing_is_changed(
    path: Path, sound: bytes, given: MasterKey | None
) -> None:
    with pytest.raises(WrongKey) as refused:
        SqliteStore(path, master=given)
    assert "key_file" in refused.value.remedy
    assert path.read_bytes() == sound
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_key_for_a_plain_store_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plain.db"
    SqliteStore(path).close()
    before = path.read_bytes()
    with pytest.raises(WrongKey, match="not encrypted") as refused:
        SqliteStore(path, master=KEY)
    assert "recollect encryption set" in refused.value.remedy
    assert path.read_bytes() == before


def test_a_short_key_and_two_keys_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match="shorter than 16"):
        recollect.open(tmp_path / "a.db", key="short")
    with pytest.raises(InvalidSettings, match="both key and key_file"):
        recollect.open(tmp_path / "a.db", key="k" * 40, key_file=tmp_path / "key")
    with pytest.raises(InvalidSettings, match="unknown key service 'vault'"):
        recollect.open(tmp_path / "a.db", key_service="vault")
    assert list(tmp_path.iterdir()) == []


def answers(store: SqliteStore) -> Iterator[tuple[Any, Any]]:
    for number in range(0, MANY, 7):
        kept = store.get(ACME, Memory, f"m{number}")
        yield kept and kept.content, {"text": f"quagga {number} " + "斑驴 word " * (number % 30)}
    yield len(search(store, ACME, "quagga", limit=999)), MANY


def test_every_flipped_byte_of_the_file_is_noticed(path: Path, sound: bytes) -> None:
    """Each read is right or a typed error, and never that this is no store."""
    chance = random.Random(SEED)
    places = [*range(16, 24), *(chance.randrange(START_BYTES, len(sound)) for _ in range(4000 if SOAK else 60))]
    for place in places:
        broken = bytearray(sound)
        broken[place] ^= 1 << chance.randrange(8)
        path.write_bytes(broken)
        try:
            with closing(SqliteStore(path, master=KEY)) as store:
                for got, wanted in answers(store):
                    assert got == wanted
                assert store.verify() or place < 24, place
        except DamagedData:
            pass
        for ending in ("-wal", "-shm", "-notes"):
            path.with_name(path.name + ending).unlink(missing_ok=True)


def test_pages_cannot_be_swapped(path: Path, sound: bytes) -> None:
    pages = [sound[at : at + 4096] for at in range(0, len(sound), 4096)]
    pages[5], pages[6] = pages[6], pages[5]
    path.write_bytes(b"".join(pages))
    try:
        with closing(SqliteStore(path, master=KEY)) as store:
            assert store.verify()
    except DamagedData:
        pass


def test_a_flipped_byte_in_the_log_is_noticed(path: Path) -> None:
    first = SqliteStore(path, master=KEY)
    stored(first, ACME, memory(ACME, "new", "a new quagga"))
    log = path.with_name(path.name + "-wal")
    broken = bytearray(log.read_bytes())
    broken[-100] ^= 1
    log.write_bytes(broken)
    with pytest.raises(DamagedData):
        first._tables.keeping.look_first()
    assert any("log" in problem.what for problem in first.verify())
    first.close()


def test_acknowledged_writes_that_a_cut_log_lost_are_named(path: Path) -> None:
    written = f"""
        import os
        from pathlib import Path
        from recollect.adapters.encryption.master_key import MasterKey
        from recollect.adapters.records.sqlite.store import SqliteStore
        from recollect.ports.records import Scope
        from recollect.testing.conformance.makers import memory, stored
        store = SqliteStore(Path({str(path)!r}), master=MasterKey("the key of these tests"))
        stored(store, Scope("acme"), memory(Scope("acme"), "new", "a new quagga"))
        os.kill(os.getpid(), 9)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(written)], check=False, timeout=60)
    path.with_name(path.name + "-wal").unlink()
    with closing(SqliteStore(path, master=KEY)) as store:
        assert any("missing" in problem.what for problem in store.verify())


def test_the_key_is_derived_once_for_all_connections(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    derived: list[bytes] = []
    scrypt = hashlib.scrypt

    def counted(*given: Any, **more: Any) -> bytes:
        derived.append(more["salt"])
        return scrypt(*given, **more)

    monkeypatch.setattr(hashlib, "scrypt", counted)
    store = SqliteStore(path, master=MasterKey("the key of these tests"))
    with store._readers.one(), store._readers.one(), store._readers.one():
        pass
    store.close()
    assert len(derived) == 1


def test_two_processes_may_make_the_same_new_store(tmp_path: Path) -> None:
    """Each chooses a beginning of the file; the one who comes second takes that of the first."""
    path = tmp_path / "new.db"
    made = f"""
        from pathlib import Path
        from recollect.adapters.encryption.master_key import MasterKey
        from recollect.adapters.records.sqlite.store import SqliteStore
        SqliteStore(Path({str(path)!r}), master=MasterKey("the key of these tests")).close()
    """
    command = [sys.executable, "-c", textwrap.dedent(made)]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(4)]
    for one in running:
        _, said = one.communicate(timeout=120)
        assert one.returncode == 0, said.decode()[-2000:]
    assert is_encrypted(path)
    with closing(SqliteStore(path, master=KEY)) as store:
        assert store.verify() == []


def test_a_file_that_begins_like_an_encrypted_one_is_no_store(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(b"RCLT" + bytes(5000))
    with pytest.raises(StoreError):
        SqliteStore(path, master=KEY)
    assert path.read_bytes() == b"RCLT" + bytes(5000)
