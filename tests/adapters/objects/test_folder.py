"""Content in a folder: whole or not there, private, checked when read, shared by several processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from recollect.adapters.objects import folder
from recollect.adapters.objects.folder import FolderObjects
from recollect.errors import DamagedData, StoreReadOnly
from recollect.ports.objects import object_hash

ENDLESS_PUT = """
import sys
from pathlib import Path
from recollect.adapters.objects.folder import FolderObjects

def pieces():
    for number in range(1_000_000):
        yield b"x" * 100_000
        if number == 20:
            print("writing", flush=True)

FolderObjects(Path(sys.argv[1])).put("acme", pieces())
"""


def _running(script: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _file(folder: Path, digest: str) -> Path:
    return folder / "t-acme" / digest.removeprefix("o1:")


def test_a_process_killed_while_it_writes_leaves_a_temporary_file_that_sweep_deletes(tmp_path: Path) -> None:
    objects = FolderObjects(tmp_path)
    with _running(ENDLESS_PUT, tmp_path) as writer:
        assert writer.stdout.readline() == "writing\n"
        assert objects.sweep() == 0, "its writer is alive"
        assert list(objects.list("acme")) == []
        writer.send_signal(signal.SIGKILL)
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".recollect-")
    assert objects.sweep() == 1
    assert list(tmp_path.iterdir()) == []


SAME_PUTS = """
import sys
from pathlib import Path
from recollect.adapters.objects.folder import FolderObjects

objects = FolderObjects(Path(sys.argv[1]))
for number in range(60):
    data = b"%d" % number * 1000
    stored = objects.put("acme", [data])
    assert b"".join(objects.read("acme", stored.digest)) == data
    objects.sweep()
"""


def test_processes_that_put_the_same_at_once_get_along(tmp_path: Path) -> None:
    writers = [_running(SAME_PUTS, tmp_path) for _ in range(3)]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0, 0]
    for writer in writers:
        writer.stdout.close()
    objects = FolderObjects(tmp_path)
    assert len(list(objects.list("acme"))) == 60
    for info in objects.list("acme"):
        assert object_hash(b"".join(objects.read("acme", info.digest))) == info.digest
    assert [path.name for path in tmp_path.iterdir()] == ["t-acme"]


@pytest.mark.parametrize("harm", [b"y", b"", b"xx"])
def test_damage_is_noticed_and_mended_by_putting_it_again(tmp_path: Path, harm: bytes) -> None:
    objects = FolderObjects(tmp_path)
    digest = objects.put("acme", [b"x"]).digest
    _file(tmp_path, digest).write_bytes(harm)
    for look in (lambda: list(objects.read("acme", digest)), lambda: objects.fetch("acme", digest).__enter__()):
        with pytest.raises(DamagedData, match=digest) as raised:
            look()
        assert "upload the file again" in raised.value.remedy
    objects.put("acme", [b"x"])
    assert b"".join(objects.read("acme", digest)) == b"x"


def test_a_file_is_hashed_once_per_process_and_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = FolderObjects(tmp_path).put("acme", [b"x" * 100]).digest
    hashed: list[Path] = []

    def counting(path: Path) -> Iterator[bytes]:
        hashed.append(path)
        yield path.read_bytes()

    monkeypatch.setattr(folder, "pieces_of", counting)
    objects = FolderObjects(tmp_path)
    for _ in range(5):
        with objects.fetch("acme", digest):
            pass
    assert len(hashed) == 1
    os.utime(_file(tmp_path, digest), (1, 1))
    with objects.fetch("acme", digest):
        pass
    assert len(hashed) == 2


def test_what_is_there_is_not_written_again(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"x" * 5000)
    objects = FolderObjects(tmp_path / "objects")
    digest = objects.put("acme", tmp_path / "source").digest
    before = _file(tmp_path / "objects", digest).stat()
    for again in (objects, FolderObjects(tmp_path / "objects")):
        assert again.put("acme", tmp_path / "source").digest == digest
        assert again.put("acme", [b"x" * 5000]).digest == digest
    after = _file(tmp_path / "objects", digest).stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


BIG_PUT = """
import resource, sys
from pathlib import Path
from recollect.adapters.objects.folder import FolderObjects

objects = FolderObjects(Path(sys.argv[1]))
objects.put("acme", [b"warm"])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
pieces = (bytes([number % 251]) * (1 << 20) for number in range(200))
digest = objects.put("acme", pieces).digest
assert sum(len(piece) for piece in objects.read("acme", digest)) == 200 << 20
assert objects.put("globex", Path(sys.argv[1]) / "t-acme" / digest[3:]).digest == digest
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_200_megabytes_are_stored_and_read_in_a_few(tmp_path: Path) -> None:
    with _running(BIG_PUT, tmp_path) as process:
        kilobytes = int(process.stdout.read())
    assert kilobytes < 20_000


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="the administrator may write anywhere")
def test_a_folder_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StoreReadOnly):
        FolderObjects(tmp_path / "objects").put("acme", [b"x"])


def test_a_link_in_place_of_content_is_not_followed(tmp_path: Path) -> None:
    objects = FolderObjects(tmp_path / "objects")
    digest = objects.put("acme", [b"x"]).digest
    (tmp_path / "other").write_bytes(b"x")
    path = _file(tmp_path / "objects", digest)
    path.unlink()
    path.symlink_to(tmp_path / "other")
    with pytest.raises(DamagedData):
        objects.fetch("acme", digest).__enter__()


def test_the_age_of_content_is_that_of_its_file(tmp_path: Path) -> None:
    objects = FolderObjects(tmp_path)
    digest = objects.put("acme", [b"x"]).digest
    yesterday = time.time() - 86_400
    os.utime(_file(tmp_path, digest), (yesterday, yesterday))
    assert [round(info.modified.timestamp()) for info in objects.list("acme")] == [round(yesterday)]
