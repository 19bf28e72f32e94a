"""The pool that recall ranks: suggested by the indexes, read from the records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from recollect.domain.memory import Memory, space_name
from recollect.domain.questions import Question
from recollect.domain.relevance import (
    DENSE_POOL,
    LATE_POOL,
    LEXICAL_POOL,
    NEIGHBOUR_REACH,
    NEIGHBOURS_OF,
    Candidate,
    Codes,
    Ranked,
    Ranking,
    late_similarities,
)
from recollect.errors import EmbedderFailed, IndexFailed
from recollect.ports.models import Vectors
from recollect.ports.query import Beside, OneOf, Query, TextQuery
from recollect.ports.vectors import StoredVector
from recollect.services.memories.embeddings import GivenVectors, check_lengths, length_of, question_vector
from recollect.services.recall.filters import NO_SUMMARY, Narrowed
from recollect.services.tenant import Tenant

# A filter that the indexes do not know: up to so many passing memories are scored one by one, exactly.
EXACT_UP_TO = 5_000
_FIELDS = ("id", "text", "author", "session_id", "occurred_at", "priority", "status", "access_count")


@dataclass(slots=True)
class Pool:
    candidates: list[Candidate] = field(default_factory=list)
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    past: dict[str, Memory] | None = None
    asked: Asked | None = None
    ranking: Ranking | None = None
    ranked: list[Ranked] | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """The question as the vectors see it: as it was put, or in the first person of the author it names."""

    vector: Vectors
    rephrased: bool
    model: str
    codes: Codes | None = None


def gather(
    tenant: Tenant,
    question: Question,
    narrowed: Narrowed,
    *,
    given: GivenVectors | None = None,
    limit: int = 10,
) -> Pool:
    """Candidates by words, by meaning and by standing beside one; each proven on the records."""
    pool = Pool()
    depth = max(1, limit // 50)
    with tenant.turn:
        lexical = _by_words(tenant, question, narrowed, LEXICAL_POOL * depth)
        rows = _read(tenant, narrowed, list(lexical))
    pool.asked = asked_vector(tenant, question, narrowed, rows, given, pool)
    with tenant.turn:
        near, found = by_meaning(tenant, narrowed, pool, DENSE_POOL * depth, _FIELDS)
        rows |= {id: _named(found[id]) for id in near if id in found and id not in rows}
        best = [*list(lexical)[:NEIGHBOURS_OF], *list(near)[:NEIGHBOURS_OF]]
        positions, beside = _neighbourhood(tenant, narrowed, rows, best)
        rows |= beside
        pool.facts = rows
        pool.candidates = [_candidate(row, lexical, positions) for row in rows.values()]
        pool.ranking = Ranking(question, pool.candidates)
        if pool.asked:
            _score_meaning(tenant, narrowed, pool, near)
    return pool


def gather_near(
    tenant: Tenant,
    question: Question,
    narrowed: Narrowed,
    given: GivenVectors | None,
    limit: int,
    fields: Sequence[str],
) -> Pool:
    """Only the nearest in meaning, in the order of their similarity, with these fields: what a vector store answers."""
    pool = Pool()
    pool.asked = asked_vector(tenant, question, narrowed, {}, given, pool)
    with tenant.turn:
        near, rows = by_meaning(tenant, narrowed, pool, limit, fields)
    pool.facts = {id: dict(zip(fields, rows[id], strict=True)) for id in near if id in rows}
    pool.ranked = [Ranked(id, near[id], max(near[id], 0.0), {"nearness": near[id]}) for id in near]
    return pool


def _by_words(tenant: Tenant, question: Question, narrowed: Narrowed, limit: int) -> dict[str, float]:
    query = TextQuery(Memory, question.terms, limit, narrowed.facets, narrowed.selective())
    return {hit.id: hit.score for hit in tenant.search_text(query)}


def asked_vector(
    tenant: Tenant,
    question: Question,
    narrowed: Narrowed,
    rows: dict[str, dict[str, Any]],
    given: GivenVectors | None,
    pool: Pool,
) -> Asked | None:
    """One vector for the question. Whom it may name is read off the memories that share its words."""
    for model, vector in (given or {}).items():
        check_lengths(tenant, [({model: vector}, narrowed.namespaces)])
        if length_of(tenant, model, narrowed.namespaces, len(vector)) is None:
            pool.notes.append(f"searched by words only: there are no vectors by '{model}'")
            return None
        return Asked(vector, rephrased=False, model=model)
    if tenant.embedder is None:
        return None
    rephrased = question.rephrased({row["author"] for row in rows.values() if row["author"]})
    text, model = rephrased or question.text, tenant.embedder.model
    try:
        vector, codes = question_vector(tenant.embedder, text, coded=tenant.late_interaction)
        return Asked(vector, rephrased is not None, model, codes)
    except EmbedderFailed as failure:
        pool.notes.append(f"searched by words only: {failure.message}")
        return None


Nearest = tuple[dict[str, float], dict[str, tuple[Any, ...]]]


def by_meaning(tenant: Tenant, narrowed: Narrowed, pool: Pool, limit: int, fields: Sequence[str]) -> Nearest:
    """The nearest that pass every filter, best first: their similarities, and these fields of them.

    Exact among few, else the index is asked on until enough pass. One reading proves that a memory passes and fetches
    what is wanted of it; `fields` begin with its id. While the index is away, few are still searched exactly, and many
    by words only; the notes of the pool say so.
    """
    if pool.asked is None:
        return {}, {}
    asked = pool.asked
    if narrowed.where:
        few = _among_few(tenant, narrowed, asked, limit, fields)
        if few is not None:
            return few
    try:
        return _by_index(tenant, narrowed, asked, limit, fields)
    except IndexFailed as failure:
        few = _among_few(tenant, narrowed, asked, limit, fields)
        how = "by words only" if few is None else "without the vector index"
        note = f"searched {how}: {failure.message}"
        pool.notes += [note] if note not in pool.notes else []
        return few or ({}, {})


def _among_few(tenant: Tenant, narrowed: Narrowed, asked: Asked, limit: int, fields: Sequence[str]) -> Nearest | None:
    """Each that passes, scored one by one; None if they are too many for that."""
    ids = tenant.select(Query(Memory, narrowed.filters(), limit=EXACT_UP_TO + 1), ("id",))
    if len(ids) > EXACT_UP_TO:
        return None
    best = _best(_similarities(stored_of(tenant, narrowed, asked, [id for (id,) in ids]), asked.vector), limit)
    return best, _fields_of(tenant, best, fields)


def _by_index(tenant: Tenant, narrowed: Narrowed, asked: Asked, limit: int, fields: Sequence[str]) -> Nearest:
    depth = limit
    while True:
        found, exhausted = _nearest(tenant, narrowed, asked, depth)
        passing = Query(Memory, (OneOf("id", tuple(found)), *narrowed.filters()))
        by_id = {row[0]: row for row in tenant.select(passing, fields)} if found else {}
        if len(by_id) >= limit or exhausted:
            return _best({id: found[id] for id in by_id}, limit), by_id
        depth *= 4


def _fields_of(tenant: Tenant, best: dict[str, float], fields: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    if not best or tuple(fields) == ("id",):
        return {id: (id,) for id in best}
    return {row[0]: row for row in tenant.select(Query(Memory, (OneOf("id", tuple(best)),)), fields)}


def _nearest(tenant: Tenant, narrowed: Narrowed, asked: Asked, depth: int) -> tuple[dict[str, float], bool]:
    """The nearest in any of the namespaces, and whether there are no more."""
    found: dict[str, float] = {}
    exhausted = True
    for space in _spaces(asked, narrowed):
        hits = tenant.vectors.search(tenant.scope.organization_id, space, asked.vector, depth, narrowed.vector_facets())
        exhausted = exhausted and len(hits) < depth
        for hit in hits:
            found[hit.memory_id] = max(hit.similarity, found.get(hit.memory_id, -1.0))
    return found, exhausted


def _best(scores: dict[str, float], limit: int) -> dict[str, float]:
    return dict(sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:limit])


def _spaces(asked: Asked, narrowed: Narrowed) -> list[str]:
    return [space_name(namespace, asked.model) for namespace in narrowed.namespaces]


def _read(tenant: Tenant, narrowed: Narrowed, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What the records say of these ids, in the order given; only those that pass every filter."""
    if not ids:
        return {}
    query = Query(Memory, (OneOf("id", tuple(ids)), *narrowed.filters()))
    rows = {row[0]: row for row in tenant.select(query, _FIELDS)}
    return {id: _named(rows[id]) for id in ids if id in rows}


