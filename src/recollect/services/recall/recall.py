"""A memory comes out: found by words and by meaning, ranked with reasons, proven on the records, counted and logged.

Gather a pool (full text, nearest vectors, the neighbours in their sessions), read it from the records under every
filter again, rank it (domain/relevance.py), show the best with their citations. An index can only ever suggest: what
is dead, foreign or filtered out does not get past the reading of the records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal, NamedTuple
from zoneinfo import ZoneInfo

from pydantic import Field

from recollect.domain.agents import Result
from recollect.domain.memory import Memory, Tag
from recollect.domain.passages import Passage
from recollect.domain.provenance import Citation
from recollect.domain.questions import Question, read_question
from recollect.domain.record import Id, Name, QueryText, Record, Vector, now
from recollect.domain.relevance import Ranked, least_match
from recollect.domain.tokenizer import is_paired, terms_asked, terms_of
from recollect.errors import InvalidInput
from recollect.ports.query import OneOf, Order, Query, equal
from recollect.services.memories.content_hashes import left_out_note
from recollect.services.memories.embeddings import given_vector
from recollect.services.recall.as_of import gather_past
from recollect.services.recall.best_passage import best_passages
from recollect.services.recall.candidates import Pool, gather, gather_near
from recollect.services.recall.filters import Narrowed, Wanted, narrow
from recollect.services.requests import Reply
from recollect.services.tenant import Tenant
from recollect.services.times import Through, zone_for
from recollect.services.transaction import load
from recollect.services.trust import citations
from recollect.services.trust.citations import CitationView
from recollect.services.trust.rechecks import Recheck

TRUST = {"hypothesis": 0.0, "verified": 0.7, "published": 1.0, "archived": 0.0}
RECENT_RESULTS = 5
LOOKED_THROUGH = 20
LOOKS = 3
MOST_REASONED = 20_000  # characters of a hit that are looked through for its reasons


class RecallRequest(Wanted):
    """A question, and which memories may answer it."""

    query: QueryText = Field(min_length=1, description="What to look for, in plain words")
    limit: int = Field(10, ge=1, le=1000, description="How many to return at most")
    by: Literal["everything", "meaning", "words"] = Field(
        "everything", description="Rank by everything that is known, by nearness in meaning alone, or by words alone"
    )
    as_of: Through | None = Field(None, description="Answer with what was known at this time; of a date, at its end")
    check: Literal["none", "stale", "always"] | None = Field(
        None,
        description="Look the citations of what is shown up again: none, those not looked up lately (stale), or always,"
        " fetching pages too where the settings allow it. Left out: to act on, all but pages; else none",
    )
    min_match: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Leave out what answers less well, 0 to 1; to act and in `context`, what hardly answers unless 0",
    )
    boost: dict[Literal["recency", "priority", "trust", "access"], float] = Field(
        default_factory=dict, description="Let these count too, with a weight in standard deviations"
    )
    vector: Vector | None = Field(None, description="The question's vector, if you have made it; see vector_model")
    vector_model: Name | None = Field(
        None, description="The name of the model that made `vector`: compared with the vectors kept under this name"
    )


class PassageView(Reply):
    """The part of a long memory that answers: `text` is what stands in it from `start` to `end`."""

    text: str
    start: int
    end: int


class Hit(Reply):
    """A recalled memory. `why` says in words why it stands here, `parts` in numbers that add up to `score`.

    The score compares the hits of one question; `match`, from 0 to 1, can be compared across questions. Of a long
    memory `passage` is the part that answers best; a short one has none.
    """

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


class RecentResult(Reply):
    """What an agent did lately, straight from its run; `memory` is what became of it, if anything did."""

    id: str
    outcome: str
    summary: str
    at: datetime
    memory: str | None = None


class Recalled(Reply):
    """The hits, best first. `notes` says what could not be searched, for instance when a model is away."""

    hits: list[Hit] = Field(default_factory=list)
    left_out: int = Field(0, description="How many of the best were left out, because they hardly answer")
    recent: list[RecentResult] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)

    def __iter__(self) -> Iterator[Hit]:  # type: ignore[override]
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    def __getitem__(self, index: int) -> Hit:
        return self.hits[index]


def recall(tenant: Tenant, request: RecallRequest) -> Recalled:
    """Find memories by words and by meaning, best first, each with the reasons for its rank."""
    found = find(tenant, request)
    recheck = rechecking(tenant, request)
    if recheck is not None:
        found = _rechecked(tenant, request, found, recheck)
    note_search(tenant, request, [hit.id for hit in found.hits], "recall")
    return found


def rechecking(tenant: Tenant, request: RecallRequest) -> Recheck | None:
    """What looks at the citations of what is shown; None where nobody shall, and for the past, which is as it was."""
    when = request.check or ("act" if request.purpose == "act" else "none")
    return None if when == "none" or request.as_of is not None else Recheck(tenant, when)


def _rechecked(tenant: Tenant, request: RecallRequest, found: Recalled, recheck: Recheck) -> Recalled:
    """What falls is no longer there to act on: the next best take its place, and are looked at too."""
    for _ in range(LOOKS):
        if not recheck.look([hit.id for hit in found.hits]) or request.purpose != "act":
            break
        found = find(tenant, request)
    hits = [still for hit in found.hits if (still := as_rechecked(hit, request, recheck)) is not None]
    return found.model_copy(update={"hits": hits, "notes": [*found.notes, *recheck.notes]})


def as_rechecked(hit: Hit, request: RecallRequest, recheck: Recheck) -> Hit | None:
    """A hit with what was just found of its citations; None if it fell and is to be acted on."""
    recheck.look([hit.id])
    if hit.id in recheck.fallen and request.purpose == "act":
        return None
    status, cited = "hypothesis" if hit.id in recheck.fallen else hit.status, recheck.views[hit.id]
    why = f"{hit.why.rpartition(' [')[0]} [{citations.trust_in_words(status, cited)}]"
    return hit.model_copy(update={"status": status, "citations": cited, "why": why})


def find(tenant: Tenant, request: RecallRequest, *, to_use: bool = False, at_least: int = 0) -> Recalled:
    """With `to_use` the hits go straight into a prompt: what hardly answers is left out, as it is to act.

    The best few, `at_least`, are kept all the same: where little is known, the words of a question may meet nothing,
    and a few that do not fit mislead less than fifty.
    """
    moment = now()
    narrowed = narrow(request, request.as_of or moment, evidence_only=True)
    question = _read(tenant, request, moment)
    pool = _pool(tenant, request, question, narrowed)
    with tenant.turn:
        ranked = _ranked(pool, request, moment, None if to_use or request.purpose == "act" else request.limit)
        least = _least(ranked, request, pool, to_use)
        kept = 0 if request.purpose == "act" or request.min_match is not None else at_least
        best = [hit for place, hit in enumerate(ranked) if place < kept or hit.match >= least]
        hits = _shown(tenant, narrowed, best[: request.limit], pool, question)
        left_out = sum(hit.match < least for hit in ranked[kept : request.limit]) if request.min_match is None else 0
        notes = [*pool.notes, *_left_out_note(left_out, least)]
        recent = _recent(tenant, request, hits)
        return Recalled(hits=hits, left_out=left_out, recent=recent, notes=notes)


def _read(tenant: Tenant, request: RecallRequest, moment: datetime) -> Question:
    """The question, with the days it names in the zone of whoever asks."""
    zone = ZoneInfo(zone_for(tenant, request.user))
    asked_at = request.as_of or moment
    try:
        return read_question(request.query, asked_at.astimezone(zone))
    except OverflowError:  # the first and last days of the calendar have no local time everywhere
        return read_question(request.query, asked_at)


def note_search(tenant: Tenant, request: RecallRequest, ids: list[str], action: str) -> None:
    """What was shown counts as read; the audit trail gets the shape of the question, not its words."""
    asked = {
        "length": len(request.query),
        "filters": sorted(request.model_fields_set - {"query", "vector", "vector_model"}),
        "limit": request.limit,
    }
    tenant.journal.note(tenant.scope, "search", action, ids, session=request.session, agent=request.agent, asked=asked)


def _pool(tenant: Tenant, request: RecallRequest, question: Question, narrowed: Narrowed) -> Pool:
    given = given_vector(tenant, request.vector, request.vector_model)
    if request.as_of is not None:
        if request.by != "everything":
            raise InvalidInput("the past is recalled by everything", remedy="leave `by` out, or as_of")
        return gather_past(tenant, question, narrowed, request.as_of, given, request.limit)
    if request.by == "meaning":
        return gather_near(tenant, question, narrowed, given, request.limit, _SHOWN)
    if request.by == "words":
        if given:
            raise InvalidInput("by words alone no vector is used", remedy="leave the vector out, or `by`")
        tenant = replace(tenant, embedders=())
    return gather(tenant, question, narrowed, given=given, limit=request.limit)


def _least(ranked: Sequence[Ranked], request: RecallRequest, pool: Pool, to_use: bool = False) -> float:
    """The match that a hit must have: what was asked for, or where hits are used at once, what does not mislead.

    By words alone nothing is left out: who shares no word with the question is not found, but beside one who does, and
    of LoCoMo's evidence found so an eighth has no word of the question.
    """
    if request.min_match is not None:
        return request.min_match
    is_used = to_use or request.purpose == "act"
    return least_match(max((hit.match for hit in ranked), default=0.0)) if is_used and pool.asked else 0.0


def _left_out_note(left_out: int, least: float) -> list[str]:
    if not left_out:
        return []
    return [f"{left_out} that hardly answer were left out (match below {least:.2f}): min_match=0 shows them"]


def _ranked(pool: Pool, request: RecallRequest, moment: datetime, limit: int | None = None) -> list[Ranked]:
    """The best of the pool; all of it when something besides relevance may reorder it."""
    if pool.ranking is not None:
        ranked = pool.ranking.best(limit if not request.boost and request.min_match is None else None)
    else:
        ranked = pool.ranked or []
    if not request.boost:
        return ranked
    boosted = [_boosted(hit, pool.facts[hit.id], request.boost, moment) for hit in ranked]
    return sorted(boosted, key=lambda hit: (-hit.score, hit.id))


def _boosted(hit: Ranked, facts: dict[str, Any], boost: dict[Any, float], moment: datetime) -> Ranked:
    age_days = max((moment - facts["occurred_at"]).total_seconds() / 86400, 0.0)
    values = {
        "recency": 0.5 ** (age_days / 30),
        "priority": (facts["priority"] - 5) / 5,
        "trust": TRUST[facts["status"]],
        "access": min(facts["access_count"], 100) / 100,
    }
    added = {name: weight * values[name] for name, weight in boost.items()}
    return replace(hit, score=hit.score + sum(added.values()), parts={**hit.parts, **added})


def _shown(tenant: Tenant, narrowed: Narrowed, best: list[Ranked], pool: Pool, question: Question) -> list[Hit]:
    ids = tuple(hit.id for hit in best)
    if not ids:
        return []
    known = _read_already(pool, ids)
    asked = _HANGING if known else [*_HANGING, _Reading(Memory, "id", _SHOWN)]
    evidence, tags, *rest = tenant.select_each(
        [(Query(one.record, (OneOf(one.by, ids),)), one.fields) for one in asked]
    )
    memories = known or {row[0]: dict(zip(_SHOWN, row, strict=True)) for row in rest[0]}
    cited, tagged = citations.by_memory(tenant, evidence), _tags(tags)
    for id in ids:
        damage = left_out_note(memories[id]) if id in memories else None
        if damage is not None:
            pool.notes.append(damage)
            del memories[id]
    texts = {hit.id: memories[hit.id]["text"] for hit in best if hit.id in memories}
    passages = best_passages(tenant, narrowed, pool, question, texts)
    return [
        _hit(memories[hit.id], hit, cited.get(hit.id, []), tagged.get(hit.id, []), passages.get(hit.id), question)
        for hit in best
        if hit.id in memories
    ]


class _Reading(NamedTuple):
    record: type[Record]
    by: str
    fields: Sequence[str]


_SHOWN = (
    "id", "text", "kind", "status", "confidence", "author", "occurred_at", "moment", "content", "metadata", "scope",
    "user_id", "agent_id", "session_id", "project_id", "priority", "access_count", "content_hash",
)  # fmt: skip
_CITED = ("memory_id", *citations.SHOWN)
_HANGING = [_Reading(Citation, "memory_id", _CITED), _Reading(Tag, "memory_id", ("memory_id", "tag"))]


def _read_already(pool: Pool, ids: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """What gathering the pool has read whole: past states, or the nearest in meaning."""
    if pool.past is not None:
        return {id: pool.past[id].__dict__ for id in ids if id in pool.past}
    return pool.facts if pool.ranked is not None else {}


def _tags(rows: Sequence[tuple[Any, ...]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for id, tag in rows:
        found.setdefault(id, []).append(tag)
    return {id: sorted(tags) for id, tags in found.items()}


def _hit(
    memory: dict[str, Any],
    hit: Ranked,
    cited: list[CitationView],
    tags: list[str],
    passage: Passage | None,
    question: Question,
) -> Hit:
    copied = ("id", "text", "kind", "status", "confidence", "author", "occurred_at", "content", "metadata", "scope")
    return Hit(
        score=round(hit.score, 4),
        match=round(hit.match, 4),
        why=_why(memory, hit, cited, question),
        parts={name: round(value, 4) for name, value in hit.parts.items()},
        passage=_passage(memory["text"], passage),
        tags=tags,
        citations=cited,
        user=memory["user_id"],
        agent=memory["agent_id"],
        session=memory["session_id"],
        project=memory["project_id"],
        **{name: memory[name] for name in copied},
    )


def _passage(text: str, found: Passage | None) -> PassageView | None:
    if found is None:
        return None
    return PassageView(text=text[found.start : found.end].strip(), start=found.start, end=found.end)


def _why(memory: dict[str, Any], hit: Ranked, cited: list[CitationView], question: Question) -> str:
    shared = _shared(question, memory["text"])
    reasons = [f"shares {', '.join(shared[:4])}"] if shared else []
    if hit.parts.get("similarity", 0) + hit.parts.get("late", 0) > 1 or "nearness" in hit.parts:
        reasons.append("is near in meaning")
    if hit.parts.get("author", 0) > 0 and memory["author"]:
        reasons.append(f"was said by {memory['author']}")
    if hit.parts.get("date", 0) > 0:
        reasons.append(f"is from {memory['moment']}")
    if hit.parts.get("session", 0) > 0.5:
        reasons.append("stands in a session about this")
    trust = citations.trust_in_words(memory["status"], cited)
    return f"{'; '.join(reasons) or 'is the nearest there is'} [{trust}]"


def _shared(question: Question, text: str) -> list[str]:
    """The question's words that the text has; of a run of characters without spaces, the pairs."""
    said = terms_of([text[:MOST_REASONED]])
    shared: dict[str, None] = {}
    for word in question.terms:
        asked = terms_asked([word])
        if is_paired(word):
            shared |= dict.fromkeys(term for term in asked if term in said)
        elif all(term in said for term in asked):
            shared[word] = None
    return list(shared)


