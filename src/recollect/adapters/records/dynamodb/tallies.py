"""Counts that the head has no room for, each an item of its own that is written with the records it counts.

How many memories a user, an agent or a project has, by the groups of the head's counts (facts.py); and how many records
were made in each hour, by quarters, since days begin at other moments in other time zones. What an hour has of every
type stands in one item: a `remember` writes one more, whatever it makes.

A tally is never wrong for being kept: it changes in the transaction of its records, and only if it still is what was
read. Its groups are not known where it would be too long with them, or where another program counted by others: then
it has only how many there are, until it is counted again (`mend`, and every upgrade). One that counts none goes, with
the name of whom it counted for.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import cache
from typing import NamedTuple

from recollect.adapters.records.common.dialect import json_text, moment_text
from recollect.adapters.records.dynamodb.facts import (
    MARK,
    Known,
    group_mark,
    group_of,
    known_by_group,
    mark_of,
    partial_record,
)
from recollect.adapters.records.dynamodb.keys import HOURS, TALLIED, Key, Keys
from recollect.domain.record import RECORDS, Record

HOUR_GROUPS: Mapping[str, tuple[str, ...]] = {"memory": ("is_deleted",), "access_log": ("is_deleted", "operation")}
TOGETHER = ""
"""The group of all, where groups are not known."""
MOST_CHARACTERS = 3_000  # of an item that is written with every remember; twenty groups have some 250
QUARTER = timedelta(minutes=15)
Tally = dict[str, int]


class Quarter(NamedTuple):
    """Records that were made within a quarter of an hour, and what is known of each of them."""

    begins: datetime
    known: Known
    records: int


def hour_of(moment: datetime) -> str:
    return moment_text(moment)[: len("2026-01-01T00")]


def counted_in(keys: Keys, record: Record) -> Iterator[tuple[Key, str]]:
    """The tallies that count a record, and as what."""
    table = record.shape.table
    for field in TALLIED.get(table, ()):
        value = getattr(record, field)
        if value is not None:
            yield keys.tally(table, field, value), group_of(record)
    if table in HOURS:
        moment: datetime = getattr(record, HOURS[table])
        group = [getattr(record, name) for name in HOUR_GROUPS[table]]
        quarter = int(moment_text(moment)[len("2026-01-01T00:") :][:2]) // 15
        yield keys.hour(hour_of(moment)), json_text([table, quarter, group])


def changes(keys: Keys, moves: Iterable[tuple[Record | None, Record | None]]) -> dict[Key, Counter[str]]:
    """By how much each tally changes when these records are replaced by the others; None stands for none."""
    changed: dict[Key, Counter[str]] = {}
    for before, after in moves:
        for one, by in ((before, -1), (after, 1)):
            if one is not None:
                for key, group in counted_in(keys, one):
                    changed.setdefault(key, Counter())[group] += by
    return {key: one for key, one in changed.items() if any(one.values())}


def changed_text(keys: Keys, key: Key, text: str, change: Mapping[str, int]) -> str:
    """What is stored of a tally after a change; empty if it counts none any more."""
    tally = read(keys, key, text)
    if tally is None:
        return _encoded(keys, key, {TOGETHER: _total(_decoded(text)) + _total(change)})
    sums = {group: tally.get(group, 0) + change.get(group, 0) for group in tally | dict(change)}
    made = _encoded(keys, key, sums)
    return made if len(made) <= MOST_CHARACTERS else _encoded(keys, key, {TOGETHER: _total(sums)})


def read(keys: Keys, key: Key, text: str) -> Tally | None:
    """None if its groups are not known."""
    if text and not text.startswith(_mark(keys, key)):
        return None
    tally = _decoded(text)
    return None if TOGETHER in tally else tally


def is_right(keys: Keys, key: Key, text: str, wanted: str) -> bool:
    """Whether it says what it should, as far as it says anything."""
    tally, other = read(keys, key, text), read(keys, key, wanted)
    if tally is None or other is None:
        return _total(_decoded(text)) == _total(_decoded(wanted))
    return tally == other


def _encoded(keys: Keys, key: Key, tally: Tally) -> str:
    kept = {group: number for group, number in sorted(tally.items()) if number}
    raw = zlib.compress(json_text(kept).encode(), 6)
    return _mark(keys, key) + base64.b64encode(raw).decode() if kept else ""


def _decoded(text: str) -> Tally:
    tally: Tally = json.loads(zlib.decompress(base64.b64decode(text[MARK:]))) if text else {}
    return tally


def _total(tally: Mapping[str, int]) -> int:
    return sum(tally.values())


def texts_of(keys: Keys, records: Iterable[Record]) -> dict[Key, str]:
    """All that these records should be counted in."""
    counted = changes(keys, ((None, one) for one in records))
    return {key: changed_text(keys, key, "", change) for key, change in counted.items()}


def known_groups(tally: Tally, record: type[Record], field: str, value: str) -> dict[str, Known]:
    """The groups of a value's tally, by their names; all of them have the value."""
    return {group: _with(known_by_group(record, group), record, field, value) for group in tally}


def _with(known: Known, record: type[Record], field: str, value: str) -> Known:
    values = {**known.known.__dict__, field: value}
    return Known(partial_record(record, values), known.names | {field}, known.is_set)


def quarters(tally: Tally, hour: str, table: str) -> Iterator[Quarter]:
    """What an hour has of one type."""
    begins = datetime.fromisoformat(hour + ":00:00Z")
    for group, number in tally.items():
        name, quarter, values = json.loads(group)
        if name == table:
            fields = dict(zip(HOUR_GROUPS[table], values, strict=True))
            known = Known(partial_record(RECORDS[table], fields), frozenset(fields))
            yield Quarter(begins + quarter * QUARTER, known, number)


def _mark(keys: Keys, key: Key) -> str:
    return _hours_mark() if key[0] == keys.hours else group_mark(RECORDS[next(iter(TALLIED))])


@cache
def _hours_mark() -> str:
    return mark_of(tuple(name for table in sorted(HOURS) for name in (table, HOURS[table], *HOUR_GROUPS[table])))
