"""The learned weights: read once from the package's data file, applied by sums over hashed features."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from recollect.services.data.asking.plans.sketch import ASPECTS
from recollect.services.data.asking.ranking.features import PLACES, Indices

Weights = NDArray[np.float32]


@dataclass(frozen=True)
class Model:
    labels: dict[str, tuple[str, ...]]  # of each aspect
    aspects: dict[str, Weights]  # PLACES x labels
    meanings: dict[str, Weights]  # MEANING x labels: the same from the encoder's vectors
    roles: Weights  # PLACES x roles
    tables: Weights  # PLACES x 2: in the query, in a nested one
    binding: Weights  # PLACES x 1
    uses: Weights  # PLACES x uses
    together: dict[tuple[str, ...], float]  # log of how often a sketch occurs, beyond what its labels say
    ranking: dict[str, Weights] = field(default_factory=dict)  # of whole candidates
    recalled: dict[str, Weights] = field(default_factory=dict)  # the same where verified questions are recalled
    comparing: Weights = field(
        default_factory=lambda: np.ones((2, 2), np.float32)
    )  # rank, comparison; the same recalled
    memory_roles: Weights = field(default_factory=lambda: np.zeros((1, 1), np.float32))  # roles x features, of fields
    confidence: Weights = field(default_factory=lambda: np.zeros((4, 1), np.float32))  # mean, deviation, weights, bias
    answerable: Weights = field(default_factory=lambda: np.zeros((4, 1), np.float32))
    threshold: float = 1.0  # from which confidence on an answer is given, not a draft

    def aspect(self, name: str, features: Indices, meaning: Weights) -> dict[str, float]:
        """The log-probability of each label."""
        scores = log_softmax(self.aspects[name][features].sum(axis=0) + meaning @ self.meanings[name])
        return dict(zip(self.labels[name], scores.tolist(), strict=True))


def log_softmax(scores: Weights) -> Weights:
    shifted = scores - scores.max()
    return np.asarray(shifted - np.log(np.exp(shifted).sum()), dtype=np.float32)


def scores_of(weights: Weights, rows: Sequence[Indices]) -> Weights:
    """One row of sums per list of features."""
    if not rows:
        return np.zeros((0, weights.shape[1]), np.float32)
    lengths = np.array([len(row) for row in rows])
    starts = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    return np.asarray(np.add.reduceat(weights[np.concatenate(rows)], starts, axis=0), dtype=np.float32)


def to_bytes(model: Model) -> bytes:
    """For the data file: rows without weight are left out, the rest in half precision."""
    arrays: dict[str, NDArray[np.generic]] = {}
    dense = {f"aspect_{name}": weights for name, weights in model.aspects.items()}
    dense |= {"roles": model.roles, "tables": model.tables, "binding": model.binding, "uses": model.uses}
    for name, weights in dense.items():
        kept = np.flatnonzero(np.abs(weights).max(axis=1) > 1e-3)
        arrays[f"{name}_rows"] = kept.astype(np.uint16)
        arrays[f"{name}_weights"] = weights[kept].astype(np.float16)
    for name, weights in model.meanings.items():
        arrays[f"meaning_{name}"] = weights.astype(np.float16)
    for name, labels in model.labels.items():
        arrays[f"labels_{name}"] = np.array(labels)
    arrays["together_keys"] = np.array(["\t".join(key) for key in model.together])
    arrays["together_values"] = np.array(list(model.together.values()), np.float32)
    for kind, ranker in (("ranking", model.ranking), ("recalled", model.recalled)):
        arrays |= {f"{kind}_{name}": weights.astype(np.float32) for name, weights in ranker.items()}
    arrays |= {
        "memory_roles": model.memory_roles,
        "comparing": model.comparing,
        "confidence": model.confidence,
        "answerable": model.answerable,
    }
    arrays["threshold"] = np.array(model.threshold)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def from_bytes(content: bytes) -> Model:
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}

    def dense(name: str) -> Weights:
        weights = np.zeros((PLACES, arrays[f"{name}_weights"].shape[1]), np.float32)
        weights[arrays[f"{name}_rows"]] = arrays[f"{name}_weights"]
        return weights

    keys = [tuple(str(each).split("\t")) for each in arrays["together_keys"]]
    return Model(
        labels={name: tuple(str(each) for each in arrays[f"labels_{name}"]) for name in ASPECTS},
        aspects={name: dense(f"aspect_{name}") for name in ASPECTS},
        meanings={name: arrays[f"meaning_{name}"].astype(np.float32) for name in ASPECTS},
        roles=dense("roles"),
        tables=dense("tables"),
        binding=dense("binding"),
        uses=dense("uses"),
        together=dict(zip(keys, arrays["together_values"].tolist(), strict=True)),
        ranking={name[8:]: value for name, value in arrays.items() if name.startswith("ranking_")},
        recalled={name[9:]: value for name, value in arrays.items() if name.startswith("recalled_")},
        memory_roles=arrays["memory_roles"],
        comparing=arrays["comparing"],
        confidence=arrays["confidence"],
        answerable=arrays["answerable"],
        threshold=float(arrays["threshold"]),
    )


@lru_cache(maxsize=1)
def shipped() -> Model:
    file = resources.files("recollect.services.data.asking.ranking").joinpath("weights.npz")
    return from_bytes(file.read_bytes())
