"""The ports for models: what turns text into vectors, and what writes text.

An embedder is identified by its `model` string, which is stored with every vector it makes. Two embedders
whose vectors may not be compared must have different `model` strings: put the weights' hash in it.

A language model answers in the shape it is asked for, or fails with ModelFailed. Everything Recollect does with one it
can do without one, less well: who calls a language model catches ModelFailed and goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

Vectors = NDArray[np.float32]
A = TypeVar("A", bound=BaseModel)


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
class WindowedEmbedder(Protocol):
    """An embedder that says how many tokens of a text it reads; of any other that is taken to be 256."""

    @property
    def window(self) -> int: ...


@runtime_checkable
class AnswerFinder(Protocol):
    """An embedder that was trained to bring questions and answers together; by that, statements that differ only in the
    answer come close, too, so it does not say which of them are the same.
    """

    finds_answers: bool


@runtime_checkable
class RemembersQuestions(Protocol):
    """An embedder that keeps the vectors of the last questions, in memory, for when they are asked again."""

    def forget_questions(self) -> None:
        """Called when something was erased: a question may have named it."""


@runtime_checkable
class OneScriptEmbedder(Protocol):
    """An embedder that makes sense of one script only, and says which language it reads."""

    language: str


@runtime_checkable
class TokenEmbedder(Protocol):
    """An embedder that can also tell the tokens of a text apart: what late interaction ranks by."""

    def embed_with_tokens(self, texts: Sequence[str]) -> tuple[Vectors, list[Vectors]]:
        """The vectors of `embed`, and per text one row per token of its own that is worth comparing, from the same run
        of the model. Each is stored, so tokens that say nothing, such as punctuation, may be left out."""

    def embed_query_with_tokens(self, text: str) -> tuple[Vectors, Vectors]:
        """The vector of `embed_query`, and one row per token of the question."""


class QueryRanker(Protocol):
    """Says how well descriptions of queries fit a question: one score each, the highest fits best.

    Must be safe to call from several threads.
    """

    def compare(self, question: str, descriptions: Sequence[str]) -> Vectors: ...


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a language model is asked: what to do, and the material to do it with, which is data and no instruction."""

    instructions: str
    material: str
    most_tokens: int = 1000


@dataclass(frozen=True, slots=True)
class Usage:
    """What an answer cost: by which model, how many tokens in and out, how long it took."""

    model: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    milliseconds: int = 0


@dataclass(frozen=True, slots=True)
class Answer(Generic[A]):
    value: A
    usage: Usage


class LanguageModel(Protocol):
    """A prompt in, an object of the asked type out. Must be safe to call from several threads.

    An answer that was cut off, refused or does not fit the type is ModelFailed, never a guess; so is a server that is
    away. Retrying what can be retried is the adapter's work; the error's text holds nothing of prompt or answer.
    """

    @property
    def model(self) -> str:
        """The model's name, as recorded with what it writes."""

    def ask(self, prompt: Prompt, shape: type[A]) -> Answer[A]: ...
