"""Backups in a folder or a bucket, on every store: whole, of one moment, incremental, encrypted, restored anywhere."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import recollect
from every_store import EVERY_STORE
from postgres_server import BIN, server
from recollect.app import restore
from recollect.app.background import Background
from recollect.domain.backups import Backup
from recollect.domain.record import now
from recollect.errors import InvalidInput, NotFound, StoreBusy, WrongKey
from recollect.interfaces.cli.main import run
from recollect.interfaces.http.app import Service
from recollect.interfaces.serve import service_background
from recollect.ports.backups import BackupPolicy
from recollect.ports.records import Scope
from recollect.ports.steps import Put
from recollect.services.background import Schedule
from recollect.services.backups.rotation import kept
from recollect.settings import ServerSettings

KEY = "a key of more than sixteen letters"


def filled(address: str, **settings: Any) -> Any:
    mem = recollect.open(address, embedder="hash", **settings)
    mem.remember("Alice prefers pytest", cites=[recollect.cite.user("alice", "said so")], tags=["t"])
    mem.remember("港口九点开门", kind="observation")
    mem.within("globex").remember("The harbour opens at nine")
    mem.forget(mem.remember("A slip").id)
    mem.audit.seal()
    return mem


def exported(mem: Any, path: Path) -> bytes:
    mem.export(str(path), audit=False)
    with mem._core.files.opened(path) as file:
        lines = bytes(file.read())
    path.unlink()
    return lines


def as_restored(address: str, folder: Path, **settings: Any) -> bytes:
    with recollect.open(address, embedder="hash", **settings) as mem:
        lines = exported(mem, folder / "restored.jsonl")
        assert mem.verify().sound
        assert mem.recall("pytest")[0].text == "Alice prefers pytest"
        assert mem.within("globex").recall("harbour")[0].text == "The harbour opens at nine"
        assert mem.audit.verify().sound
        return lines


@pytest.mark.parametrize("kind", EVERY_STORE)
def test_every_store_is_backed_up_to_a_folder_and_restored_as_another_store(kind: str, tmp_path: Path) -> None:
    with filled(EVERY_STORE[kind](tmp_path)) as mem:
        reply = mem.backup(f"{tmp_path}/backups/")
        before = exported(mem, tmp_path / "one.jsonl")
        assert reply.verified
        assert reply.new_bytes
        (listed,) = mem.backup.list()
        assert (listed.id, listed.place, listed.error) == (reply.id, str(tmp_path / "backups"), None)
        assert mem.within("globex").backup.list()[0].id == reply.id
    assert restore(tmp_path / "backups", tmp_path / "copy.db").memories == 4
    assert as_restored(str(tmp_path / "copy.db"), tmp_path) == before
    (again := tmp_path / "again").mkdir()
    target = EVERY_STORE[kind](again)
    assert restore(tmp_path / "backups", target).memories == 4
    assert as_restored(target, tmp_path) == before
    assert not list(tmp_path.glob(".recollect-work-*"))


def test_a_backup_of_sqlite_becomes_a_database_of_postgresql(tmp_path: Path) -> None:
    with filled(str(tmp_path / "a.db")) as mem:
        mem.backup(f"{tmp_path}/backups/")
        mem.backup(str(tmp_path / "file.db"))
        before = exported(mem, tmp_path / "one.jsonl")
    for source in ("backups", "file.db"):
        target = server().new_store()
        assert restore(tmp_path / source, target).memories == 4
        assert as_restored(target, tmp_path) == before


def test_the_second_backup_stores_only_what_changed(tmp_path: Path) -> None:
    with filled(str(tmp_path / "a.db")) as mem:
        # A memory changes a page of each of some thirty trees, and each page a chunk of 256 KB.
        mem.remember_many([{"content": f"note {n} of {'many words ' * (n % 50)}"} for n in range(9000)])
        first = mem.backup(f"{tmp_path}/backups/", verify=False)
        mem.remember("one more")
        second = mem.backup(f"{tmp_path}/backups/", verify=False)
    assert second.bytes >= first.bytes > 2_000_000
    assert second.new_bytes < first.new_bytes / 2


@pytest.mark.parametrize("kind", ["dynamodb", "sqlite"])
def test_records_that_did_not_change_are_not_stored_again(kind: str, tmp_path: Path) -> None:
    with filled(EVERY_STORE[kind](tmp_path), key=KEY) as mem:
        mem.remember_many([{"content": f"note {n} of {random.Random(n).randbytes(300).hex()}"} for n in range(500)])
        first = mem.backup(f"{tmp_path}/backups/", verify=False)
        mem.remember("one more")
        second = mem.backup(f"{tmp_path}/backups/", verify=False)
    assert second.bytes > first.bytes
    assert second.new_bytes < first.new_bytes * 0.9


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_backup_is_of_one_moment_whatever_others_write(kind: str, tmp_path: Path) -> None:
    """Each change writes two memories: a backup has both or neither."""
    enough = threading.Event()

    def write(mem: Any) -> None:
        number = 0
        while not enough.is_set():
            mem.remember_many([f"left {number}", f"right {number}"])
            number += 1

    with filled(EVERY_STORE[kind](tmp_path)) as mem, ThreadPoolExecutor(1) as pool:
        writer = pool.submit(write, mem)
        try:
            for _ in range(3):
                mem.backup(f"{tmp_path}/backups/", verify=False)
        finally:
            enough.set()
        writer.result()
        ids = [one.id for one in mem.backup.list()]
    for place, id in enumerate(ids):
        restore(tmp_path / "backups", tmp_path / f"{place}.db", id)
        with recollect.open(tmp_path / f"{place}.db", embedder="hash") as copy:
            texts = {one.text for one in copy.list(limit=1000).memories}
            assert {text.replace("left", "right") for text in texts} == {
                text.replace("left", "right") for text in texts if not text.startswith("left")
            }
            assert copy.verify().sound


def test_backups_go_to_a_bucket_and_come_back(bucket: str, tmp_path: Path) -> None:
    with filled(str(tmp_path / "a.db")) as mem:
        reply = mem.backup(bucket)
        assert mem.backup.list(place=bucket)[0].id == reply.id
        before = exported(mem, tmp_path / "one.jsonl")
    assert restore(bucket, tmp_path / "b.db", reply.id).memories == 4
    assert as_restored(str(tmp_path / "b.db"), tmp_path) == before


def test_stored_files_are_part_of_a_backup(tmp_path: Path) -> None:
    (tmp_path / "prices.csv").write_text("name,price\ntea,3\ncoffee,4\n")
    with filled(str(tmp_path / "a.db")) as mem:
        mem.source.add(str(tmp_path / "prices.csv"), name="prices")
        mem.backup(f"{tmp_path}/backups/")
        again = mem.backup(f"{tmp_path}/backups/")
        drilled = mem.backup.drill(again.id)
        assert drilled.sound
        assert drilled.objects
    assert restore(tmp_path / "backups", tmp_path / "b.db").notes == []
    with recollect.open(tmp_path / "b.db", embedder="hash") as mem:
        assert mem.verify(deep=True).sound
        assert mem.query.run("SELECT sum(price) AS s FROM prices").rows == [[7]]


@pytest.mark.parametrize("kind", ["sqlite", "dynamodb"])
def test_a_backup_with_a_key_has_no_plain_byte_and_needs_the_key(kind: str, tmp_path: Path) -> None:
    with filled(EVERY_STORE[kind](tmp_path), key=KEY) as mem:
        assert mem.backup(f"{tmp_path}/backups/").encrypted
        before = exported(mem, tmp_path / "one.jsonl")
    for path in (tmp_path / "backups").rglob("*"):
        assert not path.is_file() or b"pytest" not in path.read_bytes()
    (again := tmp_path / "again").mkdir()
    target = EVERY_STORE[kind](again)
    with pytest.raises(WrongKey):
        restore(tmp_path / "backups", target)
    with pytest.raises(WrongKey):
        restore(tmp_path / "backups", target, key="another key of sixteen letters")
    assert restore(tmp_path / "backups", target, key=KEY).memories == 4
    assert as_restored(target, tmp_path, key=KEY) == before


def test_a_file_of_a_store_with_a_key_is_restored_with_it_and_a_plain_one_becomes_encrypted(tmp_path: Path) -> None:
    with filled(str(tmp_path / "a.db"), key=KEY) as mem:
        assert mem.backup(str(tmp_path / "sealed.db")).encrypted
    with filled(str(tmp_path / "b.db")) as mem:
        mem.backup(str(tmp_path / "plain.db"))
    for name in ("sealed", "plain"):
        assert restore(tmp_path / f"{name}.db", tmp_path / f"{name} again.db", key=KEY).memories == 4
        as_restored(str(tmp_path / f"{name} again.db"), tmp_path, key=KEY)
        assert b"pytest" not in (tmp_path / f"{name} again.db").read_bytes()
    with pytest.raises(WrongKey):
        restore(tmp_path / "sealed.db", tmp_path / "c.db")


def test_a_place_that_was_begun_without_a_key_goes_on_with_one(tmp_path: Path) -> None:
    address = EVERY_STORE["dynamodb"](tmp_path)
    with filled(address) as mem:
        plain = mem.backup(f"{tmp_path}/backups/")
    with recollect.open(address, embedder="hash", key=KEY) as mem:
        sealed = mem.backup(f"{tmp_path}/backups/")
        assert [one.id for one in mem.backup.list(place=f"{tmp_path}/backups/")] == [sealed.id, plain.id]
        assert mem.backup.drill(plain.id).sound
        assert mem.backup.drill(sealed.id).sound


def test_what_is_there_is_not_overwritten_without_replace(tmp_path: Path) -> None:
    with filled(str(tmp_path / "a.db")) as mem:
        mem.backup(f"{tmp_path}/backups/")
        before = exported(mem, tmp_path / "one.jsonl")
        mem.remember("after the backup")
    with pytest.raises(InvalidInput, match="already exists"):
        restore(tmp_path / "backups", tmp_path / "a.db")
    assert restore(tmp_path / "backups", tmp_path / "a.db", replace=True).memories == 4
    assert as_restored(str(tmp_path / "a.db"), tmp_path) == before
    assert not list(tmp_path.glob("*.replaced"))


@pytest.mark.parametrize("kind", ["postgres", "dynamodb"])
def test_a_database_is_replaced_only_when_that_is_asked_for(kind: str, tmp_path: Path) -> None:
    address = EVERY_STORE[kind](tmp_path)
    with filled(address) as mem:
        mem.backup(f"{tmp_path}/backups/")
        before = exported(mem, tmp_path / "one.jsonl")
        mem.within("later").remember("after the backup")
    with pytest.raises(InvalidInput, match="not empty"):
        restore(tmp_path / "backups", address)
    assert restore(tmp_path / "backups", address, replace=True).memories == 4
    assert as_restored(address, tmp_path) == before


def test_older_backups_are_deleted_as_the_settings_say(tmp_path: Path) -> None:
    keep = {"daily": 1, "weekly": 0, "monthly": 0}
    backups = {"to": str(tmp_path / "backups"), "keep": keep}
    with filled(str(tmp_path / "a.db"), backups=backups) as mem:
        first, second = mem.backup(), mem.backup()
        assert second.deleted == [first.id]
        assert [one.id for one in mem.backup.list()] == [second.id]
        assert [one.id for one in mem.backup.list(place=backups["to"])] == [second.id]
        assert mem.backup.drill().id == second.id


def test_a_drill_says_what_it_proved_and_records_it(tmp_path: Path) -> None:
    with filled(str(tmp_path / "a.db"), backups={"to": str(tmp_path / "backups")}) as mem:
        mem.backup()
        reply = mem.backup.drill()
        assert reply.sound
        assert (reply.organizations, reply.memories) == (2, 3)
        assert reply.recalled == reply.asked == 3
        (listed,) = mem.backup.list()
        assert listed.drilled_at
        assert listed.drill["sound"]


def test_damage_at_the_place_is_found_by_a_drill_and_mended_by_the_next_backup(tmp_path: Path) -> None:
    with filled(str(tmp_path / "a.db"), backups={"to": str(tmp_path / "backups")}) as mem:
        mem.backup()
        chunk = max((tmp_path / "backups" / "chunks").rglob("*"), key=lambda path: path.stat().st_size)
        chunk.write_bytes(chunk.read_bytes()[:-1] + b"\0")
        with pytest.raises(recollect.RecollectError, match="damaged"):
            mem.backup.drill()
        with pytest.raises(recollect.RecollectError, match="damaged"):
            restore(tmp_path / "backups", tmp_path / "b.db")
        chunk.unlink()
        assert mem.backup().verified


def test_a_place_that_cannot_be_written_is_said_and_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("not a folder")
    with filled(str(tmp_path / "a.db")) as mem:
        with pytest.raises(recollect.RecollectError):
            mem.backup(f"{tmp_path}/file/backups/")
        assert mem.backup.list()[0].error
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
        with pytest.raises(InvalidInput, match="not a place for backups"):
            mem.backup("ftp://host/folder")
        mem.backup(f"{tmp_path}/good/")
        assert [one.error is None for one in mem.backup.list()] == [True, False]


def test_without_a_place_the_remedy_is_named(tmp_path: Path) -> None:
    with filled(str(tmp_path / "a.db")) as mem:
        with pytest.raises(InvalidInput, match=r"backups\.to"):
            mem.backup()
        with pytest.raises(NotFound, match="no backup yet"):
            mem.backup.drill()
        (tmp_path / "empty").mkdir()
        with pytest.raises(NotFound, match="no backup"):
            restore(tmp_path / "empty", tmp_path / "b.db")


def test_a_file_with_a_key_is_sealed(tmp_path: Path) -> None:
    with filled(server().new_store(), key=KEY, postgres_tools=BIN) as mem:
        assert mem.backup(str(tmp_path / "copy.dump")).encrypted
    assert b"pytest" not in (tmp_path / "copy.dump").read_bytes()
    with pytest.raises(WrongKey):
        restore(tmp_path / "copy.dump", server().new_database(), postgres_tools=BIN)
    target = server().new_database()
    assert restore(tmp_path / "copy.dump", target, postgres_tools=BIN, key=KEY).memories == 4


def test_two_backups_at_once_do_not_meet(tmp_path: Path) -> None:
    from recollect.adapters.backups.place import FolderPlace
    from recollect.adapters.backups.place_lock import locked

    with filled(str(tmp_path / "a.db")) as mem:
        with locked(FolderPlace(tmp_path / "backups")), pytest.raises(StoreBusy, match="another backup"):
            mem.backup(f"{tmp_path}/backups/")
        assert mem.backup(f"{tmp_path}/backups/").verified


def test_a_removed_backup_is_gone_from_its_place_and_its_record(tmp_path: Path) -> None:
    with filled(str(tmp_path / "a.db")) as mem:
        first, second = mem.backup(f"{tmp_path}/backups/"), mem.backup(f"{tmp_path}/backups/")
        mem.backup.remove(first.id)
        assert [one.id for one in mem.backup.list()] == [second.id]
        assert mem.backup.drill(second.id).sound
        mem.backup.remove(second.id)
        assert not [path for path in (tmp_path / "backups" / "chunks").rglob("*") if path.is_file()]


# -- by itself ---------------------------------------------------------------------------------------------------------


@contextmanager
def of_service(mem: Any) -> Iterator[Background]:
    with closing(service_background(Service(mem._core, ServerSettings(), "default"))) as background:
        yield background


def test_the_service_makes_a_backup_when_one_is_due_and_by_one_process_only(tmp_path: Path) -> None:
    backups = {"to": str(tmp_path / "backups"), "every_hours": 24, "verify": False}
    with (
        filled(str(tmp_path / "a.db"), backups=backups) as mem,
        recollect.open(tmp_path / "a.db", embedder="hash", backups=backups) as other,
    ):
        with of_service(mem) as one, of_service(other) as two:
            one.once()
            two.once()
            one.once()
        assert len(mem.backup.list()) == 1
        assert mem.doctor().well
        made = mem.backup.list()[0]
        record = mem._core.store.get(Scope("default"), Backup, made.id)
        for organization in ("default", "globex"):
            old = record.changed(organization_id=organization, made_at=now() - timedelta(hours=49))
            mem._core.store.transact(Scope(organization), [Put(old)])
        late = mem.doctor()
        assert not late.well
        assert "49 hours ago" in next(finding.says for finding in late.findings if finding.name == "backups")
        with of_service(mem) as background:
            background.once()
        assert len(mem.backup.list()) == 2
        assert mem.doctor().well


def test_a_backup_that_fails_is_said_by_doctor_and_tried_again_later(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    backups = {"to": str(tmp_path / "file"), "every_hours": 24}
    with filled(str(tmp_path / "a.db"), backups=backups) as mem:
        with of_service(mem) as background:
            background.once()
            background.once()
        (failed,) = mem.backup.list()
        assert failed.error
        assert not mem.doctor().well


def test_a_program_that_opened_the_store_makes_no_backups_by_itself(tmp_path: Path) -> None:
    backups = {"to": str(tmp_path / "backups"), "every_hours": 24}
    with filled(str(tmp_path / "a.db"), backups=backups) as mem:
        with closing(Background(mem._core, Schedule(look_seconds=1e6))) as background:
            background.once()
        assert not mem.backup.list().backups


def test_what_is_kept_is_the_newest_of_each_day_week_and_month() -> None:
    made = {f"{day:03}": datetime(2026, 1, 1, 12, tzinfo=UTC) + timedelta(days=day) for day in range(120)}
    policy = BackupPolicy(daily=3, weekly=2, monthly=3)
    # 2026-04-30 is a Thursday: its day, the two before, the Sunday before, and the ends of March and February
    assert sorted(kept(made, policy)) == ["058", "089", "115", "117", "118", "119"]
    assert kept({}, policy) == set()
    assert kept(made, BackupPolicy(daily=0, weekly=0, monthly=0)) == {"119"}


KILLED = """
    import os, sys, recollect
    from recollect.adapters.backups import repository
    repository.chunks = lambda pieces: os.kill(os.getpid(), 9)
    with recollect.open(sys.argv[1], embedder="hash") as mem:
        mem.backup(sys.argv[2])
