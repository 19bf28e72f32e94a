"""Reading checkpoints: one of them whole, a page of them, the list of threads.

A reply has each item once, by line, however many of its checkpoints use it. Retention may delete a checkpoint while it
is being read; its items then look damaged, so the read is repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from pydantic import BaseModel, Field

from recollect.domain.checkpoints import (
    Checkpoint,
    CheckpointLine,
    CheckpointWrites,
    NamespaceName,
    ThreadName,
    checkpoint_key,
    line_id,
)
from recollect.domain.record import Id, Json, JsonObject, QueryText
from recollect.errors import DamagedData
from recollect.ports.query import Compare, Filter, OneOf, Order, Query, equal
from recollect.retry import retry
from recollect.services.frameworks.checkpoint_streams import Span, read_spans, spans_of, union, unpack, unsqueezed
from recollect.services.request_limits import MOST_CONDITIONS
from recollect.services.requests import Bytes, PageReply, Request
from recollect.services.tenant import Tenant

PAGE = 100
READ_ATTEMPTS = 5


class TaskWrites(BaseModel):
    """The pending writes of one task."""

    task: str
    path: str
    slots: list[tuple[int, str]]
    values: list[Bytes]


class SavedCheckpoint(BaseModel):
    """A checkpoint as it was saved; `starts` are the numbers of the items that came with it."""

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
    """Items of one line, by stream: those in `spans`, in order."""

    thread: str
    namespace: str
    spans: dict[str, list[Span]]
    items: dict[str, list[Bytes]]


class GetCheckpointRequest(Request):
    """One checkpoint, whole."""

    thread: ThreadName = Field(description="The thread it belongs to")
    namespace: NamespaceName = Field("", description="The part of the program it belongs to")
    id: Id | None = Field(None, description="The checkpoint; the newest if omitted")


class CheckpointPage(PageReply[SavedCheckpoint]):
    """Checkpoints, the newest first, and the items they use."""

    checkpoints: list[SavedCheckpoint]
    lines: list[LineItems]


def get(tenant: Tenant, request: GetCheckpointRequest) -> CheckpointPage:
    """The checkpoint with its items and pending writes; an empty page if there is none."""
    return retry(lambda: _get(tenant, request), DamagedData, tries=READ_ATTEMPTS)


def _get(tenant: Tenant, request: GetCheckpointRequest) -> CheckpointPage:
    line = line_id(request.thread, request.namespace)
    lines = lines_of(tenant, equal("id", line))
    if request.id is not None:
        found = tenant.get(Checkpoint, checkpoint_key(line, request.id))
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
    limit: int = Field(PAGE, ge=1, le=1000, description="The most to return")
    after: QueryText | None = Field(None, description="`next` of the page before")


def list_checkpoints(tenant: Tenant, request: ListCheckpointsRequest) -> CheckpointPage:
    """Checkpoints with their items and pending writes, page by page."""
    return retry(lambda: _listed(tenant, request), DamagedData, tries=READ_ATTEMPTS)


def _listed(tenant: Tenant, request: ListCheckpointsRequest) -> CheckpointPage:
    lines = lines_of(tenant, *named(request.thread, request.namespace))
    where: list[Filter] = [OneOf("line_id", tuple(lines))]
    where += [equal("checkpoint_id", request.id)] if request.id else []
    where += [Compare("checkpoint_id", "<", request.before)] if request.before else []
    nested = {key: value for key, value in request.metadata.items() if isinstance(value, dict | list)}
    plain = {key: value for key, value in request.metadata.items() if key not in nested}
    where += [Compare("metadata", "=", value, key) for key, value in plain.items()]
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
    """A line and when it was created: one that was deleted and created again starts its numbers again."""

    id: str
    thread: str
    namespace: str
    created_at: datetime


def lines_of(tenant: Tenant, *where: Filter) -> dict[str, _Line]:
    rows = tenant.select(Query(CheckpointLine, where), _Line._fields)
    return {row[0]: _Line(*row) for row in rows}


def named(thread: str | None, namespace: str | None = None) -> list[Filter]:
    given = (("thread", thread), ("namespace", namespace))
    return [equal(name, value) for name, value in given if value is not None]


def _page(tenant: Tenant, records: Sequence[Checkpoint], lines: dict[str, _Line]) -> CheckpointPage:
    saved: list[SavedCheckpoint] = []
    writes = _writes(tenant, records)
    used: dict[str, dict[str, list[Span]]] = {}
    for record in records:
        line = lines.get(record.line_id)
        if line is None:
            raise _deleted_meanwhile()
        spans = spans_of(record)
        for stream, some in spans.items():
            used.setdefault(record.line_id, {}).setdefault(stream, []).extend(some)
        saved.append(
            SavedCheckpoint(
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
    if used and lines_of(tenant, OneOf("id", tuple(used))) != {id: lines[id] for id in used}:
        raise _deleted_meanwhile()
    return CheckpointPage(checkpoints=saved, lines=items)


def _deleted_meanwhile() -> DamagedData:
    return DamagedData("a thread was deleted while it was being read", remedy="read it again")


def _line_items(tenant: Tenant, line: _Line, used: dict[str, list[Span]]) -> LineItems:
    spans = {stream: union(some) for stream, some in used.items()}
    items = read_spans(tenant, line.id, spans)
    return LineItems(thread=line.thread, namespace=line.namespace, spans=spans, items=items)


def _writes(tenant: Tenant, records: Sequence[Checkpoint]) -> dict[tuple[str, str], list[TaskWrites]]:
    """The pending writes of tasks, in the order in which a run applies them."""
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
    for id, thread, namespace, _ in lines_of(tenant, *named(request.thread)).values():
        mine = Query(Checkpoint, (equal("line_id", id),), (Order("checkpoint_id", True),), 1)
        newest = tenant.select(mine, ("checkpoint_id", "created_at"))
        name, at = newest[0] if newest else (None, None)
        count = tenant.count(Query(Checkpoint, mine.where))
        lines.append(ThreadLine(thread=thread, namespace=namespace, checkpoints=count, newest=name, newest_at=at))
    return ThreadPage(threads=sorted(lines, key=lambda line: (line.thread, line.namespace)))
