"""Learns the weights of the asking package from the training set: `python bench/ask_training.py`.

First the parts that look at one thing each (form of the query, roles of fields and tables, literals): logistic
regressions over hashed features. Then the ranker of whole candidates, on features that the parts made for databases
they were not trained on (four folds by database); what memory adds; how much the cross-encoder counts
(training/ask_ranker, trained between `--lists` and `--rankers`); and the confidence. Weights go to the package's
weights.npz. Same seed, same weights.
"""

from __future__ import annotations

import argparse
import pickle
import random
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import sqlglot
from numpy.typing import NDArray
from scipy.optimize import minimize

from ask_examples import FOLDS, SEED, Example, Source, examples, folds, load
from ask_ranker import (
    Likely,
    List,
    Ranker,
    candidate_list,
    fit_combination,
    fit_reminders,
    joined,
    likely,
    recollections,
    train_ranker,
)
from ask_regressions import train_parts
from ask_sets import SHARED, questions, scorer
from recollect.adapters.models.query_ranker import QueryRanker
from recollect.adapters.models.wordpiece import bert_uncased
from recollect.services.data.asking import ranking
from recollect.services.data.asking.analysis import analyse, evidence_of
from recollect.services.data.asking.candidates.verified import Recollection
from recollect.services.data.asking.plans.schema import Scalar
from recollect.services.data.asking.ranking.confidence import DECLINED_BELOW, probability
from recollect.services.data.asking.ranking.model import Model, to_bytes
from recollect.services.data.asking.readings import COMPARED, outcome_of, ranked

T = TypeVar("T")
# Asked for on held-out databases, so that nine in ten are right elsewhere: those of other collections are harder.
RIGHT = 0.98
FEW = 4  # every fourth question teaches what has few weights: memory, combination, confidence
WEIGHTS = Path(ranking.__file__).with_name("weights.npz")


def outcome(
    each: Example, source: Source, model: Model, recollection: Recollection | None = None
) -> tuple[NDArray[np.float32], bool] | None:
    """What the confidence looks at for one question, and whether the answer was right."""
    analysis = analyse(each.evidence, model, source.prepared, recollection)
    results = ranked(analysis, source.prepared, model, lambda sql: _duck_rows(sql, source), recollection)
    if not results:
        return None
    found = outcome_of(analysis, source.prepared, results, recollection)
    gold = source.data.gold.run(each.question["gold_sql"]) if each.question["db"] == source.data.name else None
    rows = results[0].rows
    same = scorer(SHARED / "nlsql").same
    right = gold is not None and rows is not None and bool(same(gold, rows, each.question["order_matters"]))
    return found.features, right


def _duck_rows(sql: str, source: Source) -> list[tuple[Scalar, ...]] | None:
    """SQLite stands in for DuckDB: the same rows, much faster on small tables."""
    lite = sqlglot.transpile(sql, read="duckdb", write="sqlite")[0]
    if lite not in source.data.results:
        try:
            source.data.results[lite] = source.data.gold.run(lite)
        except (sqlite3.Error, RuntimeError):
            source.data.results[lite] = None
    return source.data.results[lite]


def fit_confidence(rows: Sequence[NDArray[np.float32]], right: Sequence[bool]) -> NDArray[np.float32]:
    x = np.stack(rows).astype(np.float64)
    y = np.array(right, np.float64)
    mean, deviation = x.mean(axis=0), x.std(axis=0) + 1e-3
    scaled = np.hstack([(x - mean) / deviation, np.ones((len(x), 1))])

    def loss(w: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        score = scaled @ w
        value = (np.logaddexp(0, score) - y * score).sum() + 0.5 * (w[:-1] ** 2).sum()
        slope = scaled.T @ (1 / (1 + np.exp(-score)) - y)
        slope[:-1] += w[:-1]
        return float(value), slope

    w = minimize(loss, np.zeros(scaled.shape[1]), jac=True, method="L-BFGS-B").x
    return np.stack([mean, deviation, w[:-1], np.full(len(mean), w[-1])]).astype(np.float32)


def threshold_of(rows: Sequence[NDArray[np.float32]], right: Sequence[bool], weights: NDArray[np.float32]) -> float:
    """The lowest confidence from which on enough are right."""
    sure = np.array([probability(row, weights) for row in rows])
    order = np.argsort(-sure)
    share = np.cumsum(np.array(right)[order]) / np.arange(1, len(order) + 1)
    good = np.flatnonzero(share[20:] >= RIGHT) + 20
    return float(sure[order[good[-1]]]) if len(good) else 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=SHARED / "nlsql-train")
    parser.add_argument("--keep", type=Path, required=True, help="folder for what takes long: parts and candidates")
    parser.add_argument("--lists", type=Path, help="write what training/ask_ranker learns from, and no weights")
    parser.add_argument("--rankers", type=Path, help="folder with fold0.onnx and so on, from training/ask_ranker")
    chosen = parser.parse_args()
    chosen.keep.mkdir(parents=True, exist_ok=True)
    sources = load(chosen.data)
    data = examples(questions(chosen.data), sources)
    extra = examples(questions(chosen.data, "questions_synonyms.jsonl"), sources)
    training = Training(sources, data, extra, chosen.keep)
    if chosen.lists:
        write_lists(training, chosen.lists)
    else:
        write_weights(training, chosen.rankers)


