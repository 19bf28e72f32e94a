"""The success rates of patterns, computed from their evidence, and the demotions that follow.

Evidence is linked, not counted: the episodes a pattern was generalised from, those that joined it later, the failed
ones that resemble it (counter-examples), and the reported applications. So an episode that is archived, forgotten or
corrected counts as it is now, and concurrent reports cannot overwrite each other. Counts that a pattern was stored with
are nobody's observation: they are shown as stated, and speak neither for it nor against it.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from recollect.domain.learning import PatternUse, Posterior, TrialOutcome, posterior, stated_rate, verdict
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
    stated: float | None = Field(None, description="The rate it was stored with: stated, not observed, and not counted")
    stated_uses: int | None = Field(None, description="Of how many uses it was stated")

    def __str__(self) -> str:
        told = f"{self.successes:g} of {self.successes + self.failures:g} worked"
        if self.stated is not None:
            told += f"; {self.stated:.0%} stated" + (f" of {self.stated_uses}" if self.stated_uses else "")
        return f"{self.expected:.0%} ({self.low:.0%} to {self.high:.0%}; {told})"


def rate_of(found: Posterior) -> Rate:
    return Rate(
        expected=round(found.mean, 4),
        low=round(found.low, 4),
        high=round(found.high, 4),
        successes=found.successes,
        failures=found.failures,
        stated=found.stated.rate if found.stated else None,
        stated_uses=found.stated.uses if found.stated else None,
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
    tenant: Tenant, patterns: Sequence[Memory], joining: Sequence[TrialOutcome] = (), replaced: str | None = None
) -> dict[str, Posterior]:
    """The success rate of each pattern, by all its evidence and what is about to join it or to replace a use of it."""
    moment = now()
    ids = [pattern.id for pattern in patterns]
    uses: dict[str, list[TrialOutcome]] = {id: [] for id in ids}
    told = Query(PatternUse, (OneOf("pattern_id", tuple(ids)), IsNull("outcome", wanted=False)))
    for use in tenant.find(told).records if ids else []:
        if use.id != replaced:
            uses[use.pattern_id].append(reported(use))
    evidence = evidence_of(tenant, ids)
    return {
        pattern.id: posterior(
            [*of_episodes(evidence[pattern.id]), *uses[pattern.id], *joining],
            moment,
            stated=stated_rate(pattern.content),
        )
        for pattern in patterns
    }


def reported(use: PatternUse) -> TrialOutcome:
    return TrialOutcome(use.outcome == "success", use.reported_at or use.updated_at)


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
