"""Over the service no call keeps the model busy for long: the vectors of long texts are made in the background."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import recollect
from long_texts import ASKED, prose
from recollect.domain.memory import IndexTask
from recollect.errors import TooLarge
from recollect.interfaces.http.app import Service
from recollect.interfaces.remote import connect
from recollect.interfaces.serve import service_background
from recollect.ports.query import Query
from recollect.ports.records import Scope
from recollect.services.background import OWED_PASSAGES
from recollect.settings import ServerSettings
from recollect.testing.fakes import HashEmbedder
from serving import served

LONG = prose(9000, 0.5)


class Counting(HashEmbedder):
    """Counts the texts it was given at once."""

    def __init__(self, dimensions: int) -> None:
        super().__init__(dimensions)
        self.calls: list[int] = []

    def embed(self, texts: Any) -> Any:
        self.calls.append(len(texts))
        return super().embed(texts)


@pytest.fixture
def mem(tmp_path: Path) -> Iterator[Any]:
    with recollect.open(tmp_path / "a.db", embedder=Counting(256)) as mem:
        yield mem


def service_of(mem: Any, **settings: Any) -> Any:
    """The service, and what its callers work with."""
    service = Service(mem._core, ServerSettings(**settings), "default")
    mem._core = service.core
    return service


def model(mem: Any) -> Counting:
    found: Counting = mem._core.embedder
    return found


def test_in_process_a_call_does_all_its_work(mem: Any) -> None:
    receipt = mem.remember(LONG)
    assert receipt.vectors == sum(model(mem).calls) > 32
    assert not receipt.queued


def test_the_vectors_of_a_long_text_are_owed_and_made_soon(mem: Any) -> None:
    service = service_of(mem)
    receipt = mem.remember(LONG)
    assert model(mem).calls == []
    assert (receipt.queued, receipt.vectors) == ([f"vector:{model(mem).model}"], 0)
    assert "background" in receipt.notes[0]
    assert mem.recall("silver locket", by="words")[0].id == receipt.id
    service_background(service).once()
    assert mem.stats().queued == 0
    assert mem.recall(ASKED, by="meaning")[0].id == receipt.id
    assert mem.verify().sound
    assert mem.doctor().well


def test_of_many_memories_those_that_fit_have_their_vectors_at_once(mem: Any) -> None:
    service_of(mem)
    receipts = mem.remember_many(["a short note", LONG, "another short note"]).receipts
    assert [bool(one.queued) for one in receipts] == [False, True, False]
    assert sum(model(mem).calls) == 2
    many = mem.remember_many([f"note {n}, as long as a note may be: " + "word " * 40 for n in range(100)]).receipts
    assert sum(one.vectors for one in many) <= 40
    assert all(bool(one.vectors) != bool(one.queued) for one in many)
    few = mem.remember_many([f"little note {n}" for n in range(100)]).receipts
    assert not any(one.queued for one in few)


def test_a_revised_text_is_no_way_around_it(mem: Any) -> None:
    service_of(mem)
    id = mem.remember("a short note").id
    model(mem).calls.clear()
    receipt = mem.revise(id, content=LONG)
    assert model(mem).calls == []
    assert receipt.queued
    assert "background" in receipt.notes[0]


def test_the_background_makes_some_each_time_and_all_in_the_end(mem: Any) -> None:
    service = service_of(mem)
    for n in range(12):
        mem.remember(f"{n} {LONG}")
    of_one = len(LONG) // 900
    background = service_background(service)
    background.once()
    left = mem._core.store.count(Scope("default"), Query(IndexTask))
    assert 0 < left < 12
    assert sum(model(mem).calls) <= OWED_PASSAGES + 2 * of_one
    for _ in range(12):
        background.once()
    assert mem.stats().queued == 0


def test_what_was_forgotten_meanwhile_does_not_stand_in_the_way(mem: Any) -> None:
    service = service_of(mem)
    first, second = mem.remember(LONG).id, mem.remember(f"and {LONG}").id
    mem.forget(first)
    service_background(service).once()
    assert mem.stats().queued == 0
    assert mem.recall(ASKED, by="meaning")[0].id == second


def test_a_long_item_has_fewer_vectors_and_too_many_are_refused(mem: Any) -> None:
    service_of(mem)
    put = mem.item.put(["n"], "k", value={"text": LONG}, texts={"text": LONG})
    assert sum(model(mem).calls) == 32
    assert "32 of its" in put.notes[0]
    with pytest.raises(TooLarge) as refused:
        mem.item.put_many([
            {"namespace": ["n"], "key": str(n), "value": {}, "texts": {"text": LONG}} for n in range(100)
        ])  # fmt: skip
    assert "fewer items" in str(refused.value.remedy)
    mem._core = replace(mem._core, passages_at_once=None)
    assert len(mem.item.put(["n"], "k", value={}, texts={"text": LONG}).notes) == 0


def test_over_http_a_receipt_says_so(tmp_path: Path) -> None:
    with served(tmp_path, upkeep_seconds="600") as (address, key), connect(address, key=key) as far:
        receipt = far.remember(LONG)
        assert receipt.queued
        assert "background" in receipt.notes[0]
        assert far.stats().queued == 1
