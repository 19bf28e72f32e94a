"""Removing a message, block, tool, run or workspace, restoring it, and erasing it.

As users and agents are (removal.py): hidden and restorable for `restore_days`, then deleted for good by the sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from pydantic import Field

from recollect.domain.agents import Block, BlockLink, Execution, Lease, Tool, ToolLink
from recollect.domain.conversations import Message
from recollect.domain.record import Id, Record
from recollect.domain.workspaces import InnerPath, Workspace
from recollect.errors import Conflict, RequirementFailed
from recollect.ports.query import OneOf, Query, equal
from recollect.ports.steps import Absent, Step
from recollect.services.access.authorize import require
from recollect.services.admin.removal import Removal, RemovalRequest, RestorationRequest, remove_record, restore_record
from recollect.services.agents.blocks import BlockView, block_view
from recollect.services.agents.tools import ToolView, tool_view
from recollect.services.conversations.messages import MessageView, view
from recollect.services.leases import is_held
from recollect.services.requests import Request
from recollect.services.runs.history import RunView, lease_name, run_view
from recollect.services.tenant import Tenant
from recollect.services.workspaces import snapshots
from recollect.services.workspaces.files import RemoveFileRequest, remove_file, workspace_view
from recollect.services.workspaces.snapshots import RestoreRequest, RestoreSnapshotReply

R = TypeVar("R", bound=Record)


class RecordErasureRequest(Request):
    """What to delete for good."""

    id: Id = Field(description="Its id")
    dry_run: bool = Field(False, description="Only report what would be deleted")


class RecordRemovalRequest(RecordErasureRequest):
    """What to remove, and how."""

    for_good: bool = Field(False, description="Delete immediately and for good: nothing can be restored")


def _removed(
    tenant: Tenant,
    record: type[R],
    request: RecordErasureRequest,
    check: Callable[[R], Sequence[Step]] = lambda root: (),
) -> Removal:
    """One that has no field `for_good` is to be erased."""
    for_good = getattr(request, "for_good", True)
    whole = RemovalRequest(id=request.id, dry_run=request.dry_run, with_others=True, for_good=for_good)
    return remove_record(tenant, record, whole, check)


class MessageRemoval(Removal):
    """What was removed with a message."""

    removed: int = Field(0, description="How many messages")


def remove_message(tenant: Tenant, request: RecordRemovalRequest) -> MessageRemoval:
    """Remove a message: hidden and restorable, or deleted for good. Summaries that repeat it are deleted."""
    done = _removed(tenant, Message, request)
    return MessageRemoval(**done.__dict__, removed=0 if request.dry_run else 1)


def restore_message(tenant: Tenant, request: RestorationRequest) -> MessageView:
    """Restore a removed message, in its place."""
    return view(restore_record(tenant, Message, request.id))


def erase_message(tenant: Tenant, request: RecordErasureRequest) -> MessageRemoval:
    """Delete a message for good, removed before or not, traces included."""
    done = _removed(tenant, Message, request)
    return MessageRemoval(**done.__dict__, removed=0 if request.dry_run else 1)


class SharedErasureRequest(RecordErasureRequest):
    """What to delete for good; what several agents share only if you say so."""

    with_others: bool = Field(False, description="Also if several agents have it: all of them lose it")


class SharedRemovalRequest(SharedErasureRequest, RecordRemovalRequest):
    """What to remove, and how; what several agents share only if you say so."""


class SharedRemoval(Removal):
    """What was removed with a block or tool."""

    agents: list[str] = Field(default_factory=list, description="The agents that had it")


def remove_block(tenant: Tenant, request: SharedRemovalRequest) -> SharedRemoval:
    """Remove a block from every agent that has it: hidden and restorable, or deleted for good."""
    return _removed_from_agents(tenant, Block, BlockLink, request)


def restore_block(tenant: Tenant, request: RestorationRequest) -> BlockView:
    """Restore a removed block, to the agents that had it."""

    def labels_are_free(block: Block) -> list[Step]:
        hidden = Query(BlockLink, (equal("block_id", block.id), equal("updated_at", block.updated_at)), deleted="only")
        agents = tuple(agent for (agent,) in tenant.select(hidden, ("agent_id",)))
        return [Absent(BlockLink, (equal("block_label", block.label), OneOf("agent_id", agents)))] if agents else []

    try:
        return block_view(tenant, restore_record(tenant, Block, request.id, labels_are_free))
    except RequirementFailed:
        raise Conflict(
            "an agent that had it has another block with its label now",
            remedy="detach that one from the agent first, or give it another label",
            id=request.id,
        ) from None


def erase_block(tenant: Tenant, request: SharedErasureRequest) -> SharedRemoval:
    """Delete a block for good, removed before or not, traces included."""
    return _removed_from_agents(tenant, Block, BlockLink, request)


def remove_tool(tenant: Tenant, request: SharedRemovalRequest) -> SharedRemoval:
    """Remove a tool from every agent that has it: hidden and restorable, or deleted for good."""
    return _removed_from_agents(tenant, Tool, ToolLink, request)


def restore_tool(tenant: Tenant, request: RestorationRequest) -> ToolView:
    """Restore a removed tool, to the agents that had it."""
    return tool_view(tenant, restore_record(tenant, Tool, request.id))


def erase_tool(tenant: Tenant, request: SharedErasureRequest) -> SharedRemoval:
    """Delete a tool for good, removed before or not."""
    return _removed_from_agents(tenant, Tool, ToolLink, request)


def _removed_from_agents(
    tenant: Tenant, record: type[Block] | type[Tool], link: type[Record], request: SharedErasureRequest
) -> SharedRemoval:
    field = f"{record.shape.table}_id"
    agents = sorted(agent for (agent,) in tenant.select(Query(link, (equal(field, request.id),)), ("agent_id",)))

    def only_theirs(root: Record) -> Sequence[Step]:
        """Refuse to remove what several agents share, or come to share meanwhile."""
        if request.with_others:
            return ()
        if len(agents) > 1:
            raise Conflict(
                f"{len(agents)} agents share it",
                remedy="detach it from the agent that no longer needs it, or give with_others=True",
                id=root.id,
                agents=agents[:20],
            )
        others = (OneOf("agent_id", tuple(agents), wanted=False),) if agents else ()
        return [Absent(link, (equal(field, root.id), *others))]

    return SharedRemoval(**_removed(tenant, record, request, only_theirs).__dict__, agents=agents)


def remove_run(tenant: Tenant, request: RecordRemovalRequest) -> Removal:
    """Remove a run with its steps: hidden and restorable, or deleted for good. Memories of its results stay."""
    return _removed(tenant, Execution, request, lambda run: _unused(tenant, run, for_good=request.for_good))


def restore_run(tenant: Tenant, request: RestorationRequest) -> RunView:
    """Restore a removed run with its steps."""
    return run_view(tenant, restore_record(tenant, Execution, request.id))


def erase_run(tenant: Tenant, request: RecordErasureRequest) -> Removal:
    """Delete a run with its steps for good, removed before or not; memories of its results stay, without evidence."""
    return _removed(tenant, Execution, request, lambda run: _unused(tenant, run, for_good=True))


def _unused(tenant: Tenant, run: Execution, *, for_good: bool) -> Sequence[Step]:
    if is_held(tenant.get(Lease, lease_name(run.id))):
        raise Conflict(
            f"a worker is working on run '{run.id}'", remedy="cancel it and wait until the step has ended", id=run.id
        )
    if for_good and has_forks(tenant, run.id):
        raise Conflict(f"forks of run '{run.id}' share its steps", remedy="erase the forks first", id=run.id)
    return ()


def has_forks(tenant: Tenant, run: str) -> bool:
    return bool(tenant.count(Query(Execution, (equal("parent_id", run),), deleted="yes")))


class RemoveWorkspaceRequest(RecordRemovalRequest):
    """A workspace to remove; with a path, only a file or folder of it."""

    path: InnerPath | None = Field(None, description="Only this file of it, at once; the same as workspace.remove_file")
    folder: bool = Field(False, description="Whether the path is a folder, to remove with everything in it")


class WorkspaceRemoval(Removal):
    """What was removed with a workspace, or of it."""

    files: list[str] = Field(default_factory=list, description="The files that were removed, where a path was given")


def remove_workspace(tenant: Tenant, request: RemoveWorkspaceRequest) -> WorkspaceRemoval:
    """Remove a workspace with its files and snapshots: hidden and restorable, or deleted for good."""
    if request.path is not None:
        one = RemoveFileRequest.model_construct(id=request.id, path=request.path, folder=request.folder)
        return WorkspaceRemoval(type="workspace_file", id=request.id, files=remove_file(tenant, one).files)
    require(tenant.scope, "workspace.remove", "delete")
    return WorkspaceRemoval(**_removed(tenant, Workspace, request).__dict__)


def restore_workspace(tenant: Tenant, request: RestoreRequest) -> RestoreSnapshotReply:
    """Restore the files of a snapshot, in one transaction; without a snapshot, restore a removed workspace."""
    if request.snapshot is not None:
        return snapshots.restore(tenant, request)
    require(tenant.scope, "workspace.restore", "delete")
    restored = restore_record(tenant, Workspace, request.id)
    return RestoreSnapshotReply(workspace=workspace_view(tenant, restored))


def erase_workspace(tenant: Tenant, request: RecordErasureRequest) -> Removal:
    """Delete a workspace for good, removed before or not: files, snapshots, and content that nothing else uses."""
    return _removed(tenant, Workspace, request)
