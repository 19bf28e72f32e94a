"""What was deleted for good leaves no trace on disk, or is owed that until it does.

Deleting a record and overwriting its bytes are two things: the second may fail (the disk is full, somebody reads, the
process is killed) when the first is done. So every deletion that promises the second commits a note with it, which
holds an id and no text; the note goes when the traces are gone. What is owed is shown by `doctor` and `stats`, and done
by erasing the memory again, by `sweep`, by `doctor --fix`, by background work and when the store is next opened.
"""

from __future__ import annotations

import logging

from recollect.domain.audit import Erasure
from recollect.errors import IndexFailed, RecollectError
from recollect.ports.query import OneOf, Query
from recollect.ports.steps import DeleteWhere, Put, Step
from recollect.services.tenant import Core, Tenant

log = logging.getLogger("recollect.erasing")


def owing(tenant: Tenant, id: str) -> Step:
    """The note that the traces of something are owed their end; commits with its deletion."""
    return Put(
        Erasure(
            organization_id=tenant.scope.organization_id,
            id=id,
            created_by=tenant.scope.actor,
            updated_by=tenant.scope.actor,
        )
    )


def owed(tenant: Tenant) -> int:
    return tenant.count(Query(Erasure))


def erase_traces(tenant: Tenant) -> list[str]:
    """Have the store and the index overwrite what was deleted; says what must wait, because the index is away."""
    notes = tuple(id for (id,) in tenant.select(Query(Erasure), ("id",)))  # later ones are not settled
    try:
        waits = _overwrite(tenant)
    except RecollectError as error:
        raise type(error)(
            f"it is deleted, but traces of it are still on disk: {error.message}",
            remedy="mend that, then erase it again or run `recollect sweep`; opening the store tries it, too",
            **error.details,
        ) from error
    if notes:
        tenant.transact([DeleteWhere(Erasure, (OneOf("id", notes),))])
    return waits


def _overwrite(core: Core) -> list[str]:
    waits: list[str] = []
    try:
        core.vectors.purge()
    except IndexFailed as failure:
        waits = [f"their vectors leave the index when it is back and `reindex` runs: {failure.message}"]
    core.store.erase_traces()
    return waits


def is_owed(tenant: Tenant, id: str) -> bool:
    """Whether this was deleted before, and only its traces are left."""
    return tenant.get(Erasure, id) is not None


def finish(tenant: Tenant) -> int:
    """Do what is owed; says how many deletions it was owed to."""
    count = owed(tenant)
    if count:
        erase_traces(tenant)
    return count


def finish_quietly(tenant: Tenant) -> None:
    """For those who came for something else: what cannot be done now stays owed."""
    try:
        finish(tenant)
    except RecollectError as error:
        log.warning("traces of what was deleted are still on disk: %s", error.code)
