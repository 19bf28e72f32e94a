"""The memory of one user in one project: what the adapters of agent frameworks do with an open memory.

Whatever is stored here belongs to that user and project, and nothing of anybody else's is found, shown or deleted.
The names that a framework gives its sessions count within the user and project, as they do in the frameworks: two users
may both have a session `1`.

The work is synchronous. A framework with an event loop has it done in a thread (`in_thread`), by a memory of
`recollect.open`, `recollect.connect`, `recollect.aopen` or `recollect.aconnect`.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from recollect.errors import InvalidInput, NotFound
from recollect.integrations.storable_text import storable

if TYPE_CHECKING:
    from recollect.domain.record import Json
    from recollect.interfaces.async_client import AsyncRecollect
    from recollect.interfaces.client import Recollect
    from recollect.services.conversations.messages import MessageView
    from recollect.services.conversations.sessions import SessionView
    from recollect.services.memories.revise import Receipt
    from recollect.services.recall.browse import MemoryView
    from recollect.services.recall.hits import Hit

LONGEST_ID = 255
LONGEST_QUESTION = 20_000  # what somebody pasted into a chat is asked with its beginning
PAGE = 1000
T = TypeVar("T")


async def in_thread(mem: Recollect | AsyncRecollect, work: Callable[[Recollect], T]) -> T:
    """Do what takes a while in a thread, so that the event loop goes on."""
    if is_async(mem):
        done: T = await cast(Any, mem)._run(work)
        return done
    return await asyncio.to_thread(work, cast("Recollect", mem))


def is_async(mem: object) -> bool:
    return inspect.iscoroutinefunction(getattr(type(mem), "call", None))


def synchronous(mem: Recollect) -> Recollect:
    """The memory, for frameworks that wait for their memory in the thread of the agent."""
    if is_async(mem):
        raise InvalidInput("this framework is synchronous", remedy="use recollect.open or recollect.connect")
    return mem


class ScopedMemory:
    """The memories and messages of one user, in one project if one is named."""

    def __init__(self, mem: Recollect, user: str, project: str | None = None) -> None:
        self._mem = mem
        self._whose: dict[str, Any] = {"user": user} | ({"project": project} if project is not None else {})

    def context(self, question: str, tokens: int) -> str:
        """What is known about it, in markers that say it is evidence and not instruction; nothing where none is."""
        asked = _asked(question)
        found = self._mem.context(asked, tokens=tokens, **self._whose) if asked else None
        return found.text if found is not None and found.used else ""

    def recall(self, question: str, limit: int, **filters: Any) -> list[Hit]:
        asked = _asked(question)
        return [*self._mem.recall(asked, limit=limit, **self._whose, **filters).hits] if asked else []

    def remember(self, text: str, *, key: str | None = None, **fields: Any) -> Receipt:
        """Store a memory; the same text, or the same key, is stored once."""
        own = None if key is None else self.session(key)
        return self._mem.remember(text, idempotency_key=own, on_duplicate="return", **self._whose, **fields)

    def show(self, id: str) -> MemoryView | MessageView:
        """A memory or message of theirs. Somebody else's is not found."""
        for look in (self._mem.show, self._mem.message.show):
            try:
                found = look(id)
            except NotFound:
                continue
            if self._is_theirs(found):
                return found
        raise NotFound(f"there is no memory '{id[:80]}'", remedy="give the id of one that was recalled", id=id)

    def forget(self, id: str) -> None:
        """Hide it from every search; people can bring it back."""
        is_message = hasattr(self.show(id), "role")
        self._mem.message.remove(id) if is_message else self._mem.forget(id)

    def erase(self, id: str) -> MemoryView | MessageView:
        """Delete it for good."""
        found = self.show(id)
        self._mem.message.erase(id) if hasattr(found, "role") else self._mem.erase(id)
        return found

    def erase_all(self, **filters: Any) -> int:
        """Delete for good their memories that pass the filters, however many they are."""
        gone = 0
        while changed := self._mem.erase_many(**self._whose, **filters, include_superseded=True).changed:
            gone += changed
        return gone

    def session(self, id: str) -> str:
        """Our id of a session of theirs."""
        owners = [owner for owner in (self._whose.get("project"), self._whose["user"]) if owner is not None]
        name = "/".join(part.replace("%", "%25").replace("/", "%2F") for part in (*owners, id))
        if len(name) <= LONGEST_ID:
            return name
        return name[: LONGEST_ID - 65] + "~" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()

    def open_session(self, id: str) -> SessionView:
        """The session of theirs, made unless it is there."""
        return self._mem.session.add(id[:200], id=self.session(id), on_existing="return", **self._whose)

    def say(self, session: str, messages: Sequence[Json]) -> None:
        """Add messages to a session of theirs, in order. One with an `otid` that is there already is left alone."""
        ours = self.open_session(session).id if messages else ""
        for start in range(0, len(messages), PAGE):
            page: list[Any] = [*messages[start : start + PAGE]]
            self._mem.message.add_many(page, session=ours, user=self._whose["user"])

    def said(self, session: str, newest: int | None = None) -> list[MessageView]:
        """The messages of a session, the oldest first; only the newest so many, if that is asked for."""
        if newest is None:
            return [*self._pages(session)]
        page = self._mem.message.list(self.session(session), first="newest", limit=newest) if newest > 0 else None
        return page.messages[::-1] if page else []

    def _pages(self, session: str) -> Iterator[MessageView]:
        after = None
        while True:
            page = self._mem.message.list(self.session(session), limit=PAGE, after=after)
            yield from page.messages
            after = page.next
            if after is None:
                return

    def _is_theirs(self, found: MemoryView | MessageView) -> bool:
        if found.user != self._whose["user"]:
            return False
        project = self._whose.get("project")
        if project is None or not hasattr(found, "role"):
            return project is None or getattr(found, "project", None) == project
        return found.session is not None and self._mem.session.show(found.session).project == project


def _asked(question: str) -> str:
    return storable(question).strip()[:LONGEST_QUESTION]
