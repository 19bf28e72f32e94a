"""Several processes on one file: no update is lost, nothing is stored twice, all see at once what was acknowledged.

The bar: 32 writers with versions, 0 anomalies.
"""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.domain.memory import Memory
from recollect.domain.tenancy import User
from recollect.errors import DuplicateKey, VersionConflict
from recollect.ports.query import Query
from recollect.ports.steps import Insert

PROCESSES, THREADS = 4, 8


def entries(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_32_writers_in_4_processes_each_count_exactly_once(
    tmp_path: Path, children: Any, opened: Any, times: Any
) -> None:
    path, log, each = tmp_path / "shared.db", tmp_path / "log", times(2)
    mem = opened(path)
    id = mem.remember("the count is 0").id
    given = {"path": path, "log": log, "id": id, "threads": THREADS, "times": each}
    for child in [children.start("count_up", **given) for _ in range(PROCESSES)]:
        child.done()
    total = PROCESSES * THREADS * each
    assert sorted((one["version"], one["number"]) for one in entries(log)) == [(n + 1, n) for n in range(1, total + 1)]
    assert mem.show(id).text == f"the count is {total}"
    assert [entry.text for entry in mem.history(id).entries] == [f"the count is {n}" for n in range(total + 1)]
    assert mem.verify().sound


def test_every_report_of_4_processes_counts_once(tmp_path: Path, children: Any, opened: Any, times: Any) -> None:
    path, log, each = tmp_path / "shared.db", tmp_path / "log", times(2)
    mem = opened(path)
    id = mem.remember({"problem_space": "paint", "solution_template": "brush"}, kind="pattern").id
    for _ in range(12):  # so that a few failures at first do not archive it
        mem.pattern.report(mem.pattern.apply(id).application, success=True)
    given = {"path": path, "log": log, "pattern": id, "threads": THREADS, "times": each}
    for child in [children.start("report_uses", **given) for _ in range(PROCESSES)]:
        child.done()
    told = entries(log)
    assert [one["repeated"] for one in told] == [[False, True]] * (PROCESSES * THREADS * each)
    worked = sum(one["success"] for one in told)
    rate = mem.pattern.show(id).rate
    assert (rate.successes, rate.failures) == (12 + worked, len(told) - worked)
    assert mem.verify().sound


def test_a_receipt_tells_the_version_that_its_own_write_made(tmp_path: Path, opened: Any) -> None:
    mem = opened(tmp_path / "shared.db")
    id = mem.remember("the count is 0").id
    barrier, receipts = threading.Barrier(THREADS), []

    def revise(number: int) -> None:
        barrier.wait()
        for turn in range(5):
            try:
                receipts.append((mem.revise(id, f"by {number} in turn {turn}"), f"by {number} in turn {turn}"))
            except VersionConflict:
                continue

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(revise, range(THREADS)))
    texts = {entry.number: entry.text for entry in mem.history(id).entries}
    assert {receipt.version: text for receipt, text in receipts} == {n: text for n, text in texts.items() if n > 1}
    assert len({receipt.version for receipt, _ in receipts}) == len(receipts)


def test_tags_too_are_changed_only_on_the_version_that_was_read(tmp_path: Path, opened: Any) -> None:
    mem = opened(tmp_path / "shared.db")
    receipt = mem.remember("tagged", tags=["old"])
    mem.revise(receipt.id, "changed meanwhile")
    with pytest.raises(VersionConflict):
        mem.revise(receipt.id, tags=["new"], version=receipt.version)
    assert mem.show(receipt.id).tags == ["old"]
    assert mem.revise(receipt.id, tags=["new"], version=2).version == 2
    assert mem.show(receipt.id).tags == ["new"]


