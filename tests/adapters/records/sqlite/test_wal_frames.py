"""The frames of a log, read many at once, are what they are one by one: also in a log that was cut or written over."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from recollect.adapters.records.sqlite import wal
from recollect.adapters.records.sqlite.wal import FRAME_HEADER, LOG_HEADER, LogHeader

Entry = tuple[int, int, int]


def summed(page: bytes) -> tuple[int, int]:
    """As the checksum VFS says it."""
    words = [int.from_bytes(page[at : at + 4], "little") for at in range(0, len(page) - 8, 4)]
    first = second = 0
    for x, y in zip(words[::2], words[1::2], strict=True):
        first = (first + x + second) & 0xFFFFFFFF
        second = (second + y + first) & 0xFFFFFFFF
    return first, second


def one_by_one(raw: bytes, header: LogHeader, first: int, upto: int) -> list[Entry]:
    found: list[Entry] = []
    committed = 0
    for number in range(first, upto):
        start = LOG_HEADER + number * header.frame_size
        frame = raw[start : start + header.frame_size]
        if len(frame) < header.frame_size or frame[8:16] != header.salts:
            break
        found.append((int.from_bytes(frame[:4], "big"), *summed(frame[FRAME_HEADER:])))
        committed = len(found) if any(frame[4:8]) else committed
    return found[:committed]


def drawn(chance: random.Random, header: LogHeader) -> bytes:
    """A log some of whose frames end a transaction, or are of another generation; some are cut off."""
    raw = chance.randbytes(LOG_HEADER)
    for _ in range(chance.randrange(12)):
        size = bytes(4) if chance.random() < 0.6 else chance.randbytes(4)
        salts = header.salts if chance.random() < 0.95 else chance.randbytes(8)
        page = chance.randbytes(header.page_size) if chance.random() < 0.8 else b"\xff" * header.page_size
        raw += chance.randbytes(4) + size + salts + chance.randbytes(8) + page
    return raw if chance.random() < 0.8 else raw[: chance.randrange(LOG_HEADER, len(raw) + 1)]


@pytest.mark.parametrize("at_once", [1, 3, 256])
def test_frames_read_together_are_those_read_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(wal, "FRAMES_AT_ONCE", at_once)
    chance, seen = random.Random(at_once), 0
    for number in range(60):
        header = LogHeader(chance.randbytes(8), 512)
        raw = drawn(chance, header)
        file = tmp_path / f"{number}-wal"
        file.write_bytes(raw)
        handle = os.open(file, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        try:
            first, upto = chance.randrange(3), chance.randrange(14)
            for buffer in (None, bytearray(at_once * header.frame_size)):
                found = wal.read_frames(handle, header, first, upto, buffer)
                assert [tuple(entry) for entry in found.tolist()] == one_by_one(raw, header, first, upto)
                seen += len(found)
        finally:
            os.close(handle)
    assert seen > 100
