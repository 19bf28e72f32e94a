"""Ranges of index entries that filters leave: between which sort keys all that pass must lie."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from recollect.adapters.records.dynamodb.facts import partial_record
from recollect.adapters.records.dynamodb.keys import (
    ORDERED,
    RARE,
    SEPARATOR,
    column_of,
    entry_fields,
    has_entries,
    is_gathered,
    ordered_word,
)
from recollect.domain.record import Record
from recollect.ports.query import Compare, Filter, IsNull, passes

LAST = "\U0010ffff"
COVERING = {"memory": "occurred_at", "tag": "tag", "citation": "memory_id", "relationship": "source_id"}
"""A field of which every record has an entry, with its facts: all can be looked through without reading records."""

PLAIN_BYTES = 200
"""Of the texts that are compared with sort keys: the words of longer ones are shortened there (keys.py)."""


class Span(NamedTuple):
    """Entries of a field between two sort keys, both inclusive; they lead to at least all that pass."""

    field: str
    low: str
    high: str


def spans_of(record: type[Record], where: Sequence[Filter]) -> Iterator[Span]:
    """Those that filters leave, the narrowest kind first: what few records have, moments, then the order of all."""
    table = record.shape.table
    fields = [one for one in entry_fields(record) if has_entries(record, one) and not is_gathered(record, one)]
    ranks = {field: 0 if (table, field) in RARE else 2 if (table, field) in ORDERED else 1 for field in fields}
    for field in sorted(fields, key=lambda one: ranks[one]):
        found = span_of(record, field, where)
        if found is not None and _leads_to_all(record, field, where):
            yield found


def span_of(record: type[Record], field: str, where: Sequence[Filter]) -> Span | None:
    """Between which entries of a field all that pass must lie; None if no filter bounds it."""
    compared = [one for one in where if isinstance(one, Compare) and one.field == field and _bounds(one)]
    filled = any(isinstance(one, IsNull) and one.field == field and not one.wanted for one in where)
    if not compared and not filled:
        return None
    low, high = "", LAST
    for one in compared:
        mark = _mark(record, field, one.value)
        if mark is None:
            return None
        if one.operator in (">", ">=", "="):
            low = max(low, mark)
        if one.operator in ("<", "<=", "="):
            high = min(high, mark + LAST)
    return Span(field, low, high)


def _bounds(given: Compare) -> bool:
    return given.key is None and given.value is not None and given.operator in ("=", "<", "<=", ">", ">=")


def _mark(record: type[Record], field: str, value: Any) -> str | None:
    """What the entries of a value begin with, or of a text those that are not before it."""
    if column_of(record, field).type == "text":
        is_plain = isinstance(value, str) and len(value.encode()) <= PLAIN_BYTES and not has_controls(value)
        return value if is_plain else None
    return ordered_word(record, field, value)


def _leads_to_all(record: type[Record], field: str, where: Sequence[Filter]) -> bool:
    """Whether what has no entry cannot pass."""
    table = record.shape.table
    if (table, field) not in RARE or RARE[(table, field)] is None:
        return True  # an empty field passes no comparison
    usual = partial_record(record, {field: RARE[(table, field)]})
    bounds = [one for one in where if isinstance(one, Compare) and one.field == field]
    return any(passes(usual, one) is not True for one in bounds)


def has_controls(text: str) -> bool:
    """Whether it has characters that come before what ends a word: then sort keys are not in the order of texts."""
    return any(one < SEPARATOR for one in text)
