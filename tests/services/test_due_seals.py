"""The service seals what was logged since it last looked, and reads nothing where nothing was."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import recollect
from every_store import EVERY_STORE
from recollect.domain.audit import AccessLog
from recollect.domain.record import now
from recollect.errors import Closed
from recollect.ports.query import IsNull, Query
from recollect.ports.records import Scope
from recollect.ports.steps import Insert
from recollect.services import log_seals
from recollect.services.change_feed import last_change
from recollect.services.log_seals import DueSeals
from recollect.services.tenant import Tenant


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Query[Any]]:
    """How the log was searched."""
    queries: list[Query[Any]] = []
    find = Tenant.find

    def noted(self: Tenant, query: Query[Any]) -> Any:
        if query.record is AccessLog:
            queries.append(query)
        return find(self, query)

    monkeypatch.setattr(Tenant, "find", noted)
    return queries


@pytest.mark.parametrize("kind", [*EVERY_STORE, "memory"])
def test_each_entry_is_sealed_once_and_what_is_sealed_is_not_read_again(
    kind: str, tmp_path: Path, asked: list[Query[Any]]
) -> None:
    address = EVERY_STORE[kind](tmp_path) if kind in EVERY_STORE else ":memory:"
    with recollect.open(address, embedder="none", background=False) as mem:
        _seal_some(mem, asked)


def _seal_some(mem: Any, asked: list[Query[Any]]) -> None:
    tenant, due = mem._core.for_scope(Scope(mem.organization)), DueSeals()
    unsealed = Query(AccessLog, (IsNull("seal"),))
    for number in range(3):
        mem.remember(f"Number {number}.")
        last = last_change(tenant)
        assert tenant.store.changes(tenant.scope, last) == []
        assert [one.seq for one in tenant.store.changes(tenant.scope, last - 1)] == [last]
        asked.clear()
        due.seal(tenant)
        assert tenant.count(unsealed) == 0
        assert [len(query.where) for query in asked[:1]] == [1 if number == 0 else 2], "all of it only at first"
        due.seal(tenant)  # what it wrote itself
        asked.clear()
        due.seal(tenant)
        assert asked == []
    verified = mem.audit.verify()
    assert (verified.sound, verified.unsealed) == (True, 0)


def test_it_may_rest_or_stop_between_two_seals_and_goes_on_where_it_stopped(
    mem: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A million entries, as after a large import, take a minute: whoever asks meanwhile must not wait for all."""
    monkeypatch.setattr(log_seals, "AT_ONCE", 2)
    mem.remember_many([f"Number {number}." for number in range(7)])
    tenant, due, unsealed = (
        mem._core.for_scope(Scope(mem.organization)),
        DueSeals(),
        Query(AccessLog, (IsNull("seal"),)),
    )
    before, left = tenant.count(unsealed), list[int]()

    def stop() -> None:
        left.append(tenant.count(unsealed))
        if len(left) == 2:
            raise Closed("told to stop")

    with pytest.raises(Closed):
        due.seal(tenant, stop)
    assert left == [before - 2, before - 4]
    due.seal(tenant, lambda: left.append(tenant.count(unsealed)))
    assert left[-1] == 0
    verified = mem.audit.verify()
    assert (verified.sound, verified.unsealed, verified.seals) == (True, 0, len(left))


def test_another_process_that_seals_in_between_does_not_break_the_chain(
    mem: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_seals, "AT_ONCE", 2)
    mem.remember_many([f"Number {number}." for number in range(7)])
    tenant = mem._core.for_scope(Scope(mem.organization))
    others = [tenant]

    def let_another_seal() -> None:
        if others:
            log_seals.seal_entries(others.pop())

    log_seals.seal_entries(tenant, go_on=let_another_seal)
    verified = mem.audit.verify()
    assert (verified.sound, verified.unsealed) == (True, 0)


def test_now_and_then_all_of_the_log_is_looked_through(
    mem: Any, asked: list[Query[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant, due = mem._core.for_scope(Scope(mem.organization)), DueSeals()
    due.seal(tenant)
    monkeypatch.setattr(log_seals, "ALL_AFTER_SECONDS", 0.0)
    asked.clear()
    due.seal(tenant)
    assert [len(query.where) for query in asked] == [1]


@pytest.mark.parametrize("is_resting", [True, False])
def test_entries_that_retention_deletes_while_it_rests_are_not_sealed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_resting: bool
) -> None:
    monkeypatch.setattr(log_seals, "AT_ONCE", 2)
    with recollect.open(tmp_path / "x.db", embedder="none", background=False, access_log_days=30) as mem:
        tenant, old = mem._core.for_scope(Scope(mem.organization)), now() - timedelta(days=100)
        told: dict[str, Any] = {"organization_id": mem.organization, "operation": "read", "action": "recall"}
        tenant.transact([Insert(AccessLog(**told, timestamp=old)) for _ in range(7)])
        swept: list[int] = []

        def sweep() -> None:
            if not swept:
                swept.append(mem.sweep().log_entries)

        if not is_resting:  # between the look at the entries and their seal
            seal = log_seals._seal
            monkeypatch.setattr(log_seals, "_seal", lambda *given: (sweep(), seal(*given)))
        DueSeals().seal(tenant, sweep)
        assert swept == [7]
        assert mem.audit.verify().sound
