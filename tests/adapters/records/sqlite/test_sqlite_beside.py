"""Any SQLite may read, back up or vacuum a store at any time, after a crash too, and Recollect opens it afterwards.

Python's own sqlite3 module stands for the other program. It is another copy of SQLite, so while a store is open here,
it works in a process of its own: two copies in one process would let go of each other's locks.
"""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.app import restore_backup
from recollect.errors import DamagedData

KILLED = """
    import os, sys, recollect
    mem = recollect.open(sys.argv[1], embedder="hash")
    for number in range(int(sys.argv[2]), int(sys.argv[3])):
        mem.remember(f"fact number {number} of the harbour", tags=["harbour"])
    os.kill(os.getpid(), 9)
"""


def killed(path: Path, first: int, upto: int) -> None:
    """A process that remembered these facts, all acknowledged, and was killed."""
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(KILLED), str(path), str(first), str(upto)]
    assert subprocess.run(command, timeout=120, check=False).returncode == -9


def elsewhere(path: Path, *statements: str) -> None:
    """Another program, in a process of its own."""
    script = "import sqlite3, sys\nc = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
    script += "[c.execute(one).fetchall() for one in sys.argv[2:]]\nc.close()"
    subprocess.run([sys.executable, "-c", script, str(path), *statements], check=True, timeout=60)


def counts(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT count(*) FROM memory").fetchone() == (60,)


def checkpoints(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA wal_checkpoint(FULL)")


def vacuums(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("VACUUM")


def vacuums_into(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute(f"VACUUM INTO '{path.parent / 'elsewhere.db'}'")


def backs_up(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other, closing(sqlite3.connect(path.parent / "elsewhere.db")) as copy:
        other.backup(copy)


def adds_a_table(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE my_notes(text)")
        other.execute("INSERT INTO my_notes VALUES (?)", ("x" * 9000,))
        other.commit()


@pytest.fixture(scope="module")
def left_behind(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a store of two processes: one closed it, one was killed with its writes in the log."""
    folder = tmp_path_factory.mktemp("left") / "behind"
    folder.mkdir()
    path = folder / "team.db"
    with recollect.open(path, embedder="hash") as mem:
        for number in range(30):
            mem.remember(f"fact number {number} of the harbour", tags=["harbour"])
    killed(path, 30, 60)
    assert (folder / "team.db-wal").stat().st_size > 0
    return folder


@pytest.fixture
def crashed(left_behind: Path, tmp_path: Path) -> Path:
    """The store in a copy of that folder."""
    shutil.copytree(left_behind, tmp_path, dirs_exist_ok=True)
    return tmp_path / "team.db"


def is_whole(path: Path, many: int = 60) -> None:
    with recollect.open(path, embedder="hash") as mem:
        assert mem.verify().problems == []
        assert mem.doctor().well
        assert sorted(one.text for one in mem.list(limit=99).memories) == sorted(
            f"fact number {number} of the harbour" for number in range(many)
        )
        assert mem.recall("fact number 42 harbour", limit=3)
        mem.remember("one more")
        assert mem.verify().sound


@pytest.mark.parametrize(
    "does", [counts, checkpoints, vacuums, vacuums_into, backs_up, adds_a_table], ids=lambda does: does.__name__
)
def test_another_program_uses_the_file_after_a_crash(crashed: Path, does: Callable[[Path], None]) -> None:
    does(crashed)
    is_whole(crashed)


@pytest.mark.parametrize("does", [counts, vacuums, vacuums_into, backs_up, adds_a_table], ids=lambda d: d.__name__)
def test_another_program_uses_the_file_when_nobody_has_it_open(crashed: Path, does: Callable[[Path], None]) -> None:
    recollect.open(crashed, embedder="hash").close()
    does(crashed)
    is_whole(crashed)


@pytest.mark.parametrize("makes", [vacuums_into, backs_up], ids=lambda makes: makes.__name__)
def test_a_copy_that_another_program_made_is_a_backup(crashed: Path, makes: Callable[[Path], None]) -> None:
    makes(crashed)
    copy, again = crashed.parent / "elsewhere.db", crashed.parent / "again.db"
    assert restore_backup(copy, again).memories == 60
    is_whole(again)
    is_whole(copy)


def test_what_is_left_after_the_last_one_closed_is_the_file_alone(crashed: Path) -> None:
    counts(crashed)
    is_whole(crashed)
    assert sorted(path.name for path in crashed.parent.iterdir() if path.is_file()) == ["team.db"]


def test_another_program_moves_the_log_while_the_store_is_open(tmp_path: Path) -> None:
    path = tmp_path / "team.db"
    with recollect.open(path, embedder="hash") as mem:
        for number in range(20):
            mem.remember(f"fact number {number} of the harbour")
            if number % 5 == 4:
                elsewhere(path, "PRAGMA wal_checkpoint(TRUNCATE)")
                assert len(mem.recall("harbour fact", limit=50)) == number + 1
        assert mem.verify().problems == []
        elsewhere(path, "VACUUM")
        mem.remember("fact number 20 of the harbour")
        assert len(mem.list(limit=50).memories) == 21
    is_whole(path, 21)


def test_another_program_has_the_store_open_when_it_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "team.db"
    recollect.open(path, embedder="hash").close()
    with closing(sqlite3.connect(path)) as other:
        other.execute("SELECT count(*) FROM memory").fetchone()
        killed(path, 0, 30)
        killed(path, 30, 60)
        assert other.execute("SELECT count(*) FROM memory").fetchone() == (60,)
    is_whole(path)


def test_a_byte_that_changed_after_another_program_moved_the_log_is_noticed(crashed: Path) -> None:
    counts(crashed)
    raw = bytearray(crashed.read_bytes())
    at = raw.rindex(b"fact number 45 of the harbour")
    raw[at + 12] ^= 1
    crashed.write_bytes(raw)
    try:
        mem = recollect.open(crashed, embedder="hash")
    except DamagedData:
        return
    with mem:
        assert not mem.verify().sound
        with pytest.raises(DamagedData):
            mem.list(limit=99)


def test_without_notes_new_pages_betray_the_other_program(crashed: Path) -> None:
    counts(crashed)
    (crashed.parent / "team.db-notes").unlink()
    is_whole(crashed)


def test_damage_is_not_taken_for_the_work_of_another_program(tmp_path: Path) -> None:
    path = tmp_path / "team.db"
    with recollect.open(path, embedder="hash") as mem:
        for number in range(60):
            mem.remember(f"fact number {number} of the harbour")
    raw = bytearray(path.read_bytes())
    raw[raw.rindex(b"fact number 45 of the harbour") + 12] ^= 1
    path.write_bytes(raw)
    with recollect.open(path, embedder="hash") as mem:
        diagnosis: Any = mem.doctor(fix=True)
        assert not diagnosis.well
        with pytest.raises(DamagedData):
            mem.list(limit=99)
