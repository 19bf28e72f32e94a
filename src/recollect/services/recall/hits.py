"""What a recall shows: each hit with its citations, tags, best passage and the reasons for its rank."""

from __future__ import annotations

from collections.abc import Sequence, Set
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal

from pydantic import Field

from recollect.domain.memory import Tag, message_id
from recollect.domain.provenance import Citation, cite
from recollect.domain.text.passages import Passage
from recollect.domain.text.questions import Question
from recollect.domain.text.relevance import Ranked
from recollect.domain.text.tokenizer import is_paired, terms_asked, terms_of
from recollect.ports.query import OneOf, Query
from recollect.services.memories.content_hashes import left_out_note
from recollect.services.recall.best_passage import best_passages
from recollect.services.recall.candidates import Pool
from recollect.services.recall.memory_rows import MemoryRow
from recollect.services.requests import Reply
from recollect.services.tenant import Tenant
from recollect.services.trust import citations
from recollect.services.trust.citations import CitationView

MOST_REASONED = 20_000  # characters of a hit that are looked through for its reasons


class PassageView(Reply):
    """The part of a long memory that answers: `text` is what stands in it from `start` to `end`."""

    text: str
    start: int
    end: int


class ViaLink(Reply):
    """The link by which a memory came along: from a hit, or from one that came along with a hit."""

    id: str = Field(description="The memory at the other end of the link")
    type: str
    direction: Literal["to", "from"] = Field(description="Whether the link goes to this memory, or starts from it")
    hops: int = Field(description="Over how many links it was reached")


class Hit(Reply):
    """A recalled memory or message. `why` says in words why it stands here, `parts` in numbers that add up to `score`.

    The score compares the hits of one question; `match`, from 0 to 1, can be compared across questions. Of a long
    memory `passage` is the part that answers best; a short one has none. A message has the `type` message, a `role` and
    the status "said": who said it and when is known, and nothing more is claimed.
    """

    type: Literal["memory", "message"] = "memory"
    id: str
    text: str
    score: float
    match: float
    why: str
    parts: dict[str, float]
    kind: str
    status: str
    confidence: float
    author: str | None = None
    occurred_at: datetime
    passage: PassageView | None = None
    tags: list[str] = Field(default_factory=list)
    citations: list[CitationView] = Field(default_factory=list)
    content: dict[str, Any] = Field(default_factory=dict)
    metadata: dict[str, Any] = Field(default_factory=dict)
    scope: str = "global"
    user: str | None = None
    agent: str | None = None
    session: str | None = None
    project: str | None = None
    via: ViaLink | None = Field(None, description="Set where it came along by a link (`follow`), not by its own words")
    role: str | None = Field(None, description="Of a message: user, assistant or tool")


def without_repeats(tenant: Tenant, best: Sequence[Ranked], pool: Pool, most: int) -> list[Ranked]:
    """The best, without messages that one of the memories among them cites or repeats word for word.

    A message that was revised since it was cited says something else now: it stays.
    """
    said = {hit.id: pool.rows[hit.id] for hit in best if hit.id in pool.rows and pool.rows[hit.id].role is not None}
    if not said:
        return list(best[:most])
    sources = {cite.log(message_id(key)).source(): key for key in said}
    citing = Query(Citation, (OneOf("source", tuple(sources)),))
    told: dict[str, set[str]] = {}
    for memory, source, at in tenant.select(citing, ("memory_id", "source", "created_at")):
        if at.isoformat() >= said[sources[source]].metadata.get("revised_at", ""):
            told.setdefault(memory, set()).add(sources[source])
    texts: dict[str, set[str]] = {}
    for key, row in said.items():
        texts.setdefault(row.text.strip(), set()).add(key)
    shown = list(best[:most])
    while True:
        memories = [hit.id for hit in shown if hit.id in pool.rows and hit.id not in said]
        repeated = {key for id in memories for key in told.get(id, set()) | texts.get(pool.rows[id].text, set())}
        kept = [hit for hit in best if hit.id not in repeated][:most]
        if kept == shown:
            return kept
        shown = kept


