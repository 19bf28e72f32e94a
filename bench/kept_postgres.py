"""A PostgreSQL server whose data stay in a folder of ours, so that a load which was killed can go on."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import psycopg

from postgres_server import Server, _free_port, _server_user

DATABASE = "year"
STOPPING_SECONDS = 120.0
# What an administrator would set on a machine of 16 GB that does nothing else.
SETTINGS = {
    "fsync": "on",
    "max_connections": "50",
    "listen_addresses": "127.0.0.1",
    "shared_buffers": "2GB",
    "maintenance_work_mem": "2GB",
    "max_wal_size": "4GB",
    "effective_cache_size": "8GB",
}


class KeptServer(Server):
    def __init__(self, folder: Path) -> None:
        self._settings = SETTINGS
        self.folder = folder
        self.user = _server_user()
        self._names = 0
        folder.mkdir(parents=True, exist_ok=True)
        if self.user is not None:
            shutil.chown(folder, self.user)
        is_new = not (folder / "data" / "PG_VERSION").exists()
        if is_new:
            shutil.rmtree(folder / "data", ignore_errors=True)  # killed while it was made
            locale = ("--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C")
            self._run("initdb", "-D", str(folder / "data"), "-U", "postgres", "-A", "trust", "-E", "UTF8", *locale)
        _stop_left_over(folder / "data")
        self.port = _free_port()
        self.start()
        if not self.admin(f"SELECT 1 FROM pg_database WHERE datname = '{DATABASE}'"):
            self.admin(f"CREATE DATABASE {DATABASE}")

    def stop(self) -> None:
        """Its data stay."""
        self.process.terminate()
        self.process.wait(120)


def _stop_left_over(data: Path) -> None:
    """The server of a run that was killed goes on without it, and lets no other at its data."""
    noted = data / "postmaster.pid"
    if not noted.exists():
        return
    process = int(noted.read_text().split()[0])
    command = Path(f"/proc/{process}/cmdline")
    if not command.exists() or str(data).encode() not in command.read_bytes():
        return
    os.kill(process, signal.SIGINT)
    deadline = time.monotonic() + STOPPING_SECONDS
    while command.exists() and command.read_bytes():  # a zombie has no command any more
        if time.monotonic() > deadline:
            raise SystemExit(f"the server of a run that was killed does not stop (process {process})")
        time.sleep(0.1)


@contextmanager
def kept(folder: Path) -> Iterator[str]:
    """The address of the database, while the server runs."""
    server = KeptServer(folder)
    try:
        yield server.address(DATABASE)
    finally:
        server.stop()


def database_bytes(address: str) -> int:
    with psycopg.connect(address, autocommit=True) as connection:
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
        assert row is not None
        return int(row[0])


def processor_seconds(folder: Path) -> float:
    """What the server and its children, also those that ended, have used of the processor."""
    first = int((folder / "data" / "postmaster.pid").read_text().split()[0])
    ticks = 0
    for found in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = found.read_text().rpartition(")")[2].split()
            if int(found.parent.name) == first:
                ticks += sum(map(int, fields[11:15]))
            elif int(fields[1]) == first:
                ticks += sum(map(int, fields[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")
