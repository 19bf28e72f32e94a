"""What is remembered of a text search is never stale: whatever changed a text, in this process or in another."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pytest

from recollect.adapters.records.sqlite import fulltext, term_holders
from recollect.adapters.records.sqlite.connection import connect
from recollect.adapters.records.sqlite.store import SqliteStore
from recollect.domain.memory import Memory
from recollect.domain.record import now
from recollect.ports.query import TextQuery
from recollect.ports.records import Scope
from recollect.ports.steps import Delete, Insert, Put, Update
from recollect.testing.conformance.makers import found, memory, search, stored
from recollect.testing.statements import sqlite_statements

ACME = Scope("acme")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "records.db"


@pytest.fixture
def seen() -> Iterator[list[str]]:
    with sqlite_statements() as seen:
        yield seen


@pytest.fixture
def store(path: Path, seen: list[str]) -> Iterator[SqliteStore]:
    store = SqliteStore(path)
    found(store, "acme")
    stored(store, ACME, *(memory(ACME, f"m{number}", f"harbour {number}") for number in range(5)))
    yield store
    store.close()


@pytest.fixture
def other(store: SqliteStore, path: Path) -> Iterator[SqliteStore]:
    """The same file, as another process has it open."""
    other = SqliteStore(path)
    yield other
    other.close()


def harbours(store: SqliteStore) -> set[str]:
    return set(search(store, ACME, "harbour"))


def changed(store: SqliteStore, id: str, text: str | None = None, **fields: Any) -> None:
    known = store.get(ACME, Memory, id, deleted=True)
    assert known is not None
    store.transact(ACME, [Update(known.changed(text=known.text if text is None else text, **fields))])


def readings(seen: list[str]) -> int:
    return sum("group_concat" in statement for statement in seen)


def test_the_same_words_are_read_out_of_the_index_once(store: SqliteStore, seen: list[str]) -> None:
    for _ in range(3):
        assert len(harbours(store)) == 5
    assert readings(seen) == 1


def test_what_is_added_later_is_found(store: SqliteStore, other: SqliteStore) -> None:
    before = harbours(store)
    stored(other, ACME, memory(ACME, "new", "another harbour"))
    assert harbours(store) == {*before, "new"}
    stored(store, ACME, memory(ACME, "newer", "a third harbour"))
    assert harbours(store) == harbours(other) == {*before, "new", "newer"}


def test_a_changed_text_is_found_by_its_new_words_alone(store: SqliteStore, other: SqliteStore) -> None:
    assert "m1" in harbours(store)
    assert not search(store, ACME, "meadow")
    changed(other, "m1", "a meadow")
    assert "m1" not in harbours(store)
    assert search(store, ACME, "meadow") == ["m1"]


def test_a_change_that_leaves_the_words_leaves_what_is_known_of_them(
    store: SqliteStore, other: SqliteStore, seen: list[str]
) -> None:
    """A memory that is replaced by another is no longer valid, and says the same."""
    assert len(harbours(store)) == 5
    changed(other, "m1", priority=9, metadata={"a": 1}, valid_to=now())
    assert len(harbours(store)) == 5
    assert readings(seen) == 1
    assert not any("memory_text" in text and "INSERT" in text for text in seen if "REPLACE" in text)


def test_a_change_of_whose_it_is_or_what_it_counts_for_is_indexed(store: SqliteStore, other: SqliteStore) -> None:
    def found_of(**facets: tuple[str, ...]) -> list[str]:
        return [hit.id for hit in store.search_text(ACME, TextQuery(Memory, ("harbour",), 10, facets))]

    assert found_of(status=("verified",)) == found_of(kind=("plan",)) == []
    changed(other, "m1", status="verified")
    changed(other, "m2", kind="plan")
    assert (found_of(status=("verified",)), found_of(kind=("plan",))) == (["m1"], ["m2"])
    changed(other, "m1", is_deleted=True)
    changed(other, "m1", is_deleted=True, priority=3)
    assert found_of(status=("verified",)) == []
    changed(other, "m1", is_deleted=False)
    assert found_of(status=("verified",)) == ["m1"]
    assert store.verify() == []


@pytest.mark.parametrize("column", ["text", "author", "namespaces"])
def test_what_cannot_be_read_is_replaced_and_indexed(store: SqliteStore, path: Path, column: str) -> None:
    known = store.get(ACME, Memory, "m1")
    assert known is not None
    connection = connect(path, writable=True)
    connection.execute(f"UPDATE memory SET {column} = CAST(x'fffefa' AS TEXT) WHERE id = 'm1'")
    connection.close()
    store.transact(ACME, [Put(known.changed(author="Ann"), restoring=True)])
    assert search(store, ACME, "ann") == ["m1"]
    assert store.verify() == []


def test_what_takes_the_place_of_the_last_is_not_taken_for_it(store: SqliteStore, other: SqliteStore) -> None:
    assert "m4" in harbours(store)
    other.transact(ACME, [Delete(Memory, "m4"), Insert(memory(ACME, "m9", "a meadow"))])
    assert harbours(store) == {"m0", "m1", "m2", "m3"}
    assert search(store, ACME, "meadow") == ["m9"]


def test_nothing_is_believed_after_a_program_that_does_not_count_changes(store: SqliteStore, path: Path) -> None:
    harbours(store)
    assert not search(store, ACME, "meadow")
    changed_by_an_older_program(path)
    assert search(store, ACME, "meadow") == ["m1"]
    stored(store, ACME, memory(ACME, "new", "another harbour"))
    assert search(store, ACME, "meadow") == ["m1"]
    assert "m1" not in harbours(store)


def changed_by_an_older_program(path: Path) -> None:
    """As one without `text_seq` writes: the text, its index and the seq."""
    connection = connect(path, writable=True)
    with connection:
        row = connection.execute("SELECT _row FROM memory WHERE id = 'm1'").get
        facets = fulltext.facet_tokens(memory(ACME, "m1"))
        connection.execute("UPDATE memory SET text = 'a meadow' WHERE id = 'm1'")
        connection.execute(
            "INSERT OR REPLACE INTO memory_text(rowid, facets, terms) VALUES (?, ?, 'a meadow')", (row, facets)
        )
        connection.execute("UPDATE recollect_store SET value = value + 1 WHERE key = 'seq'")
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.close()


def test_no_more_is_remembered_than_there_is_room_for(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(term_holders, "MOST_KNOWN_ROWS", 6)
    for word in ("harbour", "0", "1", "2", "3"):
        search(store, ACME, word)
    known = store._holders
    assert known._rows == sum(len(one.rows) for one in known._known.values()) <= 6
    assert len(harbours(store)) == 5


def test_a_text_index_made_anew_is_read_anew(store: SqliteStore, other: SqliteStore, seen: list[str]) -> None:
    before = harbours(store)
    other.mend()
    assert harbours(store) == before
    assert readings(seen) == 2


def test_what_is_read_in_one_reading_is_of_one_moment(store: SqliteStore, other: SqliteStore) -> None:
    with store.reading():
        assert store.get(ACME, Memory, "new") is None
        stored(other, ACME, memory(ACME, "new", "another harbour"))
        assert store.get(ACME, Memory, "new") is None
        with store.vector_snapshot():  # the index begins a new moment, so that it never goes back
            pass
        assert store.get(ACME, Memory, "new") is not None


def test_what_was_read_before_a_change_is_not_remembered_after_it(store: SqliteStore, other: SqliteStore) -> None:
    """Two threads search: one has read when the other learns of the change."""
    known, match = store._holders, 'terms : "harbour"'
    with store._readers.snapshot() as connection:
        view = known.view(connection, Memory, store._readers.counters(connection))
        changed(other, "m1", "a meadow")
        assert search(store, ACME, "meadow") == ["m1"]
        assert len(known.of(connection, view, [match], newest=False)[0]) == 5
    assert harbours(store) == {"m0", "m2", "m3", "m4"}
    assert all(len(one.rows) < 5 for one in known._known.values())


def test_who_searches_an_earlier_moment_is_not_handed_what_another_knows_of_a_later_one(
    store: SqliteStore, other: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread learns of a change after this one looked which words it may take as known."""
    assert len(harbours(store)) == 5
    of = store._holders.of

    def later(*asked: Any, **how: Any) -> Any:
        monkeypatch.undo()
        known = other.get(ACME, Memory, "m1")
        assert known is not None
        other.transact(ACME, [Delete(Memory, "m1")])
        other.transact(ACME, [Insert(memory(ACME, "z", "harbour")), Insert(known)])  # in another row
        thread = threading.Thread(target=lambda: harbours(store))
        thread.start()
        thread.join()
        return of(*asked, **how)

    monkeypatch.setattr(store._holders, "of", later)
    with store.reading():
        assert harbours(store) == {"m0", "m1", "m2", "m3", "m4"}
    assert harbours(store) == {"m0", "m1", "m2", "m3", "m4", "z"}


