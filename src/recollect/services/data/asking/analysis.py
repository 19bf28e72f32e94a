"""A question looked at from all sides before any query is built: links, literals, form, roles of fields and tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np

from recollect.services.data.asking.candidates.verified import Memory, Recollection
from recollect.services.data.asking.language.linking import Encode, Links, Matrix, WordLinker
from recollect.services.data.asking.language.literals import Literal, literals
from recollect.services.data.asking.language.values import ValueIndex
from recollect.services.data.asking.plans.description import Describer
from recollect.services.data.asking.plans.joins import JoinGraph
from recollect.services.data.asking.plans.schema import Schema
from recollect.services.data.asking.plans.sketch import ASPECTS, ROLES, USES
from recollect.services.data.asking.ranking import features as of
from recollect.services.data.asking.ranking.features import Indices, Shape
from recollect.services.data.asking.ranking.model import Model, Weights, log_softmax, scores_of

Compare = Callable[[str, Sequence[str]], Matrix]
"""A question and descriptions of queries to one score each: how well a description fits."""


class Prepared:
    """A source made ready for questions: do it once, ask often.

    `encode` and `compare` are the models that the weights were trained with, `MiniLM.embed` and `QueryRanker.compare`
    of the adapters, whatever embeds memories. Without them it works by words alone, less well.
    """

    def __init__(
        self,
        schema: Schema,
        values: Mapping[int, Sequence[str]],
        encode: Encode | None = None,
        compare: Compare | None = None,
    ) -> None:
        from recollect.services.data.asking.plans.composing import Composer  # here, for it needs sqlglot

        self.schema = schema
        self.values = ValueIndex(schema, values)
        self.linker = WordLinker(schema, self.values, encode)
        self.encode = encode
        self.compare = compare
        self.graph = JoinGraph(schema)
        self.composer = Composer(schema, self.graph)
        self.describer = Describer(schema, self.graph)
        self.years_are_dates = _years_are_dates(schema)
        self.memory = Memory(schema, encode)
        self.statics = [of.static_features(schema, number) for number in range(len(schema.fields))]


def _years_are_dates(schema: Schema) -> bool:
    """Whether a year in a question can only mean a date: there are dates, and no numbers that look like years."""
    numbers = [
        each for each in schema.fields if isinstance(each.low, int | float) and isinstance(each.high, int | float)
    ]
    years = any(float(str(each.low)) >= 1500 and float(str(each.high)) <= 2100 for each in numbers)
    return not years and any(each.kind == "date" for each in schema.fields)


@dataclass(frozen=True)
class Evidence:
    """A question's features, before any weight is applied."""

    links: Links
    literals: Sequence[Literal]
    shape: Shape
    question: Indices
    meaning: Matrix
    fields: Sequence[Indices]
    tables: Sequence[Indices]
    bindings: Sequence[Sequence[Indices]]  # of each literal and each field
    uses: Sequence[Indices]


def evidence_of(question: str, prepared: Prepared, today: date | None = None) -> Evidence:
    schema = prepared.schema
    links = prepared.linker.link(question)
    found = literals(links.tokens, links.values, today, prepared.years_are_dates)
    shape = of.shape_of(links, found, schema)
    rivals = of.competition_of(links)
    numbers = range(len(schema.fields))
    strongest = [
        max((m.score for f in fields for m in links.fields[f][:1]), default=0.0) for fields in schema.fields_of
    ]
    return Evidence(
        links,
        found,
        shape,
        of.question_features(shape, found, links),
        of.meaning_of(shape, links, prepared.encode),
        [of.field_features(schema, n, links, shape, rivals, prepared.statics[n], found) for n in numbers],
        [of.table_features(schema, n, links, shape, rivals, strongest) for n in range(len(schema.tables))],
        [[of.binding_features(schema, each, n, links, shape, prepared.statics[n]) for n in numbers] for each in found],
        [of.use_features(each, links, shape) for each in found],
    )


@dataclass(frozen=True)
class Analysis:
    evidence: Evidence
    aspects: Mapping[str, Mapping[str, float]]  # log-probability of each label
    roles: Weights  # fields x roles, log-probability
    not_roles: Weights  # fields x roles, log of the opposite
    tables: Weights  # tables x 2, log-odds
    bindings: Sequence[Weights]  # of each literal: log-probability of each field
    uses: Sequence[Mapping[str, float]]  # of each literal

    def role(self, name: str, field: int) -> float:
        return float(self.roles[field, ROLES.index(name)])


def analyse(
    evidence: Evidence, model: Model, prepared: Prepared | None = None, recollection: Recollection | None = None
) -> Analysis:
    """With verified questions of the prepared source where some are recalled: they move the roles of fields."""
    logits = scores_of(model.roles, evidence.fields)
    tables = scores_of(model.tables, evidence.tables)
    aspects = {name: model.aspect(name, evidence.question, evidence.meaning) for name in ASPECTS}
    if recollection is not None and prepared is not None and recollection.items:
        features = recollection.role_features(prepared.schema, tables[:, 0])
        logits = _reminded(logits, features, model, recollection.trust)
    return Analysis(
        evidence,
        aspects,
        -np.logaddexp(0, -logits),
        -np.logaddexp(0, logits),
        tables,
        [_bindings(each, rows, model) for each, rows in zip(evidence.literals, evidence.bindings, strict=True)],
        [_uses(each, row, model) for each, row in zip(evidence.literals, evidence.uses, strict=True)],
    )


def _reminded(logits: Weights, features: Matrix, model: Model, trust: float) -> Weights:
    """Log-odds of roles, with what verified questions say, and less sure of themselves."""
    whole = np.concatenate((features, np.ones_like(logits)[..., None], logits[..., None]), axis=-1)
    return np.asarray(logits + trust * np.einsum("frx,rx->fr", whole, model.memory_roles), np.float32)


def _bindings(literal: Literal, rows: Sequence[Indices], model: Model) -> Weights:
    return log_softmax(scores_of(model.binding, rows)[:, 0])


def _uses(literal: Literal, row: Indices, model: Model) -> dict[str, float]:
    if literal.kind == "span":  # "last month" is always a condition
        return {"where": -0.1, "having": -9.0, "limit": -9.0, "none": -2.5}
    return dict(zip(USES, log_softmax(model.uses[row].sum(axis=0)).tolist(), strict=True))
