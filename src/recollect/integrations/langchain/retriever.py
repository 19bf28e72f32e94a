"""LangChain's retriever on `recall`.

retriever = RecollectRetriever(mem=mem, user="alice", k=5)
documents = retriever.invoke("which tea?")
"""

from __future__ import annotations

import asyncio
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import Field

from recollect.integrations.langchain.documents import document_of


class RecollectRetriever(BaseRetriever):
    """What `recall` finds for a question; `filters` are further fields of it, such as {"statuses": ["verified"]}."""

    mem: Any
    """An open memory, local or of a service."""
    k: int = 4
    user: str | None = None
    agent: str | None = None
    session: str | None = None
    project: str | None = None
    filters: dict[str, Any] = Field(default_factory=dict)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None, **filters: Any
    ) -> list[Document]:
        return self._found(query, k, filters)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None, **filters: Any
    ) -> list[Document]:
        return await asyncio.to_thread(self._found, query, k, filters)

    def _found(self, query: str, k: int | None, filters: dict[str, Any]) -> list[Document]:
        owners = {"user": self.user, "agent": self.agent, "session": self.session, "project": self.project}
        chosen = {name: id for name, id in owners.items() if id is not None}
        asked = {**chosen, **self.filters, **filters}
        return [document_of(hit) for hit in self.mem.recall(query, limit=k or self.k, **asked).hits]