def _recent(tenant: Tenant, request: RecallRequest, hits: list[Hit]) -> list[RecentResult]:
    """The agent's latest results that the hits do not tell already; to act on, only what was verified counts."""
    if request.agent is None or request.as_of is not None or request.purpose == "act":
        return []
    told = {hit.id for hit in hits}
    latest = Query(Result, (equal("agent_id", request.agent),), (Order("id", descending=True),), limit=LOOKED_THROUGH)
    recent: dict[str, RecentResult] = {}
    for result in tenant.find(latest).records:
        if result.summary and result.memory_id not in told and len(recent) < RECENT_RESULTS:
            shown = RecentResult(
                id=result.id, outcome=result.outcome, summary=result.summary, at=result.created_at,
                memory=result.memory_id,
            )  # fmt: skip
            recent.setdefault(result.summary, shown)
    return list(recent.values())


class WhyNotRequest(RecallRequest):
    """The question as it was asked, and the memory that was missed."""

    id: Id = Field(description="The memory that was expected")


class WhyNot(Reply):
    """What kept a memory out of an answer: filters first, then its rank."""

    id: str
    found: bool
    reasons: list[str]
    rank: int | None = None
    score: float | None = None
    parts: dict[str, float] = Field(default_factory=dict)


def why_not(tenant: Tenant, request: WhyNotRequest) -> WhyNot:
    """Say which filter, threshold or rank kept a memory out of an answer."""
    moment = now()
    memory = load(tenant, Memory, request.id, deleted=True)
    if memory.is_deleted:
        return WhyNot(id=memory.id, found=False, reasons=["it was forgotten; it can be restored"])
    narrowed = narrow(request, request.as_of or moment, evidence_only=True)
    failed = [one.otherwise for one in narrowed.conditions() if not _passes(tenant, memory.id, one.filter)]
    if failed and request.as_of is None:
        return WhyNot(id=memory.id, found=False, reasons=failed)
    question = _read(tenant, request, moment)
    pool = _pool(tenant, request, question, narrowed)
    ranked = _ranked(pool, request, moment)
    place = next((place for place, hit in enumerate(ranked, 1) if hit.id == memory.id), None)
    if place is None:
        reasons = [f"it is not among the {len(ranked)} that share words with the question or are near it in meaning"]
        return WhyNot(id=memory.id, found=False, reasons=reasons + pool.notes)
    hit = ranked[place - 1]
    reasons = []
    least = _least(ranked, request, pool)
    if hit.match < least:
        asked = "asked for" if request.min_match is not None else "to act on, unless min_match=0"
        reasons.append(f"its match {hit.match:.2f} is below the least {asked}: {least:.2f}")
    if place > request.limit:
        worst = ranked[request.limit - 1].score
        reasons.append(f"it ranks {place} of {len(ranked)}; the last shown of {request.limit} scores {worst:.2f}")
    return WhyNot(
        id=memory.id, found=not reasons, reasons=reasons or ["it is in the answer"], rank=place,
        score=round(hit.score, 4), parts=hit.parts,
    )  # fmt: skip


def _passes(tenant: Tenant, id: str, given: Any) -> bool:
    return tenant.count(Query(Memory, (equal("id", id), given))) == 1
