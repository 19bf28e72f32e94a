"""The OpenAI Agents SDK's session on Recollect: as the SDK's own, and with a real Runner."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Model, ModelResponse, RunConfig, Runner, SQLiteSession, Usage, function_tool
from agents.memory import Session, SessionSettings
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

import recollect
from recollect.errors import InvalidInput
from recollect.integrations.openai_agents import RecollectSession

ITEMS: list[Any] = [
    {"role": "user", "content": "Which framework does Alice prefer? 🧪"},
    {"type": "function_call", "call_id": "c1", "name": "look_up", "arguments": '{"who": "Alice"}', "id": "fc1"},
    {"type": "function_call_output", "call_id": "c1", "output": "pytest"},
    {"role": "assistant", "content": [{"type": "output_text", "text": "pytest", "annotations": []}], "type": "message"},
    {"type": "reasoning", "id": "r1", "summary": [{"type": "summary_text", "text": "simple"}]},
    {"role": "developer", "content": "be short"},
    {"role": "user", "content": "nul \x00 half \ud800 and \\u0000", "score": float("inf")},
    {"type": "function_call_output", "call_id": "\x00", "output": [{"type": "input_text", "text": "x"}]},
]


def test_it_is_a_session_of_the_sdk(mem: Any) -> None:
    assert isinstance(RecollectSession(mem, "s"), Session)


def test_items_come_back_as_they_went_in(mem: Any) -> None:
    async def run() -> None:
        session = RecollectSession(mem, "s")
        assert await session.get_items() == []
        assert await session.pop_item() is None
        await session.add_items(ITEMS[:3])
        await session.add_items(ITEMS[3:])
        assert await RecollectSession(mem, "s").get_items() == ITEMS
        assert await session.get_items(2) == ITEMS[-2:]
        assert await session.get_items(0) == []
        assert await session.pop_item() == ITEMS[-1]
        await session.clear_session()
        assert await session.get_items() == []

    asyncio.run(run())


def test_a_large_result_of_a_tool_is_kept_whole(mem: Any) -> None:
    large: Any = {"type": "function_call_output", "call_id": "c1", "output": "a line of a log\n" * 50_000}
    asyncio.run(RecollectSession(mem, "s").add_items([large]))
    assert asyncio.run(RecollectSession(mem, "s").get_items()) == [large]
    assert mem.message.search("log").hits[0].session == "s"


def test_messages_are_ours_too(mem: Any) -> None:
    asyncio.run(RecollectSession(mem, "s").add_items(ITEMS))
    messages = mem.message.list("s").messages
    assert [one.role for one in messages] == "user assistant tool assistant assistant system user tool".split()
    assert messages[2].tool_call_id == "c1"
    assert mem.message.search("framework").hits[0].session == "s"
    mem.message.add("user", "said elsewhere", session="s")
    assert asyncio.run(RecollectSession(mem, "s").get_items(1)) == [{"role": "user", "content": "said elsewhere"}]


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
steps = st.one_of(
    st.tuples(st.just("add"), st.lists(texts.map(lambda text: {"role": "user", "content": text}), max_size=4)),
    st.tuples(st.just("pop"), st.none()),
    st.tuples(st.just("get"), st.sampled_from([None, 0, 1, 3, 100])),
    st.tuples(st.just("clear"), st.none()),
)


@settings(max_examples=30, deadline=None)
@given(st.lists(steps, max_size=12), st.sampled_from([None, 2]))
def test_any_use_is_as_of_the_sdks_own_session(steps: list[Any], limit: int | None) -> None:
    async def run() -> None:
        with recollect.open("memory://", embedder="none") as mem:
            chosen = SessionSettings(limit=limit)
            ours = RecollectSession(mem, "s", session_settings=chosen)
            theirs = SQLiteSession("s", session_settings=chosen)
            for what, given in steps:
                for_both = [await _do(session, what, given) for session in (ours, theirs)]
                assert for_both[0] == for_both[1]
            assert await ours.get_items() == await theirs.get_items()
            theirs.close()

    asyncio.run(run())


async def _do(session: Any, what: str, given: Any) -> Any:
    if what == "add":
        return await session.add_items(given)
    if what == "get":
        return await session.get_items(given)
    return await (session.pop_item() if what == "pop" else session.clear_session())


class Scripted(Model):
    """A model that says what it is told to, and remembers what it was given."""

    def __init__(self, *answers: Any) -> None:
        self._answers: Iterator[Any] = iter(answers)
        self.given: list[Any] = []

    async def get_response(self, system_instructions: Any, input: Any, *rest: Any, **named: Any) -> ModelResponse:
        self.given.append(input)
        return ModelResponse(output=[next(self._answers)], usage=Usage(), response_id=None)

    def stream_response(self, *given: Any, **named: Any) -> Any:
        raise NotImplementedError


def said(text: str) -> ResponseOutputMessage:
    part = ResponseOutputText(type="output_text", text=text, annotations=[])
    return ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[part])


def call(name: str, **arguments: Any) -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(
        id="f", type="function_call", call_id="call-1", name=name, arguments=json.dumps(arguments)
    )


def test_a_runner_remembers_across_runs_and_restarts(tmp_path: Path) -> None:
    @function_tool
    def favourite(who: str) -> str:
        """The favourite framework of somebody."""
        return f"{who} likes pytest"

    quiet = RunConfig(tracing_disabled=True)

    async def turn(question: str, *answers: Any) -> tuple[str, Scripted]:
        model = Scripted(*answers)
        agent = Agent(name="Helper", model=model, tools=[favourite])
        with recollect.open(tmp_path / "talk.db", embedder="none") as mem:
            done = await Runner.run(agent, question, session=RecollectSession(mem, "talk"), run_config=quiet)
        return done.final_output, model

    answer, _ = asyncio.run(turn("What does Alice like?", call("favourite", who="Alice"), said("pytest")))
    assert answer == "pytest"
    answer, model = asyncio.run(turn("Why?", said("You asked before.")))
    texts = json.dumps(model.given[0])
    assert [text in texts for text in ("What does Alice like?", "Alice likes pytest", "call-1", "Why?")] == [True] * 4
    with recollect.open(tmp_path / "talk.db", embedder="none") as mem:
        assert len(mem.message.list("talk").messages) == 6
        assert mem.verify().sound


def test_tenants_never_meet(mem: Any) -> None:
    asyncio.run(RecollectSession(mem, "s").add_items(ITEMS[:1]))
    stranger = RecollectSession(mem.within("other"), "s")
    assert asyncio.run(stranger.get_items()) == []
    asyncio.run(stranger.clear_session())
    assert len(asyncio.run(RecollectSession(mem, "s").get_items())) == 1


def test_what_is_not_json_is_refused(mem: Any) -> None:
    with pytest.raises(InvalidInput, match="not JSON"):
        asyncio.run(RecollectSession(mem, "s").add_items([{"role": "user", "content": object()}]))
    with pytest.raises(InvalidInput):
        asyncio.run(RecollectSession(mem, "nul\x00").add_items(ITEMS))
