"""Sessions go to cold storage and come back with every byte; meanwhile everybody is told where they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cold_sessions import age, contents, fill, opened, tenant_of
from recollect import cite
from recollect.domain.agents import Cycle, Execution
from recollect.domain.cold import ColdArchive, ColdLink, ColdRecord
from recollect.domain.memory import Memory
from recollect.errors import DamagedData, Denied, InColdStorage, InvalidInput, NotFound
from recollect.ports.query import Query, equal
from recollect.ports.steps import Put
from recollect.services.cold.archives import ColdRequest
from recollect.services.cold.restore_sessions import restore
from recollect.services.cold.store_sessions import StoreColdRequest, store
from recollect.services.erasure import owed


def test_a_session_comes_back_from_cold_storage_with_every_byte(mem: Any) -> None:
    tenant = tenant_of(mem)
    fill(mem)
    fill(mem, "young")
    age(tenant)
    mem.audit.seal()
    before = contents(tenant, log=True)
    reply = mem.cold.store(before="2025-01-01")
    assert [one.session for one in reply.moved] == ["old"]
    assert reply.stayed == []
    assert not reply.more
    after = contents(tenant)
    for table in ("message", "memory", "execution", "cycle", "result", "proposal", "revision", "tag", "citation"):
        assert 0 < len(after[table]) < len(before[table]), table
    assert len(after["checkpoint"]) == 1 == len(before["checkpoint"]) - 1
    assert after["session"]["young"] == before["session"]["young"]
    assert mem.audit.verify().sound, "entries that were moved are proved by their hashes"
    restored = mem.cold.restore("old")
    assert restored.records == reply.moved[0].records
    assert restored.notes == []
    now_there = contents(tenant, log=True)
    entries = before.pop("access_log")
    assert entries.items() <= now_there.pop("access_log").items()
    assert now_there == before
    assert mem.audit.verify().sound
    assert [tenant.count(Query(one)) for one in (ColdArchive, ColdRecord, ColdLink)] == [0, 0, 0]
    assert list(tenant.objects.list(tenant.content_place)) == [], "the cold copy is deleted after"
    assert mem.verify().problems == []
    assert "old-fact" in {hit.id for hit in mem.recall("when does the ferry leave?")}


def test_what_is_in_cold_storage_says_so_and_how_to_get_it_back(mem: Any) -> None:
    fill(mem)
    said = mem.message.list("old")[0].id
    run = mem.run.list()[0].id
    later = mem.remember("The ferry was asked about", id="asked", cites=[cite.log(said)])
    mem.promote(later.id)
    mem.cold.store(session="old")
    for call in (
        lambda: mem.show("old-fact"), lambda: mem.history("old-fact"), lambda: mem.message.show(said),
        lambda: mem.run.show(run), lambda: mem.message.list("old"), lambda: mem.message.add("user", "x", session="old"),
        lambda: mem.message.search("ferry", session="old"), lambda: mem.erase("old-fact"),
        lambda: mem.summary.make("old"),
    ):  # fmt: skip
        with pytest.raises(InColdStorage, match="recollect cold restore old"):
            call()
    with pytest.raises(NotFound):
        mem.show("never")
    assert mem.session.show("old").cold_at is not None
    assert [one.id for one in mem.session.list(cold="only")] == ["old"]
    assert mem.session.list(cold="no").sessions == []
    (link,) = mem.show("harbour").links
    assert (link.id, link.type, link.direction, link.cold, link.status) == (
        "old-fact", "located_at", "from", "old", "cold",
    )  # fmt: skip
    assert mem.check("asked").broken == 0, "a message in cold storage is still evidence"
    (listed,) = mem.cold.list()
    assert (listed.session, listed.title, listed.counts["message"], listed.user) == ("old", "About old", 2, "ann")
    shown = mem.cold.show("old")
    assert shown.intact
    assert shown.format == "recollect-cold-1"


def test_an_archive_can_go_to_a_bucket_and_come_back(local: Any, bucket: str) -> None:
    fill(local)
    before = contents(tenant_of(local))
    reply = local.cold.store(session="old", to=bucket)
    assert reply.to.startswith(bucket)
    assert local.cold.show("old").at == f"{bucket}/"
    assert list(tenant_of(local).objects.list(tenant_of(local).content_place)) == []
    local.cold.restore("old")
    assert contents(tenant_of(local)) == before
    tenant = tenant_of(local)
    assert list(tenant.cold_places(bucket, tenant.scope).list(tenant.content_place)) == []


def test_only_what_is_old_idle_and_not_in_use_is_moved(local: Any) -> None:
    tenant = tenant_of(local)
    for name in ("old", "talked", "open", "fork", "context"):
        fill(local, name)
        age(tenant, name)
    local.message.add("user", "one more", session="talked")
    local.run.start("again", agent="bee", session="open")
    (run,) = [one.id for one in local.run.list() if one.goal == "find the fork timetable"]
    local.session.add("elsewhere", id="elsewhere")
    local.agent.in_context("bee", [local.message.list("context")[0].id])
    forked = local.run.fork(run, after=1, paused=True)
    local.run.cancel(forked.id)
    fork = tenant.get(Execution, forked.id)
    assert fork is not None
    tenant.transact([Put(fork.changed(session_id="elsewhere"), restoring=True)])
    plan = local.cold.store(before="2025-01-01", dry_run=True)
    assert [one.session for one in plan.moved] == ["old"]
    assert {one.session: one.stays_because for one in plan.stayed} == {
        "fork": f"run {run} shares steps with a run of another session",
        "context": "agent bee has messages of it in its context",
    }
    assert local.session.list(cold="only").sessions == []
    assert local.cold.store(session="open").stayed[0].stays_because.endswith("is still open")
    assert [one.session for one in local.cold.store(before="2025-01-01", limit=1).moved] == ["old"]
    assert local.cold.store(session="old").moved == [], "it is there already"
    with pytest.raises(InvalidInput, match="before"):
        local.cold.store()
    with pytest.raises(NotFound):
        local.cold.store(before="2025-01-01", project="none")
    with pytest.raises(NotFound, match="not in cold storage"):
        local.cold.restore("talked")


def test_links_between_cold_sessions_return_in_any_order(local: Any) -> None:
    tenant = tenant_of(local)
    for name in ("one", "two"):
        fill(local, name)
    local.relate("one-fact", "two-fact", "supports")
    before = contents(tenant)
    for first, second in (("one", "two"), ("two", "one")):
        local.cold.store(session="one")
        local.cold.store(session="two")
        assert tenant.count(Query(ColdLink)) == 3
        local.cold.restore(first)
        assert tenant.count(Query(ColdLink)) == 2, "one waits for the other session, one was never to it"
        local.cold.restore(second)
        assert contents(tenant) == before


def test_new_steps_of_an_agent_do_not_take_the_numbers_of_those_in_cold_storage(local: Any) -> None:
    fill(local)
    local.cold.store(session="old")
    fill(local, "new")
    indexes = [index for (index,) in tenant_of(local).select(Query(Cycle), ("index",))]
    assert sorted(indexes) == [0, 1]
    local.cold.restore("old")
    assert sorted(index for (index,) in tenant_of(local).select(Query(Cycle), ("index",))) == [0, 1]


def test_what_was_taken_or_deleted_meanwhile_is_respected(local: Any) -> None:
    fill(local)
    local.cold.store(session="old")
    local.remember("said again", idempotency_key="old-key")
    local.erase("harbour")
    local.remember("in the same session", id="since", session="old")
    reply = local.cold.restore("old")
    assert reply.notes == ["1 records gave up their idempotency key, which another has now"]
    assert {link.type for link in local.show("old-fact").links} == {"contradicts"}
    assert local.show("since").session == "old"
    assert local.verify().problems == []


def test_erasing_the_session_or_its_user_erases_the_cold_copy(mem: Any, tmp_path: Path) -> None:
    tenant = tenant_of(mem)
    for name, agent in (("one", "bee"), ("two", "bee")):
        fill(mem, name, agent)
    mem.cold.store(session="one")
    mem.cold.store(session="two", to=str(tmp_path / "elsewhere"))
    mem.session.remove("one", for_good=True)
    assert list(tenant.objects.list(tenant.content_place)) == []
    assert len(list((tmp_path / "elsewhere").rglob("*/*"))) == 2
    mem.user.remove("ann", for_good=True, with_others=True)
    assert list((tmp_path / "elsewhere").rglob("*/*")) == []
    assert [tenant.count(Query(one)) for one in (ColdArchive, ColdRecord, ColdLink)] == [0, 0, 0]
    assert owed(tenant) == 0


def test_a_missing_or_damaged_archive_is_a_clear_error_and_changes_nothing(local: Any, tmp_path: Path) -> None:
    fill(local)
    local.cold.store(session="old", to=str(tmp_path / "cold"))
    files = {path.name: path for path in (tmp_path / "cold").rglob("*/*")}
    archive = tenant_of(local).get(ColdArchive, "old")
    assert archive is not None
    before = contents(tenant_of(local))
    parquet = files[archive.digest.removeprefix("o1:")]
    whole = parquet.read_bytes()
    parquet.write_bytes(whole[:-1] + b"x")
    assert not local.cold.show("old").intact
    with pytest.raises(DamagedData):
        local.cold.restore("old")
    parquet.unlink()
    assert "missing" in local.cold.show("old").problem
    with pytest.raises(NotFound, match="missing from its cold storage"):
        local.cold.restore("old")
    assert contents(tenant_of(local)) == before
    parquet.write_bytes(whole)
    assert local.cold.restore("old").notes == []


def test_over_the_network_only_opened_addresses_can_be_named(tmp_path: Path) -> None:
    open_folder = tmp_path / "open"
    with opened(tmp_path / "a.db", cold={"addresses": [str(open_folder)]}) as mem:
        fill(mem)
        caller = tenant_of(mem, granted=frozenset({"admin", "read"}))
        for address in (str(tmp_path / "opener"), f"{open_folder}/../x", "s3://bucket/x", "/etc"):
            with pytest.raises(Denied):
                store(caller, StoreColdRequest(session="old", to=address))
        for address in ("ftp://host/x", "s3://user:secret@bucket/x", "s3://", "file:relative"):
            with pytest.raises((InvalidInput, Denied)):
                store(caller, StoreColdRequest(session="old", to=address))
        assert store(caller, StoreColdRequest(session="old", to=str(open_folder / "2024"))).moved
        assert restore(caller, ColdRequest(id="old")).records
        mem.cold.store(session="old", to=str(tmp_path / "private"))
        with pytest.raises(Denied):
            restore(caller, ColdRequest(id="old"))


def test_two_tenants_do_not_meet_in_one_place(local: Any, tmp_path: Path) -> None:
    other = local.within("globex")
    for mem in (local, other):
        fill(mem)
        mem.cold.store(session="old", to=str(tmp_path / "cold"))
    local.session.remove("old", for_good=True)
    assert contents(tenant_of(local, "globex"))["message"] == {}
    other.cold.restore("old")
    assert len(contents(tenant_of(local, "globex"))["message"]) == 2


def test_a_change_while_it_is_being_moved_is_not_lost(local: Any, meanwhile: Any) -> None:
    fill(local)
    meanwhile(local, "transact", ColdRecord, lambda: local.revise("old-fact", "The ferry leaves at noon"))
    assert [one.session for one in local.cold.store(session="old").moved] == ["old"]
    local.cold.restore("old")
    assert local.show("old-fact").text == "The ferry leaves at noon"
    meanwhile(local, "transact", ColdRecord, lambda: local.message.add("user", "and one more", session="old"))
    local.cold.store(session="old")
    local.cold.restore("old")
    assert [one.text for one in local.message.list("old")][-1] == "and one more"
    meanwhile(local, "transact", ColdRecord, lambda: local.erase("old-pier"))
    local.cold.store(session="old")
    local.cold.restore("old")
    with pytest.raises(NotFound):
        local.show("old-pier")


def test_while_one_process_moves_a_session_another_leaves_it_alone(local: Any, tmp_path: Path, meanwhile: Any) -> None:
    fill(local)
    stayed: list[str] = []
    with opened(tmp_path / "local.db") as other:
        meanwhile(
            local, "transact", ColdRecord,
            lambda: stayed.extend(one.stays_because for one in other.cold.store(session="old").stayed),
        )  # fmt: skip
        assert local.cold.store(session="old").moved
        assert stayed == ["another process is moving it"]
        meanwhile(local, "transact", ColdRecord, lambda: other.cold.restore("old"))
        with pytest.raises(NotFound, match="not in cold storage"):
            local.cold.restore("old")
        assert local.message.list("old")[0].id


def test_a_session_that_is_empty_or_moved_twice_is_no_special_case(local: Any) -> None:
    local.session.add("nothing", id="nothing")
    assert local.cold.store(session="nothing").moved[0].records <= 2
    local.cold.restore("nothing")
    assert local.cold.store(session="nothing").moved
    local.cold.restore("nothing")
    assert tenant_of(local).count(Query(Memory, (equal("session_id", "nothing"),))) == 0


def test_what_a_person_has_in_cold_storage_is_erased_with_them(local: Any, tmp_path: Path) -> None:
    fill(local)
    local.user.add("Bob", id="bob")
    local.session.add("Of Bob", id="bobs", user="bob")
    local.message.add("user", "said by Ann in the session of Bob", session="bobs", user="ann")
    for session in ("old", "bobs"):
        local.cold.store(session=session, to=str(tmp_path / session))
    with pytest.raises(InColdStorage, match="recollect cold restore bobs"):
        local.user.remove("ann", for_good=True, with_others=True)
    assert len(list((tmp_path / "old").rglob("*/*"))) == 2
    assert local.privacy.erase(user="ann").clean
    assert list(tmp_path.rglob("old/*/*")) == list(tmp_path.rglob("bobs/*/*")) == []


def test_an_encrypted_store_has_encrypted_cold_files(tmp_path: Path) -> None:
    with opened(tmp_path / "a.db", key="ab" * 32) as mem:
        fill(mem)
        before = contents(tenant_of(mem))
        mem.cold.store(session="old", to=str(tmp_path / "cold"))
        files = [path.read_bytes() for path in (tmp_path / "cold").rglob("*/*")]
        assert len(files) == 2
        assert not any(mark in one for one in files for mark in (b"PAR1", b"recollect-cold-1", b"ferry"))
        assert mem.cold.search("ferry").hits
        mem.cold.restore("old")
        assert contents(tenant_of(mem)) == before
