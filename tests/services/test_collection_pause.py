"""Collection waits while many records are made, for all threads together, and is as it was afterwards."""

from __future__ import annotations

import gc
import os
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread, Timer
from threading import enumerate as enumerate_threads
from typing import Any

import numpy as np
import pytest

import recollect
from recollect.services import collection_pause
from recollect.services.collection_pause import FEWEST, paused_collection
from recollect.services.memories.draft import RememberRequest


def switched_on() -> bool:
    """Whether it is, after a while."""
    deadline = time.monotonic() + 30
    while not gc.isenabled() and time.monotonic() < deadline:
        time.sleep(0.001)
    return gc.isenabled()


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


def test_it_goes_on_when_the_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collection_pause, "MOST_SECONDS", 0.01)
    with paused_collection(FEWEST):
        assert switched_on()
        with paused_collection(FEWEST):  # others who come meanwhile do not begin it anew
            assert gc.isenabled()
    with paused_collection(FEWEST):
        assert switched_on()
    assert gc.isenabled()


def test_the_time_of_a_pause_that_is_over_does_not_end_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    with paused_collection(FEWEST):
        (first,) = (one for one in enumerate_threads() if isinstance(one, Timer))
    with paused_collection(FEWEST):
        first.function()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_who_has_switched_it_off_finds_it_off() -> None:
    gc.disable()
    with paused_collection(FEWEST):
        assert not gc.isenabled()
    assert not gc.isenabled()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_that_is_forked_in_a_pause_collects() -> None:
    with paused_collection(FEWEST):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12, where there are threads
            child = os.fork()
        if not child:
            os._exit(0 if gc.isenabled() else 1)
        assert os.waitpid(child, 0)[1] == 0
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
        self.is_slow = False

    def embed(self, texts: list[str]) -> Any:
        self.seen.append(switched_on() if self.is_slow else gc.isenabled())
        return np.ones((len(texts), 4), np.float32) / 2

    def embed_query(self, text: str) -> Any:
        return self.embed([text])[0]


def test_a_bulk_is_not_interrupted_and_one_whose_model_is_slow_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watching = Watching()
    texts: list[Any] = [f"number {number}" for number in range(2 * FEWEST)]
    with recollect.open(tmp_path / "m.db", embedder=watching) as mem:  # type: ignore[arg-type]
        mem.remember_many(texts)
        monkeypatch.setattr(collection_pause, "MOST_SECONDS", 0.01)
        watching.is_slow = True
        mem.remember_many([f"{text} again" for text in texts])
    assert watching.seen == [False, True]
    assert gc.isenabled()


def test_collection_goes_on_when_all_of_a_bulk_is_gone(tmp_path: Path) -> None:
    looked_at: list[int] = []

    def looks(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and gc.isenabled():
            looked_at.append(sum(isinstance(one, RememberRequest) for one in gc.get_objects(0)))

    with recollect.open(tmp_path / "m.db", embedder="hash") as mem:
        usual = gc.get_threshold()
        gc.set_threshold(700)
        gc.callbacks.append(looks)
        try:
            mem.remember_many([f"number {number}" for number in range(1000)])
        finally:
            gc.callbacks.remove(looks)
            gc.set_threshold(*usual)
    assert max(looked_at, default=0) < FEWEST
