"""Where each thing of a tenant lives in the one table.

A key is (partition, sort). Partitions begin with the tenant, then one letter says what they hold:

    tenant h              h                    the head: seq, incarnation, layout, counts, what is under way (log.py)
    tenant r table        id                   the records of one type, or what is left of one deleted for good
    tenant p              table id generation n  the parts of records too large for one item
    tenant i table field  value id             index entries: for finding, with the facts that filters ask for
    tenant i table field  value                the same for hashes: one item for all who share the value
    tenant c table field  value                tallies: how many have a value (tallies.py)
    tenant c hours        hour                 the same for what was made in an hour
    tenant u table        fields hash          guards of unique keys: whose they are
    tenant l              seq                  the log: what each transaction changed
    tenant x              transaction n        staged writes of a large transaction
    tenant g              segment              where the sealed copy of the search index lies
    (none) t              tenant               the tenants
    (none) s              number               the migrations that were done, and the layout

In the first layout all entries of a tenant shared the partition `tenant i` and all guards `tenant u`, where a remember
had most of its writes: a partition takes a thousand units a second. The second is the one above, without tallies.

In the third, the types that are written all the time (`SPREAD`) have several partitions each: the letter is followed by
the number of a shard, `tenant r3 memory`. Records and parts are spread by their id, guards by their hash, entries by
their value, so that who knows what to look for knows where. A walk through all records of a type has to ask every
shard, and so has who asks for one of the few values that most records share (`FEW_VALUES`). Entries of moments, which
are asked for by range, stay together. How many shards a tenant has is set when it is made and stands on its head; one
that was made before there were any has a single one for ever, without a number.

The fourth, which every tenant is brought to when it is used, has tallies, entries for lists in an order (`ORDERED`: of
every record, spread by id and merged when they are read) and entries for what few records have (`RARE`: of those alone
that differ from what nearly all are). Records lie where they lay in the second and the third.

The words are joined by U+001F, which no id may hold. A field is looked up if it refers to another record or
leads a declared index or unique key, and is text that is not one of a few fixed words, or a moment that may be empty:
an entry for every memory under `status` or `priority` would cost a write and narrow nothing. A field that is unique by
itself needs no entries, since its guards say whose each value is.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin

from recollect.adapters.records.common.checks import columns_of
from recollect.adapters.records.common.dialect import moment_text
from recollect.adapters.records.common.transaction import unique_values
from recollect.domain.record import ID_LENGTH, RECORDS, Column, Record, Unique
from recollect.errors import InvalidInput
from recollect.ports.query import Row

Key = tuple[str, str]
SEPARATOR = "\x1f"
LONGEST_ID = 1000  # of the 1024 bytes that a sort key may have
LONGEST_WORD = 300
TENANTS = f"{SEPARATOR}t"
SCHEMA = f"{SEPARATOR}s"
SPREAD = frozenset(
    {
        "memory", "embedding", "index_task", "tag", "relationship", "revision", "citation", "access_log", "message",
        "item", "item_vector", "checkpoint", "checkpoint_items", "checkpoint_writes",
    }
)  # fmt: skip
"""Part of the layout since the third, and never to be changed: where things are follows from it."""
FEW_VALUES = frozenset(
    {
        ("memory", "kind"), ("memory", "user_id"), ("memory", "agent_id"), ("memory", "project_id"),
        ("memory", "source_agent"), ("embedding", "namespace"), ("message", "user_id"), ("message", "agent_id"),
        ("access_log", "agent_id"), ("relationship", "type"),
    }
)  # fmt: skip
"""Fields of which very many records may have the same value: their entries are spread by id. As fixed as `SPREAD`."""
ORDERED = frozenset({("memory", "occurred_at")})
"""Moments that every record has and lists are ordered by, with an entry for each. As fixed as `SPREAD`."""
RARE: Mapping[tuple[str, str], object] = {
    ("memory", "is_deleted"): False,
    ("memory", "priority"): 5,
    ("memory", "confidence"): 0.5,
    ("memory", "importance"): 0.0,
    ("execution", "waits_until"): None,
    ("embedding", "namespace"): "long_term",
}
"""Fields of which nearly all records have this value: the others have an entry. As fixed as `SPREAD`."""
TALLIED: Mapping[str, tuple[str, ...]] = {"memory": ("user_id", "agent_id", "project_id")}
"""Fields of which each value is counted (tallies.py). As fixed as `SPREAD`, and so is this:"""
HOURS: Mapping[str, str] = {"memory": "created_at", "access_log": "timestamp"}
"""Types of which the records of each hour are counted, by this moment."""
SHARDS = 4
"""Of a new tenant. Each walk through a type asks all of them; the head takes as many writes as this can use."""
MOST_SHARDS = 64
COUNTED_BY_TOUCHES = frozenset({"last_accessed"})
"""Moments that every reading sets: an entry for each would cost more than the reading."""


class TenantPlaces:
    """What has one place, however many shards a tenant has."""

    def __init__(self, organization_id: str) -> None:
        if SEPARATOR in organization_id or len(organization_id) > ID_LENGTH or not can_be_sent(organization_id):
            raise InvalidInput("there can be no such organization", remedy="give the id of one that exists")
        self._tenant = organization_id
        self.head: Key = (self._partition("h"), "h")
        self.log = self._partition("l")
        self.segments = self._partition("g")
        self.first_layout = (self._partition("i"), self._partition("u"))

    def _partition(self, *words: str) -> str:
        return SEPARATOR.join((self._tenant, *words))

    def moment_of_log(self, seq: int) -> Key:
        return self.log, f"{seq:020d}"


class Keys(TenantPlaces):
    """The keys of one tenant that has so many shards."""

    def __init__(self, organization_id: str, shards: int) -> None:
        super().__init__(organization_id)
        self._numbers = [f"{number}" for number in range(shards)] if shards > 1 else [""]
        self.parts = [self._partition(f"p{number}") for number in self._numbers]
        self.staged = [self._partition(f"x{number}") for number in self._numbers]

    def _numbers_of(self, table: str) -> list[str]:
        return self._numbers if table in SPREAD else self._numbers[:1]

    def _number(self, table: str, text: str) -> str:
        """The shard in which that is which is found by this text."""
        numbers = self._numbers_of(table)
        return numbers[zlib.crc32(text.encode()) % len(numbers)]

    def records(self, table: str) -> list[str]:
        return [self._partition(f"r{number}", table) for number in self._numbers_of(table)]

    def record(self, table: str, id: str) -> Key:
        return self._partition(f"r{self._number(table, id)}", table), shortened(id, LONGEST_ID)

    def part(self, table: str, id: str, generation: str, number: int) -> Key:
        sort = SEPARATOR.join((table, shortened(id, LONGEST_WORD), generation, f"{number:04d}"))
        return self._partition(f"p{self._number(table, id)}"), sort

    def staging(self, number: int) -> str:
        """Where a piece of staged writes is put."""
        return self.staged[number % len(self.staged)]

    def indexes(self, table: str, field: str, word: str | None = None) -> list[str]:
        """Where the entries are that begin with this word, or with any."""
        numbers = self._numbers_of(table)
        if (table, field) in ORDERED or (table, field) in RARE:
            pass  # spread by id
        elif is_moment(RECORDS[table], field):
            numbers = numbers[:1]
        elif word is not None and (table, field) not in FEW_VALUES:
            numbers = [self._number(table, word)]
        return [self._partition(f"i{number}", table, field) for number in numbers]

    def _index(self, table: str, field: str, word: str, id: str) -> str:
        places = self.indexes(table, field, word)
        return places[zlib.crc32(id.encode()) % len(places)]

    def derived_partitions(self) -> Iterator[str]:
        """Where entries, guards and tallies are, of every type."""
        yield from self._tallies()
        for table, record in RECORDS.items():
            for field in (one for one in entry_fields(record) if has_entries(record, one)):
                yield from self.indexes(table, field)
            if record.shape.unique:
                yield from (self._partition(f"u{number}", table) for number in self._numbers_of(table))

    @property
    def hours(self) -> str:
        return self._partition(f"c{self._numbers[0]}", "hours")

    def hour(self, hour: str) -> Key:
        return self.hours, hour

    def tally(self, table: str, field: str, value: str) -> Key:
        word = index_word(value)
        return self._partition(f"c{self._number(table, word)}", table, field), word

    def _tallies(self) -> Iterator[str]:
        for table, fields in TALLIED.items():
            for number in self._numbers_of(table):
                yield from (self._partition(f"c{number}", table, field) for field in fields)
        yield self.hours

    def entries(self, record: Record, hashes: Mapping[str, object]) -> list[Key]:
        """The index entries that lead to a record alone; `hashes` are its `encrypted_hashes` as they are stored."""
        table = record.shape.table
        pairs = self._looked_up(record, hashes, gathered=False)
        found = ((field, ordered_word(type(record), field, value)) for field, value in pairs)
        return [
            (self._index(table, field, word, record.id), word + shortened(record.id, LONGEST_WORD))
            for field, word in found
        ]

    def gathered(self, record: Record, hashes: Mapping[str, object]) -> list[Key]:
        """The entries that lead to a record and to all others with the same value."""
        return [self.gathering(record.shape.table, *one) for one in self._looked_up(record, hashes, gathered=True)]

    def _looked_up(self, record: Record, hashes: Mapping[str, object], *, gathered: bool) -> Iterator[tuple[str, Any]]:
        kind = type(record)
        for field in entry_fields(kind):
            if has_entries(kind, field) and is_gathered(kind, field) == gathered:
                value = hashes.get(field, getattr(record, field))
                if value is not None and value != RARE.get((kind.shape.table, field)):
                    yield field, value

    def gathering(self, table: str, field: str, value: Any) -> Key:
        word = index_word(value)
        return self._index(table, field, word, ""), word

    def unique(self, record: Record) -> dict[Key, str]:
        """The guards that a record holds."""
        held = ((key, unique_values(record, key)) for key in record.shape.unique)
        return {self.guard(record.shape.table, key, values): record.id for key, values in held if values is not None}

    def guard(self, table: str, key: Unique, values: Row) -> Key:
        digest = hashlib.sha256(json.dumps(values, default=moment_text).encode()).hexdigest()
        partition = self._partition(f"u{self._number(table, digest)}", table)
        return partition, SEPARATOR.join(("+".join(key.fields), digest))


def index_word(value: Any) -> str:
    """How the sort keys of all entries of a value begin."""
    text = value if isinstance(value, str) else moment_text(value)
    return shortened(text, LONGEST_WORD) + SEPARATOR


def ordered_word(record: type[Record], field: str, value: Any) -> str:
    """The same in the order of the values; by the type of the column, since 1 and 1.0 are one value."""
    kind = column_of(record, field).type
    if kind == "real":
        bits = int.from_bytes(struct.pack(">d", float(value) + 0.0), "big")
        return f"{bits ^ (2**64 - 1 if bits >> 63 else 2**63):016x}{SEPARATOR}"
    return f"{int(value) + 2**63:020d}{SEPARATOR}" if kind in ("integer", "boolean") else index_word(value)


def shortened(text: str, most: int) -> str:
    """A text that fits: its beginning and a hash, if it is too long."""
    raw = text.encode()
    if len(raw) <= most:
        return text
    return raw[: most - 80].decode(errors="ignore") + "~" + hashlib.sha256(raw).hexdigest()


def can_be_sent(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@cache
def indexed_fields(record: type[Record]) -> tuple[str, ...]:
    """The fields whose values lead to records."""
    shape = record.shape
    leading = [fields[0] for fields in shape.indexes] + [key.fields[0] for key in shape.unique]
    columns = {column.name: column for column in record.columns()}
    chosen = dict.fromkeys((*shape.references, *leading, *passing_moments(record)))
    return tuple(
        name
        for name in chosen
        if name not in ("organization_id", "id")
        and (
            (columns[name].type == "text" and not is_enumerated(record, name))
            or (columns[name].type == "moment" and columns[name].nullable)
        )
    )


@cache
def entry_fields(record: type[Record]) -> tuple[str, ...]:
    """These, and those that lists are ordered by."""
    more = (field for table, field in (*sorted(ORDERED), *RARE) if table == record.shape.table)
    return tuple(dict.fromkeys((*indexed_fields(record), *more)))


def in_orders(record: Record) -> list[object]:
    """By what it stands where in the lists that have an order."""
    table = record.shape.table
    return [getattr(record, name) for name in entry_fields(type(record)) if (table, name) in (*ORDERED, *RARE)]


def column_of(record: type[Record], field: str) -> Column:
    return columns_of(record)[field]


def is_moment(record: type[Record], field: str) -> bool:
    return column_of(record, field).type == "moment"


@cache
def passing_moments(record: type[Record]) -> tuple[str, ...]:
    """Moments that may be empty and decide whether a record is shown: the few that have one are counted one by one."""
    if record.shape.text is None:
        return ()
    moments = (column.name for column in record.columns() if column.type == "moment" and column.nullable)
    return tuple(name for name in moments if name not in COUNTED_BY_TOUCHES)


@cache
def guarding(record: type[Record], field: str) -> Unique | None:
    """The unique key that is this field alone."""
    return next((key for key in record.shape.unique if key.fields == (field,)), None)


def has_entries(record: type[Record], field: str) -> bool:
    return guarding(record, field) is None


def is_gathered(record: type[Record], field: str) -> bool:
    """Whether one item has all who share a value: of hashes, which hardly two share and many are asked for at once."""
    return field in record.shape.encrypted_hashes


def is_enumerated(record: type[Record], name: str) -> bool:
    annotation: object = record.model_fields[name].annotation
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return get_origin(annotation) is Literal
