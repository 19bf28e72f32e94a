"""Sealed content: no plain byte in its storage, its name or a local copy; what was stored plain stays readable."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from recollect.adapters.encryption.master_key import new_data_key
from recollect.adapters.objects.folder import FolderObjects
from recollect.adapters.objects.sealing import Sealing
from recollect.errors import DamagedData, NotFound
from recollect.ports.objects import ObjectStore

MARKER = b"a marker that must not be seen "


def _files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("objects", ["sealed folder", "sealed s3"], indirect=True)
def test_neither_the_content_nor_its_hash_is_seen(objects: ObjectStore, tmp_path: Path) -> None:
    info = objects.put("acme", [MARKER * 9000])
    assert (info.size, [one.size for one in objects.list("acme")]) == (len(MARKER) * 9000, [len(MARKER) * 9000])
    with objects.fetch("acme", info.digest) as path:
        assert path.read_bytes() == MARKER * 9000
        assert tmp_path not in path.parents or path.parent.name.startswith("recollect-")
    assert not path.exists()
    for path, content in _files(tmp_path).items():
        assert (MARKER in content, info.digest[3:] in path.name) == (False, False)


def test_the_same_content_is_stored_once_and_tenants_have_names_of_their_own(tmp_path: Path) -> None:
    keys = {"acme": new_data_key(), "other": new_data_key()}
    objects = FolderObjects(tmp_path, Sealing(keys.get))
    for tenant in ("acme", "acme", "other"):
        digest = objects.put(tenant, [MARKER]).digest
    names = [path.name for path in _files(tmp_path)]
    assert (len(names), len(set(names))) == (2, 2)
    objects.delete("acme", [digest])
    assert (objects.info("acme", digest), b"".join(objects.read("other", digest))) == (None, MARKER)


def test_what_was_stored_before_there_was_a_key_is_read_and_sealed_when_it_is_put_again(tmp_path: Path) -> None:
    digest = FolderObjects(tmp_path).put("acme", [MARKER]).digest
    key = new_data_key()
    objects = FolderObjects(tmp_path, Sealing(lambda tenant: key))
    assert b"".join(objects.read("acme", digest)) == MARKER
    objects.put("acme", [MARKER])
    assert [info.digest for info in objects.list("acme")] == [digest]
    objects.delete("acme", [digest])
    assert _files(tmp_path) == {}


def test_another_key_finds_nothing_and_deletes_nothing(tmp_path: Path) -> None:
    key = new_data_key()
    objects = FolderObjects(tmp_path, Sealing(lambda tenant: key))
    digest = objects.put("acme", [MARKER]).digest
    for other in (FolderObjects(tmp_path), FolderObjects(tmp_path, Sealing(lambda tenant: b"k" * 32))):
        with pytest.raises(NotFound):
            other.read("acme", digest).__next__()
        other.delete("acme", [digest])
        assert list(other.list("acme")) == []
    assert b"".join(objects.read("acme", digest)) == MARKER


def test_damage_is_noticed(tmp_path: Path) -> None:
    key = new_data_key()
    digest = FolderObjects(tmp_path, Sealing(lambda tenant: key)).put("acme", [MARKER * 9000]).digest
    ((path, content),) = _files(tmp_path).items()
    for at in (5, 60, 200, len(content) - 1):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        os.utime(path, (at, at))
        objects = FolderObjects(tmp_path, Sealing(lambda tenant: key))
        with pytest.raises(DamagedData, match=digest):
            b"".join(objects.read("acme", digest))
        assert objects.put("acme", [MARKER * 9000]).digest == digest
        assert b"".join(objects.read("acme", digest)) == MARKER * 9000
