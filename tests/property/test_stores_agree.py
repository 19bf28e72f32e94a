"""Every durable store gives the same answers as the plain in-memory store, whatever is done to both.

A failure prints how to replay it. RECOLLECT_SOAK=1 runs fifteen times as many examples.
"""

from __future__ import annotations

import atexit
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from dynamodb_server import dynamodb
from postgres_server import server
from recollect.adapters.records.duckdb.store import DuckdbStore
from recollect.adapters.records.dynamodb.store import DynamoStore
from recollect.adapters.records.in_memory import MemoryStore
from recollect.adapters.records.postgres.store import PostgresStore
from recollect.adapters.records.sqlite.store import SqliteStore
from recollect.domain.agents import Agent, AgentState
from recollect.domain.conversations import Session
from recollect.domain.memory import Memory, Tag
from recollect.domain.provenance import Citation
from recollect.domain.record import RECORDS, Record
from recollect.domain.tenancy import Organization, User
from recollect.errors import RecollectError
from recollect.ports.query import (
    AnyOf,
    Compare,
    Filter,
    Has,
    Holds,
    IsNull,
    Key,
    Linked,
    OneOf,
    Order,
    Query,
    TextQuery,
)
from recollect.ports.records import RecordStore, Scope
from recollect.ports.steps import Absent, Delete, DeleteWhere, Insert, Put, Require, Step, Touch, Update
from seeds import SOAK

TIMES = 15 if SOAK else 1
TENANTS = ("acme", "globex")
TYPES: tuple[type[Record], ...] = (User, Agent, Session, Memory, Tag, Citation, AgentState)
WORDS = ("cat", "moon", "rock", "fox", "lamp", "zinc")  # Porter stemming leaves these alone
MOMENTS = (
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
    datetime(2026, 1, 1, tzinfo=UTC),
)

IDS = ("a", "b", "c", "' OR 1=1 --")
SCALARS = (None, True, False, 0, 1, 1.0, 1.5, -2, 2**62, "", "1", "a", "é", "b'\"")
KEYS: tuple[Key, ...] = ("k", 'q"', "", "$.k", ("k", "k"), ("k", "0"), ("k", 'q"', ""))
JSON = ({}, *({"k": value} for value in SCALARS), {'q"': 1, "": "a"}, {"$.k": True, "k": [1, "a"]}, {"k": {"k": 1}})
JSON += ({"k": [*SCALARS, [1]]}, {"k": {"k": [1.0, None], "0": "é"}}, {"k": {'q"': {"": True}, "k": None}})
TEXTS = (*WORDS, "cat moon", "fox fox rock", "zinc lamp cat fox")

POOLS: dict[type[Record], dict[str, tuple[Any, ...]]] = {
    User: {
        "name": ("Ann", "Eve"),
        "email": (None, "a@b.c", "d@e.f"),
        "is_active": (True, False),
        "preferences": JSON,
    },
    Agent: {"name": ("Bot", "bot", "Ä"), "topic": (None, "", "cat", "Cat"), "metadata": JSON},
    Session: {"title": TEXTS, "user_id": (None, *IDS), "agent_id": (None, *IDS), "ended_at": (None, *MOMENTS)},
    Memory: {
        "text": TEXTS,
        "author": (None, None, "", "cat", "moon"),
        "kind": ("fact", "event"),
        "status": ("hypothesis", "verified"),
        "priority": (1, 2, 5, 9),  # DynamoDB has no entry for the usual one
        "score": (None, None, -1.5, 0.0, 1e300),
        "occurred_at": MOMENTS,
        "metadata": JSON,
        "namespaces": ([], ["long_term"], ["x", "1"], ["x"]),
        "session_id": (None, *IDS),
        "user_id": (None, *IDS),
        "agent_id": (None, *IDS),
        "idempotency_key": (None, None, None, "once"),
    },
    Tag: {"memory_id": IDS, "tag": WORDS},
    Citation: {"memory_id": IDS, "source": WORDS, "state": ("unchecked", "holds")},
    AgentState: {"agent_id": IDS, "session_id": (None, *IDS), "state_data": JSON},
}
CONSTANT: dict[type[Record], dict[str, Any]] = {
    Memory: {"content": {}, "content_hash": "h", "identity": "i"},
    Citation: {"type": "user", "evidence": {}},
}
LINKS: dict[type[Record], tuple[tuple[type[Record], str], ...]] = {
    Memory: ((Tag, "memory_id"), (Citation, "memory_id")),
    User: ((Memory, "user_id"), (Session, "user_id")),
    Agent: ((Memory, "agent_id"), (AgentState, "agent_id")),
    Session: ((Memory, "session_id"),),
}

