"""The fields of memories and messages that recall ranks and shows, read once each and under every filter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import starmap
from typing import NamedTuple

from recollect.domain.conversations import Message
from recollect.domain.memory import Memory, message_id, message_key
from recollect.domain.record import Json
from recollect.domain.text.questions import moment_words
from recollect.errors import DamagedData
from recollect.ports.query import Filter, OneOf, Query
from recollect.services.memories.content_hashes import unreadable_note
from recollect.services.tenant import Tenant


class MemoryRow(NamedTuple):
    """What is ranked and shown of a memory, named as the fields of the record; or of a message, which has a `role`.

    The id of a message is its key (`domain/memory.py:owner_key`), so that it is no memory's. Only what stands before
    `confidence` ranks a memory; where it is cheaper, the others are read of those that are shown alone.
    """

    id: str
    text: str
    kind: str
    status: str
    author: str | None
    occurred_at: datetime
    user_id: str | None
    agent_id: str | None
    session_id: str | None
    priority: int
    confidence: float = 0.5
    moment: str = ""
    content: Json = {}
    metadata: Json = {}
    scope: str = "global"
    project_id: str | None = None
    content_hash: str = ""
    role: str | None = None


FIELDS = MemoryRow._fields[:-1]
RANKED = FIELDS[: FIELDS.index("confidence")]
MESSAGE_FIELDS = (
    "id", "text", "role", "name", "created_at", "user_id", "agent_id", "session_id", "version", "updated_at",
)  # fmt: skip
SAID = "said"
"""The status of messages: what was said, and nothing more is claimed."""


def row_of(memory: Memory) -> MemoryRow:
    return MemoryRow._make([*(getattr(memory, name) for name in FIELDS), None])


def message_row(
    id: str, text: str, role: str, name: str | None, at: datetime, user: str | None, agent: str | None,
    session: str | None, version: int, updated_at: datetime,
) -> MemoryRow:  # fmt: skip
    """A message in the place of a memory, made of its MESSAGE_FIELDS."""
    metadata = {"revised_at": updated_at.isoformat()} if version > 1 else {}
    return MemoryRow(
        id=message_key(id), text=text, kind="message", status=SAID, author=name or role, occurred_at=at,
        user_id=user, agent_id=agent, session_id=session, priority=5, moment=moment_words(at), metadata=metadata,
        role=role,
    )  # fmt: skip


@dataclass(slots=True)
class MemoryRows:
    """The memories that pass the filters of one question. An index can only suggest: what is dead, another tenant's or
    filtered out is not among them.
    """

    tenant: Tenant
    filters: tuple[Filter, ...]
    notes: list[str] = field(default_factory=list)
    """Where it is said which memories cannot be read."""
    fields: tuple[str, ...] = FIELDS
    """What is read of each: all, or only what is RANKED."""
    _read: dict[str, MemoryRow | None] = field(default_factory=dict)

    def passing(self, ids: Sequence[str]) -> dict[str, MemoryRow]:
        """Those of these ids that pass, in the order given; only ids that were not asked for before are read."""
        unread = tuple(id for id in ids if id not in self._read)
        if unread:
            self._read |= dict.fromkeys(unread)
            self._read |= {row.id: row for row in self._readable(unread)}
        return {id: row for id in ids if (row := self._read[id]) is not None}

    def whole(self, rows: dict[str, MemoryRow]) -> dict[str, MemoryRow]:
        """These with all that is shown; without those that are no longer there, or do not pass any more."""
        if self.fields == FIELDS:
            return rows
        read = MemoryRows(self.tenant, self.filters, self.notes)
        found = read.passing([id for id, row in rows.items() if row.role is None])
        return {id: found.get(id, row) for id, row in rows.items() if row.role is not None or id in found}

    def which_pass(self, ids: Sequence[str]) -> list[str]:
        """The same, where nothing but that is asked."""
        found = self.tenant.select(Query(Memory, (OneOf("id", tuple(ids)), *self.filters)), ("id",))
        return [id for (id,) in found]

    def _readable(self, ids: tuple[str, ...]) -> list[MemoryRow]:
        """One that cannot be read does not keep the others from being found: it is looked for by halves, and named."""
        try:
            return self._selected(ids)
        except DamagedData:
            if len(ids) == 1:
                self.notes.append(unreadable_note(ids[0]))
                return []
            middle = len(ids) // 2
            return self._readable(ids[:middle]) + self._readable(ids[middle:])

    def _selected(self, ids: tuple[str, ...]) -> list[MemoryRow]:
        query = Query(Memory, (OneOf("id", ids), *self.filters), any_order=True)
        return list(starmap(MemoryRow, self.tenant.select(query, self.fields)))


class MessageRows(MemoryRows):
    """The messages that pass, by their keys."""

    def which_pass(self, ids: Sequence[str]) -> list[str]:
        of_these = OneOf("id", tuple(message_id(key) for key in ids))
        found = self.tenant.select(Query(Message, (of_these, *self.filters)), ("id",))
        return [message_key(id) for (id,) in found]

    def _selected(self, ids: tuple[str, ...]) -> list[MemoryRow]:
        of_these = OneOf("id", tuple(message_id(key) for key in ids))
        found = self.tenant.select(Query(Message, (of_these, *self.filters)), MESSAGE_FIELDS)
        return [message_row(*row) for row in found]
