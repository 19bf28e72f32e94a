"""Texts written by a language model, or made offline where there is no model, it fails, or its answer is not usable.

The caller passes an answer made offline, and gets a note if that one was used although a model is configured. The
metadata of the memory says who wrote it and what it cost: `made_by` (the name of the model, or "extract") and `usage`
(tokens and milliseconds).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic

from recollect.domain.record import JsonObject
from recollect.errors import ModelFailed
from recollect.ports.models import A, Prompt, Usage
from recollect.services.tenant import Core

OFFLINE = "extract"


@dataclass(frozen=True, slots=True)
class GeneratedText(Generic[A]):
    value: A
    metadata: JsonObject = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def generated(core: Core, prompt: Prompt, otherwise: A, objection: Callable[[A], str | None]) -> GeneratedText[A]:
    """The model's answer unless there is an objection to it; otherwise the offline one."""
    if core.language_model is None:
        return GeneratedText(otherwise, {"made_by": OFFLINE})
    try:
        answer = core.language_model.ask(prompt, type(otherwise))
    except ModelFailed as failure:
        return GeneratedText(
            otherwise, {"made_by": OFFLINE}, (f"written without the language model: {failure.message}",)
        )
    usage = _usage(answer.usage)
    problem = objection(answer.value)
    if problem:
        note = f"the answer of the language model was not used: {problem}"
        return GeneratedText(otherwise, {"made_by": OFFLINE, "usage": usage}, (note,))
    return GeneratedText(answer.value, {"made_by": answer.usage.model, "usage": usage})


def _usage(usage: Usage) -> JsonObject:
    return {
        "model": usage.model,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "milliseconds": usage.milliseconds,
    }
