"""Sessions of a person that are in cold storage are brought back before they are erased.

Only what is in the store can be deleted record by record, without what others said in the same session.
"""

from __future__ import annotations

from recollect.domain.cold import ColdArchive
from recollect.domain.conversations import Session
from recollect.ports.query import Holds, IsNull, Query, equal
from recollect.services.cold.archives import ColdRequest
from recollect.services.cold.restore_sessions import restore
from recollect.services.tenant import Tenant


def cold_sessions_of(tenant: Tenant, user: str) -> list[str]:
    """The sessions in cold storage that are theirs, or have records of theirs."""
    own = Query(Session, (equal("user_id", user), IsNull("cold_at", wanted=False)))
    taking_part = Query(ColdArchive, (Holds("user_ids", user), IsNull("session_id", wanted=False)))
    found = {id for (id,) in tenant.select(own, ("id",))}
    return sorted(found | {id for (id,) in tenant.select(taking_part, ("session_id",))})


def traces_of(session: str) -> list[tuple[str, str]]:
    """What else is called after a session that was in cold storage: its archive."""
    return [(ColdArchive.shape.table, session)]


def restore_cold_sessions(tenant: Tenant, user: str) -> None:
    for id in cold_sessions_of(tenant, user):
        restore(tenant, ColdRequest(id=id))
