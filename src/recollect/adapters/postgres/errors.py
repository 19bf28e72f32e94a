"""What PostgreSQL, a worker of its cluster or a pooler before it, says went wrong, in our own words."""

from __future__ import annotations

import re

import psycopg
from psycopg_pool import PoolClosed, PoolTimeout

from recollect.domain.record import RECORDS
from recollect.errors import (
    Closed,
    DamagedData,
    DuplicateKey,
    InvalidInput,
    InvalidSettings,
    RecollectError,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreReadOnly,
    Unavailable,
)

SAID_BY_A_POOLER = "08P01"  # whatever it is: only the words tell
# Citus passes on what a worker says, and says of whom; of a worker that does not answer it tells in words of its own.
_ON_A_WORKER = re.compile(r"while executing command on (\S+:\d+)")
_NO_WORKER = re.compile(r"connection to the remote node (?:\S+@)?(\S+:\d+) failed")
_SHARD = re.compile(r"_\d{5,}$")


def recollect_error(error: Exception, label: str) -> RecollectError:
    """Never the driver's own words: they may hold stored text, or the address."""
    if isinstance(error, PoolClosed):
        return Closed("this store is closed", remedy="open it again")
    if isinstance(error, PoolTimeout):
        return Unavailable(
            f"no connection to {label} became available", remedy="check the server, or try again in a moment"
        )
    if isinstance(error, psycopg.errors.UniqueViolation):
        return _duplicate(error)
    state = getattr(error, "sqlstate", None)
    if isinstance(error, psycopg.Error) and state is not None and (worker := _worker(error)):
        return _failed_worker(state, f"{label} (worker {worker})")
    if state is None and isinstance(error, psycopg.DataError):
        return InvalidInput(f"a value does not fit into {label}")
    if state is None or state == SAID_BY_A_POOLER:
        return _unreached(str(error).lower(), label)
    return _meaning(state, label, type(error).__name__)


def _meaning(state: str, label: str, name: str) -> RecollectError:
    for beginning, kind, what, remedy in _MEANINGS:
        if state.startswith(beginning):
            return kind(f"{label} {what}", remedy=remedy, sqlstate=state)
    return StoreError(f"{label} refused a statement ({name}, {state})", sqlstate=state)


def _worker(error: psycopg.Error) -> str | None:
    """Which machine of a cluster an error is about, if it is about one."""
    found = _ON_A_WORKER.search(error.diag.context or "") or _NO_WORKER.search(error.diag.message_primary or "")
    return found[1] if found else None


def _failed_worker(state: str, label: str) -> RecollectError:
    """A worker that cannot be reached, or has an error of its own, does not make the store a damaged one."""
    if state.startswith(("08", "57P", "28")):
        return Unavailable(f"{label} cannot be reached", remedy="start it; `recollect doctor` asks every machine")
    if state.startswith("XX"):
        return StoreError(f"{label} had an error of its own", remedy="look into that machine's log", sqlstate=state)
    return _meaning(state, label, "on a worker")


_FORGOT = "has mixed up the statements of its clients: a pooler lends its connections by the transaction"
_NAME_THE_POOLER = "say so in the address: postgresql://…?pooler=transaction"
_MEANINGS: tuple[tuple[str, type[RecollectError], str, str], ...] = (
    ("40", StoreBusy, "is busy: other writers kept getting in the way", "try again in a moment"),
    ("55P03", StoreBusy, "is busy: another writer did not finish", "try again in a moment"),
    ("57014", StoreBusy, "did not answer in time", "try again in a moment"),
    ("53100", StoreFull, "has no space left", "free some disk space; nothing was half written"),
    ("53300", StoreBusy, "has no connection left", "raise max_connections, or close other programs"),
    ("53", StoreError, "has run out of a resource", "look into the server's log"),
    ("25006", StoreReadOnly, "cannot be written", "give the address of the primary server"),
    ("42501", StoreReadOnly, "does not let this user do that", "grant the user what docs/guides/postgresql.md names"),
    ("28", Unavailable, "refused the login", "check user and password of the address"),
    ("3D", Unavailable, "does not exist", "create it: createdb NAME"),
    ("26000", StoreError, _FORGOT, _NAME_THE_POOLER),
    ("42P05", StoreError, _FORGOT, _NAME_THE_POOLER),
    ("22", InvalidInput, "cannot hold such a value", "see docs/reference/records.md"),
    ("54", InvalidInput, "cannot hold a value as large", "give less"),
    ("XX000", StoreError, "had an internal error", "look into the server's log"),
    ("XX", DamagedData, "is damaged", "look into the server's log, then restore a backup"),
    ("57P", Unavailable, "is shutting down or starting", "try again in a moment"),
    ("08", Unavailable, "cannot be reached", "check the address, and that the server is running"),
)


