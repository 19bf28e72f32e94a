"""Whichever request to DynamoDB fails, and however: all is done or nothing, and who asked is told the truth.

For transactions of every size the n-th request fails, for every n, alone or with all that follow: it never arrives,
the server answers with an error of its own, or it is done and only the answer is lost, which a server may also put into
an error of its own. One failure alone is never told when all was done, and never taken for a conflict.
"""

from __future__ import annotations

import random
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from functools import cache
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import EndpointConnectionError, ReadTimeoutError

from dynamodb_server import dynamodb
from recollect.adapters.records.dynamodb.store import DynamoStore
from recollect.adapters.records.in_memory import MemoryStore
from recollect.domain.agents import Agent
from recollect.domain.conversations import Session
from recollect.domain.memory import Memory, Tag
from recollect.domain.tenancy import Organization
from recollect.errors import Closed, RecollectError, Unavailable
from recollect.ports.query import Query, equal
from recollect.ports.records import RecordStore, Scope
from recollect.ports.steps import Committed, Delete, DeleteWhere, Insert, Step, Update
from recollect.testing.conformance.makers import NOON, agent, found, memory, search, session, tag, user

ACME = Scope("acme", actor="tester")
BEGINNING: list[Step] = [
    Insert(session(ACME)),
    Insert(user(ACME)),
    *(Insert(agent(ACME, f"old{n}")) for n in range(4)),
    *(Insert(memory(ACME, f"m{n}", "an anchor", session_id="talk")) for n in range(4)),
]
WORK: dict[str, list[Step]] = {
    "small": [
        Insert(memory(ACME, "new", "a lantern", user_id="ann", priority=9)),
        Insert(tag(ACME, "new", "sea", id="t")),
        Update(memory(ACME, "m1", "a buoy", user_id="ann", occurred_at=NOON + timedelta(days=1))),
    ],
    "large": [
        Delete(Session, "talk"),
        DeleteWhere(Agent, (equal("name", "Bot"),)),
        *(Insert(memory(ACME, f"new{n:02}", f"a lantern {n}")) for n in range(40)),
    ],
    "the tenant": [Delete(Organization, "acme")],
}
SKIPPED = {"large": (9, 1), "the tenant": (240, 6), "small": (1, 1)}  # in everyday runs, and in a soak
WAYS = ["never arrives", "refused", "answer lost", "done but refused"]
HEADERS = {"content-type": "application/x-amz-json-1.0"}


class Body:
    def stream(self) -> Iterator[bytes]:
        yield b'{"__type":"com.amazonaws.dynamodb.v20120810#InternalServerError","message":"injected"}'


class Breaker:
    """Makes requests fail by their numbers, and tells how many there were."""

    def __init__(self, store: DynamoStore) -> None:
        self.rest()
        store.dynamo.client.meta.events.register("before-send.dynamodb", self._before)

    def rest(self) -> None:
        self.arm(range(0), "")

    def arm(self, failing: range, way: str) -> None:
        self.failing, self.way, self.seen, self.broke = failing, way, 0, [""][:0]

    def _before(self, request: Any, **_: Any) -> AWSResponse | None:
        self.seen += 1
        if self.seen not in self.failing:
            return None
        self.broke.append(request.headers["X-Amz-Target"].decode().partition(".")[2])
        if self.way in ("answer lost", "done but refused"):
            done_all_the_same(request)
        if self.way == "never arrives":
            raise EndpointConnectionError(endpoint_url=request.url)
        if self.way == "answer lost":
            raise ReadTimeoutError(endpoint_url=request.url)
        return AWSResponse(request.url, 500, HEADERS, Body())


def done_all_the_same(request: Any) -> None:
    plain = {name: value.decode() if isinstance(value, bytes) else value for name, value in request.headers.items()}
    try:
        urllib.request.urlopen(urllib.request.Request(request.url, request.body, plain)).read()
    except urllib.error.HTTPError as error:  # a condition that does not hold is an answer like any other
        error.close()


def state(store: RecordStore) -> dict[tuple[str, str], Any]:
    kinds = (Organization, Agent, Session, Memory, Tag)
    records = [one for kind in kinds for one in store.find(ACME, Query(kind)).records]
    return {(one.shape.table, one.id): (one.version, getattr(one, "text", None)) for one in records}


@cache
def plainly(work: str) -> dict[tuple[str, str], Any]:
    plain = MemoryStore()
    found(plain, "acme")
    plain.transact(ACME, BEGINNING)
    if work:
        plain.transact(ACME, WORK[work])
    return state(plain)


@pytest.fixture(scope="module")
def template() -> list[dict[str, Any]]:
    with closing(DynamoStore(dynamodb().new_store())) as store:
        found(store, "acme")
        store.transact(ACME, BEGINNING)
        return list(store.dynamo.everything())


def failures(chance: random.Random, is_soak: bool, work: str) -> Iterator[tuple[int, bool, str]]:
    """Every request, each way, where they are few; else some of them."""
    skipped, number = SKIPPED[work][is_soak], 0
    while True:
        number += chance.randint(1, skipped)
        for way in WAYS if skipped == 1 else [chance.choice(WAYS)]:
            for alone in (True, False) if skipped == 1 else [chance.random() < 0.7]:
                yield number, alone, way


def furnished(template: list[dict[str, Any]]) -> DynamoStore:
    store = DynamoStore(dynamodb().new_store(), attempts=1)
    store.dynamo.put_all(template)
    return store


@pytest.mark.parametrize("work", WORK)
def test_a_failing_request_leaves_all_or_nothing_and_the_truth_is_told(
    work: str, template: list[dict[str, Any]], chance: random.Random, times: Any
) -> None:
    store: DynamoStore | None = None
    for number, alone, way in failures(chance, times(1) > 1, work):
        if store is None:
            store = furnished(template)
            breaker = Breaker(store)
        breaker.arm(range(number, number + 1 if alone else 10_000), way)
        told = outcome(store, WORK[work])
        broke, _ = breaker.broke, breaker.rest()
        where = f"{work}: request {number} {way}, {'alone' if alone else 'with all that follow'}: {broke}, told {told}"
        assert isinstance(told, Committed | Unavailable), where
        with closing(DynamoStore(store.address)) as other:
            seen = state(other)
            assert sorted(search(other, ACME, "anchor", "lantern", "buoy")) == sorted(
                id for t, id in seen if t == "memory"
            )
        assert seen == state(store), where
        assert seen in (plainly(""), plainly(work)), where
        if isinstance(told, Committed) or alone:
            assert (seen == plainly(work)) == isinstance(told, Committed), where
        if seen == plainly(work):
            assert store.verify() == [], where
            store.close()
            store = None
        if not broke:
            break
    assert isinstance(told, Committed)


def outcome(store: DynamoStore, steps: list[Step]) -> Committed | RecollectError:
    try:
        return store.transact(ACME, steps)
    except RecollectError as error:
        return error


def test_a_store_closed_in_the_middle_of_a_read_says_so(template: list[dict[str, Any]]) -> None:
    store = furnished(template)
    pieces = store.dynamo.at_once
    store.dynamo.at_once = lambda *given: (store.dynamo._pool.shutdown(), pieces(*given))[1]  # type: ignore[method-assign]
    many = [("nothing", str(number)) for number in range(250)]
    with pytest.raises(Closed):
        store.dynamo.get(many)
    store.close()
