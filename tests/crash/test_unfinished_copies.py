"""A process that is killed while it copies a store leaves no plain half of it lying around for good."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, BinaryIO

import pytest

import recollect
from recollect.adapters import atomic_file
from recollect.adapters.local_folders import LocalFolders
from recollect.app import restore_backup
from recollect.errors import InvalidInput
from serving import served

BACKUP = """
    import os, sys, recollect
    from recollect.adapters import atomic_file
    atomic_file.publish = lambda aside, target: os.kill(os.getpid(), 9)
    with recollect.open(sys.argv[1], embedder="hash") as mem:
        mem.remember("the secret is xyzzy")
        mem.backup(sys.argv[2])
"""
EXPORT = """
    import os, sys, recollect
    from recollect.adapters import atomic_file
    atomic_file.publish = lambda aside, target: os.kill(os.getpid(), 9)
    with recollect.open(sys.argv[1], embedder="hash") as mem:
        mem.remember("the secret is xyzzy")
        mem.export(sys.argv[2])
"""
DOWNLOAD = """
    import os, sys, recollect
    from recollect.adapters import atomic_file
    atomic_file.publish = lambda aside, target: os.kill(os.getpid(), 9)
    with recollect.connect(sys.argv[1], sys.argv[2]) as mem:
        mem.remember("the secret is xyzzy")
        mem.export(sys.argv[3])
"""
PUSH = """
    import os, sys, recollect
    with recollect.open(sys.argv[1], embedder="hash") as mem:
        mem.agent.add("Bee", id="bee")
        mem.workspace.add("bee", "desk", id="desk")
        mem.workspace.write("desk", "notes/plan.md", "the secret is xyzzy")
        os.rename = lambda *given, **more: os.kill(os.getpid(), 9)
        mem.workspace.push("desk", sys.argv[2])
"""
RESTORE = """
    import os, sys
    from recollect import app
    from recollect.app import store_restore
    store_restore._refuse_damage = lambda store, source: os.kill(os.getpid(), 9)
    app.restore_backup(sys.argv[1], sys.argv[2])
"""


def killed(body: str, *arguments: Any) -> None:
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(body), *map(str, arguments)]
    ended = subprocess.run(command, timeout=60, check=False, capture_output=True, text=True)
    assert ended.returncode == -9, ended.stderr[-2000:]


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_a_killed_backup_is_cleared_when_the_store_is_next_opened(kind: str, tmp_path: Path) -> None:
    address = str(tmp_path / "a.db") if kind == "sqlite" else f"duckdb:///{tmp_path}/a.duckdb"
    away = tmp_path / "away"
    away.mkdir()
    killed(BACKUP, address, away / "copy.db")
    assert (away / "copy.db.part").exists()
    (away / "mine.part").write_text("of another program")
    recollect.open(address, embedder="hash").close()
    assert [path.name for path in away.iterdir()] == ["mine.part"]
    assert not list(tmp_path.glob("*.writing-*"))


def test_a_backup_that_somebody_is_writing_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []

    def publish(aside: Path, target: Path) -> None:
        recollect.open(tmp_path / "a.db", embedder="hash").close()
        seen.append(aside.exists())
        aside.replace(target)

    monkeypatch.setattr(atomic_file, "publish", publish)
    with recollect.open(tmp_path / "a.db", embedder="hash") as mem:
        mem.backup(str(tmp_path / "copy.db"))
    assert seen == [True]
    assert (tmp_path / "copy.db").exists()
    assert not list(tmp_path.glob("*.writing-*"))


def test_a_killed_restore_is_cleared_when_it_is_done_again(tmp_path: Path) -> None:
    with recollect.open(tmp_path / "a.db", embedder="hash") as mem:
        mem.remember("the secret is xyzzy")
        mem.backup(str(tmp_path / "copy.db"))
    killed(RESTORE, tmp_path / "copy.db", tmp_path / "b.db")
    assert (tmp_path / "b.db.restoring").exists()
    assert restore_backup(tmp_path / "copy.db", tmp_path / "b.db").memories == 1
    assert not list(tmp_path.glob("b.db.*"))


def test_nothing_is_restored_beside_the_log_of_another_store(tmp_path: Path) -> None:
    with recollect.open(tmp_path / "a.db", embedder="hash") as mem:
        mem.backup(str(tmp_path / "copy.db"))
    (tmp_path / "b.db-wal").write_bytes(b"an old log")
    with pytest.raises(InvalidInput, match="log of a store"):
        restore_backup(tmp_path / "copy.db", tmp_path / "b.db")


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_a_killed_export_is_cleared_when_the_store_is_next_opened(kind: str, tmp_path: Path) -> None:
    address = str(tmp_path / "a.db") if kind == "sqlite" else f"duckdb:///{tmp_path}/a.duckdb"
    away = tmp_path / "away"
    away.mkdir()
    killed(EXPORT, address, away / "all.jsonl")
    assert [b"xyzzy" in path.read_bytes() for path in away.iterdir()] == [True]
    recollect.open(address, embedder="hash").close()
    assert list(away.iterdir()) == []
    assert not list(tmp_path.glob("*.writing-*"))


def test_a_killed_download_is_cleared_by_the_next_one_into_its_folder(tmp_path: Path) -> None:
    away = tmp_path / "away"
    away.mkdir()
    with served(tmp_path) as found:
        killed(DOWNLOAD, *found, away / "all.jsonl")
        assert [b"xyzzy" in path.read_bytes() for path in away.iterdir()] == [True]
        (away / "mine.part").write_text("of another program")
        with recollect.connect(*found) as mem:
            mem.export(str(away / "other.jsonl"))
    assert sorted(path.name for path in away.iterdir()) == ["mine.part", "other.jsonl"]


def test_a_killed_push_is_cleared_by_the_next_one(tmp_path: Path) -> None:
    away = tmp_path / "away"
    killed(PUSH, tmp_path / "a.db", away)
    assert [b"xyzzy" in path.read_bytes() for path in (away / "notes").iterdir()] == [True]
    with recollect.open(tmp_path / "a.db", embedder="hash") as mem:
        mem.workspace.push("desk", str(away))
    assert [path.name for path in (away / "notes").iterdir()] == ["plan.md"]


def test_what_somebody_still_writes_is_not_cleared(tmp_path: Path) -> None:
    folders = LocalFolders()

    def meanwhile(file: BinaryIO) -> None:
        file.write(b"half")
        file.flush()
        folders.keep(tmp_path / "other", lambda other: other.write(b"whole"))
        file.write(b" and half")

    folders.keep(tmp_path / "first", meanwhile)
    assert (tmp_path / "first").read_bytes() == b"half and half"
    assert (tmp_path / "other").read_bytes() == b"whole"
