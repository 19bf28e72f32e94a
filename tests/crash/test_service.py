"""The service stops or dies under load: what it acknowledged is there, and what was under way can be repeated."""

from __future__ import annotations

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

import recollect
from recollect.errors import RecollectError
from serving import Running, SlowModel

WRITERS = 8


def write(url: str, key: str, writer: int, sent: list[str], acknowledged: dict[str, str]) -> None:
    """Until the service is gone: what is sent carries a key, and what is acknowledged is noted."""
    with recollect.connect(url, key) as mem:
        for number in range(10_000):
            name = f"{writer}-{number}"
            sent.append(name)
            try:
                acknowledged[name] = mem.remember(f"fact {name}", idempotency_key=name, on_duplicate="keep").id
            except RecollectError:
                return


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["kill -9", "asked to stop"])
def test_what_was_acknowledged_is_there_and_the_rest_can_be_repeated(number: int, tmp_path: Path) -> None:
    first = Running(tmp_path)
    key, sent, acknowledged = first.key, list[str](), dict[str, str]()
    with ThreadPoolExecutor(WRITERS) as pool:
        writers = [pool.submit(write, first.url, key, writer, sent, acknowledged) for writer in range(WRITERS)]
        enough = threading.Event()
        while len(acknowledged) < 60 and not all(one.done() for one in writers):
            enough.wait(0.02)
        code = first.end(number)
        for one in writers:
            one.result()
    assert code == (0 if number == signal.SIGTERM else -signal.SIGKILL)
    assert len(acknowledged) >= 60
    second = Running(tmp_path, first.port)
    assert "rk." not in second.said  # an owner is there: no key is made or shown again
    with recollect.connect(second.url, key) as mem:
        assert {name: mem.show(id).text for name, id in acknowledged.items()} == {
            name: f"fact {name}" for name in acknowledged
        }
        again = {name: repeated(mem, name) for name in sent}
        assert {name: again[name] for name in acknowledged} == acknowledged
        assert mem.list(limit=1).total == len(sent)
        assert mem.audit.verify().sound
    assert second.end(signal.SIGTERM) == 0


def repeated(mem: Any, name: str) -> str:
    id: str = mem.remember(f"fact {name}", idempotency_key=name, on_duplicate="keep").id
    return id


def test_a_service_that_is_asked_to_stop_is_not_ready_and_finishes_what_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(SlowModel()) as model:
        monkeypatch.setenv("RECOLLECT_EMBEDDER__BASE_URL", f"http://127.0.0.1:{model.server.server_port}/v1")
        monkeypatch.setenv("RECOLLECT_EMBEDDER__MODEL", "slow")
        monkeypatch.setenv("RECOLLECT_EMBEDDER__DIMENSIONS", "3")
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.setenv("RECOLLECT_SERVER__DRAIN_SECONDS", "2")
        running = Running(tmp_path, embedder="openai")
        with recollect.connect(running.url, running.key) as mem, ThreadPoolExecutor(1) as pool:
            assert httpx.get(f"{running.url}/ready").status_code == 200
            begun = pool.submit(mem.remember, "in flight when it was asked to stop")
            assert model.asked.wait(60)
            running.process.send_signal(signal.SIGTERM)
            while httpx.get(f"{running.url}/ready").status_code == 200:
                pass  # until the signal has come
            assert httpx.get(f"{running.url}/health").status_code == 200
            model.is_let_go.set()
            assert begun.result(60).id
        assert running.process.wait(60) == 0
        running.finish()
    with recollect.open(tmp_path / "s.db", embedder="hash") as mem:
        assert mem.list(limit=1).total == 1
