"""The built-in model: a new store begins with it; an older one is served by the former until its vectors are made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.adapters.models.memory_encoder import MemoryEncoder
from recollect.adapters.models.minilm import MODEL, MiniLM
from recollect.errors import DamagedData

TEA = "Ann takes her tea at four"


def models(mem: Any) -> list[str]:
    return [embedder.model for embedder in mem._core.embedders]


def nearest(mem: Any) -> str:
    return str(mem.recall("When does Ann drink something hot?", by="meaning", limit=1)[0].text)


def test_a_new_store_begins_with_the_model_of_today(tmp_path: Path) -> None:
    for _ in range(2):  # also when it is opened again
        with recollect.open(tmp_path / "new.db") as mem:
            assert models(mem) == [MemoryEncoder.model]
            mem.remember_many([TEA, "The printer is broken"])
            assert nearest(mem) == TEA


def test_a_store_from_before_is_served_by_the_former_model_until_it_is_reindexed(tmp_path: Path) -> None:
    with recollect.open(tmp_path / "old.db", embedder="minilm") as mem:
        assert models(mem) == [MODEL]
        mem.remember_many([TEA, "The printer is broken"])
        mem.within("other").remember("another organization has one, too")
    with recollect.open(tmp_path / "old.db") as mem:
        assert models(mem) == [MODEL, MemoryEncoder.model]
        assert nearest(mem) == TEA
        mem.remember("Bob drinks coffee")
        assert mem.reindex().remaining == 0
    with recollect.open(tmp_path / "old.db") as mem:
        assert models(mem) == [MODEL, MemoryEncoder.model]  # the other organization is not done
        assert mem.within("other").reindex().remaining == 0
    with recollect.open(tmp_path / "old.db") as mem:
        assert models(mem) == [MemoryEncoder.model]
        assert nearest(mem) == TEA
        assert mem.reindex(retire=True).dropped == 3
        assert mem.verify().sound


def test_statements_are_compared_by_the_model_that_tells_facts_apart(tmp_path: Path) -> None:
    berlin, paris = "I moved to Berlin", "I moved to Paris"
    with recollect.open(tmp_path / "new.db") as mem:
        assert mem._core.likeness_embedder.model == MODEL
        mem.session.add(id="s", user="ann")
        mem.remember("Ann said: my bike is blue", user="ann")
        first, second = mem._core.embedder.embed([berlin, paris])
        assert first @ second > 0.8
        first, second = mem._core.likeness_embedder.embed([berlin, paris])
        assert first @ second < 0.7
    with recollect.open(tmp_path / "hash.db", embedder="hash") as mem:
        assert mem._core.likeness_embedder is mem._core.embedder


def test_the_weights_of_one_are_not_taken_for_the_other() -> None:
    with pytest.raises(DamagedData, match="checksum"):
        MiniLM(weights=Path(MemoryEncoder()._installed_weights())).embed(["a"])
