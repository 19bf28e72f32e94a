"""Killed between any two steps of moving or restoring a session: nothing is lost, nothing is there twice."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from cold_sessions import contents, fill, opened, tenant_of
from recollect.domain.cold import ColdArchive
from recollect.domain.conversations import Session
from recollect.domain.record import now
from recollect.errors import StoreFull, Unavailable
from recollect.ports.query import Query
from recollect.ports.steps import Touch
from recollect.services.erasure import COLD_WRITING_SECONDS


class Killed(BaseException):
    """Nothing of ours catches it, so nothing is tidied up: as if the process had ended there."""


def killed_after(mem: Any, number: int, work: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> bool:
    """Do the work until so many writes to the store or to its files were made; whether it was killed."""
    left = number

    def counted(verb: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            nonlocal left
            if left == 0:
                raise Killed
            left -= 1
            return verb(*given, **named)

        return call

    with monkeypatch.context() as patched:
        store, objects = mem._core.store, mem._core.objects
        patched.setattr(store, "transact", counted(store.transact))
        for verb in ("put", "delete"):
            patched.setattr(objects, verb, counted(getattr(objects, verb)))
        try:
            work()
        except Killed:
            return True
    return False


def look_old(mem: Any) -> None:
    """What a killed process left is taken for its own until it is old."""
    tenant = tenant_of(mem)
    long_ago = now() - timedelta(seconds=COLD_WRITING_SECONDS + 1)
    for one in tenant.find(Query(ColdArchive)).records:
        tenant.transact([Touch(ColdArchive, one.id, put={"updated_at": long_ago})])


@pytest.mark.parametrize("restoring", [False, True], ids=["store", "restore"])
def test_killed_after_any_write_nothing_is_lost_and_nothing_is_there_twice(
    restoring: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number, killed = 0, True
    while killed:
        address = tmp_path / f"{number}.db"
        with opened(address) as mem:
            fill(mem)
            mem.audit.seal()
            before = contents(tenant_of(mem))
            if restoring:
                mem.cold.store(session="old")
            work = (lambda: mem.cold.restore("old")) if restoring else (lambda: mem.cold.store(session="old"))
            killed = killed_after(mem, number, work, monkeypatch)
        with opened(address) as mem:
            assert mem.verify().problems == [], number
            session = tenant_of(mem).get(Session, "old")
            assert session is not None
            if session.cold_at is None:
                assert contents(tenant_of(mem)) == before, number
                look_old(mem)
                assert len(mem.cold.store(session="old").moved) == 1, number
            mem.sweep()
            assert mem.audit.verify().sound, number
            assert mem.cold.show("old").intact, number
            assert len(list(tenant_of(mem).objects.list(tenant_of(mem).content_place))) == 2, "and no more"
            mem.cold.restore("old")
            assert contents(tenant_of(mem)) == before, number
        number += 1
    assert number >= 5


def test_what_a_killed_process_left_is_swept(local: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(local)
    assert killed_after(local, 4, lambda: local.cold.store(session="old"), monkeypatch)
    tenant = tenant_of(local)
    assert tenant.count(Query(ColdArchive)) == 1
    assert len(list(tenant.objects.list(tenant.content_place))) > 0
    local.sweep()
    assert tenant.count(Query(ColdArchive)) == 1, "it may be at work"
    look_old(local)
    local.sweep()
    assert tenant.count(Query(ColdArchive)) == 0
    assert list(tenant.objects.list(tenant.content_place)) == []


@pytest.mark.parametrize("error", [StoreFull("no space left", remedy="x"), Unavailable("away", remedy="x")])
def test_a_full_or_absent_storage_moves_nothing_and_can_be_tried_again(
    error: Exception, local: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(local)
    before = contents(tenant_of(local))

    def fails(*given: Any) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(local._core.objects, "put", fails)
        with pytest.raises(type(error)):
            local.cold.store(session="old")
    assert contents(tenant_of(local)) == before
    assert tenant_of(local).count(Query(ColdArchive)) == 0
    assert local.cold.store(session="old").moved


def test_a_restored_session_whose_files_cannot_be_deleted_yet_is_restored(
    local: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(local)
    local.cold.store(session="old")

    def fails(*given: Any) -> None:
        raise Unavailable("away", remedy="x")

    with monkeypatch.context() as patched:
        patched.setattr(local._core.objects, "delete", fails)
        assert local.cold.restore("old").records
    tenant = tenant_of(local)
    assert len(list(tenant.objects.list(tenant.content_place))) == 2
    local.sweep()
    assert list(tenant.objects.list(tenant.content_place)) == []
    assert local.cold.store(session="old").moved
