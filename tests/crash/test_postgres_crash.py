"""The promises about crashes and many writers, on PostgreSQL: our process killed, the server killed, the line cut.

The server of these tests syncs every commit. A crash of it (SIGQUIT: all its processes end at once, nothing is flushed)
is as near to kill -9 as one gets without leaving shared memory behind; it recovers from its log as after a power cut.
"""

from __future__ import annotations

import json
import random
import select
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import recollect
from postgres_server import Server
from recollect.errors import Unavailable

PROCESSES, THREADS = 4, 8
pytestmark = pytest.mark.together("postgres crash")


@pytest.fixture(scope="module")
def durable() -> Iterator[Server]:
    started = Server(durable=True)
    yield started
    started.stop()


@pytest.fixture
def address(durable: Server) -> str:
    return durable.new_store()


def lines_of(log: Path) -> list[str]:
    return log.read_text().split("\n")[:-1] if log.exists() else []


def test_no_acknowledged_write_is_lost_and_none_is_half_there_after_kill_9(
    address: str, tmp_path: Path, children: Any, new_ticks: Any, compare: Any, opened: Any, chance: Any, times: Any
) -> None:
    ledger, acknowledged = compare.Ledger(), 0
    for life in range(times(3)):
        log, ticks, seed = tmp_path / f"{life}.log", new_ticks(), str(chance.random())
        given = {"path": address, "log": log, "ticks": ticks.path, "life": life, "seed": seed}
        child = children.start("write", states=ledger.living(), **given)
        ticks.wait(chance.randrange(10, 40))
        select.select([], [], [], chance.uniform(0.0, 0.1))
        child.kill()
        ledger = compare.Ledger.read(lines_of(log), ledger)
        acknowledged += ledger.acknowledged
        mem = opened(address)
        compare.assert_whole(mem, ledger, chance)
        mem.close()
    assert acknowledged > 5 * times(3)


def test_no_acknowledged_write_is_lost_when_the_server_crashes(
    durable: Server, address: str, tmp_path: Path, children: Any, new_ticks: Any, compare: Any, opened: Any,
    chance: random.Random, times: Any,
) -> None:  # fmt: skip
    ledger = compare.Ledger()
    for life in range(times(2)):
        log, ticks, seed = tmp_path / f"{life}.log", new_ticks(), str(chance.random())
        given = {"path": address, "log": log, "ticks": ticks.path, "life": life, "seed": seed}
        child = children.start("write", states=ledger.living(), **given)
        ticks.wait(chance.randrange(10, 40))
        durable.restart(signal.SIGQUIT)
        child.kill()
        said = [line for line in lines_of(log) if "problem" not in json.loads(line)]
        ledger = compare.Ledger.read(said, ledger)
        mem = opened(address)
        compare.assert_whole(mem, ledger, chance)
        mem.close()


def test_writers_go_on_by_themselves_when_the_server_restarts(durable: Server, address: str, times: Any) -> None:
    """Each write happens exactly once, acknowledged or refused with a typed error that says so."""
    done, refused, go_on = [], [], threading.Event()
    with recollect.open(address, embedder="hash") as mem:

        def write(worker: int) -> None:
            number = 0
            while not go_on.is_set() or number < 5:
                text = f"anchor {worker} {number}"
                number += 1
                try:
                    done.append((mem.remember(text).id, text))
                except Unavailable:
                    refused.append(text)

        with ThreadPoolExecutor(4) as pool:
            writing = [pool.submit(write, worker) for worker in range(4)]
            for how in (signal.SIGINT, signal.SIGQUIT):
                while not done:
                    select.select([], [], [], 0.01)
                durable.restart(how)
            go_on.set()
            for one in writing:
                one.result(60)
        stored = [(line.id, line.text) for line in mem.list(limit=1000).memories]
        assert set(done) <= set(stored)
        assert len({text for _, text in stored}) == len(stored)
        assert {text for _, text in stored} <= {text for _, text in done} | set(refused)
        assert mem.verify().sound


def test_32_writers_in_4_processes_each_count_exactly_once(
    address: str, tmp_path: Path, children: Any, opened: Any, times: Any
) -> None:
    log, each = tmp_path / "log", times(1)
    mem = opened(address)
    id = mem.remember("the count is 0").id
    given = {"path": address, "log": log, "id": id, "threads": THREADS, "times": each}
    for child in [children.start("count_up", **given) for _ in range(PROCESSES)]:
        child.done()
    total = PROCESSES * THREADS * each
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    assert sorted((one["version"], one["number"]) for one in entries) == [(n + 1, n) for n in range(1, total + 1)]
    assert mem.show(id).text == f"the count is {total}"
    assert mem.verify().sound


def test_connections_cut_in_the_middle_of_writes_lose_and_double_nothing(durable: Server, address: str) -> None:
    ended = threading.Event()
    cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'recollect'"

    def cutting() -> None:
        while not ended.wait(0.05):
            durable.admin(cut)

    with recollect.open(address, embedder="hash") as mem, ThreadPoolExecutor(5) as pool:
        knife = pool.submit(cutting)
        receipts = list(pool.map(lambda n: _persistently(mem, f"anchor {n}"), range(40)))
        ended.set()
        knife.result(30)
        texts = [line.text for line in mem.list(limit=1000).memories]
        assert sorted(texts) == sorted(f"anchor {n}" for n in range(40))
        assert {receipt.id for receipt in receipts} == {line.id for line in mem.list(limit=1000).memories}


def _persistently(mem: Any, text: str) -> Any:
    """As a caller does it who gets `unavailable`: again, with the same key."""
    while True:
        try:
            return mem.remember(text, idempotency_key=text)
        except Unavailable:
            continue
