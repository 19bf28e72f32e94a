"""The HNSW indexes of a space: each holds the vectors of a range of seqs, and no writer ever adds to one.

To put a vector into an HNSW index takes longer than all else that a write does. So an index covers the seqs up to one
that was given out before it was made, and what is written later has a higher one: it is outside, and scored exactly
until background work makes an index of it. That one takes in those before it that are not several times as large, so
there are only ever a few. None is larger than what the server makes in memory: beyond that, each vector takes ten times
as long. An index of all seqs, as former versions made it, goes on being used and written to.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from recollect.adapters.postgres.connection import Row
from recollect.adapters.vectors.halfvec_sql import Part

TAIL_ROWS = 1_000  # outside of any index; scored one by one in about a millisecond
TAIL_ROWS_LEFT = 50  # of those, when somebody asks for upkeep
TIMES_AS_LARGE = 4
ONE_INDEX_ROWS = 100_000  # up to as many are worth one index when somebody asks for upkeep
_NAME = re.compile(r"^(?P<table>.+)_hnsw_(?P<space>[0-9a-f]{12})(?:_(?P<after>[0-9a-f]+)_(?P<upto>[0-9a-f]+))?$")
LISTED = (
    "SELECT c.relname, i.indisvalid, c.reltuples FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid "
    "WHERE c.relkind = 'i' AND c.relname LIKE 'embedding%\\_hnsw\\_%' AND pg_table_is_visible(c.oid) ORDER BY 1"
).replace("%", "%%")


class Segment(NamedTuple):
    """The seqs after one up to another; without an end, all of them, and those to come."""

    after: int
    upto: int | None

    @property
    def condition(self) -> str:
        return "" if self.upto is None else f"_seq > {self.after} AND _seq <= {self.upto}"


EVERYTHING = Segment(0, None)


class IndexName(NamedTuple):
    name: str
    table: str
    space: str
    segment: Segment


def space_digest(namespace: str, model: str, dimensions: int) -> str:
    return hashlib.blake2b(f"{namespace}/{model}/{dimensions}".encode(), digest_size=6).hexdigest()


def index_name(table: str, space: str, segment: Segment) -> str:
    return f"{table}_hnsw_{space}_{segment.after:x}_{segment.upto or 0:x}"


def read_name(name: str) -> IndexName | None:
    found = _NAME.match(name)
    if found is None:
        return None
    is_whole = found["after"] is None
    segment = EVERYTHING if is_whole else Segment(int(found["after"], 16), int(found["upto"], 16))
    return IndexName(name, found["table"], found["space"], segment)


def segments_of(listed: Iterable[Row], tables: Collection[str]) -> dict[str, list[Segment]]:
    """The segments of each space that every table has a finished index of, in order; none overlaps another.

    One of everything makes the others needless. Of those that overlap the longest counts: the others are what it was
    made of, and are about to be dropped.
    """
    made: dict[tuple[str, Segment], set[str]] = {}
    for name, is_valid, *_ in listed:
        known = read_name(name)
        if known is not None and is_valid:
            made.setdefault((known.space, known.segment), set()).add(known.table)
    found: dict[str, list[Segment]] = {}
    for space, segment in sorted((key for key, having in made.items() if having >= set(tables)), key=_longest_first):
        others = found.setdefault(space, [])
        if not any(_overlap(segment, one) for one in others):
            others.append(segment)
    return {space: sorted(segments) for space, segments in found.items()}


def rows_of(listed: Iterable[Row], space: str) -> dict[Segment, int]:
    """About how many rows the indexes of each segment of a space held when they were made."""
    held: dict[Segment, int] = {}
    for name, _, rows in listed:
        known = read_name(name)
        if known is not None and known.space == space:
            held[known.segment] = held.get(known.segment, 0) + max(0, int(rows))
    return held


def _longest_first(key: tuple[str, Segment]) -> tuple[str, float]:
    segment = key[1]
    return key[0], float("-inf") if segment.upto is None else segment.after - segment.upto


def _overlap(one: Segment, other: Segment) -> bool:
    if one.upto is None or other.upto is None:
        return True
    return one.after < other.upto and other.after < one.upto


def parts_of(segments: Sequence[Segment]) -> list[Part]:
    """What divides all rows: those of each index, and the gaps and the end that none covers."""
    if not segments or segments[0].upto is None:
        return [Part(has_index=bool(segments))]
    parts, reached = [], 0
    for segment in segments:
        if segment.after > reached:
            parts.append(Part(Segment(reached, segment.after).condition, has_index=False))
        parts.append(Part(segment.condition))
        reached = segment.upto or 0
    return [*parts, Part(f"_seq > {reached}", has_index=False)]


def spread_of(listed: Iterable[Row], space: str) -> float:
    """How many times the rows of the fullest table all tables of a space hold: one, as far as is known."""
    held: Counter[str] = Counter()
    for name, _, rows in listed:
        known = read_name(name)
        if known is not None and known.space == space:
            held[known.table] += max(0, int(rows))
    return held.total() / max(held.values()) if held.total() else 1.0


def due(
    segments: Mapping[Segment, int],
    tail: int,
    last_seq: int,
    first_rows: int,
    *,
    thorough: bool,
    most: float = math.inf,
) -> Segment | None:
    """The index to make next, if any: `segments` with their rows, `tail` rows that are in none.

    `thorough` leaves one index where that is not too much to make again. One that holds half of `most` rows is not
    taken in any more; who makes the next one cuts it off where it has as many.
    """
    ordered = sorted(segments)
    if not ordered:
        return Segment(0, last_seq) if tail >= first_rows else None
    if ordered[0].upto is None:
        return None
    total = tail + sum(segments.values())
    is_grown = tail >= min(TAIL_ROWS_LEFT if thorough and total <= ONE_INDEX_ROWS else TAIL_ROWS, first_rows)
    if thorough and total <= min(ONE_INDEX_ROWS, most) and (is_grown or len(ordered) > 1):
        return Segment(0, last_seq)
    if not is_grown:
        return None
    after, rows = ordered[-1].upto or 0, tail
    for segment in reversed(ordered):
        if segments[segment] >= TIMES_AS_LARGE * rows or 2 * segments[segment] >= most:
            break
        after, rows = segment.after, rows + segments[segment]
    return Segment(after, last_seq)


def superseded(listed: Iterable[Row], space: str, made: Segment) -> list[str]:
    """The indexes of a space that a new one has taken in."""
    known = [one for name, *_ in listed if (one := read_name(name)) is not None and one.space == space]
    return [one.name for one in known if one.segment != made and _overlap(one.segment, made)]
