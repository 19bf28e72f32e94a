"""What was known at a moment of the past: memories as they read then, from the revisions kept since.

A memory that has not changed since then is found as usual. One that has is found through the revision that held at
that moment, by its words; its meaning is measured on the spot, since old texts are not kept in the vector index.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from recollect.domain.memory import Memory, Revision
from recollect.domain.questions import Question
from recollect.domain.relevance import LEXICAL_POOL, Candidate, late_similarities
from recollect.errors import EmbedderFailed
from recollect.ports.records import Compare, OneOf, Query, Scope, TextQuery, passes
from recollect.services.core import Core
from recollect.services.gathering import Pool, gather
from recollect.services.indexing import _embedded as embedded
from recollect.services.narrowing import Condition, Narrowed


def gather_past(core: Core, scope: Scope, question: Question, narrowed: Narrowed, moment: datetime) -> Pool:
    untouched = (
        Condition("it was remembered later", Compare("created_at", "<=", moment)),
        Condition("it has changed since", Compare("updated_at", "<=", moment)),
    )
    pool = gather(core, scope, question, replace(narrowed, where=(*narrowed.where, *untouched)))
    unchanged = _current(core, scope, list(pool.facts))
    changed = _as_they_were(core, scope, question, narrowed, moment)
    pool.past = unchanged | changed
    pool.candidates += _candidates(core, pool, [changed[id] for id in changed if id not in pool.facts])
    for memory in changed.values():
        pool.facts[memory.id] = memory.__dict__
    return pool


def _current(core: Core, scope: Scope, ids: list[str]) -> dict[str, Memory]:
    if not ids:
        return {}
    return {memory.id: memory for memory in core.store.find(scope, Query(Memory, (OneOf("id", tuple(ids)),))).records}


def _as_they_were(
    core: Core, scope: Scope, question: Question, narrowed: Narrowed, moment: datetime
) -> dict[str, Memory]:
    held = (Compare("held_from", "<=", moment), Compare("held_to", ">", moment))
    hits = core.store.search_text(scope, TextQuery(Revision, question.terms, LEXICAL_POOL, where=held))
    if not hits:
        return {}
    found = core.store.find(scope, Query(Revision, (OneOf("id", tuple(hit.id for hit in hits)),))).records
    states = [Memory.model_validate(revision.state) for revision in found]
    return {memory.id: memory for memory in states if not memory.is_deleted and _was_wanted(memory, narrowed)}


def _was_wanted(memory: Memory, narrowed: Narrowed) -> bool:
    """Filters on the memory's own fields are checked on its state then; tags and citations are not kept by time."""
    return all(passes(memory, given) is not False for given in narrowed.filters())


def _candidates(core: Core, pool: Pool, memories: list[Memory]) -> list[Candidate]:
    """Old texts, measured on the spot by the same question vector and token codes as the others of the pool."""
    made = [Candidate(m.id, m.text, m.author, m.session_id, None, m.occurred_at, lexical=1.0) for m in memories]
    asked = pool.asked
    if core.embedder is None or asked is None or not memories:
        return made
    try:
        measured = embedded(core, core.embedder, memories)
    except EmbedderFailed:
        return made
    for candidate, (vector, codes) in zip(made, measured, strict=True):
        score = float(vector @ asked.vector)
        if asked.rephrased:
            candidate.similarity_rephrased = score
        else:
            candidate.similarity = score
        if asked.codes is not None and codes:
            candidate.late = late_similarities(asked.codes, [codes])[0]
    return made
