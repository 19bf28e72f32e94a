"""Deleting checkpoints: by retention when new ones are put, by a prune, or by name.

Each line always keeps its newest checkpoint, and the ancestors that hold what a checkpoint that stays `lacks`. Whoever
deletes a checkpoint writes its line as well: what was there when a put read the line is there when it commits.

A put applies retention only now and then: that costs a tenth of doing it each time, and leaves at most half as many
checkpoints again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from pydantic import Field

from recollect.domain.checkpoints import Checkpoint, CheckpointLine, CheckpointWrites, ThreadName
from recollect.domain.record import LONGEST_SECONDS, JsonObject, Text, now
from recollect.errors import DuplicateKey, InvalidInput, ReferenceMissing, RequirementFailed, VersionConflict
from recollect.ports.query import AnyOf, Compare, OneOf, Query, equal
from recollect.ports.records import revised
from recollect.ports.steps import Delete, DeleteWhere, Step, Update
from recollect.retry import retry
from recollect.services.frameworks.checkpoint_reading import lines_of, named
from recollect.services.frameworks.checkpoint_streams import Spans, unused_steps
from recollect.services.legal_holds import refuse_held
from recollect.services.requests import Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.transaction import commit, logged

# Somebody else wrote to the line since it was read: read it again and retry.
CONCURRENT_WRITES = (DuplicateKey, RequirementFailed, VersionConflict, ReferenceMissing)


class RetainedFields(NamedTuple):
    """The fields of a checkpoint that retention reads."""

    checkpoint_id: str
    parent_id: str | None
    lacks: list[str]
    created_at: datetime
    spans: Spans


def checkpoints_of(tenant: Tenant, line: str, newest: Checkpoint | None = None) -> list[RetainedFields]:
    """The checkpoints of a line, the newest first; `newest` is about to be written."""
    rows = tenant.select(Query(Checkpoint, (equal("line_id", line),)), RetainedFields._fields)
    known = {row[0]: RetainedFields(*row) for row in rows}
    if newest is not None:
        known[newest.checkpoint_id] = RetainedFields(*(getattr(newest, name) for name in RetainedFields._fields))
    return [known[id] for id in sorted(known, reverse=True)]


def retention_due(line: CheckpointLine, keep: int | None, keep_seconds: float | None) -> JsonObject:
    """The fields to set on the line if retention is to be applied now; empty if it is not due.

    Afterwards at most `keep` are left; with those put until the next time, never more than half as many again.
    """
    moment = now()
    too_many = keep is not None and line.unlooked >= keep // 2
    waited = abs((moment - line.looked_at).total_seconds())  # the clock may have been set back
    too_old = keep_seconds is not None and waited > keep_seconds / 8
    if not too_many and not too_old:
        return {}
    # Count and age are tracked separately: another writer of this line may use the other one.
    reset = {"unlooked": 0} if keep is not None else {}
    return {**reset, "looked_at": moment} if keep_seconds is not None else reset


def outlived(
    checkpoints: Sequence[RetainedFields], keep: int | None, keep_seconds: float | None, new: str | None = None
) -> list[str]:
    """The checkpoints of a line that retention deletes; never `new`, even if others have put newer ones already."""
    cutoff = now() - timedelta(seconds=keep_seconds) if keep_seconds is not None else None
    kept = [one for one in checkpoints[:keep] if cutoff is None or one.created_at >= cutoff] or list(checkpoints[:1])
    kept += [one for one in checkpoints if one.checkpoint_id == new and one not in kept]
    needed = _with_ancestors(kept, {one.checkpoint_id: one for one in checkpoints})
    return [one.checkpoint_id for one in checkpoints if one.checkpoint_id not in needed]


def _with_ancestors(kept: Sequence[RetainedFields], known: dict[str, RetainedFields]) -> set[str]:
    """These checkpoints, and the ancestors that hold what they lack."""
    needed = {one.checkpoint_id for one in kept}
    for one in kept:
        missing, parent = set(one.lacks), one.parent_id
        while missing and parent in known:
            needed.add(parent)
            missing &= set(known[parent].lacks)
            parent = known[parent].parent_id
    return needed


def deleting_steps(
    tenant: Tenant, line: CheckpointLine, ids: Sequence[str], checkpoints: Sequence[RetainedFields]
) -> list[Step]:
    """Deletes these checkpoints of a line, their pending writes, and the items that only they used.

    Comes after the update of the line: what others wrote since it was read may use what is deleted here.
    """
    if not ids:
        return []
    mine, deleted = equal("line_id", line.id), OneOf("checkpoint_id", tuple(ids))
    used = {one.checkpoint_id: one.spans for one in checkpoints if one.checkpoint_id not in set(ids)}
    if not used:
        return [Delete(CheckpointLine, line.id)]
    late = Compare("checkpoint_id", "<", min(used))  # written by a task that outlived its checkpoint
    return [
        DeleteWhere(CheckpointWrites, (mine, AnyOf((deleted, late)))),
        DeleteWhere(Checkpoint, (mine, deleted)),
        *unused_steps(tenant, line.id, used.values()),
    ]


class DeleteCheckpointsRequest(Request):
    """Which checkpoints to delete: those of a thread, or those that some runs made."""

    thread: ThreadName | None = Field(None, description="The thread to delete, with all its namespaces")
    runs: list[Text] = Field(default_factory=list, description="Delete the checkpoints that these runs made")


class DeleteCheckpointsReply(Reply):
    checkpoints: int


def delete(tenant: Tenant, request: DeleteCheckpointsRequest) -> DeleteCheckpointsReply:
    """Delete checkpoints for good, with their pending writes."""
    if (request.thread is None) == (not request.runs):
        raise InvalidInput("either a thread or runs must be given", remedy="give one of the two")
    return retry(lambda: _delete(tenant, request), *CONCURRENT_WRITES)


def _delete(tenant: Tenant, request: DeleteCheckpointsRequest) -> DeleteCheckpointsReply:
    if request.thread is not None:
        whole = dict.fromkeys(lines_of(tenant, *named(request.thread)))
        return _delete_from(tenant, whole, "checkpoint.delete")
    lines = lines_of(tenant)
    ids: dict[str, list[str] | None] = {}
    of_runs = Query(Checkpoint, (OneOf("run_id", tuple(request.runs)),))
    for line, id in tenant.select(of_runs, ("line_id", "checkpoint_id")):
        ids[line] = [*(ids.get(line) or []), id]
    return _delete_from(tenant, {line: some for line, some in ids.items() if line in lines}, "checkpoint.delete")


def _delete_from(tenant: Tenant, lines: Mapping[str, list[str] | None], action: str) -> DeleteCheckpointsReply:
    """Deletes these checkpoints of each line, or the whole line for None, in one transaction."""
    steps: list[Step] = []
    count = 0
    for id, deleted in lines.items():
        line = tenant.get(CheckpointLine, id)
        if line is None:
            continue
        refuse_held(tenant, {"session": [line.thread]})
        checkpoints = checkpoints_of(tenant, id)
        count += len(checkpoints) if deleted is None else len(deleted)
        if deleted is None:
            steps.append(Delete(CheckpointLine, id))
        else:
            last: JsonObject = {"last_id": None, "last_spans": {}} if line.last_id in deleted else {}
            steps += [Update(revised(line, tenant.scope, **last)), *deleting_steps(tenant, line, deleted, checkpoints)]
    if steps:
        commit(tenant, [*steps, logged(tenant, "delete", action, None, checkpoints=count)])
    return DeleteCheckpointsReply(checkpoints=count)


class PruneCheckpointsRequest(Request):
    """How many to keep. Each line keeps its newest checkpoint and the ancestors that those kept need."""

    threads: list[ThreadName] | None = Field(None, description="Only of these threads; of all threads if omitted")
    keep: int | None = Field(None, ge=1, description="How many of each line to keep")
    keep_seconds: float | None = Field(None, gt=0, le=LONGEST_SECONDS, description="Delete those older than this")


def prune(tenant: Tenant, request: PruneCheckpointsRequest) -> DeleteCheckpointsReply:
    """Delete old checkpoints."""
    if request.keep is None and request.keep_seconds is None:
        raise InvalidInput("neither keep nor keep_seconds is given", remedy="give at least one of them")
    return retry(lambda: _prune(tenant, request), *CONCURRENT_WRITES)


def _prune(tenant: Tenant, request: PruneCheckpointsRequest) -> DeleteCheckpointsReply:
    names = [None] if request.threads is None else request.threads
    ids = [id for name in names for id in lines_of(tenant, *named(name))]
    old = {id: outlived(checkpoints_of(tenant, id), request.keep, request.keep_seconds) for id in ids}
    return _delete_from(tenant, {id: some for id, some in old.items() if some}, "checkpoint.prune")
