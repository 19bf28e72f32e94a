"""Figures and lists ask the store a few times, however many days, runs or kinds there are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.adapters.records.common.sql_reads import SqlReads
from recollect.adapters.records.duckdb import store
from recollect.adapters.records.sqlite.store import SqliteStore
from recollect.domain.kinds import KINDS


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every statement that a SQLite store reads with, from now on."""
    seen: list[str] = []
    read = SqliteStore._read

    def noted(self: Any, scope: Any, statement: str, values: Any) -> Any:
        seen.append(statement)
        return read(self, scope, statement, values)

    monkeypatch.setattr(SqliteStore, "_read", noted)
    assert SqliteStore._read_all is SqlReads._read_all
    return seen


@pytest.fixture
def full(tmp_path: Path) -> Any:
    with recollect.open(tmp_path / "full.db", embedder="hash") as mem:
        mem.agent.add("Bee", id="bee")
        for number in range(12):
            mem.remember(f"memory {number}", kind="plan" if number % 3 else "fact")
            run = mem.run.start(f"goal {number}", agent="bee").id
            if number % 2:
                fence = mem.run.claim("w", id=run).fence
                for _ in range(number % 5):
                    mem.run.propose(run, fence, tool="fly", repeatable=bool(number % 3))
                    mem.run.record(run, fence)
                if number % 4 == 1:
                    mem.run.propose(run, fence, tool="fly")
        yield mem


def test_activity_asks_twice_however_many_days(full: Any, statements: list[str]) -> None:
    for days in (1, 30, 366):
        statements.clear()
        full.activity(days=days)
        assert len(statements) <= 2


def test_activity_counts_each_day_once(full: Any) -> None:
    days = full.activity(days=3).days
    assert [day.remembered for day in days][:2] == [0, 0]
    assert days[-1].remembered == days[-1].total == full.stats().memories
    assert days[-1].accesses > 12


def test_stats_ask_a_few_times_and_know_every_kind_that_is_there(full: Any, statements: list[str]) -> None:
    statements.clear()
    stats = full.stats()
    assert len(statements) <= 6
    assert sum(stats.kinds.values()) == sum(stats.statuses.values()) == stats.memories
    assert set(stats.kinds) <= set(KINDS)
    assert set(stats.statuses) == {"hypothesis", "verified", "published", "archived"}


def test_a_list_of_runs_asks_a_few_times_and_says_of_each_what_it_says_alone(full: Any, statements: list[str]) -> None:
    statements.clear()
    page = full.run.list(limit=50)
    assert len(statements) <= 8
    assert len(page.runs) == page.total == 12
    for view in page.runs:
        shown = full.run.show(view.id)
        assert {name: getattr(shown, name) for name in type(view).model_fields} == dict(view)


def test_rewound_and_forked_runs_stand_in_a_list_where_they_stand_alone(full: Any) -> None:
    run = full.run.start("go far", agent="bee").id
    fence = full.run.claim("w", id=run).fence
    for _ in range(3):
        full.run.propose(run, fence, tool="fly")
        full.run.record(run, fence)
    full.run.release(run, fence)
    other = full.run.fork(run, after=2).id
    full.run.rewind(run, 1)
    told = {view.id: view for view in full.run.list(limit=50).runs}
    assert (told[run].length, told[other].length) == (1, 2)
    for id in (run, other):
        shown = full.run.show(id)
        assert (told[id].length, told[id].next, told[id].asks) == (shown.length, shown.next, shown.asks)


def test_pages_after_the_first_do_not_count_all_again(full: Any, statements: list[str]) -> None:
    for list_page, items in ((full.list, "memories"), (full.run.list, "runs")):
        after, seen, counts = None, 0, []
        while True:
            statements.clear()
            page = list_page(limit=5, after=after)
            counts.append(sum("count(*)" in text and "GROUP BY" not in text for text in statements))
            seen += len(getattr(page, items))
            after = page.next
            if after is None:
                break
        assert seen == page.total >= 12
        assert counts == [1] + [0] * (len(counts) - 1)
    statements.clear()
    assert full.list(limit=100).total == full.stats().memories  # all on one page: nothing is left to count
    with pytest.raises(recollect.RecollectError, match="cursor"):
        full.list(after="nonsense~12")


def test_the_overview_asks_a_few_times(full: Any, statements: list[str]) -> None:
    statements.clear()
    full.stats()
    full.activity(days=30)
    full.list(statuses=["hypothesis"], rolled_up=False, limit=1)
    full.list(limit=8, rolled_up=False)
    assert len(statements) <= 12


def test_pruning_a_duckdb_store_takes_as_many_statements_for_many_as_for_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    execute = store._Tables._execute

    def noted(self: Any, statement: str, values: Any = ()) -> Any:
        seen.append(statement)
        return execute(self, statement, values)

    monkeypatch.setattr(store._Tables, "_execute", noted)
    with recollect.open(f"duckdb:///{tmp_path}/x.duckdb", embedder="hash") as mem:
        mem.remember_many([{"content": f"memory {number}", "tags": ["t"]} for number in range(300)])
        counts = []
        for many in (20, 200):
            kept = mem.stats().memories - many
            seen.clear()
            assert len(mem.prune(keep=kept).forgotten) == many
            counts.append(len(seen))
        assert counts[1] <= counts[0] + 4 <= 30  # with many, the notes of who read what are written too
        assert mem.stats().forgotten == 220
        assert mem.list(forgotten=True, limit=1).memories[0].text not in [hit.text for hit in mem.recall("memory")]
        assert mem.verify().problems == []
