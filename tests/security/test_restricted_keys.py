"""Every operation with a restricted key and the ids of another user: as if there were no such thing.

As the tenants are tried (test_tenants_never_meet.py), but inside one organization: two users, of whom one asks with a
key of theirs, and the other has something of everything that can belong to a user.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from starlette.testclient import TestClient

import recollect
from doors import over_http
from likeness import absent_like, blurred, meant
from probing import MARKER, id_fields, operations, places, sample
from recollect.catalogue import OPERATIONS, Operation
from recollect.domain.access import RESTRICTED
from recollect.domain.record import RECORDS, Record, new_id
from recollect.domain.sources import QueryRun, Source, SourceVersion, Table
from recollect.interfaces.serve import application
from recollect.ports.query import Query
from recollect.ports.records import Scope
from recollect.ports.steps import Insert
from recollect.services.access import keys
from recollect.services.restricted_store import RestrictedStore
from recollect.services.restrictions import OWNED, PARTS
from recollect.settings import Settings
from seeds import SOAK, some

pytestmark = pytest.mark.together("restricted")


QUIET = {"upkeep_seconds": 1e6, "check_seconds": None}


class House:
    """One organization with `ann`, who asks over HTTP with a key of hers, and `bob`, whose things hold the marker."""

    def __init__(self, mem: Any, key: str, http: Any) -> None:
        self.core, self._key, self.http = mem._core, key, http
        scope = Scope(mem.organization)
        theirs = RestrictedStore(self.core.store, keys.reach_of(self.core, mem.organization, "ann"))
        every = {table: Query(record, deleted="yes") for table, record in RECORDS.items()}
        self.foreign: dict[str, str] = {}
        for table, query in every.items():
            hers = {id for (id,) in theirs.select(scope, query, ("id",))}
            ids = [id for (id,) in self.core.store.select(scope, query, ("id",)) if id not in hers]
            if ids and (RECORDS[table] in OWNED or RECORDS[table] in PARTS):
                self.foreign[table] = ids[0]

    def key(self) -> str:
        return self._key


@pytest.fixture(scope="module")
def houses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[House, House]]:
    """The same twice: one is asked with bob's ids, the other with ids that nobody has."""
    path = tmp_path_factory.mktemp("house") / "x.db"
    names = {name: new_id() for name in ("talk", "hers", "bee", "project", "workspace")}
    with recollect.open(path, embedder="hash", organization="mine", citation_roots=[]) as mem:
        _fill(mem, names)
        key = mem.key.add("ann's", user="ann", scopes=["read", "write", "govern", "delete"]).key
    with ExitStack() as stack:
        made = []
        for _ in range(2):
            copy = tmp_path_factory.mktemp("house") / "x.db"
            copy.write_bytes(path.read_bytes())
            mem = stack.enter_context(
                recollect.open(copy, embedder="hash", organization="mine", citation_roots=[], background=False)
            )
            settings = Settings(store=str(copy), organization="mine", server={"rate_per_minute": 10**9, **QUIET})
            http = TestClient(application(mem._core, settings), "http://127.0.0.1", client=("127.0.0.1", 50000))
            stack.enter_context(http)
            made.append(House(mem, key, http))
        yield made[0], made[1]


def _fill(mem: Any, names: dict[str, str]) -> None:
    for name in ("ann", "bob"):
        mem.user.add(name, id=name)
    mem.agent.add("bee", id=names["bee"])
    mem.project.add(f"of the {MARKER}", id=names["project"], owner="bob")
    mem.session.add("hers", id=names["hers"], user="ann")
    mem.remember("The harbour opens at nine", user="ann")
    bob = mem.restricted(user="bob")
    talk = bob.session.add(f"about the {MARKER}", id=names["talk"], agent=names["bee"], project=names["project"]).id
    fact = bob.remember(f"The {MARKER} opens at nine", cites=[f"user:bob:the {MARKER}"], tags=[MARKER])
    other = bob.remember(f"The {MARKER} was shut", session=talk)
    bob.revise(fact.id, f"The {MARKER} opens at ten", why=MARKER)
    bob.relate(other.id, fact.id, "contradicts")
    bob.forget(bob.remember(f"A slip about the {MARKER}").id)
    for number in range(4):
        bob.message.add("user", f"Message {number} on the {MARKER}", session=talk)
        bob.episode.record(f"Sail boat {number} out of the {MARKER}", True, action_plan=["untie", "sail"])
    bob.pattern.learn()
    used = bob.pattern.apply(bob.list(kinds=["pattern"])[0].id, f"Sail boat 9 out of the {MARKER}")
    bob.pattern.report(used.application, True)
    bob.block.add("human", f"Bob of the {MARKER}")
    block = bob.block.add("persona", f"You know the {MARKER}").id
    bob.block.write(block, f"You know the {MARKER} well")
    mem.block.attach(block, names["bee"])
    run = bob.run.start(f"Look after the {MARKER}", agent=names["bee"], session=talk).id
    fence = bob.run.claim("worker", id=run).fence
    bob.run.propose(run, fence, tool="fly", arguments={"to": MARKER})
    bob.run.record(run, fence, summary=f"Flew over the {MARKER}")
    bob.item.put(["bob", MARKER], "key", value={"text": MARKER}, texts={"text": MARKER})
    bob.checkpoint.put(talk, "1", items={"messages": [b"one"]}, body=MARKER.encode(), metadata={"step": 1})
    place = mem.workspace.add(names["bee"], "desk").id
    mem.workspace.write(place, "notes/plan.md", f"Plan of the {MARKER}\n")
    mem.workspace.snapshot(place, MARKER)
    mem.state.save(names["bee"], {"at": MARKER}, session=talk)
    told = {"organization_id": mem.organization}
    source = Source(**told, name=f"prices of the {MARKER}", path="prices.csv", content_hash="h", user_id="bob")
    rows: list[Record] = [source, Table(**told, source_id=source.id, name=f"prices_{MARKER}")]
    rows.append(SourceVersion(**told, source_id=source.id, number=1, content_hash="h"))
    rows.append(
        QueryRun(**told, user_id="bob", question=f"what does the {MARKER} cost?", sql="SELECT 1", rows=[[MARKER]])
    )
    mem._tenant.transact([Insert(one) for one in rows])


