"""Workspaces: an agent's own files, in the store and nowhere else.

A file is a path and the hash of its content; the content is kept once, whoever has it. Every change counts the
workspace's generation up and notes which bucket of paths it fell into, in one transaction with the change, so that a
snapshot knows what to look at and whether somebody wrote while it looked (see services/workspaces/snapshots.py).
"""

from __future__ import annotations

import base64
import hashlib
import mimetypes
from binascii import Error as NotBase64
from collections.abc import Mapping, Sequence
from datetime import datetime

from pydantic import Field, PrivateAttr

from recollect.domain.hash_tree import bucket_of
from recollect.domain.record import Id, Json, JsonObject, Name, QueryText, Text
from recollect.domain.workspaces import (
    ChangedBucket,
    Content,
    InnerPath,
    Snapshot,
    Workspace,
    WorkspaceFile,
    blob_hash,
)
from recollect.errors import (
    Conflict,
    DuplicateKey,
    InvalidInput,
    NotFound,
    RequirementFailed,
    TooLarge,
    VersionConflict,
)
from recollect.ports.query import Compare, Filter, OneOf, Order, Query, equal
from recollect.ports.steps import Absent, Delete, Insert, Put, Step, Touch, Update
from recollect.retry import retry_unless_pinned
from recollect.services.agents.agents import at_work
from recollect.services.erasure import erase_traces, owing
from recollect.services.requests import PageReply, Reply, Request
from recollect.services.tenant import Tenant
from recollect.services.transaction import commit, load, logged, made, rewritten
from recollect.services.workspaces.blobs import collect, use_steps

TRIES = 50


class WorkspaceView(Reply):
    """A workspace and how much is in it."""

    id: str
    agent: str
    name: str
    metadata: JsonObject = Field(default_factory=dict)
    files: int
    bytes: int
    snapshots: int
    created_at: datetime


class AddWorkspaceRequest(Request):
    """A place for an agent's files."""

    agent: Id = Field(description="Whose files")
    name: Name = Field("workspace", description="What to call it")
    metadata: Json = Field(default_factory=dict, description="Anything else")
    id: Id | None = Field(None, description="An id of your own; made for you if left out")


def add(tenant: Tenant, request: AddWorkspaceRequest) -> WorkspaceView:
    """Make an empty workspace for an agent."""
    own = {"id": request.id} if request.id else {}
    fields = {"agent_id": request.agent, "name": request.name, "metadata": request.metadata}
    workspace: Workspace = made(Workspace, tenant, **own, **fields)
    entry = logged(tenant, "create", "add workspace", None, id=workspace.id)
    commit(tenant, [*at_work(tenant, request.agent), Insert(workspace), entry])
    return _view(tenant, workspace)


class WorkspaceRequest(Request):
    """One workspace."""

    id: Id = Field(description="The workspace")


def show(tenant: Tenant, request: WorkspaceRequest) -> WorkspaceView:
    """A workspace with how much is in it."""
    return _view(tenant, load(tenant, Workspace, request.id))


class ListWorkspacesRequest(Request):
    """Which workspaces to list."""

    agent: Id | None = Field(None, description="Only of this agent")
    limit: int = Field(50, ge=1, le=1000, description="How many at most")
    after: QueryText | None = Field(None, description="The `next` of the page before")


class WorkspacePage(PageReply[WorkspaceView]):
    """Workspaces, the newest first."""

    workspaces: list[WorkspaceView]


def list_workspaces(tenant: Tenant, request: ListWorkspacesRequest) -> WorkspacePage:
    """Workspaces, the newest first."""
    where = (equal("agent_id", request.agent),) if request.agent else ()
    page = tenant.find(Query(Workspace, where, (Order("id", descending=True),), request.limit, request.after))
    return WorkspacePage(workspaces=[_view(tenant, one) for one in page.records], next=page.next)


class WorkspaceDropped(Reply):
    id: str
    blobs: int