def hits_of(tenant: Tenant, best: Sequence[Ranked], pool: Pool, question: Question) -> list[Hit]:
    """The best of a pool as they are shown. One that is damaged is left out, and a note of the pool says so."""
    rows = {hit.id: pool.rows[hit.id] for hit in best if hit.id in pool.rows}
    if pool.memories is not None:
        rows = pool.memories.whole(rows)
    for row in list(rows.values()):
        damage = left_out_note(row) if row.role is None else None
        if damage is not None:
            pool.notes.append(damage)
            del rows[row.id]
    if not rows:
        return []
    of_these = (OneOf("memory_id", tuple(id for id, row in rows.items() if row.role is None)),)
    cited, tagged = (pool.ahead or tenant).select_each(
        [(Query(Citation, of_these), ("memory_id", *citations.SHOWN)), (Query(Tag, of_these), ("memory_id", "tag"))]
    )
    views = citations.by_memory(tenant, cited)
    tags: dict[str, list[str]] = {}
    for id, tag in tagged:
        tags.setdefault(id, []).append(tag)
    passages = best_passages(pool, question, {id: row.text for id, row in rows.items()})
    return [
        _hit(rows[hit.id], hit, views.get(hit.id, []), sorted(tags.get(hit.id, [])), passages.get(hit.id), question)
        for hit in best
        if hit.id in rows
    ]


def _hit(
    row: MemoryRow,
    hit: Ranked,
    cited: list[CitationView],
    tags: list[str],
    passage: Passage | None,
    question: Question,
) -> Hit:
    return Hit(
        type="memory" if row.role is None else "message",
        id=row.id if row.role is None else message_id(row.id),
        text=row.text,
        score=round(hit.score, 4),
        match=round(hit.match, 4),
        why=_why(row, hit, cited, question),
        parts={name: round(value, 4) for name, value in hit.parts.items()},
        kind=row.kind,
        status=row.status,
        confidence=row.confidence,
        author=row.author,
        occurred_at=row.occurred_at,
        passage=_passage(row.text, passage),
        tags=tags,
        citations=cited,
        content=row.content,
        metadata=row.metadata,
        scope=row.scope,
        user=row.user_id,
        agent=row.agent_id,
        session=row.session_id,
        project=row.project_id,
        role=row.role,
    )


def _passage(text: str, found: Passage | None) -> PassageView | None:
    if found is None:
        return None
    return PassageView(text=text[found.start : found.end].strip(), start=found.start, end=found.end)


def _why(row: MemoryRow, hit: Ranked, cited: list[CitationView], question: Question) -> str:
    shared = _shared(question, row.text)
    reasons = [f"shares {', '.join(shared[:4])}"] if shared else []
    if hit.parts.get("similarity", 0) + hit.parts.get("late", 0) > 1 or "nearness" in hit.parts:
        reasons.append("is near in meaning")
    if hit.parts.get("author", 0) > 0 and row.author:
        reasons.append(f"was said by {row.author}")
    if hit.parts.get("date", 0) > 0:
        reasons.append(f"is from {row.moment}")
    if hit.parts.get("session", 0) > 0.5:
        reasons.append("stands in a session about this")
    trust = f"a message of {row.moment}" if row.role else citations.trust_in_words(row.status, cited)
    return f"{'; '.join(reasons) or 'is the nearest there is'} [{trust}]"


def _shared(question: Question, text: str) -> list[str]:
    """The question's words that the text has; of a run of characters without spaces, the pairs."""
    said = terms_of([text[:MOST_REASONED]])
    shared: dict[str, None] = {}
    for word, terms, is_run in _words_of(question.terms):
        if is_run:
            shared |= dict.fromkeys(term for term in terms if term in said)
        elif said.keys() >= terms:
            shared[word] = None
    return list(shared)


@lru_cache(maxsize=100)
def _words_of(asked: tuple[str, ...]) -> list[tuple[str, Set[str], bool]]:
    """Each word of a question, its terms, and whether it is a run: every hit is held against the same ones."""
    return [(word, terms_asked([word]).keys(), is_paired(word)) for word in asked]
