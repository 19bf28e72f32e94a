"""The pieces of a PostgreSQL store: its partitions, on one server or in the shards of a cluster.

Dropping a month of the access log waits until no writer is under way (the lock that snapshots of vectors take), drops
the partition and writes the notes about it in one transaction.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

from recollect.adapters.postgres.connection import BUSY_SECONDS, Connection
from recollect.adapters.records.common.sql_compiler import quoted
from recollect.adapters.records.common.transaction import referrers
from recollect.adapters.records.postgres import cluster
from recollect.adapters.records.postgres.schema import BY_MONTH, BY_TENANT, first_id
from recollect.ports.partitions import Partition

_MONTH = re.compile(r"^(.+)_(\d{4})_(\d\d)$")
_LISTED = (
    "SELECT p.relname, c.relname, greatest(c.reltuples, pg_stat_get_live_tuples(c.oid), 0)::bigint, "
    "pg_total_relation_size(c.oid) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid "
    "JOIN pg_class p ON p.oid = i.inhparent "
    "WHERE p.relname = ANY(%s) AND p.relkind = 'p' AND pg_table_is_visible(p.oid) ORDER BY 1, 2"
)
_DISTRIBUTED = (
    "SELECT coalesce(p.relname, c.relname), c.relname, c.oid FROM pg_catalog.pg_dist_partition d "
    "JOIN pg_class c ON c.oid = d.logicalrelid LEFT JOIN pg_inherits i ON i.inhrelid = c.oid "
    "LEFT JOIN pg_class p ON p.oid = i.inhparent WHERE c.relkind = 'r' AND coalesce(p.relname, c.relname) = ANY(%s) "
    "AND pg_table_is_visible(c.oid) ORDER BY 1, 2"
)


def listed(connection: Connection) -> list[Partition]:
    rows = connection.execute(_LISTED, ([*BY_MONTH, *BY_TENANT],)).fetchall()
    return [_partition(*row) for row in rows]


def listed_on_a_cluster(connection: Connection) -> list[Partition]:
    """The same pieces, with what all their shards hold."""
    found = connection.execute(_DISTRIBUTED, ([*BY_MONTH, *BY_TENANT],)).fetchall()
    sizes = cluster.sizes(connection, [oid for _, _, oid in found])
    listed = []
    for table, name, oid in found:
        shards, rows, size = sizes.get(oid, (0, 0, 0))
        if name == table:
            listed.append(Partition(name, table, f"organizations, in {shards} shards", rows, size))
        else:
            listed.append(_partition(table, name, rows, size))
    return listed


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


def drop(connection: Connection, partition: Partition, note: Callable[[Connection], None] | None) -> bool:
    """In one transaction of the owner, when no writer is under way."""
    with connection.transaction():
        connection.execute(f"SET LOCAL lock_timeout = '{BUSY_SECONDS}s'")
        connection.execute("LOCK TABLE recollect_order IN SHARE MODE")
        there = connection.execute("SELECT to_regclass(%s) IS NOT NULL", (quoted(partition.name),)).fetchall()[0][0]
        if not there or (partition.table != "access_log" and _holds_rows(connection, partition.name)):
            return False
        connection.execute(f"DROP TABLE {quoted(partition.name)}")
        if note is not None:
            note(connection)
        return True


def _holds_rows(connection: Connection, name: str) -> bool:
    return bool(connection.execute(f"SELECT EXISTS (SELECT 1 FROM {quoted(name)})").fetchall()[0][0])
