"""A snapshot shows one tenant as of one moment, whatever others write meanwhile."""

from __future__ import annotations

import pytest

from recollect.domain.memory import Memory, Tag
from recollect.errors import Closed, InvalidInput
from recollect.ports.query import Compare, Linked, OneOf, Order, Query, equal
from recollect.ports.records import Reads, RecordStore, Scope
from recollect.ports.steps import Delete, Insert, Update
from recollect.testing.conformance.makers import memory, stored, tag


def seen(reading: Reads, scope: Scope) -> object:
    """All that can be asked of memories and their tags, by every verb."""
    tagged = Query(Memory, (Linked(Tag, "memory_id", (equal("tag", "t"),)),), (Order("text"),))
    one = reading.get(scope, Memory, "b")
    return (
        [(one.id, one.text, one.version) for one in reading.find(scope, Query(Memory, deleted="yes")).records],
        [one.id for one in reading.find(scope, tagged).records],
        reading.select(scope, Query(Tag, (), (Order("memory_id"),)), ("memory_id", "tag")),
        reading.select_each(scope, [(Query(Memory, (OneOf("id", ("a", "z", "b")),)), ("id",))]),
        reading.count(scope, Query(Memory)),
        reading.count(scope, Query(Memory, (Compare("text", "!=", "the sky"),))),
        one.text if one else None,
    )


class SnapshotRules:
    def test_a_snapshot_shows_nothing_of_what_is_written_after_it_began(self, store: RecordStore, acme: Scope) -> None:
        stored(store, acme, *(memory(acme, id) for id in "abc"), memory(acme, "gone", is_deleted=True))
        stored(store, acme, *(tag(acme, id, "t") for id in "abc"))
        before = seen(store, acme)
        with store.snapshot(acme) as reading:
            read = store.get(acme, Memory, "b")
            assert read is not None
            store.transact(acme, [Update(read.changed(text="the sea")), Insert(memory(acme, "d", "new"))])
            assert seen(reading, acme) == before
            store.transact(acme, [Delete(Memory, "a"), Delete(Memory, "gone")])
            assert seen(reading, acme) == before
            assert seen(store, acme) != before
            assert reading.get(acme, Memory, "gone") is None
            assert reading.get(acme, Memory, "gone", deleted=True) is not None
        with store.snapshot(acme) as reading:
            assert seen(reading, acme) == seen(store, acme)

    def test_a_snapshot_is_paged_through_while_all_is_deleted(self, store: RecordStore, acme: Scope) -> None:
        names = [f"m{number:02}" for number in range(10)]
        stored(store, acme, *(memory(acme, id) for id in names))
        read: list[str] = []
        with store.snapshot(acme) as reading:
            after: str | None = None
            while True:
                page = reading.find(acme, Query(Memory, (), (Order("id"),), 3, after, "yes"))
                read += [one.id for one in page.records]
                store.transact(acme, [Delete(Memory, id) for id in names])
                after = page.next
                if after is None:
                    break
        assert read == names
        assert store.count(acme, Query(Memory, deleted="yes")) == 0

    def test_a_snapshot_is_of_one_tenant(self, store: RecordStore, acme: Scope, globex: Scope) -> None:
        stored(store, globex, memory(globex, "theirs"))
        with store.snapshot(acme) as reading:
            try:
                found = reading.find(globex, Query(Memory)).records
            except InvalidInput:
                found = []
            assert found == []

    def test_a_snapshot_ends_with_its_block(self, store: RecordStore, acme: Scope) -> None:
        with store.snapshot(acme) as reading:
            assert reading.count(acme, Query(Memory)) == 0
        with pytest.raises(Closed):
            reading.count(acme, Query(Memory))

    def test_errors_of_who_reads_a_snapshot_pass_as_they_are(self, store: RecordStore, acme: Scope) -> None:
        mine = OSError(28, "No space left on the reader's device")
        with pytest.raises(OSError, match="reader's device") as caught, store.snapshot(acme):
            raise mine
        assert caught.value is mine
        stored(store, acme, memory(acme))
        with store.snapshot(acme) as reading:
            assert reading.count(acme, Query(Memory)) == 1

    def test_several_snapshots_are_of_several_moments(self, store: RecordStore, acme: Scope) -> None:
        with store.snapshot(acme) as first:
            stored(store, acme, memory(acme, "one"))
            with store.snapshot(acme) as second:
                stored(store, acme, memory(acme, "two"))
                counts = [reading.count(acme, Query(Memory)) for reading in (first, second, store)]
        assert counts == [0, 1, 2]