ids = st.sampled_from(IDS)
moments = st.sampled_from(MOMENTS)
types = st.sampled_from(TYPES)
made = types.flatmap(
    lambda record: st.fixed_dictionaries(
        {
            "id": ids,
            "is_deleted": st.sampled_from((False,) * 5 + (True,)),
            **{name: st.sampled_from(pool) for name, pool in POOLS[record].items()},
        }
    ).map(lambda fields: (record, {**CONSTANT.get(record, {}), **fields}))
)


@cache
def filters(record: type[Record], depth: int = 1) -> st.SearchStrategy[Filter]:
    plain: list[st.SearchStrategy[Filter]] = []
    for name, pool in {**POOLS[record], "id": IDS, "version": (1, 2, 3)}.items():
        values = st.sampled_from(pool)
        kind = next(column.type for column in record.columns() if column.name == name)
        plain.append(st.builds(IsNull, st.just(name), st.booleans()))
        if kind == "json":
            plain.append(st.builds(Holds, st.just(name), st.sampled_from(("x", "1", "long_term", "a"))))
            plain.append(st.builds(Holds, st.just(name), st.sampled_from(SCALARS), st.sampled_from((None, *KEYS))))
            plain.append(st.builds(Has, st.just(name), st.sampled_from(KEYS), st.booleans()))
            plain.append(st.builds(Compare, st.just(name), OPERATORS, st.sampled_from(SCALARS), st.sampled_from(KEYS)))
        else:
            plain.append(st.builds(Compare, st.just(name), OPERATORS, values))
            plain.append(st.builds(OneOf, st.just(name), st.lists(values, max_size=3).map(tuple)))
    found = st.one_of(plain)
    if depth:
        found |= st.builds(AnyOf, st.lists(filters(record, depth - 1), max_size=3).map(tuple))
        for linked, field in LINKS.get(record, ()):
            where = st.lists(filters(linked, depth - 1), max_size=2).map(tuple)
            found |= st.builds(Linked, st.just(linked), st.just(field), where, st.booleans())
    return found


OPERATORS = st.sampled_from(("=", "!=", "<", "<=", ">", ">="))
wheres = {record: st.lists(filters(record), max_size=2).map(tuple) for record in TYPES}


def orders(record: type[Record]) -> st.SearchStrategy[tuple[Order, ...]]:
    names = [
        column.name for column in record.columns() if column.name in {**POOLS[record], "id": None, "version": None}
    ]
    return st.lists(st.builds(Order, st.sampled_from(names), st.booleans()), max_size=2).map(tuple)


queries = types.flatmap(
    lambda record: st.builds(
        Query,
        st.just(record),
        wheres[record],
        orders(record),
        st.sampled_from((None, 0, 1, 2, 5)),
        deleted=st.sampled_from(("no", "yes", "only")),
    )
)
touches = st.builds(
    Touch,
    st.just(Memory),
    ids,
    st.dictionaries(st.sampled_from(("access_count", "importance", "score")), st.integers(0, 3), max_size=2),
    st.dictionaries(st.sampled_from(("last_accessed", "expires_at")), moments, max_size=1),
)
by_filter = types.flatmap(lambda record: st.tuples(st.just(record), wheres[record]))
other_steps = st.one_of(
    st.builds(Delete, types, ids),
    by_filter.map(lambda pair: DeleteWhere(*pair)),
    by_filter.map(lambda pair: Absent(*pair)),
    st.builds(Require, types, ids),
    touches,
)
mostly = st.sampled_from((True, True, True, False))
records = st.tuples(made, mostly)
drafts = st.one_of(
    st.tuples(st.sampled_from((Insert, Put, Update)), made, mostly),
    st.tuples(st.sampled_from(("soft delete", "restore")), types, ids),
    other_steps,
)


