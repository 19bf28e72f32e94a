"""Legal holds: what belongs to a held user, agent, session or project is not deleted, whoever asks and why.

A record belongs to the parties it names, and to those that its session names. Every path that deletes asks here first:
one select where nothing is held, and another for the sessions where something is. The operations that place and release
holds are in services/retention/holds.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from recollect.domain.conversations import Session
from recollect.domain.record import RECORDS, Record
from recollect.domain.retention import LegalHold
from recollect.errors import OnLegalHold
from recollect.ports.query import IsNull, OneOf, Query
from recollect.services.tenant import Tenant

PARTY_FIELDS = {
    "user": ("user_id", "owner_id"), "agent": ("agent_id",), "session": ("session_id",), "project": ("project_id",)
}  # fmt: skip
CHUNK = 500


@dataclass(frozen=True)
class ActiveHolds:
    """The holds that are in force, by type and id of what they are on."""

    by_subject: Mapping[tuple[str, str], LegalHold] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.by_subject)

    def over(self, record: Record) -> LegalHold | None:
        """The hold on a record or on a party that it names; not through its session."""
        named = [(record.shape.table, record.id)]
        for type, names in PARTY_FIELDS.items():
            named += [(type, id) for name in names if (id := getattr(record, name, None)) is not None]
        return next((self.by_subject[one] for one in named if one in self.by_subject), None)


def active_holds(tenant: Tenant) -> ActiveHolds:
    found = tenant.find(Query(LegalHold, (IsNull("released_at"),))).records
    return ActiveHolds({(one.subject_type, one.subject_id): one for one in found})


def held_ids(tenant: Tenant, holds: ActiveHolds, record: type[Record], ids: Sequence[str]) -> dict[str, LegalHold]:
    """Those of the records that are held, each with one of its holds."""
    found: dict[str, LegalHold] = {}
    for start in range(0, len(ids) if holds else 0, CHUNK):
        some = OneOf("id", tuple(ids[start : start + CHUNK]))
        records = tenant.find(Query(record, (some,), deleted="yes")).records
        sessions = _held_sessions(tenant, holds, records)
        for one in records:
            hold = holds.over(one) or sessions.get(getattr(one, "session_id", None) or "")
            if hold is not None:
                found[one.id] = hold
    return found


def _held_sessions(tenant: Tenant, holds: ActiveHolds, records: Iterable[Record]) -> dict[str, LegalHold]:
    """The holds on the sessions of these records, or on a party that such a session names."""
    ids = tuple(sorted({id for one in records if (id := getattr(one, "session_id", None)) is not None}))
    sessions = tenant.find(Query(Session, (OneOf("id", ids),), deleted="yes")).records if ids else []
    return {one.id: hold for one in sessions if (hold := holds.over(one)) is not None}


def refuse_held(tenant: Tenant, going: Mapping[str, Sequence[str]]) -> None:
    """Raise OnLegalHold if any of these records, by table and id, is held; a party is named before what is theirs."""
    if not any(going.values()):
        return
    holds = active_holds(tenant)
    parties_first = sorted(going.items(), key=lambda one: (one[0] not in PARTY_FIELDS, one[0]))
    for table, ids in parties_first if holds else ():
        for id, hold in held_ids(tenant, holds, RECORDS[table], ids).items():
            raise on_hold(table, id, hold)


def on_hold(table: str, id: str, hold: LegalHold) -> OnLegalHold:
    of = (
        ""
        if (table, id) == (hold.subject_type, hold.subject_id)
        else f" of {hold.subject_type} '{hold.subject_id[:80]}'"
    )
    return OnLegalHold(
        f"{table.replace('_', ' ')} '{id[:80]}'{of} is on legal hold",
        remedy=f"nothing of it can be deleted until the hold is released: recollect hold release {hold.id}",
        id=id,
        hold=hold.id,
    )


def without_held(tenant: Tenant, record: type[Record], ids: Sequence[str]) -> list[str]:
    """Those of the records that are not held."""
    held = held_ids(tenant, active_holds(tenant), record, ids) if ids else {}
    return [id for id in ids if id not in held]
