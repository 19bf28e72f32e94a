"""LlamaIndex on Recollect: the memory of an agent or chat engine, a block for LlamaIndex's own memory, a retriever.

    memory = RecollectMemory(mem=mem, session_id="alice-1", user="alice")
    await FunctionAgent(…).run("Hello", memory=memory)

Messages are those of a session and come back exactly as they went in. What `context` finds for the last thing the user
said stands in front of it, framed as data, and is never stored with it. What is said is read for memories when the
assistant has answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from recollect.errors import MissingExtra
from recollect.integrations.kept_items import given_back, kept, searchable
from recollect.integrations.storable_text import clipped, storable

try:
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.base.llms.types import ChatMessage, MessageRole, TextBlock
    from llama_index.core.bridge.pydantic import Field
    from llama_index.core.memory import BaseMemory, BaseMemoryBlock
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
except ImportError:
    raise MissingExtra("LlamaIndex is not installed", remedy="pip install 'recollect[llamaindex]'") from None

if TYPE_CHECKING:
    from recollect.interfaces.client import Recollect
    from recollect.services.conversations.messages import MessageView
    from recollect.services.recall.hits import Hit

PART = "llamaindex_message"
PAGE = 100
CHARACTERS_PER_TOKEN = 4
LONGEST_QUESTION = 2_000  # of a long message the end, where people ask
ROLES = {
    MessageRole.USER: "user",
    MessageRole.ASSISTANT: "assistant",
    MessageRole.CHATBOT: "assistant",
    MessageRole.MODEL: "assistant",
    MessageRole.SYSTEM: "system",
    MessageRole.DEVELOPER: "system",
    MessageRole.TOOL: "tool",
    MessageRole.FUNCTION: "tool",
}


class _Talk:
    """A session, and what is remembered for whom."""

    def __init__(self, mem: Recollect, session: str, owners: Mapping[str, str | None]) -> None:
        self._mem = mem
        self._session = session
        self._owners: dict[str, Any] = {name: id for name, id in owners.items() if id is not None}

    def newest(self) -> Iterator[MessageView]:
        after = None
        while True:
            page = self._mem.message.list(self._session, first="newest", limit=PAGE, after=after)
            yield from page.messages
            after = page.next
            if after is None:
                return

    def add(self, messages: Sequence[ChatMessage], *, extract: bool) -> None:
        made = [_written(one) for one in messages]
        if not made:
            return
        whose = {name: id for name, id in self._owners.items() if name != "project"}
        self._mem.message.add_many([*made], session=self._session, **whose)
        if extract:
            self._mem.session.extract(self._session)

    def clear(self) -> None:
        self._mem.message.clear(self._session)

    def context(self, question: str, tokens: int, more: Mapping[str, Any]) -> str:
        """What is remembered for a question; empty where there is nothing."""
        asked = clipped(question[-LONGEST_QUESTION:]).strip()
        if not asked or tokens <= 0:
            return ""
        fields: dict[str, Any] = {"also_session": self._session, "tokens": tokens, **self._owners, **more}
        found = self._mem.context(asked, **fields)
        return found.text if found.used else ""


class RecollectMemory(BaseMemory):
    """The conversation of one session, with what is remembered for its last question.

    `token_limit` bounds the conversation that `get` gives, `tokens` what is recalled (0: nothing). `recall` holds
    further fields of `context`, such as {"statuses": ["verified"]}; memories alone are recalled unless it includes
    messages, since those of the session, the question among them, are given anyway.
    """

    mem: Any = Field(exclude=True)
    session_id: str
    user: str | None = None
    agent: str | None = None
    project: str | None = None
    tokens: int = 1000
    token_limit: int = 30_000
    recall: dict[str, Any] = Field(default_factory=dict)
    extract: bool = True

    @classmethod
    def class_name(cls) -> str:
        return "RecollectMemory"

    @classmethod
    def from_defaults(cls, **kwargs: Any) -> RecollectMemory:
        return cls(**kwargs)

    def get(self, input: str | None = None, **kwargs: Any) -> list[ChatMessage]:
        """The newest messages that fit, the last of the user's with what is remembered for it."""
        messages = self._fitting()
        asking = [place for place, one in enumerate(messages) if one.role == MessageRole.USER and one.content]
        question = messages[asking[-1]].content if asking else input
        chosen = {"include_messages": False, **self.recall}
        recalled = self._talk().context(question or "", self.tokens, chosen)
        if not recalled:
            return messages
        if not asking:
            return [*messages, ChatMessage(role=MessageRole.USER, content=recalled)]
        at = asking[-1]
        whole = messages[at].model_copy(update={"blocks": [TextBlock(text=recalled), *messages[at].blocks]})
        return [*messages[:at], whole, *messages[at + 1 :]]

    def get_all(self) -> list[ChatMessage]:
        return [_read(one) for one in self._talk().newest()][::-1]

    def put(self, message: ChatMessage) -> None:
        self.put_messages([message])

    def put_messages(self, messages: list[ChatMessage]) -> None:
        """Add them at the end: all, or none."""
        has_answer = any(ROLES.get(one.role) == "assistant" and one.content for one in messages)
        self._talk().add(messages, extract=self.extract and has_answer)

    def set(self, messages: list[ChatMessage]) -> None:
        """Have these in place of all that were there; agents do so when they change nothing, too."""
        if messages == self.get_all():
            return
        talk = self._talk()
        talk.clear()
        talk.add(messages, extract=False)

    def reset(self) -> None:
        """Delete the messages for good; what was remembered stays."""
        self._talk().clear()

    def _talk(self) -> _Talk:
        owners = {"user": self.user, "agent": self.agent, "project": self.project}
        return _Talk(self.mem, self.session_id, owners)

    def _fitting(self) -> list[ChatMessage]:
        """From the newest back; never beginning with an answer, or with results of tools whose call is left out."""
        room, found = self.token_limit * CHARACTERS_PER_TOKEN, list[ChatMessage]()
        for one in self._talk().newest():
            room -= len((one.text or "").encode())
            if room < 0 and found:
                break
            found.append(_read(one))
        else:
            return found[::-1]
        while found and found[-1].role not in (MessageRole.USER, MessageRole.SYSTEM):
            found.pop()
        return found[::-1]


