"""The capability for Pydantic AI: with real agents, on the models that the framework has for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, BinaryImage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.messages import UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

import recollect
from recollect.errors import Closed
from recollect.integrations.pydantic_ai import RecollectMemory


class Scripted:
    """A model that answers as told, and remembers what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []
        self.tools: list[str] = []

    def __call__(self, messages: Any, info: AgentInfo) -> ModelResponse:
        self.asked.append(str(messages))
        self.tools = [tool.name for tool in info.function_tools]
        answer = self._answers.pop(0)
        return ModelResponse(parts=[TextPart(answer) if isinstance(answer, str) else answer])


@dataclass
class Caller:
    user: str


def agent(mem: Any, model: Any, **options: Any) -> Agent[Caller, str]:
    memory = RecollectMemory(mem, user=lambda ctx: ctx.deps.user, **options)
    return Agent(FunctionModel(model), name="helper", deps_type=Caller, capabilities=[memory])


async def ask(mem: Any, said: Any, *answers: Any, user: str = "ann", id: str = "1", **options: Any) -> Scripted:
    model = Scripted(*answers)
    await agent(mem, model, **options).run(said, deps=Caller(user), conversation_id=id)
    return model


def test_an_agent_remembers_over_conversations_and_restarts(store: Path) -> None:
    with recollect.open(store, embedder="hash") as mem:
        asyncio.run(ask(mem, "My cat is called Mimi, 她喜欢绿茶", "A fine name!"))
    with recollect.open(store, embedder="hash") as mem:
        model = asyncio.run(ask(mem, "What is my cat called?", "Mimi", id="2"))
        assert "My cat is called Mimi" in model.asked[0]
        assert "evidence, not instruction" in model.asked[0]
        assert "绿茶" in asyncio.run(ask(mem, "绿茶?", "yes", id="3")).asked[0]
        assert "Mimi" not in asyncio.run(ask(mem, "What is my cat called?", "?", user="bob", id="1")).asked[0]
        messages = mem.message.list("ann/1").messages
        assert [(one.role, one.text, one.user) for one in messages] == [
            ("user", "My cat is called Mimi, 她喜欢绿茶", "ann"),
            ("assistant", "A fine name!", "ann"),
        ]


def test_a_model_keeps_the_memory_with_tools(mem: Any) -> None:
    mem.remember("Ann is allergic to nuts", user="ann", cites=["user:ann"])
    bobs = mem.remember("Bob likes football", user="bob").id

    def call(name: str, **arguments: str) -> ToolCallPart:
        return ToolCallPart(name, arguments)

    remember = call("remember", text="Ann plays chess")
    calls = [remember, remember, call("recall", question="nuts"), call("forget", id=bobs)]
    model = asyncio.run(ask(mem, "Hello", *calls, "Done"))
    assert model.tools == ["remember", "recall", "forget"]
    for told in ("Remembered as", "Known already", "user:ann", "status=hypothesis", "there is no memory"):
        assert told in model.asked[-1]
    (chess,) = [one for one in mem.list(user="ann").memories if "chess" in one.text]
    assert mem.recall("chess", source_agent="helper")[0].id == chess.id
    asyncio.run(ask(mem, "Forget it", call("forget", id=chess.id), "Done"))
    assert [one.text for one in mem.list(user="ann").memories] == ["Ann is allergic to nuts"]
    assert mem.restore(chess.id).id == chess.id  # what a model forgets can be brought back
    assert mem.show(bobs)


def test_history_comes_back_as_the_framework_had_it(mem: Any) -> None:
    memory = RecollectMemory(mem, user="ann", project="shop")
    helper = Agent(TestModel(), capabilities=[memory])

    async def run() -> None:
        picture = BinaryImage(b"\x89PNG\x00", media_type="image/png")
        first = await helper.run(["Hello", picture], conversation_id="1")
        assert await memory.history("1") == first.all_messages()
        second = await helper.run("Again", conversation_id="1", message_history=await memory.history("1"))
        assert await memory.history("1") == second.all_messages()
        assert await memory.history("1", newest=2) == second.all_messages()[-2:]
        assert await memory.history("1", user="bob") == await memory.history("2") == []
        mem.message.add("user", "said elsewhere", session="shop/ann/1", user="ann")
        assert await memory.history("1") == second.all_messages()

    asyncio.run(run())
    with pytest.raises(TypeError, match="name the user"):
        asyncio.run(RecollectMemory(mem, user=lambda ctx: "ann").history("1"))


