"""What only the DynamoDB store has to keep: its limits, its retries, its unfinished work, its one table."""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.exceptions import ReadTimeoutError

import recollect
from dynamodb_server import dynamodb
from recollect.adapters.records.dynamodb import tallies
from recollect.adapters.records.dynamodb.counts import Counts
from recollect.adapters.records.dynamodb.store import DynamoStore
from recollect.adapters.records.in_memory import MemoryStore
from recollect.domain.agents import Agent
from recollect.domain.conversations import Session
from recollect.domain.memory import Embedding, Memory, Tag
from recollect.domain.record import RECORDS, Record
from recollect.domain.tenancy import Organization, User
from recollect.errors import InvalidSettings, NewerStore, NotARecollectStore, StoreBusy, Unavailable
from recollect.ports.query import Order, Query, equal
from recollect.ports.records import RecordStore, Scope
from recollect.ports.steps import Absent, Delete, DeleteWhere, Insert, Step, Touch, Update
from recollect.testing.conformance.makers import (
    agent,
    embedding,
    found,
    ids,
    memory,
    one_of_each,
    search,
    session,
    stored,
    tag,
    user,
)
from seeds import SOAK

ACME = Scope("acme", actor="tester")


@pytest.fixture
def store() -> Iterator[DynamoStore]:
    made = DynamoStore(dynamodb().new_store(), attempts=3)
    yield made
    made.close()


@pytest.fixture
def acme(store: DynamoStore) -> Scope:
    return found(store, "acme")


def items(store: DynamoStore) -> list[dict[str, Any]]:
    return list(store.dynamo.everything())


def kind_of(item: dict[str, Any]) -> str:
    """The letter of its partition, without the number of a shard."""
    return str(item["p"].split("\x1f")[1][:1])


def state(store: RecordStore, scope: Scope = ACME) -> dict[tuple[str, str], Record]:
    return {
        (table, one.id): one
        for table, record in RECORDS.items()
        for one in store.find(scope, Query(record, deleted="yes")).records
    }


# -- what one item or one transaction cannot hold ------------------------------------------------------------------


def test_a_record_larger_than_an_item_is_cut_and_joined_and_its_old_parts_go(store: DynamoStore, acme: Scope) -> None:
    noise = os.urandom(600_000).hex()
    first = stored(store, acme, memory(acme, text="an anchor", content={"noise": noise}))
    assert store.get(acme, Memory, "fact") == first
    assert len([item for item in items(store) if kind_of(item) == "p"]) > 1
    store.transact(acme, [Touch(Memory, "fact", {"access_count": 1}), Touch(Memory, "fact", {"access_count": 1})])
    store.transact(acme, [Update(first.changed(metadata={"k": noise[:400_000]}))])
    assert store.verify() == []
    store.transact(acme, [Update(first.changed(version=2, content={}))])
    assert [item for item in items(store) if kind_of(item) == "p"] == []
    assert store.verify() == []


def test_thousands_of_steps_are_one_transaction(store: DynamoStore, acme: Scope) -> None:
    many = [memory(acme, f"m{n:04}", f"an anchor word{n}") for n in range(600)]
    with pytest.raises(recollect.errors.DuplicateKey):
        store.transact(acme, [*(Insert(one) for one in many), Insert(many[0])])
    assert state(store).keys() == {("organization", "acme")}
    store.transact(acme, [Insert(one) for one in many])
    assert len(search(store, acme, "anchor", limit=1000)) == 600
    assert (
        store.transact(acme, [DeleteWhere(Memory, (equal("author", None), equal("status", "verified")))]).deleted == 0
    )
    assert store.verify() == []
    assert [item for item in items(store) if kind_of(item) == "x"] == []


def test_nothing_is_left_of_a_deleted_tenant(store: DynamoStore, acme: Scope) -> None:
    globex = found(store, "globex")
    for scope in (acme, globex):
        store.transact(scope, [Insert(one) for one in one_of_each(scope)[1:]])
        stored(store, scope, memory(scope, text="x", content={"noise": os.urandom(400_000).hex()}))
        store.transact(scope, [Delete(Agent, "a-agent")])
    kept = sorted(item["p"] + item["s"] for item in items(store) if not item["p"].startswith("acme"))
    store.transact(acme, [Delete(Organization, "acme")])
    left = sorted(item["p"] + item["s"] for item in items(store))
    assert left == [key for key in kept if key != "\x1ftacme"]
    assert store.verify() == []
    again = found(store, "acme")
    assert store.changes(again, 0)[0].id == "acme"
    assert search(store, again, "x") == []


