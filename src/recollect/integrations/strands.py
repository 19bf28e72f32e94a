"""A memory store for the memory manager of Strands Agents.

    store = RecollectMemoryStore(mem, user="ann", session="monday")
    agent = Agent(model=model, memory_manager=MemoryManager(stores=[store], add_tool_config=True))

The manager shows the model what a search finds, has tools to search and to add, and hands over what was said after
each turn: that becomes messages of a session of the user, each stored once. A tool to forget is ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from recollect.errors import MissingExtra
from recollect.integrations.kept_items import searchable
from recollect.integrations.memory_tools import TOOLS, MemoryTools
from recollect.integrations.scoped_memory import ScopedMemory, in_thread

try:
    from strands import tool
    from strands.memory import ExtractionConfig, InvocationTrigger, MemoryEntry, MemoryStore
except ImportError:
    raise MissingExtra("Strands Agents is not installed", remedy="pip install 'recollect[strands]'") from None

if TYPE_CHECKING:
    from strands.memory import AddMessagesContext, SearchOptions
    from strands.types.content import Message

    from recollect.interfaces.async_client import AsyncRecollect
    from recollect.interfaces.client import Recollect
    from recollect.services.memories.revise import Receipt
    from recollect.services.recall.hits import Hit


class RecollectMemoryStore(MemoryStore):
    """The memory of one user, in a project if one is named. What is said goes to `session`, by default one of its own.

    `extraction` says when it does, as for every store of the framework: after each turn if left out, False for never.
    """

    def __init__(
        self,
        mem: Recollect | AsyncRecollect,
        *,
        user: str,
        project: str | None = None,
        session: str | None = None,
        name: str = "recollect",
        description: str | None = "What the user said and what is known about the user",
        max_search_results: int | None = None,
        writable: bool = True,
        extraction: Any = None,
    ) -> None:
        self.name, self.description = name, description
        self.max_search_results, self.writable = max_search_results, writable
        each_turn = ExtractionConfig(trigger=[InvocationTrigger()]) if writable else False
        self.extraction = each_turn if extraction is None else extraction
        self.session = session or str(uuid4())
        self._mem, self._user, self._project = mem, user, project
        # What could not be stored, and the ids to try it with again. Numbers alone do not do: each agent has its own.
        self._failed: dict[tuple[int, str, str], str] = {}

    async def search(self, query: str, options: SearchOptions | None = None) -> list[MemoryEntry]:
        """What answers best, each with its id, status and sources."""
        limit = (options or {}).get("max_search_results") or self.max_search_results or 10
        hits = await in_thread(self._mem, lambda mem: self._theirs(mem).recall(query, limit))
        return [_entry(hit) for hit in hits]

    async def add(self, content: str, metadata: dict[str, Any] | None = None) -> Receipt:
        """Remember a fact; the same one is stored once."""
        return await in_thread(
            self._mem,
            lambda mem: self._theirs(mem).remember(content, metadata=metadata or {}, source_agent=self.name),
        )

    async def add_messages(self, messages: list[Message], context: AddMessagesContext | None = None) -> None:
        """Store what was said. What is handed over again after a failure is stored once."""
        numbers = (context.sequence_numbers if context is not None else None) or [*range(len(messages))]
        all = [(number, *_said(message)) for number, message in zip(numbers, messages, strict=True)]
        said = [(number, role, text) for number, role, text in all if text]
        ids = [self._failed.pop(one, "") or str(uuid4()) for one in said]
        ours = [{"role": role, "text": text, "otid": id} for (_, role, text), id in zip(said, ids, strict=True)]
        is_stored = False
        try:
            await in_thread(self._mem, lambda mem: self._theirs(mem).say(self.session, ours))
            is_stored = True
        finally:
            if not is_stored:  # or so it seems: what the service stored all the same is not stored again
                self._failed.update(zip(said, ids, strict=True))

    def get_tools(self) -> list[Any]:
        """A tool to forget, beside those of the manager."""
        return [self._forget_tool()] if self.writable else []

    def _forget_tool(self) -> Any:
        description, argument, meaning = TOOLS["forget"]
        schema = {"type": "object", "properties": {argument: {"type": "string", "description": meaning}}}

        @tool(name="forget_memory", description=description, inputSchema={"json": {**schema, "required": [argument]}})
        async def forget(id: str) -> str:
            return await in_thread(self._mem, lambda mem: MemoryTools(self._theirs(mem)).use("forget", id))

        return forget

    def _theirs(self, mem: Recollect) -> ScopedMemory:
        return ScopedMemory(mem, self._user, self._project)


def _said(message: Message) -> tuple[str, str]:
    text = "\n".join(block["text"] for block in message["content"] if block.get("text"))
    return message["role"], searchable(text) or ""


def _entry(hit: Hit) -> MemoryEntry:
    cited = [citation.source for citation in hit.citations]
    when = hit.occurred_at.date().isoformat()
    told = [f"id {hit.id}", hit.status, when, *(f"by {hit.author}" for _ in [0] if hit.author), *cited]
    metadata = {**hit.metadata, "id": hit.id, "type": hit.type, "status": hit.status, "at": hit.occurred_at.isoformat()}
    metadata |= {"author": hit.author, "score": round(hit.match, 4), "citations": cited}
    return MemoryEntry(content=f"{hit.text}\n({', '.join(told)})", metadata=metadata)
