"""What is written all the time is spread over several partition keys, and found there; older tenants keep their one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from dynamodb_meter import Meter
from dynamodb_server import dynamodb
from recollect.adapters.records.dynamodb.client import TransactionCancelled
from recollect.adapters.records.dynamodb.keys import SHARDS, SPREAD
from recollect.adapters.records.dynamodb.log import LAYOUT
from recollect.adapters.records.dynamodb.store import DynamoStore
from recollect.domain.memory import Embedding, Memory, Tag
from recollect.domain.record import RECORDS, new_id
from recollect.domain.tenancy import Organization, User
from recollect.errors import InvalidSettings, NewerStore
from recollect.ports.query import Beside, OneOf, Order, Query, equal
from recollect.ports.records import Scope
from recollect.ports.steps import Delete, DeleteWhere, Insert, Touch
from recollect.testing.conformance.makers import NOON, embedding, found, memory, search, session, stored, tag, user

ACME = Scope("acme", actor="tester")
# What a program of the second or third layout asks of a head before it moves it.
FREE_THEN = "q = :was AND i = :inc AND v = :v AND attribute_not_exists(x) AND (attribute_not_exists(w) OR w < :now)"

Opening = Callable[..., DynamoStore]


@pytest.fixture
def opened() -> Iterator[Opening]:
    """Opens a table as another process would, with so many shards for new organizations."""
    address = dynamodb().new_store()
    with ExitStack() as stack:

        def opened(shards: int | None = None) -> DynamoStore:
            more = "" if shards is None else f"&shards={shards}"
            return stack.enter_context(closing(DynamoStore(address + more)))

        yield opened


def fill(store: DynamoStore, scope: Scope, count: int, prefix: str = "m") -> list[str]:
    """Memories of one user in one session, with vectors and tags."""
    stored(store, scope, user(scope), session(scope, user_id="ann"))
    ids = [f"{prefix}{n:03}" for n in range(count)]
    for id in ids:
        said = {"session_id": "talk", "user_id": "ann", "identity": f"identity {id}"}
        one = memory(scope, id, f"an anchor {id}", **said)
        store.transact(scope, [Insert(one), Insert(embedding(scope, id, b"\x00\x3c", id=f"v{id}"))])
    store.transact(scope, [Insert(tag(scope, id, "sea", id=f"t{id}")) for id in ids])
    return ids


def partitions(store: DynamoStore, organization_id: str) -> dict[tuple[str, ...], set[str]]:
    """The numbers of the shards that each kind of partition has."""
    numbers: dict[tuple[str, ...], set[str]] = {}
    for item in store.dynamo.everything():
        tenant, kind, *words = item["p"].split("\x1f")
        if tenant == organization_id:
            numbers.setdefault((kind[0], *words), set()).add(kind[1:])
    return numbers


def test_no_partition_key_has_more_than_its_share_of_what_remembering_writes(opened: Opening) -> None:
    store = opened()
    acme = found(store, "acme")
    with Meter(store).cost() as cost:
        fill(store, acme, 60)
    by_kind: dict[tuple[str, ...], list[int]] = {}
    for partition, units in cost.written.items():
        _, kind, *words = partition.split("\x1f")
        if words[:1] in (["memory"], ["embedding"]):
            by_kind.setdefault((kind[0], *words), []).append(units)
    together = by_kind.pop(("i", "memory", "session_id"))  # all of these are of one session: it has one place
    assert by_kind.pop(("c", "memory", "user_id")) == together  # and of one user, whose memories are counted
    assert len(together) == 1
    assert len(by_kind) >= 8
    for name, shares in by_kind.items():
        assert len(shares) == SHARDS, name
        assert max(shares) <= 0.5 * sum(shares), name
        assert max(shares) < together[0] == 2 * 60


def test_what_many_read_is_read_from_every_shard(opened: Opening) -> None:
    """A partition key takes three thousand read units a second, and a recall reads each candidate by its key."""
    store = opened()
    acme = found(store, "acme")
    ids = fill(store, acme, 60)
    with Meter(store).cost() as cost:
        assert len(store.find(acme, Query(Memory, (OneOf("id", tuple(ids)),))).records) == 60
    shares = [count for partition, count in cost.got.items() if partition.endswith("\x1fmemory")]
    assert (len(shares), sum(shares)) == (SHARDS, 60)
    assert max(shares) <= 30


def test_what_is_spread_is_listed_in_order_and_found(opened: Opening) -> None:
    store = opened()
    acme = found(store, "acme")
    ids = fill(store, acme, 50)
    for descending in (False, True):
        wanted = sorted(ids, reverse=descending)
        for where in ((), (equal("user_id", "ann"),), (equal("session_id", "talk"),), (equal("kind", "fact"),)):
            seen: list[str] = []
            after = None
            while not seen or after is not None:
                page = store.find(acme, Query(Memory, where, (Order("id", descending),), 7, after))
                seen += [one.id for one in page.records]
                after = page.next
            assert seen == wanted, where
    many = tuple(f"m{n:03}" for n in range(0, 200, 2))  # more values than are asked for one by one
    assert store.count(acme, Query(Tag, (OneOf("memory_id", many),))) == 25
    assert store.count(acme, Query(Embedding, (OneOf("memory_id", many),))) == 25
    assert store.count(acme, Query(Memory, (OneOf("identity", tuple(f"identity {id}" for id in many)),))) == 25
    assert store.transact(acme, [DeleteWhere(Memory, (equal("session_id", "talk"),))]).deleted >= 150
    assert partitions(store, "acme").keys() & {("i", "memory", "kind"), ("u", "embedding"), ("p",)} == set()
    assert store.verify() == []


def test_a_tenant_with_one_shard_keeps_it_beside_new_ones(opened: Opening) -> None:
    old = opened(shards=1)
    acme = found(old, "acme")
    ids = fill(old, acme, 20)
    before = partitions(old, "acme")
    assert {number for numbers in before.values() for number in numbers} == {""}
    assert old.tenant("acme").head().shards == 1
    store = opened()
    assert sorted(search(store, acme, "anchor", limit=100)) == ids
    stored(store, acme, memory(acme, "new", "an anchor", user_id="ann"))
    store.transact(acme, [Delete(Memory, "m003"), Touch(Memory, "m004", {"access_count": 1})])
    store.transact(acme, [Insert(memory(acme, f"many{n:03}")) for n in range(60)])
    assert len(store.find(acme, Query(Memory)).records) == 80
    assert {number for numbers in partitions(store, "acme").values() for number in numbers} == {""}
    globex = found(store, "globex")
    fill(store, globex, 40)
    assert len(partitions(store, "globex")[("r", "memory")]) == SHARDS
    assert store.tenant("globex").head().shards == SHARDS
    assert store.verify() == []
    assert store.mend() == []


@pytest.mark.parametrize("stale", [False, True])
def test_a_tenant_made_anew_with_other_shards_is_found_where_it_is_now(
    opened: Opening, monkeypatch: pytest.MonkeyPatch, stale: bool
) -> None:
    """Even if another thread again and again believes in the one that was there before."""
    slow, other = opened(), opened(shards=7)
    acme = found(slow, "acme")
    fill(slow, acme, 12)
    before = slow.tenant("acme").head()
    assert len(search(slow, acme, "anchor", limit=100)) == 12
    other.transact(acme, [Delete(Organization, "acme")])
    found(other, "acme")
    ids = fill(other, acme, 30, "n")
    if stale:
        monkeypatch.setattr(slow.tenant("acme"), "start", lambda: before)
    assert sorted(search(slow, acme, "anchor", limit=100)) == ids
    near = slow.beside(acme, Beside(Memory, "session_id", "occurred_at", (("talk", NOON, "n005"),), 2))
    assert near == other.beside(acme, Beside(Memory, "session_id", "occurred_at", (("talk", NOON, "n005"),), 2))
    with slow.vectors_of("acme").vector_snapshot() as moment:
        assert sorted(row.memory_id for row in moment.rows_after(0, 100)) == ids
    stored(other, acme, memory(acme, "later", "an anchor", content={"noise": os.urandom(300_000).hex()}))
    assert sorted(search(slow, acme, "anchor", limit=100)) == sorted([*ids, "later"])
    with slow.snapshot(acme) as still:
        kept = [one.id for one in still.find(acme, Query(Memory, order=(Order("id"),))).records]
        assert kept == sorted([*ids, "later"])
    slow.transact(acme, [Insert(memory(acme, "mine")), Delete(Memory, "n000")])
    mine = slow.get(acme, Memory, "mine")
    assert mine is not None
    assert mine == other.get(acme, Memory, "mine")
    assert slow.count(acme, Query(Memory)) == 31
    assert {number for numbers in partitions(other, "acme").values() for number in numbers} == {"", *"0123456"}
    assert slow.verify() == other.verify() == []


def test_a_stale_head_makes_no_tenant_where_nobody_looks(opened: Opening) -> None:
    slow, other = opened(), opened(shards=7)
    found(other, "acme")
    slow_head = slow.tenant("acme").head()
    other.transact(ACME, [Delete(Organization, "acme")])
    slow.tenant("acme").learn(slow_head)
    again = found(slow, "acme")
    ids = fill(slow, again, 12)
    assert slow.tenant("acme").head().shards == SHARDS
    assert [one.id for one in other.find(again, Query(Memory, order=(Order("id"),))).records] == ids
    assert other.verify() == []


def test_a_large_transaction_is_staged_in_every_shard_and_nothing_of_it_stays(opened: Opening) -> None:
    store = opened()
    acme = found(store, "acme")
    with Meter(store).cost() as cost:
        vectors = [embedding(acme, f"m{n:03}", os.urandom(20_000), id=f"v{n}") for n in range(60)]
        store.transact(acme, [*(Insert(memory(acme, f"m{n:03}")) for n in range(60)), *map(Insert, vectors)])
    staged = {one: units for one, units in cost.written.items() if one.split("\x1f")[1][0] == "x"}
    assert len(staged) == SHARDS
    assert ("x",) not in partitions(store, "acme")
    store.transact(acme, [Delete(Organization, "acme")])
    assert partitions(store, "acme") == {}


def test_a_program_of_an_older_layout_that_still_runs_writes_no_more(opened: Opening) -> None:
    store = opened()
    found(store, "acme")
    tenant = store.tenant("acme")
    head = tenant.head()
    asked = {"was": head.seq, "inc": head.incarnation, "now": 1_800_000_000}
    for layout, is_let in ((2, False), (3, False), (LAYOUT, True)):
        write = store.dynamo.update(tenant.keys.head, "SET q = :q", FREE_THEN, q=99, v=layout, **asked)
        if is_let:
            store.dynamo.transact([write], new_id())
        else:
            with pytest.raises(TransactionCancelled):
                store.dynamo.transact([write], new_id())


def test_a_tenant_of_a_newer_layout_is_left_alone(opened: Opening) -> None:
    store = opened()
    found(store, "acme")
    key = store.tenant("acme").keys.head
    head = store.dynamo.get([key])[key]
    store.dynamo.put_all([{**head, "v": LAYOUT + 1}])
    other = opened()
    with pytest.raises(NewerStore):
        other.count(ACME, Query(Memory))
    with pytest.raises(NewerStore):
        stored(other, ACME, user(ACME))
    assert store.dynamo.get([key])[key] == {**head, "v": LAYOUT + 1}


@pytest.mark.parametrize("shards", ["0", "65", "-1", "four", ""])
def test_a_wrong_number_of_shards_is_refused(shards: str) -> None:
    with pytest.raises(InvalidSettings, match="shards"):
        DynamoStore(f"{dynamodb().new_store()}&shards={shards}")


def test_what_is_spread_stays_what_it_was() -> None:
    """Where things are follows from these names: a new layout may have others, this one may not."""
    assert len(SPREAD) == 14
    assert RECORDS.keys() >= SPREAD
    assert User.shape.table not in SPREAD