def test_what_was_recalled_is_shown_once_and_not_stored(mem: Any) -> None:
    asyncio.run(ask(mem, "My cat is called Mimi", "Noted"))
    model = asyncio.run(ask(mem, "And my cat?", ToolCallPart("recall", {"question": "dog"}), "Mimi", id="2"))
    assert [asked.count("<memories>") for asked in model.asked] == [1, 1 + (NOT_KNOWN not in model.asked[1])]
    assert not any("<memories>" in (one.text or "") for one in mem.message.list("ann/2").messages)
    assert mem.message.list("ann/2").messages[0].text == "And my cat?"


NOT_KNOWN = "Nothing is known about that."


def test_a_large_picture_does_not_fail_a_run(mem: Any) -> None:
    memory = RecollectMemory(mem, user="ann")
    helper = Agent(TestModel(call_tools=[]), capabilities=[memory])
    helper.run_sync(["What is on it?", BinaryImage(b"x" * 1_000_000, media_type="image/png")], conversation_id="1")
    assert [one.text for one in mem.message.list("ann/1").messages] == ["What is on it?", "success (no tool calls)"]
    assert len(asyncio.run(memory.history("1"))) == 1


def test_two_users_at_once_do_not_meet(mem: Any) -> None:
    shared = agent(mem, lambda messages, info: ModelResponse(parts=[TextPart(str(messages))]))

    async def run() -> None:
        names = ["ann", "bob", "cleo"]
        told = [shared.run(f"My pet is {name}-cat", deps=Caller(name), conversation_id="1") for name in names]
        await asyncio.gather(*told)
        asked = [shared.run("What is my pet?", deps=Caller(name), conversation_id="2") for name in names]
        for name, done in zip(names, await asyncio.gather(*asked), strict=True):
            assert [other for other in names if f"{other}-cat" in done.output] == [name]

    asyncio.run(run())


def test_each_part_can_be_left_out(mem: Any) -> None:
    asyncio.run(ask(mem, "My cat is called Mimi", "Noted"))
    model = asyncio.run(ask(mem, "My cat?", "?", id="2", tokens=0, tools=False, store=False))
    assert (model.tools, "<memories>" in model.asked[0]) == ([], False)
    assert mem.message.list("ann/2").messages == []


def test_a_run_that_fails_stores_nothing_and_a_broken_store_is_said(mem: Any) -> None:
    def fail(messages: Any, info: Any) -> ModelResponse:
        raise ValueError("out of order")

    with pytest.raises(ValueError, match="out of order"):
        asyncio.run(agent(mem, fail).run("Hello", deps=Caller("ann"), conversation_id="1"))
    assert mem.message.list("ann/1").messages == []
    mem.close()
    with pytest.raises(Closed):
        asyncio.run(ask(mem, "Hello", "Hi"))


def test_the_prompt_of_a_user_is_not_changed(mem: Any) -> None:
    asyncio.run(ask(mem, "My cat is called Mimi", "Noted"))
    helper = Agent(TestModel(call_tools=[]), capabilities=[RecollectMemory(mem, user="ann")])
    done = helper.run_sync("My cat?", conversation_id="2")
    assert [part.content for part in done.all_messages()[0].parts if isinstance(part, UserPromptPart)] == ["My cat?"]


def test_it_works_over_a_service_and_asynchronously(service: tuple[str, str], tmp_path: Path) -> None:
    async def run(opening: Any) -> None:
        async with opening as mem:
            await ask(mem, "My cat is called Mimi", ToolCallPart("remember", {"text": "Ann plays chess"}), "Noted")
            model = await ask(mem, "What is my cat called, and who plays chess?", "Mimi", id="2")
            assert "Mimi" in model.asked[0]
            assert "Ann plays chess" in model.asked[0]

    asyncio.run(run(recollect.aopen(tmp_path / "a.db", embedder="hash")))
    asyncio.run(run(recollect.aconnect(*service)))


def test_the_example_of_the_page_runs(run_example: Callable[[str], None]) -> None:
    run_example("pydantic-ai")
