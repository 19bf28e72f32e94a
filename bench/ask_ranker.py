"""The ranker of whole candidates: their lists with what is right, a small network, and what memory adds."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from ask_examples import SEED, Example, Source, role_labels
from ask_sets import SHARED, Question, scorer
from recollect.services.data.asking.analysis import analyse
from recollect.services.data.asking.candidates.generation import candidates
from recollect.services.data.asking.candidates.verified import Recollection, Verified
from recollect.services.data.asking.plans.plan import ANY, Plan
from recollect.services.data.asking.plans.schema import Scalar
from recollect.services.data.asking.ranking.model import Model, scores_of
from recollect.services.data.asking.ranking.scores import features_of, features_of_memory
from recollect.services.data.asking.ranking.scores import scores as ranking_scores


@dataclass
class List:
    """The candidates of one question: features, which are right, their descriptions, and what the question was."""

    question: Question
    asked: str  # the question as it is compared
    features: NDArray[np.float32]
    right: NDArray[np.bool_]
    memory: NDArray[np.float32]
    texts: list[str]
    trust: float = 0.0  # in the verified questions that took part

    @property
    def whole(self) -> NDArray[np.float32]:
        return np.hstack((self.features, self.memory))


def candidate_list(each: Example, source: Source, model: Model, recollection: Recollection | None = None) -> List:
    analysis = analyse(each.evidence, model, source.prepared, recollection)
    found = candidates(analysis, source.prepared, model, recollection)
    gold = source.data.gold.run(each.question["gold_sql"])
    same = scorer(SHARED / "nlsql").same
    columns = len(gold[0]) if gold else None
    right = np.zeros(len(found), np.bool_)
    for at, candidate in enumerate(found):
        wide = candidate.plan.select[0].field == ANY and not candidate.plan.select[0].aggregate
        if columns is not None and not wide and len(candidate.plan.select) != columns:
            continue
        if not _is_near(candidate.plan, each.plan):
            continue
        rows = _rows(candidate.plan, source)
        if rows is None:
            continue
        if gold and len(rows) == len(gold):
            right[at] = same(gold, rows, each.question["order_matters"])
        elif not gold and not rows:
            right[at] = candidate.plan.all_fields() == each.plan.all_fields()
    return List(
        each.question,
        each.evidence.links.text,
        features_of(found, analysis, source.prepared),
        right,
        features_of_memory(found, recollection) if recollection is not None else np.zeros((len(found), 0), np.float32),
        [source.prepared.describer.text(candidate.plan) for candidate in found],
        recollection.trust if recollection is not None else 0.0,
    )


def _is_near(plan: Plan, gold: Plan) -> bool:
    """Whether the fields are much the same; what gives the right rows from others does so by accident."""
    mine, theirs = plan.all_fields(), gold.all_fields()
    return not theirs or not mine or 3 * len(mine & theirs) >= len(mine | theirs)


def _rows(plan: Plan, source: Source) -> list[tuple[Scalar, ...]] | None:
    """In SQLite, which answers small queries thirty times as fast as DuckDB."""
    sql = source.prepared.composer.sql(plan, "sqlite")
    if sql is None:
        return None
    if sql not in source.data.results:
        try:
            source.data.results[sql] = source.data.gold.run(sql)
        except (sqlite3.Error, RuntimeError):
            source.data.results[sql] = None
    return source.data.results[sql]


def recollections(data: Sequence[Example], sources: dict[str, Source]) -> list[Recollection]:
    """For every question: a part of the other groups of its database as verified, more or fewer of them."""
    rng = random.Random(SEED)
    grouped: dict[str, dict[str, list[Question]]] = {}
    for each in data:
        grouped.setdefault(each.question["db"], {}).setdefault(each.question["group"], []).append(each.question)
    made = []
    for each in data:
        groups = grouped[each.question["db"]]
        share = rng.choice((0.1, 0.25, 0.5, 0.5, 0.7))
        known = [q for g, qs in groups.items() if g != each.question["group"] and rng.random() < share for q in qs]
        verified = [Verified(q["question"], q["gold_duckdb"]) for q in known if q.get("gold_duckdb")]
        said = [str(literal.value) for literal in each.evidence.literals if literal.kind == "text"]
        made.append(sources[each.question["db"]].prepared.memory.recall(each.question["question"], verified, said))
    return made


Ranker = dict[str, NDArray[np.float32]]
HIDDEN = 24
BATCH = 16


def joined(rankers: Sequence[Ranker]) -> Ranker:
    """One ranker whose scores are the mean of several, but for a constant. Their scaling goes into the weights."""
    width, count = len(rankers[0]["linear"]), len(rankers)
    biases = [each["hidden_bias"] - (each["mean"] / each["deviation"]) @ each["hidden"] for each in rankers]
    return {
        "linear": np.sum([each["linear"] / each["deviation"] for each in rankers], axis=0) / count,
        "hidden": np.concatenate([each["hidden"] / each["deviation"][:, None] for each in rankers], axis=1),
        "hidden_bias": np.concatenate(biases),
        "output": np.concatenate([each["output"] for each in rankers]) / count,
        "mean": np.zeros(width, np.float32),
        "deviation": np.ones(width, np.float32),
    }


def train_ranker(data: Sequence[List], seed: int = SEED, epochs: int = 16, memory: bool = False) -> Ranker:
    """Listwise: the probability of all right candidates of a question together. `memory`: its features take part."""
    usable = [each for each in data if each.right.any() and not each.right.all()]
    features = [each.whole if memory else each.features for each in usable]
    stacked = np.concatenate(features)
    mean, deviation = stacked.mean(axis=0), stacked.std(axis=0) + 1e-3
    rng = np.random.default_rng(seed)
    width = stacked.shape[1]
    params = {
        "linear": np.zeros(width), "hidden": rng.normal(0, 0.15, (width, HIDDEN)), "hidden_bias": np.zeros(HIDDEN),
        "output": rng.normal(0, 0.05, HIDDEN),
    }  # fmt: skip
    params["linear"][:3] = stacked.std(axis=0)[:3]
    first = {k: np.zeros_like(v) for k, v in params.items()}
    second = {k: np.zeros_like(v) for k, v in params.items()}
    scaled = [(each - mean) / deviation for each in features]
    step = 0
    for epoch in range(epochs):
        rate = 0.01 * (1 - epoch / epochs) + 0.0005
        order = rng.permutation(len(usable))
        for start in range(0, len(order), BATCH):
            batch = order[start : start + BATCH]
            grads = _gradient(params, [scaled[at] for at in batch], [usable[at].right for at in batch])
            step += 1
            for k in params:
                g = grads[k] / BATCH + 0.2 * params[k] / len(usable)
                first[k] = 0.9 * first[k] + 0.1 * g
                second[k] = 0.999 * second[k] + 0.001 * g * g
                params[k] -= rate * (first[k] / (1 - 0.9**step)) / (np.sqrt(second[k] / (1 - 0.999**step)) + 1e-8)
    result = {k: v.astype(np.float32) for k, v in params.items()}
    return result | {"mean": mean.astype(np.float32), "deviation": deviation.astype(np.float32)}


def _gradient(
    params: dict[str, NDArray[np.float64]], lists_: Sequence[NDArray[np.float32]], rights: Sequence[NDArray[np.bool_]]
) -> dict[str, NDArray[np.float64]]:
    x, right = np.concatenate(lists_), np.concatenate(rights)
    lengths = np.array([len(each) for each in lists_])
    starts = np.concatenate(([0], np.cumsum(lengths)[:-1]))

    def shares(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(values / np.repeat(np.maximum(np.add.reduceat(values, starts), 1e-12), lengths))

    hidden = np.tanh(x @ params["hidden"] + params["hidden_bias"])
    scores = x @ params["linear"] + hidden @ params["output"]
    p = shares(np.exp(scores - np.repeat(np.maximum.reduceat(scores, starts), lengths)))
    slope = p - shares(np.where(right, p, 0.0))
    back = np.outer(slope, params["output"]) * (1 - hidden * hidden)
    return {
        "linear": x.T @ slope,
        "output": hidden.T @ slope,
        "hidden": x.T @ back,
        "hidden_bias": back.sum(axis=0),
    }


def fit_reminders(
    data: Sequence[Example], sources: dict[str, Source], models: Sequence[Model], remembered: Sequence[Recollection]
) -> NDArray[np.float32]:
    """How verified questions move the roles of fields: for each role a logistic regression on top of its log-odds.

    `models` and `remembered` are of each example, the model one that did not see its database.
    """
    offsets, features, goals = [], [], []
    for each, model, recollection in zip(data, models, remembered, strict=True):
        schema = sources[each.question["db"]].data.schema
        tables = scores_of(model.tables, each.evidence.tables)[:, 0]
        offsets.append(scores_of(model.roles, each.evidence.fields))
        features.append(recollection.role_features(schema, tables))
        goals.append(role_labels(each.plan, schema))
    offset, x, goal = np.concatenate(offsets), np.concatenate(features), np.concatenate(goals)
    whole = np.concatenate((x, np.ones_like(offset)[..., None], offset[..., None]), axis=-1).astype(np.float64)
    whole *= np.repeat([each.trust for each in remembered], [len(each) for each in offsets])[:, None, None]
    return np.stack([_fit_offset(whole[:, at], offset[:, at], goal[:, at]) for at in range(goal.shape[1])])


def _fit_offset(x: NDArray[np.float64], offset: NDArray[np.float32], goal: NDArray[np.float32]) -> NDArray[np.float32]:
    def loss(w: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        scores = offset + x @ w
        value = (np.logaddexp(0, scores) - goal * scores).sum() + 0.5 * (w * w).sum()
        return float(value), x.T @ (1 / (1 + np.exp(-scores)) - goal) + w

    return np.asarray(minimize(loss, np.zeros(x.shape[1]), jac=True, method="L-BFGS-B").x, np.float32)


def likely(each: List, ranker: Ranker, recalled: Ranker | None, most: int) -> Likely:
    """The first candidates by rank, without those that read the same; `recalled` where verified ones take part."""
    own = ranking_scores(each.features, ranker) if len(each.features) else np.zeros(0, np.float32)
    if recalled is not None and len(own):
        own = own + each.trust * (ranking_scores(each.whole, recalled) - own)
    kept: dict[str, int] = {}
    for at in np.argsort(-own, kind="stable").tolist():
        kept.setdefault(each.texts[at], at)
        if len(kept) == most:
            break
    at = list(kept.values())
    return Likely(each, own[at], each.right[at], list(kept))


@dataclass
class Likely:
    """The likely candidates of one question, best first."""

    of: List
    own: NDArray[np.float32]
    right: NDArray[np.bool_]
    texts: list[str]

    def stacked(self, compared: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.stack((self.own, compared), axis=1)


def fit_combination(stacks: Sequence[NDArray[np.float32]], rights: Sequence[NDArray[np.bool_]]) -> NDArray[np.float32]:
    """The weights of rank and comparison; listwise."""
    usable = [(x, r) for x, r in zip(stacks, rights, strict=True) if r.any() and not r.all()]

    def loss(w: NDArray[np.float64]) -> float:
        total = 0.0
        for x, right in usable:
            scores = x @ w
            scores = scores - scores.max()
            total -= float(np.log(np.exp(scores)[right].sum() / np.exp(scores).sum() + 1e-12))
        return total + 0.5 * float(((w - 1) ** 2).sum())

    return np.asarray(minimize(loss, np.ones(2), method="L-BFGS-B").x, np.float32)
