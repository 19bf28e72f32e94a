"""Summaries as a tree: from the top down, each with what it covers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from pydantic import Field

from recollect.domain.memory import Memory, standing_for
from recollect.domain.record import Id, clipped
from recollect.ports.query import Filter, equal
from recollect.services.learning.summaries import (
    SummaryItem,
    covered_ids,
    is_stale,
    load_summary,
    memory_item,
    parts_of,
    summaries_of,
)
from recollect.services.requests import Reply, Request
from recollect.services.tenant import Tenant

SHOWN_TEXT = 200


class SummaryTreeRequest(Request):
    """Where to start: one summary, or the highest ones of a session, of a project or of all."""

    id: Id | None = Field(None, description="This summary and all below it")
    session: Id | None = Field(None, description="The summaries of this session")
    project: Id | None = Field(None, description="The summaries of this project")
    depth: int = Field(2, ge=1, le=10, description="How many levels to show")
    limit: int = Field(100, ge=1, le=1000, description="How many lines at most")


class TreeLine(Reply):
    """One line of the tree; `depth` says how far it is indented."""

    depth: int
    id: str
    level: str
    kind: str
    text: str
    stale: bool = False
    at: datetime


class SummaryTree(Reply):
    lines: list[TreeLine]
    more: bool = False


def tree(tenant: Tenant, request: SummaryTreeRequest) -> SummaryTree:
    """Summaries from the top down, newest first."""
    lines: list[TreeLine] = []
    for top in _tops(tenant, request):
        for line in _branch(tenant, memory_item(top), 0, request.depth):
            if len(lines) == request.limit:
                return SummaryTree(lines=lines, more=True)
            lines.append(line)
    return SummaryTree(lines=lines)


def _tops(tenant: Tenant, request: SummaryTreeRequest) -> list[Memory]:
    if request.id:
        return [load_summary(tenant, request.id)]
    where: list[Filter] = [
        equal(f"{name}_id", value) for name in ("session", "project") if (value := getattr(request, name))
    ]
    found = [one for level in ("project", "day", "session", "stretch") for one in summaries_of(tenant, level, *where)]
    below = {id for one in found for id in covered_ids(one)}
    tops = [one for one in found if one.id not in below]
    return sorted(tops, key=lambda one: (one.occurred_at, one.id), reverse=True)


def level_of(memory: Memory) -> str:
    """The highest level that a summary serves for."""
    higher = [level for level in ("project", "day", "session") if memory.metadata.get(standing_for(level))]
    return higher[0] if higher and memory.kind == "summary" else memory.level


def _branch(tenant: Tenant, item: SummaryItem, depth: int, levels: int) -> Iterator[TreeLine]:
    summary = item.memory if item.memory and item.memory.kind == "summary" else None
    parts = parts_of(tenant, summary) if summary else []
    text = " ".join(item.text.split())
    yield TreeLine(
        depth=depth,
        id=item.id,
        level=level_of(item.memory) if item.memory else "item",
        kind=item.memory.kind if item.memory else "message",
        text=clipped(text, SHOWN_TEXT),
        stale=bool(summary and is_stale(summary, parts)),
        at=item.at,
    )
    if depth + 1 < levels:
        for part in parts:
            yield from _branch(tenant, part, depth + 1, levels)
