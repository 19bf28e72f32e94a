"""The leak test and the measurements, as somebody runs them on a store of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.app.store_copies import temporary_copy
from recollect.domain.memory import Memory
from recollect.errors import InvalidInput, NotFound
from recollect.interfaces import leak_test as tried
from recollect.interfaces import probing
from recollect.interfaces.cli.main import run
from recollect.interfaces.measurements import (
    BenchRecallRequest,
    BenchSpeedRequest,
    LeakTestRequest,
    bench_recall,
    bench_speed,
    histogram,
    run_leak_test,
)
from recollect.ports.query import Query
from recollect.ports.records import Scope
from recollect.services.admin.copy import content_hash
from recollect.services.restrictions import Rules
from recollect.settings import load
from seeds import some


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A small store with two organizations and two users."""
    monkeypatch.setenv("RECOLLECT_EMBEDDER__PROVIDER", "hash")
    path = tmp_path / "own.db"
    with recollect.open(path, embedder="hash") as mem:
        for name in ("ann", "bob"):
            mem.user.add(name, id=name)
            mem.session.add("talk", id=f"talk-of-{name}-00", user=name)
            mem.remember(f"Tea with {name} is at four", id=f"tea-with-{name}-00", user=name, tags=["tea"])
            mem.message.add("user", f"{name} wants tea", session=f"talk-of-{name}-00")
        mem.remember("喝茶是四点", id="chinese-tea-00")
        mem.within("acme").remember("The door code is 1234", id="door-code-at-acme", tags=["door"])
    return str(path)


def stored(path: str) -> list[str]:
    with recollect.open(path, embedder="hash", background=False) as mem:
        return [content_hash(mem._core.store, Scope(one)) for one in ("default", "acme")]


def test_the_leak_test_finds_nothing_and_changes_nothing(
    store: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A part of the operations each day, all of them in a soak."""
    before = stored(store)
    every = probing.operations()
    chosen = some(25, every, "leak test")
    monkeypatch.setattr(tried, "operations", lambda: chosen)
    assert run(["leak-test", store, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["well"], told["rows"]) == (True, [])
    assert told["tries"] > 200
    assert stored(store) == before
    assert run(["leak-test", store]) == 0
    assert "nothing leaked" in capsys.readouterr().out


def test_what_the_stranger_asked_for_is_no_leak_in_their_own_log(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with recollect.open(store, embedder="hash") as mem:
        mem.remember("Coffee is at three")  # an id that was made for it stands in the log as it is
    chosen = [one for one in probing.operations() if one.name in ("privacy.find", "log")]
    monkeypatch.setattr(tried, "operations", lambda: chosen)
    told = run_leak_test(LeakTestRequest(settings=store, ids=9, every=True))
    assert {one.operation for one in told.rows} == {"privacy.find", "log"}
    assert [leak for one in told.rows for leak in one.leaks] == []


def test_a_leak_is_found_and_ends_with_1(
    store: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the rules of restricted keys taken away, everything of other users leaks."""
    chosen = [one for one in probing.operations() if one.name in ("show", "list", "forget")]
    monkeypatch.setattr(tried, "operations", lambda: chosen)
    monkeypatch.setattr(Rules, "readable", lambda self, record: ())
    reply = run_leak_test(LeakTestRequest(settings=store, every=True))
    assert not reply.well
    leaks = {row.operation: row.leaks for row in reply.rows if "user" in row.caller and row.leaks}
    assert leaks.keys() == {"show", "list", "forget"}
    assert any("id with the id of a memory: done, and not_found if absent" in one for one in leaks["show"])
    assert not [row for row in reply.rows if "organization" in row.caller and row.leaks]
    assert run(["leak-test", store]) == 1
    assert "something leaked" in capsys.readouterr().out


def test_evidence_is_looked_for_among_the_hits(store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = stored(store)
    asked = [
        {"question": "tea with ann", "ids": ["tea-with-ann-00"]},
        {"question": "四点喝茶", "texts": ["喝茶是四点"]},
        {"question": "tea with bob", "ids": ["tea-with-bob-00", "never-stored"], "filters": {"user": "bob"}},
        {"question": "door code", "texts": ["1234"]},
    ]
    file = tmp_path / "questions.jsonl"
    file.write_text("\n".join(json.dumps(one, ensure_ascii=False) for one in asked) + "\n\n")
    found = bench_recall(BenchRecallRequest(file=file, settings=store))
    assert (found.questions, found.recall_at_10, found.missed) == (4, 0.625, ["door code"])
    assert 0 < found.mrr <= 0.75
    assert found.recall_at_1 <= found.recall_at_5 <= found.recall_at_10
    assert bench_recall(BenchRecallRequest(file=file, settings=store, organization="acme")).missed != ["door code"]
    assert run(["bench", "recall", str(file), store]) == 0
    assert "not found door code" in capsys.readouterr().out
    assert stored(store) == before  # not even counted as uses


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "empty"),
        ("no json", "line 1 is not JSON"),
        ('{"question": "x"}', "names no evidence"),
        ('{"question": "x", "ids": ["a"], "answer": 1}', "line 1"),
        ('{"question": "x", "ids": ["a"], "filters": {"nothing": 1}}', "filters"),
    ],
)
def test_a_file_that_is_not_right_is_refused(store: str, tmp_path: Path, text: str, wrong: str) -> None:
    file = tmp_path / "questions.jsonl"
    file.write_text(text)
    with pytest.raises(InvalidInput, match=wrong):
        bench_recall(BenchRecallRequest(file=file, settings=store))


def test_what_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no file"):
        bench_recall(BenchRecallRequest(file=tmp_path / "none.jsonl", settings=str(tmp_path / "none.db")))
    for work in (
        lambda: bench_speed(BenchSpeedRequest(settings=str(tmp_path / "none.db"))),
        lambda: run_leak_test(LeakTestRequest(settings=str(tmp_path / "none.db"))),
    ):
        with pytest.raises(recollect.RecollectError):
            work()
    assert not (tmp_path / "none.db").exists()


def test_speed_is_measured_on_a_copy(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = stored(store)
    found = bench_speed(BenchSpeedRequest(settings=store, calls=3))
    assert [(one.operation, one.calls) for one in found.times] == [("recall", 3), ("remember", 3)]
    assert all(0 < one.p50 <= one.p95 <= one.slowest for one in found.times)
    assert run(["bench", "speed", store, "--calls", "2"]) == 0
    assert "p95" in capsys.readouterr().out
    assert stored(store) == before


def test_a_copy_is_as_secret_as_the_store_and_goes_away(tmp_path: Path) -> None:
    key = tmp_path / "key"
    run(["encryption", "new-key", "--file", str(key)])
    settings: Any = {"embedder": "hash", "key_file": key}
    with recollect.open(tmp_path / "sealed.db", **settings) as mem:
        mem.remember("the harbour master is called Zanzibar")
    loaded: Any = load(str(tmp_path / "sealed.db"), key_file=str(key))
    with temporary_copy(loaded) as copy:
        place = Path(copy.store)
        assert b"Zanzibar" not in place.read_bytes()
        with recollect.open(copy.store, **settings) as mem:
            assert mem._tenant.count(Query(Memory)) == 1
    assert not place.parent.exists()


def test_a_histogram_counts_what_lies_in_each_range() -> None:
    assert histogram([1.0, 1.0, 3.0], ranges=2, width=4) == ["     1.0 ms ████ 2", "     2.0 ms ██ 1"]
    assert histogram([5.0], ranges=2, width=4) == ["     5.0 ms ████ 1", "     6.0 ms"]