def beginning(tenant: str) -> list[Record]:
    org = {"organization_id": tenant}
    return [
        Organization(**org, id=tenant, name=tenant),
        *(User(**org, id=id, name="Ann") for id in "abc"),
        *(Agent(**org, id=id, name="Bot") for id in "abc"),
        *(Session(**org, id=id, user_id=id, agent_id="a") for id in "abc"),
        *(
            Memory(**org, **CONSTANT[Memory], id=id, text=word, occurred_at=MOMENTS[1], session_id="b", user_id=id)
            for id, word in zip("abc", WORDS, strict=False)
        ),
        *(Tag(**org, id=id, memory_id=id, tag="rock") for id in "ab"),
        AgentState(**org, id="a", agent_id="a", session_id="a", state_data={"k": 1}),
    ]


@cache
def empty_file() -> Path:
    """Made once and copied. In memory where that is possible: what is compared here is answers, not syncs."""
    folder = tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    SqliteStore(Path(folder) / "empty.db").close()
    return Path(folder) / "empty.db"


@cache
def empty_duckdb() -> Path:
    path = empty_file().with_name("empty.duckdb")
    DuckdbStore(path).close()
    return path


def many() -> list[Record]:
    """Records with every mixture of the values above, the same in each run."""
    chance, records = random.Random("many"), beginning("acme")
    for number in range(30):
        for record in TYPES:
            fields = {name: chance.choice(pool) for name, pool in POOLS[record].items()}
            unique: dict[str, Any] = {name: None for name in ("email", "idempotency_key") if name in fields}
            links: dict[str, Any] = {
                name: chance.choice("abc") for name in record.shape.references if fields.get(name) is not None
            }
            links |= {"session_id": None, "agent_id": f"{number}"} if record is AgentState else {}
            links |= {"memory_id": f"{number}"} if record is Tag else {}
            given: dict[str, Any] = {
                **CONSTANT.get(record, {}),
                **fields,
                **unique,
                **links,
                "is_deleted": number % 6 == 0,
            }
            records.append(record(organization_id="acme", id=f"{number}", version=1 + number % 3, **given))
    return records


@pytest.fixture(scope="module", params=["sqlite", "duckdb", "postgres"])
def filled(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RecordStore, RecordStore]]:
    real: RecordStore
    if request.param == "postgres":
        real = PostgresStore(server().new_store())
    elif request.param == "duckdb":
        real = DuckdbStore(Path(shutil.copy(empty_duckdb(), tmp_path_factory.mktemp("filled"))))
    else:
        real = SqliteStore(Path(shutil.copy(empty_file(), tmp_path_factory.mktemp("filled"))))
    yield from both_filled(real)


@pytest.fixture(scope="module")
def filled_dynamodb() -> Iterator[tuple[RecordStore, RecordStore]]:
    yield from both_filled(DynamoStore(dynamodb().new_store()))


def both_filled(real: RecordStore) -> Iterator[tuple[RecordStore, RecordStore]]:
    stores = real, MemoryStore()
    steps = [Insert(record, restoring=True) for record in many()]
    for store in stores:
        store.transact(Scope("acme"), steps)
    yield stores
    for store in stores:
        store.close()


@given(query=queries)
@settings(max_examples=200 * TIMES, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))
def test_both_stores_answer_every_query_alike(filled: tuple[RecordStore, RecordStore], query: Query[Any]) -> None:
    compare_answers(filled, Scope("acme"), query)


@given(query=queries)
@settings(max_examples=70 * TIMES, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))
def test_dynamodb_answers_every_query_alike(
    filled_dynamodb: tuple[RecordStore, RecordStore], query: Query[Any]
) -> None:
    """Fewer, because each page of an answer is two requests."""
    compare_answers(filled_dynamodb, Scope("acme"), query)


def compare_answers(stores: tuple[RecordStore, RecordStore], scope: Scope, query: Query[Any]) -> None:
    same(stores, lambda store: store.count(scope, query))
    same(stores, lambda store: store.select(scope, query, ("id", "version", "is_deleted", "created_at")))
    page = same(stores, lambda store: store.find(scope, query))
    while not isinstance(page, type) and page.next is not None:
        query = replace(query, after=page.next)
        page = same(stores, lambda store, query=query: store.find(scope, query))  # type: ignore[misc]