def open_to_a_restricted_key() -> list[Operation]:
    return [one for one in operations() if one.permission in RESTRICTED]


def test_the_other_user_has_something_of_every_type_that_has_an_owner(houses: tuple[House, House]) -> None:
    missing = {record.shape.table for record in (*OWNED, *PARTS)} - houses[0].foreign.keys()
    assert missing == NOT_HIS


NOT_HIS = {"agent", "connection", "cold_archive", "cold_record", "changed_bucket", "checkpoint_writes", "field"}
"""Agents are open; the others are parts of what he has, or made by admins only."""


@pytest.mark.parametrize(
    "name", sorted(one.name for one in open_to_a_restricted_key() if any(True for _ in id_fields(one)))
)
def test_the_id_of_another_users_record_looks_exactly_like_an_absent_one(
    name: str, houses: tuple[House, House]
) -> None:
    """In the fields that name a record, with ids of the tables that are meant and of one more; all in a soak."""
    operation = OPERATIONS[name]
    house, twin = houses
    before = _others(house)
    for place in places(operation):
        if (name, place.label) in CHOSEN or not (place.names_a_record or SOAK):
            continue
        likely = meant(operation, place) & house.foreign.keys()
        others = some(1, sorted(house.foreign.keys() - likely), f"{name} {place.label}")
        for table in sorted({*likely, *others}):
            foreign = house.foreign[table]
            told = [
                blurred(over_http(one, operation, sample(operation, **place.fields(id))), id)
                for one, id in ((house, foreign), (twin, absent_like(foreign)))
            ]
            assert told[0] == told[1], f"{place.label} with the id of a {table}"
            assert MARKER not in told[0], f"{place.label} with the id of a {table}"
    assert _others(house) == before


CHOSEN = {
    *((f"{party}.add", "id") for party in ("user", "agent", "project", "session")),
    ("remember", "id"), ("remember_many", "memories[].id"), ("kind.add", "name"),
}  # fmt: skip
"""Where callers give an id of their own: it is taken in all of an organization, and they are told."""


def _others(house: House) -> dict[str, list[tuple[Any, ...]]]:
    """Bob's things, as they are stored."""
    scope = Scope("mine")
    bobs = RestrictedStore(house.core.store, keys.reach_of(house.core, "mine", "bob"))
    return {
        table: sorted(bobs.select(scope, Query(RECORDS[table], deleted="yes"), ("id", "version")))
        for table in ("memory", "session", "message", "block", "execution", "item", "tag", "citation", "source")
    }


@pytest.mark.parametrize("name", sorted(one.name for one in open_to_a_restricted_key() if one.permission == "read"))
def test_nothing_of_another_user_is_ever_read(name: str, houses: tuple[House, House]) -> None:
    operation = OPERATIONS[name]
    texts = ("query", "task", "text", "name", "label", "question")
    asked = sample(operation, **{field: MARKER for field in operation.request.model_fields if field in texts})
    answer = json.dumps(over_http(houses[0], operation, asked))
    assert MARKER not in answer.replace(f'"{MARKER}"', "").replace(f"'{MARKER}'", "")


def test_what_concerns_the_organization_is_denied(houses: tuple[House, House]) -> None:
    for operation in operations():
        if operation.permission not in RESTRICTED:
            status, answer = over_http(houses[0], operation, sample(operation))
            assert (status, answer["error"]["code"]) == (403, "denied"), operation.name
