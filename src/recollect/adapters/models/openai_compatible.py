"""Embeddings from any endpoint that speaks the OpenAI format: OpenAI, Ollama, vLLM, llama.cpp, TEI and the rest.

Promise: unit-length, finite vectors in the order asked, or a typed error; a busy or broken server is tried again,
a refusal is not; the key goes to the configured host only and into no error, repr or log.
Shape: POST {base_url}/embeddings with the standard library, a batch at a time. `model` names the model and the
number of dimensions, never the host, so moving the same model to another server keeps the stored vectors valid.
Proof: `tests/unit/test_openai_compatible.py` talks to a real server on the loopback.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import random
import time
from collections.abc import Callable, Sequence
from email.message import Message
from email.utils import parsedate_to_datetime
from threading import Lock
from typing import IO, Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import numpy as np
from numpy.typing import NDArray

from recollect.errors import EmbedderFailed, InvalidInput
from recollect.ports.models import Vectors

_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 60.0
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
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if batch < 1 or retries < 0 or timeout_seconds <= 0 or (dimensions is not None and dimensions < 1):
            raise InvalidInput("batch, dimensions and timeout must be positive, retries not negative.")
        self._url = _checked_url(base_url) + "/embeddings"
        self._model_name = model
        self._headers = _headers(api_key)
        self._asked_dimensions = dimensions
        self._known_dimensions = dimensions
        self._learning = Lock()
        self._batch = batch
        self._timeout_seconds = timeout_seconds
        self._retries = retries
        self._query_prefix = query_prefix
        self._text_prefix = text_prefix
        self._sleep = sleep
        self._opener = build_opener(_NoRedirects)

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
        vector: Vectors = self._embed([self._query_prefix + text if text.strip() else ""])[0]
        return vector

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
        question: dict[str, Any] = {"model": self._model_name, "input": texts}
        if self._asked_dimensions is not None:
            question["dimensions"] = self._asked_dimensions
        vectors = _unit_vectors(self._post(json.dumps(question).encode(), len(texts)), len(texts))
        self._learn(vectors.shape[1])
        return vectors

    def _learn(self, dimensions: int) -> None:
        with self._learning:
            if self._known_dimensions is None:
                self._known_dimensions = dimensions
        if dimensions != self._known_dimensions:
            raise EmbedderFailed(
                "The endpoint gave vectors of another length than expected.",
                remedy="check the model's name and its dimensions",
                expected=self._known_dimensions,
                found=dimensions,
            )

    def _post(self, body: bytes, count: int) -> bytes:
        """The answer's body; tries again while trying again can help."""
        for attempt in range(self._retries + 1):
            try:
                return self._post_once(body, count)
            except HTTPError as refusal:
                refusal.close()
                failure, status = f"HTTP {refusal.code}", refusal.code
                asked_pause = _retry_after(refusal.headers)
            except (OSError, http.client.HTTPException) as trouble:
                failure, status, asked_pause = type(trouble).__name__, None, None
            if status is not None and status not in (408, 429) and status < 500:
                break
            if attempt < self._retries:
                self._sleep(_pause(attempt, asked_pause))
        # Only the status and the exception's type: bodies and messages may repeat the key or stored text.
        raise EmbedderFailed(
            f"The embedding endpoint failed: {failure}.", remedy=_remedy(status), status=status, tries=attempt + 1
        )

    def _post_once(self, body: bytes, count: int) -> bytes:
        # The socket's timeout bounds each read only; a server that drips bytes is caught by the deadline.
        deadline = time.monotonic() + self._timeout_seconds
        most = (count + 1) * _LARGEST_VECTOR_BYTES
        request = Request(self._url, data=body, headers=self._headers, method="POST")
        with self._opener.open(request, timeout=self._timeout_seconds) as response:
            answer = bytearray()
            while part := response.read1(65_536):
                answer += part
                if time.monotonic() > deadline:
                    raise TimeoutError
                if len(answer) > most:
                    raise EmbedderFailed("The endpoint's answer is too large.", limit_bytes=most)
        return bytes(answer)


class _NoRedirects(HTTPRedirectHandler):
    """A redirect is an error: following it would hand the key and the texts to a host nobody configured."""

    def redirect_request(self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str) -> None:
        return None


def _checked_url(base_url: str) -> str:
    try:
        parts = urlsplit(base_url)
        complete = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        complete = False
    # The URL itself stays out of the message: people paste keys into it.
    if not complete or parts.username is not None or parts.query or parts.fragment:
        raise InvalidInput(
            "The embedding endpoint must be an http or https URL without user, query or fragment.",
            remedy="for example http://localhost:11434/v1",
        )
    return base_url.rstrip("/")


def _headers(api_key: str | None) -> dict[str, str]:
    headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "recollect"}
    if api_key is None:
        return headers
    # http.client quotes a malformed header in its exception, so such a key must not get that far.
    if not api_key or not api_key.isascii() or not api_key.isprintable() or " " in api_key:
        raise InvalidInput("The API key is empty or has white space or unprintable characters.")
    return headers | {"Authorization": f"Bearer {api_key}"}


def _retry_after(headers: Message) -> float | None:
    """Seconds from now; the header may hold seconds or a date."""
    value = str(headers.get("Retry-After", "")).strip()
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        return parsedate_to_datetime(value).timestamp() - time.time()
    except ValueError:
        return None


def _pause(attempt: int, asked_seconds: float | None) -> float:
    # Jitter keeps the callers that a server turned away together from coming back together.
    usual: float = _FIRST_PAUSE_SECONDS * 2**attempt * random.uniform(0.5, 1.0)
    return min(max(usual, asked_seconds or 0.0), _LONGEST_PAUSE_SECONDS)


def _remedy(status: int | None) -> str:
    if status in (401, 403):
        return "check the API key"
    if status is not None and status < 500 and status not in (408, 429):
        return "check the endpoint's URL and the model's name"
    return "check that the endpoint is up, then try again"


def _unit_vectors(body: bytes, count: int) -> Vectors:
    """The answer's vectors in the order asked: its `index` decides, not the order in which they came."""
    entries = _entries(body)
    if entries is None:
        raise EmbedderFailed("The endpoint's answer is not in the OpenAI format.")
    if sorted(index for index, _ in entries) != list(range(count)):
        raise EmbedderFailed("The endpoint did not give one vector for each text.", expected=count, found=len(entries))
    vectors = [vector for _, vector in sorted(entries, key=lambda entry: entry[0])]
    lengths = {len(vector) for vector in vectors}
    if len(lengths) != 1 or 0 in lengths or not all(np.isfinite(vector).all() for vector in vectors):
        raise EmbedderFailed("The endpoint gave vectors that are ragged, empty or not finite.")
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
