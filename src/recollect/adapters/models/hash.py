"""An embedder without a model: for tests, and where nothing but shared words shall count.

Promise: instant, deterministic on every machine and Python, and honest enough that texts sharing words are near.
Shape: a bag of words hashed into a few dimensions with a sign each, then scaled to unit length.
Proof: `tests/testing/test_fakes.py`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

import numpy as np

from recollect.ports.models import Vectors

_WORD = re.compile(r"\w+")


class HashEmbedder:
    """An `Embedder` without a model; the more dimensions, the fewer words share one."""

    def __init__(self, dimensions: int = 64) -> None:
        self._dimensions = dimensions

    @property
    def model(self) -> str:
        return f"hash-{self._dimensions}"

    @property
    def dimensions(self) -> int:
        return self._dimensions

    def embed(self, texts: Sequence[str]) -> Vectors:
        vectors = np.zeros((len(texts), self._dimensions), dtype=np.float32)
        for row, text in enumerate(texts):
            vectors[row] = self.embed_query(text)
        return vectors

    def embed_query(self, text: str) -> Vectors:
        vector = np.zeros(self._dimensions, dtype=np.float32)
        for word in _WORD.findall(text.lower()):
            digest = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
            number = int.from_bytes(digest, "big")
            vector[(number >> 1) % self._dimensions] += 1.0 if number & 1 else -1.0
        # Words may cancel out as well as be absent; both get the vector of a text that says nothing.
        if not vector.any():
            vector[0] = 1.0
        return np.asarray(vector / np.linalg.norm(vector), dtype=np.float32)
