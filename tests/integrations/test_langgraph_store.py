"""LangGraph's store on Recollect behaves as LangGraph's own, keeps what it is given, and forgets on time."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.store.base import GetOp, ListNamespacesOp, MatchCondition, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

import recollect
from every_store import EMPTY_STORE, EVERY_STORE
from long_texts import ASKED, FACT, LONG, ShortSighted
from postgres_server import server
from recollect.domain.key_value import Item, ItemVector
from recollect.errors import EmbedderFailed, InvalidInput
from recollect.integrations.langgraph import RecollectStore
from recollect.ports.query import Query
from recollect.ports.steps import Touch
from recollect.testing.fakes import HashEmbedder

labels = st.sampled_from(["a", "b", "a b", "ab", "*", "é", "\x1f", "\x1e0", "%", "' OR 1=1 --"])
namespaces = st.lists(labels, min_size=1, max_size=3).map(tuple)
keys = st.sampled_from(["k", "l", "..", "🔑"])
numbers = st.integers(-3, 3) | st.floats(-2, 2).map(lambda value: round(value, 1))
values = st.fixed_dictionaries(
    {"n": numbers, "s": st.sampled_from(["x", "y", "3"])},
    optional={"deep": st.fixed_dictionaries({"n": numbers}), "list": st.lists(numbers, max_size=2), "none": st.none()},
)
filters = st.dictionaries(
    st.sampled_from(["n", "s", "deep", "list", "none"]),
    st.one_of(
        numbers,
        st.sampled_from(["x", "y"]),
        st.none(),
        st.lists(numbers, max_size=2),
        st.fixed_dictionaries({"n": numbers}),
        st.dictionaries(st.sampled_from(["$eq", "$ne"]), numbers | st.just("x"), min_size=1),
    ),
    max_size=2,
) | st.fixed_dictionaries(
    {"n": st.dictionaries(st.sampled_from(["$gt", "$gte", "$lt", "$lte", "$ne"]), numbers, min_size=1)}
)  # fmt: skip
patterns = st.lists(labels, min_size=1, max_size=2).map(tuple)
conditions = st.lists(st.builds(MatchCondition, st.sampled_from(["prefix", "suffix"]), patterns), max_size=3).map(tuple)
operations = st.one_of(
    st.tuples(namespaces, keys, values).map(lambda given: PutOp(*given)),
    st.tuples(namespaces, keys, values).map(lambda given: PutOp(*given)),
    st.tuples(namespaces, keys).map(lambda given: PutOp(*given, None)),
    st.tuples(namespaces, keys).map(lambda given: GetOp(*given)),
    st.tuples(st.just(()) | namespaces, filters).map(lambda given: SearchOp(given[0], given[1], limit=1000)),
    st.tuples(conditions, st.sampled_from([None, 1, 2])).map(lambda given: ListNamespacesOp(*given, limit=1000)),
)


def plain(result: Any) -> Any:
    """What must be equal: not the moments, and not the order, which LangGraph leaves open."""
    if isinstance(result, list) and result and hasattr(result[0], "key"):
        return sorted((one.namespace, one.key, str(one.value)) for one in result)
    return (result.namespace, result.key, result.value) if hasattr(result, "key") else result


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(operations, min_size=1, max_size=6), max_size=8))
def test_any_batch_gives_what_the_reference_gives(batches: list[list[Any]]) -> None:
    as_the_reference(batches, as_memories=False)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.lists(operations, min_size=1, max_size=6), max_size=8))
def test_any_batch_of_items_that_are_memories_does_too(batches: list[list[Any]]) -> None:
    as_the_reference(batches, as_memories=True)


def as_the_reference(batches: list[list[Any]], *, as_memories: bool) -> None:
    reference = InMemoryStore()
    with recollect.open("memory://", embedder="hash") as mem:
        ours = RecollectStore(mem, as_memories=as_memories)
        for batch in batches:
            for name in [name for name, items in reference._data.items() if not items]:
                del reference._data[name]  # it lists namespaces that were only asked for, or are empty again
            for op in batch:
                if isinstance(op, ListNamespacesOp):
                    assert plain(ours.batch([op])[0]) == plain(reference.batch([op])[0]), op
            mixed = [op for op in batch if not isinstance(op, ListNamespacesOp)]
            assert [plain(one) for one in ours.batch(mixed)] == [plain(one) for one in reference.batch(mixed)]


class Angles:
    """LangChain's interface over our embedder, for the reference."""

    def __init__(self) -> None:
        self._model = HashEmbedder(64)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self._model.embed(texts).tolist()

    def __call__(self, texts: list[str]) -> list[list[float]]:
        return self.embed_documents(list(texts))


