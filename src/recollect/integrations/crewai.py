"""The storage of CrewAI's memory on Recollect.

    memory = Memory(storage=RecollectStorage(mem, user="ann"), embedder=embedder, llm=llm)
    crew = Crew(agents=[…], tasks=[…], memory=memory)

A record is a memory of the user with CrewAI's vector beside ours, so that `recall` finds it by words and meaning and
CrewAI by its own vectors; what else CrewAI knows of it is in the metadata. Only what CrewAI stored is listed here and
deleted from here. CrewAI saves in a thread of its own, and so this is synchronous: with a memory of `recollect.open` or
`recollect.connect`.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from recollect.errors import InvalidInput, MissingExtra, NotFound
from recollect.integrations.scoped_memory import ScopedMemory, synchronous
from recollect.integrations.storable_text import storable

try:
    from crewai.memory.types import MemoryRecord, ScopeInfo
except ImportError:
    raise MissingExtra("CrewAI is not installed", remedy="pip install 'recollect[crewai]'") from None

if TYPE_CHECKING:
    from recollect.domain.record import Json
    from recollect.interfaces.client import Recollect
    from recollect.services.recall.browse import MemoryView
    from recollect.services.recall.hits import Hit

RECORD = "crewai"  # the member of the metadata that holds a record
MAKER = "crewai"
PAGE = 1000


class RecollectStorage:
    """The records of one user, in a project if one is named."""

    def __init__(self, mem: Recollect, *, user: str, project: str | None = None) -> None:
        self._mem = synchronous(mem)
        self._whose: dict[str, Any] = {"user": user} | ({"project": project} if project is not None else {})
        self._theirs = ScopedMemory(mem, user, project)

    def save(self, records: list[MemoryRecord]) -> None:
        """Store records. One that is there already, as after a failed attempt, is brought up to date."""
        for record in records:
            if self.get_record(record.id) is None:
                own = {"id": record.id, "on_duplicate": "keep", "source_agent": MAKER, **self._whose}
                self._mem.remember(storable(record.content), **own, **_fields(record))
            else:
                self.update(record)

    def update(self, record: MemoryRecord) -> None:
        """Replace the record with the same id; its history keeps what it was."""
        if self.get_record(record.id) is None:
            raise NotFound(f"there is no record '{record.id[:80]}'", remedy="save it first", id=record.id)
        self._mem.revise(record.id, storable(record.content), **_fields(record))

    def search(
        self,
        query_embedding: list[float],
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> list[tuple[MemoryRecord, float]]:
        """The nearest records, with their cosine similarity."""
        asked = {"vector": [float(part) for part in query_embedding], "vector_model": _model(query_embedding)}
        hits = {
            hit.id: hit
            for filters in self._filters(scope_prefix, categories, metadata_filter)
            for hit in self._theirs.recall(RECORD, limit, by="meaning", **asked, **filters)  # no words count
        }
        nearest = sorted(hits.values(), key=lambda hit: -hit.score)[:limit]
        return [(_record(hit), hit.score) for hit in nearest if hit.score >= min_score]

    def delete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        """Erase the records that pass every filter."""
        time = {"until": _aware(older_than)} if older_than is not None else {}
        alternatives = [one | time for one in self._filters(scope_prefix, categories, metadata_filter)]
        if record_ids is None:
            return sum(self._theirs.erase_all(**filters) for filters in alternatives)
        wanted = {id for filters in alternatives for id in self._ids(filters)} & {*record_ids}
        for id in wanted:
            self._mem.erase(id)
        return len(wanted)

    def get_record(self, record_id: str) -> MemoryRecord | None:
        found: Any
        try:
            found = self._theirs.show(record_id)
        except (NotFound, InvalidInput):
            return None
        return _record(found) if RECORD in getattr(found, "metadata", {}) else None

    def list_records(self, scope_prefix: str | None = None, limit: int = 200, offset: int = 0) -> list[MemoryRecord]:
        """Records, the newest first."""
        records = sorted(self._records(scope_prefix), key=lambda record: record.created_at, reverse=True)
        return records[offset : offset + limit]

    def get_scope_info(self, scope: str) -> ScopeInfo:
        records = [*self._records(scope)]
        times = [record.created_at for record in records]
        return ScopeInfo(
            path=_path(scope),
            record_count=len(records),
            categories=sorted({category for record in records for category in record.categories}),
            oldest_record=min(times, default=None),
            newest_record=max(times, default=None),
            child_scopes=_children(scope, records),
        )

    def list_scopes(self, parent: str = "/") -> list[str]:
        return _children(parent, self._records(parent))

    def list_categories(self, scope_prefix: str | None = None) -> dict[str, int]:
        return dict(Counter(category for record in self._records(scope_prefix) for category in record.categories))

    def count(self, scope_prefix: str | None = None) -> int:
        return sum(1 for filters in self._filters(scope_prefix) for _ in self._ids(filters))

    def reset(self, scope_prefix: str | None = None) -> None:
        self.delete(scope_prefix)

    async def asave(self, records: list[MemoryRecord]) -> None:
        await asyncio.to_thread(self.save, records)

    async def asearch(self, query_embedding: list[float], **given: Any) -> list[tuple[MemoryRecord, float]]:
        return await asyncio.to_thread(lambda: self.search(query_embedding, **given))

    async def adelete(self, **given: Any) -> int:
        return await asyncio.to_thread(lambda: self.delete(**given))

    def _filters(
        self,
        scope: str | None = None,
        categories: Sequence[str] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> list[dict[str, Any]]:
        """Filters, of which a record passes one: it may be of any of the categories."""
        wanted: Json = {f"{RECORD}.metadata.{name}": {"eq": value} for name, value in (metadata or {}).items()}
        wanted |= {f"{RECORD}.scopes": {"contains": _path(scope or "/")}}
        each = [{f"{RECORD}.categories": {"contains": category}} for category in categories or ()] or [{}]
        return [{"metadata": {**wanted, **one}} for one in each]

    def _ids(self, filters: dict[str, Any]) -> Iterator[str]:
        after = None
        while True:
            page = self._mem.list(**self._whose, **filters, limit=PAGE, after=after)
            yield from [line.id for line in page.memories]
            after = page.next
            if after is None:
                return

    def _records(self, scope: str | None) -> Iterator[MemoryRecord]:
        for filters in self._filters(scope):
            for id in self._ids(filters):
                yield _record(self._mem.show(id))


def _fields(record: MemoryRecord) -> Json:
    """A record as fields of a memory."""
    scope = _path(record.scope)
    parts = [part for part in scope.split("/") if part]
    known = {
        **record.model_dump(mode="json", exclude={"id", "content", "embedding"}),
        "scope": scope,
        "scopes": ["/", *("/" + "/".join(parts[:end]) for end in range(1, len(parts) + 1))],
    }
    fields: Json = {"metadata": {RECORD: json.loads(json.dumps(known))}, "importance": record.importance}
    fields |= {"at": _aware(record.created_at), "author": record.source}
    if record.embedding:
        fields |= {"vector": [float(part) for part in record.embedding], "vector_model": _model(record.embedding)}
    return fields


def _record(found: Hit | MemoryView) -> MemoryRecord:
    known = {name: value for name, value in found.metadata[RECORD].items() if name != "scopes"}
    return MemoryRecord(id=found.id, content=found.text, **known)


def _children(parent: str, records: Sequence[MemoryRecord] | Iterator[MemoryRecord]) -> list[str]:
    start = _path(parent).rstrip("/") + "/"
    below = {record.scope[len(start) :].split("/")[0] for record in records if record.scope.startswith(start)}
    return sorted(start + name for name in below if name)


def _path(scope: str) -> str:
    """A scope as CrewAI writes it: `/company/team`."""
    return "/" + "/".join(part for part in scope.split("/") if part)


def _model(embedding: Sequence[float]) -> str:
    """Vectors of another length are of another model, and are not compared."""
    return f"crewai-{len(embedding)}"


def _aware(moment: datetime) -> datetime:
    """CrewAI writes the time in UTC without saying so."""
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
