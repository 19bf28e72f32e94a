"""The sockets for models: what turns text into vectors.

An embedder is identified by its `model` string, which is stored with every vector it makes. Two embedders
whose vectors may not be compared must have different `model` strings: put the weights' hash in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]


class Embedder(Protocol):
    """Text in, unit-length float32 vectors out, one row per text in the order given.

    Must be safe to call from several threads, deterministic for the same text whatever it is batched with
    (to within 1e-3 of cosine), and must never return NaN: an empty or unknown text gets a fixed vector.
    """

    @property
    def model(self) -> str:
        """A name that is stored with every vector, e.g. `all-MiniLM-L6-v2-int8@1a2b3c4d`."""

    @property
    def dimensions(self) -> int: ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Vectors for texts that will be stored. Batches internally; any number of texts may be given."""

    def embed_query(self, text: str) -> Vectors:
        """One vector, shape (dimensions,), for a question; models that mark questions do it here."""


@runtime_checkable
class TokenEmbedder(Protocol):
    """An embedder that can also tell the tokens of a text apart: what late interaction ranks by."""

    def embed_with_tokens(self, texts: Sequence[str]) -> tuple[Vectors, list[Vectors]]:
        """The vectors of `embed`, and per text one row per token of its own, from the same run of the model."""

    def embed_query_with_tokens(self, text: str) -> tuple[Vectors, Vectors]: ...
