"""Content is cut where the content says so: the same bytes give the same chunks, wherever they stand."""

from __future__ import annotations

import random

import pytest

from recollect.adapters.backups.chunks import LARGEST, SMALLEST, chunks

CONTENT = random.Random(7).randbytes(6_000_000)


def pieces(content: bytes, size: int) -> list[bytes]:
    return [content[start : start + size] for start in range(0, len(content), size)]


@pytest.mark.parametrize("content", [b"", b"a", b"\0" * 3_000_000, CONTENT], ids=["empty", "one", "zeros", "random"])
def test_the_chunks_make_up_the_content_and_have_sizes_within_bounds(content: bytes) -> None:
    cut = list(chunks(pieces(content, 70_001)))
    assert b"".join(cut) == content
    assert all(SMALLEST <= len(one) <= LARGEST for one in cut[:-1])


def test_how_the_content_came_makes_no_difference() -> None:
    assert list(chunks(pieces(CONTENT, 4096))) == list(chunks([CONTENT])) == list(chunks(pieces(CONTENT, 999_999)))


@pytest.mark.parametrize("place", [0, 1_000_000, 5_999_000])
def test_a_change_anywhere_changes_few_chunks(place: int) -> None:
    before = set(chunks([CONTENT]))
    inserted = set(chunks([CONTENT[:place] + b"a few more bytes" + CONTENT[place:]]))
    overwritten = set(chunks([CONTENT[:place] + b"16 other bytes ." + CONTENT[place + 16 :]]))
    assert len(before) > 10
    assert len(inserted - before) <= 2
    assert len(overwritten - before) <= 2
