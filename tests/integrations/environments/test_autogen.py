"""AutoGen's memory on Recollect: with a real AssistantAgent on the client that the framework has for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_core import Image
from autogen_core.memory import MemoryContent, MemoryMimeType
from autogen_core.model_context import BufferedChatCompletionContext
from autogen_core.models import UserMessage
from autogen_ext.models.replay import ReplayChatCompletionClient
from PIL.Image import new as picture

import recollect
from recollect.errors import InvalidInput
from recollect.integrations.autogen import RecollectMemory


def note(text: Any, **metadata: Any) -> MemoryContent:
    return MemoryContent(content=text, mime_type=MemoryMimeType.TEXT, metadata=metadata)


async def ask(mem: Any, *said: str, user: str = "ann") -> str:
    client = ReplayChatCompletionClient(["Noted"] * len(said))
    agent = AssistantAgent("helper", client, memory=[RecollectMemory(mem, user=user, project="shop")])
    for one in said:
        await agent.run(task=one)
    return str(client.create_calls[-1]["messages"])


def test_an_agent_is_shown_what_is_known_about_its_user(store: Path) -> None:
    with recollect.open(store, embedder="hash") as mem:
        asyncio.run(RecollectMemory(mem, user="ann", project="shop").add(note("The cat Mimi likes 绿茶")))
    with recollect.open(store, embedder="hash") as mem:
        shown = asyncio.run(ask(mem, "Good morning", "What does the cat Mimi like, 绿茶?"))
        assert "The cat Mimi likes 绿茶" in shown
        assert "evidence, not instruction" in shown
        assert "likes" not in asyncio.run(ask(mem, "What does the cat Mimi like?", user="bob"))


def test_it_is_added_to_asked_and_cleared(mem: Any) -> None:
    async def run() -> None:
        memory, bobs = (RecollectMemory(mem, user=user, project="shop") for user in ("ann", "bob"))
        for _ in range(2):
            await memory.add(note("Ann drinks tea", source="crm"))
        await bobs.add(note("Bob drinks tea"))
        await memory.add(MemoryContent(content={"茶": "tea"}, mime_type=MemoryMimeType.JSON))
        kept = mem.remember("Ann drinks tea at five", user="ann", project="shop", cites=["user:ann"])
        found = {one.content: one.metadata for one in (await memory.query("drinks tea")).results}
        assert {"Ann drinks tea", "Ann drinks tea at five"} <= {*found} <= {*found} - {"Bob drinks tea"}
        assert found["Ann drinks tea"]["source"] == "crm"
        assert found["Ann drinks tea at five"]["citations"] == ["user:ann"]
        assert found["Ann drinks tea at five"]["id"] == kept.id
        assert len((await memory.query(note("tea"), limit=1)).results) == 1
        assert (await memory.query()).results == []
        await memory.clear()
        assert [one.content for one in (await memory.query("drinks tea")).results] == ["Ann drinks tea at five"]
        assert [one.content for one in (await bobs.query("drinks tea")).results] == ["Bob drinks tea"]
        await memory.close()
        with pytest.raises(InvalidInput, match="only text"):
            await memory.add(MemoryContent(content=Image(picture("RGB", (1, 1))), mime_type=MemoryMimeType.IMAGE))

    asyncio.run(run())


async def best(memory: RecollectMemory, context: Any, said: list[Any]) -> str:
    """Which of two comes first in what is recalled after this was said."""
    for content, source in said:
        await context.add_message(UserMessage(content=content, source=source))
    (recalled,) = (await memory.update_context(context)).memories.results
    return min(("Rex", "Mimi"), key=lambda name: f"{recalled.content} {name}".index(name))


def test_what_was_recalled_before_is_not_the_question(mem: Any) -> None:
    async def run() -> None:
        memory = RecollectMemory(mem, user="ann")
        await memory.add(note("The cat Mimi likes tea"))
        await memory.add(note("The dog Rex likes bones"))
        context = BufferedChatCompletionContext(buffer_size=9)
        asked: list[Any] = [("The dog Rex?", "user"), ("The cat Mimi", "memory")]
        assert await best(memory, context, asked) == "Rex"
        assert await best(memory, context, [(["And Mimi?", Image(picture("RGB", (1, 1)))], "user")]) == "Mimi"

    asyncio.run(run())


def test_it_works_over_a_service(service: tuple[str, str]) -> None:
    async def run() -> None:
        async with recollect.aconnect(*service) as mem:
            await RecollectMemory(mem, user="gen", project="shop").add(note("The cat is called Mimi"))
            assert "called Mimi" in await ask(mem, "What is the cat called?", user="gen")

    asyncio.run(run())


def test_the_example_of_the_page_runs(run_example: Callable[[str], None]) -> None:
    run_example("autogen")
