"""What is remembered is its owner's alone: every file that is made for it, and the first key."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import recollect
from recollect.interfaces.serve import _private
from serving import served

pytestmark = pytest.mark.skipif(os.name == "nt", reason="modes of files are POSIX's")


@pytest.fixture(autouse=True)
def _lax() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def open_to_others(folder: Path) -> list[str]:
    found = [path for path in folder.rglob("*") if stat.S_IMODE(path.stat().st_mode) & 0o077]
    return sorted(str(path.relative_to(folder)) for path in found)


@pytest.mark.parametrize("address", ["{}/x.db", "duckdb:///{}/x.duckdb"])
def test_every_file_that_is_made_is_its_owners_alone(address: str, tmp_path: Path) -> None:
    with recollect.open(address.format(tmp_path), embedder="hash") as mem:
        kept = mem.remember("a secret", tags=["t"])
        assert mem.recall("secret")
        assert open_to_others(tmp_path) == [], "while it is open, log and index included"
        assert len(list(tmp_path.iterdir())) > 1
        mem.backup(str(tmp_path / "copy.backup"))
        mem.export(str(tmp_path / "all.jsonl"))
        mem.remember("another after the log was emptied")
        mem.erase(kept.id)
        mem.reindex()
        mem.remember("and one after the file was rewritten")
        assert open_to_others(tmp_path) == []
    assert open_to_others(tmp_path) == []


def test_a_file_that_its_owner_shares_stays_shared(tmp_path: Path) -> None:
    path = tmp_path / "shared.db"
    recollect.open(path, embedder="hash").close()
    path.chmod(0o660)
    with recollect.open(path, embedder="hash") as mem:
        mem.remember("for the group")
        log = tmp_path / "shared.db-wal"
        assert [stat.S_IMODE(one.stat().st_mode) for one in (path, log)] == [0o660, 0o660]


def test_the_first_key_is_in_a_file_of_its_owner_and_in_no_log(tmp_path: Path) -> None:
    with served(tmp_path) as (url, key), recollect.connect(url, key) as mem:
        assert mem.stats().memories == 0
        assert open_to_others(tmp_path) == []


def test_nothing_that_is_printed_holds_the_key(tmp_path: Path) -> None:
    script = (
        "from recollect import app; from recollect.interfaces import serve; from recollect.settings import load\n"
        "settings = load('s.db', embedder='hash'); core = app.build(settings)\n"
        "serve.prepare(core, settings); serve.prepare(core, settings); app.close(core)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    key = (tmp_path / "s.db.owner-key").read_text().strip()
    assert key.startswith("rk.")
    assert "rk." not in done.stdout + done.stderr
    assert done.stderr.count("s.db.owner-key") == 1


def test_a_key_file_does_not_follow_a_link_nor_take_over_the_mode_of_what_was_there(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("untouched")
    (tmp_path / "key").symlink_to(elsewhere)
    with _private(tmp_path / "key") as file:
        file.write("secret")
    assert elsewhere.read_text() == "untouched"
    assert (tmp_path / "key").read_text() == "secret"
    assert stat.S_IMODE((tmp_path / "key").lstat().st_mode) == 0o600
    with pytest.raises(recollect.errors.InvalidSettings, match="key_file"), _private(tmp_path / "absent" / "key"):
        pass
