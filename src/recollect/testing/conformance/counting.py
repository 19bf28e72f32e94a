"""Counts by the values of fields and by stretches of time, in one question."""

from __future__ import annotations

from datetime import timedelta, timezone
from typing import Any

import pytest

from recollect.domain.memory import Memory
from recollect.errors import InvalidInput
from recollect.ports.query import Compare, Query, Spans, equal
from recollect.ports.records import RecordStore, Scope
from recollect.testing.conformance.makers import NOON, memory, stored


class CountingRules:
    def test_records_are_counted_by_the_values_of_fields(self, store: RecordStore, acme: Scope, globex: Scope) -> None:
        stored(store, globex, memory(globex, "theirs"))
        stored(
            store,
            acme,
            memory(acme, "a", kind="fact", priority=3, author="Ann"),
            memory(acme, "b", kind="fact", priority=3),
            memory(acme, "c", kind="plan", priority=4, author=""),
            memory(acme, "d", kind="plan", priority=4, is_deleted=True),
        )
        assert store.count_by(acme, Query(Memory), ["kind"]) == {("fact",): 2, ("plan",): 1}
        assert store.count_by(acme, Query(Memory, deleted="yes"), ["is_deleted", "priority"]) == {
            (False, 3): 2,
            (False, 4): 1,
            (True, 4): 1,
        }
        assert store.count_by(acme, Query(Memory), ["author"]) == {("Ann",): 1, (None,): 1, ("",): 1}
        assert store.count_by(acme, Query(Memory, (Compare("priority", ">", 5),)), ["kind"]) == {}
        narrowed = Query(Memory, (equal("kind", "fact"),), limit=1)
        assert store.count_by(acme, narrowed, ["kind", "priority"]) == {("fact", 3): 2}

    def test_records_are_counted_by_stretches_of_time(self, store: RecordStore, acme: Scope) -> None:
        days = tuple(NOON + timedelta(days=number) for number in range(3))
        moments = {"early": NOON - timedelta(microseconds=1), "first": NOON, "second": days[1], "late": days[2]}
        moments["last"] = days[2] + timedelta(days=900)
        stored(store, acme, *(memory(acme, id, occurred_at=moment) for id, moment in moments.items()))
        assert store.count_by(acme, Query(Memory), [Spans("occurred_at", days)]) == {(0,): 1, (1,): 1, (2,): 1, (3,): 2}
        assert store.count_by(acme, Query(Memory), ["kind", Spans("expires_at", days)]) == {("fact", 0): 5}
        assert store.count_by(acme, Query(Memory), [Spans("occurred_at", ())]) == {(0,): 5}
        elsewhere = tuple(day.astimezone(timezone(timedelta(hours=5))) for day in days)
        assert store.count_by(acme, Query(Memory), [Spans("occurred_at", elsewhere)])[(3,)] == 2
        many = tuple(NOON + timedelta(minutes=number) for number in range(400))
        assert store.count_by(acme, Query(Memory), [Spans("occurred_at", many)])[(400,)] == 3

    def test_what_cannot_be_counted_by_is_refused(self, store: RecordStore, acme: Scope) -> None:
        wrong: list[list[Any]] = [
            ["metadata"],
            ["nothing"],
            ["occurred_at"],
            ["confidence"],
            [Spans("kind", (NOON,))],
            [],
        ]
        for by in wrong:
            with pytest.raises(InvalidInput):
                store.count_by(acme, Query(Memory), by)
        with pytest.raises(InvalidInput):
            store.count_by(acme, Query(Memory), [Spans("occurred_at", (NOON, NOON - timedelta(days=1)))])

    def test_a_snapshot_counts_as_of_its_moment(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, memory(acme, "a"))
        with store.snapshot(acme) as reading:
            stored(store, acme, memory(acme, "b"))
            assert reading.count_by(acme, Query(Memory), ["kind"]) == {("fact",): 1}
            assert store.count_by(acme, Query(Memory), ["kind"]) == {("fact",): 2}
