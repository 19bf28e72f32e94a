"""The memory store for Strands Agents: with a real Agent and its memory manager on a scripted model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from strands import Agent
from strands.memory import AddMessagesContext, MemoryManager
from strands.models import Model

import recollect
from recollect.errors import Unavailable
from recollect.integrations.strands import RecollectMemoryStore
from recollect.interfaces.remote import RemoteRecollect


class Scripted(Model):
    """A model that answers as told, and remembers what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []
        self.tools: list[str] = []

    def update_config(self, **given: Any) -> None: ...

    def get_config(self) -> dict[str, Any]:
        return {"model_id": "scripted"}

    def structured_output(self, *given: Any, **named: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, tool_specs: Any = None, *rest: Any, **named: Any) -> AsyncIterator[Any]:
        self.asked.append(json.dumps(messages, ensure_ascii=False, default=str))
        self.tools = sorted(spec["name"] for spec in tool_specs or [])
        answer = self._answers.pop(0)
        yield {"messageStart": {"role": "assistant"}}
        if isinstance(answer, str):
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": answer}}}
        else:
            name, given = answer
            yield {"contentBlockStart": {"start": {"toolUse": {"name": name, "toolUseId": f"id-{len(self.asked)}"}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(given)}}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn" if isinstance(answer, str) else "tool_use"}}


def agent(store: Any, *answers: Any) -> tuple[Agent, Scripted]:
    model = Scripted(*answers)
    manager = MemoryManager(stores=[store], add_tool_config=True)
    return Agent(model=model, memory_manager=manager, callback_handler=None), model


def ask(mem: Any, said: str, *answers: Any, user: str = "ann", session: str = "1") -> Scripted:
    helper, model = agent(RecollectMemoryStore(mem, user=user, session=session), *answers)
    helper(said)
    return model


def test_an_agent_remembers_over_sessions_and_restarts(store: Path) -> None:
    with recollect.open(store, embedder="hash") as mem:
        ask(mem, "My cat is called Mimi, 她喜欢绿茶", "A fine name!")
    with recollect.open(store, embedder="hash") as mem:
        model = ask(mem, "What is my cat called?", "Mimi", session="2")
        assert "My cat is called Mimi" in model.asked[0]
        assert "绿茶" in ask(mem, "绿茶?", "yes", session="3").asked[0]
        assert "Mimi" not in ask(mem, "What is my cat called?", "?", user="bob").asked[0]
        messages = mem.message.list("ann/1").messages
        assert [(one.role, one.text) for one in messages] == [
            ("user", "My cat is called Mimi, 她喜欢绿茶"),
            ("assistant", "A fine name!"),
        ]


def test_a_model_keeps_the_memory_with_tools(mem: Any) -> None:
    known = mem.remember("Ann is allergic to nuts", user="ann", cites=["user:ann"])
    bobs = mem.remember("Bob likes football", user="bob").id
    calls: list[Any] = [
        ("search_memory", {"query": "nuts"}),
        ("add_memory", {"entries": ["Ann plays chess"]}),
        ("add_memory", {"entries": ["Ann plays chess"]}),
        ("forget_memory", {"id": bobs}),
        ("forget_memory", {"id": known.id}),
    ]
    model = ask(mem, "Hello", *calls, "Done")
    assert model.tools == ["add_memory", "forget_memory", "search_memory"]
    for told in (known.id, "hypothesis", "user:ann", "there is no memory", f"Forgotten: {known.id}"):
        assert told in model.asked[-1]
    assert [one.text for one in mem.list(user="ann").memories] == ["Ann plays chess"]
    assert mem.show(bobs)


def test_a_conversation_is_stored_once_and_whole(mem: Any) -> None:
    store = RecollectMemoryStore(mem, user="ann", session="1")
    first, _ = agent(store, "yes", "yes", "yes")
    second, _ = agent(store, "yes")
    for said in ("ok", "ok", "more"):
        first(said)
    second("ok")  # another agent on the same store counts its messages anew
    texts = [one.text for one in mem.message.list("ann/1").messages]
    assert texts == ["ok", "yes", "ok", "yes", "more", "yes", "ok", "yes"]


class LostReply(RemoteRecollect):
    """A client whose connection breaks after the service did what it was asked to."""

    breaks = True

    def call(self, operation: str, /, **fields: Any) -> Any:
        reply = super().call(operation, **fields)
        if operation == "message.add_many" and self.breaks:
            raise Unavailable("the connection broke")
        return reply


def test_what_is_handed_over_again_after_a_failure_is_stored_once(service: tuple[str, str]) -> None:
    mem = LostReply(*service)
    store = RecollectMemoryStore(mem, user="ann", project="strands", session="1")
    batch: Any = [{"role": "user", "content": [{"text": text}]} for text in ("ok", "ok", "more")]
    batch.append({"role": "user", "content": [{"image": {}}]})
    with pytest.raises(Unavailable):
        asyncio.run(store.add_messages(batch[:2], AddMessagesContext(sequence_numbers=[0, 1])))
    mem.breaks = False
    asyncio.run(store.add_messages(batch, AddMessagesContext(sequence_numbers=[0, 1, 2, 5])))
    assert [one.text for one in mem.message.list("strands/ann/1").messages] == ["ok", "ok", "more"]
    mem.close()


def test_a_store_can_be_for_reading_alone(mem: Any) -> None:
    mem.remember("Ann plays chess", user="ann")
    model = Scripted("Chess")
    store = RecollectMemoryStore(mem, user="ann", session="1", writable=False, max_search_results=1)
    Agent(model=model, memory_manager=MemoryManager(stores=[store]), callback_handler=None)("Who plays chess?")
    assert model.tools == ["search_memory"]
    assert "Ann plays chess" in model.asked[0]
    assert mem.message.list("ann/1").messages == []


def test_it_works_over_a_service_and_asynchronously(service: tuple[str, str], tmp_path: Path) -> None:
    async def run(opening: Any) -> None:
        async with opening as mem:
            for session, said in (("1", "My cat is called Mimi"), ("2", "What is my cat called?")):
                store = RecollectMemoryStore(mem, user="str", session=session)
                helper, model = agent(store, "Noted")
                await helper.invoke_async(said)
                await helper.memory_manager.flush()
            assert "called Mimi" in model.asked[0]

    asyncio.run(run(recollect.aopen(tmp_path / "a.db", embedder="hash")))
    asyncio.run(run(recollect.aconnect(*service)))


def test_the_example_of_the_page_runs(run_example: Callable[[str], None]) -> None:
    run_example("strands")
