"""Vacuuming after an erasure, without making whoever erases wait for what was deleted before.

To take a vector out of an HNSW index, pgvector links its neighbours anew, which takes some 30 ms. After a prune of a
month (37,500 vectors of 457,000) that took 18 minutes, and so did the next `erase` of one memory. Where more than a few
are dead, the server's own vacuum, which is told to come soon, does it beside everything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import psycopg

from recollect.adapters.postgres.connection import Connection
from recollect.adapters.records.common.sql_compiler import quoted

VECTORS = "embedding"
MOST_DEAD = 200  # vectors that are taken out of the indexes at once
MOST_SECONDS = 30
_SETTING = "SHOW autovacuum"
# Who waits for the lock of the server's own vacuum ends it, and what that has done is lost.
_TABLES = f"""
SELECT t.relid::regclass::text, pg_stat_get_dead_tuples(t.relid),
  (SELECT option_value::bigint FROM pg_options_to_table(c.reloptions)
    WHERE option_name = 'autovacuum_vacuum_threshold'),
  (SELECT option_value::float8 FROM pg_options_to_table(c.reloptions)
    WHERE option_name = 'autovacuum_vacuum_scale_factor'),
  coalesce((SELECT option_value::boolean FROM pg_options_to_table(c.reloptions)
    WHERE option_name = 'autovacuum_enabled'), TRUE),
  EXISTS (
    SELECT 1 FROM pg_locks l WHERE l.relation = t.relid AND l.mode = 'ShareUpdateExclusiveLock'
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())),
  EXISTS (
    SELECT 1 FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_am a ON a.oid = x.relam
    WHERE i.indrelid = t.relid AND a.amname = 'hnsw')
FROM pg_partition_tree('{VECTORS}') t JOIN pg_class c ON c.oid = t.relid
WHERE t.isleaf
"""


class _Table(NamedTuple):
    """One that holds vectors."""

    name: str
    """Quoted."""
    dead: int
    threshold: int | None
    """Of so many dead the server's vacuum comes, and of such a part of all, if somebody has told it."""
    scale: float | None
    is_enabled: bool
    """Unless somebody has told the server not to vacuum it."""
    is_locked: bool
    has_index: bool
    """Of the kind from which it takes long to take something out."""


def vacuum(connection: Connection, tables: Sequence[str]) -> list[str]:
    """Free the space of deleted rows; notes on what the server does later."""
    for table in tables:
        if table != VECTORS:
            connection.execute(f"VACUUM {quoted(table)}")
    (setting,) = connection.execute(_SETTING).fetchone() or ("off",)
    pieces = [_Table(*row) for row in connection.execute(_TABLES).fetchall()]
    if not pieces:  # a cluster has it in one, of which only the machines themselves know what is dead
        connection.execute(f"VACUUM {quoted(VECTORS)}")
    unfinished: list[_Table] = []
    for one in pieces:
        if setting != "on" or not one.has_index or not _comes_soon(one):
            connection.execute(f"VACUUM {one.name}")
        elif not _is_vacuumed(connection, one):
            unfinished.append(one)
    if not unfinished:
        return []
    count = sum(one.dead for one in unfinished)
    return [
        f"the server is still taking deleted vectors out of the search index ({count:,} when it last counted); nothing"
        " finds or reads them, and a later `recollect sweep` makes sure of it"
    ]


def _comes_soon(table: _Table) -> bool:
    """Whether the server's own vacuum does, or may be told to: what an administrator has set stays."""
    if table.threshold is None and table.scale is None:
        return table.is_enabled
    return table.is_enabled and table.scale == 0 and (table.threshold or 0) <= MOST_DEAD


def _is_vacuumed(connection: Connection, table: _Table) -> bool:
    if table.dead <= MOST_DEAD:
        try:
            connection.execute(f"SET statement_timeout = '{MOST_SECONDS}s'")
            connection.execute(f"VACUUM {table.name}")
            return True
        except psycopg.errors.QueryCanceled:
            pass
        finally:
            connection.execute("RESET statement_timeout")
    if table.threshold is None and not table.is_locked:
        soon = f"autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = {MOST_DEAD}"
        connection.execute(f"ALTER TABLE {table.name} SET ({soon})")
    return False
