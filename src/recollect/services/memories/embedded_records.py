"""The records that have vectors: memories, messages, and the tables and fields of sources.

Each says which text its vectors are made of, in which namespaces they are searched, and what filters that search.
Messages have a namespace of their own, and so have tables and fields: no memory can be put into these.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TypeVar

from recollect.domain.conversations import Message
from recollect.domain.memory import DATA, MESSAGES, Memory, owner_key
from recollect.domain.sources import Field, Source, Table, field_text, table_text
from recollect.domain.text.passages import MOST_PASSAGES, PASSAGE_TOKENS, PassageSelection, cut
from recollect.domain.text.questions import embedded_text
from recollect.ports.models import Embedder
from recollect.ports.query import OneOf, Order, Query
from recollect.ports.vectors import FACETS
from recollect.services.tenant import Tenant

_MARKS = 16  # what a model adds to a text, and what the estimate of its tokens may be short of
DATA_RECORDS: tuple[type[Table | Field], ...] = (Table, Field)
D = TypeVar("D", Source, Table)
Embeddable = Memory | Message | Table | Field


@dataclass(frozen=True, slots=True)
class EmbeddedRecord:
    record: Embeddable
    text: str
    namespaces: Sequence[str]
    facets: list[str | None]
    """What filters a search, in the order of `ports/vectors.py:FACETS`."""
    source_id: str | None = None
    """Of a table or field."""

    @property
    def key(self) -> str:
        """What an index knows it by."""
        return owner_key(self.record)

    @property
    def message_id(self) -> str | None:
        return self.record.id if isinstance(self.record, Message) else None

    @property
    def text_hash(self) -> str:
        """Which text a vector was made of."""
        return hashlib.blake2b(self.text.encode(), digest_size=16).hexdigest()

    def passages(self, embedder: Embedder) -> PassageSelection:
        """What of it gets a vector."""
        return read_whole(self.text, embedder)


def read_whole(text: str, embedder: Embedder, most: int = MOST_PASSAGES) -> PassageSelection:
    """What of a text gets a vector: passages that the model reads whole."""
    window = _window(embedder) - _MARKS
    return cut(text, max(_MARKS, min(window, PASSAGE_TOKENS)), most)


def _window(embedder: Embedder) -> int:
    """An attribute: to ask whether it is a `WindowedEmbedder` takes 20 us, for each of thousands of texts."""
    known: int | None = getattr(embedder, "window", None)
    return known if known is not None else PASSAGE_TOKENS + _MARKS


def embedded_memory(memory: Memory) -> EmbeddedRecord:
    facets = list(_facets(memory.__dict__))
    return EmbeddedRecord(memory, embedded_text(memory.author, memory.text), memory.namespaces, facets)


_facets = itemgetter(*FACETS)


def embedded_message(message: Message) -> EmbeddedRecord:
    """Of a message that says something in words."""
    facets = {"user_id": message.user_id, "agent_id": message.agent_id, "session_id": message.session_id}
    text = embedded_text(message.name, message.text or "")
    return EmbeddedRecord(message, text, (MESSAGES,), [facets.get(name) for name in FACETS])


def embedded_data(tenant: Tenant, records: Sequence[Source | Table | Field]) -> list[EmbeddedRecord]:
    """Tables and fields with their texts. A table is given with all of its fields, or without any.

    What they belong to is read where it is not given, too: records that are about to be stored are given together. In
    a damaged store it may be missing; then they are left out.
    """
    fields = [one for one in records if isinstance(one, Field)]
    tables = _with_parents(tenant, Table, records, (one.table_id for one in fields))
    sources = _with_parents(tenant, Source, records, (one.source_id for one in tables.values()))
    tables = {id: one for id, one in tables.items() if one.source_id in sources}
    fields = [one for one in fields if one.table_id in tables]
    given = [one for one in records if isinstance(one, Table) and one.id in tables]
    columns = _columns(tenant, given, fields)
    made = [_embedded(one, table_text(one, columns.get(one.id, ())), one, sources) for one in given]
    made += [
        _embedded(one, field_text(one, tables[one.table_id].name), tables[one.table_id], sources) for one in fields
    ]
    return made


def _embedded(record: Table | Field, text: str, table: Table, sources: Mapping[str, Source]) -> EmbeddedRecord:
    source = sources[table.source_id]
    facets = data_facets(source, record.shape.table)
    return EmbeddedRecord(record, text, (DATA,), [facets.get(name) for name in FACETS], source.id)


def data_facets(source: Source, kind: str) -> dict[str, str | None]:
    """What filters a search for tables or fields; of how far a memory holds takes the place in which source it is."""
    return {"user_id": source.user_id, "project_id": source.project_id, "kind": kind, "scope": source.id}


def _with_parents(
    tenant: Tenant, record: type[D], given: Sequence[Source | Table | Field], wanted: Iterable[str]
) -> dict[str, D]:
    """The given records of a type, and those of the wanted ids that are not given; removed ones as well."""
    known = {one.id: one for one in given if isinstance(one, record)}
    missing = tuple(sorted(set(wanted) - known.keys()))
    if missing:
        found = tenant.find(Query(record, (OneOf("id", missing),), deleted="yes")).records
        known |= {one.id: one for one in found}
    return known


def _columns(tenant: Tenant, tables: Sequence[Table], fields: Sequence[Field]) -> dict[str, list[str]]:
    """The names of the columns of each table, in their order."""
    columns: dict[str, list[str]] = {}
    for one in sorted(fields, key=lambda field: field.position):
        columns.setdefault(one.table_id, []).append(one.name)
    alone = tuple(table.id for table in tables if table.id not in columns)
    if alone:
        stored = Query(Field, (OneOf("table_id", alone),), (Order("position"),))
        for table_id, name in tenant.select(stored, ("table_id", "name")):
            columns.setdefault(table_id, []).append(name)
    return columns


def read_again(tenant: Tenant, records: Sequence[EmbeddedRecord]) -> list[EmbeddedRecord]:
    """The same records as they are now; without those that are gone."""
    return by_ids(tenant, type(records[0].record), tuple(one.record.id for one in records)) if records else []


def by_ids(tenant: Tenant, record: type[Embeddable], ids: tuple[str, ...]) -> list[EmbeddedRecord]:
    """Records of one type."""
    found = tenant.find(Query(record, (OneOf("id", ids),))).records if ids else []
    whole = [embedded_memory(one) for one in found if isinstance(one, Memory)]
    whole += [embedded_message(one) for one in found if isinstance(one, Message) and one.text]
    return whole + embedded_data(tenant, [one for one in found if isinstance(one, Table | Field)])
