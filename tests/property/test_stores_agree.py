"""The SQLite store gives the same answers as the plain in-memory store, whatever is done to both.

A failure prints how to replay it. RECOLLECT_SOAK=1 runs ten times as many examples.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from recollect.adapters.records.memory import MemoryStore
from recollect.adapters.records.sqlite import SqliteStore
from recollect.domain.agents import Agent, AgentState
from recollect.domain.conversations import Session
from recollect.domain.memory import Memory, Tag
from recollect.domain.provenance import Citation
from recollect.domain.record import RECORDS, Record
from recollect.domain.tenancy import Organization, User
from recollect.errors import RecollectError
from recollect.ports.records import (
    Absent,
    AnyOf,
    Compare,
    Delete,
    DeleteWhere,
    Filter,
    Holds,
    Insert,
    IsNull,
    Linked,
    OneOf,
    Order,
    Put,
    Query,
    RecordStore,
    Require,
    Scope,
    Step,
    TextQuery,
    Touch,
    Update,
)

TIMES = 10 if os.environ.get("RECOLLECT_SOAK") else 1
TENANTS = ("acme", "globex")
TYPES: tuple[type[Record], ...] = (User, Agent, Session, Memory, Tag, Citation, AgentState)
WORDS = ("cat", "moon", "rock", "fox", "lamp", "zinc")  # Porter stemming leaves these alone
MOMENTS = (
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
    datetime(2026, 1, 1, tzinfo=UTC),
)

ids = st.sampled_from(("a", "b", "c", "' OR 1=1 --"))
maybe_id = st.none() | ids
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
scalars = st.sampled_from((None, True, False, 0, 1, 1.0, 1.5, -2, 2**62, "", "1", "a", "é", "b'\""))
keys = st.sampled_from(("k", 'q"', "", "$.k"))
json_objects = st.dictionaries(keys, scalars | st.just([1, "a"]) | st.just({"k": 1}), max_size=3)
moments = st.sampled_from(MOMENTS)

FIELDS: dict[type[Record], dict[str, st.SearchStrategy[Any]]] = {
    User: {
        "name": st.sampled_from(("Ann", "Eve")),
        "email": st.sampled_from((None, "a@b.c", "d@e.f")),
        "is_active": st.booleans(),
        "preferences": json_objects,
    },
    Agent: {"name": st.sampled_from(("Bot", "bot", "Ä")), "topic": st.none() | texts, "metadata": json_objects},
    Session: {"title": texts, "user_id": maybe_id, "agent_id": maybe_id, "ended_at": st.none() | moments},
    Memory: {
        "text": texts,
        "author": st.none() | st.sampled_from(WORDS),
        "kind": st.sampled_from(("fact", "event")),
        "status": st.sampled_from(("hypothesis", "verified")),
        "priority": st.integers(1, 4),
        "score": st.sampled_from((None, -1.5, 0.0, 1e300)),
        "occurred_at": moments,
        "metadata": json_objects,
        "namespaces": st.lists(st.sampled_from(("long_term", "x", "1")), max_size=2),
        "session_id": maybe_id,
        "user_id": maybe_id,
        "agent_id": maybe_id,
        "idempotency_key": st.sampled_from((None, None, "once")),
    },
    Tag: {"memory_id": ids, "tag": st.sampled_from(WORDS)},
    Citation: {"memory_id": ids, "source": st.sampled_from(WORDS), "state": st.sampled_from(("unchecked", "holds"))},
    AgentState: {"agent_id": ids, "session_id": maybe_id, "state_data": json_objects},
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

types = st.sampled_from(TYPES)
made = types.flatmap(
    lambda record: st.fixed_dictionaries(
        {"id": ids, "is_deleted": st.sampled_from((False,) * 5 + (True,)), **FIELDS[record]}
    ).map(lambda fields: (record, {**CONSTANT.get(record, {}), **fields}))
)


@cache
def filters(record: type[Record], depth: int = 1) -> st.SearchStrategy[Filter]:
    common = {"id": ids, "version": st.integers(1, 3)}
    plain: list[st.SearchStrategy[Filter]] = []
    for name, values in {**FIELDS[record], **common}.items():
        kind = next(column.type for column in record.columns() if column.name == name)
        plain.append(st.builds(IsNull, st.just(name), st.booleans()))
        if kind == "json":
            plain.append(st.builds(Holds, st.just(name), st.sampled_from(("x", "1", "long_term", "a"))))
            plain.append(st.builds(Compare, st.just(name), OPERATORS, scalars, keys))
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
        column.name for column in record.columns() if column.name in {**FIELDS[record], "id": None, "version": None}
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


class StoresAgree(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=empty_file().parent))
        self.path = Path(shutil.copy(empty_file(), self.folder))
        self.real: RecordStore = SqliteStore(self.path)
        self.plain: RecordStore = MemoryStore()
        self.seen = dict.fromkeys(TENANTS, (0, 0))
        for tenant in TENANTS:
            some = [Insert(record) for record in beginning(tenant)]
            self.agree(lambda store, t=tenant, some=some: store.transact(Scope(t), some).deleted)

    def agree(self, question: Callable[[RecordStore], Any]) -> Any:
        """Both stores give the same answer, or refuse with the same type of error."""
        answers = []
        for store in (self.real, self.plain):
            try:
                answers.append(question(store))
            except RecollectError as error:
                answers.append(type(error))
        assert answers[0] == answers[1], f"SQLite: {answers[0]}\nin memory: {answers[1]}"
        return answers[1]

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
            stored = self.agree(lambda store, t=table, i=id: store.get(scope, RECORDS[t], i, deleted=True))
            assert (stored is None) == gone

    @rule(tenant=st.sampled_from(TENANTS), queries=st.lists(queries, min_size=1, max_size=4))
    def find(self, tenant: str, queries: list[Query[Any]]) -> None:
        for query in queries:
            self.compare_answers(Scope(tenant), query)

    def compare_answers(self, scope: Scope, query: Query[Any]) -> None:
        self.agree(lambda store: store.count(scope, query))
        self.agree(lambda store: store.select(scope, query, ("id", "version", "is_deleted", "created_at")))
        page = self.agree(lambda store: store.find(scope, query))
        while not isinstance(page, type) and page.next is not None:
            query = replace(query, after=page.next)
            page = self.agree(lambda store, query=query: store.find(scope, query))

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
        self.real = SqliteStore(self.path)

    def teardown(self) -> None:
        try:
            for scope in map(Scope, TENANTS):
                for record in (Organization, *TYPES):
                    self.agree(lambda store, r=record, s=scope: store.find(s, Query(r, deleted="yes")))
                self.agree(
                    lambda store, s=scope: {(one.table, one.id, one.gone) for one in store.changes(s, 0, 10_000)}
                )
            self.agree(lambda store: store.tenants())
            assert self.real.verify() == []
            assert self.plain.verify() == []
        finally:
            self.real.close()
            self.plain.close()
            shutil.rmtree(self.folder)


def written(store: RecordStore, scope: Scope, steps: list[Step]) -> tuple[int, bool]:
    committed = store.transact(scope, steps)
    return committed.deleted, committed.seq > 0


TestStoresAgree = StoresAgree.TestCase
TestStoresAgree.settings = settings(
    max_examples=60 * TIMES,
    stateful_step_count=40,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