def _named(row: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(_FIELDS, row, strict=True))


def _neighbourhood(
    tenant: Tenant, narrowed: Narrowed, rows: dict[str, dict[str, Any]], best: Sequence[str]
) -> tuple[dict[str, int], dict[str, dict[str, Any]]]:
    """Where candidates stand in their sessions, and what stands beside the best of them."""
    placed = [rows[id] for id in dict.fromkeys(best) if id in rows and rows[id]["session_id"]]
    if not placed:
        return {}, {}
    places = tuple((row["session_id"], row["occurred_at"], row["id"]) for row in placed)
    beside = Beside(Memory, "session_id", "occurred_at", places, NEIGHBOUR_REACH, (NO_SUMMARY,))
    found = tenant.beside(beside)
    around = [ids for row, ids in zip(placed, found, strict=True) if row["id"] in ids]
    unread = dict.fromkeys(id for ids in around for id in ids if id not in rows)
    return _positions(around), _read(tenant, narrowed, list(unread))


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


def _score_meaning(tenant: Tenant, narrowed: Narrowed, pool: Pool, near: dict[str, float]) -> None:
    """The cosine of every candidate, then late interaction for the best of a first ranking."""
    asked, ranking = pool.asked, pool.ranking
    assert asked is not None
    assert ranking is not None
    others = [candidate.id for candidate in pool.candidates if candidate.id not in near]
    stored = stored_of(tenant, narrowed, asked, others)
    scores = near | _similarities(stored, asked.vector)
    for candidate in pool.candidates:
        found = scores.get(candidate.id)
        if asked.rephrased:
            candidate.similarity_rephrased = found
        else:
            candidate.similarity = found
    if asked.codes is None:
        return
    best = dict.fromkeys(hit.id for hit in ranking.best(LATE_POOL))
    read = set(others)
    stored = [*stored, *stored_of(tenant, narrowed, asked, [id for id in best if id not in read])]
    codes = [(row[0], row[2]) for row in stored if row[2] and row[0] in best]
    by_id = {candidate.id: candidate for candidate in pool.candidates}
    measured = late_similarities(asked.codes, [tokens for _, tokens in codes])
    for (id, _), late in zip(codes, measured, strict=True):
        by_id[id].late = _higher(by_id[id].late, late)


