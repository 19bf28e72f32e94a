"""The items that checkpoints share: streams that only grow, stored in packed runs.

A run is written once and never changed; when there are many small ones at the end of a stream they are merged into one.
Items keep their numbers for good, so checkpoints do not notice a merge. Items that no checkpoint uses any more are
deleted a run at a time.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from recollect.domain.checkpoints import Checkpoint, CheckpointItems, CheckpointLine
from recollect.domain.record import derived_id
from recollect.errors import DamagedData, InvalidInput
from recollect.ports.query import Compare, OneOf, Order, Query, equal
from recollect.ports.records import Problem
from recollect.ports.steps import DeleteWhere, Insert, Step
from recollect.services.tenant import Tenant
from recollect.services.transaction import made

Span = tuple[int, int]
Spans = dict[str, list[Span]]

MOST_SMALL_RUNS = 32
SMALL_RUN = 64  # items; a merged run is seldom smaller, so an item is rewritten about once
WIDEST_GAP = 256  # items; each gap filled by an empty item costs four bytes before compression
_LENGTH = struct.Struct(">I")
_PLAIN, _DEFLATED = b"\0", b"\1"


def squeezed(raw: bytes) -> bytes:
    """Compressed if that makes it smaller; the first byte says which."""
    packed = zlib.compress(raw, 6 if len(raw) < 1 << 16 else 1)
    return _DEFLATED + packed if len(packed) < len(raw) else _PLAIN + raw


def unsqueezed(stored: bytes) -> bytes:
    if stored[:1] == _PLAIN:
        return stored[1:]
    try:
        return zlib.decompress(stored[1:])
    except zlib.error:
        raise DamagedData("a checkpoint cannot be unpacked", remedy="run `recollect verify`") from None


def pack(items: Iterable[bytes]) -> bytes:
    return squeezed(b"".join(part for item in items for part in (_LENGTH.pack(len(item)), item)))


def unpack(stored: bytes) -> list[bytes]:
    raw, place, items = unsqueezed(stored), 0, []
    while place < len(raw):
        (length,) = _LENGTH.unpack_from(raw, place)
        place += _LENGTH.size
        items.append(raw[place : place + length])
        place += length
    return items


def union(spans: Iterable[Span]) -> list[Span]:
    """The same items as sorted ranges that neither overlap nor touch."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def covers(have: Sequence[Span], wanted: Iterable[Span]) -> bool:
    return all(any(start >= a and end <= b for a, b in have) for start, end in wanted)


def spans_of(checkpoint: Checkpoint) -> Spans:
    return {stream: [(start, end) for start, end in spans] for stream, spans in checkpoint.spans.items()}


def read_spans(tenant: Tenant, line: str, wanted: Mapping[str, Sequence[Span]]) -> dict[str, list[bytes]]:
    """The items of these ranges, in order."""
    return {stream: _read_stream(tenant, line, stream, spans) for stream, spans in wanted.items()}


def _read_stream(tenant: Tenant, line: str, stream: str, spans: Sequence[Span]) -> list[bytes]:
    if not spans:
        return []
    where = (
        *_in_stream(line, stream),
        Compare("start", "<", max(end for _, end in spans)),
        Compare("end", ">", min(start for start, _ in spans)),
    )
    runs = tenant.select(Query(CheckpointItems, where, (Order("start"),)), ("start", "end", "data"))
    needed = [run for run in runs if any(run[0] < end and run[1] > start for start, end in spans)]
    items = {run[0] + place: item for run in needed for place, item in enumerate(unpack(run[2]))}
    try:
        return [items[number] for start, end in spans for number in range(start, end)]
    except KeyError:
        raise DamagedData(
            f"items of the stream '{stream[:80]}' are missing", remedy="run `recollect verify`, or restore a backup"
        ) from None


@dataclass(slots=True)
class NewItems:
    """New items: their first number in each stream, the steps that write them, and the line's counters afterwards."""

    starts: dict[str, int] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    counted: dict[str, dict[str, int]] = field(default_factory=dict)


def append(tenant: Tenant, line: CheckpointLine, items: Mapping[str, Sequence[bytes]]) -> NewItems:
    """New items at the ends of their streams; small runs are merged when there are many.

    The caller writes the line in the same transaction, so no other writer can have appended or merged in between.
    """
    ends, small, done = dict(line.ends), dict(line.small), NewItems()
    for stream, fresh in items.items():
        if not fresh:
            continue
        start = done.starts[stream] = ends.get(stream, 0)
        ends[stream] = start + len(fresh)
        many = small.get(stream, 0) >= MOST_SMALL_RUNS
        runs = _small_runs(tenant, line.id, stream, start) if many else []
        if len(runs) == MOST_SMALL_RUNS:
            done.steps += _merged(tenant, line.id, stream, runs, start, fresh)
            small[stream] = 1
        else:
            done.steps.append(Insert(_run(tenant, line.id, stream, start, fresh)))
            small[stream] = (len(runs) if many else small.get(stream, 0)) + 1
    done.counted = {"ends": ends, "small": small}
    return done


