"""The success rates of patterns, computed from their evidence, and the demotions that follow.

Evidence is linked, not counted: the episodes a pattern was generalised from, those that joined it later, the failed
ones that resemble it (counter-examples), the reported applications, and the counts it may have been imported with. So
an episode that is archived, forgotten or corrected counts as it is now, and concurrent reports cannot overwrite each
other.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from recollect.domain.learning import PatternUse, Posterior, TrialOutcome, posterior, verdict
from recollect.domain.memory import TRUSTED, Memory, Relationship
from recollect.domain.record import now
from recollect.ports.query import Compare, IsNull, OneOf, Query
from recollect.ports.steps import Step, Touch
from recollect.services.memories.derived import GENERALIZED
from recollect.services.memories.revise import change_steps
from recollect.services.requests import Reply
from recollect.services.tenant import Tenant

SUPPORTED, COUNTER = "supported_by", "counter_example"
EVIDENCE = (GENERALIZED, SUPPORTED, COUNTER)
PATTERNS = ("pattern", "query_pattern")


class Rate(Reply):
    """How often something works: the expected rate, its 90% interval, and the amount of evidence.

    The prior is Beta(1, 1); older outcomes weigh less, half after 180 days.
    """

    expected: float = Field(description="The mean of the posterior")
    low: float = Field(description="The lower end of the interval, by which patterns are ranked")
    high: float = Field(description="The upper end")
    successes: float
    failures: float

    def __str__(self) -> str:
        counted = f"{self.successes:g} of {self.successes + self.failures:g} worked"
        return f"{self.expected:.0%} ({self.low:.0%} to {self.high:.0%}; {counted})"


def rate_of(found: Posterior) -> Rate:
    return Rate(
        expected=round(found.mean, 4),
        low=round(found.low, 4),
        high=round(found.high, 4),
        successes=found.successes,
        failures=found.failures,
    )


def evidence_of(tenant: Tenant, ids: Sequence[str]) -> dict[str, dict[str, list[Memory]]]:
    """By pattern and type of link, the linked episodes that are not forgotten, oldest first."""
    found: dict[str, dict[str, list[Memory]]] = {id: {type: [] for type in EVIDENCE} for id in ids}
    if not ids:
        return found
    links = Query(Relationship, (OneOf("source_id", tuple(ids)), OneOf("type", EVIDENCE)))
    rows = tenant.select(links, ("source_id", "type", "target_id"))
    wanted = tuple({target for _, _, target in rows})
    living = (OneOf("id", wanted), Compare("status", "!=", "archived"))
    episodes = {one.id: one for one in tenant.find(Query(Memory, living)).records} if wanted else {}
    for source, type, target in sorted(rows, key=lambda row: row[2]):
        if target in episodes:
            found[source][type].append(episodes[target])
    return found


def posteriors(
    tenant: Tenant, patterns: Sequence[Memory], joining: Sequence[TrialOutcome] = ()
) -> dict[str, Posterior]:
    """The success rate of each pattern, by all its evidence and the episodes about to join it."""
    moment = now()
    ids = [pattern.id for pattern in patterns]
    uses: dict[str, list[TrialOutcome]] = {id: [] for id in ids}
    told = Query(PatternUse, (OneOf("pattern_id", tuple(ids)), IsNull("outcome", wanted=False)))
    for use in tenant.find(told).records if ids else []:
        uses[use.pattern_id].append(reported(use))
    evidence = evidence_of(tenant, ids)
    return {
        pattern.id: posterior(
            [*_brought(pattern), *of_episodes(evidence[pattern.id]), *uses[pattern.id], *joining], moment
        )
        for pattern in patterns
    }


def reported(use: PatternUse) -> TrialOutcome:
    return TrialOutcome(use.outcome == "success", use.reported_at or use.updated_at)


def _brought(pattern: Memory) -> list[TrialOutcome]:
    """The counts a pattern was created with, dated to its creation."""
    used = float(pattern.content.get("usage_count", 0))
    worked = min(float(pattern.content.get("success_count", 0)), used)
    counts = {True: worked, False: used - worked}
    return [TrialOutcome(success, pattern.occurred_at, count) for success, count in counts.items() if count]


def of_episodes(evidence: dict[str, list[Memory]]) -> list[TrialOutcome]:
    return [
        TrialOutcome(bool(episode.content.get("success")), episode.occurred_at)
        for episodes in evidence.values()
        for episode in episodes
    ]


def judged_steps(tenant: Tenant, pattern: Memory, found: Posterior) -> list[Step]:
    """Demote or archive a pattern that fails too often; otherwise store the lower bound as its score."""
    judgement = verdict(found)
    worked = f"{found.successes:g} of {found.evidence:g} uses worked"
    if judgement == "useless" and pattern.status != "archived":
        why = f"{worked}: at best {found.high:.0%} can be expected"
        return change_steps(tenant, pattern, "archived", why, status="archived", score=round(found.low, 4))
    if judgement == "doubtful" and pattern.status in TRUSTED:
        why = f"{worked}: {found.mean:.0%} expected"
        return change_steps(tenant, pattern, "demoted", why, status="hypothesis", score=round(found.low, 4))
    return [Touch(Memory, pattern.id, put={"score": round(found.low, 4)})]
