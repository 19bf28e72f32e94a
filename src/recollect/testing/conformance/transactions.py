"""All or nothing, versions, unique keys, requirements, deleting and touching."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from recollect.domain.agents import AgentState
from recollect.domain.conversations import Session
from recollect.domain.memory import Memory, Tag
from recollect.domain.tenancy import User
from recollect.errors import (
    DuplicateKey,
    InvalidInput,
    NotFound,
    RecollectError,
    ReferenceMissing,
    RequirementFailed,
    VersionConflict,
)
from recollect.ports.query import Compare, Holds, IsNull, OneOf, Query, equal
from recollect.ports.records import RecordStore, Scope, revised
from recollect.ports.steps import Absent, Delete, DeleteWhere, Insert, Put, Require, Step, Touch, Update
from recollect.testing.conformance.makers import NOON, agent, ids, memory, search, session, stored, tag, user

ACME = Scope("acme")
FAILING_STEPS: list[tuple[str, Step, type[RecollectError]]] = [
    ("duplicate id", Insert(user(ACME)), DuplicateKey),
    ("duplicate key", Insert(user(ACME, "eve", email="ann@acme.org")), DuplicateKey),
    ("missing reference", Insert(session(ACME, "lost", user_id="nobody")), ReferenceMissing),
    ("stale version", Update(user(ACME, version=7)), VersionConflict),
    ("nothing to update", Update(user(ACME, "nobody")), NotFound),
    ("requirement", Require(User, "nobody"), RequirementFailed),
    ("absence", Absent(User, (equal("id", "ann"),)), RequirementFailed),
    ("no filter", DeleteWhere(Tag, ()), InvalidInput),
    ("unknown field", DeleteWhere(Tag, (equal("colour", "red"),)), InvalidInput),
    ("foreign tenant", Insert(user(Scope("globex"), "spy")), InvalidInput),
    ("untouchable field", Touch(User, "ann", put={"email": "eve@acme.org"}), InvalidInput),
]


class TransactionRules:
    @pytest.mark.parametrize(
        ("step", "error"), [one[1:] for one in FAILING_STEPS], ids=[one[0] for one in FAILING_STEPS]
    )
    def test_a_failing_step_in_the_middle_leaves_nothing(
        self, store: RecordStore, acme: Scope, step: Step, error: type[RecollectError]
    ) -> None:
        stored(store, acme, user(acme, email="ann@acme.org"))
        stored(store, acme, memory(acme, "old", "an anchor"), tag(acme, "old", "sea", id="old-tag"))
        before = store.changes(acme, 0)
        good: list[Step] = [
            Insert(memory(acme, "new", "a lantern")),
            Update(memory(acme, "old", "a beacon")),
            Touch(Memory, "old", {"access_count": 5}),
            DeleteWhere(Tag, (equal("memory_id", "old"),)),
        ]
        with pytest.raises(error):
            store.transact(acme, [*good, step, Insert(memory(acme, "later", "a harbour"))])
        assert store.changes(acme, 0) == before
        assert ids(store, acme, Query(Memory, deleted="yes")) == ["old"]
        assert ids(store, acme, Query(Tag)) == ["old-tag"]
        assert search(store, acme, "anchor", "lantern", "beacon", "harbour") == ["old"]
        assert search(store, acme, "beacon") == []
        kept = store.get(acme, Memory, "old")
        assert kept is not None
        assert (kept.version, kept.access_count, kept.text) == (1, 0, "an anchor")

    def test_an_undone_cascade_leaves_everything(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, user(acme), session(acme, user_id="ann"))
        stored(store, acme, memory(acme, session_id="talk", text="an anchor"), tag(acme, "fact", "sea"))
        before = store.changes(acme, 0)
        with pytest.raises(RequirementFailed):
            store.transact(acme, [Delete(User, "ann"), Require(User, "ann")])
        assert store.changes(acme, 0) == before
        kept = store.get(acme, Memory, "fact")
        assert kept is not None
        assert (kept.session_id, kept.version) == ("talk", 1)
        assert store.count(acme, Query(Tag)) == 1

    def test_a_transaction_may_be_repeated_after_it_failed(self, store: RecordStore, acme: Scope) -> None:
        steps: list[Step] = [Insert(memory(acme, text="an anchor")), Require(User, "ann")]
        with pytest.raises(RequirementFailed):
            store.transact(acme, steps)
        stored(store, acme, user(acme))
        store.transact(acme, steps)
        assert search(store, acme, "anchor") == ["fact"]

    def test_steps_see_what_earlier_steps_did(self, store: RecordStore, acme: Scope) -> None:
        first = session(acme)
        store.transact(
            acme,
            [
                Absent(Session, (equal("title", "hello"),)),
                Insert(first),
                Update(first.changed(title="hello")),
                Update(first.changed(title="hello again", version=2)),
                Require(Session, "talk", {"title": "hello again", "version": 3}),
                Insert(memory(acme, session_id="talk")),
                DeleteWhere(Memory, (equal("session_id", "talk"),)),
                Absent(Memory, (equal("session_id", "talk"),)),
            ],
        )
        assert store.count(acme, Query(Memory)) == 0

    @pytest.mark.parametrize("late", [one[1] for one in FAILING_STEPS if one[2] is not InvalidInput])
    def test_the_first_step_that_fails_is_the_one_to_blame(self, store: RecordStore, acme: Scope, late: Step) -> None:
        """Only what is no proper step at all may be refused before any other is tried."""
        stored(store, acme, user(acme, email="ann@acme.org"))
        stored(store, acme, agent(acme))
        with pytest.raises(DuplicateKey) as failure:
            store.transact(acme, [Insert(session(acme)), Insert(agent(acme)), late])
        assert "agent" in failure.value.message
        assert store.count(acme, Query(Session)) == 0

    def test_no_steps_are_no_error(self, store: RecordStore, acme: Scope) -> None:
        before = store.changes(acme, 0)
        assert store.transact(acme, []).deleted == 0
        assert store.changes(acme, 0) == before

    def test_an_update_counts_the_version_up(self, store: RecordStore, acme: Scope) -> None:
        first = stored(store, acme, user(acme))
        store.transact(acme, [Update(revised(first, acme, name="Anna"))])
        second = store.get(acme, User, "ann")
        assert second is not None
        assert (second.name, second.version, second.updated_by) == ("Anna", 2, "tester")

    def test_an_update_of_a_stale_version_conflicts_and_changes_nothing(self, store: RecordStore, acme: Scope) -> None:
        first = stored(store, acme, user(acme))
        store.transact(acme, [Update(first.changed(name="Anna"))])
        for version in (1, 3, 0):
            with pytest.raises(VersionConflict):
                store.transact(acme, [Update(first.changed(name="Eve", version=version))])
        kept = store.get(acme, User, "ann")
        assert kept is not None
        assert (kept.name, kept.version) == ("Anna", 2)

    def test_put_inserts_then_overwrites_whatever_version_is_there(self, store: RecordStore, acme: Scope) -> None:
        for name, version in (("Ann", 1), ("Anna", 1), ("Anne", 99)):
            store.transact(acme, [Put(user(acme, name=name, version=version))])
        kept = store.get(acme, User, "ann")
        assert kept is not None
        assert (kept.name, kept.version) == ("Anne", 3)

    def test_touch_changes_neither_version_nor_seq(self, store: RecordStore, acme: Scope) -> None:
        first = stored(store, acme, memory(acme))
        before = store.changes(acme, 0)
        step = Touch(Memory, "fact", {"access_count": 2, "importance": 0.5}, {"last_accessed": NOON})
        store.transact(acme, [step, step])
        kept = store.get(acme, Memory, "fact")
        assert kept is not None
        assert (kept.access_count, kept.importance, kept.last_accessed) == (4, 1.0, NOON)
        assert (kept.version, kept.updated_at) == (1, first.updated_at)
        assert store.changes(acme, 0) == before

    def test_touching_what_is_not_there_is_no_error(self, store: RecordStore, acme: Scope) -> None:
        store.transact(acme, [Touch(Memory, "nothing", {"access_count": 1})])
        assert store.count(acme, Query(Memory)) == 0

    def test_touching_an_empty_counter_begins_at_nought(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, memory(acme, score=None))
        store.transact(acme, [Touch(Memory, "fact", {"score": 0.25}), Touch(Memory, "fact")])
        assert store.select(acme, Query(Memory), ("score",)) == [(0.25,)]

    def test_touches_in_a_row_each_put_what_they_say(self, store: RecordStore, acme: Scope) -> None:
        """Values that Python takes for equal are others in JSON."""
        told = [{"v": value} for value in (*[1] * 8, True, [False], [0], "1")]
        stored(store, acme, *(memory(acme, f"m{n:02d}", f"the {n}th") for n in range(len(told))))
        store.transact(acme, [Touch(Memory, f"m{n:02d}", put={"metadata": one}) for n, one in enumerate(told)])
        kept = [record.metadata["v"] for record in store.find(acme, Query(Memory)).records]
        assert [(type(one), one) for one in kept] == [(type(one["v"]), one["v"]) for one in told]

    def test_touches_in_a_row_put_an_hour_that_a_clock_has_twice(self, store: RecordStore, acme: Scope) -> None:
        berlin = ZoneInfo("Europe/Berlin")
        told = [datetime(2024, 10, 27, 2, 30, tzinfo=berlin, fold=fold) for fold in [0] * 8 + [1] * 8]
        stored(store, acme, *(memory(acme, f"m{n:02d}", f"the {n}th") for n in range(len(told))))
        store.transact(acme, [Touch(Memory, f"m{n:02d}", put={"last_accessed": one}) for n, one in enumerate(told)])
        kept = [record.last_accessed for record in store.find(acme, Query(Memory)).records]
        assert kept == [one.astimezone(UTC) for one in told]

    def test_touches_in_a_row_add_numbers_of_each_kind_and_nothing(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, *(memory(acme, id, f"the {id}", importance=1.0) for id in ("a", "b", "c")))
        store.transact(acme, [Touch(Memory, id) for id in ("a", "b", "c")])
        store.transact(acme, [Touch(Memory, id, {"importance": by}) for id, by in (("a", 2), ("b", 2.5), ("c", 1))])
        assert sorted(store.select(acme, Query(Memory), ("id", "importance"))) == [("a", 3.0), ("b", 3.5), ("c", 2.0)]

    @pytest.mark.parametrize(
        "step",
        [
            Touch(Memory, "fact", put={"organization_id": "globex"}),
            Touch(Memory, "fact", put={"id": "other"}),
            Touch(Memory, "fact", {"version": 1}),
            Touch(Memory, "fact", put={"is_deleted": True}),
            Touch(Memory, "fact", put={"user_id": "nobody"}),
            Touch(Memory, "fact", put={"text": "not in the index"}),
            Touch(Memory, "fact", put={"status": "published"}),
            Touch(Memory, "fact", put={"priority": 11}),
            Touch(Memory, "fact", put={"priority": None}),
            Touch(Memory, "fact", put={"last_accessed": "yesterday"}),
            Touch(Memory, "fact", {"level": 1}),
            Touch(Memory, "fact", {"access_count": 0.5}),
            Touch(Memory, "fact", {"colour": 1}),
            Touch(Memory, "fact", {"score": 0.5}, {"score": 0.25}),
        ],
        ids=repr,
    )
    def test_touch_keeps_off_what_others_rest_on(self, store: RecordStore, acme: Scope, step: Touch) -> None:
        first = stored(store, acme, memory(acme))
        with pytest.raises(InvalidInput):
            store.transact(acme, [step])
        assert store.get(acme, Memory, "fact") == first

    def test_an_id_is_taken_even_by_a_soft_deleted_record(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, agent(acme, is_deleted=True))
        with pytest.raises(DuplicateKey):
            stored(store, acme, agent(acme))

    def test_a_unique_key_is_taken_once_and_empty_ones_never_collide(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, user(acme, "a", email="a@b.c"), user(acme, "b"), user(acme, "c"))
        with pytest.raises(DuplicateKey):
            stored(store, acme, user(acme, "d", email="a@b.c"))
        with pytest.raises(DuplicateKey):
            store.transact(acme, [Update(user(acme, "b", email="a@b.c"))])
        with pytest.raises(DuplicateKey):
            store.transact(acme, [Put(user(acme, "c", email="a@b.c"))])
        assert ids(store, acme, Query(User)) == ["a", "b", "c"]

    def test_a_soft_deleted_record_keeps_its_unique_key(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, user(acme, "a", email="a@b.c", is_deleted=True))
        with pytest.raises(DuplicateKey):
            stored(store, acme, user(acme, "b", email="a@b.c"))
        store.transact(acme, [Delete(User, "a"), Insert(user(acme, "b", email="a@b.c"))])

    def test_where_nulls_are_equal_one_empty_key_is_all(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, agent(acme), agent(acme, "other"))
        stored(store, acme, session(acme), session(acme, "second"))

        def state(id: str, **fields: Any) -> AgentState:
            return AgentState(organization_id="acme", id=id, state_data={}, **{"agent_id": "bot", **fields})

        stored(store, acme, state("1"), state("2", session_id="talk"), state("3", session_id="second"))
        stored(store, acme, state("4", agent_id="other"))
        for taken in (state("5"), state("6", session_id="talk")):
            with pytest.raises(DuplicateKey):
                stored(store, acme, taken)
        with pytest.raises(DuplicateKey):
            store.transact(acme, [Update(state("3", session_id="talk"))])

    def test_require_wants_a_living_record_that_matches(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, user(acme), user(acme, "gone", is_deleted=True))
        store.transact(acme, [Require(User, "ann"), Require(User, "ann", {"status": "active", "email": None})])
        for step in (
            Require(User, "gone"),
            Require(User, "nobody"),
            Require(User, "ann", {"status": "invited"}),
            Require(User, "ann", {"status": "active", "email": "a@b.c"}),
        ):
            with pytest.raises(RequirementFailed):
                store.transact(acme, [step])

    def test_absent_names_the_record_it_found(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, user(acme), user(acme, "gone", email="g@b.c", is_deleted=True))
        store.transact(acme, [Absent(User, (equal("email", "g@b.c"),)), Absent(User, (equal("id", "nobody"),))])
        with pytest.raises(RequirementFailed) as caught:
            store.transact(acme, [Absent(User, (IsNull("email"), equal("name", "Ann")))])
        assert caught.value.details["id"] == "ann"

    def test_deleting_what_is_not_there_is_no_error(self, store: RecordStore, acme: Scope) -> None:
        before = store.changes(acme, 0)
        assert store.transact(acme, [Delete(User, "nobody")]).deleted == 0
        assert store.changes(acme, 0) == before

    def test_the_first_step_that_fails_says_why(self, store: RecordStore, acme: Scope) -> None:
        senseless = Absent(AgentState, (Holds("state_data", "1"),))  # it is encrypted
        with pytest.raises(NotFound):
            store.transact(acme, [Update(user(acme, "nobody")), senseless])
        with pytest.raises(InvalidInput):
            store.transact(acme, [senseless, Update(user(acme, "nobody"))])

    def test_delete_where_deletes_what_passes_all_filters(self, store: RecordStore, acme: Scope) -> None:
        priorities = {"a": 1, "b": 5, "c": 9, "d": 9}
        stored(store, acme, *(memory(acme, id, f"word{id}", priority=p) for id, p in priorities.items()))
        stored(store, acme, memory(acme, "e", priority=9, is_deleted=True))
        where = (Compare("priority", ">", 4), OneOf("id", ("a", "b", "c", "e")))
        assert store.transact(acme, [DeleteWhere(Memory, where)]).deleted == 3
        assert ids(store, acme, Query(Memory, deleted="yes")) == ["a", "d"]
        assert sorted(search(store, acme, "worda", "wordb", "wordc", "wordd")) == ["a", "d"]

    def test_delete_where_refuses_to_delete_everything(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, user(acme))
        with pytest.raises(InvalidInput):
            store.transact(acme, [DeleteWhere(User, ())])
        assert store.count(acme, Query(User)) == 1

    def test_hundreds_are_deleted_at_once(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, memory(acme), *(agent(acme, f"a{number}") for number in range(600)))
        assert store.transact(acme, [DeleteWhere(type(agent(acme)), (equal("name", "Bot"),))]).deleted == 600

    def test_a_commit_tells_the_highest_seq_it_gave_out(self, store: RecordStore, acme: Scope) -> None:
        committed = store.transact(acme, [Insert(user(acme)), Insert(agent(acme))])
        assert committed.seq == store.changes(acme, 0)[-1].seq
        assert store.transact(acme, [Require(User, "ann"), Touch(User, "ann")]).seq == 0
