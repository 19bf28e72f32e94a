"""A place of backups: what is listed is whole, what is shared is stored once, what nobody needs is deleted."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from recollect.adapters.backups import place_lock
from recollect.adapters.backups.place import BucketPlace, FolderPlace, Place
from recollect.adapters.backups.place_lock import locked
from recollect.adapters.backups.repository import Repository
from recollect.adapters.encryption.master_key import MasterKey
from recollect.errors import DamagedData, LeaseLost, NotFound, StoreBusy, StoreError, Unavailable, WrongKey
from recollect.ports.backups import BackedUpObject
from s3_server import BUCKET, s3_server

KEY = MasterKey("a key of more than sixteen letters")
CONTENT = random.Random(3).randbytes(2_000_000)


@pytest.fixture(scope="session")
def s3() -> Iterator[dict[str, str]]:
    with s3_server() as environment:
        yield environment


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    if request.param == "folder":
        return FolderPlace(tmp_path / "backups")
    for name, value in request.getfixturevalue("s3").items():
        monkeypatch.setenv(name, value)
    return BucketPlace(f"s3://{BUCKET}/{tmp_path.name}")


def nothing(size: int) -> None:
    """No progress is shown."""


def chunk_names(place: Place) -> list[str]:
    return sorted(place.names("chunks"))


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "sealed"])
def test_a_backup_is_listed_read_checked_and_deleted(place: Place, key: MasterKey | None) -> None:
    repository = Repository(place, key)
    kept = BackedUpObject("acme@1", "o1:" + "0" * 64, 5, lambda: [b"hello"])
    info = repository.write("records", [CONTENT[:1000], CONTENT[1000:]], [kept], nothing)
    assert repository.backups() == [info]
    assert (info.bytes, info.objects, info.encrypted) == (len(CONTENT) + 5, 1, key is not None)
    assert b"".join(repository.content(info.id)) == CONTENT
    (again,) = repository.objects(info.id)
    assert (again.place, again.digest, b"".join(again.read())) == (kept.place, kept.digest, b"hello")
    repository.check(info.id, nothing)
    repository.delete([info.id, "absent"])
    assert repository.backups() == []
    assert chunk_names(place) == []
    with pytest.raises(NotFound):
        repository.check(info.id, nothing)


def test_what_two_backups_share_is_stored_once_and_objects_are_not_read_again(place: Place) -> None:
    repository, digest = Repository(place, KEY), "o1:" + "0" * 64
    first = repository.write("records", [CONTENT], [BackedUpObject("p", digest, 5, lambda: [b"hello"])], nothing)
    before = chunk_names(place)

    def unread() -> list[bytes]:
        raise AssertionError("it is there already")

    second = repository.write("records", [CONTENT, b"more"], [BackedUpObject("p", digest, 5, unread)], nothing)
    assert len(set(chunk_names(place)) - set(before)) == 1
    assert second.new_bytes < first.new_bytes / 4
    repository.delete([first.id])
    repository.check(second.id, nothing)


def test_a_backup_that_stopped_is_not_listed_and_its_parts_go_with_the_next(place: Place) -> None:
    repository = Repository(place, None)
    whole = repository.write("records", [b"small"], [], nothing)

    def stopped(size: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        repository.write("records", [CONTENT], [], stopped)
    assert repository.backups() == [whole]
    assert len(chunk_names(place)) > 1
    repository.write("records", [b"small"], [], nothing)
    assert len(chunk_names(place)) == 1


def test_damaged_parts_are_noticed_and_stored_again(place: Place) -> None:
    repository = Repository(place, None)
    info = repository.write("records", [CONTENT], [], nothing)
    name = chunk_names(place)[0]
    good = place.get(name)
    place.put(name, good[:-1] + bytes([good[-1] ^ 1]))
    with pytest.raises(DamagedData):
        repository.check(info.id, nothing)
    place.delete([name])
    with pytest.raises(DamagedData):
        b"".join(repository.content(info.id))
    repository.write("records", [CONTENT], [], nothing)
    repository.check(info.id, nothing)


def test_parts_of_backups_that_cannot_be_read_are_left_alone(place: Place) -> None:
    sealed = Repository(place, KEY).write("records", [CONTENT], [], nothing)
    other = Repository(place, MasterKey("another key of sixteen letters"))
    with pytest.raises(WrongKey):
        other.backups()
    with pytest.raises(WrongKey):
        Repository(place, None).backups()
    other.write("records", [b"small"], [], nothing)
    Repository(place, KEY).check(sealed.id, nothing)


def test_one_process_writes_at_a_time(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = Repository(place, None)
    with locked(place), pytest.raises(StoreBusy):
        repository.write("records", [b"small"], [], nothing)
    repository.write("records", [b"small"], [], nothing)
    monkeypatch.setattr(place_lock, "SECONDS", -1.0)
    with locked(place) as renew, locked(place), pytest.raises(LeaseLost):
        renew()


KILLED = """
    import os, sys
    from pathlib import Path
    from recollect.adapters.backups.place import FolderPlace
    from recollect.adapters.backups.repository import Repository
    put, left = FolderPlace.put, int(sys.argv[2])
    def counted(self, name, data):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), 9)
        put(self, name, data)
    FolderPlace.put = counted
    import random
    Repository(FolderPlace(Path(sys.argv[1])), None).write("records", [random.Random(3).randbytes(2_000_000)], [], len)
"""


@pytest.mark.parametrize("puts", [0, 1, 3])
def test_a_killed_process_leaves_no_backup_and_no_lock(puts: int, tmp_path: Path) -> None:
    repository = Repository(FolderPlace(tmp_path), None)
    whole = repository.write("records", [b"small"], [], nothing)
    script = KILLED.replace(", len)", ", lambda size: None)")
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script), str(tmp_path), str(puts)]
    assert subprocess.run(command, timeout=60, check=False).returncode == -9
    assert repository.backups() == [whole]
    (tmp_path / "chunks" / ".recollect-0123456789abcdef").touch()  # killed between making a file and locking it
    for left in tmp_path.rglob(".recollect-*"):
        os.utime(left, (0, 0))
    second = repository.write("records", [b"small"], [], nothing)
    assert len(chunk_names(FolderPlace(tmp_path))) == 1
    assert [one.id for one in repository.backups()] == [second.id, whole.id]
    assert not list(tmp_path.rglob(".recollect-*"))


def test_a_place_that_cannot_be_used_is_a_typed_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from obstore.store import LocalStore

    away = BucketPlace("s3://bucket/prefix")
    monkeypatch.setitem(vars(away), "_bucket", LocalStore(tmp_path / "absent" / "folder", mkdir=True))
    (tmp_path / "absent").rename(tmp_path / "moved")
    (tmp_path / "absent").write_text("in the way")
    with pytest.raises((Unavailable, NotFound)):
        away.put("a/b", b"c")
    with pytest.raises(StoreError, match="the system refused"):
        FolderPlace(tmp_path / "absent" / "below").put("a", b"b")
