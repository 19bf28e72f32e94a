"""Tables of older layouts are brought to this one when they are used: entries, guards and counts, not records.

layouts/*.jsonl.xz are the items of two organizations as programs of the second and of the third layout left them, a
line each; bytes in base64. What a program of the first would have written follows from those of the second.
"""

from __future__ import annotations

import base64
import json
import lzma
from collections.abc import Iterable
from contextlib import closing, suppress
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dynamodb_meter import Meter
from dynamodb_server import dynamodb
from recollect.adapters.records.common.migrations import migrations
from recollect.adapters.records.dynamodb.client import TransactionCancelled, plain
from recollect.adapters.records.dynamodb.codec import Item
from recollect.adapters.records.dynamodb.keys import SCHEMA, SEPARATOR
from recollect.adapters.records.dynamodb.log import LAYOUT
from recollect.adapters.records.dynamodb.store import DynamoStore
from recollect.domain.memory import Embedding, Memory
from recollect.domain.record import RECORDS, Record, new_id
from recollect.ports.query import Order, Query, Spans, equal
from recollect.ports.records import Scope
from recollect.ports.steps import Delete, Insert, Touch
from recollect.testing.conformance.makers import NOON, found, ids, memory, search
from seeds import some

ACME = Scope("acme", actor="tester")
TOLD = [f"m{n:02}" for n in range(40) if n not in (5, 7)]  # one is forgotten, one was deleted
# What a program of the first layout asks of a head before it moves it.
FREE_THEN = "q = :was AND i = :inc AND attribute_not_exists(x) AND (attribute_not_exists(u) OR u < :now OR c = :c)"


@cache
def items_in(layout: str) -> tuple[Item, ...]:
    if layout == "first":
        return tuple(in_first_layout(items_in("second")))
    path = Path(__file__).parent / "layouts" / f"{layout}.jsonl.xz"
    lines = lzma.decompress(path.read_bytes()).decode().splitlines()
    return tuple(plain({name: _typed(value) for name, value in json.loads(line).items()}) for line in lines)


def _typed(value: dict[str, Any]) -> dict[str, Any]:
    return {"B": base64.b64decode(value["B"])} if "B" in value else value


def in_first_layout(items: Iterable[Item]) -> list[Item]:
    """The items that a program of the first layout would have written for the same records."""
    made: list[Item] = []
    for item in items:
        tenant, kind, *words = item["p"].split(SEPARATOR)
        if kind == "i":
            value = item["s"].rpartition(SEPARATOR)[0]
            for id in item["d"].split(SEPARATOR):
                sort = SEPARATOR.join((*words, value, id))
                made.append({"p": f"{tenant}{SEPARATOR}i", "s": sort, "d": id})
        elif kind == "u":
            made.append({"p": f"{tenant}{SEPARATOR}u", "s": SEPARATOR.join((*words, item["s"])), "d": item["d"]})
        elif kind == "h":
            made.append({name: value for name, value in item.items() if name not in ("v", "n", "c", "u")})
        elif not (item["p"] == SCHEMA and int(item["s"]) > 9000):
            made.append(item)
    return made


def table_of(items: Iterable[Item]) -> str:
    """A table with these items, and no program that has opened it yet; migrations that came later are noted as done, so
    that nothing but the layout is behind."""
    address = dynamodb().new_store()
    keys = [{"AttributeName": name, "KeyType": kind} for name, kind in (("p", "HASH"), ("s", "RANGE"))]
    kinds = [{"AttributeName": name, "AttributeType": "S"} for name in "ps"]
    table = address.partition("://")[2].partition("?")[0]
    made = {"KeySchema": keys, "AttributeDefinitions": kinds, "BillingMode": "PAY_PER_REQUEST"}
    dynamodb().client.create_table(TableName=table, **made)
    with closing(DynamoStore(dynamodb().new_store())) as writer:
        writer.dynamo.table = table
        writer.dynamo.put_all(items)
        done = ({"p": SCHEMA, "s": f"{one.number:04d}", "c": one.checksum, "n": one.name} for one in migrations())
        writer.dynamo.put_all(done)
    return address


def state(store: DynamoStore, scope: Scope = ACME) -> dict[tuple[str, str], Record]:
    with store.snapshot(scope) as moment:
        return {
            (table, one.id): one
            for table, record in RECORDS.items()
            for one in moment.find(scope, Query(record, deleted="yes")).records
        }


def sorts(store: DynamoStore) -> dict[str, int]:
    """How many items there are of each kind, and of entries and guards in the old place."""
    counts: dict[str, int] = {}
    for item in store.dynamo.everything():
        words = item["p"].split(SEPARATOR)
        name = f"old {words[1]}" if len(words) == 2 and words[1] in "iu" else words[1]
        counts[name] = counts.get(name, 0) + 1
    return counts


class Dead(BaseException):
    """The process is gone: no request leaves it any more."""


@pytest.mark.parametrize("layout", ["first", "third"])
def test_a_table_of_an_older_layout_is_moved_and_works(layout: str) -> None:
    with closing(DynamoStore(table_of(items_in(layout)))) as store:
        assert ids(store, ACME, Query(Memory, (equal("session_id", "talk"),))) == TOLD
        assert store.count(ACME, Query(Memory, (equal("user_id", "ann"),))) >= len(TOLD)
        store.transact(ACME, [Insert(memory(ACME, "new", session_id="talk")), Delete(Memory, "m00")])
        assert "m00" not in search(store, ACME, "anchor", limit=100)
        assert len(state(store, Scope("globex"))) > 30
        assert store.verify() == []
        assert not {name for name in sorts(store) if name.startswith("old")}
        head = store.tenant("acme").head()
        assert (head.layout, head.shards) == (LAYOUT, 4 if layout == "third" else 1)
        assert head.counts() is not None