def _higher(one: float | None, other: float | None) -> float | None:
    """The likest of a memory's passages counts."""
    return other if one is None or (other is not None and other > one) else one


def stored_of(tenant: Tenant, narrowed: Narrowed, asked: Asked, ids: Sequence[str]) -> list[StoredVector]:
    """The stored vectors of these memories that the question can be compared with: all of their passages."""
    read = tenant.store.stored_vectors
    return [row for space in _spaces(asked, narrowed) for row in read(tenant.scope, space, ids)]


def similarities(stored: Sequence[StoredVector], vector: Vectors) -> list[tuple[StoredVector, float]]:
    """The similarity of each of these vectors that can be compared."""
    rows = [row for row in stored if len(row[1]) == 2 * len(vector)]
    if not rows:
        return []
    matrix = np.frombuffer(b"".join(row[1] for row in rows), dtype="<f2").reshape(len(rows), -1)
    return list(zip(rows, (matrix.astype(np.float32) @ vector).tolist(), strict=True))


def _similarities(stored: Sequence[StoredVector], vector: Vectors) -> dict[str, float]:
    """The similarity of each of these memories: that of its likest passage."""
    best: dict[str, float] = {}
    for row, similarity in similarities(stored, vector):
        best[row[0]] = max(similarity, best.get(row[0], -2.0))
    return best
