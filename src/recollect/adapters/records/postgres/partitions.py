"""The pieces of a PostgreSQL store: its partitions, and its tables distributed over a Citus cluster.

Dropping a month of the access log waits until no writer is under way (the lock that snapshots of vectors take), drops
the partition and writes the notes about it in one transaction. The statements that distribute are data, so that a test
can hold them against the rules that Citus has; see tests/adapters/records/postgres/test_citus_rules.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from psycopg import sql

from recollect.adapters.postgres.connection import APP, BUSY_SECONDS, UPKEEP, Connection
from recollect.adapters.records.common.sql_compiler import quoted
from recollect.adapters.records.common.transaction import referrers
from recollect.adapters.records.postgres.schema import BY_MONTH, BY_TENANT, first_id
from recollect.domain.record import RECORDS
from recollect.errors import Unsupported
from recollect.ports.partitions import Partition
from recollect.ports.query import Row

_MONTH = re.compile(r"^(.+)_(\d{4})_(\d\d)$")
_LISTED = (
    "SELECT p.relname, c.relname, greatest(c.reltuples, pg_stat_get_live_tuples(c.oid), 0)::bigint, "
    "pg_total_relation_size(c.oid) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid "
    "JOIN pg_class p ON p.oid = i.inhparent "
    "WHERE p.relname = ANY(%s) AND p.relkind = 'p' AND pg_table_is_visible(p.oid) ORDER BY 1, 2"
)
BOOKKEEPING = ("recollect_migrations", "recollect_store")
ROOT = "organization"


def listed(connection: Connection) -> list[Partition]:
    rows = connection.execute(_LISTED, ([*BY_MONTH, *BY_TENANT],)).fetchall()
    return [_partition(*row) for row in rows]


def _partition(table: str, name: str, rows: int, size: int) -> Partition:
    found = _MONTH.match(name)
    if table in BY_TENANT:
        return Partition(name, table, f"organizations, one of {BY_TENANT[table]} parts", rows, size)
    if found is None or found[1] != table:
        return Partition(name, table, "ids of other times", rows, size)
    year, month = int(found[2]), int(found[3])
    begins, ends = (datetime(year + m // 12, m % 12 + 1, 1, tzinfo=UTC) for m in (month - 1, month))
    return Partition(
        name, table, f"{begins:%B %Y}", rows, size, begins, ends, first_id(year, month), first_id(year, month + 1)
    )


def rows_by_tenant(connection: Connection, partition: Partition) -> dict[str, int]:
    text = f"SELECT organization_id, count(*) FROM {quoted(partition.table)} WHERE id >= %s AND id < %s GROUP BY 1"
    found = connection.execute(text, (partition.first_id, partition.end_id)).fetchall()
    return {tenant: count for tenant, count in sorted(found)}  # noqa: C416 - rows are tuples of any length


def hanging(connection: Connection, partition: Partition) -> dict[str, int]:
    counts: dict[str, int] = {}
    for record, field, on_delete in referrers(partition.table):
        if on_delete == "cascade":
            place = quoted(field)
            text = f"SELECT count(*) FROM {quoted(record.shape.table)} WHERE {place} >= %s AND {place} < %s"
            count = int(connection.execute(text, (partition.first_id, partition.end_id)).fetchall()[0][0])
            counts[record.shape.table] = counts.get(record.shape.table, 0) + count
    return {table: count for table, count in counts.items() if count}


def drop(connection: Connection, partition: Partition, note: Callable[[Connection], None]) -> bool:
    """In one transaction of the owner, when no writer is under way."""
    with connection.transaction():
        connection.execute(f"SET LOCAL lock_timeout = '{BUSY_SECONDS}s'")
        connection.execute("LOCK TABLE recollect_order IN SHARE MODE")
        there = connection.execute("SELECT to_regclass(%s) IS NOT NULL", (quoted(partition.name),)).fetchall()[0][0]
        if not there or (partition.table != "access_log" and _holds_rows(connection, partition.name)):
            return False
        connection.execute(f"DROP TABLE {quoted(partition.name)}")
        note(connection)
        return True


def _holds_rows(connection: Connection, name: str) -> bool:
    return bool(connection.execute(f"SELECT EXISTS (SELECT 1 FROM {quoted(name)})").fetchall()[0][0])


# -- Citus -----------------------------------------------------------------------------------------------------------


def distribution(tables: list[str]) -> Iterator[str]:
    """The statements that spread these tables, and all else that the workers of a cluster need."""
    roles = "; ".join(
        f"IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = '{role}') "
        f"THEN CREATE ROLE {role} NOLOGIN NOSUPERUSER NOBYPASSRLS; END IF"
        for role in (APP, UPKEEP)
    )
    yield f"SELECT run_command_on_workers($cmd$ DO $do$ BEGIN {roles}; END $do$ $cmd$)"
    for table in BOOKKEEPING:
        if table in tables:
            yield f"SELECT create_reference_table('{table}')"
    if ROOT in tables:
        yield f"SELECT create_distributed_table('{quoted(ROOT)}', 'organization_id', colocate_with => 'none')"
    for table in tables:
        if table not in (*BOOKKEEPING, ROOT):
            yield (
                f"SELECT create_distributed_table('{quoted(table)}', 'organization_id', "
                f"colocate_with => '{quoted(ROOT)}')"
            )


def distribute(connection: Connection, label: str) -> list[str]:
    if not connection.execute("SELECT 1 FROM pg_extension WHERE extname = 'citus'").fetchall():
        raise Unsupported(
            f"{label} has no Citus",
            remedy="install Citus on every server, set shared_preload_libraries = 'citus', run CREATE EXTENSION citus "
            "and citus_add_node for each worker (docs/scale.md), then repeat; one PostgreSQL server needs none of it",
        )
    known = connection.execute("SELECT logicalrelid::regclass::text FROM pg_dist_partition").fetchall()
    spread = {str(name).strip('"') for (name,) in known}
    missing = [table for table in (*BOOKKEEPING, *sorted(RECORDS), "recollect_gone") if table not in spread]
    if missing:
        with connection.transaction():
            # The function that makes the words of a text, its dictionary and its owner must be there before the tables.
            connection.execute("SET LOCAL citus.multi_shard_modify_mode = 'sequential'")
            for statement in distribution(missing):
                connection.execute(statement)
            _lend_roles(connection)
    return missing


def _lend_roles(connection: Connection) -> None:
    """The user of the address switches to the roles on the workers, too."""
    user = sql.Identifier(str(connection.execute("SELECT current_user").fetchall()[0][0])).as_string()
    connection.execute(f"SELECT run_command_on_workers($cmd$ GRANT {APP}, {UPKEEP} TO {user} $cmd$)")


def is_distributed(connection: Connection) -> bool:
    has = connection.execute("SELECT to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL").fetchall()[0][0]
    if not has:
        return False
    found: list[Row] = connection.execute(
        "SELECT 1 FROM pg_dist_partition WHERE logicalrelid = 'organization'::regclass"
    ).fetchall()
    return bool(found)