WORDS = "red green blue round square small".split()


@pytest.mark.parametrize("fields", [["$"], ["text"], ["text", "notes[*]"]])
@pytest.mark.parametrize("filter", [None, {"even": True}, {"number": {"$lt": 20}}])
def test_search_by_meaning_ranks_as_the_reference(mem: Any, fields: list[str], filter: dict[str, Any] | None) -> None:
    angles: Any = Angles()
    reference = InMemoryStore(index={"dims": 64, "embed": angles, "fields": fields})
    ours = RecollectStore(mem, fields=fields)
    for number in range(40):
        text = " ".join(
            word for place, word in enumerate("red green blue round square small".split()) if number >> place & 1
        )
        value = {"text": text or "none", "number": number, "even": number % 2 == 0, "notes": [f"note {number}", "both"]}
        for store in (reference, ours):
            store.put(("docs", str(number % 3)), str(number), value)
    for query in ("red round", "note 7", "small square blue"):
        for prefix in ((), ("docs",), ("docs", "1"), ("doc",)):
            mine = ours.search(prefix, query=query, filter=filter, limit=7, offset=2)
            theirs = reference.search(prefix, query=query, filter=filter, limit=7, offset=2)
            assert [one.score for one in mine] == pytest.approx([one.score for one in theirs], abs=2e-3)


def test_an_item_without_vectors_comes_last_and_is_not_lost(mem: Any) -> None:
    store = RecollectStore(mem)
    store.put(("a",), "plain", {"text": "red"}, index=False)
    store.put(("a",), "found", {"text": "red"})
    assert [(one.key, one.score is None) for one in store.search(("a",), query="red")] == [
        ("found", False),
        ("plain", True),
    ]


@pytest.mark.parametrize("kind", [*EVERY_STORE, "memory"])
@pytest.mark.parametrize("fields", [["$"], ["text"], ["parts[*].text"]])
def test_a_fact_at_the_end_of_a_long_value_is_found(kind: str, fields: list[str], tmp_path: Path) -> None:
    address = EMPTY_STORE[kind](tmp_path) if kind in EVERY_STORE else "memory://"
    with recollect.open(address, embedder=ShortSighted(256)) as mem:
        store = RecollectStore(mem, fields=fields)
        texts = LONG | {f"{key}, without it": text.replace(FACT, "") for key, text in LONG.items()}
        store.batch([PutOp(("a",), key, {"parts": [{"text": text}], "text": text}) for key, text in texts.items()])
        found = store.search(("a",), query=ASKED, limit=3)
        assert {one.key for one in found} == set(LONG)
        assert found[2].score > store.search(("a",), query=ASKED, limit=1, offset=3)[0].score + 0.01
        assert len({one.key for one in store.search(("a",), query=ASKED, limit=100)}) == len(texts)
        store.put(("a",), "end of 350 words", {"text": "short", "parts": []})
        assert "end of 350 words" not in {one.key for one in store.search(("a",), query=ASKED, limit=2)}


def test_putting_again_replaces_value_and_vectors_but_keeps_the_birthday(mem: Any) -> None:
    store = RecollectStore(mem)
    store.put(("a",), "k", {"text": "red"})
    born = store.get(("a",), "k").created_at
    store.put(("a",), "k", {"text": "blue"})
    again = store.get(("a",), "k")
    assert (again.value, again.created_at) == ({"text": "blue"}, born)
    assert again.updated_at > born
    assert mem._core.store.count(mem._scope, Query(ItemVector)) == 1
    store.delete(("a",), "k")
    assert mem._core.store.count(mem._scope, Query(ItemVector)) == 0
    assert mem.verify().sound


def expires(mem: Any) -> Any:
    return mem._core.store.select(mem._scope, Query(Item), ("expires_at",))[0][0]


def test_time_to_live_ends_and_reading_renews_it(mem: Any) -> None:
    store = RecollectStore(mem, ttl={"default_ttl": 10, "refresh_on_read": True})
    store.put(("a",), "k", {"n": 1})
    first = expires(mem)
    age(mem, minutes=5)
    store.get(("a",), "k", refresh_ttl=False)
    assert expires(mem) < first
    store.get(("a",), "k")
    assert expires(mem) >= first
    age(mem, minutes=5)
    store.search(("a",))
    assert expires(mem) >= first
    age(mem, minutes=11)
    assert store.get(("a",), "k") is None
    assert store.search(()) == []
    assert store.search((), query="n") == []
    assert store.list_namespaces() == []
    assert store.sweep_ttl() == 1
    assert store.sweep_ttl() == 0