def test_hostile_organizations_do_not_reach_into_each_other(store: DynamoStore) -> None:
    names = ["a", "a\u001f", "a#r#agent", "ar", "🙂" * 255, "x" * 255, "..", "' OR 1=1 --"]
    scopes = [found(store, name) for name in names if "\u001f" not in name]
    for scope in scopes:
        stored(store, scope, agent(scope, "bot", name=scope.organization_id))
    for scope in scopes:
        assert [one.name for one in store.find(scope, Query(Agent)).records] == [scope.organization_id]
    with pytest.raises(recollect.errors.InvalidInput):
        store.count(Scope("a\u001f"), Query(Agent))


def test_ids_too_long_for_a_key_are_kept_apart_and_in_order(store: DynamoStore, acme: Scope) -> None:
    long = ["🙂" * 254 + end for end in "cab"]
    stored(store, acme, *(agent(acme, id, name=id[-1]) for id in long), agent(acme, "b"))
    stored(store, acme, memory(acme, long[0], agent_id=long[1]), tag(acme, long[0], "sea"))
    assert ids(store, acme, Query(Agent, limit=10)) == ["b", *sorted(long)]
    assert [one.name for id in long for one in [store.get(acme, Agent, id)] if one] == ["c", "a", "b"]
    assert ids(store, acme, Query(Memory, (equal("agent_id", long[1]),))) == [long[0]]
    assert store.transact(acme, [Delete(Agent, long[1])]).deleted == 3
    assert store.verify() == []


# -- unfinished work -----------------------------------------------------------------------------------------------


class Dead(BaseException):
    """The process is gone: no request leaves it any more."""


def dying(store: DynamoStore, after: int) -> Callable[[], int]:
    """Lets so many requests through, then none; tells how many there were.

    Only those that write are counted, but in a soak: between two of them the process leaves the same behind.
    """
    seen = 0

    def before(request: AWSPreparedRequest, **_: Any) -> None:
        nonlocal seen
        if SOAK or b"Write" in request.headers["X-Amz-Target"]:
            seen += 1
            if seen > after:
                raise Dead

    store.dynamo.client.meta.events.register("before-send.dynamodb", before)
    return lambda: seen


def beginning() -> list[Step]:
    return [
        *(Insert(record) for record in (user(ACME), session(ACME, user_id="ann"))),
        *(Insert(agent(ACME, f"old{n:02}")) for n in range(40)),
        *(Insert(memory(ACME, f"m{n}", "an anchor", session_id="talk")) for n in range(10)),
    ]


LARGE: list[Step] = [
    Delete(Session, "talk"),
    DeleteWhere(Agent, (equal("name", "Bot"),)),
    *(Insert(memory(ACME, f"new{n:02}", f"a lantern {n}", user_id="ann")) for n in range(40)),
    *(Insert(tag(ACME, f"new{n:02}", "sea", id=f"t{n}")) for n in range(20)),
]


@pytest.mark.parametrize(
    ("steps", "stride"),
    [(LARGE, 1 if SOAK else 3), ([Delete(Organization, "acme")], 4 if SOAK else 12), (LARGE[:1], 1)],
    ids=["large", "tenant", "small"],
)
def test_a_process_that_dies_between_any_two_requests_leaves_all_or_nothing(steps: list[Step], stride: int) -> None:
    """Every day after 0, 3 and 6 of the 9 writes of the large one, and after 0 and 12 of the 23 of a tenant."""
    plain = MemoryStore()
    address = dynamodb().new_store()
    with_all = DynamoStore(address)
    for store in (plain, with_all):
        found(store, "acme")
        store.transact(ACME, beginning())
    template = items(with_all)
    with_all.close()
    before = {key: (one.version, one.is_deleted) for key, one in state(plain).items()}
    plain.transact(ACME, steps)
    wanted = {key: (one.version, one.is_deleted) for key, one in state(plain).items()}
    outcomes, after = set(), 0
    while True:
        store, acknowledged = DynamoStore(dynamodb().new_store()), False
        store.dynamo.put_all(template)
        requests = dying(store, after)
        try:
            store.transact(ACME, steps)
            acknowledged = True
        except Dead:
            pass
        again = DynamoStore(store.address)
        seen = {key: (one.version, one.is_deleted) for key, one in state(again).items()}
        assert seen == wanted or (seen == before and not acknowledged), f"half done after {after} requests"
        outcomes.add(seen == wanted)
        assert sorted(search(again, ACME, "anchor", "lantern")) == sorted(id for table, id in seen if table == "memory")
        assert again.verify() == []
        again.close()
        if acknowledged and requests() <= after:
            break
        after += stride
    assert outcomes == {True, False}


