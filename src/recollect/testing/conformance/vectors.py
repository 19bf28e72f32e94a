"""The rules of the vector store socket, as tests that any vector store can be put to.

    class TestMyIndex(VectorStoreContract):
        @pytest.fixture
        def truth(self, tmp_path):
            with closing(SqliteStore(tmp_path / "truth.db")) as store:
                yield RecordTruth(store)

        @pytest.fixture
        def open_index(self):
            return lambda truth: MyIndex(truth)

Every answer is compared with `nearest`, which scores each row of the truth one by one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from recollect.errors import InvalidInput
from recollect.ports.vectors import VectorStore
from recollect.testing.vector_truths import RecordTruth, nearest

OPEN = Callable[..., VectorStore]
SPACE = "long_term/m"
HOSTILE = ("a'); DROP TABLE x; --", "../../etc", "a b", "ä€🙂", 'q"\\', "%s %d {}", "x" * 255)
CLOSE = 2e-3  # a store may hold the question as halves
WHERE: tuple[Mapping[str, Collection[str | None]] | None, ...] = (
    None,
    {"user_id": ["u1"]},
    {"status": ["verified", None], "user_id": ["u1", "u2", None]},
    {"kind": [None]},
    {"session_id": ["nobody's"]},
)


def chance() -> np.random.Generator:
    return np.random.default_rng(7)


def fill(truth: RecordTruth, random: np.random.Generator, count: int, dimensions: int = 16, start: int = 0) -> None:
    rows = []
    for number in range(start, start + count):
        facets = (f"u{number % 5}", None, None, None, None, "global", ("verified", "hypothesis", None)[number % 3])
        rows.append((f"org{number % 2}", f"m{number:05d}", SPACE, random.standard_normal(dimensions), facets))
    truth.put_all(rows)


def ids(
    index: VectorStore, tenant: str, query: Any, limit: int = 100, space: str = SPACE, where: Any = None
) -> list[str]:
    found = index.search(tenant, space, np.asarray(query, np.float32), limit, where)
    return [hit.memory_id for hit in found]


def agrees(
    index: VectorStore,
    truth: RecordTruth,
    tenant: str,
    query: NDArray[np.float32],
    limit: int = 10,
    where: Mapping[str, Collection[str | None]] | None = None,
    space: str = SPACE,
) -> None:
    """As many, as near, best first, none twice and none invented; ties within the precision in any order."""
    found = index.search(tenant, space, query, limit, where)
    every = {hit.memory_id: hit.similarity for hit in nearest(truth, tenant, space, query, 1 << 30, where)}
    best = list(every.values())[:limit]
    assert [hit.similarity for hit in found] == pytest.approx(best, abs=CLOSE)
    assert [every.get(hit.memory_id) for hit in found] == pytest.approx(best, abs=CLOSE)
    assert len({hit.memory_id for hit in found}) == len(found)
    assert [hit.similarity for hit in found] == sorted((hit.similarity for hit in found), reverse=True)


def agrees_everywhere(index: VectorStore, truth: RecordTruth, times: int = 3, dimensions: int = 16) -> None:
    random = np.random.default_rng(11)
    for number in range(times):
        for where in WHERE:
            query = random.standard_normal(dimensions).astype(np.float32)
            agrees(index, truth, f"org{number % 2}", query, where=where)


class VectorStoreContract:
    @pytest.fixture
    def truth(self) -> RecordTruth:
        raise NotImplementedError("give a `truth` fixture that yields an empty RecordTruth and closes its store")

    @pytest.fixture
    def open_index(self) -> OPEN:
        raise NotImplementedError("give an `open_index` fixture: a function that opens the index of a truth")

    @pytest.fixture
    def another_handle(self) -> bool:
        """Whether a second handle on the index may be open at the same time."""
        return True

    @pytest.fixture
    def elsewhere(self) -> Callable[[str, str, list[float]], None] | None:
        """Writes a vector (tenant, memory id, numbers) from another process, if processes can share the truth."""
        return None

    @pytest.fixture
    def restored(self) -> Callable[[], RecordTruth] | None:
        """Gives the truth as it was at this moment, restored from a backup, if it can be backed up."""
        return None

    @pytest.fixture
    def plant(self) -> Callable[[VectorStore], None] | None:
        """Damages the index behind its back, if there is a way."""
        return None

    @pytest.fixture
    def index(self, truth: RecordTruth, open_index: OPEN) -> Iterator[VectorStore]:
        opened = open_index(truth)
        yield opened
        opened.close()

    # -- what is found -----------------------------------------------------------------------------------------------

    def test_the_nearest_are_right_before_and_after_upkeep(self, index: VectorStore, truth: RecordTruth) -> None:
        random = chance()
        fill(truth, random, 160)
        agrees_everywhere(index, truth)
        index.refresh()
        fill(truth, random, 60, start=140)
        agrees_everywhere(index, truth)
        assert index.verify() == []

    def test_a_row_is_found_as_soon_as_it_is_there(self, index: VectorStore, truth: RecordTruth) -> None:
        random = chance()
        for number in range(10):
            vector = random.standard_normal(16)
            truth.put("org", f"m{number}", vector)
            assert ids(index, "org", vector, 1) == [f"m{number}"]
        assert index.behind() == 0

    def test_a_changed_vector_is_found_where_it_is_now(self, index: VectorStore, truth: RecordTruth) -> None:
        here, there = np.eye(2, dtype=np.float32)
        truth.put("org", "m", here)
        assert ids(index, "org", here) == ["m"]
        truth.put("org", "m", there)
        found = index.search("org", SPACE, there, 5)
        assert [(hit.memory_id, round(hit.similarity, 3)) for hit in found] == [("m", 1.0)]
        index.refresh()
        assert ids(index, "org", here) == ["m"]

    def test_a_memory_of_many_passages_is_found_once_by_the_nearest(
        self, index: VectorStore, truth: RecordTruth
    ) -> None:
        random, query = chance(), np.eye(8, dtype=np.float32)[0]
        for part in range(60):  # all of them nearer than any other memory
            truth.put("org", "long", query + 0.01 * random.standard_normal(8), part=part)
        truth.put_all(("org", f"m{n:03}", SPACE, random.standard_normal(8), (None,) * 7) for n in range(150))
        truth.put_all((("org", f"m{n:03}", SPACE, random.standard_normal(8), (None,) * 7) for n in range(0, 150, 3)), 1)
        for _ in range(2):
            for limit in (1, 2, 5, 40, 500):
                agrees(index, truth, "org", query, limit)
            index.refresh()
        assert ids(index, "org", query, 1) == ["long"]
        truth.delete("org", "long")
        agrees(index, truth, "org", query, 40)

    def test_a_changed_facet_filters_at_once(self, index: VectorStore, truth: RecordTruth) -> None:
        vector = np.ones(4)
        truth.put("org", "m", vector, status="hypothesis")
        assert ids(index, "org", vector, where={"status": ["hypothesis"]}) == ["m"]
        truth.put("org", "m", vector, status="verified")
        assert ids(index, "org", vector, where={"status": ["hypothesis"]}) == []
        assert ids(index, "org", vector, where={"status": ["verified"]}) == ["m"]

    def test_a_deleted_row_is_gone_at_once_and_for_good(self, index: VectorStore, truth: RecordTruth) -> None:
        for id in ("a", "b"):
            truth.put("org", id, np.ones(4))
        assert ids(index, "org", np.ones(4)) == ["a", "b"]
        truth.delete("org", "a")
        assert ids(index, "org", np.ones(4)) == ["b"]
        index.purge()
        index.rebuild()
        assert ids(index, "org", np.ones(4)) == ["b"]

    def test_the_dead_do_not_crowd_out_the_living(self, index: VectorStore, truth: RecordTruth) -> None:
        random, query = chance(), np.ones(8, np.float32)
        truth.put_all(("org", f"m{n}", SPACE, random.standard_normal(8), (None,) * 7) for n in range(120))
        assert len(ids(index, "org", query, 3)) == 3
        for hit in nearest(truth, "org", SPACE, query, 115):
            truth.delete("org", hit.memory_id)
        agrees(index, truth, "org", query)
        index.refresh()
        agrees(index, truth, "org", query)

    def test_no_value_and_an_empty_value_are_different(self, index: VectorStore, truth: RecordTruth) -> None:
        for id, value in (("none", None), ("empty", ""), ("zero", "0"), ("word", "None")):
            truth.put("org", id, np.ones(2), kind=value)
        for value, id in ((None, "none"), ("", "empty"), ("0", "zero"), ("None", "word")):
            assert ids(index, "org", np.ones(2), where={"kind": [value]}) == [id]
        assert sorted(ids(index, "org", np.ones(2), where={"kind": [None, ""]})) == ["empty", "none"]

    def test_limits_and_scopes_at_their_edges(self, index: VectorStore, truth: RecordTruth) -> None:
        query = np.ones(16, np.float32)
        assert ids(index, "org0", query, 5) == []
        fill(truth, chance(), 30)
        assert ids(index, "org0", query, 0) == []
        assert len(ids(index, "org0", query, 1000)) == 15
        assert ids(index, "org0", query, 5, where={"user_id": []}) == []
        assert ids(index, "nobody", query) == []

    def test_the_length_of_the_query_does_not_matter(self, index: VectorStore, truth: RecordTruth) -> None:
        truth.put("org", "m", np.array([3.0, 4.0]))
        for query in (np.array([30.0, 40.0]), np.array([3e-3, 4e-3]), np.array([3e5, 4e5])):
            found = index.search("org", SPACE, query.astype(np.float32), 1)
            assert [hit.similarity for hit in found] == pytest.approx([1.0], abs=CLOSE)
        assert [hit.similarity for hit in index.search("org", SPACE, np.zeros(2, np.float32), 1)] == [0.0]

    def test_a_wrong_question_is_told_so(self, index: VectorStore, truth: RecordTruth) -> None:
        query = np.ones(4, np.float32)
        with pytest.raises(InvalidInput, match="unknown facet 'colour'"):
            index.search("org", SPACE, query, 5, {"colour": ["red"]})
        with pytest.raises(InvalidInput, match="collection"):
            index.search("org", SPACE, query, 5, {"kind": "fact"})
        for bad in (np.ones((2, 2)), np.array([]), np.array([np.nan, 1.0])):
            with pytest.raises(InvalidInput, match="query"):
                index.search("org", SPACE, bad.astype(np.float32), 5)

    # -- what is stored ----------------------------------------------------------------------------------------------

    def test_what_is_no_vector_is_never_found_and_harms_nothing(self, index: VectorStore, truth: RecordTruth) -> None:
        truth.put("org", "good", np.ones(2))
        for name, data in (("none", b""), ("odd", b"abc"), ("nan", b"\x00\x7e\x00\x7e"), ("inf", b"\x00\x7c\x00\x00")):
            truth.put("org", name, data)
        assert ids(index, "org", np.ones(2)) == ["good"]
        index.refresh()
        assert ids(index, "org", np.ones(2)) == ["good"]
        assert index.verify() == []

    def test_a_vector_of_zeros_is_like_nothing(self, index: VectorStore, truth: RecordTruth) -> None:
        truth.put("org", "zero", np.zeros(3))
        truth.put("org", "near", np.ones(3))
        truth.put("org", "opposite", -np.ones(3))
        assert ids(index, "org", np.ones(3)) == ["near", "zero", "opposite"]

    @pytest.mark.parametrize("dimensions", [1, 2, 4096, 16_000])
    def test_short_and_long_vectors(self, index: VectorStore, truth: RecordTruth, dimensions: int) -> None:
        random = chance()
        for number in range(4):
            truth.put("org", f"m{number}", random.standard_normal(dimensions))
        agrees(index, truth, "org", random.standard_normal(dimensions).astype(np.float32))
        index.refresh()
        assert index.verify() == []

    # -- who sees what -----------------------------------------------------------------------------------------------

    def test_tenants_never_meet(self, index: VectorStore, truth: RecordTruth) -> None:
        for tenant in HOSTILE:
            truth.put(tenant, "same", np.ones(3), user_id=tenant)
            truth.put(tenant, f"of {tenant}"[:200], np.ones(3), user_id=tenant)
        for tenant in HOSTILE:
            expected = sorted(["same", f"of {tenant}"[:200]])
            assert sorted(ids(index, tenant, np.ones(3))) == expected
            assert sorted(ids(index, tenant, np.ones(3), where={"user_id": [tenant]})) == expected
            assert ids(index, tenant, np.ones(3), where={"user_id": [HOSTILE[HOSTILE.index(tenant) - 1]]}) == []
        assert index.verify() == []

    def test_spaces_and_dimensions_are_worlds_apart(self, index: VectorStore, truth: RecordTruth) -> None:
        truth.put("org", "short", np.ones(4))
        truth.put("org", "long", np.ones(8))
        truth.put("org", "other", np.ones(4), space="long_term/other")
        truth.put("org", "named", np.ones(4), space="short_term/m")
        for _ in range(2):
            assert ids(index, "org", np.ones(4)) == ["short"]
            assert ids(index, "org", np.ones(8)) == ["long"]
            assert ids(index, "org", np.ones(4), space="long_term/other") == ["other"]
            assert ids(index, "org", np.ones(4), space="short_term/m") == ["named"]
            assert ids(index, "org", np.ones(4), space="short_term/other") == []
            index.refresh()

    # -- several handles, processes, threads -------------------------------------------------------------------------

    def test_another_handle_sees_every_write(
        self, index: VectorStore, truth: RecordTruth, open_index: OPEN, another_handle: bool
    ) -> None:
        if not another_handle:
            index.close()
        fill(truth, chance(), 40)
        other = open_index(truth)
        try:
            agrees_everywhere(other, truth)
            fill(truth, chance(), 20, start=30)
            for one in (other, index) if another_handle else (other,):
                agrees_everywhere(one, truth)
            assert other.rebuild() == 50
            for one in (index, other) if another_handle else (other,):
                assert one.verify() == []
            fill(truth, chance(), 5, start=100)
            for one in (index, other) if another_handle else (other,):
                agrees_everywhere(one, truth)
        finally:
            other.close()

    def test_what_another_process_wrote_is_found_at_once(
        self, index: VectorStore, truth: RecordTruth, elsewhere: Callable[[str, str, list[float]], None] | None
    ) -> None:
        if elsewhere is None:
            return
        truth.put("org", "mine", np.array([1.0, 0.0]))
        assert ids(index, "org", np.array([0.0, 1.0]), 1) == ["mine"]
        elsewhere("org", "theirs", [0.0, 1.0])
        assert ids(index, "org", np.array([0.0, 1.0]), 1) == ["theirs"]

    def test_every_thread_finds_what_it_wrote(self, index: VectorStore, truth: RecordTruth) -> None:
        problems: list[str] = []

        def work(name: int) -> None:
            own = np.random.default_rng(name)
            for number in range(12):
                vector = own.standard_normal(16).astype(np.float32)
                truth.put(f"org{name % 2}", f"t{name}-{number % 5}", vector)
                found = ids(index, f"org{name % 2}", vector, 3)
                if not found or found[0] != f"t{name}-{number % 5}":
                    problems.append(f"t{name}-{number % 5} is not first in {found}")

        fill(truth, chance(), 10)
        threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert problems == []
        agrees_everywhere(index, truth)
        index.refresh()
        assert index.verify() == []

    # -- the index and its truth -------------------------------------------------------------------------------------

    def test_a_restored_backup_never_meets_the_newer_index(
        self, index: VectorStore, truth: RecordTruth, restored: Callable[[], RecordTruth] | None, open_index: OPEN,
        another_handle: bool,
    ) -> None:  # fmt: skip
        if restored is None:
            return
        fill(truth, chance(), 30)
        backup = restored()
        fill(truth, np.random.default_rng(1), 30, start=20)
        agrees_everywhere(index, truth)
        fill(backup, np.random.default_rng(2), 25, start=40)
        if not another_handle:
            index.close()
        other = open_index(backup)
        try:
            agrees_everywhere(other, backup)
            assert other.verify() == []
        finally:
            other.close()

    def test_rebuild_says_how_many_it_holds(self, index: VectorStore, truth: RecordTruth) -> None:
        fill(truth, chance(), 40)
        truth.delete("org0", "m00000")
        assert index.rebuild() == 39
        assert index.verify() == []
        agrees_everywhere(index, truth)

    def test_planted_damage_is_named_and_mended(
        self, index: VectorStore, truth: RecordTruth, plant: Callable[[VectorStore], None] | None
    ) -> None:
        if plant is None:
            return
        fill(truth, chance(), 30)
        index.refresh()
        agrees_everywhere(index, truth)
        plant(index)
        assert index.verify() != []
        index.rebuild()
        assert index.verify() == []
        agrees_everywhere(index, truth)

    def test_a_hint_is_welcome_at_any_time(self, index: VectorStore, truth: RecordTruth) -> None:
        index.hint(0)
        fill(truth, chance(), 10)
        index.hint(1 << 40)
        agrees_everywhere(index, truth, times=1)
        assert index.label

    def test_closing_twice_is_fine(self, truth: RecordTruth, open_index: OPEN, another_handle: bool) -> None:
        index = open_index(truth)
        truth.put("org", "m", np.ones(2))
        assert ids(index, "org", np.ones(2)) == ["m"]
        index.close()
        index.close()
        if another_handle:
            again = open_index(truth)
            assert ids(again, "org", np.ones(2)) == ["m"]
            again.close()