def same(stores: tuple[RecordStore, RecordStore], question: Callable[[RecordStore], Any]) -> Any:
    """Both stores give the same answer, or refuse with the same type of error."""
    answers = []
    for store in stores:
        try:
            answers.append(question(store))
        except RecollectError as error:
            answers.append(type(error))
    assert answers[0] == answers[1], f"the store: {answers[0]}\nin memory: {answers[1]}"
    return answers[1]


class StoresAgree(RuleBasedStateMachine):
    """SQLite against the reference; a subclass says how to begin with, open and end another store."""

    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=empty_file().parent))
        self.path = Path(shutil.copy(empty_file(), self.folder))

    def open(self) -> RecordStore:
        return SqliteStore(self.path)

    def end(self) -> None:
        shutil.rmtree(self.folder)

    def __init__(self) -> None:
        super().__init__()
        self.begin()
        self.real: RecordStore = self.open()
        self.plain: RecordStore = MemoryStore()
        self.seen: dict[str, tuple[int, ...]] = dict.fromkeys(TENANTS, (0, 0))
        for tenant in TENANTS:
            some = [Insert(record) for record in beginning(tenant)]
            self.agree(lambda store, t=tenant, some=some: store.transact(Scope(t), some).deleted)  # type: ignore[misc]

    def agree(self, question: Callable[[RecordStore], Any]) -> Any:
        return same((self.real, self.plain), question)

    @rule(tenant=st.sampled_from(TENANTS), draft=records)
    def insert(self, tenant: str, draft: Any) -> None:
        self.write(tenant, [(Insert, *draft)])

    @rule(tenant=st.sampled_from(TENANTS), draft=records)
    def put(self, tenant: str, draft: Any) -> None:
        self.write(tenant, [(Put, *draft)])

    @rule(tenant=st.sampled_from(TENANTS), draft=records)
    def update(self, tenant: str, draft: Any) -> None:
        self.write(tenant, [(Update, *draft)])

    @rule(tenant=st.sampled_from(TENANTS), verb=st.sampled_from(("soft delete", "restore")), record=types, id=ids)
    def hide(self, tenant: str, verb: str, record: type[Record], id: str) -> None:
        self.write(tenant, [(verb, record, id)])

    @rule(tenant=st.sampled_from(TENANTS), step=other_steps)
    def remove(self, tenant: str, step: Step) -> None:
        self.write(tenant, [step])

    @rule(tenant=st.sampled_from(TENANTS), draft=records, together=st.booleans())
    def delete_and_bring_back(self, tenant: str, draft: Any, together: bool) -> None:
        (record, fields), _ = draft
        steps = [Delete(record, fields["id"]), (Insert, *draft)]
        for some in [steps] if together else [steps[:1], steps[1:]]:
            self.write(tenant, some)

    @rule(tenant=st.sampled_from(TENANTS), drafts=st.lists(drafts, min_size=2, max_size=4))
    def together(self, tenant: str, drafts: list[Any]) -> None:
        self.write(tenant, drafts)

    def write(self, tenant: str, drafts: list[Any]) -> None:
        scope = Scope(tenant)
        steps = [step for draft in drafts if (step := self.step(scope, draft)) is not None]
        self.agree(lambda store: written(store, scope, steps))
        self.compare_changes(scope)

    def step(self, scope: Scope, draft: Any) -> Step | None:
        if not isinstance(draft, tuple):
            return draft
        verb, what, more = draft
        if isinstance(verb, str):
            stored = self.plain.get(scope, what, more, deleted=True)
            return Update(stored.changed(is_deleted=verb == "soft delete")) if stored else None
        record, fields = what
        stored = self.plain.get(scope, record, fields["id"], deleted=True)
        version = (stored.version if stored else 1) if more else 9
        if more:
            fields = {**fields, **self.cleared(scope, record, fields)}
        return verb(record(organization_id=scope.organization_id, version=version, **fields))

    def cleared(self, scope: Scope, record: type[Record], fields: dict[str, Any]) -> dict[str, None]:
        """The references that lead nowhere, emptied where they may be: or hardly a write would succeed."""
        return {
            column.name: None
            for column in record.columns()
            if column.nullable
            and column.name in record.shape.references
            and fields.get(column.name) is not None
            and self.plain.get(scope, RECORDS[record.shape.references[column.name].to], fields[column.name]) is None
        }

    def compare_changes(self, scope: Scope) -> None:
        """What changed is the same, and so is every changed record."""
        after = self.seen[scope.organization_id]
        changes = [store.changes(scope, seq, 10_000) for store, seq in zip((self.real, self.plain), after, strict=True)]
        real, plain = ({(one.table, one.id, one.gone) for one in some} for some in changes)
        assert real == plain
        assert all([one.seq for one in some] == sorted({one.seq for one in some}) for some in changes)
        self.seen[scope.organization_id] = tuple(
            some[-1].seq if some else before for some, before in zip(changes, after, strict=True)
        )
        for table, id, gone in plain:
            stored = self.agree(lambda store, t=table, i=id: store.get(scope, RECORDS[t], i, deleted=True))  # type: ignore[misc]
            assert (stored is None) == gone

    @rule(tenant=st.sampled_from(TENANTS), queries=st.lists(queries, min_size=1, max_size=4))
    def find(self, tenant: str, queries: list[Query[Any]]) -> None:
        for query in queries:
            compare_answers((self.real, self.plain), Scope(tenant), query)

    @rule(
        tenant=st.sampled_from(TENANTS),
        terms=st.lists(st.sampled_from(WORDS), max_size=2),
        facets=st.dictionaries(
            st.sampled_from(("status", "kind", "user_id", "namespaces")),
            st.lists(st.sampled_from(("verified", "fact", "a", "x", "long_term")), max_size=2).map(tuple),
            max_size=1,
        ),
        where=wheres[Memory],
    )
    def search(self, tenant: str, terms: list[str], facets: dict[str, tuple[str, ...]], where: Any) -> None:
        query = TextQuery(Memory, tuple(terms), 100, facets, where)
        self.agree(lambda store: {hit.id for hit in store.search_text(Scope(tenant), query)})

    @rule()
    def reopen(self) -> None:
        self.real.close()
        self.real = self.open()

    def teardown(self) -> None:
        try:
            for scope in map(Scope, TENANTS):
                for record in (Organization, *TYPES):
                    self.agree(lambda store, r=record, s=scope: store.find(s, Query(r, deleted="yes")))  # type: ignore[misc]
                self.agree(
                    lambda store, s=scope: {(one.table, one.id, one.gone) for one in store.changes(s, 0, 10_000)}  # type: ignore[misc]
                )
            self.agree(lambda store: store.tenants())
            assert self.real.verify() == []
            assert self.plain.verify() == []
        finally:
            self.real.close()
            self.plain.close()
            self.end()