def test_one_who_wakes_up_late_neither_undoes_nor_repeats(store: DynamoStore, acme: Scope) -> None:
    sleeper = DynamoStore(store.address)
    store.transact(acme, beginning())
    seen: list[int] = []

    def others_finish(**_: Any) -> None:
        """As the sleeper is about to apply its second piece, others finish its work and go on."""
        seen.append(1)
        if len(seen) == 8:
            assert store.get(acme, Memory, "new00") is not None
            store.transact(acme, [Delete(Memory, "new00"), Delete(User, "ann")])

    sleeper.dynamo.client.meta.events.register("before-send.dynamodb.TransactWriteItems", others_finish)
    seen.extend([0] * 4)
    sleeper.transact(acme, LARGE)
    assert len(seen) >= 8
    assert ids(store, acme, Query(Memory, (equal("user_id", "ann"),), deleted="yes")) == []
    assert store.get(acme, Memory, "new00", deleted=True) is None
    assert store.verify() == []
    sleeper.close()


# -- others in between ---------------------------------------------------------------------------------------------


def once_before(store: DynamoStore, operation: str, act: Callable[[], object], skip: int = 0) -> list[int]:
    """Somebody else acts just before the first such request of this store is sent, or a later one."""
    acted: list[int] = []
    seen: list[int] = []

    def before(**_: Any) -> None:
        seen.append(1)
        if not acted and len(seen) > skip:
            acted.append(1)
            act()

    store.dynamo.client.meta.events.register(f"before-send.dynamodb.{operation}", before)
    return acted


@pytest.mark.parametrize("others", [1, 400], ids=["a few", "many"])
def test_a_read_of_several_requests_is_of_one_moment(store: DynamoStore, acme: Scope, others: int) -> None:
    other = DynamoStore(store.address)
    stored(store, acme, user(acme), memory(acme, "a", user_id="ann"), memory(acme, "b", user_id="ann"))
    swap: list[Step] = [Delete(Memory, "a"), Insert(memory(acme, "c", user_id="ann"))]
    more = [Insert(agent(acme, f"{n}")) for n in range(others)]
    acted = once_before(store, "BatchGetItem", lambda: other.transact(acme, [*swap, *more]))
    assert ids(store, acme, Query(Memory, (equal("user_id", "ann"),))) == ["b", "c"]
    assert acted
    other.close()


def test_a_decision_is_made_again_when_others_were_faster(store: DynamoStore, acme: Scope) -> None:
    other = DynamoStore(store.address)
    acted = once_before(store, "TransactWriteItems", lambda: stored(other, acme, memory(acme, "theirs", author="x")))
    absent = Absent(Memory, (equal("author", "x"),))
    with pytest.raises(recollect.errors.RequirementFailed):
        store.transact(acme, [absent, Insert(memory(acme, "mine", author="x"))])
    assert acted
    assert ids(store, acme, Query(Memory)) == ["theirs"]
    other.close()


def test_verify_takes_what_others_write_meanwhile_for_no_damage(store: DynamoStore, acme: Scope) -> None:
    other = DynamoStore(store.address)
    large = [memory(acme, f"m{n}", content={"noise": os.urandom(400_000).hex()}) for n in range(4)]
    stored(store, acme, user(acme), *large)

    def change() -> None:
        other.transact(acme, [Delete(Memory, one.id) for one in large])
        stored(other, acme, *(memory(acme, f"new{n}", user_id="ann") for n in range(50)))
        found(other, "globex")

    acted = once_before(store, "Scan", change, skip=1)
    assert store.verify() == []
    assert acted
    other.close()


