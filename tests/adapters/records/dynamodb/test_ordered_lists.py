"""Lists in every order, and what is counted, on DynamoDB: the same as on the store in memory, through every change."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import timedelta
from itertools import product
from typing import Any

import pytest

import recollect
from dynamodb_meter import Meter
from dynamodb_server import dynamodb
from recollect.adapters.records.dynamodb.keys import SCHEMA
from recollect.adapters.records.dynamodb.store import DynamoStore
from recollect.adapters.records.in_memory import MemoryStore
from recollect.domain.audit import AccessLog
from recollect.domain.memory import Memory, Tag
from recollect.domain.provenance import Citation
from recollect.domain.record import Record
from recollect.domain.tenancy import Organization, User
from recollect.ports.query import Compare, Filter, IsNull, Linked, OneOf, Order, Query, Spans, equal
from recollect.ports.records import RecordStore, Scope
from recollect.ports.steps import Delete, DeleteWhere, Insert, Put, Step, Touch, Update
from recollect.testing.conformance.makers import NOON, agent, found, memory, session, tag, user
from seeds import some

CHANCE = random.Random(9)
LATER = NOON + timedelta(days=400)
ORDERS = ("occurred_at", "updated_at", "priority", "confidence", "importance", "access_count", "created_at", "user_id")
DAYS = Spans("occurred_at", tuple(NOON + timedelta(days=n) for n in range(0, 60, 10)))
HOURS = Spans("created_at", tuple(NOON + timedelta(minutes=15 * n) for n in range(2, 90, 7)))
FILTERS: dict[str, tuple[Filter, ...]] = {
    "all": (),
    "one user's": (equal("user_id", "user1"),),
    "two users'": (OneOf("user_id", ("user0", "user2")),),
    "one session's": (equal("session_id", "talk"),),
    "of a time": (Compare("occurred_at", ">=", NOON + timedelta(days=5)), Compare("occurred_at", "<", LATER)),
    "urgent": (Compare("priority", ">=", 7),),
    "not urgent": (Compare("priority", "<=", 5),),
    "sure": (Compare("confidence", ">", 0.5), Compare("importance", ">=", 0)),
    "tagged": (Linked(Tag, "memory_id", (equal("tag", "sea"),)),),
    "untagged": (Linked(Tag, "memory_id", wanted=False),),
    "said by ann": (equal("author", "ann"), Compare("status", "!=", "archived")),
    "passing": (IsNull("expires_at", wanted=False),),
}

EVERY_LIST = list(product(FILTERS, ORDERS, (True, False)))
LISTS = [EVERY_LIST[0], *some(24, EVERY_LIST, "lists of DynamoDB in an order")]


def some_memory(scope: Scope, n: int) -> Memory:
    more: dict[str, Any] = {"occurred_at": NOON + timedelta(days=CHANCE.randrange(60), seconds=CHANCE.randrange(2))}
    more |= {"created_at": NOON + timedelta(minutes=CHANCE.randrange(1000)), "author": ("ann", "bob", None)[n % 3]}
    more |= {"user_id": f"user{n % 3}", "session_id": "talk" if n % 7 == 0 else None}
    more |= {"agent_id": "bot"} if n % 5 == 0 else {}
    if n % 4 == 0:
        more |= {"priority": CHANCE.randint(1, 10), "confidence": CHANCE.choice([0.1, 0.5, 0.9]), "importance": 2.5}
    if n % 11 == 0:
        more |= {"expires_at": LATER}
    return memory(scope, f"m{CHANCE.randrange(10**6):06}", f"note {n}", **more)


def filled(scope: Scope, count: int) -> list[Record]:
    made: list[Record] = [user(scope, f"user{n}") for n in range(3)]
    made += [session(scope), agent(scope)]
    told = [some_memory(scope, n) for n in range(count)]
    made += told
    made += [tag(scope, one.id, "sea", id=f"t{one.id}") for one in told[::4]]
    made += [tag(scope, one.id, f"tag{n}", id=f"u{one.id}") for n, one in enumerate(told[::9])]
    made += [_log(scope, n) for n in range(count // 4)]
    return made


def _log(scope: Scope, n: int) -> AccessLog:
    made = NOON + timedelta(minutes=37 * n)
    operation: Any = ("read", "view", "update")[n % 3]
    return AccessLog(organization_id=scope.organization_id, id=f"a{n}", operation=operation, timestamp=made)


def pages(store: RecordStore, scope: Scope, query: Query[Memory]) -> list[str]:
    seen: list[str] = []
    while True:
        page = store.find(scope, query)
        seen += [one.id for one in page.records]
        if page.next is None:
            return seen
        query = Query(Memory, query.where, query.order, query.limit, page.next, query.deleted)


def answers(store: RecordStore, scope: Scope, lists: Sequence[tuple[str, str, bool]]) -> Iterator[tuple[Any, Any]]:
    """What a store says to what is asked for in some order, and what it counts."""
    for name, field, down in lists:
        deleted: Any = "only" if name == "all" and down else "no"
        query = Query(Memory, FILTERS[name], (Order(field, down),), 15, deleted=deleted)
        yield (name, field, down), pages(store, scope, query)
    for name, by in {(name, by): () for name, *_ in lists for by in ((), ("author", "user_id"), (DAYS,), (HOURS,))}:
        where = Query(Memory, FILTERS[name])
        yield (name, by), store.count_by(scope, where, by) if by else store.count(scope, where)
    yield "tags", store.count_by(scope, Query(Tag), ("tag",))
    yield "no citations", store.count(scope, Query(Memory, (Linked(Citation, "memory_id", wanted=False),)))
    edges = tuple(NOON + timedelta(hours=n, minutes=30) for n in range(0, 24, 3))  # some were before, in the same hour
    logged = (Compare("timestamp", ">=", edges[0]), Compare("operation", "!=", "view"))
    yield "log", store.count_by(scope, Query(AccessLog, logged), (Spans("timestamp", edges),))


class Pair:
    """A store on DynamoDB and one in memory, to which the same is done."""

    def __init__(self, address: str) -> None:
        self.store, self.plain = DynamoStore(address), MemoryStore()
        self.scope = found(self.store, "acme")
        found(self.plain, "acme")

    def do(self, *steps: Step) -> None:
        for one in (self.store, self.plain):
            one.transact(self.scope, steps)

    def agree(self, lists: Sequence[tuple[str, str, bool]]) -> None:
        said = zip(answers(self.store, self.scope, lists), answers(self.plain, self.scope, lists), strict=True)
        for (asked, here), (_, there) in said:
            assert here == there, asked


@pytest.fixture(params=["", "&shards=1"], ids=["spread", "one shard"])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    made = Pair(dynamodb().new_store() + request.param)
    yield made
    made.store.close()


def test_lists_in_every_order_and_counts_are_what_they_are_elsewhere(pair: Pair) -> None:
    pair.do(*(Insert(one) for one in filled(pair.scope, 70)))
    pair.agree(LISTS)
    assert pair.store.verify() == []


def test_each_way_in_which_a_record_changes_leaves_its_entries_and_counts_right(pair: Pair) -> None:
    pair.do(*(Insert(one) for one in filled(pair.scope, 40)))
    told = sorted(pair.plain.find(pair.scope, Query(Memory)).records, key=lambda one: one.id)
    again = told[4].changed(occurred_at=LATER, priority=9, user_id="user2", created_at=NOON)
    changes: list[list[Step]] = [
        [Update(told[0].changed(occurred_at=LATER))],
        [Update(told[1].changed(is_deleted=True)), Update(told[2].changed(priority=1, confidence=0.5))],
        [Update(told[1].changed(is_deleted=False, version=2))],
        [Touch(Memory, told[3].id, add={"access_count": 3}, put={"expires_at": NOON})],
        [Put(again)],
        [Delete(Memory, told[5].id), Insert(some_memory(pair.scope, 1000))],
        [DeleteWhere(AccessLog, (equal("operation", "read"),))],
        [Delete(User, "user1")],
        [Insert(some_memory(pair.scope, n)) for n in range(2001, 2090) if n % 3 != 1],
    ]
    for steps in changes:
        pair.do(*steps)
        pair.agree(CHANCE.sample(EVERY_LIST, 4))
        assert pair.store.verify() == []
    pair.store.transact(pair.scope, [Delete(Organization, "acme")])
    assert {item["p"] for item in pair.store.dynamo.everything()} == {SCHEMA}


def test_a_touch_by_a_whole_number_or_below_zero_keeps_the_order(pair: Pair) -> None:
    """A number that is stored as 1.0 was added as 1: its entry is found under what is stored."""
    pair.do(*(Insert(memory(pair.scope, f"m{n}")) for n in range(6)))
    pair.do(Touch(Memory, "m0", add={"importance": 1, "score": 3}), Touch(Memory, "m4", put={"importance": 1}))
    pair.do(Touch(Memory, "m0", add={"importance": 1}), Touch(Memory, "m3", add={"priority": 2}))
    assert pair.store.verify() == []
    amounts: list[dict[str, float]] = [{"importance": -4}, {"importance": -2}, {"importance": -0.5}, {"priority": -9}]
    pair.do(*(Touch(Memory, f"m{n}", add=one) for n, one in enumerate(amounts)))
    pair.agree([("all", field, down) for field in ("importance", "priority") for down in (True, False)])
    filters = Compare("importance", ">", -1), Compare("importance", "<=", -0.5), Compare("priority", "<", 1)
    for given, order in product(filters, ((), (Order("importance"),), (Order("priority", True),))):
        query = Query(Memory, (given,), order, 2)
        assert pages(pair.store, pair.scope, query) == pages(pair.plain, pair.scope, query)
        assert pair.store.count(pair.scope, query) == pair.plain.count(pair.scope, query)


def test_a_tally_with_too_many_groups_has_their_number_until_none_is_left(pair: Pair) -> None:
    """It would make every remember dear; counting reads instead."""
    pair.do(Insert(user(pair.scope)), Insert(memory(pair.scope, "other", user_id="ann")))
    names = [[f"{CHANCE.randrange(10**16):016}" for _ in range(20)] for _ in range(25)]
    made = [memory(pair.scope, f"m{n}", user_id="ann", namespaces=names[n]) for n in range(25)]
    pair.do(*(Insert(one) for one in made))
    of_ann = [item for item in pair.store.dynamo.everything() if "\x1fc" in item["p"] and item["s"] == "ann\x1f"]
    assert len(of_ann) == 1
    assert len(of_ann[0]["d"]) < 100
    asked = Query(Memory, (equal("user_id", "ann"),))
    assert pair.store.count(pair.scope, asked) == 26
    pair.do(*(Delete(Memory, f"m{n}") for n in range(24)))
    assert pair.store.verify() == []
    assert pair.store.count(pair.scope, asked) == 2
    assert len(pair.store.mend()) == 1
    with Meter(pair.store).cost() as cost:
        assert pair.store.count(pair.scope, asked) == 2
    assert cost.read_units <= 3
    pair.do(Delete(Memory, "m24"), Delete(Memory, "other"))
    assert not [item for item in pair.store.dynamo.everything() if item["s"] == "ann\x1f"]


def test_writers_of_several_processes_count_each_of_their_writes() -> None:
    address = dynamodb().new_store()
    with closing(DynamoStore(address)) as first, closing(DynamoStore(address)) as second:
        acme = found(first, "acme")
        first.transact(acme, [Insert(user(acme)), *(Insert(memory(acme, f"m{n}", user_id="ann")) for n in range(8))])

        def work(store: DynamoStore, odd: int) -> None:
            for n in range(odd, 8, 2):
                store.transact(acme, [Touch(Memory, f"m{n}", put={"expires_at": LATER})])
                store.transact(acme, [Insert(memory(acme, f"new{n}", user_id="ann", occurred_at=LATER))])

        threads = [threading.Thread(target=work, args=given) for given in ((first, 0), (second, 1))]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert second.verify() == []
        with Meter(second).cost() as cost:
            assert second.count(acme, Query(Memory, (equal("user_id", "ann"),))) == 16
        assert cost.read_units <= 3


def test_two_touches_at_once_are_both_counted_where_the_head_counts_nothing() -> None:
    """They leave the head alone, and meet only in what both are counted in."""
    address = dynamodb().new_store()
    with closing(DynamoStore(address)) as first, closing(DynamoStore(address)) as second:
        acme = found(first, "acme")
        first.transact(acme, [Insert(user(acme)), *(Insert(memory(acme, f"m{n}", user_id="ann")) for n in range(3))])
        place = first.tenant("acme").keys.head
        head = first.dynamo.get([place])[place]
        del head["n"]
        first.dynamo.put_all([head])
        first.tenant("acme").learn(None)
        send, pending = first.dynamo.transact, [Touch(Memory, "m1", put={"expires_at": LATER})]

        def transact(writes: Any, token: str) -> None:
            if pending:
                second.transact(acme, [pending.pop()])
            send(writes, token)

        first.dynamo.transact = transact  # type: ignore[method-assign]
        first.transact(acme, [Touch(Memory, "m0", put={"expires_at": LATER})])
        assert not pending
        assert second.verify() == []


def test_a_page_in_order_is_right_while_others_write() -> None:
    """What was read is put right by the log, also where it is in order of something else than ids."""
    address = dynamodb().new_store()
    with closing(DynamoStore(address)) as store, closing(DynamoStore(address)) as other:
        acme = found(store, "acme")
        store.transact(acme, [Insert(memory(acme, f"m{n}", occurred_at=NOON + timedelta(n))) for n in range(20)])
        steps: list[Step] = [
            Insert(memory(acme, "newest", occurred_at=LATER, priority=9)),
            Update(memory(acme, "m19", occurred_at=NOON - timedelta(1))),
            Delete(Memory, "m18"),
        ]
        read, pending = store.dynamo.get, [steps]

        def get(keys: Any) -> Any:
            keys = list(keys)
            if pending and any("memory" in key[0] for key in keys):
                other.transact(acme, pending.pop())
            return read(keys)

        store.dynamo.get = get  # type: ignore[method-assign]
        for field, first in (("occurred_at", ["newest", "m17", "m16"]), ("priority", ["newest", "m9", "m8"])):
            page = store.find(acme, Query(Memory, (), (Order(field, True),), 3))
            assert [one.id for one in page.records] == first
        assert not pending


def test_a_page_along_an_order_is_right_while_a_touch_moves_something_in_it() -> None:
    """A touch is in no log: the head tells that one has moved something, and all is read again."""
    address = dynamodb().new_store()
    with closing(DynamoStore(address)) as store, closing(DynamoStore(address)) as other:
        acme = found(store, "acme")
        store.transact(acme, [Insert(memory(acme, f"m{n}", importance=n + 1.0)) for n in range(9)])
        read, pending = store.dynamo.get, [Touch(Memory, "m0", {"importance": 100})]

        def get(keys: Any) -> Any:
            keys = list(keys)
            if pending and any(key[0].endswith("memory") for key in keys):
                other.transact(acme, [pending.pop()])
            return read(keys)

        store.dynamo.get = get  # type: ignore[method-assign]
        page = store.find(acme, Query(Memory, (), (Order("importance", True),), 4))
        assert not pending
        assert [one.id for one in page.records] == ["m0", "m8", "m7", "m6"]
        assert other.verify() == []


def test_every_operation_that_changes_memories_keeps_entries_and_counts(tmp_path: Any) -> None:
    address = dynamodb().new_store()
    with recollect.open(address, embedder="hash", background=False, citation_root=tmp_path) as mem:
        mem.user.add("Ann", id="ann")
        ids = [mem.remember(f"the anchor {n} of the sea", user="ann", priority=n + 1).id for n in range(7)]
        mem.remember("for a while", user="ann", ttl_seconds=3600)
        mem.revise(ids[0], "another anchor", at="2020-01-01")
        mem.merge(ids[1], [ids[2]])
        mem.unmerge(ids[2])
        mem.forget(ids[3])
        mem.restore(ids[3])
        mem.erase(ids[4])
        mem.archive(ids[5])
        mem.forget(ids[6])
        old = mem.remember("from a moment ago", kind="observation", user="ann").id
        mem.retention.set(kind="observation", keep_days=1e-9, then="archive")
        mem.retention.apply()
        assert mem.show(old).status == "archived"
        store: Any = mem._core.store
        assert mem.list(order="happened").memories[-1].id == ids[0]
        assert mem.list(order="priority", user="ann").memories[-1].id == ids[0]
        mem.export(str(tmp_path / "all.jsonl"))
        assert mem.prune(keep=3).forgotten
        mem.sweep()
        assert mem.list(user="ann").total == len(mem.list(user="ann").memories)
        assert store.verify() == []
    with recollect.open(dynamodb().new_store(), embedder="hash", background=False) as copy:
        copy.import_(str(tmp_path / "all.jsonl"))
        other: Any = copy._core.store
        assert other.verify() == []
        assert copy.list(order="happened").memories[-1].id == ids[0]
