"""Summaries: a shorter text, linked to everything that it covers.

A summary is a memory (kind `summary`; level stretch, session, day or project) that nothing depends on: what it covers
stays as it is, and `undo` deletes it without changing anything else. A digest of the covered memories is stored with it
and compared whenever it is shown or rolled up: if they differ, the summary is stale. Offline it is an extract of the
most important sentences; a configured language model writes it instead, and its text is refused if it has a number that
is not in what it read.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from operator import itemgetter
from typing import cast

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from recollect.domain.conversations import Message
from recollect.domain.memory import LONG_TERM, Memory, Relationship, canonical, space_name, standing_for
from recollect.domain.provenance import cite
from recollect.domain.record import Id, JsonObject, Text, clipped_within
from recollect.domain.text.extractive import Sentence, extract, numbers_in, sentences
from recollect.errors import InvalidInput
from recollect.ports.models import Prompt
from recollect.ports.query import Compare, Filter, OneOf, Order, Query, equal
from recollect.ports.steps import Absent, Delete, Require, Step
from recollect.services.learning.generation import GeneratedText, generated
from recollect.services.legal_holds import refuse_held
from recollect.services.memories.derived import SUMMARIZES, forgetting_steps
from recollect.services.memories.draft import RememberRequest
from recollect.services.memories.remember import fresh_steps
from recollect.services.requests import Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.transaction import commit, load, logged

# How many words a summary has on each level.
ROOM = {"stretch": 80, "session": 120, "day": 160, "project": 220}
# How many characters the language model is shown: the fewer items there are, the more of each.
SHOWN_OF_AN_ITEM, SHOWN_OF_ALL = 2000, 40_000
INSTRUCTIONS = """\
Summarise the following {what} in at most {words} words. Keep names, dates, numbers, decisions, preferences, open
questions, and who said what. Use only what is there; leave out small talk. Plain sentences, no headings."""
WHAT = {
    "stretch": "stretch of a conversation",
    "session": "parts of a conversation",
    "day": "summaries of one day",
    "project": "summaries of the days of a project",
}


class SummaryWording(BaseModel):
    """The answer expected of a language model."""

    summary: Text = Field(max_length=20_000)


@dataclass(frozen=True, slots=True)
class SummaryItem:
    """A memory or message that a summary covers, as it is now."""

    id: str
    text: str
    by: str | None
    at: datetime
    digest: str
    memory: Memory | None = None


@dataclass(frozen=True, slots=True)
class SummaryTask:
    """Something to summarise: its level, a key that is unique among summaries, its items and owners.

    `within` names an owner that every summary of this key has: by it that one is found, not among all there are.
    """

    level: str
    key: str
    items: tuple[SummaryItem, ...]
    owners: dict[str, str | None] = field(default_factory=dict)
    within: dict[str, str] = field(default_factory=dict)

    @property
    def is_this(self) -> tuple[Filter, ...]:
        owned = (equal(f"{name}_id", owner) for name, owner in self.within.items())
        return (equal("kind", "summary"), *owned, Compare("metadata", "=", self.key, key="summary_of"))

    @property
    def digest(self) -> str:
        return digest_of(self.items)


def digest_of(items: Sequence[SummaryItem]) -> str:
    return "s1:" + hashlib.sha256(canonical([[item.id, item.digest] for item in items])).hexdigest()[:32]


def memory_item(memory: Memory) -> SummaryItem:
    return SummaryItem(memory.id, memory.text, memory.author, memory.occurred_at, memory.content_hash, memory)


def message_item(message: Message) -> SummaryItem:
    text = message.text or ""
    by = message.name or message.role
    digest = hashlib.sha256(text.encode()).hexdigest()
    return SummaryItem(message.id, text, by, message.created_at, digest)


def write(tenant: Tenant, unit: SummaryTask) -> tuple[Memory, tuple[str, ...]]:
    """Store the summary of a unit; notes say why the answer of a language model was not used."""
    wording = _worded(tenant, unit)
    covered = [item.id for item in unit.items if item.memory]
    messages = [item.id for item in unit.items if not item.memory]
    request = RememberRequest(
        content={"text": wording.value.summary, "covers": covered, "messages": messages},
        kind="summary",
        level=unit.level,
        cites=[cite.log(message, context="message") for message in messages],
        metadata={"summary_of": unit.key, "digest": unit.digest, **wording.metadata},
        at=unit.items[-1].at,
        scope="project" if unit.owners.get("project") else "global",
        on_duplicate="keep",
        **cast(JsonObject, unit.owners),
    )
    memory, steps = fresh_steps(tenant, request)
    # Fails if the same was summarised meanwhile, or if an item was changed or erased.
    alone = Absent(Memory, (*unit.is_this, Compare("status", "!=", "archived")))
    unchanged = [
        Require(Memory, item.id, {"content_hash": item.digest}) if item.memory else Require(Message, item.id)
        for item in unit.items
    ]
    commit(tenant, [alone, *unchanged, *steps])
    return memory, wording.notes


def summaries_of(tenant: Tenant, level: str, *where: Filter) -> list[Memory]:
    """Those of one level, in order of time."""
    living = (equal("kind", "summary"), equal("level", level), Compare("status", "!=", "archived"))
    return tenant.find(Query(Memory, (*living, *where), (Order("occurred_at"),))).records


def serving(tenant: Tenant, level: str, *where: Filter) -> list[Memory]:
    """Those of one level, and those of a lower one that serve for it, because they are its only part."""
    alone = (
        equal("kind", "summary"),
        Compare("metadata", "=", True, key=standing_for(level)),
        Compare("status", "!=", "archived"),
    )
    return summaries_of(tenant, level, *where) + tenant.find(Query(Memory, (*alone, *where))).records


def _worded(tenant: Tenant, unit: SummaryTask) -> GeneratedText[SummaryWording]:
    room = ROOM[unit.level]
    read = _sentences(tenant, unit)
    chosen = extract(read, room)
    offline = SummaryWording(summary="\n".join(f"{one.by}: {one.text}" if one.by else one.text for one in chosen))
    most = max(SHOWN_OF_AN_ITEM, SHOWN_OF_ALL // max(len(unit.items), 1))
    material = "\n".join(
        f"{f'{item.by}: ' if item.by else ''}{clipped_within(item.text, most)}"
        for item in unit.items
        if item.text.strip()
    )
    prompt = Prompt(INSTRUCTIONS.format(what=WHAT[unit.level], words=room), material, most_tokens=room * 4)

    def objection(written: SummaryWording) -> str | None:
        words = len(written.summary.split())
        if not words or words > 3 * room:
            return f"it has {words} words instead of at most {room}"
        unheard = numbers_in(written.summary) - numbers_in(material)
        return f"it names {len(unheard)} numbers that are not in what it read" if unheard else None

    return generated(tenant, prompt, offline, objection)


def _sentences(tenant: Tenant, unit: SummaryTask) -> list[Sentence]:
    """The sentences of all items, each with the stored vector of its passage."""
    stored = _stored_vectors(tenant, [item.id for item in unit.items if item.memory])
    found: list[Sentence] = []
    for item in unit.items:
        found += sentences(item.text, item.by, partial(_at, stored.get(item.id, [])))
    return found or [Sentence("(nothing was said)")]


Placed = tuple[int, NDArray[np.float32]]
"""The start of a passage, and its vector."""


def _at(passages: Sequence[Placed], place: int) -> NDArray[np.float32] | None:
    """The vector of the last passage that starts at or before this position."""
    upto = bisect_right(passages, place, key=itemgetter(0))
    return passages[max(upto - 1, 0)][1] if passages else None


def _stored_vectors(tenant: Tenant, ids: Sequence[str]) -> dict[str, list[Placed]]:
    """The passages of each memory, in order."""
    if tenant.embedder is None or not ids:
        return {}
    space = space_name(LONG_TERM, tenant.embedder.model)
    rows = tenant.store.stored_vectors(tenant.scope, space, ids)
    found: dict[str, list[Placed]] = {}
    for id, vector, _, start, _ in sorted(rows, key=lambda row: row[3] or 0):
        found.setdefault(id, []).append((start or 0, np.frombuffer(vector, dtype="<f2").astype(np.float32)))
    return found


class UndoSummaryRequest(Request):
    """Which summary to delete."""

    id: Id = Field(description="The summary")


class UndoSummaryReply(Reply):
    """What was deleted: the summary and those above it that were made from it. What it covered is unchanged."""

    id: str
    also: list[str] = Field(default_factory=list)
    covers: list[str] = Field(default_factory=list)


def undo(tenant: Tenant, request: UndoSummaryRequest) -> UndoSummaryReply:
    """Delete a summary with those above it; rolling up again writes them again."""
    summary = load_summary(tenant, request.id)
    refuse_held(tenant, {"memory": [summary.id]})
    above = dropping(tenant, [summary.id])
    commit(tenant, [*above, logged(tenant, "delete", "undo summary", None, id=summary.id)])
    also = [step.id for step in above if isinstance(step, Delete) and step.id != summary.id]
    return UndoSummaryReply(id=summary.id, also=also, covers=covered_ids(summary))


def dropping(tenant: Tenant, ids: Sequence[str]) -> list[Step]:
    """Delete summaries and all summaries made from them."""
    return [*forgetting_steps(tenant, ids), *(Delete(Memory, id) for id in ids)]


def covered_ids(summary: Memory) -> list[str]:
    return [*summary.content.get("covers", []), *summary.content.get("messages", [])]


def load_summary(tenant: Tenant, id: str) -> Memory:
    memory = load(tenant, Memory, id)
    if memory.kind != "summary":
        raise InvalidInput(f"that memory is a {memory.kind}, not a summary", remedy="see summary.tree", id=id)
    return memory


def parts_of(tenant: Tenant, summary: Memory) -> list[SummaryItem]:
    """What a summary covers, as it is now, in its order; deleted items are left out."""
    covers, messages = tuple(summary.content.get("covers", [])), tuple(summary.content.get("messages", []))
    found: dict[str, SummaryItem] = {}
    if covers:
        living = (OneOf("id", covers), Compare("status", "!=", "archived"))
        found |= {one.id: memory_item(one) for one in tenant.find(Query(Memory, living)).records}
    if messages:
        said = tenant.find(Query(Message, (OneOf("id", messages),))).records
        found |= {one.id: message_item(one) for one in said}
    return sorted((found[id] for id in (*covers, *messages) if id in found), key=lambda item: (item.at, item.id))


def is_stale(summary: Memory, parts: Sequence[SummaryItem]) -> bool:
    return summary.metadata.get("digest") not in (None, digest_of(parts))


class ShowSummaryRequest(Request):
    """Which summary to show."""

    id: Id = Field(description="The summary")


class SummaryPart(Reply):
    id: str
    kind: str
    level: str
    text: str
    by: str | None = None
    at: datetime


class SummaryView(Reply):
    """A summary with what it covers; `stale` when that has changed since."""

    id: str
    level: str
    text: str
    stale: bool
    status: str
    at: datetime
    parts: list[SummaryPart]
    above: list[str] = Field(default_factory=list, description="The summaries made from this one")
    made_by: str = ""
    usage: JsonObject = Field(default_factory=dict, description="What the language model used, if one wrote it")


def show_summary(tenant: Tenant, request: ShowSummaryRequest) -> SummaryView:
    """One summary with everything that it covers."""
    summary = load_summary(tenant, request.id)
    tenant.journal.note(
        tenant.scope, "read", "show summary", [summary.id], session=summary.session_id, agent=summary.agent_id
    )
    parts = parts_of(tenant, summary)
    over = Query(Relationship, (equal("target_id", summary.id), equal("type", SUMMARIZES)))
    return SummaryView(
        id=summary.id,
        level=summary.level,
        text=summary.text,
        stale=is_stale(summary, parts),
        status=summary.status,
        at=summary.occurred_at,
        parts=[part_view(item) for item in parts],
        above=sorted(id for (id,) in tenant.select(over, ("source_id",))),
        made_by=str(summary.metadata.get("made_by", "")),
        usage=summary.metadata.get("usage", {}),
    )


def part_view(item: SummaryItem) -> SummaryPart:
    kind, level = (item.memory.kind, item.memory.level) if item.memory else ("message", "item")
    return SummaryPart(id=item.id, kind=kind, level=level, text=item.text, by=item.by, at=item.at)