def age(mem: Any, minutes: float) -> None:
    """As if that much time had passed."""
    for id, moment in mem._core.store.select(mem._scope, Query(Item), ("id", "expires_at")):
        earlier = moment - timedelta(minutes=minutes)
        mem._core.store.transact(mem._scope, [Touch(Item, id, put={"expires_at": earlier})])


def test_a_real_clock_ends_a_real_item(mem: Any) -> None:
    store = RecollectStore(mem)
    store.put(("a",), "k", {"n": 1}, ttl=0.0005)
    deadline = time.monotonic() + 60
    while store.get(("a",), "k", refresh_ttl=False) is not None:
        assert time.monotonic() < deadline


def test_an_item_without_a_time_to_live_stays(mem: Any) -> None:
    store = RecollectStore(mem, ttl={"default_ttl": 10})
    store.put(("a",), "k", {"n": 1}, ttl=None)
    assert expires(mem) is None


def test_asynchronous_calls_work_alike(mem: Any) -> None:
    async def run() -> Any:
        store = RecollectStore(mem)
        await store.aput(("a", "b"), "k", {"text": "red"})
        found = await store.asearch(("a",), query="red")
        return await store.aget(("a", "b"), "k"), found[0].score, await store.alist_namespaces(prefix=("a",))

    item, score, names = asyncio.run(run())
    assert item.value == {"text": "red"}
    assert score > 0.2
    assert names == [("a", "b")]


@pytest.mark.parametrize("store", ["memory", "sqlite", "postgres"])
def test_a_prefix_is_whole_labels_on_every_store(store: str, tmp_path: Path) -> None:
    address = {"memory": "memory://", "sqlite": str(tmp_path / "t.db")}.get(store) or server().new_store()
    with recollect.open(address, embedder="hash") as mem:
        kept = RecollectStore(mem)
        names = [
            ("a",),
            ("a", "b"),
            ("a b",),
            ("ab",),
            ("a\x1f",),
            ("a\x1f", "b"),
            ("A",),
            ("é",),
            ("a", "\x20"),
            ("a", "🧠"),
        ]
        for name in names:
            kept.put(name, "k", {"name": list(name)})
        for prefix in names:
            found = {one.namespace for one in kept.search(prefix, limit=100)}
            assert found == {name for name in names if name[: len(prefix)] == prefix}
        assert kept.list_namespaces(limit=100) == sorted(names)
        assert len(kept.search((), filter={"name": ["a", "b"]})) == 1


def test_tenants_never_meet(mem: Any) -> None:
    RecollectStore(mem).put(("a",), "k", {"text": "secret"})
    stranger = RecollectStore(mem.within("other"))
    assert stranger.get(("a",), "k") is None
    assert stranger.search((), query="secret") == []
    assert stranger.list_namespaces() == []
    stranger.delete(("a",), "k")
    stranger.put(("a",), "k", {"text": "mine"})
    assert RecollectStore(mem).get(("a",), "k").value == {"text": "secret"}


def test_what_cannot_be_kept_is_refused_whole(mem: Any) -> None:
    store = RecollectStore(mem)
    with pytest.raises(InvalidInput):
        store.batch([PutOp(("a",), "good", {"n": 1}), PutOp(("a",), "bad", {"n": float("nan")})])
    with pytest.raises(InvalidInput):
        store.batch([PutOp(("a",), "bad", {"n": "\x00"})])
    store.put(("a",), "k", {"n": 1})
    with pytest.raises(InvalidInput, match=r"\$near"):
        store.search(("a",), filter={"n": {"$near": 1}})
    assert [one.key for one in store.search(())] == ["k"]


def test_an_embedder_that_is_away_leaves_the_old_value(tmp_path: Path) -> None:
    class Away(HashEmbedder):
        is_away = False

        def embed(self, texts: Any) -> Any:
            if self.is_away:
                raise EmbedderFailed("the model is away")
            return super().embed(texts)

    embedder = Away()
    with recollect.open(tmp_path / "t.db", embedder=embedder) as mem:
        store = RecollectStore(mem)
        store.put(("a",), "k", {"n": 1})
        embedder.is_away = True
        with pytest.raises(EmbedderFailed):
            store.put(("a",), "k", {"n": 2})
        assert store.get(("a",), "k").value == {"n": 1}
