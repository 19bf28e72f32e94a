"""Checkpoints share items: each that is kept holds exactly what was put, whatever the others fold or drop."""

from __future__ import annotations

import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import recollect
from recollect.domain.checkpoints import Checkpoint, CheckpointItems, CheckpointLine, line_id
from recollect.domain.record import new_id, now
from recollect.errors import NotFound
from recollect.ports.query import Order, Query, equal
from recollect.ports.steps import DeleteWhere, Update
from recollect.services.frameworks.checkpoint_streams import MOST_SMALL_RUNS

STREAM = "messages"


class Branch:
    """A writer that lets a list grow, shares what it wrote before and knows only its own last checkpoint."""

    def __init__(self, mem: Any, name: str, expected: dict[str, list[bytes]]) -> None:
        self.mem, self.name, self.expected = mem, name, expected
        self.items: list[bytes] = []
        self.spans: list[tuple[int, int]] = []
        self.base: str | None = None

    def put(self, count: int, keep: int | None, *, forget: bool = False, run: str | None = None) -> None:
        fresh = [f"{self.name}-{len(self.items) + number}".encode() for number in range(count)]
        id = new_id()
        whole = [] if forget else self.items
        self.expected[id] = [*whole, *fresh]
        shared = {STREAM: self.spans} if whole else {}
        try:
            reply = self.mem.checkpoint.put(
                "t", id, base=self.base if shared else None, spans=shared, items={STREAM: fresh}, keep=keep, run=run
            )
            spans = [*self.spans] if whole else []
        except NotFound:
            sent = self.expected[id]
            reply = self.mem.checkpoint.put("t", id, items={STREAM: sent}, keep=keep, run=run)
            spans, fresh = [], sent
        if fresh:
            start = reply.starts[STREAM]
            spans.append((start, start + len(fresh)))
        self.items, self.spans, self.base = self.expected[id], spans, id


def assert_kept_as_put(mem: Any, expected: dict[str, list[bytes]]) -> int:
    page = mem.checkpoint.list("t")
    for one in page.checkpoints:
        held = mem.checkpoint.get("t", id=one.id).lines
        items = held[0].items[STREAM] if held else []
        assert sorted(items) == sorted(expected[one.id]), one.id
    return len(page.checkpoints)


def test_folding_keeps_numbers_where_items_in_between_are_gone(mem: Any) -> None:
    expected: dict[str, list[bytes]] = {}
    stays, goes = Branch(mem, "stays", expected), Branch(mem, "goes", expected)
    for _ in range(20):
        stays.put(1, None)
        goes.put(2, None, run="goes")
    mem.checkpoint.delete(runs=["goes"])
    for _ in range(40):
        stays.put(1, None)
    assert assert_kept_as_put(mem, expected) == 60


def test_items_folded_while_others_are_let_go_stay(mem: Any) -> None:
    for number in range(MOST_SMALL_RUNS):
        mem.checkpoint.put("t", f"{number:02}", items={STREAM: [b"old"]})
    mem.checkpoint.put("t", "99", items={STREAM: [b"new"]}, keep=1)
    assert mem.checkpoint.get("t").lines[0].items[STREAM] == [b"new"]


def test_a_checkpoint_that_comes_late_is_kept_whole(mem: Any) -> None:
    mem.checkpoint.put("t", "1", items={STREAM: [b"old"]})
    for id in ("3", "4"):
        mem.checkpoint.put("t", id)
    mem.checkpoint.put("t", "2", base="1", spans={STREAM: [(0, 1)]}, keep=2)
    assert mem.checkpoint.get("t", id="2").lines[0].items[STREAM] == [b"old"]
    assert mem.verify().sound


