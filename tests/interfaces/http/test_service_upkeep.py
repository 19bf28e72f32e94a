"""What the service does by itself: vectors that are owed, what has expired, summaries that are due."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.domain.key_value import Item
from recollect.errors import EmbedderFailed
from recollect.interfaces.http.app import Service
from recollect.interfaces.http.upkeep import Upkeep
from recollect.ports.query import Query
from recollect.ports.records import Scope
from recollect.settings import ServerSettings
from recollect.testing.fakes import HashEmbedder


class SometimesAway(HashEmbedder):
    """A model that can be reached only when `is_away` is false."""

    is_away = True

    def embed(self, texts: Any) -> Any:
        if self.is_away:
            raise EmbedderFailed("the model is away")
        return super().embed(texts)


def upkeep_of(mem: Any, **settings: Any) -> Upkeep:
    return Upkeep(Service(mem._core, ServerSettings(**settings), "default"))


def test_vectors_that_are_owed_are_made_when_the_model_is_back(tmp_path: Path) -> None:
    model = SometimesAway(8)
    with recollect.open(tmp_path / "a.db", embedder=model) as mem:
        assert mem.remember("stored all the same").queued
        upkeep = upkeep_of(mem)
        upkeep.once()
        assert mem.stats().queued == 1
        model.is_away = False
        upkeep.once()
        assert mem.stats().queued == 1  # a model that is away is not asked again at once
        upkeep_of(mem).once()
        assert (mem.stats().queued, mem.stats().vectors) == (0, 1)


def test_summaries_that_are_due_are_written_unless_they_are_not_wanted(mem: Any) -> None:
    mem.session.add("talk", id="s")
    mem.remember("We fly to Lisbon", kind="conversation", author="Ann", session="s", at="2024-05-08T10:00:00Z")
    mem.session.end("s")
    upkeep_of(mem, summary_seconds=None).once()
    assert not mem.summary.tree().lines
    upkeep_of(mem).once()
    assert mem.summary.tree().lines[0].kind == "summary"


def test_what_has_expired_goes(mem: Any) -> None:
    mem.remember("soon gone", ttl_seconds=0.001)
    mem.item.put(["n"], "k", value={"a": 1}, ttl_minutes=0.00001)
    upkeep_of(mem).once()
    assert mem.sweep(dry_run=True).expired == 0
    assert mem._core.store.count(Scope("default"), Query(Item)) == 0


def test_an_unforeseen_error_does_not_end_it(mem: Any, caplog: pytest.LogCaptureFixture) -> None:
    upkeep, again = upkeep_of(mem, upkeep_seconds=0.001), threading.Event()
    tries = 0

    def broken() -> None:
        nonlocal tries
        tries += 1
        if tries > 1:
            again.set()
        raise ZeroDivisionError

    upkeep.once = broken  # type: ignore[method-assign]
    with caplog.at_level(logging.CRITICAL, "recollect.upkeep"):
        upkeep.start()
        assert again.wait(20)
        upkeep.stop()
