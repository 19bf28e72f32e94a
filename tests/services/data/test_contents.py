"""The content of sources: named by records, counted, deleted with them, and never lost between two processes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import recollect
from every_store import EMPTY_STORE, EVERY_STORE
from postgres_server import BIN, server
from recollect.adapters.objects.folder import FolderObjects
from recollect.app import copy, restore_backup
from recollect.domain.agents import Lease
from recollect.domain.audit import Erasure
from recollect.domain.record import now
from recollect.domain.sources import Source, StoredObject
from recollect.errors import RecollectError, RequirementFailed, StoreBusy, TooLarge, Unavailable
from recollect.ports.objects import object_hash
from recollect.ports.query import Query
from recollect.ports.records import Scope, revised
from recollect.ports.steps import Delete, Insert, Update
from recollect.retry import Retry
from recollect.services.data import contents
from recollect.services.data.contents import Kept, keep
from recollect.services.erasure import erase_traces, owed
from recollect.services.tenant import Tenant
from recollect.services.transaction import made


@pytest.fixture(params=EVERY_STORE)
def mem(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    address = EMPTY_STORE[request.param](tmp_path)
    with _opened(address, objects=str(tmp_path / "objects")) as opened:
        yield opened


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Any]:
    with _opened(tmp_path / "local.db", object_bytes=5000) as opened:
        yield opened


def _opened(address: str | Path, **settings: Any) -> Any:
    return recollect.open(address, embedder="none", background=False, **settings)


def _tenant(mem: Any, organization: str = "default") -> Tenant:
    bound: Tenant = mem._core.for_scope(Scope(organization, "tester"))
    return bound


def _source(tenant: Tenant, id: str, **fields: object) -> Source:
    return made(Source, tenant, id=id, name=id, path=f"{id}.csv", content_hash="", **fields)


def _add(tenant: Tenant, id: str, data: bytes, **fields: object) -> Kept:
    kept = keep(tenant, [data], source_id=id)
    tenant.transact([Insert(_source(tenant, id, **fields)), *kept.steps])
    return kept


def _delete(tenant: Tenant, id: str) -> list[str]:
    tenant.transact([*contents.deleting_steps(tenant, [id]), Delete(Source, id)])
    return erase_traces(tenant)


def _stored(tenant: Tenant) -> set[str]:
    return {info.digest for info in tenant.objects.list(tenant.content_place)}


def _age(tenant: Tenant, digest: str) -> None:
    with tenant.objects.fetch(tenant.content_place, digest) as path:
        os.utime(path, (time.time() - 7200,) * 2)


def test_content_is_named_kept_while_needed_and_deleted_with_the_last_source(mem: Any) -> None:
    tenant = _tenant(mem)
    one, two = _add(tenant, "one", "Umsätze 売上".encode()), _add(tenant, "two", "Umsätze 売上".encode())
    assert one.digest == two.digest == object_hash("Umsätze 売上".encode())
    assert tenant.count(Query(StoredObject)) == 2
    assert contents.stored_bytes(tenant) == one.size, "the same bytes count once"
    assert tenant.count(Query(Lease)) == 0
    _delete(tenant, "one")
    assert _stored(tenant) == {two.digest}
    _delete(tenant, "two")
    assert (_stored(tenant), owed(tenant), tenant.count(Query(StoredObject))) == (set(), 0, 0)


def test_the_same_content_for_the_same_source_is_named_once(mem: Any) -> None:
    tenant = _tenant(mem)
    _add(tenant, "one", b"x")
    tenant.transact(keep(tenant, [b"x"], source_id="one").steps)
    tenant.transact(keep(tenant, [b"x"], source_id="one", purpose="table").steps)
    assert tenant.count(Query(StoredObject)) == 2


def test_content_of_a_former_version_is_dropped_alone(mem: Any) -> None:
    tenant = _tenant(mem)
    old = _add(tenant, "one", b"old")
    new = keep(tenant, [b"new"], source_id="one")
    former = tenant.find(Query(StoredObject)).records
    tenant.transact([*new.steps, *contents.dropping_steps(tenant, former)])
    erase_traces(tenant)
    assert old.digest not in _stored(tenant)
    assert _stored(tenant) == {new.digest}


def test_tenants_do_not_share_content(mem: Any) -> None:
    mem.within("globex")
    one, two = _tenant(mem), _tenant(mem, "globex")
    digest = _add(one, "same id", b"x").digest
    _add(two, "same id", b"x")
    _delete(one, "same id")
    contents.collect(one)
    assert (_stored(one), _stored(two)) == (set(), {digest})


def test_collecting_deletes_what_no_record_names_once_it_is_old(mem: Any) -> None:
    tenant = _tenant(mem)
    named = _add(tenant, "one", b"named").digest
    old, young = (tenant.objects.put(tenant.content_place, [data]).digest for data in (b"old", b"young"))
    for digest in (named, old):
        _age(tenant, digest)
    assert mem.sweep().objects == 1
    assert _stored(tenant) == {named, young}
    assert owed(tenant) == 0


def test_an_upload_that_takes_long_keeps_its_content(mem: Any) -> None:
    tenant = _tenant(mem)
    kept = keep(tenant, [b"x"], source_id="one")
    _age(tenant, kept.digest)
    assert contents.collect(tenant) == 0
    tenant.transact([Insert(_source(tenant, "one")), *kept.steps])
    assert mem.verify().sound


def test_an_upload_whose_reservation_has_ended_is_not_committed(mem: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tenant = _tenant(mem)
    monkeypatch.setattr(contents, "UPLOAD_SECONDS", -1.0)
    kept = keep(tenant, [b"x"], source_id="one")
    assert contents.collect(tenant) == 1
    with pytest.raises(RequirementFailed):
        tenant.transact([Insert(_source(tenant, "one")), *kept.steps])
    assert mem.verify().sound


def test_content_that_is_collected_while_it_is_put_again_is_stored_again(
    local: Any, tmp_path: Path, meanwhile: Callable[..., None]
) -> None:
    tenant = _tenant(local)
    (tmp_path / "file").write_bytes(b"x")
    _age(tenant, tenant.objects.put(tenant.content_place, [b"x"]).digest)
    meanwhile(local, "transact", Lease, lambda: contents.collect(tenant))
    kept = keep(tenant, tmp_path / "file", source_id="one")
    tenant.transact([Insert(_source(tenant, "one")), *kept.steps])
    assert local.verify(deep=True).sound


def test_content_whose_source_is_deleted_while_another_is_added_stays(
    local: Any, tmp_path: Path, meanwhile: Callable[..., None]
) -> None:
    """At the moment when who deletes has looked for other sources, and has not deleted yet."""
    tenant, refused = _tenant(local), []
    (tmp_path / "file").write_bytes(b"x")
    _add(tenant, "one", b"x")
    delete = tenant.objects.delete

    def deleting(organization: str, digests: list[str]) -> None:
        with pytest.raises(StoreBusy) as raised:
            keep(tenant, tmp_path / "file", source_id="two")
        refused.append(raised.value.remedy)
        delete(organization, digests)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(FolderObjects, "delete", lambda self, *given: deleting(*given))
        patched.setattr(contents, "_PAUSES", Retry(tries=2, first_pause_seconds=0.001))
        _delete(tenant, "one")
    assert refused == ["try again in a few minutes"]
    _add(tenant, "two", b"x")
    assert local.verify(deep=True).sound


def test_a_deletion_that_a_killed_process_left_is_ended_by_the_next_upload(local: Any) -> None:
    tenant = _tenant(local)
    long_ago = now() - timedelta(seconds=contents.DELETION_SECONDS + 60)
    tenant.transact([Insert(made(Erasure, tenant, id=object_hash(b"x"), updated_at=long_ago))])
    _add(tenant, "one", b"x")
    assert (owed(tenant), local.verify(deep=True).sound) == (0, True)


def test_a_note_stays_while_another_process_may_still_be_deleting(local: Any) -> None:
    tenant = _tenant(local)
    digest = _add(tenant, "one", b"x").digest
    delete = tenant.objects.delete

    def with_another(organization: str, digests: list[str]) -> None:
        delete(organization, digests)
        note = tenant.get(Erasure, digest)
        assert note is not None
        tenant.transact([Update(revised(note, tenant.scope))])  # how the other begins

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(FolderObjects, "delete", lambda self, *given: with_another(*given))
        _delete(tenant, "one")
    assert owed(tenant) == 1
    erase_traces(tenant)
    assert owed(tenant) == 0


def test_content_that_cannot_be_deleted_now_is_owed_and_deleted_later(local: Any) -> None:
    tenant = _tenant(local)
    digest = _add(tenant, "one", b"x").digest

    def failing(*given: object) -> None:
        raise Unavailable("the storage is away", remedy="wait")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(FolderObjects, "delete", failing)
        (note,) = _delete(tenant, "one")
        assert "the storage is away" in note
        assert (owed(tenant), _stored(tenant)) == (1, {digest})
        assert not local.doctor().well
    local.sweep()
    assert (owed(tenant), _stored(tenant)) == (0, set())


def test_a_storage_that_is_away_does_not_keep_the_rest_from_expiring(local: Any) -> None:
    def failing(*given: object) -> None:
        raise Unavailable("the storage is away", remedy="wait")

    _add(_tenant(local), "one", b"x")
    local.remember("old", expires_at=now() - timedelta(days=1))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(FolderObjects, "list", failing)
        reply = local.sweep()
    assert (reply.expired, "the storage is away" in reply.notes[0]) == (1, True)


def test_the_quota_is_named_and_nothing_over_it_is_stored(local: Any, tmp_path: Path) -> None:
    tenant = _tenant(local)
    (tmp_path / "big").write_bytes(b"x" * 2001)
    _add(tenant, "one", b"y" * 3000)
    for source in (tmp_path / "big", (b"x" for _ in range(2001))):
        with pytest.raises(TooLarge, match=r"5,000 bytes of files, of which 2,000 are left") as raised:
            keep(tenant, source, source_id="two")
        assert "object_bytes" in raised.value.remedy
    assert len(_stored(tenant)) == 1
    assert keep(tenant, [b"x" * 2000], source_id="two").size == 2000


def test_verify_names_what_is_missing_or_damaged(local: Any) -> None:
    tenant = _tenant(local)
    digests = [_add(tenant, data.decode(), data).digest for data in (b"one", b"two", b"three", b"four")]
    tenant.objects.put(tenant.content_place, [b"nobody's"])
    assert (local.verify(deep=True).sound, local.verify().objects, local.verify().unneeded) == (True, 4, 1)
    paths = []
    for digest in digests[:3]:
        with tenant.objects.fetch(tenant.content_place, digest) as path:
            paths.append(path)
    paths[0].unlink()
    paths[1].write_bytes(b"tw")
    paths[2].write_bytes(b"THREE")
    assert [(problem.table, problem.id is not None) for problem in local.verify().problems] == [("object", True)] * 2
    said = " ".join(problem.what for problem in local.verify(deep=True).problems)
    assert all(digest in said for digest in digests[:3])
    assert digests[3] not in said
    findings = {finding.name: finding for finding in local.doctor().findings}
    assert "4 stored files, and 1 that nothing needs" in findings["objects"].says
    assert not findings["records"].well


@pytest.mark.parametrize("for_good", [True, False])
def test_content_goes_with_the_user_it_belongs_to(local: Any, for_good: bool) -> None:
    tenant = _tenant(local)
    local.user.add("ann", id="ann")
    digest = _add(tenant, "one", b"x", user_id="ann").digest
    local.user.remove("ann", for_good=for_good)
    assert _stored(tenant) == (set() if for_good else {digest})
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("recollect.services.admin.removal_plan.now", lambda: now() + timedelta(days=365))
        local.sweep()
    assert (_stored(tenant), owed(tenant)) == (set(), 0)


@pytest.mark.parametrize("kind", ["sqlite", "duckdb", "postgres"])
def test_a_backup_has_the_content_and_what_is_restored_opens_and_answers(kind: str, tmp_path: Path) -> None:
    places: dict[str, Any] = {}
    if kind == "postgres":
        places = {"objects": str(tmp_path / "here"), "postgres_tools": BIN}
    with _opened(EVERY_STORE[kind](tmp_path), **places) as mem:
        kept = _add(_tenant(mem), "one", b"x" * 1000)
        reply = mem.backup(str(tmp_path / "saved"))
        assert (reply.objects, reply.object_bytes) == (str(tmp_path / "saved-objects"), 1000)
        _delete(_tenant(mem), "one")
    (tmp_path / "new").mkdir()
    target = EVERY_STORE[kind](tmp_path / "new")
    if kind == "postgres":
        target, places = server().new_database(), {"objects": str(tmp_path / "there"), "postgres_tools": BIN}
    assert restore_backup(tmp_path / "saved", target, **places).notes == []
    with _opened(target, **places) as mem:
        assert mem.verify(deep=True).sound
        assert b"".join(mem._core.objects.read(_tenant(mem).content_place, kept.digest)) == b"x" * 1000


def test_a_backup_can_be_opened_as_it_is_and_says_nothing_of_content_where_there_is_none(
    local: Any, tmp_path: Path
) -> None:
    reply = local.backup(str(tmp_path / "empty.db"))
    assert (reply.objects, reply.object_bytes, (tmp_path / "empty.db-objects").exists()) == (None, None, False)
    digest = _add(_tenant(local), "one", b"x").digest
    local.backup(str(tmp_path / "saved.db"))
    with _opened(tmp_path / "saved.db") as saved:
        assert (saved.verify(deep=True).sound, _stored(_tenant(saved))) == (True, {digest})


def test_a_damaged_object_of_a_backup_is_reported_and_the_rest_restored(local: Any, tmp_path: Path) -> None:
    one, two = (_add(_tenant(local), data.decode(), data).digest for data in (b"one", b"two"))
    local.backup(str(tmp_path / "saved.db"))
    (copied,) = (tmp_path / "saved.db-objects").glob(f"*/{one[3:]}")
    copied.write_bytes(b"???")
    (note,) = restore_backup(tmp_path / "saved.db", tmp_path / "new.db").notes
    assert one in note
    with _opened(tmp_path / "new.db") as restored:
        assert _stored(_tenant(restored)) == {two}


def test_copying_a_store_copies_its_content(local: Any, tmp_path: Path) -> None:
    digest = _add(_tenant(local), "one", b"x").digest
    for _ in range(2):
        assert copy(tmp_path / "local.db", f"duckdb:///{tmp_path}/copy.duckdb").notes == []
    with _opened(f"duckdb:///{tmp_path}/copy.duckdb") as copied:
        assert (copied.verify(deep=True).sound, _stored(_tenant(copied))) == (True, {digest})


def test_an_upload_that_fails_leaves_nothing_of_its_own(mem: Any) -> None:
    tenant = _tenant(mem)
    shared = _add(tenant, "one", b"shared").digest
    failed: list[Kept] = []

    def failing() -> None:
        with contents.deleted_on_failure(tenant) as kept:
            kept += [keep(tenant, [data], source_id="two") for data in (b"shared", b"own")]
            failed.extend(kept)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    assert (_stored(tenant), owed(tenant), tenant.count(Query(Lease))) == ({shared}, 0, 0)
    with pytest.raises(RequirementFailed):
        tenant.transact([Insert(_source(tenant, "two")), *failed[1].steps])
    assert mem.verify().sound


def test_a_file_that_cannot_be_read_is_not_kept(local: Any, tmp_path: Path) -> None:
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 is not enough")
    with pytest.raises(RecollectError):
        local.source.add(str(tmp_path / "bad.parquet"))
    assert (_stored(_tenant(local)), _tenant(local).count(Query(Lease))) == (set(), 0)


def test_two_stores_share_a_place_and_neither_deletes_what_is_the_others(tmp_path: Path) -> None:
    """Also where their organizations have the same name, and the content is the same."""
    shared = {"objects": str(tmp_path / "shared")}
    with _opened(tmp_path / "a.db", **shared) as one, _opened(tmp_path / "b.db", **shared) as other:
        digest = _add(_tenant(one), "one", b"same").digest
        assert _add(_tenant(other), "one", b"same").digest == digest
        _delete(_tenant(one), "one")
        for left in _stored(_tenant(other)):
            _age(_tenant(other), left)
        assert (contents.collect(_tenant(one)), _stored(_tenant(one))) == (0, set())
        assert (_stored(_tenant(other)), other.verify(deep=True).sound) == ({digest}, True)
