"""The line to a PostgreSQL server: a pool of connections, transactions bound to a tenant, errors in our own words.

Every transaction switches to a role without BYPASSRLS and binds its tenant, until its end and no longer. On a Citus
cluster that takes SET LOCAL with a quoted literal, since `set_config` does not reach the workers. A failure that is
known to have left nothing (a serialization failure, a deadlock, a line lost before COMMIT was sent) is tried again.
When the line is lost during COMMIT, the server is asked what became of the transaction, by its number: done, or undone
and tried again. A server that crashed meanwhile may have given the number to somebody else: then nobody can tell.

Statements go out in one flight where nothing between them depends on an answer (pipeline mode): a single add is two
round trips, any number of reads that do not depend on each other is one. What is between two syncs of a flight is a
transaction, so a read needs no BEGIN and no COMMIT.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple, TypeVar
from weakref import WeakValueDictionary

import psycopg
from psycopg import sql
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from recollect.adapters.postgres.errors import SAID_BY_A_POOLER, recollect_error
from recollect.adapters.postgres.flight import Cursors, together
from recollect.adapters.postgres.json_loader import JsonLoader
from recollect.adapters.postgres.pooler import (
    AMONG_OTHERS,
    FOR_THE_SESSION,
    FOR_THE_TRANSACTION,
    is_between,
    read_address,
    refuse_statement_mode,
    share,
)
from recollect.errors import Closed, InvalidInput, RecollectError, StoreBusy, StoreReadOnly, Unavailable
from recollect.ports.vectors import VectorHit
from recollect.retry import Retry

T = TypeVar("T")
Row = tuple[Any, ...]
Connection = psycopg.Connection[Row]
APP, UPKEEP = "recollect_app", "recollect_upkeep"
BUSY_SECONDS = 30
TRIES = 6
MOST_CONNECTIONS = 10
MOST_PREPARED = 300  # to make room for another takes a round trip
# Writers of one tenant take turns. A few may wait at the server, so that it need not wait for us; were it all of them,
# they would hold every connection, and nobody else could even read.
WRITERS_AT_ONCE = 3
_ROLLBACKS = itertools.count()
# Statistics outlive a shutdown and not a crash, which also forgets the numbers of what it had not yet written.
_LIFE = "extract(epoch FROM pg_stat_get_bgwriter_stat_reset_time())"
_NUMBERED = f"concat(pg_current_xact_id(), ' ', {_LIFE})"
_NUMBER = f"SELECT {_NUMBERED}"
_LOCK = "LOCK TABLE recollect_order IN ROW EXCLUSIVE MODE"
_ENTER = "SELECT set_config('role', %s, true), set_config('recollect.organization', %s, true)"
_TAKE_TURN = (
    ", set_config('plan_cache_mode', %s, true), set_config('lock_timeout', %s, true), "
    f"pg_advisory_xact_lock(%s), {_NUMBERED}"
)
_ENTER_TO_WRITE = _ENTER + _TAKE_TURN
_ENTER_POOLED, _ENTER_POOLED_TO_WRITE = _ENTER + AMONG_OTHERS, _ENTER + AMONG_OTHERS + _TAKE_TURN
_TRANSIENT = {"40001", "40P01"}
_LOST = {SAID_BY_A_POOLER, "57P01", "57P02", "57P03", "08000", "08003", "08006", "08001", "08004"}


class ReadStatement(NamedTuple):
    """A statement that reads. `binary` for what is mostly bytes."""

    statement: str
    values: Sequence[object] = ()
    binary: bool = False


class NearStatement(NamedTuple):
    """A search by meaning as one statement, whose answer begins with ids and distances; `settings` come before it."""

    settings: Mapping[str, str]
    statement: str
    values: Sequence[object]
    limit: int
    read: Callable[[list[Row]], list[VectorHit] | None]
    """None where the answer does not tell."""
    is_alike: bool = False
    """Whether its values do not matter to its plan: then one does for all."""


class Database:
    """Connections to one database. `label` names it in messages; the password is nowhere in it.

    `upkeep` is the line of the login that owns the tables and may read across tenants: this one, or another's.
    """

    cursor_factory: type[psycopg.Cursor[Row]] = psycopg.Cursor

    def __init__(
        self,
        address: str,
        *,
        upkeep: str | None = None,
        patience_seconds: float = BUSY_SECONDS,
        tries: int = TRIES,
        readonly: bool = False,
    ) -> None:
        """With `readonly` the server refuses whatever a session would write."""
        self.readonly = readonly
        self.conninfo, self.label, pooling = read_address(address)
        self.upkeep = (
            self
            if upkeep is None
            else Database(upkeep, patience_seconds=patience_seconds, tries=tries, readonly=readonly)
        )
        self.is_pooled = pooling == "transaction"
        self._may_be_pooled, self._holds_transactions = pooling in (None, "transaction"), False
        self._patience_seconds = patience_seconds
        self._tries = tries
        self._process = os.getpid()
        self._pool: ConnectionPool[Connection] | None = None
        self._closed = False
        self._lock = threading.Lock()
        self.cursors = Cursors()
        self._writers: WeakValueDictionary[str, threading.Semaphore] = WeakValueDictionary()
        self.is_distributed = False

    def __repr__(self) -> str:
        return f"Database({self.label})"

    def connect(self) -> Connection:
        """A connection of its own, as the user of the address: for making tables and for upkeep."""
        with self.translated_errors():
            connection = psycopg.connect(self.conninfo, autocommit=True, cursor_factory=self.cursor_factory)
            self._configure(connection)
            return connection

    def _configure(self, connection: Connection) -> None:
        """One connection behind a pooler is enough: the next may be, too."""
        connection.adapters.register_loader("json", JsonLoader)
        if not self.is_pooled and self._may_be_pooled:
            self.is_pooled = is_between(connection)
        if not self.is_pooled:
            connection.execute(FOR_THE_SESSION)
            if self.readonly:
                connection.execute("SET default_transaction_read_only = on")
            connection.prepared_max = MOST_PREPARED
            return
        share(connection)
        if not self._holds_transactions:
            refuse_statement_mode(connection, self.label)
            self._holds_transactions = True

    @contextmanager
    def reading(self, tenant: str) -> Iterator[Connection]:
        """A transaction that reads on behalf of a tenant, at one moment per statement."""
        with self._transaction("; ".join(self._begin_reading(tenant))) as connection:
            yield connection

    @contextmanager
    def moment(self, tenant: str) -> Iterator[Connection]:
        """A transaction that reads on behalf of a tenant, all of it at one moment."""
        begin = ["BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", *self._settled(), _as_role(APP), _bound(tenant)]
        with self.translated_errors(), self._transaction("; ".join(begin)) as connection:
            yield connection

    @contextmanager
    def snapshot(self, role: str = UPKEEP, *, first: str = "") -> Iterator[Connection]:
        """A transaction that sees one moment of the whole store, all tenants: for upkeep and derived indexes."""
        line = self.upkeep if role == UPKEEP else self
        begin = ["BEGIN ISOLATION LEVEL REPEATABLE READ", *line._settled(), _as_role(role), first]
        with line._transaction("; ".join(begin)) as connection:
            yield connection

    def write(self, tenant: str, work: Callable[[Connection], T], *, by_key: bool = False, is_bulk: bool = False) -> T:
        """Runs the work in one transaction, again if it failed in a way that passes. `is_bulk` where it copies rows,
        which cannot be done in a flight.
        """
        if self.readonly:
            raise opened_read_only()
        begin = self._begin_writing(tenant) if self.is_distributed else self._begin_writing_quickly(tenant, by_key)
        with self._place_among_writers(tenant):
            return self._persistently(lambda: self._write_once(begin, work, is_bulk=is_bulk))

    def read(self, tenant: str, work: Callable[[Connection], T]) -> T:
        """Runs work that only reads, again if its line turns out to be dead."""
        begin = [ReadStatement(statement) for statement in self._begin_reading(tenant)]

        def once() -> T:
            with self._line() as connection, self._flight(connection, begin):
                found = work(connection)
                connection.execute("COMMIT")
                return found

        return self._persistently(once)

    def ask(
        self, tenant: str, *questions: ReadStatement, role: str = APP, settings: Mapping[str, str] | None = None
    ) -> list[list[Row]]:
        """The answers to questions, in one round trip. `settings` hold for them alone; a cluster takes none."""
        line = self.upkeep if role == UPKEEP else self
        begin = [_entering(role, tenant, settings or {}, is_pooled=line.is_pooled)]
        if self.is_distributed:
            begin = [ReadStatement(statement) for statement in line._begin_reading(tenant, role)]

        def once() -> list[list[Row]]:
            with line._line() as connection:
                with line._flight(connection, begin) as (cursors, _):
                    asked = [
                        cursor.execute(one.statement, one.values, binary=one.binary)
                        for one, cursor in zip(questions, cursors, strict=False)
                    ]
                    if self.is_distributed:
                        connection.execute("COMMIT")
                # Before the line goes back: whoever takes it next uses the same cursors.
                return [one.fetchall() for one in asked]

        return line._persistently(once)

    def own(self, work: Callable[[Connection], T]) -> T:
        """Runs the work in one transaction as the user of the address: for tables that are not tenants' records."""
        if self.readonly:
            raise opened_read_only()
        return self._persistently(lambda: self._write_once([ReadStatement("BEGIN"), ReadStatement(_NUMBER)], work))

    def _settled(self) -> Sequence[str]:
        """What a session is told once, and a transaction behind a pooler each time."""
        return FOR_THE_TRANSACTION if self.is_pooled else ()

    def _begin_reading(self, tenant: str, role: str = APP) -> list[str]:
        return ["BEGIN READ ONLY", *self._settled(), _as_role(role), _bound(tenant)]

    def _begin_writing(self, tenant: str) -> list[ReadStatement]:
        """Begin, bound to a tenant, when no other writer of the tenant is under way.

        So the steps may check first and write then, and `seq` grows in order of commit within a tenant. Writers of
        different tenants do not wait for each other; the table lock, which they share, is what a snapshot of all
        tenants' vectors waits for (see `vector_snapshot`). It comes second: who has it waits for nobody, so there is
        no deadlock.
        """
        return [
            ReadStatement("BEGIN"),
            ReadStatement(_NUMBER),
            *map(ReadStatement, self._settled()),
            ReadStatement(f"SET LOCAL lock_timeout = '{BUSY_SECONDS}s'"),
            ReadStatement(_as_role(APP)),
            ReadStatement(_bound(tenant)),
            ReadStatement(f"SELECT pg_advisory_xact_lock({_turn(tenant)})"),
            ReadStatement(_LOCK),
        ]

    def _begin_writing_quickly(self, tenant: str, by_key: bool) -> list[ReadStatement]:
        """The same in fewer statements; each costs about as much as a look-up by key."""
        enter = _ENTER_POOLED_TO_WRITE if self.is_pooled else _ENTER_TO_WRITE
        values = (APP, tenant, "force_generic_plan" if by_key else "auto", f"{BUSY_SECONDS}s", _turn(tenant))
        return [ReadStatement("BEGIN"), ReadStatement(enter, values), ReadStatement(_LOCK)]

    def _persistently(self, attempt: Callable[[], T]) -> T:
        def may_pass(error: Exception) -> float | None:
            if isinstance(error, psycopg.Error) and not _may_pass(error):
                return None
            if not isinstance(error, psycopg.Error) or error.sqlstate not in _TRANSIENT:
                self._open_pool().check()  # where one line is dead, those that lie idle may be too
            return 0.0

        with self.translated_errors():
            again = Retry(self._tries, first_pause_seconds=0.01)
            return again.run(lambda number: attempt(), (_CommitLost, psycopg.Error), may_pass)

    @contextmanager
    def _place_among_writers(self, tenant: str) -> Iterator[None]:
        with self._lock:
            places = self._writers.get(tenant) or threading.Semaphore(WRITERS_AT_ONCE)
            self._writers[tenant] = places
        if not places.acquire(timeout=BUSY_SECONDS):
            raise StoreBusy(f"{self.label} is busy: other writers did not finish", remedy="try again in a moment")
        try:
            yield
        finally:
            places.release()

    @property
    def is_closed(self) -> bool:
        return self._closed

    def bound(self, tenant: str) -> str:
        """The statement that binds a transaction to a tenant."""
        return _bound(tenant)

    def close(self) -> None:
        if self.upkeep is not self:
            self.upkeep.close()
        with self._lock:
            pool, self._pool, self._closed = self._pool, None, True
        if pool is not None and self._process == os.getpid():
            pool.close()

    @contextmanager
    def translated_errors(self) -> Iterator[None]:
        try:
            yield
        except RecollectError:
            raise
        except (UnicodeEncodeError, OverflowError) as error:
            raise InvalidInput(f"a value does not fit into {self.label}") from error
        except _CommitLost as undone:
            raise recollect_error(psycopg.OperationalError("lost"), self.label) from undone
        except (psycopg.Error, PoolTimeout, PoolClosed) as error:
            raise recollect_error(error, self.label) from error

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[Connection]:
        with self._line() as connection:
            connection.execute(begin)
            yield connection
            connection.execute("COMMIT")

    @contextmanager
    def _line(self) -> Iterator[Connection]:
        """A line of the pool, for one thread; nothing of it is used when it has gone back."""
        pool = self._open_pool()
        connection = pool.getconn()
        try:
            yield connection
        finally:
            _leave(connection)
            pool.putconn(connection)

    @contextmanager
    def _flight(
        self, connection: Connection, begin: Sequence[ReadStatement], *, is_bulk: bool = False
    ) -> Iterator[tuple[Iterator[psycopg.Cursor[Row]], list[psycopg.Cursor[Row]]]]:
        """A transaction whose statements are sent without waiting for the answers of those before. Gives more cursors
        of the line, and those of what it began with.
        """
        with nullcontext() if is_bulk else together(connection) as flight:
            try:
                # What has no values is mostly written out for one tenant, and not worth preparing.
                cursors = self.cursors.of(connection)
                begun = [
                    cursor.execute(one.statement, one.values or None, prepare=None if _is_alike(one) else False)
                    for one, cursor in zip(begin, cursors, strict=False)
                ]
                yield cursors, begun
            except BaseException:
                if flight is not None:
                    _drain(flight)
                raise

    def _write_once(
        self, begin: Sequence[ReadStatement], work: Callable[[Connection], T], *, is_bulk: bool = False
    ) -> T:
        """The second statement of `begin` says the number of the transaction, last in its answer.

        On a cluster COMMIT goes alone: what fails before it is surely undone, and may be tried again. What fails with
        it may be done all the same, if a worker was lost at that moment.
        """
        number = ""
        try:
            with self._line() as connection, self._flight(connection, begin, is_bulk=is_bulk) as (cursors, begun):
                result = work(connection)
                if self.is_distributed:
                    _settle(connection)
                number = str(begun[1].fetchall()[0][-1])
                next(cursors).execute("COMMIT")
            return result
        except psycopg.Error as error:
            if not number or not (self.is_distributed or _is_lost(error)):
                raise
            lost = error
        if self._is_committed(number, lost):
            return result
        raise _CommitLost from lost

    def _is_committed(self, number: str, lost: psycopg.Error) -> bool:
        """What became of a transaction whose answer never came; raises when nobody can tell."""
        deadline = time.monotonic() + BUSY_SECONDS
        transaction, _, life = number.partition(" ")
        while not self.is_distributed and time.monotonic() < deadline:
            outcome, its_life = self._outcome(transaction)
            if outcome == "committed" and its_life != life:
                break  # the server crashed, and may have given the number to another since
            if outcome != "in progress":
                return outcome == "committed"
            time.sleep(0.05)
        raise Unavailable(
            f"the connection to {self.label} was lost during a commit",
            remedy="check whether the change is there before you repeat it",
        ) from lost

    def _outcome(self, transaction: str) -> tuple[str, str]:
        """Of a transaction, and in which life of the server."""
        try:
            with psycopg.connect(self.conninfo, autocommit=True, connect_timeout=5) as connection:
                asked = f"SELECT coalesce(pg_xact_status(%s::xid8), ''), concat({_LIFE})"
                outcome, life = connection.execute(asked, (transaction,)).fetchall()[0]
                return outcome, life
        except psycopg.errors.InvalidParameterValue:
            return "aborted", ""  # a number that is still to come: the server crashed before it wrote anything of it
        except psycopg.OperationalError:
            return "in progress", ""  # the server is away; it will know when it is back

    def _open_pool(self) -> ConnectionPool[Connection]:
        if self._process != os.getpid():
            raise Closed("this store was opened before a fork", remedy="open it again in the child process")
        with self._lock:
            if self._closed:
                raise Closed("this store is closed", remedy="open it again")
            if self._pool is None:
                self._pool = ConnectionPool(
                    self.conninfo,
                    # All but a few statements come again, so they are prepared when they first do.
                    kwargs={"autocommit": True, "prepare_threshold": 1, "cursor_factory": self.cursor_factory},
                    min_size=1,
                    max_size=MOST_CONNECTIONS,
                    timeout=self._patience_seconds,
                    configure=self._configure,
                    open=True,
                    name=f"recollect {self.label}",
                )
            return self._pool