def test_what_4_processes_remember_is_all_there(
    tmp_path: Path, children: Any, new_gate: Any, new_ticks: Any, opened: Any, compare: Any, times: Any
) -> None:
    path, log, gate, ticks = tmp_path / "shared.db", tmp_path / "log", new_gate(), new_ticks()
    mem, started = opened(path), []
    for number in range(PROCESSES):
        texts = [f"anchor p{number}n{n}" for n in range(times(15))]
        given = {"path": path, "log": log, "gate": gate.path, "ticks": ticks.path, "name": f"p{number}", "key": None}
        started.append(children.start("remember_some", texts=texts, **given))
    ticks.wait(PROCESSES)
    gate.open()
    for child in started:
        child.done()
    acknowledged = {entry["id"]: entry["text"] for entry in entries(log)}
    assert len(acknowledged) == PROCESSES * times(15)
    stored = mem._core.store.select(mem._scope, Query(Memory), ("id", "text"))
    assert dict(stored) == acknowledged
    compare.assert_indexes_equal_records(mem, set(acknowledged))
    seqs = [change.seq for change in mem._core.store.changes(mem._scope, 0, 1_000_000)]
    assert seqs == sorted(set(seqs))


def test_a_key_raced_by_processes_makes_one_memory_with_the_tags_of_all(
    tmp_path: Path, children: Any, new_gate: Any, new_ticks: Any, opened: Any, times: Any
) -> None:
    path, log, gate, ticks = tmp_path / "shared.db", tmp_path / "log", new_gate(), new_ticks()
    mem, texts = opened(path), [f"anchor raced {n}" for n in range(times(10))]
    given = {"path": path, "log": log, "gate": gate.path, "ticks": ticks.path, "texts": texts, "key": "raced"}
    names = [f"p{number}" for number in range(PROCESSES)]
    started = [children.start("remember_some", name=name, **given) for name in names]
    ticks.wait(PROCESSES)
    gate.open()
    for child in started:
        child.done()
    assert one_memory_each(entries(log), texts, PROCESSES)
    for id in {entry["id"] for entry in entries(log)}:
        assert mem.show(id).tags == names
    assert mem.verify().sound


def one_memory_each(receipts: list[dict[str, Any]], texts: list[str], racers: int) -> bool:
    ids = {text: {one["id"] for one in receipts if one["text"] == text} for text in texts}
    first = Counter(one["text"] for one in receipts if not one["duplicate"])
    return len(receipts) == racers * len(texts) and all(len(ids[text]) == first[text] == 1 for text in texts)


def test_who_is_refused_because_of_another_in_the_same_commit_finds_that_one_there(tmp_path: Path, opened: Any) -> None:
    mem = opened(tmp_path / "shared.db")
    store, scope, held, go_on = mem._core.store, mem._scope, threading.Event(), threading.Event()

    def hold() -> None:
        held.set()
        assert go_on.wait(30)

    def add() -> bool:
        """Whether it is there, once it was added or refused."""
        with contextlib.suppress(DuplicateKey):
            store.transact(scope, [Insert(User(organization_id="default", id="carol", name="Carol"))])
        return store.get(scope, User, "carol") is not None

    with ThreadPoolExecutor(THREADS + 1) as pool:
        pool.submit(store._writer.run, hold)
        assert held.wait(30)  # what is asked for from now on goes into one commit
        adding = [pool.submit(add) for _ in range(THREADS)]
        while store._writer._waiting.qsize() < THREADS:
            threading.Event().wait(0.001)
        go_on.set()
        assert all(one.result() for one in adding)


@pytest.mark.parametrize("key", ["raced", None])
def test_a_memory_raced_by_threads_is_stored_once(tmp_path: Path, opened: Any, times: Any, key: str | None) -> None:
    mem, texts, receipts = opened(tmp_path / "shared.db"), [f"anchor raced {n}" for n in range(times(10))], []
    barrier = threading.Barrier(THREADS)

    def race(number: int) -> None:
        for text in texts:
            barrier.wait()
            receipt = mem.remember(text, tags=["t", f"t{number}"], **({"idempotency_key": text} if key else {}))
            receipts.append({"id": receipt.id, "text": text, "duplicate": receipt.duplicate})

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(race, range(THREADS)))
    assert one_memory_each(receipts, texts, THREADS)
    assert mem.verify().sound


