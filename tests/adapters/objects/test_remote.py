"""Content in S3, over the wire: local copies, damage, failures, memory."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from recollect.adapters.objects.cache import UNUSED_SECONDS, ObjectCache
from recollect.adapters.objects.remote import RemoteObjects
from recollect.errors import Conflict, DamagedData, InvalidSettings, Unavailable
from recollect.ports.objects import object_hash
from s3_server import BUCKET, client


def _copies(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def objects(bucket: str, tmp_path: Path) -> RemoteObjects:
    return RemoteObjects(bucket, ObjectCache(tmp_path / "cache", 2500))


def test_a_copy_is_downloaded_once(objects: RemoteObjects, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = objects.put("acme", [b"x" * 1000]).digest
    with objects.fetch("acme", digest) as path:
        assert path.read_bytes() == b"x" * 1000
    monkeypatch.setattr(RemoteObjects, "read", lambda *given: pytest.fail("downloaded again"))
    with objects.fetch("acme", digest) as path:
        assert path.read_bytes() == b"x" * 1000


def test_the_copies_used_longest_ago_make_room_and_those_being_read_stay(
    objects: RemoteObjects, tmp_path: Path
) -> None:
    one, two, three, four = (objects.put("acme", [letter * 1000]).digest for letter in (b"1", b"2", b"3", b"4"))
    for digest in (one, two, one):
        with objects.fetch("acme", digest):
            pass
    with objects.fetch("acme", three):
        assert [path.name for path in _copies(tmp_path / "cache")] == sorted([one[3:], three[3:]])
        with objects.fetch("acme", one), objects.fetch("acme", four) as path:
            assert path.read_bytes() == b"4" * 1000
            assert len(_copies(tmp_path / "cache")) == 3, "all of them are read"


def test_content_larger_than_the_cache_is_still_readable(objects: RemoteObjects) -> None:
    digest = objects.put("acme", [b"x" * 9000]).digest
    with objects.fetch("acme", digest) as path:
        assert path.stat().st_size == 9000


def test_a_damaged_copy_is_fetched_again(objects: RemoteObjects) -> None:
    digest = objects.put("acme", [b"x" * 1000]).digest
    with objects.fetch("acme", digest) as path:
        pass
    path.write_bytes(b"y" * 1000)
    with objects.fetch("acme", digest) as path:
        assert path.read_bytes() == b"x" * 1000


def test_damage_in_the_bucket_is_noticed(
    objects: RemoteObjects, bucket: str, s3: dict[str, str], tmp_path: Path
) -> None:
    digest = objects.put("acme", [b"x" * 3_000_000]).digest
    key = f"{bucket.removeprefix(f's3://{BUCKET}/')}/t-acme/{digest[3:]}"
    client(s3).put_object(Bucket=BUCKET, Key=key, Body=b"x" * 2_999_999 + b"y")
    for look in (lambda: list(objects.read("acme", digest)), lambda: objects.fetch("acme", digest).__enter__()):
        with pytest.raises(DamagedData, match=digest) as raised:
            look()
        assert f"t-acme/{digest[3:]}" in raised.value.remedy
    assert _copies(tmp_path / "cache") == []


def test_deleting_removes_the_copy_too(objects: RemoteObjects, tmp_path: Path) -> None:
    one, two = (objects.put("acme", [letter]).digest for letter in (b"1", b"2"))
    for digest in (one, two):
        with objects.fetch("acme", digest):
            pass
    objects.delete("acme", [one])
    assert [path.name for path in _copies(tmp_path / "cache")] == [two[3:]]
    objects.delete_tenant("acme")
    assert _copies(tmp_path / "cache") == []


def test_copies_that_nobody_used_for_a_week_are_swept(
    objects: RemoteObjects, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    digest = objects.put("acme", [b"x"]).digest
    with objects.fetch("acme", digest):
        pass
    assert objects.sweep() == 0
    monkeypatch.setattr("recollect.adapters.objects.cache.UNUSED_SECONDS", -1.0)
    assert UNUSED_SECONDS == 7 * 86_400
    assert objects.sweep() == 1
    assert _copies(tmp_path / "cache") == []


def test_a_file_that_changes_while_it_is_uploaded_is_not_stored(
    objects: RemoteObjects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "source").write_bytes(b"x")
    monkeypatch.setattr("recollect.adapters.objects.remote.hash_of", lambda pieces: object_hash(b"before"))
    with pytest.raises(Conflict, match="changed while"):
        objects.put("acme", tmp_path / "source")
    assert list(objects.list("acme")) == []


def test_a_bucket_that_is_not_there_is_named(bucket: str, tmp_path: Path) -> None:
    objects = RemoteObjects("s3://no-such-bucket/x", ObjectCache(tmp_path, 1000))
    with pytest.raises(InvalidSettings, match="no-such-bucket"):
        objects.put("acme", [b"x"])
    with pytest.raises(Unavailable) as raised:
        list(objects.list("acme"))
    assert "127.0.0.1" not in str(raised.value), "callers need not know the host"


SHARED_CACHE = """
import sys
import time
from pathlib import Path
from recollect.adapters.objects.cache import ObjectCache
from recollect.adapters.objects.remote import RemoteObjects

