"""A backup becomes a store again with one command: checked, in an empty place, on each store by its own best means."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

import recollect
from postgres_server import BIN, server
from recollect.app import restore_backup
from recollect.errors import DamagedData, InvalidInput, NotARecollectStore, Unavailable, WrongKey
from recollect.interfaces.cli.main import run


def filled(address: Any, **settings: Any) -> Any:
    mem = recollect.open(address, embedder="hash", **settings)
    mem.remember("Alice prefers pytest", cites=[recollect.cite.user("alice", "said so")], tags=["t"])
    mem.within("globex").remember("The harbour opens at nine")
    return mem


def exported(mem: Any, path: Path) -> bytes:
    mem.export(str(path))
    return path.read_bytes()


def test_a_file_is_restored_whole(tmp_path: Path) -> None:
    with filled(tmp_path / "a.db") as mem:
        mem.backup(str(tmp_path / "copy.db"))
        before = exported(mem, tmp_path / "one.jsonl")
    kept = (tmp_path / "copy.db").read_bytes()
    assert restore_backup(tmp_path / "copy.db", tmp_path / "b.db").memories == 2
    assert (tmp_path / "copy.db").read_bytes() == kept
    with recollect.open(tmp_path / "b.db", embedder="hash") as again:
        assert exported(again, tmp_path / "two.jsonl").splitlines() == before.splitlines()
        assert again.doctor().well
    assert not list(tmp_path.glob("*restoring*"))


def test_a_duckdb_file_is_restored_whole(tmp_path: Path) -> None:
    with filled(f"duckdb:///{tmp_path}/a.duckdb") as mem:
        mem.backup(str(tmp_path / "copy.duckdb"))
        before = exported(mem, tmp_path / "one.jsonl")
    assert restore_backup(tmp_path / "copy.duckdb", f"duckdb:///{tmp_path}/b.duckdb").memories == 2
    with recollect.open(f"duckdb:///{tmp_path}/b.duckdb", embedder="hash") as again:
        assert exported(again, tmp_path / "two.jsonl").splitlines() == before.splitlines()
        assert again.doctor().well
    assert not list(tmp_path.glob("*restoring*"))
    assert restore_backup(tmp_path / "copy.duckdb", tmp_path / "c.db").memories == 2  # another kind of store
    with recollect.open(tmp_path / "c.db", embedder="hash") as other:
        assert exported(other, tmp_path / "three.jsonl").splitlines() == before.splitlines()


def test_a_database_is_restored_whole(tmp_path: Path) -> None:
    with filled(server().emptied_store(), postgres_tools=BIN) as mem:
        mem.backup(str(tmp_path / "copy.dump"))
        before = exported(mem, tmp_path / "one.jsonl")
    target = server().new_database()
    assert restore_backup(tmp_path / "copy.dump", target, postgres_tools=BIN).memories == 2
    with recollect.open(target, embedder="hash") as again:
        assert exported(again, tmp_path / "two.jsonl").splitlines() == before.splitlines()
        assert again.recall("pytest")[0].text == "Alice prefers pytest"
        assert again.verify().sound


def test_what_is_not_empty_stays_as_it_is(tmp_path: Path) -> None:
    with filled(tmp_path / "a.db") as mem, filled(server().emptied_store(), postgres_tools=BIN) as large:
        mem.backup(str(tmp_path / "copy.db"))
        large.backup(str(tmp_path / "copy.dump"))
        with pytest.raises(InvalidInput, match="already exists"):
            restore_backup(tmp_path / "copy.db", tmp_path / "a.db")
        with pytest.raises(InvalidInput, match="not empty"):
            restore_backup(tmp_path / "copy.dump", server().emptied_store(), postgres_tools=BIN)


def test_a_damaged_backup_leaves_nothing(tmp_path: Path) -> None:
    with filled(tmp_path / "a.db") as mem, filled(server().emptied_store(), postgres_tools=BIN) as large:
        mem.backup(str(tmp_path / "copy.db"))
        large.backup(str(tmp_path / "copy.dump"))
    for name in ("copy.db", "copy.dump"):
        whole = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(recollect.RecollectError):
        restore_backup(tmp_path / "copy.db", tmp_path / "b.db")
    assert not (tmp_path / "b.db").exists()
    target = server().new_database()
    with pytest.raises(DamagedData):
        restore_backup(tmp_path / "copy.dump", target, postgres_tools=BIN)
    tables = server().admin("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'", target.rpartition("/")[2])
    assert tables == [(0,)]


def test_what_the_target_cannot_read_is_refused(tmp_path: Path) -> None:
    with filled(server().emptied_store(), postgres_tools=BIN) as mem:
        mem.backup(str(tmp_path / "copy.dump"))
    with pytest.raises(InvalidInput, match="not a backup of a"):
        restore_backup(tmp_path / "copy.dump", tmp_path / "b.db")
    (tmp_path / "letter.txt").write_text("dear store")
    with pytest.raises(NotARecollectStore):
        restore_backup(tmp_path / "letter.txt", tmp_path / "b.db")
    with pytest.raises(InvalidInput, match="cannot read"):
        restore_backup(tmp_path / "nowhere", tmp_path / "b.db")


def test_an_encrypted_backup_without_its_key_is_named(tmp_path: Path) -> None:
    with filled(tmp_path / "a.db", key="correct horse battery") as mem:
        mem.backup(str(tmp_path / "copy.db"))
    with pytest.raises(WrongKey, match=r"'copy\.db' is encrypted, and no key was given"):
        restore_backup(tmp_path / "copy.db", tmp_path / "b.db")
    assert not (tmp_path / "b.db").exists()


def test_an_older_tool_is_named(tmp_path: Path) -> None:
    old = tmp_path / "bin"
    old.mkdir()
    (old / "pg_dump").write_text("#!/bin/sh\necho 'pg_dump (PostgreSQL) 9.6.1'\n")
    (old / "pg_dump").chmod(0o755)
    with (
        filled(server().emptied_store(), postgres_tools=old) as mem,
        pytest.raises(Unavailable, match=r"pg_dump 9 is older"),
    ):
        mem.backup(str(tmp_path / "copy.dump"))


def test_no_secret_is_among_the_arguments(tmp_path: Path) -> None:
    """A pg_dump that tells what it was given."""
    spy = tmp_path / "bin"
    spy.mkdir()
    told = tmp_path / "told"
    script = f'#!/bin/sh\necho "$@" >> {told}\nexec {BIN}/pg_dump "$@"\n'
    (spy / "pg_dump").write_text(script)
    (spy / "pg_dump").chmod(stat.S_IRWXU)
    address = server().emptied_store().replace("postgres@", "postgres:hunter2@")
    with filled(address, postgres_tools=spy) as mem:
        mem.backup(str(tmp_path / "copy.dump"))
    assert "hunter2" not in told.read_text()
    assert "hunter2" not in (tmp_path / "copy.dump").read_bytes().decode("latin-1")


def test_the_command_restores(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with filled(tmp_path / "a.db") as mem:
        mem.backup(str(tmp_path / "copy.db"))
    assert run(["restore-backup", str(tmp_path / "copy.db"), str(tmp_path / "b.db")]) == 0
    assert "restored 2 memories" in capsys.readouterr().out
    assert run(["restore-backup", str(tmp_path / "copy.db"), str(tmp_path / "b.db")]) == 2
    assert "already exists" in capsys.readouterr().err
    monkeypatch.setenv("RECOLLECT_POSTGRES_TOOLS", os.fspath(BIN))
    assert run(["restore-backup", "--help"]) == 0
    assert "SOURCE" in capsys.readouterr().out
    assert run(["--help"]) == 0
    assert "restore-backup" in capsys.readouterr().out
