"""A real MariaDB server for the tests, on loopback, with its own folder; started on first use, stopped at the end.

Where the program is missing, `needs_mariadb` says which tests were left out.
"""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path

import pymysql
import pytest

from postgres_server import _free_port

_PATH = "/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin:/opt/homebrew/bin"
MARIADBD = shutil.which("mariadbd", path=_PATH)
INSTALL = shutil.which("mariadb-install-db", path=_PATH)

needs_mariadb = pytest.mark.skipif(
    MARIADBD is None or INSTALL is None, reason="NOT RUN, there is no MariaDB (Debian: apt-get install mariadb-server)"
)


class MariaDb:
    def __init__(self) -> None:
        assert MARIADBD is not None
        assert INSTALL is not None
        self.port = _free_port()
        self._folder = Path(tempfile.mkdtemp(prefix="recollect-mariadb-"))
        user = _server_user()
        data = self._folder / "data"
        owner = [f"--user={user}"] if user else []
        if user:
            shutil.chown(self._folder, user)
        made = subprocess.run(
            [INSTALL, "--no-defaults", *owner, f"--datadir={data}", "--auth-root-authentication-method=normal",
             "--skip-test-db", f"--tmpdir={self._folder}"],
            capture_output=True, text=True, cwd="/",
        )  # fmt: skip
        assert made.returncode == 0, made.stderr
        self._log = (self._folder / "log").open("wb")
        self.process = subprocess.Popen(
            [MARIADBD, "--no-defaults", *owner, f"--datadir={data}", f"--port={self.port}", "--bind-address=127.0.0.1",
             f"--socket={self._folder}/s", "--skip-name-resolve", "--innodb-flush-log-at-trx-commit=0",
             "--innodb-buffer-pool-size=32M", "--performance-schema=OFF", "--character-set-server=utf8mb4"],
            stderr=self._log, stdout=self._log, cwd="/",
        )  # fmt: skip
        self._databases = 0
        self._wait()

    def admin(self, *statements: str, database: str | None = None) -> None:
        with pymysql.connect(
            unix_socket=f"{self._folder}/s", user="root", password="", database=database, charset="utf8mb4",
            autocommit=True,
        ) as connection, connection.cursor() as cursor:  # fmt: skip
            for statement in statements:
                cursor.execute(statement)

    def new_database(self, reader: str, password: str) -> str:
        """The address of a new database, with a login that may only read it."""
        self._databases += 1
        name = f"shop_{self._databases}"
        self.admin(
            f"CREATE DATABASE {name} CHARACTER SET utf8mb4",
            f"CREATE OR REPLACE USER {reader}@'127.0.0.1' IDENTIFIED BY '{password}'",
            f"GRANT SELECT ON {name}.* TO {reader}@'127.0.0.1'",
        )
        return f"mysql://{reader}@127.0.0.1:{self.port}/{name}"

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._log.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _wait(self) -> None:
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 5).close()
                return
            except OSError:
                said = (self._folder / "log").read_text()
                assert self.process.poll() is None, said
                assert time.monotonic() < deadline, said
                time.sleep(0.05)


@cache
def mariadb() -> MariaDb:
    started = MariaDb()
    atexit.register(started.stop)
    return started


def _server_user() -> str | None:
    """MariaDB refuses to run as root."""
    if os.geteuid() != 0:
        return None
    return next(user.pw_name for user in pwd.getpwall() if user.pw_name in ("mysql", "nobody"))
