"""What an erasure cannot reach: copies that were made before it, and what the engines of stores keep by themselves."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import datetime

from recollect.domain.audit import AccessLog
from recollect.domain.backups import Backup
from recollect.domain.cold import ColdArchive
from recollect.domain.record import RECORDS, JsonObject
from recollect.ports.query import IsNull, OneOf, Order, Query, equal
from recollect.services.legal_holds import active_holds
from recollect.services.tenant import Tenant

MOST_LISTED = 100
CHUNK = 500
_COPIES = {
    "backup": "a backup: it still has what was stored when it was made",
    "export": "an export: it still has what was stored when it was made",
    "privacy.export": "the data of a person, handed over",
    "workspace.push": "files of a workspace, copied to a folder",
}
HELD = "records on legal hold are not changed: they may name the person until the hold is released"
COLD = "{count} sessions of others, in which what others wrote about the person was not looked for"
_ENGINES = {
    "postgres": "the write-ahead log, its archive and replicas keep deleted rows for as long as they are set to",
    "dynamodb": "point-in-time recovery keeps deleted items for as long as it is set to; the log in the table keeps "
    "the ids of deleted records, without their content",
}


def known_backups(tenant: Tenant, ids: Mapping[str, Sequence[str]]) -> list[JsonObject]:
    """The backups that were made, each with how many of these records it has: those that were there when it was made.

    Where they are is told to those who run the store, not to callers over the network.
    """
    newest = (Order("made_at", descending=True),)
    made = tenant.find(Query(Backup, (IsNull("error"),), newest, MOST_LISTED)).records
    created = _created(tenant, ids) if made else []
    return [
        {
            "where": one.place if tenant.scope.granted is None else "a backup",
            "what": f"a backup with {bisect_right(created, one.made_at)} of the deleted records",
            "made_at": one.made_at.isoformat(),
            "encrypted": one.is_encrypted,
            "id": one.id,
        }
        for one in made
        if bisect_right(created, one.made_at)
    ]


def _created(tenant: Tenant, ids: Mapping[str, Sequence[str]]) -> list[datetime]:
    found: list[datetime] = []
    for table, listed in ids.items():
        for start in range(0, len(listed), CHUNK):
            of_these = OneOf("id", tuple(listed[start : start + CHUNK]))
            rows = tenant.select(Query(RECORDS[table], (of_these,), deleted="yes"), ("created_at",))
            found += [created for (created,) in rows]
    return sorted(found)


def remains(tenant: Tenant, kept: dict[str, int], notes: list[str]) -> list[JsonObject]:
    """Where something may still be, and what to do about it."""
    found: list[JsonObject] = [
        {"where": "this store", "what": f"{count} of {table} that name the person, kept by choice"}
        for table, count in sorted(kept.items())
    ]
    found += [{"where": "this store", "what": note} for note in notes]
    holds = active_holds(tenant)
    found += [{"where": "this store", "what": HELD}] if holds else []
    cold = tenant.count(Query(ColdArchive))
    found += [{"where": "cold storage", "what": COLD.format(count=cold)}] if cold else []
    engine = _ENGINES.get(tenant.store.capabilities.name)
    found += [{"where": tenant.store.capabilities.name, "what": engine}] if engine else []
    return [*found, *_copies(tenant)]


def _copies(tenant: Tenant) -> list[JsonObject]:
    """The copies that the access log tells of; it does not say where they are."""
    of_these = (OneOf("action", tuple(_COPIES)), equal("success", True))
    newest = (Order("id", descending=True),)
    made = tenant.find(Query(AccessLog, of_these, newest, MOST_LISTED)).records
    first = tenant.select(Query(Backup, (), (Order("made_at"),), 1), ("made_at",))  # since then they are on record
    made = [one for one in made if one.action != "backup" or not first or one.timestamp < first[0][0]]
    return [
        {
            "where": f"outside of the store, made on {one.timestamp.date().isoformat()}",
            "what": _COPIES[one.action],
            "made_at": one.timestamp.isoformat(),
            "made_by": one.actor_id,
            "log": one.id,
        }
        for one in made
    ]
