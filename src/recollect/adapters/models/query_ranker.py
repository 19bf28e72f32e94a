"""Scores how well descriptions of queries fit a question: a small cross-encoder that comes with the package.

Promise: works offline; nothing is read until the first comparison. Shape: the layers of all-MiniLM-L6-v2, fine-tuned to
rank candidate queries of questions over tables (training/ask_ranker), int8 in one ONNX file of 23 MB.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from recollect.adapters.models.silent_onnxruntime import silent_onnxruntime
from recollect.adapters.models.wordpiece import bert_uncased
from recollect.errors import EmbedderFailed

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

WEIGHTS = Path(__file__).with_name("query_ranker.onnx")
_QUESTION, _DESCRIPTION = 96, 160  # tokens at most


class QueryRanker:
    """One instance per process is enough, and threads may share it."""

    def __init__(self, *, threads: int = 1, weights: Path = WEIGHTS) -> None:
        self._threads = threads
        self._weights = weights
        self._session: InferenceSession | None = None
        self._loading = Lock()

    def compare(self, question: str, descriptions: Sequence[str]) -> NDArray[np.float32]:
        """One score per description; the highest fits best."""
        if not descriptions:
            return np.zeros(0, np.float32)
        encode = bert_uncased().encode
        asked = encode(question, _QUESTION)
        rows = [encode(each, _DESCRIPTION)[1:] for each in descriptions]
        longest = len(asked) + max(len(row) for row in rows)
        ids = np.zeros((len(rows), longest), np.int64)
        types, mask = np.zeros_like(ids), np.zeros(ids.shape, np.float32)
        for at, row in enumerate(rows):
            end = len(asked) + len(row)
            ids[at, :end] = [*asked, *row]
            types[at, len(asked) : end] = 1
            mask[at, :end] = 1
        session = self._session or self._load()
        feed = {"ids": ids, "types": types, "mask": mask, "positions": np.arange(longest)}
        return np.asarray(session.run(None, feed)[0], np.float32)[:, 0]

    def _load(self) -> InferenceSession:
        onnxruntime = silent_onnxruntime()
        with self._loading:
            if self._session is None:
                options = onnxruntime.SessionOptions()
                options.intra_op_num_threads = self._threads
                options.add_session_config_entry("session.intra_op.allow_spinning", "0")
                self._session = onnxruntime.InferenceSession(
                    self._content(), options, providers=["CPUExecutionProvider"]
                )
            return self._session

    def _content(self) -> bytes:
        try:
            return self._weights.read_bytes()
        except OSError as failure:
            raise EmbedderFailed(
                "The weights of the query ranker cannot be read.", remedy="reinstall recollect"
            ) from failure
