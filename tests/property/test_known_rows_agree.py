"""What SQLite keeps in memory of memories and vectors, against the plain store: whichever of two programs changed it.

Two stores have one file open, as two processes have. Each write is made by one of them, and both are asked for rows by
their ids, for what stands beside them, for their vectors and for words; each keeps what it read, and must never answer
otherwise than the reference, which keeps nothing. Now and then one reads within a moment that the other writes in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import hypothesis.strategies as st
from hypothesis.stateful import rule

from property.test_stores_agree import IDS, TENANTS, WORDS, StoresAgree, same, unhurried, wheres
from recollect.adapters.records.sqlite.known_queries import FIELDS, WITHIN
from recollect.adapters.records.sqlite.store import SqliteStore
from recollect.domain.memory import Embedding, Memory
from recollect.errors import RecollectError
from recollect.ports.query import Beside, OneOf, Query, Row, TextQuery
from recollect.ports.records import RecordStore, Scope
from recollect.ports.steps import Committed, Delete, DeleteWhere, Put, Step, Touch
from recollect.ports.vectors import VectorRow

SPACES = (("long_term", "m"), ("long_term", "n"))
ANSWERED = tuple(name for name in FIELDS if name != "namespaces")
MORE = ("text", "namespaces", "metadata", "access_count", "score", "version")  # some of them are not kept
ORDERS = {"session_id": "occurred_at", "user_id": "id", "agent_id": "id", "kind": "id"}


class OneOfTwo:
    """Reads by the first, writes by whose turn it is."""

    def __init__(self, first: SqliteStore, second: SqliteStore) -> None:
        self.both = first, second
        self.turn = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.both[0], name)

    def transact(self, scope: Scope, steps: Sequence[Step]) -> Committed:
        return self.both[self.turn].transact(scope, steps)

    def close(self) -> None:
        for one in self.both:
            one.close()


class KnownRowsAgree(StoresAgree):
    real: Any

    def open(self) -> RecordStore:
        return OneOfTwo(SqliteStore(self.path), SqliteStore(self.path))

    @rule(turn=st.sampled_from((0, 1)))
    def take_turns(self, turn: int) -> None:
        self.real.turn = turn

    def write(self, tenant: str, drafts: list[Any]) -> None:
        super().write(tenant, drafts)
        self.by_ids(tenant, (), ANSWERED)
        self.by_ids(tenant, (), MORE)
        self.beside(tenant, "session_id", ())

    def all_agree(self, question: Callable[[RecordStore], Any]) -> None:
        for one in self.real.both:
            same((one, self.plain), question)

    @rule(
        tenant=st.sampled_from(TENANTS), where=wheres[Memory], fields=st.sampled_from((ANSWERED, ANSWERED[:3], ("id",)))
    )
    def by_ids(self, tenant: str, where: Any, fields: tuple[str, ...]) -> None:
        query = Query(Memory, (OneOf("id", IDS), *where))
        self.all_agree(lambda store: store.select(Scope(tenant), query, fields))

    @rule(tenant=st.sampled_from(TENANTS), where=wheres[Memory])
    def by_words(self, tenant: str, where: Any) -> None:
        query = TextQuery(Memory, WORDS, 100, {}, where)
        self.all_agree(lambda store: {hit.id for hit in store.search_text(Scope(tenant), query)})

    @rule(tenant=st.sampled_from(TENANTS), within=st.sampled_from(WITHIN), where=wheres[Memory])
    def beside(self, tenant: str, within: str, where: Any) -> None:
        by, scope = ORDERS[within], Scope(tenant)
        try:
            there = self.plain.find(scope, Query(Memory, where)).records
            places = tuple((getattr(m, within), getattr(m, by), m.id) for m in there if getattr(m, within) is not None)
            asked = Beside(Memory, within, by, places, 2, where)
            self.plain.beside(scope, asked)
        except RecollectError:  # a filter that no store takes
            return
        self.all_agree(lambda store: store.beside(scope, asked))

    @rule(
        tenant=st.sampled_from(TENANTS),
        id=st.sampled_from(IDS),
        space=st.sampled_from(SPACES),
        part=st.sampled_from((0, 1)),
        vector=st.sampled_from((b"\x00\x3c", b"\x00\x00")),
    )
    def put_vector(self, tenant: str, id: str, space: tuple[str, str], part: int, vector: bytes) -> None:
        (namespace, model), key = space, f"{id} {space} {part}"
        made = Embedding(
            organization_id=tenant, id=key, memory_id=id, namespace=namespace, model=model, part=part, vector=vector,
            dimensions=1, text_hash="h",
        )  # fmt: skip
        self.vectors(tenant, [Put(made)])

    @rule(tenant=st.sampled_from(TENANTS), id=st.sampled_from(IDS), space=st.sampled_from(SPACES))
    def delete_vectors(self, tenant: str, id: str, space: tuple[str, str]) -> None:
        both = (DeleteWhere(Embedding, (OneOf("memory_id", (id,)),)), Delete(Embedding, f"{id} {space} 0"))
        self.vectors(tenant, [both[space is SPACES[0]]])

    @rule(tenant=st.sampled_from(TENANTS), id=st.sampled_from(IDS), space=st.sampled_from(SPACES))
    def touch_vector(self, tenant: str, id: str, space: tuple[str, str]) -> None:
        self.vectors(tenant, [Touch(Embedding, f"{id} {space} 0", put={"start": 0, "end": 3})])

    def vectors(self, tenant: str, steps: list[Step]) -> None:
        scope = Scope(tenant)
        self.agree(lambda store: store.transact(scope, steps).deleted)
        self.compare_changes(scope)
        self.compare_vectors()

    @rule()
    def compare_vectors(self) -> None:
        for tenant in TENANTS:
            for space in ("long_term/m", "long_term/n"):
                self.all_agree(
                    lambda store, t=tenant, s=space: sorted(store.stored_vectors(Scope(t), s, IDS))  # type: ignore[misc]
                )
        self.all_agree(living)

    @rule(tenant=st.sampled_from(TENANTS), where=wheres[Memory], id=st.sampled_from(IDS))
    def within_a_moment(self, tenant: str, where: Any, id: str) -> None:
        """What one reads in a block is of one moment, whatever the other writes and keeps meanwhile."""
        query, scope = Query(Memory, (OneOf("id", IDS), *where)), Scope(tenant)

        def seen(store: RecordStore) -> list[Row]:
            return store.select(scope, query, ANSWERED)

        first, second = self.real.both
        with first.reading():
            try:
                before = seen(first)
            except RecollectError:  # a filter that no store takes
                return
            stored = self.plain.get(scope, Memory, id, deleted=True)
            if stored is not None:
                changed = Put(stored.changed(text="zinc", priority=9))
                self.plain.transact(scope, [changed])
                second.transact(scope, [changed])
            seen(second)
            assert seen(first) == before
        self.compare_changes(scope)
        self.all_agree(seen)


def living(store: Any) -> set[tuple[str, str, str, bytes]]:
    """All vectors, asked for by all seqs that there ever were."""
    with store.vector_snapshot() as snapshot:
        rows: Sequence[VectorRow] = snapshot.rows_at(range(1, snapshot.last_seq() + 1))
        return {(row.organization_id, row.memory_id, row.space, row.vector) for row in rows}


TestKnownRowsAgree = KnownRowsAgree.TestCase
TestKnownRowsAgree.settings = unhurried(25, 40)
