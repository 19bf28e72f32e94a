"""A flight sends its statements together, and is otherwise what the driver's own pipeline is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import psycopg
import pytest

from postgres_server import server
from recollect.adapters.postgres.connection import ReadStatement
from recollect.adapters.postgres.flight import MOST_KEPT_BACK, together
from recollect.adapters.records.postgres.store import PostgresStore
from round_trips import Talk

Way = Callable[[psycopg.Connection[Any]], AbstractContextManager[psycopg.Pipeline]]


def as_the_driver_does(connection: psycopg.Connection[Any]) -> AbstractContextManager[psycopg.Pipeline]:
    return connection.pipeline()


@pytest.fixture
def line() -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(server().address(), autocommit=True, prepare_threshold=1) as connection:
        yield connection


@pytest.fixture
def talk(line: psycopg.Connection[Any]) -> Iterator[Talk]:
    watching = Talk()
    watching.watch(line)
    yield watching
    watching.close()


def sent(talk: Talk) -> int:
    return sum(one.startswith("Execute") for lines in talk.lines() for one in lines)


def test_nothing_is_sent_until_an_answer_is_waited_for(line: psycopg.Connection[Any], talk: Talk) -> None:
    with together(line):
        asked = [line.execute("SELECT %s::int", (number,)) for number in range(5)]
        assert sent(talk) == 0
        assert asked[1].fetchall() == [(1,)]
        assert sent(talk) == 5
        line.execute("SELECT 6")
        assert sent(talk) == 5
    assert sent(talk) == 6
    assert [one.fetchall() for one in (asked[0], *asked[2:])] == [[(0,)], [(2,)], [(3,)], [(4,)]]
    assert talk.round_trips == 2


def test_a_long_flight_sets_off_before_it_is_waited_for(line: psycopg.Connection[Any], talk: Talk) -> None:
    with together(line):
        for number in range(MOST_KEPT_BACK + 1):
            line.execute("SELECT %s::int", (number,))
        assert sent(talk) > MOST_KEPT_BACK // 2


def execute_all(way: Way, line: psycopg.Connection[Any], *statements: str) -> None:
    with way(line):
        for statement in statements:
            line.execute(statement)


def fetch(way: Way, line: psycopg.Connection[Any], number: int) -> list[Any]:
    with way(line):
        return line.execute("SELECT 1 / %s::int", (number,)).fetchall()


@pytest.mark.parametrize("way", [together, as_the_driver_does])
def test_a_failure_ends_the_flight_and_not_the_line(line: psycopg.Connection[Any], way: Way) -> None:
    line.execute("CREATE TEMPORARY TABLE boats(name text PRIMARY KEY)")
    with pytest.raises(psycopg.errors.UniqueViolation):
        execute_all(way, line, *(f"INSERT INTO boats VALUES ('{name}')" for name in "aab"))
    assert line.execute("SELECT * FROM boats").fetchall() == []
    with pytest.raises(psycopg.errors.DivisionByZero):
        fetch(way, line, 0)
    assert fetch(way, line, 1) == [(1,)]


@pytest.mark.parametrize("way", [together, as_the_driver_does])
def test_much_each_way_at_once_blocks_nobody(line: psycopg.Connection[Any], way: Way) -> None:
    """More than both sockets hold: a client that only sends would wait for a server that only sends."""
    text = "x" * 200_000
    with way(line):
        asked = [line.execute("SELECT %s::text", (text,)) for _ in range(40)]
    assert all(one.fetchall() == [(text,)] for one in asked)


def test_many_rows_go_with_the_flight(line: psycopg.Connection[Any]) -> None:
    line.execute("CREATE TEMPORARY TABLE boats(name int)")
    with together(line):
        line.cursor().executemany("INSERT INTO boats VALUES (%s)", [(n,) for n in range(300)])
        assert line.execute("SELECT count(*) FROM boats").fetchall() == [(300,)]


def test_with_a_driver_that_is_not_known_its_own_pipeline_is_used(
    line: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psycopg, "__version__", "4.0.0")
    with together(line) as pipeline:
        assert type(pipeline) is psycopg.Pipeline
        assert line.execute("SELECT 1").fetchall() == [(1,)]


def test_what_one_tenant_asked_is_not_answered_to_another_who_takes_the_line_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A line is used again by the next thread, with its cursors: answers are fetched before it goes back."""
    store = PostgresStore(server().new_store())
    try:
        database, mine = store.database, ReadStatement("SELECT %s::text", ("mine",))
        theirs = ReadStatement("SELECT %s::text", ("theirs",))
        assert database.ask("acme", mine) == [[("mine",)]]
        pool, others = database._open_pool(), list[list[list[Any]]]()
        put_back = pool.putconn

        def put_back_and_wait(connection: psycopg.Connection[Any]) -> None:
            monkeypatch.undo()
            put_back(connection)
            thread = threading.Thread(target=lambda: others.append(database.ask("globex", theirs)))
            thread.start()
            thread.join()

        monkeypatch.setattr(pool, "putconn", put_back_and_wait)
        assert database.ask("acme", mine) == [[("mine",)]]
        assert others == [[[("theirs",)]]]
    finally:
        store.close()
