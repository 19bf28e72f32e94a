"""LangChain on Recollect: its own standard suites, and what is ours about it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.history import RunnableWithMessageHistory
from langchain_core.vectorstores import VectorStore
from langchain_tests.integration_tests import RetrieversIntegrationTests, VectorStoreIntegrationTests

import recollect
from recollect.errors import InvalidInput, Unsupported
from recollect.integrations.langchain import RecollectChatMessageHistory, RecollectRetriever, RecollectVectorStore

TEA = "Alice drinks green tea in the morning"


@pytest.fixture(scope="module")
def shared() -> Iterator[Any]:
    with recollect.open("memory://", embedder="hash") as mem:
        yield mem


class TestTheStandardSuiteWithOurModel(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, shared: Any) -> Iterator[VectorStore]:
        store = RecollectVectorStore(shared)
        yield store
        store.delete()


class TestTheStandardSuiteWithVectorsOfAnother(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, shared: Any) -> Iterator[VectorStore]:
        store = RecollectVectorStore(shared, self.get_embeddings(), collection="fake")
        yield store
        store.delete()


class TestTheStandardSuiteOfRetrievers(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def _filled(self, shared: Any) -> None:
        for number in range(5):
            shared.remember(f"tea number {number}", user="tester")
        self.mem = shared

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return RecollectRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"mem": self.mem, "user": "tester"}

    @property
    def retriever_query_example(self) -> str:
        return "tea"


def test_a_retrieved_document_says_how_far_it_can_be_trusted(mem: Any, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text(TEA)
    cited = mem.remember(TEA, user="alice", cites=[recollect.cite.file("notes.md")], metadata={"room": 3}).id
    mem.promote(cited)
    mem.remember("Alice drinks coffee", user="alice")
    mem.remember("Bob drinks tea", user="bob")
    retriever = RecollectRetriever(mem=mem, user="alice", k=2)
    first, second = retriever.invoke("which tea does she drink in the morning?")
    assert (first.id, first.page_content, first.metadata["status"], first.metadata["room"]) == (
        cited,
        TEA,
        "verified",
        3,
    )
    assert first.metadata["citation"] == "file:notes.md"
    assert first.metadata["citations"] == [{"source": "file:notes.md", "state": "holds"}]
    assert first.metadata["score"] > second.metadata["score"]
    assert second.metadata["citation"] is None
    proven = RecollectRetriever(mem=mem, filters={"statuses": ["verified"]})
    assert [one.id for one in proven.invoke("tea")] == [cited]
    assert [one.id for one in asyncio.run(retriever.ainvoke("tea in the morning", k=1))] == [cited]


def test_documents_are_memories(mem: Any) -> None:
    store = RecollectVectorStore(mem, user="alice", details=True)
    store.add_texts([TEA], [{"about": "tea"}], ids=["1"])
    hit = mem.recall("green tea", user="alice").hits[0]
    assert (hit.id, hit.text, hit.metadata) == ("langchain:1", TEA, {"about": "tea"})
    mem.cite(hit.id, cites=[recollect.cite.user("alice", "said so")])
    found = store.similarity_search("green tea")[0]
    assert (found.id, found.metadata["about"]) == ("1", "tea")
    assert found.metadata["recollect"]["citation"] == "user:alice"
    store.add_texts(["Alice drinks cocoa"], ids=["1"])
    assert [one.text for one in mem.history(hit.id).entries] == [TEA, "Alice drinks cocoa"]
    mem.forget(hit.id)
    assert store.similarity_search("cocoa") == []
    store.add_texts([TEA], ids=["1"])
    assert [one.page_content for one in store.get_by_ids(["1"])] == [TEA]


def test_collections_and_users_never_meet(mem: Any) -> None:
    mem.remember("Somebody drinks tea")
    mine, other = RecollectVectorStore(mem, collection="a"), RecollectVectorStore(mem, collection="b")
    mine.add_texts(["tea of a"], ids=["1"])
    other.add_texts(["tea of b"], ids=["1"])
    of_alice = RecollectVectorStore(mem, user="alice", collection="c")
    of_bob = RecollectVectorStore(mem, user="bob", collection="c")
    of_alice.add_texts(["tea of alice"])
    assert of_bob.similarity_search("tea") == []
    assert [one.page_content for one in mine.similarity_search("tea")] == ["tea of a"]
    mine.delete()
    assert [one.page_content for one in other.similarity_search("tea")] == ["tea of b"]
    of_bob.delete()
    assert len(of_alice.similarity_search("tea")) == 1


def test_filters_scores_and_the_ways_to_search(mem: Any) -> None:
    store = RecollectVectorStore.from_texts(
        ["红茶", "绿茶", "coffee"], DeterministicFakeEmbedding(size=16), [{"n": 1}, {"n": 2}, {"n": 3}], mem=mem
    )
    assert [one.page_content for one in store.similarity_search("绿茶", k=1)] == ["绿茶"]
    assert [one.metadata["n"] for one in store.similarity_search("茶", k=5, filter={"n": {"gte": 3}})] == [3]
    (best, score), *_ = store.similarity_search_with_relevance_scores("绿茶", k=2)
    assert (best.page_content, 0 <= score <= 1) == ("绿茶", True)
    vector = DeterministicFakeEmbedding(size=16).embed_query("coffee")
    assert store.similarity_search_by_vector(vector, k=1)[0].page_content == "coffee"
    assert len({one.page_content for one in store.max_marginal_relevance_search("绿茶", k=2)}) == 2
    retriever = store.as_retriever(search_kwargs={"k": 1, "filter": {"n": 1}})
    assert [one.page_content for one in retriever.invoke("茶")] == ["红茶"]
    plain = RecollectVectorStore(mem, collection="plain")
    with pytest.raises(Unsupported, match="vectors"):
        plain.max_marginal_relevance_search("x")
    with pytest.raises(InvalidInput, match="differ"):
        plain.add_texts(["a", "b"], ids=["1"])


SAID: list[BaseMessage] = [
    SystemMessage("Be short."),
    HumanMessage([{"type": "text", "text": "Which tea? 茶"}, {"type": "image_url", "image_url": {"url": "data:,x"}}]),
    AIMessage("", tool_calls=[{"name": "look_up", "args": {"tea": 1}, "id": "c1"}]),
    ToolMessage("green", tool_call_id="c1"),
    AIMessage("Green. \x00", name="helper", response_metadata={"tokens": 3}),
]


def test_messages_come_back_as_they_went_in(mem: Any) -> None:
    history = RecollectChatMessageHistory(mem, "talk", user="alice")
    assert history.messages == []
    history.add_messages(SAID[:2])
    history.add_messages(SAID[2:])
    asyncio.run(RecollectChatMessageHistory(mem, "other").aadd_messages(SAID[:1]))
    again = RecollectChatMessageHistory(mem, "talk")
    assert again.messages == SAID
    assert asyncio.run(again.aget_messages()) == SAID
    ours = mem.message.list("talk").messages
    assert [one.role for one in ours] == ["system", "user", "assistant", "tool", "assistant"]
    assert (ours[1].text, ours[3].tool_call_id, mem.session.show("talk").user) == ("Which tea? 茶", "c1", "alice")
    mem.message.add("assistant", "said elsewhere", session="talk")
    assert again.messages[-1] == AIMessage("said elsewhere")
    again.clear()
    assert again.messages == []
    assert len(RecollectChatMessageHistory(mem, "other").messages) == 1


@pytest.mark.filterwarnings("ignore::langchain_core._api.deprecation.LangChainDeprecationWarning")
def test_a_chain_remembers_over_a_restart(tmp_path: Path) -> None:
    def turn(said: str) -> str:
        with recollect.open(tmp_path / "talk.db", embedder="hash") as mem:
            answer: Any = RunnableLambda(lambda given: AIMessage(f"I was given {len(given)} messages."))
            chain = RunnableWithMessageHistory(answer, lambda id: RecollectChatMessageHistory(mem, id))
            return str(chain.invoke([HumanMessage(said)], {"configurable": {"session_id": "talk"}}).content)

    assert [turn("Hi"), turn("Again")] == ["I was given 1 messages.", "I was given 3 messages."]


def test_it_works_over_a_service(service: tuple[str, str]) -> None:
    with recollect.connect(*service) as mem:
        store = RecollectVectorStore(mem, user="lena")
        ids = asyncio.run(store.aadd_documents([Document("绿茶", id="1"), Document("coffee", metadata={"n": 1})]))
        assert [one.id for one in store.similarity_search("绿茶", k=1)] == ["1"]
        assert RecollectRetriever(mem=mem, user="lena", k=1).invoke("coffee")[0].metadata["n"] == 1
        history = RecollectChatMessageHistory(mem, "talk")
        history.add_messages(SAID)
        assert history.messages == SAID
        store.delete(ids)
        assert store.get_by_ids(ids) == []


@pytest.mark.filterwarnings("ignore::langchain_core._api.deprecation.LangChainDeprecationWarning")
def test_the_history_is_as_langchains_own(mem: Any) -> None:
    ours, theirs = RecollectChatMessageHistory(mem, "s"), InMemoryChatMessageHistory()
    for history in (ours, theirs):
        history.add_user_message("Hi")
        history.add_ai_message(AIMessage("Hello", id="7"))
        history.add_message(HumanMessage("Bye"))
    assert (ours.messages, str(ours)) == (theirs.messages, str(theirs))
