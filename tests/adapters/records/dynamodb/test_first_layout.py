"""Tables of the first layout, in which all index entries of a tenant shared a partition, are moved when used."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing, suppress
from typing import Any

import pytest

from dynamodb_server import dynamodb
from recollect.adapters.records.dynamodb.client import TransactionCancelled
from recollect.adapters.records.dynamodb.codec import Item
from recollect.adapters.records.dynamodb.keys import SCHEMA, SEPARATOR
from recollect.adapters.records.dynamodb.store import DynamoStore
from recollect.domain.memory import Memory
from recollect.domain.record import RECORDS, Record, new_id
from recollect.ports.query import Query, equal
from recollect.ports.records import Scope
from recollect.ports.steps import Delete, Insert
from recollect.testing.conformance.makers import found, ids, memory, one_of_each, search, session, tag, user
from seeds import some

ACME = Scope("acme", actor="tester")
# What a program of the first layout asks of a head before it moves it.
FREE_THEN = "q = :was AND i = :inc AND attribute_not_exists(x) AND (attribute_not_exists(u) OR u < :now OR c = :c)"


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


def filled() -> list[Item]:
    with closing(DynamoStore(f"{dynamodb().new_store()}&shards=1")) as store:
        acme, globex = found(store, "acme"), found(store, "globex")
        for scope in (acme, globex):
            store.transact(scope, [Insert(one) for one in one_of_each(scope)[1:]])
        more = [memory(acme, f"m{n:02}", f"an anchor {n}", session_id="talk", user_id="ann") for n in range(40)]
        tags = [tag(acme, f"m{n:02}", "sea", id=f"t{n}") for n in range(20)]
        store.transact(acme, [Insert(one) for one in (user(acme), session(acme), *more, *tags)])
        return in_first_layout(store.dynamo.everything())


def table_of(items: Iterable[Item]) -> str:
    """A table with these items, and no program that has opened it yet."""
    address = dynamodb().new_store()
    keys = [{"AttributeName": name, "KeyType": kind} for name, kind in (("p", "HASH"), ("s", "RANGE"))]
    kinds = [{"AttributeName": name, "AttributeType": "S"} for name in "ps"]
    table = address.partition("://")[2].partition("?")[0]
    made = {"KeySchema": keys, "AttributeDefinitions": kinds, "BillingMode": "PAY_PER_REQUEST"}
    dynamodb().client.create_table(TableName=table, **made)
    with closing(DynamoStore(dynamodb().new_store())) as writer:
        writer.dynamo.table = table
        writer.dynamo.put_all(items)
    return address


def state(store: DynamoStore, scope: Scope = ACME) -> dict[tuple[str, str], Record]:
    return {
        (table, one.id): one
        for table, record in RECORDS.items()
        for one in store.find(scope, Query(record, deleted="yes")).records
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


def test_a_table_of_the_first_layout_is_moved_and_works() -> None:
    with closing(DynamoStore(table_of(filled()))) as store:
        assert ids(store, ACME, Query(Memory, (equal("session_id", "talk"),))) == [f"m{n:02}" for n in range(40)]
        assert store.count(ACME, Query(Memory, (equal("user_id", "ann"),))) >= 40
        store.transact(ACME, [Insert(memory(ACME, "new", session_id="talk")), Delete(Memory, "m00")])
        assert "m00" not in search(store, ACME, "anchor", limit=100)
        assert len(state(store, Scope("globex"))) > 30
        assert store.verify() == []
        assert not {name for name in sorts(store) if name.startswith("old")}
        head = store.tenant("acme").head()
        assert head.layout == 2
        assert head.counts() is not None


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


def test_a_move_that_dies_between_any_two_writes_is_begun_again_and_nothing_is_lost() -> None:
    template = filled()
    address = table_of(template)
    writes = moved_and_killed(address, -1)
    with closing(DynamoStore(address)) as whole:
        wanted, others = state(whole), state(whole, Scope("globex"))
        in_place = sorts(whole)
    assert writes > 5
    for after in some(4, range(writes), "writes after which a move dies"):
        address = table_of(template)
        assert moved_and_killed(address, after) == after
        with closing(DynamoStore(address)) as again:
            assert state(again) == wanted, f"after {after} writes"
            assert state(again, Scope("globex")) == others
            assert again.verify() == []
            assert sorts(again) == in_place


def test_two_who_move_a_tenant_at_once_do_not_disturb_each_other() -> None:
    address = table_of(filled())
    first, second = DynamoStore(address), DynamoStore(address)
    seen: list[int] = []

    def overtake(**_: Any) -> None:
        seen.append(1)
        if len(seen) == 3:
            second.transact(ACME, [Insert(memory(ACME, "theirs", "an anchor", session_id="talk"))])

    first.dynamo.client.meta.events.register("before-send.dynamodb.TransactWriteItems", overtake)
    first.transact(ACME, [Insert(memory(ACME, "mine", "an anchor", session_id="talk"))])
    assert len(seen) >= 3
    there = ids(second, ACME, Query(Memory, (equal("session_id", "talk"),)))
    assert {"mine", "theirs"} < set(there)
    assert len(there) == 42
    assert second.verify() == []
    first.close()
    second.close()


def test_a_program_of_the_first_layout_that_still_runs_writes_no_more() -> None:
    with closing(DynamoStore(table_of(filled()))) as store:
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


def test_a_tenant_that_an_old_program_made_meanwhile_is_moved_too() -> None:
    template = filled()
    with closing(DynamoStore(dynamodb().new_store())) as store:
        found(store, "initech")
        store.dynamo.put_all(item for item in template if item["p"] != SCHEMA)
        assert len(ids(store, ACME, Query(Memory, (equal("session_id", "talk"),)))) == 40
        assert store.verify() == []
