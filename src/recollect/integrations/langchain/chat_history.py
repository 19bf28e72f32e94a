"""LangChain's chat history on our sessions and messages.

    history = RecollectChatMessageHistory(mem, "alice-1", user="alice")
    chain = RunnableWithMessageHistory(runnable, lambda id: RecollectChatMessageHistory(mem, id))

Each message is one of the session, so it is searched, listed, exported and deleted like any other, and comes back
exactly as it went in. Messages that others added to the session are shown as plain ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    message_to_dict,
    messages_from_dict,
)

from recollect.integrations.kept_items import given_back, kept, searchable
from recollect.integrations.storable_text import storable

if TYPE_CHECKING:
    from recollect.interfaces.client import Recollect
    from recollect.services.conversations.messages import MessageView

PART = "langchain_message"
PAGE = 1000
ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "tool"}


class RecollectChatMessageHistory(BaseChatMessageHistory):
    """The messages of one session; it is made with the first. `user` and `agent` say whose it is."""

    def __init__(self, mem: Recollect, session_id: str, *, user: str | None = None, agent: str | None = None) -> None:
        self.session_id = session_id
        self._mem = mem
        self._user, self._agent = user, agent

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]  # the base class has an attribute, and says it may be this
        """All messages, the oldest first."""
        return [_read(one) for one in self._all()]

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add them at the end: all, or none."""
        if messages:
            made = [_written(one) for one in messages]
            self._mem.message.add_many([*made], session=self.session_id, user=self._user, agent=self._agent)

    def clear(self) -> None:
        """Delete all messages for good."""
        self._mem.message.clear(self.session_id)

    def _all(self) -> Iterator[MessageView]:
        after = None
        while True:
            page = self._mem.message.list(self.session_id, limit=PAGE, after=after)
            yield from page.messages
            after = page.next
            if after is None:
                return


def _written(message: BaseMessage) -> dict[str, Any]:
    role = ROLES.get(message.type, "user")
    call = getattr(message, "tool_call_id", None)
    return {
        "role": role,
        "text": searchable(_text(message.content)),
        "content": [kept(message_to_dict(message), PART)],
        "tool_call_id": storable(call) if isinstance(call, str) and role == "tool" else None,
        "name": storable(message.name) if message.name else None,
    }


def _text(content: object) -> str:
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    return "\n".join(text for text in texts if isinstance(text, str))


def _read(message: MessageView) -> BaseMessage:
    item = given_back(message, PART)
    if item is not None:
        return messages_from_dict([item])[0]
    text = message.text or ""
    if message.role == "tool":
        return ToolMessage(text, tool_call_id=message.tool_call_id or "")
    if message.role == "system":
        return SystemMessage(text)
    return AIMessage(text) if message.role == "assistant" else HumanMessage(text)
