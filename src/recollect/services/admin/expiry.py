"""Expiry: deletes expired memories and states, what was removed long ago, old log entries and unused content."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest

from pydantic import Field

from recollect.domain.agents import AgentState, Execution
from recollect.domain.memory import Memory
from recollect.domain.record import Record, now
from recollect.domain.sources import Source
from recollect.errors import (
    InColdStorage,
    InvalidSettings,
    OnLegalHold,
    RequirementFailed,
    Unavailable,
    VersionConflict,
)
from recollect.ports.query import Compare, OneOf, Query
from recollect.ports.steps import Absent, DeleteWhere, Step
from recollect.retry import retry
from recollect.services.admin.partitions import keep_retention
from recollect.services.admin.record_removal import has_forks
from recollect.services.admin.removal_plan import REMOVED_ALONE, burying_steps, overdue
from recollect.services.data import contents
from recollect.services.data.sources import delete_for_good, overdue_sources
from recollect.services.erasure import delete_cold_files, erase_traces, owed, owing
from recollect.services.legal_holds import ActiveHolds, active_holds, held_ids
from recollect.services.memories.derived import erasing_steps
from recollect.services.parties import PARTIES
from recollect.services.requests import Reply, Request
from recollect.services.tenant import GoOn, Tenant
from recollect.services.transaction import commit, logged
from recollect.services.workspaces.blobs import collect

AT_ONCE = 200  # deleted in one transaction, for which others who write wait


class SweepRequest(Request):
    """Delete what has expired."""

    dry_run: bool = Field(False, description="Only report how many")


class SweepReply(Reply):
    expired: int
    log_entries: int = 0
    states: int = 0
    blobs: int = 0
    objects: int = Field(0, description="Stored files that nothing needs any more")
    removed: int = Field(0, description="How much was removed before and can no longer be restored: users, messages, …")
    notes: list[str] = Field(default_factory=list)


def sweep(tenant: Tenant, request: SweepRequest, go_on: GoOn = lambda: None) -> SweepReply:
    """Delete for good every expired memory and agent state, what was removed and can no longer be restored, and file
    content that nothing uses any more.

    Expired records are not returned before that, either. Also deletes access log entries that are older than the
    settings allow.
    """
    holds = active_holds(tenant)
    expired, old_states = (_expired(tenant, one, holds) for one in (Memory, AgentState))
    memories, states = (tenant.count(one) for one in (expired, old_states))
    parties = overdue(tenant, PARTIES.values())
    alone = _alone(tenant, parties)
    notes: list[str] = []
    if request.dry_run:
        removed = len(parties) + len(alone) + len(_sources_to_go(tenant))
        return SweepReply(expired=memories, states=states, removed=removed)
    for record in (*parties, *alone):
        try:
            retry(partial(_bury, tenant, record), VersionConflict, RequirementFailed)
        except (OnLegalHold, InColdStorage) as kept:
            notes += [kept.message] if kept.message not in notes else []
        go_on()
    sources = retry(partial(_delete_sources, tenant), RequirementFailed)
    blobs, _ = collect(tenant)
    try:
        objects = contents.collect(tenant) + delete_cold_files(tenant)
    except (Unavailable, InvalidSettings) as failure:  # a storage that is away must not keep the rest from expiring
        objects, notes = 0, [f"stored files were not looked through: {failure.message}"]
    if memories or states:
        memories, states = _delete_expired(tenant, expired, old_states, owing(tenant, "sweep"), go_on)
    if memories or states or blobs or parties or alone or owed(tenant):
        notes += erase_traces(tenant)
    entries = keep_retention(tenant.unrestricted)
    return SweepReply(
        expired=memories,
        states=states,
        blobs=blobs,
        objects=objects,
        log_entries=entries,
        removed=len(parties) + len(alone) + sources,
        notes=notes,
    )


def _sources_to_go(tenant: Tenant) -> list[Source]:
    sources = overdue_sources(tenant)
    held = held_ids(tenant, active_holds(tenant), Source, [one.id for one in sources])
    return [one for one in sources if one.id not in held]


def _delete_sources(tenant: Tenant) -> int:
    """Those that may go now: one may be restored, and a hold placed, while the rest is swept."""
    sources = _sources_to_go(tenant)
    if sources:
        none_is_back = Absent(Source, (OneOf("id", tuple(one.id for one in sources)),))
        entry = logged(tenant, "delete", "sweep", None, sources=len(sources))
        delete_for_good(tenant, sources, entry, provided=[none_is_back])
    return len(sources)


def _delete_expired(
    tenant: Tenant, memories: Query[Record], states: Query[Record], note: Step, go_on: GoOn
) -> tuple[int, int]:
    """Some at a time: all that expired while nobody swept, in one transaction, would keep everybody from writing.

    Of each part it is asked anew what may go: a hold may be placed, and an expiry lifted, while this runs.
    """
    deleted_memories, deleted_states = 0, 0
    for some, old in zip_longest(_some_at_a_time(tenant, memories), _some_at_a_time(tenant, states), fillvalue=()):
        holds = active_holds(tenant)
        gone, old = _still_going(tenant, memories, some, holds), _still_going(tenant, states, old, holds)
        ends = [
            DeleteWhere(one.record, (OneOf("id", ids), *one.where))
            for one, ids in ((memories, gone), (states, old))
            if ids
        ]
        if ends:
            entry = logged(tenant, "delete", "sweep", None, count=len(gone), states=len(old))
            commit(tenant, [*erasing_steps(tenant, gone), *ends, note, entry])
        deleted_memories, deleted_states = deleted_memories + len(gone), deleted_states + len(old)
        go_on()
    return deleted_memories, deleted_states


def _some_at_a_time(tenant: Tenant, query: Query[Record]) -> list[tuple[str, ...]]:
    ids = [id for (id,) in tenant.select(query, ("id",))]
    return [tuple(ids[start : start + AT_ONCE]) for start in range(0, len(ids), AT_ONCE)]


def _still_going(tenant: Tenant, query: Query[Record], ids: tuple[str, ...], holds: ActiveHolds) -> tuple[str, ...]:
    if not ids:
        return ()
    of_these = replace(query, where=(OneOf("id", ids), *query.where))
    passing = [id for (id,) in tenant.select(of_these, ("id",))]
    held = held_ids(tenant, holds, query.record, passing)
    return tuple(id for id in passing if id not in held)


def _alone(tenant: Tenant, parties: Sequence[Record]) -> list[Record]:
    """What was removed by itself and can no longer be restored; what was hidden with a party goes, or stays, with it.

    A run goes after those that share its steps.
    """
    together = {party.updated_at for party in parties}
    found = [one for one in overdue(tenant, REMOVED_ALONE) if one.updated_at not in together]
    return [one for one in found if not (isinstance(one, Execution) and has_forks(tenant, one.id))]


def _expired(tenant: Tenant, record: type[Record], holds: ActiveHolds) -> Query[Record]:
    """What has expired and is not on legal hold."""
    query: Query[Record] = Query(record, (Compare("expires_at", "<=", now()),), deleted="yes")
    ids = [id for (id,) in tenant.select(query, ("id",))] if holds else []
    held = tuple(sorted(held_ids(tenant, holds, record, ids)))
    return replace(query, where=(*query.where, OneOf("id", held, wanted=False))) if held else query


def _bury(tenant: Tenant, party: Record) -> None:
    """Delete it for good, unless it was already deleted with another one or just restored."""
    root = tenant.get(type(party), party.id, deleted=True)
    if root is not None and root.is_deleted and root.updated_at == party.updated_at:
        commit(tenant, [*burying_steps(tenant, root), owing(tenant, root.id)])
