"""Lists that a tag or a time narrows: the same as if every record was looked at, and few are looked at."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.adapters.records.sqlite import fulltext, narrowing
from recollect.services.recall import few_passing

BEGUN = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def mem(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with recollect.open(tmp_path_factory.mktemp("narrow") / "m.db", embedder="hash") as mem:
        mem.remember_many(
            [
                {
                    "content": f"the lantern number {number} of the harbour",
                    "id": f"m{number:03d}",
                    # What was stored last did not happen last.
                    "at": (BEGUN + timedelta(hours=(number * 37) % 120)).isoformat(),
                    "tags": ["rare"] if number % 29 == 3 else ["common"],
                    "user": "ann" if number % 3 else "eve",
                    "priority": 1 + number % 9,
                }
                for number in range(120)
            ]
        )
        mem.forget("m003")
        mem.revise("m032", tags=["common"])
        yield mem


FILTERS: list[dict[str, Any]] = [
    {"tags": ["rare"]},
    {"tags": ["common", "rare"]},
    {"any_tags": ["rare", "nobody's"]},
    {"since": BEGUN + timedelta(hours=110)},
    {"since": BEGUN + timedelta(hours=10), "until": BEGUN + timedelta(hours=20)},
    {"since": BEGUN + timedelta(hours=200)},
    {"until": BEGUN + timedelta(hours=5), "tags": ["common"], "user": "ann"},
    {"created_since": BEGUN, "min_priority": 8},
    {"since": BEGUN + timedelta(hours=100), "forgotten": True},
]


def pages(mem: Any, **asked: Any) -> tuple[list[str], int]:
    found, page = [], mem.list(limit=4, **asked)
    total = page.total
    while True:
        found += [one.id for one in page.memories]
        if page.next is None:
            return found, total
        page = mem.list(limit=4, after=page.next, **asked)


@pytest.mark.parametrize(
    ("asked", "order"), list(product(FILTERS, ["newest", "oldest", "happened", "updated", "priority", "confidence"]))
)
def test_a_list_is_the_same_as_without_looking_first(
    mem: Any, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any], order: str
) -> None:
    found = pages(mem, **asked, order=order)
    monkeypatch.setattr(narrowing, "MOST_LINKED", -1)
    monkeypatch.setattr(narrowing, "MOST_OF_A_TIME", -1)
    assert pages(mem, **asked, order=order) == found
    assert len(found[0]) == found[1] == len(set(found[0]))


def hits(mem: Any, **asked: Any) -> list[tuple[str, float]]:
    found = mem.recall("which lantern number 7 of the harbour", limit=5, **asked)
    return [(hit.id, round(hit.score, 4)) for hit in found]


@pytest.mark.parametrize("asked", FILTERS[:-1])
@pytest.mark.parametrize("by", ["everything", "meaning", "words"])
def test_a_recall_is_the_same_as_without_looking_first(
    mem: Any, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any], by: str
) -> None:
    found = hits(mem, by=by, **asked)
    monkeypatch.setattr(narrowing, "MOST_LINKED", -1)
    monkeypatch.setattr(narrowing, "MOST_OF_A_TIME", -1)
    assert hits(mem, by=by, **asked) == found
    passing, _ = pages(mem, **asked)
    assert bool(found) == bool(passing)
    assert {id for id, _ in found} <= set(passing)


@pytest.mark.parametrize("asked", FILTERS[:-1])
@pytest.mark.parametrize("by", ["everything", "meaning", "words"])
def test_a_recall_is_the_same_where_too_many_pass_to_be_looked_up_at_once(
    mem: Any, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any], by: str
) -> None:
    found, looked_up = hits(mem, by=by, **asked), []
    passing = fulltext._passing
    monkeypatch.setattr(few_passing, "EXACT_UP_TO", 1)
    monkeypatch.setattr(fulltext, "PROVEN_BEFORE", 1)
    monkeypatch.setattr(fulltext, "_passing", lambda *given, **most: looked_up.append(1) or passing(*given, **most))
    assert hits(mem, by=by, **asked) == found
    assert looked_up or by == "meaning" or len(found) < 2 or "user" in asked, "ann has fewer than the first look"


def plan(mem: Any, monkeypatch: pytest.MonkeyPatch, **asked: Any) -> str:
    """How SQLite finds the page."""
    read, store = [], mem._core.store
    ran = store._read_rows
    monkeypatch.setattr(store, "_read_rows", lambda text, values=(): read.append((text, values)) or ran(text, values))
    mem.list(limit=5, **asked)
    monkeypatch.undo()
    text, values = next(one for one in read if "ORDER BY" in one[0])
    return "; ".join(str(row[3]) for row in ran(f"EXPLAIN QUERY PLAN {text}", values))


@pytest.mark.parametrize(("order", "index"), [("happened", "occurred_at_id"), ("priority", "priority_id")])
def test_a_list_in_order_walks_an_index_from_where_the_page_begins(
    mem: Any, monkeypatch: pytest.MonkeyPatch, order: str, index: str
) -> None:
    first = plan(mem, monkeypatch, order=order)
    assert f"memory_by_{index} (organization_id=?)" in first
    after = mem.list(limit=5, order=order).next
    assert f"memory_by_{index} (organization_id=? AND (" in plan(mem, monkeypatch, order=order, after=after)


def test_the_few_of_a_time_are_found_by_their_ids(mem: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for asked in ({"since": BEGUN + timedelta(hours=110)}, {"tags": ["rare"]}):
        assert "memory_key (organization_id=? AND id=?)" in plan(mem, monkeypatch, **asked)


def test_a_new_store_has_the_indexes(tmp_path: Path) -> None:
    with recollect.open(tmp_path / "m.db", embedder="none") as mem:
        store: Any = mem._core.store
        names = {name for (name,) in store._read_rows("SELECT name FROM sqlite_master WHERE type = 'index'")}
    assert {"memory_by_occurred_at_id", "memory_by_priority_id"} <= names
    assert "memory_by_priority" not in names
