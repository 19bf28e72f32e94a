"""Why a memory is missing from an answer: the filter, the threshold or the rank that kept it out."""

from __future__ import annotations

from pydantic import Field

from recollect.domain.memory import Memory
from recollect.domain.record import Id, now
from recollect.ports.query import Query, equal
from recollect.services.recall.filters import search_conditions
from recollect.services.recall.recall import RecallRequest, least_of, pool_of, question_of, ranked_of
from recollect.services.requests import Reply
from recollect.services.tenant import Tenant
from recollect.services.transaction import load


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
    conditions = search_conditions(request, request.as_of or moment, evidence_only=True)
    failed = [
        one.otherwise
        for one in conditions.conditions()
        if not tenant.count(Query(Memory, (equal("id", memory.id), one.filter)))
    ]
    if failed and request.as_of is None:
        return WhyNot(id=memory.id, found=False, reasons=failed)
    question = question_of(tenant, request, moment)
    pool = pool_of(tenant, request, question, conditions)
    ranked = ranked_of(pool, request, moment)
    place = next((place for place, hit in enumerate(ranked, 1) if hit.id == memory.id), None)
    if place is None:
        reasons = [f"it is not among the {len(ranked)} that share words with the question or are near it in meaning"]
        return WhyNot(id=memory.id, found=False, reasons=reasons + pool.notes)
    hit = ranked[place - 1]
    reasons = []
    least = least_of(ranked, request, pool)
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
