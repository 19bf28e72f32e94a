"""What is over is deleted: memories and states past their expiry, removed parties, old log entries, unused content."""

from __future__ import annotations

from functools import partial

from pydantic import Field

from recollect.domain.agents import AgentState
from recollect.domain.memory import Memory
from recollect.domain.record import Record, now
from recollect.errors import RequirementFailed, VersionConflict
from recollect.ports.records import (
    Compare,
    DeleteWhere,
    Query,
    Scope,
)
from recollect.services.admin.partitions import keep_retention
from recollect.services.admin.removal_plan import burying_steps, overdue
from recollect.services.context import Core, Reply, Request, commit, insistently, logged
from recollect.services.erasure import erase_traces, owed, owing
from recollect.services.memories.derived import erasing_steps
from recollect.services.workspaces.blobs import collect


class SweepRequest(Request):
    """Delete what has expired."""

    dry_run: bool = Field(False, description="Only say how many")


class Swept(Reply):
    expired: int
    log_entries: int = 0
    states: int = 0
    blobs: int = 0
    removed: int = Field(0, description="Users, agents, sessions and projects whose time to be restored is over")
    notes: list[str] = Field(default_factory=list)


def sweep(core: Core, scope: Scope, request: SweepRequest) -> Swept:
    """Delete for good every memory and agent state whose time is up, what was removed and can no longer be restored,
    and file content that nothing uses any more.

    What has expired is given to nobody before that, either. Also lets go of access log entries that are older than
    the settings want.
    """
    expired = (Compare("expires_at", "<=", now()),)
    memories, states = (core.store.count(scope, Query(one, expired, deleted="yes")) for one in (Memory, AgentState))
    removed = overdue(core, scope)
    if request.dry_run:
        return Swept(expired=memories, states=states, removed=len(removed))
    for party in removed:
        insistently(partial(_bury, core, scope, party), VersionConflict, RequirementFailed)
    blobs, _ = collect(core, scope)
    if memories or states:
        gone = [id for (id,) in core.store.select(scope, Query(Memory, expired, deleted="yes"), ("id",))]
        entry = logged(scope, "delete", "sweep", None, count=memories, states=states)
        copies = erasing_steps(core, scope, gone)
        ends = [DeleteWhere(Memory, expired), DeleteWhere(AgentState, expired), owing(scope, "sweep")]
        commit(core, scope, [*copies, *ends, entry])
    notes = erase_traces(core, scope) if memories or states or blobs or removed or owed(core, scope) else []
    entries = keep_retention(core, scope)
    return Swept(expired=memories, states=states, blobs=blobs, log_entries=entries, removed=len(removed), notes=notes)


def _bury(core: Core, scope: Scope, party: Record) -> None:
    """Unless it went with another one, or somebody restored it a moment ago."""
    root = core.store.get(scope, type(party), party.id, deleted=True)
    if root is not None and root.is_deleted and root.updated_at == party.updated_at:
        commit(core, scope, [*burying_steps(core, scope, root), owing(scope, root.id)])
