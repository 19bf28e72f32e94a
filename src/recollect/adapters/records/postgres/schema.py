"""The tables of a PostgreSQL store: migrations, roles, row-level security, partitions.

Every table has the primary key (organization_id, id) and a policy that shows a transaction only the rows of the
tenant it is bound to, for the owner too (FORCE). Two roles that nobody can log in with: `recollect_app` does all work
for a tenant; `recollect_upkeep` reads across tenants, for checks and derived indexes. Both are granted parent tables
only, because a partition read directly escapes the policy of its parent. Memories and access logs are partitioned by
month of their UUIDv7, embeddings by tenant. No triggers and no foreign keys: the steps keep the references.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime

import psycopg

from recollect.adapters.postgres.connection import APP, UPKEEP, Connection
from recollect.adapters.records.common import migrations
from recollect.adapters.records.common.ddl import Ddl, Table, unique_name
from recollect.adapters.records.common.sql_compiler import quoted
from recollect.adapters.records.postgres.fulltext_index import PENDING, RecordReading, make_text, running
from recollect.domain.record import ColumnType, new_id, now
from recollect.errors import StoreError, StoreReadOnly

BY_MONTH = ("memory", "access_log")
BY_TENANT = {"embedding": 8}
MONTHS_AHEAD = 3
# A new partition has to lock the default one, and whoever comes later waits behind who waits for a lock.
WAITED_FOR_MILLISECONDS = 1000
OLDEST = 150000  # unique keys whose empty fields are equal
_LOCK = 0x7265636F6C6C  # "recoll": one process at a time changes the tables
_TEXT = 'text COLLATE "C"'
_TYPES: Mapping[ColumnType, str] = {
    "text": _TEXT,
    "integer": "bigint",
    "real": "double precision",
    "boolean": "boolean",
    "moment": "timestamptz",
    "bytes": "bytea",
    "json": "json",
}


@contextmanager
def alone(connection: Connection) -> Iterator[None]:
    """No other process changes the tables meanwhile; all of it happens or nothing.

    A lock of the transaction: one of the session would stay behind where a pooler gives the connection to others.
    """
    with connection.transaction():
        # What others did while this one waited must be seen, whatever the database's default is.
        connection.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
        connection.execute(f"SELECT pg_advisory_xact_lock({_LOCK})")
        yield


def migrate(connection: Connection, label: str, reading: RecordReading) -> list[str]:
    """Bring the store up to date: each migration whole and recorded, or not at all."""
    check_server(connection, label)
    make_roles(connection)
    try:
        with connection.transaction():
            _foundation(connection)
            run, refused = running(connection), psycopg.errors.UniqueViolation
            applied = [one.name for one in migrations.migrations() if DDL.migrate(one, run, refused, label)]
            make_text(connection, reading)
            _bound_what_is_pending(connection)
            make_partitions(connection)
    except psycopg.errors.InsufficientPrivilege:
        raise may_not_make_tables(connection, label) from None
    return applied


def check_server(connection: Connection, label: str) -> None:
    """What no migration can mend."""
    if connection.info.server_version < OLDEST:
        raise StoreError(f"{label} is too old", remedy=f"use PostgreSQL {OLDEST // 10_000} or newer")
    encoding = connection.execute("SHOW server_encoding").fetchall()[0][0]
    if encoding != "UTF8":
        raise StoreError(
            f"{label} has the encoding {encoding}, which cannot hold every text",
            remedy="make another: CREATE DATABASE name ENCODING 'UTF8' TEMPLATE template0",
        )
    powers = "SELECT rolname FROM pg_roles WHERE rolname = ANY(%s) AND (rolbypassrls OR rolsuper)"
    for (role,) in connection.execute(powers, ([APP, UPKEEP],)).fetchall():
        raise StoreError(
            f"the role {role} passes by row-level security, so nothing would keep tenants apart",
            remedy=f"ask an administrator to run: ALTER ROLE {role} NOSUPERUSER NOBYPASSRLS",
        )


def may_not_make_tables(connection: Connection, label: str) -> StoreReadOnly:
    user, home = connection.execute("SELECT current_user, current_schema()").fetchall()[0]
    owners = "SELECT tableowner FROM pg_tables WHERE tablename = 'recollect_migrations' AND tableowner <> current_user"
    others = connection.execute(owners).fetchall()
    grant = f"ask an administrator to run: GRANT USAGE, CREATE ON SCHEMA {quoted(home or 'public')} TO {quoted(user)}"
    return StoreReadOnly(
        f"{label} does not let its user '{user}' make tables",
        remedy=f"log in as '{others[0][0]}', who owns the tables that are there" if others else grant,
    )


_MISSING = "SELECT r FROM unnest(%s::text[]) r WHERE NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = r)"
_IS_MEMBER = "SELECT pg_has_role(current_user, %s, 'MEMBER')"


def make_roles(connection: Connection) -> None:
    """The two roles, and the right of this user to switch to them."""
    try:
        for (role,) in connection.execute(_MISSING, ([APP, UPKEEP],)).fetchall():
            try:
                with connection.transaction():
                    connection.execute(f"CREATE ROLE {role} NOLOGIN NOSUPERUSER NOBYPASSRLS")
            except (psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation):
                continue  # another database of the same server made it at the same moment
        for role in (APP, UPKEEP):
            if not connection.execute(_IS_MEMBER, (role,)).fetchall()[0][0]:
                with connection.transaction():
                    connection.execute(f"GRANT {role} TO CURRENT_USER{lent(connection)}")
    except psycopg.errors.InsufficientPrivilege:
        roles_needed(connection)
        raise


def roles_needed(connection: Connection) -> None:
    """Say what an administrator has to do where a user who may not make roles lacks them."""
    missing = [role for (role,) in connection.execute(_MISSING, ([APP, UPKEEP],)).fetchall()]
    if missing:
        creating = " ".join(f"CREATE ROLE {role} NOLOGIN;" for role in missing)
        raise StoreReadOnly(
            f"the role {missing[0]} is missing and this user may not create it",
            remedy=f"ask an administrator to run: {creating} {_grant(connection)}",
        )
    if not all(connection.execute(_IS_MEMBER, (role,)).fetchall()[0][0] for role in (APP, UPKEEP)):
        raise StoreReadOnly(
            f"this user may not work as {APP} and {UPKEEP}",
            remedy=f"ask an administrator to run: {_grant(connection)}",
        )


def _grant(connection: Connection) -> str:
    user = quoted(str(connection.execute("SELECT current_user").fetchall()[0][0]))
    return f"GRANT {APP}, {UPKEEP} TO {user}{lent(connection)}"


def lent(connection: Connection) -> str:
    """To switch to, not to have: a login that inherits the upkeep role would see all tenants without switching."""
    return " WITH INHERIT FALSE, SET TRUE" if connection.info.server_version >= 160000 else ""


def _foundation(connection: Connection) -> None:
    """What is there before the first migration."""
    with connection.transaction():
        if connection.execute("SELECT to_regclass('recollect_migrations') IS NOT NULL").fetchall()[0][0]:
            return
        schema_name = connection.execute("SELECT current_schema()").fetchall()[0][0]
        if schema_name is None:  # none of the search path is there, or none of it for this user
            raise psycopg.errors.InsufficientPrivilege
        home = quoted(str(schema_name))
        connection.execute(
            f"GRANT USAGE ON SCHEMA {home} TO {APP}, {UPKEEP};"
            "CREATE TABLE recollect_migrations"
            "(number bigint PRIMARY KEY, name text NOT NULL, checksum text NOT NULL, applied_at timestamptz NOT NULL);"
            "CREATE TABLE recollect_store(key text PRIMARY KEY, value text);"
            "CREATE TABLE recollect_order(nothing boolean);"
            "CREATE SEQUENCE recollect_seq;"
            f"CREATE TABLE recollect_gone(seq bigint NOT NULL, organization_id {_TEXT} NOT NULL,"
            f" table_name {_TEXT} NOT NULL, id {_TEXT} NOT NULL, PRIMARY KEY (organization_id, table_name, id));"
            "CREATE INDEX recollect_gone_seq ON recollect_gone(organization_id, seq);"
            f"GRANT SELECT ON recollect_store, recollect_seq TO {APP}, {UPKEEP};"
            f"GRANT SELECT, UPDATE ON recollect_order TO {APP}, {UPKEEP};"
            f"GRANT USAGE ON recollect_seq TO {APP};" + ";".join(protected("recollect_gone"))
        )
        connection.execute("INSERT INTO recollect_store VALUES ('incarnation', %s)", (new_id(),))


def protected(table: str) -> Iterator[str]:
    """The second wall around a table."""
    name = quoted(table)
    mine = "organization_id = current_setting('recollect.organization', true)"
    yield f"ALTER TABLE {name} ENABLE ROW LEVEL SECURITY"
    yield f"ALTER TABLE {name} FORCE ROW LEVEL SECURITY"
    yield f"CREATE POLICY tenant ON {name} TO {APP} USING ({mine}) WITH CHECK ({mine})"
    yield f"CREATE POLICY upkeep ON {name} FOR SELECT TO {UPKEEP} USING (true)"
    yield f"GRANT SELECT, INSERT, UPDATE, DELETE ON {name} TO {APP}"
    yield f"GRANT SELECT ON {name} TO {UPKEEP}"


class PostgresDdl(Ddl):
    types = _TYPES
    empty = {
        "text": "''",
        "integer": "0",
        "real": "0",
        "boolean": "false",
        "json": "'null'",
        "bytes": "''",
        "moment": "'epoch'",
    }

    def create_table(self, step: Table) -> Iterator[str]:
        table = step["table"]
        columns = ", ".join(["_seq bigint NOT NULL", *(self.column(column) for column in step["columns"])])
        partitioned = ""
        if table in BY_MONTH:
            partitioned = " PARTITION BY RANGE (id)"
        elif table in BY_TENANT:
            partitioned = " PARTITION BY HASH (organization_id)"
        yield f"CREATE TABLE {quoted(table)}({columns}, PRIMARY KEY (organization_id, id)){partitioned}"
        if table in BY_MONTH:
            yield f"CREATE TABLE {quoted(table + '_other')} PARTITION OF {quoted(table)} DEFAULT"
        for number in range(BY_TENANT.get(table, 0)):
            piece = f"FOR VALUES WITH (MODULUS {BY_TENANT[table]}, REMAINDER {number})"
            yield f"CREATE TABLE {quoted(f'{table}_{number}')} PARTITION OF {quoted(table)} {piece}"
        yield f"CREATE INDEX {quoted(table + '_seq')} ON {quoted(table)}(organization_id, _seq)"
        if table in BY_TENANT:
            yield f"CREATE INDEX {quoted(table + '_all_seq')} ON {quoted(table)}(_seq)"
        yield from self.keys_and_indexes(step)
        yield from protected(table)

    def add_unique(self, table: Table, key: Table) -> Iterator[str]:
        """A key of a table by month is looked up by the steps: an index over all months must contain the id."""
        by_month = table["table"] in BY_MONTH
        kind = "INDEX" if by_month else "UNIQUE INDEX"
        equal = " NULLS NOT DISTINCT" if key["nulls_equal"] and not by_month else ""
        columns = ", ".join(quoted(name) for name in key["fields"])
        name = quoted(unique_name(table["table"], key["fields"]))
        yield f"CREATE {kind} {name} ON {quoted(table['table'])}(organization_id, {columns}){equal}"


DDL = PostgresDdl()


def _bound_what_is_pending(connection: Connection) -> None:
    """Text indexes of a store that an older program made."""
    unbound = (
        "SELECT c.oid::regclass::text FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid WHERE c.relkind = 'i' "
        "AND a.attname = '_text' AND c.reloptions IS NULL AND pg_table_is_visible(c.oid)"
    )
    for (index,) in connection.execute(unbound).fetchall():
        connection.execute(f"ALTER INDEX {index} SET ({PENDING})")


def pieces(connection: Connection, table: str) -> list[str]:
    """The partitions of a table, or itself where it has none."""
    listed = (
        "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid "
        "WHERE i.inhparent = to_regclass(%s) ORDER BY 1"
    )
    return [str(name) for (name,) in connection.execute(listed, (quoted(table),)).fetchall()] or [table]


def first_id(year: int, month: int) -> str:
    """The least UUIDv7 of a month, as text."""
    milliseconds = int(datetime(year + (month - 1) // 12, (month - 1) % 12 + 1, 1, tzinfo=UTC).timestamp() * 1000)
    digits = f"{milliseconds:012x}"
    return f"{digits[:8]}-{digits[8:]}-7000-8000-000000000000"


def make_partitions(
    connection: Connection, today: datetime | None = None, months_ahead: int = MONTHS_AHEAD
) -> list[str]:
    """The partitions of this month and the next ones, where they are missing; gives their names.

    A month whose records already lie in the default partition (an import, an id of one's own) stays there.
    """
    today = today or now()
    made = []
    for table in BY_MONTH:
        for ahead in range(months_ahead + 1):
            month = today.month + ahead
            name = f"{table}_{today.year + (month - 1) // 12}_{(month - 1) % 12 + 1:02d}"
            if connection.execute("SELECT to_regclass(%s) IS NULL", (quoted(name),)).fetchall()[0][0]:
                bounds = f"FROM ('{first_id(today.year, month)}') TO ('{first_id(today.year, month + 1)}')"
                try:
                    with connection.transaction():
                        connection.execute(f"SET LOCAL lock_timeout = {WAITED_FOR_MILLISECONDS}")
                        connection.execute(
                            f"CREATE TABLE {quoted(name)} PARTITION OF {quoted(table)} FOR VALUES {bounds}"
                        )
                        connection.execute("SET LOCAL lock_timeout = 0")  # this may be a part of a larger transaction
                except psycopg.errors.CheckViolation:
                    continue  # rows of that month lie in the default partition already, and stay there
                except psycopg.errors.DuplicateTable:
                    continue  # another process was quicker
                except psycopg.errors.LockNotAvailable:
                    continue  # a long reading (a backup) is under way; there is time, and the default takes every month
                made.append(name)
    return made
