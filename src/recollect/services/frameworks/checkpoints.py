"""Saving checkpoints of programs that run in steps, the pending writes of their tasks, and copies of threads.

A put is one transaction: the checkpoint, the items that are new, and the deletes of retention. Two writers on one line
both succeed: items get their numbers from the line, which each writes, and the second reads it again and retries.

Puts and writes make no entry in the access log: a checkpoint is its own record of who and when, several come with
every step, and a log that grows for ever would undo retention. Deleting, copying and pruning are logged.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field

from recollect.domain.checkpoints import (
    Checkpoint,
    CheckpointItems,
    CheckpointLine,
    CheckpointWrites,
    NamespaceName,
    ThreadName,
    checkpoint_key,
    line_id,
)
from recollect.domain.record import LONGEST_SECONDS, Id, Json, JsonObject, Text, derived_id
from recollect.errors import Conflict, DuplicateKey, InvalidInput, NotFound, ReferenceMissing, VersionConflict
from recollect.ports.query import Query, equal
from recollect.ports.records import revised
from recollect.ports.steps import Insert, Put, Require, Step, Update
from recollect.retry import retry
from recollect.services.frameworks.checkpoint_reading import lines_of, named
from recollect.services.frameworks.checkpoint_retention import (
    CONCURRENT_WRITES,
    checkpoints_of,
    deleting_steps,
    outlived,
    retention_due,
)
from recollect.services.frameworks.checkpoint_streams import (
    Span,
    Spans,
    append,
    checked_spans,
    pack,
    squeezed,
    union,
    unpack,
)
from recollect.services.requests import Bytes, Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.transaction import commit, logged, made

VERSION_BITS = 48
MOST_PIECES = 100_000
Pieces = Annotated[list[Bytes], Field(max_length=MOST_PIECES)]
SharedSpans = Annotated[list[Span], Field(max_length=MOST_PIECES)]
_LINE_STATE = ("ends", "small", "last_id", "last_spans", "unlooked", "looked_at")


class PutCheckpointRequest(Request):
    """A state to save, with the items that are new and those it shares with an earlier checkpoint of its line."""

    thread: ThreadName = Field(description="The thread it belongs to")
    namespace: NamespaceName = Field("", description="The part of the program it belongs to; empty for the whole")
    id: Id = Field(description="Its id; later checkpoints have greater ones")
    parent: Id | None = Field(None, description="The checkpoint it follows")
    run: Text | None = Field(None, description="The run that made it")
    metadata: Json = Field(default_factory=dict, description="JSON to find it by")
    body: Bytes = Field(b"", description="The state itself, in the caller's own format (base64 in JSON)")
    items: dict[NamespaceName, Pieces] = Field(default_factory=dict, description="New items, by stream")
    base: Id | None = Field(None, description="The checkpoint whose items it shares")
    spans: dict[NamespaceName, SharedSpans] = Field(
        default_factory=dict, description="The items it shares, by stream: ranges of numbers, the end not included"
    )
    lacks: list[Text] = Field(default_factory=list, description="Values that only its ancestors hold")
    keep: int | None = Field(
        None,
        ge=1,
        description="How many checkpoints of this line to keep; older ones are deleted a few at a time, "
        "so there are at most half as many again",
    )
    keep_seconds: float | None = Field(
        None,
        gt=0,
        le=LONGEST_SECONDS,
        description="Delete checkpoints older than this; they may stay for another eighth of that time",
    )


class PutCheckpointReply(Reply):
    id: str
    starts: dict[str, int] = Field(description="The number of the first new item of each stream")
    pruned: int = 0


def put(tenant: Tenant, request: PutCheckpointRequest) -> PutCheckpointReply:
    """Save a checkpoint with its new items, and delete old ones if retention says so."""
    return retry(lambda: _put(tenant, request), *CONCURRENT_WRITES)


def _put(tenant: Tenant, request: PutCheckpointRequest) -> PutCheckpointReply:
    id = line_id(request.thread, request.namespace)
    known = tenant.get(CheckpointLine, id)
    line = known or _new_line(tenant, request.thread, request.namespace)
    if any(request.spans.values()):
        checked_spans(request.spans, _spans_of_base(tenant, line, request.base))
    added = append(tenant, line, request.items)
    checkpoint = _record(tenant, id, request, added.starts)
    retention = retention_due(line, request.keep, request.keep_seconds)
    pruned: list[str] = []
    deletes: list[Step] = []
    if retention:
        checkpoints = checkpoints_of(tenant, id, checkpoint)
        pruned = outlived(checkpoints, request.keep, request.keep_seconds, request.id)
        deletes = deleting_steps(tenant, line, pruned, checkpoints)
    fields = {"last_id": request.id, "last_spans": checkpoint.spans, "unlooked": line.unlooked + 1}
    written = revised(line, tenant.scope, **added.counted, **{**fields, **retention})
    # Deletes come first: a merged run has the id of its first piece, which may be one of those deleted.
    steps: list[Step] = [Update(written) if known else Insert(written), *deletes, *added.steps]
    try:
        commit(tenant, [*steps, Insert(checkpoint)])
    except (
        DuplicateKey
    ):  # most likely it was put before; if another writer just created the line, this fails and is retried
        commit(tenant, [*steps, Put(checkpoint)])
    return PutCheckpointReply(id=request.id, starts=added.starts, pruned=len(pruned))


def _new_line(tenant: Tenant, thread: str, namespace: str) -> CheckpointLine:
    line: CheckpointLine = made(
        CheckpointLine,
        tenant,
        id=line_id(thread, namespace),
        version=secrets.randbits(VERSION_BITS),
        thread=thread,
        namespace=namespace,
    )
    return line


def _spans_of_base(tenant: Tenant, line: CheckpointLine, base: str | None) -> Mapping[str, Sequence[Span]]:
    """The items of the base. Read after the line: if the base is deleted meanwhile, the line's version changes."""
    if base is not None and base == line.last_id:
        return line.last_spans
    key = checkpoint_key(line.id, base or "")
    found = tenant.select(Query(Checkpoint, (equal("id", key),)), ("spans",))
    if not found:
        raise NotFound("the checkpoint whose items are shared does not exist", remedy="send all items again", base=base)
    spans: Spans = found[0][0]
    return spans