def unhurried(examples: int, steps: int = 30) -> settings:
    """So many every day, of so many steps, however long they take."""
    return settings(
        max_examples=examples * TIMES,
        stateful_step_count=steps,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )


def written(store: RecordStore, scope: Scope, steps: list[Step]) -> tuple[int, bool]:
    committed = store.transact(scope, steps)
    return committed.deleted, committed.seq > 0


class PostgresAgrees(StoresAgree):
    def begin(self) -> None:
        self.address = server().emptied_store()

    def open(self) -> RecordStore:
        return PostgresStore(self.address)

    def end(self) -> None:
        """The next example empties it."""


class DuckdbAgrees(StoresAgree):
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=empty_file().parent))
        self.path = Path(shutil.copy(empty_duckdb(), self.folder))

    def open(self) -> RecordStore:
        return DuckdbStore(self.path)


TestDuckdbAgrees = DuckdbAgrees.TestCase
TestDuckdbAgrees.settings = unhurried(4)


class DynamoAgrees(StoresAgree):
    def begin(self) -> None:
        self.address = dynamodb().new_store()

    def open(self) -> RecordStore:
        return DynamoStore(self.address)

    def end(self) -> None:
        """The next example has a table of its own."""


TestDynamoAgrees = DynamoAgrees.TestCase
TestDynamoAgrees.settings = unhurried(7)
TestPostgresAgrees = PostgresAgrees.TestCase
TestPostgresAgrees.settings = unhurried(8)
TestStoresAgree = StoresAgree.TestCase
TestStoresAgree.settings = unhurried(27, 40)
