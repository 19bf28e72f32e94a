"""A real PgBouncer before the PostgreSQL server of the tests: many clients on few connections, as with most providers.

Each is started by who needs it and stopped by them. Where the program is missing, `needs_pgbouncer` says which tests
were left out.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg
import pytest

from postgres_server import Server, _free_port, _server_user

PGBOUNCER = shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin:/opt/homebrew/bin")
USERS = ("postgres", "serving", "upkeep")

needs_pgbouncer = pytest.mark.skipif(
    PGBOUNCER is None, reason="NOT RUN, there is no PgBouncer (Debian: apt-get install pgbouncer)"
)


class PgBouncer:
    """`mode` is session, transaction or statement; `size`, how many connections to the server one login has."""

    def __init__(self, server: Server, mode: str = "transaction", size: int = 2) -> None:
        assert PGBOUNCER is not None
        self.port = _free_port()
        self._folder = Path(tempfile.mkdtemp(prefix="recollect-pgbouncer-"))
        user = _server_user()
        (self._folder / "users.txt").write_text("".join(f'"{name}" ""\n' for name in USERS))
        (self._folder / "pgbouncer.ini").write_text(
            f"[databases]\n* = host=127.0.0.1 port={server.port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
            f"listen_port = {self.port}\nunix_socket_dir =\nauth_type = trust\nauth_file = {self._folder}/users.txt\n"
            f"pool_mode = {mode}\ndefault_pool_size = {size}\nmax_client_conn = 200\nquery_wait_timeout = 60\n"
            "server_lifetime = 3600\n"
        )
        if user is not None:
            for path in (self._folder, *self._folder.iterdir()):
                shutil.chown(path, user)
        self._log = (self._folder / "log").open("wb")
        self.process = subprocess.Popen(
            [PGBOUNCER, "-q", str(self._folder / "pgbouncer.ini")], user=user, cwd="/", stderr=self._log
        )
        self._wait()

    def before(self, address: str) -> str:
        """The address of the same database, by way of the pooler."""
        parts = psycopg.conninfo.conninfo_to_dict(address)
        return f"postgresql://{parts['user']}@127.0.0.1:{self.port}/{parts['dbname']}"

    def stop(self) -> None:
        self.process.kill()  # at once: it would wait for its clients
        self.process.wait()
        self._log.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _wait(self) -> None:
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 5).close()
                return
            except OSError:
                said = (self._folder / "log").read_text()
                assert self.process.poll() is None, said
                assert time.monotonic() < deadline, said
                time.sleep(0.02)