def _small_runs(tenant: Tenant, line: str, stream: str, end: int) -> list[tuple[str, int, int]]:
    """The newest runs of a stream, the newest first, as far back as they are small and near each other."""
    newest = Query(CheckpointItems, _in_stream(line, stream), (Order("start", True),), MOST_SMALL_RUNS)
    small: list[tuple[str, int, int]] = []
    for id, first, last in tenant.select(newest, ("id", "start", "end")):
        if last - first >= SMALL_RUN or end - last > WIDEST_GAP:
            break
        small.append((id, first, last))
        end = first
    return small


def _merged(
    tenant: Tenant,
    line: str,
    stream: str,
    runs: Sequence[tuple[str, int, int]],
    start: int,
    fresh: Sequence[bytes],
) -> list[Step]:
    """One run instead of many. Items deleted in between are replaced by empty ones, so that numbers stay the same."""
    first, ids = runs[-1][1], tuple(id for id, _, _ in runs)
    where = (*_in_stream(line, stream), OneOf("id", ids))
    items = [b""] * (start - first)
    for begin, data in tenant.select(Query(CheckpointItems, where), ("start", "data")):
        kept = unpack(data)
        items[begin - first : begin - first + len(kept)] = kept
    whole = _run(tenant, line, stream, first, [*items, *fresh])
    return [DeleteWhere(CheckpointItems, (OneOf("id", ids),)), Insert(whole)]


def _run(tenant: Tenant, line: str, stream: str, start: int, items: Sequence[bytes]) -> CheckpointItems:
    run: CheckpointItems = made(
        CheckpointItems, tenant, id=derived_id("items", line, stream, str(start)), line_id=line, stream=stream,
        start=start, end=start + len(items), data=pack(items),
    )  # fmt: skip
    return run


def unused_steps(tenant: Tenant, line: str, used: Iterable[Spans]) -> list[Step]:
    """Deletes the runs of which the remaining checkpoints use no item."""
    needed: Spans = {}
    for spans in used:
        for stream, some in spans.items():
            needed.setdefault(stream, []).extend(some)
    needed = {stream: union(some) for stream, some in needed.items()}
    runs = tenant.select(Query(CheckpointItems, (equal("line_id", line),)), ("id", "stream", "start", "end"))
    unused = tuple(
        id for id, stream, first, last in runs
        if not any(first < end and last > start for start, end in needed.get(stream, ()))
    )  # fmt: skip
    return [DeleteWhere(CheckpointItems, (OneOf("id", unused),))] if unused else []


def check_items(tenant: Tenant) -> Iterator[Problem]:
    """Report checkpoints that use missing items."""
    for line, version in tenant.select(Query(CheckpointLine), ("id", "version")):
        missing, seen = _lacking(tenant, line), None
        while missing and seen != version:  # the line may have been written to during the check
            seen = version
            found = tenant.get(CheckpointLine, line)
            if found is None or found.version != version:
                missing, version = _lacking(tenant, line), found.version if found else 0
        yield from (Problem("items that it uses are missing", "checkpoint", id) for id in missing)


def _lacking(tenant: Tenant, line: str) -> list[str]:
    mine = (equal("line_id", line),)
    there: Spans = {}
    for stream, start, end in tenant.select(Query(CheckpointItems, mine), ("stream", "start", "end")):
        there.setdefault(stream, []).append((start, end))
    there = {stream: union(some) for stream, some in there.items()}
    return [
        id
        for id, spans in tenant.select(Query(Checkpoint, mine), ("id", "spans"))
        if not all(covers(there.get(stream, []), some) for stream, some in spans.items())
    ]


def checked_spans(spans: Mapping[str, Sequence[Span]], base: Mapping[str, Sequence[Span]]) -> None:
    """Refuse to share items that the base does not contain."""
    held = {stream: union((start, end) for start, end in some) for stream, some in base.items()}
    if not all(covers(held.get(stream, []), some) for stream, some in spans.items()):
        raise InvalidInput(
            "the checkpoint shares items that its base does not contain",
            remedy="give the checkpoint they come from as base",
        )


def _in_stream(line: str, stream: str) -> tuple[Any, ...]:
    return (equal("line_id", line), equal("stream", stream))