def kept(path: Path, make: Callable[[], T]) -> T:
    """What was made before, or made now and kept. Files of one's own machine: pickle will do."""
    if path.exists():
        found: T = pickle.loads(path.read_bytes())  # noqa: S301
        return found
    made = make()
    path.write_bytes(pickle.dumps(made))
    print(f"{path.name} made", flush=True)
    return made


class Training:
    """Everything by folds of databases: what looks at a question was trained on other databases than its own."""

    def __init__(self, sources: dict[str, Source], data: list[Example], extra: list[Example], keep: Path) -> None:
        self.sources, self.data, self.extra, self.keep = sources, data, extra, keep
        self.fold = folds(list(sources))
        parts = [kept(keep / f"parts_{k}.pkl", lambda k=k: self._parts(k)) for k in range(FOLDS)]  # type: ignore[misc]
        self.remembered = recollections(data, sources)
        self.reminders = [self._reminders(parts, k) for k in range(FOLDS)]
        self.parts = [replace(part, memory_roles=self.reminders[k]) for k, part in enumerate(parts)]
        self.all_reminders = self._reminders(parts, None)
        self.plain = kept(keep / "plain.pkl", lambda: [self._list(each) for each in (*data, *extra)])
        self.recalled = kept(keep / "recalled.pkl", lambda: [self._list(*each) for each in self._with_memory()])
        self.rankers = kept(keep / "rankers.pkl", self._rankers)
        self.recalled_rankers = kept(keep / "recalled_rankers.pkl", self._recalled_rankers)

    def of(self, each: List | Example) -> int:
        return self.fold[each.question["db"]]

    def _parts(self, number: int) -> Model:
        return train_parts([e for e in (*self.data, *self.extra) if self.of(e) != number], self.sources)

    def _rankers(self) -> list[Ranker]:
        return [train_ranker([e for e in self.plain if self.of(e) != k]) for k in range(FOLDS)]

    def _reminders(self, parts: Sequence[Model], without: int | None) -> NDArray[np.float32]:
        chosen = [(e, r) for e, r in self._with_memory() if self.of(e) != without]
        seen = [each for each, _ in chosen]
        return fit_reminders(seen, self.sources, [parts[self.of(e)] for e in seen], [r for _, r in chosen])

    def _recalled_rankers(self) -> list[Ranker]:
        return [train_ranker([e for e in self.recalled if self.of(e) != k], memory=True) for k in range(FOLDS)]

    def _with_memory(self) -> Iterator[tuple[Example, Recollection]]:
        """Every fourth question: enough for a few weights."""
        yield from zip(self.data[::FEW], self.remembered[::FEW], strict=True)

    def _list(self, each: Example, recollection: Recollection | None = None) -> List:
        return candidate_list(each, self.sources[each.question["db"]], self.parts[self.of(each)], recollection)

    def likely(self, each: List, most: int = COMPARED) -> Likely:
        recalled = self.recalled_rankers[self.of(each)] if each.memory.shape[1] else None
        return likely(each, self.rankers[self.of(each)], recalled, most)


def write_lists(training: Training, file: Path) -> None:
    """Questions and descriptions as tokens, what is right, and today's rank: for training/ask_ranker/train.py."""
    encode = bert_uncased().encode
    tokens: list[int] = []
    columns: dict[str, list[int | float | bool]] = {name: [] for name in _COLUMNS}

    def put(name: str, text: str, most: int) -> None:
        ids = encode(text, most)[1:-1]
        columns[f"{name}start"].append(len(tokens))
        columns[f"{name}len"].append(len(ids))
        tokens.extend(ids)

    for at, each in enumerate(training.plain):
        found = training.likely(each, LISTED)
        put("q", each.asked, 96)
        columns["lstart"].append(len(columns["right"]))
        columns["llen"].append(len(found.texts))
        columns["fold"].append(training.of(each))
        columns["plain"].append(at < len(training.data))
        columns["right"].extend(found.right.tolist())
        columns["base"].extend(found.own.tolist())
        for text in found.texts:
            put("c", text, 160)
    arrays: dict[str, NDArray[np.generic]] = {
        name: np.array(values, _COLUMNS[name]) for name, values in columns.items()
    }
    np.savez_compressed(file, flat=np.array(tokens, np.uint16), **arrays)  # type: ignore[arg-type]


LISTED = 24
_COLUMNS = {
    "qstart": np.int64, "qlen": np.int64, "cstart": np.int64, "clen": np.int64, "lstart": np.int64, "llen": np.int64,
    "right": np.bool_, "base": np.float32, "fold": np.int64, "plain": np.bool_,
}  # fmt: skip


