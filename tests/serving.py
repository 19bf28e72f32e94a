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
    command = [sys.executable, "-m", "recollect", "serve", "s.db", "--port", "0"]
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
    assert process.wait(20) == 0
    rest.join()
    process.stderr.close()
