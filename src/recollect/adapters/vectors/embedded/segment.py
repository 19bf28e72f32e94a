"""One segment of the embedded index: an immutable file of codes for the rows of a range of sequence numbers.

The promise: no byte of a file is used before the checksum of its block was right in this process, so damage is
noticed, never served. The shape, front to back:

    magic | sections | checksums (crc32 of each 16 KB block before them) | footer (JSON) | its length and crc32, magic

A segment covers the sequence range (after, upto] of all spaces; a section holds the rows of one space, sorted by
tenant, then user, then seq, so that a tenant, and a user of a tenant, is a contiguous range. Its columns: the
centre of its vectors, the directory of tenants, `seq`, a 64-bit hash per facet (0 is None), the int8 vector
(`coarse`) with its `scale` and `slack`, and the 1-bit `codes` (sign after centring). One file for all spaces, not one
each: a seal is then one rename whatever the number of spaces, and there is no half-sealed state to think about.

Why int8 beside the codes, at all lengths: asking SQLite for 4,000 rows takes 22 ms (measured), scoring them from
`coarse` 0.05 ms; and `slack` bounds the error of each estimate, so the few rows that can still be among the nearest
are known for certain. A merge re-centres from `coarse` too and reads no vector from the truth.

Checksums are checked block by block when first touched (3.7 GB/s measured): opening costs nothing, a small tenant
pays for its own range only. Beside an encrypted store the file is sealed (`adapters/encryption/sealed.py`): then its
pieces are decrypted, which authenticates them, into memory of this process when first touched.
What proves it: `tests/adapters/vectors/test_segments.py`, `tests/crash/test_index_crash.py`.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import struct
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from recollect.adapters.encryption.sealed import PIECE, SealedPieces
from recollect.adapters.vectors.embedded import kernels
from recollect.adapters.vectors.embedded.quantization import (
    Column,
    Estimates,
    FacetHashes,
    Hashes,
    Key,
    Query,
    Selection,
    Source,
    code_width,
    estimates,
    facet_mask,
    sign_codes,
)
from recollect.errors import DamagedData
from recollect.ports.keys import Writable
from recollect.ports.vectors import FACETS

FORMAT = 1
MAGIC = b"RCLSEG\r\n"  # the line ending shows a transfer in text mode
BLOCK = 16384
_TRAILER = struct.Struct("<II8s")
_ALIGNMENT = 64
_USER = FACETS.index("user_id")


class DamagedSegment(DamagedData):
    """A segment that must not be served; whoever catches it sets the segment aside."""

    def __init__(self, segment: Segment | None, reason: str) -> None:
        super().__init__(reason, remedy="the index is rebuilt from the stored vectors by itself")
        self.segment = segment


class ColumnExtent(NamedTuple):
    """Where a column lies in the file."""

    offset: int
    dtype: str
    shape: tuple[int, ...]

    @property
    def row_bytes(self) -> int:
        return np.dtype(self.dtype).itemsize * math.prod(self.shape[1:])

    @property
    def stop(self) -> int:
        return self.offset + self.shape[0] * self.row_bytes


def layout(start: int, rows: int, tenants: int, dimensions: int) -> dict[str, ColumnExtent]:
    """The columns of a section that begins at `start`; the writer and the reader both follow it."""
    shapes: list[tuple[str, str, tuple[int, ...]]] = [
        ("centre", "<f4", (dimensions,)),
        ("tenants", "<u8", (tenants,)),
        ("starts", "<i8", (tenants + 1,)),
        ("seq", "<i8", (rows,)),
        *((facet, "<u8", (rows,)) for facet in FACETS),
        ("scale", "<f4", (rows,)),
        ("slack", "<f4", (rows,)),
        ("codes", "|u1", (rows, code_width(dimensions))),
        ("coarse", "|i1", (rows, dimensions)),
    ]
    extents: dict[str, ColumnExtent] = {}
    for name, dtype, shape in shapes:
        extents[name] = ColumnExtent(-(-start // _ALIGNMENT) * _ALIGNMENT, dtype, shape)
        start = extents[name].stop
    return extents


class Blocks:
    """The bytes of a segment; a block is used when it was found right, which is remembered."""

    def __init__(self, data: memoryview, block: int, count: int) -> None:
        self.data = data
        self.owner: Callable[[], Segment | None] = lambda: None  # weak, or unlinked files would stay mapped
        self._block = block
        self._right = np.zeros(count, np.bool_)
        self.all_right = not count

    def check(self, start: int, stop: int) -> None:
        if not self.all_right and stop > start:
            first, last = start // self._block, (stop - 1) // self._block + 1
            if not self._right[first:last].all():
                self._check_blocks(first + np.flatnonzero(~self._right[first:last]))

    def check_rows(self, extent: ColumnExtent, rows: kernels.Rows) -> None:
        if self.all_right or not len(rows):
            return
        low, high = (extent.offset + row * extent.row_bytes for row in (int(rows.min()), int(rows.max()) + 1))
        if self._right[low // self._block : (high - 1) // self._block + 1].all():
            return  # soon all were used by some search: then a look at a few thousand marks is enough
        starts = extent.offset + rows * extent.row_bytes
        first, last = starts // self._block, (starts + extent.row_bytes - 1) // self._block
        for step in range(int((last - first).max()) + 1):
            blocks = np.minimum(first + step, last)
            fresh = blocks[~self._right[blocks]]
            if len(fresh):
                self._check_blocks(np.unique(fresh))

    def _check_blocks(self, blocks: NDArray[np.int64]) -> None:
        for block in blocks.tolist():
            self._check_block(block)
            self._right[block] = True
        self.all_right = bool(self._right.all())

    def _check_block(self, block: int) -> None:
        raise NotImplementedError


class ChecksummedBlocks(Blocks):
    """Of a plain file, which is mapped. Without `sums` there is nothing to check."""

    def __init__(self, data: memoryview, sums: NDArray[np.uint32] | None) -> None:
        super().__init__(data, BLOCK, 0 if sums is None else len(sums))
        self._sums = sums

    def _check_block(self, block: int) -> None:
        assert self._sums is not None, "else no block is asked for"
        if zlib.crc32(self.data[block * BLOCK : (block + 1) * BLOCK]) != self._sums[block]:
            raise DamagedSegment(self.owner(), f"block {block} has a wrong checksum")


class DecryptedBlocks(Blocks):
    """Of a sealed file: memory of this process, which the system provides as it is filled."""

    def __init__(self, sealed: memoryview, key: bytes) -> None:
        self._pieces = SealedPieces(sealed, key)
        self._memory = memoryview(mmap.mmap(-1, self._pieces.size))
        super().__init__(self._memory.toreadonly(), PIECE, self._pieces.count)

    def _check_block(self, block: int) -> None:
        try:
            piece = self._pieces.piece(block)
        except DamagedData as error:
            raise DamagedSegment(self.owner(), f"piece {block} is damaged") from error
        self._memory[block * PIECE : block * PIECE + len(piece)] = piece


@dataclass(eq=False)
class SealedSection:
    """Rows of one space in a segment; every access goes through the guard."""

    key: Key
    extents: dict[str, ColumnExtent]
    guard: Blocks
    last: int  # the row with the highest seq
    _columns: dict[str, Column] = field(default_factory=dict)

    def __len__(self) -> int:
        return self.extents["seq"].shape[0]

    def column(self, name: str, low: int = 0, high: int | None = None) -> Column:
        whole = self._whole(name)
        high = len(whole) if high is None else high
        if not self.guard.all_right:
            extent = self.extents[name]
            self.guard.check(extent.offset + low * extent.row_bytes, extent.offset + high * extent.row_bytes)
        return whole[low:high]

    def at(self, name: str, rows: kernels.Rows) -> Column:
        self.guard.check_rows(self.extents[name], rows)
        chosen: Column = self._whole(name)[rows]
        return chosen

    def _whole(self, name: str) -> Column:
        """The column as it lies in the file, of which no row is used that was not checked."""
        mapped = self._columns.get(name)
        if mapped is None:
            extent = self.extents[name]
            count = math.prod(extent.shape)
            mapped = np.frombuffer(self.guard.data, extent.dtype, count, extent.offset).reshape(extent.shape)
            self._columns[name] = mapped
        return mapped

    @property
    def centre(self) -> NDArray[np.float32]:
        return self.column("centre")

    def tenants_of_rows(self) -> Hashes:
        return np.repeat(self.column("tenants"), np.diff(self.column("starts")))

    def coarse_at(self, rows: kernels.Rows) -> NDArray[np.int8]:
        return self.at("coarse", rows)

    def tenants_at(self, rows: kernels.Rows) -> Hashes:
        chosen: Hashes = self.column("tenants")[np.searchsorted(self.column("starts"), rows, "right") - 1]
        return chosen

    def select(self, tenant: int, wanted: FacetHashes) -> Selection:
        low, high = self._range(tenant)
        users = wanted.get(_USER)
        if users is not None and len(users) == 1 and high > low:  # sorted by user inside a tenant
            column = self.column(FACETS[_USER], low, high)
            low, high = (low + int(np.searchsorted(column, users[0], side)) for side in ("left", "right"))
            wanted = {facet: hashes for facet, hashes in wanted.items() if facet != _USER}
        mask = facet_mask(lambda facet: self.column(FACETS[facet], low, high), wanted) if high > low else None
        return Selection.passing(low, high, mask)

    def _range(self, tenant: int) -> tuple[int, int]:
        tenants, starts = self.column("tenants"), self.column("starts")
        place = int(np.searchsorted(tenants, np.uint64(tenant)))
        if place == len(tenants) or tenants[place] != tenant:
            return 0, 0
        return int(starts[place]), int(starts[place + 1])

    def distances(self, selection: Selection, query: Query) -> tuple[NDArray[np.uint16], NDArray[np.uint32]]:
        """Bits that differ between the query and each selection row, and their histogram."""
        wanted = query.code(self.centre)
        if selection.rows is None:
            return kernels.hamming(self.column("codes", selection.low, selection.high), wanted, mask=selection.mask)
        self.guard.check_rows(self.extents["codes"], selection.rows)
        return kernels.hamming(self._whole("codes"), wanted, selection.rows)

    def estimate(self, selection: Selection, query: Query) -> Estimates:
        low, high, rows = selection.low, selection.high, selection.numbers()
        if rows is None:
            products = kernels.dots(self.column("coarse", low, high), query.rounded)
            return estimates(products, *(self.column(name, low, high) for name in ("seq", "scale", "slack")))
        self.guard.check_rows(self.extents["coarse"], rows)
        products = kernels.dots(self._whole("coarse"), query.rounded, rows)
        return estimates(products, *(self.at(name, rows) for name in ("seq", "scale", "slack")))


@dataclass(eq=False)
class Segment:
    """An opened segment. `seen` is the last seq of the snapshot it was made from: who uses it has a newer one."""

    after: int
    upto: int
    seen: int
    incarnation: str
    sections: dict[Key, SealedSection]
    guard: Blocks
    path: Path | None = None
    inode: int = 0

    @property
    def rows(self) -> int:
        return sum(len(section) for section in self.sections.values())

    def check_all(self) -> None:
        self.guard.check(0, len(self.guard.data))


def open_segment(path: Path, *, key: bytes | None = None) -> Segment:
    """Map a segment file; DamagedSegment when it is cut short, of another format, or not a segment."""
    with path.open("rb") as file:
        inode = os.fstat(file.fileno()).st_ino
        try:
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except ValueError as error:
            raise DamagedSegment(None, "the file is empty") from error
    segment = parse(data, key=key)
    segment.path, segment.inode = path, inode
    return segment


def parse(data: memoryview, *, checked: bool = False, key: bytes | None = None) -> Segment:
    try:
        if key is None:
            return _parse(data, lambda sums, stop: ChecksummedBlocks(data[:stop], None if checked else sums))
        blocks = DecryptedBlocks(data, key)
        blocks.check(0, len(MAGIC))
        blocks.check(len(blocks.data) - _TRAILER.size, len(blocks.data))
        return _parse(blocks.data, lambda sums, stop: blocks, blocks.check)
    except DamagedSegment:
        raise
    except (DamagedData, ValueError, KeyError, TypeError, struct.error) as error:
        raise DamagedSegment(None, f"the footer cannot be read: {error}") from error


def _parse(
    data: memoryview,
    blocks_of: Callable[[NDArray[np.uint32], int], Blocks],
    ready: Callable[[int, int], None] = lambda start, stop: None,
) -> Segment:
    """`ready` is told which bytes are read next; the first and the last are there."""
    length, crc, magic = _TRAILER.unpack(data[-_TRAILER.size :])
    if magic != MAGIC or data[:8] != MAGIC or length > len(data) - _TRAILER.size:
        raise ValueError("it is not a whole segment")
    ready(len(data) - _TRAILER.size - length, len(data))
    text = data[len(data) - _TRAILER.size - length : len(data) - _TRAILER.size]
    if zlib.crc32(text) != crc:
        raise ValueError("it is not a whole segment")
    footer = json.loads(bytes(text))
    if footer["format"] != FORMAT:
        raise ValueError(f"format {footer['format']}, this program reads {FORMAT}")
    ready(footer["sums_at"], len(data))
    sums = np.frombuffer(data, "<u4", footer["blocks"], footer["sums_at"])
    if zlib.crc32(sums.tobytes()) != footer["sums_crc"] or footer["blocks"] != -(-footer["sums_at"] // BLOCK):
        raise ValueError("the checksums are damaged")
    guard = blocks_of(sums, footer["sums_at"])
    sections = {}
    for entry in footer["sections"]:
        key = (entry["space"], entry["dimensions"])
        extents = layout(entry["at"], entry["rows"], entry["tenants"], entry["dimensions"])
        if extents["coarse"].stop > footer["sums_at"]:
            raise ValueError("a section reaches beyond the data")
        sections[key] = SealedSection(key, extents, guard, entry["last"])
    segment = Segment(footer["after"], footer["upto"], footer["seen"], footer["incarnation"], sections, guard)
    guard.owner = weakref.ref(segment)
    return segment


# -- writing ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Heading:
    incarnation: str
    after: int
    upto: int
    seen: int


def write_segment(
    file: Writable, heading: Heading, sources: Iterable[Source], living: NDArray[np.int64] | None = None
) -> None:
    """Write the rows of `sources` (those in `living`, if given) as one segment, front to back.

    Only ever appends, in pieces of a few megabytes, so a full disk is an OSError and not a crash inside a
    mapped page, and a merge of millions of rows needs tens of megabytes.
    """
    out = _Appender(file)
    out.write(MAGIC)
    groups: dict[Key, list[Source]] = {}
    for source in sources:
        groups.setdefault(source.key, []).append(source)
    sections = [_write_section(out, key, groups[key], living) for key in sorted(groups)]
    sums = np.array(out.finish(), "<u4").tobytes()
    footer = {
        "format": FORMAT,
        "incarnation": heading.incarnation,
        "after": heading.after,
        "upto": heading.upto,
        "seen": heading.seen,
        "sections": [section for section in sections if section["rows"]],
        "sums_at": out.position,
        "sums_crc": zlib.crc32(sums),
        "blocks": len(sums) // 4,
    }
    text = json.dumps(footer).encode()
    file.write(sums + text + _TRAILER.pack(len(text), zlib.crc32(text), MAGIC))


@dataclass
class _Appender:
    """Writes on, and keeps the checksum of every block."""

    file: Writable
    position: int = 0
    sums: list[int] = field(default_factory=list)
    pending: bytearray = field(default_factory=bytearray)

    def write(self, data: bytes | memoryview) -> None:
        self.file.write(data)
        self.position += len(data)
        self.pending += data
        whole = len(self.pending) // BLOCK * BLOCK
        with memoryview(self.pending) as view:
            self.sums += [zlib.crc32(view[start : start + BLOCK]) for start in range(0, whole, BLOCK)]
        del self.pending[:whole]

    def write_at(self, extent: ColumnExtent, pieces: Iterable[Column]) -> None:
        self.write(bytes(extent.offset - self.position))
        for piece in pieces:
            self.write(np.ascontiguousarray(piece, extent.dtype).tobytes())

    def finish(self) -> list[int]:
        """Pads to a multiple of 64, so that the checksums that follow are aligned, and closes the last block."""
        self.write(bytes(-self.position % _ALIGNMENT))
        return [*self.sums, zlib.crc32(self.pending)] if self.pending else self.sums


class _SectionEntry(TypedDict):
    """A section as the footer describes it."""

    space: str
    dimensions: int
    rows: int
    tenants: int
    last: int
    at: int


class _Order(NamedTuple):
    """Which row of which source comes when."""

    source: NDArray[np.int32]
    row: NDArray[np.int64]
    chosen: NDArray[np.int64]  # positions in the sources laid end to end

    def chunks(self, dimensions: int) -> Iterator[tuple[slice, NDArray[np.int32], NDArray[np.int64]]]:
        size = max(1, (4 << 20) // (4 * dimensions))
        for start in range(0, len(self.row), size):
            piece = slice(start, start + size)
            yield piece, self.source[piece], self.row[piece]


def _order(sources: Sequence[Source], tenants: Hashes, living: NDArray[np.int64] | None) -> _Order:
    seq = np.concatenate([source.column("seq") for source in sources])
    users = np.concatenate([source.column(FACETS[_USER]) for source in sources])
    chosen = np.lexsort((seq, users, tenants))
    if living is not None:
        place = np.searchsorted(living, seq)
        alive = np.take(living, place, mode="clip") == seq if len(living) else np.zeros(len(seq), np.bool_)
        chosen = chosen[alive[chosen]]
    lengths = [len(source) for source in sources]
    owner = np.repeat(np.arange(len(sources), dtype=np.int32), lengths)
    local = np.concatenate([np.arange(length) for length in lengths])
    return _Order(owner[chosen], local[chosen], chosen)


def _write_section(
    out: _Appender, key: Key, sources: Sequence[Source], living: NDArray[np.int64] | None
) -> _SectionEntry:
    dimensions = key[1]
    tenants = np.concatenate([source.tenants_of_rows() for source in sources])
    order = _order(sources, tenants, living)
    unique, starts = np.unique(tenants[order.chosen], return_index=True)
    weights = [len(source) for source in sources]
    centre = np.average([source.centre for source in sources], axis=0, weights=weights).astype(np.float32)
    extents = layout(out.position, len(order.row), len(unique), dimensions)
    out.write_at(extents["centre"], [centre])
    out.write_at(extents["tenants"], [unique])
    out.write_at(extents["starts"], [np.append(starts, len(order.row))])
    for name in ("seq", *FACETS, "scale", "slack"):
        whole = np.concatenate([source.column(name) for source in sources])
        out.write_at(extents[name], [whole[order.chosen]])
    seq = np.concatenate([source.column("seq") for source in sources])
    scale = np.concatenate([source.column("scale") for source in sources])[order.chosen]
    out.write_at(extents["codes"], _codes(sources, order, dimensions, scale, centre))
    out.write_at(extents["coarse"], (coarse for _, coarse in _coarse(sources, order, dimensions)))
    return {
        "space": key[0],
        "dimensions": dimensions,
        "rows": len(order.row),
        "tenants": len(unique),
        "last": int(np.argmax(seq[order.chosen])) if len(order.chosen) else 0,
        "at": extents["centre"].offset,
    }


def _coarse(sources: Sequence[Source], order: _Order, dimensions: int) -> Iterator[tuple[slice, NDArray[np.int8]]]:
    for piece, owners, rows in order.chunks(dimensions):
        chunk = np.empty((len(rows), dimensions), np.int8)
        for number in np.unique(owners).tolist():
            mine = owners == number
            chunk[mine] = sources[number].coarse_at(rows[mine])
        yield piece, chunk


def _codes(
    sources: Sequence[Source],
    order: _Order,
    dimensions: int,
    scale: NDArray[np.float32],
    centre: NDArray[np.float32],
) -> Iterator[NDArray[np.uint8]]:
    for piece, coarse in _coarse(sources, order, dimensions):
        yield sign_codes(coarse * scale[piece, None], centre)
