"""Writers of one process who wait for each other are committed together, and each gets its own answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pytest

from dynamodb_meter import Meter
from dynamodb_server import dynamodb
from recollect.adapters.records.dynamodb.log import TenantLog
from recollect.adapters.records.dynamodb.store import DynamoStore
from recollect.domain.memory import Memory
from recollect.domain.record import new_id
from recollect.errors import DuplicateKey, InvalidInput, RequirementFailed, Unavailable
from recollect.ports.query import Query, equal
from recollect.ports.records import Scope
from recollect.ports.steps import Absent, Committed, Delete, Insert, Step, Touch, Update
from recollect.testing.conformance.makers import found, memory, stored, user


@pytest.fixture
def store() -> Iterator[DynamoStore]:
    made = DynamoStore(dynamodb().new_store(), attempts=1)
    yield made
    made.close()


@pytest.fixture
def acme(store: DynamoStore) -> Scope:
    scope = found(store, "acme")
    stored(store, scope, memory(scope, "first", author="x"))
    return scope


@contextmanager
def all_waiting(
    store: DynamoStore, scope: Scope, wanted: Sequence[Sequence[Step]]
) -> Iterator[list[Future[Committed]]]:
    """Each in a thread of its own, in this order, while somebody else has the turn until the block begins."""
    tenant = store.tenant(scope.organization_id)
    with ThreadPoolExecutor(len(wanted)) as pool:
        with tenant.writing:
            asked = []
            for place, steps in enumerate(wanted):
                asked.append(pool.submit(store.transact, scope, steps))
                _until_waiting(tenant, place + 1)
        yield asked


def _until_waiting(tenant: TenantLog, count: int) -> None:
    for _ in range(3000):
        if len(tenant.waiting) == count:
            return
        threading.Event().wait(0.01)
    raise AssertionError("they did not begin to wait within half a minute")


def test_those_who_wait_are_one_transaction_and_each_has_its_own_answer(store: DynamoStore, acme: Scope) -> None:
    first = store.get(acme, Memory, "first")
    assert first is not None
    wanted: list[list[Step]] = [
        [Insert(memory(acme, "a", author="y"))],
        [Insert(user(acme)), Insert(memory(acme, "a"))],  # taken by the one before: nothing of it is left
        [Insert(memory(acme, "b")), Insert(memory(acme, "c"))],
        [Absent(Memory, (equal("author", "y"),)), Insert(memory(acme, "d"))],
        [Touch(Memory, "a", {"access_count": 2})],
        [Update(first.changed(status="verified"))],
        [Absent(Memory, (equal("author", "z"),))],
    ]
    with Meter(store).cost() as cost, all_waiting(store, acme, wanted) as asked:
        failures = [one.exception() for one in asked]
    assert [type(failure) for failure in failures if failure] == [DuplicateKey, RequirementFailed]
    assert cost.by_operation["TransactWriteItems"] == 1
    seqs = [one.result().seq for one, failure in zip(asked, failures, strict=True) if failure is None]
    assert seqs == [3, 5, 0, 6, 0]
    assert [one.id for one in store.find(acme, Query(Memory)).records] == ["a", "b", "c", "first"]
    assert store.count(acme, Query(Memory)) == 4
    assert [store.select(acme, Query(Memory), (name,))[0] for name in ("access_count", "author")] == [(2,), ("y",)]
    assert [one.seq for one in store.changes(acme, 2)] == [3, 4, 5, 6]
    assert store.verify() == []


def test_what_does_not_fit_together_is_written_after(store: DynamoStore, acme: Scope) -> None:
    large = [[Insert(memory(acme, f"m{n}", content={"noise": new_id() * 27_000}))] for n in range(5)]
    many: list[list[Step]] = [[Insert(memory(acme, f"n{n:02}", user_id=None))] for n in range(60)]
    with Meter(store).cost() as cost, all_waiting(store, acme, [*large, *many]) as asked:
        seqs = [one.result().seq for one in asked]
    assert seqs == sorted(set(seqs))
    assert len(store.find(acme, Query(Memory)).records) == 66
    assert 2 <= cost.by_operation["TransactWriteItems"] <= 12
    assert store.verify() == []


def test_who_deletes_goes_alone_and_in_turn(store: DynamoStore, acme: Scope) -> None:
    wanted: list[list[Step]] = [
        [Insert(memory(acme, "a"))],
        [Delete(Memory, "a")],
        [Insert(memory(acme, "a", "again"))],
        [Delete(Memory, "first")],
    ]
    with Meter(store).cost() as cost, all_waiting(store, acme, wanted) as asked:
        assert [one.result().deleted for one in asked] == [0, 1, 0, 1]
    assert cost.by_operation["TransactWriteItems"] == 4
    assert [one.text for one in store.find(acme, Query(Memory)).records] == ["again"]


def test_another_process_that_was_faster_is_seen_by_all(store: DynamoStore, acme: Scope) -> None:
    other = DynamoStore(store.address)
    acted: list[int] = []

    def overtake(**_: Any) -> None:
        if not acted:
            acted.append(1)
            stored(other, acme, memory(acme, "b", "theirs"))

    store.dynamo.client.meta.events.register("before-send.dynamodb.TransactWriteItems", overtake)
    wanted: list[list[Step]] = [[Insert(memory(acme, id, "ours"))] for id in "abc"]
    with all_waiting(store, acme, wanted) as asked:
        assert [type(one.exception()) for one in asked] == [type(None), DuplicateKey, type(None)]
    seqs = [asked[0].result().seq, asked[2].result().seq]
    assert seqs == [4, 5]
    assert [one.text for one in store.find(acme, Query(Memory)).records][:3] == ["ours", "theirs", "ours"]
    assert store.verify() == []
    other.close()


def test_what_one_cannot_ask_for_is_no_business_of_the_others(store: DynamoStore, acme: Scope) -> None:
    broken: Any = Insert(memory(acme, "broken").model_copy(update={"identity": 7}))
    unsendable: Any = [Absent(Memory, (equal("session_id", "\udc00"),)), Insert(memory(acme, "unsendable"))]
    wanted = [[Insert(memory(acme, "a"))], [broken], unsendable, [Insert(memory(acme, "b"))]]
    with all_waiting(store, acme, wanted) as asked:
        failures = [one.exception() for one in asked]
    assert failures[0] is None
    assert failures[3] is None
    assert isinstance(failures[1], AttributeError)
    assert isinstance(failures[2], UnicodeEncodeError | InvalidInput)
    assert [one.id for one in store.find(acme, Query(Memory)).records] == ["a", "b", "first"]
    assert store.verify() == []


class Dead(BaseException):
    """The thread is gone."""


@pytest.mark.parametrize("happens", [False, True])
def test_who_waits_for_one_that_dies_is_told_that_nobody_knows(store: DynamoStore, acme: Scope, happens: bool) -> None:
    """Whether the transaction had happened or not, and nobody waits for ever."""
    event = "after-call" if happens else "before-send"
    died: list[int] = []

    def die(**_: Any) -> None:
        if not died:
            died.append(1)
            raise Dead

    store.dynamo.client.meta.events.register(f"{event}.dynamodb.TransactWriteItems", die)
    wanted: list[list[Step]] = [[Insert(memory(acme, id))] for id in "abc"]
    with all_waiting(store, acme, wanted) as asked:
        failures = [type(one.exception(timeout=60)) for one in asked]
    assert sorted(one.__name__ for one in failures) == ["Dead", "Unavailable", "Unavailable"]
    kept = [one.id for one in store.find(acme, Query(Memory)).records]
    assert kept == (["a", "b", "c", "first"] if happens else ["first"])
    stored(store, acme, memory(acme, "d"))
    assert store.verify() == []


def test_who_gives_up_waiting_writes_nothing(store: DynamoStore, acme: Scope) -> None:
    """What was interrupted while it waited for its turn is not written by another later."""
    tenant = store.tenant("acme")

    class Interrupted:
        def __enter__(self) -> None:
            raise Dead

        def __exit__(self, *_: object) -> None:
            raise AssertionError("it was never entered")

    lock, tenant.writing = tenant.writing, Interrupted()  # type: ignore[assignment]
    with pytest.raises(Dead):
        store.transact(acme, [Insert(memory(acme, "a"))])
    tenant.writing = lock
    stored(store, acme, memory(acme, "b"))
    assert [one.id for one in store.find(acme, Query(Memory)).records] == ["b", "first"]


def test_an_answer_that_is_lost_is_lost_to_all_of_them_or_to_none(store: DynamoStore, acme: Scope) -> None:
    """The log tells whether it happened; where it did, all are told so."""
    lost: list[int] = []

    def lose(http_response: Any, parsed: dict[str, Any], **_: Any) -> None:
        if not lost:
            lost.append(1)
            raise Unavailable("the answer is lost", remedy="look")

    store.dynamo.client.meta.events.register("after-call.dynamodb.TransactWriteItems", lose)
    wanted: list[list[Step]] = [[Insert(memory(acme, id))] for id in "abc"]
    with all_waiting(store, acme, wanted) as asked:
        seqs = [one.result().seq for one in asked]
    assert [later - before for before, later in pairwise(seqs)] == [1, 1]
    assert [one.id for one in store.find(acme, Query(Memory)).records] == ["a", "b", "c", "first"]
