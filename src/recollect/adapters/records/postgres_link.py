"""The line to a PostgreSQL server: a pool of connections, transactions bound to a tenant, errors in our own words.

Every transaction switches to a role without BYPASSRLS and binds its tenant with SET LOCAL and a quoted literal:
`set_config` does not reach the workers of a Citus cluster. A failure that is known to have left nothing (a
serialization failure, a deadlock, a line lost before COMMIT was sent) is tried again; a line lost during COMMIT
never is, since nobody can tell whether the server heard it.
"""

from __future__ import annotations

import hashlib
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from recollect.errors import (
    Closed,
    DamagedData,
    InvalidInput,
    InvalidSettings,
    RecollectError,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreReadOnly,
    Unavailable,
)

T = TypeVar("T")
Connection = psycopg.Connection[tuple[Any, ...]]
APP, UPKEEP = "recollect_app", "recollect_upkeep"
BUSY_SECONDS = 30
TRIES = 6
MOST_CONNECTIONS = 10
_TRANSIENT = {"40001", "40P01"}
_LOST = {"57P01", "57P02", "57P03", "08000", "08003", "08006", "08001", "08004"}


class Link:
    """Connections to one database. `label` names it in messages; the password is nowhere in it."""

    def __init__(self, address: str, *, patience_seconds: float = BUSY_SECONDS, tries: int = TRIES) -> None:
        self.conninfo, self.label = _read_address(address)
        self._patience_seconds = patience_seconds
        self._tries = tries
        self._process = os.getpid()
        self._pool: ConnectionPool[Connection] | None = None
        self._closed = False
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Link({self.label})"

    def connect(self) -> Connection:
        """A connection of its own, as the user of the address: for making tables and for upkeep."""
        with self.our_errors():
            connection = psycopg.connect(self.conninfo, autocommit=True)
            _configure(connection)
            return connection

    @contextmanager
    def reading(self, tenant: str) -> Iterator[Connection]:
        """A transaction that reads on behalf of a tenant, at one moment per statement."""
        with self._transaction(f"BEGIN READ ONLY; {_as_role(APP)}; {_bound(tenant)}") as connection:
            yield connection

    @contextmanager
    def snapshot(self, role: str = UPKEEP, *, first: str = "") -> Iterator[Connection]:
        """A transaction that sees one moment of the whole store, all tenants: for upkeep and derived indexes."""
        with self._transaction(f"BEGIN ISOLATION LEVEL REPEATABLE READ; {_as_role(role)}; {first}") as connection:
            yield connection

    def write(self, tenant: str, work: Callable[[Connection], T]) -> T:
        """Runs the work in one transaction, again if it failed in a way that passes."""
        begin = _begin_writing(tenant)
        return self._persistently(lambda: self._write_once(begin, work))

    def read(self, tenant: str, work: Callable[[Connection], T]) -> T:
        """Runs work that only reads, again if its line turns out to be dead."""

        def once() -> T:
            with self.reading(tenant) as connection:
                return work(connection)

        return self._persistently(once)

    def own(self, work: Callable[[Connection], T]) -> T:
        """Runs the work in one transaction as the user of the address: for tables that are not tenants' records."""
        return self._persistently(lambda: self._write_once("BEGIN", work))

    def _persistently(self, attempt: Callable[[], T]) -> T:
        with self.our_errors():
            for number in range(self._tries - 1):
                try:
                    return attempt()
                except psycopg.Error as error:
                    if not _may_pass(error):
                        raise
                    if error.sqlstate not in _TRANSIENT:
                        self._open_pool().check()  # where one line is dead, those that lie idle may be too
                time.sleep(random.uniform(0.2, 1.0) * 0.01 * 2**number)
            return attempt()

    @property
    def is_closed(self) -> bool:
        return self._closed

    def bound(self, tenant: str) -> str:
        """The statement that binds a transaction to a tenant."""
        return _bound(tenant)

    def close(self) -> None:
        with self._lock:
            pool, self._pool, self._closed = self._pool, None, True
        if pool is not None and self._process == os.getpid():
            pool.close()

    @contextmanager
    def our_errors(self) -> Iterator[None]:
        try:
            yield
        except RecollectError:
            raise
        except (UnicodeEncodeError, OverflowError) as error:
            raise InvalidInput(f"a value does not fit into {self.label}") from error
        except (psycopg.Error, PoolTimeout, PoolClosed) as error:
            raise meaning(error, self.label) from error

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[Connection]:
        pool = self._open_pool()
        connection = pool.getconn()
        try:
            connection.execute(begin)
            yield connection
        finally:
            _leave(connection)
            pool.putconn(connection)

    def _write_once(self, begin: str, work: Callable[[Connection], T]) -> T:
        with self._transaction(begin) as connection:
            result = work(connection)
            try:
                connection.execute("COMMIT")
            except psycopg.OperationalError as error:
                if error.sqlstate in _TRANSIENT:
                    raise
                raise Unavailable(
                    f"the line to {self.label} was lost while it was asked to commit",
                    remedy="read whether the change is there before you repeat it",
                ) from error
            return result

    def _open_pool(self) -> ConnectionPool[Connection]:
        if self._process != os.getpid():
            raise Closed("this store was opened before a fork", remedy="open it again in the child process")
        with self._lock:
            if self._closed:
                raise Closed("this store is closed", remedy="open it again")
            if self._pool is None:
                self._pool = ConnectionPool(
                    self.conninfo,
                    kwargs={"autocommit": True},
                    min_size=1,
                    max_size=MOST_CONNECTIONS,
                    timeout=self._patience_seconds,
                    configure=_configure,
                    open=True,
                    name=f"recollect {self.label}",
                )
            return self._pool


