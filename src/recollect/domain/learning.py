"""How often something works: a Beta posterior over outcomes, and the record of each use of a pattern.

A rate is never a bare ratio. Before anything is known it is Beta(1, 1), every rate equally likely; each success and
each failure moves it by one, less the longer ago it was (half after `HALF_LIFE_DAYS`). What ranks a pattern is the
lower end of its interval: three successes of three stand below ninety of a hundred.

The counts are read off the outcomes whenever they are needed and stored nowhere, so reports from many processes cannot
lose one another: each is its own record, and an application is reported once.

A rate that a pattern was stored with is stated, not observed: it is shown as such, and moves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Literal

from pydantic import Field

from recollect.domain.record import Id, Json, JsonObject, Moment, Record, Reference, Shape, Text, Unique

PRIOR = (1.0, 1.0)
HALF_LIFE_DAYS = 180.0
CERTAINTY = 0.9  # the interval holds the rate with this probability
LEAST_EVIDENCE = 3  # outcomes before a pattern is offered, or given up
DOUBTFUL_BELOW = 0.5  # expected rate below which a trusted pattern becomes a hypothesis again
UNSTATED_RATE = 0.5  # what the content of a pattern has where no rate was given
USELESS_BELOW = 0.5  # a pattern is put aside when even the upper end of its interval is lower

UseOutcome = Literal["success", "failure"]


class PatternUse(Record):
    """One application of a pattern to a task, and what came of it. The outcome is set once."""

    shape: ClassVar[Shape] = Shape(
        "pattern_use",
        references={
            "organization_id": Reference("organization"),
            "pattern_id": Reference("memory"),
            "agent_id": Reference("agent", on_delete="clear"),
            "session_id": Reference("session", on_delete="clear"),
        },
        unique=(Unique(("idempotency_key",)),),
        indexes=(("pattern_id", "id"), ("agent_id",), ("session_id",)),
        encrypted=frozenset({"task", "values", "note"}),
    )

    pattern_id: Id
    pattern_version: int = Field(ge=1)
    agent_id: Id | None = None
    session_id: Id | None = None
    task: Text = ""
    values: Json = Field(default_factory=dict)
    outcome: UseOutcome | None = None
    reported_at: Moment | None = None
    note: Text = ""
    idempotency_key: Id | None = None


@dataclass(frozen=True, slots=True)
class TrialOutcome:
    """Something that was tried: whether it worked, when, and for how many tries it stands."""

    success: bool
    at: datetime
    count: float = 1.0


@dataclass(frozen=True, slots=True)
class StatedRate:
    """What a pattern was said to do when it was stored: a rate, and of how many uses; 0 where that was not said."""

    rate: float
    uses: int = 0


def stated_rate(content: JsonObject) -> StatedRate | None:
    """The rate and counts in the content of a pattern; None if nothing was stated."""
    uses, worked = int(content.get("usage_count", 0)), int(content.get("success_count", 0))
    rate = float(content.get("success_rate", UNSTATED_RATE))
    if rate != UNSTATED_RATE:
        return StatedRate(rate, uses)
    return StatedRate(min(worked / uses, 1.0), uses) if uses else None


@dataclass(frozen=True, slots=True)
class Posterior:
    """Beta(alpha, beta), and how many outcomes it rests on before decay; beside it, what was stated."""

    alpha: float
    beta: float
    successes: float
    failures: float
    stated: StatedRate | None = None

    @property
    def evidence(self) -> float:
        return self.successes + self.failures

    @property
    def mean(self) -> float:
        return self.alpha / (self.alpha + self.beta)

    @property
    def low(self) -> float:
        return beta_quantile((1 - CERTAINTY) / 2, self.alpha, self.beta)

    @property
    def high(self) -> float:
        return beta_quantile((1 + CERTAINTY) / 2, self.alpha, self.beta)


def posterior(
    outcomes: Iterable[TrialOutcome],
    moment: datetime,
    half_life_days: float = HALF_LIFE_DAYS,
    stated: StatedRate | None = None,
) -> Posterior:
    """What the outcomes say at a moment. One from the future weighs as if it were now."""
    alpha, beta = PRIOR
    counted = {True: 0.0, False: 0.0}
    for outcome in outcomes:
        age_days = max((moment - outcome.at).total_seconds() / 86_400, 0.0)
        weight = outcome.count * 0.5 ** (age_days / half_life_days)
        counted[outcome.success] += outcome.count
        if outcome.success:
            alpha += weight
        else:
            beta += weight
    return Posterior(alpha, beta, counted[True], counted[False], stated)


Verdict = Literal["fine", "doubtful", "useless"]


def verdict(found: Posterior) -> Verdict:
    """Whether a pattern has earned its place. Too few outcomes say nothing."""
    if found.evidence < LEAST_EVIDENCE:
        return "fine"
    if found.high < USELESS_BELOW:
        return "useless"
    return "doubtful" if found.mean < DOUBTFUL_BELOW else "fine"


# Beta quantiles without scipy, which would be a hundred megabytes for two functions.


def beta_quantile(probability: float, alpha: float, beta: float) -> float:
    """The rate that is not exceeded with this probability, by bisection: 50 halvings are past double precision."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        if beta_cdf(middle, alpha, beta) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def beta_cdf(rate: float, alpha: float, beta: float) -> float:
    """The probability that a Beta(alpha, beta) rate is at most `rate`: the regularised incomplete beta function."""
    if rate <= 0.0:
        return 0.0
    if rate >= 1.0:
        return 1.0
    # The fraction converges fast only on the near side of the mean; the other side follows by symmetry.
    if rate > (alpha + 1) / (alpha + beta + 2):
        return 1.0 - beta_cdf(1.0 - rate, beta, alpha)
    logarithm = math.lgamma(alpha + beta) - math.lgamma(alpha) - math.lgamma(beta)
    front = math.exp(logarithm + alpha * math.log(rate) + beta * math.log1p(-rate)) / alpha
    return front * _continued_fraction(rate, alpha, beta)


def _continued_fraction(x: float, a: float, b: float) -> float:
    """Lentz's evaluation of the continued fraction of the incomplete beta function."""
    tiny = 1e-300
    c, d = 1.0, 1.0 / max(1.0 - (a + b) * x / (a + 1), tiny)
    result = d
    for m in range(1, 1000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1.0 + term * d
            c = 1.0 + term / c
            d = 1.0 / (d if abs(d) > tiny else tiny)
            c = c if abs(c) > tiny else tiny
            result *= d * c
        if abs(d * c - 1.0) < 1e-12:
            break
    return result
