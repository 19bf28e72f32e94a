"""Encryption at rest of stores in a file: whoever has the disk and not the key reads nothing, and learns so at once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import recollect
from filling import fill
from recollect.adapters.records.duckdb import file as duckdb_file
from recollect.app import key_changes
from recollect.app.key_changes import remove_key, set_key
from recollect.domain.memory import Embedding
from recollect.errors import FileReplaced, WrongKey
from recollect.ports.query import Query
from recollect.ports.records import Scope
from seeds import SOAK
from without_openssl import WITHOUT_OPENSSL

KEY, OTHER = "the key of these tests", "another key of these tests"
WORD = "quaggazoo"


# DuckDB encrypts its files itself, with a slow library here: in a soak, and in tests/crash/test_key_change.py.
@pytest.fixture(params=["sqlite", "duckdb"] if SOAK else ["sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(duckdb_file, "CRYPTOGRAPHY", WITHOUT_OPENSSL)
    (tmp_path / "store").mkdir()
    return f"{'sqlite' if request.param == 'sqlite' else 'duckdb'}:///{tmp_path}/store/team.db"


def opened(store: str, key: str | None = KEY) -> Any:
    beside = Path(store.removeprefix("sqlite:///").removeprefix("duckdb:///")).parent.parent
    return recollect.open(store, embedder="hash", background=False, citation_root=beside, key=key)


def files(store: str) -> Iterator[tuple[str, bytes]]:
    folder = Path(store.partition("://")[2]).parent
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            yield str(file.relative_to(folder)), file.read_bytes()


def used(store: str, tmp_path: Path, key: str | None = KEY) -> None:
    """Everything that can be stored, an index on disk, a backup beside it."""
    with opened(store, key) as mem:
        fill(mem, WORD, tmp_path)
        mem.reindex()
        mem.backup(str(tmp_path / "store" / "copy.db"))
        assert mem.recall(WORD).hits
        if key is not None:
            assert_unreadable(store, vectors_of(mem))  # while it is open: logs, indexes of logs, temporary files


def vectors_of(mem: Any) -> list[bytes]:
    rows = mem._core.store.select(Scope("default"), Query(Embedding), ("vector",))
    return [vector for (vector,) in rows if any(vector)]


def assert_unreadable(store: str, vectors: list[bytes]) -> None:
    assert vectors
    names = [name for name, _ in files(store)]
    assert any(name.endswith(".seg") for name in names), names
    for name, raw in files(store):
        assert WORD.encode() not in raw.lower(), name
        assert b"organization_id" not in raw, name
        assert not [vector for vector in vectors if vector in raw], name


def test_no_byte_of_anything_can_be_read_without_the_key(store: str, tmp_path: Path) -> None:
    used(store, tmp_path)
    with opened(store) as mem:
        vectors = vectors_of(mem)
        assert mem.stats().encrypted
        assert any("encrypted" in finding.says for finding in mem.doctor().findings)
    assert_unreadable(store, vectors)
    with opened(f"{store.partition('team.db')[0]}copy.db") as copy:
        assert copy.recall(WORD).hits


@pytest.mark.parametrize("given", [None, OTHER])
def test_a_lost_and_a_wrong_key_are_told_and_nothing_is_overwritten(
    store: str, tmp_path: Path, given: str | None
) -> None:
    used(store, tmp_path)
    before = list(files(store))
    with pytest.raises(WrongKey) as refused:
        opened(store, given)
    assert "RECOLLECT_KEY_FILE" in refused.value.remedy
    assert list(files(store)) == before
    with opened(store) as mem:
        assert mem.recall(WORD).hits


def test_a_key_for_a_plain_store_is_refused_and_names_the_command(store: str) -> None:
    opened(store, None).close()
    before = list(files(store))
    with pytest.raises(WrongKey) as refused:
        opened(store)
    assert "recollect encryption set" in refused.value.remedy
    assert list(files(store)) == before


def test_turned_on_changed_and_turned_off(store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The words of the plain store are gone from every file once it is encrypted."""
    used(store, tmp_path, None)
    (tmp_path / "store" / "copy.db").unlink()
    for name, key in (("first", KEY), ("second", OTHER)):
        (tmp_path / name).write_text(key)
    with opened(store, None) as mem:
        vectors, known = vectors_of(mem), {memory.id for memory in mem.list(limit=100).memories}
    set_key(store, tmp_path / "first")
    assert not [name for name, raw in files(store) if WORD.encode() in raw or any(one in raw for one in vectors)]
    with opened(store) as mem:
        assert mem.recall(WORD).hits
        mem.reindex()
        assert mem._core.store.verify() == []
    segments = {name: raw for name, raw in files(store) if name.endswith(".seg")}
    monkeypatch.setenv("RECOLLECT_KEY_FILE", str(tmp_path / "first"))
    set_key(store, tmp_path / "second")
    monkeypatch.delenv("RECOLLECT_KEY_FILE")
    assert {name: raw for name, raw in files(store) if name.endswith(".seg")} == segments
    with pytest.raises(WrongKey):
        opened(store)
    with opened(store, OTHER) as mem:
        assert {memory.id for memory in mem.list(limit=100).memories} == known
        assert mem._core.store.verify() == []
    monkeypatch.setenv("RECOLLECT_KEY_FILE", str(tmp_path / "second"))
    remove_key(store)
    monkeypatch.delenv("RECOLLECT_KEY_FILE")
    with opened(store, None) as mem:
        assert {memory.id for memory in mem.list(limit=100).memories} == known
        assert mem._core.store.verify() == []
        assert mem.recall(WORD).hits


