"""What workers count together: in two views of one shared memory, and in two processes."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from recollect.domain.record import now
from recollect.domain.tenancy import ApiKey
from recollect.errors import RateLimited
from recollect.interfaces.http.counts import Pair
from recollect.interfaces.http.limits import Rates, RequestLimit, Usage
from recollect.interfaces.workers import board as boards
from recollect.interfaces.workers.board import Board, WritingTurn

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="workers need Unix")


@pytest.fixture
def made() -> Iterator[Board]:
    board = Board.made(4)
    yield board
    os.close(board.file)


def worker(board: Board, place: int) -> Board:
    return Board(board.file, board.places, place)


def looked_up(board: Board, name: str) -> Pair | None:
    found: list[Pair | None] = []

    def seen(known: Pair | None) -> Pair:
        found.append(known)
        return known or (0.0, 0.0)

    board.change(name, seen)
    return found[0]


def test_a_rate_is_that_of_all_workers(made: Board) -> None:
    first, second = (Rates(lambda: 0.0, worker(made, place)) for place in (0, 1))
    for rates in (first, second) * 5:
        rates.take("key", 10)
    for rates in (first, second):
        with pytest.raises(RateLimited):
            rates.take("key", 10)
        rates.take("another key", 10)


def test_the_day_of_a_key_is_that_of_all_workers(made: Board) -> None:
    key = ApiKey(organization_id="o", name="k", key_hash="h", requests_per_day=4)
    first, second = (Usage(lambda key, uses: None, worker(made, place)) for place in (0, 1))
    for usage in (first, second) * 2:
        usage.count(key)
    for usage in (first, second):
        with pytest.raises(RateLimited):
            usage.count(key)
    elsewhere = key.changed(id="other", counted=4, counted_on=now().date().isoformat())
    with pytest.raises(RateLimited):
        first.count(elsewhere)


def test_connections_are_counted_for_all_and_those_of_a_dead_worker_are_not(made: Board) -> None:
    first, second = worker(made, 0), worker(made, 1)
    first.enter("client")
    first.enter(None)
    second.enter("client")
    assert (made.connections(), second.connections_of("client"), second.connections_of("other")) == (3, 2, 0)
    second.leave("client")
    made.clear(0)
    assert (made.connections(), made.connections_of("client")) == (0, 0)


def test_who_has_more_connections_knows_it_and_waits_for_nobody_who_takes_none(made: Board) -> None:
    first, second = worker(made, 0), worker(made, 1)
    first.take_connections(True)
    first.enter("client")
    first.enter("client")
    assert first.surplus() == 0
    second.take_connections(True)
    assert (first.surplus(), second.surplus(), made.workers()) == (2, 0, 2)
    made.clear(1)
    assert first.surplus() == 0


def test_requests_inside_are_those_of_all(made: Board) -> None:
    limits = [RequestLimit(2, cell) for place in (0, 1) for cell in worker(made, place).inside]
    with limits[0], limits[0], limits[1], limits[2]:
        assert made.requests_inside() == 4
        assert limits[0].inside == 2
    assert made.requests_inside() == 0


def test_a_full_set_forgets_what_was_changed_longest_ago(made: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boards, "SETS", 1)
    names = [f"name {number}" for number in range(boards.WAYS)]
    for name in names:
        made.change(name, lambda known: (1.0, 2.0))
    made.change(names[0], lambda known: (3.0, 4.0))
    made.change("one more", lambda known: (5.0, 6.0))
    found = {name: looked_up(made, name) for name in (names[0], "one more", names[2], names[1])}
    assert found == {names[0]: (3.0, 4.0), "one more": (5.0, 6.0), names[2]: (1.0, 2.0), names[1]: None}


COUNTER = """
import sys
from recollect.interfaces.workers.board import Board, WritingTurn
board = Board(int(sys.argv[1]), 4, 0)
for _ in range(3000):
    board.change("number", lambda known: ((known or (0.0, 0.0))[0] + 1, 0.0))
"""


def test_nothing_is_lost_when_processes_change_the_same_numbers(made: Board) -> None:
    command = [sys.executable, "-c", COUNTER, str(made.file)]
    counting = [subprocess.Popen(command, pass_fds=(made.file,)) for _ in range(2)]
    assert [process.wait(60) for process in counting] == [0, 0]
    assert looked_up(made, "number") == (6000.0, 0.0)


WRITER = """
import sys
from recollect.interfaces.workers.board import WritingTurn
with WritingTurn(int(sys.argv[1])), open("order", "a") as order:
    order.write("other ")
"""


def test_who_waits_to_write_comes_before_who_has_just_written(
    made: Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    turn, order = WritingTurn(made.file), tmp_path / "order"
    with turn:
        command = [sys.executable, "-c", WRITER, str(made.file)]
        other = subprocess.Popen(command, pass_fds=(made.file,))
        while is_free(made.file, boards.QUEUE):
            assert other.poll() is None
        order.write_text("first ")
    with turn, order.open("a") as file:
        file.write("again")
    assert other.wait(60) == 0
    assert order.read_text() == "first other again"


def is_free(file: int, place: int) -> bool:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
    except OSError:
        return False
    fcntl.lockf(file, fcntl.LOCK_UN, 1, place)
    return True


def test_a_turn_is_not_waited_for_without_end(made: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boards, "MOST_TURN_SECONDS", 0.01)
    holder = "import fcntl, sys; fcntl.lockf(int(sys.argv[1]), fcntl.LOCK_EX, 1, int(sys.argv[2])); print(flush=True); "
    command = [sys.executable, "-c", holder + "sys.stdin.read()", str(made.file), str(boards.TURN)]
    with subprocess.Popen(command, pass_fds=(made.file,), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as stopped:
        assert stopped.stdout is not None
        stopped.stdout.readline()
        with WritingTurn(made.file):
            assert is_free(made.file, boards.QUEUE)
