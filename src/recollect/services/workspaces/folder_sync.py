"""Exchange between workspaces and local folders: pull from a folder, push to a folder.

Both work in batches: after a crash every file is intact, and running it again completes it. Neither follows symlinks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from recollect.domain.record import Text
from recollect.domain.text.secrets import MARK
from recollect.domain.workspaces import Content, InnerPath, Workspace, WorkspaceFile, blob_hash
from recollect.errors import DamagedData
from recollect.ports.folders import Found
from recollect.ports.query import OneOf, Order, Query, equal
from recollect.retry import retry_unless_pinned
from recollect.services.requests import AS_GIVEN, Reply
from recollect.services.secrets import masked_file
from recollect.services.tenant import Tenant
from recollect.services.transaction import load
from recollect.services.workspaces.blobs import BATCH_BYTES, read_blob, steadily, stored_file
from recollect.services.workspaces.files import WorkspaceChange, WorkspaceRequest
from recollect.services.workspaces.snapshots import entries_of, of_workspace

FILES_AT_ONCE = 500
_PATH: TypeAdapter[str] = TypeAdapter(InnerPath)


class PullRequest(WorkspaceRequest):
    """A folder to fill a workspace from."""

    folder: Annotated[str, AS_GIVEN] = Field(min_length=1, description="The folder on this machine")
    exclude: list[Text] = Field(
        default_factory=lambda: [".git", "__pycache__"],
        description="Names or paths to leave out; * matches anything",
    )
    mirror: bool = Field(False, description="Also remove files that are not in the folder")


class SkippedFile(Reply):
    path: str
    why: str


class PullReply(Reply):
    """What changed in the workspace, and what was left out."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0
    left_out: list[SkippedFile] = Field(default_factory=list)


def pull(tenant: Tenant, request: PullRequest) -> PullReply:
    """Fill a workspace from a folder: regular files only, symlinks are not followed."""
    load(tenant, Workspace, request.id)
    report = PullReply()
    seen: set[str] = set()
    for batch in _batches(tenant, request, report):
        seen.update(batch)
        retry_unless_pinned(None, partial(_pull_some, tenant, request.id, batch, report))
    if request.mirror:
        report.removed = retry_unless_pinned(None, lambda: _remove_others(tenant, request.id, seen))
    return report


def _batches(tenant: Tenant, request: PullRequest, report: PullReply) -> Iterator[dict[str, Content]]:
    batch: dict[str, Content] = {}
    size = 0
    for found in tenant.folders.read(Path(request.folder).expanduser(), tenant.workspaces.file_bytes):
        wanted = _wanted(found, request.exclude, report)
        if wanted is None:
            continue
        data, masked = masked_file(tenant, found.path, wanted)
        report.masked += masked
        if batch and (size + len(data) > BATCH_BYTES or len(batch) >= FILES_AT_ONCE):
            yield batch
            batch, size = {}, 0
        batch[found.path] = data
        size += len(data)
    if batch:
        yield batch


def _wanted(found: Found, exclude: Sequence[str], report: PullReply) -> bytes | None:
    parts = found.path.split("/")
    names = [*parts, *("/".join(parts[:count]) for count in range(2, len(parts) + 1))]
    if any(fnmatchcase(name, pattern) for name in names for pattern in exclude):
        return None
    why = found.left_out
    if not why:
        try:
            _PATH.validate_python(found.path)
        except ValidationError as error:
            why = f"its path {str(error.errors()[0]['msg']).removeprefix('Value error, ')}"
    if why:
        report.left_out.append(SkippedFile(path=found.path, why=why))
        return None
    return found.data


def _pull_some(tenant: Tenant, id: str, batch: dict[str, Content], report: PullReply) -> None:
    workspace = load(tenant, Workspace, id)
    query = Query(WorkspaceFile, (equal("workspace_id", id), OneOf("path", tuple(batch))))
    there = {file.path: file for file in tenant.find(query).records}
    change, contents, added = WorkspaceChange(tenant, workspace), {}, 0
    for path, data in batch.items():
        hash, before = blob_hash(data), there.get(path)
        if before is None or before.content_hash != hash:
            change.put(before, path, hash, len(data))
            contents[hash] = data
            added += before is None
    if change.paths:
        change.commit("pull files", contents)
    report.added += added
    report.changed += change.paths - added
    report.unchanged += len(batch) - change.paths


def _remove_others(tenant: Tenant, id: str, seen: set[str]) -> int:
    change = WorkspaceChange(tenant, load(tenant, Workspace, id))
    for file in tenant.find(Query(WorkspaceFile, (equal("workspace_id", id),))).records:
        if file.path not in seen:
            change.take(file)
    if change.paths:
        change.commit("pull files", {})
    return change.paths


class PushRequest(WorkspaceRequest):
    """A folder to write a workspace out to."""

    folder: Annotated[str, AS_GIVEN] = Field(
        min_length=1, description="The folder on this machine; created if it does not exist"
    )
    snapshot: Text | None = Field(None, description="From this snapshot instead of the current files")


class PushReply(Reply):
    files: int
    folder: str
    left_out: list[SkippedFile] = Field(default_factory=list)


def push(tenant: Tenant, request: PushRequest) -> PushReply:
    """Write the files of a workspace to a folder. Other files in it stay; symlinks are never followed."""
    load(tenant, Workspace, request.id)
    folder = Path(request.folder).expanduser()
    left_out: list[SkippedFile] = []
    files = tenant.folders.write(folder, _without_masked(folder, _contents(tenant, request), left_out))
    return PushReply(files=files, folder=str(folder), left_out=left_out)


def _without_masked(
    folder: Path, contents: Iterator[tuple[str, bytes]], left_out: list[SkippedFile]
) -> Iterator[tuple[str, bytes]]:
    """A file in the folder may have the secrets whose marks are in the workspace: it is not overwritten."""
    for path, data in contents:
        if MARK.encode() in data and (folder / path).exists():
            left_out.append(SkippedFile(path=path, why="its secrets are masked; the file in the folder stays as it is"))
        else:
            yield path, data


def _contents(tenant: Tenant, request: PushRequest) -> Iterator[tuple[str, bytes]]:
    if request.snapshot is not None:
        yield from _contents_then(tenant, request.id, request.snapshot)
        return
    after: str | None = None
    while True:
        query = Query(WorkspaceFile, (equal("workspace_id", request.id),), (Order("path"),), FILES_AT_ONCE, after)
        page = tenant.find(query)
        for file in page.records:
            data = stored_file(tenant.store, tenant.scope, request.id, file.path)
            if data is not None:  # else it was removed meanwhile
                yield file.path, data
        after = page.next
        if after is None:
            return


def _contents_then(tenant: Tenant, workspace: str, snapshot: str) -> Iterator[tuple[str, bytes]]:
    for entry in steadily(lambda: entries_of(tenant, workspace, snapshot)):
        try:
            yield entry.path, read_blob(tenant.store, tenant.scope, entry.content_hash)
        except DamagedData:
            of_workspace(tenant, workspace, snapshot)  # missing if it was pruned meanwhile
            raise
