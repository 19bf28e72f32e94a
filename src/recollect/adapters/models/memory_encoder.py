"""The default embedder: all-MiniLM-L6-v2 tuned for questions about what was said, done and noted.

The same graph, tokenizer, size and cost as the model it started from (minilm.py); only the weights differ. They are in
the package, and checked against a pinned sha256 before they run. `training/memory_encoder/README.md` tells the data,
the licences and the recipe.

Measured on the whole product, R@10 against the model it started from with the same weights of ranking: LoCoMo 83.6 to
84.7, with bare texts 68.5 to 75.9; most where a question needs several pieces of evidence. What it does not do: facts
that differ only in the answer come close ("moved to Berlin", "moved to Paris": 0.62 to 0.88), so it must not say which
statements are the same. That is asked of the model it started from (`Core.likeness_embedder`).
"""

from __future__ import annotations

from pathlib import Path

from recollect.adapters.models.minilm import MiniLM

WEIGHTS_SHA256 = "2f6a44a7f8ffbbd65c88272ee1530527ee0c704f3aebc6dc63d27563e395d054"


class MemoryEncoder(MiniLM):
    model = f"recollect-memory-l6-int8@{WEIGHTS_SHA256[:8]}"
    sha256 = WEIGHTS_SHA256
    reinstalled_by = "reinstall recollect"
    finds_answers = True

    def _installed_weights(self) -> Path:
        return Path(__file__).with_name("memory_encoder.onnx")
