"""Owners that are made because somebody named them: users, agents, sessions and projects.

`remember("…", user="u1")` needs no `user.add` before it: an owner that nobody has added is made with that id, in the
transaction that names it, wherever the caller could have added it (`Tenant.makes_owners`). A removed one is never made
again in silence. Two callers at once make it once: the second finds it there and looks again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from recollect.domain.agents import Agent
from recollect.domain.conversations import Session
from recollect.domain.record import Record
from recollect.domain.tenancy import Project, User
from recollect.errors import ReferenceMissing
from recollect.ports.query import OneOf, Query
from recollect.ports.steps import Insert, Put, Step, Update
from recollect.services.tenant import Tenant

OWNERS: dict[str, type[User | Agent | Project | Session]] = {
    "user": User, "agent": Agent, "project": Project, "session": Session,
}  # fmt: skip
"""In the order in which they are made: a session refers to the others."""
CHUNK = 500


def unknown_owners(tenant: Tenant, steps: Sequence[Step]) -> list[Record]:
    """New records for the owners that these steps name and that are not there; ReferenceMissing for a removed one."""
    found: list[Record] = []
    for table, named in _named(steps).items():
        known = _known(tenant, OWNERS[table], list(named))
        removed = next((id for id in named if known.get(id)), None)
        if removed is not None:
            raise ReferenceMissing(
                f"{table} '{removed[:80]}' was removed",
                remedy=f"restore it with {table}.restore, or name another",
                id=removed,
            )
        found += [_new(tenant, table, id, by) for id, by in named.items() if id not in known]
    return found


def _named(steps: Iterable[Step]) -> dict[str, dict[str, Record]]:
    """The ids of owners, by table, each with the first record that names it; without those that the steps insert."""
    records = [one.record for one in steps if isinstance(one, Insert | Put | Update)]
    inserted = {(record.shape.table, record.id) for record in records}
    named: dict[str, dict[str, Record]] = {table: {} for table in OWNERS}
    for record in records:
        for field, reference in record.shape.references.items():
            id = record.refers(field)
            if reference.to in OWNERS and id is not None and (reference.to, id) not in inserted:
                named[reference.to].setdefault(id, record)
    return named


def _known(tenant: Tenant, owner: type[Record], ids: Sequence[str]) -> dict[str, bool]:
    """Those that are there, and whether they are removed."""
    known: dict[str, bool] = {}
    for start in range(0, len(ids), CHUNK):
        query = Query(owner, (OneOf("id", tuple(ids[start : start + CHUNK])),), deleted="yes")
        known.update(tenant.select(query, ("id", "is_deleted")))
    return known


def _new(tenant: Tenant, table: str, id: str, by: Record) -> Record:
    """A session belongs to whom the record belongs that names it; the others are called by their id."""
    links = ("user_id", "agent_id", "project_id")
    fields = {name: getattr(by, name, None) for name in links} if table == "session" else {"name": id}
    actor = tenant.scope.actor
    return OWNERS[table](
        organization_id=tenant.scope.organization_id, id=id, created_by=actor, updated_by=actor, **fields
    )
