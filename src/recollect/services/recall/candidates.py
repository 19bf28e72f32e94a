"""The pool that recall ranks: suggested by the indexes, read from the records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from recollect.domain.conversations import Message
from recollect.domain.memory import Memory, message_id
from recollect.domain.record import made_at
from recollect.domain.text.late_interaction import late_similarities
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
)
from recollect.ports.query import Beside, OneOf, TextQuery
from recollect.services.memories.embeddings import GivenVectors
from recollect.services.read_ahead import reading_ahead, reads_ahead
from recollect.services.recall.few_passing import few_passing
from recollect.services.recall.filters import NO_SUMMARY
from recollect.services.recall.meaning import QuestionVector, VectorSearch, keys_of, vector_of
from recollect.services.recall.memory_rows import FIELDS, RANKED, MemoryRow, MemoryRows, MessageRows
from recollect.services.recall.message_conditions import SAID, MessageConditions
from recollect.services.recall.near_depth import Conditions
from recollect.services.recall.pool_reading import depth_of, reading_on
from recollect.services.tenant import Tenant

# Without a session, what was written by the same user or agent within these minutes was said together.
PAUSE_SECONDS = 600.0


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
    memories: MemoryRows | None = None
    """What reads of those that are shown what did not rank them."""
    access_counts: dict[str, int] = field(default_factory=dict)
    """How often each memory was read, where that counts."""
    ahead: Tenant | None = None
    """The tenant with what was read ahead, of what hangs on those that were found."""

    @property
    def has_messages(self) -> bool:
        return any(row.role is not None for row in self.rows.values())


@dataclass(slots=True)
class _Part:
    """The memories, or the messages, that one search found by words and by meaning."""

    conditions: Conditions
    rows: MemoryRows
    few: tuple[str, ...] | None = None
    """All that pass, where they are few."""
    lexical: dict[str, float] = field(default_factory=dict)
    near: dict[str, float] = field(default_factory=dict)

    @property
    def best(self) -> list[str]:
        return [*list(self.lexical)[:NEIGHBOURS_OF], *list(self.near)[:NEIGHBOURS_OF]]


def gather(
    tenant: Tenant,
    question: Question,
    searched: Sequence[Conditions],
    *,
    given: GivenVectors | None = None,
    limit: int = 10,
    guessed: QuestionVector | None = None,
    whole: bool = False,
) -> Pool:
    """Candidates by words, by meaning and by standing beside one; each proven on the records, and read `whole` where
    those that are shown are not to be looked at again."""
    pool, depth = Pool(), depth_of(limit)
    parts = [_Part(conditions, _rows(tenant, conditions, pool.notes, whole)) for conditions in searched]
    pool.memories = parts[0].rows
    with tenant.turn:
        for part in parts:
            part.few = few_passing(tenant, part.conditions)
            part.lexical = _by_words(tenant, question, part, LEXICAL_POOL * depth)
            pool.rows |= part.rows.passing(list(part.lexical))
    found = list(pool.rows.values())
    question = question.in_own_voice(
        [row.text for row in found[:NEIGHBOURS_OF]], {row.author for row in found if row.author}
    )
    _compare_with(tenant, question, searched, given, pool, guessed)
    if pool.vectors and pool.vectors.question is not guessed and reads_ahead(tenant):
        reading = reading_on(tenant, searched[0], pool.vectors.question, list(parts[0].lexical), limit)
        pool.vectors.tenant = tenant = parts[0].rows.tenant = reading_ahead(tenant, reading)
    with tenant.turn:
        around: list[list[str]] = []
        for part in parts:
            if pool.vectors:
                part.near = pool.vectors.nearest(part.conditions, part.rows, DENSE_POOL * depth, pool.notes, part.few)
            pool.rows |= part.rows.passing(list(part.near))
            stretches = _stretches(tenant, part.conditions, pool.rows, part.best)
            pool.rows |= part.rows.passing(list(dict.fromkeys(id for ids in stretches for id in ids)))
            around += stretches
        positions = _positions(around, pool.rows)
        lexical = {id: score for part in parts for id, score in part.lexical.items()}
        pool.candidates = [
            Candidate(
                id, row.text, row.author, row.session_id, positions.get(id), row.occurred_at, lexical.get(id, 0.0)
            )
            for id, row in pool.rows.items()
        ]
        pool.ranking = Ranking(question, pool.candidates)
        if pool.vectors:
            near = {id: similarity for part in parts for id, similarity in part.near.items()}
            _score_meaning(pool, pool.vectors, pool.ranking, near)
    return pool


def gather_near(
    tenant: Tenant,
    question: Question,
    searched: Sequence[Conditions],
    given: GivenVectors | None,
    limit: int,
    guessed: QuestionVector | None = None,
) -> Pool:
    """Only the nearest in meaning, in the order of their similarity: what a vector store answers."""
    pool = Pool()
    _compare_with(tenant, question, searched, given, pool, guessed)
    near: dict[str, float] = {}
    with tenant.turn:
        for conditions in searched:
            rows = _rows(tenant, conditions, pool.notes)
            pool.memories = pool.memories or rows
            few = few_passing(tenant, conditions) if pool.vectors else None
            found = pool.vectors.nearest(conditions, rows, limit, pool.notes, few) if pool.vectors else {}
            pool.rows |= rows.passing(list(found))
            near |= found
    ordered = sorted(near, key=lambda id: (-near[id], id))
    pool.ranked = [Ranked(id, near[id], max(near[id], 0.0), {"nearness": near[id]}) for id in ordered]
    return pool


def _rows(tenant: Tenant, conditions: Conditions, notes: list[str], whole: bool = False) -> MemoryRows:
    if isinstance(conditions, MessageConditions):
        return MessageRows(tenant, conditions.filters(), notes)
    fields = RANKED if tenant.store.capabilities.keeps_rows and not whole else FIELDS
    return MemoryRows(tenant, conditions.filters(), notes, fields)


def _by_words(tenant: Tenant, question: Question, part: _Part, limit: int) -> dict[str, float]:
    """The scores of those that have words of the question, best first."""
    found: dict[str, float] = {}
    conditions, where = part.conditions, part.conditions.unknown_to_indexes()
    if part.few is not None and not reads_ahead(tenant):  # what is read ahead is told beforehand
        where = (OneOf("id", part.few), *where)
    for facets in conditions.text_searches():
        words = TextQuery(conditions.record, question.terms, limit, facets, where)
        hits = tenant.search_text(words)
        found |= dict(zip(keys_of(conditions, [hit.id for hit in hits]), (hit.score for hit in hits), strict=True))
    return dict(sorted(found.items(), key=lambda one: -one[1])[:limit])


def _compare_with(
    tenant: Tenant,
    question: Question,
    searched: Sequence[Conditions],
    given: GivenVectors | None,
    pool: Pool,
    guessed: QuestionVector | None = None,
) -> None:
    """Outside of the turn: a model may be slow."""
    namespaces = searched[0].namespaces
    vector = vector_of(tenant, question, namespaces, pool.rows.values(), given, pool.notes, guessed)
    pool.vectors = VectorSearch(tenant, searched, vector) if vector else None


def _stretches(
    tenant: Tenant, conditions: Conditions, rows: Mapping[str, MemoryRow], best: Sequence[str]
) -> list[list[str]]:
    """The ids around each of the best: in the order of its session, or else as they were written one after another."""
    found = [rows[id] for id in dict.fromkeys(best) if id in rows]
    in_sessions = [row for row in found if row.session_id]
    if isinstance(conditions, MessageConditions):  # messages are in the order of their ids
        said = tuple((row.session_id, message_id(row.id), message_id(row.id)) for row in in_sessions)
        around = tenant.beside(Beside(Message, "session_id", "id", said, NEIGHBOUR_REACH, SAID)) if said else []
        return _around(in_sessions, [keys_of(conditions, ids) for ids in around])
    places = tuple((row.session_id, row.occurred_at, row.id) for row in in_sessions)
    query = Beside(Memory, "session_id", "occurred_at", places, NEIGHBOUR_REACH, (NO_SUMMARY,))
    stretches = _around(in_sessions, tenant.beside(query) if places else [])
    for within in ("user_id", "agent_id", "kind"):
        loose = [row for row in found if row.session_id is None and _written_within(row) == within]
        written = tuple((getattr(row, within), row.id, row.id) for row in loose)
        query = Beside(Memory, within, "id", written, NEIGHBOUR_REACH, (NO_SUMMARY,))
        beside = tenant.beside(query) if written else []
        stretches += _around(loose, [_at_once(ids, row.id) for row, ids in zip(loose, beside, strict=True)])
    return stretches


def _around(rows: Sequence[MemoryRow], stretches: Sequence[list[str]]) -> list[list[str]]:
    return [ids for row, ids in zip(rows, stretches, strict=True) if row.id in ids]


def _written_within(row: MemoryRow) -> str | None:
    """Among whose memories a memory without a session was written; None if its id does not say when."""
    if made_at(row.id) is None:
        return None
    return "user_id" if row.user_id else "agent_id" if row.agent_id else "kind"


def _at_once(ids: Sequence[str], id: str) -> list[str]:
    """The stretch around an id that was written without a long pause."""
    if id not in ids:
        return []
    times, first = [made_at(one) for one in ids], ids.index(id)
    last = first
    while first and _is_soon(times[first - 1], times[first]):
        first -= 1
    while last + 1 < len(ids) and _is_soon(times[last], times[last + 1]):
        last += 1
    return list(ids[first : last + 1])


def _is_soon(before: float | None, after: float | None) -> bool:
    return before is not None and after is not None and after - before <= PAUSE_SECONDS


def _positions(stretches: Sequence[Sequence[str]], rows: Mapping[str, MemoryRow]) -> dict[str, int]:
    """Places of the members of some stretches of sessions, right as far as the stretches reach and overlap.

    Numbers that are further apart than any neighbour's reach say nothing: what lies between was not read. What stands
    beside a memory without a session may have one, or be somebody else's; then it is no neighbour.
    """
    told_in = {id: row.session_id or (row.user_id, row.agent_id) for id, row in rows.items()}
    following = {
        one: after
        for ids in stretches
        for one, after in pairwise(ids)
        if one not in told_in or after not in told_in or told_in[one] == told_in[after]
    }
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
    codes = [(row[0], row[2]) for row in vectors.stored(ranking.leading(LATE_POOL)) if row[2]]
    by_id = {candidate.id: candidate for candidate in pool.candidates}
    for (id, _), late in zip(codes, late_similarities(asked.codes, [code for _, code in codes]), strict=True):
        # The likest of a memory's passages counts.
        known = by_id[id].late
        by_id[id].late = late if known is None or (late is not None and late > known) else known
