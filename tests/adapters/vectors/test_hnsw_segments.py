"""Which HNSW indexes there are, which is made next, and that what no index covers is found all the same."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import recollect
from postgres_server import server
from recollect.adapters.postgres.connection import ReadStatement
from recollect.adapters.records.postgres.store import PostgresStore
from recollect.adapters.vectors.halfvec_sql import build_memory, make_index, rows_that_fit
from recollect.adapters.vectors.hnsw_segments import (
    EVERYTHING,
    TAIL_ROWS,
    TAIL_ROWS_LEFT,
    Segment,
    due,
    index_name,
    parts_of,
    read_name,
    rows_of,
    segments_of,
    space_digest,
    spread_of,
    superseded,
)
from recollect.adapters.vectors.pgvector import PgVectorStore
from recollect.ports.steps import Insert
from recollect.testing.conformance.makers import embedding, found, memory

DIMENSIONS = 16
SPACE = space_digest("long_term", "m", DIMENSIONS)


def test_the_name_of_an_index_says_what_it_covers() -> None:
    name = index_name("embedding_3", SPACE, Segment(1 << 50, (1 << 52) + 1))
    assert len(name) <= 63
    assert read_name(name) == (name, "embedding_3", SPACE, Segment(1 << 50, (1 << 52) + 1))
    former = read_name(f"embedding_3_hnsw_{SPACE}")
    assert former is not None
    assert former.segment == EVERYTHING
    assert read_name("embedding_3_pkey") is None


def listed(*segments: Segment, tables: int = 2, is_valid: bool = True) -> list[tuple[str, bool, float]]:
    return [(index_name(f"embedding_{n}", SPACE, one), is_valid, 100.0) for one in segments for n in range(tables)]


def test_only_what_every_table_has_finished_counts_and_nothing_twice() -> None:
    tables = ("embedding_0", "embedding_1")
    one, two, both = Segment(0, 10), Segment(10, 20), Segment(0, 20)
    assert segments_of(listed(one, two), tables) == {SPACE: [one, two]}
    assert segments_of([*listed(one), *listed(two, tables=1)], tables) == {SPACE: [one]}
    assert segments_of([*listed(one), *listed(two, is_valid=False)], tables) == {SPACE: [one]}
    assert segments_of(listed(one, two, both), tables) == {SPACE: [both]}
    assert superseded(listed(one, two, both), SPACE, both) == [name for name, *_ in listed(one, two)]
    assert rows_of([*listed(one, two), *listed(both, tables=1)], SPACE) == {one: 200, two: 200, both: 100}
    former = [(f"embedding_{n}_hnsw_{SPACE}", True, -1.0) for n in range(2)]
    assert segments_of([*former, *listed(one)], tables) == {SPACE: [EVERYTHING]}


@pytest.mark.parametrize("segments", [[], [EVERYTHING], [Segment(0, 10)], [Segment(0, 10), Segment(15, 20)]])
def test_the_parts_hold_every_row_once(segments: list[Segment]) -> None:
    parts = parts_of(segments)
    for seq in range(1, 30):
        held = [eval(one.replace("AND", "and"), {"_seq": seq}) if one else True for one, _ in parts]  # noqa: S307
        assert held.count(True) == 1


def test_an_index_takes_in_those_that_are_not_several_times_as_large() -> None:
    assert due({}, 999, 50, 1000, thorough=False) is None
    assert due({}, 1000, 50, 1000, thorough=False) == Segment(0, 50)
    large, small = Segment(0, 40), Segment(40, 50)
    assert due({large: 90_000}, TAIL_ROWS - 1, 60, 10_000, thorough=False) is None
    assert due({large: 90_000}, TAIL_ROWS, 60, 10_000, thorough=False) == Segment(40, 60)
    assert due({large: 90_000, small: 2 * TAIL_ROWS}, TAIL_ROWS, 60, 10_000, thorough=False) == Segment(40, 60)
    assert due({large: 3 * TAIL_ROWS}, TAIL_ROWS, 60, 10_000, thorough=False) == Segment(0, 60)
    assert due({large: 90_000, small: 2_000}, 0, 60, 10_000, thorough=True) == Segment(0, 60)
    assert due({large: 900_000, small: 2_000}, 0, 60, 10_000, thorough=True) is None
    assert due({EVERYTHING: 900_000}, 0, 60, 10_000, thorough=True) is None
    assert due({large: 90_000}, TAIL_ROWS_LEFT, 60, 10_000, thorough=True) == Segment(0, 60)
    assert due({large: 90_000}, TAIL_ROWS_LEFT - 1, 60, 10_000, thorough=True) is None
    assert due({large: 900_000}, TAIL_ROWS - 1, 60, 10_000, thorough=True) is None


def test_no_index_takes_in_more_than_fits_into_memory() -> None:
    large, small = Segment(0, 40), Segment(40, 50)
    assert due({large: 3_000}, 1_000, 60, 10_000, thorough=False, most=6_001) == Segment(0, 60)
    assert due({large: 3_000}, 1_000, 60, 10_000, thorough=False, most=6_000) == Segment(40, 60)
    assert due({large: 3_000, small: 900}, 1_000, 60, 10_000, thorough=False, most=2_000) == Segment(40, 60)
    assert due({large: 3_000, small: 900}, 0, 60, 10_000, thorough=True, most=3_900) == Segment(0, 60)
    assert due({large: 3_000, small: 900}, 0, 60, 10_000, thorough=True, most=3_899) is None
    assert rows_that_fit(64 * 2**20, 1536) <= 16_758  # which the server said it had room for
    assert rows_that_fit(32 * 2**20, 384) <= 22_625


def test_vectors_of_many_organizations_lie_in_many_tables() -> None:
    assert spread_of([], SPACE) == 1
    one, two = Segment(0, 10), Segment(10, 20)
    assert spread_of(listed(one, two, tables=4), SPACE) == 4
    assert spread_of([*listed(one, tables=1), *listed(two, tables=2)], SPACE) == 1.5


@pytest.fixture
def store() -> Iterator[PostgresStore]:
    opened = PostgresStore(server().new_store())
    yield opened
    opened.close()


class Vectors:
    """A tenant's vectors in a store, and what is nearest among them."""

    def __init__(self, store: PostgresStore) -> None:
        self.store, self.scope = store, found(store, "acme")
        self._chance = np.random.default_rng(5)
        self.vectors = np.zeros((0, DIMENSIONS), np.float32)

    def add(self, many: int) -> int:
        new = self._chance.normal(size=(many, DIMENSIONS)).astype(np.float32)
        new = (new / np.linalg.norm(new, axis=1, keepdims=True)).astype("<f2")
        first = len(self.vectors)
        self.vectors = np.concatenate([self.vectors, new.astype(np.float32)])
        self.store.transact(self.scope, [Insert(memory(self.scope, f"m{first + n:05}")) for n in range(many)])
        made = [
            embedding(self.scope, f"m{first + n:05}", new[n].tobytes(), id=f"e{first + n}", dimensions=DIMENSIONS)
            for n in range(many)
        ]
        return self.store.transact(self.scope, [Insert(one) for one in made]).seq

    def found_by(self, index: PgVectorStore, questions: int = 20) -> float:
        right = 0
        for _ in range(questions):
            query = self._chance.normal(size=DIMENSIONS).astype(np.float32)
            query /= np.linalg.norm(query)
            expected = {f"m{n:05}" for n in np.argsort(-(self.vectors @ query))[:10]}
            right += len(expected & {hit.memory_id for hit in index.search("acme", "long_term/m", query, 10)})
        return right / questions / 10

    def indexes(self) -> dict[str, bool]:
        statement = (
            "SELECT c.relname, i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
            "WHERE c.relname LIKE 'embedding%%hnsw%%'"
        )
        return dict(self.store.database.ask("acme", ReadStatement(statement))[0])