def test_a_copy_made_while_others_write_is_whole(mem: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mem.checkpoint.put("t", "1", items={STREAM: [b"one"]})
    find = mem._core.store.find

    def meddle(scope: Any, query: Any, *rest: Any) -> Any:
        if query.record is CheckpointItems:
            monkeypatch.setattr(mem._core.store, "find", find)
            mem.checkpoint.put("t", "2", items={STREAM: [b"two"]}, keep=1)
        return find(scope, query, *rest)

    monkeypatch.setattr(mem._core.store, "find", meddle)
    mem.checkpoint.copy("t", "copy")
    assert mem.checkpoint.get("copy").lines[0].items[STREAM] == [b"two"]
    assert mem.verify().sound


def test_a_thread_made_anew_while_it_is_read_is_not_mixed_with_the_old(
    mem: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    mem.checkpoint.put("t", "1", items={STREAM: [b"old"]})
    select = mem._core.store.select

    def meddle(scope: Any, query: Any, *rest: Any) -> Any:
        if query.record is CheckpointItems:
            monkeypatch.setattr(mem._core.store, "select", select)
            mem.checkpoint.delete("t")
            mem.checkpoint.put("t", "2", items={STREAM: [b"new"]})
        return select(scope, query, *rest)

    monkeypatch.setattr(mem._core.store, "select", meddle)
    page = mem.checkpoint.get("t")
    assert (page.checkpoints[0].id, page.lines[0].items[STREAM]) == ("2", [b"new"])


def test_a_thread_made_anew_while_it_is_put_to_numbers_its_items_once(
    mem: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    mem.checkpoint.put("t", "1")
    transact = mem._core.store.transact

    def meddle(scope: Any, steps: Any) -> Any:
        monkeypatch.setattr(mem._core.store, "transact", transact)
        mem.checkpoint.delete("t")
        mem.checkpoint.put("t", "2", items={STREAM: [b"two"]})
        return transact(scope, steps)

    monkeypatch.setattr(mem._core.store, "transact", meddle)
    assert mem.checkpoint.put("t", "3", items={STREAM: [b"three"]}).starts == {STREAM: 1}
    assert mem.checkpoint.get("t", id="2").lines[0].items[STREAM] == [b"two"]


def test_verify_names_a_checkpoint_whose_items_are_missing(mem: Any) -> None:
    mem.checkpoint.put("t", "1", items={STREAM: [b"one"]})
    assert mem.verify().sound
    mem._core.store.transact(mem._scope, [DeleteWhere(CheckpointItems, (equal("stream", STREAM),))])
    assert [problem.table for problem in mem.verify().problems] == ["checkpoint"]


def test_a_number_is_never_given_twice(mem: Any) -> None:
    first = mem.checkpoint.put("t", "1", items={STREAM: [b"old"]}).starts[STREAM]
    mem.checkpoint.put("t", "2", keep=1)
    assert mem.checkpoint.put("t", "3", items={STREAM: [b"new"]}).starts[STREAM] == first + 1


def put_after(mem: Any, id: str, *, age: float, looked: float) -> list[str]:
    """Puts with retention by an hour, the oldest so many seconds old, so many after the last look; what is there."""
    store, scope, line = mem._core.store, mem._scope, line_id("t", "")
    oldest = store.find(scope, Query(Checkpoint, order=(Order("checkpoint_id"),), limit=1)).records[0]
    record = store.get(scope, CheckpointLine, line)
    aged = oldest.changed(created_at=now() - timedelta(seconds=age))
    store.transact(scope, [Update(aged), Update(record.changed(looked_at=now() - timedelta(seconds=looked)))])
    mem.checkpoint.put("t", id, keep_seconds=3600)
    return sorted(one.id for one in mem.checkpoint.list("t").checkpoints)


@pytest.mark.parametrize(
    ("age", "looked", "stays"),
    [(3500, 3500, True), (3700, 100, True), (3700, 460, False), (4060, 460, False), (4060, -3600, False)],
)
def test_an_old_checkpoint_goes_before_it_is_an_eighth_older(mem: Any, age: float, looked: float, stays: bool) -> None:
    mem.checkpoint.put("t", "1", keep_seconds=3600)
    assert put_after(mem, "2", age=age, looked=looked) == (["1", "2"] if stays else ["2"])


def test_keeping_by_number_does_not_put_off_keeping_by_age(mem: Any) -> None:
    mem.checkpoint.put("t", "1", keep_seconds=3600)
    store, line = mem._core.store, line_id("t", "")
    before = store.get(mem._scope, CheckpointLine, line)
    for number in range(2, 8):
        mem.checkpoint.put("t", str(number), keep=4)
    assert store.get(mem._scope, CheckpointLine, line).looked_at == before.looked_at


def test_what_was_shared_with_is_read_again_once_it_was_deleted(mem: Any) -> None:
    mem.checkpoint.put("t", "1", items={STREAM: [b"one"]}, run="kept")
    mem.checkpoint.put("t", "2", base="1", spans={STREAM: [(0, 1)]}, items={STREAM: [b"two"]}, run="gone")
    mem.checkpoint.delete(runs=["gone"])
    with pytest.raises(NotFound):
        mem.checkpoint.put("t", "3", base="2", spans={STREAM: [(0, 2)]})
    mem.checkpoint.put("t", "3", base="1", spans={STREAM: [(0, 1)]})
    assert mem.verify().sound


def test_a_base_that_goes_while_it_is_shared_with_is_noticed(mem: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mem.checkpoint.put("t", "1", items={STREAM: [b"one"]})
    mem.checkpoint.put("t", "2")
    transact = mem._core.store.transact

    def meddle(scope: Any, steps: Any) -> Any:
        monkeypatch.setattr(mem._core.store, "transact", transact)
        mem.checkpoint.prune(keep=1)
        return transact(scope, steps)

    monkeypatch.setattr(mem._core.store, "transact", meddle)
    with pytest.raises(NotFound):
        mem.checkpoint.put("t", "3", base="1", spans={STREAM: [(0, 1)]})
    assert mem.verify().sound


def test_a_put_reads_once_and_writes_three_records(mem: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What each step of a graph costs the store, however long the thread and whether or not old ones go."""
    branch, calls = Branch(mem, "a", {}), Counter[str]()
    for verb in ("get", "find", "select", "select_each"):
        monkeypatch.setattr(mem._core.store, verb, counting(calls, "reads", getattr(mem._core.store, verb)))
    branch.put(2, 30)
    branch.put(2, 30)
    calls.clear()
    transact = mem._core.store.transact

    def watched(scope: Any, steps: Any) -> Any:
        calls["steps"] += len(steps)
        return transact(scope, steps)

    monkeypatch.setattr(mem._core.store, "transact", watched)
    branch.put(2, 30)
    assert calls == {"reads": 1, "steps": 3}


def counting(calls: Counter[str], name: str, verb: Any) -> Any:
    def counted(*given: Any, **named: Any) -> Any:
        calls[name] += 1
        return verb(*given, **named)

    return counted


STEPS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 5), st.sampled_from([None] * 20 + [5, 20]), st.booleans()),
    min_size=60,
    max_size=200,
)


@settings(max_examples=25, deadline=None)
@given(STEPS)
def test_every_kept_checkpoint_holds_what_was_put(steps: list[tuple[int, int, int | None, bool]]) -> None:
    with recollect.open("memory://", embedder="hash") as mem:
        expected: dict[str, list[bytes]] = {}
        branches = [Branch(mem, str(number), expected) for number in range(3)]
        for number, count, keep, forget in steps:
            branches[number].put(count, keep, forget=forget and count == 0)
        assert assert_kept_as_put(mem, expected) > 0


def test_writers_readers_and_retention_at_once(tmp_path: Path) -> None:
    path = tmp_path / "shared.db"
    expected: dict[str, list[bytes]] = {}
    done = threading.Event()
    with recollect.open(path, embedder="hash") as one, recollect.open(path, embedder="hash") as two:

        def write(number: int) -> None:
            branch = Branch((one, two)[number % 2], str(number), expected)
            for _ in range(60):
                branch.put(random.randint(0, 3), random.choice([None, 2, 6, 30]))

        def read() -> int:
            rounds = 0
            while not done.is_set():
                assert_kept_as_put_now(two, expected)
                rounds += 1
            return rounds

        with ThreadPoolExecutor(5) as pool:
            reader = pool.submit(read)
            list(pool.map(write, range(4)))
            done.set()
            assert reader.result() > 0
        assert assert_kept_as_put(one, expected) > 0
        assert one.verify().sound


def assert_kept_as_put_now(mem: Any, expected: dict[str, list[bytes]]) -> None:
    """The newest, while others write: whatever it is by now, it is whole."""
    page = mem.checkpoint.get("t")
    for one in page.checkpoints:
        items = page.lines[0].items[STREAM] if page.lines else []
        assert sorted(items) == sorted(expected[one.id])
