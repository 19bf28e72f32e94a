"""An agent of the OpenAI Agents SDK whose conversation lives in Recollect.

Runs offline: the model is scripted. `pip install 'recollect[openai-agents]'`, then run this file.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

import recollect
from recollect.integrations.openai_agents import RecollectSession


class Counting(Model):
    """Stands in for a real model: says how much of the conversation it was given."""

    async def get_response(self, system_instructions: Any, input: Any, *rest: Any, **named: Any) -> ModelResponse:
        part = ResponseOutputText(type="output_text", text=f"I was given {len(input)} items.", annotations=[])
        said = ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[part])
        return ModelResponse(output=[said], usage=Usage(), response_id=None)

    def stream_response(self, *given: Any, **named: Any) -> Any:
        raise NotImplementedError


async def talk(path: Path, said: str) -> None:
    with recollect.open(path, embedder="none") as mem:
        session = RecollectSession(mem, "alice-1")
        agent = Agent(name="Helper", model=Counting())
        done = await Runner.run(agent, said, session=session, run_config=RunConfig(tracing_disabled=True))
        print(f"{said}\n    {done.final_output}")


with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "talk.db"
    for said in ("I prefer pytest.", "And short answers.", "What do I prefer?"):
        asyncio.run(talk(file, said))
    with recollect.open(file, embedder="none") as mem:
        print(f"found by its words: {mem.message.search('pytest').hits[0].text}")
