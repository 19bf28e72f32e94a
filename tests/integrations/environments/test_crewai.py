"""CrewAI's memory on Recollect: as on CrewAI's own storage, and with a real Crew on a scripted model."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true", "CREWAI_TRACING_ENABLED": "false"}

from crewai import Agent, Crew, Task
from crewai.llms.base_llm import BaseLLM
from crewai.memory.storage.backend import StorageBackend
from crewai.memory.storage.lancedb_storage import LanceDBStorage
from crewai.memory.types import MemoryRecord
from crewai.memory.unified_memory import Memory

import recollect
from recollect.errors import NotFound
from recollect.integrations.crewai import RecollectStorage


def embed(texts: list[str]) -> list[list[float]]:
    """Vectors that are near where texts share words."""
    vectors = []
    for text in texts:
        vector = [0.0] * 64
        for word in text.lower().split():
            vector[hashlib.sha256(word.strip("?.,").encode()).digest()[0] % 64] += 1.0
        vectors.append(vector)
    return vectors


def record(text: str, scope: str = "/", id: str | None = None, **fields: Any) -> MemoryRecord:
    named = {} if id is None else {"id": id}
    return MemoryRecord(content=text, scope=scope, embedding=embed([text])[0], **named, **fields)


class Scripted(BaseLLM):
    """A model that says one thing, and remembers what it was asked."""

    answer: str = "Final Answer: Noted"
    asked: list[str] = []

    def call(self, messages: Any, *rest: Any, **named: Any) -> str:
        self.asked.append(str(messages))
        return self.answer


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CREWAI_STORAGE_DIR", str(tmp_path / "crewai"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture(params=["recollect", "lancedb"])
def storage(request: pytest.FixtureRequest, mem: Any, tmp_path: Path) -> Any:
    """Ours, and CrewAI's own: what holds for the one must hold for the other."""
    return RecollectStorage(mem, user="ann") if request.param == "recollect" else LanceDBStorage(tmp_path / "lance")


def test_it_does_as_the_frameworks_own_storage(storage: Any) -> None:
    assert isinstance(storage, StorageBackend)
    old = datetime(2024, 5, 3, 9, 30)
    storage.save([record("Ann drinks tea", "/home", id="1", categories=["drink"], created_at=old)])
    storage.save([record("Ann drinks coffee", "/office/desk", id="2", categories=["drink", "work"], importance=0.9)])
    storage.save([record("Bob plays chess", "/office", id="3", metadata={"game": "chess"}, source="crm", private=True)])
    ask = embed(["who drinks tea"])[0]
    assert [one.content for one, _ in storage.search(ask, limit=2)] == ["Ann drinks tea", "Ann drinks coffee"]
    assert [one.id for one, _ in storage.search(ask, scope_prefix="/office")] == ["2", "3"]
    assert [one.id for one, _ in storage.search(ask, categories=["work", "none"])] == ["2"]
    assert [one.id for one, _ in storage.search(ask, metadata_filter={"game": "chess"})] == ["3"]
    kept = storage.get_record("3")
    assert (kept.content, kept.scope, kept.metadata, kept.source, kept.private) == (
        "Bob plays chess", "/office", {"game": "chess"}, "crm", True
    )  # fmt: skip
    assert storage.get_record("2").importance == 0.9
    assert storage.get_record("none") is None
    assert storage.count() == 3
    assert storage.count("/office") == 2
    assert storage.list_scopes() == ["/home", "/office"]
    assert storage.list_scopes("/office") == ["/office/desk"]
    assert storage.list_categories() == {"drink": 2, "work": 1}
    info = storage.get_scope_info("/office")
    assert (info.record_count, info.categories, info.child_scopes) == (2, ["drink", "work"], ["/office/desk"])
    assert [one.id for one in storage.list_records(limit=2, offset=1)][-1] == "1"
    storage.update(record("Ann drinks water", "/home", id="1", created_at=old))
    assert storage.get_record("1").content == "Ann drinks water"
    assert storage.delete(record_ids=["2", "none"]) == 1
    assert storage.delete(older_than=datetime(2025, 1, 1)) == 1
    assert [one.id for one in storage.list_records()] == ["3"]
    storage.reset()
    assert storage.count() == 0


def test_what_is_saved_again_is_stored_once_and_same_texts_stay_apart(mem: Any) -> None:
    storage = RecollectStorage(mem, user="ann")
    for _ in range(2):
        storage.save([record("Ann drinks tea", "/home", id="1"), record("Ann drinks tea", "/office", id="2")])
    assert storage.count() == 2
    with pytest.raises(NotFound, match="save it first"):
        storage.update(record("x", id="3"))


def test_users_and_other_memories_do_not_meet(mem: Any) -> None:
    ann, bob = (RecollectStorage(mem, user=user, project="shop") for user in ("ann", "bob"))
    own = mem.remember("Ann plays chess", user="ann", project="shop")
    ann.save([record("Ann drinks tea", id="1")])
    bob.save([record("Bob drinks tea", id="2")])
    assert [one.content for one, _ in ann.search(embed(["drinks tea"])[0])] == ["Ann drinks tea"]
    assert ann.get_record("2") is ann.get_record(own.id) is None
    assert ann.delete(record_ids=["2", own.id]) == 0
    ann.reset()
    assert (ann.count(), bob.count(), mem.show(own.id).text) == (0, 1, "Ann plays chess")


def crew(mem: Any, task: str, user: str = "ann") -> Scripted:
    llm = Scripted(model="scripted", asked=[], answer="Thought: easy\nFinal Answer: Mimi likes 绿茶")
    memory = Memory(storage=RecollectStorage(mem, user=user), embedder=embed, llm=llm)
    agent = Agent(role="helper", goal="help", backstory="kind", llm=llm)
    work = Task(description=task, expected_output="an answer", agent=agent)
    Crew(agents=[agent], tasks=[work], memory=memory).kickoff()
    memory.drain_writes()
    memory.close()
    return llm


def test_a_crew_remembers_over_restarts(store: Path) -> None:
    with recollect.open(store, embedder="hash") as mem:
        crew(mem, "Say what the cat Mimi likes")
        stored = [one.text for one in mem.list(user="ann").memories]
        assert stored
        assert any("绿茶" in text for text in stored)
        assert any("绿茶" in hit.text for hit in mem.recall("What does Mimi like?", user="ann"))
    with recollect.open(store, embedder="hash") as mem:
        assert any("Mimi likes 绿茶" in asked for asked in crew(mem, "What does the cat Mimi like?").asked[:1])
        assert "绿茶" not in crew(mem, "What does the cat Mimi like?", user="bob").asked[0]


def test_it_works_over_a_service_and_asynchronously(remote: Any) -> None:
    storage = RecollectStorage(remote, user="crew")

    async def run() -> None:
        await storage.asave([record("Ann drinks tea", "/home", id="crew-1", created_at=datetime.now(UTC))])
        found = await storage.asearch(embed(["drinks tea"])[0], scope_prefix="/home", min_score=0.1)
        assert [one.content for one, _ in found] == ["Ann drinks tea"]
        assert await storage.adelete(scope_prefix="/home") == 1

    asyncio.run(run())
    assert storage.count() == 0


def test_the_example_of_the_page_runs(run_example: Callable[[str], None]) -> None:
    run_example("crewai")
