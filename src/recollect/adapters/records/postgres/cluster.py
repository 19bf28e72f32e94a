"""A Citus cluster as it is: its machines, what a machine or a shard is asked, and how large the pieces are.

Citus connects to a machine as the current role. What is asked here goes over connections of its own: they see nothing
of the transaction that asks, and wait for ever for a lock that it holds, so nothing is asked after it locked anything.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from recollect.adapters.postgres.connection import APP, UPKEEP, Connection
from recollect.adapters.records.common.sql_compiler import quoted
from recollect.errors import StoreError

_HAS = "SELECT extversion FROM pg_extension WHERE extname = 'citus'"
_IS_SPREAD = "SELECT 1 FROM pg_catalog.pg_dist_partition WHERE logicalrelid = to_regclass('organization')"
_ASK_WORKERS = "SELECT nodename, nodeport, success, result FROM run_command_on_workers(%s)"
_ASK_SHARDS = "SELECT shardid, success, result FROM run_command_on_shards(%s::regclass, %s)"
_LEAVES = "SELECT relid::regclass::text FROM pg_partition_tree(%s::regclass) WHERE isleaf ORDER BY 1"
# A machine with a replica of its own is two nodes of one group: each shard counts once.
_SIZES = (
    "SELECT table_name::oid, shardid, max(shard_size)::bigint, "
    "max(pg_stat_get_live_tuples(to_regclass(shard_name))) FROM citus_shards GROUP BY 1, 2"
)
_ROWS = (
    "SELECT coalesce(json_object_agg(substring(relname FROM '_([0-9]+)$'), "
    "greatest(reltuples, pg_stat_get_live_tuples(oid), 0)::bigint), '{}')::text "
    "FROM pg_class WHERE relkind = 'r' AND relname ~ '_[0-9]{5,}$'"
)
_FACTS = (
    "SELECT json_build_object('server', current_setting('server_version_num')::int / 10000, "
    "'citus', (SELECT extversion FROM pg_extension WHERE extname = 'citus'), "
    "'vector', (SELECT installed_version FROM pg_available_extensions WHERE name = 'vector'), "
    "'offered', (SELECT default_version FROM pg_available_extensions WHERE name = 'vector'), "
    "'serving', coalesce((SELECT json_agg(rolname) FROM pg_roles WHERE rolcanlogin AND NOT rolsuper "
    f"AND NOT rolbypassrls AND rolname IN ('{APP}', '{UPKEEP}')), '[]'))::text"
)
# Found by its column: Citus names the indexes of shards after rules of its own.
_REINDEX = (
    "DO $do$ DECLARE one regclass; BEGIN PERFORM set_config('citus.enable_manual_changes_to_shards', 'on', true); "
    "FOR one IN SELECT i.indexrelid FROM pg_index i JOIN pg_attribute a "
    "ON a.attrelid = i.indexrelid WHERE i.indrelid = '%s'::regclass AND a.attname = '_text' "
    "LOOP EXECUTE 'REINDEX INDEX ' || one::text; END LOOP; END $do$"
)


class Answer(NamedTuple):
    """What a machine, or a shard, said."""

    who: str
    well: bool
    says: str


def version(connection: Connection) -> str | None:
    """Of Citus in this database, if it is there."""
    found = connection.execute(_HAS).fetchall()
    return str(found[0][0]) if found else None


def is_distributed(connection: Connection) -> bool:
    has = connection.execute("SELECT to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL").fetchall()[0][0]
    return bool(has and connection.execute(_IS_SPREAD).fetchall())


def go_in_sequence(connection: Connection) -> bool:
    """In a transaction that changes tables: by one connection to each machine, so that each step sees those before.

    Says whether there is a cluster.
    """
    found = is_distributed(connection)
    if found:
        connection.execute("SET LOCAL citus.multi_shard_modify_mode = 'sequential'")
    return found


def ask_workers(connection: Connection, command: str) -> list[Answer]:
    """Each worker's answer to a command that gives one value, or none."""
    asked = connection.execute(_ASK_WORKERS, (command,)).fetchall()
    return [Answer(f"{host}:{port}", bool(well), str(says or "")) for host, port, well, says in asked]


def reindex_text(connection: Connection, table: str) -> None:
    """Shard by shard: Citus refuses to reindex a table that has partitions."""
    leaves = connection.execute(_LEAVES, (quoted(table),)).fetchall() or [(quoted(table),)]
    for (leaf,) in leaves:
        asked = connection.execute(_ASK_SHARDS, (leaf, _REINDEX)).fetchall()
        failed = [shard for shard, well, _ in asked if not well]
        if failed:
            raise StoreError(
                f"the text index of {table} could not be made again on {len(failed)} of {len(asked)} shards",
                remedy="see that every worker runs (`recollect doctor`), then repeat",
            )


class Sizes(NamedTuple):
    """Of a distributed table."""

    shards: int
    rows: int
    bytes: int


def sizes(connection: Connection, tables: Sequence[int]) -> dict[int, Sizes]:
    """By oid, over all machines; the tables here are empty shells."""
    rows: dict[int, int] = {}
    for answer in ask_workers(connection, _ROWS):
        if answer.well:
            rows.update((int(shard), int(count)) for shard, count in json.loads(answer.says).items())
    found: dict[int, Sizes] = {}
    for table, shard, size, here in connection.execute(_SIZES).fetchall():
        if table in tables:
            known, count = found.get(table, Sizes(0, 0, 0)), rows.get(shard, here) or 0
            found[table] = Sizes(known.shards + 1, known.rows + count, known.bytes + int(size or 0))
    return found


class Machine(NamedTuple):
    """A worker as it is now."""

    name: str
    is_reached: bool
    server: int = 0
    citus: str | None = None
    vector: str | None = None
    serving: frozenset[str] = frozenset()
    """The roles that exist there as they should: they may log in, and row-level security binds them."""
    lets_in: frozenset[str] = frozenset()
    """The roles that the coordinator can connect as."""


def machines(connection: Connection, roles: Sequence[str] = (APP, UPKEEP)) -> list[Machine]:
    """Every worker, asked now as this user and as the roles."""
    let_in: dict[str, set[str]] = {}
    for role in roles:
        with connection.transaction():
            connection.execute(f"SET LOCAL ROLE {role}")
            for answer in ask_workers(connection, "SELECT 1"):
                if answer.well:
                    let_in.setdefault(answer.who, set()).add(role)
    return [_machine(answer, frozenset(let_in.get(answer.who, ()))) for answer in ask_workers(connection, _FACTS)]


def _machine(answer: Answer, lets_in: frozenset[str]) -> Machine:
    if not answer.well:
        return Machine(answer.who, is_reached=False, lets_in=lets_in)
    facts = json.loads(answer.says)
    return Machine(
        answer.who,
        is_reached=True,
        server=facts["server"],
        citus=facts["citus"],
        vector=facts["vector"] or facts["offered"],
        serving=frozenset(facts["serving"]),
        lets_in=lets_in,
    )
