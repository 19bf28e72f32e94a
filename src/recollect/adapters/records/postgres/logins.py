"""Two logins for one PostgreSQL store: one that serves tenants, one that owns the tables and may read across tenants.

The second wall is as strong as what its login may do. One login for everything may switch to `recollect_upkeep`, or
change the tables it owns: row-level security then stops mistakes of ours, not a statement that somebody slips in. A
login that only serves may become `recollect_app` and nothing else, so RESET ROLE leaves it with no row at all.
"""

from __future__ import annotations

import psycopg

from recollect.adapters.postgres.connection import APP, UPKEEP, Connection, Database
from recollect.adapters.records.common.sql_compiler import quoted
from recollect.adapters.records.postgres.schema import lent
from recollect.errors import InvalidSettings, StoreReadOnly
from recollect.ports.records import Remark

_SERVING = (  # before the first opening there is no such role yet
    "SELECT current_user::text, (SELECT bool_or(pg_has_role(current_user, oid, 'MEMBER')) FROM pg_roles "
    "WHERE rolname = %s), (SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user), "
    "EXISTS (SELECT 1 FROM pg_tables WHERE tablename = 'recollect_migrations' "
    "AND pg_has_role(current_user, tableowner, 'MEMBER'))"
)
_MAY_SERVE = "SELECT current_user::text, pg_has_role(current_user, %s, 'MEMBER')"
_INCARNATION = "SELECT value FROM recollect_store WHERE key = 'incarnation'"
ONE_LOGIN = Remark(
    "logins",
    "one login serves tenants and owns the tables: row-level security stops mistakes, not statements slipped in",
    "for more, give `store` a login that may only work as recollect_app, and postgres_upkeep the owner",
)
TWO_LOGINS = Remark("logins", "one that only serves tenants, and one for upkeep")


def check_logins(database: Database) -> Remark:
    """What the second wall is worth; refuses two logins that would keep nothing apart, or two databases."""
    if database.upkeep is database:
        return ONE_LOGIN
    owner, serving = database.upkeep.connect(), database.connect()
    try:
        with database.translated_errors():
            said = check_serving(owner, serving)
            _let_serve(owner, serving)
            _check_same(owner, serving)
    finally:
        owner.close()
        serving.close()
    return said


def check_serving(owner: Connection, serving: Connection) -> Remark:
    """Refuses a login of its own that may do more than serve; one and the same may come by two ways."""
    if serving.info.user == owner.info.user:
        return ONE_LOGIN
    user, may_read_all, is_powerful, is_owner = serving.execute(_SERVING, (UPKEEP,)).fetchall()[0]
    if may_read_all or is_powerful or is_owner:
        power = "is an administrator" if is_powerful else "owns the tables" if is_owner else f"may work as {UPKEEP}"
        raise InvalidSettings(
            f"the login '{user}' of `store` {power}, so a second login would keep nothing apart",
            remedy=f"give `store` a login of its own: CREATE ROLE serving LOGIN; GRANT {APP} TO serving{lent(serving)}",
        )
    return TWO_LOGINS


def _let_serve(owner: Connection, serving: Connection) -> None:
    user, may_serve = serving.execute(_MAY_SERVE, (APP,)).fetchall()[0]
    if not may_serve:
        grant = f"GRANT {APP} TO {quoted(user)}{lent(serving)}"
        try:
            owner.execute(grant)
        except psycopg.errors.InsufficientPrivilege:
            raise StoreReadOnly(
                f"the login '{user}' may not work as {APP}", remedy=f"ask an administrator to run: {grant}"
            ) from None


def _check_same(owner: Connection, serving: Connection) -> None:
    try:
        with serving.transaction():
            serving.execute(f"SET LOCAL ROLE {APP}")
            found = serving.execute(_INCARNATION).fetchall()
    except psycopg.errors.UndefinedTable:
        found = []
    if found != owner.execute(_INCARNATION).fetchall():
        raise InvalidSettings(
            "`store` and postgres_upkeep are not the same database",
            remedy="let them differ in user, host and port only",
        )
