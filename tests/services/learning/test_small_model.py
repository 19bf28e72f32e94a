"""A real language model over the wire: it proves the wire (schema, finish reason, usage), not the quality."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field

import recollect
from recollect.adapters.models.openai_chat import OpenAICompatibleModel
from recollect.errors import ModelFailed
from recollect.ports.models import Prompt

SERVER = Path(__file__).parents[2] / "small_model.py"


class Mood(BaseModel):
    mood: Literal["glad", "sad"]
    why: Annotated[str, Field(max_length=40)]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    command = [sys.executable, str(SERVER)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        lines = (line.decode().split() for line in child.stdout)
        found = next((line[1] for line in lines if line[:1] == ["address"]), None)
        assert found is not None, "the server did not start: see tests/small_model.py"
        yield f"{found}/v1"
        child.stdin.close()
        child.terminate()


pytestmark = pytest.mark.together("small_model")


def test_a_real_model_answers_in_the_asked_shape(address: str) -> None:
    chosen = {"provider": "openai", "base_url": address, "model": "smollm2"}
    with recollect.open("memory://", embedder="hash", language_model=chosen) as mem:
        model = mem._core.language_model
        answer = model.ask(Prompt("How does the speaker feel?", "I won the race!", most_tokens=60), Mood)
    assert answer.value.mood in ("glad", "sad")
    assert answer.usage.model == "smollm2"
    assert answer.usage.prompt_tokens > 20
    assert 5 <= answer.usage.completion_tokens <= 60
    assert answer.usage.milliseconds > 0


def test_a_real_model_that_runs_out_of_room_is_noticed(address: str) -> None:
    with pytest.raises(ModelFailed, match="cut off"):
        OpenAICompatibleModel(address, "smollm2").ask(Prompt("Feel.", "I won!", most_tokens=3), Mood)
