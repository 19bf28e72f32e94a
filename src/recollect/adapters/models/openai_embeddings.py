"""Embeddings from any endpoint that speaks the OpenAI format: OpenAI, Ollama, vLLM, llama.cpp, TEI and the rest.

Promise: unit-length, finite vectors in the order asked, or a typed error.
Shape: POST {base_url}/embeddings (see endpoint.py), a batch at a time. `model` names the model and the
number of dimensions, never the host, so moving the same model to another server keeps the stored vectors valid.
Proof: `tests/adapters/models/test_openai_compatible.py` talks to a real server on the loopback.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from recollect.adapters.models.endpoint import Endpoint
from recollect.adapters.models.recent_questions import RecentQuestions
from recollect.errors import EmbedderFailed, InvalidInput
from recollect.ports.models import Vectors

# 8,192 dimensions at 25 characters each fit; a server that sends more is not answering the question.
_LARGEST_VECTOR_BYTES = 256 * 1024


class OpenAICompatibleEmbedder:
    """An `Embedder` over HTTP; threads may share it.

    `dimensions` is sent to the server when given, because that is how shortened vectors are asked for; leave it
    out for servers that refuse the field, and it is learnt from the first answer. The prefixes are for models
    that mark questions and texts, such as "query: " and "passage: ".
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        api_key: str | None = None,
        dimensions: int | None = None,
        batch: int = 128,
        timeout_seconds: float = 30,
        retries: int = 3,
        query_prefix: str = "",
        text_prefix: str = "",
        *,
        cached_questions: int = 512,
        sleep: Callable[[float], None] | None = None,
    ) -> None:
        if batch < 1 or retries < 0 or timeout_seconds <= 0 or (dimensions is not None and dimensions < 1):
            raise InvalidInput("batch, dimensions and timeout must be positive; retries must not be negative.")
        self._endpoint = Endpoint(
            base_url,
            "embedding",
            EmbedderFailed,
            api_key,
            timeout_seconds=timeout_seconds,
            retries=retries,
            sleep=sleep,
        )
        self._model_name = model
        self._asked_dimensions = dimensions
        self._known_dimensions = dimensions
        self._learning = Lock()
        self._batch = batch
        self._query_prefix = query_prefix
        self._text_prefix = text_prefix
        self._questions = RecentQuestions(cached_questions)

    @property
    def model(self) -> str:
        """The text prefix is part of the identity: stored vectors made with another one may not be compared."""
        # Never asks the server: a store must open while its model is away.
        asked = self._asked_dimensions
        name = self._model_name if asked is None else f"{self._model_name}/{asked}"
        if not self._text_prefix:
            return name
        return f"{name}+{hashlib.sha256(self._text_prefix.encode()).hexdigest()[:8]}"

    @property
    def dimensions(self) -> int:
        """Asks the server once if neither the caller nor an answer has told yet."""
        if self._known_dimensions is None:
            self._ask(["dimensions"])
        assert self._known_dimensions is not None
        return self._known_dimensions

    def embed(self, texts: Sequence[str]) -> Vectors:
        if isinstance(texts, str):
            raise InvalidInput("Expected a list of texts, got one text.", remedy="pass [text]")
        return self._embed([self._text_prefix + text if text.strip() else "" for text in texts])

    def embed_query(self, text: str) -> Vectors:
        """Read-only, because everyone who asks the same gets the same array."""
        return self._questions.answer(text, self._embed_one)[0]

    def forget_questions(self) -> None:
        self._questions.forget()

    def _embed_one(self, text: str) -> tuple[Vectors]:
        return (self._embed([self._query_prefix + text if text.strip() else ""])[0],)

    def _embed(self, texts: list[str]) -> Vectors:
        # Servers refuse empty texts, with the whole batch; they get the fixed vector without being sent.
        rows = [row for row, text in enumerate(texts) if text]
        answers = [
            (batch, self._ask([texts[row] for row in batch]))
            for batch in (rows[start : start + self._batch] for start in range(0, len(rows), self._batch))
        ]
        vectors = np.tile(_fixed(self.dimensions), (len(texts), 1))
        for batch, answer in answers:
            vectors[batch] = answer
        return vectors

    def _ask(self, texts: list[str]) -> Vectors:
        question: dict[str, object] = {"model": self._model_name, "input": texts}
        if self._asked_dimensions is not None:
            question["dimensions"] = self._asked_dimensions
        most = (len(texts) + 1) * _LARGEST_VECTOR_BYTES
        vectors = _unit_vectors(self._endpoint.post("/embeddings", question, most), len(texts))
        self._learn(vectors.shape[1])
        return vectors

    def _learn(self, dimensions: int) -> None:
        with self._learning:
            if self._known_dimensions is None:
                self._known_dimensions = dimensions
        if dimensions != self._known_dimensions:
            raise EmbedderFailed(
                "The endpoint returned vectors of an unexpected length.",
                remedy="check the model's name and its dimensions",
                expected=self._known_dimensions,
                found=dimensions,
            )


def _unit_vectors(body: bytes, count: int) -> Vectors:
    """The answer's vectors in the order asked: its `index` decides, not the order in which they came."""
    entries = _entries(body)
    if entries is None:
        raise EmbedderFailed("The endpoint's answer is not in the OpenAI format.")
    if sorted(index for index, _ in entries) != list(range(count)):
        raise EmbedderFailed(
            "The endpoint did not return one vector for each text.", expected=count, found=len(entries)
        )
    vectors = [vector for _, vector in sorted(entries, key=lambda entry: entry[0])]
    lengths = {len(vector) for vector in vectors}
    if len(lengths) != 1 or 0 in lengths or not all(np.isfinite(vector).all() for vector in vectors):
        raise EmbedderFailed("The endpoint returned vectors that are empty, not finite or of different lengths.")
    return _normalised(np.stack(vectors))


def _entries(body: bytes) -> list[tuple[int, NDArray[np.float64]]] | None:
    """None for any other shape; raising here would chain the body, with all that it repeats, to the error."""
    try:
        entries = [
            (int(entry["index"]), np.array(entry["embedding"], dtype=np.float64)) for entry in json.loads(body)["data"]
        ]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return entries if all(vector.ndim == 1 for _, vector in entries) else None


def _normalised(vectors: NDArray[np.float64]) -> Vectors:
    # Divided by the largest number first: squares of huge numbers overflow, those of tiny ones vanish.
    largest = np.abs(vectors).max(axis=1, keepdims=True)
    vectors = np.divide(vectors, largest, where=largest > 0, out=np.zeros_like(vectors))
    vectors[largest[:, 0] == 0] = _fixed(vectors.shape[1])
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)


def _fixed(dimensions: int) -> Vectors:
    """The vector of a text that says nothing."""
    vector = np.zeros(dimensions, dtype=np.float32)
    vector[0] = 1.0
    return vector
