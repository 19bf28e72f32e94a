"""What importers yield: entries, one for each record to be written; and a source as it declares itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b

from recollect.domain.agents import Agent
from recollect.domain.conversations import Session
from recollect.domain.memory import Memory
from recollect.domain.record import JsonObject, Record, clipped
from recollect.domain.tenancy import User
from recollect.services.importers.field_map import FieldMap, words
from recollect.services.importers.findings import Findings
from recollect.services.importers.origin import Origin

IMPORTED = "imported"
"""The key in the metadata under which the name of the source is kept, and what could not be mapped."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One record: its fields, or for a memory those of `remember` and the times it had in the source."""

    record: type[Record]
    fields: JsonObject

    @property
    def what(self) -> str:
        table = self.record.shape.table
        return f"{table} ({self.fields.get('kind', 'fact')})" if self.record is Memory else table

    @property
    def text(self) -> str:
        """What a person would know it by."""
        names = ("content", "text", "title", "name", "value")
        found = next((self.fields[name] for name in names if self.fields.get(name)), "")
        return words(found.get("text") or found if isinstance(found, dict) else found)


@dataclass(slots=True)
class Reading:
    """One reading of a source, from its beginning to its end."""

    origin: Origin
    source: str
    findings: Findings
    vector_model: str | None = None
    """The name of the model that made the vectors of the source, where the source itself does not say."""
    _seen: set[tuple[type[Record], str]] = field(default_factory=set)

    def once(self, record: type[Record], id: str, **fields: object) -> Iterator[Entry]:
        """A record that others refer to, when it is first named."""
        if (record, id) not in self._seen:
            self._seen.add((record, id))
            given = {name: value for name, value in fields.items() if value is not None}
            yield Entry(record, {"id": id, **given})

    def owners(self, memory: JsonObject) -> Iterator[Entry]:
        """The user, agent and session that a memory or message names; made if they do not exist."""
        for name, record in (("user", User), ("agent", Agent)):
            if memory.get(name):
                yield from self.once(record, memory[name], name=clipped(memory[name], 255))
        if memory.get("session"):
            yield from self.once(Session, memory["session"], user_id=memory.get("user"), agent_id=memory.get("agent"))

    def kept(self, metadata: object, rest: JsonObject) -> JsonObject:
        """Metadata with the name of the source, and with what could not be mapped."""
        own = metadata if isinstance(metadata, dict) else {}
        return {**own, IMPORTED: {"from": self.source, **rest}}

    def memory(self, fields: JsonObject, rest: JsonObject) -> Iterator[Entry]:
        """A memory and whoever it names."""
        yield from self.owners(fields)
        made = {**fields, "metadata": self.kept(fields.get("metadata"), rest)}
        if "created_at" in made:
            made.setdefault("at", made["created_at"])
        yield Entry(Memory, made)


@dataclass(frozen=True, slots=True)
class Source:
    """A product that memories come from."""

    name: str
    title: str
    reads: str
    """Which of its files can be read, in words."""
    maps: tuple[FieldMap, ...]
    recognises: Callable[[Origin], bool]
    read: Callable[[Reading], Iterable[Entry]]


def ordered_id(moment: datetime, number: int, *parts: str) -> str:
    """A UUIDv7 of a moment in the source: ids that sort as things were said, and are the same in every run."""
    digest = blake2b("\x1f".join((*parts, str(number))).encode("utf-8", "replace"), digest_size=8).digest()
    tail = int.from_bytes(digest, "big") & ((1 << 62) - 1)
    milliseconds = max(0, int(moment.timestamp() * 1000)) & ((1 << 48) - 1)
    whole = (milliseconds << 80) | (0x7 << 76) | ((number & 0xFFF) << 64) | (0b10 << 62) | tail
    digits = f"{whole:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
