"""How a PostgreSQL store is spread over a Citus cluster, by organization.

First the roles: Citus connects to workers as the role that works, so on a cluster both roles may log in (the workers'
pg_hba.conf lets them in from the coordinator only). They are made and lent before the transaction that spreads the
tables, because Citus takes roles along inside that transaction, over connections of its own: whoever asks a worker for
a change of the same role then waits for itself. Every wait has an end. Then the tables, all in one transaction; then
the rows that stay behind on the coordinator are truncated, which an erasure would not reach. Repeating it does what is
left. The statements are data, so that a test can hold them against the rules that Citus has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import psycopg

from recollect.adapters.postgres.connection import APP, BUSY_SECONDS, UPKEEP, Connection
from recollect.adapters.records.common.sql_compiler import quoted
from recollect.adapters.records.postgres import cluster
from recollect.adapters.records.postgres.cluster import Machine
from recollect.adapters.records.postgres.schema import BY_TENANT, lent, protected
from recollect.domain.record import RECORDS
from recollect.errors import RecollectError, StoreReadOnly, Unavailable, Unsupported

BOOKKEEPING = ("recollect_migrations", "recollect_store")
ROOT = "organization"
FEWEST_SHARDS, SHARDS_PER_WORKER = 16, 4
_NO_CITUS = (
    "install Citus on every server, set shared_preload_libraries = 'citus', run CREATE EXTENSION citus "
    "and citus_add_node for each worker (docs/scale.md), then repeat; one PostgreSQL server needs none of it"
)
_LET_IN = (
    f"let the coordinator in as its user, {APP} and {UPKEEP}: lines in the worker's pg_hba.conf for the coordinator's "
    "address, and where they ask for a password, one in the coordinator's password file (docs/scale.md)"
)
_SPREAD = (
    "SELECT c.relname FROM pg_catalog.pg_dist_partition p JOIN pg_class c ON c.oid = p.logicalrelid "
    "WHERE pg_table_is_visible(c.oid)"
)
_LEFT_BEHIND = (
    "SELECT c.oid::regclass::text FROM pg_catalog.pg_dist_partition p JOIN pg_class c ON c.oid = p.logicalrelid "
    "JOIN pg_class r ON r.oid = coalesce(pg_partition_root(c.oid), c.oid) WHERE c.relkind = 'r' "
    "AND r.relname = ANY(%s) AND pg_table_is_visible(r.oid) AND pg_relation_size(c.oid) > 0 ORDER BY 1"
)


def every_table() -> list[str]:
    return [*BOOKKEEPING, *sorted(RECORDS), "recollect_gone"]


# -- The machines, before anything is changed --------------------------------------------------------------------------


def prepare(connection: Connection, label: str) -> None:
    """Everything that the workers need before the tables come; outside of any transaction."""
    if cluster.version(connection) is None:
        raise Unsupported(f"{label} has no Citus", remedy=_NO_CITUS)
    _let_roles_log_in(connection)
    cluster.ask_workers(connection, roles_on_a_worker(connection))
    for machine in cluster.machines(connection):
        if (problem := trouble(machine, connection, label)) is not None:
            raise problem


def _let_roles_log_in(connection: Connection) -> None:
    asleep = "SELECT rolname FROM pg_roles WHERE rolname = ANY(%s) AND NOT rolcanlogin ORDER BY 1"
    try:
        for (role,) in connection.execute(asleep, ([APP, UPKEEP],)).fetchall():
            with connection.transaction():
                connection.execute(f"SET LOCAL lock_timeout = '{BUSY_SECONDS}s'")
                connection.execute(f"ALTER ROLE {role} LOGIN")
    except psycopg.errors.InsufficientPrivilege:
        raise StoreReadOnly(
            f"on a cluster {APP} and {UPKEEP} must be able to log in, and this user may not change them",
            remedy=f"ask an administrator to run: ALTER ROLE {APP} LOGIN; ALTER ROLE {UPKEEP} LOGIN",
        ) from None


def roles_on_a_worker(connection: Connection) -> str:
    """What makes and lends the roles on a worker where that is missing; what counts is how the worker is afterwards."""
    user = str(connection.execute("SELECT current_user").fetchall()[0][0])
    name = "'" + user.replace("'", "''") + "'"
    forgiven = "EXCEPTION WHEN duplicate_object OR unique_violation OR insufficient_privilege THEN NULL; END;"
    made = " ".join(
        f"BEGIN IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = '{role}') "
        f"THEN CREATE ROLE {role} LOGIN NOSUPERUSER NOBYPASSRLS; "
        f"ELSIF EXISTS (SELECT 1 FROM pg_roles WHERE rolname = '{role}' AND NOT rolcanlogin) "
        f"THEN ALTER ROLE {role} LOGIN; END IF; {forgiven} "
        f"BEGIN IF EXISTS (SELECT 1 FROM pg_roles WHERE rolname = '{role}' AND NOT pg_has_role({name}, oid, 'MEMBER')) "
        f"THEN GRANT {role} TO {quoted(user)}{lent(connection)}; END IF; {forgiven}"
        for role in (APP, UPKEEP)
    )
    # A worker passes changes of roles on to the others, or refuses them, unless it is told that they are its own.
    alone = (
        f"PERFORM set_config('lock_timeout', '{BUSY_SECONDS}s', true); "
        "PERFORM set_config('citus.enable_ddl_propagation', 'off', true);"
    )
    return f"DO $do$ BEGIN {alone} {made} END $do$"


def trouble(machine: Machine, connection: Connection, label: str) -> RecollectError | None:
    """Why a worker cannot serve, if it cannot."""
    missing = {APP, UPKEEP} - machine.serving
    if not machine.is_reached:
        return Unavailable(
            f"the worker {machine.name} of {label} cannot be reached as '{connection.info.user}'", remedy=_LET_IN
        )
    if missing:
        made = " ".join(f"CREATE ROLE {role} LOGIN;" for role in sorted(missing))
        return StoreReadOnly(
            f"on the worker {machine.name} of {label} there is no {' and no '.join(sorted(missing))} that may log in "
            "and is bound by row-level security",
            remedy=f"ask an administrator to run there: SET citus.enable_ddl_propagation = off; {made} or, where it "
            "exists, ALTER ROLE … LOGIN NOSUPERUSER NOBYPASSRLS",
        )
    if shut := {APP, UPKEEP} - machine.lets_in:
        return Unavailable(
            f"the worker {machine.name} of {label} does not let {' and '.join(sorted(shut))} in from the coordinator",
            remedy=_LET_IN,
        )
    return None


# -- The tables --------------------------------------------------------------------------------------------------------


def spread(connection: Connection, shards: int | None = None) -> list[str]:
    """Spread the tables that are not yet, in the caller's transaction; gives their names."""
    known = {str(name) for (name,) in connection.execute(_SPREAD).fetchall()}
    missing = [table for table in every_table() if table not in known]
    if missing:
        # What they depend on must be seen by every later statement.
        connection.execute("SET LOCAL citus.multi_shard_modify_mode = 'sequential'")
        connection.execute(f"SET LOCAL lock_timeout = '{BUSY_SECONDS}s'")
        for table in BY_TENANT:
            if table in missing:
                unite(connection, table)
        for statement in statements(missing, shards or shards_for(_workers(connection))):
            connection.execute(statement)
    return missing


