"""The service stops or dies under load: what it acknowledged is there, and what was under way can be repeated."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

import recollect
from recollect.errors import RecollectError

WRITERS = 8


class Running:
    """A service in a process of its own, on one store and one port."""

    def __init__(self, folder: Path, port: int = 0, embedder: str = "hash") -> None:
        environment = {**os.environ, "RECOLLECT_EMBEDDER__PROVIDER": embedder, "PYTHONUNBUFFERED": "1"}
        command = [sys.executable, "-m", "recollect", "serve", "s.db", "--port", str(port)]
        self.folder = folder
        self.process = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)
        said = ""
        assert self.process.stderr is not None
        while "listens on" not in said:
            line = self.process.stderr.readline()
            assert line, said
            said += line
        self.said = said
        self.url = re.findall(r"listens on (\S+)", said)[0]
        self.port = int(self.url.rpartition(":")[2])
        self._rest = threading.Thread(target=self.process.stderr.read, daemon=True)
        self._rest.start()

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        code = self.process.wait(60)
        self.finish()
        return code

    def finish(self) -> None:
        """What a process that has ended left open."""
        self._rest.join()
        assert self.process.stderr is not None
        self.process.stderr.close()

    @property
    def key(self) -> str:
        return (self.folder / "s.db.owner-key").read_text().strip()


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


class SlowModel:
    """An endpoint for embeddings that answers when it is let go."""

    def __init__(self) -> None:
        self.asked, self.is_let_go = threading.Event(), threading.Event()
        slow = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                texts = json.loads(self.rfile.read(int(self.headers["content-length"])))["input"]
                slow.asked.set()
                slow.is_let_go.wait(60)
                found = [{"index": place, "embedding": [1.0, 0.5, 0.25]} for place in range(len(texts))]
                body = json.dumps({"data": found, "model": "slow"}).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *given: object) -> None:
                """Nobody reads it."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self.server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self.is_let_go.set()
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()


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
