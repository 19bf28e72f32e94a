"""Collection waits while many records are made, for all threads together, and is as it was afterwards."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest

import recollect
from recollect.services.collection_pause import FEWEST, paused_collection, resumed_collection


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    yield
    gc.enable()


def test_it_is_off_within_and_on_after_also_when_something_fails() -> None:
    def fails() -> None:
        with paused_collection(FEWEST):
            assert not gc.isenabled()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert gc.isenabled()


def test_few_things_pause_nothing() -> None:
    with paused_collection(FEWEST - 1):
        assert gc.isenabled()


def test_a_pause_in_a_pause_ends_with_the_outer() -> None:
    with paused_collection(FEWEST):
        with paused_collection(FEWEST):
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_goes_on_where_a_model_works() -> None:
    with paused_collection(FEWEST):
        with resumed_collection():
            assert gc.isenabled()
        assert not gc.isenabled()
    with resumed_collection():
        assert gc.isenabled()
    assert gc.isenabled()


def test_who_has_switched_it_off_finds_it_off() -> None:
    gc.disable()
    with paused_collection(FEWEST), resumed_collection():
        assert not gc.isenabled()
    assert not gc.isenabled()


def test_the_last_of_several_threads_switches_it_on() -> None:
    inside, leave = Event(), Event()

    def other() -> None:
        with paused_collection(FEWEST):
            inside.set()
            leave.wait(60)

    thread = Thread(target=other)
    thread.start()
    inside.wait(60)
    with paused_collection(FEWEST):
        pass
    assert not gc.isenabled()
    leave.set()
    thread.join()
    assert gc.isenabled()


class Watching:
    """A model that sees whether collection is on."""

    model, dimensions = "watching", 4

    def __init__(self) -> None:
        self.seen: list[bool] = []

    def embed(self, texts: list[str]) -> Any:
        self.seen.append(gc.isenabled())
        return np.ones((len(texts), 4), np.float32) / 2

    def embed_query(self, text: str) -> Any:
        return self.embed([text])[0]


def test_a_bulk_embeds_with_collection_on(tmp_path: Path) -> None:
    watching = Watching()
    with recollect.open(tmp_path / "m.db", embedder=watching) as mem:  # type: ignore[arg-type]
        mem.remember_many([f"number {number}" for number in range(2 * FEWEST)])
    assert watching.seen == [True]
    assert gc.isenabled()