def _record(tenant: Tenant, line: str, request: PutCheckpointRequest, starts: dict[str, int]) -> Checkpoint:
    spans = {stream: list(some) for stream, some in request.spans.items()}
    for stream, start in starts.items():
        spans.setdefault(stream, []).append((start, start + len(request.items[stream])))
    checkpoint: Checkpoint = made(
        Checkpoint,
        tenant,
        id=checkpoint_key(line, request.id),
        line_id=line,
        checkpoint_id=request.id,
        parent_id=request.parent,
        run_id=request.run,
        metadata=request.metadata,
        spans={stream: union(some) for stream, some in spans.items() if some},
        starts=starts,
        lacks=request.lacks,
        body=squeezed(request.body),
    )
    return checkpoint


# -- the writes of a task --------------------------------------------------------------------------------------------


class WriteCheckpointRequest(Request):
    """The writes of one task, pending until the next checkpoint."""

    thread: ThreadName = Field(description="The thread it belongs to")
    namespace: NamespaceName = Field("", description="The part of the program it belongs to")
    id: Id = Field(description="The checkpoint that the task started from")
    task: Text = Field(description="The task")
    path: Text = Field(
        "", description="The position of the task among those of its step; writes are read in this order"
    )
    slots: list[tuple[int, Text]] = Field(
        description="For each value: its position among the writes of the task, and its channel"
    )
    values: list[Bytes] = Field(description="The values, in the caller's own format (base64 in JSON)")
    replace: bool = Field(False, description="Overwrite earlier writes of the task at the same positions")


class WriteCheckpointReply(Reply):
    written: int


def write(tenant: Tenant, request: WriteCheckpointRequest) -> WriteCheckpointReply:
    """Save the writes of a task; a position that was written before keeps its value unless `replace` is set."""
    if len(request.slots) != len(request.values):
        raise InvalidInput(
            "the number of values differs from the number of slots", remedy="give one value for each slot"
        )
    return retry(lambda: _write(tenant, request), *CONCURRENT_WRITES)


