"""The pool that recall ranks: suggested by the indexes, read from the records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from recollect.domain.memory import Memory, space_name
from recollect.domain.relevance import (
    DENSE_POOL,
    LEXICAL_POOL,
    NEIGHBOUR_REACH,
    NEIGHBOURS_OF,
    Candidate,
    Question,
)
from recollect.errors import EmbedderFailed, InvalidInput
from recollect.ports.models import Vectors
from recollect.ports.records import OneOf, Order, Query, Scope, TextQuery
from recollect.services.core import Core
from recollect.services.indexing import unit
from recollect.services.narrowing import Narrowed

# A filter that the indexes do not know: up to so many passing memories are scored one by one, exactly.
EXACT_UP_TO = 5_000
SESSION_ROWS = 4_000
_FIELDS = ("id", "text", "author", "session_id", "occurred_at", "priority", "status", "access_count")


@dataclass(slots=True)
class Pool:
    candidates: list[Candidate] = field(default_factory=list)
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    past: dict[str, Memory] | None = None

    def similarity(self, id: str) -> float | None:
        found = next((one for one in self.candidates if one.id == id), None)
        if found is None:
            return None
        known = [value for value in (found.similarity, found.similarity_rephrased) if value is not None]
        return max(known, default=None)


def gather(
    core: Core,
    scope: Scope,
    question: Question,
    narrowed: Narrowed,
    *,
    given: Sequence[float] | None = None,
    limit: int = 10,
) -> Pool:
    """Candidates by words, by meaning and by standing beside one; each proven on the records."""
    pool = Pool()
    depth = max(1, limit // 50)
    lexical = _by_words(core, scope, question, narrowed, LEXICAL_POOL * depth)
    vector = _question_vector(core, question.text, given, pool)
    near = _by_meaning(core, scope, narrowed, vector, DENSE_POOL * depth) if vector is not None else []
    rows = _read(core, scope, narrowed, _interleaved(list(lexical), near))
    rephrased = _rephrased_vector(core, question, rows, given, pool)
    if rephrased is not None:
        further = _by_meaning(core, scope, narrowed, rephrased, DENSE_POOL * depth)
        rows |= _read(core, scope, narrowed, [id for id in further if id not in rows])
    positions, beside = _neighbourhood(core, scope, narrowed, rows)
    rows |= beside
    pool.facts = rows
    pool.candidates = [_candidate(row, lexical, positions) for row in rows.values()]
    _score_meaning(core, scope, narrowed, pool.candidates, vector, rephrased)
    return pool


def _by_words(core: Core, scope: Scope, question: Question, narrowed: Narrowed, limit: int) -> dict[str, float]:
    query = TextQuery(Memory, question.terms, limit, narrowed.facets, narrowed.selective())
    return {hit.id: hit.score for hit in core.store.search_text(scope, query)}


def _question_vector(core: Core, text: str, given: Sequence[float] | None, pool: Pool) -> Vectors | None:
    if core.embedder is None:
        return None
    if given is not None:
        if len(given) != core.embedder.dimensions:
            raise InvalidInput(f"the vector has {len(given)} dimensions, not {core.embedder.dimensions}")
        return unit(given)
    try:
        return core.embedder.embed_query(text)
    except EmbedderFailed as failure:
        pool.notes.append(f"searched by words only: {failure.message}")
        return None


def _by_meaning(core: Core, scope: Scope, narrowed: Narrowed, vector: Vectors, limit: int) -> list[str]:
    """The nearest ids, best first; exact among the few when a filter is selective."""
    if narrowed.where:
        rows = core.store.select(scope, Query(Memory, narrowed.filters(), limit=EXACT_UP_TO + 1), ("id",))
        if len(rows) <= EXACT_UP_TO:
            scores = similarities(core, scope, narrowed, [id for (id,) in rows], vector)
            return sorted(scores, key=lambda id: (-scores[id], id))[:limit]
        limit *= 4
    found: dict[str, float] = {}
    for space in _spaces(core, narrowed):
        for hit in core.vectors.search(scope.organization_id, space, vector, limit, narrowed.vector_facets()):
            found[hit.memory_id] = max(hit.similarity, found.get(hit.memory_id, -1.0))
    return sorted(found, key=lambda id: (-found[id], id))[:limit]


def _spaces(core: Core, narrowed: Narrowed) -> list[str]:
    assert core.embedder is not None
    return [space_name(namespace, core.embedder.model) for namespace in narrowed.namespaces]


def _interleaved(lexical: list[str], near: list[str]) -> list[str]:
    """The best of both lists first, so that "the best 50" means the same for words and meaning."""
    mixed = [id for pair in zip(lexical, near, strict=False) for id in pair]
    shorter = min(len(lexical), len(near))
    return list(dict.fromkeys([*mixed, *lexical[shorter:], *near[shorter:]]))


def _read(core: Core, scope: Scope, narrowed: Narrowed, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What the records say of these ids, in the order given; only those that pass every filter."""
    if not ids:
        return {}
    query = Query(Memory, (OneOf("id", tuple(ids)), *narrowed.filters()))
    rows = {row[0]: dict(zip(_FIELDS, row, strict=True)) for row in core.store.select(scope, query, _FIELDS)}
    return {id: rows[id] for id in ids if id in rows}