"""


def test_a_killed_backup_leaves_nothing_that_the_next_does_not_delete(tmp_path: Path) -> None:
    filled(str(tmp_path / "a.db")).close()
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-c",
        textwrap.dedent(KILLED),
        str(tmp_path / "a.db"),
        f"{tmp_path}/backups/",
    ]
    assert subprocess.run(command, timeout=60, check=False).returncode == -9
    assert list(tmp_path.glob(".recollect-work-*"))
    with recollect.open(tmp_path / "a.db", embedder="hash") as mem:
        assert not mem.backup.list().backups
        assert not mem.backup.list(place=str(tmp_path / "backups")).backups
        assert mem.backup(f"{tmp_path}/backups/").verified
    assert not list(tmp_path.glob(".recollect-work-*"))


def test_the_commands_back_up_list_drill_and_restore(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RECOLLECT_EMBEDDER__PROVIDER", "hash")
    filled("recollect.db").close()
    assert [run(words.split()) for words in ("backup backups/", "backup list", "backup drill")] == [0, 0, 0]
    shown = capsys.readouterr().out
    assert "read back and checked" in shown
    assert "restored 3 memories of 2 organizations" in shown
    assert run(["restore", "backups", "--to", "one.db"]) == 0
    assert run(["backup", "restore", "backups", "--to", "one.db"]) == 2
    assert run(["restore", "backups/", "--to", "one.db", "--replace"]) == 0
    assert run(["restore-backup", "backups", "two.db"]) == 0
    with recollect.open("recollect.db") as mem:
        forgotten = mem.remember("to be forgotten").id
        mem.forget(forgotten)
    assert run(["restore", forgotten]) == 0


def test_the_figures_tell_when_the_last_backup_was_made(tmp_path: Path) -> None:
    with filled(str(tmp_path / "a.db"), backups={"to": str(tmp_path / "b"), "every_hours": 1, "verify": False}) as mem:
        service = Service(mem._core, ServerSettings(), "default")
        with closing(service_background(service)) as background:
            background.once()
            background.once()
        made = mem.backup.list()[0].made_at.timestamp()
        page = service.metrics.page().decode()
        (figure,) = re.findall(r"^recollect_last_backup_timestamp_seconds (\S+)$", page, re.MULTILINE)
        assert float(figure) == pytest.approx(made)
        assert 'recollect_background_runs_total{result="done",task="backup"} 1.0' in page
