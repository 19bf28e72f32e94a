"""Rows and vectors that are kept in memory: read once, never stale, never more than there is room for.

`tests/property/test_known_rows_agree.py` compares them with the reference after random changes by two programs; here
is what such a run meets rarely or not at all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import apsw
import pytest

import recollect
from recollect.adapters.records.sqlite import known_rows, row_marks
from recollect.adapters.records.sqlite.connection import connect
from recollect.adapters.records.sqlite.known_rows import KnownRows
from recollect.adapters.records.sqlite.store import SqliteStore
from recollect.domain.memory import Embedding, Memory
from recollect.domain.record import now
from recollect.domain.tenancy import Organization
from recollect.errors import InvalidInput, VersionConflict
from recollect.ports.query import Beside, Compare, OneOf, Query, TextQuery
from recollect.ports.records import Scope
from recollect.ports.steps import Delete, Insert, Put, Step, Touch, Update
from recollect.testing.conformance.makers import embedding, found, memory, session, stored
from recollect.testing.statements import sqlite_statements

ACME = Scope("acme")
IDS = ("m0", "m1", "m2", "m3", "m4")
HALF, ZERO = b"\x00\x38", b"\x00\x00"


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
    fill(store)
    yield store
    store.close()


@pytest.fixture
def other(store: SqliteStore, path: Path) -> Iterator[SqliteStore]:
    """The same file, as another process has it open."""
    other = SqliteStore(path)
    yield other
    other.close()


def fill(store: SqliteStore) -> None:
    found(store, "acme")
    stored(store, ACME, session(ACME))
    stored(store, ACME, *(memory(ACME, id, f"harbour {id}", session_id="talk") for id in IDS))
    stored(store, ACME, *(embedding(ACME, id, HALF, id=f"v{id}") for id in IDS))


def texts(store: SqliteStore, ids: Sequence[str] = IDS, *filters: Compare) -> dict[str, str]:
    return dict(store.select(ACME, Query(Memory, (OneOf("id", tuple(ids)), *filters)), ("id", "text")))


def vectors(store: SqliteStore) -> dict[str, bytes]:
    return {row[0]: row[1] for row in store.stored_vectors(ACME, "long_term/m", IDS)}


def living(store: SqliteStore) -> list[tuple[str, bytes]]:
    with store.vector_snapshot() as snapshot:
        return sorted((row.memory_id, row.vector) for row in snapshot.rows_at(range(1, snapshot.last_seq() + 1)))


def around(store: SqliteStore, id: str) -> list[str]:
    known = store.get(ACME, Memory, id)
    assert known is not None
    place = ("talk", known.occurred_at, id)
    return store.beside(ACME, Beside(Memory, "session_id", "occurred_at", (place,), 2))[0]


def changed(store: SqliteStore, id: str, **fields: object) -> None:
    known = store.get(ACME, Memory, id, deleted=True)
    assert known is not None
    store.transact(ACME, [Update(known.changed(**fields))])


def readings(seen: list[str], table: str) -> int:
    """How often rows of a table were read out of the file."""
    return sum(f" {table} " in text and "carray" in text and "_seq > ?1" not in text for text in seen)


def test_what_was_read_is_not_read_again(store: SqliteStore, seen: list[str]) -> None:
    for _ in range(3):
        assert texts(store) == {id: f"harbour {id}" for id in IDS}
        assert vectors(store) == dict.fromkeys(IDS, HALF)
    assert (readings(seen, "memory"), readings(seen, "embedding")) == (1, 1)


def test_what_is_not_kept_is_read_of_those_that_pass_by_what_is(store: SqliteStore, seen: list[str]) -> None:
    query = Query(Memory, (OneOf("id", IDS), Compare("text", "!=", "harbour m1")))
    texts(store)
    seen.clear()
    asked = store.select(ACME, query, ("id", "access_count", "content"))
    assert asked == [(id, 0, {"text": f"harbour {id}"}) for id in IDS if id != "m1"]
    assert [text for text in seen if "memory" in text] == [
        'SELECT t."id", t."access_count", t."content" FROM carray(?) c CROSS JOIN memory t ON t._row = c.value'
    ]


def test_what_stands_beside_a_memory_is_looked_up_once(store: SqliteStore, seen: list[str]) -> None:
    for _ in range(3):
        assert around(store, "m2") == list(IDS)
    assert sum("json_group_array" in text for text in seen) == 1


def test_counting_how_often_a_memory_was_read_leaves_all_known(
    store: SqliteStore, other: SqliteStore, seen: list[str]
) -> None:
    """A recall is followed by this: if it emptied what is kept, nothing would ever be known."""
    for _ in range(3):
        texts(store)
        vectors(store)
        other.transact(ACME, [Touch(Memory, id, {"access_count": 1}) for id in IDS])
    assert (readings(seen, "memory"), readings(seen, "embedding")) == (1, 1)


def test_of_what_another_changed_only_that_is_read(store: SqliteStore, other: SqliteStore, seen: list[str]) -> None:
    texts(store)
    changed(other, "m2", text="a meadow")
    seen.clear()
    assert texts(store)["m2"] == "a meadow"
    assert texts(store, ["m0", "m1"]) == {"m0": "harbour m0", "m1": "harbour m1"}
    assert readings(seen, "memory") == 1


def test_what_is_touched_under_its_seq_is_seen(store: SqliteStore, other: SqliteStore) -> None:
    assert texts(store, IDS, Compare("priority", "=", 9)) == {}
    other.transact(ACME, [Touch(Memory, "m1", put={"priority": 9})])
    assert texts(store, IDS, Compare("priority", "=", 9)) == {"m1": "harbour m1"}


def test_nothing_is_kept_of_an_organization_that_was_deleted(store: SqliteStore, other: SqliteStore) -> None:
    """It leaves no trace of what it had, and may come back with other memories of the same ids."""
    texts(store), vectors(store), living(store)
    other.transact(ACME, [Delete(Organization, "acme")])
    assert (texts(store), vectors(store), living(store)) == ({}, {}, [])


def test_what_was_deleted_and_then_named_otherwise_is_gone(store: SqliteStore, other: SqliteStore) -> None:
    texts(store)
    other.transact(ACME, [Delete(Memory, "m1")])
    other.rename_deleted(ACME, {("memory", "m1"): "somebody"})
    assert "m1" not in texts(store)


def test_vectors_end_without_their_memory(store: SqliteStore, other: SqliteStore) -> None:
    vectors(store), living(store)
    other.transact(ACME, [Delete(Embedding, "vm1")])
    assert set(vectors(store)) == {id for id, _ in living(store)} == set(IDS) - {"m1"}
    one = other.get(ACME, Embedding, "vm2")
    assert one is not None
    other.transact(ACME, [Update(one.changed(vector=ZERO))])
    assert vectors(store)["m2"] == ZERO
    assert [vector for id, vector in living(store) if id == "m2"] == [ZERO]


def test_where_more_ended_than_is_told_everything_is_read_again(
    store: SqliteStore, other: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_marks, "MOST_ENDED", 2)
    vectors(store), living(store)
    other.transact(ACME, [Delete(Embedding, f"v{id}") for id in IDS[:4]])
    assert set(vectors(store)) == {"m4"}
    assert living(store) == [("m4", HALF)]


def test_after_very_many_changes_everything_is_read_again(
    store: SqliteStore, other: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_rows, "MOST_CHANGES", 3)
    texts(store)
    for id in IDS:
        changed(other, id, text="a meadow")
    assert set(texts(store).values()) == {"a meadow"}


def test_a_program_that_notes_no_marks_is_noticed(store: SqliteStore, path: Path) -> None:
    """One of an earlier version, which counts seqs and nothing else."""
    texts(store), vectors(store)
    with_another(path, "UPDATE memory SET text = 'a meadow', _seq = 1000 WHERE id = 'm1'", 1000)
    assert texts(store)["m1"] == "a meadow"
    with_another(
        path, "DELETE FROM embedding WHERE id = 'vm1'; UPDATE memory SET text = 'a lake' WHERE id = 'm1'", 1001
    )
    assert texts(store)["m1"] == "a lake"
    assert "m1" not in vectors(store)
    changed(store, "m0", text="by one that does")
    assert (texts(store)["m1"], texts(store)["m0"]) == ("a lake", "by one that does")
    assert "m1" not in vectors(store)


def with_another(path: Path, statements: str, seq: int) -> None:
    connection = connect(path, writable=True)
    connection.execute(f"BEGIN IMMEDIATE; {statements}; UPDATE recollect_store SET value = {seq} WHERE key = 'seq'")
    connection.execute("COMMIT")
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.close()


def test_who_reads_an_earlier_moment_is_not_told_of_a_later_one(store: SqliteStore, other: SqliteStore) -> None:
    texts(store)
    with store.reading():
        assert texts(store)["m1"] == "harbour m1"
        changed(other, "m1", text="a meadow")
        later: list[dict[str, str]] = []
        thread = threading.Thread(target=lambda: later.append(texts(store)))
        thread.start()
        thread.join()
        assert later[0]["m1"] == "a meadow"
        assert texts(store)["m1"] == "harbour m1"
    assert texts(store)["m1"] == "a meadow"


def test_what_begins_a_new_moment_is_told_of_it(store: SqliteStore, other: SqliteStore) -> None:
    with store.reading():
        assert texts(store)["m1"] == "harbour m1"
        changed(other, "m1", text="a meadow")
        with store.vector_snapshot():  # the index sees the newest, and from then on the rest of the block does
            pass
        assert texts(store)["m1"] == "a meadow"


def test_what_was_deleted_or_forgotten_is_gone(store: SqliteStore, other: SqliteStore) -> None:
    texts(store)
    other.transact(ACME, [Delete(Memory, "m1")])
    changed(other, "m2", is_deleted=True)
    assert set(texts(store)) == {"m0", "m3", "m4"} == set(texts(store))
    changed(other, "m2", is_deleted=False)
    assert set(texts(store)) == {"m0", "m2", "m3", "m4"}


def test_what_is_erased_is_not_kept_until_somebody_asks(store: SqliteStore) -> None:
    texts(store), vectors(store)
    store.transact(ACME, [Delete(Memory, "m1")])
    store.erase_traces()
    assert not store._known._rows.entries
    assert not store._known._vectors.entries


def test_a_memory_that_comes_into_a_session_is_beside_the_others(store: SqliteStore, other: SqliteStore) -> None:
    assert around(store, "m4") == ["m2", "m3", "m4"]
    stored(other, ACME, memory(ACME, "m5", "harbour five", session_id="talk"))
    assert around(store, "m4") == ["m2", "m3", "m4", "m5"]
    changed(other, "m3", session_id=None)  # nobody knows here where it was before
    assert around(store, "m4") == ["m1", "m2", "m4", "m5"]
    texts(store)
    changed(other, "m2", session_id=None)  # this one is known
    assert around(store, "m4") == ["m0", "m1", "m4", "m5"]


def _deleted_and_inserted(memory: Memory) -> list[list[Step]]:
    return [[Delete(Memory, memory.id)], [Insert(memory)]]


@pytest.mark.parametrize(
    "commits",
    [
        _deleted_and_inserted,
        lambda memory: [[Put(memory, restoring=True)]],
        lambda memory: [[Update(memory, same_version=True)]],
    ],
    ids=["deleted and inserted", "restored", "of the same version"],
)
def test_a_first_version_is_not_taken_for_a_new_memory(
    store: SqliteStore, other: SqliteStore, commits: Callable[[Memory], list[list[Step]]]
) -> None:
    """As an import writes it, which replaces what is there."""
    assert around(store, "m3") == ["m1", "m2", "m3", "m4"]
    stored(other, ACME, session(ACME, "other"))
    known = other.get(ACME, Memory, "m2")
    assert known is not None
    for steps in commits(known.changed(session_id="other").model_copy(update={"version": 1})):
        other.transact(ACME, steps)
    assert around(store, "m3") == ["m0", "m1", "m3", "m4"]


@pytest.mark.parametrize("namespaces", ["null", '[["x"], "long_term"]'])
def test_one_that_cannot_be_read_leaves_the_others_found(path: Path, namespaces: str) -> None:
    with closing(SqliteStore(path)) as opened:
        fill(opened)
    with_another(path, "UPDATE memory SET author = CAST(x'ff41' AS TEXT) WHERE id = 'm1'", 500)
    with_another(path, f"UPDATE memory SET namespaces = '{namespaces}' WHERE id = 'm2'", 501)
    with closing(SqliteStore(path)) as opened:
        changed(opened, "m0", priority=6)  # from here on rows are kept
        for _ in range(2):
            hits = opened.search_text(ACME, TextQuery(Memory, ("harbour",), 10))
            assert {hit.id for hit in hits} == set(IDS)
            assert texts(opened, ["m0", "m2", "m3"])["m3"] == "harbour m3"


@pytest.mark.parametrize(
    "given",
    [
        Compare("priority", "=", "x"),
        Compare("status", "LIKE", "x"),  # type: ignore[arg-type]
        Compare("namespaces", "=", ["long_term"]),
        Compare("is_deleted", "=", 0),
        OneOf("status", (["x"],)),
    ],
)
def test_what_no_store_compares_is_refused_here_too(store: SqliteStore, given: Any) -> None:
    texts(store)
    with pytest.raises(InvalidInput):
        store.select(ACME, Query(Memory, (OneOf("id", IDS), given)), ("id", "text"))
    with pytest.raises(InvalidInput, match="nonsense"):
        store.select(ACME, Query(Memory, (OneOf("id", IDS),)), ("id", "nonsense"))


class Interrupting:
    """Counts as it is asked for its size, and is interrupted once."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, row: object) -> int:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return 1000


