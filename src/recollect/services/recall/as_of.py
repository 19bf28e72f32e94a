"""What was known at a moment of the past: memories and messages as they read then, from the revisions kept since.

What has not changed since then is found as usual. A memory that has is found through the revision that held at that
moment, by its words or by what it means today; the old text's meaning is measured on the spot. A message that was
revised since is found by the words it had.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from recollect.domain.conversations import Message
from recollect.domain.memory import Memory, Revision
from recollect.domain.text.late_interaction import late_similarities
from recollect.domain.text.questions import Question
from recollect.domain.text.relevance import DENSE_POOL, LEXICAL_POOL, Candidate, Ranking
from recollect.errors import EmbedderFailed
from recollect.ports.query import AnyOf, Compare, OneOf, Query, TextQuery, equal, passes
from recollect.services.memories.content_hashes import check_revision
from recollect.services.memories.embedded_records import embedded_memory
from recollect.services.memories.embeddings import GivenVectors, embedded
from recollect.services.recall.candidates import Pool, gather
from recollect.services.recall.filters import Condition, SearchConditions
from recollect.services.recall.meaning import VectorSearch
from recollect.services.recall.memory_rows import MESSAGE_FIELDS, MemoryRow, MemoryRows, message_row, row_of
from recollect.services.recall.message_conditions import MessageConditions
from recollect.services.recall.near_depth import Conditions
from recollect.services.tenant import Core, Tenant


def gather_past(
    tenant: Tenant,
    question: Question,
    conditions: SearchConditions,
    messages: MessageConditions | None,
    moment: datetime,
    given: GivenVectors | None,
    limit: int,
) -> Pool:
    """The pool as it would have been at that moment."""
    untouched = (
        Condition("it was remembered later", Compare("created_at", "<=", moment)),
        Condition("it has changed since", Compare("updated_at", "<=", moment)),
    )
    still: list[Conditions] = [replace(conditions, where=(*conditions.where, *untouched))]
    if messages is not None:
        as_said = (*messages.where, *(one.filter for one in untouched))
        still.append(replace(messages, where=as_said, is_narrowed=True))
    pool = gather(tenant, question, still, given=given, limit=limit, whole=True)
    pool.is_past = True
    changed, said = _as_they_were(tenant, question, conditions, messages, moment, pool)
    pool.candidates += _candidates(tenant, pool, [changed[id] for id in changed if id not in pool.rows])
    pool.candidates += [
        Candidate(id, row.text, row.author, row.session_id, None, row.occurred_at, lexical=1.0)
        for id, row in said.items()
        if id not in pool.rows
    ]
    pool.ranking = Ranking(question, pool.candidates)
    pool.rows |= {memory.id: row_of(memory) for memory in changed.values()} | said
    return pool


def _as_they_were(
    tenant: Tenant,
    question: Question,
    conditions: SearchConditions,
    messages: MessageConditions | None,
    moment: datetime,
    pool: Pool,
) -> tuple[dict[str, Memory], dict[str, MemoryRow]]:
    """Memories changed since, in the state they were in: found by the words of then, or by their meaning now. And
    messages revised since, found by the words of then.
    """
    held = (Compare("held_from", "<=", moment), Compare("held_to", ">", moment))
    hits = tenant.search_text(TextQuery(Revision, question.terms, LEXICAL_POOL, where=held))
    by_words = OneOf("id", tuple(hit.id for hit in hits))
    by_their_meaning = OneOf("memory_id", tuple(_near_now(tenant, conditions, pool)))
    found = tenant.find(Query(Revision, (AnyOf((by_words, by_their_meaning)), *held))).records
    states = [Memory.model_validate(check_revision(one).state) for one in found if one.message_id is None]
    wanted = [one for one in states if not one.is_deleted and _was_wanted(tenant, one, conditions)]
    former = [Message.model_validate(one.state) for one in found if one.message_id is not None]
    said = [message for message in former if messages is not None and _was_said(message, messages)]
    rows = (message_row(*(getattr(one, name) for name in MESSAGE_FIELDS)) for one in said)
    return {memory.id: memory for memory in wanted}, {row.id: row for row in rows}


def _was_said(message: Message, conditions: MessageConditions) -> bool:
    return not message.is_deleted and all(passes(message, given) for given in conditions.filters())


def _near_now(tenant: Tenant, conditions: SearchConditions, pool: Pool) -> list[str]:
    """What is near in meaning today, whatever else has changed about it: most changes leave the text alone."""
    if pool.vectors is None:
        return []
    anything = replace(conditions, facets={}, where=(), alive=())
    search = VectorSearch(tenant, [anything], pool.vectors.question)
    return list(search.nearest(anything, MemoryRows(tenant, anything.filters()), DENSE_POOL, pool.notes))


def _was_wanted(tenant: Tenant, memory: Memory, conditions: SearchConditions) -> bool:
    """Filters on the memory's own fields are checked on its state then; tags and citations are today's."""
    for given in conditions.filters():
        verdict = passes(memory, given)
        if verdict is None:
            today = Query(Memory, (equal("id", memory.id), given), deleted="yes")
            verdict = tenant.count(today) == 1
        if not verdict:
            return False
    return True


def _candidates(core: Core, pool: Pool, memories: list[Memory]) -> list[Candidate]:
    """Old texts, measured on the spot by the same question vector and token codes as the others of the pool."""
    made = [Candidate(m.id, m.text, m.author, m.session_id, None, m.occurred_at, lexical=1.0) for m in memories]
    asked = pool.vectors.question if pool.vectors else None
    if core.embedder is None or asked is None or asked.model != core.embedder.model or not memories:
        return made
    try:
        measured = embedded(core, core.embedder, [embedded_memory(one) for one in memories])
    except EmbedderFailed:
        return made
    for candidate, passages in zip(made, measured, strict=True):
        score = max(float(one.vector @ asked.vector) for one in passages)
        if asked.rephrased:
            candidate.similarity_rephrased = score
        else:
            candidate.similarity = score
        codes = [one.codes for one in passages if one.codes]
        if asked.codes is not None and codes:
            found = (late for late in late_similarities(asked.codes, codes) if late is not None)
            candidate.late = max(found, default=None)
    return made
