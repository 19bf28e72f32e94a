"""A store has what its capabilities claim, and lets the vectors that it stores be read."""

from __future__ import annotations

from contextlib import AbstractContextManager

from recollect.domain.memory import Memory
from recollect.ports.records import RecordStore, Scope, missing_verbs
from recollect.ports.steps import Delete, Update
from recollect.ports.vectors import TenantVectors, VectorRow, VectorSnapshot, VectorTruth
from recollect.testing.conformance.makers import embedding, memory, stored

SPACE = "long_term/m"
ONE, OTHER = b"\x00\x3c", b"\x00\xbc"


def vectors_in(store: RecordStore, scope: Scope) -> AbstractContextManager[VectorSnapshot]:
    truth = store.vectors_of(scope.organization_id) if isinstance(store, TenantVectors) else store
    assert isinstance(truth, VectorTruth)
    return truth.vector_snapshot()


class CapabilityRules:
    def test_the_store_has_every_verb_of_the_port_and_of_its_capabilities(self, store: RecordStore) -> None:
        assert missing_verbs(store) == []
        assert store.capabilities.name

    def test_stored_vectors_are_those_of_the_named_memories_in_one_space(
        self, store: RecordStore, acme: Scope, globex: Scope
    ) -> None:
        stored(store, globex, memory(globex, "a"), embedding(globex, "a", OTHER))
        stored(store, acme, memory(acme, "a"), memory(acme, "b"))
        stored(
            store,
            acme,
            embedding(acme, "a", ONE, id="v1", start=0, end=5, tokens=b"codes"),
            embedding(acme, "a", OTHER, id="v2", part=1, start=5, end=9),
            embedding(acme, "a", ONE, id="v3", model="another"),
            embedding(acme, "b", ONE, id="v4"),
        )
        found = [tuple(one) for one in store.stored_vectors(acme, SPACE, ["a", "nobody"])]
        assert sorted(found, key=str) == sorted([("a", ONE, b"codes", 0, 5), ("a", OTHER, None, 5, 9)], key=str)
        assert list(store.stored_vectors(acme, SPACE, [])) == []

    def test_a_vector_is_read_under_a_seq_that_is_new_with_every_write(self, store: RecordStore, acme: Scope) -> None:
        facets = ["ann", None, None, None, "fact", "user", "hypothesis"]
        stored(store, acme, memory(acme, "a"), memory(acme, "b"))
        first = stored(
            store, acme, embedding(acme, "a", ONE, id="v1", facets=facets), embedding(acme, "b", ONE, id="v2")
        )
        with vectors_in(store, acme) as before:
            rows = list(before.rows_after(0, 10))
            assert [(row.organization_id, row.memory_id, row.space, row.vector) for row in rows] == [
                ("acme", "a", SPACE, ONE),
                ("acme", "b", SPACE, ONE),
            ]
            assert rows[0].facets == tuple(facets)
            assert before.last_seq() >= rows[1].seq > rows[0].seq
            assert [row.seq for row in before.rows_after(rows[0].seq, 10)] == [rows[1].seq]
            assert [row.seq for row in before.rows_after(0, 1)] == [rows[0].seq]
        store.transact(acme, [Update(first.changed(vector=OTHER)), Delete(Memory, "b")])
        with vectors_in(store, acme) as after:
            (again,) = after.rows_after(0, 10)
            assert (again.memory_id, again.vector) == ("a", OTHER)
            assert again.seq > rows[1].seq
            assert list(after.rows_at([row.seq for row in rows])) == []
            assert list(after.rows_at([again.seq])) == [again]
            assert list(after.living_seqs(0, after.last_seq())) == [again.seq]
            assert after.incarnation == before.incarnation

    def test_a_vector_snapshot_stays_as_it_is_while_others_write(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, memory(acme, "a"), embedding(acme, "a", ONE))
        with vectors_in(store, acme) as reading:
            before: list[VectorRow] = list(reading.rows_after(0, 10))
            stored(store, acme, memory(acme, "b"), embedding(acme, "b", ONE, id="v2"))
            assert list(reading.rows_after(0, 10)) == before
            assert len(before) == 1
