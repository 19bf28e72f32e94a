"""An organization is erased: nothing of it is left on any store, and nothing of another organization is touched."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import recollect
from every_store import EMPTY_STORE, EVERY_STORE, store_with_keys
from recollect.adapters.encryption.master_key import MasterKey
from recollect.domain.audit import Erasure
from recollect.domain.record import RECORDS
from recollect.domain.tenancy import Organization
from recollect.errors import Denied, NotFound, OnLegalHold, WrongKey
from recollect.ports.query import Query
from recollect.ports.records import Scope
from recollect.ports.steps import Delete
from recollect.ports.traces import Scannable
from recollect.services.admin import organizations
from seeds import some

MARK = "Quetzalcoatl"
DOOMED, OTHER = Scope("doomed"), Scope("default")


@pytest.fixture(params=EVERY_STORE)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return EMPTY_STORE[request.param](tmp_path)


@contextmanager
def opened(address: str, tmp_path: Path, organization: str = "default") -> Iterator[Any]:
    with (
        closing(store_with_keys(address, MasterKey("a key for erasing organizations"))) as store,
        recollect.open(
            store, embedder="hash", background=False, organization=organization, objects=str(tmp_path / "objects")
        ) as mem,
    ):
        yield mem


def filled(mem: Any, tmp_path: Path) -> None:
    mem.agent.add(MARK, id=f"agent-{MARK}", system=f"{MARK} in the system prompt")
    mem.user.add(MARK, id=f"user-{MARK}")
    session = mem.session.add(f"talk of {MARK}", user=f"user-{MARK}").id
    mem.message.add("user", f"{MARK} said this", session=session)
    for number in range(3):
        mem.remember(f"{MARK} prefers number {number}", tags=[MARK], id=f"{MARK}-{number}")
    mem.erase(f"{MARK}-0")
    mem.workspace.write(mem.workspace.add(f"agent-{MARK}").id, "notes.txt", text=f"{MARK} in a file")
    table = tmp_path / "table.csv"
    table.write_text(f"name,size\n{MARK},1\n")
    mem.source.add(str(table))


def left(store: Any, scope: Scope) -> dict[str, int]:
    counts = {table: store.count(scope, Query(record, deleted="yes")) for table, record in RECORDS.items()}
    return {table: count for table, count in counts.items() if count}


def test_no_record_and_no_byte_of_an_erased_organization_is_left(address: str, tmp_path: Path) -> None:
    with opened(address, tmp_path) as mem:
        mem.remember("this stays", id="stays")
        mem.agent.add("stays", id="stays", system="the prompt stays")
        others = left(mem._core.store, OTHER)
    with opened(address, tmp_path, "doomed") as doomed:
        filled(doomed, tmp_path)
        asked = doomed.organization.remove("doomed", dry_run=True)
        assert {one.table: one.count for one in asked.takes} == left(doomed._core.store, DOOMED)
        done = doomed.organization.remove("doomed")
        assert done.key_destroyed
        assert done.deleted >= sum(one.count for one in asked.takes)
        store = doomed._core.store
        assert left(store, DOOMED) == {}
        assert store.tenants() == ["default"]
        assert store.changes(DOOMED, 0) == []
        assert isinstance(store, Scannable)
        assert [place.name for place in store.scan(DOOMED, [MARK.encode()]) if place.found] == []
        assert not [path for path in (tmp_path / "objects").rglob("*") if path.is_file() and "doomed" in str(path)]
        with pytest.raises(NotFound):
            doomed.organization.remove("doomed")
    with opened(address, tmp_path) as mem:
        assert mem.agent.show("stays").system == "the prompt stays"
        assert left(mem._core.store, OTHER).items() >= dict.fromkeys(("memory", "agent"), 1).items()
        assert set(others) <= {*left(mem._core.store, OTHER)}
        assert mem.verify().problems == []


@pytest.mark.parametrize("at", some(2, [1, 2, 4, 9], "transactions of an erasure"))
def test_an_erasure_that_was_stopped_is_finished_by_the_next(
    address: str, tmp_path: Path, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    with opened(address, tmp_path, "doomed") as mem:
        filled(mem, tmp_path)
        keys, calls = mem._core.store.data_keys, 0
        write = keys._write

        def dying(scope: Scope, steps: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == at:
                raise Killed
            return write(scope, steps)

        keys._write = dying
        with suppress(Killed):
            mem.organization.remove("doomed")
        keys._write = write
    with opened(address, tmp_path, "doomed") as mem:
        if at > 2:  # the key goes first
            with pytest.raises((WrongKey, NotFound)):
                mem.agent.show(f"agent-{MARK}")
        mem.organization.remove("doomed")
        assert left(mem._core.store, DOOMED) == {}


def test_records_are_deleted_batch_by_batch(mem: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(organizations, "BATCH", 2)
    for number in range(5):
        mem.remember(f"number {number}")
    seen: list[int] = []
    mem.call("organization.remove", id="default", progress=lambda done, total: seen.append(done))
    assert seen == sorted(seen)
    assert len(seen) > 5
    assert mem._core.store.count(OTHER, Query(Organization)) == 0


def test_over_the_network_only_the_own_organization_is_erased(mem: Any) -> None:
    tenant = mem._core.for_scope(Scope("default", "caller", frozenset({"operate"})))
    with pytest.raises(Denied):
        organizations.remove_organization(tenant, organizations.RemoveOrganizationRequest(id="other"))
    with pytest.raises(NotFound):
        mem.organization.remove("other")


def test_an_organization_with_a_legal_hold_is_not_erased(mem: Any) -> None:
    mem.user.add("Alice", id="alice")
    hold = mem.hold.place(user="alice", reason="a court asked for it")
    assert "legal hold" in mem.organization.remove("default", dry_run=True).refused
    with pytest.raises(OnLegalHold):
        mem.organization.remove("default")
    mem.hold.release(hold.id)
    mem.organization.remove("default")


def test_files_in_cold_storage_go_too(mem: Any, tmp_path: Path) -> None:
    session = mem.session.add("long ago").id
    mem.message.add("user", f"{MARK} in the cold", session=session)
    mem.session.end(session)
    mem.cold.store(before="2100-01-01")
    assert mem.cold.list().archives
    mem.organization.remove("default")
    objects = [path for path in tmp_path.rglob("*") if path.is_file() and "objects" in str(path.parent)]
    assert objects == []


@pytest.mark.parametrize("asks", ["default", "doomed"])
def test_what_a_store_has_not_finished_is_owed_by_an_organization_that_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asks: str
) -> None:
    """PostgreSQL takes many deleted vectors out of its index later."""
    unfinished = ["the server is still taking them out"]
    with opened(str(tmp_path / "a.db"), tmp_path) as mem:
        store = mem._core.store
        mem.organization.add(id="doomed")
        with opened(str(tmp_path / "a.db"), tmp_path, "doomed") as doomed:
            asking = mem if asks == "default" else doomed
            monkeypatch.setattr(asking._core.store, "erase_traces", lambda: unfinished)
            assert asking.organization.remove("doomed").notes == unfinished
        assert store.count(OTHER, Query(Erasure)) == 1
        monkeypatch.setattr(store, "erase_traces", list)
        mem.sweep()
        assert store.count(OTHER, Query(Erasure)) == 0


def test_nothing_is_owed_after_an_organization_is_gone_for_good(tmp_path: Path) -> None:
    with opened(str(tmp_path / "a.db"), tmp_path) as mem:
        mem.organization.add(id="doomed")
        assert mem.organization.remove("doomed").notes == []
        assert mem._core.store.count(OTHER, Query(Erasure)) == 0


def test_an_organization_that_cannot_be_written_to_keeps_no_other_from_going(tmp_path: Path) -> None:
    """Its key is wrapped by another master key, as in the midst of a change of keys."""
    address = str(tmp_path / "a.db")

    @contextmanager
    def by(key: str, organization: str) -> Iterator[Any]:
        with (
            closing(store_with_keys(address, MasterKey(key))) as store,
            recollect.open(store, embedder="hash", background=False, organization=organization) as mem,
        ):
            yield mem

    for key, organization in (("another key of this test", "aaa"), ("the key of this test", "zzz")):
        with by(key, organization) as mem:
            mem.remember("a harbour")
    with by("the key of this test", "default") as mem:
        mem.remember("a meadow")
        assert mem.organization.remove("default").notes == []
        assert mem._core.store.tenants() == ["aaa", "zzz"]


def test_who_is_gone_may_still_remove_another(tmp_path: Path) -> None:
    with opened(str(tmp_path / "a.db"), tmp_path) as mem:
        mem.organization.add(id="doomed")
        mem.organization.remove("default")
        mem.organization.remove("doomed")
        assert mem._core.store.tenants() == []


def test_what_is_owed_is_known_also_where_another_sweeps_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def killed(*given: object) -> None:
        raise Killed

    with (
        opened(str(tmp_path / "a.db"), tmp_path) as mem,
        opened(str(tmp_path / "a.db"), tmp_path, "doomed") as doomed,
    ):
        delete = Delete

        def swept_before(record: Any, id: str) -> Any:
            if record is Organization:
                mem.sweep()
            return delete(record, id)

        monkeypatch.setattr(organizations, "Delete", swept_before)
        monkeypatch.setattr(organizations, "overwrite", killed)
        with pytest.raises(Killed):
            doomed.organization.remove("doomed")
        assert mem._core.store.count(OTHER, Query(Erasure)) == 1