def test_what_is_newer_than_the_index_is_found_and_no_writer_adds_to_it(store: PostgresStore) -> None:
    data, index = Vectors(store), PgVectorStore(store, exact_rows=20, index_rows=300)
    data.add(400)
    index.refresh()
    made = data.indexes()
    assert len(made) == 8
    size = "SELECT sum(pg_relation_size(c.oid)) FROM pg_class c WHERE c.relname LIKE 'embedding%%hnsw%%'"
    before = store.database.ask("acme", ReadStatement(size))
    data.add(250)
    assert store.database.ask("acme", ReadStatement(size)) == before
    assert data.indexes() == made
    assert data.found_by(index) >= 0.98
    data.add(100)
    index._make_due(thorough=False)
    assert len(data.indexes()) == 8
    assert data.indexes().keys().isdisjoint(made)
    assert data.found_by(index) >= 0.98


def test_of_more_than_fits_into_memory_several_indexes_are_made(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recollect.adapters.vectors.pgvector.rows_that_fit", lambda memory, dimensions: 200)
    data, index = Vectors(store), PgVectorStore(store, exact_rows=20, index_rows=300)
    data.add(490)
    index.refresh()
    assert len(data.indexes()) == 3 * 8  # of 200, 200 and 90
    assert data.found_by(index) >= 0.98
    data.add(250)
    index.refresh()
    assert len(data.indexes()) == 4 * 8  # of 200, 200, 200 and 140
    assert data.found_by(index) >= 0.98


def test_where_the_server_has_little_memory_there_are_not_ever_more_indexes(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recollect.adapters.vectors.pgvector.rows_that_fit", lambda memory, dimensions: 1)
    monkeypatch.setattr("recollect.adapters.vectors.pgvector.MOST_SEGMENTS", 3)
    data, index = Vectors(store), PgVectorStore(store, exact_rows=20, index_rows=300)
    data.add(490)
    index.refresh()
    assert len(data.indexes()) == 3 * 8
    assert data.found_by(index) >= 0.98


def test_the_server_gives_an_index_what_its_administrator_allows(store: PostgresStore) -> None:
    with store.as_owner() as connection:
        connection.execute("SET maintenance_work_mem = '64MB'")
        assert build_memory(connection, is_pooled=True) == 64 * 2**20
        assert build_memory(connection, is_pooled=False) == 256 * 2**20
        connection.execute("SET maintenance_work_mem = '1GB'")
        make_index(connection, "embedding_hnsw_large", "embedding_1", 3, "dimensions = 3")
        ((allowed,),) = connection.execute("SHOW maintenance_work_mem").fetchall()
    assert allowed == "1GB"


def test_a_space_that_nobody_counted_gets_its_first_index_when_it_has_grown(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, index = Vectors(store), PgVectorStore(store, exact_rows=20, index_rows=300, background=True)
    monkeypatch.setattr("recollect.adapters.vectors.pgvector.TAIL_ROWS", 60)
    index._counted_at = data.add(200)  # as after a count, and so many that the next is far away
    index._tails["long_term", "m", DIMENSIONS] = 200
    monkeypatch.setattr("recollect.adapters.vectors.pgvector.COUNTED_SHARE", 1e6)
    for many in (60, 60):
        index.hint(data.add(many))
        assert index._builder is not None
        index._builder.join(60)
    assert len(data.indexes()) == 8
    index.close()


def test_between_two_counts_of_everything_only_what_is_new_is_counted(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, index = Vectors(store), PgVectorStore(store, exact_rows=20, index_rows=300, background=True)
    counts: list[bool] = []
    make_due = index._make_due

    def counted(*, thorough: bool) -> None:
        counts.append(thorough)
        make_due(thorough=thorough)

    monkeypatch.setattr(index, "_make_due", counted)
    monkeypatch.setattr("recollect.adapters.vectors.pgvector.TAIL_ROWS", 60)
    monkeypatch.setattr("recollect.adapters.vectors.hnsw_segments.TAIL_ROWS", 60)

    def added(many: int) -> set[str]:
        index.hint(data.add(many))
        assert index._builder is not None
        index._builder.join(60)
        return set(data.indexes())

    first = added(800)
    assert len(first) == 8
    assert added(40) == first  # too few to be worth one
    second = added(40)
    assert counts == [False]
    assert len(second) == 16
    assert second > first
    assert added(60) > first  # which took the small one in
    assert len(data.indexes()) == 16
    assert data.found_by(index) >= 0.98
    assert counts == [False]
    index.close()


def test_what_is_left_of_a_build_that_was_cut_off_is_made_anew(store: PostgresStore) -> None:
    data, index = Vectors(store), PgVectorStore(store, exact_rows=20, index_rows=300)
    data.add(400)
    index.refresh()
    (name, *_) = sorted(data.indexes())
    database = store.database.conninfo.partition("dbname=")[2].split()[0]
    server().admin(f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{name}'::regclass", database)
    other = PgVectorStore(store, exact_rows=20, index_rows=300)
    assert data.found_by(other) == 1.0  # exactly, without an index
    other.refresh()
    assert len(data.indexes()) == 8
    assert all(data.indexes().values())
    assert data.found_by(other) >= 0.98


def test_writers_and_searches_go_on_while_an_index_is_built_and_doctor_says_so() -> None:
    address = server().new_store()
    with recollect.open(address, embedder="hash") as mem:
        store: Any = mem._core.store
        data = Vectors(store)
        data.add(400)
        index = PgVectorStore(store, exact_rows=20, index_rows=300)
        with store.as_owner() as reader:
            # A transaction that has read holds the build back: it waits for everybody who may not see the index.
            reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            reader.execute("SELECT count(*) FROM organization")
            builder = threading.Thread(target=index.refresh)
            builder.start()
            while not store.database.ask("acme", ReadStatement("SELECT 1 FROM pg_stat_progress_create_index"))[0]:
                assert builder.is_alive()
            assert "an HNSW index is being built" in index.label
            (told,) = [one for one in mem.doctor().findings if one.name == "vectors"]
            assert "an HNSW index is being built" in told.says
            assert told.well
            data.add(20)
            assert data.found_by(index) == 1.0
            second = PgVectorStore(store, exact_rows=20, index_rows=300)
            second._make_due(thorough=False)  # another process leaves it to the first
            reader.execute("ROLLBACK")
        builder.join(60)
        assert len(data.indexes()) == 8
        assert all(data.indexes().values())
        assert index.label == "pgvector in the record store"
        assert data.found_by(index) >= 0.98
