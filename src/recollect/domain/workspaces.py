"""An agent's sandboxed files, addressed by content, and snapshots of the whole."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from recollect.domain.record import Id, Json, Name, Record, Reference, Shape, Text, Unique


def _stays_inside(path: str) -> str:
    parts = path.split("/")
    if not path or path.startswith("/") or "\\" in path or any(part in ("", ".", "..") for part in parts):
        raise ValueError("must be a relative path inside the workspace, with '/' between its parts")
    return path


InnerPath = Annotated[Text, AfterValidator(_stays_inside)]


class Workspace(Record):
    shape: ClassVar[Shape] = Shape(
        "workspace",
        references={"organization_id": Reference("organization"), "agent_id": Reference("agent")},
        indexes=(("agent_id",),),
    )

    agent_id: Id
    name: Name = "workspace"
    metadata: Json = Field(default_factory=dict)


class WorkspaceFile(Record):
    shape: ClassVar[Shape] = Shape(
        "workspace_file",
        references={"organization_id": Reference("organization"), "workspace_id": Reference("workspace")},
        unique=(Unique(("workspace_id", "path")),),
        indexes=(("content_hash",),),
    )

    workspace_id: Id
    path: InnerPath
    content_hash: Text
    size: int = Field(ge=0)
    media_type: Text = "application/octet-stream"
    file_version: int = Field(default=1, ge=1)
    metadata: Json = Field(default_factory=dict)


class Snapshot(Record):
    """The whole workspace at one moment: a manifest of path to content hash."""

    shape: ClassVar[Shape] = Shape(
        "snapshot",
        references={
            "organization_id": Reference("organization"),
            "workspace_id": Reference("workspace"),
            "cycle_id": Reference("cycle", on_delete="clear"),
        },
        indexes=(("workspace_id", "id"), ("cycle_id",)),
    )

    workspace_id: Id
    cycle_id: Id | None = None
    label: Text = ""
    manifest_hash: Text
    manifest: Json = Field(default_factory=dict)
    size: int = Field(default=0, ge=0)
