"""The writer thread that SQLite and DuckDB share: what it promises to who waits, and what it leaves for after."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

import pytest

from recollect.adapters.records.common.group_commit import GroupCommit
from recollect.errors import Closed

T = TypeVar("T")
PATIENCE = 30.0


class Many(list[int]):
    """A list that can be watched."""


class Batches:
    """A connection that notes what it is told to do."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.upkeep: Callable[[], object] = lambda: None
        self.broken: BaseException | None = None

    def begin(self) -> None:
        self.told.append("begin")

    def attempt(self, work: Callable[[], T]) -> T:
        return work()

    def commit(self) -> None:
        if self.broken is not None:
            raise self.broken
        self.told.append("commit")

    def tidy(self) -> None:
        self.upkeep()
        self.told.append("tidy")

    def rollback(self) -> None:
        self.told.append("rollback")

    def close(self) -> None:
        self.told.append("close")


@pytest.fixture
def batches() -> Batches:
    return Batches()


@pytest.fixture
def writer(batches: Batches) -> Iterator[GroupCommit]:
    made = GroupCommit(batches, "test writer")
    yield made
    made.close()


def test_who_writes_is_told_before_the_upkeep_that_follows(batches: Batches, writer: GroupCommit) -> None:
    told = threading.Event()
    batches.upkeep = lambda: told.wait(PATIENCE)
    assert writer.run(lambda: "stored") == "stored"
    assert batches.told == ["begin", "commit"]
    told.set()
    writer.close()
    assert batches.told == ["begin", "commit", "tidy", "close"]


@pytest.mark.parametrize("failure", [OSError, SystemExit])
def test_upkeep_that_fails_fails_nobody(
    batches: Batches, writer: GroupCommit, caplog: pytest.LogCaptureFixture, failure: type[BaseException]
) -> None:
    def fails() -> None:
        raise failure("no space")

    batches.upkeep = fails
    with caplog.at_level(logging.WARNING, "recollect.records"):
        assert [writer.run(lambda: 1), writer.run(lambda: 2)] == [1, 2]
        writer.close()
    assert "upkeep after a commit failed: no space" in caplog.text
    assert batches.told == ["begin", "commit", "rollback", "begin", "commit", "rollback", "close"], "nothing stays open"


def test_a_commit_that_fails_is_told_to_everybody_in_it_and_nothing_is_tidied(
    batches: Batches, writer: GroupCommit
) -> None:
    batches.broken = OSError("no space")
    with pytest.raises(OSError, match="no space"):
        writer.run(lambda: 1)
    batches.broken = None
    assert writer.run(lambda: 2) == 2
    writer.close()
    assert batches.told == ["begin", "rollback", "begin", "commit", "tidy", "close"]


def test_one_that_is_refused_leaves_its_neighbours_alone(batches: Batches, writer: GroupCommit) -> None:
    def refused() -> None:
        raise ValueError("not like this")

    with pytest.raises(ValueError, match="not like this"):
        writer.run(refused)
    assert writer.run(lambda: 2) == 2


def test_what_was_given_is_let_go_while_the_thread_is_still_busy(batches: Batches, writer: GroupCommit) -> None:
    told = threading.Event()
    batches.upkeep = lambda: told.wait(PATIENCE)
    many = Many()
    held = weakref.ref(many)
    assert writer.run(partial(len, many)) == 0
    del many
    assert held() is None
    told.set()


def test_a_closed_writer_takes_nothing(writer: GroupCommit) -> None:
    writer.close()
    with pytest.raises(Closed):
        writer.run(lambda: 1)
