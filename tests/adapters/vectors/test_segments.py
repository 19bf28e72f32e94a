"""The file format, the codes and the kernels of the embedded index."""

from __future__ import annotations

import importlib.util
import io
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from recollect.adapters.encryption.sealed import SealedWriter
from recollect.adapters.vectors.embedded import kernels as scan
from recollect.adapters.vectors.embedded import quantization
from recollect.adapters.vectors.embedded import segment as segments
from recollect.adapters.vectors.embedded.segment import (
    DamagedSegment,
    Heading,
    Segment,
    open_segment,
    parse,
    write_segment,
)
from recollect.adapters.vectors.embedded.segment_folder import (
    SegmentFolder,
    SegmentName,
    in_force,
    in_memory,
    parse_name,
)
from recollect.adapters.vectors.embedded.state import merge_run
from recollect.adapters.vectors.embedded.unsealed_rows import UnsealedRows
from recollect.adapters.vectors.exact import decode, digest
from recollect.ports.keys import Writable
from recollect.ports.vectors import FACETS, VectorRow
from recollect.testing.vector_truths import facets_of, packed

HEADING = Heading("one", 0, 1000, 1000)


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(20240607)


@pytest.fixture
def without_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "compiled", None)


def rows_of(random: np.random.Generator, count: int, dimensions: int, space: str = "default") -> list[VectorRow]:
    return [
        VectorRow(
            seq,
            f"org{random.integers(4)}",
            f"m{seq}",
            space,
            facets_of(user_id=f"u{random.integers(3)}", kind=[None, "fact"][random.integers(2)]),
            packed(random.standard_normal(dimensions)),
        )
        for seq in range(1, count + 1)
    ]


def unsealed_of(rows: list[VectorRow]) -> UnsealedRows:
    unsealed = UnsealedRows(0)
    unsealed.add(rows, rows[-1].seq)
    return unsealed


def segment_of(rows: list[VectorRow], living: list[int] | None = None) -> Segment:
    chosen = None if living is None else np.array(living, np.int64)
    return in_memory(lambda file: write_segment(file, HEADING, unsealed_of(rows).sections(), chosen))


def bytes_of(rows: list[VectorRow]) -> bytes:
    file = io.BytesIO()
    write_segment(file, HEADING, unsealed_of(rows).sections())
    return file.getvalue()


# -- kernels ---------------------------------------------------------------------------------------------------------


def kernels() -> Iterator[None]:
    """Once with whatever is compiled, once with numpy."""
    held = scan.compiled
    try:
        yield
        scan.compiled = None
        yield
    finally:
        scan.compiled = held


@pytest.mark.skipif(scan.compiled is None, reason="installed without a compiler")
@pytest.mark.parametrize("width", [8, 16, 48, 96, 128, 192, 200, 384])
def test_both_kernels_count_the_same_bits(random: np.random.Generator, width: int) -> None:
    table = random.integers(0, 256, (500, width), dtype=np.uint8)
    query = random.integers(0, 256, width, dtype=np.uint8)
    rows = np.sort(random.choice(500, 77, replace=False))
    mask = random.random(500) < 0.5
    expected = np.unpackbits(table ^ query, axis=1).sum(axis=1)
    for _ in kernels():
        found, histogram = scan.hamming(table, query)
        assert (found == expected).all()
        assert (histogram == np.bincount(expected, minlength=8 * width + 1)).all()
        assert (scan.hamming(table, query, rows)[0] == expected[rows]).all()
        found, histogram = scan.hamming(table, query, mask=mask)
        assert (found == np.where(mask, expected, scan.NOWHERE)).all()
        assert histogram.sum() == mask.sum()


@pytest.mark.skipif(scan.compiled is None, reason="installed without a compiler")
@pytest.mark.parametrize("dimensions", [1, 7, 64, 384, 1536, 3072])
def test_both_kernels_multiply_alike(random: np.random.Generator, dimensions: int) -> None:
    table = random.integers(-127, 128, (60, dimensions), dtype=np.int8)
    table[0] = 127
    query = quantization.Query.of(np.ones(dimensions, np.float32)).rounded
    rows = random.integers(0, 60, 33)
    expected = table.astype(np.int64) @ query.astype(np.int64)
    for _ in kernels():
        assert (scan.dots(table, query) == expected).all()
        assert (scan.dots(table, query, rows) == expected[rows]).all()