@pytest.mark.parametrize("at", range(1, 12))
def test_who_is_interrupted_leaves_nothing_that_is_stale(store: SqliteStore, other: SqliteStore, at: int) -> None:
    """Ctrl-C in a notebook: what was half noted is not answered from."""
    known = store._known
    for bounded in (known._rows, known._vectors):
        bounded._size_of = Interrupting(at)
    for turn in range(2):
        with suppress(KeyboardInterrupt):
            texts(store), vectors(store), living(store)
        changed(other, "m1", text=f"a meadow {turn}")
        other.transact(ACME, [Delete(Embedding, f"vm{turn + 2}")])
        with suppress(KeyboardInterrupt):
            texts(store)
        with suppress(KeyboardInterrupt):
            living(store)
    assert texts(store)["m1"] == "a meadow 1"
    assert set(vectors(store)) == {id for id, _ in living(store)} == {"m0", "m1", "m4"}
    assert {row[0] for row in known._rows.entries.values()} == set(known._ids.get("acme", {}))
    assert known._rows._bytes == 1000 * len(known._rows.entries)
    assert known._vectors._bytes == 1000 * len(known._vectors.entries)


def test_long_authors_take_room_too(store: SqliteStore) -> None:
    stored(store, ACME, *(memory(ACME, f"n{number}", author="a" * 9_000) for number in range(20)))
    known = store._known = KnownRows(store.codec(Memory), row_bytes=50_000)
    texts(store, [f"n{number}" for number in range(20)])
    assert 0 < len(known._rows.entries) <= 5
    assert sum(len(value) for value in known._shared if isinstance(value, str)) < 1_000


