"""The collector looks less often while operations work, for all threads together, and is as it was afterwards."""

from __future__ import annotations

import gc
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from types import FrameType
from typing import Any

import numpy as np
import pytest

import recollect
from recollect.services.memories.draft import RememberRequest
from recollect.services.rare_collection import OBJECTS, RareCollection

USUAL = (700, 10, 10)


@pytest.fixture(autouse=True)
def _usual() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(*USUAL)
    yield
    gc.enable()
    gc.set_threshold(*before)


def is_rare() -> bool:
    return gc.get_threshold()[0] == OBJECTS


def test_it_is_rare_within_and_as_before_after_also_when_something_fails() -> None:
    def fails() -> None:
        with RareCollection():
            assert is_rare()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert gc.get_threshold() == USUAL


def test_an_operation_in_an_operation_ends_with_the_outer() -> None:
    with RareCollection():
        with RareCollection():
            pass
        assert is_rare()
    assert gc.get_threshold() == USUAL


def test_it_looks_all_the_same_where_very_many_are_made() -> None:
    """However long an operation takes, and however many overlap."""
    looked: list[int] = []

    def looks(phase: str, info: dict[str, int]) -> None:
        looked.append(info["generation"])

    with RareCollection():
        gc.callbacks.append(looks)
        try:
            kept = [[] for _ in range(OBJECTS + 1_000)]  # type: ignore[var-annotated]
        finally:
            gc.callbacks.remove(looks)
        assert kept
    assert looked


@pytest.mark.parametrize("own", [(0, 10, 10), (2 * OBJECTS, 5, 5)])
def test_who_has_it_look_rarely_or_never_finds_it_so(own: tuple[int, int, int]) -> None:
    gc.set_threshold(*own)
    with RareCollection():
        assert gc.get_threshold() == own
    assert gc.get_threshold() == own


def test_who_switches_it_off_or_sets_it_meanwhile_finds_it_so() -> None:
    with RareCollection():
        gc.disable()
        gc.set_threshold(1234)
    assert not gc.isenabled()
    assert gc.get_threshold()[0] == 1234


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_that_is_forked_meanwhile_collects_as_before() -> None:
    with RareCollection():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12, where there are threads
            child = os.fork()
        if not child:
            as_before = gc.get_threshold() == USUAL
            with RareCollection():
                as_before &= is_rare()
            os._exit(0 if as_before and gc.get_threshold() == USUAL else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert is_rare()


def test_the_last_of_several_threads_ends_it() -> None:
    inside, leave = Event(), Event()

    def other() -> None:
        with RareCollection():
            inside.set()
            leave.wait(60)

    thread = Thread(target=other)
    thread.start()
    inside.wait(60)
    with RareCollection():
        pass
    assert is_rare()
    leave.set()
    thread.join()
    assert gc.get_threshold() == USUAL


@pytest.mark.parametrize("place", range(40))
def test_whatever_an_interruption_cuts_off_it_ends_as_before(place: int) -> None:
    """As by Ctrl-C, before each line in turn."""
    lines = 0

    def interrupting(frame: FrameType, event: str, value: object) -> Any:
        nonlocal lines
        if not frame.f_code.co_filename.endswith("rare_collection.py"):
            return None
        lines += event == "line"
        if event == "line" and lines == place:
            sys.settrace(None)
            raise KeyboardInterrupt
        return interrupting

    def operation() -> None:
        with RareCollection():
            pass

    with suppress(KeyboardInterrupt):
        sys.settrace(interrupting)
        try:
            operation()
        finally:
            sys.settrace(None)
    operation()
    assert gc.get_threshold() == USUAL


def test_an_operation_that_a_finalizer_asks_for_does_not_wait_for_the_one_around_it() -> None:
    class Asking:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            with RareCollection():
                done.append(True)

    done: list[bool] = []
    gc.set_threshold(1)
    for _ in range(50):
        Asking()
        with RareCollection():
            pass
    gc.set_threshold(*USUAL)
    gc.collect()
    assert len(done) == 50


def test_what_another_puts_back_too_late_is_put_right_by_the_next_operation() -> None:
    with RareCollection():
        seen = gc.get_threshold()
    gc.set_threshold(*seen)
    with RareCollection():
        pass
    assert gc.get_threshold() == USUAL


class Watching:
    """A model that sees how often the collector looks."""

    model, dimensions = "watching", 4

    def __init__(self) -> None:
        self.seen: list[bool] = []

    def embed(self, texts: list[str]) -> Any:
        self.seen.append(is_rare())
        return np.ones((len(texts), 4), np.float32) / 2

    def embed_query(self, text: str) -> Any:
        return self.embed([text])[0]


def test_every_operation_works_so(tmp_path: Path) -> None:
    watching = Watching()
    with recollect.open(tmp_path / "m.db", embedder=watching, background=False) as mem:  # type: ignore[arg-type]
        mem.remember("a harbour")
        mem.recall("which harbour?")
    assert watching.seen == [True, True]
    assert gc.get_threshold() == USUAL


def test_nothing_that_a_bulk_makes_is_looked_at(tmp_path: Path) -> None:
    """Also at its end, when the collector looks as often as before."""
    looked_at: list[int] = []

    def looks(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            looked_at.append(sum(isinstance(one, RememberRequest) for one in gc.get_objects(0)))

    with recollect.open(tmp_path / "m.db", embedder="hash", background=False) as mem:
        gc.callbacks.append(looks)
        try:
            mem.remember_many([f"number {number}" for number in range(1000)])
        finally:
            gc.callbacks.remove(looks)
    assert max(looked_at, default=0) < 50
