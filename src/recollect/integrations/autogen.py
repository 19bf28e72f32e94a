"""AutoGen's memory protocol on Recollect: what is known about the user, in front of the model before it answers.

agent = AssistantAgent("helper", client, memory=[RecollectMemory(mem, user="ann")])
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from recollect.errors import InvalidInput, MissingExtra
from recollect.integrations.memory_tools import TOKENS
from recollect.integrations.scoped_memory import ScopedMemory, in_thread

try:
    from autogen_core.memory import Memory, MemoryContent, MemoryMimeType, MemoryQueryResult, UpdateContextResult
    from autogen_core.models import UserMessage
except ImportError:
    raise MissingExtra("AutoGen is not installed", remedy="pip install 'recollect[autogen]'") from None

if TYPE_CHECKING:
    from autogen_core import CancellationToken
    from autogen_core.model_context import ChatCompletionContext

    from recollect.interfaces.async_client import AsyncRecollect
    from recollect.interfaces.client import Recollect
    from recollect.services.recall.hits import Hit

SOURCE = "memory"  # who says in the context of the model what was recalled


class RecollectMemory(Memory):
    """The memory of one user, in a project if one is named; `name` is that under which it is added to."""

    def __init__(
        self,
        mem: Recollect | AsyncRecollect,
        *,
        user: str,
        project: str | None = None,
        name: str = "autogen",
        tokens: int = TOKENS,
        limit: int = 10,
    ) -> None:
        self.name = name
        self._mem, self._user, self._project = mem, user, project
        self._tokens, self._limit = tokens, limit

    async def update_context(self, model_context: ChatCompletionContext) -> UpdateContextResult:
        """Add what is known about the last message to what the model is shown, as data and not as instruction."""
        question = _question(await model_context.get_messages())
        found = await in_thread(self._mem, lambda mem: self._theirs(mem).context(question, self._tokens))
        if found:
            await model_context.add_message(UserMessage(content=found, source=SOURCE))
        told = [MemoryContent(content=found, mime_type=MemoryMimeType.TEXT)] if found else []
        return UpdateContextResult(memories=MemoryQueryResult(results=told))

    async def query(
        self, query: str | MemoryContent = "", cancellation_token: CancellationToken | None = None, **given: Any
    ) -> MemoryQueryResult:
        """What answers best, each with its id, status and citations."""
        question = query if isinstance(query, str) else _text(query)
        limit = int(given.get("limit", self._limit))
        hits = await in_thread(self._mem, lambda mem: self._theirs(mem).recall(question, limit))
        return MemoryQueryResult(results=[_content(hit) for hit in hits])

    async def add(self, content: MemoryContent, cancellation_token: CancellationToken | None = None) -> None:
        """Remember a text, or JSON as a text; the same text is stored once."""
        text, metadata = _text(content), dict(content.metadata or {})
        await in_thread(
            self._mem, lambda mem: self._theirs(mem).remember(text, metadata=metadata, source_agent=self.name)
        )

    async def clear(self) -> None:
        """Erase what was added here under this name. Other memories of the user stay."""
        await in_thread(self._mem, lambda mem: self._theirs(mem).erase_all(source_agent=self.name))

    async def close(self) -> None:
        """The memory stays open: who opened it closes it."""

    def _theirs(self, mem: Recollect) -> ScopedMemory:
        return ScopedMemory(mem, self._user, self._project)


def _question(messages: list[Any]) -> str:
    """The last that somebody said to the agent."""
    asked = [one.content for one in messages if isinstance(one, UserMessage) and one.source != SOURCE]
    parts = asked[-1:] if not asked or isinstance(asked[-1], str) else asked[-1]
    return "\n".join(part for part in parts if isinstance(part, str))


def _text(content: MemoryContent) -> str:
    if isinstance(content.content, str):
        return content.content
    if isinstance(content.content, dict):
        return json.dumps(content.content, ensure_ascii=False)
    raise InvalidInput("only text and JSON are remembered", remedy="describe the picture or file in words")


def _content(hit: Hit) -> MemoryContent:
    cited = [citation.source for citation in hit.citations]
    told = {
        "id": hit.id,
        "type": hit.type,
        "status": hit.status,
        "author": hit.author,
        "at": hit.occurred_at.isoformat(),
        "score": round(hit.match, 4),
        "citations": cited,
    }
    return MemoryContent(content=hit.text, mime_type=MemoryMimeType.TEXT, metadata={**hit.metadata, **told})