def test_how_much_is_kept_is_set(tmp_path: Path) -> None:
    for most, kept in ((0, 0), (1_000_000, 50)):
        with recollect.open(tmp_path / f"{most}.db", embedder="hash", records_cache_bytes=most) as mem:
            mem.remember_many([{"content": f"harbour {number}"} for number in range(50)])
            for _ in range(2):
                assert len(mem.recall("harbour", limit=50)) == 50
            store = mem._core.store
            assert isinstance(store, SqliteStore)
            known = store._known
            assert len(known._rows.entries) == len(known._vectors.entries) == kept


def test_with_little_room_little_is_kept_of_what_leads_there(store: SqliteStore) -> None:
    def asked(numbers: range) -> None:
        ids = [f"n{number}" for number in numbers]
        store.stored_vectors(ACME, "long_term/m", ids)
        places = tuple(("s", now(), id) for id in ids)
        store.beside(ACME, Beside(Memory, "session_id", "occurred_at", places, 2))

    def kept() -> int:
        known = store._known
        return sum(map(len, known._owners.values())) + sum(map(len, known._stretches.values()))

    for most_bytes, most in ((0, 0), (known_rows.ROW_BYTES // 200, 2_000)):
        store.keep_rows(most_bytes)
        for start in range(0, 6_000, 300):
            asked(range(start, start + 300))
        assert kept() <= most
    assert kept()


def test_filters_are_forgotten_with_what_they_found(store: SqliteStore) -> None:
    """They name whom somebody asked about."""
    texts(store, IDS, Compare("user_id", "=", "u1"))
    assert store._known._filters._ready
    store.erase_traces()
    assert not store._known._filters._ready


def test_there_is_no_more_kept_than_there_is_room_for(store: SqliteStore) -> None:
    stored(store, ACME, *(memory(ACME, f"n{number}", "word " * 40) for number in range(60)))
    stored(store, ACME, *(embedding(ACME, f"n{number}", HALF * 500, id=f"vn{number}") for number in range(60)))
    ids = [f"n{number}" for number in range(60)]
    known = store._known = KnownRows(store.codec(Memory), row_bytes=20_000, vector_bytes=20_000)
    for start in range(0, 60, 7):
        assert len(texts(store, ids[start:])) == 60 - start
        assert len(store.stored_vectors(ACME, "long_term/m", ids[start:])) == 60 - start
        assert 0 < known._rows._bytes <= 20_000
        assert 0 < known._vectors._bytes <= 20_000
        assert {row[0] for row in known._rows.entries.values()} == set(known._ids["acme"])
        owners = {one[2] for one in known._vectors.entries.values()}
        assert set(known._owners["acme", "long_term", "m"]) <= owners


def test_a_store_of_before_is_marked_with_the_next_commit(path: Path) -> None:
    opened = SqliteStore(path)
    fill(opened)
    opened.close()
    with_another(path, "DELETE FROM recollect_store WHERE key = 'row_marks'", 500)
    opened = SqliteStore(path)
    try:
        assert texts(opened) == {id: f"harbour {id}" for id in IDS}
        assert not opened._known._rows.entries
        changed(opened, "m1", text="a meadow")
        assert texts(opened)["m1"] == "a meadow"
        assert set(opened._known._ids["acme"]) == set(IDS)
    finally:
        opened.close()


def test_another_organization_is_not_answered_from_what_is_known(store: SqliteStore) -> None:
    texts(store), vectors(store)
    found(store, "globex")
    query = Query(Memory, (OneOf("id", IDS),))
    assert store.select(Scope("globex"), query, ("id", "text")) == []
    with store._readers.one() as connection:
        view = store._view(connection)
        assert view is not None
        rows = list(store._known._rows.entries)
        assert store._known.passing_rows(view, connection, rows, "globex", ()) == {}
        assert len(store._known.passing_rows(view, connection, rows, "acme", ())) == len(IDS)
    assert store.stored_vectors(Scope("globex"), "long_term/m", IDS) == []
    store.transact(Scope("globex"), [Insert(memory(Scope("globex"), "m1", "theirs"))])
    assert store.select(Scope("globex"), query, ("id", "text")) == [("m1", "theirs")]
    assert texts(store)["m1"] == "harbour m1"


def test_threads_never_see_half_of_a_change_nor_go_back(store: SqliteStore, other: SqliteStore) -> None:
    """Two writers change two memories together, each time to a later text; three threads read both, in blocks and not.

    They keep what the others read, at moments of their own.
    """
    pair, problems, stop = ["m0", "m1"], list[str](), threading.Event()
    stored(store, ACME, *(memory(ACME, f"many{number}", "harbour") for number in range(300)))
    others = [f"many{number}" for number in range(300)]

    def write(writer: SqliteStore, numbers: range) -> None:
        for number in numbers:
            while True:
                both = [writer.get(ACME, Memory, id) for id in pair]
                later = [Update(one.changed(text=f"{number:05d}")) for one in both if one is not None]
                try:
                    writer.transact(ACME, later)
                    break
                except VersionConflict:
                    continue

    def read() -> None:
        last = ""
        while not stop.is_set():
            with store.reading():
                seen = texts(store, [*pair, *others])
                again = texts(store, pair)
            if seen["m0"] != seen["m1"] or again != {id: seen[id] for id in pair} or len(seen) != 302:
                problems.append(f"{seen['m0']} {seen['m1']} {again}")
            alone = texts(store, ["m0"])["m0"]
            if alone < last:
                problems.append(f"{alone} after {last}")
            last = alone

    store.transact(ACME, [Update(one.changed(text="00000")) for id in pair if (one := store.get(ACME, Memory, id))])
    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    write(other, range(1, 120))
    write(store, range(120, 240))
    stop.set()
    for reader in readers:
        reader.join()
    assert problems == []
    assert texts(store, pair) == dict.fromkeys(pair, "00239")


def test_ids_that_are_none_are_not_found(store: SqliteStore) -> None:
    for some in (IDS, tuple(f"{number}" for number in range(100))):
        hostile = (*some, "", "' OR 1=1 --", "m" * 10_000, "é\U0001f600")
        assert set(texts(store, hostile)) == set(IDS) & set(some)
    for impossible in ("\ud800", "m1\0"):
        with pytest.raises(InvalidInput):
            texts(store, ["m1", impossible])


def test_what_was_undone_is_not_noted(store: SqliteStore) -> None:
    def noted() -> object:
        with store._readers.one() as connection:
            return store._readers.counters(connection)["row_marks"]

    before = noted()
    wrong = memory(ACME, "m1", "another").model_copy(update={"version": 7})
    with pytest.raises(VersionConflict):
        store.transact(ACME, [Delete(Embedding, "vm1"), Touch(Memory, "m1", put={"priority": 9}), Update(wrong)])
    assert noted() == before
    assert vectors(store) == dict.fromkeys(IDS, HALF)
