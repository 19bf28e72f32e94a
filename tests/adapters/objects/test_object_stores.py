"""What every storage of large content does, in a folder and in S3."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from recollect.adapters.objects.names import folder_name
from recollect.errors import InvalidInput, NotFound
from recollect.ports.objects import ObjectStore, object_hash

HOSTILE = [
    "default", "..", ".", "../..", "a/b", "a\\b", "Acme", "ACME", "acme", "acme.", " acme", "con", "nul.txt", "組織",
    "é", "e\u0301", "İ", "i̇", "-rf", "~", "%2e%2e", "' OR 1=1 --", "👩‍👩‍👧", "\u202egnp", "a" * 255, "A" * 255,
    "組" * 255,
]  # fmt: skip


def _everything(objects: ObjectStore, tenant: str, digest: str) -> bytes:
    return b"".join(objects.read(tenant, digest))


@pytest.mark.parametrize("size", [0, 1, 1 << 20, (9 << 20) + 7])
def test_what_was_put_is_read_again(objects: ObjectStore, tmp_path: Path, size: int) -> None:
    data = hashlib.shake_256(b"seed").digest(size)
    (tmp_path / "source").write_bytes(data)
    stored = objects.put("acme", tmp_path / "source")
    assert (stored.digest, stored.size) == (object_hash(data), size)
    assert _everything(objects, "acme", stored.digest) == data
    with objects.fetch("acme", stored.digest) as path:
        assert path.read_bytes() == data
    found = objects.info("acme", stored.digest)
    assert found is not None
    assert found.size == size
    assert abs(found.modified - datetime.now(UTC)) < timedelta(minutes=5)


def test_pieces_are_stored_as_a_file_is(objects: ObjectStore) -> None:
    stored = objects.put("acme", iter([b"one", b"", b"two"]))
    assert stored.digest == object_hash(b"onetwo")
    assert _everything(objects, "acme", stored.digest) == b"onetwo"


def test_the_same_bytes_are_one_object(objects: ObjectStore, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"same")
    first = objects.put("acme", tmp_path / "source")
    assert objects.put("acme", [b"sa", b"me"]).digest == first.digest
    assert [info.digest for info in objects.list("acme")] == [first.digest]


def test_tenants_do_not_see_each_other(objects: ObjectStore) -> None:
    digests = {tenant: objects.put(tenant, [tenant.encode()]).digest for tenant in HOSTILE}
    for tenant in HOSTILE:
        assert [info.digest for info in objects.list(tenant)] == [digests[tenant]]
        assert _everything(objects, tenant, digests[tenant]) == tenant.encode()
    objects.delete_tenant("acme")
    assert list(objects.list("acme")) == []
    assert all(objects.info(tenant, digests[tenant]) for tenant in HOSTILE if tenant != "acme")


def test_names_of_tenants_stay_apart_and_inside_on_every_file_system() -> None:
    names = [folder_name(tenant) for tenant in HOSTILE]
    assert len({name.casefold() for name in names}) == len(HOSTILE)
    assert all(name.isascii() and len(name) < 128 and name[:2] in ("t-", "h-") for name in names)
    assert not any(set("/\\:.~%") & set(name) for name in names)


@pytest.mark.parametrize("digest", ["", "o1:", "o1:../../etc/passwd", "o1:" + "A" * 64, "b1:" + "0" * 64, "0" * 64])
def test_only_a_digest_names_content(objects: ObjectStore, digest: str) -> None:
    for verb in (objects.info, lambda *a: list(objects.read(*a)), lambda tenant, one: objects.delete(tenant, [one])):
        with pytest.raises(InvalidInput, match="not the digest"):
            verb("acme", digest)


def test_missing_content_is_an_error_with_a_remedy(objects: ObjectStore) -> None:
    digest = object_hash(b"never stored")
    assert objects.info("acme", digest) is None
    for look in (lambda: list(objects.read("acme", digest)), lambda: objects.fetch("acme", digest).__enter__()):
        with pytest.raises(NotFound, match=digest) as raised:
            look()
        assert "upload the file again" in raised.value.remedy


def test_deleting_removes_content_and_nothing_else(objects: ObjectStore) -> None:
    one, two, three = (objects.put("acme", [data]).digest for data in (b"1", b"2", b"3"))
    with objects.fetch("acme", one):
        pass
    objects.delete("acme", [one, object_hash(b"never stored"), three])
    objects.delete("acme", [one])
    assert [info.digest for info in objects.list("acme")] == [two]
    with pytest.raises(NotFound):
        objects.fetch("acme", one).__enter__()


def test_a_source_that_fails_leaves_nothing(objects: ObjectStore) -> None:
    def failing() -> Iterator[bytes]:
        yield b"x" * (9 << 20)
        raise RuntimeError("the client hung up")

    with pytest.raises(RuntimeError, match="hung up"):
        objects.put("acme", failing())
    assert list(objects.list("acme")) == []
    assert objects.sweep() == 0


@pytest.mark.parametrize("name", ["absent", "folder"])
def test_a_source_that_cannot_be_read_is_the_callers_mistake(objects: ObjectStore, tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(InvalidInput, match=name):
        objects.put("acme", tmp_path / name)


def test_many_objects_are_listed_and_deleted(objects: ObjectStore) -> None:
    stored = {objects.put("acme", [str(number).encode()]).digest for number in range(120)}
    assert {info.digest for info in objects.list("acme")} == stored
    objects.delete_tenant("acme")
    assert list(objects.list("acme")) == []
