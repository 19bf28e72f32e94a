"""Months of a PostgreSQL store: made ahead, shown, dropped by age with a plan first, never leaving an orphan."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import recollect
from postgres_server import server
from recollect.adapters.records.postgres.schema import first_id, make_partitions
from recollect.domain.audit import AccessLog
from recollect.domain.memory import Embedding, Memory, Relationship, Revision, Tag
from recollect.domain.provenance import Citation
from recollect.domain.record import now
from recollect.errors import Denied, InvalidInput, Unavailable
from recollect.interfaces.cli.main import run
from recollect.ports.query import Query
from recollect.ports.records import Scope
from recollect.ports.steps import Insert

OLD = datetime(2021, 3, 5, tzinfo=UTC)
HANGING = (Tag, Citation, Embedding, Relationship, Revision)


def old_id(number: int) -> str:
    return first_id(2021, 3)[:-3] + f"{number:03x}"


@pytest.fixture
def mem() -> Iterator[Any]:
    """A store with a month of long ago, in which two organizations have memories and access log entries."""
    address = server().new_store()
    opened: Any
    with recollect.open(address, organization="acme", embedder="hash") as opened:
        opened.address = address
        with opened._core.store.as_owner() as connection:
            make_partitions(connection, OLD, 0)
        for tenant in ("acme", "globex"):
            one = opened.within(tenant)
            cites = [recollect.cite.user("alice", "said so")]
            old = one.remember("old as the hills", id=old_id(1), tags=["t"], cites=cites).id
            one.revise(old, "older than the hills")
            young = one.remember("young", tags=["t"]).id
            one.relate(old, young, "precedes")
            entry = AccessLog(organization_id=tenant, id=old_id(2), operation="read", timestamp=OLD)
            opened._core.store.transact(Scope(tenant), [Insert(entry)])
        yield opened


def names(reply: Any) -> set[str]:
    return {one.name for one in reply.partitions}


def count(mem: Any, record: Any, tenant: str = "acme") -> int:
    return int(mem._core.store.count(Scope(tenant), Query(record, deleted="yes")))


def test_every_piece_is_shown(mem: Any) -> None:
    reply = mem.partitions()
    assert names(reply) >= {"memory_2021_03", "access_log_2021_03", "memory_other", "embedding_0", "embedding_7"}
    march = next(one for one in reply.partitions if one.name == "memory_2021_03")
    assert (march.table, march.holds, march.bytes > 0) == ("memory", "March 2021", True)


def test_months_are_made_ahead(mem: Any) -> None:
    later = now() + timedelta(days=31 * 9)
    made = mem.partitions(ahead=10).made
    assert f"memory_{later:%Y_%m}" in made
    assert mem.partitions(ahead=10).made == []


def test_the_settings_say_how_many_months_are_kept_ahead() -> None:
    with recollect.open(server().new_store(), embedder="hash", months_ahead=7) as mem:
        mem.remember("the first write looks ahead")
        months = [one for one in mem.partitions().partitions if one.table == "memory" and one.name != "memory_other"]
        assert len(months) == 8


@pytest.mark.parametrize(("year", "month"), [(1970, 1), (1999, 12), (2031, 1), (9999, 12)])
def test_a_month_without_a_partition_is_written_all_the_same(year: int, month: int) -> None:
    with recollect.open(server().emptied_store(), embedder="hash") as mem:
        id = first_id(year, month)
        mem.remember("from far away", id=id)
        assert mem.show(id).text == "from far away"
        assert [hit.id for hit in mem.recall("far away")] == [id]
        mem.partitions(ahead=60)  # its month may be among them; its record stays where it is
        assert mem.show(id).text == "from far away"


def test_without_apply_nothing_goes_and_the_plan_names_only_ones_own(mem: Any) -> None:
    plan = mem.partitions(older_than="400d")
    assert [(one.partition, one.rows, one.organizations, one.others) for one in plan.drops] == [
        ("access_log_2021_03", 2, {"acme": 1}, 1)
    ]
    assert not plan.applied
    assert "globex" not in plan.model_dump_json()
    assert "access_log_2021_03" in names(mem.partitions())
    whole = mem.partitions(older_than="400d", all_organizations=True)
    assert whole.drops[0].organizations == {"acme": 1, "globex": 1}


def test_what_belongs_to_others_is_not_dropped_by_one_organization(mem: Any) -> None:
    with pytest.raises(Denied, match="other organizations"):
        mem.partitions(older_than="400d", apply=True)
    assert "access_log_2021_03" in names(mem.partitions())


def test_an_old_month_of_the_access_log_goes_with_a_note_for_each_organization(mem: Any) -> None:
    done = mem.partitions(drop_before="2022-01-01", all_organizations=True, apply=True)
    assert done.applied
    assert "access_log_2021_03" not in names(done)
    assert "memory_2021_03" in names(done)
    for tenant in ("acme", "globex"):
        entries = mem.within(tenant).log().entries
        (dropped,) = [entry for entry in entries if entry.action == "drop partition"]
        assert dropped.request == {"partition": "access_log_2021_03", "entries": 1}
        assert old_id(2) not in [entry.id for entry in entries]
        assert mem.within(tenant).verify().sound


def test_a_month_of_memories_goes_with_all_that_hangs_on_them(mem: Any) -> None:
    plan = mem.partitions(older_than="2y", memories=True, all_organizations=True)
    assert plan.drops[0].partition == "memory_2021_03"
    assert plan.drops[0].hanging == {"citation": 2, "embedding": 2, "relationship": 2, "revision": 2, "tag": 2}
    done = mem.partitions(older_than="2y", memories=True, all_organizations=True, apply=True)
    assert "memory_2021_03" not in names(done)
    for tenant in ("acme", "globex"):
        assert [count(mem, record, tenant) for record in (Memory, *HANGING)] == [1, 1, 0, 1, 0, 0]
        one = mem.within(tenant)
        assert [hit.text for hit in one.recall("old hills")] == ["young"]
        assert "drop partition" in [entry.action for entry in one.log(limit=3).entries]
        assert one.verify().sound
        gone = {change.id for change in mem._core.store.changes(Scope(tenant), 0) if change.gone}
        assert old_id(1) in gone


def test_the_drop_and_its_notes_are_one(mem: Any) -> None:
    store = mem._core.store
    march = next(one for one in store.partitions() if one.name == "access_log_2021_03")
    taken = AccessLog(organization_id="acme", id=mem.log().entries[0].id, operation="delete")
    with pytest.raises(recollect.errors.DuplicateKey):
        store.drop(march, [taken])
    assert "access_log_2021_03" in names(mem.partitions())


def test_sweep_keeps_the_retention_of_the_settings(mem: Any) -> None:
    assert mem.sweep().log_entries == 0
    with recollect.open(mem.address, embedder="hash", access_log_days=400) as keeping:
        assert keeping.sweep(dry_run=True).log_entries == 0
        assert keeping.sweep().log_entries == 0  # the log of an organization is its own to keep
        assert keeping.within("acme").sweep().log_entries == 1
        assert mem._core.store.get(Scope("globex"), AccessLog, old_id(2)) is not None
        assert "access_log_2021_03" in names(mem.partitions())
        assert keeping.within("globex").sweep().log_entries == 1
    assert "access_log_2021_03" not in names(mem.partitions())


def test_retention_holds_on_a_file_too(tmp_path: Any) -> None:
    with recollect.open(tmp_path / "x.db", embedder="hash", access_log_days=400) as mem:
        mem.remember("young")
        old = AccessLog(organization_id="default", id="old", operation="read", timestamp=OLD)
        mem._core.store.transact(Scope("default"), [Insert(old)])
        assert mem.sweep().log_entries == 1
        assert [entry.action for entry in mem.log().entries] == ["sweep", "retention", "remember"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"older_than": "soon"},
        {"older_than": "999999y"},
        {"older_than": "1d", "drop_before": "2020-01-01"},
        {"drop_before": "2999-01-01"},
        {"memories": True},
        {"apply": True},
    ],
)
def test_what_is_not_clear_is_refused(mem: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        mem.partitions(**wrong)


def test_a_store_in_one_piece_says_so(tmp_path: Any) -> None:
    with recollect.open(tmp_path / "x.db", embedder="hash") as mem:
        assert mem.partitions().note == "A sqlite store has no partitions."
        with pytest.raises(Unavailable, match="no partitions"):
            mem.partitions(older_than="400d")


def test_the_command_shows_a_table_and_a_plan(
    mem: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_EMBEDDER__PROVIDER", "hash")
    common = ["--store", mem.address, "--organization", "acme"]
    assert run(["partitions", "--older-than", "400d", *common]) == 0
    shown = capsys.readouterr().out
    assert "March 2021" in shown
    assert "would drop access_log_2021_03: 2 rows (acme 1, other organizations 1)" in shown
    assert "--apply" in shown