def test_a_touch_is_neither_lost_nor_in_the_way(store: DynamoStore, acme: Scope) -> None:
    other = DynamoStore(store.address)
    stored(store, acme, session(acme), memory(acme, session_id="talk"))
    touch = Touch(Memory, "fact", {"access_count": 1})
    once_before(store, "TransactWriteItems", lambda: other.transact(acme, [touch]))
    store.transact(acme, [Delete(Session, "talk"), touch])
    kept = store.get(acme, Memory, "fact")
    assert kept is not None
    assert (kept.session_id, kept.access_count, kept.version) == (None, 2, 2)
    other.close()


# -- trouble on the way --------------------------------------------------------------------------------------------


def answering(store: DynamoStore, operation: str, times: int, status: int, code: str) -> list[int]:
    """The server answers so many requests with an error of its own."""
    given: list[int] = []

    def before(request: Any, **_: Any) -> AWSResponse | None:
        if len(given) >= times:
            return None
        given.append(status)
        return AWSResponse(request.url, status, {"content-type": "application/x-amz-json-1.0"}, Body(code))

    store.dynamo.client.meta.events.register(f"before-send.dynamodb.{operation}", before)
    return given


class Body:
    def __init__(self, code: str) -> None:
        self._raw = b'{"__type":"com.amazonaws.dynamodb.v20120810#%s","message":"injected"}' % code.encode()

    def stream(self) -> Iterator[bytes]:
        yield self._raw


@pytest.mark.parametrize("operation", ["BatchGetItem", "Query", "TransactWriteItems", "BatchWriteItem"])
@pytest.mark.parametrize(
    ("status", "code"),
    [(400, "ProvisionedThroughputExceededException"), (400, "ThrottlingException"), (500, "InternalServerError")],
)
def test_throttling_and_failures_of_the_server_are_tried_again(
    store: DynamoStore, acme: Scope, operation: str, status: int, code: str
) -> None:
    given = answering(store, operation, 1, status, code)
    stored(store, acme, *(agent(acme, f"a{n:03}") for n in range(120)))
    assert len(store.find(acme, Query(Agent)).records) == 120
    assert given == [status]


def test_trouble_that_lasts_is_a_typed_error_and_no_damage(store: DynamoStore, acme: Scope) -> None:
    given = answering(store, "Query", 3, 400, "ProvisionedThroughputExceededException")
    with pytest.raises(StoreBusy):
        store.find(acme, Query(Agent))
    given.clear()
    answering(store, "BatchGetItem", 3, 503, "ServiceUnavailable")
    with pytest.raises(Unavailable):
        store.find(acme, Query(Agent))


def losing_answers(store: DynamoStore, times: int, skip: int) -> list[int]:
    """The server does what it is asked, but its answers are lost, from a certain request on."""
    lost: list[int] = []
    seen: list[int] = []

    def before(request: Any, **_: Any) -> None:
        seen.append(1)
        if len(seen) > skip and len(lost) < times:
            lost.append(1)
            headers = {
                name: value.decode() if isinstance(value, bytes) else value for name, value in request.headers.items()
            }
            urllib.request.urlopen(urllib.request.Request(request.url, request.body, headers)).read()
            raise ReadTimeoutError(endpoint_url=request.url)

    store.dynamo.client.meta.events.register("before-send.dynamodb.TransactWriteItems", before)
    return lost


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("count", [1, 150], ids=["small", "large"])
def test_a_transaction_whose_answer_is_lost_happens_once(
    store: DynamoStore, acme: Scope, times: int, count: int
) -> None:
    stored(store, acme, session(acme, metadata={"n": 0}), memory(acme))
    before = store.changes(acme, 0)[-1].seq
    lost = losing_answers(store, times, skip=count > 1)  # a large one first asks others to wait
    counted = session(acme, metadata={"n": 1})
    step = Touch(Memory, "fact", {"access_count": 1})
    done = store.transact(acme, [Update(counted), step, *(Insert(agent(acme, f"a{n}")) for n in range(count))])
    assert len(lost) == times
    assert done.seq == before + 1 + count
    assert store.select(acme, Query(Session), ("metadata", "version")) == [({"n": 1}, 2)]
    assert store.select(acme, Query(Memory), ("access_count",)) == [(1,)]
    assert store.verify() == []


