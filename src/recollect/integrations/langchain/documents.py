"""Memories as LangChain's documents: what is known of one stands in its metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document

if TYPE_CHECKING:
    from recollect.services.recall.hits import Hit


def document_of(hit: Hit) -> Document:
    """A hit with its own metadata, and beside it what Recollect knows; its own members go first."""
    known: dict[str, Any] = {"id": hit.id, "type": hit.type, "when": hit.occurred_at.isoformat(), **details_of(hit)}
    return Document(page_content=hit.text, metadata={**known, **hit.metadata}, id=hit.id)


def details_of(hit: Hit) -> dict[str, Any]:
    """How far it can be trusted, where it comes from, and how well it answers."""
    return {
        "status": hit.status,
        "kind": hit.kind,
        "score": hit.match,
        "why": hit.why,
        "citation": hit.citations[0].source if hit.citations else None,
        "citations": [{"source": one.source, "state": one.state} for one in hit.citations],
    }
