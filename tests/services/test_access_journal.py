"""Who reads does not wait until what was read is written; what waits is bounded, and nothing is lost."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from delegating import DelegatingStore
from recollect.domain.audit import AccessLog
from recollect.domain.tenancy import Organization
from recollect.ports.query import Query
from recollect.ports.records import Scope
from recollect.ports.steps import Committed, Insert, Step
from recollect.services import access_journal
from recollect.services.access_journal import Journal

ACME = Scope("acme", actor="ann")


class StoppedStore(DelegatingStore):
    """Writes when it is let go, and says which threads wrote."""

    def __init__(self) -> None:
        super().__init__()
        self.is_let_go, self.is_asked = threading.Event(), threading.Event()
        self.writers: list[str] = []

    def transact(self, scope: Scope, steps: Sequence[Step]) -> Committed:
        self.is_asked.set()
        assert self.is_let_go.wait(60)
        self.writers.append(threading.current_thread().name)
        return super().transact(scope, steps)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> StoppedStore:
    monkeypatch.setattr(access_journal, "FLUSH_NOTES", 4)
    monkeypatch.setattr(access_journal, "MOST_WAITING", 16)
    store = StoppedStore()
    store.is_let_go.set()
    store.transact(ACME, [Insert(Organization(organization_id="acme", id="acme", name="acme"))])
    store.is_let_go.clear()
    store.is_asked.clear()
    store.writers.clear()
    return store


def note(journal: Journal, times: int) -> None:
    for _ in range(times):
        journal.note(ACME, "search", "recall", [])


def written(store: StoppedStore) -> int:
    return store.count(ACME, Query(AccessLog))


def test_who_notes_does_not_wait_for_what_is_written(store: StoppedStore) -> None:
    journal = Journal(store, flush_seconds=3600)
    note(journal, 4)
    assert store.is_asked.wait(60)  # at once, and by another thread, which is stopped now
    note(journal, 11)
    assert written(store) == 0
    store.is_let_go.set()
    journal.close()
    assert written(store) == 15


def test_where_too_much_waits_who_notes_writes_it(store: StoppedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where many read at once, faster than one thread writes: what waits must not grow for ever."""
    journal = Journal(store, flush_seconds=3600)
    store.is_let_go.set()
    monkeypatch.setattr(threading.Timer, "start", lambda self: None)  # the other thread does not come to it
    note(journal, 16)
    assert store.writers == [threading.current_thread().name]
    assert written(store) == 16


def test_where_no_more_threads_are_to_be_had_who_notes_writes(
    store: StoppedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container may have as many as it is allowed."""

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    journal = Journal(store, flush_seconds=3600)
    store.is_let_go.set()
    monkeypatch.setattr(threading.Thread, "start", refuse)
    note(journal, 10)
    assert written(store) == 8
    monkeypatch.undo()
    note(journal, 1)
    journal.close()
    assert written(store) == 11


def test_what_could_not_be_written_is_tried_again(store: StoppedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(store, flush_seconds=3600)
    monkeypatch.setattr(store, "transact", lambda scope, steps: 1 / 0)
    note(journal, 3)
    with pytest.raises(ZeroDivisionError):
        journal.flush()
    monkeypatch.undo()
    store.is_let_go.set()
    note(journal, 1)
    journal.close()
    assert written(store) == 4


def test_who_writes_meanwhile_waits_for_some_of_the_notes_not_for_all(
    store: StoppedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_journal, "WRITTEN_AT_ONCE", 2)
    journal, sizes = Journal(store, flush_seconds=3600), list[int]()
    store.is_let_go.set()
    note(journal, 3)
    transact = store.transact

    def fails_in_the_midst(scope: Scope, steps: Sequence[Step]) -> Committed:
        sizes.append(len(steps))
        return transact(scope, steps) if len(sizes) != 2 else 1 / 0  # type: ignore[return-value]

    monkeypatch.setattr(store, "transact", fails_in_the_midst)
    with pytest.raises(ZeroDivisionError):
        journal.flush()
    assert (sizes, written(store)) == ([2, 1], 2)
    journal.flush()
    assert (sizes, written(store)) == ([2, 1, 1], 3)


def test_it_tells_whether_an_operation_runs_or_did_a_moment_ago(
    store: StoppedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, moment = Journal(store, flush_seconds=3600), [0.0]
    store.is_let_go.set()
    monkeypatch.setattr("time.monotonic", lambda: moment[0])
    assert not journal.is_attending()
    with journal.attend(ACME, "read", "show", {}):
        moment[0] = 1000.0
        assert journal.is_attending()
    assert journal.is_attending()
    moment[0] += access_journal.BUSY_SECONDS
    assert not journal.is_attending()
    journal.close()