def write_weights(training: Training, rankers: Path) -> None:
    comparers = [QueryRanker(weights=rankers / f"fold{k}.onnx").compare for k in range(FOLDS)]
    for name, source in training.sources.items():
        source.prepared.compare = comparers[training.fold[name]]
    combinations = _combinations(training)
    models = [
        replace(
            training.parts[k],
            ranking=training.rankers[k],
            recalled=training.recalled_rankers[k],
            comparing=combinations[k],
        )
        for k in range(FOLDS)
    ]
    confidence, answerable, threshold = _confidences(training, models)
    final = replace(
        kept(training.keep / "parts.pkl", lambda: train_parts([*training.data, *training.extra], training.sources)),
        ranking=joined(training.rankers),
        recalled=joined(training.recalled_rankers),
        memory_roles=training.all_reminders,
        comparing=combinations[-1],
        confidence=confidence,
        answerable=answerable,
        threshold=threshold,
    )
    WEIGHTS.write_bytes(to_bytes(final))
    print(f"{WEIGHTS.name}: {WEIGHTS.stat().st_size // 1024} KiB")


def _combinations(training: Training) -> list[NDArray[np.float32]]:
    """The weights of rank and comparison, without memory and with it: for each fold from the others, and from all."""
    weights: list[list[NDArray[np.float32]]] = []
    for title, lists in (("without", training.plain[: len(training.data) : FEW]), ("with", training.recalled)):
        found = [training.likely(each) for each in lists]
        stacks = [each.stacked(_compared(training, each)) for each in found]
        rights = [each.right for each in found]

        def fitted(without: int | None, found: list[Likely] = found, stacks: Stacks = stacks) -> NDArray[np.float32]:
            chosen = [at for at, each in enumerate(found) if training.of(each.of) != without]
            return fit_combination([stacks[at] for at in chosen], [found[at].right for at in chosen])

        weights.append([*(fitted(k) for k in range(FOLDS)), fitted(None)])
        alone = np.mean([bool(right[:1].any()) for right in rights])
        own = [weights[-1][training.of(each.of)] for each in found]
        helped = np.mean([_is_first_right(*each) for each in zip(stacks, rights, own, strict=True)])
        among = np.mean([bool(right.any()) for right in rights])
        everywhere = np.mean([bool(each.right.any()) for each in lists])
        print(
            f"held out {title} memory: by rank {alone:.3f}, compared {helped:.3f}, among the likely {among:.3f}, "
            f"among all {everywhere:.3f}; rank and comparison weigh {weights[-1][-1]}",
            flush=True,
        )
    return [np.stack(each) for each in zip(*weights, strict=True)]


Stacks = list[NDArray[np.float32]]


def _compared(training: Training, each: Likely) -> NDArray[np.float32]:
    compare = training.sources[each.of.question["db"]].prepared.compare
    assert compare is not None
    return compare(each.of.asked, each.texts)


def _is_first_right(stack: NDArray[np.float32], right: NDArray[np.bool_], weights: NDArray[np.float32]) -> bool:
    return bool(right[(stack @ weights).argmax()]) if len(right) else False


def _confidences(training: Training, models: Sequence[Model]) -> tuple[NDArray[np.float32], NDArray[np.float32], float]:
    rng = random.Random(SEED)
    sources = training.sources
    rows, right, strange = [], [], []
    some = zip(training.data[::FEW], training.remembered[::FEW], strict=True)
    for at, (each, recollection) in enumerate(some):
        name = each.question["db"]
        found = outcome(each, sources[name], models[training.of(each)], recollection if at % 3 == 0 else None)
        if found is not None:
            rows.append(found[0])
            right.append(found[1])
        if rng.random() < 0.25:
            other = rng.choice([n for n in sources if n != name])
            asked = replace(each, evidence=evidence_of(each.question["question"], sources[other].prepared))
            misplaced = outcome(asked, sources[other], models[training.fold[other]])
            if misplaced is not None:
                strange.append(misplaced[0])
    np.savez(training.keep / "outcomes.npz", rows=np.stack(rows), right=np.array(right), strange=np.stack(strange))
    confidence = fit_confidence(rows, right)
    answerable = fit_confidence([*rows, *strange], [True] * len(rows) + [False] * len(strange))
    kept_ = np.mean([probability(row, answerable) >= DECLINED_BELOW for row in rows])
    refused = np.mean([probability(row, answerable) < DECLINED_BELOW for row in strange])
    sure = [probability(row, confidence) for row in rows]
    threshold = threshold_of(rows, right, confidence)
    print(f"executed: {np.mean(right):.3f}; answerable kept {kept_:.3f}, of other databases declined {refused:.3f}")
    print(f"answered at the threshold {threshold:.3f}: {np.mean(np.array(sure) >= threshold):.3f}")
    return confidence, answerable, threshold


if __name__ == "__main__":
    main()
