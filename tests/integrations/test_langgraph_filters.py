"""Filters of LangGraph's store, value by value beside LangGraph's own: texts in their order, numbers in theirs."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.memory import InMemoryStore

import recollect
from every_store import EMPTY_STORE, EVERY_STORE
from recollect.integrations.langgraph import RecollectStore

ORDERS = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<=", "$eq": "=", "$ne": "!="}
TEXTS = [
    "2024-05-08", "2024-05-09", "2024-05-08T12:00:00Z", "2024-05-08T12:00:00.5Z", "2023-12-31", "", "a", "A", "ab",
    "é", "猫", "🦉", "10", "9", "1e3", "nan", "it's", " ",
]  # fmt: skip
NUMBERS = [-1, 0, 1, 2.5, 9, 10, 1e20, 2**60]


@pytest.fixture(params=[*EVERY_STORE, "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RecollectStore]:
    address = "memory://" if request.param == "memory" else EMPTY_STORE[request.param](tmp_path)
    with recollect.open(address, embedder="none") as mem:
        yield RecollectStore(mem, fields=())


def found(store: Any, wanted: dict[str, Any]) -> set[str]:
    return {one.key for one in store.search(("table",), filter=wanted, limit=1000)}


def as_sqlite_has_it(value: str, operator: str, than: str) -> bool:
    """What LangGraph's SqliteStore asks of SQLite when a text is compared."""
    asked = f"SELECT json_extract(?, '$.k') {ORDERS[operator]} ?"
    with sqlite3.connect(":memory:") as connection:
        return bool(connection.execute(asked, (json.dumps({"k": value}), than)).fetchone()[0])


def test_texts_compare_as_sqlite_compares_them(store: RecollectStore) -> None:
    for place, value in enumerate(TEXTS):
        store.put(("table",), str(place), {"k": value})
    for operator, than in product(ORDERS, TEXTS):
        wanted = {str(place) for place, value in enumerate(TEXTS) if as_sqlite_has_it(value, operator, than)}
        assert found(store, {"k": {operator: than}}) == wanted, (operator, than)


def test_numbers_compare_as_in_langgraphs_own_store(store: RecollectStore) -> None:
    theirs = InMemoryStore()
    for place, value in enumerate(NUMBERS):
        store.put(("table",), str(place), {"k": value})
        theirs.put(("table",), str(place), {"k": value})
    for operator, than in product(ORDERS, NUMBERS):
        assert found(store, {"k": {operator: than}}) == found(theirs, {"k": {operator: than}}), (operator, than)


def test_a_span_of_dates_is_found_and_what_has_none_is_not(store: RecollectStore) -> None:
    days = {"first": "2024-05-01", "second": "2024-05-08T09:30:00+00:00", "last": "2024-06-01"}
    for name, day in days.items():
        store.put(("table",), name, {"at": day, "deep": {"at": day}})
    for name, odd in {"number": 20240508, "nothing": None, "list": ["2024-05-08"], "truth": True}.items():
        store.put(("table",), name, {"at": odd})
    store.put(("table",), "absent", {})
    may = {"$gte": "2024-05-02", "$lt": "2024-06-01"}
    assert found(store, {"at": may}) == {"second"}
    assert found(store, {"deep": {"at": may}}) == {"second"}
    assert found(store, {"at": {"$eq": "2024-05-01"}}) == {"first"}
    assert found(store, {"at": {"$ne": "2024-05-01"}}) >= {"second", "last", "number"}


def test_a_text_that_is_a_number_counts_as_one_beside_a_number(store: RecollectStore) -> None:
    for name, value in {"ten": "10", "nine": 9, "word": "x"}.items():
        store.put(("table",), name, {"k": value})
    assert found(store, {"k": {"$gt": 9}}) == {"ten"}
    assert found(store, {"k": {"$lte": "9"}}) == {"nine", "ten"}, "beside a text, a text is a text"