def test_a_server_that_is_not_there_is_a_typed_error() -> None:
    with pytest.raises(Unavailable):
        DynamoStore("dynamodb://table?region=eu-west-1&endpoint=http://127.0.0.1:9", attempts=1)


@pytest.mark.parametrize(
    "address",
    ["dynamodb://", "dynamodb://key:secret@table", "dynamodb://table?colour=red", "dynamodb://table/more"],
)
def test_a_wrong_address_says_what_is_wrong(address: str) -> None:
    with pytest.raises(InvalidSettings) as caught:
        DynamoStore(address)
    assert "secret" not in str(caught.value)


def test_another_table_is_not_taken_for_ours(store: DynamoStore) -> None:
    client = dynamodb().client
    client.create_table(
        TableName="somebody-elses",
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
    )
    with pytest.raises(NotARecollectStore):
        DynamoStore(dynamodb().address("somebody-elses"))


def test_a_newer_table_is_refused(store: DynamoStore) -> None:
    store.dynamo.put_all([{"p": "\x1fs", "s": "9999", "c": "x", "n": "later"}])
    with pytest.raises(NewerStore):
        DynamoStore(store.address)


def test_a_server_without_backups_says_what_to_do_instead(store: DynamoStore, tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as caught:
        store.backup(tmp_path / "copy")
    assert "export" in caught.value.remedy


# -- checking and mending ------------------------------------------------------------------------------------------


def spoiled(store: DynamoStore, kind: str) -> None:
    mine = [item for item in items(store) if item["p"].split("\x1f")[0] == "acme"]
    if kind == "body":
        item = next(item for item in mine if item["p"].endswith("\x1fmemory"))
        store.dynamo.put_all([{**item, "b": item["b"][:-1] + b"?"}])
    elif kind == "surplus":
        store.dynamo.put_all([{"p": "acme\x1fi2\x1fmemory\x1fkind", "s": "fact\x1fnobody", "d": "nobody"}])
    elif kind == "first layout":
        store.dynamo.put_all([{"p": "acme\x1fi", "s": "memory\x1fkind\x1ffact\x1fnobody", "d": "nobody"}])
    elif kind == "facts":
        item = next(item for item in mine if item["p"].endswith("\x1fmemory\x1fuser_id") and "f" in item)
        store.dynamo.put_all([{**item, "f": item["f"].replace("hypothesis", "archived")}])
    elif kind in ("order", "rare"):
        field = {"order": "occurred_at", "rare": "priority"}[kind]
        item = next(item for item in mine if item["p"].endswith(f"\x1fmemory\x1f{field}"))
        store.dynamo.delete_all([(item["p"], item["s"])])
        store.dynamo.put_all([{**item, "s": "2001" + item["s"][4:]}])
    elif kind in ("tally", "hour"):
        item = next(item for item in mine if kind_of(item) == "c" and item["p"].endswith("hours") == (kind == "hour"))
        keys, key = store.tenant("acme").keys_at(store.tenant("acme").head()), (item["p"], item["s"])
        group = next(iter(tallies.read(keys, key, item["d"]) or {}))
        store.dynamo.put_all([{**item, "d": tallies.changed_text(keys, key, item["d"], {group: 1})}])
    elif kind == "surplus tally":
        item = next(item for item in mine if kind_of(item) == "c" and item["p"].endswith("user_id"))
        store.dynamo.put_all([{**item, "s": "nobody\x1f"}])
    elif kind == "no tally":
        store.dynamo.delete_all([(item["p"], item["s"]) for item in mine if kind_of(item) == "c"])
    elif kind == "counts":
        item = next(item for item in mine if item["p"].endswith("\x1fh"))
        store.dynamo.put_all([{**item, "n": Counts().encoded()}])
    else:
        letter = {"entry": "i", "guard": "u", "part": "p", "log": "l"}[kind]
        item = next(item for item in mine if kind_of(item) == letter)
        store.dynamo.delete_all([(item["p"], item["s"])])


TALLIES = ["tally", "hour", "surplus tally", "no tally"]
DERIVED = ["entry", "guard", "surplus", "first layout", "facts", "counts", "order", "rare", *TALLIES]


@pytest.mark.parametrize("kind", [*DERIVED, "body", "part", "log"])
def test_verify_names_what_is_wrong_and_mend_makes_the_derived_again(
    store: DynamoStore, acme: Scope, kind: str
) -> None:
    stored(store, acme, user(acme, email="a@b.c"), memory(acme, text="an anchor", user_id="ann", priority=9))
    stored(store, acme, memory(acme, "large", content={"noise": os.urandom(400_000).hex()}))
    assert store.verify() == []
    spoiled(store, kind)
    problems = store.verify()
    assert [problem.organization_id for problem in problems] == ["acme"] * len(problems) != []
    done = store.mend()
    if kind in DERIVED:
        assert len(done) == 1
        assert store.verify() == []
        assert ids(store, acme, Query(Memory, (equal("user_id", "ann"),))) == ["fact"]
        assert store.count(acme, Query(Memory)) == 2
        assert store.count(acme, Query(Memory, (equal("user_id", "ann"),))) == 1
        for field in ("occurred_at", "priority"):
            assert ids(store, acme, Query(Memory, (), (Order(field),), 5)) in (["fact", "large"], ["large", "fact"])


# -- through the front door ----------------------------------------------------------------------------------------


def test_everything_works_through_the_client(tmp_path: Path) -> None:
    address = dynamodb().new_store()
    with recollect.open(address, embedder="hash", citation_root=tmp_path) as mem:
        first = mem.remember("Alice prefers pytest", cites=[recollect.cite.user("alice", "said so")], tags=["testing"])
        mem.remember_many([f"the lantern number {n}" for n in range(60)])
        assert mem.recall("which test framework does Alice like?").hits[0].id == first.id
        assert "pytest" in str(mem.context("write tests for Alice", tokens=400))
        assert mem.promote(first.id).status == "verified"
        mem.revise(first.id, "Alice loves pytest")
        mem.forget(first.id)
        assert first.id not in [hit.id for hit in mem.recall("Alice").hits]
        mem.restore(first.id)
        exported = mem.export(str(tmp_path / "a.jsonl"))
        assert mem.reindex().remaining == 0
        assert mem.verify().sound
        assert mem.doctor().well
        mem.erase(first.id)
    with recollect.open(address, embedder="hash") as mem:
        assert mem.recall("lantern", limit=100).hits
        assert mem.verify().memories == 60
    with recollect.open(dynamodb().new_store(), embedder="hash") as other:
        other.import_(str(tmp_path / "a.jsonl"))
        assert other.export(str(tmp_path / "b.jsonl")).hash == exported.hash
        assert other.verify().sound
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()


def test_what_has_expired_is_not_shown_and_goes_with_a_sweep() -> None:
    with recollect.open(dynamodb().new_store(), embedder="hash") as mem:
        kept, gone = mem.remember("an anchor that stays"), mem.remember("an anchor that goes", ttl_seconds=3600)
        store, scope = mem._core.store, mem._scope
        past = datetime(2020, 1, 1, tzinfo=UTC)
        store.transact(scope, [Touch(Memory, gone.id, put={"expires_at": past})])
        assert [hit.id for hit in mem.recall("anchor").hits] == [kept.id]
        assert mem.sweep().expired == 1
        assert store.get(scope, Memory, gone.id, deleted=True) is None
        assert store.verify() == []


def test_a_search_by_vector_sees_what_another_process_just_wrote(store: DynamoStore, acme: Scope) -> None:
    other = DynamoStore(store.address)
    stored(store, acme, memory(acme), memory(acme, "second"))
    with store.vectors_of("acme").vector_snapshot() as nothing:
        stored(other, acme, embedding(acme, "fact", b"\x00\x3c"))
        assert nothing.rows_after(0, 10) == []
    with store.vectors_of("acme").vector_snapshot() as one:
        (row,) = one.rows_after(0, 10)
        other.transact(acme, [Delete(Embedding, "vector"), Insert(embedding(acme, "second", b"\x00\x3c", id="v2"))])
        with store.vectors_of("acme").vector_snapshot() as two:
            assert [found.memory_id for found in two.rows_after(0, 10)] == ["second"]
            assert two.rows_at([row.seq]) == []
        assert one.rows_at([row.seq]) == [row]
        assert one.living_seqs(0, 10_000) == [row.seq]
    store.transact(acme, [Delete(Tag, "nothing")])
    other.close()
