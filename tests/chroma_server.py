"""A real Chroma server for the tests, from the package of the registry.

Each test process starts its own on first use and stops it at its end. A server that cannot start fails the run.
"""

from __future__ import annotations

import atexit
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from functools import cache
from pathlib import Path

from postgres_server import _free_port


class ChromaServer:
    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="recollect-chroma-"))
        self.port = _free_port()
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        command: list[str | Path] = [
            Path(sys.executable).with_name("chroma"),
            "run",
            "--host",
            "127.0.0.1",
            "--port",
            str(self.port),
        ]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--path", self.folder / "data"], cwd=self.folder, stdout=log, stderr=log
            )
        deadline = time.monotonic() + 60
        while not self._answers():
            assert self.process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < deadline, "the Chroma server did not start within a minute"
            time.sleep(0.05)

    def halt(self) -> None:
        """Stop it; `start` brings it back with all it had, at the same address."""
        self.process.kill()  # asked politely, it waits for its clients to go
        self.process.wait()

    def stop(self) -> None:
        self.halt()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/api/v2/heartbeat", timeout=5):
                return True
        except (urllib.error.URLError, OSError):
            return False


@cache
def chroma() -> ChromaServer:
    started = ChromaServer()
    atexit.register(started.stop)
    return started