def _workers(connection: Connection) -> int:
    found = connection.execute("SELECT count(*) FROM citus_get_active_worker_nodes()").fetchall()
    return int(found[0][0])


def shards_for(workers: int) -> int:
    """A power of two: enough to spread evenly and to grow to that many machines, and few, since every table and every
    month has as many."""
    shards = FEWEST_SHARDS
    while shards < SHARDS_PER_WORKER * workers:
        shards *= 2
    return shards


def statements(tables: Sequence[str], shards: int) -> Iterator[str]:
    """What spreads these tables: all beside the organizations, so that each organization is on one machine."""
    for table in BOOKKEEPING:
        if table in tables:
            yield f"SELECT create_reference_table('{table}')"
    if ROOT in tables:
        yield (
            f"SELECT create_distributed_table('{quoted(ROOT)}', 'organization_id', colocate_with => 'none', "
            f"shard_count => {shards})"
        )
    for table in tables:
        if table not in (*BOOKKEEPING, ROOT):
            yield (
                f"SELECT create_distributed_table('{quoted(table)}', 'organization_id', "
                f"colocate_with => '{quoted(ROOT)}')"
            )


def unite(connection: Connection, table: str) -> None:
    """One table of one in pieces by organization: shards are such pieces already."""
    name, whole = quoted(table), quoted(f"{table}_whole")
    if connection.execute("SELECT relkind FROM pg_class WHERE oid = %s::regclass", (name,)).fetchall() != [("p",)]:
        return
    columns = ", ".join(
        quoted(column)
        for (column,) in connection.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped "
            "AND attgenerated = '' ORDER BY attnum",
            (name,),
        ).fetchall()
    )
    indexes = connection.execute(
        "SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = %s::regclass AND NOT indisprimary", (name,)
    ).fetchall()
    for statement in (
        f"ALTER TABLE {name} NO FORCE ROW LEVEL SECURITY",  # else its owner copies nothing
        f"CREATE TABLE {whole} (LIKE {name} INCLUDING DEFAULTS INCLUDING GENERATED INCLUDING STORAGE "
        "INCLUDING CONSTRAINTS, PRIMARY KEY (organization_id, id))",
        f"INSERT INTO {whole} ({columns}) SELECT {columns} FROM {name}",
        f"DROP TABLE {name}",
        f"ALTER TABLE {whole} RENAME TO {name}",
        f"ALTER INDEX {quoted(f'{table}_whole_pkey')} RENAME TO {quoted(f'{table}_pkey')}",
        *(str(made).replace(" ON ONLY ", " ON ", 1) for (made,) in indexes),
        *protected(table),
    ):
        connection.execute(statement)


def clear(connection: Connection) -> list[str]:
    """The rows that lie on the coordinator still, where nothing reads and nothing erases them; gives their tables."""
    left = [str(table) for (table,) in connection.execute(_LEFT_BEHIND, (every_table(),)).fetchall()]
    for table in left:
        with connection.transaction():
            connection.execute(f"SET LOCAL lock_timeout = '{BUSY_SECONDS}s'")
            connection.execute("SELECT truncate_local_data_after_distributing_table(%s::regclass)", (table,))
    return left
