"""What DynamoDB is asked for, in requests and capacity units: counted by the server, not timed.

The same figures for 2,500 memories are in docs/guides/dynamodb.md; `python bench/dynamodb_costs.py` prints them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import recollect
from dynamodb_meter import Cost, Meter
from dynamodb_server import dynamodb
from recollect.adapters.records.dynamodb.keys import SHARDS
from recollect.adapters.records.dynamodb.store import DynamoStore
from recollect.domain.conversations import Session
from recollect.domain.memory import LONG_TERM, Embedding, Memory
from recollect.domain.record import Record, now
from recollect.domain.tenancy import User
from recollect.ports.query import Compare, IsNull, OneOf, Order, Query, equal
from recollect.ports.records import Scope
from recollect.ports.steps import Absent, Delete, Insert, Put, Step, Touch, Update
from recollect.services.recall.browse import ListRequest
from recollect.services.recall.filters import search_conditions
from recollect.testing.conformance.makers import embedding, found, memory, session, user

NEWEST = (Order("id", descending=True),)


@pytest.fixture
def store() -> Iterator[DynamoStore]:
    made = DynamoStore(dynamodb().new_store())
    yield made
    made.close()


@pytest.fixture
def acme(store: DynamoStore) -> Scope:
    return found(store, "acme")


def talks(scope: Scope, first: int, last: int) -> list[Record]:
    """Memories in sessions of 50, of ten users, as they come in use."""
    made: list[Record] = []
    for n in range(first, last):
        talk, owner = f"talk{n // 50:03}", f"user{n // 50 % 10}"
        if n % 50 == 0:
            made += [user(scope, owner, email=f"{owner}@acme.org")] if n < 500 else []
            made.append(session(scope, talk, user_id=owner))
        said = {"author": ("ann", "bob")[n % 2], "session_id": talk, "user_id": owner, "identity": f"identity {n}"}
        made.append(memory(scope, f"m{n:05}", f"note {n} on the anchor", **said))
    return made


def fill(store: DynamoStore, scope: Scope, first: int, last: int) -> None:
    store.transact(scope, [Insert(one) for one in talks(scope, first, last)])


def listed(store: DynamoStore, scope: Scope, meter: Meter, **wanted: Any) -> tuple[Cost, list[str], int]:
    """What `list` does: a page of ten, newest first, and how many there are."""
    where = search_conditions(ListRequest(limit=10, **wanted), now()).filters()
    with meter.cost() as cost:
        page = store.find(scope, Query(Memory, where, NEWEST, 10))
        total = store.count(scope, Query(Memory, where))
    return cost, [one.id for one in page.records], total


def test_a_list_of_ten_reads_about_ten_however_many_there_are(store: DynamoStore, acme: Scope) -> None:
    meter, costs = Meter(store), []
    for size in (100, 400):
        fill(store, acme, 0 if size == 100 else 100, size)
        cost, ids, total = listed(store, acme, meter)
        assert ids == [f"m{n:05}" for n in range(size - 1, size - 11, -1)]
        assert total == size
        costs.append((cost.requests, cost.read_units))
    assert costs[0] == costs[1]
    assert costs[1][0] <= 2 + SHARDS
    assert costs[1][1] <= 3 + 2 * SHARDS


@pytest.mark.parametrize(
    ("wanted", "size", "units"),
    [
        ({"user": "user1"}, 50, 25),
        ({"session": "talk001"}, 50, 25),
        ({"user": "user1", "session": "talk001"}, 50, 25),
        ({"kinds": ["fact"]}, 400, 20),
        ({"statuses": ["hypothesis"]}, 400, 10),
        ({"statuses": ["published"]}, 0, 3),
    ],
    ids=str,
)
def test_a_filtered_list_reads_entries_not_records(
    store: DynamoStore, acme: Scope, wanted: dict[str, Any], size: int, units: int
) -> None:
    fill(store, acme, 0, 400)
    cost, ids, total = listed(store, acme, Meter(store), **wanted)
    assert (len(ids), total) == (min(10, size), size)
    assert cost.read_units <= units


def test_what_an_entry_says_will_not_pass_is_not_read(store: DynamoStore, acme: Scope) -> None:
    fill(store, acme, 0, 100)
    mine = store.find(acme, Query(Memory, (equal("user_id", "user1"),), NEWEST)).records
    store.transact(acme, [Update(one.changed(status="archived")) for one in mine[:40]])
    cost, ids, total = listed(store, acme, Meter(store), user="user1")
    assert (ids, total) == ([one.id for one in mine[40:]], 10)
    assert cost.read_units <= 35


def test_pages_of_somebody_s_memories_are_whole_and_in_order(store: DynamoStore, acme: Scope) -> None:
    fill(store, acme, 0, 120)
    for order in (NEWEST, (Order("id"),)):
        seen: list[str] = []
        after = None
        while True:
            page = store.find(acme, Query(Memory, (equal("user_id", "user1"),), order, 7, after))
            seen += [one.id for one in page.records]
            after = page.next
            if after is None:
                break
        assert sorted(seen, reverse=order is NEWEST) == seen == [*dict.fromkeys(seen)]
        assert len(seen) == 50


def test_many_memories_are_looked_for_together(store: DynamoStore, acme: Scope) -> None:
    fill(store, acme, 0, 100)
    fresh = [one for one in talks(acme, 100, 300) if isinstance(one, Memory)]
    others = [one for one in talks(acme, 100, 300) if not isinstance(one, Memory)]
    store.transact(acme, [Insert(one) for one in others])
    absent = [Absent(Memory, (equal("identity", one.identity),)) for one in fresh]
    meter = Meter(store)
    with meter.cost() as cost:
        assert store.find(acme, Query(Memory, (OneOf("identity", tuple(one.identity for one in fresh)),))).records == []
        store.transact(acme, [*absent, *(Insert(one) for one in fresh)])
    assert cost.by_operation["Query"] <= SHARDS  # for what is staged
    assert cost.by_operation["BatchGetItem"] <= 14
    with pytest.raises(recollect.errors.RequirementFailed):
        store.transact(acme, absent[-1:])


def test_an_idempotency_key_is_found_by_its_guard(store: DynamoStore, acme: Scope) -> None:
    store.transact(acme, [Insert(memory(acme, f"m{n}", idempotency_key=f"key {n}")) for n in range(5)])
    meter = Meter(store)
    keys = tuple(f"key {n}" for n in range(200))
    with meter.cost() as cost:
        assert len(store.find(acme, Query(Memory, (OneOf("idempotency_key", keys),))).records) == 5
    assert cost.by_operation["Query"] == 0
    assert cost.requests <= 5


# -- counts ----------------------------------------------------------------------------------------------------------


def test_counts_are_kept_through_every_kind_of_change(store: DynamoStore, acme: Scope) -> None:
    fill(store, acme, 0, 60)
    one = store.get(acme, Memory, "m00001")
    other = store.get(acme, Memory, "m00002")
    assert one is not None
    assert other is not None
    soon = datetime.now(UTC) + timedelta(days=1)
    changes: list[list[Step]] = [
        [Update(one.changed(status="verified"))],
        [Update(other.changed(is_deleted=True))],
        [Delete(Memory, "m00003")],
        [Touch(Memory, "m00004", put={"expires_at": soon})],
        [Touch(Memory, "m00005", put={"valid_to": soon - timedelta(days=9)})],
        [Put(memory(acme, "m00006", "again", kind="summary"))],
        [Delete(Session, "talk000")],
        [Insert(one) for one in talks(acme, 100, 250)],
        [Delete(User, "user1")],
    ]
    for steps in changes:
        store.transact(acme, steps)
        for wanted in ({}, {"kinds": ["fact"]}, {"user": "user0"}, {"statuses": ["verified"]}, {"author": "ann"}):
            where = search_conditions(ListRequest(**wanted), now()).filters()
            found_ones = store.find(acme, Query(Memory, where)).records
            assert store.count(acme, Query(Memory, where)) == len(found_ones), (steps, wanted)
        for deleted in ("no", "yes", "only"):
            everything: Query[Memory] = Query(Memory, deleted=deleted)
            counted = Counter(one.status for one in store.find(acme, everything).records)
            assert store.count_by(acme, everything, ("status",)) == {(name,): n for name, n in counted.items()}
        assert store.verify() == []


def test_what_expires_is_counted_one_by_one_and_the_rest_is_not_read(store: DynamoStore, acme: Scope) -> None:
    fill(store, acme, 0, 400)
    later = now() + timedelta(days=1)
    store.transact(acme, [Touch(Memory, f"m{n:05}", put={"expires_at": later}) for n in range(9)])
    where = search_conditions(ListRequest(), now()).filters()
    past = search_conditions(ListRequest(), later + timedelta(days=1)).filters()
    with Meter(store).cost() as cost:
        assert store.count(acme, Query(Memory, where)) == 400
        assert store.count(acme, Query(Memory, past)) == 391
        assert store.count(acme, Query(Memory, (Compare("expires_at", "<=", later),))) == 9
    assert cost.read_units <= 8


def test_a_count_follows_what_another_process_touched(store: DynamoStore, acme: Scope) -> None:
    """A touch does not move the head, by which others see what changed; but it changes what the head counts."""
    fill(store, acme, 0, 10)
    where = search_conditions(ListRequest(), now()).filters()
    assert store.count(acme, Query(Memory, where)) == 10
    other = DynamoStore(store.address)
    other.transact(acme, [Touch(Memory, "m00001", put={"expires_at": now() - timedelta(days=1)})])
    assert store.count(acme, Query(Memory, where)) == 9
    other.transact(acme, [Touch(Memory, "m00001", put={"expires_at": None})])
    assert len(store.find(acme, Query(Memory, where, NEWEST, 10)).records) == 10
    assert store.verify() == []
    other.close()


def test_what_expires_is_listed_by_its_entries(store: DynamoStore, acme: Scope) -> None:
    fill(store, acme, 0, 400)
    store.transact(acme, [Touch(Memory, f"m{n:05}", put={"expires_at": now()}) for n in range(5)])
    with Meter(store).cost() as cost:
        page = store.find(acme, Query(Memory, (IsNull("expires_at", wanted=False),), (Order("expires_at"),), 3))
    assert [one.id for one in page.records] == ["m00000", "m00001", "m00002"]
    assert cost.read_units <= 10


def test_counts_that_are_not_known_are_made_by_reading(store: DynamoStore, acme: Scope) -> None:
    fill(store, acme, 0, 60)
    head = store.dynamo.get([store.tenant("acme").keys.head])[store.tenant("acme").keys.head]
    del head["n"]
    store.dynamo.put_all([head])
    other = DynamoStore(store.address)
    assert other.count(acme, Query(Memory)) == 60
    other.transact(acme, [Delete(Memory, "m00001")])
    assert other.count(acme, Query(Memory)) == 59
    assert other.verify() == []
    assert len(other.mend()) == 1
    assert other.tenant("acme").head().counts() is not None
    assert other.count(acme, Query(Memory)) == 59
    other.close()


def test_whether_a_model_has_vectors_is_known_without_reading_them(store: DynamoStore, acme: Scope) -> None:
    """It is asked whenever a store is opened."""
    fill(store, acme, 0, 100)
    store.transact(acme, [Insert(embedding(acme, f"m{n:05}", bytes(768), id=f"v{n}")) for n in range(100)])
    with Meter(store).cost() as cost:
        for model, size in (("another", 0), ("m", 1)):
            where = (equal("namespace", LONG_TERM), equal("model", model))
            assert len(store.select(acme, Query(Embedding, where, limit=1), ("id",))) == size
    assert cost.read_units <= 4 + SHARDS


# -- partitions ------------------------------------------------------------------------------------------------------


def test_no_partition_has_most_of_the_writes_of_a_remember(tmp_path: Path) -> None:
    """A partition takes a thousand units a second: what one of them takes of each write is what bounds the writers."""
    with recollect.open(dynamodb().new_store(), embedder="hash", background=False, citation_root=tmp_path) as mem:
        mem.user.add(id="ann", name="Ann")
        talk = mem.session.add(title="talk", user="ann").id
        written: list[Counter[str]] = []
        store: Any = mem._core.store

        def note(params: dict[str, Any], **_: Any) -> None:
            items = [next(iter(one.values())) for one in params["TransactItems"]]
            written.append(Counter((one.get("Item") or one["Key"])["p"]["S"] for one in items))

        store.dynamo.client.meta.events.register("provide-client-params.dynamodb.TransactWriteItems", note)
        mem.remember("the anchor is rusty", user="ann", session=talk, author="ann", tags=["sea"])
        most = max(written, key=lambda one: one.total())
        assert most.total() >= 12
        assert max(most.values()) == 1


MOST = {
    "remember": (2, 8, 24),
    "remember_many": (24, 330, 1150),
    "list": (2 + SHARDS, 2 + 2 * SHARDS, 0),
    "show": (20, 24, 0),
    "erase": (42, 46, 30),
}
"""Requests, read units and write units that an operation takes, however large the organization is."""


def test_what_an_operation_asks_for_does_not_grow_with_the_organization() -> None:
    with recollect.open(dynamodb().new_store(), embedder="hash", background=False) as mem:
        store: Any = mem._core.store
        meter, costs = Meter(store), []
        for size in (100, 500):
            mem.remember_many([f"note {n} of {size} on the anchor" for n in range(size)])
            costs.append({name: measured(mem, meter, name, size) for name in MOST})
    for name, most in MOST.items():
        for cost in (one[name] for one in costs):
            assert all(spent <= allowed for spent, allowed in zip(cost, most, strict=True)), (name, cost)
        assert all(later <= 1.1 * before for before, later in zip(costs[0][name], costs[1][name], strict=True)), name


def measured(mem: Any, meter: Meter, name: str, size: int) -> tuple[float, float, float]:
    """Requests and units of one operation that was done before."""
    operations: dict[str, Callable[[int], object]] = {
        "remember": lambda turn: mem.remember(f"a lantern {size} {turn}"),
        "remember_many": lambda turn: mem.remember_many([f"lamp {n} of {size} {turn}" for n in range(50)]),
        "list": lambda turn: mem.list(limit=10),
        "show": lambda turn: mem.show(mem.list(limit=1).memories[0].id),
        "erase": lambda turn: mem.erase(mem.list(limit=1).memories[0].id),
    }
    operations[name](0)
    mem._core.journal.flush()
    costs = []
    for turn in (1, 2):  # twice, since what is remembered for a minute may just then have to be looked up again
        with meter.cost() as cost:
            operations[name](turn)
        costs.append((cost.requests, cost.read_units, cost.write_units))
    return min(costs)


# -- searching -------------------------------------------------------------------------------------------------------


def test_all_that_a_search_needs_is_read_once(tmp_path: Path) -> None:
    """Words, the order of sessions and vectors: a walk for the memories, a walk for the vectors, through each shard."""
    address = dynamodb().new_store()
    with recollect.open(address, embedder="hash", background=False) as mem:
        mem.remember_many([f"note {n} on the anchor" for n in range(300)])
    with recollect.open(address, embedder="hash", background=False) as mem:
        partitions: Counter[str] = Counter()
        store: Any = mem._core.store

        def note(params: dict[str, Any], **_: Any) -> None:
            partitions[params["ExpressionAttributeValues"][":p"]["S"]] += 1

        store.dynamo.client.meta.events.register("provide-client-params.dynamodb.Query", note)
        assert mem.recall("the anchor of note 7").hits
        for table in ("memory", "embedding"):
            assert [count for name, count in partitions.items() if _is_of(name, table)] == [1] * SHARDS


def _is_of(partition: str, table: str) -> bool:
    _, kind, *words = partition.split("\x1f")
    return kind[0] == "r" and words == [table]