@pytest.mark.parametrize("few", [0, 10_000])
@pytest.mark.parametrize("last", [40, 1_000_000])
def test_rows_that_lie_close_or_far_apart_are_worth_the_same(
    last: int, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fulltext, "FEW_HELD", few)
    chance = np.random.default_rng(3)
    for terms in (1, 4, 9, 17) * 5:
        held = [np.unique(chance.integers(1, last, 30)) for _ in range(terms)]
        expected: dict[int, float] = {}
        for rows in held:
            for row in rows.tolist():
                worth = math.log(1 + (max(100 - len(rows), 0) + 0.5) / (len(rows) + 0.5))
                expected[row] = expected.get(row, 0.0) + worth
        best_first = sorted(expected.items(), key=lambda one: (-one[1], -one[0]))
        for steps in ([len(best_first)], [3, 7, len(best_first)]):  # the best alone are put in order at first
            scored = fulltext._scored([*held, np.empty(0, np.int64)], 100)
            given, start = [], 0
            for stop in steps:
                rows, scores = scored.slice(start, stop)
                given += list(zip(rows.tolist(), scores, strict=True))
                start = stop
            assert given == best_first  # to the digit


def test_the_only_organization_of_a_store_is_not_looked_for_in_the_index(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(term_holders, "MOST_HOLDERS", 2)  # too many to count all
    monkeypatch.setattr(fulltext, "MOST_HOLDERS", 2)
    assert search(store, ACME, "harbour") == ["m3", "m4"]
    assert [match for _, match in store._holders._known] == ['terms : "harbour"']
    other = found(store, "globex")
    stored(store, other, memory(other, "g1", "harbour of others"), memory(other, "g2", "harbour of others"))
    assert search(store, ACME, "harbour") == ["m3", "m4"]
    assert [match for _, match in store._holders._known][-1].startswith("facets : ")