objects = RemoteObjects(sys.argv[1], ObjectCache(Path(sys.argv[2]), 2500))
for number in range(40):
    digest = sys.argv[3 + number % 5]
    with objects.fetch("acme", digest) as path:
        assert len(path.read_bytes()) == 1000
"""


def test_processes_share_a_cache_that_is_too_small_for_them(
    objects: RemoteObjects, bucket: str, tmp_path: Path
) -> None:
    digests = [objects.put("acme", [bytes([letter]) * 1000]).digest for letter in b"12345"]
    command = [sys.executable, "-c", SHARED_CACHE, bucket, str(tmp_path / "cache"), *digests]
    processes = [subprocess.Popen(command) for _ in range(3)]
    assert [process.wait(timeout=120) for process in processes] == [0, 0, 0]
    assert len(_copies(tmp_path / "cache")) <= 3


BIG_PUT = """
import resource, sys
from pathlib import Path
from recollect.adapters.objects.cache import ObjectCache
from recollect.adapters.objects.remote import RemoteObjects

objects = RemoteObjects(sys.argv[1], ObjectCache(Path(sys.argv[2]), 10**9))
objects.put("acme", [b"warm"])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
digest = objects.put("acme", (bytes([number % 251]) * (1 << 20) for number in range(200))).digest
assert sum(len(piece) for piece in objects.read("acme", digest)) == 200 << 20
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_200_megabytes_are_uploaded_in_parts(bucket: str, tmp_path: Path) -> None:
    """A few parts of 8 MB are under way at once; the server runs in another process."""
    done = subprocess.run(
        [sys.executable, "-c", BIG_PUT, bucket, str(tmp_path)], capture_output=True, text=True, check=True, timeout=200
    )
    assert int(done.stdout) < 110_000


LONG_PUT = """
import sys
import time
from pathlib import Path
from recollect.adapters.objects.cache import ObjectCache
from recollect.adapters.objects.remote import RemoteObjects

RemoteObjects(sys.argv[1], ObjectCache(Path(sys.argv[2]), 10**9)).put("acme", Path(sys.argv[3]))
"""


def test_a_process_killed_while_it_uploads_leaves_nothing_readable(
    objects: RemoteObjects, bucket: str, s3: dict[str, str], tmp_path: Path
) -> None:
    with open(tmp_path / "source", "wb") as file:
        file.truncate(400 << 20)
    command = [sys.executable, "-c", LONG_PUT, bucket, str(tmp_path / "cache"), str(tmp_path / "source")]
    with subprocess.Popen(command) as uploading:
        while not client(s3).list_multipart_uploads(Bucket=BUCKET).get("Uploads") and uploading.poll() is None:
            time.sleep(0.01)
        uploading.kill()
    assert uploading.returncode == -signal.SIGKILL
    assert list(objects.list("acme")) == []
