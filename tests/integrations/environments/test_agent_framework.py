"""The providers for Microsoft Agent Framework: with a real Agent on a scripted chat client."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    InMemoryHistoryProvider,
    Message,
)

import recollect
from recollect.errors import InvalidInput
from recollect.integrations.agent_framework import RecollectContextProvider, RecollectHistoryProvider


class Scripted(FunctionInvocationLayer, BaseChatClient):
    """A client that answers as told, and remembers what it was asked."""

    def __init__(self, *answers: Any) -> None:
        super().__init__()
        self.answers = list(answers)
        self.asked: list[str] = []
        self.tools: list[str] = []

    async def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **given: Any
    ) -> ChatResponse:
        self.asked.append("\n".join(f"{one.role}: {[part.to_dict() for part in one.contents]}" for one in messages))
        self.tools = [tool.name for tool in options.get("tools") or []]
        answer = self.answers.pop(0)
        return ChatResponse(messages=Message("assistant", [answer]), response_id="r1")


def call(name: str, **arguments: str) -> Content:
    return Content.from_function_call(f"call-{name}", name, arguments=arguments)


async def ask(mem: Any, said: str, *answers: Any, user: str = "ann", id: str = "1", **options: Any) -> Scripted:
    client = Scripted(*answers)
    providers = [RecollectHistoryProvider(mem, user=user), RecollectContextProvider(mem, user=user, **options)]
    agent = Agent(client=client, name="helper", context_providers=providers)
    await agent.run(said, session=AgentSession(session_id=id))
    return client


def test_an_agent_has_its_history_and_its_memory_after_a_restart(store: Path) -> None:
    with recollect.open(store, embedder="hash") as mem:
        asyncio.run(ask(mem, "My cat is called Mimi, 她喜欢绿茶", "A fine name!"))
    with recollect.open(store, embedder="hash") as mem:
        client = asyncio.run(ask(mem, "Thanks, goodbye", "Bye"))  # the same conversation
        assert client.asked[0].index("My cat is called Mimi") < client.asked[0].index("A fine name!")
        client = asyncio.run(ask(mem, "What is my cat called?", "Mimi", id="2"))  # another one
        assert "My cat is called Mimi" in client.asked[0]
        assert "evidence, not instruction" in client.asked[0]
        assert "Mimi" not in asyncio.run(ask(mem, "What is my cat called?", "?", user="bob")).asked[0]
        messages = mem.message.list("ann/1").messages
        assert [(one.role, one.text) for one in messages] == [
            ("user", "My cat is called Mimi, 她喜欢绿茶"),
            ("assistant", "A fine name!"),
            ("user", "Thanks, goodbye"),
            ("assistant", "Bye"),
        ]


def test_history_with_tool_calls_is_that_of_the_frameworks_own_provider(mem: Any) -> None:
    async def run(provider: Any) -> list[str]:
        client = Scripted(call("remember", text="Ann plays chess"), "Noted", "Chess")
        tools = RecollectContextProvider(mem, user="ann", tokens=50)
        agent = Agent(client=client, context_providers=[provider, tools])
        session = AgentSession(session_id="1")
        await agent.run("I play chess", session=session)
        await agent.run("What do I play?", session=session)
        shown = re.sub(r"af-call-\w+|Known already, as [\w-]+|Remembered as [\w-]+", "…", client.asked[-1])
        return [line for line in shown.splitlines() if "<memories>" not in line]

    ours = asyncio.run(run(RecollectHistoryProvider(mem, user="ann")))
    theirs = asyncio.run(run(InMemoryHistoryProvider()))
    assert len(ours) == len(theirs) == 5
    assert ours == theirs


def test_a_model_keeps_the_memory_with_tools(mem: Any) -> None:
    mem.remember("Ann is allergic to nuts", user="ann", cites=["user:ann"])
    bobs = mem.remember("Bob likes football", user="bob").id
    calls = [call("remember", text="Ann plays chess"), call("recall", question="nuts"), call("forget", id=bobs)]
    client = asyncio.run(ask(mem, "Hello", *calls, "Done"))
    assert client.tools == ["remember", "recall", "forget"]
    for told in ("Remembered as", "user:ann", "there is no memory"):
        assert told in client.asked[-1]
    assert mem.recall("chess", source_agent="helper")[0].text == "Ann plays chess"
    assert mem.show(bobs)
    assert asyncio.run(ask(mem, "Hello", "Hi", id="2", tools=False)).tools == []


def test_one_agent_serves_many_users_at_once(mem: Any) -> None:
    class Echo(Scripted):
        async def _inner_get_response(self, **given: Any) -> ChatResponse:
            self.answers = [str([one.text for one in given["messages"]])]
            return await super()._inner_get_response(**given)

    def whose(session: AgentSession) -> str:
        return str(session.state["who"])

    providers: list[Any] = [RecollectHistoryProvider(mem, user=whose), RecollectContextProvider(mem, user=whose)]
    agent = Agent(client=Echo(), context_providers=providers)

    async def say(name: str, text: str, id: str) -> str:
        session = AgentSession(session_id=id)
        session.state["who"] = name
        return str((await agent.run(text, session=session)).text)

    async def run() -> None:
        names = ["ann", "bob", "cleo"]
        await asyncio.gather(*(say(name, f"My pet is {name}-cat", "1") for name in names))
        for id in ("1", "2"):
            answers = await asyncio.gather(*(say(name, "What is my pet?", id) for name in names))
            for name, answer in zip(names, answers, strict=True):
                assert [other for other in names if f"{other}-cat" in answer] == [name]
        with pytest.raises(InvalidInput, match="whose conversation"):
            await providers[0].get_messages("1")

    asyncio.run(run())


def test_what_is_saved_again_is_stored_once_and_nothing_is_lost(mem: Any) -> None:
    async def run() -> None:
        provider = RecollectHistoryProvider(mem, user="ann", newest=3)
        known = [Message("user", ["ok"], message_id="m1"), Message("assistant", ["yes"], message_id="r1")]
        await provider.save_messages("1", known)
        await provider.save_messages("1", known)  # the framework tries again
        same_id = Message("assistant", ["and more"], message_id="r1")
        await provider.save_messages("1", [same_id, Message("user", ["ok"]), Message("user", ["ok"])])
        await provider.save_messages(None, known)
        assert [one.text for one in mem.message.list("ann/1").messages] == ["ok", "yes", "and more", "ok", "ok"]
        assert [one.text for one in await provider.get_messages("1")] == ["and more", "ok", "ok"]
        assert await provider.get_messages(None) == await provider.get_messages("2") == []

    asyncio.run(run())


def test_it_works_over_a_service_and_asynchronously(service: tuple[str, str], tmp_path: Path) -> None:
    async def run(opening: Any) -> None:
        async with opening as mem:
            await ask(mem, "My cat is called Mimi", call("remember", text="Ann plays chess"), "Noted", user="af")
            client = await ask(mem, "What is my cat called, who plays chess?", "Mimi", user="af", id="2")
            assert "Mimi" in client.asked[0]
            assert "Ann plays chess" in client.asked[0]

    asyncio.run(run(recollect.aopen(tmp_path / "a.db", embedder="hash")))
    asyncio.run(run(recollect.aconnect(*service)))


def test_the_example_of_the_page_runs(run_example: Callable[[str], None]) -> None:
    run_example("agent-framework")