def _rephrased_vector(
    core: Core, question: Question, rows: dict[str, dict[str, Any]], given: Sequence[float] | None, pool: Pool
) -> Vectors | None:
    if core.embedder is None or given is not None:
        return None
    text = question.rephrased({row["author"] for row in rows.values() if row["author"]})
    return None if text is None else _question_vector(core, text, None, pool)


def _neighbourhood(
    core: Core, scope: Scope, narrowed: Narrowed, rows: dict[str, dict[str, Any]]
) -> tuple[dict[str, int], dict[str, dict[str, Any]]]:
    """Where the candidates stand in their sessions, and what stands beside the best of them."""
    sessions = list(dict.fromkeys(row["session_id"] for row in rows.values() if row["session_id"]))
    if not sessions:
        return {}, {}
    order = _session_order(core, scope, sessions)
    positions = {id: place for ids in order.values() for place, id in enumerate(ids)}
    wanted: dict[str, None] = {}
    for id in list(rows)[:NEIGHBOURS_OF]:
        if id in positions:
            ids, place = order[rows[id]["session_id"]], positions[id]
            wanted |= dict.fromkeys(ids[max(0, place - NEIGHBOUR_REACH) : place + NEIGHBOUR_REACH + 1])
    return positions, _read(core, scope, narrowed, [id for id in wanted if id not in rows])


def _session_order(core: Core, scope: Scope, sessions: Sequence[str]) -> dict[str, list[str]]:
    """The memories of each session in the order they happened, as far as the row limit reaches."""
    order: dict[str, list[str]] = {session: [] for session in sessions}
    query = Query(
        Memory,
        (OneOf("session_id", tuple(sessions)),),
        (Order("session_id"), Order("occurred_at")),
        limit=SESSION_ROWS,
    )
    for session, id in core.store.select(scope, query, ("session_id", "id")):
        order[session].append(id)
    return order


def _candidate(row: dict[str, Any], lexical: dict[str, float], positions: dict[str, int]) -> Candidate:
    return Candidate(
        id=row["id"],
        text=row["text"],
        author=row["author"],
        session_id=row["session_id"],
        position=positions.get(row["id"]),
        at=row["occurred_at"],
        lexical=lexical.get(row["id"], 0.0),
    )


def _score_meaning(
    core: Core,
    scope: Scope,
    narrowed: Narrowed,
    candidates: Sequence[Candidate],
    vector: Vectors | None,
    rephrased: Vectors | None,
) -> None:
    if vector is None or not candidates:
        return
    ids = [candidate.id for candidate in candidates]
    matrix = vectors_of(core, scope, narrowed, ids)
    for candidate in candidates:
        stored = matrix.get(candidate.id)
        if stored is not None:
            candidate.similarity = float(stored @ vector)
            if rephrased is not None:
                candidate.similarity_rephrased = float(stored @ rephrased)


def vectors_of(core: Core, scope: Scope, narrowed: Narrowed, ids: Sequence[str]) -> dict[str, Vectors]:
    found: dict[str, Vectors] = {}
    truth: Any = core.store
    with truth.vector_snapshot() as snapshot:
        for space in _spaces(core, narrowed):
            rows = snapshot.of_memories(scope.organization_id, space, ids)
            if rows:
                matrix = np.frombuffer(b"".join(row[1] for row in rows), dtype="<f2").reshape(len(rows), -1)
                found |= dict(zip((row[0] for row in rows), matrix.astype(np.float32), strict=True))
    return found


def similarities(core: Core, scope: Scope, narrowed: Narrowed, ids: Sequence[str], vector: Vectors) -> dict[str, float]:
    """The similarity of each of these memories that has a vector."""
    if not ids:
        return {}
    stored = vectors_of(core, scope, narrowed, ids)
    if not stored:
        return {}
    scores = np.stack(list(stored.values())) @ vector
    return dict(zip(stored, scores.tolist(), strict=True))
