"""Recall looks at what stands beside its hits, and at nothing else of their sessions, however long those are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

import recollect
from every_store import EMPTY_STORE, EVERY_STORE
from recollect.domain.record import made_at
from recollect.domain.text.relevance import NEIGHBOUR_REACH
from recollect.services.recall.candidates import _at_once, _positions

MORNING = datetime(2024, 5, 1, tzinfo=UTC)
MEMORIES = 1000


def filled(mem: Any, session_size: int) -> None:
    for number in range(MEMORIES // session_size):
        mem.session.add(f"talk {number}", id=f"s{number}")
    mem.remember_many(
        [
            {
                "content": f"note {place} on subject{place % 50}",  # 12 is in the middle of its session, always
                "id": f"m{place:04}",
                "session": f"s{place // session_size}",
                "at": MORNING + timedelta(minutes=place // 7),
                "on_duplicate": "keep",
            }
            for place in range(MEMORIES)
        ]
    )
    mem.recall("subject12")  # what is prepared once is prepared


def sqlite_work(mem: Any, ask: Callable[[], Any]) -> tuple[int, int]:
    """The statements that a question takes, and the steps of SQLite's machine in them: each row it looks at is some."""
    done: list[int] = []

    def noted(event: dict[str, Any]) -> None:
        done.append(event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"])

    readers = mem._core.store._readers
    original = readers.one

    @contextmanager
    def traced(**how: Any) -> Iterator[apsw.Connection]:
        with original(**how) as connection:
            connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, noted)
            try:
                yield connection
            finally:
                connection.trace_v2(0, None)

    readers.one = traced
    try:
        ask()
    finally:
        readers.one = original
    return len(done), sum(done)


def test_a_recall_costs_the_same_in_sessions_of_5_and_of_500(tmp_path: Path) -> None:
    found = {}
    for size in (5, 500):
        with recollect.open(tmp_path / f"{size}.db", embedder="none") as mem:
            filled(mem, size)
            found[size] = sqlite_work(mem, lambda mem=mem: mem.recall("subject12"))  # type: ignore[misc]
    assert found[5][0] == found[500][0]
    assert found[500][1] < 1.1 * found[5][1]


@pytest.mark.parametrize("kind", ["duckdb", "postgres", "dynamodb"])
def test_every_store_is_asked_the_same_of_short_and_long_sessions(kind: str, tmp_path: Path) -> None:
    found = {}
    for size in (5, 500):
        (tmp_path / str(size)).mkdir()
        with recollect.open(EMPTY_STORE[kind](tmp_path / str(size)), embedder="none") as mem:
            filled(mem, size)
            found[size] = asked_of(kind, mem)
    assert found[5] == found[500]


def asked_of(kind: str, mem: Any) -> tuple[int, int]:
    """How often the store is asked in a recall, and how many rows or items come back."""
    store = mem._core.store
    calls: list[int] = []

    def counting(read: Any) -> Any:
        def counted(*given: Any, **named: Any) -> Any:
            answer = read(*given, **named)
            rows = answer if kind != "postgres" else [row for rows in answer for row in rows]
            calls.append(len(rows))
            return answer

        return counted

    target, names = {
        "duckdb": (store, ["_read"]),
        "postgres": (store.database, ["ask"]) if kind == "postgres" else (store, []),
        "dynamodb": (store.dynamo, ["get", "query"]) if kind == "dynamodb" else (store, []),
    }[kind]
    for name in names:
        setattr(target, name, counting(getattr(target, name)))
    try:
        mem.recall("subject12")
    finally:
        for name in names:
            delattr(target, name)
    assert calls
    return len(calls), sum(calls)


def test_the_neighbours_in_a_session_lend_their_words_on_every_store(tmp_path: Path) -> None:
    """Of two that say the same, the one between those that speak of the matter comes first."""
    for kind, address in EVERY_STORE.items():
        (tmp_path / kind).mkdir()
        with recollect.open(address(tmp_path / kind), embedder="none") as mem:
            for name in ("picnic", "office"):
                mem.session.add(name, id=name)
            told = {
                "picnic": ("the picnic was at the lake", "we ate soup", "a lake picnic"),
                "office": ("the printer broke", "we ate soup", "budgets are due"),
            }
            for session, text in [(session, text) for session, texts in told.items() for text in texts]:
                mem.remember(text, kind="conversation", session=session, at=MORNING)  # all at one moment: by id
            hits = mem.recall("what soup did we eat at the lake picnic?")
            soups = [hit.session for hit in hits if hit.text == "we ate soup"]
            assert soups == ["picnic", "office"], kind


def test_places_are_right_within_reach_and_apart_where_nothing_is_known() -> None:
    places = _positions([["b", "c", "d", "e"], ["d", "e", "f"], ["x", "y"], ["q"]], {})
    assert [places[id] - places["b"] for id in "bcdef"] == [0, 1, 2, 3, 4]
    assert places["y"] - places["x"] == 1
    starts = sorted((places["b"], places["x"], places["q"]))
    ends = sorted((places["f"], places["y"], places["q"]))
    assert all(later - earlier > NEIGHBOUR_REACH for earlier, later in zip(ends, starts[1:], strict=False))


def test_what_was_replaced_lends_no_words_but_keeps_its_place(tmp_path: Path) -> None:
    """As before: a neighbour that may not answer still stands between others."""
    with recollect.open(tmp_path / "x.db", embedder="none") as mem:
        mem.session.add("talk", id="talk")
        kept = [mem.remember(text, session="talk", at=MORNING + timedelta(minutes=n)).id for n, text in enumerate(
            ["the boat is green", "it leaks", "mind the gap", "soup was served"])]  # fmt: skip
        mem.forget(kept[1])
        found = {hit.id for hit in mem.recall("boat")}
        assert kept[0] in found
        assert kept[1] not in found
        assert kept[3] in found  # second beside the boat, since the leak is gone


@pytest.mark.parametrize("whose", [{"user": "tom"}, {"agent": "bee"}, {}], ids=["user", "agent", "nobody"])
@pytest.mark.parametrize("kind", EVERY_STORE)
def test_what_was_written_one_after_another_without_a_session_stands_together(
    kind: str, whose: dict[str, Any], tmp_path: Path
) -> None:  # fmt: skip
    """The answer shares no word with the question; what was written just before it does."""
    with recollect.open(EMPTY_STORE[kind](tmp_path), embedder="none") as mem:
        mem.remember_many([{"content": f"an idle remark, number {n}", **whose} for n in range(40)])
        mem.remember("Took the car to the garage", **whose)
        answer = mem.remember("They said that the clutch is gone", **whose)
        mem.remember_many([{"content": f"another remark, number {n}", **whose} for n in range(40)])
        found = mem.recall("what about the car at the garage", limit=3)
        assert answer.id in [hit.id for hit in found]
        assert found[0].text == "Took the car to the garage"


def test_what_was_written_long_before_or_has_a_session_is_no_neighbour() -> None:
    row = _placed("0190a000-0000-7000-8000-000000000002")
    early, soon, late = (f"0190{part}-0000-7000-8000-000000000001" for part in ("0000", "a000", "b000"))
    assert _at_once([early, soon, row, late], row) == [soon, row]
    assert _at_once([soon], row) == []
    assert _at_once(["own-id", row], row) == [row]


def _placed(id: str) -> str:
    assert made_at(id) is not None
    return id
