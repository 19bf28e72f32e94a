"""Writes what train.py made as ONNX files: `python export.py OUT BASE`, with `base.npz` as train.py was given it.

ranker.onnx goes to src/recollect/adapters/models/query_ranker.onnx, fold0.onnx and so on to bench/ask_training.py.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from onnx_file import ranker


def state_of(file: Path) -> dict[str, NDArray[np.generic]]:
    """What is int8 with a scale per row becomes float again."""
    loaded = dict(np.load(file).items())
    state = {name: array.astype(np.float32) for name, array in loaded.items() if not name.endswith(("_q", "_s"))}
    whole = {name.removesuffix("_q") for name in loaded if name.endswith("_q")}
    return state | {name: loaded[f"{name}_q"].astype(np.float32) * loaded[f"{name}_s"] for name in whole}


def main() -> None:
    out, base = Path(sys.argv[1]), np.load(sys.argv[2])
    words = base["embeddings.word_embeddings.weight_q"]
    scales = base["embeddings.word_embeddings.weight_s"]
    places = base["embeddings.position_embeddings.weight"].astype(np.float32)
    folds = {f"fold{k}": state_of(out / f"fold{k}.npz") for k in range(4)}
    # The mean of the four: they began alike and saw three quarters each; it needs no model trained on all.
    mean = {name: np.mean([each[name] for each in folds.values()], axis=0) for name in folds["fold0"]}
    for name, state in (folds | {"ranker": mean}).items():
        (out / f"{name}.onnx").write_bytes(ranker(state, words, scales, places[:264]))


if __name__ == "__main__":
    main()