def drop(tenant: Tenant, request: WorkspaceRequest) -> WorkspaceDropped:
    """Delete a workspace for good: files, snapshots, and the content nothing else uses, traces included."""
    workspace = load(tenant, Workspace, request.id)
    entry = logged(tenant, "delete", "drop workspace", None, id=workspace.id)
    commit(tenant, [Delete(Workspace, workspace.id), owing(tenant, workspace.id), entry])
    blobs, _ = collect(tenant)
    erase_traces(tenant)
    return WorkspaceDropped(id=workspace.id, blobs=blobs)


class FileRequest(WorkspaceRequest):
    """A file of a workspace."""

    path: InnerPath = Field(description="Its path inside the workspace, such as notes/plan.md")


class WriteFileRequest(FileRequest):
    """What a file holds from now on."""

    text: Text | None = Field(None, description="Its content, as text")
    base64: str | None = Field(None, description="Its content, as base64, where it is no text")
    media_type: Text | None = Field(None, description="What it is; guessed from its name if left out")
    version: int | None = Field(None, ge=0, description="Only if it still has this version; 0: only if there is none")
    _uploaded: Content | None = PrivateAttr(None)

    def with_content(self, data: Content) -> WriteFileRequest:
        """What was sent as it is, beside the request: neither text nor base64."""
        self._uploaded = data
        return self


class FileView(Reply):
    """A file without its content."""

    path: str
    bytes: int
    hash: str
    media_type: str
    version: int
    changed_at: datetime


def write(tenant: Tenant, request: WriteFileRequest) -> FileView:
    """Write a file: made new, or in place of what it held."""
    data = content_of(request)
    workspace = load(tenant, Workspace, request.id)
    return retry_unless_pinned(request.version, lambda: _written(tenant, workspace.id, request, data))


def content_of(request: WriteFileRequest) -> Content:
    if sum(one is not None for one in (request.text, request.base64, request._uploaded)) != 1:
        raise InvalidInput(
            "a file has one content", remedy="give text or base64, or send it as application/octet-stream"
        )
    if request._uploaded is not None:
        return request._uploaded
    if request.text is not None:
        return request.text.encode()
    try:
        return base64.b64decode(request.base64 or "", validate=True)
    except (NotBase64, ValueError):
        raise InvalidInput("that is no base64", remedy="give text, or base64 without line breaks") from None


def _written(tenant: Tenant, id: str, request: WriteFileRequest, data: Content) -> FileView:
    before = find_file(tenant, id, request.path)
    found = before.file_version if before else 0
    if request.version is not None and request.version != found:
        raise VersionConflict(
            f"'{request.path}' has version {found}", remedy="read it again and repeat the change", found=found
        )
    change = Change(tenant, load(tenant, Workspace, id))
    after = change.put(before, request.path, blob_hash(data), len(data), request.media_type)
    change.commit("write file", {after.content_hash: data})
    return file_view(after if before is None else after.changed(version=after.version + 1))


