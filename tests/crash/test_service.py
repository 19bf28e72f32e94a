"""The service stops or dies under load: what it acknowledged is there, and what was under way can be repeated."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.errors import RecollectError

WRITERS = 8


class Running:
    """A service in a process of its own, on one store and one port."""

    def __init__(self, folder: Path, port: int = 0) -> None:
        environment = {**os.environ, "RECOLLECT_EMBEDDER__PROVIDER": "hash", "PYTHONUNBUFFERED": "1"}
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
        self._rest.join()
        assert self.process.stderr is not None
        self.process.stderr.close()
        return code

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
