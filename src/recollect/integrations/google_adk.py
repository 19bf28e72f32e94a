"""The memory service of Google's Agent Development Kit on Recollect.

    runner = Runner(app=app, session_service=sessions, memory_service=RecollectMemoryService(mem))

What was said in a session becomes messages of ours, of the user and in a project of the name of the app, each with its
author and time. An event is stored once, however often its session is added; a deleted one stays deleted, although the
framework adds the session again. `add_memory` stores memories. A search finds both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from recollect.errors import InvalidInput, MissingExtra, NotFound, VersionConflict
from recollect.integrations.kept_items import given_back, kept
from recollect.integrations.scoped_memory import ScopedMemory, in_thread
from recollect.integrations.storable_text import storable
from recollect.retry import retry

try:
    from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
    from google.adk.memory.memory_entry import MemoryEntry
    from google.genai import types
except ImportError:
    raise MissingExtra("Google ADK is not installed", remedy="pip install 'recollect[google-adk]'") from None

if TYPE_CHECKING:
    from google.adk.events.event import Event
    from google.adk.sessions.session import Session

    from recollect.domain.record import Json
    from recollect.interfaces.async_client import AsyncRecollect
    from recollect.interfaces.client import Recollect
    from recollect.services.recall.hits import Hit

EVENT = "google_adk_event"
DELETED = "google_adk_deleted"  # the events of a session that were deleted, in its metadata: ids and nothing else
WITHOUT_SESSION = "events"
LONGEST_TEXT = 900_000
FRAME = "PAST_CONVERSATIONS"  # what the framework encloses memories in; no memory may close it


class RecollectMemoryService(BaseMemoryService):
    """Memories and sessions of the users of an app; `limit` is how many a search finds at most."""

    def __init__(self, mem: Recollect | AsyncRecollect, *, limit: int = 10) -> None:
        self._mem = mem
        self._limit = limit

    async def add_session_to_memory(self, session: Session) -> None:
        """Store what is new in a session."""
        await self.add_events_to_memory(
            app_name=session.app_name, user_id=session.user_id, events=session.events, session_id=session.id
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Store events that are not stored yet. What they carry besides text is not kept."""
        messages = [made for event in events if (made := _message(event)) is not None]
        work = partial(_say, user=user_id, project=app_name, session=session_id or WITHOUT_SESSION, messages=messages)
        await in_thread(self._mem, work)

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Store memories; `ttl_seconds` in the metadata says how long each is kept."""
        given = [_memory(entry, dict(custom_metadata or {})) for entry in memories]
        await in_thread(self._mem, partial(_remember, user=user_id, project=app_name, memories=given))

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """The memories and messages of this user of this app that answer best."""
        search = partial(_search, user=user_id, project=app_name, query=query, limit=self._limit)
        return SearchMemoryResponse(memories=await in_thread(self._mem, search))

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Delete for good what a search found. Nothing happens where there is none, or it is somebody else's."""
        if memory_id:
            await in_thread(self._mem, partial(_delete, user=user_id, project=app_name, id=memory_id))


def _say(mem: Recollect, *, user: str, project: str, session: str, messages: Sequence[Json]) -> None:
    if not messages:
        return
    theirs = ScopedMemory(mem, user, project)
    deleted = set(theirs.open_session(session).metadata.get(DELETED, ()))
    theirs.say(session, [message for message in messages if message["otid"] not in deleted])


def _remember(mem: Recollect, *, user: str, project: str, memories: Sequence[Json]) -> None:
    theirs = ScopedMemory(mem, user, project)
    for memory in memories:
        theirs.remember(**memory)


def _search(mem: Recollect, *, user: str, project: str, query: str, limit: int) -> list[MemoryEntry]:
    hits = ScopedMemory(mem, user, project).recall(query, limit)
    return [_entry(hit, _happened(mem, hit)) for hit in hits]


def _happened(mem: Recollect, hit: Hit) -> str:
    """When it was said: of an event its own time, since a session may be added long after."""
    event = given_back(mem.message.show(hit.id), EVENT) if hit.type == "message" else None
    return str(event["at"]) if event else hit.occurred_at.isoformat()


def _delete(mem: Recollect, *, user: str, project: str, id: str) -> None:
    theirs = ScopedMemory(mem, user, project)
    try:
        found = theirs.show(id)
    except (NotFound, InvalidInput):  # whatever a model took for an id
        return
    event = getattr(found, "otid", None)
    if event is not None and found.session is not None:
        retry(partial(_note_deleted, mem, found.session, event), VersionConflict)
    theirs.erase(id)


def _note_deleted(mem: Recollect, session: str, event: str) -> None:
    now = mem.session.show(session)
    deleted = [*now.metadata.get(DELETED, ()), event]
    mem.session.revise(session, metadata={**now.metadata, DELETED: deleted}, version=now.version)


def _message(event: Event) -> Json | None:
    """An event as a message of ours; None for one in which nothing was said, such as the call of a tool."""
    text = storable(_text(event.content))[:LONGEST_TEXT]
    if not text.strip():
        return None
    happened = datetime.fromtimestamp(event.timestamp, UTC).isoformat()
    return {
        "role": "user" if event.author == "user" else "assistant",
        "text": text,
        "name": storable(event.author) or None,
        "content": [kept({"id": event.id, "at": happened, "author": event.author}, EVENT)],
        "otid": storable(event.id),
    }


def _memory(entry: MemoryEntry, metadata: Json) -> Json:
    text = storable(_text(entry.content))
    if not text.strip():
        raise InvalidInput("there is no text in that memory", remedy="give a content with a text part")
    own = {**metadata, **entry.custom_metadata}
    ttl = own.pop("ttl_seconds", None)
    return {
        "text": text,
        "key": entry.id,
        "author": entry.author,
        "at": entry.timestamp,
        "metadata": own,
        "ttl_seconds": ttl,
    }


def _text(content: types.Content | None) -> str:
    """What a person would read; what a model only thought is left out."""
    parts = content.parts or [] if content is not None else []
    return "\n".join(part.text for part in parts if part.text and not part.thought)


def _entry(hit: Hit, happened: str) -> MemoryEntry:
    told = {"type": hit.type, "status": hit.status, "session": hit.session, "match": round(hit.match, 3)}
    cited = [citation.source for citation in hit.citations]
    text = hit.text.replace(f"</{FRAME}", f"<_/{FRAME}")
    return MemoryEntry(
        id=hit.id,
        author=hit.author,
        timestamp=happened,
        content=types.Content(role="user" if hit.role in (None, "user") else "model", parts=[types.Part(text=text)]),
        custom_metadata={**hit.metadata, **{name: value for name, value in told.items() if value}, "citations": cited},
    )
