"""Where each thing of a tenant lives in the one table.

A key is (partition, sort). Partitions begin with the tenant, then one letter says what they hold:

    tenant h            h                         the head: seq, incarnation, what is under way
    tenant r table      id                        the records of one type, or what is left of one deleted for good
    tenant p            table id generation n     the parts of records too large for one item
    tenant i            table field value id      index entries: no body, only for finding
    tenant u            table fields hash         guards of unique keys: whose they are
    tenant l            seq                       the log: what each transaction changed
    tenant x            transaction n             staged writes of a large transaction
    (none) t            tenant                    the tenants
    (none) s            number                    the migrations that were done

The words are joined by U+001F, which no id may hold. A field gets index entries if it refers to another record or
leads a declared index or unique key, and is text that is not one of a few fixed words, or a moment that may be empty:
an entry for every memory under `status` or `priority` would cost a write and narrow nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin

from recollect.adapters.records.common.dialect import moment_text
from recollect.adapters.records.common.transaction import unique_values
from recollect.domain.record import ID_LENGTH, Record, Unique
from recollect.errors import InvalidInput
from recollect.ports.query import Row

Key = tuple[str, str]
SEPARATOR = "\x1f"
LONGEST_ID = 1000  # of the 1024 bytes that a sort key may have
LONGEST_WORD = 300
TENANTS = f"{SEPARATOR}t"
SCHEMA = f"{SEPARATOR}s"


class Keys:
    """The keys of one tenant."""

    def __init__(self, organization_id: str) -> None:
        if SEPARATOR in organization_id or len(organization_id) > ID_LENGTH or not can_be_sent(organization_id):
            raise InvalidInput("there can be no such organization", remedy="give the id of one that exists")
        self._tenant = organization_id
        self.head: Key = (self._partition("h"), "h")
        self.parts = self._partition("p")
        self.index = self._partition("i")
        self.guards = self._partition("u")
        self.log = self._partition("l")
        self.staged = self._partition("x")

    def _partition(self, *words: str) -> str:
        return SEPARATOR.join((self._tenant, *words))

    def records(self, table: str) -> str:
        return self._partition("r", table)

    def record(self, table: str, id: str) -> Key:
        return self.records(table), shortened(id, LONGEST_ID)

    def part(self, table: str, id: str, generation: str, number: int) -> Key:
        return self.parts, SEPARATOR.join((table, shortened(id, LONGEST_WORD), generation, f"{number:04d}"))

    def entries(self, record: Record, hashes: Mapping[str, object]) -> dict[Key, str]:
        """The index entries that lead to a record, each with the record's id; `hashes` are its `encrypted_hashes` as
        they are stored.
        """
        return {
            (self.index, index_word(record.shape.table, field, value) + shortened(record.id, LONGEST_WORD)): record.id
            for field in indexed_fields(type(record))
            if (value := hashes.get(field, getattr(record, field))) is not None
        }

    def unique(self, record: Record) -> dict[Key, str]:
        """The guards that a record holds."""
        held = ((key, unique_values(record, key)) for key in record.shape.unique)
        return {self.guard(record.shape.table, key, values): record.id for key, values in held if values is not None}

    def guard(self, table: str, key: Unique, values: Row) -> Key:
        digest = hashlib.sha256(json.dumps(values, default=moment_text).encode()).hexdigest()
        return self.guards, SEPARATOR.join((table, "+".join(key.fields), digest))

    def moment_of_log(self, seq: int) -> Key:
        return self.log, f"{seq:020d}"


def index_word(table: str, field: str, value: Any) -> str:
    """How the sort keys of all entries of a value begin."""
    text = value if isinstance(value, str) else moment_text(value)
    return SEPARATOR.join((table, field, shortened(text, LONGEST_WORD), ""))


def field_word(table: str, field: str) -> str:
    """How the sort keys of all entries of a field begin."""
    return SEPARATOR.join((table, field, ""))


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
    shape = record.shape
    leading = [fields[0] for fields in shape.indexes] + [key.fields[0] for key in shape.unique]
    columns = {column.name: column for column in record.columns()}
    chosen = dict.fromkeys((*shape.references, *leading))
    return tuple(
        name
        for name in chosen
        if name not in ("organization_id", "id")
        and (
            (columns[name].type == "text" and not _is_enumerated(record.model_fields[name].annotation))
            or (columns[name].type == "moment" and columns[name].nullable)
        )
    )


def _is_enumerated(annotation: object) -> bool:
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return get_origin(annotation) is Literal