def opened_read_only() -> StoreReadOnly:
    return StoreReadOnly(
        "this memory was opened read-only, and nothing can be written to it",
        remedy="open it without readonly=True (on the command line: without --readonly), where it may be written",
    )


def _drain(flight: psycopg.Pipeline) -> None:
    """Take in what was still under way when something failed; the driver would write each of it to the log."""
    try:
        flight.sync()
    except psycopg.Error:
        return  # a consequence of the failure that is being told


def _settle(connection: Connection) -> None:
    """Take in every answer; within a flight, the end of another one does that."""
    with connection.pipeline():
        pass


def _leave(connection: Connection) -> None:
    """Undo what was not committed; a connection that cannot is thrown away by the pool.

    What follows a failed statement in a flight is skipped by the server, also its preparation, which the driver goes on
    counting on. It forgets what it prepared when it sees a ROLLBACK that it never saw before: so each has a number.
    """
    if connection.closed or connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
        return
    try:
        connection.execute(f"ROLLBACK /* {next(_ROLLBACKS)} */")
    except psycopg.Error:
        connection.close()


def _is_alike(one: ReadStatement) -> bool:
    return bool(one.values) or one.statement in ("BEGIN", _LOCK)


def _entering(role: str, tenant: str, settings: Mapping[str, str], *, is_pooled: bool) -> ReadStatement:
    told = "".join(f", set_config('{name}', %s, true)" for name in settings)
    return ReadStatement((_ENTER_POOLED if is_pooled else _ENTER) + told, (role, tenant, *settings.values()))


def is_for_one_server(statement: str) -> bool:
    """Whether a cluster is never to be asked this."""
    return statement.startswith(_ENTER)


def _as_role(role: str) -> str:
    return f"SET LOCAL ROLE {role}"


def _bound(tenant: str) -> str:
    try:
        literal = sql.Literal(tenant).as_string()
    except (psycopg.DataError, UnicodeEncodeError):
        raise InvalidInput("no organization has such an id") from None
    return f"SET LOCAL recollect.organization = {literal}"


def _turn(tenant: str) -> int:
    """The number of the lock that a tenant's writers take turns with."""
    return int.from_bytes(hashlib.blake2b(tenant.encode(errors="replace"), digest_size=8).digest(), "big", signed=True)


class _CommitLost(Exception):
    """The line was lost during COMMIT, and the server says that the transaction did not happen."""


def _may_pass(error: psycopg.Error) -> bool:
    return error.sqlstate in _TRANSIENT or _is_lost(error)


def _is_lost(error: psycopg.Error) -> bool:
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError)
    return error.sqlstate in _LOST
