"""Declared indexes of members of JSON: the plans use them, and the answers are the same without."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import recollect
from every_store import EVERY_STORE
from recollect.adapters.postgres.connection import UPKEEP, ReadStatement
from recollect.domain.memory import Memory
from recollect.errors import InvalidSettings
from recollect.ports.query import Compare, Query
from recollect.ports.records import Scope

INDEXED = ["content.success", "metadata.customer.id"]
ACME = Scope("default")
FAILED = Compare("content", "=", False, "success")
CUSTOMER = Compare("metadata", "=", 7, ("customer", "id"))


def _fill(mem: Any, count: int = 300) -> None:
    mem.remember_many(
        [
            {
                "content": {"task_description": f"task {n}", "success": n % 50 != 0},
                "kind": "episode",
                "metadata": {"customer": {"id": n % 100}, "other": n},
            }
            for n in range(count)
        ]
    )


@pytest.fixture(params=EVERY_STORE)
def mem(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    address = EVERY_STORE[request.param](tmp_path)
    with recollect.open(address, embedder="none", background=False, indexed=INDEXED) as opened:
        yield opened


def test_answers_are_the_same_with_and_without(mem: Any) -> None:
    _fill(mem, 120)
    for _ in range(2):
        assert len(mem.list(content={"success": False})) == 3
        assert len(mem.list(content={"success": 0})) == 0
        assert len(mem.list(content={"success": {"ne": False}}, limit=200)) == 117
        assert len(mem.list(metadata={"customer": {"id": 7}})) == 2
        assert len(mem.list(metadata={"customer": {"id": [7, 8.0, "9"]}}, content={"success": True})) == 4
        assert len(mem.list(metadata={"customer.id": {"gt": 97}}, tags=[])) == 2
        assert len(mem.recall("task", metadata={"customer": {"id": 7}}).hits) == 2
        if not hasattr(mem._core.store, "index_members"):
            return
        mem._core.store.index_members([])


def test_sqlite_reads_the_index(tmp_path: Path) -> None:
    path = tmp_path / "indexed.db"
    for indexed, used in ((INDEXED, True), (None, True), ([], False)):
        with recollect.open(path, embedder="none", background=False, indexed=indexed) as mem:
            if not len(mem.list(limit=1)):
                _fill(mem)
            store: Any = mem._core.store
            for filter in (FAILED, CUSTOMER):
                statement, values = store._statement(ACME, Query(Memory, (filter,)), ("id",))
                plan = " ".join(str(row) for row in store._read(ACME, f"EXPLAIN QUERY PLAN {statement}", values))
                assert ("member of memory." in plan) == used, plan


def test_postgres_reads_the_index(tmp_path: Path) -> None:
    with recollect.open(EVERY_STORE["postgres"](tmp_path), embedder="none", background=False, indexed=INDEXED) as mem:
        _fill(mem)
        store: Any = mem._core.store
        with store.as_owner() as connection:
            connection.execute('ANALYZE "memory"')
        for filter in (FAILED, CUSTOMER):
            found = store._members.statement(ACME, Query(Memory, (filter,)))
            explain = ReadStatement(f"EXPLAIN {found.statement}", found.values)
            quick = ReadStatement(
                "SELECT set_config('enable_seqscan', 'off', true)"
            )  # a table this small is read as quickly as a whole
            plan = " ".join(str(row) for row in store.database.ask("default", quick, explain, role=UPKEEP)[1])
            assert "@>" in plan.partition("Bitmap Index Scan")[2], plan
        assert store._members.statement(ACME, Query(Memory, (Compare("metadata", ">", 7, ("customer", "id")),))) is None


@pytest.mark.parametrize("wrong", ["success", "text.x", "content.a'b", "content.", "content.a;DROP"])
def test_only_plain_names_are_indexed(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(InvalidSettings):
        recollect.open(tmp_path / "x.db", indexed=[wrong])