def test_another_process_recalls_at_once_what_was_acknowledged(
    tmp_path: Path, children: Any, new_gate: Any, new_ticks: Any, opened: Any, times: Any
) -> None:
    path, orders, answers = tmp_path / "shared.db", new_gate(), new_ticks()
    mem = opened(path)
    children.start("answer", path=path, orders=orders.path, answers=answers.path)

    def asked(question: str) -> list[str]:
        orders.write(question + "\n")
        return list(json.loads(answers.line()))

    for number in range(times(10)):
        word, other = f"anchor{number}q", f"grapnel{number}q"
        id = mem.remember(f"the word is {word}").id
        assert asked(f"what about {word}?")[0] == f"the word is {word}"
        mem.revise(id, f"now it is {other}")
        assert asked(f"what about {other}?")[0] == f"now it is {other}"
        mem.forget(id)
        assert f"now it is {other}" not in asked(f"what about {other}?")


def test_processes_that_open_a_new_file_at_the_same_moment_all_work(
    tmp_path: Path, children: Any, new_gate: Any, new_ticks: Any, opened: Any, times: Any
) -> None:
    for turn in range(times(3)):
        path, gate, ticks = tmp_path / f"{turn}.db", new_gate(), new_ticks()
        given = {"path": path, "gate": gate.path, "ticks": ticks.path}
        started = [children.start("open_at_once", name=f"p{number}", **given) for number in range(PROCESSES)]
        ticks.wait(PROCESSES)
        gate.open()
        for child in started:
            child.done()
        mem = opened(path)
        assert sorted(line.text for line in mem.list().memories) == [f"anchor p{n} was here" for n in range(PROCESSES)]
        assert mem.doctor().well
        mem.close()


def test_a_killed_process_does_not_hold_the_others_up(
    tmp_path: Path, children: Any, new_ticks: Any, compare: Any, opened: Any, chance: random.Random, times: Any
) -> None:
    path, ledger = tmp_path / "shared.db", compare.Ledger()
    opened(path).close()
    logs, ticks = [tmp_path / "0.log", tmp_path / "1.log"], [new_ticks(), new_ticks()]
    given = {"path": path, "seed": str(chance.random()), "states": {}, "count": 2}
    first, second = (children.start("write", log=logs[n], ticks=ticks[n].path, life=n, **given) for n in range(2))
    ticks[0].wait(60)
    ticks[1].wait(60)
    first.kill()
    assert ticks[1].wait(times(60)) == b"." * times(60)
    second.kill()
    for log in logs:
        for line in log.read_text().split("\n")[:-1]:
            ledger.enter(json.loads(line))
    compare.assert_whole(opened(path), ledger, chance)


def test_a_backup_taken_while_others_write_holds_all_that_was_acknowledged_before(
    tmp_path: Path, children: Any, new_ticks: Any, compare: Any, opened: Any, chance: random.Random, times: Any
) -> None:
    path, log, ticks = tmp_path / "shared.db", tmp_path / "log", new_ticks()
    mem = opened(path)
    child = children.start("write", path=path, log=log, ticks=ticks.path, life=0, seed=str(chance.random()), states={})
    for turn in range(times(3)):
        ticks.wait(30)
        before = compare.Ledger.read(log.read_text().split("\n")[:-1])
        target = tmp_path / f"backup-{turn}.db"
        mem.backup(str(target))
        with recollect.open(target, embedder="hash") as copy:
            seen, erased = compare.witnessed(copy)
            living = {id for id, state in seen.items() if not state["deleted"]}
            compare.assert_indexes_equal_records(copy, living)
        for id, state in before.states.items():
            assert id in erased if state is None or id not in seen else seen[id]["version"] >= state["version"]
        target.unlink()
        shutil.rmtree(f"{target}.index", ignore_errors=True)
    child.kill()
