"""Recall: find memories by words and by meaning, rank them with reasons, prove them on the records, log the search.

Gather a pool (full text, nearest vectors, the neighbours in their sessions), read it from the records under every
filter again, rank it (domain/text/relevance.py), show the best with their citations. An index can only ever suggest:
what is dead, foreign or filtered out does not get past the reading of the records. Messages are memory, too: what was
said is found and ranked together with what was remembered, without being stored twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Literal
from zoneinfo import ZoneInfo

from pydantic import Field, field_validator

from recollect.domain.agents import Result
from recollect.domain.memory import Memory
from recollect.domain.record import Name, QueryText, Vector, now
from recollect.domain.text.questions import Question, read_question
from recollect.domain.text.relevance import ANSWERED, Ranked, confidence, least_match
from recollect.errors import InvalidInput
from recollect.ports.query import OneOf, Order, Query, equal
from recollect.services.memories.embeddings import given_vector
from recollect.services.recall.as_of import gather_past
from recollect.services.recall.candidates import Pool, gather, gather_near
from recollect.services.recall.filters import MemoryFilter, SearchConditions, search_conditions
from recollect.services.recall.hits import Hit, hits_of, without_repeats
from recollect.services.recall.linked import MOST_HOPS, Follow, with_linked
from recollect.services.recall.meaning import is_understood
from recollect.services.recall.message_conditions import includes_messages, message_conditions, message_readings
from recollect.services.recall.near_depth import Conditions
from recollect.services.recall.pool_reading import read_first
from recollect.services.request_limits import MOST_CONDITIONS
from recollect.services.requests import Reply
from recollect.services.tenant import Tenant
from recollect.services.times import Through, zone_for
from recollect.services.trust import citations
from recollect.services.trust.rechecks import Recheck

TRUST = {"hypothesis": 0.0, "verified": 0.7, "published": 1.0, "archived": 0.0}
RECENT_RESULTS = 5
LOOKED_THROUGH = 20
LOOKS = 3
Boost = Literal["recency", "priority", "trust", "access"]


class RecallRequest(MemoryFilter):
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
    include_messages: bool | None = Field(
        None,
        description="Also find messages. Left out: where session, user, agent or project is given, and no filter that"
        " only memories have; never to act on",
    )
    boost: dict[Boost, float] = Field(
        default_factory=dict, description="Let these count too, with a weight in standard deviations"
    )
    follow: list[Name] = Field(
        default_factory=list,
        max_length=MOST_CONDITIONS,
        description="Also what is linked to the hits by links of these types, such as supports; * follows all",
    )
    hops: int = Field(1, ge=1, le=MOST_HOPS, description="With follow: over how many links; each weakens the score")
    vector: Vector | None = Field(None, description="The question's vector, if you have made it; see vector_model")
    vector_model: Name | None = Field(
        None, description="The name of the model that made `vector`: compared with the vectors kept under this name"
    )

    @field_validator("follow", mode="before")
    @classmethod
    def _types(cls, given: object) -> object:
        """One text may name several, with commas."""
        listed = [given] if isinstance(given, str) else given
        if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
            return given
        return [type for one in listed for part in one.split(",") if (type := part.strip())]


class RecentResult(Reply):
    """What an agent did lately, straight from its run; `memory` is what became of it, if anything did."""

    id: str
    outcome: str
    summary: str
    at: datetime
    memory: str | None = None


class RecallReply(Reply):
    """The hits, best first. `notes` says what could not be searched, for instance when a model is away."""

    hits: list[Hit] = Field(default_factory=list)
    left_out: int = Field(0, description="How many of the best were left out, because they hardly answer")
    confidence: float | None = Field(
        None, description="How likely the hits answer the question at all, 0 to 1; empty if not ranked by everything"
    )
    answered: bool | None = Field(None, description="Whether they probably do: the confidence is at least one half")
    recent: list[RecentResult] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)

    def __iter__(self) -> Iterator[Hit]:  # type: ignore[override]
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    def __getitem__(self, index: int) -> Hit:
        return self.hits[index]


def recall(tenant: Tenant, request: RecallRequest) -> RecallReply:
    """Find memories by words and by meaning, best first, each with the reasons for its rank."""
    found = find(tenant, request)
    recheck = rechecking(tenant, request)
    if recheck is not None:
        found = _rechecked(tenant, request, found, recheck)
    note_shown(tenant, request, found.hits, "recall")
    return found


def rechecking(tenant: Tenant, request: RecallRequest) -> Recheck | None:
    """What checks the citations of the hits; None where no check was asked for, and for questions about the past."""
    when = request.check or ("act" if request.purpose == "act" else "none")
    return None if when == "none" or request.as_of is not None else Recheck(tenant, when)


def _rechecked(tenant: Tenant, request: RecallRequest, found: RecallReply, recheck: Recheck) -> RecallReply:
    """What falls is no longer there to act on: the next best take its place, and are looked at too."""
    for _ in range(LOOKS):
        if not recheck.look([hit.id for hit in found.hits if hit.type == "memory"]) or request.purpose != "act":
            break
        found = find(tenant, request)
    hits = [still for hit in found.hits if (still := as_rechecked(hit, request, recheck)) is not None]
    return found.model_copy(update={"hits": hits, "notes": [*found.notes, *recheck.notes]})


def as_rechecked(hit: Hit, request: RecallRequest, recheck: Recheck) -> Hit | None:
    """A hit with the result of the check of its citations; None if it was demoted and the hits are to be acted on."""
    if hit.type == "message":
        return hit
    recheck.look([hit.id])
    if hit.id in recheck.fallen and request.purpose == "act":
        return None
    status, cited = "hypothesis" if hit.id in recheck.fallen else hit.status, recheck.views[hit.id]
    why = f"{hit.why.rpartition(' [')[0]} [{citations.trust_in_words(status, cited)}]"
    return hit.model_copy(update={"status": status, "citations": cited, "why": why})


def find(tenant: Tenant, request: RecallRequest, *, to_use: bool = False, at_least: int = 0) -> RecallReply:
    """With `to_use` the hits go straight into a prompt: what hardly answers is left out, as it is to act.

    The best few, `at_least`, are kept all the same: where little is known, the words of a question may meet nothing,
    and a few that do not fit mislead less than fifty.
    """
    moment = now()
    conditions = search_conditions(request, request.as_of or moment, evidence_only=True)
    question = question_of(tenant, request, moment)
    pool = pool_of(tenant, request, question, conditions)
    with tenant.turn:
        is_cut = not (to_use or request.purpose == "act" or pool.has_messages)
        ranked = ranked_of(pool, request, moment, request.limit if is_cut else None)
        least = least_of(ranked, request, pool, to_use)
        kept = 0 if request.purpose == "act" or request.min_match is not None else at_least
        best = [hit for place, hit in enumerate(ranked) if place < kept or hit.match >= least]
        hits = hits_of(tenant, without_repeats(tenant, best, pool, request.limit), pool, question)
        if request.follow:
            asked = Follow(tuple(request.follow), request.hops, request.limit)
            hits = with_linked(tenant, request, asked, hits, question, pool.notes)
        left_out = sum(hit.match < least for hit in ranked[kept : request.limit]) if request.min_match is None else 0
        notes = pool.notes
        if left_out:
            told = f"{left_out} that hardly answer were left out (match below {least:.2f}): min_match=0 shows them"
            notes = [*notes, told]
        sure = confidence(ranked) if pool.ranking is not None and pool.vectors is not None else None
        return RecallReply(
            hits=hits,
            left_out=left_out,
            confidence=None if sure is None else round(sure, 4),
            answered=None if sure is None else sure >= ANSWERED and bool(hits),
            recent=_recent(tenant, request, hits),
            notes=notes,
        )


def question_of(tenant: Tenant, request: RecallRequest, moment: datetime) -> Question:
    """The question, with the days it names in the zone of whoever asks."""
    zone = ZoneInfo(zone_for(tenant, request.user))
    asked_at = request.as_of or moment
    try:
        question = read_question(request.query, asked_at.astimezone(zone))
    except OverflowError:  # the first and last days of the calendar have no local time everywhere
        question = read_question(request.query, asked_at)
    return replace(question, is_understood=request.vector is not None or is_understood(tenant, question))


def note_shown(tenant: Tenant, request: RecallRequest, hits: Sequence[Hit], action: str) -> None:
    """Note a search and what it showed: memories by their ids, messages by how many they were."""
    memories = [hit.id for hit in hits if hit.type == "memory"]
    note_search(tenant, request, memories, action, messages=len(hits) - len(memories))


def note_search(tenant: Tenant, request: RecallRequest, ids: list[str], action: str, *, messages: int = 0) -> None:
    """What was shown counts as read; the audit trail gets the shape of the question, not its words."""
    asked = {
        "length": len(request.query),
        "filters": sorted(request.model_fields_set - {"query", "vector", "vector_model"}),
        "limit": request.limit,
    }
    asked |= {"messages": messages} if messages else {}
    tenant.journal.note(tenant.scope, "search", action, ids, session=request.session, agent=request.agent, asked=asked)


def pool_of(tenant: Tenant, request: RecallRequest, question: Question, conditions: SearchConditions) -> Pool:
    """The candidates, in the way that was asked for."""
    given = given_vector(tenant, request.vector, request.vector_model)
    if request.as_of is not None and request.by != "everything":
        raise InvalidInput("the past is recalled by everything", remedy="leave `by` out, or as_of")
    notes: list[str] = []
    is_wanted = includes_messages(request, request.include_messages)
    if request.by == "words":
        tenant = replace(tenant, embedders=())
    guessed = None
    if request.as_of is None:
        besides = message_readings(request) if is_wanted else []
        tenant, guessed = read_first(
            tenant, question, conditions, given, by=request.by, limit=request.limit, besides=besides, notes=notes
        )
    messages = message_conditions(tenant, request, notes) if is_wanted else None
    searched: list[Conditions] = [conditions, *([messages] if messages is not None else [])]
    if request.as_of is not None:
        if request.follow:
            raise InvalidInput("links are followed as they are now", remedy="leave `follow` out, or as_of")
        pool = gather_past(tenant, question, conditions, messages, request.as_of, given, request.limit)
    elif request.by == "meaning":
        pool = gather_near(tenant, question, searched, given, request.limit, guessed)
        pool.ahead = tenant
    else:
        if request.by == "words" and given:
            raise InvalidInput("by words alone no vector is used", remedy="leave the vector out, or `by`")
        pool = gather(tenant, question, searched, given=given, limit=request.limit, guessed=guessed)
    pool.notes += notes
    if "access" in request.boost:
        of_these = Query(Memory, (OneOf("id", tuple(pool.rows)),), any_order=True)
        pool.access_counts = dict(tenant.select(of_these, ("id", "access_count")))
    return pool


def least_of(ranked: Sequence[Ranked], request: RecallRequest, pool: Pool, to_use: bool = False) -> float:
    """The match that a hit must have: what was asked for, or where hits are used at once, what does not mislead.

    By words alone nothing is left out: who shares no word with the question is not found, but beside one who does, and
    of LoCoMo's evidence found so an eighth has no word of the question.
    """
    if request.min_match is not None:
        return request.min_match
    is_used = to_use or request.purpose == "act"
    return least_match(confidence(ranked)) if is_used and pool.vectors else 0.0


def ranked_of(pool: Pool, request: RecallRequest, moment: datetime, limit: int | None = None) -> list[Ranked]:
    """The best of the pool; all of it when something besides relevance may reorder it."""
    if pool.ranking is not None:
        ranked = pool.ranking.best(limit if not request.boost and request.min_match is None else None)
    else:
        ranked = pool.ranked or []
    if not request.boost:
        return ranked
    boosted = [_boosted(hit, pool, request.boost, moment) for hit in ranked]
    return sorted(boosted, key=lambda hit: (-hit.score, hit.id))


def _boosted(hit: Ranked, pool: Pool, boost: Mapping[Boost, float], moment: datetime) -> Ranked:
    row = pool.rows[hit.id]
    age_days = max((moment - row.occurred_at).total_seconds() / 86400, 0.0)
    values = {
        "recency": 0.5 ** (age_days / 30),
        "priority": (row.priority - 5) / 5,
        "trust": TRUST.get(row.status, 0.0),
        "access": min(pool.access_counts.get(hit.id, 0), 100) / 100,
    }
    added: dict[str, float] = {name: weight * values[name] for name, weight in boost.items()}
    return replace(hit, score=hit.score + sum(added.values()), parts={**hit.parts, **added})


def _recent(tenant: Tenant, request: RecallRequest, hits: list[Hit]) -> list[RecentResult]:
    """The agent's latest results that the hits do not tell already; to act on, only what was verified counts."""
    if request.agent is None or request.as_of is not None or request.purpose == "act":
        return []
    told = {hit.id for hit in hits if hit.type == "memory"}
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
