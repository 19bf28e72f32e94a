"""Stand-ins for models, for the tests of Recollect and of anyone who builds on it.

`HashEmbedder` stands for an embedder, `ScriptedModel` for a language model.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any

from pydantic import ValidationError

from recollect.adapters.models.hash import HashEmbedder
from recollect.errors import ModelFailed
from recollect.ports.models import A, Answer, Prompt, Usage

__all__ = ["HashEmbedder", "ScriptedModel"]

Line = dict[str, Any] | ModelFailed | Callable[[Prompt], dict[str, Any]]


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
