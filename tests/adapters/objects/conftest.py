"""The storages that the contract is checked on: a folder, and S3 over the wire."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from recollect.adapters.objects.cache import ObjectCache
from recollect.adapters.objects.folder import FolderObjects
from recollect.adapters.objects.remote import RemoteObjects
from recollect.adapters.objects.sealing import Sealing
from recollect.ports.objects import ObjectStore


@pytest.fixture(params=["folder", "s3", "sealed folder", "sealed s3"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    key = hashlib.sha256(b"a data key").digest()
    sealing = Sealing(lambda tenant: key) if "sealed" in request.param else None
    if "folder" in request.param:
        return FolderObjects(tmp_path / "objects", sealing)
    return RemoteObjects(request.getfixturevalue("bucket"), ObjectCache(tmp_path / "cache", 1_000_000_000), sealing)