class Change:
    """Some files of one workspace, changed in one transaction together with all that is kept about them."""

    def __init__(self, tenant: Tenant, workspace: Workspace) -> None:
        self._tenant = tenant
        self._workspace = workspace
        self._steps: list[Step] = []
        self._guards: list[Step] = []
        self._buckets: set[str] = set()
        self._files = 0
        self._bytes = 0
        self.paths = 0

    def put(
        self, before: WorkspaceFile | None, path: str, content: str, size: int, media_type: str | None = None
    ) -> WorkspaceFile:
        if size > self._tenant.workspaces.file_bytes:
            raise TooLarge(
                f"'{path}' has {size} bytes", remedy=f"a file may have {self._tenant.workspaces.file_bytes} at most"
            )
        fields = {"content_hash": content, "size": size, "media_type": media_type or _guessed(path)}
        self._note(path, 0 if before else 1, size - (before.size if before else 0))
        after: WorkspaceFile
        if before is not None:
            after = rewritten(before, self._tenant, **fields, file_version=before.file_version + 1)
            self._steps.append(Update(after))
            return after
        place = {"workspace_id": self._workspace.id, "path": path, "bucket": bucket_of(path)}
        after = made(WorkspaceFile, self._tenant, **place, **fields)
        self._guards += _is_no_folder(self._workspace.id, path)
        self._steps.append(Insert(after))
        return after

    def take(self, file: WorkspaceFile) -> None:
        self._note(file.path, -1, -file.size)
        # An update that fails on another version, and then goes: so nobody's newer content is deleted.
        self._steps += [Update(rewritten(file, self._tenant)), Delete(WorkspaceFile, file.id)]

    def move(self, file: WorkspaceFile, to: str) -> None:
        self._note(file.path, 0, 0)
        self._note(to, 0, 0)
        self._guards += _is_no_folder(self._workspace.id, to)
        self._steps.append(Update(rewritten(file, self._tenant, path=to, bucket=bucket_of(to))))

    def commit(self, action: str, contents: Mapping[str, Content], *extra: Step, guarded: bool = True) -> None:
        """Write it all, with the contents it needs; `guarded` sees to it that no file lies where a folder is."""
        self._refuse_too_much()
        entry = logged(self._tenant, "update", action, None, id=self._workspace.id, files=self.paths)
        counted = {"generation": 1, "files": self._files, "size": self._bytes}
        agent = at_work(self._tenant, self._workspace.agent_id)
        for tries in range(TRIES):
            uses = use_steps(self._tenant, contents)
            buckets = [Put(_changed_bucket(self._tenant, self._workspace.id, one)) for one in sorted(self._buckets)]
            touch = Touch(Workspace, self._workspace.id, add=counted)
            steps = [*agent, *extra, *uses, *self._steps, *(self._guards if guarded else ()), *buckets, touch, entry]
            try:
                commit(self._tenant, steps)
                return
            except RequirementFailed as conflict:
                # Content that was there a moment ago was collected: then it is written again.
                if conflict.details.get("id") not in contents or tries == TRIES - 1:
                    raise self._explained(conflict) from None
            except DuplicateKey as conflict:
                raise VersionConflict("somebody wrote that file a moment ago", remedy="try again") from conflict

    def _explained(self, conflict: RequirementFailed) -> Conflict:
        if not isinstance(conflict.details.get("id"), str) or not self._guards:
            return conflict
        blocking = self._tenant.get(WorkspaceFile, conflict.details["id"])
        if blocking is None:
            return conflict
        return Conflict(
            f"'{blocking.path}' stands in the way: a name is a file or a folder, not both", remedy="choose another path"
        )

    def _note(self, path: str, files: int, size: int) -> None:
        self._buckets.add(bucket_of(path))
        self._files += files
        self._bytes += size
        self.paths += 1

    def _refuse_too_much(self) -> None:
        limits, files = self._tenant.workspaces, self._workspace.files + self._files
        if self._files > 0 and files > limits.files:
            raise TooLarge(f"{files} files in one workspace", remedy=f"at most {limits.files}; use another workspace")
        size = self._workspace.size + self._bytes
        if self._bytes > 0 and size > limits.bytes:
            raise TooLarge(f"{size} bytes in one workspace", remedy=f"at most {limits.bytes}; remove files first")


def _is_no_folder(workspace: str, path: str) -> list[Step]:
    """No file lies where this path needs a folder, and no folder where the file goes."""
    within = equal("workspace_id", workspace)
    parts = path.split("/")
    above = tuple("/".join(parts[:count]) for count in range(1, len(parts)))
    steps: list[Step] = [Absent(WorkspaceFile, (within, *_below(path)))]
    return [*steps, Absent(WorkspaceFile, (within, OneOf("path", above)))] if above else steps


def _below(folder: str) -> tuple[Filter, ...]:
    """Paths inside a folder: '0' is what comes after '/'."""
    return (Compare("path", ">", f"{folder}/"), Compare("path", "<", f"{folder}0"))


def _changed_bucket(tenant: Tenant, workspace: str, bucket: str) -> ChangedBucket:
    id = hashlib.sha256(f"{workspace}/{bucket}".encode()).hexdigest()[:32]
    changed: ChangedBucket = made(ChangedBucket, tenant, id=id, workspace_id=workspace, bucket=bucket)
    return changed


def _guessed(path: str) -> str:
    return mimetypes.guess_type(path)[0] or "application/octet-stream"


