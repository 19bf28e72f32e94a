"""The artifacts of a result: which of them name a file of a workspace, and whether it is there as described.

An artifact is anything that JSON can say. It names a file when it is an object with a `path` (and perhaps `workspace`,
`version` and `hash`), an object with the `hash` of a stored file alone, a text such as `workspace:ID/notes.md`, or a
text that looks like a path while the agent has a workspace. Addresses and ids of other systems are not looked at.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from recollect.domain.provenance import WORKSPACE
from recollect.domain.record import JsonArray
from recollect.domain.workspaces import BLOB_HASH, Blob, Workspace, WorkspaceFile
from recollect.ports.query import OneOf, Query, equal
from recollect.services.tenant import Tenant

AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class FilePointer:
    """A file of a workspace as an artifact names it; without a workspace, one of the agent's."""

    path: str | None
    workspace: str | None = None
    version: object = None
    hash: str | None = None

    def is_of(self, file: WorkspaceFile, own: Container[str]) -> bool:
        return (
            (file.workspace_id in own if self.workspace is None else file.workspace_id == self.workspace)
            and self.version in (None, file.file_version)
            and self.hash in (None, file.content_hash, file.content_hash.removeprefix(BLOB_HASH))
        )


def pointer_of(artifact: object, *, has_workspace: bool) -> FilePointer | None:
    """The file that an artifact names; None if it names something else, or nothing that can be looked up."""
    if isinstance(artifact, str):
        named, slash, inner = artifact.removeprefix(WORKSPACE).partition("/")
        if artifact.startswith(WORKSPACE) and named and slash:
            return FilePointer(inner, named)
        looks_like_path = "://" not in artifact and ("/" in artifact or "." in artifact.strip("."))
        return FilePointer(artifact) if looks_like_path and has_workspace else None
    if not isinstance(artifact, dict):
        return None
    path, workspace = artifact.get("path"), artifact.get("workspace")
    given = artifact.get("hash", artifact.get("content_hash"))
    hash = None if given is None else str(given)
    if isinstance(path, str) and (has_workspace or isinstance(workspace, str)):
        return FilePointer(path, workspace if isinstance(workspace, str) else None, artifact.get("version"), hash)
    return FilePointer(None, hash=hash) if path is None and hash and hash.startswith(BLOB_HASH) else None


def missing_artifacts(tenant: Tenant, agent: str, artifacts: Sequence[object]) -> JsonArray:
    """Those that name a file which no workspace has, or not with that version or hash."""
    if not artifacts:
        return []
    own = [id for (id,) in tenant.select(Query(Workspace, (equal("agent_id", agent),)), ("id",))]
    missing: JsonArray = []
    for start in range(0, len(artifacts), AT_ONCE):
        page = artifacts[start : start + AT_ONCE]
        named = [(one, pointer) for one in page if (pointer := pointer_of(one, has_workspace=bool(own)))]
        pointers = [pointer for _, pointer in named]
        files, hashes = _files(tenant, own, pointers), _stored_hashes(tenant, pointers)
        for artifact, pointer in named:
            found = any(pointer.is_of(file, own) for file in files.get(pointer.path or "", ()))
            is_there = found if pointer.path is not None else pointer.hash in hashes
            missing += [] if is_there else [artifact]
    return missing


def _files(tenant: Tenant, own: Sequence[str], pointers: Sequence[FilePointer]) -> dict[str, list[WorkspaceFile]]:
    """By path, those in the agent's workspaces and in the ones that are named."""
    paths = {pointer.path for pointer in pointers if pointer.path is not None}
    places = {*own, *(pointer.workspace for pointer in pointers if pointer.workspace is not None)}
    where = (OneOf("workspace_id", tuple(places)), OneOf("path", tuple(paths)))
    found: dict[str, list[WorkspaceFile]] = {}
    for file in tenant.find(Query(WorkspaceFile, where)).records if paths and places else ():
        found.setdefault(file.path, []).append(file)
    return found


def _stored_hashes(tenant: Tenant, pointers: Sequence[FilePointer]) -> set[str | None]:
    """The hashes, given without a path, that stored content has."""
    given = {pointer.hash for pointer in pointers if pointer.path is None}
    where = (OneOf("id", tuple(given)), equal("complete", True))
    return {id for (id,) in tenant.select(Query(Blob, where), ("id",))} if given else set()