@pytest.mark.skipif(scan.compiled is None, reason="installed without a compiler")
def test_the_compiled_kernel_refuses_what_does_not_fit() -> None:
    table, query = np.zeros((4, 8), np.uint8), np.zeros(8, np.uint8)
    out, histogram = np.zeros(4, np.uint16), np.zeros(65, np.uint32)
    for arguments in (
        (table, query, out[:3], histogram, None, None),
        (table, query, out, histogram[:64], None, None),
        (table, query, out[:1], histogram, np.array([4]), None),
        (table, query, out[:1], histogram, np.array([-1]), None),
        (table, query, out, histogram, None, np.zeros(3, np.bool_)),
        (table, query[:0], out, histogram, None, None),
        (table.reshape(-1)[1:25], query, out[:3], histogram, None, None),
    ):
        with pytest.raises(ValueError, match="buffer"):
            scan.compiled.hamming(*arguments)
    with pytest.raises((TypeError, BufferError)):
        scan.compiled.hamming(None, query, out, histogram, None, None)
    with pytest.raises(ValueError, match="buffer"):
        scan.compiled.dots(np.zeros((3, 4), np.int8), np.zeros(4, np.int16), np.zeros(3, np.int32), np.array([3, 0, 0]))


def test_a_leftover_kernel_of_an_older_build_is_not_used() -> None:
    assert scan.compiled is None or scan.compiled.interface == scan._INTERFACE


def test_which_kernel_runs_is_said_with_the_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with_nothing = _loaded_from(tmp_path, monkeypatch)
    assert with_nothing.compiled is None
    assert "it is not in this installation" in with_nothing.described()
    (tmp_path / "_scan.abi3.so").write_bytes(b"for another machine")
    (tmp_path / "_scan.pyd").write_bytes(b"for another machine")
    assert "it cannot be loaded: " in _loaded_from(tmp_path, monkeypatch).described()
    for file in tmp_path.glob("_scan.*"):
        file.unlink()
    (tmp_path / "_scan.py").write_text("interface = 0\n")
    assert "from an older version" in _loaded_from(tmp_path, monkeypatch).described()
    (tmp_path / "_scan.py").write_text(f"interface = {scan._INTERFACE} # the one of today\n")
    assert _loaded_from(tmp_path, monkeypatch).described() == "compiled"


