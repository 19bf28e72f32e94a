"""The pool that recall ranks: suggested by the indexes, read from the records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from recollect.domain.memory import Memory
from recollect.domain.text.passages import PASSAGE_TOKENS
from recollect.domain.text.questions import Question
from recollect.domain.text.relevance import (
    DENSE_POOL,
    LATE_POOL,
    LEXICAL_POOL,
    NEIGHBOUR_REACH,
    NEIGHBOURS_OF,
    Candidate,
    Ranked,
    Ranking,
    late_similarities,
)
from recollect.ports.query import Beside, TextQuery
from recollect.services.memories.embeddings import GivenVectors
from recollect.services.recall.filters import NO_SUMMARY, SearchConditions
from recollect.services.recall.meaning import VectorSearch, vector_of
from recollect.services.recall.memory_rows import MemoryRow, MemoryRows
from recollect.services.tenant import Tenant


@dataclass(slots=True)
class Pool:
    """The candidates with what was read of them; `ranked` where their order is that of nearness alone."""

    candidates: list[Candidate] = field(default_factory=list)
    rows: dict[str, MemoryRow] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    vectors: VectorSearch | None = None
    ranking: Ranking | None = None
    ranked: list[Ranked] | None = None
    is_past: bool = False


def gather(
    tenant: Tenant,
    question: Question,
    conditions: SearchConditions,
    *,
    given: GivenVectors | None = None,
    limit: int = 10,
) -> Pool:
    """Candidates by words, by meaning and by standing beside one; each proven on the records."""
    pool, depth = Pool(), max(1, limit // 50)
    rows = MemoryRows(tenant, conditions.filters(), pool.notes)
    with tenant.turn:
        words = TextQuery(
            Memory, question.terms, LEXICAL_POOL * depth, conditions.facets, conditions.unknown_to_indexes()
        )
        lexical = {hit.id: hit.score for hit in tenant.search_text(words)}
        pool.rows = rows.passing(list(lexical))
    _compare_with(tenant, question, conditions, given, pool)
    with tenant.turn:
        near = pool.vectors.nearest(rows, DENSE_POOL * depth, pool.notes) if pool.vectors else {}
        pool.rows |= rows.passing(list(near))
        best = [*list(lexical)[:NEIGHBOURS_OF], *list(near)[:NEIGHBOURS_OF]]
        around = _stretches(tenant, pool.rows, best)
        pool.rows |= rows.passing(list(dict.fromkeys(id for ids in around for id in ids)))
        positions = _positions(around)
        pool.candidates = [_candidate(row, lexical, positions) for row in pool.rows.values()]
        pool.ranking = Ranking(question, pool.candidates)
        if pool.vectors:
            _score_meaning(pool, pool.vectors, pool.ranking, near)
    return pool


def gather_near(
    tenant: Tenant, question: Question, conditions: SearchConditions, given: GivenVectors | None, limit: int
) -> Pool:
    """Only the nearest in meaning, in the order of their similarity: what a vector store answers."""
    pool = Pool()
    rows = MemoryRows(tenant, conditions.filters(), pool.notes)
    _compare_with(tenant, question, conditions, given, pool)
    with tenant.turn:
        near = pool.vectors.nearest(rows, limit, pool.notes) if pool.vectors else {}
        pool.rows = rows.passing(list(near))
    pool.ranked = [Ranked(id, near[id], max(near[id], 0.0), {"nearness": near[id]}) for id in near]
    return pool


def _compare_with(
    tenant: Tenant, question: Question, conditions: SearchConditions, given: GivenVectors | None, pool: Pool
) -> None:
    """Outside of the turn: a model may be slow."""
    vector = vector_of(tenant, question, conditions, pool.rows.values(), given, pool.notes)
    pool.vectors = VectorSearch(tenant, conditions, vector) if vector else None


def _stretches(tenant: Tenant, rows: Mapping[str, MemoryRow], best: Sequence[str]) -> list[list[str]]:
    """The ids around each of the best that stands in a session, in the order of the session."""
    placed = [rows[id] for id in dict.fromkeys(best) if id in rows and rows[id].session_id]
    if not placed:
        return []
    places = tuple((row.session_id, row.occurred_at, row.id) for row in placed)
    found = tenant.beside(Beside(Memory, "session_id", "occurred_at", places, NEIGHBOUR_REACH, (NO_SUMMARY,)))
    return [ids for row, ids in zip(placed, found, strict=True) if row.id in ids]


def _positions(stretches: Sequence[Sequence[str]]) -> dict[str, int]:
    """Places of the members of some stretches of sessions, right as far as the stretches reach and overlap.

    Numbers that are further apart than any neighbour's reach say nothing: what lies between was not read.
    """
    following = {one: after for ids in stretches for one, after in pairwise(ids)}
    led_to = set(following.values())
    positions: dict[str, int] = {}
    place = 0
    for first in dict.fromkeys(id for ids in stretches for id in ids):
        if first in led_to:
            continue
        at: str | None = first
        while at is not None:
            positions[at] = place
            at, place = following.get(at), place + 1
        place += NEIGHBOUR_REACH
    return positions


def _candidate(row: MemoryRow, lexical: Mapping[str, float], positions: Mapping[str, int]) -> Candidate:
    return Candidate(
        id=row.id,
        text=row.text,
        author=row.author,
        session_id=row.session_id,
        position=positions.get(row.id),
        at=row.occurred_at,
        lexical=lexical.get(row.id, 0.0),
    )


def _score_meaning(pool: Pool, vectors: VectorSearch, ranking: Ranking, near: Mapping[str, float]) -> None:
    """The cosine of every candidate, then late interaction for the best of a first ranking."""
    asked = vectors.question
    others = [id for id in pool.rows if id not in near]
    # In one reading: the others for their cosine, all for their token codes, and long ones for their best passage.
    needed = [id for id, row in pool.rows.items() if len(row.text) > PASSAGE_TOKENS or id not in near]
    vectors.stored(pool.rows if asked.codes is not None else needed)
    scores = {**vectors.similarities(others), **near}
    for candidate in pool.candidates:
        if asked.rephrased:
            candidate.similarity_rephrased = scores.get(candidate.id)
        else:
            candidate.similarity = scores.get(candidate.id)
    if asked.codes is None:
        return
    codes = [(row[0], row[2]) for row in vectors.stored(hit.id for hit in ranking.best(LATE_POOL)) if row[2]]
    by_id = {candidate.id: candidate for candidate in pool.candidates}
    for (id, _), late in zip(codes, late_similarities(asked.codes, [code for _, code in codes]), strict=True):
        # The likest of a memory's passages counts.
        known = by_id[id].late
        by_id[id].late = late if known is None or (late is not None and late > known) else known
