"""The OpenAI Agents SDK's session on Recollect: the history of a conversation, on our own sessions and messages.

    session = RecollectSession(mem, "alice-1")
    await Runner.run(agent, "Hello", session=session)

Each item of the history is a message of the session, in order, so that it is searched, listed, exported and deleted
like any other; the item itself is kept beside its text and comes back exactly as it went in. Messages that others
added to the same session are shown to the agent as plain text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, cast

from recollect.errors import MissingExtra
from recollect.integrations.kept_items import given_back, kept, searchable
from recollect.integrations.storable_text import storable

try:
    from agents.items import TResponseInputItem
    from agents.memory import SessionABC, SessionSettings
    from agents.memory.session_settings import resolve_session_limit
except ImportError:
    raise MissingExtra(
        "the OpenAI Agents SDK is not installed", remedy="pip install 'recollect[openai-agents]'"
    ) from None

if TYPE_CHECKING:
    from recollect.domain.record import Json
    from recollect.interfaces.client import Recollect
    from recollect.services.conversations.messages import MessageView

ITEM = "openai_agents_item"
PAGE = 1000
ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system", "tool": "tool"}


class RecollectSession(SessionABC):
    """The history of one conversation; the session is made with the first item.

    `user` and `agent` say whose session it is when it is made here.
    """

    def __init__(
        self,
        mem: Recollect,
        session_id: str,
        *,
        user: str | None = None,
        agent: str | None = None,
        session_settings: SessionSettings | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = session_settings or SessionSettings()
        self._mem = mem
        self._user, self._agent = user, agent
        self._is_made = False

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The newest `limit` items, or all, the oldest first."""
        wanted = resolve_session_limit(limit, self.session_settings)
        return await asyncio.to_thread(self._get, wanted)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items at the end: all, or none."""
        if items:
            await asyncio.to_thread(self._add, [_message(dict(item)) for item in items])

    async def pop_item(self) -> TResponseInputItem | None:
        """Take the newest item away and give it back."""
        popped = await asyncio.to_thread(self._mem.message.pop, self.session_id)
        return _item(popped.message) if popped.message else None

    async def clear_session(self) -> None:
        """Delete all items for good."""
        await asyncio.to_thread(self._mem.message.clear, self.session_id)

    def _get(self, wanted: int | None) -> list[TResponseInputItem]:
        if wanted is None or wanted < 0:
            return [_item(one) for one in self._messages("oldest", None)]
        newest = [_item(one) for one in self._messages("newest", wanted)]
        return newest[::-1]

    def _messages(self, first: Literal["oldest", "newest"], wanted: int | None) -> Iterator[MessageView]:
        after, left = None, wanted
        while left is None or left > 0:
            limit = PAGE if left is None else min(left, PAGE)
            page = self._mem.message.list(self.session_id, first=first, limit=limit, after=after)
            yield from page.messages
            after, left = page.next, None if left is None else left - len(page.messages)
            if after is None:
                return

    def _add(self, messages: list[Json]) -> None:
        if not self._is_made:
            ours, user, agent = self.session_id, self._user, self._agent
            self._mem.session.add(ours, id=ours, on_existing="return", user=user, agent=agent)
            self._is_made = True
        self._mem.message.add_many([*messages], session=self.session_id)


def _message(item: Json) -> Json:
    role = ROLES.get(str(item.get("role")), "tool" if str(item.get("type")).endswith("_output") else "assistant")
    call = item.get("call_id")
    return {
        "role": role,
        "text": searchable(" ".join(_texts(item))),
        "content": [kept(item, ITEM)],
        "tool_call_id": storable(call) if isinstance(call, str) and role == "tool" else None,
        "name": storable(item["name"]) if isinstance(item.get("name"), str) else None,
    }


def _item(message: MessageView) -> TResponseInputItem:
    item = given_back(message, ITEM)
    if item is not None:
        return cast(TResponseInputItem, item)
    return cast(TResponseInputItem, {"role": _speaker(message.role), "content": message.text or ""})


def _speaker(role: str) -> str:
    """What a tool said elsewhere means nothing without its call: it is shown as information."""
    return "developer" if role in ("tool", "system") else role


def _texts(item: object) -> Iterator[str]:
    """What a person would read in it."""
    if isinstance(item, str):
        yield item
    elif isinstance(item, list):
        for inner in item:
            yield from _texts(inner)
    elif isinstance(item, dict):
        for name in ("content", "text", "output", "arguments", "summary"):
            if name in item:
                yield from _texts(item[name])
