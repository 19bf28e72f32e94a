"""The service seals what was logged since it last looked, and reads nothing where nothing was."""

from __future__ import annotations

from typing import Any

import pytest

from recollect.domain.audit import AccessLog
from recollect.ports.query import IsNull, Query
from recollect.ports.records import Scope
from recollect.services import log_seals
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


def test_each_entry_is_sealed_once_whoever_wrote_it(every: Any, asked: list[Query[Any]]) -> None:
    tenant, due = every._core.for_scope(Scope(every.organization)), DueSeals()
    unsealed = Query(AccessLog, (IsNull("seal"),))
    for number in range(3):
        every.remember(f"Number {number}.")
        asked.clear()
        due.seal(tenant)
        assert tenant.count(unsealed) == 0
        assert [len(query.where) for query in asked[:1]] == [1 if number == 0 else 2], "all of it only at first"
        due.seal(tenant)  # what it wrote itself
        asked.clear()
        due.seal(tenant)
        assert asked == []
    verified = every.audit.verify()
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
