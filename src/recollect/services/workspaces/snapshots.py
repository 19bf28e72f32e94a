"""Snapshots of a workspace: taken, compared, restored, pruned.

A snapshot is the root of a hash tree over the paths (domain/hash_tree.py). Taking one reads only the buckets that
changed since the last one, and writes only new nodes. It commits only if the generation of the workspace is unchanged,
so it is the workspace at one moment even while others write. Restoring is one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal, TypeVar

from pydantic import Field

from recollect.domain.hash_tree import Difference, Entries, Entry, bucket_of, differences, grown, levels, loaded
from recollect.domain.record import Id, QueryText, Text, id_after, now
from recollect.domain.text.alignment import unified
from recollect.domain.workspaces import Blob, ChangedBucket, InnerPath, Snapshot, Workspace, WorkspaceFile
from recollect.errors import InvalidInput, NotFound, RequirementFailed, StoreBusy
from recollect.ports.query import OneOf, Order, Query, equal
from recollect.ports.steps import Delete, Insert, Put, Require, Step, Touch
from recollect.retry import retry
from recollect.services.erasure import erase_traces, owing
from recollect.services.legal_holds import refuse_held
from recollect.services.requests import PageReply, Reply
from recollect.services.tenant import Tenant
from recollect.services.transaction import commit, load, logged, made
from recollect.services.workspaces.blobs import collect, insert_nodes, load_nodes, read_blob, reuse_steps, steadily
from recollect.services.workspaces.files import WorkspaceChange, WorkspaceRequest, WorkspaceView

T = TypeVar("T")
LARGEST_DIFF_BYTES = 200_000
LARGEST_DIFF_LINES = 5_000


class SnapshotView(Reply):
    """A snapshot; two with the same hash contain the same files."""

    id: str
    workspace: str
    label: str = ""
    cycle: str | None = None
    hash: str
    files: int
    bytes: int
    taken_at: datetime
    written: int | None = Field(None, description="How many nodes of the tree were new")


class SnapshotRequest(WorkspaceRequest):
    """A snapshot to take."""

    label: Text = Field("", description="Its label")
    cycle: Id | None = Field(None, description="The cycle of a run it belongs to")


def snapshot(tenant: Tenant, request: SnapshotRequest) -> SnapshotView:
    """Take a snapshot of the workspace; the cost depends on what changed since the last one."""
    return _once_still(lambda: _taken(tenant, request))


def _once_still(attempt: Callable[[], T]) -> T:
    """Retry, with growing pauses, while others write to the workspace or prune its snapshots."""
    try:
        return retry(lambda: steadily(attempt), RequirementFailed)
    except RequirementFailed:
        raise StoreBusy("the workspace kept changing", remedy="try again when there are fewer writes") from None


def _taken(tenant: Tenant, request: SnapshotRequest) -> SnapshotView:
    id = _next_id(tenant, request.id)
    workspace = load(tenant, Workspace, request.id)
    buckets, root, nodes = _tree_now(tenant, workspace)
    taken: Snapshot = made(
        Snapshot,
        tenant,
        id=id,
        workspace_id=workspace.id,
        cycle_id=request.cycle,
        label=request.label,
        manifest_hash=root or "",
        manifest={"files": workspace.files},
        size=workspace.size,
    )
    tree = insert_nodes(tenant, nodes)
    steps: list[Step] = [_as_it_was(workspace), *tree, Insert(taken)]
    steps += [Delete(ChangedBucket, id) for id in buckets]
    steps.append(Touch(Workspace, workspace.id, put={"root": root}))
    commit(tenant, [*steps, logged(tenant, "create", "snapshot", None, id=taken.id)])
    return _view(taken, written=sum(isinstance(step, Put) for step in tree))


def _next_id(tenant: Tenant, workspace: str) -> str:
    """Greater than all others, even if another clock is ahead: pruning keeps the newest."""
    newest = Query(Snapshot, (equal("workspace_id", workspace),), (Order("id", descending=True),), limit=1)
    return id_after(next((id for (id,) in tenant.select(newest, ("id",))), ""))


def _as_it_was(workspace: Workspace) -> Require:
    return Require(Workspace, workspace.id, {"generation": workspace.generation})


def _tree_now(tenant: Tenant, workspace: Workspace) -> tuple[list[str], str | None, dict[str, Entries]]:
    """The ids of the changed buckets, the root of the tree of the current files, and its new nodes."""
    rows = tenant.select(Query(ChangedBucket, (equal("workspace_id", workspace.id),)), ("id", "bucket"))
    leaves: dict[str, list[Entry]] = {bucket: [] for _, bucket in rows}
    within = (equal("workspace_id", workspace.id), OneOf("bucket", tuple(leaves)))
    fields = ("bucket", "path", "content_hash", "size", "media_type")
    for bucket, *entry in tenant.select(Query(WorkspaceFile, within), fields) if leaves else ():
        leaves[bucket].append(Entry(*entry))
    if not leaves:
        return [], workspace.root, {}
    root, nodes = grown(workspace.root, leaves, lambda ids: load_nodes(tenant.store, tenant.scope, ids))
    return [id for id, _ in rows], root, nodes


class ListSnapshotsRequest(WorkspaceRequest):
    """Which snapshots to list."""

    cycle: Id | None = Field(None, description="Only of this cycle")
    limit: int = Field(50, ge=1, le=1000, description="How many at most")
    after: QueryText | None = Field(None, description="The `next` of the page before")


class SnapshotPage(PageReply[SnapshotView]):
    """Snapshots, the newest first."""

    snapshots: list[SnapshotView]


def list_snapshots(tenant: Tenant, request: ListSnapshotsRequest) -> SnapshotPage:
    """The snapshots of a workspace, the newest first."""
    load(tenant, Workspace, request.id)
    cycle = (equal("cycle_id", request.cycle),) if request.cycle else ()
    newest = (Order("id", descending=True),)
    query = Query(Snapshot, (equal("workspace_id", request.id), *cycle), newest, request.limit, request.after)
    page = tenant.find(query)
    return SnapshotPage(snapshots=[_view(one) for one in page.records], next=page.next)


class FileDifference(Reply):
    """How one file differs, with the changed lines if it is text."""

    path: str
    change: Literal["added", "removed", "changed"]
    before: str | None = Field(None, description="The hash of its content before")
    after: str | None = Field(None, description="The hash of its content after")
    diff: str | None = Field(None, description="The lines that differ, if both are text and not too large")


class DiffReply(Reply):
    """The differences between two states of a workspace."""

    files: list[FileDifference]


class DiffRequest(WorkspaceRequest):
    """Which two states of a workspace to compare."""

    since: Id = Field(description="The snapshot to compare from")
    to: Id | None = Field(None, description="The snapshot to compare to; by default the current files")
    path: InnerPath | None = Field(None, description="Only this file")
    text: bool = Field(True, description="Whether to show the lines that differ")


def diff(tenant: Tenant, request: DiffRequest) -> DiffReply:
    """What changed in a workspace between two snapshots, or since one."""
    return steadily(lambda: _compared(tenant, request))


def _compared(tenant: Tenant, request: DiffRequest) -> DiffReply:
    workspace = load(tenant, Workspace, request.id)
    before = _root(tenant, request.id, request.since)
    if request.to is None:
        found = _differences_to_now(tenant, workspace, before)
    else:
        after = _root(tenant, request.id, request.to)
        found = differences(before, after, lambda ids: load_nodes(tenant.store, tenant.scope, ids))
    wanted = [one for one in found if request.path in (None, one.path)]
    return DiffReply(files=[_difference(tenant, one, request.text) for one in wanted])


def _differences_to_now(tenant: Tenant, workspace: Workspace, before: str | None) -> list[Difference]:
    _, root, nodes = _tree_now(tenant, workspace)

    def load_either(ids: Sequence[str]) -> Mapping[str, Entries]:
        stored = load_nodes(tenant.store, tenant.scope, [id for id in ids if id not in nodes])
        return {**stored, **{id: nodes[id] for id in ids if id in nodes}}

    return differences(before, root, load_either)


def _root(tenant: Tenant, workspace: str, snapshot: str) -> str | None:
    return of_workspace(tenant, workspace, snapshot).manifest_hash or None


def of_workspace(tenant: Tenant, workspace: str, snapshot: str) -> Snapshot:
    """The snapshot, or NotFound if it does not exist or belongs to another workspace."""
    found = load(tenant, Snapshot, snapshot)
    if found.workspace_id != workspace:
        raise NotFound(f"there is no snapshot '{snapshot[:80]}' of that workspace", remedy="list its snapshots")
    return found


def _difference(tenant: Tenant, one: Difference, text: bool) -> FileDifference:
    change: Literal["added", "removed", "changed"] = "changed"
    if one.before is None or one.after is None:
        change = "added" if one.before is None else "removed"
    hashes = [entry.content_hash if entry else None for entry in (one.before, one.after)]
    shown = _unified(tenant, one) if text else None
    return FileDifference(path=one.path, change=change, before=hashes[0], after=hashes[1], diff=shown)


def _unified(tenant: Tenant, one: Difference) -> str | None:
    sides: list[list[str]] = []
    for entry in (one.before, one.after):
        if entry is not None and entry.size > LARGEST_DIFF_BYTES:
            return None
        data = read_blob(tenant.store, tenant.scope, entry.content_hash) if entry else b""
        try:
            lines = data.decode().splitlines()
        except UnicodeDecodeError:
            return None
        if len(lines) > LARGEST_DIFF_LINES or b"\x00" in data:
            return None
        sides.append(lines)
    names = f"before/{one.path}" if one.before else "nothing", f"after/{one.path}" if one.after else "nothing"
    return "\n".join(unified(sides[0], sides[1], names))


def entries_of(tenant: Tenant, workspace: str, snapshot: str) -> list[Entry]:
    """The files of a snapshot, by path."""
    root = _root(tenant, workspace, snapshot)
    *_, leaves = levels([root] if root else [], lambda ids: load_nodes(tenant.store, tenant.scope, ids))
    return sorted(Entry(*entry) for entries in leaves.values() for entry in entries)


def entry_of(tenant: Tenant, workspace: str, snapshot: str, path: str) -> Entry:
    """One file of a snapshot; reads only the nodes on the way to its bucket."""
    id, bucket = _root(tenant, workspace, snapshot), bucket_of(path)
    for digit in bucket:
        children = dict(loaded([id], lambda ids: load_nodes(tenant.store, tenant.scope, ids))[id]) if id else {}
        id = children.get(digit)
    leaf = loaded([id], lambda ids: load_nodes(tenant.store, tenant.scope, ids))[id] if id else []
    for entry in leaf:
        if entry[0] == path:
            return Entry(*entry)
    raise NotFound(
        f"there is no file '{path[:200]}' in that snapshot", remedy="compare the snapshot with the current files"
    )


class RestoreRequest(WorkspaceRequest):
    """A snapshot to go back to, or a removed workspace to restore."""

    snapshot: Id | None = Field(None, description="The snapshot; without one, the workspace was removed")
    dry_run: bool = Field(False, description="Only report the differences")


class RestoreSnapshotReply(Reply):
    """The differences that were changed, from the current files to those of the snapshot."""

    snapshot: str | None = None
    files: list[FileDifference] = Field(default_factory=list)
    workspace: WorkspaceView | None = Field(None, description="The workspace, if it was removed and is restored")


def restore(tenant: Tenant, request: RestoreRequest) -> RestoreSnapshotReply:
    """Restore the workspace to a snapshot, in one transaction; returns the differences."""
    return _once_still(lambda: _restored(tenant, request))


def _restored(tenant: Tenant, request: RestoreRequest) -> RestoreSnapshotReply:
    target = _root(tenant, request.id, request.snapshot or "")
    workspace = load(tenant, Workspace, request.id)
    found = _differences_to_now(tenant, workspace, target)
    turned = [Difference(one.path, one.after, one.before) for one in found]
    if turned and not request.dry_run:
        _go_back(tenant, workspace, turned)
    return RestoreSnapshotReply(
        snapshot=request.snapshot, files=[_difference(tenant, one, text=False) for one in turned]
    )


def _go_back(tenant: Tenant, workspace: Workspace, changes: Sequence[Difference]) -> None:
    paths = tuple(one.path for one in changes)
    query = Query(WorkspaceFile, (equal("workspace_id", workspace.id), OneOf("path", paths)))
    files = {file.path: file for file in tenant.find(query).records}
    change = WorkspaceChange(tenant, workspace)
    for one in changes:
        if one.after is not None:
            entry = one.after
            change.put(files.get(one.path), one.path, entry.content_hash, entry.size, entry.media_type)
        elif one.path in files:
            change.take(files[one.path])
    used = dict.fromkeys(one.after.content_hash for one in changes if one.after)
    change.commit("restore snapshot", {}, _as_it_was(workspace), *reuse_steps(Blob, list(used)), guarded=False)


class PruneSnapshotsRequest(WorkspaceRequest):
    """Which snapshots to delete."""

    keep: int | None = Field(None, ge=0, description="How many of the newest to keep, whatever their age")
    older_than_days: float | None = Field(None, gt=0, le=365_000, description="Delete only those older than this")
    dry_run: bool = Field(False, description="Only report which")


class PruneSnapshotsReply(Reply):
    snapshots: list[str]
    blobs: int = 0
    nodes: int = 0


def prune(tenant: Tenant, request: PruneSnapshotsRequest) -> PruneSnapshotsReply:
    """Delete old snapshots, and the content that no file and no snapshot uses any more."""
    if request.keep is None and request.older_than_days is None:
        raise InvalidInput("neither keep nor older_than_days is given", remedy="give at least one of them")
    load(tenant, Workspace, request.id)
    newest = Query(Snapshot, (equal("workspace_id", request.id),), (Order("id", descending=True),))
    rows = tenant.select(newest, ("id", "created_at"))[request.keep or 0 :]
    if request.older_than_days is not None:
        until = now() - timedelta(days=request.older_than_days)
        rows = [row for row in rows if row[1] < until]
    ids = [id for id, _ in rows]
    if request.dry_run:
        return PruneSnapshotsReply(snapshots=ids)
    refuse_held(tenant, {"workspace": [request.id]})
    if ids:
        entry = logged(tenant, "delete", "prune snapshots", None, id=request.id, count=len(ids))
        commit(tenant, [*(Delete(Snapshot, id) for id in ids), owing(tenant, ids[0]), entry])
    blobs, nodes = collect(tenant)
    if ids or blobs or nodes:
        erase_traces(tenant)
    return PruneSnapshotsReply(snapshots=ids, blobs=blobs, nodes=nodes)


def _view(taken: Snapshot, written: int | None = None) -> SnapshotView:
    return SnapshotView(
        id=taken.id,
        workspace=taken.workspace_id,
        label=taken.label,
        cycle=taken.cycle_id,
        hash=taken.manifest_hash,
        files=int(taken.manifest.get("files", 0)),
        bytes=taken.size,
        taken_at=taken.created_at,
        written=written,
    )