@pytest.mark.parametrize("layout", ["second", "third"])
def test_what_is_in_an_older_table_is_listed_in_order_and_counted_without_reading_it_all(layout: str) -> None:
    """Before anything is written to it."""
    with closing(DynamoStore(table_of(items_in(layout)))) as store:
        told = store.find(ACME, Query(Memory, (equal("session_id", "talk"),))).records
        for field in ("occurred_at", "priority", "confidence", "importance"):
            query = Query(Memory, (equal("session_id", "talk"),), (Order(field, True),), 5)
            wanted = sorted(told, key=lambda one: (getattr(one, field), one.id), reverse=True)
            assert [one.id for one in store.find(ACME, query).records] == [one.id for one in wanted[:5]], field
        with Meter(store).cost() as cost:
            assert store.find(ACME, Query(Memory, (), (Order("occurred_at", True),), 3)).records
            assert store.count(ACME, Query(Memory, (equal("user_id", "ann"),))) >= len(told)
            edges = (NOON, NOON + timedelta(hours=5))
            assert store.count_by(ACME, Query(Memory), (Spans("created_at", edges),))[(1,)] > 10
            assert not store.select(ACME, Query(Embedding, (equal("model", "another"),), limit=1), ("id",))
        assert cost.read_units <= 40
        store.transact(ACME, [Touch(Memory, "m01", {"importance": 9})])
        assert store.find(ACME, Query(Memory, (), (Order("importance", True),), 1)).records[0].id == "m01"
        assert store.verify() == []


def moved_and_killed(address: str, after: int) -> int:
    """Moves a tenant as a process that is killed after so many writes would; how many there were."""
    seen: list[int] = []

    def before(**_: Any) -> None:
        if len(seen) == after:
            raise Dead
        seen.append(1)

    store = DynamoStore(address)
    for operation in ("TransactWriteItems", "BatchWriteItem"):
        store.dynamo.client.meta.events.register(f"before-send.dynamodb.{operation}", before)
    with suppress(Dead):
        store.tenant("acme").head()
    return len(seen)


@pytest.mark.parametrize("layout", ["first", "third"])
def test_a_move_that_dies_between_any_two_writes_is_begun_again_and_nothing_is_lost(layout: str) -> None:
    address = table_of(items_in(layout))
    writes = moved_and_killed(address, -1)
    with closing(DynamoStore(address)) as whole:
        wanted, others = state(whole), state(whole, Scope("globex"))
        in_place = sorts(whole)
    assert writes >= 5
    for after in some(2, range(writes), f"writes after which a move from the {layout} layout dies"):
        address = table_of(items_in(layout))
        assert moved_and_killed(address, after) == after
        with closing(DynamoStore(address)) as again:
            assert state(again) == wanted, f"after {after} writes"
            assert state(again, Scope("globex")) == others
            assert again.verify() == []
            assert sorts(again) == in_place


@pytest.mark.parametrize("layout", ["first", "second"])
def test_two_who_move_a_tenant_at_once_do_not_disturb_each_other(layout: str) -> None:
    address = table_of(items_in(layout))
    first, second = DynamoStore(address), DynamoStore(address)
    seen: list[int] = []

    def overtake(**_: Any) -> None:
        seen.append(1)
        if len(seen) == 3:
            second.transact(ACME, [Insert(memory(ACME, "theirs", "an anchor", session_id="talk"))])

    first.dynamo.client.meta.events.register("before-send.dynamodb.TransactWriteItems", overtake)
    first.transact(ACME, [Insert(memory(ACME, "mine", "an anchor", session_id="talk"))])
    assert len(seen) >= 3
    assert ids(second, ACME, Query(Memory, (equal("session_id", "talk"),))) == [*TOLD, "mine", "theirs"]
    assert second.verify() == []
    first.close()
    second.close()


def test_a_program_of_the_first_layout_that_still_runs_writes_no_more() -> None:
    with closing(DynamoStore(table_of(items_in("first")))) as store:
        tenant = store.tenant("acme")
        before = tenant.raw_head()
        asked = {"was": before.seq, "inc": before.incarnation, "now": 1_800_000_000, "c": ""}
        old_write = store.dynamo.update(tenant.keys.head, "SET q = :q REMOVE c, u", FREE_THEN, q=9999, **asked)
        assert tenant.head().seq == before.seq
        with pytest.raises(TransactionCancelled):
            store.dynamo.transact([old_write], new_id())
        found(store, "initech")
        fresh = store.tenant("initech")
        asked |= {"was": fresh.head().seq, "inc": fresh.head().incarnation}
        old_write = store.dynamo.update(fresh.keys.head, "SET q = :q REMOVE c, u", FREE_THEN, q=9, **asked)
        with pytest.raises(TransactionCancelled):
            store.dynamo.transact([old_write], new_id())


@pytest.mark.parametrize("layout", ["first", "third"])
def test_a_tenant_that_an_old_program_made_meanwhile_is_moved_too(layout: str) -> None:
    with closing(DynamoStore(dynamodb().new_store())) as store:
        found(store, "initech")
        store.dynamo.put_all(item for item in items_in(layout) if item["p"] != SCHEMA)
        assert ids(store, ACME, Query(Memory, (equal("session_id", "talk"),))) == TOLD
        assert store.verify() == []
