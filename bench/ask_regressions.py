"""The parts that look at one thing each (form, roles, tables, literals): logistic regressions over hashed features."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import log

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize

from ask_examples import SEED, Example, Source, literal_labels, role_labels, table_labels
from recollect.services.data.asking.plans.sketch import ASPECTS, USES
from recollect.services.data.asking.ranking.features import PLACES, Indices
from recollect.services.data.asking.ranking.model import Model

BLIND = 0.1  # of the examples are shown without the encoder's vectors, so that it works without an encoder, too
RAREST = 2  # a label seen less often is not predicted


def matrix(rows: Sequence[Indices]) -> sparse.csr_matrix:
    lengths = [len(row) for row in rows]
    pointers = np.concatenate(([0], np.cumsum(lengths)))
    return sparse.csr_matrix(
        (np.ones(pointers[-1], np.float32), np.concatenate(rows), pointers), shape=(len(rows), PLACES)
    )


def fit(
    rows: Sequence[Indices],
    targets: NDArray[np.float32],
    kind: str,
    penalty: float,
    groups: NDArray[np.int64] | None = None,
    steps: int = 50,
) -> NDArray[np.float32]:
    """Weights, places x outputs. `kind`: softmax over outputs, sigmoid per output, grouped: over a group's rows."""
    full = matrix(rows)
    used = np.flatnonzero(np.bincount(full.indices, minlength=PLACES) >= 2)
    part = full[:, used]
    turned = part.T.tocsr()
    outputs = targets.shape[1]
    goal = targets
    scale = np.ones((len(rows), 1), np.float32)
    groups = np.arange(len(rows)) if groups is None else groups
    starts = np.flatnonzero(np.concatenate(([True], groups[1:] != groups[:-1])))
    lengths = np.diff(np.concatenate((starts, [len(rows)])))

    def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        w = flat.reshape(len(used), outputs).astype(np.float32)
        scores = part @ w
        if kind == "sigmoid":
            value = (np.logaddexp(0, scores) - goal * scores) * scale
            slope = (1 / (1 + np.exp(-scores)) - goal) * scale
            total = value.sum()
        elif kind == "softmax":
            scores -= scores.max(axis=1, keepdims=True)
            logp = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
            total = -(goal * logp * scale).sum()
            slope = (np.exp(logp) - goal) * scale
        else:
            s = scores[:, 0]
            top = np.maximum.reduceat(s, starts)
            e = np.exp(s - np.repeat(top, lengths))
            p = e / np.repeat(np.add.reduceat(e, starts), lengths)
            total = -(goal[:, 0] * np.log(p + 1e-12)).sum()
            slope = (p - goal[:, 0])[:, None]
        return float(total) + penalty * float((w * w).sum()) / 2, (turned @ slope + penalty * w).ravel().astype(
            np.float64
        )

    found = minimize(loss, np.zeros(len(used) * outputs), jac=True, method="L-BFGS-B", options={"maxiter": steps})
    result = np.zeros((PLACES, outputs), np.float32)
    result[used] = found.x.reshape(len(used), outputs)
    return result


def fit_forms(
    rows: Sequence[Indices], meanings: NDArray[np.float32], goal: NDArray[np.float32], penalty: float = 1.0
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """A softmax over labels from hashed features and from the encoder's vectors."""
    full = matrix(rows)
    used = np.flatnonzero(np.bincount(full.indices, minlength=PLACES) >= 2)
    part = full[:, used]
    turned = part.T.tocsr()
    cut, outputs = len(used), goal.shape[1]

    def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        w = flat.reshape(-1, outputs).astype(np.float32)
        scores = part @ w[:cut] + meanings @ w[cut:]
        scores -= scores.max(axis=1, keepdims=True)
        logp = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
        slope = np.exp(logp) - goal
        gradient = np.concatenate([turned @ slope, meanings.T @ slope]) + penalty * w
        return float(-(goal * logp).sum()) + penalty * float((w * w).sum()) / 2, gradient.ravel().astype(np.float64)

    start = np.zeros((cut + meanings.shape[1]) * outputs)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 60}).x
    found = found.reshape(-1, outputs).astype(np.float32)
    hashed = np.zeros((PLACES, outputs), np.float32)
    hashed[used] = found[:cut]
    return hashed, found[cut:]


def train_parts(data: Sequence[Example], sources: dict[str, Source]) -> Model:
    labels, aspects, meanings = {}, {}, {}
    for name in ASPECTS:
        counts = Counter(each.sketch.label(name) for each in data)
        labels[name] = tuple(sorted(label for label, count in counts.items() if count >= RAREST))
        kept = [each for each in data if each.sketch.label(name) in labels[name]]
        goal = np.zeros((len(kept), len(labels[name])), np.float32)
        for row, each in enumerate(kept):
            goal[row, labels[name].index(each.sketch.label(name))] = 1
        vectors = np.stack([each.evidence.meaning for each in kept])
        blind = np.random.default_rng(SEED).random(len(kept)) < BLIND
        vectors[blind] = 0  # so that it also works where no encoder is at hand
        aspects[name], meanings[name] = fit_forms([each.evidence.question for each in kept], vectors, goal)
    schemas = [sources[each.question["db"]].data.schema for each in data]
    rows = [row for each in data for row in each.evidence.fields]
    goal = np.concatenate([role_labels(each.plan, schema) for each, schema in zip(data, schemas, strict=True)])
    roles = fit(rows, goal, "sigmoid", 1.0)
    rows = [row for each in data for row in each.evidence.tables]
    goal = np.concatenate([table_labels(each.plan, schema) for each, schema in zip(data, schemas, strict=True)])
    tables = fit(rows, goal, "sigmoid", 1.0)
    uses, binding = _train_literals(data)
    return Model(labels, aspects, meanings, roles, tables, binding, uses, _together(data))


def _train_literals(data: Sequence[Example]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    use_rows: list[Indices] = []
    bind_rows: list[Indices] = []
    use_goal: list[NDArray[np.float32]] = []
    bind_goal: list[float] = []
    groups: list[int] = []
    for each in data:
        for at, literal in enumerate(each.evidence.literals):
            use, field = literal_labels(each.plan, literal)
            use_rows.append(each.evidence.uses[at])
            use_goal.append(np.eye(len(USES), dtype=np.float32)[use])
            if field is not None:
                rows = each.evidence.bindings[at]
                bind_goal.extend(float(n == field) for n in range(len(rows)))
                bind_rows.extend(rows)
                groups.extend([len(use_rows)] * len(rows))
    uses = fit(use_rows, np.stack(use_goal), "softmax", 1.0)
    goal = np.array(bind_goal, np.float32)[:, None]
    return uses, fit(bind_rows, goal, "grouped", 1.0, np.array(groups))


def _together(data: Sequence[Example]) -> dict[tuple[str, ...], float]:
    joint = Counter(tuple(each.sketch.label(name) for name in ASPECTS) for each in data)
    single = {name: Counter(each.sketch.label(name) for each in data) for name in ASPECTS}
    total = len(data)
    result = {}
    for key, count in joint.items():
        alone = sum(log(single[name][label] / total) for name, label in zip(ASPECTS, key, strict=True))
        result[key] = log(count / total) - alone
    return result
