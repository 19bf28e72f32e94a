"""Expiry: deletes expired memories and states, removed users and the like, old log entries and unused content."""

from __future__ import annotations

from functools import partial

from pydantic import Field

from recollect.domain.agents import AgentState
from recollect.domain.memory import Memory
from recollect.domain.record import Record, now
from recollect.errors import RequirementFailed, VersionConflict
from recollect.ports.query import Compare, Query
from recollect.ports.steps import DeleteWhere
from recollect.retry import retry
from recollect.services.admin.partitions import keep_retention
from recollect.services.admin.removal_plan import burying_steps, overdue
from recollect.services.erasure import erase_traces, owed, owing
from recollect.services.memories.derived import erasing_steps
from recollect.services.requests import Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.transaction import commit, logged
from recollect.services.workspaces.blobs import collect


class SweepRequest(Request):
    """Delete what has expired."""

    dry_run: bool = Field(False, description="Only report how many")


class SweepReply(Reply):
    expired: int
    log_entries: int = 0
    states: int = 0
    blobs: int = 0
    removed: int = Field(0, description="Users, agents, sessions and projects that can no longer be restored")
    notes: list[str] = Field(default_factory=list)


def sweep(tenant: Tenant, request: SweepRequest) -> SweepReply:
    """Delete for good every expired memory and agent state, what was removed and can no longer be restored, and file
    content that nothing uses any more.

    Expired records are not returned before that, either. Also deletes access log entries that are older than the
    settings allow.
    """
    expired = (Compare("expires_at", "<=", now()),)
    memories, states = (tenant.count(Query(one, expired, deleted="yes")) for one in (Memory, AgentState))
    removed = overdue(tenant)
    if request.dry_run:
        return SweepReply(expired=memories, states=states, removed=len(removed))
    for party in removed:
        retry(partial(_bury, tenant, party), VersionConflict, RequirementFailed)
    blobs, _ = collect(tenant)
    if memories or states:
        gone = [id for (id,) in tenant.select(Query(Memory, expired, deleted="yes"), ("id",))]
        entry = logged(tenant, "delete", "sweep", None, count=memories, states=states)
        copies = erasing_steps(tenant, gone)
        ends = [DeleteWhere(Memory, expired), DeleteWhere(AgentState, expired), owing(tenant, "sweep")]
        commit(tenant, [*copies, *ends, entry])
    notes = erase_traces(tenant) if memories or states or blobs or removed or owed(tenant) else []
    entries = keep_retention(tenant)
    return SweepReply(
        expired=memories, states=states, blobs=blobs, log_entries=entries, removed=len(removed), notes=notes
    )


def _bury(tenant: Tenant, party: Record) -> None:
    """Delete it for good, unless it was already deleted with another one or just restored."""
    root = tenant.get(type(party), party.id, deleted=True)
    if root is not None and root.is_deleted and root.updated_at == party.updated_at:
        commit(tenant, [*burying_steps(tenant, root), owing(tenant, root.id)])
