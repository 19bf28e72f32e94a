"""Taking a person out of the access log: the entries stay, and name a pseudonym instead.

The log stays provable. A seal keeps its digest, so the chain and every anchor that was stored elsewhere hold; what its
entries are now is stated by an entry of the log itself, which is sealed in its turn (services/admin/audit.py). With an
entry goes its salt: nobody who tries ids can find the one that the seal was made for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from recollect.domain.audit import AccessLog, Seal
from recollect.domain.record import JsonObject
from recollect.errors import VersionConflict
from recollect.ports.query import Query, equal
from recollect.retry import retry
from recollect.services.access_journal import PSEUDONYMISED
from recollect.services.admin.audit import SealRequest, all_seals, entries_under, restatements, restating_steps, seal
from recollect.services.memories.indexing import Progress
from recollect.services.privacy.redaction import Redaction
from recollect.services.tenant import Tenant

MOST_ROUNDS = 5  # entries that are written meanwhile are taken in the next round


@dataclass(frozen=True)
class LogChange:
    """How many entries were changed under how many seals, and the anchor of the log after it."""

    entries: int
    seals: int
    anchor: str | None


def pseudonymise_log(tenant: Tenant, redaction: Redaction, erasure: str, progress: Progress) -> LogChange:
    """Replace names and ids in every entry. The count is read off the log, so it is right after a killed process."""
    for _ in range(MOST_ROUNDS):
        seal(tenant, SealRequest())
        every, changed = list(all_seals(tenant)), 0
        for number, one in enumerate(every, 1):
            changed += retry(partial(_change_under, tenant, one, redaction, erasure), VersionConflict)
            progress(number, len(every))
        if not changed:
            break
    anchor = seal(tenant, SealRequest()).anchor
    stated = tenant.find(Query(AccessLog, (equal("action", PSEUDONYMISED),))).records
    counts = [int(one.request_data["entries"]) for one in stated if one.request_data.get("erasure") == erasure]
    return LogChange(sum(counts), len(counts), anchor)


def _change_under(tenant: Tenant, one: Seal, redaction: Redaction, erasure: str) -> int:
    current = tenant.get(Seal, one.id)
    if current is None:
        return 0
    changes = {entry.id: fields for entry in entries_under(tenant, current) if (fields := _changed(entry, redaction))}
    if changes:
        restated = restatements(tenant).get(current.number)
        tenant.transact(restating_steps(tenant, current, changes, restated, erasure))
    return len(changes)


def _changed(entry: AccessLog, redaction: Redaction) -> JsonObject:
    fields = redaction.changed_fields(entry, redaction.fields_found(entry))
    for name in ("created_by", "updated_by"):
        if getattr(entry, name) in redaction.ids:
            fields[name] = redaction.ids[getattr(entry, name)]
    if not fields:
        return {}
    told = _without_hashes(fields.get("request_data", entry.request_data))
    address = None if "actor_id" in fields else entry.ip_address
    return {**fields, "request_data": told, "salt": None, "ip_address": address}


def _without_hashes(told: JsonObject) -> JsonObject:
    """Of a text the log has a hash and a size. Whoever guesses a short text could prove it by the hash."""
    return {
        name: {key: inner for key, inner in value.items() if key != "sha256"} if isinstance(value, dict) else value
        for name, value in told.items()
    }