def _write(tenant: Tenant, request: WriteCheckpointRequest) -> WriteCheckpointReply:
    line = line_id(request.thread, request.namespace)
    id = derived_id("writes", line, request.id, request.task)
    given = {place: (channel, value) for (place, channel), value in zip(request.slots, request.values, strict=True)}
    fields = {"line_id": line, "checkpoint_id": request.id, "task_id": request.task, "task_path": request.path}
    first = Insert(made(CheckpointWrites, tenant, id=id, **fields, **_slots(given)))
    try:  # nearly always a task writes once, on a line that exists: no read is needed
        commit(tenant, [first])
        return WriteCheckpointReply(written=len(given))
    except ReferenceMissing:
        commit(tenant, [Insert(_new_line(tenant, request.thread, request.namespace)), first])
        return WriteCheckpointReply(written=len(given))
    except DuplicateKey:
        return _write_more(tenant, id, given, request.replace)


def _write_more(tenant: Tenant, id: str, given: dict[int, tuple[str, bytes]], replace: bool) -> WriteCheckpointReply:
    before = tenant.get(CheckpointWrites, id)
    if before is None:
        raise VersionConflict("the writes of the task were deleted meanwhile", remedy="try again")
    stored = {
        place: (channel, value) for (place, channel), value in zip(before.slots, unpack(before.data), strict=True)
    }
    merged = {**stored, **given} if replace else {**given, **stored}
    if merged != stored:
        commit(tenant, [Update(revised(before, tenant.scope, **_slots(merged)))])
    return WriteCheckpointReply(written=len(given) if replace else len(merged) - len(stored))


def _slots(written: dict[int, tuple[str, bytes]]) -> JsonObject:
    ordered = sorted(written.items())
    return {
        "slots": [[place, channel] for place, (channel, _) in ordered],
        "data": pack(value for _, (_, value) in ordered),
    }


# -- copying a thread ------------------------------------------------------------------------------------------------


class CopyCheckpointsRequest(Request):
    """Which thread to copy, and to where."""

    source: ThreadName = Field(description="The thread to copy")
    target: ThreadName = Field(description="The thread to create; it must not have checkpoints yet")


class CopyCheckpointsReply(Reply):
    checkpoints: int


def copy(tenant: Tenant, request: CopyCheckpointsRequest) -> CopyCheckpointsReply:
    """Copy a thread with all its namespaces, checkpoints, items and writes, as of one moment."""
    return retry(lambda: _copy(tenant, request), *CONCURRENT_WRITES)


def _copy(tenant: Tenant, request: CopyCheckpointsRequest) -> CopyCheckpointsReply:
    if lines_of(tenant, *named(request.target)):
        raise Conflict(
            f"the thread '{request.target[:80]}' already has checkpoints",
            remedy="delete it first, or choose another name",
        )
    steps: list[Step] = []
    count = 0
    for line in tenant.find(Query(CheckpointLine, (equal("thread", request.source),))).records:
        copied = _new_line(tenant, request.target, line.namespace).changed(
            **{name: getattr(line, name) for name in _LINE_STATE}
        )
        mine, target = (equal("line_id", line.id),), copied.id
        steps += [Require(CheckpointLine, line.id, {"version": line.version}), Insert(copied)]
        for checkpoint in tenant.find(Query(Checkpoint, mine)).records:
            steps.append(_copied(checkpoint, target, "checkpoint", checkpoint.checkpoint_id))
            count += 1
        for run in tenant.find(Query(CheckpointItems, mine)).records:
            steps.append(_copied(run, target, "items", run.stream, str(run.start)))
        for writes in tenant.find(Query(CheckpointWrites, mine)).records:
            steps.append(_copied(writes, target, "writes", writes.checkpoint_id, writes.task_id))
    if steps:
        commit(tenant, [*steps, logged(tenant, "create", "checkpoint.copy", None, checkpoints=count)])
    return CopyCheckpointsReply(checkpoints=count)


def _copied(record: Checkpoint | CheckpointItems | CheckpointWrites, line: str, kind: str, *key: str) -> Step:
    return Insert(record.changed(id=derived_id(kind, line, *key), line_id=line, version=1))
