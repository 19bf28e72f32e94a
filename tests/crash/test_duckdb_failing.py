"""Whatever fails under a DuckDB store, everybody who shared a commit is told the truth, and the store goes on.

Four transactions share a commit, one of which is refused; the n-th statement of the writer fails, for every n: alone,
with the next (the undoing), or with all that follow; before it is done, or when it is done and only the answer is
lost. Then what no statement can be blamed for: no room on a real disk, an undoing that fails, Ctrl-C while waiting.
"""

from __future__ import annotations

import logging
import random
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest

from recollect.adapters.records.duckdb.store import DuckdbStore
from recollect.adapters.records.in_memory import MemoryStore
from recollect.domain.agents import Agent
from recollect.domain.memory import Memory, Tag
from recollect.errors import DuplicateKey, RecollectError, StoreBusy, StoreError, StoreFull
from recollect.ports.query import Query
from recollect.ports.records import RecordStore, Scope
from recollect.ports.steps import Committed, Delete, Insert, Put, Step, Update
from recollect.testing.conformance.makers import agent, found, ids, memory, search, stored, tag

ACME = Scope("acme", actor="tester")
ERRORS: dict[type[duckdb.Error], type[RecollectError]] = {
    duckdb.IOException: StoreError,
    duckdb.OutOfMemoryException: StoreError,
    duckdb.TransactionException: StoreBusy,
}
FOREVER = 10_000


class Breaker:
    """Makes statements of the writer fail, by their numbers, counted from the next transaction on."""

    def __init__(self) -> None:
        self.rest()

    def rest(self) -> None:
        self.arm(range(0), duckdb.Error)

    def arm(self, failing: range, error: type[duckdb.Error], *, done: bool = False) -> None:
        self.failing, self.error, self.done = failing, error, done
        self.seen: list[str] = []
        self.broke: list[str] = []

    def execute(self, cursor: Any, statement: str, values: Sequence[Any]) -> Any:
        if not threading.current_thread().name.startswith("recollect writer"):
            return cursor.execute(statement, values)
        if self.seen or statement == "BEGIN TRANSACTION":
            self.seen.append(statement)
        if len(self.seen) not in self.failing:
            return cursor.execute(statement, values)
        self.broke.append(statement)
        if self.done:
            cursor.execute(statement, values)
        raise self.error("injected")


class Cursor:
    """A cursor of DuckDB that somebody may break."""

    def __init__(self, cursor: Any, execute: Callable[[Any, str, Sequence[Any]], Any]) -> None:
        self._cursor = cursor
        self._execute = execute

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Any:
        return self._execute(self._cursor, statement, values)

    def close(self) -> None:
        self._cursor.close()


def under(store: DuckdbStore, execute: Callable[[Any, str, Sequence[Any]], Any]) -> None:
    """From now on every statement of the store goes through this."""
    take = store._file._take

    def taken(once: bool) -> Any:
        cursor = take(once)
        return cursor if isinstance(cursor, Cursor) else Cursor(cursor, execute)

    store._file._take = taken  # type: ignore[method-assign]


BEGINNING: list[Step] = [
    Insert(agent(ACME, "taken")),
    *(Insert(memory(ACME, f"old{n}", "an anchor")) for n in range(3)),
    Insert(tag(ACME, "old0", "sea", id="t")),
]
SHARING: list[list[Step]] = [
    [Insert(agent(ACME, "a")), Insert(memory(ACME, "a", "a lantern"))],
    [Insert(memory(ACME, "b", "a lantern")), Update(memory(ACME, "old1", "a buoy")), Insert(agent(ACME, "taken"))],
    [Update(memory(ACME, "old2", "a buoy")), *(Insert(memory(ACME, f"c{n}", "a lantern")) for n in range(9))],
    [Delete(Memory, "old0"), Insert(agent(ACME, "d"))],
]


def state(store: RecordStore) -> dict[tuple[str, str], Any]:
    """What it holds, but for the version of the agent that each try makes newer."""
    records = [one for record in (Agent, Memory, Tag) for one in store.find(ACME, Query(record)).records]
    return {(one.shape.table, one.id): getattr(one, "text", None) for one in records}


@cache
def plainly(done: tuple[int, ...]) -> dict[tuple[str, str], Any]:
    """What the store must hold when these of the transactions that share a commit happened."""
    plain = MemoryStore()
    found(plain, "acme")
    plain.transact(ACME, BEGINNING)
    for number in done:
        plain.transact(ACME, SHARING[number])
    return state(plain)


def shared(store: DuckdbStore, then: Callable[[], None]) -> list[Any]:
    """The outcomes of all of them, in one commit: they wait for the writer together until `then`."""
    begun, busy = threading.Event(), threading.Event()
    waiting = store._writer._waiting

    def outcome(steps: list[Step]) -> Any:
        try:
            return store.transact(ACME, steps)
        except RecollectError as error:
            return error

    with ThreadPoolExecutor(len(SHARING) + 1) as pool:
        first = pool.submit(store._writer.run, lambda: begun.set() or busy.wait(60))
        assert begun.wait(60)
        sharing = []
        for number, steps in enumerate(SHARING, 1):
            sharing.append(pool.submit(outcome, steps))
            while waiting.qsize() != number:
                threading.Event().wait(0.001)
        then()
        busy.set()
        first.exception(60)
        return [one.result(60) for one in sharing]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "store.duckdb"
    with closing(DuckdbStore(path)) as store:
        found(store, "acme")
        store.transact(ACME, BEGINNING)
    return path