def test_stored_files_are_sealed_when_encryption_is_turned_on_and_a_second_time_does_the_rest(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "animals.csv").write_text(f"animal,count\n{WORD},3\n")
    with opened(store, None) as mem:
        source = mem.source.add(str(tmp_path / "animals.csv")).id
    with opened(store, None) as mem:
        kept = mem.source.show(source)
    plain = [name for name, raw in files(store) if "objects" in name and WORD.encode() in raw]
    assert plain
    monkeypatch.setenv("RECOLLECT_KEY", KEY)
    with monkeypatch.context() as patched:
        patched.setattr(key_changes, "_seal_files", lambda settings, key: None)  # as if it was killed before
        set_key(store)
    assert {name for name, _ in files(store)} >= set(plain)
    assert set_key(store).says == "already encrypted with this key"
    assert not [name for name, raw in files(store) if name in plain or WORD.encode() in raw]
    with opened(store) as mem:
        assert mem.source.show(source) == kept
        assert mem.verify().problems == []
    remove_key(store)
    monkeypatch.delenv("RECOLLECT_KEY")
    with opened(store, None) as mem:
        assert mem.verify().problems == []


def test_two_processes_with_different_keys(tmp_path: Path) -> None:
    """The second is refused, and the first goes on; after a change the first is told and its successor goes on."""
    path = tmp_path / "team.db"
    with opened(str(path)) as mem:
        mem.remember("a quagga")
        said = subprocess.run(
            [sys.executable, "-m", "recollect", "recall", "quagga", "--store", str(path)],
            env={**os.environ, "RECOLLECT_KEY": OTHER},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert said.returncode == 1
        assert "another key" in said.stderr
        mem.remember("a second quagga")
        (tmp_path / "new").write_text(OTHER)
        said = subprocess.run(
            [
                sys.executable,
                "-m",
                "recollect",
                "encryption",
                "set",
                str(path),
                "--new-key-file",
                str(tmp_path / "new"),
            ],
            env={**os.environ, "RECOLLECT_KEY": KEY},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert said.returncode == 0, said.stderr
        with pytest.raises(FileReplaced):
            mem.remember("a third quagga")
    with opened(str(path), OTHER) as mem:
        assert len(mem.recall("quagga").hits) == 2
