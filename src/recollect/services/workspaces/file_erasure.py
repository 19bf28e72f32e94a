"""Erasing files of workspaces: the files, and every snapshot that still has them.

A deleted file lives on in snapshots, and its path in the tree that the next snapshot grows from. So snapshots with such
files are deleted, and the workspace forgets its tree: the next snapshot is made from all its files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from recollect.domain.hash_tree import bucket_of, levels
from recollect.domain.workspaces import Snapshot, Workspace, WorkspaceFile
from recollect.ports.query import Query, equal
from recollect.ports.steps import Delete, Put, Step, Touch, Update
from recollect.services.tenant import Tenant
from recollect.services.transaction import rewritten
from recollect.services.workspaces.blobs import load_nodes, steadily
from recollect.services.workspaces.files import changed_bucket

IsErased = Callable[[str, str], bool]
"""Whether the file with this path and content is to be erased."""


def snapshots_with(tenant: Tenant, is_erased: IsErased) -> list[Snapshot]:
    """The snapshots that have such a file."""

    def has(snapshot: Snapshot) -> bool:
        if not snapshot.manifest_hash:
            return False
        nodes = list(levels([snapshot.manifest_hash], lambda ids: load_nodes(tenant.store, tenant.scope, ids)))
        return any(is_erased(entry[0], entry[1]) for entries in nodes[-1].values() for entry in entries)

    return steadily(lambda: [one for one in tenant.find(Query(Snapshot, deleted="yes")).records if has(one)])


def file_erasing_steps(tenant: Tenant, files: Sequence[WorkspaceFile], snapshots: Sequence[Snapshot]) -> list[Step]:
    """Delete files and snapshots; `blobs.collect` deletes the content afterwards."""
    steps: list[Step] = [Delete(Snapshot, one.id) for one in snapshots]
    for id in sorted({*(one.workspace_id for one in files), *(one.workspace_id for one in snapshots)}):
        gone = [one for one in files if one.workspace_id == id]
        for file in gone:
            steps += [Update(rewritten(file, tenant)), Delete(WorkspaceFile, file.id)]  # fails if it changed meanwhile
        paths = tenant.select(Query(WorkspaceFile, (equal("workspace_id", id),)), ("path",))
        buckets = sorted({bucket_of(path) for (path,) in paths})
        steps += [Put(changed_bucket(tenant, id, bucket)) for bucket in buckets]
        counted = {"generation": 1, "files": -len(gone), "size": -sum(one.size for one in gone)}
        steps.append(Touch(Workspace, id, add=counted, put={"root": None}))
    return steps
