"""Filters and orders of recall, context and lists: the same answers on every store."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import recollect
from every_store import EMPTY_STORE, EVERY_STORE
from recollect.domain.record import now
from recollect.errors import InvalidInput

SOON = now() + timedelta(days=3)
EPISODES: dict[str, dict[str, Any]] = {
    "a": {"success": True, "metadata": {"n": 1, "env": {"name": "prod"}, "on": ["web", "app"]}, "priority": 3,
          "confidence": 0.2, "importance": 4.0, "at": "2026-01-01", "expires_at": SOON},
    "b": {"success": False, "metadata": {"n": 2.5, "env": {"name": "test"}, "on": ["app"]}, "priority": 9,
          "confidence": 0.9, "importance": 1.0, "at": "2026-02-01"},
    "c": {"success": False, "metadata": {"n": "2", "env": None, "a.b": 1}, "priority": 5,
          "confidence": 0.5, "importance": 2.0, "at": "2026-03-01", "expires_at": SOON + timedelta(days=3)},
    "d": {"success": True, "metadata": {"n": True, "ключ": "' OR 1=1 --"}, "priority": 1,
          "confidence": 0.7, "importance": 0.0, "at": "2026-03-02"},
}  # fmt: skip
FILTERS: list[tuple[dict[str, Any], str]] = [
    ({"content": {"success": False}}, "bc"),
    ({"content": {"success": False, "task_description": "deploy b"}}, "b"),
    ({"content": {"success": 0}}, ""),
    ({"content": {"critique": {"exists": True}}}, ""),
    ({"metadata": {"n": 1}}, "a"),
    ({"metadata": {"n": {"gte": 1, "lt": 3}}}, "ab"),
    ({"metadata": {"n": {"ne": 1}}}, "bcd"),
    ({"metadata": {"n": ["2", True]}}, "cd"),
    ({"metadata": {"env": {"name": ["prod", "test"]}}}, "ab"),
    ({"metadata": {"env.name": "test"}}, "b"),
    ({"metadata": {"env": None}}, "c"),
    ({"metadata": {"env": {"exists": False}}}, "d"),
    ({"metadata": {"a.b": 1}}, "c"),
    ({"metadata": {"on": {"contains": "app"}}}, "ab"),
    ({"metadata": {"on": {"contains": ["app", "web"]}}}, "a"),
    ({"metadata": {"ключ": "' OR 1=1 --"}}, "d"),
    ({"metadata": {"' OR 1=1 --": 1}}, ""),
    ({"min_priority": 3, "max_priority": 5}, "ac"),
    ({"min_confidence": 0.5, "max_confidence": 0.7}, "cd"),
    ({"min_importance": 1, "max_importance": 2}, "bc"),
    ({"since": "2026-02-01", "until": "2026-03-01"}, "bc"),
    ({"expires_until": SOON + timedelta(days=1)}, "a"),
    ({"expires_since": SOON + timedelta(days=1)}, "c"),
    ({"created_since": now() + timedelta(days=1)}, ""),
    ({"changed_until": now() + timedelta(days=1)}, "abcd"),
    ({"cycle": "none"}, ""),
]
ORDERS = {
    "newest": "dcba",
    "oldest": "abcd",
    "happened": "dcba",
    "updated": "bdca",
    "priority": "bcad",
    "confidence": "bdca",
    "importance": "acbd",
    "expires": "ac",
}


@pytest.fixture(params=(*EVERY_STORE, "memory"))
def mem(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    address = EMPTY_STORE[request.param](tmp_path) if request.param in EVERY_STORE else "memory://"
    with recollect.open(address, embedder="none", background=False) as opened:
        yield opened


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Any]:
    with recollect.open(tmp_path / "local.db", embedder="none", background=False) as opened:
        yield opened


def _fill(mem: Any) -> None:
    for id, given in EPISODES.items():
        fields = {name: value for name, value in given.items() if name != "success"}
        content = {"task_description": f"deploy {id}", "success": given["success"]}
        mem.remember(content, kind="episode", id=id, **fields)
    mem.revise("b", priority=9, metadata=EPISODES["b"]["metadata"])  # the last to be changed


def test_recall_list_and_context_have_the_same_filters(mem: Any) -> None:
    _fill(mem)
    for given, expected in FILTERS:
        assert "".join(sorted(one.id for one in mem.list(**given))) == expected, given
        assert "".join(sorted(hit.id for hit in mem.recall("deploy", **given))) == expected, given
    assert set(mem.context("deploy", content={"success": False}).used) == {"b", "c"}
    assert mem.why_not("deploy", "a", metadata={"n": 2}).reasons == ["its metadata 'n' is different"]


def test_lists_have_orders_and_pages_keep_to_them(mem: Any) -> None:
    _fill(mem)
    for order, expected in ORDERS.items():
        found, after = "", None
        while True:
            page = mem.list(order=order, limit=1, after=after)
            found += "".join(one.id for one in page)
            after = page.next
            if after is None:
                break
        assert found == expected, order


def test_what_was_read_most_comes_first(local: Any) -> None:
    _fill(local)
    local.show("c")
    local._core.journal.flush()
    assert next(one.id for one in local.list(order="used")) == "c"


def test_sessions_are_found_by_metadata_and_times(mem: Any) -> None:
    mem.session.add("one", id="s1", metadata={"device": {"os": "linux"}, "n": 1})
    mem.session.add("two", id="s2", metadata={"device": {"os": "mac"}, "n": 2})
    mem.session.end("s1")
    assert [one.id for one in mem.session.list(metadata={"device.os": "linux"})] == ["s1"]
    assert [one.id for one in mem.session.list(metadata={"n": {"gt": 1}})] == ["s2"]
    assert [one.id for one in mem.session.list(order="oldest")] == ["s1", "s2"]
    assert [one.id for one in mem.session.list(order="updated")] == ["s1", "s2"]
    yesterday, tomorrow = now() - timedelta(days=1), now() + timedelta(days=1)
    assert [one.id for one in mem.session.list(ended_since=yesterday, ended_until=tomorrow)] == ["s1"]
    assert not len(mem.session.list(created_until=yesterday))
    assert not len(mem.session.list(changed_since=tomorrow))


def test_users_are_found_by_what_they_prefer_though_it_is_encrypted(local: Any) -> None:
    for number in range(7):
        theme = "dark" if number % 2 else "light"
        local.user.add(f"u{number}", id=f"u{number}", preferences={"ui": {"theme": theme}, "n": number})
    dark: list[str] = []
    after = None
    while True:
        page = local.user.list(preferences={"ui": {"theme": "dark"}}, limit=2, after=after, order="oldest")
        dark += [one.id for one in page]
        after = page.next
        if after is None:
            break
    assert dark == ["u1", "u3", "u5"]
    assert [one.id for one in local.user.list(preferences={"n": {"gte": 5}})] == ["u6", "u5"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"metadata": {"n": {"$gteq": 1}}}, "did you mean gte?"),
        ({"metdata": {"n": 1}}, "give metadata instead of metdata"),
        ({"order_by": "newest"}, "give order instead of order_by"),
        ({"order": "loudest"}, "order"),
        ({"content": "success"}, "content"),
    ],
    ids=str,
)
def test_a_wrong_filter_is_refused_with_what_exists(local: Any, asked: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        local.list(**asked)
    assert said in str(refused.value)


def test_a_date_is_read_in_the_zone_of_the_caller_in_every_range(local: Any) -> None:
    local.remember("early", id="early", expires_at=datetime.fromisoformat("2031-05-02T12:00:00+00:00"))
    assert [one.id for one in local.list(expires_until="2031-05-02")] == ["early"]
    assert [one.id for one in local.list(expires_until="2031-05-01")] == []
