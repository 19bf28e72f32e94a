"""How far the vectors of two files of the encoder are apart, and what a question costs with each:

    python compare.py FORMER.onnx FUSED.onnx bench/sets/*.jsonl

The texts are all strings of the JSON in the files. The files take turns, so that what else the machine does is shared.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recollect.adapters.models.memory_encoder import MemoryEncoder
from recollect.adapters.models.minilm import MiniLM

MOST_TEXTS, QUESTIONS, ROUNDS = 4000, 100, 7


class Former(MiniLM):
    def _files(self, weights: Path) -> dict[Path, str]:
        return {weights: hashlib.sha256(weights.read_bytes()).hexdigest()}


class Fused(MemoryEncoder):
    def _files(self, weights: Path) -> dict[Path, str]:
        files = (weights, weights.with_suffix(".weights"))
        return {file: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from strings(part)


def texts_of(files: list[Path]) -> list[str]:
    lines = (line for file in files for line in file.read_text(encoding="utf-8").splitlines())
    texts = sorted({text for line in lines for text in strings(json.loads(line)) if len(text) > 12})
    chosen = np.random.default_rng(3).permutation(len(texts))[:MOST_TEXTS]
    return [texts[at] for at in chosen]


def milliseconds(encoders: dict[str, MiniLM], questions: list[str]) -> dict[str, NDArray[np.float64]]:
    spent: dict[str, list[float]] = {name: [] for name in encoders}
    for _ in range(ROUNDS):
        for name, one in encoders.items():
            start = time.process_time()
            for question in questions:
                one.embed_query(question)
            spent[name].append((time.process_time() - start) * 1000 / len(questions))
    return {name: np.array(times) for name, times in spent.items()}


def main() -> None:
    former, fused, *files = map(Path, sys.argv[1:])
    encoders: dict[str, MiniLM] = {
        "former": Former(weights=former, threads=1, cached_questions=0),
        "fused": Fused(weights=fused, threads=1, cached_questions=0),
    }
    texts = texts_of(files)
    before, after = (one.embed(texts) for one in encoders.values())
    cosines = (before * after).sum(axis=1)
    print(f"{len(texts)} texts: cosine at least {cosines.min():.5f}, median {np.median(cosines):.5f};", end=" ")
    print(f"numbers differ by {np.abs(before - after).max():.4f} at most")
    questions = [text for text in texts if text.isascii() and 5 <= len(text.split()) <= 20][:QUESTIONS]
    for name, times in milliseconds(encoders, questions).items():
        print(f"{name}: CPU per question {np.median(times):.2f} ms (median), {times.min():.2f} ms (least)")


if __name__ == "__main__":
    main()
