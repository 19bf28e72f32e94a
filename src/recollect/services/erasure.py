"""Erasure of traces: what was deleted for good is overwritten on disk, or noted as pending until it is.

Deleting a record and overwriting its bytes are two steps: the second may fail (full disk, a concurrent reader, a killed
process) after the first. So every deletion that promises both commits a note with it, which has an id but no text; the
note is deleted after the overwriting. Pending erasures are shown by `doctor` and `stats`, and done by erasing the
memory again, by `sweep`, by `doctor --fix`, by background work and when the store is opened next.
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
    """The note that the traces of something must be erased; commits with its deletion."""
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
    """Have the store and the index overwrite what was deleted; returns notes if the index is unavailable."""
    notes = tuple(id for (id,) in tenant.select(Query(Erasure), ("id",)))  # later ones are not affected
    try:
        waits = _overwrite(tenant)
    except RecollectError as error:
        raise type(error)(
            f"it is deleted, but traces of it are still on disk: {error.message}",
            remedy="fix that, then erase it again or run `recollect sweep`; opening the store also tries it",
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
        waits = [
            f"their vectors are removed from the index when it is available again and `reindex` runs: {failure.message}"
        ]
    core.store.erase_traces()
    return waits


def is_owed(tenant: Tenant, id: str) -> bool:
    """Whether this is already deleted, and only its traces are left."""
    return tenant.get(Erasure, id) is not None


def finish(tenant: Tenant) -> int:
    """Erase pending traces; returns the number of deletions."""
    count = owed(tenant)
    if count:
        erase_traces(tenant)
    return count


def finish_quietly(tenant: Tenant) -> None:
    """The same as a side task: what cannot be done now stays pending."""
    try:
        finish(tenant)
    except RecollectError as error:
        log.warning("traces of what was deleted are still on disk: %s", error.code)
