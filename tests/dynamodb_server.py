"""A real DynamoDB-compatible server for the tests: the program that `make` fetches from the npm registry.

Each test process starts its own on first use, in memory, and stops it at its end. One that cannot start fails the run.
"""

from __future__ import annotations

import atexit
import os
import socket
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path

import boto3

PROGRAM = Path(__file__).parent.parent / ".node" / "node_modules" / "@dynoxide" / "linux-x64" / "dynoxide"
# What boto3 wants to see; the server looks at none of it.
os.environ.setdefault("AWS_ACCESS_KEY_ID", "nobody")
os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "nothing")
os.environ.setdefault("AWS_EC2_METADATA_DISABLED", "true")


class Server:
    def __init__(self, database: Path | None = None) -> None:
        assert PROGRAM.is_file(), f"{PROGRAM} is not there: `make test` fetches it"
        self.port = _free_port()
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the server
        kept = ["--db-path", str(database)] if database else []
        self.process = subprocess.Popen(
            [PROGRAM, "serve", "--port", str(self.port), *kept], cwd="/", stdout=self.log, stderr=self.log
        )
        self._wait()
        self._names = 0
        self.client = boto3.client("dynamodb", endpoint_url=self.endpoint, region_name="eu-west-1")

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def address(self, table: str) -> str:
        return f"dynamodb://{table}?region=eu-west-1&endpoint={self.endpoint}"

    def new_store(self) -> str:
        """The address of a table that is not there yet."""
        self._names += 1
        return self.address(f"test-{self._names}")

    def stop(self) -> None:
        self.client.close()
        self.process.kill()  # it keeps nothing; a test process that takes long to end is killed before it can wait
        self.process.wait()
        self.log.close()

    def _wait(self) -> None:
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
                return
            except OSError:
                self.log.seek(0)
                assert self.process.poll() is None, self.log.read().decode()
                assert time.monotonic() < deadline, "the server did not start within a minute"
                time.sleep(0.02)


@cache
def dynamodb() -> Server:
    started = Server()
    atexit.register(started.stop)
    return started


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
