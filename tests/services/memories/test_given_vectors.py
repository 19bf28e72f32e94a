"""Vectors that a caller made are kept and searched under the name of their model, or refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recollect
from every_store import VECTOR_SEARCH, searched
from recollect.domain.memory import Embedding
from recollect.errors import InvalidInput
from recollect.ports.query import Query
from recollect.testing.fakes import HashEmbedder

Opened = Callable[..., Any]
TEA, COFFEE, ASKED = [3.0, 0.0, 0.1], [0.0, 2.0, 0.1], [1.0, 0.05, 0.0]


@pytest.fixture
def store_at(tmp_path: Path) -> Opened:
    def opened(kind: str = "sqlite", **settings: Any) -> Any:
        where = searched(kind, tmp_path)
        return recollect.open(where.pop("store"), **{"embedder": "none", **where, **settings})

    return opened


def told(mem: Any) -> tuple[str, str]:
    tea = mem.remember("tea is hot", vector=TEA, vector_model="mine/v1")
    coffee = mem.remember("coffee is cold", vector=COFFEE, vector_model="mine/v1")
    assert tea.indexed[-1] == "vector:mine/v1"
    assert tea.vectors == len(tea.indexed) - 1
    return tea.id, coffee.id


def nearest(mem: Any, **how: Any) -> list[str]:
    asked = {"vector": ASKED, "vector_model": "mine/v1", "by": "meaning", **how}
    return [hit.id for hit in mem.recall("zzz", **asked)]


@pytest.mark.parametrize("kind", VECTOR_SEARCH)
def test_without_an_embedder_vectors_of_ones_own_are_kept_and_searched(store_at: Opened, kind: str) -> None:
    with store_at(kind) as mem:
        tea, coffee = told(mem)
        assert nearest(mem) == [tea, coffee]
        assert nearest(mem, by="everything") == [tea, coffee]
        assert nearest(mem, since="2020-01-01", limit=1) == [tea]
        assert mem.verify().sound
        assert mem.doctor().well
        mem.erase(tea)
        assert nearest(mem) == [coffee]
        assert mem._core.store.count(mem._scope, Query(Embedding)) == 1


def test_a_vector_without_the_name_of_its_model_is_refused_with_the_remedy(store_at: Opened) -> None:
    for embedder, name in (("none", "vector_model"), ("hash", "hash-64")):
        with store_at("memory", embedder=embedder) as mem:
            for call in (mem.remember, mem.recall):
                with pytest.raises(InvalidInput, match="name of the model") as refused:
                    call("tea", vector=[1.0] * 64)
                assert name in refused.value.remedy
            with pytest.raises(InvalidInput):
                mem.remember_many([{"content": "tea", "vector": [1.0] * 64}])
            with pytest.raises(InvalidInput):
                mem.remember("tea", vector_model="mine/v1")
            assert mem.stats().memories == 0


def test_a_vector_of_another_length_than_its_model_has_is_refused(store_at: Opened) -> None:
    with store_at(embedder="hash") as mem:
        told(mem)
        wrong: list[tuple[list[float], str]] = [([1.0, 2.0], "mine/v1"), ([1.0] * 63, "hash-64")]
        for vector, model in wrong:
            with pytest.raises(InvalidInput, match="dimensions"):
                mem.remember("milk", vector=vector, vector_model=model)
            with pytest.raises(InvalidInput, match="dimensions"):
                mem.recall("milk", vector=vector, vector_model=model)
        with pytest.raises(InvalidInput, match="dimensions"):
            mem.remember_many([{"content": f"m{n}", "vector": [1.0] * n, "vector_model": "new"} for n in (2, 3)])
        with pytest.raises(InvalidInput):
            mem.remember("milk", vector=[], vector_model="empty")
        assert mem.stats().memories == 2


def test_it_stands_beside_the_vectors_of_the_stores_own_model(store_at: Opened) -> None:
    with store_at(embedder="hash") as mem:
        tea, coffee = told(mem)
        assert mem.show(tea).id == tea
        kept = mem._core.store.select(mem._scope, Query(Embedding), ("model", "given"))
        assert set(kept) == {("mine/v1", True), ("hash-64", False)}
        assert nearest(mem) == [tea, coffee]
        assert mem.recall("coffee is cold", by="meaning")[0].id == coffee


def test_two_models_are_never_compared(store_at: Opened) -> None:
    with store_at() as mem:
        told(mem)
        milk = mem.remember("milk is white", vector=TEA, vector_model="other").id
        assert nearest(mem, vector_model="other") == [milk]
        found = mem.recall("tea", vector=ASKED, vector_model="nobody's")
        assert "no vectors by 'nobody's'" in found.notes[0]
        assert found[0].text == "tea is hot"  # by words


def test_forgetting_and_restoring_keep_it(store_at: Opened) -> None:
    for kind in VECTOR_SEARCH:
        with store_at(kind, embedder="hash") as mem:
            tea, coffee = told(mem)
            mem.forget(tea)
            assert nearest(mem) == [coffee]
            mem.restore(tea)
            assert nearest(mem) == [tea, coffee]
            assert mem.recall("tea is hot", by="meaning")[0].id == tea
            assert mem.verify().sound
            mem.erase(tea)
            mem.erase(coffee)


def test_a_new_text_makes_it_untrue_and_a_new_vector_comes_with_it(store_at: Opened) -> None:
    with store_at() as mem:
        tea, coffee = told(mem)
        assert mem.revise(tea, priority=9).version == 2
        assert nearest(mem) == [tea, coffee]
        mem.revise(tea, "tea is green")
        assert nearest(mem) == [coffee]
        receipt = mem.revise(tea, "tea is black", vector=TEA, vector_model="mine/v1")
        assert receipt.indexed == ["text", "vector:mine/v1"]
        assert nearest(mem) == [tea, coffee]
        mem.revise(coffee, vector=TEA, vector_model="mine/v1")
        assert sorted(nearest(mem)) == sorted([tea, coffee])
        assert mem.verify().sound


def test_reindexing_neither_drops_nor_replaces_it(store_at: Opened) -> None:
    own = np.eye(64)[5].tolist()
    with store_at(embedder="hash") as mem:
        told(mem)
        mine = mem.remember("opaque", vector=own, vector_model="hash-64").id
        done = mem.reindex(everything=True, retire=True, index=True)
        assert done.remaining == 0
        assert len(nearest(mem)) == 2
        assert mem.recall("zzz", vector=own, vector_model="hash-64", by="meaning")[0].id == mine
        assert mem.recall("zzz", vector=own, vector_model="hash-64", by="meaning")[0].match > 0.99
        assert mem.verify().sound


def test_moving_to_a_new_model_leaves_it(tmp_path: Path) -> None:
    with recollect.open(tmp_path / "x.db", embedder=HashEmbedder(32)) as mem:
        told(mem)
    with recollect.open(tmp_path / "x.db", embedder=HashEmbedder(48)) as mem:
        done = mem.reindex(retire=True)
        assert (done.made, done.dropped) == (2, 2)
        assert len(nearest(mem)) == 2


def test_a_duplicate_brings_the_vector_that_is_missing(store_at: Opened) -> None:
    with store_at() as mem:
        plain = mem.remember("tea is hot").id
        again = mem.remember("tea is hot", vector=TEA, vector_model="mine/v1")
        assert (again.id, again.duplicate, again.vectors) == (plain, True, 1)
        assert mem.remember("tea is hot", vector=COFFEE, vector_model="mine/v1").vectors == 0
        assert nearest(mem) == [plain]
        assert mem.verify().sound


def test_an_export_and_a_copy_take_it_along(store_at: Opened, tmp_path: Path) -> None:
    with store_at() as mem:
        tea, coffee = told(mem)
        mem.export(str(tmp_path / "out.jsonl"))
    with recollect.open(tmp_path / "second.db", embedder="hash") as other:
        other.import_(str(tmp_path / "out.jsonl"))
        other.reindex()
        assert nearest(other) == [tea, coffee]
        assert other.verify().sound