def _read_address(address: str) -> tuple[str, str]:
    try:
        parts = conninfo_to_dict(address)
        conninfo = make_conninfo(address, application_name=parts.get("application_name") or "recollect")
    except psycopg.ProgrammingError:
        # Not the driver's own message: it may repeat a part of the address, and the password with it.
        raise InvalidSettings(
            "that is no address of a PostgreSQL database", remedy="write postgresql://user@host:5432/database"
        ) from None
    where = parts.get("host") or parts.get("hostaddr") or "localhost"
    return conninfo, f"PostgreSQL database '{parts.get('dbname') or parts.get('user') or ''}' at {where}"


def _configure(connection: Connection) -> None:
    # The driver reads moments in the session's zone, and the year 1 in a zone west of Greenwich is no moment to it.
    connection.execute("SET TimeZone = 'UTC'; SET client_min_messages = warning; SET extra_float_digits = 1")


def _leave(connection: Connection) -> None:
    """Undo what was not committed; a connection that cannot is thrown away by the pool."""
    if connection.closed or connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
        return
    try:
        connection.execute("ROLLBACK")
    except psycopg.Error:
        connection.close()


def _as_role(role: str) -> str:
    return f"SET LOCAL ROLE {role}"


def _bound(tenant: str) -> str:
    try:
        literal = sql.Literal(tenant).as_string()
    except (psycopg.DataError, UnicodeEncodeError):
        raise InvalidInput("no organization has such an id") from None
    return f"SET LOCAL recollect.organization = {literal}"


def _begin_writing(tenant: str) -> str:
    """Begin, bound to a tenant, when no other writer of the tenant is under way.

    So the steps may check first and write then, and `seq` grows in order of commit within a tenant. Writers of
    different tenants do not wait for each other; the table lock, which they share, is what a snapshot of all tenants'
    vectors waits for (see `vector_snapshot`). It comes second: who has it waits for nobody, so there is no deadlock.
    """
    key = int.from_bytes(hashlib.blake2b(tenant.encode(errors="replace"), digest_size=8).digest(), "big", signed=True)
    return (
        f"BEGIN; SET LOCAL lock_timeout = '{BUSY_SECONDS}s'; {_as_role(APP)}; {_bound(tenant)}; "
        f"SELECT pg_advisory_xact_lock({key}); LOCK TABLE recollect_order IN ROW EXCLUSIVE MODE"
    )


def _may_pass(error: psycopg.Error) -> bool:
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError)
    return error.sqlstate in _TRANSIENT or error.sqlstate in _LOST


def meaning(error: Exception, label: str) -> RecollectError:
    """Never the driver's own words: they may hold stored text, or the address."""
    if isinstance(error, PoolClosed):
        return Closed("this store is closed", remedy="open it again")
    if isinstance(error, PoolTimeout):
        return Unavailable(f"no connection to {label} came free", remedy="check the server, or try again in a moment")
    state = getattr(error, "sqlstate", None)
    if state is None:
        if isinstance(error, psycopg.DataError):
            return InvalidInput(f"a value does not fit into {label}")
        return Unavailable(f"{label} cannot be reached", remedy="check the address, and that the server is running")
    for beginning, kind, what, remedy in _MEANINGS:
        if state.startswith(beginning):
            return kind(f"{label} {what}", remedy=remedy, sqlstate=state)
    return StoreError(f"{label} refused a statement ({type(error).__name__}, {state})", sqlstate=state)


_MEANINGS: tuple[tuple[str, type[RecollectError], str, str], ...] = (
    ("40", StoreBusy, "is busy: other writers kept getting in the way", "try again in a moment"),
    ("55P03", StoreBusy, "is busy: another writer did not finish", "try again in a moment"),
    ("57014", StoreBusy, "did not answer in time", "try again in a moment"),
    ("53100", StoreFull, "has no space left", "free some disk space; nothing was half written"),
    ("53300", StoreBusy, "has no connection left", "raise max_connections, or close other programs"),
    ("53", StoreError, "is short of something", "look into the server's log"),
    ("25006", StoreReadOnly, "cannot be written", "give the address of the primary server"),
    ("42501", StoreReadOnly, "does not let this user do that", "grant the user what docs/guides/postgresql.md names"),
    ("28", Unavailable, "refused the login", "check user and password of the address"),
    ("3D", Unavailable, "does not exist", "create it: createdb NAME"),
    ("22", InvalidInput, "cannot hold such a value", "see docs/reference/records.md"),
    ("54", InvalidInput, "cannot hold a value as large", "give less"),
    ("XX", DamagedData, "is damaged", "look into the server's log, then restore a backup"),
    ("57P", Unavailable, "is shutting down or starting", "try again in a moment"),
    ("08", Unavailable, "cannot be reached", "check the address, and that the server is running"),
)
