"""PostgreSQL behind a pooler (PgBouncer and its like), which lends each transaction whichever connection is free.

What one transaction leaves on its connection is found by another client: prepared statements, settings, locks of the
session. So behind a pooler nothing is prepared, settings last until the end of their transaction, and locks too. A
pooler is known by the key for cancelling that it hands out: the process it names is not the one that answers. Where
that does not tell, the address does: `?pooler=transaction`; and `?pooler=session` where each client keeps its own.
Proof: tests/adapters/records/postgres/test_postgres_pooler.py.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, Literal, cast

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from recollect.adapters.postgres.errors import recollect_error
from recollect.errors import InvalidSettings
from recollect.ports.records import Remark

POOLED = Remark(
    "pooler",
    "a pooler stands before the server: nothing is prepared, and settings and locks last as long as their transaction",
    "for backups, and to make indexes with more memory, set postgres_upkeep to the server's own address; where each "
    "client keeps its connection, add pooler=session to the address",
)
Pooling = Literal["transaction", "session", "none"]
CONNECT_SECONDS = 10  # a server that takes no call at all would be waited for two minutes
_OPTION = re.compile(r"(?<=[?&])pooler=([^&#]*)(&|(?=#)|$)")
# A plan for any tenant is a bad one for most: they differ in size by orders of magnitude. What is looked up by key
# needs no other (`by_key`), and to plan takes longer than to look: 0.7 ms for one memory in five months.
# The driver reads moments in the session's zone, and the year 1 in a zone west of Greenwich is no moment to it.
# On a Citus cluster, the tenant that SET LOCAL binds must reach the workers; elsewhere that setting means nothing.
FOR_THE_SESSION = (
    "SET TimeZone = 'UTC'; SET DateStyle = 'ISO'; SET client_min_messages = warning; SET extra_float_digits = 1; "
    "SET plan_cache_mode = force_custom_plan; SET citus.propagate_set_commands = 'local'"
)
# The same for one transaction; what is not prepared is planned for its values in any case.
FOR_THE_TRANSACTION = (
    "SET LOCAL citus.propagate_set_commands = 'local'",
    "SET LOCAL TimeZone = 'UTC'",
    "SET LOCAL DateStyle = 'ISO'",
    "SET LOCAL extra_float_digits = 1",
)
AMONG_OTHERS = (
    ", set_config('TimeZone', 'UTC', true), set_config('DateStyle', 'ISO', true), "
    "set_config('extra_float_digits', '1', true)"
)


def read_address(address: str) -> tuple[str, str, Pooling | None]:
    """What the driver takes, what is shown to people, and which pooler the address names."""
    named = _OPTION.search(address)
    pooling = named[1] if named else None
    if pooling not in (None, "transaction", "session", "none"):
        raise InvalidSettings(
            "the address names a pooler of an unknown kind",
            remedy="write pooler=transaction, pooler=session or pooler=none; statement mode cannot hold a transaction",
        )
    try:
        plain = _OPTION.sub("", address).rstrip("?&") if named else address
        parts = conninfo_to_dict(plain)
        waiting = {"connect_timeout": parts.get("connect_timeout") or CONNECT_SECONDS}
        conninfo = make_conninfo(plain, application_name=parts.get("application_name") or "recollect", **waiting)
    except psycopg.ProgrammingError:
        # Not the driver's own message: it may repeat a part of the address, and the password with it.
        raise InvalidSettings(
            "that is not the address of a PostgreSQL database", remedy="write postgresql://user@host:5432/database"
        ) from None
    where = parts.get("host") or parts.get("hostaddr") or "localhost"
    label = f"PostgreSQL database '{parts.get('dbname') or parts.get('user') or ''}' at {where}"
    return conninfo, label, cast(Pooling | None, pooling)


def is_between(connection: psycopg.Connection[Any]) -> bool:
    """Whether what answers is another process than the one that the line was said to lead to."""
    answering = connection.execute("SELECT pg_backend_pid()", prepare=False).fetchall()[0][0]
    return bool(answering != connection.info.backend_pid)


def refuse_statement_mode(connection: psycopg.Connection[Any], label: str) -> None:
    """A pooler that takes the connection back after each statement lets none begin a transaction."""
    try:
        connection.execute("BEGIN", prepare=False)
        connection.execute("COMMIT", prepare=False)
    except psycopg.errors.ProtocolViolation as error:
        raise recollect_error(error, label) from None


def share(connection: psycopg.Connection[Any]) -> None:
    """Use a connection whose other end others use, too."""
    connection.prepare_threshold = None
    connection.adapters.register_loader("timestamptz", _AnyZone)


class _AnyZone(Loader):
    """Moments as they are written, whatever zone the driver takes the session to be in."""

    def load(self, data: Buffer) -> datetime:
        return datetime.fromisoformat(bytes(data).decode())
