"""The embedded index against a plain in-memory truth: what it finds, what it never shows, how it keeps itself."""

from __future__ import annotations

import copy
import errno
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from recollect import background_thread
from recollect.adapters.vectors.embedded import kernels, quantization, search, state, unsealed_rows
from recollect.adapters.vectors.embedded.index import EmbeddedIndex
from recollect.adapters.vectors.embedded.segment import open_segment
from recollect.adapters.vectors.embedded.segment_folder import SegmentFolder
from recollect.adapters.vectors.exact import VectorFilter
from recollect.errors import Closed, StoreFull
from recollect.ports.vectors import VectorSnapshot
from recollect.testing.vector_truths import MemoryTruth, nearest, packed

OPEN = Callable[..., EmbeddedIndex]


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture
def truth() -> MemoryTruth:
    return MemoryTruth()


@pytest.fixture
def open_index(truth: MemoryTruth, tmp_path: Path) -> Iterator[OPEN]:
    opened: list[EmbeddedIndex] = []

    def make(**options: Any) -> EmbeddedIndex:
        settings = {"truth": truth, "folder": tmp_path / "test.index", "background": False, **options}
        opened.append(EmbeddedIndex(**settings))
        return opened[-1]

    yield make
    for index in opened:
        index.close()


@pytest.fixture(params=["compiled", "numpy"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "numpy":
        monkeypatch.setattr(kernels, "compiled", None)
    elif kernels.compiled is None:
        pytest.skip("installed without a compiler")


def fill(truth: MemoryTruth, random: np.random.Generator, count: int, dimensions: int = 16, start: int = 0) -> None:
    for number in range(start, start + count):
        truth.put(
            f"org{number % 3}",
            f"m{number:05d}",
            random.standard_normal(dimensions),
            user_id=f"u{number % 5}",
            status=["verified", "hypothesis", None][number % 3],
        )


def assert_equal(index: EmbeddedIndex, truth: MemoryTruth, random: np.random.Generator, times: int = 10) -> None:
    for number in range(times):
        query = random.standard_normal(16)
        filters: list[dict[str, list[str | None]] | None] = [
            None,
            {"user_id": [f"u{number % 5}"]},
            {"status": ["verified", None], "user_id": ["u1", "u2"]},
        ]
        for where in filters:
            found = index.search(f"org{number % 3}", "default", query.astype(np.float32), 10, where)
            assert found == nearest(truth, f"org{number % 3}", "default", query.astype(np.float32), 10, where)


def segment_files(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "test.index").glob("*.seg"))


def clustered(random: np.random.Generator, count: int, dimensions: int) -> NDArray[np.float64]:
    centres = random.standard_normal((60, dimensions)) + 1.0
    return centres[random.integers(0, 60, count)] + random.standard_normal((count, dimensions))


# -- what is found ---------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("kernel")
def test_answers_equal_brute_force_before_and_after_sealing(
    truth: MemoryTruth, open_index: OPEN, random: np.random.Generator, tmp_path: Path
) -> None:
    index = open_index()
    fill(truth, random, 400)
    assert_equal(index, truth, random)
    assert segment_files(tmp_path) == []
    index.refresh()
    assert len(segment_files(tmp_path)) == 1
    assert_equal(index, truth, random)
    fill(truth, random, 100, start=350)
    assert_equal(index, truth, random)


def test_equal_vectors_come_in_order_of_their_ids(
    truth: MemoryTruth, open_index: OPEN, random: np.random.Generator
) -> None:
    index, vector = open_index(seal_rows=7), random.standard_normal(16)
    for number in random.permutation(40).tolist():
        truth.put("org", f"m{number:02d}", vector)
        index.search("org", "default", vector.astype(np.float32), 1)
    found = index.search("org", "default", vector.astype(np.float32), 15)
    assert [hit.memory_id for hit in found] == [f"m{number:02d}" for number in range(15)]


# -- many rows -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("kernel")
def test_recall_by_codes_is_high(truth: MemoryTruth, open_index: OPEN, random: np.random.Generator) -> None:
    """Scan forced: of 3,000 rows 200 are looked at closer by 128 bits."""
    vectors = clustered(random, 3030, 128)
    for number, vector in enumerate(vectors[30:]):
        truth.put("org", f"m{number}", vector, kind=f"k{number % 2}")
    index = open_index(seal_rows=1000, exact_values=0, candidates=200)
    index.search("org", "default", vectors[0].astype(np.float32), 1)
    index.refresh()
    for where in (None, {"kind": ["k0"]}):
        found, wanted = set(), set()
        for number, query in enumerate(vectors[:30].astype(np.float32)):
            found |= {(number, hit) for hit in index.search("org", "default", query, 10, where)}
            wanted |= {(number, hit) for hit in nearest(truth, "org", "default", query, 10, where)}
        assert len(found & wanted) >= 0.98 * len(wanted)


def test_codes_are_really_used_when_the_scope_is_wide(
    truth: MemoryTruth, open_index: OPEN, random: np.random.Generator
) -> None:
    """The test above proves nothing if everything is scored anyway."""
    fill(truth, random, 3000)
    index = open_index(exact_values=0, candidates=50)
    index.refresh()
    held = index._state.sections(("default", 16))
    searched = search.Search(
        held, VectorFilter.of("org0", "default", None), quantization.Query.of(np.ones(16, np.float32)), 2, 0, 50
    )
    assert 50 <= len(next(searched._batches()).seq) < 300


@pytest.mark.parametrize("limit", [3, 10])
def test_the_dead_do_not_crowd_out_the_living(
    truth: MemoryTruth, open_index: OPEN, random: np.random.Generator, limit: int
) -> None:
    vectors = random.standard_normal((2000, 16))
    for number, vector in enumerate(vectors):
        truth.put("org", f"m{number}", vector)
    index, query = open_index(exact_values=0, candidates=20), vectors[0].astype(np.float32)
    index.refresh()
    for hit in nearest(truth, "org", "default", query, 1995):
        truth.delete("org", hit.memory_id)
    left = nearest(truth, "org", "default", query, limit)
    assert len(left) == min(limit, 5)
    assert index.search("org", "default", query, limit) == left


def test_living_rows_with_wide_bounds_do_not_hide_nearer_ones_with_narrow_bounds(
    truth: MemoryTruth, open_index: OPEN
) -> None:
    """The two best are dead; two rough ones were hopeful beside them and live; two exact ones, less so, are nearer."""
    query = np.ones(256, np.float32)

    def flat(negatives: int) -> NDArray[np.float64]:
        return np.where(np.arange(256) < negatives, -1.0, 1.0)

    def spiked(height: float) -> NDArray[np.float64]:
        return np.where(np.arange(256) == 0, height, 1.0)

    def bounds(vector: NDArray[np.float64]) -> tuple[float, float, float]:
        """Lower bound, truth, upper bound, as the index sees them."""
        stored = np.frombuffer(packed(vector), "<f2").astype(np.float32)[None, :]
        coarse, scale, slack = quantization.encode(stored)
        products = kernels.dots(coarse, quantization.Query.of(query).rounded)
        _, (estimate,), (error,) = quantization.estimates(products, np.zeros(1, np.int64), scale, slack)
        return estimate - error, float(stored[0] @ query) / 16, estimate + error

    rough = max(map(spiked, np.linspace(5, 15, 400)), key=lambda one: bounds(one)[2] - bounds(one)[1])
    _, rough_similarity, rough_upper = bounds(rough)
    best, nearer = [flat(n) for n in range(256) if rough_similarity < bounds(flat(n))[0] < rough_upper][:2]
    assert rough_similarity < bounds(nearer)[1] <= bounds(nearer)[2] < bounds(best)[0] < rough_upper
    for name, vector in (("best", best), ("rough", rough), ("nearer", nearer)):
        for twin in "12":
            truth.put("org", name + twin, vector)
    index = open_index()
    index.refresh()
    for twin in "12":
        truth.delete("org", f"best{twin}")
    assert [hit.memory_id for hit in index.search("org", "default", query, 2)] == ["nearer1", "nearer2"]


def test_few_rows_are_asked_of_the_truth(truth: MemoryTruth, open_index: OPEN, random: np.random.Generator) -> None:
    for number, vector in enumerate(clustered(random, 2000, 96)):
        truth.put("org", f"m{number}", vector)
    index = open_index()
    index.refresh()
    held = index._state.sections(("default", 96))
    with truth.vector_snapshot() as snapshot:
        query = quantization.Query.of(clustered(random, 1, 96)[0])
        searched = search.Search(held, VectorFilter.of("org", "default", None), query, 10)
        assert len(searched.run(snapshot)) == 10
    assert searched.asked < 120


@pytest.mark.parametrize("exact_values", [0, 1 << 20])
def test_the_nearest_of_those_that_pass_are_found(
    truth: MemoryTruth, open_index: OPEN, random: np.random.Generator, exact_values: int
) -> None:
    for number, vector in enumerate(clustered(random, 3000, 32)):
        truth.put("org", f"m{number}", vector, user_id=f"u{number % 3}")
    index = open_index(exact_values=exact_values, candidates=400)
    index.refresh()
    for number in range(0, 3000, 7):
        truth.delete("org", f"m{number}")
    for every in (2, 30, 200):
        query = clustered(random, 1, 32)[0].astype(np.float32)
        ranked = nearest(truth, "org", "default", query, 3000, {"user_id": ["u1"]})
        passing = {f"m{number}" for number in range(0, 3000, every)}
        wanted = [hit for hit in ranked if hit.memory_id in passing][:10]
        asked: list[str] = []

        def passes(ids: Sequence[str], passing: set[str] = passing, asked: list[str] = asked) -> set[str]:
            asked.extend(ids)
            return passing & set(ids)

        assert index.search_passing("org", "default", query, 10, {"user_id": ["u1"]}, passes) == wanted
        assert len(wanted) == len(set(wanted)) == min(10, len(passing & {hit.memory_id for hit in ranked}))
        assert len(set(asked)) == len(asked), "each is asked for once"


def test_where_hardly_any_pass_it_does_not_look_at_all(
    truth: MemoryTruth, open_index: OPEN, random: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_NAMED_FIRST", 100)
    monkeypatch.setattr(search, "MOST_NAMED", 1000)
    for number, vector in enumerate(clustered(random, 5000, 32)):
        truth.put("org", f"m{number}", vector)
    index, asked = open_index(exact_values=0, candidates=400), list[str]()
    index.refresh()
    query = clustered(random, 1, 32)[0].astype(np.float32)
    assert index.search_passing("org", "default", query, 10, None, lambda ids: asked.extend(ids) or ()) == []
    assert 100 <= len(asked) < 1000


# -- tenants ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sealed", [False, True])
def test_colliding_hashes_show_nothing_foreign(
    truth: MemoryTruth, open_index: OPEN, random: np.random.Generator, monkeypatch: pytest.MonkeyPatch, sealed: bool
) -> None:
    for module in (search, unsealed_rows):
        monkeypatch.setattr(module, "digest", lambda value: 42)
    index = open_index()
    fill(truth, random, 200)
    for number in range(60):
        truth.put("org0", f"other{number}", random.standard_normal(16), space="other")
    if sealed:
        index.refresh()
    assert_equal(index, truth, random)


# -- restored and replaced stores ------------------------------------------------------------------------------------


def restored(truth: MemoryTruth, backup: MemoryTruth) -> None:
    truth.rows, truth.last, truth._seq_of = dict(backup.rows), backup.last, dict(backup._seq_of)


def backup_of(truth: MemoryTruth) -> MemoryTruth:
    backup = MemoryTruth(truth.incarnation)
    backup.rows, backup.last, backup._seq_of = dict(truth.rows), truth.last, copy.copy(truth._seq_of)
    return backup


@pytest.mark.parametrize("alive", [False, True])
@pytest.mark.parametrize("grown", [0, 10, 100, 300])
@pytest.mark.parametrize("incarnation", ["one", "two"])
def test_a_restored_backup_never_meets_newer_segments(
    truth: MemoryTruth,
    open_index: OPEN,
    random: np.random.Generator,
    alive: bool,
    grown: int,
    incarnation: str,
) -> None:
    """Even if, against its promise, the store kept its incarnation and has grown past the segments again."""
    index = open_index()
    fill(truth, random, 200)
    backup = backup_of(truth)
    fill(truth, random, 100, start=150)
    index.refresh()
    restored(truth, backup)
    truth.incarnation = incarnation
    fill(truth, random, grown, start=180)
    if not alive:
        index.close()
        index = open_index()
    assert_equal(index, truth, random, times=20)
    assert index.verify() == []


def test_newer_segments_are_known_by_their_rows_when_they_are_opened(
    truth: MemoryTruth, open_index: OPEN, random: np.random.Generator, caplog: pytest.LogCaptureFixture
) -> None:
    """Same incarnation, grown past them again, and not one of their rows is asked for."""
    fill(truth, random, 50)
    backup = backup_of(truth)
    fill(truth, random, 50, start=50)
    open_index().refresh()
    restored(truth, backup)
    fill(truth, random, 80, start=200)
    assert open_index().search("nobody", "default", np.ones(16, np.float32), 1) == []
    assert "describes other vectors" in caplog.text


def test_a_store_that_went_back_in_time_is_noticed_by_the_running_index(
    truth: MemoryTruth, open_index: OPEN, random: np.random.Generator, caplog: pytest.LogCaptureFixture
) -> None:
    index = open_index()
    fill(truth, random, 50)
    backup = backup_of(truth)
    fill(truth, random, 50, start=50)
    assert_equal(index, truth, random)
    restored(truth, backup)
    with caplog.at_level(logging.WARNING):
        assert_equal(index, truth, random)
    assert "the store was replaced" in caplog.text


# -- upkeep ----------------------------------------------------------------------------------------------------------


def test_the_background_seals_and_merges_by_itself(
    truth: MemoryTruth, open_index: OPEN, random: np.random.Generator, tmp_path: Path
) -> None:
    index = open_index(background=True, seal_rows=50)
    deadline = time.monotonic() + 60
    for number in range(12):
        fill(truth, random, 60, start=60 * number)
        index.search("org0", "default", np.ones(16, np.float32), 1)
        while not segment_files(tmp_path) and time.monotonic() < deadline:
            time.sleep(0.005)
    while len(segment_files(tmp_path)) > 6 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert 1 <= len(segment_files(tmp_path)) <= 6
    assert_equal(index, truth, random)
    assert index.verify() == []


def test_a_process_that_only_writes_seals_when_it_is_told(
    truth: MemoryTruth, open_index: OPEN, random: np.random.Generator, tmp_path: Path
) -> None:
    index = open_index(background=True, seal_rows=50)
    fill(truth, random, 40)
    index.hint(truth.last)
    assert index._upkeep._thread is None
    fill(truth, random, 40, start=40)
    index.hint(truth.last)
    deadline = time.monotonic() + 60
    while not segment_files(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.005)
    assert segment_files(tmp_path)


def test_commits_without_enough_vectors_do_not_wake_the_upkeep_each_time(
    truth: MemoryTruth, open_index: OPEN, random: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the seqs of a store a third are of vectors: there is a look at fifty seqs, and the next when it may pay."""
    index = open_index(background=True, seal_rows=50)
    woken: list[int] = []
    monkeypatch.setattr(index._upkeep, "wake", lambda: woken.append(truth.last))
    for number in range(100):
        fill(truth, random, 1, start=number)
        truth.last += 2
        looks = len(woken)
        index.hint(truth.last)
        while len(woken) > looks and index._work():
            pass
    assert len(woken) <= 24
    assert sum(segment.rows for segment in index._state.segments) >= 50


def test_a_bulk_load_is_sealed_in_pieces_by_the_first_search(
    truth: MemoryTruth, open_index: OPEN, random: np.random.Generator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(state, "_READ_ROWS", 10)
    fill(truth, random, 500)
    index = open_index(seal_rows=20)
    assert_equal(index, truth, random, times=3)
    assert len(segment_files(tmp_path)) == 500 // 60
    assert len(index._state.unsealed) == 500 % 60
    index.refresh()
    assert len(segment_files(tmp_path)) < 4
    assert_equal(index, truth, random, times=3)


def test_without_a_folder_it_seals_in_memory(truth: MemoryTruth, open_index: OPEN, random: np.random.Generator) -> None:
    index = open_index(folder=None, seal_rows=20)
    for number in range(6):
        fill(truth, random, 30, start=20 * number)
        index.refresh()
        assert_equal(index, truth, random, times=3)
    assert len(index._state.unsealed) == 0
    assert 1 <= len(index._state.segments) < 4
    assert index.verify() == []
    assert index.rebuild() == len(truth.rows)
    assert_equal(index, truth, random, times=3)


def test_a_merge_forgets_the_dead_and_purge_forgets_them_all(
    truth: MemoryTruth, open_index: OPEN, random: np.random.Generator, tmp_path: Path
) -> None:
    index = open_index()
    fill(truth, random, 100)
    index.refresh()
    for number in range(5):
        truth.delete(f"org{number % 3}", f"m{number:05d}")
    index.refresh()
    assert open_segment(*segment_files(tmp_path)).rows == 100  # five dead of a hundred are not worth a rewrite
    index.purge()
    assert open_segment(*segment_files(tmp_path)).rows == 95
    for number in range(60):
        truth.delete(f"org{number % 3}", f"m{number:05d}")
    index.refresh()
    assert open_segment(*segment_files(tmp_path)).rows == 40
    assert_equal(index, truth, random, times=3)


def test_rebuild_makes_one_segment_of_everything(
    truth: MemoryTruth, open_index: OPEN, random: np.random.Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "_READ_ROWS", 10)
    index = open_index(seal_rows=10)
    fill(truth, random, 100)
    assert index.rebuild() == 100
    assert len(segment_files(tmp_path)) == 1
    fill(truth, random, 20, start=90)
    assert index.rebuild() == 110
    assert len(segment_files(tmp_path)) == 1
    assert_equal(index, truth, random)


def test_two_indexes_share_a_folder(
    truth: MemoryTruth, open_index: OPEN, random: np.random.Generator, tmp_path: Path
) -> None:
    first, second = open_index(seal_rows=20), open_index(seal_rows=20)
    for number in range(8):
        fill(truth, random, 25, start=20 * number)
        (first, second)[number % 2].refresh()
        assert_equal(first, truth, random, times=3)
        assert_equal(second, truth, random, times=3)
    assert len(first._state.unsealed) == 0
    assert {segment.path for segment in first._state.segments} == set(segment_files(tmp_path))


# -- when things go wrong --------------------------------------------------------------------------------------------


def test_a_full_disk_stops_no_search_and_is_over_when_it_is_over(
    truth: MemoryTruth, open_index: OPEN, random: np.random.Generator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(self: SegmentFolder, *arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    index = open_index(seal_rows=20)
    with monkeypatch.context() as patch:
        patch.setattr(SegmentFolder, "put", full)
        fill(truth, random, 200)
        assert_equal(index, truth, random)
        with pytest.raises(StoreFull):
            index.refresh()
        assert segment_files(tmp_path) == []
    index.refresh()
    assert len(segment_files(tmp_path)) == 1
    assert_equal(index, truth, random)


def test_failing_upkeep_is_told_once(
    truth: MemoryTruth,
    open_index: OPEN,
    random: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(EmbeddedIndex, "_make", lambda *arguments: 1 / 0)
    monkeypatch.setattr(background_thread, "RETRY_SECONDS", 0.001)
    index = open_index(background=True, seal_rows=20)
    fill(truth, random, 40)
    deadline = time.monotonic() + 60
    while "maintenance of the vector index failed" not in caplog.text and time.monotonic() < deadline:
        assert_equal(index, truth, random, times=1)
    assert_equal(index, truth, random, times=3)
    assert caplog.text.count("maintenance of the vector index failed") == 1


@pytest.mark.parametrize("which", [0, 1])
def test_a_file_lost_under_a_running_index_is_made_again(
    truth: MemoryTruth, open_index: OPEN, random: np.random.Generator, tmp_path: Path, which: int
) -> None:
    index = open_index()
    for start in (0, 100):
        fill(truth, random, 100, start=start)
        index.refresh()
    assert len(segment_files(tmp_path)) == 2
    segment_files(tmp_path)[which].unlink()
    os.utime(tmp_path / "test.index", ns=(1, 1))  # two changes within one tick of the clock would look like one
    assert_equal(index, truth, random)
    assert index.verify() == []


def test_damage_met_in_the_middle_of_a_search_is_repaired_by_it(
    truth: MemoryTruth,
    open_index: OPEN,
    random: np.random.Generator,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    fill(truth, random, 3000)
    index = open_index(exact_values=0, candidates=100_000)
    index.refresh()
    (path,) = segment_files(tmp_path)
    place = open_segment(path).sections["default", 16].extents["codes"].offset
    with path.open("r+b") as file:
        file.seek(place)
        file.write(b"\xff" * 64)
    assert_equal(index, truth, random, times=3)
    assert "wrong checksum" in caplog.text
    assert index.verify() == []


def test_verify_names_a_damaged_segment_and_rebuild_mends_it(
    truth: MemoryTruth, open_index: OPEN, random: np.random.Generator, tmp_path: Path
) -> None:
    index = open_index()
    fill(truth, random, 100)
    index.refresh()
    assert index.verify() == []
    (path,) = segment_files(tmp_path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert any(path.name in sentence for sentence in index.verify())
    assert index.rebuild() == 100
    assert index.verify() == []


def test_verify_counts_rows_that_are_missing_or_different(
    truth: MemoryTruth, open_index: OPEN, random: np.random.Generator
) -> None:
    index = open_index()
    fill(truth, random, 90)
    index.refresh()
    fill(truth, random, 10, start=90)
    assert index.verify() == []
    del index._state.unsealed._parts["default", 16]
    assert sum("is missing" in sentence for sentence in index.verify()) == 10
    seq, row = next(iter(truth.rows.items()))
    changed = list(row.facets)
    changed[0] = "somebody else"
    truth.rows[seq] = type(row)(seq, row.organization_id, row.memory_id, row.space, tuple(changed), row.vector)
    assert index.verify().count("a vector or its facets are others in the vector index") == 1


def test_a_segment_that_lies_is_found_out_by_its_bounds(
    truth: MemoryTruth, open_index: OPEN, random: np.random.Generator, caplog: pytest.LogCaptureFixture
) -> None:
    """Rows replaced under their old seq, so that neither checksum nor incarnation nor witness tells."""
    index = open_index()
    fill(truth, random, 300)
    index.refresh()
    for seq, row in list(truth.rows.items())[10:290]:
        vector = random.standard_normal(16)
        data = (vector / np.linalg.norm(vector)).astype("<f2").tobytes()
        truth.rows[seq] = type(row)(seq, row.organization_id, row.memory_id, row.space, row.facets, data)
    assert_equal(index, truth, random)
    assert "describes other vectors" in caplog.text


def test_a_closed_index_says_so(truth: MemoryTruth, open_index: OPEN) -> None:
    index = open_index(background=True)
    index.close()
    index.close()
    with pytest.raises(Closed):
        index.search("org", "default", np.ones(4, np.float32), 1)


def test_closing_ends_the_thread_even_in_the_middle_of_a_write(
    truth: MemoryTruth, open_index: OPEN, random: np.random.Generator, tmp_path: Path
) -> None:
    index = open_index(background=True, seal_rows=20)
    fill(truth, random, 3000)
    index.hint(truth.last)
    thread = index._upkeep._thread
    assert thread is not None
    index.close()
    assert not thread.is_alive()
    assert list((tmp_path / "test.index").glob("*.tmp")) == []
    assert_equal(open_index(), truth, random, times=3)


# -- threads ---------------------------------------------------------------------------------------------------------


def test_every_thread_finds_what_it_wrote_while_all_seal_and_merge(
    truth: MemoryTruth, open_index: OPEN, random: np.random.Generator
) -> None:
    index = open_index(background=True, seal_rows=40)
    fill(truth, random, 100)
    problems: list[str] = []

    def work(name: int) -> None:
        own = np.random.default_rng(1000 + name)
        for number in range(60):
            vector = own.standard_normal(16).astype(np.float32)
            id = f"t{name}-{number % 20}"
            truth.put(f"org{name % 3}", id, vector, user_id="mine")
            found = index.search(f"org{name % 3}", "default", vector, 3)
            if not found or found[0].memory_id != id:
                problems.append(f"{id} is not first in {found}")
            expected = sum(1 for row in list(truth.rows.values()) if row.organization_id == f"org{name % 3}")
            if number % 10 == 0 and len(index.search(f"org{name % 3}", "default", vector, 10_000)) < expected - 20 * 8:
                problems.append("rows are missing")

    threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert_equal(index, truth, random)
    assert index.verify() == []


def test_no_merge_slips_between_the_snapshot_of_a_search_and_its_view(
    truth: MemoryTruth, open_index: OPEN, random: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row changes, and a merge without its old seq is tried, just after a search has opened its snapshot."""
    for number in range(30):
        truth.put("org", f"m{number}", random.standard_normal(8))
    index = open_index(folder=None)
    index.refresh()
    plain, merger = truth.vector_snapshot, threading.Thread(target=index.purge)

    @contextmanager
    def intruded() -> Iterator[VectorSnapshot]:
        monkeypatch.setattr(truth, "vector_snapshot", plain)
        with plain() as snapshot:
            truth.put("org", "m7", random.standard_normal(8))
            merger.start()
            merger.join(0.3)
            yield snapshot

    monkeypatch.setattr(truth, "vector_snapshot", intruded)
    found = index.search("org", "default", np.ones(8, np.float32), 100)
    merger.join()
    assert {hit.memory_id for hit in found} == {f"m{number}" for number in range(30)}


def test_a_search_under_changes_never_loses_a_row_that_only_changed(
    truth: MemoryTruth, open_index: OPEN, random: np.random.Generator
) -> None:
    """Rows get new seqs all the time, and segments are made again without the dead ones: still all are always there."""
    index = open_index(folder=None, seal_rows=10)
    ids = {f"m{number}" for number in range(30)}
    for id in ids:
        truth.put("org", id, random.standard_normal(8))
    stop = threading.Event()

    def change() -> None:
        own = np.random.default_rng(1)
        while not stop.is_set():
            truth.put("org", f"m{own.integers(30)}", own.standard_normal(8))

    def upkeep() -> None:
        while not stop.is_set():
            index.purge()

    threads = [threading.Thread(target=change), threading.Thread(target=upkeep)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(300):
            found = index.search("org", "default", np.ones(8, np.float32), 100)
            assert {hit.memory_id for hit in found} == ids
            assert len(found) == 30
    finally:
        stop.set()
        for thread in threads:
            thread.join()
