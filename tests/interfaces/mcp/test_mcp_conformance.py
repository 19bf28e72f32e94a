"""The protocol's own conformance suite against the service, for every scenario that asks for no special server."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

import recollect
from mcp_hosts import CONFORMANCE
from recollect.interfaces.serve import application
from recollect.settings import Settings

# The others call tools and prompts that only the suite's own example server has.
SCENARIOS = "server-initialize ping tools-list resources-list prompts-list dns-rebinding-protection".split()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service on a real port that puts a key on every request: the suite has no place for one."""
    with recollect.open(tmp_path_factory.mktemp("conformance") / "x.db", embedder="hash") as mem:
        mem.remember("Alice prefers pytest")
        key = mem.key.add("suite").key.encode()
        app = application(mem._core, Settings(server={"upkeep_seconds": 1e6}))

        async def keyed(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                scope = {**scope, "headers": [*scope["headers"], (b"authorization", b"Bearer " + key)]}
            await app(scope, receive, send)

        server = uvicorn.Server(uvicorn.Config(keyed, port=0, log_config=None, lifespan="on"))
        thread = threading.Thread(target=server.run)
        thread.start()
        deadline = time.monotonic() + 60
        while not server.started and time.monotonic() < deadline:
            time.sleep(0.02)
        yield f"http://localhost:{server.servers[0].sockets[0].getsockname()[1]}/mcp"
        server.should_exit = True
        thread.join()


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_scenario_of_the_suite_passes(scenario: str, address: str, tmp_path: Path) -> None:
    assert CONFORMANCE.exists(), "`make test` fetches the conformance suite"
    command = ["node", str(CONFORMANCE), "server", "--url", address, "--scenario", scenario]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 failed, 0 warnings" in done.stdout
