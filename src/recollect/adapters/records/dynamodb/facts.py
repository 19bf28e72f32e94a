"""What index entries and counts know of a record, so that filters can be decided without reading it.

*Facts* are the small fields that lists and searches filter by; every index entry of a searched type carries them. A
*group* is coarser: the fields with few values, and which moments are set at all; the head counts the records of each
group (counts.py). Both answer a filter with yes, no, or "that must be read": a fact that is not known decides nothing.

Both begin with a mark made of the names of the fields, so that a program with other fields takes them for unknown
instead of misreading them.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, TypeVar

from recollect.adapters.records.common.dialect import json_text, moment_text
from recollect.adapters.records.dynamodb.keys import column_of, is_enumerated, passing_moments
from recollect.domain.record import Record
from recollect.ports.query import AllOf, AnyOf, Compare, Filter, IsNull, Linked, passes

R = TypeVar("R", bound=Record)
MARK = 8  # characters of the mark with which facts, groups and tallies begin
LONGEST_FACTS = 600  # beyond that an entry takes a second write unit, and tells nothing instead


@dataclass(frozen=True, slots=True)
class Known:
    """Some fields of a record: `known` has the values; those that `is_set` names are only known to be filled."""

    known: Record
    names: frozenset[str]
    is_set: frozenset[str] = frozenset()

    def passes_all(self, filters: Sequence[Filter]) -> bool | None:
        """None where it depends on what is not known."""
        return _all([self._verdict(one) for one in filters])

    def _verdict(self, given: Filter) -> bool | None:
        if isinstance(given, AllOf):
            return self.passes_all(given.filters)
        if isinstance(given, AnyOf):
            verdicts = [self._verdict(one) for one in given.filters]
            return True if True in verdicts else None if None in verdicts else False
        if isinstance(given, Linked):
            return None
        if isinstance(given, IsNull) and given.field in self.is_set:
            return not given.wanted
        if isinstance(given, Compare) and given.field in self.is_set and given.value == "" and given.key is None:
            return True if given.operator == "!=" else False if given.operator == "=" else None
        return passes(self.known, given) if given.field in self.names else None


def _all(verdicts: Sequence[bool | None]) -> bool | None:
    return False if False in verdicts else None if None in verdicts else True


MORE_GROUPS: Mapping[str, tuple[str, ...]] = {"embedding": ("namespace", "model"), "citation": ("state",)}
"""What is counted apart besides."""


@cache
def grouping_fields(record: type[Record]) -> tuple[str, ...]:
    """By which records of a type are counted apart: whether deleted; of searched types also fields with few values."""
    if record.shape.text is None:
        return ("is_deleted", *MORE_GROUPS.get(record.shape.table, ()))
    few = (name for name in record.model_fields if is_enumerated(record, name))
    facets = (name for name in record.shape.text.facets if name not in record.shape.references)
    return tuple(dict.fromkeys(("is_deleted", *few, *facets)))


MORE_FACTS: Mapping[str, tuple[str, ...]] = {
    "memory": ("author", "level", "confidence", "importance"),
    "tag": ("is_deleted", "memory_id", "tag"),
    "citation": ("is_deleted", "memory_id", "source", "state"),
    "relationship": ("is_deleted", "source_id", "target_id", "type"),
}
"""What entries know besides: what lists filter and are ordered by, and what links lead to."""


@cache
def fact_fields(record: type[Record]) -> tuple[str, ...]:
    shape = record.shape
    more = MORE_FACTS.get(shape.table, ())
    hidden = shape.sealable | shape.encrypted_hashes
    wanted: Iterable[str] = more
    if shape.text is not None:
        indexed = (name for fields in shape.indexes for name in fields if name != "id")
        wanted = (*grouping_fields(record), *shape.text.facets, *indexed, *passing_moments(record), *more)
    return tuple(name for name in dict.fromkeys(wanted) if name not in hidden and not _is_large(record, name))


def _is_large(record: type[Record], name: str) -> bool:
    return column_of(record, name).type == "bytes"


@cache
def mark_of(names: tuple[str, ...]) -> str:
    return f"{zlib.crc32(','.join(names).encode()):08x}"


def facts_of(record: Record) -> str | None:
    names = fact_fields(type(record))
    if not names:
        return None
    text = mark_of(names) + json_text([_plain(record, name) for name in names])
    return text if len(text.encode()) <= LONGEST_FACTS else None


def known_by_facts(record: type[Record], text: str | None) -> Known | None:
    if text is None:
        return None
    names = fact_fields(record)
    if not names or not text.startswith(mark_of(names)):
        return None
    values = dict(zip(names, json.loads(text[MARK:]), strict=True))
    return Known(_partial(record, values), frozenset(names))


def group_of(record: Record) -> str:
    kind = type(record)
    values = [_plain(record, name) for name in grouping_fields(kind)]
    return json_text([values, [name for name in passing_moments(kind) if getattr(record, name) is not None]])


def known_by_group(record: type[Record], group: str) -> Known:
    values, is_set = json.loads(group)
    names, moments = grouping_fields(record), passing_moments(record)
    empty = {name: None for name in moments if name not in is_set}
    made = _partial(record, {**dict(zip(names, values, strict=True)), **empty})
    return Known(made, frozenset((*names, *empty)), frozenset(is_set))


def group_mark(record: type[Record]) -> str:
    return mark_of((*grouping_fields(record), *passing_moments(record)))


def _plain(record: Record, name: str) -> Any:
    """As it is when it was stored and read: a number that is not whole by its type may have come as a whole one."""
    value = getattr(record, name)
    if isinstance(value, datetime):
        return moment_text(value)
    return float(value) if type(value) is int and column_of(type(record), name).type == "real" else value


def _partial(record: type[Record], values: dict[str, Any]) -> Record:
    moments = _moments(record)
    read = {n: datetime.fromisoformat(v) if n in moments and v is not None else v for n, v in values.items()}
    return partial_record(record, read)


def partial_record(record: type[R], values: dict[str, Any]) -> R:
    """A record with these fields alone; whoever gets it looks at no others."""
    made = record.__new__(record)
    object.__setattr__(made, "__dict__", values)
    object.__setattr__(made, "__pydantic_fields_set__", set(values))
    object.__setattr__(made, "__pydantic_extra__", None)
    object.__setattr__(made, "__pydantic_private__", None)
    return made


@cache
def _moments(record: type[Record]) -> frozenset[str]:
    return frozenset(column.name for column in record.columns() if column.type == "moment")
