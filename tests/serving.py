"""A real service in its own process or processes, for the tests that talk to one."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@contextmanager
def served(folder: Path, *, python: str = sys.executable, **settings: str) -> Iterator[tuple[str, str]]:
    """Its address, and the key it showed once. Settings of the server by name: `proxies="127.0.0.1"`."""
    given = {f"RECOLLECT_SERVER__{name.upper()}": value for name, value in settings.items()}
    environment = {**os.environ, "RECOLLECT_EMBEDDER__PROVIDER": "hash", **given}
    command = [python, "-m", "recollect", "serve", "s.db", "--port", "0"]
    process = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    said = ""
    while "listens on" not in said:
        line = process.stderr.readline()
        assert line, said
        said += line
    rest = threading.Thread(target=process.stderr.read, daemon=True)
    rest.start()
    found = re.search(r"listens on (\S+)", said)
    assert found is not None
    yield found[1], (folder / "s.db.owner-key").read_text().strip()
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    rest.join()
    process.stderr.close()


class Running:
    """A service in a process of its own, on one store and one port; settings are named as in the environment."""

    def __init__(
        self,
        folder: Path,
        port: int = 0,
        embedder: str = "hash",
        workers: int = 1,
        source: str = "s.db",
        **settings: str,
    ) -> None:
        given = {f"RECOLLECT_{name.upper()}": value for name, value in settings.items()}
        environment = {**os.environ, "RECOLLECT_EMBEDDER__PROVIDER": embedder, "PYTHONUNBUFFERED": "1", **given}
        command = [sys.executable, "-m", "recollect", "serve", source, "--port", str(port)]
        command += ["--workers", str(workers)] if workers > 1 else []
        self.folder = folder
        self.process = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)
        self.said = ""
        assert self.process.stderr is not None
        while "listens on" not in self.said:
            line = self.process.stderr.readline()
            if not line:
                self.process.wait()
                self.process.stderr.close()
                raise AssertionError(self.said)
            self.said += line
        self.url = re.findall(r"listens on (\S+)", self.said)[0]
        self.port = int(self.url.rpartition(":")[2])
        self._rest = threading.Thread(target=self._hear, daemon=True)
        self._rest.start()

    def _hear(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line

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
