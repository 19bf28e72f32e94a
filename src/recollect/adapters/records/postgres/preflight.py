"""A PostgreSQL database looked at before it is used: what would keep a store from being opened there."""

from __future__ import annotations

from recollect.adapters.postgres.connection import APP, UPKEEP, Connection, Database
from recollect.adapters.postgres.halfvec import CREATE, OLDEST, found, may_create
from recollect.adapters.postgres.pooler import POOLED
from recollect.adapters.records.common import migrations
from recollect.adapters.records.postgres import cluster, distribution
from recollect.adapters.records.postgres.logins import ONE_LOGIN, check_serving
from recollect.adapters.records.postgres.schema import check_server, may_not_make_tables, roles_needed
from recollect.errors import RecollectError, Unavailable
from recollect.ports.partitions import Machine

_PRIVILEGES = (
    "SELECT current_schema() IS NOT NULL AND has_schema_privilege(current_user, current_schema(), 'CREATE'), "
    "rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user"
)
_TABLES = "SELECT tableowner = current_user FROM pg_tables WHERE tablename = 'recollect_migrations'"


def examine(address: str, upkeep: str | None = None) -> str:
    """What is there, in a sentence; the error that opening a store would end with, if it would."""
    database = Database(address, upkeep=upkeep)
    connection = database.upkeep.connect()
    try:
        with database.translated_errors():
            said = [_examined(connection, database.label), _logins(connection, database)]
            said += _cluster(connection, database.label)
        if database.is_pooled or database.upkeep.is_pooled:
            said.append(f"behind a pooler ({POOLED.remedy})")
        return "; ".join(said)
    finally:
        connection.close()
        database.close()


def _examined(connection: Connection, label: str) -> str:
    check_server(connection, label)
    may_create_tables, may_make_roles = connection.execute(_PRIVILEGES).fetchall()[0]
    if not may_make_roles:
        roles_needed(connection)
    is_owner = [bool(own) for (own,) in connection.execute(_TABLES).fetchall()]
    if not may_create_tables or not all(is_owner):
        raise may_not_make_tables(connection, label)
    done = connection.execute("SELECT number, checksum FROM recollect_migrations").fetchall() if is_owner else []
    said = migrations.outstanding({number: checksum for number, checksum in done}, label)  # noqa: C416 - rows of any length
    version = connection.info.server_version
    return f"PostgreSQL {version // 10_000}.{version % 10_000}, {_vectors(connection)}; {said}"


def _logins(owner: Connection, database: Database) -> str:
    remark = ONE_LOGIN
    if database.upkeep is not database:
        serving = database.connect()
        try:
            remark = check_serving(owner, serving)
        finally:
            serving.close()
    return f"{remark.says} ({remark.remedy})" if remark.remedy else f"logins: {remark.says}"


def _cluster(connection: Connection, label: str) -> list[str]:
    """What there is of a cluster. A worker that cannot serve is an error where the tables are spread, else a remark."""
    version = cluster.version(connection)
    if version is None:
        return []
    if not cluster.is_distributed(connection):
        away = [one.name for one in cluster.machines(connection, roles=()) if not one.is_reached]
        unreached = f", of whose workers {', '.join(away)} cannot be reached" if away else ""
        return [f"Citus {version}{unreached}; the tables are not spread over it (recollect migrate --distribute does)"]
    known = machines(connection, label)
    for machine in known:
        if machine.remedy:
            raise Unavailable(machine.says, remedy=machine.remedy)
    return [f"Citus {version} with {len(known)} workers, each of which answers as {APP} and {UPKEEP}"]


def machines(connection: Connection, label: str) -> list[Machine]:
    """Every worker that the tables are spread over."""
    here = connection.info.server_version // 10_000, cluster.version(connection), found(connection)[0]
    return [_machine(one, here, distribution.trouble(one, connection, label)) for one in cluster.machines(connection)]


def _machine(one: cluster.Machine, here: tuple[int, str | None, str | None], trouble: RecollectError | None) -> Machine:
    if trouble is not None:
        return Machine(one.name, trouble.message, trouble.remedy)
    vector = one.vector if here[2] is not None else None  # what nobody uses may differ
    says = f"PostgreSQL {one.server}, Citus {one.citus}, " + (f"pgvector {one.vector}" if one.vector else "no pgvector")
    if (one.server, one.citus, vector) == here:
        return Machine(one.name, says)
    return Machine(
        one.name,
        f"the worker {one.name} has {says}, which is not what the coordinator has",
        "install the same versions on every machine, and run CREATE EXTENSION citus in this database on each",
    )


def _vectors(connection: Connection) -> str:
    version, is_installed = found(connection)
    oldest = ".".join(map(str, OLDEST))
    if version is None:
        return f"no pgvector (each process keeps its own index; install pgvector {oldest} for many memories)"
    if not is_installed and not may_create(connection):
        return f"pgvector {version}, which this user may not create (each process keeps its own index; {CREATE})"
    return f"pgvector {version}{'' if is_installed else ', which is not yet created in it'}"
