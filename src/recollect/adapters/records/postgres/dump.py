"""PostgreSQL's own programs, for backup and restore: found, checked against the server, run without a secret in sight.

The address goes to them through the environment: every user of a machine can read another's arguments. What they say
may hold names of the database's objects, so only the first line of it is passed on.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from recollect.adapters.atomic_file import atomic_path
from recollect.adapters.postgres.connection import Database
from recollect.adapters.records.postgres.schema import make_roles
from recollect.errors import DamagedData, InvalidInput, StoreError, Unsupported
from recollect.ports.folders import make_private

MAGIC = b"PGDMP"
_ENVIRONMENT = {
    "host": "PGHOST",
    "hostaddr": "PGHOSTADDR",
    "port": "PGPORT",
    "dbname": "PGDATABASE",
    "user": "PGUSER",
    "password": "PGPASSWORD",
    "passfile": "PGPASSFILE",
    "sslmode": "PGSSLMODE",
    "sslrootcert": "PGSSLROOTCERT",
    "sslcert": "PGSSLCERT",
    "sslkey": "PGSSLKEY",
    "service": "PGSERVICE",
    "options": "PGOPTIONS",
}


def dump(database: Database, target: Path, folder: Path | None = None) -> None:
    """As of one moment, under another name until it is complete."""
    if target.exists():
        raise InvalidInput(f"'{target}' already exists", remedy="give a path that is not taken")
    tool = _tool("pg_dump", folder)
    _check_version(tool, database)
    with atomic_path(target) as temporary:
        make_private(temporary)
        ran = _run(database, tool, "--format=custom", "--no-password", f"--file={temporary}")
        if ran.returncode != 0:
            raise StoreError(
                f"pg_dump could not back up {database.label}: {_first_line(ran)}",
                remedy="its user must be an administrator or have BYPASSRLS, and the folder must be writable",
            )


def restore(database: Database, source: Path, folder: Path | None = None) -> None:
    """Into an empty database, all of it or nothing."""
    tool = _tool("pg_restore", folder)
    connection = database.connect()
    try:
        with database.translated_errors():
            _refuse_pooler(database)
            taken = connection.execute(
                "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
                "WHERE n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema' AND c.relkind IN ('r', 'p')"
            ).fetchall()[0][0]
            if taken:
                raise InvalidInput(
                    f"{database.label} is not empty: it has {taken} tables", remedy="make an empty one: createdb NAME"
                )
            make_roles(connection)
    finally:
        connection.close()
    name = str(conninfo_to_dict(database.conninfo).get("dbname") or "")
    options = (
        "--single-transaction",
        "--exit-on-error",
        "--no-owner",
        "--no-password",
        f"--dbname={make_conninfo(dbname=name)}",
    )
    ran = _run(database, tool, *options, str(source))
    if ran.returncode != 0:
        raise DamagedData(
            f"pg_restore could not read '{source.name}' into {database.label}: {_first_line(ran)}",
            remedy="nothing was restored; give a whole backup, and a pg_restore as new as the pg_dump that made it",
        )


def _refuse_pooler(database: Database) -> None:
    """These programs set the search path and more for their session, which a pooler would hand on to other clients."""
    if database.is_pooled:
        raise Unsupported(
            f"{database.label} is behind a pooler, through which PostgreSQL's programs cannot work",
            remedy="set postgres_upkeep to the server's own address, add pooler=session to this one if each client "
            "keeps its connection there, or use `export` and `import`",
        )


def _tool(name: str, folder: Path | None) -> str:
    found = shutil.which(name, path=str(folder) if folder else None)
    if found is None:
        raise Unsupported(
            f"{name} was not found",
            remedy="install the PostgreSQL client tools, set postgres_tools to their folder, or use `export`",
        )
    return found


def _check_version(tool: str, database: Database) -> None:
    """An older pg_dump refuses a newer server, in words that help nobody."""
    said = subprocess.run([tool, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"(\d+)(?:\.\d+|devel|beta|rc)", said)
    connection = database.connect()
    try:
        _refuse_pooler(database)
        server = connection.info.server_version // 10_000
    finally:
        connection.close()
    if found and int(found[1]) < server:
        raise Unsupported(
            f"pg_dump {found[1]} is older than {database.label}, which is PostgreSQL {server}",
            remedy=f"install the client tools of PostgreSQL {server} or newer, and set postgres_tools to their folder",
        )


def _run(database: Database, tool: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([tool, *arguments], env=_surroundings(database.conninfo), capture_output=True, check=False)


def _surroundings(conninfo: str) -> Mapping[str, str]:
    parts = {name: str(value) for name, value in conninfo_to_dict(conninfo).items() if value is not None}
    return {**os.environ, **{_ENVIRONMENT[name]: parts[name] for name in parts if name in _ENVIRONMENT}}


def _first_line(ran: subprocess.CompletedProcess[bytes]) -> str:
    lines = ran.stderr.decode(errors="replace").splitlines()
    return lines[0][:200] if lines else f"it ended with {ran.returncode}"