def find_file(tenant: Tenant, workspace: str, path: str) -> WorkspaceFile | None:
    query = Query(WorkspaceFile, (equal("workspace_id", workspace), equal("path", path)), limit=1)
    return next(iter(tenant.find(query).records), None)


def no_file(path: str) -> NotFound:
    return NotFound(f"there is no file '{path[:200]}' in that workspace", remedy="list its files")


class ListFilesRequest(WorkspaceRequest):
    """Which files to list."""

    folder: InnerPath | None = Field(None, description="Only inside this folder")
    limit: int = Field(1000, ge=1, le=10_000, description="How many at most")
    after: QueryText | None = Field(None, description="The `next` of the page before")


class FilePage(PageReply[FileView]):
    """Files, by path."""

    files: list[FileView]


def list_files(tenant: Tenant, request: ListFilesRequest) -> FilePage:
    """The files of a workspace, by path."""
    load(tenant, Workspace, request.id)
    where = (equal("workspace_id", request.id), *(_below(request.folder) if request.folder else ()))
    page = tenant.find(Query(WorkspaceFile, where, (Order("path"),), request.limit, request.after))
    return FilePage(files=[file_view(file) for file in page.records], next=page.next)


class RemoveFileRequest(FileRequest):
    """A file or a folder to remove."""

    folder: bool = Field(False, description="Whether the path is a folder, to be removed with all in it")


class FilesChanged(Reply):
    files: list[str]


def remove(tenant: Tenant, request: RemoveFileRequest) -> FilesChanged:
    """Remove a file or folder. Its content stays for as long as a snapshot has it; `prune` lets go of the rest."""

    def attempt() -> FilesChanged:
        change = Change(tenant, load(tenant, Workspace, request.id))
        files = _meant(tenant, request.id, request.path, request.folder)
        for file in files:
            change.take(file)
        change.commit("remove files", {})
        return FilesChanged(files=[file.path for file in files])

    return retry_unless_pinned(None, attempt)


def _meant(tenant: Tenant, workspace: str, path: str, folder: bool) -> Sequence[WorkspaceFile]:
    named = _below(path) if folder else (equal("path", path),)
    query = Query(WorkspaceFile, (equal("workspace_id", workspace), *named), (Order("path"),))
    files = tenant.find(query).records
    if not files:
        raise no_file(path)
    return files


class MoveFileRequest(FileRequest):
    """A file or folder, and where it goes."""

    to: InnerPath = Field(description="Its path from now on")
    folder: bool = Field(False, description="Whether the path is a folder, to be moved with all in it")


def move(tenant: Tenant, request: MoveFileRequest) -> FilesChanged:
    """Give a file or folder another path; nothing is overwritten."""

    def attempt() -> FilesChanged:
        change = Change(tenant, load(tenant, Workspace, request.id))
        moved = []
        for file in _meant(tenant, request.id, request.path, request.folder):
            moved.append(request.to + file.path.removeprefix(request.path))
            change.move(file, moved[-1])
        taken = Query(WorkspaceFile, (equal("workspace_id", request.id), OneOf("path", tuple(moved))), limit=1)
        if tenant.count(taken):
            raise Conflict(
                f"there is a file at '{request.to}' already", remedy="remove it first, or choose another path"
            )
        change.commit("move files", {})
        return FilesChanged(files=moved)

    return retry_unless_pinned(None, attempt)


def file_view(file: WorkspaceFile) -> FileView:
    return FileView(
        path=file.path,
        bytes=file.size,
        hash=file.content_hash,
        media_type=file.media_type,
        version=file.file_version,
        changed_at=file.updated_at,
    )


def _view(tenant: Tenant, workspace: Workspace) -> WorkspaceView:
    return WorkspaceView(
        id=workspace.id,
        agent=workspace.agent_id,
        name=workspace.name,
        metadata=workspace.metadata,
        files=workspace.files,
        bytes=workspace.size,
        snapshots=tenant.count(Query(Snapshot, (equal("workspace_id", workspace.id),))),
        created_at=workspace.created_at,
    )
