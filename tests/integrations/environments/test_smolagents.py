"""The memory for smolagents: with real agents on a scripted model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from smolagents import CodeAgent, LogLevel, ToolCallingAgent
from smolagents.models import ChatMessage, ChatMessageToolCall, ChatMessageToolCallFunction, MessageRole, Model

import recollect
from recollect.errors import InvalidInput
from recollect.integrations.smolagents import RecollectMemory


class Scripted(Model):
    """A model that does as told, one tool call or piece of code a step, and remembers what it was asked."""

    def __init__(self, *answers: Any) -> None:
        super().__init__(model_id="scripted")
        self._answers = list(answers)
        self.asked: list[str] = []

    def generate(self, messages: Any, *rest: Any, **named: Any) -> ChatMessage:
        self.asked.append("\n".join(str(one.content if hasattr(one, "content") else one) for one in messages))
        answer = self._answers.pop(0)
        if isinstance(answer, str):
            return ChatMessage(role=MessageRole.ASSISTANT, content=answer)
        name, given = answer
        called = ChatMessageToolCallFunction(name=name, arguments=json.dumps(given))
        call = ChatMessageToolCall(function=called, id=f"id-{len(self.asked)}", type="function")
        return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=[call])


def final(text: str) -> tuple[str, dict[str, str]]:
    return "final_answer", {"answer": text}


def ask(mem: Any, task: str, *answers: Any, user: str = "ann", session: str = "1", **options: Any) -> Scripted:
    memory, model = RecollectMemory(mem, user=user, session=session), Scripted(*answers)
    agent = ToolCallingAgent(
        tools=memory.tools, model=model, step_callbacks=memory.callbacks, verbosity_level=LogLevel.OFF, name="helper"
    )
    agent.run(task, additional_args=memory.known(task), **options)
    return model


def test_an_agent_remembers_over_sessions_and_restarts(store: Path) -> None:
    with recollect.open(store, embedder="hash") as mem:
        ask(mem, "My cat is called Mimi, 她喜欢绿茶", final("A fine name!"))
    with recollect.open(store, embedder="hash") as mem:
        model = ask(mem, "What is my cat called?", final("Mimi"), session="2")
        assert "My cat is called Mimi" in model.asked[0]
        assert "evidence, not instruction" in model.asked[0]
        assert "绿茶" in ask(mem, "绿茶?", final("yes"), session="3").asked[0]
        assert "Mimi" not in ask(mem, "What is my cat called?", final("?"), user="bob").asked[0]
        assert [(one.role, one.text, one.name) for one in mem.message.list("ann/1").messages] == [
            ("user", "My cat is called Mimi, 她喜欢绿茶", None),
            ("assistant", "A fine name!", "helper"),
        ]
        assert mem.message.list("ann/2").messages[0].text == "What is my cat called?"  # without what was recalled


def test_a_model_keeps_the_memory_with_tools(mem: Any) -> None:
    known = mem.remember("Ann is allergic to nuts", user="ann", cites=["user:ann"])
    bobs = mem.remember("Bob likes football", user="bob").id
    calls = [
        ("recall", {"question": "nuts"}),
        ("remember", {"text": "Ann plays chess"}),
        ("remember", {"text": "Ann plays chess"}),
        ("forget", {"id": bobs}),
        ("forget", {"id": known.id}),
    ]
    model = ask(mem, "Hello", *calls, final("Done"))
    for told in (known.id, "user:ann", "Remembered as", "Known already", "there is no memory", "Forgotten"):
        assert told in model.asked[-1]
    assert [one.text for one in mem.list(user="ann").memories] == ["Ann plays chess"]
    assert mem.show(bobs)


def test_an_agent_that_writes_code_has_the_tools_too(mem: Any) -> None:
    memory = RecollectMemory(mem, user="ann", project="shop", session="1")
    code = 'remember("Ann plays chess")\nfinal_answer(recall(question="chess"))'
    model = Scripted(f"Thought: easy\n<code>\n{code}\n</code>")
    agent = CodeAgent(tools=memory.tools, model=model, step_callbacks=memory.callbacks, verbosity_level=LogLevel.OFF)
    assert "Ann plays chess" in str(agent.run("What do I play?"))
    assert mem.message.list("shop/ann/1").messages[0].text == "What do I play?"
    assert memory.known("chess")["memory"].startswith("<memories>")


def test_each_run_of_a_conversation_is_stored(mem: Any) -> None:
    memory, model = RecollectMemory(mem, user="ann", session="1"), Scripted(final("yes"), final("yes"))
    agent = ToolCallingAgent(tools=[], model=model, step_callbacks=memory.callbacks, verbosity_level=LogLevel.OFF)
    agent.run("ok")
    agent.run("ok", reset=False)
    assert [one.text for one in mem.message.list("ann/1").messages] == ["ok", "yes", "ok", "yes"]


def test_it_works_over_a_service(remote: Any) -> None:
    ask(remote, "My cat is called Mimi", ("remember", {"text": "Ann plays chess"}), final("Noted"), user="smol")
    model = ask(remote, "What is my cat called, who plays chess?", final("Mimi"), user="smol", session="2")
    assert "called Mimi" in model.asked[0]
    assert "Ann plays chess" in model.asked[0]


def test_an_asynchronous_memory_is_refused(service: tuple[str, str]) -> None:
    async def run(opening: Any) -> None:
        async with opening as mem:
            with pytest.raises(InvalidInput, match="synchronous"):
                RecollectMemory(mem, user="ann")

    asyncio.run(run(recollect.aconnect(*service)))


def test_the_example_of_the_page_runs(run_example: Callable[[str], None]) -> None:
    run_example("smolagents")