def failures(chance: random.Random, every: bool) -> Iterator[tuple[int, int, bool]]:
    """Every statement, each way, in a soak; else one in five or so."""
    ways = [(length, done) for length in (1, 2, FOREVER) for done in (False, True)]
    number = 0
    while True:
        number += 1 if every else chance.randint(1, 9)
        for way in ways if every else [chance.choice(ways)]:
            yield number, *way


def test_a_failing_statement_undoes_the_whole_commit_and_nobody_is_told_otherwise(
    template: Path, folder: Path, chance: random.Random, times: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "recollect")
    store, breaker = None, Breaker()
    for number, length, done in failures(chance, times(1) > 1):
        if store is None:
            shutil.copy(template, folder / "store.duckdb")
            store = DuckdbStore(folder / "store.duckdb")
            under(store, breaker.execute)
            last = store.changes(ACME, 0)[-1].seq
        error = chance.choice(list(ERRORS))
        told = shared(store, lambda: breaker.arm(range(number, number + length), error, done=done))  # noqa: B023
        broke, _ = breaker.broke, breaker.rest()
        where = f"statement {number} failing ({error.__name__}, done: {done}): {broke}, told {told}"
        assert {type(one) for one in told} <= {Committed, DuplicateKey, ERRORS[error]}, where
        happened = tuple(n for n, one in enumerate(told) if not isinstance(one, Exception))
        if done and not happened and "COMMIT" in broke:
            happened = (0, 2, 3)  # all the same: only the answer was lost
        assert state(store) == plainly(happened), where
        before, last = last, store.transact(ACME, [Put(agent(ACME, "taken"))]).seq
        assert last > max((one.seq for one in told if isinstance(one, Committed)), default=before), where
        if happened:
            assert store.verify() == [], where
            assert [one.seq for one in store.changes(ACME, 0)][-1] == last, where
            store.close()
            store = None
        if not broke:
            break
    assert happened == (0, 2, 3)


@pytest.mark.parametrize(("size", "length"), [("24m", 3_000), ("64m", 60_000)], ids=["in the log", "moving the log"])
def test_a_full_disk_is_told_harms_nothing_and_is_over_when_there_is_room(
    new_disk: Any, fill: Any, size: str, length: int, caplog: pytest.LogCaptureFixture
) -> None:
    """DuckDB moves its log into the file when it has 16 MB, and when it cannot, refuses even to read."""
    caplog.set_level(logging.CRITICAL, "recollect")
    disk = new_disk(size)
    with closing(DuckdbStore(disk / "store.duckdb")) as store:
        found(store, "acme")
        ballast = fill(disk, leave=600_000 if size == "24m" else 17_300_000)
        acknowledged: list[str] = []
        with pytest.raises(StoreFull):
            write_pairs(store, length, acknowledged)
        assert len(acknowledged) > 20
        assert ids(store, ACME, Query(Memory)) == sorted(acknowledged)
        assert sorted(search(store, ACME, "anchor", limit=10**6)) == sorted(acknowledged)
        ballast.unlink()
        last = store.changes(ACME, 0, 10**6)[-1].seq
        assert store.transact(ACME, [Insert(agent(ACME))]).seq == last + 1
        assert store.verify() == []
    with closing(DuckdbStore(disk / "store.duckdb")) as store:
        assert ids(store, ACME, Query(Memory)) == sorted(acknowledged)


def write_pairs(store: DuckdbStore, length: int, acknowledged: list[str]) -> None:
    chance = random.Random(1)
    for number in range(1000):
        text, names = "anchor " + chance.randbytes(length).hex(), [f"m{number:04}", f"n{number:04}"]
        stored(store, ACME, *(memory(ACME, name, text) for name in names))
        acknowledged += names


def test_who_reads_after_an_undoing_that_failed_does_not_come_into_the_old_transaction(tmp_path: Path) -> None:
    with closing(DuckdbStore(tmp_path / "store.duckdb")) as store:
        under(store, undoing_nothing)
        with pytest.raises(StoreError), store.vector_snapshot() as snapshot:
            snapshot.last_seq()
        found(store, "acme")
        assert store.tenants() == ["acme"]


def undoing_nothing(cursor: Any, statement: str, values: Sequence[Any]) -> Any:
    if statement == "ROLLBACK":
        raise duckdb.IOException("injected")
    return cursor.execute(statement, values)


def test_an_interrupted_wait_for_the_file_keeps_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with closing(DuckdbStore(tmp_path / "store.duckdb")) as store:
        found(store, "acme")
        with store.vector_snapshot(), monkeypatch.context() as patch, ThreadPoolExecutor(1) as another:
            patch.setattr(store._file._gate, "wait", interrupted)
            with pytest.raises(KeyboardInterrupt):
                another.submit(store.erase_traces).result()
        with monkeypatch.context() as patch:
            patch.setattr(store._file._gate, "wait", lambda *_: pytest.fail("waits for somebody who is gone"))
            assert store.tenants() == ["acme"]


def test_two_backups_may_be_made_at_once(tmp_path: Path) -> None:
    together = threading.Barrier(2, timeout=60)

    def meeting(cursor: Any, statement: str, values: Sequence[Any]) -> Any:
        if statement.startswith("COPY FROM DATABASE"):
            together.wait()
        return cursor.execute(statement, values)

    with closing(DuckdbStore(tmp_path / "store.duckdb")) as store, ThreadPoolExecutor(2) as pool:
        found(store, "acme")
        under(store, meeting)
        copies = [tmp_path / f"{name}.duckdb" for name in "ab"]
        list(pool.map(store.backup, copies))
    for copy in copies:
        with closing(DuckdbStore(copy)) as store:
            assert store.tenants() == ["acme"]
