"""Local copies that several processes share: what somebody reads is never deleted or replaced, whoever does it when."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from recollect.adapters.objects import cache
from recollect.adapters.objects.cache import ObjectCache, Wanted
from recollect.adapters.objects.hashing import pieces_of
from recollect.adapters.objects.names import file_name
from recollect.ports.objects import object_hash

fcntl = pytest.importorskip("fcntl")


@pytest.fixture
def copies(tmp_path: Path) -> list[ObjectCache]:
    """The folder as two processes see it, with room for two objects and a half."""
    return [ObjectCache(tmp_path, 2500) for _ in range(2)]


def fetch(copies: ObjectCache, letter: bytes, download: Any = None) -> AbstractContextManager[Path]:
    content = letter * 1000
    digest = object_hash(content)
    wanted = Wanted("acme", file_name(digest), digest, 1000, pieces_of, "")
    return copies.fetch(wanted, download or (lambda: [content]))


def test_a_copy_that_took_the_place_of_another_is_not_deleted_for_it(
    copies: list[ObjectCache], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody makes room just when others delete the same copy and download it again."""
    mine, theirs = copies
    with fetch(mine, b"a") as path:
        pass
    held: list[Any] = []
    lock = fcntl.flock

    def late(file: Any, how: int) -> None:
        if how & fcntl.LOCK_EX and not held:
            path.unlink()
            held.append(fetch(theirs, b"a"))
            held[0].__enter__()
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    assert not cache._deleted_unheld(path)
    assert path.read_bytes() == b"a" * 1000
    held[0].__exit__(None, None, None)
    assert cache._deleted_unheld(path)


def test_a_download_does_not_replace_what_somebody_reads(copies: list[ObjectCache]) -> None:
    mine, theirs = copies

    def slow() -> Iterable[bytes]:
        with fetch(theirs, b"a") as path:
            kept.append(path.stat().st_ino)
        return [b"a" * 1000]

    kept: list[int] = []
    with fetch(mine, b"a", slow) as path:
        assert [path.stat().st_ino] == kept


def test_what_others_downloaded_at_the_same_time_makes_room_too(copies: list[ObjectCache], tmp_path: Path) -> None:
    mine, theirs = copies

    def slow() -> Iterable[bytes]:
        for letter in (b"a", b"b"):
            with fetch(theirs, letter):
                pass
        return [b"c" * 1000]

    with fetch(mine, b"c", slow) as path:
        left = [one for one in tmp_path.rglob("*") if one.is_file()]
    assert path in left
    assert len(left) == 2