def _loaded_from(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """kernels.py once more, with the compiled module looked for in a folder."""
    from recollect.adapters.vectors import embedded

    monkeypatch.setattr(embedded, "__path__", [str(folder)])
    monkeypatch.delattr(embedded, "_scan", raising=False)
    monkeypatch.delitem(sys.modules, "recollect.adapters.vectors.embedded._scan", raising=False)
    importlib.invalidate_caches()
    spec = importlib.util.spec_from_file_location("kernels_again", scan.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# -- codes -----------------------------------------------------------------------------------------------------------


def hostile_vectors(random: np.random.Generator, dimensions: int) -> NDArray[np.float32]:
    spike, tiny = np.zeros(dimensions), np.full(dimensions, 1e-4)
    spike[0] = tiny[-1] = 1.0
    drawn = [random.standard_normal(dimensions) * scale for scale in (1e-3, 1.0, 30.0)]
    return np.array([spike, tiny, np.zeros(dimensions), -spike, *drawn], np.float32)


@pytest.mark.parametrize("dimensions", [1, 3, 64, 384, 1536])
def test_no_estimate_is_further_from_the_truth_than_its_slack(random: np.random.Generator, dimensions: int) -> None:
    vectors = np.concatenate(
        [random.standard_normal((300, dimensions)).astype(np.float32), hostile_vectors(random, dimensions)]
    )
    coarse, scale, slack = quantization.encode(vectors)
    for vector in (*random.standard_normal((20, dimensions)), *vectors[-7:]):
        query = quantization.Query.of(vector.astype(np.float32))
        found = quantization.estimates(scan.dots(coarse, query.rounded), np.arange(len(vectors)), scale, slack)
        truth = vectors.astype(np.float64) @ query.exact
        assert (np.abs(found.similarity - truth) <= found.slack).all()


def test_the_slack_is_small_enough_to_be_of_use(random: np.random.Generator) -> None:
    vectors = random.standard_normal((200, 384)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1)[:, None]
    assert quantization.encode(vectors).slack.max() < 0.012


def test_only_none_has_the_hash_zero() -> None:
    assert digest(None) == 0
    values = ["", "0", "None", "ä", "\udc80", "x" * 10_000]
    assert 0 not in {digest(value) for value in values}
    assert len({digest(value) for value in values}) == len(values)


# -- the file --------------------------------------------------------------------------------------------------------


def test_a_segment_holds_what_was_put_into_it(random: np.random.Generator, tmp_path: Path) -> None:
    rows = rows_of(random, 300, 20)
    path = tmp_path / "segment"
    path.write_bytes(bytes_of(rows))
    segment = open_segment(path)
    section = segment.sections["default", 20]
    place = {seq: number for number, seq in enumerate(section.column("seq").tolist())}
    assert (segment.after, segment.upto, segment.rows, len(place)) == (0, 1000, 300, 300)
    for row in rows:
        number = np.array([place[row.seq]])
        assert section.tenants_at(number)[0] == digest(row.organization_id)
        for position, facet in enumerate(FACETS):
            assert section.at(facet, number)[0] == digest(row.facets[position])
        coarse, scale, _ = quantization.encode(decode([row], 20))
        assert (section.coarse_at(number) == coarse).all()
        assert section.at("scale", number)[0] == scale[0]


def test_a_tenant_and_a_user_are_contiguous_ranges(random: np.random.Generator) -> None:
    rows = rows_of(random, 300, 8)
    section = segment_of(rows).sections["default", 8]
    for tenant in ("org0", "org3", "nobody"):
        mine = section.select(digest(tenant), {})
        assert mine.rows is None
        assert mine.mask is None
        expected = {row.seq for row in rows if row.organization_id == tenant}
        assert set(section.column("seq")[mine.low : mine.high].tolist()) == expected
        user = section.select(digest(tenant), {0: np.array([digest("u1")], np.uint64)})
        expected = {row.seq for row in rows if row.organization_id == tenant and row.facets[0] == "u1"}
        assert set(section.column("seq")[user.low : user.high].tolist()) == expected


@pytest.mark.parametrize("wanted", [["fact"], [None], ["fact", None], ["other"], ["fact", *map(str, range(40))]])
def test_other_facets_pick_single_rows(random: np.random.Generator, wanted: list[str | None]) -> None:
    rows = rows_of(random, 300, 8)
    kind = FACETS.index("kind")
    hashes = np.array(sorted(digest(value) for value in wanted), np.uint64)
    for section in (segment_of(rows).sections["default", 8], unsealed_of(rows).sections()[0]):
        selection = section.select(digest("org1"), {kind: hashes})
        numbers = selection.numbers()
        chosen = np.arange(selection.low, selection.high) if numbers is None else numbers
        expected = {row.seq for row in rows if row.organization_id == "org1" and row.facets[kind] in wanted}
        assert set(section.column("seq")[chosen].tolist()) == expected
        assert selection.count == len(expected)


def test_spaces_and_lengths_do_not_mix(random: np.random.Generator) -> None:
    rows = [*rows_of(random, 20, 8), *rows_of(random, 30, 8, "other"), *rows_of(random, 40, 16)]
    sections = segment_of(rows).sections
    assert {key: len(section) for key, section in sections.items()} == {
        ("default", 8): 20,
        ("other", 8): 30,
        ("default", 16): 40,
    }


def test_a_merge_keeps_the_living_and_finds_its_own_centre(random: np.random.Generator) -> None:
    rows = rows_of(random, 200, 16)
    first, second = segment_of(rows[:120]), segment_of(rows[120:])
    living = [row.seq for row in rows if row.seq % 3]
    sources = [segment.sections["default", 16] for segment in (first, second)]
    merged = in_memory(lambda file: write_segment(file, HEADING, sources, np.array(living)))
    section = merged.sections["default", 16]
    assert sorted(section.column("seq").tolist()) == living
    coarse, scale = section.column("coarse"), section.column("scale")
    assert (section.column("codes") == quantization.sign_codes(coarse * scale[:, None], section.centre)).all()
    assert np.allclose(section.centre, decode(rows, 16).mean(axis=0), atol=0.01)


def test_everything_dead_makes_an_empty_segment(random: np.random.Generator) -> None:
    assert segment_of(rows_of(random, 5, 8), living=[]).rows == 0


def test_every_single_flipped_byte_is_noticed(random: np.random.Generator) -> None:
    whole = bytes_of(rows_of(random, 12, 8))
    parse(memoryview(whole), checked=False).check_all()
    for position in range(len(whole)):
        broken = bytearray(whole)
        broken[position] ^= 1 << random.integers(8)
        with pytest.raises(DamagedSegment):
            parse(memoryview(bytes(broken)), checked=False).check_all()


@pytest.mark.parametrize("kept", [0, 1, 7, 15, 16, 100, -1])
def test_a_cut_file_is_no_segment(random: np.random.Generator, tmp_path: Path, kept: int) -> None:
    path = tmp_path / "segment"
    path.write_bytes(bytes_of(rows_of(random, 12, 8))[:kept])
    with pytest.raises(DamagedSegment):
        open_segment(path)


def test_a_newer_format_is_not_read(random: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "FORMAT", 2)
    newer = bytes_of(rows_of(random, 12, 8))
    monkeypatch.setattr(segments, "FORMAT", 1)
    with pytest.raises(DamagedSegment, match="format 2"):
        parse(memoryview(newer), checked=False)


def test_a_block_is_checked_before_it_is_used(random: np.random.Generator) -> None:
    """Damage in one place does not make the rest unreadable, and is met as soon as it is touched."""
    rows = rows_of(random, 4000, 8)
    broken = bytearray(bytes_of(rows))
    extents = parse(memoryview(bytes(broken)), checked=False).sections["default", 8].extents
    broken[extents["coarse"].stop - 1] ^= 255
    section = parse(memoryview(bytes(broken)), checked=False).sections["default", 8]
    section.column("seq")
    section.coarse_at(np.array([0]))
    with pytest.raises(DamagedSegment):
        section.coarse_at(np.array([0, 3999]))
    with pytest.raises(DamagedSegment):
        section.column("coarse")


def test_threads_may_check_the_same_blocks_at_once(
    random: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One thread finds the last block right, and drops the checksums, while another is in the middle of them."""
    guard = parse(memoryview(bytes_of(rows_of(random, 4000, 8))), checked=False).guard
    plain = zlib.crc32

    def intruded(data: memoryview) -> int:
        monkeypatch.setattr(zlib, "crc32", plain)
        guard.check(0, len(guard.data))
        assert guard.all_right
        return plain(data)

    monkeypatch.setattr(zlib, "crc32", intruded)
    guard.check(0, len(guard.data))


# -- the folder ------------------------------------------------------------------------------------------------------


def put(folder: SegmentFolder, rows: list[VectorRow], after: int, upto: int) -> Segment:
    heading = Heading("one", after, upto, upto)
    return folder.put(after, upto, lambda file: write_segment(file, heading, unsealed_of(rows).sections()))


def test_names_carry_their_range() -> None:
    assert parse_name(str(SegmentName(1, 2**40, 3))) == (1, 2**40, 3)
    assert parse_name("lock") is None
    assert parse_name(f"{SegmentName(1, 2, 3)}.tmp") is None


def test_the_wider_range_wins_then_the_younger(random: np.random.Generator, tmp_path: Path) -> None:
    folder, rows = SegmentFolder(tmp_path), rows_of(random, 3, 8)
    narrow = [put(folder, rows, 0, 5), put(folder, rows, 5, 9)]
    wide = put(folder, rows, 0, 9)
    again = put(folder, rows, 0, 9)
    later = put(folder, rows, 20, 30)
    assert in_force([*narrow, wide, again, later]) == [again, later]
    assert in_force([narrow[1], later]) == [narrow[1], later]
    assert in_force([narrow[0], put(folder, rows, 3, 9)]) == [narrow[0]]


def test_leftovers_are_tidied_away_and_others_files_are_not(random: np.random.Generator, tmp_path: Path) -> None:
    folder, rows = SegmentFolder(tmp_path), rows_of(random, 3, 8)
    put(folder, rows, 0, 5)
    kept = put(folder, rows, 0, 9)
    (tmp_path / f"{SegmentName(0, 5, 9)}.tmp").write_bytes(b"half")
    (tmp_path / "notes.txt").write_text("not ours")
    folder.tidy([kept])
    assert kept.path is not None
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([kept.path.name, "notes.txt"])


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    def fail(file: Writable) -> None:
        file.write(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="space"):
        SegmentFolder(tmp_path).put(0, 5, fail)
    assert list(tmp_path.iterdir()) == []


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    with SegmentFolder(tmp_path).lock() as first, SegmentFolder(tmp_path).lock() as second:
        assert (first, second) == (True, False)
    with SegmentFolder(tmp_path).lock() as again:
        assert again


def test_the_same_thread_may_lock_again(tmp_path: Path) -> None:
    folder = SegmentFolder(tmp_path)
    with folder.lock(), folder.lock() as again:
        assert again
    with SegmentFolder(tmp_path).lock() as other:
        assert other


@pytest.mark.parametrize(
    ("rows", "run"),
    [
        ([], None),
        ([20, 20, 20], None),
        ([20, 20, 20, 20], slice(0, 4)),
        ([5000, 20, 20, 20, 20], slice(1, 5)),
        ([5000, 20, 20, 20], None),
        ([5000, 20, 20, 300, 20], None),
        ([0, 0, 0, 0], slice(0, 4)),
        ([300, 20, 20, 20, 20, 300], slice(1, 5)),
        ([300, 300, 300, 20, 300], slice(0, 5)),
    ],
)
def test_segments_of_about_one_size_are_merged(rows: list[int], run: slice | None) -> None:
    assert merge_run(rows) == run


# -- beside an encrypted store ---------------------------------------------------------------------------------------


KEY = bytes(range(32))


def sealed_bytes(rows: list[VectorRow]) -> bytes:
    buffer = io.BytesIO()
    sealed = SealedWriter(buffer, KEY)
    sealed.write(bytes_of(rows))
    sealed.end()
    return buffer.getvalue()


def test_a_sealed_segment_holds_the_same_and_shows_nothing(random: np.random.Generator, tmp_path: Path) -> None:
    rows = rows_of(random, 4000, 8)
    folder = SegmentFolder(tmp_path, KEY)
    plain = parse(memoryview(bytes_of(rows))).sections["default", 8]
    folder.put(0, 1000, lambda file: write_segment(file, HEADING, [plain]))
    (opened,), _ = SegmentFolder(tmp_path, KEY).open_all([])
    section = opened.sections["default", 8]
    for name in ("seq", "user_id", "scale", "codes", "coarse"):
        assert (section.column(name) == plain.column(name)).all()
        assert plain.column(name)[:100].tobytes() not in opened.path.read_bytes()
    assert segments.MAGIC not in opened.path.read_bytes()


def test_only_what_is_touched_is_decrypted(random: np.random.Generator) -> None:
    section = parse(memoryview(sealed_bytes(rows_of(random, 20_000, 8))), key=KEY).sections["default", 8]
    assert not section.guard.all_right
    section.coarse_at(np.array([0]))
    assert not section.guard.all_right
    section.guard.check(0, len(section.guard.data))
    assert section.guard.all_right


def test_every_flipped_byte_of_a_sealed_segment_is_noticed(random: np.random.Generator) -> None:
    whole = sealed_bytes(rows_of(random, 4000, 8))
    parse(memoryview(whole), key=KEY).check_all()
    for position in [*range(200), *random.integers(0, len(whole), 200).tolist(), len(whole) - 1]:
        broken = bytearray(whole)
        broken[position] ^= 1 << random.integers(8)
        with pytest.raises(DamagedSegment):
            parse(memoryview(bytes(broken)), key=KEY).check_all()


@pytest.mark.parametrize("kept", [0, 1, 50, 90, 100, 65_700, -1, -17])
def test_a_sealed_segment_that_was_cut_is_none(random: np.random.Generator, kept: int) -> None:
    with pytest.raises(DamagedSegment):
        parse(memoryview(sealed_bytes(rows_of(random, 4000, 8))[:kept]), key=KEY)


def test_plain_and_sealed_segments_are_not_taken_for_each_other(random: np.random.Generator) -> None:
    rows = rows_of(random, 12, 8)
    for data, key in ((bytes_of(rows), KEY), (sealed_bytes(rows), None), (sealed_bytes(rows), bytes(32))):
        with pytest.raises(DamagedSegment):
            parse(memoryview(data), key=key)
