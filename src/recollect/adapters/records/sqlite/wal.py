"""Reading SQLite's write-ahead log by ourselves: which pages it holds, and the checksum each of them will carry.

SQLite checks the log only when it recovers after a crash; a byte that changes while it is in use would be served, and
then sealed with a right checksum when the log is moved into the file. Shape of the log: 32 bytes, then frames of 24
bytes (page number, size after a commit, two salts that name the log's generation, two checksums) and a page.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

LOG_HEADER, FRAME_HEADER, SUM_BYTES = 32, 24, 8
_MAGIC = frozenset({0x377F0682, 0x377F0683})
FRAMES_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class LogHeader:
    salts: bytes
    page_size: int

    @property
    def frame_size(self) -> int:
        return FRAME_HEADER + self.page_size

    def place(self, frame: int) -> int:
        """Where a frame begins."""
        return LOG_HEADER + frame * self.frame_size


def log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def open_log(path: Path) -> int | None:
    """A handle on the log, if there is one. SQLite keeps no locks on the log, so closing it again loses none."""
    try:
        return os.open(log_of(path), os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0))
    except FileNotFoundError:
        return None


def read_header(log: int) -> LogHeader | None:
    raw = read_at(log, LOG_HEADER, 0)
    if len(raw) < LOG_HEADER or int.from_bytes(raw[:4], "big") not in _MAGIC:
        return None
    size = int.from_bytes(raw[8:12], "big")
    is_size = 512 <= size <= 65536 and size & (size - 1) == 0
    return LogHeader(raw[16:24], size) if is_size else None


def beginning_in_log(path: Path) -> bytes | None:
    """The first 16 bytes of the first page as the log holds it, where it does."""
    log = open_log(path)
    if log is None:
        return None
    try:
        header, offset = read_header(log), LOG_HEADER
        while header is not None:
            frame = read_at(log, FRAME_HEADER + 16, offset)
            if len(frame) < FRAME_HEADER + 16 or frame[8:16] != header.salts:
                return None
            if int.from_bytes(frame[:4], "big") == 1:
                return frame[FRAME_HEADER:]
            offset += header.frame_size
    finally:
        os.close(log)
    return None


def read_frames(log: int, header: LogHeader, first: int, upto: int, buffer: bytearray | None = None) -> Any:
    """The frames of the log's present generation from `first` to before `upto`, as far as they are committed.

    Rows of a page's number and the two halves of its checksum. Who reads often gives a `buffer` for `FRAMES_AT_ONCE`
    frames: for a new one each time the system would have to find memory, which takes longer than the rest.
    """
    import numpy as np

    parts: list[Any] = []
    committed = read = 0
    while read < upto - first:
        wanted = min(upto - first - read, FRAMES_AT_ONCE)
        size, offset = wanted * header.frame_size, header.place(first + read)
        raw = _read_into(log, buffer, size, offset) if buffer else read_at(log, size, offset)
        count = len(raw) // header.frame_size
        frames = np.frombuffer(raw, "<u4", count * header.frame_size // 4).reshape(count, header.frame_size // 4)
        frames = frames[: _of_generation(frames, header.salts)]
        if len(frames):
            entries = np.empty((len(frames), 3), np.uint32)
            entries[:, 0] = frames[:, 0].byteswap()
            entries[:, 1:] = page_sums(frames[:, FRAME_HEADER // 4 :])
            parts.append(entries)
            committed = read + ended if (ended := _ended(frames)) else committed
            read += len(frames)
        if len(frames) < wanted:
            break
    found = parts[0] if len(parts) == 1 else np.concatenate([np.empty((0, 3), np.uint32), *parts])
    return found[:committed]


def _of_generation(frames: Any, salts: bytes) -> int:
    """How many of the first frames have these salts; mostly all of them."""
    import numpy as np

    if frames[:, 2:4].tobytes() == salts * len(frames):
        return len(frames)
    return int((frames[:, 2:4] == np.frombuffer(salts, "<u4")).all(axis=1).argmin())


def _ended(frames: Any) -> int:
    """How many of the first frames are committed; mostly all of them: the last ends a transaction."""
    if frames[-1, 1]:
        return len(frames)
    (ends,) = frames[:, 1].nonzero()
    return int(ends[-1]) + 1 if len(ends) else 0


def page_sums(pages: Any) -> Any:
    """The checksum that the checksum VFS gives each page (a row of little-endian words): two halves a row.

    It adds the words of a page up in turns (a += x + b; b += y + a), which is a sum of products with fixed factors:
    so many pages are worked out at once. Measured: half a microsecond a page.
    """
    import numpy as np

    words = pages[:, : -SUM_BYTES // 4]
    return np.einsum("ij,kj->ik", words, _factors(words.shape[1]))


@cache
def _factors(count: int) -> Any:
    """With which factor each word of a page counts in each half, modulo 2**32: a row for each half."""
    import numpy as np

    first, second = factors = np.zeros((2, count), np.uint32)
    # From the end: the last word counts once in the second half; each step back applies the addition once more.
    a_in, b_in = (1, 0), (0, 1)  # what the two halves before a step contribute to the two at the end
    for at in range(count - 2, -1, -2):
        # b' = b + y + a', a' = a + x + b
        y = b_in
        x = (a_in[0] + b_in[0], a_in[1] + b_in[1])
        first[at], second[at] = x[0] & 0xFFFFFFFF, x[1] & 0xFFFFFFFF
        first[at + 1], second[at + 1] = y[0] & 0xFFFFFFFF, y[1] & 0xFFFFFFFF
        a_in, b_in = _masked(x), _masked((x[0] + b_in[0], x[1] + b_in[1]))
    return factors


def _masked(pair: tuple[int, int]) -> tuple[int, int]:
    return pair[0] & 0xFFFFFFFF, pair[1] & 0xFFFFFFFF


def _read_into(handle: int, buffer: bytearray, size: int, offset: int) -> memoryview:
    if not hasattr(os, "preadv"):
        return memoryview(read_at(handle, size, offset))
    part = memoryview(buffer)[:size]
    return part[: os.preadv(handle, [part], offset)]


def read_at(handle: int, size: int, offset: int) -> bytes:
    if hasattr(os, "pread"):
        return os.pread(handle, size, offset)
    os.lseek(handle, offset, os.SEEK_SET)  # Windows; one thread uses a handle
    return os.read(handle, size)
