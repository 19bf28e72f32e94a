"""Stand-ins for models, for the tests of Recollect and of anyone who builds on it.

Promise: instant, deterministic on every machine and Python, and honest enough that texts sharing words are near.
Shape: a bag of words hashed into a few dimensions with a sign each, then scaled to unit length; a script of answers.
Proof: `tests/unit/test_fakes.py`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

import numpy as np
from pydantic import ValidationError

from recollect.errors import ModelFailed
from recollect.ports.models import A, Answer, Prompt, Usage, Vectors

Line = dict[str, Any] | ModelFailed | Callable[[Prompt], dict[str, Any]]

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


class ScriptedModel:
    """A `LanguageModel` that answers from a script, line by line, the last one for ever; it keeps what it was asked.

    A line is the object to answer with, a function of the prompt that makes it, or the error to fail with.
    """

    def __init__(self, *script: Line, model: str = "scripted") -> None:
        self._script = script
        self._model = model
        self._lock = Lock()
        self.asked: list[Prompt] = []

    @property
    def model(self) -> str:
        return self._model

    def ask(self, prompt: Prompt, shape: type[A]) -> Answer[A]:
        with self._lock:
            self.asked.append(prompt)
            line = self._script[min(len(self.asked), len(self._script)) - 1]
        if isinstance(line, ModelFailed):
            raise line
        said = line(prompt) if callable(line) else line
        try:
            value = shape.model_validate(said)
        except ValidationError:
            raise ModelFailed("The model's answer does not fit what was asked for.") from None
        words = len(f"{prompt.instructions} {prompt.material}".split())
        return Answer(value, Usage(self._model, words, len(str(said).split()), 1))
