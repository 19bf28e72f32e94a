"""An agent's sandboxed files, addressed by content, and snapshots of the whole.

Content is kept once per tenant: a blob is named by the hash of its bytes and cut into chunks that fit into every store.
A snapshot is the root of a hash tree over the paths (see domain/hash_tree.py); its nodes are named by their hash too,
so what did not change is shared with the snapshot before. `doomed` is set by whoever is about to delete a blob or node,
and cleared by whoever begins to use it again.
"""

from __future__ import annotations

import hashlib
import unicodedata
from mmap import mmap
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field, StringConstraints

from recollect.domain.record import Id, Json, JsonList, Name, Record, Reference, Shape, Text, Unique

BLOB_HASH = "b1:"
CHUNK_BYTES = 200_000  # the smallest of the stores takes 400 kB a record
LONGEST_PATH_BYTES = 1024
LONGEST_PART_BYTES = 255

# Names that mean a device on Windows, whatever follows their first dot.
_DEVICES = frozenset({"con", "prn", "aux", "nul", *(f"{name}{n}" for name in ("com", "lpt") for n in "0123456789¹²³")})


def stays_inside(path: str) -> str:
    """A path that means the same file inside the workspace on every system, or ValueError.

    Read twice, as it is and in compatibility form, since some file systems take a wide slash or dot for the plain one.
    """
    if len(path.encode("utf-8", "surrogatepass")) > LONGEST_PATH_BYTES:
        raise ValueError(f"must not be longer than {LONGEST_PATH_BYTES} bytes")
    for form in (path, unicodedata.normalize("NFKC", path)):
        _check_form(form)
    return path


def _check_form(path: str) -> None:
    parts = path.split("/")
    if not path or path.startswith("/") or "\\" in path or any(part in ("", ".", "..") for part in parts):
        raise ValueError("must be a relative path inside the workspace, with '/' between its parts")
    if any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in path):
        raise ValueError("must not contain control characters")
    for part in parts:
        if ":" in part or part[-1] in ". " or part.partition(".")[0].rstrip().casefold() in _DEVICES:
            raise ValueError(
                "must not have a part that means something else on Windows (a colon, an end in '.', NUL, …)"
            )
        if len(part.encode("utf-8", "surrogatepass")) > LONGEST_PART_BYTES:
            raise ValueError(f"must not have a part longer than {LONGEST_PART_BYTES} bytes")


InnerPath = Annotated[Text, StringConstraints(max_length=LONGEST_PATH_BYTES), AfterValidator(stays_inside)]

_TENANT = Reference("organization")


class Workspace(Record):
    """`generation` counts the changes of its files; `root` is the tree as of the last snapshot, see `ChangedBucket`."""

    shape: ClassVar[Shape] = Shape(
        "workspace",
        references={"organization_id": _TENANT, "agent_id": Reference("agent")},
        indexes=(("agent_id",),),
    )

    agent_id: Id
    name: Name = "workspace"
    metadata: Json = Field(default_factory=dict)
    files: int = 0
    size: int = 0
    generation: int = 0
    root: Text | None = None


class WorkspaceFile(Record):
    shape: ClassVar[Shape] = Shape(
        "workspace_file",
        references={"organization_id": _TENANT, "workspace_id": Reference("workspace")},
        unique=(Unique(("workspace_id", "path")),),
        indexes=(("content_hash",), ("workspace_id", "bucket")),
    )

    workspace_id: Id
    path: InnerPath
    content_hash: Text
    size: int = Field(ge=0)
    media_type: Text = "application/octet-stream"
    file_version: int = Field(default=1, ge=1)
    metadata: Json = Field(default_factory=dict)
    bucket: Text = ""


class ChangedBucket(Record):
    """Files of this bucket changed since the tree at the workspace's root was made."""

    shape: ClassVar[Shape] = Shape(
        "changed_bucket",
        references={"organization_id": _TENANT, "workspace_id": Reference("workspace")},
        indexes=(("workspace_id", "bucket"),),
    )

    workspace_id: Id
    bucket: Text


class Blob(Record):
    """The bytes of one or more files; its id is their hash."""

    shape: ClassVar[Shape] = Shape("blob", references={"organization_id": _TENANT})

    size: int = Field(ge=0)
    complete: bool = True
    doomed: Text | None = None


class BlobChunk(Record):
    shape: ClassVar[Shape] = Shape(
        "blob_chunk",
        references={"organization_id": _TENANT, "blob_id": Reference("blob")},
        unique=(Unique(("blob_id", "index")),),
        encrypted=frozenset({"data"}),
    )

    blob_id: Id
    index: int = Field(ge=0)
    data: bytes


class TreeNode(Record):
    """A node of a snapshot's tree; its id is the hash of its entries."""

    shape: ClassVar[Shape] = Shape("tree_node", references={"organization_id": _TENANT})

    entries: JsonList
    doomed: Text | None = None


class Snapshot(Record):
    """The whole workspace at one moment; `manifest_hash` is the root of its tree, empty when there were no files."""

    shape: ClassVar[Shape] = Shape(
        "snapshot",
        references={
            "organization_id": _TENANT,
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


Content = bytes | mmap
"""What a file holds: in memory, or in a file that is mapped into it and need not fit."""


def blob_hash(data: Content) -> str:
    return BLOB_HASH + hashlib.sha256(data).hexdigest()