def _unreached(said: str, label: str) -> RecollectError:
    """Why no connection came about. The driver gives no code for it, only words, in the language of the server."""
    for words, kind, what, remedy in _UNREACHED:
        if any(word in said for word in words.split("|")):
            return kind(f"{label} {what}", remedy=remedy)
    return Unavailable(f"{label} cannot be reached", remedy="check the address, and that the server is running")


_LOGIN = "check user and password of the address; the password may also stand in PGPASSWORD or a password file"
_UNREACHED: tuple[tuple[str, type[RecollectError], str, str], ...] = (
    (
        "statement pooling",
        InvalidSettings,
        "is behind a pooler in statement mode, in which no transaction holds",
        "set pool_mode = transaction there, or give the server's own address",
    ),
    (
        "startup parameter",
        InvalidSettings,
        "is behind a pooler that refuses an option of the address",
        "take `options` out of the address and use ALTER ROLE … SET instead",
    ),
    (
        "query_wait_timeout|max_client_conn",
        StoreBusy,
        "has no connection left in its pooler",
        "raise default_pool_size or max_client_conn there, or close other programs",
    ),
    ("pg_hba", Unavailable, "refused the login", "let this machine and user in: a line in the server's pg_hba.conf"),
    ("resolve|translate host|name or service", Unavailable, "has an unknown host", "correct the host in the address"),
    ('password|authentication|role "', Unavailable, "refused the login", _LOGIN),
    ('database "', Unavailable, "does not exist", "create it: createdb NAME"),
    ("connection refused", Unavailable, "has no server", "start it, or correct host and port of the address"),
    (
        "timeout|timed out",
        Unavailable,
        "did not answer",
        "check host, port and firewall; `connect_timeout` says how long",
    ),
    (
        "too many|connection slots",
        StoreBusy,
        "has no connection left",
        "raise max_connections, or close other programs",
    ),
    ("starting up|shutting down", Unavailable, "is shutting down or starting", "try again in a moment"),
    ("ssl|tls|certificate", Unavailable, "does not agree about TLS", "set sslmode and sslrootcert in the address"),
)


def _duplicate(error: psycopg.errors.UniqueViolation) -> DuplicateKey:
    """The server names the index; its words about the values are withheld where row-level security is on.

    Of what a worker says Citus keeps the words alone, in which the index of a shard is named.
    """
    index = _SHARD.sub("", error.diag.constraint_name or _index_named(error.diag.message_primary or ""))
    table = (error.diag.table_name or "").rstrip("0123456789_") or _table_of(index)
    keys = [key.fields for key in RECORDS[table].shape.unique] if table in RECORDS else []
    named = [fields for fields in keys if index.removesuffix("_idx").endswith("_".join(fields))]
    return DuplicateKey.of(table, named[0] if named and not index.endswith("_pkey") else ("id",))


def _index_named(said: str) -> str:
    return next((word for word in re.findall(r"\w+", said) if _SHARD.search(word) and _table_of(word)), "")


def _table_of(index: str) -> str:
    """The table whose name an index begins with: the longest, since one may begin as another does."""
    return max((table for table in RECORDS if index.startswith(f"{table}_")), key=len, default="")
