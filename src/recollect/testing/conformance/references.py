"""References, cascades and soft deletion."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from recollect.domain.conversations import Session
from recollect.domain.memory import Memory, Tag
from recollect.domain.record import Record
from recollect.domain.tenancy import Organization, User
from recollect.errors import ReferenceMissing
from recollect.ports.query import Linked, OneOf, Query
from recollect.ports.records import RecordStore, Scope
from recollect.ports.steps import Delete, Insert, Put, Update
from recollect.testing.conformance.makers import (
    agent,
    every_type,
    ids,
    memory,
    one_of_each,
    search,
    session,
    stored,
    tag,
    user,
)


def everything(store: RecordStore, scope: Scope) -> dict[tuple[str, str], Record]:
    return {
        (record.shape.table, one.id): one
        for record in every_type()
        for one in store.find(scope, Query(record, deleted="yes")).records
    }


def survivors(before: dict[tuple[str, str], Record], root: Record) -> dict[tuple[str, str], set[str]]:
    """What the declarations say is left after deleting one record, and the fields that are emptied."""
    gone = {(root.shape.table, root.id)}
    while True:
        hanging = {
            key
            for key, record in before.items()
            for field, reference in record.shape.references.items()
            if reference.on_delete == "cascade" and (reference.to, getattr(record, field)) in gone
        }
        if hanging <= gone:
            break
        gone |= hanging
    return {
        key: {name for name, one in record.shape.references.items() if (one.to, getattr(record, name)) in gone}
        for key, record in before.items()
        if key not in gone
    }


class ReferenceRules:
    def test_a_reference_must_lead_to_a_living_record(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, user(acme, "gone", is_deleted=True))
        for target in ("nobody", "gone"):
            with pytest.raises(ReferenceMissing) as caught:
                stored(store, acme, session(acme, user_id=target))
            assert caught.value.details["field"] == "user_id"
            with pytest.raises(ReferenceMissing):
                store.transact(acme, [Put(session(acme, user_id=target))])
        assert store.count(acme, Query(Session)) == 0

    def test_restoring_may_refer_to_the_soft_deleted_but_to_nothing_else(
        self, store: RecordStore, acme: Scope, globex: Scope
    ) -> None:
        stored(store, acme, user(acme, "gone", is_deleted=True))
        stored(store, globex, user(globex, "theirs"))
        store.transact(acme, [Insert(session(acme, user_id="gone"), restoring=True)])
        for target in ("nobody", "theirs"):
            with pytest.raises(ReferenceMissing):
                store.transact(acme, [Insert(session(acme, "second", user_id=target), restoring=True)])
        with pytest.raises(ReferenceMissing):
            store.transact(
                acme,
                [
                    Insert(session(acme, "third", user_id="gone"), restoring=True),
                    Insert(session(acme, "fourth", user_id="gone")),
                ],
            )
        assert ids(store, acme, Query(Session)) == ["talk"]

    def test_a_reference_never_leads_to_another_tenant(self, store: RecordStore, acme: Scope, globex: Scope) -> None:
        stored(store, globex, user(globex, "theirs"))
        with pytest.raises(ReferenceMissing):
            stored(store, acme, session(acme, user_id="theirs"))
        mine = stored(store, acme, session(acme))
        with pytest.raises(ReferenceMissing):
            store.transact(acme, [Update(mine.changed(user_id="theirs"))])

    def test_nothing_belongs_to_a_missing_or_soft_deleted_tenant(self, store: RecordStore, acme: Scope) -> None:
        with pytest.raises(ReferenceMissing):
            stored(store, Scope("nowhere"), user(Scope("nowhere")))
        store.transact(acme, [Put(Organization(organization_id="acme", id="acme", name="A", is_deleted=True))])
        with pytest.raises(ReferenceMissing):
            stored(store, acme, user(acme))

    def test_an_update_is_held_to_the_references_it_moves(self, store: RecordStore, acme: Scope) -> None:
        ann = stored(store, acme, user(acme))
        first = stored(store, acme, session(acme, user_id="ann"))
        store.transact(acme, [Update(ann.changed(is_deleted=True))])
        store.transact(acme, [Update(first.changed(title="still Ann's"))])
        with pytest.raises(ReferenceMissing):
            store.transact(acme, [Update(first.changed(version=2, user_id="nobody"))])
        kept = store.get(acme, Session, "talk")
        assert kept is not None
        assert (kept.user_id, kept.title, kept.version) == ("ann", "still Ann's", 2)

    def test_a_target_deleted_by_an_earlier_step_is_missing(self, store: RecordStore, acme: Scope) -> None:
        ann = stored(store, acme, user(acme))
        mine = session(acme, user_id="ann")
        for end in (Delete(User, "ann"), Update(ann.changed(is_deleted=True))):
            with pytest.raises(ReferenceMissing):
                store.transact(acme, [Insert(mine), end, Insert(session(acme, "second", user_id="ann"))])
        assert store.count(acme, Query(Session)) == 0

    def test_deleting_a_session_clears_it_from_its_memories(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, session(acme), session(acme, "second"))
        stored(store, acme, memory(acme, session_id="talk", text="an anchor"), memory(acme, "b", session_id="second"))
        assert store.transact(acme, [Delete(Session, "talk")]).deleted == 1
        kept = store.get(acme, Memory, "fact")
        assert kept is not None
        assert (kept.session_id, kept.version, kept.text) == (None, 2, "an anchor")
        assert search(store, acme, "anchor") == ["fact"]
        assert search(store, acme, "anchor", facets={"session_id": ("talk",)}) == []
        assert store.select(acme, Query(Memory, (OneOf("id", ("b",)),)), ("session_id",)) == [("second",)]

    @pytest.mark.parametrize("owner", [user, agent])
    def test_deleting_an_owner_deletes_all_that_hangs_on_it(
        self, store: RecordStore, acme: Scope, owner: Callable[[Scope, str], Record]
    ) -> None:
        theirs = stored(store, acme, owner(acme, "doomed"))
        field = f"{theirs.shape.table}_id"
        stored(store, acme, session(acme, **{field: "doomed"}), memory(acme, "kept", "an anchor"))
        stored(store, acme, memory(acme, text="an anchor", **{field: "doomed"}), tag(acme, "fact", "sea"))
        assert store.transact(acme, [Delete(type(theirs), "doomed")]).deleted == 4
        assert search(store, acme, "anchor") == ["kept"]
        assert [store.count(acme, Query(one, deleted="yes")) for one in (Session, Memory, Tag)] == [0, 1, 0]

    @pytest.fixture
    def deleted_types(self) -> list[type[Record]]:
        """Of which types one is deleted: of every one, unless a suite takes turns."""
        return every_type()

    def test_deleting_any_record_follows_the_declarations(
        self, store: RecordStore, acme: Scope, deleted_types: list[type[Record]]
    ) -> None:
        store.transact(acme, [Put(one, restoring=True) for one in one_of_each(acme)])
        before = everything(store, acme)
        assert {type(one) for one in before.values()} == set(every_type())
        for record in deleted_types:
            root = next(one for one in before.values() if isinstance(one, record))
            expected = survivors(before, root)
            committed = store.transact(acme, [Delete(record, root.id)])
            after = everything(store, acme)
            assert set(after) == set(expected)
            assert committed.deleted == len(before) - len(after)
            for key, emptied in expected.items():
                fields = {**dict.fromkeys(emptied), "version": before[key].version + len(emptied)}
                assert after[key] == before[key].changed(**fields)
            lacking = [one for key, one in before.items() if after.get(key) != one]
            store.transact(acme, [Put(one, restoring=True) for one in lacking])
        assert [problem.what for problem in store.verify()] == []

    def test_deleting_a_tenant_leaves_nothing_of_it_and_all_of_others(
        self, store: RecordStore, acme: Scope, globex: Scope
    ) -> None:
        for scope in (acme, globex):
            store.transact(scope, [Insert(one) for one in one_of_each(scope)[1:]])
        before = everything(store, globex)
        store.transact(acme, [Delete(Organization, "acme")])
        assert everything(store, acme) == {}
        assert everything(store, globex) == before
        assert store.tenants() == ["globex"]
        assert search(store, acme, "something") == []
        assert search(store, globex, "something") == ["a-memory"]

    def test_a_soft_deleted_record_is_invisible_unless_asked_for(self, store: RecordStore, acme: Scope) -> None:
        first = stored(store, acme, memory(acme, text="an anchor"), memory(acme, "other"))
        store.transact(acme, [Update(first.changed(is_deleted=True))])
        assert store.get(acme, Memory, "fact") is None
        assert ids(store, acme, Query(Memory)) == ["other"]
        assert store.select(acme, Query(Memory), ("id",)) == [("other",)]
        assert store.count(acme, Query(Memory)) == 1
        assert search(store, acme, "anchor") == []
        hidden = store.get(acme, Memory, "fact", deleted=True)
        assert hidden == first.changed(is_deleted=True, version=2)
        assert ids(store, acme, Query(Memory, deleted="yes")) == ["fact", "other"]
        assert ids(store, acme, Query(Memory, deleted="only")) == ["fact"]
        assert store.count(acme, Query(Memory, deleted="yes")) == 2
        assert store.select(acme, Query(Memory, deleted="only"), ("id",)) == [("fact",)]

    def test_soft_deleted_records_do_not_crowd_out_the_living(self, store: RecordStore, acme: Scope) -> None:
        best = [memory(acme, f"m{number}", "anchor") for number in range(5)]
        stored(store, acme, *best, memory(acme, "living", "anchor in a long row of other words"))
        store.transact(acme, [Update(one.changed(is_deleted=True)) for one in best])
        assert search(store, acme, "anchor", limit=1) == ["living"]
        assert store.verify() == []

    def test_a_restored_record_is_found_again(self, store: RecordStore, acme: Scope) -> None:
        first = stored(store, acme, memory(acme, text="an anchor"))
        store.transact(acme, [Update(first.changed(is_deleted=True))])
        store.transact(acme, [Update(first.changed(version=2, text="a beacon"))])
        assert store.get(acme, Memory, "fact") == first.changed(version=3, text="a beacon")
        assert search(store, acme, "beacon") == ["fact"]
        assert search(store, acme, "anchor") == []

    def test_what_is_inserted_soft_deleted_is_not_searched(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, memory(acme, text="an anchor", is_deleted=True))
        assert search(store, acme, "anchor") == []
        store.transact(acme, [Put(memory(acme, text="an anchor"))])
        assert search(store, acme, "anchor") == ["fact"]

    def test_a_soft_deleted_link_links_nothing(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, memory(acme))
        stored(store, acme, tag(acme, "fact", "sea", is_deleted=True))
        assert ids(store, acme, Query(Memory, (Linked(Tag, "memory_id"),))) == []
        assert ids(store, acme, Query(Memory, (Linked(Tag, "memory_id", wanted=False),))) == ["fact"]

    def test_soft_deleting_does_not_touch_what_hangs_on_it(self, store: RecordStore, acme: Scope) -> None:
        ann = stored(store, acme, user(acme))
        stored(store, acme, session(acme, user_id="ann"))
        store.transact(acme, [Update(ann.changed(is_deleted=True))])
        assert ids(store, acme, Query(Session)) == ["talk"]
        store.transact(acme, [Delete(User, "ann")])
        assert ids(store, acme, Query(Session, deleted="yes")) == []
