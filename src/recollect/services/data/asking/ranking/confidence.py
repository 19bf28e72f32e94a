"""How sure an answer is, and whether the data can answer at all: two small logistic regressions.

Calibrated on questions to databases that the other parts were not trained on: of what is at or above the
threshold, nine in ten are right. Questions put to databases they were not written for teach the second one to decline.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, nan

import numpy as np
from numpy.typing import NDArray

from recollect.services.data.asking.analysis import Analysis, Prepared
from recollect.services.data.asking.candidates.generation import Candidate
from recollect.services.data.asking.language.words import STOPWORDS
from recollect.services.data.asking.plans.plan import ANY, tables_of
from recollect.services.data.asking.plans.schema import Scalar
from recollect.services.data.asking.ranking.model import Model

DECLINED_BELOW = 0.1
_SPELLED = 0.5
_ASKING = frozenset(
    """many much name names show list find give return what which who where when how number count average total sum
    maximum minimum
    highest lowest largest smallest most least more less than each every per order ordered sorted ascending descending
    alphabetical alphabetically different distinct unique all top first last common popular top have has had does do did
    greater fewer above below over under least between before after both either also only any some corresponding
    respective respectively please tell display report details information together along using used exist
    exists""".split()
)


@dataclass(frozen=True)
class Outcome:
    """What is known after ranking and running: the features of both regressions."""

    features: NDArray[np.float32]

    @staticmethod
    def of(
        analysis: Analysis,
        prepared: Prepared,
        found: Sequence[Candidate],
        shares: Sequence[float],
        rows: Sequence[Sequence[Sequence[Scalar]] | None],
        position: int = 0,
        likeness: float = 0.0,
    ) -> Outcome:
        """`position` is where the first ranker saw the best; `likeness` that of the nearest verified question."""
        best, plan, schema = found[0], found[0].plan, prepared.schema
        first = min(max(shares[0], 1e-6), 1 - 1e-6)
        second = shares[1] if len(shares) > 1 else 1e-6
        links = analysis.evidence.links
        fields = plan.all_fields()
        tables = {t for level in plan.levels() for t in tables_of(level, schema)}
        unread, guessed, words = _unread(analysis, fields, tables)
        empty = rows[0] is not None and (not rows[0] or all(v is None for row in rows[0] for v in row))
        strongest = max((m.score for each in links.tables for m in each[:1]), default=0.0)
        spelled = max((m.by_spelling for each in (*links.tables, *links.fields) for m in each[:1]), default=0.0)
        shown = [item.field for item in plan.select if item.field != ANY]
        return Outcome(
            np.array(
                [
                    1.0,
                    log(first / (1 - first)),
                    log(first) - log(max(second, 1e-6)),
                    best.form,
                    min(best.fill, 10.0) / 5,
                    best.literal,
                    unread,
                    unread / max(1, words),
                    guessed / max(1, words),
                    float(empty),
                    len(tables),
                    len(fields),
                    len(list(plan.levels())) - 1,
                    len(best.assignment.unused),
                    strongest,
                    spelled,
                    float(links.field_meaning.max(initial=0.0)) if links.vector is not None else nan,
                    float(links.table_meaning.max(initial=0.0)) if links.vector is not None else nan,
                    float(len(links.tokens)) / 10,
                    float(bool(plan.order)),
                    float(bool(plan.group)),
                    log(1 + position),
                    likeness,
                    log(1 + len(schema.tables)),
                    log(1 + len(schema.fields)),
                    _rivals(analysis, fields),
                    sum(max((m.by_spelling for m in links.fields[f]), default=0.0) < _SPELLED for f in shown),
                    len(plan.select),
                    sum(not c.nested for level in plan.levels() for c in level.where),
                    float(plan.distinct),
                    -sum(share * log(max(share, 1e-6)) for share in shares),
                ],
                np.float32,
            )
        )


def _rivals(analysis: Analysis, fields: set[int]) -> int:
    """Fields that the same words name about as well as one that was taken."""
    links = analysis.evidence.links
    taken = [links.fields[field][0] for field in fields if links.fields[field]]
    others = [each[0] for field, each in enumerate(links.fields) if each and field not in fields]
    return sum(any(o.places & t.places and o.score >= t.score - 0.1 for t in taken) for o in others)


def _unread(analysis: Analysis, fields: set[int], tables: set[int]) -> tuple[int, int, int]:
    """Words of the question that say something and that the query leaves out, or takes by meaning alone; and all."""
    links = analysis.evidence.links
    literal = {at for each in analysis.evidence.literals for at in range(each.start, each.end)}
    content = [
        at
        for at, token in enumerate(links.tokens)
        if token.kind == "word" and at not in literal and token.word not in STOPWORDS and token.word not in _ASKING
    ]
    mentions = [m for f in fields for m in links.fields[f]] + [m for t in tables for m in links.tables[t]]
    spelled = {at for m in mentions if m.by_spelling >= 0.3 for at in m.places}
    meant = {at for m in mentions if m.score >= 0.3 for at in m.places}
    return (
        sum(at not in meant for at in content),
        sum(at in meant and at not in spelled for at in content),
        len(content),
    )


def probability(features: NDArray[np.float32], weights: NDArray[np.float32]) -> float:
    known = np.where(np.isnan(features), weights[0], features)  # without an encoder: as usual
    score = float(((known - weights[0]) / weights[1]) @ weights[2] + weights[3, 0])
    return 1 / (1 + exp(-max(-30.0, min(30.0, score))))


def calibrated(outcome: Outcome, model: Model) -> float:
    """How likely the best reading is right."""
    return probability(outcome.features, model.confidence)


def answerable(outcome: Outcome, model: Model) -> bool:
    return probability(outcome.features, model.answerable) >= DECLINED_BELOW
