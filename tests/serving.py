"""A real service in its own process, for the tests that talk to one."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def served(folder: Path, **settings: str) -> Iterator[tuple[str, str]]:
    """Its address, and the key it showed once. Settings of the server by name: `proxies="127.0.0.1"`."""
    given = {f"RECOLLECT_SERVER__{name.upper()}": value for name, value in settings.items()}
    environment = {**os.environ, "RECOLLECT_EMBEDDER__PROVIDER": "hash", **given}
    command = [sys.executable, "-m", "recollect.interfaces.cli", "serve", "s.db", "--port", "0"]
    process = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    said = ""
    while "listens on" not in said:
        line = process.stderr.readline()
        assert line, said
        said += line
    rest = threading.Thread(target=process.stderr.read, daemon=True)
    rest.start()
    found = re.search(r"(rk\.\S+)", said), re.search(r"listens on (\S+)", said)
    assert found[0] is not None
    assert found[1] is not None
    yield found[1][1], found[0][1]
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0
    rest.join()
    process.stderr.close()
