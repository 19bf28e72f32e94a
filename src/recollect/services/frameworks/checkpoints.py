"""Checkpoints of programs that run in steps: put, read, listed, copied, let go of.

A put is one transaction: the checkpoint, the items that are new, and what retention lets go of. Each line always
keeps its newest checkpoint, and whatever a kept one `lacks` and needs its ancestors for. Two writers on one line
both succeed: items get their numbers from the line, which each writes, and who was second looks again. Whoever deletes
a checkpoint writes the line, too: what was there when the line was read is there when a put on that line commits.

Retention looks after a few puts, not after each: that costs a tenth, and at most half as many again are there.

Puts and writes make no entry in the access log: a checkpoint is its own record of who and when, several come with
every step, and a log that grows for ever would undo retention. Deleting, copying and pruning are logged.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, NamedTuple

from pydantic import BaseModel, Field

from recollect.domain.checkpoints import (
    Checkpoint,
    CheckpointItems,
    CheckpointLine,
    CheckpointWrites,
    NamespaceName,
    ThreadName,
    line_id,
)
from recollect.domain.record import LONGEST_SECONDS, Id, Json, JsonObject, QueryText, Text, derived_id, now
from recollect.errors import (
    Conflict,
    DamagedData,
    DuplicateKey,
    InvalidInput,
    NotFound,
    ReferenceMissing,
    RequirementFailed,
    VersionConflict,
)
from recollect.ports.query import AnyOf, Compare, Filter, OneOf, Order, Query, equal
from recollect.ports.records import revised
from recollect.ports.steps import Delete, DeleteWhere, Insert, Put, Require, Step, Update
from recollect.retry import retry
from recollect.services.frameworks.checkpoint_streams import (
    Span,
    Spans,
    append,
    checked_spans,
    pack,
    read_spans,
    spans_of,
    squeezed,
    union,
    unpack,
    unsqueezed,
    unused_steps,
)
from recollect.services.request_limits import MOST_CONDITIONS
from recollect.services.requests import Bytes, PageReply, Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.transaction import commit, logged, made

PAGE = 100
LOOKS = 5
VERSION_BITS = 48
_COUNTED = ("ends", "small", "last_id", "last_spans", "unlooked", "looked_at")
_OTHERS_WERE_QUICKER = (DuplicateKey, RequirementFailed, VersionConflict, ReferenceMissing)


MOST_PIECES = 100_000
Pieces = Annotated[list[Bytes], Field(max_length=MOST_PIECES)]
SharedSpans = Annotated[list[Span], Field(max_length=MOST_PIECES)]


class PutCheckpointRequest(Request):
    """A state to save, with the items that are new and those it shares with an earlier checkpoint of its line."""

    thread: ThreadName = Field(description="The thread it belongs to")
    namespace: NamespaceName = Field("", description="The part of the program it belongs to; empty for the whole")
    id: Id = Field(description="Its id; later checkpoints have greater ones")
    parent: Id | None = Field(None, description="The checkpoint it follows")
    run: Text | None = Field(None, description="The run that made it")
    metadata: Json = Field(default_factory=dict, description="What it can be found by, as JSON")
    body: Bytes = Field(b"", description="The state itself, in the maker's own form (base64 in JSON)")
    items: dict[NamespaceName, Pieces] = Field(default_factory=dict, description="New items, by stream")
    base: Id | None = Field(None, description="The checkpoint whose items it shares")
    spans: dict[NamespaceName, SharedSpans] = Field(
        default_factory=dict, description="The items it shares, by stream: numbers from, up to but not including"
    )
    lacks: list[Text] = Field(default_factory=list, description="Values that only its ancestors hold")
    keep: int | None = Field(
        None,
        ge=1,
        description="Keep so many checkpoints of this line, let go of older ones; "
        "a few go at a time, so there are at most half as many again",
    )
    keep_seconds: float | None = Field(
        None,
        gt=0,
        le=LONGEST_SECONDS,
        description="Let go of checkpoints older than this, at the latest when they are an eighth older",
    )


class PutCheckpointReply(Reply):
    id: str
    starts: dict[str, int] = Field(description="The number of the first new item of each stream")
    pruned: int = 0


def put(tenant: Tenant, request: PutCheckpointRequest) -> PutCheckpointReply:
    """Save a checkpoint, the new items with it, and let go of what retention does not keep."""
    return retry(lambda: _put(tenant, request), *_OTHERS_WERE_QUICKER)


def _put(tenant: Tenant, request: PutCheckpointRequest) -> PutCheckpointReply:
    id = line_id(request.thread, request.namespace)
    known = tenant.get(CheckpointLine, id)
    line = known or _new_line(tenant, request.thread, request.namespace)
    if any(request.spans.values()):
        checked_spans(request.spans, _held(tenant, line, request.base))
    added = append(tenant, line, request.items)
    checkpoint = _record(tenant, id, request, added.starts)
    look = _look(line, request.keep, request.keep_seconds)
    gone: list[str] = []
    leaving: list[Step] = []
    if look:
        standing = _standing(tenant, id, checkpoint)
        gone = _outlived(standing, request.keep, request.keep_seconds, request.id)
        leaving = _gone_steps(tenant, line, gone, standing)
    fields = {"last_id": request.id, "last_spans": checkpoint.spans, "unlooked": line.unlooked + 1}
    written = revised(line, tenant.scope, **added.counted, **{**fields, **look})
    # What is new comes after what goes: a folded run has the id of its first piece, which may be one of those that go.
    steps: list[Step] = [Update(written) if known else Insert(written), *leaving, *added.steps]
    try:
        commit(tenant, [*steps, Insert(checkpoint)])
    except DuplicateKey:  # put before, most likely; a line that somebody else made meanwhile fails once more
        commit(tenant, [*steps, Put(checkpoint)])
    return PutCheckpointReply(id=request.id, starts=added.starts, pruned=len(gone))


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


def _held(tenant: Tenant, line: CheckpointLine, base: str | None) -> Mapping[str, Sequence[Span]]:
    """The items of the checkpoint that is shared with. Read after the line: if it goes, the line is not as it was."""
    if base is not None and base == line.last_id:
        return line.last_spans
    key = _checkpoint_key(line.id, base or "")
    found = tenant.select(Query(Checkpoint, (equal("id", key),)), ("spans",))
    if not found:
        raise NotFound("the checkpoint whose items are shared is gone", remedy="send all items again", base=base)
    spans: Spans = found[0][0]
    return spans


def _record(tenant: Tenant, line: str, request: PutCheckpointRequest, starts: dict[str, int]) -> Checkpoint:
    spans = {stream: list(some) for stream, some in request.spans.items()}
    for stream, start in starts.items():
        spans.setdefault(stream, []).append((start, start + len(request.items[stream])))
    checkpoint: Checkpoint = made(
        Checkpoint,
        tenant,
        id=_checkpoint_key(line, request.id),
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


def _checkpoint_key(line: str, id: str) -> str:
    return derived_id("checkpoint", line, id)


# -- retention -------------------------------------------------------------------------------------------------------


class _Known(NamedTuple):
    """What retention must know of a checkpoint."""

    checkpoint_id: str
    parent_id: str | None
    lacks: list[str]
    created_at: datetime
    spans: Spans


def _standing(tenant: Tenant, line: str, newest: Checkpoint | None = None) -> list[_Known]:
    """The checkpoints of a line, the newest first; `newest` is about to be written."""
    rows = tenant.select(Query(Checkpoint, (equal("line_id", line),)), _Known._fields)
    known = {row[0]: _Known(*row) for row in rows}
    if newest is not None:
        known[newest.checkpoint_id] = _Known(*(getattr(newest, name) for name in _Known._fields))
    return [known[id] for id in sorted(known, reverse=True)]


def _look(line: CheckpointLine, keep: int | None, keep_seconds: float | None) -> JsonObject:
    """Whether it is time to see what can go, as what the line says afterwards; empty if it is not.

    After a look at most `keep` are there, so that with those put since there are never more than half as many again.
    """
    moment = now()
    by_count = keep is not None and line.unlooked >= keep // 2
    waited = abs((moment - line.looked_at).total_seconds())  # a clock may have been put back
    by_age = keep_seconds is not None and waited > keep_seconds / 8
    if not by_count and not by_age:
        return {}
    # A look for the one does not count for the other: somebody else may put to the line and keep by that.
    counted = {"unlooked": 0} if keep is not None else {}
    return {**counted, "looked_at": moment} if keep_seconds is not None else counted


def _outlived(
    standing: Sequence[_Known], keep: int | None, keep_seconds: float | None, fresh: str | None = None
) -> list[str]:
    """The checkpoints of a line that retention lets go of; never `fresh`, even if others put newer ones already."""
    cutoff = now() - timedelta(seconds=keep_seconds) if keep_seconds is not None else None
    kept = [one for one in standing[:keep] if cutoff is None or one.created_at >= cutoff] or list(standing[:1])
    kept += [one for one in standing if one.checkpoint_id == fresh and one not in kept]
    needed = _with_ancestors(kept, {one.checkpoint_id: one for one in standing})
    return [one.checkpoint_id for one in standing if one.checkpoint_id not in needed]


def _with_ancestors(kept: Sequence[_Known], known: dict[str, _Known]) -> set[str]:
    """Those that stay, and every ancestor up to the one that holds all that a kept one lacks."""
    needed = {one.checkpoint_id for one in kept}
    for one in kept:
        missing, parent = set(one.lacks), one.parent_id
        while missing and parent in known:
            needed.add(parent)
            missing &= set(known[parent].lacks)
            parent = known[parent].parent_id
    return needed


def _gone_steps(tenant: Tenant, line: CheckpointLine, gone: Sequence[str], standing: Sequence[_Known]) -> list[Step]:
    """Deletes these checkpoints of a line, what was written towards their successors, and items only they used.

    Stands after the update of the line: what others wrote since it was read may use what is deleted here.
    """
    if not gone:
        return []
    mine, leaving = equal("line_id", line.id), OneOf("checkpoint_id", tuple(gone))
    used = {one.checkpoint_id: one.spans for one in standing if one.checkpoint_id not in set(gone)}
    if not used:
        return [Delete(CheckpointLine, line.id)]
    late = Compare("checkpoint_id", "<", min(used))  # written by a task that outlived its checkpoint
    return [
        DeleteWhere(CheckpointWrites, (mine, AnyOf((leaving, late)))),
        DeleteWhere(Checkpoint, (mine, leaving)),
        *unused_steps(tenant, line.id, used.values()),
    ]


# -- writes ----------------------------------------------------------------------------------------------------------


class WriteCheckpointRequest(Request):
    """What one task wrote towards the next checkpoint."""

    thread: ThreadName = Field(description="The thread it belongs to")
    namespace: NamespaceName = Field("", description="The part of the program it belongs to")
    id: Id = Field(description="The checkpoint the task began from")
    task: Text = Field(description="The task")
    path: Text = Field("", description="Where the task stands among its fellows; writes are read in this order")
    slots: list[tuple[int, Text]] = Field(
        description="For each value its place among the writes of the task, its channel"
    )
    values: list[Bytes] = Field(description="The values, in the maker's own form (base64 in JSON)")
    replace: bool = Field(False, description="Overwrite what the task wrote to the same places before")


class WriteCheckpointReply(Reply):
    written: int


def write(tenant: Tenant, request: WriteCheckpointRequest) -> WriteCheckpointReply:
    """Save what a task wrote; a place that was written before keeps its value unless told to replace it."""
    if len(request.slots) != len(request.values):
        raise InvalidInput("there are not as many values as slots", remedy="give one value for each slot")
    return retry(lambda: _write(tenant, request), *_OTHERS_WERE_QUICKER)


def _write(tenant: Tenant, request: WriteCheckpointRequest) -> WriteCheckpointReply:
    line = line_id(request.thread, request.namespace)
    id = derived_id("writes", line, request.id, request.task)
    given = {place: (channel, value) for (place, channel), value in zip(request.slots, request.values, strict=True)}
    fields = {"line_id": line, "checkpoint_id": request.id, "task_id": request.task, "task_path": request.path}
    first = Insert(made(CheckpointWrites, tenant, id=id, **fields, **_slots(given)))
    try:  # nearly always a task writes once, on a line that is there: then nothing need be read
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
        raise VersionConflict("what the task wrote was deleted a moment ago", remedy="try again")
    kept = {place: (channel, value) for (place, channel), value in zip(before.slots, unpack(before.data), strict=True)}
    merged = {**kept, **given} if replace else {**given, **kept}
    if merged != kept:
        commit(tenant, [Update(revised(before, tenant.scope, **_slots(merged)))])
    return WriteCheckpointReply(written=len(given) if replace else len(merged) - len(kept))


def _slots(written: dict[int, tuple[str, bytes]]) -> JsonObject:
    ordered = sorted(written.items())
    return {
        "slots": [[place, channel] for place, (channel, _) in ordered],
        "data": pack(value for _, (_, value) in ordered),
    }


# -- reading ---------------------------------------------------------------------------------------------------------


class TaskWrites(BaseModel):
    """What one task wrote."""

    task: str
    path: str
    slots: list[tuple[int, str]]
    values: list[Bytes]


class KeptCheckpoint(BaseModel):
    """A checkpoint as it is kept; `starts` are the numbers of the items that came with it."""

    thread: str
    namespace: str
    id: str
    parent: str | None
    created_at: datetime
    metadata: JsonObject
    body: Bytes
    starts: dict[str, int]
    spans: dict[str, list[Span]]
    writes: list[TaskWrites]


class LineItems(BaseModel):
    """Items of one line, by stream: those of `spans`, one after the other."""

    thread: str
    namespace: str
    spans: dict[str, list[Span]]
    items: dict[str, list[Bytes]]


class GetCheckpointRequest(Request):
    """One checkpoint, whole."""

    thread: ThreadName = Field(description="The thread it belongs to")
    namespace: NamespaceName = Field("", description="The part of the program it belongs to")
    id: Id | None = Field(None, description="The checkpoint; the newest, if left out")


class CheckpointPage(PageReply[KeptCheckpoint]):
    """Checkpoints, the newest first, and the items they use."""

    checkpoints: list[KeptCheckpoint]
    lines: list[LineItems]


def get(tenant: Tenant, request: GetCheckpointRequest) -> CheckpointPage:
    """The checkpoint with its items and pending writes; an empty page if there is none."""
    return retry(lambda: _get(tenant, request), DamagedData, tries=LOOKS)


def _get(tenant: Tenant, request: GetCheckpointRequest) -> CheckpointPage:
    """Retention may take a checkpoint away while it is being read: then its items seem damaged, and it is gone."""
    line = line_id(request.thread, request.namespace)
    lines = _lines(tenant, equal("id", line))
    if request.id is not None:
        found = tenant.get(Checkpoint, _checkpoint_key(line, request.id))
        records = [found] if found else []
    else:
        newest = Query(Checkpoint, (equal("line_id", line),), (Order("checkpoint_id", True),), 1)
        records = tenant.find(newest).records
    return _page(tenant, records, lines)


class ListCheckpointsRequest(Request):
    """Which checkpoints, the newest first."""

    thread: ThreadName | None = Field(None, description="Only of this thread")
    namespace: NamespaceName | None = Field(None, description="Only of this part of the program")
    id: Id | None = Field(None, description="Only this checkpoint")
    before: Id | None = Field(None, description="Only those with a smaller id")
    metadata: Json = Field(
        default_factory=dict, max_length=MOST_CONDITIONS, description="Only those whose metadata has all of these"
    )
    limit: int = Field(PAGE, ge=1, le=1000, description="So many at most")
    after: QueryText | None = Field(None, description="`next` of the page before")


def list_checkpoints(tenant: Tenant, request: ListCheckpointsRequest) -> CheckpointPage:
    """Checkpoints with their items and pending writes, page by page."""
    return retry(lambda: _listed(tenant, request), DamagedData, tries=LOOKS)


def _listed(tenant: Tenant, request: ListCheckpointsRequest) -> CheckpointPage:
    lines = _lines(tenant, *_named(request.thread, request.namespace))
    where: list[Filter] = [OneOf("line_id", tuple(lines))]
    where += [equal("checkpoint_id", request.id)] if request.id else []
    where += [Compare("checkpoint_id", "<", request.before)] if request.before else []
    nested = {key: value for key, value in request.metadata.items() if isinstance(value, dict | list)}
    where += [
        Compare("metadata", "=", value, key) for key, value in request.metadata.items() if key not in nested
    ]  # fmt: skip
    order = (Order("checkpoint_id", True),)
    found: list[Checkpoint] = []
    after = request.after
    while len(found) < request.limit:
        page = tenant.find(Query(Checkpoint, tuple(where), order, request.limit - len(found), after))
        found += [one for one in page.records if all(one.metadata.get(key) == nested[key] for key in nested)]
        after = page.next
        if after is None:
            break
    reply = _page(tenant, found, lines)
    reply.next = after
    return reply


class _Line(NamedTuple):
    """A line, and when it was made: one that was deleted and made anew numbers its items anew."""

    id: str
    thread: str
    namespace: str
    created_at: datetime


def _lines(tenant: Tenant, *where: Filter) -> dict[str, _Line]:
    rows = tenant.select(Query(CheckpointLine, where), _Line._fields)
    return {row[0]: _Line(*row) for row in rows}


def _named(thread: str | None, namespace: str | None = None) -> list[Filter]:
    given = (("thread", thread), ("namespace", namespace))
    return [equal(name, value) for name, value in given if value is not None]


def _page(tenant: Tenant, records: Sequence[Checkpoint], lines: dict[str, _Line]) -> CheckpointPage:
    kept: list[KeptCheckpoint] = []
    writes = _writes(tenant, records)
    used: dict[str, dict[str, list[Span]]] = {}
    for record in records:
        line = lines.get(record.line_id)
        if line is None:
            raise _made_anew()
        spans = spans_of(record)
        for stream, some in spans.items():
            used.setdefault(record.line_id, {}).setdefault(stream, []).extend(some)
        kept.append(
            KeptCheckpoint(
                thread=line.thread,
                namespace=line.namespace,
                id=record.checkpoint_id,
                parent=record.parent_id,
                created_at=record.created_at,
                metadata=record.metadata,
                body=unsqueezed(record.body),
                starts=record.starts,
                spans=spans,
                writes=writes.get((record.line_id, record.checkpoint_id), []),
            )
        )
    items = [_line_items(tenant, lines[id], used[id]) for id in used]
    if used and _lines(tenant, OneOf("id", tuple(used))) != {id: lines[id] for id in used}:
        raise _made_anew()
    return CheckpointPage(checkpoints=kept, lines=items)


def _made_anew() -> DamagedData:
    return DamagedData("a thread was deleted while it was read", remedy="read it again")


def _line_items(tenant: Tenant, line: _Line, used: dict[str, list[Span]]) -> LineItems:
    spans = {stream: union(some) for stream, some in used.items()}
    items = read_spans(tenant, line.id, spans)
    return LineItems(thread=line.thread, namespace=line.namespace, spans=spans, items=items)


def _writes(tenant: Tenant, records: Sequence[Checkpoint]) -> dict[tuple[str, str], list[TaskWrites]]:
    """What tasks wrote, in the order in which a run applies it."""
    if not records:
        return {}
    where = (
        OneOf("line_id", tuple({one.line_id for one in records})),
        OneOf("checkpoint_id", tuple({one.checkpoint_id for one in records})),
    )
    found: dict[tuple[str, str], list[TaskWrites]] = {}
    order = (Order("task_path"), Order("task_id"))
    for one in tenant.find(Query(CheckpointWrites, where, order)).records:
        written = TaskWrites(task=one.task_id, path=one.task_path, slots=one.slots, values=unpack(one.data))
        found.setdefault((one.line_id, one.checkpoint_id), []).append(written)
    return found


class ThreadsRequest(Request):
    """Which threads."""

    thread: ThreadName | None = Field(None, description="Only this one")


class ThreadLine(BaseModel):
    thread: str
    namespace: str
    checkpoints: int
    newest: str | None
    newest_at: datetime | None


class ThreadPage(PageReply[ThreadLine]):
    """Threads and their namespaces, by name."""

    threads: list[ThreadLine]


def threads(tenant: Tenant, request: ThreadsRequest) -> ThreadPage:
    """The threads that have checkpoints, with how many and the newest of each namespace."""
    lines = []
    for id, thread, namespace, _ in _lines(tenant, *_named(request.thread)).values():
        mine = Query(Checkpoint, (equal("line_id", id),), (Order("checkpoint_id", True),), 1)
        newest = tenant.select(mine, ("checkpoint_id", "created_at"))
        name, at = newest[0] if newest else (None, None)
        count = tenant.count(Query(Checkpoint, mine.where))
        lines.append(ThreadLine(thread=thread, namespace=namespace, checkpoints=count, newest=name, newest_at=at))
    return ThreadPage(threads=sorted(lines, key=lambda line: (line.thread, line.namespace)))


# -- letting go ------------------------------------------------------------------------------------------------------


class DeleteCheckpointsRequest(Request):
    """What to delete: a thread, or what some runs made."""

    thread: ThreadName | None = Field(None, description="The thread to delete, with all its namespaces")
    runs: list[Text] = Field(default_factory=list, description="Delete the checkpoints that these runs made")


class CheckpointsDeleted(Reply):
    checkpoints: int


def delete(tenant: Tenant, request: DeleteCheckpointsRequest) -> CheckpointsDeleted:
    """Delete checkpoints for good, with what was written towards their successors."""
    if (request.thread is None) == (not request.runs):
        raise InvalidInput("it is not clear what to delete", remedy="give a thread, or runs")
    return retry(lambda: _delete(tenant, request), *_OTHERS_WERE_QUICKER)


def _delete(tenant: Tenant, request: DeleteCheckpointsRequest) -> CheckpointsDeleted:
    if request.thread is not None:
        whole = dict.fromkeys(_lines(tenant, *_named(request.thread)))
        return _let_go(tenant, whole, "checkpoint.delete")
    lines = _lines(tenant)
    gone: dict[str, list[str] | None] = {}
    of_runs = Query(Checkpoint, (OneOf("run_id", tuple(request.runs)),))
    for line, id in tenant.select(of_runs, ("line_id", "checkpoint_id")):
        gone[line] = [*(gone.get(line) or []), id]
    return _let_go(tenant, {line: ids for line, ids in gone.items() if line in lines}, "checkpoint.delete")


def _let_go(tenant: Tenant, gone: Mapping[str, list[str] | None], action: str) -> CheckpointsDeleted:
    """Deletes these checkpoints of each line, or the whole line for None, in one transaction."""
    steps: list[Step] = []
    count = 0
    for id, leaving in gone.items():
        line = tenant.get(CheckpointLine, id)
        if line is None:
            continue
        standing = _standing(tenant, id)
        count += len(standing) if leaving is None else len(leaving)
        if leaving is None:
            steps.append(Delete(CheckpointLine, id))
        else:
            last: JsonObject = {"last_id": None, "last_spans": {}} if line.last_id in leaving else {}
            steps += [Update(revised(line, tenant.scope, **last)), *_gone_steps(tenant, line, leaving, standing)]
    if steps:
        commit(tenant, [*steps, logged(tenant, "delete", action, None, checkpoints=count)])
    return CheckpointsDeleted(checkpoints=count)


class PruneCheckpointsRequest(Request):
    """How much to keep. Each line keeps its newest checkpoint, and ancestors that a kept one needs."""

    threads: list[ThreadName] | None = Field(None, description="Only of these threads; of all, if left out")
    keep: int | None = Field(None, ge=1, description="Keep so many of each line")
    keep_seconds: float | None = Field(None, gt=0, le=LONGEST_SECONDS, description="Let go of those older than this")


def prune(tenant: Tenant, request: PruneCheckpointsRequest) -> CheckpointsDeleted:
    """Let go of old checkpoints."""
    if request.keep is None and request.keep_seconds is None:
        raise InvalidInput("nothing says what to keep", remedy="give keep or keep_seconds")
    return retry(lambda: _prune(tenant, request), *_OTHERS_WERE_QUICKER)


def _prune(tenant: Tenant, request: PruneCheckpointsRequest) -> CheckpointsDeleted:
    names = [None] if request.threads is None else request.threads
    ids = [id for name in names for id in _lines(tenant, *_named(name))]
    gone = {id: _outlived(_standing(tenant, id), request.keep, request.keep_seconds) for id in ids}
    return _let_go(tenant, {id: leaving for id, leaving in gone.items() if leaving}, "checkpoint.prune")


class CopyCheckpointsRequest(Request):
    """From which thread to which."""

    source: ThreadName = Field(description="The thread to copy")
    target: ThreadName = Field(description="The thread to make; must have no checkpoints yet")


class CheckpointsCopied(Reply):
    checkpoints: int


def copy(tenant: Tenant, request: CopyCheckpointsRequest) -> CheckpointsCopied:
    """Copy a thread with all its namespaces, checkpoints, items and writes, as it is at one moment."""
    return retry(lambda: _copy(tenant, request), *_OTHERS_WERE_QUICKER)


def _copy(tenant: Tenant, request: CopyCheckpointsRequest) -> CheckpointsCopied:
    if _lines(tenant, *_named(request.target)):
        raise Conflict(
            f"the thread '{request.target[:80]}' has checkpoints already", remedy="delete it first, or choose another"
        )
    steps: list[Step] = []
    count = 0
    for line in tenant.find(Query(CheckpointLine, (equal("thread", request.source),))).records:
        copied = _new_line(tenant, request.target, line.namespace).changed(
            **{name: getattr(line, name) for name in _COUNTED}
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
    return CheckpointsCopied(checkpoints=count)


def _copied(record: Checkpoint | CheckpointItems | CheckpointWrites, line: str, kind: str, *key: str) -> Step:
    return Insert(record.changed(id=derived_id(kind, line, *key), line_id=line, version=1))
