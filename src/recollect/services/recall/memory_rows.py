"""The fields of memories that recall ranks and shows, read from the records once each and under every filter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from recollect.domain.memory import Memory
from recollect.domain.record import Json
from recollect.errors import DamagedData
from recollect.ports.query import Filter, OneOf, Query
from recollect.services.memories.content_hashes import unreadable_note
from recollect.services.tenant import Tenant


class MemoryRow(NamedTuple):
    """What is ranked and shown of a memory; the fields are named as those of the record."""

    id: str
    text: str
    kind: str
    status: str
    confidence: float
    author: str | None
    occurred_at: datetime
    moment: str
    content: Json
    metadata: Json
    scope: str
    user_id: str | None
    agent_id: str | None
    session_id: str | None
    project_id: str | None
    priority: int
    access_count: int
    content_hash: str


def row_of(memory: Memory) -> MemoryRow:
    return MemoryRow._make(getattr(memory, name) for name in MemoryRow._fields)


@dataclass(slots=True)
class MemoryRows:
    """The memories that pass the filters of one question. An index can only suggest: what is dead, another tenant's or
    filtered out is not among them.
    """

    tenant: Tenant
    filters: tuple[Filter, ...]
    notes: list[str] = field(default_factory=list)
    """Where it is said which memories cannot be read."""
    _read: dict[str, MemoryRow | None] = field(default_factory=dict)

    def passing(self, ids: Sequence[str]) -> dict[str, MemoryRow]:
        """Those of these ids that pass, in the order given; only ids that were not asked for before are read."""
        unread = tuple(id for id in ids if id not in self._read)
        if unread:
            self._read |= dict.fromkeys(unread)
            self._read |= {row.id: row for row in self._readable(unread)}
        return {id: row for id in ids if (row := self._read[id]) is not None}

    def _readable(self, ids: tuple[str, ...]) -> list[MemoryRow]:
        """One that cannot be read does not keep the others from being found: it is looked for by halves, and named."""
        try:
            found = self.tenant.select(Query(Memory, (OneOf("id", ids), *self.filters)), MemoryRow._fields)
        except DamagedData:
            if len(ids) == 1:
                self.notes.append(unreadable_note(ids[0]))
                return []
            middle = len(ids) // 2
            return self._readable(ids[:middle]) + self._readable(ids[middle:])
        return [MemoryRow._make(row) for row in found]