class RecollectMemoryBlock(BaseMemoryBlock[str]):
    """For LlamaIndex's own `Memory`: what leaves its short-term memory is kept here, and what answers comes back."""

    name: str = "recollect"
    mem: Any = Field(exclude=True)
    session_id: str
    user: str | None = None
    agent: str | None = None
    project: str | None = None
    tokens: int = 1000
    recall: dict[str, Any] = Field(default_factory=dict)
    extract: bool = True

    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> str:
        asked = [one.content for one in messages or () if one.role == MessageRole.USER and one.content]
        if not asked:
            return ""
        return await asyncio.to_thread(self._talk().context, asked[-1] or "", self.tokens, self.recall)

    async def _aput(self, messages: list[ChatMessage]) -> None:
        await asyncio.to_thread(self._talk().add, messages, extract=self.extract)

    def _talk(self) -> _Talk:
        owners = {"user": self.user, "agent": self.agent, "project": self.project}
        return _Talk(self.mem, self.session_id, owners)


class RecollectRetriever(BaseRetriever):
    """What `recall` finds for a question, as nodes; `filters` are further fields of it, such as user and statuses."""

    def __init__(self, mem: Recollect, *, k: int = 4, **filters: Any) -> None:
        super().__init__()
        self._mem = mem
        self._k, self._filters = k, filters

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = self._mem.recall(query_bundle.query_str, limit=self._k, **self._filters)
        return [NodeWithScore(node=_node(hit), score=hit.match) for hit in found.hits]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


def _node(hit: Hit) -> TextNode:
    known = {
        "status": hit.status,
        "kind": hit.kind,
        "citation": hit.citations[0].source if hit.citations else None,
        "when": hit.occurred_at.isoformat(),
    }
    return TextNode(id_=hit.id, text=hit.text, metadata={**known, **hit.metadata})


def _written(message: ChatMessage) -> dict[str, Any]:
    role = ROLES.get(message.role, "user")
    call = message.additional_kwargs.get("tool_call_id")
    return {
        "role": role,
        "text": searchable(message.content or ""),
        "content": [kept(message.model_dump(mode="json"), PART)],
        "tool_call_id": storable(call) if isinstance(call, str) and role == "tool" else None,
    }


def _read(message: MessageView) -> ChatMessage:
    item = given_back(message, PART)
    if item is not None:
        return ChatMessage.model_validate(item)
    role = message.role if message.role in ("user", "assistant") else "system"
    return ChatMessage(role=MessageRole(role), content=message.text or "")
