"""An erasure that could not be finished is told as it is, owed, shown, and finished."""

from __future__ import annotations

import ast
import gc
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import recollect
import recollect.services
from every_store import EMPTY_STORE, EVERY_STORE
from recollect.adapters.vectors.embedded.segment import open_segment
from recollect.domain.audit import Erasure
from recollect.domain.text import questions, tokenizer
from recollect.errors import NotFound, StoreFull
from recollect.ports.query import Query
from recollect.services.erasure import owed
from recollect.testing.statements import sqlite_statements

MARK = "xyzzyplugh"


def fails(mem: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """The store cannot overwrite anything until told otherwise."""
    store = mem._core.store
    original = store.erase_traces

    def full() -> None:
        raise StoreFull("no space left", remedy="free some disk space; nothing was half written")

    monkeypatch.setattr(store, "erase_traces", full)
    return lambda: monkeypatch.setattr(store, "erase_traces", original)


def erased_in_vain(mem: Any, id: str) -> None:
    with pytest.raises(StoreFull) as caught:
        mem.erase(id)
    assert "is deleted" in caught.value.message
    assert "traces" in caught.value.message
    assert "half written" not in str(caught.value)
    assert mem.stats().erasures_owed == 1
    assert "erasure" in {one.name for one in mem.doctor().findings if not one.well}


FINISHERS: dict[str, Callable[[Any, str], object]] = {
    "erase": lambda mem, id: mem.erase(id),
    "sweep": lambda mem, id: mem.sweep(),
    "doctor": lambda mem, id: mem.doctor(fix=True),
}


@pytest.mark.parametrize("how", FINISHERS)
@pytest.mark.parametrize("kind", EVERY_STORE)
def test_what_is_owed_is_said_and_finished(
    kind: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with recollect.open(EMPTY_STORE[kind](tmp_path), embedder="hash") as mem:
        id = mem.remember(f"the secret is {MARK}").id
        there_is_room = fails(mem, monkeypatch)
        erased_in_vain(mem, id)
        assert MARK not in str(mem._core.store.find(mem._scope, Query(Erasure)).records)
        there_is_room()
        FINISHERS[how](mem, id)
        assert mem.stats().erasures_owed == 0
        assert mem.doctor().well
        with pytest.raises(NotFound):
            mem.erase(id)
    if kind in ("sqlite", "duckdb"):
        left = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
        assert MARK.encode() not in left


def test_what_a_store_finishes_later_is_said_and_owed_until_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with recollect.open(tmp_path / "a.db", embedder="hash") as mem:
        id, store = mem.remember(f"the secret is {MARK}").id, mem._core.store
        with monkeypatch.context() as later:
            later.setattr(store, "erase_traces", lambda: ["the server is still at it"])
            assert mem.erase(id).notes == ["the server is still at it"]
            assert mem.sweep().notes == ["the server is still at it"]
            assert mem.stats().erasures_owed == 1
        assert mem.sweep().notes == []
        assert mem.stats().erasures_owed == 0


def test_what_is_owed_is_finished_when_the_store_is_next_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with recollect.open(tmp_path / "a.db", embedder="hash") as mem:
        id = mem.remember(f"the secret is {MARK}").id
        fails(mem, monkeypatch)
        erased_in_vain(mem, id)
    with recollect.open(tmp_path / "a.db", embedder="hash") as mem:
        assert owed(mem._tenant) == 0


def test_a_process_that_is_killed_between_deleting_and_overwriting_owes_it(tmp_path: Path) -> None:
    body = f"""
        import os, sys, recollect
        mem = recollect.open(sys.argv[1], embedder="hash")
        id = mem.remember("the secret is {MARK}").id
        mem._core.store.erase_traces = lambda: os.kill(os.getpid(), 9)
        mem.erase(id)
    """
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(body), str(tmp_path / "a.db")]
    assert subprocess.run(command, timeout=60, check=False).returncode == -9
    assert MARK.encode() in (tmp_path / "a.db-wal").read_bytes()
    with recollect.open(tmp_path / "a.db", embedder="hash") as mem:
        assert owed(mem._tenant) == 0
        left = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
        assert MARK.encode() not in left


def test_whoever_overwrites_traces_has_noted_what_is_owed() -> None:
    checked = 0
    for file in sorted(Path(recollect.services.__path__[0]).rglob("*.py")):
        for function in ast.walk(ast.parse(file.read_text())):
            if not isinstance(function, ast.FunctionDef) or file.name == "erasure.py":
                continue
            called = {name for call in ast.walk(function) for name in _called(call)}
            if "erase_traces" in called:
                assert called & {"owing", "erase_all"}, f"{file.name}: {function.name}"
                checked += 1
    assert checked >= 9


def _called(node: ast.AST) -> set[str]:
    return {node.func.id} if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else set()


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_items_whose_time_is_up_leave_no_trace_when_they_are_swept(kind: str, tmp_path: Path) -> None:
    address = str(tmp_path / "a.db") if kind == "sqlite" else f"duckdb:///{tmp_path}/a.duckdb"
    mem: Any = recollect.open(address, embedder="hash")
    with mem:
        mem.item.put(["notes"], "code", value={"text": "the secret is xyzzy"}, ttl_minutes=0.0001)
        mem.item.put(["notes"], "other", value={"text": "the harbour"})
        time.sleep(0.02)
        assert mem.item.sweep().expired == 1
        left = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert b"xyzzy" not in left
    assert b"harbour" in left


def test_swept_items_whose_traces_could_not_be_overwritten_stay_owed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mem: Any = recollect.open(tmp_path / "a.db", embedder="hash")
    with mem:
        mem.item.put(["notes"], "code", value={"text": "the secret is xyzzy"}, ttl_minutes=0.0001)
        time.sleep(0.02)
        mend = fails(mem, monkeypatch)
        with pytest.raises(StoreFull, match="traces"):
            mem.item.sweep()
        assert owed(mem._tenant) == 1
        mend()
        mem.sweep()
        assert owed(mem._tenant) == 0


def test_what_had_no_vector_is_erased_without_reading_the_index_of_the_others(tmp_path: Path) -> None:
    """Their number tells that all are alive; where one is not, the segment is written anew without it."""
    vectors = {f"m{number}": [1.0, float(number)] for number in range(5)}
    with sqlite_statements() as seen, recollect.open(tmp_path / "s.db", embedder="none") as mem:
        for id, vector in vectors.items():
            mem.remember(f"memory {id}", id=id, vector=vector, vector_model="own")
        mem.remember("without a vector", id="plain")
        mem.reindex()
        mem._core.vectors.refresh()
        seen.clear()
        mem.erase("plain")
        named = "SELECT _seq FROM embedding WHERE _seq >"
        assert not [statement for statement in seen if statement.startswith(named)]
        mem.erase("m3")
        assert [statement for statement in seen if statement.startswith(named)]
    (segment,) = (tmp_path / "s.db.index").glob("*.seg")
    assert open_segment(segment).rows == 4


def test_no_short_text_or_name_that_is_erased_stays_in_the_process(tmp_path: Path) -> None:
    """Their words are remembered for a while: many memories have the same author and day."""
    with recollect.open(tmp_path / "a.db", embedder="hash", background=False) as mem:
        id = mem.remember("PIN of Ann is 4711", author="Zanzibar Marker").id
        mem.recall("what did Zanzibar Marker say of the PIN?")
        assert left_of_texts()
        mem.erase(id)
    assert not left_of_texts()


def left_of_texts() -> list[str]:
    caches = (tokenizer._terms_of_short, questions._spellings_of_name)
    held = [one for cache in caches for one in gc.get_referents(cache) if isinstance(one, dict)]
    return [str(key) for one in held for key in one if "4711" in str(key) or "Zanzibar" in str(key)]
